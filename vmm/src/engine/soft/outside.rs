//! What surrounds a processor of the software engine: devices, MSRs, counters.

use std::collections::VecDeque;

use pmu_model::{CounterSet, MsrAccess, Pmis, Pmu, RdpmcCaller, SignalCounts, Tier};
use x86_cpu::bus::{After, Bus, CpuidResult, Now, Place, RdpmcRequest, Refused, Uncounted};
use x86_cpu::observe::{Accesses, Facts, LastStep};
use x86_cpu::timing::{AlikeSteps, Budget};

use super::cycles::{Compare, Cycles};
use super::open::Open;
use super::quiet::Quiet;
use super::stretch::{CountingContext, Stretch};
use super::vcpu::{Siblings, Vcpu, headroom, one_step, put_off};
use crate::engine::Board;
use crate::msr::{self, MsrSpace};
use crate::platform::MsrBank;
use crate::trace::{Access, Act};

/// All that one processor sees beyond its registers and RAM.
pub(super) struct Outside<'a, 'b> {
    pub(super) id: usize,
    pub(super) board: &'a mut Board,
    pub(super) pmu: &'a mut Pmu,
    pub(super) bank: &'a mut MsrBank,
    pub(super) tsc_offset: &'a mut u64,
    pub(super) siblings: &'a mut Siblings<'b>,
    /// What has yet to be counted.
    pub(super) open: &'a mut Open,
    /// When, of the cycles that are counted next, the step that did what is counted was over.
    pub(super) last_step: LastStep,
    /// The running cycle, for counters that compare the occurrences of each.
    pub(super) cycles: &'a mut Option<Box<Cycles>>,
    /// Virtual time at which the run ends, whatever the counters are set to.
    pub(super) limit: u64,
    /// Number of retired instructions at which the run ends, whatever the counters are set to.
    pub(super) retire_limit: u64,
    /// It is to end behind so many steps as well.
    pub(super) steps_are_bounded: bool,
    /// A buffer that is reused from one stretch to the next; empty between uses.
    pub(super) counts: &'a mut Option<Box<SignalCounts>>,
    /// PMIs on their way to the local APIC: the counts of retired instructions at which they arrive.
    pub(super) late: &'a mut VecDeque<u64>,
    /// Steps that have passed and are counted with what comes.
    pub(super) quiet: Quiet,
    /// The last instruction that was counted has programmed the PMU.
    pub(super) programmed: bool,
    /// The last instruction has programmed the PMU, and what models have yet to tell of it is not for these counters.
    pub(super) programs_still: &'a mut Option<CounterSet>,
    /// Overflows that a WRMSR caused by its own retirement.
    pub(super) overflowed: Pmis,
    /// A counter has overflowed within an instruction that reads or programs one, as what had happened before that was
    /// counted: the run is over behind it.
    pub(super) overflowed_within: bool,
    /// Something was done that others than the processor itself may notice, beside what it did to memory.
    pub(super) acted: bool,
    /// Where the processor is: at the instruction that calls, if it is told that ([`Cpu::tells_place`]); once it has
    /// run, at the next.
    ///
    /// [`Cpu::tells_place`]: x86_cpu::cpu::Cpu::tells_place
    pub(super) place: Place,
}

