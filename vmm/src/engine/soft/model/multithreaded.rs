//! The in-order cores of several threads: what they are told of the instructions that retire.
//!
//! A core says which thread's next instruction it has to know to go on ([`Turn::Bring`]), and the engine
//! executes that one and no other. When it issues, and so how long it takes, may depend on what other threads
//! are brought after it; a thread's time is told up to the cycle before which its next instruction does not
//! issue, as soon as that is known ([`Multithreaded::due`]). So neither what counters count nor what a thread
//! reads of the time depends on how far the engine runs a thread at once.
//!
//! Caches and bus are asked by the cycle before which the instruction does not issue. Writes that the caches do
//! not take at once wait in buffers, and their thread for these only.

use std::num::NonZeroU64;

use pmu_model::Signal;
use uarch::branch::{Outcome as Prediction, Resolution};
use uarch::pipeline::in_order::Unit;
use uarch::pipeline::in_order::multithreaded::{
    AT_ISSUE, Access, Core, Execution, Parameters, THREADS, Turn,
};
use uarch::state::{State, Visitor};
use uarch::system::{AccessCycles, DataAccess, Operation, System};
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::LastStep;
use x86_cpu::operation::Operation as Instruction;

use super::in_order::{Description, precision};
use super::write_buffers::WriteBuffers;

/// In [`Thread::issued`]: that has been counted.
const COUNTED: u64 = 0;

/// A core.
pub(in crate::engine::soft) struct Multithreaded {
    core: Core,
    threads: [Thread; THREADS],
    /// The thread that is told of.
    running: usize,
    /// The cycle from which on other threads may take part than do now. Whoever asks for a core's next thread says so
    /// before, so that it is not saved.
    horizon: u64,
    /// A counter counts what all threads do: time passes for all of them up to the cycle of what the core does
    /// next, and nothing is done before.
    in_step: bool,
    /// How many writes a thread is ahead of the bus at most.
    write_buffers: usize,
    /// What [`Self::advance`] has found, if nothing has been done since.
    found: Option<Packed>,
}

/// What a core does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft) enum Step {
    /// The instruction has issued that was brought for this thread.
    Issued(usize),
    /// The next instruction of this thread is to be executed, which issues in no cycle before this one.
    Brings(usize, u64),
}

/// A [`Step`] in one word. It is handed on behind each instruction, and the host would have to wait for what has just been
/// written in several.
#[derive(Clone, Copy)]
struct Packed(NonZeroU64);

impl Packed {
    /// There is one.
    const IS: NonZeroU64 = NonZeroU64::new(1 << 3).unwrap();
    const ISSUED: u64 = 1 << 2;
    const THREAD: u64 = 3;

    #[inline(always)]
    fn new(step: Step) -> Self {
        let word = match step {
            Step::Issued(thread) => Self::ISSUED | thread as u64,
            Step::Brings(thread, cycle) => cycle << 4 | thread as u64,
        };
        Self(Self::IS | word)
    }

    #[inline(always)]
    fn step(self) -> Step {
        let word = self.0.get();
        let thread = (word & Self::THREAD) as usize;
        match word & Self::ISSUED {
            0 => Step::Brings(thread, word >> 4),
            _ => Step::Issued(thread),
        }
    }
}

/// What is known of a thread beside what the core knows.
#[derive(Default)]
struct Thread {
    /// The cycle up to which its time has been told.
    told: u64,
    /// The same when what it did last began, which was an instruction, a delivery or a wait. Nobody asks for it behind
    /// the run, so that it is not saved.
    begun: u64,
    /// The cycle in which its last instruction, or delivery, issued; `None` until then.
    issued: Option<u64>,
    /// How often each of [`AT_ISSUE`] occurred then. Nobody asks for it behind a turn of the thread.
    fired: [u64; AT_ISSUE.len()],
    /// What has happened to it.
    execution: Execution,
    /// Elements of strings, or operands, that it has accessed in memory.
    elements: u64,
    /// Cycles that it has waited.
    waited: u64,
    /// What it has written, and the bus is yet to take.
    writes: WriteBuffers,
    /// HLT was the last that it executed.
    halted: bool,
    /// Nothing more is told of what it executed last, of which something was left.
    is_over: bool,
    /// It takes no part in its core's turns, though the core has not stopped it.
    away: bool,
    /// Where it was last told of execution: instructions retired by then, and linear address of the next.
    suspended: (u64, u64),
}

