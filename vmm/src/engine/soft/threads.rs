//! Which hardware thread of a core executes next, where a core of several threads keeps the time.
//!
//! While anything is counted that the threads of a core share, they execute instruction by instruction in the
//! order that the model of the core asks for ([`super::model`]). Time that passes for a thread without an
//! instruction of its own, since others had their turns, passes when it is known. Where a counter counts what
//! all threads do, they go in step: time passes for all up to the cycle of what the core does next, and an
//! overflow is found in the cycle in which it happens, so that who sleeps is woken in that one.

use pmu_model::{Demand, Pmu};
use x86_cpu::block::Translations;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Cx, Observer};
use x86_cpu::ram::Ram;

use super::model::{Modelling, Step};
use super::vcpu::{Siblings, Vcpu, begin_to_count, headroom};
use super::{Act, Recording, Running, Soft, Timing, UNLIMITED};
use crate::engine::Board;
use crate::irq::Pending;
use crate::processor_set::ProcessorSet;

/// What a core has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A thread runs.
    Runs(NextThread),
    /// Time passes for one that executes nothing by then ([`Soft::wait`]).
    Waits(NextThread),
}

/// A thread that has to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextThread {
    /// The processor.
    pub(crate) id: usize,
    /// How far, if no other thread's turn comes before.
    pub(crate) until: u64,
}

impl Soft {
    /// Whether the threads of a core take turns instruction by instruction.
    pub(crate) fn interleaves(&self) -> bool {
        self.modelling.as_ref().filter(|modelling| modelling.is_multithreaded()).is_some_and(
            |modelling| {
                let (asked, counts) = self.asking.by_all();
                self.detail(modelling, asked, counts).pipelines
            },
        )
    }

    /// Whether they do from now on, though they did not until now, by what the running processor's counters ask for.
    pub(super) fn begins_to_interleave(&self, pmu: &Pmu) -> bool {
        self.modelling.as_ref().filter(|modelling| modelling.is_multithreaded()).is_some_and(
            |modelling| {
                let asked = self.others.with(modelling.asked_by(pmu, self.timing));
                let counts = pmu.demand().counting || self.others_count;
                self.detail(modelling, asked, counts).pipelines
            },
        )
    }

    /// Whether the next instruction of the core that ran last is another thread's.
    pub(super) fn hands_over(&self) -> bool {
        self.modelling.as_ref().is_some_and(Modelling::hands_over)
    }

    /// The next instruction is that of the thread that is about to run.
    pub(super) fn take_over(&mut self) {
        if let Some(modelling) = &mut self.modelling {
            modelling.take_over();
        }
    }

    /// Processor `id` has executed something by which a device may do something earlier than it would have, and so wake
    /// another thread of the core.
    pub(super) fn notice_deadline(&mut self, id: usize, deadline: u64) {
        let core = self.modelling.as_mut().and_then(|modelling| modelling.core_of(id));
        if let Some((core, ..)) = core {
            core.bound_horizon(deadline);
        }
    }

    /// What the core of these threads does next, if any of them has something to do before `until`. Those that execute
    /// nothing take no part. Devices do what they have to by then.
    pub(crate) fn next_thread(
        &mut self,
        vcpus: &[Vcpu],
        board: &mut Board,
        threads: ProcessorSet,
        until: u64,
    ) -> Option<Next> {
        let mut caught_up = None;
        loop {
            // One that stays due does nothing more.
            let deadline = board.chipset.next_deadline().filter(|&due| Some(due) != caught_up);
            let deadline = deadline.unwrap_or(u64::MAX);
            let next = self.next_by(vcpus, board, threads, until.min(deadline));
            if deadline >= until || next.is_some_and(|(_, begins)| begins < deadline) {
                return next.map(|(next, _)| next);
            }
            // It may interrupt any of them.
            board.catch_up(deadline);
            caught_up = Some(deadline);
        }
    }

