//! The PMU of one logical processor: registers and counting.

use crate::counts::{SignalCounts, SignalSet};
use crate::event::Availability;
use crate::personality::{InitRule, MAX_COUNTERS, Personality, PmiRule};
use crate::pmi::Pmis;
use crate::register::{Access, RegisterKind, Registers};
use crate::select::{Select, USER_PREFERENCE};
use crate::signal::Signal;
use crate::stats::{CounterStats, Selected, UncountedSet};
use crate::subscription::{Asked, CounterSet, Demand, Subscriptions, each};

mod alike;

pub use self::alike::Alike;

/// General-protection fault, #GP(0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpFault;

impl core::fmt::Display for GpFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("#GP(0)")
    }
}

impl core::error::Error for GpFault {}

/// Outcome of RDMSR or WRMSR at a component that has some of the model-specific registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsrAccess<T> {
    /// The register is not one of this component's.
    NotOurs,
    /// It was done; a read's value.
    Done(T),
    /// It raises #GP(0), and nothing was written: the register cannot be read or written, or the value
    /// has a bit that must not be set.
    GpFault,
}

/// Who executes RDPMC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RdpmcCaller {
    /// Current privilege level; 3 in virtual-8086 mode.
    pub cpl: u8,
    /// CR4.PCE.
    pub pce: bool,
    /// Real mode: CR0.PE is clear.
    pub real_mode: bool,
    /// The code segment is a 16-bit one, as in real and virtual-8086 mode.
    pub code_16bit: bool,
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

/// The most other hardware threads that a core has (Knights Corner: four threads a core).
pub const SIBLINGS: usize = 3;

/// In [`Pmu::edge_levels`]: the processor's own; those of its siblings follow.
const OWN: usize = 0;

/// The PMU of one logical processor: plain data and pure logic.
///
/// Every occurrence that an engine reports is added to each counter that counts its signal at the CPL
/// given; if none does, it is dropped. A counter is `personality.width` bits wide; when it wraps to
/// zero it overflows, and the interrupts that this asserts are returned to the caller ([`PmiRule`]).
/// The counters' clock stops in halt, so an engine reports nothing while halted.
#[derive(Debug, Clone)]
pub struct Pmu {
    pub(crate) personality: &'static Personality,
    /// The signals that fire.
    pub(crate) live: SignalSet,
    pub(crate) registers: Registers,
    /// What the registers program; derived from them.
    pub(crate) selects: [Select; MAX_COUNTERS],
    /// Counters whose condition held in the last cycle that they saw: of the processor's own cycles, and of
    /// those of each sibling.
    pub(crate) edge_levels: [CounterSet; 1 + SIBLINGS],
    pub(crate) stats: [CounterStats; MAX_COUNTERS],
    pub(crate) uncounted: UncountedSet,
    pub(crate) subscriptions: Subscriptions,
    /// It has a demand for what its counters count; false for [`Pmu::without_demand`].
    pub(crate) asks: bool,
    /// How often the registers have been programmed: [`Pmu::programmings`].
    pub(crate) programmings: u64,
    /// Unhalted clocks since then, not yet in the statistics.
    pub(crate) clocks: u64,
    /// Bit n: some of them passed at CPL n.
    pub(crate) ran_at: u8,
    /// Increments since then, not yet in the statistics.
    pub(crate) increments: [u64; MAX_COUNTERS],
    /// Counters that have overflowed since somebody last asked: [`Pmu::take_overflowed`].
    pub(crate) overflowed: CounterSet,
    /// Those that the last access to a register has begun anew: [`Pmu::begun_anew`].
    pub(crate) begun_anew: CounterSet,
    /// Those that count nothing for now: [`Pmu::hold_back`].
    pub(crate) held_back: CounterSet,
}

/// Equal if they hold the same and go on equally.
impl PartialEq for Pmu {
    fn eq(&self, other: &Pmu) -> bool {
        core::ptr::eq(self.personality, other.personality)
            && self.live == other.live
            && self.asks == other.asks
            && self.save() == other.save()
    }
}

