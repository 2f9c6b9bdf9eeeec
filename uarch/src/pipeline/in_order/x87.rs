//! The x87 unit, whose operations take longer than their turn in the execution stage: when it can begin
//! another, and when the entries of a stack are ready.

use super::{
    execution::Precision,
    registers::{latest, set},
    timing::X87,
};
use crate::pipeline::Instruction;
use crate::state::{Cycles, State, Visitor};

/// Clocks by which an operand that is needed early has to be there before its instruction begins.
const EARLY: u64 = 1;

/// The unit, which all threads of a core share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct X87Unit {
    /// When an instruction can begin.
    free: u64,
    /// When a multiplication can begin.
    multiplier_free: u64,
}

impl X87Unit {
    /// When an instruction can begin.
    #[inline]
    pub(super) fn free_for(&self, unit: &X87) -> u64 {
        if unit.multiplies { self.free.max(self.multiplier_free) } else { self.free }
    }

    /// An instruction began to execute at `start`; a multiplication keeps others out for `repeat` clocks.
    #[inline]
    pub(super) fn occupy(
        &mut self,
        unit: &X87,
        instruction: &Instruction,
        precision: Precision,
        repeat: u64,
        start: u64,
    ) {
        // FXCH may be the second of a pair, and occupies nothing. In the clock of another, none issues
        // anyway.
        let busy = u64::from(unit.busy - shorter(unit, precision));
        if instruction.exchanges.is_none() && busy > 1 {
            self.free = start + busy;
        }
        if unit.multiplies {
            self.multiplier_free = start + repeat;
        }
    }
}

/// When the entries of a thread's x87 stack can be used, from its top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct X87Stack([u64; 8]);

impl X87Stack {
    /// The clock in which all entries that an instruction needs are there.
    #[inline]
    pub(super) fn needed(&self, unit: &X87, instruction: &Instruction) -> u64 {
        // FXCH renames its operands and waits for neither.
        if instruction.exchanges.is_some() {
            return 0;
        }
        let ready = latest(&self.0, instruction.reads.x87_entries().into());
        ready + if unit.operand_early { EARLY } else { 0 }
    }

    /// An instruction began to execute at `start`: when its results are there, and where.
    #[inline]
    pub(super) fn note(
        &mut self,
        unit: &X87,
        instruction: &Instruction,
        precision: Precision,
        start: u64,
    ) {
        if let Some(place) = instruction.exchanges {
            self.0.swap(0, usize::from(place & 7));
        } else {
            let ready = start + u64::from(unit.result - shorter(unit, precision));
            set(&mut self.0, instruction.writes.x87_entries().into(), ready);
        }
        self.0.rotate_left(instruction.x87_pops.rem_euclid(8) as usize);
    }
}

/// By how many clocks a precision makes an instruction shorter.
fn shorter(unit: &X87, precision: Precision) -> u16 {
    match precision {
        Precision::Single => unit.shorter[0],
        Precision::Double => unit.shorter[1],
        Precision::Extended => 0,
    }
}

crate::state! { X87Unit { cycles: free, multiplier_free; } }

impl State for X87Stack {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("X87Stack");
        let Self(ready) = self;
        visitor.cycles(ready.cycles());
    }
}