    /// The same while no device does anything, and from when on.
    fn next_by(
        &mut self,
        vcpus: &[Vcpu],
        board: &Board,
        threads: ProcessorSet,
        until: u64,
    ) -> Option<(Next, u64)> {
        let keeps_time = self.timing != Timing::Flat;
        let (core, system, first) = self.modelling.as_mut()?.core_of(threads.next(0)?)?;
        let mut waiting: Option<(NextThread, u64)> = None;
        // Of those whose cycles are counted, the one whose time is least, and until when DELAY holds it up.
        let mut behind: Option<(u64, usize, Option<u64>)> = None;
        let last = (first + usize::from(board.platform.threads_per_core)).min(vcpus.len());
        for (id, vcpu) in vcpus.iter().enumerate().take(last).skip(first) {
            let time = vcpu.cpu.time;
            let next = if threads.contains(id) { vcpu.next_turn(board) } else { None };
            let executes = next.is_some_and(|at| at <= time && !vcpu.cpu.halted);
            if executes && (keeps_time || time < until) {
                core.take_part(id - first, &vcpu.cpu, keeps_time.then_some(time));
                behind = behind.or(Some((time, id, None))).min(Some((time, id, None)));
                continue;
            }
            if next.is_some() && !vcpu.cpu.halted {
                behind = behind.or(Some((time, id, next))).min(Some((time, id, next)));
            }
            core.leave(id - first, &vcpu.cpu);
            // One that sleeps does so until then, when something may wake it; if HLT has issued.
            if threads.contains(id) && !executes && time < until && !core.holds(id - first) {
                let end = next.map_or(until, |at| at.max(time + 1).min(until));
                if waiting.is_none_or(|(sooner, _)| end < sooner.until) {
                    waiting = Some((NextThread { id, until: end }, time));
                }
            }
        }
        let known = waiting.map_or(until, |(sooner, _)| sooner.until);
        core.set_horizon(if keeps_time { known } else { u64::MAX });
        let waiting = waiting.map(|(sleeps, time)| (Next::Runs(sleeps), time));
        if core.is_in_step() && keeps_time {
            let cycle = core.next_cycle().map_or(known, |cycle| cycle.min(known));
            if let Some((time, id, delayed)) = behind.filter(|&(time, ..)| time < cycle) {
                let until = match self.looks_at_each {
                    true => time + 1,
                    // A counter takes what another thread does that begins from some time on.
                    false => cycle
                        .min(least_overflow(&vcpus[first..last], time))
                        .min(begin_to_count(vcpus[first..last].iter(), time)),
                };
                let next = match delayed {
                    Some(end) => Next::Runs(NextThread { id, until: until.min(end) }),
                    None => Next::Waits(NextThread { id, until }),
                };
                return Some((next, time));
            }
            if cycle == known {
                return waiting;
            }
            if let Some((thread, until)) = core.issue_next(system, first) {
                return Some((Next::Waits(NextThread { id: first + thread, until }), cycle));
            }
        }
        let (thread, cycle) = match core.advance(system, first) {
            Some(Step::Brings(thread, cycle)) => (thread, cycle),
            // One has halted, and may be woken before the others go on.
            Some(Step::Issued(_)) => return self.next_by(vcpus, board, threads, until),
            None => return waiting,
        };
        let id = first + thread;
        if !keeps_time {
            return Some((Next::Runs(NextThread { id, until }), vcpus[id].cpu.time));
        }
        if cycle <= vcpus[id].cpu.time {
            core.reach(thread, cycle);
        }
        // What may join its last instruction does so in that one's cycle, which its time may be beyond.
        let cycle = cycle.max(vcpus[id].cpu.time);
        if known <= cycle {
            return waiting;
        }
        Some((Next::Runs(NextThread { id, until: known }), cycle))
    }

    /// Whether the threads of a core go in step, as a counter of one of them counts what all do.
    pub(super) fn goes_in_step(&self, vcpu: &Vcpu, siblings: &Siblings<'_>) -> bool {
        self.timing != Timing::Flat
            && (vcpu.counts_the_core() || siblings.count_the_core(vcpu.cpu.time))
    }

    /// The processors that have executed HLT, which is yet to issue: their turn is not over.
    pub(crate) fn halting(&self) -> ProcessorSet {
        match !self.halting.is_empty() && self.interleaves() {
            true => self.halting,
            false => ProcessorSet::default(),
        }
    }

    /// A turn begins. If threads do not take turns instruction by instruction any longer, those whose HLT is yet to
    /// issue sleep without: nothing tells of it any more, and how long a processor that sleeps is said to have done
    /// so depends on who asks.
    pub(crate) fn end_halting(&mut self) {
        if self.halting.is_empty() || self.interleaves() {
            return;
        }
        std::mem::take(&mut self.halting).iter().for_each(|id| self.sleeps_without(id));
    }

