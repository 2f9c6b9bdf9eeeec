//! Prefetches: of instructions, and of the hardware.

use super::coherence::Incoming;
use super::fills::Asker;
use super::geometry::{PrefetchInto, PrefetcherGeometry, Prefetches};
use super::second_level::{Filling, Purpose};
use super::state::LineState;
use super::stream::Direction;
use super::{Caches, Context, Hint, MemoryType};
use pmu_model::Signal;

/// A page, which the hardware prefetcher does not leave.
const PAGE: u64 = 4096;

impl Caches {
    /// A prefetch instruction. Cycles until the line is there, for which nobody waits.
    #[inline]
    pub fn prefetch(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        physical: u64,
        hint: Hint,
        memory: MemoryType,
    ) -> u64 {
        let line = physical >> self.shift;
        match self.geometry.prefetches {
            Prefetches::Accesses => self.prefetch_line(context, processor, line, hint, memory),
            Prefetches::Requests => self.request_prefetch(context, processor, line, hint, memory),
        }
    }

    /// A prefetch instruction that is an access. Cycles.
    fn prefetch_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        hint: Hint,
        memory: MemoryType,
    ) -> u64 {
        let occurrences = &mut context.processors[processor].occurrences;
        match hint {
            Hint::T1 => occurrences.fire(Signal::SoftPrefetchT1, 1),
            Hint::T2 => occurrences.fire(Signal::SoftPrefetchT2, 1),
            _ => {}
        }
        if !memory.is_cacheable() {
            return 0;
        }
        if !self.holds(processor, line) {
            match hint {
                Hint::T1 => occurrences.fire(Signal::SoftPrefetchT1Miss, 1),
                Hint::T2 => occurrences.fire(Signal::SoftPrefetchT2Miss, 1),
                Hint::NonTemporal => occurrences.fire(Signal::SoftPrefetchNtaMiss, 1),
                Hint::T0 | Hint::Write => {}
                Hint::WriteT1 | Hint::WriteT2 | Hint::WriteNonTemporal => {}
            }
        }
        // AMD BKDG, event 4Bh: what it does in the caches counts as what an access does there.
        occurrences.fire(Signal::L1dAccess, 1);
        let own = &mut self.processors[processor];
        own.forget_data();
        let purpose = match hint {
            hint if hint.is_to_write() && memory == MemoryType::WriteBack => Purpose::Store,
            _ => Purpose::Load,
        };
        if own.data.find_and_touch(line).is_some() {
            return 0;
        }
        occurrences.fire(Signal::L1dMiss, 1);
        let outer = hint.is_outer();
        if outer && self.geometry.outer_prefetch == PrefetchInto::SecondLevel {
            return self.ask_or_fill_second_level(context, processor, line, purpose, memory);
        }
        let once = hint == Hint::NonTemporal;
        self.miss(context, processor, line, purpose, memory, once)
    }

    /// Tells the hardware prefetcher of a miss of the data cache, and lets it fetch.
    #[inline(always)]
    pub(super) fn train(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        write: bool,
    ) {
        let Some(prefetcher) = self.geometry.prefetcher else { return };
        if let Some(direction) = self.processors[processor].streams.miss(line) {
            self.prefetch_beside(context, processor, prefetcher, line, direction, write);
        }
    }

    /// The hardware prefetcher fetches the neighbour of a line.
    #[inline(never)]
    fn prefetch_beside(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        prefetcher: PrefetcherGeometry,
        line: u64,
        direction: Direction,
        write: bool,
    ) {
        let lines_per_page = PAGE >> self.shift;
        let (target, signal) = match direction {
            Direction::Up => (line.wrapping_add(1), Signal::HwPrefetchUp),
            Direction::Down => (line.wrapping_sub(1), Signal::HwPrefetchDown),
        };
        if target / lines_per_page != line / lines_per_page {
            return;
        }
        let occurrences = &mut context.processors[processor].occurrences;
        occurrences.fire(signal, 1);
        occurrences.fire(Signal::HwPrefetchAttempt, 1);
        if self.holds(processor, target) {
            occurrences.fire(Signal::HwPrefetchCancelled, 1);
            occurrences.fire(Signal::HwPrefetchL2Hit, 1);
            return;
        }
        let fills = &mut self.processors[processor].second_level_fills;
        if fills.is_full(context.time) {
            occurrences.fire(Signal::HwPrefetchCancelled, 1);
            return;
        }
        occurrences.fire(Signal::HwPrefetchL2Miss, 1);
        occurrences.fire(Signal::L2TagRead, 1);
        super::signals::L2_REQUEST.fire(occurrences, LineState::Invalid);
        occurrences.fire(Signal::L2LoadPrefetchedInvalid, 1);
        let purpose =
            if write && prefetcher.for_ownership { Purpose::Store } else { Purpose::Load };
        let memory = MemoryType::WriteBack;
        let Incoming { state, latency, .. } =
            self.read_system(context, processor, target, purpose.want(), memory);
        self.fill_second_level(context, processor, target, state, Filling::Prefetch);
        let fills = &mut self.processors[processor].second_level_fills;
        fills.ask(target, Asker::Hardware, latency);
    }
}
