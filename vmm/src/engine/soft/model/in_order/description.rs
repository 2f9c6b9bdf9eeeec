//! What an in-order pipeline knows of an instruction before it executes.

use uarch::part::in_order_table::{Form, Place, Row, Source};
use uarch::pipeline::in_order::multithreaded::{Instruction, VectorRegisters};
use uarch::pipeline::in_order::{Pairing, Timing};
use uarch::pipeline::{self, Branch, MemoryUse, Prefixes, Registers};
use x86_cpu::effects::{Effects, FlagSet, Mode, Register, RegisterSet};
use x86_cpu::encoding::{Encoding, LastOperand};
use x86_cpu::insn::{Form as Operands, GPRS, Insn, gpr};
use x86_cpu::mode::CodeSize;
use x86_cpu::operation::{Family, Operation as O};
use x86_cpu::ram::{PAGE, Ram};
use x86_cpu::watch::Fetch;

/// Most bytes of an instruction.
const LONGEST: usize = 15;
/// Bits of the number of a place in the table of descriptions.
const PLACE_BITS: u32 = 10;

/// The bytes of an instruction, and the mode that they were decoded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft::model) struct Bytes {
    /// Zeros behind the instruction.
    bytes: [u8; LONGEST],
    len: u8,
    code: CodeSize,
}

impl Bytes {
    /// Those that were fetched; `None` if they did not come from memory.
    pub(in crate::engine::soft::model) fn read(
        ram: &Ram,
        fetch: &Fetch,
        code: CodeSize,
    ) -> Option<Self> {
        let mut bytes = [0; LONGEST];
        let len = usize::from(fetch.len).min(LONGEST);
        let here = match fetch.second_page {
            Some(_) => len.min((PAGE - (fetch.physical & (PAGE - 1))) as usize),
            None => len,
        };
        let (first, second) = bytes[..len].split_at_mut(here);
        let is_read = ram.read_bytes(fetch.physical, first)
            && fetch.second_page.is_none_or(|page| ram.read_bytes(page, second));
        is_read.then_some(Self { bytes, len: len as u8, code })
    }

    #[cfg(test)]
    pub(super) fn new(of: &[u8], code: CodeSize) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..of.len()].copy_from_slice(of);
        Self { bytes, len: of.len() as u8, code }
    }

    fn encoding(&self) -> Encoding {
        Encoding::of(&self.bytes[..usize::from(self.len)], self.code)
    }

    /// A place for it in a table of 2^[`PLACE_BITS`].
    fn place(&self) -> usize {
        let mut low = [0; 8];
        let mut high = [0; 8];
        low.copy_from_slice(&self.bytes[..8]);
        high[..7].copy_from_slice(&self.bytes[8..]);
        let mixed = u64::from_le_bytes(low) ^ u64::from_le_bytes(high).rotate_left(29);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACE_BITS)) as usize
    }
}

/// What is known of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft::model) struct Description {
    pub(in crate::engine::soft::model) instruction: Instruction,
    /// Elements in memory that an iteration of it accesses; 0 if it has no REP.
    pub(in crate::engine::soft::model) elements_of_iteration: u8,
}

/// The descriptions of instructions that executed lately.
///
/// A description follows from bytes and mode, and is found by them, so that it is right whatever becomes of
/// the memory that they were in.
pub(in crate::engine::soft::model) struct Descriptions {
    timings: Timings,
    known: Box<[Option<(Bytes, Description)>]>,
}

impl Descriptions {
    pub(in crate::engine::soft::model) fn new(rows_of: fn(&str) -> Vec<&'static Row>) -> Self {
        Self { timings: Timings::new(rows_of), known: vec![None; 1 << PLACE_BITS].into() }
    }

    /// That of an instruction with these bytes. If they are not known, it is taken for one without
    /// prefixes, displacement and immediate operand.
    pub(in crate::engine::soft::model) fn of(
        &mut self,
        insn: &Insn,
        bytes: Option<Bytes>,
        mode: Mode,
    ) -> Description {
        let Some(bytes) = bytes else {
            return describe(&self.timings, insn, &Encoding::default(), mode);
        };
        let known = &mut self.known[bytes.place()];
        match known {
            Some((of, description)) if *of == bytes => *description,
            _ => {
                let description = describe(&self.timings, insn, &bytes.encoding(), mode);
                *known = Some((bytes, description));
                description
            }
        }
    }
}