impl Eq for Pmu {}

impl Pmu {
    /// A PMU after power-up, of which the engine fires the signals `live`
    /// ([`LiveSignals`](crate::LiveSignals)). An event that needs others counts zero and is among
    /// [`Pmu::uncounted`].
    pub fn new(personality: &'static Personality, live: &SignalSet) -> Pmu {
        let mut pmu = Pmu {
            personality,
            live: *live,
            registers: Registers::default(),
            selects: [Select::default(); MAX_COUNTERS],
            edge_levels: [0; 1 + SIBLINGS],
            stats: [const { CounterStats::new() }; MAX_COUNTERS],
            uncounted: UncountedSet::default(),
            subscriptions: Subscriptions::NONE,
            asks: true,
            programmings: 0,
            clocks: 0,
            ran_at: 0,
            increments: [0; MAX_COUNTERS],
            overflowed: 0,
            begun_anew: 0,
            held_back: 0,
        };
        pmu.clear_registers();
        pmu
    }

    /// A PMU after power-up that asks an engine for nothing, whatever is enabled: every register is
    /// live, and the counters stand still but for [`Pmu::count`].
    pub fn without_demand(personality: &'static Personality) -> Pmu {
        Pmu { asks: false, ..Pmu::new(personality, &SignalSet::EMPTY) }
    }

