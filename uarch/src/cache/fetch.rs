//! Reads of code.

use super::array::{Displaced, Line};
use super::geometry::{CodeAndData, Inclusion};
use super::second_level::{Filling, Purpose, Source};
use super::state::LineState;
use super::uncached::parts;
use super::{Caches, Context, Fetch, MemoryType};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

/// A page, across which the next line is not fetched: what is behind it is not known.
const PAGE: u64 = 4096;

impl Caches {
    /// The running processor reads so many bytes of code from `physical` on, which go on or begin there, if all of
    /// their lines are in the instruction cache: whether they are. If not, nothing has happened. Their memory may be
    /// cached.
    #[inline(always)]
    pub fn fetch_hits(
        &mut self,
        occurrences: &mut Occurrences,
        physical: u64,
        bytes: u64,
        sequential: bool,
    ) -> bool {
        let own = self.processors.running_mut();
        let end = physical + bytes - 1;
        let (first, last) = (physical >> self.shift, end >> self.shift);
        let (begin, end) = (physical >> self.window_shift, end >> self.window_shift);
        let in_window = physical & u64::from(self.geometry.fetch_window - 1) != 0;
        if sequential && in_window && (own.window != begin || own.fetched != first) {
            // The window was read, and is to be read again by the instruction alone that goes beyond it.
            return false;
        }
        if (first != own.fetched || first != last)
            && !own.fetches_recent(first, last)
            && !own.find_to_fetch(first, last)
        {
            return false;
        }
        let continued = sequential && own.window == begin;
        own.window = end;
        occurrences.fire(Signal::L1iFetch, end - begin + u64::from(!continued));
        true
    }

    /// Of the windows that [`Self::fetch_hits`] has read last, the last so many were not read.
    #[cold]
    pub(crate) fn unfetch(&mut self, occurrences: &mut Occurrences, windows: u64) {
        let to_line = self.shift - self.window_shift;
        let own = self.processors.running_mut();
        let last = own.window;
        own.window = last.wrapping_sub(windows);
        own.unfetch(own.window >> to_line, last >> to_line);
        occurrences.take_back(Signal::L1iFetch, windows);
    }

    /// Reads the windows of a fetch that goes beyond the one read last. Cycles.
    #[inline(never)]
    pub(super) fn fetch_windows(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        fetch: &Fetch,
    ) -> u64 {
        if !fetch.memory.is_cacheable() {
            return self.fetch_uncached(context, processor, fetch);
        }
        let mut latency = 0;
        for (physical, _) in parts(fetch.physical, fetch.bytes, self.geometry.fetch_window) {
            let window = physical >> self.window_shift;
            let line = physical >> self.shift;
            let own = &mut self.processors[processor];
            if fetch.sequential && own.window == window && own.fetched == line {
                continue;
            }
            own.window = window;
            context.processors[processor].occurrences.fire(Signal::L1iFetch, 1);
            if own.fetched == line {
                continue;
            }
            if own.code.find_and_touch(line).is_none() {
                context.processors[processor].occurrences.fire(Signal::L1iMiss, 1);
                latency += self.miss_code(context, processor, line, fetch.memory);
                self.fetch_next_line(context, processor, line, fetch.memory);
            }
            self.processors[processor].fetched = line;
        }
        latency
    }

    /// Reads code that may not be cached. Each read is one of the instruction cache that misses (Intel SDM
    /// volume 3, the events CODE_READ and IFU_IFETCH).
    fn fetch_uncached(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        fetch: &Fetch,
    ) -> u64 {
        let mut latency = 0;
        let unit = self.geometry.uncached_fetch;
        for (physical, _) in parts(fetch.physical, fetch.bytes, unit) {
            let physical = physical & !u64::from(unit - 1);
            let occurrences = &mut context.processors[processor].occurrences;
            occurrences.fire(Signal::L1iFetch, 1);
            occurrences.fire(Signal::L1iMiss, 1);
            latency += self.read_part(context, processor, fetch.memory, physical, unit, false);
        }
        latency
    }

    /// Brings a line into the instruction cache. Cycles.
    fn miss_code(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        memory: MemoryType,
    ) -> u64 {
        self.give_up_data(context, processor, line);
        let mut granted = self.acquire(context, processor, line, Purpose::Code, memory);
        if self.geometry.code_and_data == CodeAndData::BothCaches {
            // Intel SDM volume 3, "Cache Control Protocol": the instruction cache has only S and I.
            granted.state = LineState::Shared;
        }
        let refill = match granted.source {
            Source::SecondLevel => Signal::L1iRefillL2,
            Source::System | Source::Nowhere => Signal::L1iRefillSystem,
        };
        context.processors[processor].occurrences.fire(refill, 1);
        let line = Line { number: line, state: granted.state, marked: false };
        let displaced = self.processors[processor].code.fill(line);
        if let Displaced::Line(victim) = displaced
            && self.inclusion() == Some(Inclusion::Exclusive)
        {
            let filling = Filling::CodeVictim;
            self.fill_second_level(context, processor, victim.number, victim.state, filling);
        }
        granted.latency
    }

    /// The data cache gives up a line that the instruction cache is to get, or the right to write it.
    fn give_up_data(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        let own = &mut self.processors[processor];
        let Some(slot) = own.data.find(line) else { return };
        let held = own.data.line(slot);
        own.forget_line(line);
        match self.geometry.code_and_data {
            CodeAndData::BothCaches => {
                own.data.set_state(slot, LineState::Shared);
                if held.state.is_dirty() {
                    self.write_back_from_data(context, processor, held);
                }
            }
            CodeAndData::OneCache => {
                own.drop_data(line, slot);
                context.processors[processor].occurrences.fire(Signal::L1iInvalidatesL1d, 1);
                if held.state.is_dirty() {
                    self.write_back_from_data(context, processor, held);
                } else {
                    let filling = Filling::DataVictim;
                    self.fill_second_level(context, processor, line, held.state, filling);
                }
            }
        }
    }

    /// Brings in the line behind one that missed, where the part does that.
    fn fetch_next_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        memory: MemoryType,
    ) {
        let next = line + 1;
        let same_page = (next << self.shift) & (PAGE - 1) != 0;
        let own = &self.processors[processor];
        let here = own.code.find(next).is_some() || own.data.find(next).is_some();
        if self.geometry.next_line_fetch && same_page && !here {
            self.miss_code(context, processor, next, memory);
        }
    }
}
