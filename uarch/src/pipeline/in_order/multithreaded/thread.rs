//! A thread of the core: its front end, and what holds up its next instruction whatever the others do.

use super::super::{Pairing, Precision, Timing, front_end::FrontEnd, pairing};
use super::{Execution, Instruction, Parameters, operands::Operands};
use crate::state::{State, Visitor};
use crate::{occurrences::Occurrences, pipeline};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) front_end: FrontEnd,
    pub(super) operands: Operands,
    /// The first cycle in which its next instruction has been decoded, if it was there to be.
    pub(super) decoded: u64,
    /// When all that it has issued is finished.
    pub(super) finished: u64,
    /// The instruction that was brought last but for those that joined one, and what has become of it.
    pub(super) brought: Brought,
    pub(super) stage: Stage,
}

/// An instruction that was brought, and what happened when it executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brought {
    pub(super) instruction: Instruction,
    /// Clocks in the execution stage.
    pub(super) clocks: u64,
    /// Clocks that its accesses wait.
    pub(super) waits: u64,
    /// Banks of the data cache that its first access needs, a bit each; 0 if it makes none.
    pub(super) banks: u32,
    pub(super) precision: Precision,
    pub(super) mispredicted: bool,
    pub(super) halts: bool,
    /// The cycle in which its address held it up.
    pub(super) interlocked: Option<u64>,
}

/// Where the instruction is that was brought last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has issued, and none joins it.
    Issued,
    /// It has issued in this cycle, and another may join it.
    First(u64),
    /// It waits for its turn. In this cycle it could issue if there were no other thread and its unit were
    /// free.
    Held(u64),
}

impl Thread {
    /// Puts an instruction into the front end: the cycle in which it has been decoded.
    pub(super) fn enter(
        &mut self,
        parameters: &Parameters,
        instruction: &Instruction,
        execution: &Execution,
    ) -> u64 {
        let Execution { fetch, taken, .. } = *execution;
        self.front_end.enter(&parameters.pipes, &instruction.scalar, fetch, taken)
    }

    /// An instruction is to issue next that entered the front end in a cycle. What it waits for in its own
    /// thread is fired.
    #[inline(always)]
    pub(super) fn hold(
        &mut self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution,
        entered: u64,
    ) {
        let could = self.lower_bound().max(entered);
        let (ready, interlocked) = self.operands.wait(parameters, occurrences, instruction, could);
        self.brought = Brought {
            instruction: *instruction,
            clocks: clocks(parameters, instruction, execution),
            waits: execution.waits,
            banks: banks(parameters, execution),
            precision: execution.precision,
            mispredicted: execution.mispredicted,
            halts: execution.halts,
            interlocked: interlocked.then_some(could),
        };
        self.stage = Stage::Held(ready);
    }

    /// No instruction issues before, but for one that joins the last.
    pub(super) fn lower_bound(&self) -> u64 {
        self.decoded.max(self.finished)
    }

    /// An instruction has issued, and all that has is finished: what its thread does next.
    #[inline]
    pub(super) fn go_on(&mut self, parameters: &Parameters, serialises: bool, mispredicted: bool) {
        let pipes = &parameters.pipes;
        if mispredicted {
            self.restart(self.finished + pipes.mispredicted);
        } else if serialises {
            self.restart(self.finished + pipes.refill);
        }
    }

    /// What was fetched is dropped; the next instruction issues in `cycle` at the earliest.
    pub(super) fn restart(&mut self, cycle: u64) {
        self.front_end.restart(cycle);
        self.stage = Stage::Issued;
    }
}

impl Default for Thread {
    /// One that has executed nothing.
    fn default() -> Self {
        let nothing = pipeline::Instruction::new(Timing::integer(1, Pairing::Never));
        let brought = Brought {
            instruction: Instruction::scalar(nothing),
            clocks: 1,
            waits: 0,
            banks: 0,
            precision: Precision::default(),
            mispredicted: false,
            halts: false,
            interlocked: None,
        };
        Self {
            front_end: FrontEnd::default(),
            operands: Operands::default(),
            decoded: 0,
            finished: 0,
            brought,
            stage: Stage::Issued,
        }
    }
}

/// Clocks of an instruction alone in the execution stage.
#[inline]
fn clocks(parameters: &Parameters, instruction: &Instruction, execution: &Execution) -> u64 {
    let timing = &instruction.scalar.timing;
    let lock = if instruction.scalar.prefixes.lock { parameters.pipes.lock } else { 0 };
    u64::from(timing.clocks)
        + u64::from(timing.per_iteration) * execution.iterations
        + execution.more
        + execution.misaligned * parameters.pipes.misaligned
        + lock
}

/// The banks that the first access of an instruction needs, a bit each; 0 if it makes none. Where reads and
/// writes are not in each other's way, writes have bits of their own.
#[inline]
pub(super) fn banks(parameters: &Parameters, execution: &Execution) -> u32 {
    execution.access.map_or(0, |access| {
        let banks = pairing::banks(&parameters.pipes, access.address, access.bytes);
        let own = parameters.reads_beside_writes && access.writes;
        banks << if own { 16 } else { 0 }
    })
}

crate::state! {
    Thread { saved: front_end, operands, brought, stage; cycles: decoded, finished; }
}
crate::state! {
    Brought {
        saved: instruction, banks, precision, mispredicted, halts, interlocked;
        cycles: clocks, waits;
    }
}

/// A number for the stage, and a cycle, if it has one.
impl State for Stage {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let (mut number, mut cycle) = match *self {
            Self::Issued => (0_u8, 0),
            Self::First(cycle) => (1, cycle),
            Self::Held(cycle) => (2, cycle),
        };
        number.visit(visitor);
        visitor.cycles(std::slice::from_mut(&mut cycle));
        *self = match number {
            1 => Self::First(cycle),
            2 => Self::Held(cycle),
            _ => Self::Issued,
        };
        visitor.check(number <= 2);
    }
}
