//! Cycles in which the same occurs, counted together.

use super::{OWN, Pmu, SIBLINGS};
use crate::counts::SignalCounts;
use crate::personality::MAX_COUNTERS;
use crate::pmi::Pmis;
use crate::signal::Signal;
use crate::subscription::{CounterSet, each};

/// What a clock cycle does to the counters in which certain things occur ([`Pmu::alike`]).
#[derive(Debug, Clone, Copy)]
pub struct Alike {
    /// Of which thread of the core: [`OWN`], or the number of a sibling behind that.
    of: usize,
    /// What each counter adds in every such cycle.
    adds: [u64; MAX_COUNTERS],
    /// Those that add anything.
    adding: CounterSet,
    /// Those that compare the cycle, and those of them whose condition it meets.
    comparing: CounterSet,
    holding: CounterSet,
    /// Those that count an edge if the cycle before did not meet it.
    edges: CounterSet,
    /// How often [`Signal::CyclesUnhalted`] occurs.
    ticks: u64,
    cpl: u8,
}

impl Pmu {
    /// What a clock cycle at privilege level `cpl` does in which each signal in demand occurs so often, as
    /// [`Pmu::cycle_by`] has it. It says so until [`Pmu::programmings`] changes or counters are held back.
    pub fn alike(&self, cpl: u8, occurrences: impl FnMut(Signal) -> u64) -> Alike {
        let running = self.running_at(cpl);
        self.alike_of(running, self.subscriptions.per_cycle & running, cpl, occurrences)
    }

    /// The same of the counters in `of` that add what occurs, and of those in `comparing` that compare it.
    fn alike_of(
        &self,
        of: CounterSet,
        comparing: CounterSet,
        cpl: u8,
        mut occurrences: impl FnMut(Signal) -> u64,
    ) -> Alike {
        let (mut adds, mut events) = ([0_u64; MAX_COUNTERS], [0_u64; MAX_COUNTERS]);
        let mut ticks = 0;
        for asked in self.subscriptions.asked() {
            let n = occurrences(asked.signal);
            if asked.signal == Signal::CyclesUnhalted {
                ticks = n;
            }
            for counter in each(asked.adding & of) {
                adds[counter] = adds[counter].saturating_add(n);
            }
            for counter in each(asked.comparing & comparing) {
                events[counter] = events[counter].saturating_add(n);
            }
        }
        let holding = self.holding(&events, comparing);
        let edges = each(holding).filter(|&counter| self.selects[counter].edge);
        let edges = edges.fold(0, |edges, counter| edges | 1 << counter);
        each(holding & !edges).for_each(|counter| adds[counter] = 1);
        let adding = (0..MAX_COUNTERS).filter(|&counter| adds[counter] != 0);
        let adding = adding.fold(0, |adding, counter| adding | 1 << counter);
        Alike { of: OWN, adds, adding, comparing, holding, edges, ticks, cpl }
    }

    /// How many such cycles pass before one may overflow a counter.
    #[inline]
    pub fn alike_before_overflow(&self, alike: &Alike) -> u64 {
        let least = each(alike.adding)
            .map(|counter| match alike.adds[counter] {
                1 => self.headroom_of(counter) - 1,
                n => (self.headroom_of(counter) - 1) / n,
            })
            .min();
        let overflows = each(alike.edges & !self.edge_levels[alike.of])
            .any(|counter| self.headroom_of(counter) == 1);
        if overflows { 0 } else { least.unwrap_or(u64::MAX) }
    }

    /// So many such cycles pass, at least one, and no more than [`Pmu::alike_before_overflow`] says.
    #[inline]
    pub fn pass_alike(&mut self, alike: &Alike, cycles: u64) {
        debug_assert!(cycles <= self.alike_before_overflow(alike), "a counter overflows");
        let mut overflow = self.overflow();
        self.tick(alike.ticks.wrapping_mul(cycles), alike.cpl);
        for counter in each(alike.adding) {
            self.add(1 << counter, alike.adds[counter].wrapping_mul(cycles), &mut overflow);
        }
        let levels = &mut self.edge_levels[alike.of];
        let held = core::mem::replace(levels, *levels & !alike.comparing | alike.holding);
        self.add(alike.edges & !held, 1, &mut overflow);
    }

    /// So many clock cycles at privilege level `cpl`, with this in each of them: the same as [`Pmu::cycle`] so often.
    pub fn cycles(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        let alike = |pmu: &Self| {
            let running = pmu.running_at(cpl);
            let comparing = pmu.subscriptions.per_cycle & running;
            pmu.alike_of(running, comparing, cpl, |signal| counts.get(signal))
        };
        self.repeat(cycles, alike, |pmu| pmu.cycle(counts, cpl))
    }

    /// The same as [`Pmu::compare`] for each of so many clock cycles, with this in each of them.
    pub fn compare_cycles(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        let alike = |pmu: &Self| {
            let comparing = pmu.subscriptions.per_cycle & pmu.running_at(cpl);
            let alike = pmu.alike_of(0, comparing, cpl, |signal| counts.get(signal));
            Alike { ticks: 0, ..alike }
        };
        self.repeat(cycles, alike, |pmu| pmu.compare(counts, cpl))
    }

    /// The same as [`Pmu::sibling_compare`] for each of so many clock cycles, with this in each of them.
    pub fn sibling_compare_cycles(
        &mut self,
        nth: usize,
        counts: &SignalCounts,
        cpl: u8,
        cycles: u64,
    ) -> Pmis {
        let alike = |pmu: &Self| {
            let comparing = pmu.subscriptions.per_cycle & pmu.seeing_siblings(cpl);
            let alike = pmu.alike_of(0, comparing, cpl, |signal| counts.get(signal));
            Alike { of: (1 + nth).min(SIBLINGS), ticks: 0, ..alike }
        };
        self.repeat(cycles, alike, |pmu| pmu.sibling_compare(nth, counts, cpl))
    }

    /// What occurs so often where no cycle passes for it: the same as [`Pmu::advance`] and [`Pmu::compare_beyond`] so
    /// often.
    pub fn cycles_beyond(&mut self, counts: &SignalCounts, cpl: u8, times: u64) -> Pmis {
        let alike = |pmu: &Self| {
            let running = pmu.running_at(cpl);
            let comparing = running & pmu.comparing_any(counts.present());
            pmu.alike_of(running, comparing, cpl, |signal| counts.get(signal))
        };
        self.repeat(times, alike, |pmu| {
            pmu.advance(counts, cpl).with(pmu.compare_beyond(counts, cpl))
        })
    }

    /// Does something so often: together as far as no counter overflows by it, as `alike` says.
    fn repeat(
        &mut self,
        times: u64,
        alike: impl FnOnce(&Self) -> Alike,
        mut once: impl FnMut(&mut Self) -> Pmis,
    ) -> Pmis {
        if times == 1 {
            return once(self);
        }
        let alike = alike(self);
        let (mut pmis, mut left) = (Pmis::NONE, times);
        while left != 0 {
            match left.min(self.alike_before_overflow(&alike)) {
                0 => {
                    pmis = pmis.with(once(self));
                    left -= 1;
                }
                together => {
                    self.pass_alike(&alike, together);
                    left -= together;
                }
            }
        }
        pmis
    }
}