impl<'t> Outside<'_, 't> {
    fn msrs(&mut self) -> MsrSpace<'_> {
        MsrSpace {
            lapic: self.board.chipset.irq.lapic_mut(self.id),
            pmu: self.pmu,
            bank: self.bank,
            tsc_offset: self.tsc_offset,
        }
    }

    /// Counts the running instruction, which ends at `ends` and is about to program the PMU, by the
    /// programming that it began under. All instructions before it have been counted.
    fn count_programming(&mut self, ends: u64) {
        if let Some(context) = self.open.counted_under() {
            let cycles = ends.saturating_sub(self.open.counted_time);
            let mut stretch = Stretch { observed: None, instructions: 1, cycles, context };
            self.open.counted_instructions += 1;
            let counted = self.count(&mut stretch);
            self.overflowed = counted.with(self.end_cycles());
            self.open.counted_time = ends;
            self.programmed = true;
        }
    }

    /// What an instruction that may have programmed the PMU means for the run. It ends at `ends`, and
    /// before it [`Pmu::programmings`] was `before`.
    fn after_programming(&mut self, before: u64, ends: u64) -> After {
        let live = &self.pmu.personality().live;
        let modelled = self.open.demand.signals.without(live.of(Tier::InstructionSet));
        // What a pipeline is yet to tell of it is not for the counters that it has begun anew.
        let is_told_later = self.open.keeps_time && self.pmu.begun_anew() != 0;
        if self.pmu.programmings() != before
            || !self.overflowed.is_empty()
            || self.overflowed_within
            || !modelled.is_empty()
            || is_told_later
        {
            return After::Leave;
        }
        // Nothing more is told of it, and what happens next in no instruction, as an exception, is not of it.
        self.programmed = false;
        if self.open.counted_under().is_some() {
            After::Within(self.budget(ends))
        } else {
            After::GoOn
        }
    }

    /// How far the run may go from `time` on, up to which everything has been counted.
    fn budget(&self, time: u64) -> Budget {
        let instructions = self.retire_limit.saturating_sub(self.open.counted_instructions);
        let limit = Budget { instructions, ..Budget::until(self.limit) };
        let budget = limit.min(headroom(self.pmu, &self.open.demand, time));
        match self.open.shared {
            true => budget.min(self.siblings.headroom(&self.open.demand, time)),
            false => budget,
        }
    }

    /// The stretch since the counters were last updated.
    fn stretch<'a, 'b>(
        &self,
        uncounted: &'a mut Uncounted<'b>,
        context: CountingContext,
    ) -> Stretch<'a, 'b> {
        let Uncounted { observed, time, retired, alike } = uncounted;
        debug_assert_eq!(*alike, 0, "steps that have passed alike come first");
        let instructions = retired.saturating_sub(self.open.counted_instructions);
        let cycles = time.saturating_sub(self.open.counted_time);
        Stretch { observed: Some(observed), instructions, cycles, context }
    }

    /// Adds a stretch of execution to the PMU.
    fn count(&mut self, stretch: &mut Stretch<'_, '_>) -> Pmis {
        if !self.open.demand.per_cycle && !self.open.shared {
            return self.pmu.advance_by(stretch.context.cpl, |signal| stretch.take(signal));
        }
        if self.open.demand.per_cycle && self.open.keeps_time {
            return self.count_cycles(stretch);
        }
        if self.open.demand.per_cycle {
            return self.count_by_cycles(stretch);
        }
        self.count_at_once(stretch)
    }

    /// Adds a stretch of one instruction to the PMU, whose counters compare the occurrences of each cycle.
    fn count_cycles(&mut self, stretch: &mut Stretch<'_, '_>) -> Pmis {
        let cpl = stretch.context.cpl;
        let counts = self.counts.get_or_insert_default();
        let added = if self.open.shared {
            stretch.fill(counts, &self.open.demand.signals);
            self.pmu.advance(counts, cpl)
        } else {
            self.pmu.advance_beside(cpl, |signal| stretch.take(signal), counts)
        };
        // An instruction may issue in the very cycle up to which its thread's time has passed: no more passes for that.
        let issues = matches!(self.last_step, LastStep::EndsAfter(_))
            && self.cycles.as_ref().is_some_and(|cycles| cycles.wait_for_issue());
        if stretch.instructions == 0 && stretch.cycles == 0 && counts.is_empty() && !issues {
            // The running cycle, if there is one, is over when something else has happened.
            return added;
        }
        let last_step = self.last_step;
        let (mut pmus, cycles, counts) = self.sharing();
        let counts = counts.get_or_insert_default();
        pmus.share(|sibling, _| sibling.sibling_advance(counts, cpl));
        let cycles = cycles.get_or_insert_default();
        let compared = cycles.pass(&mut pmus, cpl, stretch.cycles, last_step, counts);
        counts.clear();
        added.with(compared)
    }

    /// Adds a stretch of one instruction to the PMU, each cycle on its own, where virtual time is flat.
    fn count_by_cycles(&mut self, stretch: &mut Stretch<'_, '_>) -> Pmis {
        let (context, mut pmis) = (stretch.context, Pmis::NONE);
        if stretch.cycles > 1 {
            // An instruction that takes several cycles does what it does in the last of them.
            let mut idle = Stretch { observed: None, instructions: 0, cycles: 1, context };
            idle.fill(self.counts.get_or_insert_default(), &self.open.demand.signals);
            pmis = self.count_cycle(context.cpl, stretch.cycles - 1);
            stretch.cycles = 1;
        }
        // Without a model there is none, and nothing is allocated.
        let levels = stretch.cut_levels(&self.open.demand.signals);
        let counted = if stretch.cycles == 0 {
            stretch.fill(self.counts.get_or_insert_default(), &self.open.demand.signals);
            self.count_beyond(context.cpl, 1)
        } else if self.open.shared {
            self.count_at_once(stretch)
        } else {
            self.pmu.cycle_by(context.cpl, |signal| stretch.take(signal))
        };
        pmis = pmis.with(counted);
        // A state that a model says lasts for cycles is there in each of them. They pass for those that count it alone.
        let mut passed = 0;
        while let Some(next) = levels.iter().map(|&(_, rest)| rest).filter(|&n| n > passed).min() {
            let counts = self.counts.get_or_insert_default();
            let lasting = levels.iter().filter(|&&(_, rest)| rest > passed);
            lasting.for_each(|&(signal, _)| counts.add(signal, 1));
            pmis = pmis.with(self.count_beyond(context.cpl, next - passed));
            passed = next;
        }
        pmis
    }

    /// Adds `counts` to the PMU so often, and at once, though no cycle of the clock passes for it.
    fn count_beyond(&mut self, cpl: u8, times: u64) -> Pmis {
        let mut pmis = Pmis::NONE;
        let (mut pmus, _, counts) = self.sharing();
        let Some(counts) = counts.as_mut().filter(|counts| !counts.is_empty()) else { return pmis };
        if pmus.siblings.count_the_core(pmus.begun) {
            for _ in 0..times {
                let added = pmus.pmu.advance(counts, cpl);
                pmus.share(|sibling, _| sibling.sibling_advance(counts, cpl));
                pmis = pmis.with(added).with(pmus.compare_beyond(counts, cpl));
            }
        } else {
            pmis = pmus.pmu.cycles_beyond(counts, cpl, times);
        }
        counts.clear();
        pmis
    }

    /// Adds a stretch to the PMU: as one cycle if a counter with a threshold, edge detection or
    /// inversion compares the occurrences of each cycle.
    fn count_at_once(&mut self, stretch: &mut Stretch<'_, '_>) -> Pmis {
        stretch.fill(self.counts.get_or_insert_default(), &self.open.demand.signals);
        self.count_cycle(stretch.context.cpl, 1)
    }

    /// Adds `counts` to the PMU; of so many cycles each, where a counter compares those.
    fn count_cycle(&mut self, cpl: u8, cycles: u64) -> Pmis {
        let Some(counts) = self.counts.as_mut().filter(|counts| !counts.is_empty()) else {
            return Pmis::NONE;
        };
        let mut pmis = Pmis::NONE;
        if !self.open.shared {
            pmis = match self.open.demand.per_cycle {
                true => self.pmu.cycles(counts, cpl, cycles),
                false => self.pmu.advance(counts, cpl),
            };
        } else {
            for _ in 0..cycles {
                let counts = self.counts.get_or_insert_default();
                let own = match self.open.demand.per_cycle {
                    true => self.pmu.cycle(counts, cpl),
                    false => self.pmu.advance(counts, cpl),
                };
                pmis = pmis.with(own);
                if let (mut pmus, _, Some(counts)) = self.sharing() {
                    pmus.share(|sibling, nth| sibling.sibling(nth, counts, cpl));
                }
            }
        }
        self.counts.get_or_insert_default().clear();
        pmis
    }

    /// The counters that are told of what has just been counted, and where cycles and counts are put together.
    fn sharing(
        &mut self,
    ) -> (Sharing<'_, 't>, &mut Option<Box<Cycles>>, &mut Option<Box<SignalCounts>>) {
        let pmus = Sharing {
            id: self.id,
            begun: self.open.begun,
            pmu: self.pmu,
            siblings: self.siblings,
            board: self.board,
            place: self.place,
            late: self.late,
            retired: self.open.counted_instructions,
        };
        (pmus, self.cycles, self.counts)
    }

    /// Adds what has been observed to the counters, as [`Bus::update_counters`] has it, and sends the PMIs of what
    /// overflows: which those are.
    fn count_uncounted(&mut self, uncounted: &mut Uncounted<'_>) -> Pmis {
        let Some(context) = self.open.counted_under() else { return Pmis::NONE };
        self.pass_alike(uncounted);
        self.quiet.count(self.pmu);
        let (time, retired) = (uncounted.time, uncounted.retired);
        if std::mem::take(&mut self.programmed) && retired == self.open.counted_instructions {
            *self.programs_still = Some(self.pmu.begun_anew());
        }
        let mut stretch = self.stretch(uncounted, context);
        self.open.counted_instructions = retired;
        self.open.counted_time = time;
        let pmis = match *self.programs_still {
            Some(begun_anew) => self.count_what_programs(&mut stretch, begun_anew),
            None => self.count(&mut stretch),
        };
        self.trace_overflows(pmis);
        if !pmis.is_empty() {
            self.raise(pmis, retired);
        }
        pmis
    }

    /// Those steps are counted with others that have passed alike, without having been asked for.
    #[inline(always)]
    fn pass_alike(&mut self, uncounted: &mut Uncounted<'_>) {
        let steps = std::mem::take(&mut uncounted.alike);
        self.open.counted_time += steps;
        self.open.counted_instructions += self.quiet.pass(steps);
    }

    /// If a step has passed that is counted with others, one in a cycle of its own in which nothing has occurred that they
    /// have not: another budget.
    #[inline(always)]
    fn passes_quietly(&mut self, uncounted: &mut Uncounted<'_>) -> Option<Budget> {
        let context = self.quiet_under()?;
        let (time, retired) = (uncounted.time, uncounted.retired);
        if time >= self.limit || retired >= self.retire_limit || self.board.stops_at_act() {
            return None;
        }
        let iterations = retired == self.open.counted_instructions;
        let more = self.quiet.passes(self.pmu, &mut self.stretch(uncounted, context))?;
        (self.open.counted_time, self.open.counted_instructions) = (time, retired);
        Some(self.one_step(time, retired, more, iterations))
    }

    /// What steps that pass quietly are counted under, if there may be any, and the last has not programmed the PMU.
    #[inline(always)]
    fn quiet_under(&self) -> Option<CountingContext> {
        let is_apart = self.programmed || self.overflowed_within || self.programs_still.is_some();
        self.open.counted_under().filter(|_| self.open.steps_may_be_quiet && !is_apart)
    }

    /// [`Bus::renew_budget`], where what has occurred is counted, whatever it is.
    #[inline(never)]
    fn count_and_renew_budget(
        &mut self,
        mut uncounted: Uncounted<'_>,
        last_step: LastStep,
    ) -> Option<Budget> {
        let (time, retired) = (uncounted.time, uncounted.retired);
        // What was done in no time may be an exception, behind which something waits for the next instruction. And
        // where a core has several threads, the end of a run tells what an instruction has yet to wait for.
        let is_counted_as_a_run = (time, retired)
            == (self.open.counted_time, self.open.counted_instructions)
            || last_step != LastStep::EndsTheCycles;
        // Only what bounds the counters is renewed.
        let is_over = self.steps_are_bounded
            || self.open.shared
            || time >= self.limit
            || retired >= self.retire_limit;
        if is_counted_as_a_run || is_over || self.overflowed_within {
            return None;
        }
        let iterations = retired == self.open.counted_instructions;
        if !self.count_uncounted(&mut uncounted).is_empty() || self.board.stops_at_act() {
            return None;
        }
        let Some(context) = self.quiet_under() else { return Some(self.budget(time)) };
        let most = self.quiet.room(self.pmu, context, !iterations);
        Some(self.one_step(time, retired, most, iterations))
    }

    /// Whether there is nothing that the owner has to do before the run goes on: no interrupt to deliver or to send, and
    /// no device to run before the run ends. Where cores have several threads, others may have to be looked at as well, and
    /// count with this one.
    fn has_nothing_to_do(&self) -> bool {
        let Board { chipset, platform, .. } = &*self.board;
        let arrival = chipset.irq.next_arrival(self.id);
        let is_later = |due: u64| due >= self.limit && due > self.board.latest_device_time();
        platform.threads_per_core == 1
            && !chipset.irq.pending(self.id).any()
            && !chipset.irq.has_sent()
            && arrival.is_none_or(|at| at >= self.limit)
            && !chipset.irq.has_signals()
            && !chipset.has_events()
            && chipset.next_deadline().is_none_or(is_later)
            && !self.board.stops_at_act()
    }

    /// What is counted from here on is counted under what the processor is at now: with which budget, if what was before
    /// leaves nothing to be done.
    fn count_under(&mut self, now: Now, mut uncounted: Uncounted<'_>) -> Option<Budget> {
        let Now { time, cpl, interrupts_enabled } = now;
        // What was done in no time waits for the next instruction.
        let is_any =
            (time, uncounted.retired) != (self.open.counted_time, self.open.counted_instructions);
        let is_over = time >= self.limit || uncounted.retired >= self.retire_limit;
        let is_plain = is_any
            && !is_over
            && !self.steps_are_bounded
            && !self.overflowed_within
            && !self.programmed
            && self.overflowed.is_empty()
            && self.programs_still.is_none();
        if !is_plain || !self.count_uncounted(&mut uncounted).is_empty() {
            return None;
        }
        let facts = uncounted.observed.facts;
        self.open.inner = facts.inner;
        let Accesses { stores, misaligned, .. } = self.open.inner;
        *facts = Facts { stores, misaligned, ..Facts::default() };
        self.open.since = (time, uncounted.retired);
        let context = CountingContext { cpl, masked: !interrupts_enabled, pending: false };
        self.open.context = context;
        self.quiet = Quiet::default();
        Some(self.budget(time))
    }

    /// One step from `time` on, when `retired` instructions have retired, and behind it up to `most` that are alike, as
    /// far as the run may go: `iterations`, or else retired instructions.
    #[inline]
    fn one_step(&self, time: u64, retired: u64, most: u64, iterations: bool) -> Budget {
        let most = most.min(self.limit - time - 1).min(self.retire_limit - retired - 1);
        Budget {
            alike: AlikeSteps { most, iterations, heeded: self.open.heeded },
            ..one_step(time)
        }
    }

    /// Adds to the PMU what an instruction still does that has programmed it, and that its retirement did not tell of:
    /// models tell when it has retired, or issued. It is counted by the programming that it began under, and so not by
    /// the counters that it has begun anew.
    fn count_what_programs(
        &mut self,
        stretch: &mut Stretch<'_, '_>,
        begun_anew: CounterSet,
    ) -> Pmis {
        self.pmu.hold_back(begun_anew);
        let mut after = 0;
        if let LastStep::EndsAfter(before) = self.last_step {
            after = stretch.cycles.saturating_sub(before);
            stretch.cycles -= after;
        }
        let mut pmis = self.count(stretch);
        if self.last_step != LastStep::IsNotOver {
            *self.programs_still = None;
            pmis = pmis.with(self.end_cycles());
        }
        self.pmu.hold_back(0);
        if after != 0 {
            // It is over, and nothing has begun yet.
            self.last_step = LastStep::EndsAfter(0);
            let context = stretch.context;
            let mut idle = Stretch { observed: None, instructions: 0, cycles: after, context };
            pmis = pmis.with(self.count(&mut idle));
        }
        pmis
    }

    /// What follows is counted otherwise: the running cycle is over.
    fn end_cycles(&mut self) -> Pmis {
        if !self.open.keeps_time {
            return Pmis::NONE;
        }
        let (mut pmus, cycles, _) = self.sharing();
        cycles.as_mut().map_or(Pmis::NONE, |cycles| cycles.end(&mut pmus))
    }

    /// RDMSR, untraced.
    fn read_msr(
        &mut self,
        time: u64,
        index: u32,
        edi: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused> {
        match (uncounted, self.open.counted_under()) {
            // As for RDPMC.
            (Some(mut uncounted), Some(context)) if !self.open.demand.per_cycle => {
                let mut stretch = self.stretch(&mut uncounted, context);
                match self.pmu.read_msr_with(index, |signal| stretch.look(signal)) {
                    MsrAccess::Done(value) => return Ok(value),
                    MsrAccess::GpFault => return Err(Refused),
                    MsrAccess::NotOurs => {}
                }
            }
            (Some(uncounted), _) => self.update_counters(uncounted),
            (None, _) => {}
        }
        self.msrs().read(time, index, edi)
    }

    /// WRMSR, untraced.
    fn write_msr(
        &mut self,
        time: u64,
        ends: u64,
        index: u32,
        value: u64,
        edi: u32,
        mut uncounted: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        // What is written may be nothing that all this has to be counted before.
        if let Some(uncounted) = &mut uncounted {
            self.pass_alike(uncounted);
        }
        if let Some(written) = self.pmu.write_idle_counter(index, value) {
            return if written == MsrAccess::Done(()) { Ok(After::GoOn) } else { Err(Refused) };
        }
        if self.pmu.judge_write(index, value) == MsrAccess::Done(()) {
            if let Some(uncounted) = uncounted {
                self.update_counters(uncounted);
            }
            let before = self.pmu.programmings();
            self.count_programming(ends);
            self.msrs().write(time, index, value, edi)?;
            return Ok(self.after_programming(before, ends));
        }
        self.msrs().write(time, index, value, edi)?;
        if index == msr::TSC {
            // The threads of a core share one time-stamp counter.
            let offset = *self.tsc_offset;
            self.siblings.iter_mut().for_each(|sibling| sibling.tsc_offset = offset);
        }
        Ok(if index == msr::APIC_BASE { After::DevicesMoved } else { After::Leave })
    }

    /// Sends the PMIs of overflows to the local APIC, with the configured skid.
    pub(super) fn raise(&mut self, pmis: Pmis, retired: u64) {
        if !pmis.is_empty() {
            self.acted = true;
            raise(pmis, self.board, self.id, self.place, self.late, retired);
        }
    }
}

