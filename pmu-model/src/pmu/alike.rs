//! Cycles in which the same occurs: what one of them does is worked out once, and counted so often.

use super::{OWN, Pmu};
use crate::personality::MAX_COUNTERS;
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
    /// Whether this holds of any signal in demand.
    #[inline]
    pub fn asks_any(&self, mut holds: impl FnMut(Signal) -> bool) -> bool {
        self.subscriptions.asked().iter().any(|asked| holds(asked.signal))
    }

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
        let mut overflow = self.overflow();
        self.tick(alike.ticks.wrapping_mul(cycles), alike.cpl);
        for counter in each(alike.adding) {
            self.add(1 << counter, alike.adds[counter].wrapping_mul(cycles), &mut overflow);
        }
        let levels = &mut self.edge_levels[OWN];
        let held = core::mem::replace(levels, *levels & !alike.comparing | alike.holding);
        self.add(alike.edges & !held, 1, &mut overflow);
        debug_assert!(overflow.pmis.is_empty(), "a counter overflows that was not to");
    }
}
