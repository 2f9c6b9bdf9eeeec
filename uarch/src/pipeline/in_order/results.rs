//! When results are there: the x87 unit and the MMX unit, whose operations take longer than their turn in
//! the execution stage.

use super::{
    Parameters,
    execution::Precision,
    registers::{latest, set},
    timing::{Mmx, Unit},
    x87::{X87Stack, X87Unit},
};
use crate::pipeline::{Instruction, MemoryUse};

/// What an instruction waits for beside addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The x87 unit.
    X87,
    /// The result of an MMX multiplication.
    Multiplication,
    /// A result, to store it.
    StoreData,
}

/// Results on their way, and units that are occupied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    x87_unit: X87Unit,
    x87_stack: X87Stack,
    /// When the MMX registers can be used.
    mmx: [u64; 8],
    /// MMX instructions were executed, and no x87 instruction since.
    mmx_mode: bool,
}

impl Results {
    /// The clock in which all that an instruction needs is there, and what it waits for until then.
    #[inline]
    pub(super) fn needed(
        &self,
        parameters: &Parameters,
        instruction: &Instruction,
    ) -> Option<(u64, Wait)> {
        match instruction.timing.unit {
            Unit::Integer | Unit::Vector(_) => None,
            Unit::X87(unit) => {
                let free = self.x87_unit.free_for(&unit);
                Some((free.max(self.x87_stack.needed(&unit, instruction)), Wait::X87))
            }
            Unit::Mmx(_) => {
                let ready = latest(&self.mmx, mmx_operands(instruction).into());
                Some(if instruction.memory == MemoryUse::Store {
                    (ready + parameters.mmx_store, Wait::StoreData)
                } else {
                    (ready, Wait::Multiplication)
                })
            }
        }
    }

    /// Clocks of changing from MMX to x87 instructions, if this one does.
    #[inline]
    pub(super) fn change(&self, parameters: &Parameters, instruction: &Instruction) -> u64 {
        if self.mmx_mode && instruction.timing.is_x87() { parameters.mmx_to_x87 } else { 0 }
    }

    /// An instruction began to execute at `start`: when its results are there.
    #[inline]
    pub(super) fn note(
        &mut self,
        parameters: &Parameters,
        instruction: &Instruction,
        precision: Precision,
        start: u64,
    ) {
        match instruction.timing.unit {
            Unit::Integer | Unit::Vector(_) => {}
            Unit::X87(unit) => {
                self.mmx_mode = false;
                let repeat = parameters.pipes.multiplier_repeat;
                self.x87_unit.occupy(&unit, instruction, precision, repeat, start);
                self.x87_stack.note(&unit, instruction, precision, start);
            }
            Unit::Mmx(part) => {
                let clocks = if part == Mmx::Multiplier { parameters.mmx_multiply } else { 1 };
                set(&mut self.mmx, instruction.writes.mmx_registers().into(), start + clocks);
                self.mmx_mode = true;
            }
        }
    }
}

/// The MMX registers that have to be ready: those that are read.
fn mmx_operands(instruction: &Instruction) -> u8 {
    instruction.reads.mmx_registers()
}

crate::state! { Results { saved: x87_unit, x87_stack, mmx_mode; cycles: mmx; } }
