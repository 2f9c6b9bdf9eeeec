//! Cycles in which the same occurs, counted together.

use super::{OWN, Pmu};
use crate::counts::SignalCounts;
use crate::personality::MAX_COUNTERS;
use crate::pmi::Pmis;
use crate::signal::Signal;
use crate::subscription::{CounterSet, each};

/// What a clock cycle does to the counters in which certain things occur ([`Pmu::alike`]).
#[derive(Debug, Clone, Copy)]
pub struct Alike {
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
    pub fn alike(&self, cpl: u8, mut occurrences: impl FnMut(Signal) -> u64) -> Alike {
        let running = self.running_at(cpl);
        let (mut adds, mut events) = ([0_u64; MAX_COUNTERS], [0_u64; MAX_COUNTERS]);
        let mut ticks = 0;
        for asked in self.subscriptions.asked() {
            let n = occurrences(asked.signal);
            if asked.signal == Signal::CyclesUnhalted {
                ticks = n;
            }
            for counter in each(asked.adding & running) {
                adds[counter] = adds[counter].saturating_add(n);
            }
            for counter in each(asked.comparing & running) {
                events[counter] = events[counter].saturating_add(n);
            }
        }
        let comparing = self.subscriptions.per_cycle & running;
        let holding = self.holding(&events, comparing);
        let edges = each(holding).filter(|&counter| self.selects[counter].edge);
        let edges = edges.fold(0, |edges, counter| edges | 1 << counter);
        each(holding & !edges).for_each(|counter| adds[counter] = 1);
        let adding = (0..MAX_COUNTERS).filter(|&counter| adds[counter] != 0);
        let adding = adding.fold(0, |adding, counter| adding | 1 << counter);
        Alike { adds, adding, comparing, holding, edges, ticks, cpl }
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
        let overflows = each(alike.edges & !self.edge_levels[OWN])
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
        let levels = &mut self.edge_levels[OWN];
        let held = core::mem::replace(levels, *levels & !alike.comparing | alike.holding);
        self.add(alike.edges & !held, 1, &mut overflow);
    }

    /// So many clock cycles at privilege level `cpl`, with this in each of them: the same as [`Pmu::cycle`] so often.
    pub fn cycles(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        let cycle = |pmu: &mut Self| pmu.cycle(counts, cpl);
        self.repeat(cycles, most(counts), cycle, |pmu, left| {
            pmu.advance_again(counts, cpl, left);
            pmu.compare_again(counts, pmu.running_at(cpl), left);
        })
    }

    /// The same as [`Pmu::compare`] for each of so many clock cycles, with this in each of them.
    pub fn compare_cycles(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        let compare = |pmu: &mut Self| pmu.compare(counts, cpl);
        self.repeat(cycles, 1, compare, |pmu, left| {
            pmu.compare_again(counts, pmu.running_at(cpl), left);
        })
    }

    /// What occurs so often where no cycle passes for it: the same as [`Pmu::advance`] and [`Pmu::compare_beyond`] so
    /// often.
    pub fn cycles_beyond(&mut self, counts: &SignalCounts, cpl: u8, times: u64) -> Pmis {
        let advance =
            |pmu: &mut Self| pmu.advance(counts, cpl).with(pmu.compare_beyond(counts, cpl));
        self.repeat(times, most(counts), advance, |pmu, left| {
            let comparing = pmu.running_at(cpl) & pmu.comparing_any(counts.present());
            pmu.advance_again(counts, cpl, left);
            pmu.compare_again(counts, comparing, left);
        })
    }

    /// Does something so often, of which a counter adds `most`: once, and all that are left together where no counter
    /// overflows by them.
    fn repeat(
        &mut self,
        times: u64,
        most: u64,
        mut once: impl FnMut(&mut Self) -> Pmis,
        rest: impl FnOnce(&mut Self, u64),
    ) -> Pmis {
        let mut pmis = Pmis::NONE;
        let mut left = times;
        while left != 0 {
            pmis = pmis.with(once(self));
            left -= 1;
            // Behind the first, edges have been seen.
            if left > 1 && self.is_far_from_overflow(most.saturating_mul(left)) {
                rest(self, left);
                break;
            }
        }
        pmis
    }

    /// Whether no enabled counter overflows by so many occurrences.
    fn is_far_from_overflow(&self, occurrences: u64) -> bool {
        self.nearest_overflow().is_none_or(|nearest| nearest > occurrences)
    }

    /// Adds a batch so often again, by which no counter overflows.
    fn advance_again(&mut self, counts: &SignalCounts, cpl: u8, times: u64) {
        let running = self.running_at(cpl);
        let mut overflow = self.overflow();
        self.tick(counts.get(Signal::CyclesUnhalted).wrapping_mul(times), cpl);
        for signal in &counts.present().intersection(&self.subscriptions.demand.signals) {
            let taking = self.subscriptions.adding[signal.index()] & running;
            self.add(taking, counts.get(signal).saturating_mul(times), &mut overflow);
        }
    }

    /// The same of so many further cycles, in which the same occurs as in the one before: no edge is in them.
    fn compare_again(&mut self, counts: &SignalCounts, counters: CounterSet, cycles: u64) {
        let mut overflow = self.overflow();
        let comparing = self.subscriptions.per_cycle & counters;
        for counter in each(self.holding(&self.events(counts, comparing), comparing)) {
            if !self.selects[counter].edge {
                self.add(1 << counter, cycles, &mut overflow);
            }
        }
    }
}

/// The most that a counter can add of a cycle in which this occurs.
fn most(counts: &SignalCounts) -> u64 {
    counts.iter().fold(1, |most: u64, (_, n)| most.saturating_add(n))
}
