//! Threads of a core that take turns instruction by instruction, as long as nothing else has to be looked at.
//!
//! [`Soft::run`] ends where the next instruction of a core is another thread's. Who that is depends on who is awake, on
//! what devices have to do and on what is in transit, and mostly nothing of it has changed behind an instruction: it
//! has computed something, or accessed memory. So one look at all of it says whether and until when it does not matter
//! ([`Undisturbed`]). Until then, or until an instruction does anything beyond registers and memory
//! ([`super::outside::Outside::acted`]), the threads run one after the other, each as [`Soft::run`] would have run it,
//! and in the same order: that of the model of the core.
//!
//! What is executed in a turn is counted at its end where a counter is near an overflow; else it stays open
//! ([`Open`]), and is counted with that of the thread's other turns. Of those, most are a step ([`Steps`]): an instruction
//! that can reach nothing beyond registers and memory, so that nothing of what surrounds a run has to be there for it. A
//! thread that has the core for itself takes steps as well.
//!
//! Where a counter compares the occurrences of each cycle, each instruction is looked at. Where one counts what all
//! threads do, and nothing is near an overflow, it does not matter when their time passes as long as nobody reads it: they
//! go in step again where they end that, and before an instruction that reads or programs counters.

use uarch::pipeline::in_order::multithreaded::THREADS;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::Cx;
use x86_cpu::ram::Ram;
use x86_cpu::run::Exit;
use x86_cpu::timing::Budget;

use self::steps::{Steps, StepsEnd};
use super::model::Modelling;
use super::model::interleaved::Counted;
use super::outside::raise;
use super::stretch::CountingContext;
use super::vcpu::{Siblings, Vcpu, headroom};
use super::{Open, Running, STRIDE, Soft, Timing, UNLIMITED, observed_from};
use crate::engine::{Board, Limit, Outcome};
use crate::irq::Pending;
use crate::processor_set::ProcessorSet;
use crate::stop::Stop;
use crate::turns::QUANTUM;

mod steps;
#[cfg(test)]
mod tests;

/// A counter that is further from its overflow does not overflow in a run, of [`STRIDE`] cycles and an instruction:
/// nothing occurs so often in them. What occurs most is cycles in which a bus is busy, hundreds for each of the
/// accesses of which nobody waits for the end.
const FAR: u64 = 1 << 24;

/// The same of a counter of all threads of a core, and of all that these do in a slice.
const FAR_FOR_ALL: u64 = THREADS as u64 * QUANTUM.div_ceil(STRIDE) * FAR;

/// The threads of a core each execute, or sleep and are stirred by nothing.
#[derive(Clone, Copy, Debug)]
struct Undisturbed {
    /// Up to when, if none of them does anything beyond registers and memory.
    until: u64,
    threads_per_core: usize,
    /// A counter of one of them counts what all do: they go in step otherwise.
    counts_all: bool,
}

impl Soft {
    /// Runs processor `id` as [`Self::run`] does; or, as far as nothing comes between, it and those of these threads
    /// of its core whose turns come next, which retire as many instructions in all as the limit says. `id` is the one
    /// that ran last, and the outcome is its own.
    pub(crate) fn run_core(
        &mut self,
        vcpus: &mut [Vcpu],
        id: &mut usize,
        board: &mut Board,
        ram: &Ram,
        threads: ProcessorSet,
        mut limit: Limit,
    ) -> Outcome {
        let undisturbed = self.undisturbed(vcpus, *id, board, threads, limit);
        if let Some(undisturbed) = undisturbed
            && let Some(outcome) = self.take_turns(vcpus, id, board, ram, undisturbed, &mut limit)
        {
            return outcome;
        }
        self.run(vcpus, *id, board, ram, limit)
    }