    /// Which processor's PMU this is.
    pub fn personality(&self) -> &'static Personality {
        self.personality
    }

    /// The signals that fire.
    pub fn live(&self) -> &SignalSet {
        &self.live
    }

    /// Resets. Warm reset and INIT keep the statistics: they belong to the run.
    pub fn reset(&mut self, kind: Reset) {
        match (kind, self.personality.init) {
            (Reset::Cold, _) => {
                *self = Pmu { asks: self.asks, ..Pmu::new(self.personality, &self.live) };
            }
            (Reset::Warm, _) => self.clear_registers(),
            (Reset::Init, InitRule::Keeps) => {}
        }
    }

    fn clear_registers(&mut self) {
        for register in self.personality.registers {
            self.registers.set(register.kind, register.reset);
        }
        self.edge_levels = [0; 1 + SIBLINGS];
        self.reprogram();
    }

    /// RDMSR of `index` at CPL 0. Without side effects.
    #[inline]
    pub fn read_msr(&self, index: u32) -> MsrAccess<u64> {
        self.read_msr_with(index, |_| 0)
    }

    /// RDMSR of `index` at CPL 0 as if a batch had been added there before it, as for
    /// [`Pmu::rdpmc_with`].
    #[inline]
    pub fn read_msr_with(
        &self,
        index: u32,
        occurrences: impl FnMut(Signal) -> u64,
    ) -> MsrAccess<u64> {
        match self.personality.register(index) {
            None => MsrAccess::NotOurs,
            Some(register) if register.access == Access::WriteOnly => MsrAccess::GpFault,
            Some(register) => MsrAccess::Done(match register.kind {
                RegisterKind::Perfctr(counter) => self.value_with(counter, 0, occurrences),
                kind => self.registers.get(kind),
            }),
        }
    }

    /// WRMSR of `index` at CPL 0, if that is a counter that counts nothing at any level: nothing that has happened is
    /// added to it, and writing it programs nothing. `None` if it is another register; nothing is written then.
    #[inline]
    pub fn write_idle_counter(&mut self, index: u32, value: u64) -> Option<MsrAccess<()>> {
        let register = self.personality.register(index)?;
        match register.kind {
            RegisterKind::Perfctr(counter) if self.subscriptions.enabled >> counter & 1 == 0 => {
                let outcome = register.judge_write(value);
                if outcome == MsrAccess::Done(()) {
                    self.write_perfctr(counter, value);
                }
                Some(outcome)
            }
            _ => None,
        }
    }

    /// What a WRMSR of `value` to `index` at CPL 0 would do, without doing it.
    #[inline]
    pub fn judge_write(&self, index: u32, value: u64) -> MsrAccess<()> {
        let register = self.personality.register(index);
        register.map_or(MsrAccess::NotOurs, |register| register.judge_write(value))
    }

    /// WRMSR of `index` at CPL 0. Bits that a register does not have are ignored, unless the
    /// personality says that they fault.
    #[inline]
    pub fn write_msr(&mut self, index: u32, value: u64) -> MsrAccess<()> {
        let Some(register) = self.personality.register(index) else { return MsrAccess::NotOurs };
        let outcome = register.judge_write(value);
        if outcome != MsrAccess::Done(()) {
            return outcome;
        }
        self.begun_anew = 0;
        match register.kind {
            RegisterKind::Perfctr(counter) => self.write_perfctr(counter, value),
            RegisterKind::GlobalOvfCtrl => self.registers.global_status &= !value,
            kind => self.write_control(kind, value & register.stored),
        }
        MsrAccess::Done(())
    }

    /// A counter begins anew at a value.
    #[inline]
    fn write_perfctr(&mut self, counter: usize, value: u64) {
        self.begun_anew = 1 << counter;
        let rule = self.personality.perfctr_write;
        self.registers.perfctr[counter] = rule.apply(value, self.personality.perfctr_mask());
    }

    /// SPFLT: sets or clears the user preference of `PERF_SPFLT_CONTROL`. Without effect where there
    /// is no such register; there the instruction is undefined.
    pub fn set_user_preference(&mut self, enabled: bool) {
        self.begun_anew = 0;
        if self.personality.register_of(RegisterKind::SpfltControl).is_some() {
            let others = self.registers.spflt_control & !USER_PREFERENCE;
            let preference = if enabled { USER_PREFERENCE } else { 0 };
            self.write_control(RegisterKind::SpfltControl, others | preference);
        }
    }

    fn write_control(&mut self, kind: RegisterKind, value: u64) {
        if self.registers.get(kind) != value {
            self.registers.set(kind, value);
            self.reprogram();
        }
    }

    /// Derives from the registers which counters are enabled and what they count.
    fn reprogram(&mut self) {
        let clocks = core::mem::take(&mut self.clocks);
        let ran_at = core::mem::take(&mut self.ran_at);
        let increments = core::mem::take(&mut self.increments);
        for counter in each(self.subscriptions.enabled) {
            self.stats[counter].pass(clocks, increments[counter], ran_at);
        }
        let selects = Select::decode_all(self.personality, &self.registers);
        let mut counts_otherwise = false;
        for (counter, now) in selects.iter().enumerate().take(self.personality.counters) {
            let before = core::mem::replace(&mut self.selects[counter], *now);
            counts_otherwise |= (before.enabled || now.enabled) && before != *now;
            // Enabling starts edge detection from a condition of 0. A change of event without
            // disabling keeps the old level, and so counts the false edge that the K8's section
            // 10.2 warns of.
            if !before.enabled {
                self.edge_levels.iter_mut().for_each(|levels| *levels &= !(1 << counter));
            }
            if now.enabled && before != *now {
                self.begun_anew |= 1 << counter;
                self.record_selection(counter, now);
            }
            if let Some(missing) = now.missing(self.personality, &self.registers, counter) {
                self.stats[counter].leave_unenabled(now.word, missing);
            }
        }
        if counts_otherwise {
            self.subscriptions.recompile(self.personality, &self.live, &self.selects, self.asks);
        }
        self.programmings = self.programmings.wrapping_add(1);
    }

    /// Notes for the summary what a counter was enabled with.
    fn record_selection(&mut self, counter: usize, select: &Select) {
        self.stats[counter].select(select.word);
        let event = self.personality.event(select.event, select.umask, counter);
        let live = event.is_some_and(|event| {
            event.availability_of(select.umask, &self.live) == Availability::Live
                && event.umask_rule.documents(event.umasks, select.umask)
                && event.counters & (1 << counter) != 0
        });
        if !live {
            self.uncounted.insert(Selected::of(self.personality, select, event));
        }
    }

    /// The counters that the last WRMSR or SPFLT has begun anew, bit n for counter n: it has enabled them or changed
    /// their selects, or has written them. An instruction is counted by the programming that it began under, and so
    /// what it is yet to do when it has programmed them is not for them, but for all others.
    #[inline]
    pub fn begun_anew(&self) -> CounterSet {
        self.begun_anew
    }

    /// Has these counters count nothing of the processor's own, whatever their selects say, until this is called
    /// again.
    #[inline]
    pub fn hold_back(&mut self, counters: CounterSet) {
        self.held_back = counters;
    }

    /// RDPMC with `index` in ECX.
    ///
    /// # Errors
    /// #GP if there is no such counter, or above CPL 0 with CR4.PCE clear. In real mode it is
    /// always allowed.
    #[inline]
    pub fn rdpmc(&self, index: u32, caller: RdpmcCaller) -> Result<u64, GpFault> {
        self.rdpmc_with(index, caller, |_| 0)
    }

    /// RDPMC as if a batch had been added at the caller's CPL before it, which must not overflow the
    /// counter and of which `occurrences` tells each signal. Counters with a counter mask or edge
    /// detection do not take part: see [`Pmu::cycle`].
    ///
    /// # Errors
    /// As [`Pmu::rdpmc`].
    #[inline]
    pub fn rdpmc_with(
        &self,
        index: u32,
        caller: RdpmcCaller,
        occurrences: impl FnMut(Signal) -> u64,
    ) -> Result<u64, GpFault> {
        let allowed = caller.cpl == 0 || caller.pce || caller.real_mode;
        let counter = index as usize;
        if !allowed || counter >= self.personality.counters {
            return Err(GpFault);
        }
        let value = self.value_with(counter, caller.cpl, occurrences);
        let short = caller.code_16bit && self.personality.rdpmc_32bit_in_16bit_code;
        Ok(if short { value & 0xFFFF_FFFF } else { value })
    }

    /// What a counter will hold when `occurrences` of each signal have been added at `cpl`.
    #[inline]
    fn value_with(
        &self,
        counter: usize,
        cpl: u8,
        mut occurrences: impl FnMut(Signal) -> u64,
    ) -> u64 {
        let mut value = self.registers.perfctr[counter];
        let running = 1 << counter & self.running_at(cpl);
        if running != 0 {
            for asked in self.subscriptions.asked() {
                if asked.adding & running != 0 {
                    value = value.wrapping_add(occurrences(asked.signal));
                }
            }
        }
        value & self.personality.perfctr_mask()
    }

    /// Adds `n` occurrences of `signal` at privilege level `cpl`. Counters with a counter mask or
    /// edge detection do not take part: see [`Pmu::cycle`].
    #[inline]
    pub fn fire(&mut self, signal: Signal, n: u64, cpl: u8) -> Pmis {
        if signal == Signal::CyclesUnhalted {
            self.tick(n, cpl);
        }
        let counters = self.subscriptions.adding[signal.index()];
        if counters == 0 {
            return Pmis::NONE;
        }
        let mut overflow = self.overflow();
        self.add(counters & self.running_at(cpl), n, &mut overflow);
        overflow.pmis
    }

    /// Adds a batch at privilege level `cpl`. Counters with a counter mask or edge detection do not
    /// take part: see [`Pmu::cycle`]. A batch equals its parts in sequence, but that its overflows
    /// are of one instant ([`PmiRule::StatusEdge`]).
    #[inline]
    pub fn advance(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        self.tick(counts.get(Signal::CyclesUnhalted), cpl);
        self.add_batch(counts, self.running_at(cpl), &mut overflow);
        overflow.pmis
    }

    /// Adds a batch like [`Pmu::advance`], asking for the occurrences of each signal in demand.
    #[inline]
    pub fn advance_by(&mut self, cpl: u8, mut occurrences: impl FnMut(Signal) -> u64) -> Pmis {
        let mut overflow = self.overflow();
        self.advance_asked(cpl, &mut overflow, |asked, _| occurrences(asked.signal));
        overflow.pmis
    }

    /// The same, and adds to `compared` what counters compare that count at this level ([`Pmu::compare`]).
    #[inline]
    pub fn advance_beside(
        &mut self,
        cpl: u8,
        mut occurrences: impl FnMut(Signal) -> u64,
        compared: &mut SignalCounts,
    ) -> Pmis {
        let mut overflow = self.overflow();
        self.advance_asked(cpl, &mut overflow, |asked, running| {
            let n = occurrences(asked.signal);
            if asked.comparing & running != 0 {
                compared.add(asked.signal, n);
            }
            n
        });
        overflow.pmis
    }

    /// Adds to each counter that adds what `occurrences` says of each signal in demand, told the counters that run.
    #[inline(always)]
    fn advance_asked(
        &mut self,
        cpl: u8,
        overflow: &mut Overflow,
        mut occurrences: impl FnMut(&Asked, CounterSet) -> u64,
    ) {
        let running = self.running_at(cpl);
        let mut next = 0;
        while let Some(&asked) = self.subscriptions.asked().get(next) {
            next += 1;
            let n = occurrences(&asked, running);
            if asked.signal == Signal::CyclesUnhalted {
                self.tick(n, cpl);
            }
            let taking = asked.adding & running;
            if taking != 0 && n != 0 {
                self.add(taking, n, overflow);
            }
        }
    }

    /// Adds `n` to one counter for which something other than an engine's signals counts, such as the
    /// host's PMU. Nothing is added to a counter that is not enabled.
    pub fn count(&mut self, counter: usize, n: u64) -> Pmis {
        let mut overflow = self.overflow();
        if counter < MAX_COUNTERS {
            self.add(self.subscriptions.enabled & 1 << counter, n, &mut overflow);
        }
        overflow.pmis
    }

    /// One clock cycle at privilege level `cpl` with everything that happened in it. All counters
    /// take part: those with a counter mask or edge detection add at most one, by
    /// [`Select::condition`]. A counter that does not count at `cpl` does not see the cycle, and
    /// keeps its edge state.
    ///
    /// The engine counts the cycle itself, as one [`Signal::CyclesUnhalted`].
    pub fn cycle(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        self.tick(counts.get(Signal::CyclesUnhalted), cpl);
        self.add_batch(counts, self.running_at(cpl), &mut overflow);
        self.compare_cycle(OWN, counts, self.running_at(cpl), &mut overflow);
        overflow.pmis
    }

    /// One clock cycle like [`Pmu::cycle`], asking for the occurrences of each signal in demand.
    pub fn cycle_by(&mut self, cpl: u8, mut occurrences: impl FnMut(Signal) -> u64) -> Pmis {
        let (mut overflow, mut events) = (self.overflow(), [0_u64; MAX_COUNTERS]);
        self.advance_asked(cpl, &mut overflow, |asked, running| {
            let n = occurrences(asked.signal);
            for counter in each(asked.comparing & running) {
                events[counter] = events[counter].saturating_add(n);
            }
            n
        });
        let comparing = self.subscriptions.per_cycle & self.running_at(cpl);
        self.compare_events(OWN, &events, comparing, &mut overflow);
        overflow.pmis
    }

    /// Has the counters that compare the occurrences of each cycle ([`Demand::per_cycle`]) take one, at
    /// privilege level `cpl`. The others are left alone: [`Pmu::advance`] is for them.
    pub fn compare(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        self.compare_cycle(OWN, counts, self.running_at(cpl), &mut overflow);
        overflow.pmis
    }

    /// The same where no cycle passes for what has occurred: only counters take part that count any of it.
    pub fn compare_beyond(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        let comparing = self.running_at(cpl) & self.comparing_any(counts.present());
        self.compare_cycle(OWN, counts, comparing, &mut overflow);
        overflow.pmis
    }

    /// Adds a batch of another hardware thread of the same core, at its privilege level `cpl`. Counters
    /// in thread count mode and those of events without a thread context take part. `nth` says which of the
    /// others it is, below [`SIBLINGS`].
    ///
    /// If [`Pmu::sibling_demand`] says `per_cycle`, it is called for each clock cycle of that thread. An overflow
    /// interrupts this thread, unless [`Pmu::is_core_event`] says otherwise.
    ///
    /// A counter mask compares what each thread does in its cycles by itself, and edge detection the cycles of
    /// one thread with each other: the manual does not say whether the threads are added up before.
    pub fn sibling(&mut self, nth: usize, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        let counters = self.seeing_siblings(cpl);
        self.add_batch(counts, counters, &mut overflow);
        self.compare_cycle(1 + nth, counts, counters, &mut overflow);
        overflow.pmis
    }

    /// Adds a batch of another thread as [`Pmu::sibling`], but that counters with a counter mask or edge
    /// detection do not take part: see [`Pmu::sibling_compare`].
    pub fn sibling_advance(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        let counters = self.seeing_siblings(cpl);
        self.add_batch(counts, counters, &mut overflow);
        overflow.pmis
    }

    /// Has the counters with a counter mask or edge detection that see other threads take a cycle of one:
    /// [`Pmu::sibling`] without the others.
    pub fn sibling_compare(&mut self, nth: usize, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        let counters = self.seeing_siblings(cpl);
        self.compare_cycle(1 + nth, counts, counters, &mut overflow);
        overflow.pmis
    }

    /// The same where no cycle passes for what has occurred: [`Pmu::compare_beyond`] for a sibling's.
    pub fn sibling_compare_beyond(&mut self, nth: usize, counts: &SignalCounts, cpl: u8) -> Pmis {
        let mut overflow = self.overflow();
        let comparing = self.seeing_siblings(cpl) & self.comparing_any(counts.present());
        self.compare_cycle(1 + nth, counts, comparing, &mut overflow);
        overflow.pmis
    }

    /// Whether a counter counts an event without a thread context. Its PMI goes to the thread that
    /// is in execution.
    pub fn is_core_event(&self, counter: usize) -> bool {
        counter < MAX_COUNTERS && self.subscriptions.core_events >> counter & 1 != 0
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
        self.nearest(self.subscriptions.adding[signal.index()])
    }

    /// The least [`Pmu::headroom_of`] of these counters.
    #[inline]
    fn nearest(&self, counters: CounterSet) -> Option<u64> {
        each(counters).map(|counter| self.headroom_of(counter)).min()
    }

    /// The signals that enabled counters add, each with its [`Pmu::headroom`].
    #[inline]
    pub fn headrooms(&self) -> impl Iterator<Item = (Signal, u64)> {
        let asked = self.subscriptions.asked().iter();
        asked.filter_map(|asked| Some((asked.signal, self.nearest(asked.adding)?)))
    }

    /// The counters that add the occurrences of a signal, lowest first.
    pub fn counters_of(&self, signal: Signal) -> impl Iterator<Item = usize> {
        each(self.subscriptions.adding[signal.index()])
    }

    /// Those of them that add what other threads of the core do as well, lowest first.
    pub fn core_wide_counters_of(&self, signal: Signal) -> impl Iterator<Item = usize> {
        each(self.subscriptions.adding[signal.index()] & self.subscriptions.core_wide)
    }

    /// Occurrences after which a counter overflows, of whatever it adds: at least 1.
    ///
    /// # Panics
    ///
    /// If there is no such counter.
    #[inline]
    pub fn headroom_of(&self, counter: usize) -> u64 {
        self.personality.perfctr_mask() - self.registers.perfctr[counter] + 1
    }

    /// The least [`Pmu::headroom_of`] of the enabled counters; None if none is enabled.
    #[inline]
    pub fn nearest_overflow(&self) -> Option<u64> {
        self.nearest(self.subscriptions.enabled)
    }

    /// The least [`Pmu::headroom_of`] of the enabled counters with a counter mask or edge detection, which count a cycle
    /// once at most: none of them overflows in fewer cycles. None if no such counter can count any.
    #[inline]
    pub fn nearest_compared(&self) -> Option<u64> {
        self.nearest(self.subscriptions.per_cycle & !self.subscriptions.standing_still)
    }

    /// A number that changes with each write to a control register, and so whenever what is counted
    /// may have changed. Writes to counters do not change it.
    #[inline]
    pub fn programmings(&self) -> u64 {
        self.programmings
    }

    /// The signals that the enabled counters count. Changes only with [`Pmu::programmings`].
    #[inline]
    pub fn demand(&self) -> &Demand {
        &self.subscriptions.demand
    }

    /// Whether this holds of any signal in demand.
    #[inline]
    pub fn asks_any(&self, mut holds: impl FnMut(Signal) -> bool) -> bool {
        self.subscriptions.asked().iter().any(|asked| holds(asked.signal))
    }

    /// The signals of the core's other threads that the enabled counters count.
    #[inline]
    pub fn sibling_demand(&self) -> &Demand {
        &self.subscriptions.sibling_demand
    }

    /// What the registers hold.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// What a counter is programmed to. None beyond the last.
    pub fn select(&self, counter: usize) -> Option<&Select> {
        self.selects[..self.personality.counters].get(counter)
    }

    /// What a counter was used for since power-up. None beyond the last.
    pub fn counter_stats(&self, counter: usize) -> Option<CounterStats> {
        (counter < self.personality.counters).then(|| self.current_stats_of(counter))
    }

    /// The counters that have overflowed since this was last called, lowest first, whether that asserts an
    /// interrupt or not. For whoever follows a run; no part of the state.
    pub fn take_overflowed(&mut self) -> impl Iterator<Item = usize> + use<> {
        each(core::mem::take(&mut self.overflowed))
    }

    /// What was enabled and does not wholly count: pending or absent (also if only one of several
    /// unit masks is), reserved, with a unit mask that it does not have, or on a counter that cannot
    /// count it.
    pub fn uncounted(&self) -> &UncountedSet {
        &self.uncounted
    }

    #[inline]
    fn running_at(&self, cpl: u8) -> CounterSet {
        self.subscriptions.at_cpl[usize::from(cpl & 3)] & !self.held_back
    }

    /// The counters that see what a sibling does at `cpl`.
    #[inline]
    fn seeing_siblings(&self, cpl: u8) -> CounterSet {
        self.subscriptions.core_wide & self.subscriptions.at_cpl[usize::from(cpl & 3)]
    }

    /// The state before a batch that may overflow counters at one instant.
    #[inline]
    fn overflow(&self) -> Overflow {
        Overflow { pmis: Pmis::NONE, line_is_low: self.registers.global_status == 0 }
    }

    /// `cycles` unhalted clocks passed at `cpl`.
    #[inline]
    fn tick(&mut self, cycles: u64, cpl: u8) {
        self.clocks = self.clocks.wrapping_add(cycles);
        self.ran_at |= u8::from(cycles != 0) << (cpl & 3);
    }

    /// The statistics up to now.
    pub(crate) fn current_stats(&self) -> [CounterStats; MAX_COUNTERS] {
        core::array::from_fn(|counter| self.current_stats_of(counter))
    }

    /// The same of one counter.
    fn current_stats_of(&self, counter: usize) -> CounterStats {
        let mut stats = self.stats[counter].clone();
        if self.subscriptions.enabled >> counter & 1 != 0 {
            stats.pass(self.clocks, self.increments[counter], self.ran_at);
        }
        stats
    }

    /// Adds a batch to those of `counters` that add.
    #[inline]
    fn add_batch(&mut self, counts: &SignalCounts, counters: CounterSet, overflow: &mut Overflow) {
        if counters != 0 {
            for (signal, n) in counts.iter() {
                self.add(self.subscriptions.adding[signal.index()] & counters, n, overflow);
            }
        }
    }

    /// Has those of `counters` with a counter mask or edge detection compare the occurrences `of` one thread in one
    /// cycle.
    #[inline]
    fn compare_cycle(
        &mut self,
        of: usize,
        counts: &SignalCounts,
        counters: CounterSet,
        overflow: &mut Overflow,
    ) {
        let comparing = self.subscriptions.per_cycle & counters;
        if comparing != 0 {
            self.compare_events(of, &self.events(counts, comparing), comparing, overflow);
        }
    }

    /// The counters that compare the occurrences of any of these.
    fn comparing_any(&self, signals: &[Signal]) -> CounterSet {
        let comparing = &self.subscriptions.comparing;
        signals.iter().fold(0, |counters, signal| counters | comparing[signal.index()])
    }

    /// The same of those of `comparing`, each with what it counts of the cycle.
    #[inline]
    fn compare_events(
        &mut self,
        of: usize,
        events: &[u64; MAX_COUNTERS],
        comparing: CounterSet,
        overflow: &mut Overflow,
    ) {
        let holding = self.holding(events, comparing);
        let levels = &mut self.edge_levels[of.min(SIBLINGS)];
        let held = core::mem::replace(levels, *levels & !comparing | holding);
        for counter in each(holding) {
            if !(self.selects[counter].edge && held >> counter & 1 != 0) {
                self.add(1 << counter, 1, overflow);
            }
        }
    }

    /// What each of `comparing` counts of what has occurred.
    #[inline]
    fn events(&self, counts: &SignalCounts, comparing: CounterSet) -> [u64; MAX_COUNTERS] {
        let mut events = [0_u64; MAX_COUNTERS];
        for (signal, n) in counts.iter() {
            for counter in each(self.subscriptions.comparing[signal.index()] & comparing) {
                events[counter] = events[counter].saturating_add(n);
            }
        }
        events
    }

    /// Those of `comparing` whose condition holds in a cycle with these events of each.
    #[inline]
    fn holding(&self, events: &[u64; MAX_COUNTERS], comparing: CounterSet) -> CounterSet {
        let limit = self.personality.max_events_per_cycle;
        each(comparing & !self.subscriptions.standing_still)
            .filter(|&counter| self.selects[counter].condition(events[counter], limit))
            .fold(0, |holding, counter| holding | 1 << counter)
    }

    /// Adds `n` to each of `counters`.
    #[inline]
    fn add(&mut self, counters: CounterSet, n: u64, overflow: &mut Overflow) {
        let mask = self.personality.perfctr_mask();
        for counter in each(counters) {
            // Both terms are below 2^width, and width is below 64.
            let sum = self.registers.perfctr[counter] + (n & mask);
            self.registers.perfctr[counter] = sum & mask;
            self.increments[counter] = self.increments[counter].wrapping_add(n);
            let wraps = (n >> self.personality.width) + (sum >> self.personality.width);
            if wraps != 0 {
                self.raise(counter, wraps, overflow);
            }
        }
    }

    /// A counter wrapped.
    #[cold]
    fn raise(&mut self, counter: usize, wraps: u64, overflow: &mut Overflow) {
        self.overflowed |= 1 << counter;
        let tally = self.stats[counter].current();
        tally.overflows = tally.overflows.wrapping_add(wraps);
        let assertions = match self.personality.pmi {
            PmiRule::EachOverflow => wraps,
            PmiRule::StatusEdge => {
                self.registers.global_status |= 1 << counter;
                u64::from(overflow.line_is_low)
            }
            PmiRule::PinsOnly => 0,
        };
        if assertions != 0 && self.selects[counter].int {
            overflow.line_is_low = false;
            let tally = self.stats[counter].current();
            tally.pmis = tally.pmis.wrapping_add(assertions);
            overflow.pmis.add(counter, u32::try_from(assertions).unwrap_or(u32::MAX));
        }
    }
}

/// The overflows of one instant.
struct Overflow {
    /// What they assert.
    pmis: Pmis,
    /// No status bit was set before, and none of them has asserted the line yet.
    line_is_low: bool,
}
