//! The PMU of one logical processor: registers and counting.

use crate::counts::SignalCounts;
use crate::event::Availability;
use crate::evtsel::{EN, Evtsel};
use crate::personality::{InitRule, MAX_COUNTERS, Personality, RegisterKind};
use crate::pmi::Pmis;
use crate::signal::Signal;
use crate::stats::{CodeSet, CounterStats};
use crate::subscription::{CounterSet, Demand, Subscriptions, each};

/// General-protection fault, #GP(0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpFault;

impl core::fmt::Display for GpFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("#GP(0)")
    }
}

impl core::error::Error for GpFault {}

/// Outcome of RDMSR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsrRead {
    /// Not a register of this PMU.
    NotOurs,
    /// The register's value.
    Value(u64),
    /// The register cannot be read.
    GpFault,
}

/// Outcome of WRMSR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsrWrite {
    /// Not a register of this PMU.
    NotOurs,
    /// Written.
    Done,
    /// The value sets a bit that must not be set; nothing was written.
    GpFault,
}

/// Kinds of reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Power-up. Clears the statistics too.
    Cold,
    /// RESET without loss of power.
    Warm,
    /// INIT.
    Init,
}

/// The PMU of one logical processor: plain data and pure logic.
///
/// Every occurrence that an engine reports is either lost (nobody subscribed) or added to each
/// counter that takes its signal at the CPL given. A counter is `personality.width` bits wide; when
/// it wraps to zero it overflows, and with `INT` set that is one assertion of LVTPC, returned to
/// the caller. The counters' clock stops in halt, so an engine reports nothing while halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    pub(crate) personality: &'static Personality,
    pub(crate) evtsel: [u64; MAX_COUNTERS],
    pub(crate) perfctr: [u64; MAX_COUNTERS],
    /// Counters whose condition held in the last cycle that they saw.
    pub(crate) edge_level: CounterSet,
    pub(crate) stats: [CounterStats; MAX_COUNTERS],
    pub(crate) uncounted: CodeSet,
    pub(crate) subscriptions: Subscriptions,
}

impl Pmu {
    /// A PMU after power-up.
    pub fn new(personality: &'static Personality) -> Pmu {
        let mut pmu = Pmu {
            personality,
            evtsel: [0; MAX_COUNTERS],
            perfctr: [0; MAX_COUNTERS],
            edge_level: 0,
            stats: [CounterStats::new(); MAX_COUNTERS],
            uncounted: CodeSet::default(),
            subscriptions: Subscriptions::NONE,
        };
        pmu.clear_registers();
        pmu
    }