    /// Whether nothing but what the threads of a core execute says which of them executes next: until when.
    fn undisturbed(
        &mut self,
        vcpus: &[Vcpu],
        id: usize,
        board: &Board,
        threads: ProcessorSet,
        limit: Limit,
    ) -> Option<Undisturbed> {
        let Board { chipset, platform, .. } = board;
        let deadline = chipset.next_deadline().unwrap_or(u64::MAX);
        let is_quiet = !self.looks_at_each
            && self.timing != Timing::Flat
            && self.recording.is_none()
            && board.tracer.is_none()
            && !limit.counted
            && chipset.irq.first_arrival().is_none()
            && chipset.irq.stirred().is_empty()
            && !chipset.irq.has_signals()
            && !chipset.has_events()
            && deadline > board.latest_device_time()
            && self.interleaves();
        if !is_quiet {
            return None;
        }
        let threads_per_core = usize::from(platform.threads_per_core);
        let (core, _, first) = self.modelling.as_mut()?.core_of(id)?;
        let last = (first + threads_per_core).min(vcpus.len());
        let of_core = &vcpus[first..last];
        let running = of_core.iter().filter(|vcpu| core.runs(vcpu.id - first));
        let least = running.map(|vcpu| vcpu.cpu.time).min().unwrap_or(0);
        let counts_all = of_core.iter().any(Vcpu::counts_the_core);
        let is_undisturbed = |vcpu: &Vcpu| {
            let thread = vcpu.id - first;
            vcpu.needs_no_steps(least)
                && match core.runs(thread) {
                    true => threads.contains(vcpu.id) && vcpu.only_executes(board),
                    false => !core.holds(thread) && vcpu.next_turn(board).is_none(),
                }
        };
        let all_are = core.is_in_step() == counts_all && of_core.iter().all(is_undisturbed);
        let until = limit.time.min(deadline);
        all_are.then_some(Undisturbed { until, threads_per_core, counts_all })
    }

    /// Runs threads in the order in which their turns come, as long as they are undisturbed. `None` if processor `id`
    /// is to go on as by [`Self::run`]; what has retired until then is taken from the limit.
    fn take_turns(
        &mut self,
        vcpus: &mut [Vcpu],
        id: &mut usize,
        board: &mut Board,
        ram: &Ram,
        undisturbed: Undisturbed,
        limit: &mut Limit,
    ) -> Option<Outcome> {
        let Undisturbed { until, threads_per_core, counts_all } = undisturbed;
        let mut modelling = self.modelling.take()?;
        modelling.begin_turns(*id);
        let mut turns = [Turns::Counted; THREADS];
        let (mut outcome, mut ended) = (None, None);
        while let Some((next, due)) = modelling.next_turn(*id) {
            let Some((vcpu, mut siblings)) = Siblings::split(vcpus, next, threads_per_core) else {
                break;
            };
            let is_over = limit.instructions == 0
                || vcpu.cpu.time.max(due) >= until
                || self.stop.as_ref().is_some_and(Stop::is_requested)
                || vcpu.cpu.has_watch_hit()
                || vcpu.cpu.stops_here();
            // The first is the one that was asked for, unless that one only waits.
            if is_over || outcome.is_none() && next != *id {
                break;
            }
            let (thread, before) = (next % threads_per_core, vcpu.cpu.retired());
            let budget = Budget { instructions: limit.instructions, ..Budget::until(until) };
            vcpu.cpu.leaves_at_pause = limit.at_pause;
            let mut running = Running { vcpu: &mut *vcpu, siblings: &mut siblings, board, ram };
            let turn = Turn { from: due, limit: budget, counts_all };
            turns[thread].end_stride(&mut modelling, &mut running);
            let begun = match turn.begin(&mut modelling, running, &mut turns[thread]) {
                Ok(begun) => begun,
                Err(NotTaken::LooksAtOthers) => break,
                Err(NotTaken::Overflowed) => {
                    (*id, outcome) = (next, None);
                    break;
                }
            };
            if begun.is_none() && !counts_all {
                let (of_core, most) = (&mut vcpus[next - thread..], limit.instructions);
                let steps = Steps { of_core, turns: &turns, board, ram, until, most };
                let taken = steps.take(&mut modelling, next, due);
                #[cfg(test)]
                tests::note(|ends| ends.steps += taken.retired);
                limit.instructions -= taken.retired;
                if let Some(last) = taken.last {
                    (*id, outcome) = (last, Some(Outcome::HandsOver));
                    match taken.end {
                        StepsEnd::TakesMore => continue,
                        StepsEnd::NobodyIsNext => break,
                        StepsEnd::Leaves => {
                            ended = Some((Exit::Leave, vcpus[last].cpu.time, due));
                            break;
                        }
                    }
                }
            }
            let Some((vcpu, mut siblings)) = Siblings::split(vcpus, next, threads_per_core) else {
                break;
            };
            let running = Running { vcpu: &mut *vcpu, siblings: &mut siblings, board, ram };
            let (exit, acted) = match begun {
                Some(ran) => ran,
                None => turn.go_on(&mut modelling, running, &mut turns[thread]),
            };
            *id = next;
            limit.instructions = limit.instructions.saturating_sub(vcpu.cpu.retired() - before);
            // Of one block, the next one may be the same thread's.
            let goes_on = !acted
                && (modelling.hands_over() || begun.is_none() && exit == Exit::Deadline)
                && matches!(exit, Exit::Leave | Exit::Deadline)
                && !vcpu.is_held_up();
            #[cfg(test)]
            tests::note(|ends| ends.sums += u32::from(counts_all));
            #[cfg(test)]
            tests::note_end(exit, acted, vcpu.is_held_up(), goes_on);
            if !goes_on {
                ended = Some((exit, vcpu.cpu.time, due));
                break;
            }
            outcome = Some(Outcome::HandsOver);
        }
        for (id, turns) in board.platform.core_of(*id).iter().zip(&mut turns) {
            if let Some((vcpu, mut siblings)) = Siblings::split(vcpus, id, threads_per_core) {
                let siblings = &mut siblings;
                turns.close(&mut modelling, Running { vcpu, siblings, board, ram });
            }
        }
        modelling.end_turns();
        self.modelling = Some(modelling);
        // Before time passes for any other thread.
        let sent =
            ended.map(|(_, time, _)| board.chipset.irq.depart(time, board.platform.ipi_latency));
        if counts_all {
            self.tell_issues(vcpus, *id, board, ram);
        }
        let (Some((exit, _, due)), Some(sent)) = (ended, sent) else { return outcome };
        if counts_all && exit == Exit::Shutdown {
            self.catch_up(vcpus, *id, board, ram, due);
        }
        self.end_turns(vcpus, *id, board, ram, exit, sent, *limit)
    }

