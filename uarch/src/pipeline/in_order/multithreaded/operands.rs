//! When the operands of a thread's instructions are there.

use pmu_model::Signal;

use super::super::{
    Precision, Unit,
    registers::{latest, set},
    x87::X87Stack,
};
use super::{Instruction, Parameters};
use crate::{occurrences::Occurrences, pipeline::Registers};

/// Clocks by which what an address is computed from has to be there before its instruction executes.
const ADDRESS: u64 = 1;
/// As many as there are registers of the vector unit, and more: a power of two.
const VECTOR: usize = 64;

/// What issued together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Issued {
    /// The general registers that it writes, as far as an address can wait for them.
    written: Registers,
    /// When it is finished: all before is then, as well.
    finished: u64,
}

/// What a thread's instructions may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operands {
    last: Issued,
    before_last: Issued,
    x87: X87Stack,
    /// When the registers of the vector unit can be used, by their places in a set.
    vector: [u64; VECTOR],
}

impl Default for Operands {
    fn default() -> Self {
        let (last, before_last) = (Issued::default(), Issued::default());
        Self { last, before_last, x87: X87Stack::default(), vector: [0; VECTOR] }
    }
}

impl Operands {
    /// The clock in which an instruction can issue that could in `clock` if all its operands were there; what
    /// it waits for is fired. Says whether its address was among that.
    #[inline]
    pub(super) fn wait(
        &self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        clock: u64,
    ) -> (u64, bool) {
        let address = self.address(instruction, self.last);
        let interlocked = address > clock;
        if interlocked {
            occurrences.fire(Signal::StallAgi, 1);
            if instruction.gathers() {
                occurrences.fire(Signal::StallAgiGather, 1);
            }
        }
        let clock = clock.max(address);
        let data = self.data(parameters, instruction);
        if data > clock && !matches!(instruction.scalar.timing.unit, Unit::X87(_)) {
            occurrences.fire(Signal::StallVpuRegister, 1);
        }
        (clock.max(data), interlocked)
    }

    /// The clock in which the address of an instruction can be computed that is to join those which issued
    /// last.
    #[inline]
    pub(super) fn address_of_second(&self, instruction: &Instruction) -> u64 {
        self.address(instruction, self.before_last)
    }

    /// The clock from which on the address of an instruction can be computed.
    #[inline]
    fn address(&self, instruction: &Instruction, before: Issued) -> u64 {
        let waits = instruction.scalar.address.intersects(before.written);
        let general = if waits { before.finished + ADDRESS } else { 0 };
        if instruction.index.is_empty() {
            return general;
        }
        general.max(latest(&self.vector, instruction.index.bits()) + ADDRESS)
    }

    /// The clock in which all else that it needs is there, and from which on its result does not come before
    /// an older one for the same register.
    #[inline]
    pub(super) fn data(&self, parameters: &Parameters, instruction: &Instruction) -> u64 {
        match instruction.scalar.timing.unit {
            Unit::X87(unit) => self.x87.needed(&unit, &instruction.scalar),
            _ if instruction.reads.is_empty() && instruction.writes.is_empty() => 0,
            _ => {
                let inside = latest(&self.vector, instruction.reads.bits());
                let outside = match instruction.outgoing.is_empty() {
                    true => 0,
                    false => {
                        latest(&self.vector, instruction.outgoing.bits())
                            + parameters.vector_to_outside
                    }
                };
                let older = latest(&self.vector, instruction.writes.bits());
                inside.max(outside).max(older.saturating_sub(result(instruction)))
            }
        }
    }

    /// An instruction issued alone, or as the first of a pair; it is finished in `finished`.
    #[inline]
    pub(super) fn issued(&mut self, written: Registers, finished: u64) {
        self.before_last = self.last;
        self.last = Issued { written, finished };
    }

    /// Another joined it, and both are finished in `finished`.
    #[inline]
    pub(super) fn joined(&mut self, written: Registers, finished: u64) {
        self.last = Issued { written: self.last.written.union(written), finished };
    }

    /// An instruction executes from `start` on with all its operands there: when its results are.
    #[inline]
    pub(super) fn note(&mut self, instruction: &Instruction, precision: Precision, start: u64) {
        if let Unit::X87(unit) = &instruction.scalar.timing.unit {
            self.x87.note(unit, &instruction.scalar, precision, start);
        }
        if !instruction.writes.is_empty() {
            set(&mut self.vector, instruction.writes.bits(), start + result(instruction));
        }
    }
}

/// Clocks until the results of an instruction in the vector unit's registers can be used.
fn result(instruction: &Instruction) -> u64 {
    match instruction.scalar.timing.unit {
        Unit::Vector(unit) => unit.result.into(),
        _ => 1,
    }
}

crate::state! { Issued { saved: written; cycles: finished; } }
crate::state! { Operands { saved: last, before_last, x87; cycles: vector; } }