    /// Which processor's PMU this is.
    pub fn personality(&self) -> &'static Personality {
        self.personality
    }

    /// Resets. Warm reset and INIT keep the statistics: they belong to the run.
    pub fn reset(&mut self, kind: Reset) {
        match (kind, self.personality.init) {
            (Reset::Cold, _) => *self = Pmu::new(self.personality),
            (Reset::Warm, _) => self.clear_registers(),
            (Reset::Init, InitRule::Keeps) => {}
        }
    }

    fn clear_registers(&mut self) {
        self.evtsel = [self.personality.evtsel_reset; MAX_COUNTERS];
        self.perfctr = [self.personality.perfctr_reset; MAX_COUNTERS];
        self.edge_level = 0;
        self.subscriptions = Subscriptions::compile(self.personality, &self.evtsel);
    }

    /// RDMSR of `index` at CPL 0. Without side effects.
    #[inline]
    pub fn read_msr(&self, index: u32) -> MsrRead {
        match self.personality.register(index).map(|register| register.kind) {
            Some(RegisterKind::Evtsel(i)) => MsrRead::Value(self.evtsel[i]),
            Some(RegisterKind::Perfctr(i)) => MsrRead::Value(self.perfctr[i]),
            None => MsrRead::NotOurs,
        }
    }

    /// WRMSR of `index` at CPL 0. Bits that a register does not have are ignored, unless the
    /// personality says that they fault.
    pub fn write_msr(&mut self, index: u32, value: u64) -> MsrWrite {
        let Some(register) = self.personality.register(index) else {
            return MsrWrite::NotOurs;
        };
        match register.kind {
            RegisterKind::Evtsel(_) if value & self.personality.evtsel.faulting != 0 => {
                return MsrWrite::GpFault;
            }
            RegisterKind::Evtsel(i) => {
                self.write_evtsel(i, value & self.personality.evtsel.stored);
            }
            RegisterKind::Perfctr(i) => {
                self.perfctr[i] = value & self.personality.perfctr_mask();
            }
        }
        MsrWrite::Done
    }

    fn write_evtsel(&mut self, counter: usize, value: u64) {
        let before = core::mem::replace(&mut self.evtsel[counter], value);
        if before == value {
            return;
        }
        // Enabling starts edge detection from a condition of 0. A change of event without
        // disabling keeps the old level, and so counts the false edge that section 10.2 warns of.
        if !Evtsel(before).en() {
            self.edge_level &= !(1 << counter);
        }
        if Evtsel(value).en() {
            self.record_selection(counter, Evtsel(value));
        }
        self.subscriptions = Subscriptions::compile(self.personality, &self.evtsel);
    }

    /// Notes for the summary what a counter was enabled with.
    fn record_selection(&mut self, counter: usize, select: Evtsel) {
        self.stats[counter].select(select.0 & !EN);
        let live = self.personality.event(select.event()).is_some_and(|event| {
            event.availability_of(select.umask()) == Availability::Live
                && event.counters & (1 << counter) != 0
        });
        if !live {
            self.uncounted.insert(select.event());
        }
    }

    /// RDPMC with `index` in ECX.
    ///
    /// # Errors
    /// #GP if there is no such counter, or above CPL 0 with CR4.PCE clear. In real mode it is
    /// always allowed.
    #[inline]
    pub fn rdpmc(
        &self,
        index: u32,
        cpl: u8,
        cr4_pce: bool,
        real_mode: bool,
    ) -> Result<u64, GpFault> {
        let allowed = cpl == 0 || cr4_pce || real_mode;
        match self.perfctr[..self.personality.counters].get(index as usize) {
            Some(&value) if allowed => Ok(value),
            _ => Err(GpFault),
        }
    }

    /// Adds `n` occurrences of `signal` at privilege level `cpl`. Counters with a counter mask or
    /// edge detection do not take part: see [`Pmu::cycle`].
    #[inline]
    pub fn fire(&mut self, signal: Signal, n: u64, cpl: u8) -> Pmis {
        if signal == Signal::CyclesUnhalted {
            self.tick(n);
        }
        let counters = self.subscriptions.adding[signal.index()];
        if counters == 0 {
            return Pmis::NONE;
        }
        let mut pmis = Pmis::NONE;
        self.add(counters & self.running_at(cpl), n, &mut pmis);
        pmis
    }

    /// Adds a batch at privilege level `cpl`. Counters with a counter mask or edge detection do not
    /// take part: see [`Pmu::cycle`]. A batch equals its parts in sequence.
    #[inline]
    pub fn advance(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut pmis = Pmis::NONE;
        self.tick(counts.get(Signal::CyclesUnhalted));
        let running = self.running_at(cpl);
        if running != 0 {
            for signal in &counts.present().intersection(&self.subscriptions.demand.signals) {
                let counters = self.subscriptions.adding[signal.index()] & running;
                self.add(counters, counts.get(signal), &mut pmis);
            }
        }
        pmis
    }

    /// One clock cycle at privilege level `cpl` with everything that happened in it. All counters
    /// take part: those with a counter mask or edge detection add at most one, by
    /// [`Evtsel::condition`]. A counter that does not count at `cpl` does not see the cycle, and
    /// keeps its edge state.
    ///
    /// The engine counts the cycle itself, as one [`Signal::CyclesUnhalted`].
    pub fn cycle(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut pmis = self.advance(counts, cpl);
        let judging = self.subscriptions.per_cycle & self.running_at(cpl);
        if judging == 0 {
            return pmis;
        }
        let mut events = [0_u64; MAX_COUNTERS];
        for signal in &counts.present().intersection(&self.subscriptions.demand.signals) {
            for counter in each(self.subscriptions.judging[signal.index()] & judging) {
                events[counter] = events[counter].saturating_add(counts.get(signal));
            }
        }
        for counter in each(judging) {
            let select = Evtsel(self.evtsel[counter]);
            let limit = self.personality.evtsel.max_events_per_cycle;
            let holds = select.condition(events[counter], limit);
            let held = self.edge_level >> counter & 1 != 0;
            self.edge_level = self.edge_level & !(1 << counter) | u8::from(holds) << counter;
            if holds && !(select.edge() && held) {
                self.add(1 << counter, 1, &mut pmis);
            }
        }
        pmis
    }

    /// Distance to the nearest overflow by `signal`: with `h` returned, the `h`-th occurrence from
    /// now overflows some counter and fewer do not, at whatever CPL they happen. At least 1. None
    /// if no enabled counter adds the signal.
    ///
    /// Counters with a counter mask or edge detection are left out; while one is enabled
    /// ([`Demand::per_cycle`]) the engine goes cycle by cycle. A counter that sums several signals
    /// gives the distance by each alone: a batch is safe if its sum over such signals stays below.
    #[inline]
    pub fn headroom(&self, signal: Signal) -> Option<u64> {
        each(self.subscriptions.adding[signal.index()])
            .map(|counter| self.personality.perfctr_mask() - self.perfctr[counter] + 1)
            .min()
    }

    /// What the enabled counters want to know. Changes only by register writes and resets.
    #[inline]
    pub fn demand(&self) -> Demand {
        self.subscriptions.demand
    }

    /// What a counter is programmed to: the value of its event select. None beyond the last.
    pub fn evtsel(&self, counter: usize) -> Option<Evtsel> {
        self.evtsel[..self.personality.counters].get(counter).copied().map(Evtsel)
    }

    /// What a counter was used for since power-up. None beyond the last.
    pub fn counter_stats(&self, counter: usize) -> Option<&CounterStats> {
        self.stats[..self.personality.counters].get(counter)
    }

    /// The event codes that were enabled and do not wholly count: pending or absent (also if only
    /// one of several unit masks is), reserved, or on a counter that cannot count them.
    pub fn uncounted(&self) -> &CodeSet {
        &self.uncounted
    }

    #[inline]
    fn running_at(&self, cpl: u8) -> CounterSet {
        self.subscriptions.at_cpl[usize::from(cpl & 3)]
    }

    /// `cycles` unhalted clocks passed.
    #[inline]
    fn tick(&mut self, cycles: u64) {
        if cycles != 0 {
            for counter in each(self.subscriptions.enabled) {
                let tally = self.stats[counter].current();
                tally.enabled_cycles = tally.enabled_cycles.wrapping_add(cycles);
            }
        }
    }

    /// Adds `n` to each of `counters`.
    #[inline]
    fn add(&mut self, counters: CounterSet, n: u64, pmis: &mut Pmis) {
        let mask = self.personality.perfctr_mask();
        for counter in each(counters) {
            // Both terms are below 2^width, and width is below 64.
            let sum = self.perfctr[counter] + (n & mask);
            self.perfctr[counter] = sum & mask;
            let tally = self.stats[counter].current();
            tally.count = tally.count.wrapping_add(n);
            let wraps = (n >> self.personality.width) + (sum >> self.personality.width);
            if wraps != 0 {
                tally.overflows = tally.overflows.wrapping_add(wraps);
                if Evtsel(self.evtsel[counter]).int() {
                    tally.pmis = tally.pmis.wrapping_add(wraps);
                    pmis.add(counter, u32::try_from(wraps).unwrap_or(u32::MAX));
                }
            }
        }
    }
}
