//! The data bus between a processor and its second-level cache.

use super::{Caches, Context};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

/// Which way a line goes on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// To a first-level cache.
    Up,
    /// To the second level, or from it to memory.
    Down,
}

/// When the bus of one processor is in use, and when a fill has waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The first cycle from which on it is free.
    free: u64,
    /// The first cycle from which on no fill is known to wait.
    waited: u64,
}

impl Usage {
    /// A fill asks for the bus at `time`. The cycles that it waits and no fill before it has waited.
    fn wait(&mut self, time: u64) -> u64 {
        let begin = time.max(self.waited);
        self.waited = self.waited.max(self.free);
        self.free.saturating_sub(begin)
    }

    /// A transfer is asked for at `time`, and begins when those before it are over.
    fn transfer(&mut self, time: u64, cycles: u64) {
        self.free = self.free.max(time) + cycles;
    }

    /// A line goes over the bus in so many cycles, as [`Caches::transfer`] has it.
    #[inline(always)]
    pub(super) fn carry(
        &mut self,
        occurrences: &mut Occurrences,
        time: u64,
        cycles: u64,
        to: Transfer,
    ) {
        fire_busy(occurrences, cycles, to);
        self.use_for(occurrences, time, cycles, to);
    }

    /// The same, but for what it fires each time.
    #[inline(always)]
    pub(super) fn use_for(
        &mut self,
        occurrences: &mut Occurrences,
        time: u64,
        cycles: u64,
        to: Transfer,
    ) {
        if to == Transfer::Up {
            let waited = self.wait(time);
            if waited != 0 {
                occurrences.fire(Signal::StallL2FillWait, waited);
            }
        }
        self.transfer(time, cycles);
    }
}

/// What a line that goes over the bus in so many cycles fires each time.
#[inline(always)]
pub(super) fn fire_busy(occurrences: &mut Occurrences, cycles: u64, to: Transfer) {
    match to {
        Transfer::Up => {
            occurrences.fire_all([(Signal::L2BusBusy, cycles), (Signal::L2BusBusyRead, cycles)]);
        }
        Transfer::Down => occurrences.fire(Signal::L2BusBusy, cycles),
    }
}

impl Caches {
    /// A line goes over the bus of the second level, when the running operation began or when the bus is
    /// free. That a fill waits is counted; what it takes longer for that is in the latency of the second
    /// level, which is one for all.
    pub(super) fn transfer(&mut self, context: &mut Context<'_>, processor: usize, to: Transfer) {
        if self.geometry.second_level.is_none() {
            return;
        }
        let occurrences = &mut context.processors[processor].occurrences;
        let usage = &mut self.processors[processor].second_level_bus;
        usage.carry(occurrences, context.time, self.transfer_cycles, to);
    }
}

crate::state! { Usage { cycles: free, waited; } }

#[cfg(test)]
mod tests {
    use super::Usage;
    use std::collections::BTreeSet;

    /// Cycles one by one: those in which the bus is in use, and those in which a fill waits.
    #[derive(Default)]
    struct Oracle {
        used: BTreeSet<u64>,
        waited: BTreeSet<u64>,
    }

    impl Oracle {
        fn transfer(&mut self, time: u64, cycles: u64, fill: bool) {
            // Transfers begin in the order in which they are asked for.
            let begin = self.used.last().map_or(time, |last| time.max(last + 1));
            if fill {
                self.waited.extend(time..begin);
            }
            self.used.extend(begin..begin + cycles);
        }
    }

    #[test]
    fn a_cycle_in_which_several_fills_wait_counts_once() {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for spread in [3, 10, 30] {
            let (mut usage, mut oracle) = (Usage::default(), Oracle::default());
            let (mut time, mut waited) = (0, 0);
            for _ in 0..2_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                time += random % spread;
                let (cycles, fill) = (1 + (random >> 20) % 8, random >> 40 & 1 == 0);
                if fill {
                    waited += usage.wait(time);
                }
                usage.transfer(time, cycles);
                oracle.transfer(time, cycles, fill);
                assert_eq!(waited, oracle.waited.len() as u64, "at {time}");
            }
        }
    }
}