impl Thread {
    fn clear(&mut self) {
        (self.execution, self.elements, self.waited) = (Execution::default(), 0, 0);
    }

    /// The cycle by which the running instruction asks caches and bus for something.
    fn time(&self) -> u64 {
        self.told + self.waited
    }
}

impl Multithreaded {
    /// A core that executes nothing.
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            core: Core::new(parameters),
            threads: Default::default(),
            running: 0,
            horizon: u64::MAX,
            in_step: false,
            write_buffers: parameters.write_buffers,
            found: None,
        }
    }

    /// [`Self::advance`], where nothing has been done since an instruction was told of: the thread that is to execute
    /// its next instruction, and the cycle before which that does not issue.
    pub(in crate::engine::soft) fn advance_at_once(
        &mut self,
        system: &mut System,
        first: usize,
    ) -> Option<(usize, u64)> {
        let found = self.found.take().or_else(|| self.advance_packed(system, first))?;
        match found.step() {
            Step::Brings(thread, cycle) => Some((thread, cycle)),
            // One has halted: who takes part has to be looked at anew.
            Step::Issued(_) => None,
        }
    }

    /// Anything may be done.
    pub(super) fn forget_next(&mut self) {
        self.found = None;
    }

    fn running(&self) -> &Thread {
        &self.threads[self.running]
    }

    fn running_mut(&mut self) -> &mut Thread {
        &mut self.threads[self.running]
    }

    /// What follows is told of this thread.
    pub(super) fn choose(&mut self, thread: usize) {
        self.running = thread;
    }

    /// What follows is told of. If anything was executed since it was suspended, nothing is left of what was
    /// before.
    pub(super) fn resume(&mut self, cpu: &Cpu) {
        let thread = &mut self.threads[self.running];
        let resumed = (cpu.retired(), cpu.linear_rip());
        // Once: what begins with that goes on when it is next looked at.
        if std::mem::replace(&mut thread.suspended, resumed) != resumed {
            self.core.stop(self.running);
            (thread.halted, thread.is_over) = (true, true);
            thread.clear();
        }
    }

    /// What follows may not be told of.
    pub(super) fn suspend(&mut self, cpu: &Cpu) {
        self.suspend_at(self.running, cpu);
        self.note_counted();
    }

    /// The same of a thread, of which what it has done until then is another matter.
    pub(super) fn suspend_at(&mut self, thread: usize, cpu: &Cpu) {
        self.threads[thread].suspended = (cpu.retired(), cpu.linear_rip());
    }

    /// That the last instruction of the running thread has issued, if it has, has been counted.
    pub(super) fn note_counted(&mut self) {
        self.forget_issue(self.running);
    }

    /// The cycle by which the running instruction asks caches and bus for something.
    pub(super) fn time(&self) -> u64 {
        self.running().time()
    }

    /// The cycle up to which time has been told; each element that the running instruction has accessed so far
    /// took one more.
    pub(super) fn clock(&self) -> u64 {
        self.running().time() + self.running().elements
    }

    /// The same of any thread.
    pub(super) fn clock_of(&self, thread: usize) -> u64 {
        self.threads[thread].time() + self.threads[thread].elements
    }

    /// Nothing is executed until a cycle, if that is to come.
    pub(super) fn idle_until(&mut self, cycle: u64) {
        let thread = self.running_mut();
        if cycle > thread.time() + thread.elements {
            thread.told = cycle;
            thread.clear();
        }
    }

    /// Has a thread take part in the turns of its core, from the cycle on up to which its time has been told.
    pub(super) fn join(&mut self, thread: usize) {
        if self.core.runs(thread) {
            return;
        }
        let of = &mut self.threads[thread];
        of.is_over = false;
        match (std::mem::take(&mut of.halted), std::mem::take(&mut of.away)) {
            (true, _) => self.core.start(thread, of.told),
            (false, true) => self.core.come_back(thread, of.told),
            (false, false) => self.core.resume(thread, of.told),
        }
    }

    /// The same for a thread that is about to execute what it was not told of yet; virtual time is that of its core
    /// if there is any.
    pub(in crate::engine::soft) fn take_part(
        &mut self,
        thread: usize,
        cpu: &Cpu,
        time: Option<u64>,
    ) {
        let running = std::mem::replace(&mut self.running, thread);
        self.resume(cpu);
        if !self.core.runs(thread) {
            self.idle_until(time.unwrap_or(0));
            self.join(thread);
        }
        self.running = running;
    }

    /// Has a thread take no part in them, unless an instruction of it is to issue yet. One that was to when they ended
    /// is not, if the thread has executed others since.
    pub(in crate::engine::soft) fn leave(&mut self, thread: usize, cpu: &Cpu) {
        let running = std::mem::replace(&mut self.running, thread);
        self.resume(cpu);
        self.running = running;
        if self.core.runs(thread) && !self.core.holds(thread) {
            self.core.leave(thread);
            self.threads[thread].away = true;
        }
    }

    /// A thread sleeps, whether its HLT has issued or not: what is left of that is not told.
    pub(in crate::engine::soft) fn end_halting(&mut self, thread: usize) {
        if self.core.holds(thread) {
            self.core.stop(thread);
            self.threads[thread].halted = true;
        }
        self.threads[thread].is_over = true;
    }

    /// From this cycle on, other threads may take part than do now.
    pub(in crate::engine::soft) fn set_horizon(&mut self, cycle: u64) {
        self.horizon = cycle;
    }

    /// The same, and from this one on: a device may wake one that it would not have woken before.
    pub(in crate::engine::soft) fn bound_horizon(&mut self, cycle: u64) {
        self.horizon = self.horizon.min(cycle);
    }

    /// Whether time passes for all threads up to the cycle of what the core does next.
    pub(in crate::engine::soft) fn is_in_step(&self) -> bool {
        self.in_step
    }

    /// It does from now on, or no longer.
    pub(in crate::engine::soft) fn keep_in_step(&mut self, in_step: bool) {
        self.in_step = in_step;
    }

    /// The cycle in which the core does something next, if any thread executes.
    pub(in crate::engine::soft) fn next_cycle(&self) -> Option<u64> {
        self.core.next_at().map(|(cycle, _)| cycle)
    }

    /// Does what the core does next, if that is to let an instruction issue: of which thread, and the cycle up to
    /// which its time has passed by then.
    pub(in crate::engine::soft) fn issue_next(
        &mut self,
        system: &mut System,
        first: usize,
    ) -> Option<(usize, u64)> {
        let Some((cycle, Turn::Issue(thread))) = self.core.next_at() else { return None };
        self.step(system, first);
        // Nobody waits for what is left of HLT.
        let until = if self.core.runs(thread) { cycle } else { self.core.clock(thread) };
        Some((thread, until))
    }

    /// Whether an instruction of a thread is to issue yet.
    pub(in crate::engine::soft) fn holds(&self, thread: usize) -> bool {
        self.core.holds(thread)
    }

    /// The cycle up to which the time of a thread had been told when its last instruction began, if that was told of.
    pub(in crate::engine::soft) fn begun(&self, thread: usize, cpu: &Cpu) -> Option<u64> {
        let Thread { begun, suspended, .. } = self.threads[thread];
        (suspended == (cpu.retired(), cpu.linear_rip())).then_some(begun)
    }

    /// Lets all issue that is to issue before anything else has to be executed, as far as it is known who takes part:
    /// up to an instruction that has its thread halt, which may be woken before the others go on. `first` is the number
    /// of the core's first processor. What was done last, if anything was.
    pub(in crate::engine::soft) fn advance(
        &mut self,
        system: &mut System,
        first: usize,
    ) -> Option<Step> {
        self.advance_packed(system, first).map(Packed::step)
    }

    fn advance_packed(&mut self, system: &mut System, first: usize) -> Option<Packed> {
        loop {
            match self.step(system, first)? {
                Step::Issued(thread) if self.core.runs(thread) => {}
                step => return Some(Packed::new(step)),
            }
        }
    }

    /// The next that the core does; `None` if it is not known who takes part by then.
    #[inline(always)]
    fn step(&mut self, system: &mut System, first: usize) -> Option<Step> {
        match self.core.next_at()? {
            (cycle, Turn::Issue(_)) if cycle >= self.horizon => None,
            (_, Turn::Issue(thread)) => {
                let of = &mut self.threads[thread];
                let occurrences = system.occurrences(first + thread);
                of.issued = Some(self.core.issue(thread, occurrences, &mut of.fired));
                Some(Step::Issued(thread))
            }
            (cycle, Turn::Bring(thread)) => Some(Step::Brings(thread, cycle)),
        }
    }

    /// The cycle up to which a thread's time has passed, as far as that is known.
    pub(in crate::engine::soft) fn due(&self, thread: usize) -> u64 {
        let told = self.threads[thread].told;
        if self.in_step && self.core.runs(thread) {
            return told;
        }
        match self.core.next_at() {
            Some((cycle, Turn::Bring(next))) if next == thread => told.max(cycle),
            _ if self.core.runs(thread) || self.threads[thread].is_over => told,
            _ => told.max(self.core.clock(thread)),
        }
    }

    /// The same of the thread that the core has next, where it does not go in step: [`Self::advance`] has said so, and
    /// the cycle.
    pub(in crate::engine::soft) fn due_at(&self, thread: usize, cycle: u64) -> u64 {
        self.threads[thread].told.max(cycle)
    }

    /// Whether a thread executes.
    pub(in crate::engine::soft) fn runs(&self, thread: usize) -> bool {
        self.core.runs(thread)
    }

    /// The cycle in which the last instruction of a thread has issued, if it has since it was last told of.
    pub(in crate::engine::soft) fn issued(&self, thread: usize) -> Option<u64> {
        self.threads[thread].issued.filter(|&cycle| cycle != COUNTED)
    }

    /// Nothing of that is told any more.
    pub(super) fn forget_issue(&mut self, thread: usize) {
        let issued = &mut self.threads[thread].issued;
        *issued = issued.map(|_| COUNTED);
    }

    /// What was fired then.
    pub(super) fn fired_at_issue(
        &self,
        thread: usize,
    ) -> impl Iterator<Item = (Signal, u64)> + Clone + use<> {
        let fired =
            if self.has_issued(thread) { self.threads[thread].fired } else { Default::default() };
        AT_ISSUE.into_iter().zip(fired)
    }

    /// Whether it has.
    pub(in crate::engine::soft) fn has_issued(&self, thread: usize) -> bool {
        self.issued(thread).is_some()
    }

    /// The cycle up to which the running thread's time has been told.
    #[inline]
    pub(super) fn told(&self) -> u64 {
        self.running().told
    }

    /// The running thread's time has been told up to this cycle.
    #[inline]
    pub(super) fn tell_running(&mut self, cycle: u64) {
        self.tell(self.running, cycle);
    }

    /// A thread's time has been told up to this cycle.
    pub(in crate::engine::soft) fn tell(&mut self, thread: usize, cycle: u64) {
        let thread = &mut self.threads[thread];
        (thread.begun, thread.told) = (thread.told, cycle);
    }

    /// The same where the thread's virtual time is not behind that, so that nothing passes for it: more may have been
    /// told of a repeated instruction than it took.
    pub(in crate::engine::soft) fn reach(&mut self, thread: usize, cycle: u64) {
        let thread = &mut self.threads[thread];
        thread.told = thread.told.max(cycle);
    }

    /// The last instruction of a thread lasts until this cycle, if it is yet to issue.
    pub(in crate::engine::soft) fn last_until(&mut self, thread: usize, cycle: u64) {
        if self.core.holds(thread) {
            self.core.last_until(thread, cycle);
        }
    }

    /// When the last step of the running thread was over, of the cycles since its run or its wait began.
    pub(super) fn last_step(&self) -> LastStep {
        let thread = self.running();
        match thread.issued {
            Some(cycle) => LastStep::EndsAfter(cycle.saturating_sub(thread.begun)),
            None => LastStep::IsNotOver,
        }
    }

    /// An instruction begins.
    #[inline]
    pub(super) fn begins(&mut self) {
        if !self.core.runs(self.running) {
            self.join(self.running);
        }
        let thread = self.running_mut();
        thread.begun = thread.told;
    }

    /// Its fetch took so many cycles more than hits.
    pub(super) fn fetched(&mut self, cycles: u64) {
        let thread = self.running_mut();
        thread.execution.fetch += cycles;
        thread.waited += cycles;
    }

    /// It accessed memory.
    pub(super) fn accessed(&mut self, cpu: &Cpu, access: &DataAccess, cycles: AccessCycles) {
        let DataAccess { linear, bytes, elements, operation, .. } = *access;
        let (loads, stores) = match operation {
            Operation::Load => (true, false),
            Operation::Store => (false, true),
            Operation::Modify => (true, true),
            Operation::Prefetch(_) | Operation::Flush | Operation::Evict { .. } => return,
        };
        let buffers = self.write_buffers;
        let thread = self.running_mut();
        thread.elements += u64::from(elements);
        let execution = &mut thread.execution;
        if cpu.alignment.is_misaligned(linear, bytes.min(8).into()) {
            execution.misaligned += 1;
        }
        if execution.access.is_none() {
            let bytes = bytes.min(u8::MAX.into()) as u8;
            execution.access = Some(Access { address: linear, bytes, writes: !loads });
        }
        let before = thread.waited;
        thread.waited += cycles.walk;
        if loads {
            thread.waited += cycles.read;
        }
        if stores && cycles.write != 0 {
            thread.waited += thread.writes.write(thread.time(), cycles.write, buffers);
        }
        thread.execution.waits += thread.waited - before;
    }

    /// It transferred control.
    pub(super) fn branched(&mut self, taken: bool, prediction: Prediction) {
        let execution = &mut self.running_mut().execution;
        execution.taken = taken;
        execution.mispredicted = prediction.resolution == Resolution::Mispredicted;
    }

    /// It retired, on this processor. Whether another thread comes next.
    pub(super) fn retired(
        &mut self,
        description: &Description,
        cpu: &Cpu,
        insn: &Insn,
        system: &mut System,
        processor: usize,
    ) -> bool {
        let running = self.running;
        let thread = &mut self.threads[running];
        thread.halted = false;
        if description.elements_of_iteration != 0 {
            let elements = u64::from(description.elements_of_iteration);
            thread.execution.iterations = thread.elements / elements;
        }
        if matches!(description.instruction.scalar.timing.unit, Unit::X87(_)) {
            thread.execution.precision = precision(cpu);
        }
        if description.is_rare {
            thread.halted = insn.op == Instruction::Hlt;
            // An interrupt ends DELAY, so that the thread is out as long as the processor delays it.
            thread.execution.halts = matches!(insn.op, Instruction::Hlt | Instruction::Delay);
        }
        let occurrences = system.occurrences(processor);
        let execution = &thread.execution;
        thread.issued = self.core.bring(running, occurrences, &description.instruction, execution);
        thread.clear();
        if description.is_rare && matches!(insn.op, Instruction::Wrmsr | Instruction::Spflt) {
            // What counters count from now on decides whether the threads go on in step.
            return true;
        }
        self.hands_over(system, processor)
    }

    /// An exception or a hardware interrupt was delivered, on this processor. Whether another thread comes next.
    pub(super) fn delivered(&mut self, system: &mut System, processor: usize) -> bool {
        self.join(self.running);
        let thread = self.running_mut();
        thread.clear();
        (thread.begun, thread.issued) = (thread.told, None);
        self.core.deliver(self.running, system.occurrences(processor));
        self.hands_over(system, processor)
    }

    /// Goes on until something has to be executed. If that is of another thread, time of the running one stands
    /// still until its turn comes.
    fn hands_over(&mut self, system: &mut System, processor: usize) -> bool {
        if self.in_step {
            return true;
        }
        let found = self.advance_packed(system, processor - self.running);
        match found.map(Packed::step) {
            Some(Step::Brings(thread, cycle)) if thread == self.running => {
                let thread = self.running_mut();
                thread.told = thread.told.max(cycle);
                self.found = None;
                false
            }
            _ => {
                self.found = found;
                true
            }
        }
    }
}

impl State for Multithreaded {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { core, threads, running, horizon, in_step, write_buffers: _, found } = self;
        if V::LOADS {
            (*found, *horizon) = (None, 0);
        }
        core.visit(visitor);
        threads.visit(visitor);
        visitor.index(running, THREADS);
        in_step.visit(visitor);
    }
}

uarch::state! {
    Thread {
        saved: told, issued, execution, elements, waited, writes, halted, is_over, away, suspended;
        derived: begun, fired;
        then: forget_pieces;
    }
}

impl Thread {
    /// Nothing has begun that is not over.
    fn forget_pieces<V: Visitor>(&mut self, _: &mut V) {
        if V::LOADS {
            self.begun = self.told;
        }
    }
}