    /// Counts of the threads of the core of processor `id` that their last instructions have issued, which was not told yet.
    fn tell_issues(&mut self, vcpus: &mut [Vcpu], id: usize, board: &mut Board, ram: &Ram) {
        for id in board.platform.core_of(id).iter() {
            let core = self.modelling.as_mut().and_then(|modelling| modelling.core_of(id));
            let issued = core.and_then(|(core, _, first)| core.issued(id - first));
            if let Some(cycle) = issued {
                self.wait(vcpus, id, board, ram, cycle);
            }
        }
    }

    /// Time passes for the threads of a core that execute, but for processor `id`, up to this cycle.
    #[cold]
    fn catch_up(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        until: u64,
    ) {
        for other in board.platform.core_of(id).iter().filter(|&other| other != id) {
            let core = self.modelling.as_mut().and_then(|modelling| modelling.core_of(other));
            if core.is_some_and(|(core, _, first)| core.runs(other - first)) {
                self.wait(vcpus, other, board, ram, until);
            }
        }
    }

    /// [`Self::wait_until`] a cycle, where only the counters of the thread itself count that, and nobody is told of it:
    /// whether it is so.
    pub(super) fn waits_simply(&mut self, running: &mut Running<'_, '_>, until: u64) -> bool {
        let Running { vcpu, siblings, board, .. } = running;
        let is_simple = !self.looks_at_each
            && self.recording.is_none()
            && board.tracer.is_none()
            && vcpu.is_counted_simply()
            && !siblings.count_the_core(vcpu.cpu.time)
            && self.interleaves();
        let Some(modelling) = self.modelling.as_mut().filter(|_| is_simple) else { return false };
        modelling.begin_turns(vcpu.id);
        let demand = *vcpu.pmu.demand();
        let pmis = modelling.wait(vcpu, &demand, until, Counted::AtOnce);
        let (place, retired) = (vcpu.cpu.place(), vcpu.cpu.retired());
        raise(pmis, board, vcpu.id, place, &mut vcpu.late, retired);
        true
    }

    /// The turn of processor `id` ended so, and whether it has `sent` an interrupt. `None` if it is to go on.
    fn end_turns(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        exit: Exit,
        sent: bool,
        limit: Limit,
    ) -> Option<Outcome> {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        let (vcpu, siblings) = Siblings::split(vcpus, id, threads_per_core)?;
        let time = vcpu.cpu.time;
        let outcome = match exit {
            Exit::Shutdown => Outcome::Shutdown,
            Exit::Pause => Outcome::Yielded,
            _ if sent && limit.at_send => Outcome::Yielded,
            _ if sent || self.hands_over() || self.goes_in_step(vcpu, &siblings) => {
                Outcome::HandsOver
            }
            // What a device does, or has done at once, may wake another thread.
            _ if time < limit.time && board.is_due(time + 1) => Outcome::HandsOver,
            _ if !board.chipset.irq.stirred().is_empty() => Outcome::HandsOver,
            _ => return None,
        };
        self.look_at(vcpu);
        siblings.iter().for_each(|sibling| self.look_at(sibling));
        self.notice_in_step(vcpus, id, board, ram);
        Some(outcome)
    }
}

