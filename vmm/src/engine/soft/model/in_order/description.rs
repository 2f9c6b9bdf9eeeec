//! What an in-order pipeline knows of an instruction before it executes.

use uarch::part::in_order_table::{Form, Place, Row, Source};
use uarch::pipeline::in_order::multithreaded::{Instruction, VectorRegisters};
use uarch::pipeline::in_order::{Pairing, Timing};
use uarch::pipeline::{self, Branch, MemoryUse, Prefixes, Registers};
use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::effects::{Effects, FlagSet, Mode, Register, RegisterSet};
use x86_cpu::encoding::{Encoding, LastOperand};
use x86_cpu::insn::{Form as Operands, GPRS, Insn, gpr};
use x86_cpu::mode::CodeSize;
use x86_cpu::operation::{Family, Operation as O};
use x86_cpu::ram::Ram;

use crate::engine::soft::model::by_block::{ByBlock, Cache};

/// Most bytes of an instruction.
const LONGEST: usize = 15;

/// What is known of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft::model) struct Description {
    pub(in crate::engine::soft::model) instruction: Instruction,
    /// Elements in memory that an iteration of it accesses; 0 if it has no REP.
    pub(in crate::engine::soft::model) elements_of_iteration: u8,
    /// It has a thread stop, or what its threads count may be other signals behind it.
    pub(in crate::engine::soft::model) is_rare: bool,
}

/// What the pipelines of a machine know of instructions before they execute.
pub(in crate::engine::soft::model) struct Descriptions {
    timings: Timings,
    blocks: ByBlock<Description>,
}

impl Descriptions {
    pub(in crate::engine::soft::model) fn new(rows_of: fn(&str) -> Vec<&'static Row>) -> Self {
        Self { timings: Timings::new(rows_of), blocks: ByBlock::new() }
    }

    /// Blocks come from this cache of translations.
    pub(in crate::engine::soft::model) fn choose(&mut self, cache: Cache) {
        self.blocks.choose(cache);
    }

    /// A block is entered.
    #[inline(always)]
    pub(in crate::engine::soft::model) fn entered(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
    ) {
        let Self { timings, blocks } = self;
        blocks.entered(block, || {
            let mode = Mode::of(cpu);
            let describe =
                |insn: &Insn| describe(timings, insn, &encoding(ram, block, insn, mode.code), mode);
            block.instructions().map(describe).collect()
        });
    }

    /// One that has been entered goes on.
    #[inline(always)]
    pub(in crate::engine::soft::model) fn goes_on_in(&mut self, block: &impl Code) {
        self.blocks.goes_on_in(block);
    }

    /// An instruction of the running block.
    #[inline(always)]
    pub(in crate::engine::soft::model) fn instruction(&self, insn: &Insn) -> Option<&Description> {
        self.blocks.instruction(insn)
    }
}

/// How an instruction of a block is encoded that has just been translated: memory has its bytes. One that is not in memory
/// is taken for one without prefixes, displacement and immediate operand.
fn encoding(ram: &Ram, block: &impl Code, insn: &Insn, code: CodeSize) -> Encoding {
    let mut bytes = [0; LONGEST];
    let bytes = &mut bytes[..usize::from(insn.len).min(LONGEST)];
    let begin = insn.end.saturating_sub(insn.len.into());
    let is_read = (begin..).zip(bytes.chunks_mut(1)).all(|(at, byte)| {
        // The second of two pages need not be behind the first.
        ram.read_bytes(block.physical(at), byte)
    });
    if is_read && !block.is_of_device() { Encoding::of(bytes, code) } else { Encoding::default() }
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
    let is_rare = matches!(insn.op, O::Hlt | O::Delay | O::Wrmsr | O::Spflt);
    Description { instruction, elements_of_iteration, is_rare }
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