/// Sends the PMIs of overflows on a processor to its local APIC, with the configured skid.
#[cold]
pub(super) fn raise(
    pmis: Pmis,
    board: &mut Board,
    id: usize,
    place: Place,
    late: &mut VecDeque<u64>,
    retired: u64,
) {
    // The local APIC latches one PMI, so that each further one is sent an instruction later, when
    // the one before it is in service.
    for (nth, _) in (0..).zip(pmis.iter()) {
        match board.skid.saturating_add(nth) {
            0 => board.assert_pmi(id, place),
            later => put_off(late, retired.saturating_add(later)),
        }
    }
}

/// A processor's counters, and those of its siblings that see what it does.
struct Sharing<'a, 'b> {
    id: usize,
    /// When its run began.
    begun: u64,
    pmu: &'a mut Pmu,
    siblings: &'a mut Siblings<'b>,
    board: &'a mut Board,
    /// Where the processor is.
    place: Place,
    /// Its PMIs that are on their way.
    late: &'a mut VecDeque<u64>,
    /// Instructions that it has retired, with the last of those that are counted.
    retired: u64,
}

impl Sharing<'_, '_> {
    /// Has each sibling told that counts it, and sends the PMIs of what overflows by that: with the configured skid
    /// to the processor itself, to the sibling by way of [`Vcpu::receive`]. The processor is told as which of the
    /// sibling's own siblings.
    fn share(&mut self, mut tell: impl FnMut(&mut Pmu, usize) -> Pmis) {
        for (sibling, nth) in self.siblings.iter_with_nth() {
            if !sibling.counts_others_at(self.begun) {
                continue;
            }
            let pmis = tell(&mut sibling.pmu, nth);
            let place = Place { time: self.place.time, ..sibling.cpu.place() };
            if let Some(tracer) = &mut self.board.tracer {
                for act in Act::overflows(&mut sibling.pmu, pmis) {
                    tracer.report(sibling.id, place, act);
                }
            }
            let skid = self.board.skid;
            for counter in pmis.iter() {
                let is_core_event = sibling.pmu.is_core_event(counter);
                if is_core_event && skid != 0 {
                    put_off(self.late, self.retired.saturating_add(skid));
                } else if is_core_event {
                    self.board.assert_pmi(self.id, self.place);
                } else if let Some(outcome) = self.board.chipset.irq.pmi_from_sibling(sibling.id) {
                    self.board.trace_pmi(sibling.id, place, outcome);
                }
            }
        }
    }
}

