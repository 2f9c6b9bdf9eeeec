//! In which order the processors of the software engine run, and for how long.
//!
//! All processors share one time line, which is cut into slices of at most [`QUANTUM`] cycles. A slice
//! also ends where a device has something to do, and so does a turn where that is known when it begins.
//! Within a slice processors take turns, one after the other over the same interval: first those that
//! execute something, then those that sleep, each mostly in the order of their numbers. So a sleeping
//! processor is woken by an interrupt in the cycle in which the interrupt arrives.
//!
//! A processor that runs later in a turn sees in memory what those before it did up to the turn's end,
//! and those before it see what it does one turn late. Interrupts must be neither early nor late. They
//! are not early, since they are in transit until the receiver's time is the time of arrival
//! ([`crate::irq::Interrupts::arrive`]). They are not late, since a turn ends where a processor sends
//! an interrupt to another one, or executes PAUSE while others that are awake have yet to run; those
//! after it run no further. For [`SHORT_TURNS`] cycles turns are then no longer than the latency of an
//! IPI ([`crate::platform::Platform::ipi_latency`]): an interrupt that is sent in such a turn does not
//! arrive before its end.
//!
//! Turns are short as well while the models of caches see what several cores do to each other's lines, which is told in
//! the order of their turns: where anything was asked of a bus in the last one, the next is as long as a line takes from
//! one to another ([`uarch::part::Part::line_transfer`]). As long as each finds all that it needs in its own caches,
//! nothing is shared, and a turn is as long as that has lasted. Nor is anything where each asks for what no other core
//! has, on a part with a [`uarch::part::Part::memory_turn`]: turns become as long as that then, and begin with the first
//! core and with the last by turns, so that none always has the memory first.
//!
//! Who sleeps and is not stirred takes no part: [`crate::roster`] knows without asking it.
//!
//! Nothing in this depends on the host.

use serde::{Deserialize, Serialize};
use uarch::bus::Traffic;

use crate::engine::soft::Next;
use crate::engine::{Limit, Outcome};
use crate::machine::{End, Machine};
use crate::processor_set::ProcessorSet;

/// Longest slice, in cycles: 25 microseconds at 2 GHz.
pub(crate) const QUANTUM: u64 = 50_000;
/// Longest turn, in cycles, while more than one processor executes something.
const TURN: u64 = 5_000;
/// How long turns stay short, in cycles.
const SHORT_TURNS: u64 = 20_000;

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// At its time.
    Whole,
    /// Early, since nothing counts any more.
    Uncounted,
    /// Early, since the run is to end.
    Stopped,
    /// With the run.
    Ended(End),
}

/// A turn of every processor, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    /// When it ends.
    until: u64,
    /// It is no longer than the latency of an IPI.
    short: bool,
    /// It ends early when the last counter is disabled.
    counted: bool,
    /// Those that are awake have their part in descending order.
    descends: bool,
    /// Those that executed something when it began; then, when the others' part begins, all that have executed something
    /// by then.
    awake: ProcessorSet,
    /// Those of them whose part is yet to come.
    rest: ProcessorSet,
    /// Those that have executed something, those that are awake among them.
    executing: ProcessorSet,
    /// Of those that slept when it began, those from this number on may be stirred; `None` before their part.
    stirred_from: Option<usize>,
    /// Whose part is running.
    part: Option<Part>,
}

/// The part of a turn of one that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    /// A processor. PAUSE ends its part if others have yet to run.
    One { id: usize, at_pause: bool },
    /// Threads of a core that take turns instruction by instruction.
    Core { threads: ProcessorSet, at_pause: bool },
    /// One that slept and was stirred, while the turn was to end at this time; and the threads of its core from where
    /// these take turns instruction by instruction.
    Stirred { id: usize, until: u64, threads: Option<ProcessorSet> },
}

/// What turns have told of what cores do to each other, as far as the models have seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sharing {
    /// The end of the last turn with something in it for which the next has to be short, in cycles.
    until: u64,
    /// The last turn of several cores began with the last one.
    descended: bool,
}