/// The rows of a part's tables by operation, so that none is searched for by name.
pub(super) struct Timings(Box<[Box<[&'static Row]>]>);

impl Timings {
    pub(super) fn new(rows_of: fn(&str) -> Vec<&'static Row>) -> Self {
        let of = |operation: &O| rows_of(&format!("{operation:?}")).into();
        Self(O::ALL.iter().map(of).collect())
    }

    /// The timing of an operation in a form, if the tables have it: they have those of all instructions
    /// that the processor executes.
    pub(super) fn of(&self, operation: O, form: Form) -> Option<Timing> {
        self.0[operation as usize].iter().find_map(|row| row.timing(form))
    }
}

/// Describes an instruction.
pub(super) fn describe(
    timings: &Timings,
    insn: &Insn,
    encoding: &Encoding,
    mode: Mode,
) -> Description {
    let effects = insn.effects(mode);
    let timing = timings.of(insn.op, form(insn, encoding, &effects));
    let flags = |flags: FlagSet| {
        let arithmetic = flags.intersection(FlagSet::ARITHMETIC);
        if arithmetic.is_empty() { Registers::NONE } else { Registers::FLAGS }
    };
    let scalar = pipeline::Instruction {
        timing: timing.unwrap_or(Timing::integer(1, Pairing::Never)),
        reads: registers(effects.read).union(flags(effects.flags.read)),
        writes: registers(effects.written).union(flags(effects.flags.changed())),
        address: address(insn.op, &effects),
        memory: memory_use(&effects),
        predicts_stack_pointer: predicts_stack_pointer(insn, encoding),
        branch: branch(insn.op),
        exchanges: (insn.op == O::Fxch).then_some(insn.src & 7),
        x87_pops: effects.x87_pops,
        length: insn.len,
        prefixes: Prefixes {
            size: encoding.size_prefixes,
            other: encoding.other_prefixes,
            lock: encoding.lock,
        },
        displacement_and_immediate: encoding.displacement && encoding.immediate,
        serialises: insn.op.is_serialising(),
    };
    let elements_of_iteration = match insn.op {
        _ if !encoding.repeat => 0,
        O::Movs | O::Cmps => 2,
        O::Lods | O::Stos | O::Scas | O::Ins | O::Outs => 1,
        _ => 0,
    };
    let [read, values, writes] =
        [effects.read, effects.values, effects.written].map(vector_registers);
    let instruction = Instruction::new(scalar, values, writes, read.without(values));
    Description { instruction, elements_of_iteration }
}

/// The form by which the tables tell timings apart.
pub(super) fn form(insn: &Insn, encoding: &Encoding, effects: &Effects) -> Form {
    let names_memory = insn.mem_bytes != 0
        || matches!(
            insn.form,
            Operands::Mem | Operands::RegMem | Operands::MemReg | Operands::MemImm
        );
    let memory = if names_memory { memory_use(effects) } else { MemoryUse::None };
    let bits = match insn.op.family() {
        Family::X87 if names_memory => u8::try_from(insn.mem_bytes * 8).unwrap_or(u8::MAX),
        Family::X87 => 80,
        _ => insn.size.bytes() as u8 * 8,
    };
    Form {
        place: match memory {
            MemoryUse::None => Place::Register,
            MemoryUse::Load => Place::Load,
            MemoryUse::Store | MemoryUse::Modify => Place::Store,
        },
        source: match encoding.last {
            LastOperand::Other => Source::Plain,
            LastOperand::Immediate => Source::Immediate,
            LastOperand::AccumulatorImmediate => Source::AccumulatorImmediate,
            LastOperand::One => Source::One,
            LastOperand::Count => Source::Count,
        },
        bits,
    }
}

/// What it does with memory, implied operands included.
fn memory_use(effects: &Effects) -> MemoryUse {
    let reads = effects.memory.iter().any(|operand| operand.access.reads());
    let writes = effects.memory.iter().any(|operand| operand.access.writes());
    match (reads, writes) {
        (false, false) => MemoryUse::None,
        (true, false) => MemoryUse::Load,
        (false, true) => MemoryUse::Store,
        (true, true) => MemoryUse::Modify,
    }
}

/// The registers that pairing and waiting are about.
fn registers(set: RegisterSet) -> Registers {
    set.iter().fold(Registers::NONE, |all, register| {
        all.union(match register {
            Register::General(n) => Registers::general(n),
            Register::X87(place) => Registers::x87(place),
            Register::Mmx(n) => Registers::mmx(n),
            _ => Registers::NONE,
        })
    })
}

/// The registers of the vector unit.
fn vector_registers(set: RegisterSet) -> VectorRegisters {
    set.iter().fold(VectorRegisters::NONE, |all, register| {
        all.union(match register {
            Register::Zmm(n) => VectorRegisters::zmm(n),
            Register::Mask(n) => VectorRegisters::mask(n),
            _ => VectorRegisters::NONE,
        })
    })
}

/// The general registers that addresses are computed from.
fn address(operation: O, effects: &Effects) -> Registers {
    let parts = effects.memory.iter().flat_map(|operand| [operand.mem.base, operand.mem.index]);
    let named = parts.filter(|&register| usize::from(register) < GPRS);
    // AL, which the operand does not have.
    let implied = (operation == O::Xlatb).then_some(gpr::RAX);
    named.chain(implied).fold(Registers::NONE, |all, n| all.union(Registers::general(n)))
}

/// Whether the stack pointer behind it is known before it executes.
fn predicts_stack_pointer(insn: &Insn, encoding: &Encoding) -> bool {
    match insn.op {
        O::Push | O::Call => true,
        O::Pop => insn.form == Operands::Mem || insn.dst != gpr::RSP,
        O::Ret => encoding.last != LastOperand::Immediate,
        _ => false,
    }
}

/// How it transfers control.
fn branch(operation: O) -> Branch {
    match operation {
        O::Jcc | O::Jcxz | O::Jkzd | O::Jknzd | O::Loop | O::Loope | O::Loopne | O::Into => {
            Branch::Conditional
        }
        O::Jmp
        | O::JmpFar
        | O::Call
        | O::CallFar
        | O::Ret
        | O::RetFar
        | O::Iret
        | O::Int
        | O::Int1
        | O::Int3
        | O::Rsm => Branch::Unconditional,
        _ => Branch::None,
    }
}
