//! When results are there: the x87 unit and the MMX unit, whose operations take longer than their turn in
//! the execution stage.

use super::{
    Parameters,
    execution::Precision,
    timing::{Mmx, Unit, X87},
};
use crate::pipeline::{Instruction, MemoryUse};

/// Clocks by which an operand that is needed early has to be there before its instruction begins.
const EARLY: u64 = 1;

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
    /// When an x87 instruction can begin.
    x87_free: u64,
    /// When a multiplication of the x87 unit can begin.
    multiplier_free: u64,
    /// When the entries of the x87 stack can be used, from its top.
    x87: [u64; 8],
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
            Unit::Integer => None,
            Unit::X87(unit) => Some((self.x87_needed(&unit, instruction), Wait::X87)),
            Unit::Mmx(_) => {
                let ready = latest(&self.mmx, mmx_operands(instruction));
                Some(if instruction.memory == MemoryUse::Store {
                    (ready + parameters.mmx_store, Wait::StoreData)
                } else {
                    (ready, Wait::Multiplication)
                })
            }
        }
    }

    fn x87_needed(&self, unit: &X87, instruction: &Instruction) -> u64 {
        let mut clock = self.x87_free;
        if unit.multiplies {
            clock = clock.max(self.multiplier_free);
        }
        // FXCH renames its operands and waits for neither.
        if instruction.exchanges.is_none() {
            let ready = latest(&self.x87, instruction.reads.x87_entries());
            clock = clock.max(ready + if unit.operand_early { EARLY } else { 0 });
        }
        clock
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
            Unit::Integer => {}
            Unit::X87(unit) => self.note_x87(parameters, &unit, instruction, precision, start),
            Unit::Mmx(part) => {
                let clocks = if part == Mmx::Multiplier { parameters.mmx_multiply } else { 1 };
                set(&mut self.mmx, instruction.writes.mmx_registers(), start + clocks);
                self.mmx_mode = true;
            }
        }
    }

    fn note_x87(
        &mut self,
        parameters: &Parameters,
        unit: &X87,
        instruction: &Instruction,
        precision: Precision,
        start: u64,
    ) {
        self.mmx_mode = false;
        let shorter = match precision {
            Precision::Single => unit.shorter[0],
            Precision::Double => unit.shorter[1],
            Precision::Extended => 0,
        };
        if let Some(place) = instruction.exchanges {
            self.x87.swap(0, usize::from(place & 7));
        } else {
            // The second of a pair is FXCH, which occupies nothing.
            self.x87_free = start + u64::from(unit.busy - shorter);
            let ready = start + u64::from(unit.result - shorter);
            set(&mut self.x87, instruction.writes.x87_entries(), ready);
        }
        if unit.multiplies {
            self.multiplier_free = start + parameters.multiplier_repeat;
        }
        self.x87.rotate_left(instruction.x87_pops.rem_euclid(8) as usize);
    }
}

/// The MMX registers that have to be ready: those that are read.
fn mmx_operands(instruction: &Instruction) -> u8 {
    instruction.reads.mmx_registers()
}

/// The latest of the times that a bit is set for.
fn latest(times: &[u64; 8], mut registers: u8) -> u64 {
    let mut latest = 0;
    while registers != 0 {
        latest = latest.max(times[registers.trailing_zeros() as usize & 7]);
        registers &= registers - 1;
    }
    latest
}

/// Sets the times that a bit is set for.
fn set(times: &mut [u64; 8], mut registers: u8, time: u64) {
    while registers != 0 {
        times[registers.trailing_zeros() as usize & 7] = time;
        registers &= registers - 1;
    }
}