#[cfg(test)]
impl Sharing {
    /// Whether the last turn of several cores began with the last one.
    pub(crate) fn has_descended(self) -> bool {
        self.descended
    }
}

/// Where a run was cut off in the middle of a slice, by the limit of instructions, a request to stop or a pause. The
/// next one goes on there, as if there had been no cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CutOff {
    /// `None` between two turns.
    turn: Option<Turn>,
    /// When the slice ends.
    pub(crate) slice: u64,
}

impl CutOff {
    /// Whether it is of these processors.
    pub(crate) fn is_of(&self, all: ProcessorSet) -> bool {
        self.turn.as_ref().is_none_or(|Turn { awake, rest, executing, part, .. }| {
            awake.union(*rest).union(*executing).is_within(all)
                && match part {
                    None => true,
                    Some(Part::One { id, .. }) => all.contains(*id),
                    Some(Part::Core { threads, .. }) => threads.is_within(all),
                    Some(Part::Stirred { id, threads, .. }) => {
                        all.contains(*id) && threads.is_none_or(|threads| threads.is_within(all))
                    }
                }
        })
    }
}

impl Machine {
    /// Runs every processor until `until`; at most `left` instructions in all, of which those that retire
    /// are taken. If it is `counted`, it ends early when the last counter is disabled.
    pub(crate) fn slice(&mut self, until: u64, left: &mut u64, counted: bool) -> Slice {
        while self.now < until {
            if self.is_pause_due() {
                let turn = self.cut_off.take().and_then(|cut_off| cut_off.turn);
                self.cut_off = Some(CutOff { turn, slice: until });
                return Slice::Ended(End::Paused);
            }
            match self.turn(until, left, counted) {
                Slice::Whole => {}
                other => return other,
            }
        }
        Slice::Whole
    }

    /// A turn of every processor, until `until` or earlier, or what is left of the one that was cut off.
    pub(crate) fn turn(&mut self, until: u64, left: &mut u64, counted: bool) -> Slice {
        let cut_off = self.cut_off.take().and_then(|cut_off| cut_off.turn);
        let mut turn = cut_off.unwrap_or_else(|| self.begin_turn(until, counted));
        if let Some(ended) = self.run_parts(&mut turn, left) {
            match ended {
                Slice::Uncounted => self.now = self.now.max(self.time().min(turn.until)),
                Slice::Stopped
                | Slice::Ended(End::Instructions | End::Paused | End::Debugger(_)) => {
                    self.cut_off = Some(CutOff { turn: Some(turn), slice: until });
                }
                Slice::Whole | Slice::Ended(_) => {}
            }
            return ended;
        }
        if self.board.chipset.irq.first_arrival().is_some() {
            self.short_turns_until = turn.until.saturating_add(SHORT_TURNS);
            self.receive(turn.until);
        }
        self.now = turn.until;
        self.board.catch_up(turn.until);
        Slice::Whole
    }

    fn begin_turn(&mut self, until: u64, counted: bool) -> Turn {
        self.soft.end_halting();
        let awake = self.rouse();
        // What it does may wake anyone.
        let device = self.next_event().unwrap_or(u64::MAX).max(self.now + 1);
        let mut until = until.min(device);
        let short = self.now < self.short_turns_until;
        let mut descends = false;
        if awake.len() > 1 {
            until = until.min(self.now.saturating_add(self.longest_turn(awake)));
            descends = self.sharing.descended;
        }
        if short {
            let latency = self.board.platform.ipi_latency;
            until = until.min(self.now.saturating_add(latency));
        }
        Turn {
            until,
            short,
            counted,
            descends,
            awake,
            rest: awake,
            executing: awake,
            stirred_from: None,
            part: None,
        }
    }