impl Compare for Sharing<'_, '_> {
    fn compare(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        if !self.siblings.count_the_core(self.begun) {
            return self.pmu.compare_cycles(counts, cpl, cycles);
        }
        // What overflows in one cycle is sent before what does in the next.
        let is_far = |sibling: &Vcpu| sibling.pmu.nearest_compared().is_none_or(|n| n > cycles);
        if self.siblings.iter().all(is_far) {
            self.share(|sibling, nth| sibling.sibling_compare_cycles(nth, counts, cpl, cycles));
        } else {
            for _ in 0..cycles {
                self.share(|sibling, nth| sibling.sibling_compare(nth, counts, cpl));
            }
        }
        self.pmu.compare_cycles(counts, cpl, cycles)
    }

    fn compare_beyond(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        if self.siblings.count_the_core(self.begun) {
            self.share(|sibling, nth| sibling.sibling_compare_beyond(nth, counts, cpl));
        }
        self.pmu.compare_beyond(counts, cpl)
    }

    fn most_per_cycle(&self) -> u64 {
        self.pmu.most_per_cycle()
    }
}

/// An operand size in bytes as the devices take it.
fn bytes(size: usize) -> u8 {
    u8::try_from(size).unwrap_or(8)
}

impl Bus for Outside<'_, '_> {
    fn at(&mut self, place: Place) {
        self.place = place;
    }