impl Vcpu {
    /// Whether it executes, and nothing else comes between its instructions.
    fn only_executes(&self, board: &Board) -> bool {
        !self.waits_for_startup
            && !self.is_held_up()
            && !board.chipset.irq.pending(self.id).any()
            && self.is_counted_simply()
    }

    /// When the time is counted that passes before its next instruction.
    fn counts_its_wait(&self) -> Counted {
        let context = self.counting_context(Pending::default());
        match self.is_far_from_overflow() && self.counted_under == Some(context) {
            true => Counted::WithWhatFollows,
            false => Counted::AtOnce,
        }
    }

    /// Whether no counter of its that counts what all threads of the core do from this time on has to know of it in the
    /// cycle in which it is done.
    fn needs_no_steps(&self, time: u64) -> bool {
        let is_far = || self.pmu.nearest_overflow().is_none_or(|nearest| nearest > FAR_FOR_ALL);
        !self.counts_the_core()
            || self.counts_others_at(time) && !self.pmu.sibling_demand().per_cycle && is_far()
    }

    /// Whether none of its counters overflows by what happens in a run.
    fn is_far_from_overflow(&self) -> bool {
        self.pmu.nearest_overflow().is_none_or(|nearest| nearest > FAR)
    }

    /// Whether HLT or DELAY keeps it from executing.
    fn is_held_up(&self) -> bool {
        self.cpu.halted || self.cpu.delayed_until() > self.cpu.time
    }

    /// Whether its own counters take what it does whenever it is told, and nothing is on its way that they have to do
    /// with.
    fn is_counted_simply(&self) -> bool {
        let demand = self.pmu.demand();
        self.late.is_empty()
            && self.programs_still.is_none()
            && !demand.per_cycle
            && (!demand.counting || self.counted_under.is_some())
    }
}

/// What has been counted of the turns of a thread.
#[derive(Clone, Copy)]
enum Turns {
    /// All of it.
    Counted,
    /// Nothing since then, as nothing is near an overflow by what happens up to this time, and in an instruction more.
    Open { open: Open, until: u64 },
}

impl Turns {
    /// What may be near an overflow is looked at anew in each stride.
    #[inline]
    fn end_stride(&mut self, modelling: &mut Modelling, running: &mut Running<'_, '_>) {
        if matches!(*self, Self::Open { until, .. } if running.vcpu.cpu.time >= until) {
            let Running { vcpu, siblings, board, ram } = running;
            self.close(modelling, Running { vcpu, siblings, board, ram });
        }
    }

    /// Counts what has not been counted, up to the end of the last turn.
    #[inline(never)]
    fn close(&mut self, modelling: &mut Modelling, running: Running<'_, '_>) {
        let Self::Open { mut open, .. } = std::mem::replace(self, Self::Counted) else { return };
        let id = running.vcpu.id;
        let later = modelling.begin_to_close(running.vcpu);
        let observer = modelling.observer.lend();
        let (nothing, closed) = (|_: &mut Cpu, _: &mut Cx<'_, _>| (), |_: &(), _, _: &Cpu| false);
        let ((), observer, acted, _) =
            observed_from(&mut open, running, UNLIMITED, observer, nothing, closed);
        debug_assert!(!acted, "nothing is near an overflow");
        modelling.observer.take_back(observer);
        modelling.end_closing(id, later);
    }
}

impl CountingContext {
    /// Whether what was executed under it needs not be counted yet: its turn ended so, it did nothing that others may
    /// notice, and goes on under it.
    fn stays_open(self, exit: Exit, acted: bool, cpu: &Cpu) -> bool {
        !acted && matches!(exit, Exit::Leave | Exit::Deadline) && self.is_that_of(cpu)
    }
}

/// Why a thread has not taken its turn.
enum NotTaken {
    /// The time of all others has to pass before.
    LooksAtOthers,
    /// A counter has overflowed as time passed for it.
    Overflowed,
}

/// What a thread does until another one's turn comes, or anything has to be looked at.
struct Turn {
    /// Its time has passed up to here.
    from: u64,
    limit: Budget,
    /// A counter of one of the threads counts what all do.
    counts_all: bool,
}

impl Turn {
    /// Begins it: what is executed in it is open then. If it may not be, all of it is executed: why it ended, and whether
    /// the thread did anything beyond registers and memory.
    #[inline]
    fn begin(
        &self,
        modelling: &mut Modelling,
        running: Running<'_, '_>,
        turns: &mut Turns,
    ) -> Result<Option<(Exit, bool)>, NotTaken> {
        let counted = match turns {
            Turns::Open { .. } => Counted::WithWhatFollows,
            Turns::Counted => running.vcpu.counts_its_wait(),
        };
        let is_looked_at = self.counts_all
            && (counted == Counted::AtOnce
                || modelling.may_access_counters(running.vcpu, running.ram));
        if is_looked_at {
            return Err(NotTaken::LooksAtOthers);
        }
        running.vcpu.cpu.interrupt_waits = false;
        match turns {
            Turns::Open { .. } => Ok(None),
            Turns::Counted => self.open(modelling, running, turns, counted),
        }
    }