    /// The parts of a turn, one after the other; `None` if the slice goes on.
    fn run_parts(&mut self, turn: &mut Turn, left: &mut u64) -> Option<Slice> {
        while let Some(mut part) = turn.part.take().or_else(|| self.next_part(turn)) {
            let ended = match &mut part {
                Part::One { id, at_pause } => self.run_one(*id, turn, *at_pause, left),
                Part::Core { threads, at_pause } => {
                    let ended = self.run_core(threads, turn, *at_pause, left);
                    turn.executing = turn.executing.union(*threads);
                    ended
                }
                Part::Stirred { id, until, threads } => {
                    let ended = self.run_stirred(*id, threads, turn, left);
                    self.roster.stir(*id);
                    if ended.is_some() || turn.until < *until || !turn.rest.is_empty() {
                        // Those before it were ahead when the end came, or are if it comes yet.
                        let executing = turn.executing.union(threads.unwrap_or_default());
                        self.have_slept(executing, *id, *until);
                    }
                    ended
                }
            };
            if ended.is_some() {
                turn.part = Some(part);
                return ended;
            }
        }
        None
    }

    /// Whose part comes next: first those that are awake have theirs, then those that something stirs. The others
    /// sleep until the turn's end.
    fn next_part(&mut self, turn: &mut Turn) -> Option<Part> {
        let next = if turn.descends { turn.rest.last() } else { turn.rest.next(0) };
        if let Some(id) = next {
            if !self.soft.interleaves() {
                turn.rest.remove(id);
                return Some(Part::One { id, at_pause: !turn.rest.is_empty() });
            }
            // Those that are woken in this turn join the others of their core.
            let core = self.board.platform.core_of(id);
            let woken = self.woken(core, turn.executing, turn);
            let threads = turn.rest.intersection(core).union(woken);
            turn.rest = turn.rest.without(core);
            return Some(Part::Core { threads, at_pause: !turn.rest.is_empty() });
        }
        let from = turn.stirred_from.unwrap_or_else(|| {
            turn.awake = turn.executing;
            0
        });
        let id = self.next_stirred(turn.awake, from, turn.until, turn.counted)?;
        turn.stirred_from = Some(id + 1);
        self.vcpus[id].sleep_until(self.now);
        turn.executing.insert(id);
        Some(Part::Stirred { id, until: turn.until, threads: None })
    }

    /// Longest turn, in cycles, while these execute something, and not one alone. Notes what cores have done to each other
    /// in the one before, and in which order they come.
    fn longest_turn(&mut self, awake: ProcessorSet) -> u64 {
        // The threads of one core that go by its cycles need no turns for that.
        let first = awake.next(0).unwrap_or(0);
        let one_core = awake.without(self.board.platform.core_of(first)).is_empty();
        let part = self.soft.sees_sharing().filter(|_| !(self.soft.interleaves() && one_core));
        let longest = match (self.soft.take_traffic(), part.and_then(|part| part.memory_turn)) {
            (Traffic::None, _) => TURN,
            (Traffic::Memory, Some(cycles)) => cycles,
            _ => {
                self.sharing.until = self.now;
                TURN
            }
        };
        let descended = std::mem::take(&mut self.sharing.descended);
        let Some(part) = part else { return TURN };
        // So that none keeps a line for much longer than it would while others ask for it.
        let unshared = self.now.saturating_sub(self.sharing.until);
        let cycles = unshared.clamp(part.line_transfer, longest);
        // Where lines go to and fro, who comes last and then first would keep one for two turns.
        let memory_alone = longest < TURN && cycles > part.line_transfer;
        self.sharing.descended = memory_alone && !descended;
        cycles
    }

    /// The threads of a core that sleep, and that an interrupt reaches in this turn.
    fn woken(&mut self, core: ProcessorSet, executing: ProcessorSet, turn: &Turn) -> ProcessorSet {
        let receivers = self.board.chipset.irq.receivers(turn.until.saturating_sub(1));
        let woken = receivers.intersection(core).without(executing);
        for id in woken.iter() {
            self.vcpus[id].sleep_until(self.now);
            self.roster.stir(id);
        }
        woken
    }

