//! The subscription table: which counters count which signal, compiled from the selects.

use crate::counts::SignalSet;
use crate::event::{EventDef, Scope};
use crate::personality::{MAX_COUNTERS, Personality, UndefinedEvent};
use crate::select::Select;
use crate::signal::Signal;

/// A set of counters: bit n for counter n.
pub type CounterSet = u8;

const _: () = assert!(MAX_COUNTERS <= CounterSet::BITS as usize);

/// What the enabled counters need an engine to report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// The signals that some enabled counter counts. While any counter is enabled,
    /// [`Signal::CyclesUnhalted`] is among them, for the statistics.
    pub signals: SignalSet,
    /// Some enabled counter has a counter mask or edge detection: every clock cycle has to be reported by
    /// [`crate::Pmu::cycle`].
    pub per_cycle: bool,
    /// Some counter is enabled.
    pub counting: bool,
}

impl Demand {
    /// This and `other` together.
    #[must_use]
    pub fn with(&self, other: &Demand) -> Demand {
        Demand {
            signals: self.signals.union(&other.signals),
            per_cycle: self.per_cycle || other.per_cycle,
            counting: self.counting || other.counting,
        }
    }
}

/// A signal in demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) signal: Signal,
    /// The counters that add every occurrence.
    pub(crate) adding: CounterSet,
    /// The counters that compare the occurrences of each cycle with their counter mask.
    pub(crate) comparing: CounterSet,
}

/// The compiled form of the selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriptions {
    /// By signal: the counters that add every occurrence.
    pub(crate) adding: [CounterSet; Signal::COUNT],
    /// By signal: the counters that compare the occurrences of each cycle with their counter mask.
    pub(crate) comparing: [CounterSet; Signal::COUNT],
    /// By CPL: the counters that count there.
    pub(crate) at_cpl: [CounterSet; 4],
    /// The enabled counters.
    pub(crate) enabled: CounterSet,
    /// The enabled counters with a counter mask or edge detection.
    pub(crate) per_cycle: CounterSet,
    /// Those of them that do not count: the event is undefined ([`UndefinedEvent::StandsStill`]).
    pub(crate) standing_still: CounterSet,
    /// The enabled counters that count what the other threads of the core do.
    pub(crate) core_wide: CounterSet,
    /// Those of them whose event has no thread context.
    pub(crate) core_events: CounterSet,
    /// The signals in demand, `asked_len` of them: a list, which is walked faster than a set.
    asked: [Asked; Signal::COUNT],
    asked_len: usize,
    /// The demand on the engine.
    pub(crate) demand: Demand,
    /// The demand on the engine while another thread of the core runs.
    pub(crate) sibling_demand: Demand,
}

impl Subscriptions {
    /// Nothing is enabled.
    pub(crate) const NONE: Subscriptions = Subscriptions {
        adding: [0; Signal::COUNT],
        comparing: [0; Signal::COUNT],
        at_cpl: [0; 4],
        enabled: 0,
        per_cycle: 0,
        standing_still: 0,
        core_wide: 0,
        core_events: 0,
        asked: [Asked { signal: Signal::CyclesUnhalted, adding: 0, comparing: 0 }; Signal::COUNT],
        asked_len: 0,
        demand: Demand { signals: SignalSet::EMPTY, per_cycle: false, counting: false },
        sibling_demand: Demand { signals: SignalSet::EMPTY, per_cycle: false, counting: false },
    };

    /// Compiles the selects anew, where the signals `live` fire. A PMU without demand
    /// ([`crate::Pmu::without_demand`]) has none, whatever is enabled.
    pub(crate) fn recompile(
        &mut self,
        personality: &'static Personality,
        live: &SignalSet,
        selects: &[Select; MAX_COUNTERS],
        asks: bool,
    ) {
        // The tables by signal are long; only these entries are in use.
        for signal in &self.demand.signals {
            self.adding[signal.index()] = 0;
            self.comparing[signal.index()] = 0;
        }
        self.at_cpl = [0; 4];
        (self.enabled, self.per_cycle, self.standing_still) = (0, 0, 0);
        (self.core_wide, self.core_events) = (0, 0);
        (self.demand, self.sibling_demand) = (Demand::default(), Demand::default());
        for (counter, select) in selects.iter().enumerate() {
            if select.enabled {
                self.enabled |= 1 << counter;
                if asks {
                    self.add(personality, live, counter, select);
                }
            }
        }
        if asks && self.enabled != 0 {
            self.demand.counting = true;
            self.demand.per_cycle = self.per_cycle != 0;
            self.demand.signals.insert(Signal::CyclesUnhalted);
        }
        self.asked_len = self.demand.signals.len();
        for (asked, signal) in self.asked.iter_mut().zip(&self.demand.signals) {
            let (adding, comparing) = (&self.adding, &self.comparing);
            let index = signal.index();
            *asked = Asked { signal, adding: adding[index], comparing: comparing[index] };
        }
        self.sibling_demand.counting = self.core_wide != 0;
        self.sibling_demand.per_cycle = self.per_cycle & self.core_wide != 0;
    }