    /// A processor has executed HLT, and nothing tells any more of what is left of that.
    fn sleeps_without(&mut self, id: usize) {
        let core = self.modelling.as_mut().and_then(|modelling| modelling.core_of(id));
        if let Some((core, _, first)) = core {
            core.end_halting(id - first);
        }
    }

    /// The turn of these threads of a core is over but for what they still have to issue.
    pub(crate) fn note_halting(&mut self, vcpus: &[Vcpu], threads: ProcessorSet) {
        let Some((core, _, first)) = threads
            .next(0)
            .and_then(|id| self.modelling.as_mut().and_then(|modelling| modelling.core_of(id)))
        else {
            return;
        };
        for id in threads.iter() {
            self.halting.assign(id, vcpus[id].cpu.halted && core.holds(id - first));
        }
    }

    /// These threads of a core do not take turns any longer: nothing tells any more of what they have executed. One whose
    /// last instruction has programmed its PMU waits for that no longer, or it would take the first counts of its next
    /// turn for what the programming before left behind.
    /// One that has executed HLT sleeps from where its time was told, whatever is left of that.
    pub(crate) fn end_interleaving(&mut self, vcpus: &mut [Vcpu], threads: ProcessorSet) {
        for id in threads.iter() {
            vcpus[id].programs_still = None;
            self.halting.remove(id);
            if vcpus[id].cpu.halted {
                self.sleeps_without(id);
            }
        }
    }

    /// The threads of cores begin to take turns instruction by instruction, and are where they have come to.
    pub(super) fn notice_apart(&mut self, vcpus: &[Vcpu]) {
        let executing = vcpus.iter().filter(|vcpu| !vcpu.cpu.halted && !vcpu.waits_for_startup);
        self.apart_until = executing.map(|vcpu| vcpu.cpu.time).max().unwrap_or(0);
    }

    /// Takes notice of whether counters of a core count what all its threads do. If the instruction that processor
    /// `id` has executed last has begun that, they do not count what the others did before it; and it lasts until all
    /// others have come as far as the one that is furthest ahead, if they had not taken turns until then.
    pub(super) fn notice_in_step(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
    ) {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        let Some((core, _, first)) =
            self.modelling.as_mut().and_then(|modelling| modelling.core_of(id))
        else {
            return;
        };
        let last = (first + threads_per_core).min(vcpus.len());
        let in_step = vcpus[first..last].iter().any(Vcpu::counts_the_core);
        if in_step == core.is_in_step() {
            return;
        }
        core.keep_in_step(in_step);
        if !in_step {
            return;
        }
        // Nothing was told before if that instruction was not: each thread goes on from where it is.
        let begun = core.begun(id - first, &vcpus[id].cpu).unwrap_or(0);
        for other in (first..last).filter(|&other| other != id) {
            let Some((core, ..)) =
                self.modelling.as_mut().and_then(|modelling| modelling.core_of(id))
            else {
                return;
            };
            // DELAY and what is left of HLT are counted as well, and what has issued by then of one whose time is later.
            let halted = vcpus[other].cpu.halted;
            let until = if halted { core.due(other - first) } else { begun };
            let is_behind = vcpus[other].cpu.time < until || core.has_issued(other - first);
            if is_behind && !vcpus[other].waits_for_startup {
                (self.others, self.others_count) = self.asking.by_others(other);
                let siblings = &mut Siblings::default();
                let vcpu = &mut vcpus[other];
                self.wait_until(Running { vcpu, siblings, board, ram }, until);
                // If nobody counted that, nobody does later.
                if let Some(modelling) = &mut self.modelling {
                    modelling.forget_issue(other);
                }
            }
        }
        self.come_together(vcpus, id, board, ram);
    }

