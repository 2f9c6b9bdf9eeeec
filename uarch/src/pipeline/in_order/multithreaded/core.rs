//! The core: its threads, what they share, and whose turn it is.

use pmu_model::Signal;

use super::super::{Timing, Unit, front_end, pairing, x87::X87Unit};
use super::{
    Execution, Instruction, Parameters,
    thread::{Brought, Stage, Thread},
};
use crate::state::{State, Visitor};
use crate::{occurrences::Occurrences, pipeline};

/// Most threads of a core.
pub const THREADS: usize = 4;

/// What has to be done for the core to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The next instruction of this thread is to be executed, and brought.
    Bring(usize),
    /// The instruction that was brought for this thread is to issue.
    Issue(usize),
}

/// The signals that are fired when an instruction issues: in the turn of another thread, it may be.
pub const AT_ISSUE: [Signal; 3] =
    [Signal::EStageBusy, Signal::MicrocodeBusy, Signal::StallFrontend];

/// An in-order core of several threads.
#[derive(Clone, Debug)]
pub struct Core {
    pub(super) parameters: &'static Parameters,
    pub(super) threads: [Thread; THREADS],
    /// What says whose turn it is of each, together: the threads are large.
    claims: Claims,
    /// The threads that execute, a bit each: they are neither halted nor away.
    running: u8,
    /// What is executed to deliver an exception or an interrupt.
    delivery: Instruction,
    /// The thread that issued last, and the cycle it did so in.
    last: usize,
    now: u64,
    /// When the execution stage is free.
    pub(super) free: u64,
    x87: X87Unit,
    /// When an instruction of the vector unit can begin.
    vector_free: u64,
}

/// What a thread does next, when its turn comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Claims {
    /// By thread: the first cycle in which it could if there were no other thread, and its unit were free; [`NEVER`] if it
    /// does not execute.
    could: [u64; THREADS],
    /// Whether its instruction was brought, and is to issue.
    holds: [bool; THREADS],
    /// The threads of which that needs a unit which all share, and which may not be free, a bit each.
    need_units: u8,
}

/// No cycle is so late. With four times as many, there is room for the number of a thread.
const NEVER: u64 = u64::MAX >> 2;
const _: () = assert!(THREADS == 4);

impl Claims {
    /// This thread has changed.
    #[inline]
    fn note(&mut self, number: usize, runs: bool, thread: &Thread) {
        let (could, holds, needs_unit) = match thread.stage {
            Stage::Held(ready) => {
                let unit = &thread.brought.instruction.scalar.timing.unit;
                (ready, true, matches!(unit, Unit::X87(_) | Unit::Vector(_)))
            }
            Stage::First(_) | Stage::Issued => (thread.lower_bound(), false, false),
        };
        self.could[number] = if runs { could } else { NEVER };
        self.holds[number] = holds;
        self.need_units = self.need_units & !(1 << number) | u8::from(needs_unit) << number;
    }
}

impl Core {
    /// A core whose threads are all halted.
    ///
    /// # Panics
    ///
    /// If a figure of the part is beyond what the model has room for.
    #[must_use]
    pub fn new(parameters: &'static Parameters) -> Self {
        let pipes = &parameters.pipes;
        assert!((1..=front_end::MOST).contains(&pipes.fifo));
        assert!(pipes.refill >= 1 && pipes.mispredicted >= 1 && parameters.cadence >= 1);
        // With reads and writes apart, there are twice as many.
        assert!(pipes.bank_bits <= if parameters.reads_beside_writes { 4 } else { 5 });
        let clocks = u16::try_from(pipes.delivery).expect("a delivery is not that long");
        let mut delivery = pipeline::Instruction::new(Timing::microcode(clocks));
        delivery.serialises = true;
        Self {
            parameters,
            threads: std::array::from_fn(|_| Thread::default()),
            claims: Claims { could: [NEVER; THREADS], ..Claims::default() },
            running: 0,
            delivery: Instruction::scalar(delivery),
            last: THREADS - 1,
            now: 0,
            free: 0,
            x87: X87Unit::default(),
            vector_free: 0,
        }
    }