    /// The part of a turn of threads of a core that take turns instruction by instruction, as long as they do.
    fn run_core(
        &mut self,
        threads: &mut ProcessorSet,
        turn: &mut Turn,
        at_pause: bool,
        left: &mut u64,
    ) -> Option<Slice> {
        loop {
            if !self.soft.interleaves() {
                // The last of them has ended that. Each has what is left of the turn by itself, as nothing tells the
                // core any more whose instruction comes next.
                turn.rest = turn.rest.union(*threads);
                self.soft.end_interleaving(&mut self.vcpus, *threads);
                return None;
            }
            let (vcpus, board) = (&mut self.vcpus, &mut self.board);
            let next = self.soft.next_thread(vcpus, board, *threads, turn.until);
            if next.is_some() {
                self.note_stirred();
            }
            if let Some(Next::Waits(next)) = next {
                let (vcpus, board) = (&mut self.vcpus, &mut self.board);
                self.soft.wait(vcpus, next.id, board, self.memory.ram(), next.until);
                *threads = threads.union(self.woken_on(next.id, *threads, turn));
                continue;
            }
            if let Some(Next::Runs(next)) = next {
                let end = std::mem::replace(&mut turn.until, next.until);
                let mut id = next.id;
                let ended = self.run_next(&mut id, *threads, turn, at_pause, left);
                if turn.until == next.until {
                    turn.until = end;
                }
                if ended.is_some() {
                    return ended;
                }
                *threads = threads.union(self.woken_on(id, *threads, turn));
                continue;
            }
            // Nothing that is to be executed issues before the end.
            for id in threads.iter() {
                let (vcpus, board) = (&mut self.vcpus, &mut self.board);
                self.soft.wait(vcpus, id, board, self.memory.ram(), turn.until);
            }
            self.soft.note_halting(&self.vcpus, *threads);
            return None;
        }
    }

    /// The threads of the core of processor `id` that sleep, and that it has just woken, or that an interrupt
    /// reaches in this turn.
    fn woken_on(&mut self, id: usize, executing: ProcessorSet, turn: &Turn) -> ProcessorSet {
        let woken = self.woken_by(id);
        if self.board.chipset.irq.first_arrival().is_none() {
            return woken;
        }
        let core = self.board.platform.core_of(id);
        woken.union(self.woken(core, executing.union(woken), turn))
    }

    /// The threads of the core of processor `id` that sleep, and that it has just woken: a counter of theirs that counts
    /// the whole core has overflowed.
    fn woken_by(&mut self, id: usize) -> ProcessorSet {
        let stirred = self.note_stirred();
        let mut woken = ProcessorSet::default();
        if stirred.is_empty() {
            return woken;
        }
        let core = self.board.platform.core_of(id);
        let time = self.vcpus[id].cpu.time;
        for other in stirred.intersection(core).iter().filter(|&other| other != id) {
            let vcpu = &mut self.vcpus[other];
            if vcpu.cpu.halted && !vcpu.asleep(&self.board) {
                vcpu.sleep_until(time);
                woken.insert(other);
            }
        }
        woken
    }

    /// The processors that something has stirred since this was last asked for. The roster knows of them.
    fn note_stirred(&mut self) -> ProcessorSet {
        let stirred = self.board.chipset.irq.take_stirred();
        stirred.iter().for_each(|id| self.roster.stir(id));
        stirred
    }

    /// The part of a turn of a processor that slept when it began, and of the threads of its core if they take turns
    /// instruction by instruction, as those that ran before it may have begun to do; `None` if the slice goes on.
    fn run_stirred(
        &mut self,
        id: usize,
        threads: &mut Option<ProcessorSet>,
        turn: &mut Turn,
        left: &mut u64,
    ) -> Option<Slice> {
        if threads.is_none() && !self.soft.interleaves() {
            let ended = self.run_one(id, turn, false, left);
            if ended.is_some() || !self.soft.interleaves() {
                return ended;
            }
        }
        let core = self.board.platform.core_of(id);
        let threads = threads.get_or_insert(turn.executing.intersection(core));
        let ended = self.run_core(threads, turn, false, left);
        turn.executing = turn.executing.union(*threads);
        ended
    }

