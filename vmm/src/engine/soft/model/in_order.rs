//! The in-order pipelines: what they are told of the instructions that retire.
//!
//! [`InOrder`] collects what happens to an instruction while it executes, and tells the pipeline when it
//! has retired. What can be told beforehand is in `description.rs`.
//!
//! Caches and bus are asked by the clock of the pipeline. What is not modelled: operands on which clocks
//! depend, the waits of a repeated instruction that is interrupted, and where fetch loses cycles to entries of
//! the target buffer that are of no branch.

mod description;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_pages_tests;

use uarch::branch::{Outcome as Prediction, Resolution};
use uarch::occurrences::Occurrences;
use uarch::pipeline::in_order::{Access, Execution, Outcome, Parameters, Pipeline, Precision};
use uarch::state::{State, Visitor, list, optional};
use uarch::system::{AccessCycles, DataAccess, Operation};
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::operation::Operation as Instruction;

pub(super) use self::description::{Description, Descriptions};

/// Accesses of an instruction that are kept though they take no time: only strings have more.
const KEPT: usize = 32;
/// Accesses that wait are kept whatever their number; so many may be loaded.
const MOST_KEPT: usize = 1 << 20;

/// The in-order pipeline of a processor.
pub(super) struct InOrder {
    pipeline: Pipeline,
    /// How many writes it is ahead of the bus at most.
    write_buffers: u64,
    running: Running,
    /// When the bus has taken all that was written so far.
    written: u64,
    /// Where it was last told of execution: instructions retired by then, and linear address of the next.
    suspended: (u64, u64),
}

/// What has happened to the running instruction.
#[derive(Default)]
struct Running {
    /// Cycles of its fetch.
    fetch: u64,
    accesses: Vec<Access>,
    /// Elements of strings, or operands, that it has accessed in memory.
    elements: u64,
    /// Cycles that it has waited.
    waited: u64,
    /// It transferred control: taken or not, and how that was predicted.
    transfer: Option<(bool, Prediction)>,
}

impl Running {
    fn clear(&mut self) {
        self.accesses.clear();
        *self = Self { accesses: std::mem::take(&mut self.accesses), ..Self::default() };
    }

    fn note(&mut self, access: Access) {
        let waits = access.misaligned
            || access.walk != 0
            || !matches!(access.outcome, Outcome::Hit | Outcome::Owned);
        if waits || self.accesses.len() < KEPT {
            self.accesses.push(access);
        }
    }
}

