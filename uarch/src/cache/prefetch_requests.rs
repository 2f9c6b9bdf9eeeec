//! Prefetch instructions that are requests of their own kind: those of Knights Corner.
//!
//! Intel 327357, Table 1-6: events 11h, 1Ch, 1Eh, 37h and 38h are of the first level, FCh to FEh of the second.
//! What drops a request, by that table:
//!
//! * The core, "if the address matches another request, or for a UC type" (1Eh, 37h). The requests of a core are
//!   those of its prefetch instructions for lines that are on their way into either cache.
//! * The second level, for reasons that it does not name (FDh): here, because the hardware prefetcher, of whose
//!   requests the core does not know, has asked for the line; or because as many lines are on their way as can
//!   be.
//!
//! That the data cache has as many lines on their way as it can have is not among the reasons of 1Eh. There the
//! request waits until one of them has come, and keeps nobody waiting but itself and who accesses its line;
//! the bus is asked at once. So a program that prefetches further ahead than lines can come gets them one by one
//! all the same, as fast as there are places.

use super::fills::Asker;
use super::second_level::{Filling, Purpose};
use super::{Caches, Context, Hint, MemoryType};
use pmu_model::Signal;

impl Caches {
    /// A prefetch instruction. Cycles until the line is there, if the request brings it.
    pub(super) fn request_prefetch(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        hint: Hint,
        memory: MemoryType,
    ) -> u64 {
        // What is code here may not be written, and is left as it is.
        let is_code = self.processors[processor].code.find(line).is_some();
        let to_write = hint.is_to_write() && memory == MemoryType::WriteBack && !is_code;
        let purpose = Purpose::Prefetch { owns: to_write };
        let occurrences = &mut context.processors[processor].occurrences;
        if hint.is_outer() {
            occurrences.fire(Signal::PrefetchL2SeenByL1, 1);
            if !memory.is_cacheable() || self.is_requested(context, processor, line) {
                return 0;
            }
            context.processors[processor].occurrences.fire(Signal::PrefetchL2, 1);
            return self.prefetch_outer(context, processor, line, purpose, memory);
        }
        occurrences.fire(Signal::PrefetchL1, 1);
        if !memory.is_cacheable() || self.is_requested(context, processor, line) {
            context.processors[processor].occurrences.fire(Signal::PrefetchL1Dropped, 1);
            return 0;
        }
        let own = &mut self.processors[processor];
        own.forget_data();
        if own.data.find_and_touch(line).is_some() {
            return 0;
        }
        let wait = own.data_fills.wait_for_place(context.time);
        context.processors[processor].occurrences.fire(Signal::PrefetchL1Miss, 1);
        if self.second_level_lacks(context, processor, line) {
            context.processors[processor].occurrences.fire(Signal::PrefetchL1L2Miss, 1);
        }
        let cycles = wait + self.miss(context, processor, line, purpose, memory, false);
        let fills = &mut self.processors[processor].data_fills;
        fills.ask(line, Asker::Instruction, cycles);
        cycles
    }

    /// Whether a prefetch instruction has asked for a line that is on its way.
    fn is_requested(&self, context: &Context<'_>, processor: usize, line: u64) -> bool {
        let own = &self.processors[processor];
        [&own.data_fills, &own.second_level_fills].into_iter().any(|fills| {
            let rest = fills.rest(context.time, line);
            rest.is_some_and(|rest| rest.asker == Asker::Instruction)
        })
    }

    /// Brings a line into the second level. Cycles; none if it drops the request.
    fn prefetch_outer(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
    ) -> u64 {
        if self.second_level_lacks(context, processor, line) {
            let fills = &mut self.processors[processor].second_level_fills;
            if fills.rest(context.time, line).is_some() || fills.is_full(context.time) {
                context.processors[processor].occurrences.fire(Signal::PrefetchL2Dropped, 1);
                return 0;
            }
            context.processors[processor].occurrences.fire(Signal::PrefetchL2Miss, 1);
        }
        let Some(found) = self.ask_second_level(context, processor, line, purpose) else {
            let (state, latency) = self.read_missed(context, processor, line, purpose, memory);
            self.fill_second_level(context, processor, line, state, Filling::Demand);
            let fills = &mut self.processors[processor].second_level_fills;
            fills.ask(line, Asker::Instruction, latency);
            return latency;
        };
        if purpose.owns() { self.claim_in_second_level(context, processor, found.slot) } else { 0 }
    }

    /// Whether a line is not in the second level, or on its way there.
    fn second_level_lacks(&self, context: &Context<'_>, processor: usize, line: u64) -> bool {
        let own = &self.processors[processor];
        let is_there = own.second_level.as_ref().is_some_and(|second| second.find(line).is_some());
        !is_there || own.second_level_fills.rest(context.time, line).is_some()
    }
}
