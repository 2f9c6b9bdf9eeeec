//! Lines that prefetches have asked for and that are on their way into a cache.
//!
//! The array of the cache has such a line from the request on, so that what it displaces, and what other
//! processors find, is as if it were there; only who accesses its data waits. A line that leaves the cache
//! meanwhile is not waited for any more.

use super::{Caches, Context};
use crate::state::{Cycles, State, Visitor, list};
use pmu_model::Signal;

/// Who has asked for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A prefetch instruction.
    Instruction,
    /// The hardware prefetcher.
    Hardware,
}

/// A line on its way.
#[derive(Clone, Copy, Debug)]
struct Fill {
    line: u64,
    /// The cycle from which on it is there.
    ready: u64,
    asker: Asker,
    /// The processor whose access waits for it, and the cycle in which it came: an instruction that accesses
    /// the line several times waits once.
    waits: Option<(usize, u64)>,
}

/// The lines on their way into a cache.
///
/// The threads of a core take turns, so that one's cycles may be earlier than another's before it. For what is
/// on its way, time does not go back behind the last request for a line.
#[derive(Clone, Debug)]
pub(super) struct Fills {
    /// How many may be; with none, a line is there when it is asked for.
    places: usize,
    /// Those that had not come at the last request.
    fills: Vec<Fill>,
    /// The cycle of that request.
    now: u64,
}

/// What an access finds of a line on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// Cycles until the line is there.
    pub(super) cycles: u64,
    /// Who has asked for it.
    pub(super) asker: Asker,
}

impl Fills {
    pub(super) fn new(places: usize) -> Self {
        Self { places, fills: Vec::new(), now: 0 }
    }

    /// Whether a line is on its way, or was at the last request.
    #[inline(always)]
    pub(super) fn may_have(&self, line: u64) -> bool {
        !self.fills.is_empty() && self.place_of(line).is_some()
    }

    #[inline(never)]
    fn place_of(&self, line: u64) -> Option<usize> {
        self.fills.iter().position(|fill| fill.line == line)
    }

    /// What is left at `time` of a line's way, if it is on one.
    pub(super) fn rest(&self, time: u64, line: u64) -> Option<Rest> {
        let Fill { ready, asker, .. } = self.fills[self.place_of(line)?];
        let cycles = ready.saturating_sub(time.max(self.now));
        (cycles != 0).then_some(Rest { cycles, asker })
    }

    /// The same for an access of a processor, which waits for the line: what it does at the same time
    /// again is of the instruction that has waited.
    fn wait_for(&mut self, time: u64, line: u64, processor: usize) -> Option<Rest> {
        let rest = self.rest(time, line)?;
        let place = self.place_of(line)?;
        let waits = Some((processor, time));
        (self.fills[place].waits.replace((processor, time)) != waits).then_some(rest)
    }

    /// A line is to be asked for at `time`. Whether as many are on their way as may be.
    pub(super) fn is_full(&mut self, time: u64) -> bool {
        if self.places == 0 {
            return false;
        }
        self.now = self.now.max(time);
        self.fills.retain(|fill| fill.ready > self.now);
        self.fills.len() >= self.places
    }

    /// The same: cycles from then on until another may be on its way.
    pub(super) fn wait_for_place(&mut self, time: u64) -> u64 {
        if !self.is_full(time) {
            return 0;
        }
        // Of those that are asked for, some may wait themselves: they come first.
        let mut ready: Vec<u64> = self.fills.iter().map(|fill| fill.ready).collect();
        ready.sort_unstable();
        ready[ready.len() - self.places] - self.now
    }

    /// The line is asked for, and there so many cycles later.
    pub(super) fn ask(&mut self, line: u64, asker: Asker, cycles: u64) {
        if self.places != 0 && cycles != 0 {
            self.fills.push(Fill { line, ready: self.now + cycles, asker, waits: None });
        }
    }

    /// A line has left the cache.
    #[inline(always)]
    pub(super) fn forget(&mut self, line: u64) {
        if !self.fills.is_empty() {
            self.fills.retain(|fill| fill.line != line);
        }
    }

    /// All have.
    pub(super) fn clear(&mut self) {
        self.fills.clear();
    }
}

impl Caches {
    /// An access finds its line in the data cache. If it is on its way there: the cycles until it has come.
    ///
    /// Such an access is counted on its own, and is no miss: "this event does not include misses for
    /// cachelines that were in the process of being prefetched into L1" (Intel VTune Amplifier XE 2017, Events
    /// for Intel Xeon Phi Coprocessor, `DATA_READ_MISS_OR_WRITE_MISS`).
    #[inline]
    pub(super) fn wait_for_data(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
    ) -> Option<u64> {
        let fills = &mut self.processors[processor].data_fills;
        if !fills.may_have(line) {
            return None;
        }
        let rest = fills.wait_for(context.time, line, processor)?;
        context.processors[processor].occurrences.fire(Signal::PrefetchL1HitInflight, 1);
        Some(rest.cycles)
    }
}

crate::state! { Asker: Instruction, Hardware }

crate::state! { Fill { saved: line, asker, waits; cycles: ready; } }

/// More lines than are in any cache.
const MOST_FILLS: usize = 1 << 16;

impl State for Fills {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Fills");
        let Self { places, fills, now } = self;
        let most = if *places == 0 { 0 } else { MOST_FILLS };
        let blank = || Fill { line: 0, ready: 0, asker: Asker::Instruction, waits: None };
        list(visitor, fills, most, blank);
        visitor.cycles(now.cycles());
    }
}
