//! Prefetch instructions that are requests of their own kind: those of Knights Corner.
//!
//! Intel 327357, Table 1-6: events 11h, 1Ch, 1Eh, 37h and 38h are of the first level, FCh and FEh of the
//! second. A request is over before anything else happens here, so that none finds one on its way.

use super::second_level::{Filling, Purpose};
use super::{Caches, Context, Hint, MemoryType};
use pmu_model::Signal;

impl Caches {
    /// A prefetch instruction. Cycles until the line is there, for which nobody waits.
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
        let occurrences = &mut context.occurrences[processor];
        if hint.is_outer() {
            occurrences.fire(Signal::PrefetchL2SeenByL1, 1);
            // "A vprefetch1 may be dropped by the core": that it is for memory that may not be cached.
            if !memory.is_cacheable() {
                return 0;
            }
            occurrences.fire(Signal::PrefetchL2, 1);
            return self.prefetch_outer(context, processor, line, purpose, memory);
        }
        occurrences.fire(Signal::PrefetchL1, 1);
        if !memory.is_cacheable() {
            occurrences.fire(Signal::PrefetchL1Dropped, 1);
            return 0;
        }
        let own = &mut self.processors[processor];
        own.forget_data();
        if own.data.find_and_touch(line).is_some() {
            return 0;
        }
        occurrences.fire(Signal::PrefetchL1Miss, 1);
        if self.second_level_lacks(processor, line) {
            occurrences.fire(Signal::PrefetchL1L2Miss, 1);
        }
        self.miss(context, processor, line, purpose, memory, false)
    }

    /// Brings a line into the second level. Cycles.
    fn prefetch_outer(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
    ) -> u64 {
        if self.second_level_lacks(processor, line) {
            context.occurrences[processor].fire(Signal::PrefetchL2Miss, 1);
        }
        let Some(slot) = self.ask_second_level(context, processor, line, purpose) else {
            let (state, latency) = self.read_missed(context, processor, line, purpose, memory);
            self.fill_second_level(context, processor, line, state, Filling::Demand);
            return latency;
        };
        if purpose.owns() { self.claim_in_second_level(context, processor, slot) } else { 0 }
    }

    /// Whether a line is not in the second level.
    fn second_level_lacks(&self, processor: usize, line: u64) -> bool {
        let second = self.processors[processor].second_level.as_ref();
        second.is_none_or(|second| second.find(line).is_none())
    }
}