    /// Processor `id` begins to count what all threads of its core do: from when on none of them has to be caught up
    /// with.
    fn come_together(&mut self, vcpus: &mut [Vcpu], id: usize, board: &mut Board, ram: &Ram) {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        let Some((vcpu, mut siblings)) = Siblings::split(vcpus, id, threads_per_core) else {
            return;
        };
        if !vcpu.counts_the_core() {
            return;
        }
        let executing = siblings.iter().filter(|vcpu| !vcpu.cpu.halted && !vcpu.waits_for_startup);
        let furthest = executing.map(|sibling| sibling.cpu.time).max().unwrap_or(0);
        let from = furthest.min(self.apart_until).max(vcpu.cpu.time);
        vcpu.counts_others_from = from;
        let core = self.modelling.as_mut().and_then(|modelling| modelling.core_of(id));
        if let Some((core, _, first)) = core.filter(|_| vcpu.cpu.time < from) {
            core.last_until(id - first, from);
            // What it has begun counts nothing of the instruction that has begun it.
            let programs_still = vcpu.programs_still;
            vcpu.programs_still = programs_still.or(Some(vcpu.pmu.begun_anew()));
            (self.others, self.others_count) = self.asking.by_others(id);
            let siblings = &mut siblings;
            self.wait_until(Running { vcpu: &mut *vcpu, siblings, board, ram }, from);
            vcpu.programs_still = vcpu.programs_still.and(programs_still);
        }
    }

    /// Time passes for a processor that executes, up to where the model of its core knows that no instruction of
    /// it issues before; or to `until`, if that is later.
    pub(crate) fn wait(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        until: u64,
    ) {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        (self.others, self.others_count) = self.asking.by_others(id);
        if let Some((vcpu, mut siblings)) = Siblings::split(vcpus, id, threads_per_core) {
            self.wait_until(Running { vcpu, siblings: &mut siblings, board, ram }, until);
        }
    }

    /// The same, the processor and its siblings being found.
    pub(super) fn wait_until(&mut self, mut running: Running<'_, '_>, until: u64) {
        let id = running.vcpu.id;
        if self.timing == Timing::Flat {
            return;
        }
        let Some(modelling) = &mut self.modelling else { return };
        let Some((core, _, first)) = modelling.core_of(id) else { return };
        let thread = id - first;
        let until = core.due(thread).max(until);
        let cycles = until.saturating_sub(running.vcpu.cpu.time);
        if cycles == 0 && !core.has_issued(thread) {
            core.reach(thread, until);
            return;
        }
        if self.waits_simply(&mut running, until) {
            return;
        }
        let Some(modelling) = &mut self.modelling else { return };
        let Some((core, ..)) = modelling.core_of(id) else { return };
        core.tell(thread, until);
        // The recorder is told by itself: it would have the cycles be of what comes next.
        let mut recording = self.recording.take();
        if let Some(Recording { recorder, .. }) = &mut recording {
            recorder.waited(id, &running.vcpu.cpu, cycles, modelling.take_log(id));
        }
        let Running { vcpu, siblings, board, ram } = running;
        let demand = siblings.demand(vcpu.cpu.time).with(vcpu.pmu.demand());
        if demand.counting {
            vcpu.waits_under = vcpu.counted_under;
            let running = Running { vcpu: &mut *vcpu, siblings, board: &mut *board, ram };
            self.observe(running, &demand, UNLIMITED, Pending::default(), Wait(cycles));
            // Counters of siblings may have overflowed.
            board.chipset.irq.depart(vcpu.cpu.time, board.platform.ipi_latency);
        } else {
            vcpu.cpu.pass(cycles);
            vcpu.programs_still = None;
        }
        self.recording = recording;
    }
}

/// The time before which no counter of these threads overflows by the time that passes for all of them, if it passes
/// for one after the other up to there; `least` is that of the one which is furthest behind.
fn least_overflow(threads: &[Vcpu], least: u64) -> u64 {
    let of_all = threads.iter().filter(|vcpu| vcpu.counts_the_core());
    let distance = of_all.map(|vcpu| waits_before_overflow(&vcpu.pmu)).min().unwrap_or(u64::MAX);
    least.saturating_add((distance / threads.len().max(1) as u64).max(1))
}

/// How many cycles may pass in which nothing retires, so that no counter overflows before the last of them. One that
/// compares their occurrences goes up by one in each at most.
fn waits_before_overflow(pmu: &Pmu) -> u64 {
    let added = Demand { per_cycle: false, ..*pmu.sibling_demand() };
    headroom(pmu, &added, 0).until.min(pmu.nearest_compared().unwrap_or(u64::MAX))
}

/// Cycles pass.
struct Wait(u64);

impl Act for Wait {
    type Outcome = ();

    fn act<O: Observer>(self, cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &mut Translations<O>) {
        cpu.pass(self.0);
    }
}