    /// The signals in demand.
    #[inline]
    pub(crate) fn asked(&self) -> &[Asked] {
        &self.asked[..self.asked_len.min(Signal::COUNT)]
    }

    /// Adds what one enabled counter asks for.
    fn add(
        &mut self,
        personality: &'static Personality,
        live: &SignalSet,
        counter: usize,
        select: &Select,
    ) {
        let bit = 1 << counter;
        for (cpl, counters) in self.at_cpl.iter_mut().enumerate() {
            *counters |= if select.cpls >> cpl & 1 != 0 { bit } else { 0 };
        }
        if select.per_cycle() {
            self.per_cycle |= bit;
        }
        let event = personality.event(select.event, select.umask, counter);
        let event = event.filter(|event| event.counters & bit != 0);
        let is_defined =
            event.is_some_and(|event| event.umask_rule.documents(event.umasks, select.umask));
        if !is_defined && personality.undefined_event == UndefinedEvent::StandsStill {
            self.standing_still |= bit;
        }
        // An encoding of no event has no scope either, though there is an event of that code. It stands still in the
        // cycles of other threads as in its own, if it is to see them.
        let is_of_core = is_defined && event.is_some_and(|event| event.scope == Scope::Core);
        if is_of_core {
            self.core_events |= bit;
        }
        if select.all_threads || is_of_core {
            self.core_wide |= bit;
        }
        if let Some(event) = event {
            self.take(event, live, select, bit);
        }
    }

    /// Enters the signals of an event for a counter.
    fn take(
        &mut self,
        event: &'static EventDef,
        live: &SignalSet,
        select: &Select,
        bit: CounterSet,
    ) {
        let taken = if select.per_cycle() { &mut self.comparing } else { &mut self.adding };
        // A sum with a term that does not fire stays zero: part of it would be a number that looks
        // like a count and is none.
        for signal in event.counted(select.umask, live) {
            taken[signal.index()] |= bit;
            self.demand.signals.insert(signal);
            if self.core_wide & bit != 0 {
                self.sibling_demand.signals.insert(signal);
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

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;
    use crate::counts::SignalCounts;
    use crate::personality::{CodeIndex, index_by_code};
    use crate::pmu::{MsrAccess, Pmu};

    /// The whole vocabulary as one event, on any counter.
    const EVERYTHING: &[EventDef] =
        &[EventDef { counters: 0b1111, signals: Signal::ALL, ..Personality::ALL[0].events[0] }];
    static BY_CODE: CodeIndex = index_by_code(EVERYTHING);

    /// A K8 that counts it, on counters 2 and 3 the cycles in which any of it occurs.
    fn everything() -> Pmu {
        let k8 = Personality::by_name("k8").unwrap();
        let personality =
            Box::leak(Box::new(Personality { events: EVERYTHING, by_code: &BY_CODE, ..*k8 }));
        let mut pmu = Pmu::new(personality, &SignalSet::ALL);
        for (counter, cmask) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            // CNT_MASK in 31:24; EN, OS and USR.
            let evtsel = u64::from(EVERYTHING[0].code) | cmask << 24 | 0x0043_0000;
            assert_eq!(pmu.write_msr(0xC001_0000 + counter, evtsel), MsrAccess::Done(()));
        }
        pmu
    }

    fn counters(pmu: &Pmu) -> [u64; MAX_COUNTERS] {
        pmu.registers().perfctr
    }

    /// Nothing is left out, by whichever way the occurrences come.
    #[test]
    fn an_event_can_sum_the_whole_vocabulary() {
        let once: SignalCounts = Signal::ALL.iter().map(|&signal| (signal, 1)).collect();
        let all = Signal::COUNT as u64;

        let mut pmu = everything();
        assert_eq!(pmu.demand().signals, SignalSet::ALL);
        let asked = pmu.subscriptions.asked().iter().map(|asked| asked.signal);
        assert!(asked.eq(Signal::ALL.iter().copied()));
        assert!(pmu.advance_by(0, |_| 1).is_empty());
        assert_eq!(counters(&pmu), [all, all, 0, 0]);

        let mut pmu = everything();
        assert!(pmu.advance(&once, 0).is_empty());
        assert_eq!(counters(&pmu), [all, all, 0, 0]);

        let mut pmu = everything();
        for &signal in Signal::ALL {
            assert!(pmu.cycle(&[(signal, 1)].into_iter().collect(), 0).is_empty());
        }
        assert_eq!(counters(&pmu), [all; 4]);

        let mut pmu = everything();
        for &signal in Signal::ALL {
            assert_eq!(pmu.headroom(signal), Some((1 << 48) - counters(&pmu)[0]));
            assert!(pmu.fire(signal, 1, 0).is_empty());
        }
        assert_eq!(counters(&pmu), [all, all, 0, 0]);
    }
}