impl InOrder {
    /// An empty pipeline.
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            pipeline: Pipeline::new(parameters),
            write_buffers: parameters.write_buffers as u64,
            running: Running::default(),
            written: 0,
            suspended: (0, 0),
        }
    }

    /// What follows is told of. If anything was executed since it was suspended, nothing is left in it; its
    /// clock stands still meanwhile, as all models do.
    pub(super) fn resume(&mut self, cpu: &Cpu) {
        if self.suspended != (cpu.retired(), cpu.linear_rip()) {
            self.pipeline.idle(0);
            self.running.clear();
        }
    }

    /// What follows may not be told of.
    pub(super) fn suspend(&mut self, cpu: &Cpu) {
        self.suspended = (cpu.retired(), cpu.linear_rip());
    }

    /// The clock by which the running instruction asks caches and bus for something.
    pub(super) fn time(&self) -> u64 {
        self.pipeline.clock() + self.running.waited
    }

    /// The clock of what has been executed; each element that the running instruction has accessed so far
    /// took one cycle.
    pub(super) fn clock(&self) -> u64 {
        self.time() + self.running.elements
    }

    /// Nothing is executed until a clock, if that is to come.
    pub(super) fn idle_until(&mut self, clock: u64) {
        // A string may be in the middle of its way: what it took so far is in the clock.
        let idle = clock.saturating_sub(self.clock());
        if idle != 0 {
            self.pipeline.idle(idle);
        }
    }

    /// Its fetch took so many cycles more than hits.
    pub(super) fn fetched(&mut self, cycles: u64) {
        self.running.fetch += cycles;
        self.running.waited += cycles;
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
        self.running.elements += u64::from(elements);
        let misaligned = cpu.alignment.is_misaligned(linear, bytes.min(8).into());
        let made = |walk, outcome| {
            let bytes = bytes.min(u8::MAX.into()) as u8;
            Access { address: linear, bytes, misaligned, walk, outcome }
        };
        self.running.waited += cycles.walk;
        if loads {
            let outcome = match cycles.read {
                0 => Outcome::Hit,
                read => Outcome::Miss { clocks: self.behind_writes(read) },
            };
            self.running.waited += cycles.read;
            self.running.note(made(cycles.walk, outcome));
        }
        if stores {
            let outcome = match cycles.write {
                0 => Outcome::Owned,
                write => {
                    let clocks = self.behind_writes(write);
                    self.written = self.written.max(self.time() + write);
                    if self.running.elements > 1 {
                        self.wait_for_buffers(clocks);
                    }
                    Outcome::Buffered { clocks }
                }
            };
            self.running.note(made(if loads { 0 } else { cycles.walk }, outcome));
        }
    }

    /// The running instruction, of more than one access, may have written more than the write buffers hold: what
    /// it accesses next comes when the bus has taken so much that the rest fits, each in so many clocks.
    fn wait_for_buffers(&mut self, clocks: u64) {
        let ahead = self.written.saturating_sub(self.time());
        self.running.waited += ahead.saturating_sub(self.write_buffers * clocks);
    }

    /// Of cycles until the bus has done something that is asked for now, those behind all that was written
    /// before. The bus has the writes in its queue, and so has the pipeline in its buffers.
    fn behind_writes(&self, cycles: u64) -> u64 {
        let now = self.time();
        (now + cycles).saturating_sub(self.written.max(now)).max(1)
    }

    /// It transferred control.
    pub(super) fn branched(&mut self, taken: bool, prediction: Prediction) {
        self.running.transfer = Some((taken, prediction));
    }

    /// It retired.
    pub(super) fn retired(
        &mut self,
        description: &Description,
        cpu: &Cpu,
        insn: &Insn,
        occurrences: &mut Occurrences,
    ) {
        let running = &self.running;
        let iterations = match description.elements_of_iteration {
            0 => 0,
            elements => running.elements / u64::from(elements),
        };
        let resolution = running.transfer.map(|(_, prediction)| prediction.resolution);
        let execution = Execution {
            taken: running.transfer.is_some_and(|(taken, _)| taken),
            mispredicted: resolution == Some(Resolution::Mispredicted),
            fetch: running.fetch,
            accesses: &running.accesses,
            iterations,
            precision: precision(cpu),
            more: 0,
        };
        self.pipeline.retire(occurrences, &description.instruction.scalar, &execution);
        self.running.clear();
        if insn.op == Instruction::Hlt {
            self.pipeline.idle(0);
        }
    }

    /// An exception or a hardware interrupt was delivered.
    pub(super) fn delivered(&mut self) {
        self.pipeline.deliver();
        self.running.clear();
    }
}

/// Precision control: bits 8 and 9 of the x87 control word (Intel SDM volume 1, "Precision Control Field").
pub(super) fn precision(cpu: &Cpu) -> Precision {
    match cpu.fpu.control_word() >> 8 & 3 {
        0 => Precision::Single,
        2 => Precision::Double,
        _ => Precision::Extended,
    }
}

impl State for InOrder {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { pipeline, write_buffers: _, running, written, suspended } = self;
        pipeline.visit(visitor);
        running.visit(visitor);
        written.visit(visitor);
        suspended.visit(visitor);
    }
}

impl State for Running {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { fetch, accesses, elements, waited, transfer } = self;
        fetch.visit(visitor);
        list(visitor, accesses, MOST_KEPT, || Access::hit(0, 1, Outcome::Hit));
        elements.visit(visitor);
        waited.visit(visitor);
        optional(visitor, transfer, || {
            (false, Prediction { resolution: Resolution::Predicted, penalty: 0 })
        });
    }
}