    /// The same where all has been counted until then.
    #[inline(never)]
    fn open(
        &self,
        modelling: &mut Modelling,
        running: Running<'_, '_>,
        turns: &mut Turns,
        counted: Counted,
    ) -> Result<Option<(Exit, bool)>, NotTaken> {
        let Self { from, limit, counts_all } = *self;
        let Running { vcpu, siblings, board, ram } = running;
        let begun = vcpu.cpu.time;
        let demand = match counts_all {
            true => siblings.demand(begun).with(vcpu.pmu.demand()),
            false => *vcpu.pmu.demand(),
        };
        let pmis = modelling.wait(vcpu, &demand, from, counted);
        if !pmis.is_empty() {
            let (place, retired) = (vcpu.cpu.place(), vcpu.cpu.retired());
            raise(pmis, board, vcpu.id, place, &mut vcpu.late, retired);
            #[cfg(test)]
            tests::note(|ends| ends.overflowed += 1);
            return Err(NotTaken::Overflowed);
        }
        let since = if counted == Counted::WithWhatFollows { begun } else { vcpu.cpu.time };
        let stride = (vcpu.cpu.time / STRIDE + 1).saturating_mul(STRIDE);
        let budget = limit.min(Budget::until(stride));
        let is_far = vcpu.is_far_from_overflow();
        vcpu.observe(&demand);
        modelling.begin_turn(vcpu, board, !is_far);
        let (mut observer, timed) = (modelling.observer.lend(), &mut *modelling.timed);
        let pending = Pending::default();
        let mut open = Open::new(vcpu, siblings, &demand, since, pending, false, &mut observer);
        if is_far {
            modelling.observer.take_back(observer);
            *turns = Turns::Open { open, until: stride };
            return Ok(None);
        }
        let within = budget.min(headroom(&vcpu.pmu, &demand, vcpu.cpu.time));
        let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
        let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| cpu.run(cx, timed, within);
        let (exit, observer, acted, _) =
            observed_from(&mut open, running, budget, observer, act, |_, _, _| false);
        modelling.observer.take_back(observer);
        modelling.end_turn(vcpu, false);
        Ok(Some((exit, acted)))
    }

    /// Goes on with what is open: why it ended, and whether the thread did anything beyond registers and memory.
    #[inline(never)]
    fn go_on(
        self,
        modelling: &mut Modelling,
        running: Running<'_, '_>,
        turns: &mut Turns,
    ) -> (Exit, bool) {
        let Running { vcpu, siblings, board, ram } = running;
        let Turns::Open { open, until } = turns else { return (Exit::Deadline, false) };
        modelling.go_on_with_turns(vcpu, &open.demand, self.from);
        let budget = self.limit.min(Budget::until(*until));
        let (observer, timed) = (modelling.observer.lend(), &mut *modelling.timed);
        let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
        let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| {
            let exit = cpu.run_block(cx, timed, budget);
            exit.unwrap_or_else(|| cpu.run(cx, timed, budget))
        };
        let context = open.context;
        let stays_open =
            |exit: &Exit, acted: bool, cpu: &Cpu| context.stays_open(*exit, acted, cpu);
        let (exit, observer, acted, is_open) =
            observed_from(open, running, budget, observer, act, stays_open);
        modelling.observer.take_back(observer);
        modelling.end_turn(vcpu, is_open);
        #[cfg(test)]
        tests::note(|ends| ends.far += 1);
        if !is_open {
            *turns = Turns::Counted;
        }
        (exit, acted)
    }
}