    fn refused_above_cpl0(&mut self, index: u32, written: Option<u64>) {
        if let Some(access) = self.msr_access(index, written) {
            self.trace_msr(access, Err(Access::RefusedAboveCpl0));
        }
    }

    fn claims(&self, gpa: u64) -> bool {
        self.board.chipset.claims_mmio(self.id, gpa)
    }

    fn mmio_read(&mut self, time: u64, gpa: u64, size: usize) -> u64 {
        self.acted = true;
        self.board.read_mmio(self.id, time, gpa, bytes(size))
    }

    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64) {
        self.acted = true;
        if let Some(access) = self.board.write_mmio(self.id, time, gpa, bytes(size), value) {
            access.trace(self.board, self.id, self.place.into());
        }
    }

    fn io_read(&mut self, time: u64, port: u16, size: usize) -> u32 {
        self.acted = true;
        self.board.read_port(time, port, bytes(size))
    }

    fn io_write(&mut self, time: u64, port: u16, size: usize, value: u32) {
        self.acted = true;
        self.board.write_port(time, port, bytes(size), value);
    }

    fn rdmsr(
        &mut self,
        time: u64,
        index: u32,
        edi: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused> {
        self.acted = true;
        let access = self.msr_access(index, None);
        let value = self.read_msr(time, index, edi, uncounted);
        if let Some(access) = access {
            self.trace_msr(access, value.map_err(|_| Access::Refused));
        }
        value
    }

    fn wrmsr(
        &mut self,
        time: u64,
        ends: u64,
        index: u32,
        value: u64,
        edi: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        self.acted = true;
        let access = self.msr_access(index, Some(value));
        let written = self.write_msr(time, ends, index, value, edi, uncounted);
        if let Some(access) = access {
            self.trace_msr(access, written.map(|_| value).map_err(|_| Access::Refused));
        }
        written
    }

    fn rdpmc(
        &mut self,
        request: RdpmcRequest,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused> {
        let RdpmcRequest { index, cpl, pce, real_mode, code_16bit } = request;
        let caller = RdpmcCaller { cpl, pce, real_mode, code_16bit };
        let value = match (uncounted, self.open.counted_under()) {
            // One counter is read. Only what it counts is looked at; the facts stay for the others.
            (Some(mut uncounted), Some(context)) if !self.open.demand.per_cycle => {
                let mut stretch = self.stretch(&mut uncounted, context);
                self.pmu.rdpmc_with(index, caller, |signal| stretch.look(signal))
            }
            (Some(uncounted), _) => {
                self.update_counters(uncounted);
                self.pmu.rdpmc(index, caller)
            }
            (None, _) => self.pmu.rdpmc(index, caller),
        };
        if self.board.tracer.is_some() {
            self.trace_rdpmc(index, value.ok());
        }
        value.map_err(|_| Refused)
    }

    fn spflt(&mut self, ends: u64, enabled: bool) -> After {
        self.acted = true;
        let before = self.pmu.programmings();
        self.count_programming(ends);
        self.pmu.set_user_preference(enabled);
        self.board.trace(self.id, self.place, Act::Spflt { preference: enabled });
        self.after_programming(before, ends)
    }

    fn update_counters(&mut self, mut uncounted: Uncounted<'_>) {
        self.overflowed_within |= !self.count_uncounted(&mut uncounted).is_empty();
    }

    fn renew_budget(
        &mut self,
        mut uncounted: Uncounted<'_>,
        last_step: LastStep,
    ) -> Option<Budget> {
        self.pass_alike(&mut uncounted);
        if let Some(budget) = self.passes_quietly(&mut uncounted) {
            return Some(budget);
        }
        self.count_and_renew_budget(uncounted, last_step)
    }

    fn look(&mut self, now: Now, mut uncounted: Option<Uncounted<'_>>) -> After {
        if let Some(uncounted) = &mut uncounted {
            self.pass_alike(uncounted);
        }
        match uncounted {
            _ if !self.has_nothing_to_do() => After::Leave,
            Some(uncounted) if self.open.counted_under().is_some() => {
                self.count_under(now, uncounted).map_or(After::Leave, After::Within)
            }
            _ => After::GoOn,
        }
    }

    fn cpuid(&mut self, leaf: u32, subleaf: u32) -> CpuidResult {
        let result = self.board.cpuid(self.id, self.bank, leaf, subleaf);
        CpuidResult { eax: result.eax, ebx: result.ebx, ecx: result.ecx, edx: result.edx }
    }

    fn tsc(&mut self, time: u64) -> u64 {
        time.wrapping_add(*self.tsc_offset)
    }

    fn cr8(&mut self) -> u8 {
        self.board.chipset.irq.lapic(self.id).cr8()
    }

    fn set_cr8(&mut self, time: u64, value: u8) {
        self.acted = true;
        self.board.set_cr8(self.id, time, value);
    }

    fn ferr(&mut self) {
        self.acted = true;
        self.board.chipset.assert_ferr();
    }
}