    /// Runs a processor until the turn's end, which may come nearer by that, or until another thread of its core
    /// comes next; `None` if the slice goes on. PAUSE ends the turn if others have yet to run.
    fn run_one(
        &mut self,
        mut id: usize,
        turn: &mut Turn,
        at_pause: bool,
        left: &mut u64,
    ) -> Option<Slice> {
        self.run_next(&mut id, ProcessorSet::default(), turn, at_pause, left)
    }

    /// The same; and if it is one of these `threads` of a core, of those whose turns come next, as far as nothing has to
    /// be looked at in between. `id` is the one that ran last.
    fn run_next(
        &mut self,
        id: &mut usize,
        threads: ProcessorSet,
        turn: &mut Turn,
        at_pause: bool,
        left: &mut u64,
    ) -> Option<Slice> {
        let before = self.retired_on_core_of(*id);
        let mut counted = turn.counted;
        let at_pause = at_pause && !turn.short;
        let ended = loop {
            let used = self.retired_on_core_of(*id) - before;
            let instructions = left.saturating_sub(used);
            let limit =
                Limit { time: turn.until, instructions, counted, at_send: !turn.short, at_pause };
            let (vcpus, board) = (&mut self.vcpus, &mut self.board);
            let ram = self.memory.ram();
            let outcome = match threads.contains(*id) {
                true => self.soft.run_core(vcpus, id, board, ram, threads, limit),
                false => self.soft.run(vcpus, *id, board, ram, limit),
            };
            match outcome {
                Outcome::Complete | Outcome::HandsOver => break None,
                Outcome::Interleaves => {
                    turn.until = turn.until.min(self.vcpus[*id].cpu.time);
                    break None;
                }
                Outcome::Stopped => break Some(Slice::Stopped),
                Outcome::Yielded => {
                    turn.until = turn.until.min(self.vcpus[*id].cpu.time);
                    self.short_turns_until = turn.until.saturating_add(SHORT_TURNS);
                }
                Outcome::Signals => {
                    self.distribute_signals();
                    if threads.contains(*id) {
                        // Behind an INIT its pipeline begins anew: when that is, the core says.
                        break None;
                    }
                }
                Outcome::Event => {
                    if let Some(end) = self.take_event() {
                        break Some(Slice::Ended(end));
                    }
                }
                Outcome::InstructionLimit => break Some(Slice::Ended(End::Instructions)),
                Outcome::Debugger => break Some(Slice::Ended(End::Debugger(*id))),
                Outcome::Shutdown => break Some(Slice::Ended(End::TripleFault(*id))),
                Outcome::Uncounted if self.soft.is_counting() => counted = false,
                Outcome::Uncounted => break Some(Slice::Uncounted),
            }
        };
        *left = left.saturating_sub(self.retired_on_core_of(*id) - before);
        ended
    }

    /// The instructions that all threads of the core of a processor have retired.
    fn retired_on_core_of(&self, id: usize) -> u64 {
        let threads = usize::from(self.board.platform.threads_per_core);
        let first = id - id % threads;
        let core = &self.vcpus[first..(first + threads).min(self.vcpus.len())];
        core.iter().map(|vcpu| vcpu.cpu.retired()).sum()
    }

    /// Gives each processor what has arrived by the end of the turn, `until`, or by its own time if that
    /// is later.
    fn receive(&mut self, until: u64) {
        for id in self.board.chipset.irq.receivers(u64::MAX).iter() {
            let time = self.vcpus[id].cpu.time.max(until);
            self.vcpus[id].receive(&mut self.board, time);
        }
        self.distribute_signals();
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
pub(crate) mod tests;