    /// A halted thread executes from a cycle on, or from now if that is past: HLT has ended, or it is told of
    /// again. Its pipeline is empty.
    ///
    /// # Panics
    ///
    /// If there is no such thread, or it executes.
    pub fn start(&mut self, thread: usize, cycle: u64) {
        self.resume(thread, cycle);
        let of = &mut self.threads[thread];
        of.restart(of.finished + self.parameters.pipes.refill);
        self.claim(thread);
    }

    /// The same with all in its pipeline that was there when it halted, as nothing else has been executed: DELAY
    /// has ended.
    ///
    /// # Panics
    ///
    /// As [`Core::start`].
    pub fn resume(&mut self, thread: usize, cycle: u64) {
        assert!(!self.runs(thread));
        self.running |= 1 << thread;
        let of = &mut self.threads[thread];
        of.finished = of.finished.max(cycle).max(self.now);
        // It is not the front end that held it up.
        of.decoded = of.decoded.max(of.finished);
        self.claim(thread);
    }

    /// A thread has changed.
    #[inline]
    fn claim(&mut self, thread: usize) {
        let runs = self.runs(thread);
        self.claims.note(thread, runs, &self.threads[thread]);
    }

    /// What follows from the rest.
    fn all_claims(&self) -> Claims {
        let mut claims = Claims::default();
        for (number, thread) in self.threads.iter().enumerate() {
            claims.note(number, self.runs(number), thread);
        }
        claims
    }

