//! The subscription table: which counters take which signal, compiled from the event selects.

use crate::counts::SignalSet;
use crate::evtsel::Evtsel;
use crate::personality::{EnableRule, MAX_COUNTERS, Personality};
use crate::signal::Signal;

/// A set of counters, one bit each.
pub(crate) type CounterSet = u8;

/// What the enabled counters want to know of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// The signals that some enabled counter takes. While anything is enabled
    /// [`Signal::CyclesUnhalted`] is among them, for the statistics.
    pub signals: SignalSet,
    /// Some enabled counter uses `CNT_MASK` or `E`: every clock cycle has to be reported by
    /// [`crate::Pmu::cycle`].
    pub per_cycle: bool,
    /// Some counter is enabled.
    pub counting: bool,
}

/// The compiled form of the event selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriptions {
    /// By signal: the counters that add every occurrence.
    pub(crate) adding: [CounterSet; Signal::COUNT],
    /// By signal: the counters that judge the occurrences of each cycle.
    pub(crate) judging: [CounterSet; Signal::COUNT],
    /// By CPL: the counters that count there.
    pub(crate) at_cpl: [CounterSet; 4],
    /// The enabled counters.
    pub(crate) enabled: CounterSet,
    /// The enabled counters that judge each cycle.
    pub(crate) per_cycle: CounterSet,
    /// The demand on the engine.
    pub(crate) demand: Demand,
}

impl Subscriptions {
    /// Nothing is enabled.
    pub(crate) const NONE: Subscriptions = Subscriptions {
        adding: [0; Signal::COUNT],
        judging: [0; Signal::COUNT],
        at_cpl: [0; 4],
        enabled: 0,
        per_cycle: 0,
        demand: Demand { signals: SignalSet::EMPTY, per_cycle: false, counting: false },
    };

    /// Compiles the event selects.
    pub(crate) fn compile(
        personality: &'static Personality,
        evtsel: &[u64; MAX_COUNTERS],
    ) -> Subscriptions {
        let mut table = Subscriptions::NONE;
        for (counter, &value) in evtsel.iter().enumerate().take(personality.counters) {
            let select = Evtsel(value);
            let enabled = match personality.enable {
                EnableRule::Own => select.en(),
            };
            if enabled {
                table.add(personality, 1 << counter, select);
            }
        }
        if table.enabled != 0 {
            table.demand.counting = true;
            table.demand.per_cycle = table.per_cycle != 0;
            table.demand.signals.insert(Signal::CyclesUnhalted);
        }
        table
    }

    /// Adds one enabled counter.
    fn add(&mut self, personality: &'static Personality, counter: CounterSet, select: Evtsel) {
        self.enabled |= counter;
        for (cpl, counters) in (0..).zip(&mut self.at_cpl) {
            if if cpl >= personality.usr_min_cpl { select.usr() } else { select.os() } {
                *counters |= counter;
            }
        }
        let taken = if select.per_cycle() {
            self.per_cycle |= counter;
            &mut self.judging
        } else {
            &mut self.adding
        };
        if !(select.usr() || select.os()) {
            return;
        }
        let Some(event) = personality.event(select.event()) else {
            return;
        };
        if event.counters & counter == 0 {
            return;
        }
        for sum in event.selected(select.umask()) {
            // A sum with a term that nobody fires yet stays zero: part of it would be a number
            // that looks like a count and is none.
            let pending = sum.iter().any(|signal| !signal.is_architectural());
            for signal in sum.iter().filter(|signal| signal.is_architectural() != pending) {
                taken[signal.index()] |= counter;
                self.demand.signals.insert(*signal);
            }
        }
    }
}

/// The counters of a set, lowest first.
#[inline]
pub(crate) fn each(mut counters: CounterSet) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = counters.trailing_zeros() as usize;
        counters &= counters.wrapping_sub(1);
        (lowest < MAX_COUNTERS).then_some(lowest)
    })
}