    /// What is told of a thread ends, and may go on: [`Core::come_back`]. Nothing of it is to issue.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn leave(&mut self, thread: usize) {
        debug_assert!(!self.holds(thread));
        self.running &= !(1 << thread);
        self.claim(thread);
    }

    /// What is told of a thread that left goes on where it ended, in a cycle or later. If neither that is later than
    /// it could have gone on, nor has another thread issued anything later, it is as if it had not been away.
    ///
    /// # Panics
    ///
    /// As [`Core::start`].
    pub fn come_back(&mut self, thread: usize, cycle: u64) {
        if cycle.max(self.now) > self.threads[thread].finished {
            self.threads[thread].stage = Stage::Issued;
            self.resume(thread, cycle);
        } else {
            assert!(!self.runs(thread));
            self.running |= 1 << thread;
            self.claim(thread);
        }
    }

    /// A thread is away, as if it were halted, though it may execute elsewhere. What was brought and has not
    /// issued is forgotten.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn stop(&mut self, thread: usize) {
        self.threads[thread].stage = Stage::Issued;
        self.running &= !(1 << thread);
        self.claim(thread);
    }

    /// The instruction that was brought for a thread, and is yet to issue, is not finished before a cycle. Nothing else
    /// waits for it.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn last_until(&mut self, thread: usize, cycle: u64) {
        debug_assert!(self.holds(thread));
        let thread = &mut self.threads[thread];
        thread.finished = thread.finished.max(cycle);
    }

    /// Whether an instruction was brought for a thread and is yet to issue.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    #[inline(always)]
    #[must_use]
    pub fn holds(&self, thread: usize) -> bool {
        self.claims.holds[thread]
    }

    /// Whether a thread executes.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    #[inline(always)]
    #[must_use]
    pub fn runs(&self, thread: usize) -> bool {
        assert!(thread < THREADS);
        self.running & 1 << thread != 0
    }

    /// The cycle in which all that a thread has issued is finished.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    #[must_use]
    pub fn clock(&self, thread: usize) -> u64 {
        self.threads[thread].finished
    }

    /// The cycle in which an instruction issued last, of whatever thread.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What has to be done for the core to go on; `None` if no thread executes.
    #[must_use]
    pub fn next(&self) -> Option<Turn> {
        self.next_at().map(|(_, turn)| turn)
    }

    /// The same, and the cycle before which nothing issues. Asked behind each instruction.
    #[inline(always)]
    #[must_use]
    pub fn next_at(&self) -> Option<(u64, Turn)> {
        debug_assert_eq!(self.claims, self.all_claims());
        // What may join the instruction that issued last does so in its cycle.
        if self.runs(self.last)
            && let Stage::First(cycle) = self.threads[self.last].stage
        {
            return Some((cycle, Turn::Bring(self.last)));
        }
        // By turns: the thread behind the one that issued last comes first, and that one last. One that may
        // be able to issue comes before those whose turn is later, whether they are able or may be. Which of them it is
        // changes all the time: without a branch on that, nothing is mispredicted. Each is read by itself: of several at
        // once, the host would wait until the one that has just been written is in its cache.
        let key = |behind: usize| {
            let could = self.claims.could[(self.last + 1 + behind) % THREADS];
            could.max(self.free) << 2 | behind as u64
        };
        let least = match self.claims.need_units {
            0 => key(0).min(key(1)).min(key(2)).min(key(3)),
            _ => self.least_with_units(),
        };
        if self.running == 0 {
            return None;
        }
        let number = (self.last + 1 + (least & 3) as usize) % THREADS;
        let turn = match self.claims.holds[number] {
            true => Turn::Issue(number),
            false => Turn::Bring(number),
        };
        Some((least >> 2, turn))
    }

    /// Brings the next instruction of a thread. `Some` if it joins the one before: the cycle in which both
    /// issue. Else it is held until its turn comes.
    ///
    /// # Panics
    ///
    /// If there is no such thread, it does not execute, or what was brought before has not issued.
    pub fn bring(
        &mut self,
        thread: usize,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution,
    ) -> Option<u64> {
        let parameters = self.parameters;
        assert!(self.runs(thread) && !self.holds(thread));
        let of = &mut self.threads[thread];
        let entered = of.enter(parameters, instruction, execution);
        let joins = self.join(thread, occurrences, instruction, execution, entered);
        if joins.is_none() {
            let of = &mut self.threads[thread];
            of.hold(parameters, occurrences, instruction, execution, entered);
        }
        self.claim(thread);
        joins
    }

    /// An exception or a hardware interrupt is delivered to a thread: brings what does so. Its accesses are
    /// not in it, nor is INT n, an instruction.
    ///
    /// # Panics
    ///
    /// As [`Core::bring`].
    pub fn deliver(&mut self, thread: usize, occurrences: &mut Occurrences) {
        let delivery = self.delivery;
        assert!(self.runs(thread) && !self.holds(thread));
        let of = &mut self.threads[thread];
        of.hold(self.parameters, occurrences, &delivery, &Execution::default(), 0);
        self.claim(thread);
    }

    /// The instruction that was brought for a thread issues: in which cycle. How often each of [`AT_ISSUE`] has
    /// occurred by that is put into `fired`. [`Core::next`] says when it is to.
    ///
    /// # Panics
    ///
    /// If there is no such thread, or nothing was brought for it.
    pub fn issue(
        &mut self,
        thread: usize,
        occurrences: &mut Occurrences,
        fired: &mut [u64; AT_ISSUE.len()],
    ) -> u64 {
        debug_assert_eq!(self.next(), Some(Turn::Issue(thread)));
        let parameters = self.parameters;
        let of = &self.threads[thread];
        let Stage::Held(ready) = of.stage else { panic!("no instruction was brought") };
        // Most need none that could be taken, and which it would be need not be looked at.
        let needs_unit = self.claims.need_units & 1 << thread != 0;
        let unit_free = if needs_unit { self.unit_free(&of.brought.instruction) } else { 0 };
        let at = ready.max(self.free).max(unit_free);
        if self.last != thread {
            // The thread that issued last has left, or it would have come first. Nothing joins what it issued any more.
            let last = &mut self.threads[self.last];
            if matches!(last.stage, Stage::First(_)) {
                last.stage = Stage::Issued;
            }
        }

        let of = &mut self.threads[thread];
        let Brought { instruction, clocks, waits, precision, mispredicted, halts, .. } =
            &of.brought;
        let scalar = &instruction.scalar;
        // What other threads had turns for is not in it.
        let stalled = ready.max(unit_free).saturating_sub(of.decoded);
        *fired = [*clocks, if scalar.timing.microcode { *clocks } else { 0 }, stalled];
        for (signal, &mut clocks) in AT_ISSUE.into_iter().zip(fired) {
            if clocks != 0 {
                occurrences.fire(signal, clocks);
            }
        }
        (self.last, self.now, self.free) = (thread, at, at + clocks);
        if needs_unit {
            match &scalar.timing.unit {
                Unit::X87(unit) => {
                    let repeat = parameters.pipes.multiplier_repeat;
                    self.x87.occupy(unit, scalar, *precision, repeat, at);
                }
                // In the clock of another instruction, none issues anyway.
                Unit::Vector(unit) if unit.busy > 1 => {
                    self.vector_free = at + u64::from(unit.busy);
                }
                Unit::Vector(_) | Unit::Integer | Unit::Mmx(_) => {}
            }
        }
        of.front_end.take(at);
        of.decoded = at + parameters.cadence;
        of.finished = of.finished.max(self.free + waits);
        of.operands.issued(pairing::address_hazards(&parameters.pipes, scalar), of.finished);
        of.operands.note(instruction, *precision, at + waits);
        of.stage = if pairing::may_be_first(scalar) { Stage::First(at) } else { Stage::Issued };
        let (serialises, mispredicted, halts) = (scalar.serialises, *mispredicted, *halts);
        of.go_on(parameters, serialises, mispredicted);
        match halts {
            true => self.stop(thread),
            false => self.claim(thread),
        }
        at
    }

    /// As the least in [`Self::next_at`], where the unit of an instruction may not be free.
    #[cold]
    fn least_with_units(&self) -> u64 {
        let key = |behind: usize| {
            let number = (self.last + 1 + behind) % THREADS;
            let could = match self.claims.need_units & 1 << number {
                0 => self.claims.could[number],
                _ => {
                    let unit = self.unit_free(&self.threads[number].brought.instruction);
                    self.claims.could[number].max(unit)
                }
            };
            could.max(self.free) << 2 | behind as u64
        };
        (0..THREADS).map(key).min().unwrap_or(u64::MAX)
    }

    /// When the unit of an instruction, which all threads share, can begin it.
    #[inline]
    fn unit_free(&self, instruction: &Instruction) -> u64 {
        match &instruction.scalar.timing.unit {
            Unit::X87(unit) => self.x87.free_for(unit),
            Unit::Vector(_) => self.vector_free,
            Unit::Integer | Unit::Mmx(_) => 0,
        }
    }
}

impl State for Core {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            parameters,
            threads,
            claims: _,
            running,
            delivery: _,
            last,
            now,
            free,
            x87,
            vector_free,
        } = self;
        threads.visit(visitor);
        x87.visit(visitor);
        visitor.name("multithreaded::Core");
        running.visit(visitor);
        visitor.check(*running < 1 << THREADS);
        visitor.index(last, THREADS);
        for cycle in [now, &mut *free, vector_free] {
            visitor.cycles(std::slice::from_mut(cycle));
        }
        // What an instruction may still join is not over before the execution stage is free.
        visitor.check(threads.iter().all(|thread| {
            let is_late = matches!(thread.stage, Stage::First(_)) && thread.finished < *free;
            let first = &thread.brought.instruction.scalar;
            !is_late && pairing::is_no_longer_alone(&parameters.pipes, first)
        }));
        if V::LOADS {
            self.claims = self.all_claims();
        }
    }
}
