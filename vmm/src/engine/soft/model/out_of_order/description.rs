//! What an out-of-order pipeline knows of instructions before they execute.
//!
//! [`Preparation`] has the rows of a part's decoders by operation, so that none is searched for by name
//! when a block is translated.

use uarch::pipeline::out_of_order::table::{Form, Row, Shape, Variant, Width};
use uarch::pipeline::out_of_order::{Core, Instruction, Operands, registers};
use uarch::state::{State, Visitor};
use x86_cpu::block::Code;
use x86_cpu::class::Class;
use x86_cpu::effects::{Effects, FlagSet, Mode, Register, RegisterSet};
use x86_cpu::insn::{
    self as lowered, AddrMask, BLOCK_BASE, File, HIGH_BYTE, Insn, Size, ZERO, gpr,
};
use x86_cpu::mode::CodeSize;
use x86_cpu::operation::{Family, Operation as O};

#[cfg(test)]
mod tests;

/// The row of what a table does not have: there is none that a processor can come to.
static NOTHING: Row = Row::NOTHING;

/// A set of the pipelines' registers.
type Registers = registers::Registers;

/// An instruction of a translated block.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Prepared {
    /// What the pipeline is told of it.
    pub(super) instruction: Instruction,
    /// Its loads and stores are locked, if it has any.
    pub(super) locked: bool,
    /// The segment register that it loads; 0 if none.
    pub(super) segment: u8,
    /// It stores AH, BH, CH or DH.
    pub(super) high_byte: bool,
    /// Elements in memory that an iteration of it accesses; 0 if it has no REP.
    pub(super) elements_of_iteration: u8,
}

/// What instructions are prepared with.
pub(super) struct Preparation {
    core: &'static Core,
    /// By [`O`]: the rows that name it.
    rows: Box<[Box<[&'static Row]>]>,
}

/// What a pipeline is told of the delivery of an interrupt or exception.
pub(super) fn delivery(core: &Core) -> Instruction {
    let shape = Shape { form: Form::None, width: Width::Bits32, variant: Variant::Plain };
    let row = core.table.look_up("Delivery", shape);
    let operands = Operands {
        address: registers::set(registers::STACK_POINTER),
        destinations: registers::set(registers::STACK_POINTER),
        ..Operands::default()
    };
    Instruction::new(core, row.unwrap_or(&NOTHING), &operands)
}

impl Preparation {
    /// For the pipelines of a part.
    pub(super) fn new(core: &'static Core) -> Self {
        let of = |operation: &O| core.table.rows_of(&format!("{operation:?}")).collect();
        Self { core, rows: O::ALL.iter().map(of).collect() }
    }

    /// The row of an instruction.
    fn row(&self, insn: &Insn) -> &'static Row {
        let shape = shape(insn);
        let rows = &self.rows[insn.op as usize];
        rows.iter().find(|row| row.is_for(shape)).copied().unwrap_or(&NOTHING)
    }

    /// Prepares an instruction that was translated in a mode.
    pub(super) fn prepare(&self, insn: &Insn, class: Class, mode: Mode) -> Prepared {
        let effects = insn.effects(mode);
        let operands = operands(insn, mode, &effects);
        let segment = effects.written.iter().find_map(|register| match register {
            Register::Segment(n) => Some(n),
            _ => None,
        });
        Prepared {
            instruction: Instruction::new(self.core, self.row(insn), &operands),
            locked: class.0 & Class::LOCKED.0 != 0,
            segment: segment.unwrap_or(0),
            high_byte: insn.form == lowered::Form::MemReg
                && insn.op == O::Mov
                && insn.src & HIGH_BYTE != 0,
            elements_of_iteration: elements_of_iteration(insn),
        }
    }

    /// Prepares those of a block.
    pub(super) fn block(&self, block: &impl Code, mode: Mode) -> Box<[Prepared]> {
        let prepare = |(n, insn)| self.prepare(insn, block.class(n), mode);
        block.instructions().enumerate().map(prepare).collect()
    }
}

/// What tells an instruction's row from those of the same operation.
fn shape(insn: &Insn) -> Shape {
    Shape { form: form(insn), width: width(insn), variant: variant(insn) }
}

fn form(insn: &Insn) -> Form {
    match insn.form {
        lowered::Form::None => Form::None,
        lowered::Form::Reg => Form::Reg,
        lowered::Form::Mem => Form::Mem,
        lowered::Form::RegReg => Form::RegReg,
        lowered::Form::RegMem => Form::RegMem,
        lowered::Form::MemReg => Form::MemReg,
        lowered::Form::RegImm => Form::RegImm,
        lowered::Form::MemImm => Form::MemImm,
    }
}

fn width(insn: &Insn) -> Width {
    match insn.mem_bytes {
        1 => return Width::Bits8,
        2 => return Width::Bits16,
        4 => return Width::Bits32,
        8 => return Width::Bits64,
        10 => return Width::Bits80,
        16 => return Width::Bits128,
        // None, or an image: the operand size tells its kinds apart.
        _ => {}
    }
    match (insn.op.family(), insn.files.first()) {
        (Family::X87, _) => Width::Bits80,
        (_, File::Xmm) => Width::Bits128,
        (_, File::Mmx) => Width::Bits64,
        _ => match insn.size {
            Size::B1 => Width::Bits8,
            Size::B2 => Width::Bits16,
            Size::B4 => Width::Bits32,
            Size::B8 => Width::Bits64,
        },
    }
}

fn variant(insn: &Insn) -> Variant {
    let by_register = matches!(insn.form, lowered::Form::RegReg | lowered::Form::MemReg);
    let long = match insn.op {
        O::Lea => {
            let mem = &insn.mem;
            let parts = [mem.base != ZERO, mem.index != ZERO, mem.disp != 0];
            let parts = parts.into_iter().filter(|&part| part).count();
            mem.index != ZERO && mem.scale != 0 || parts > 2
        }
        O::Imul => matches!(insn.form, lowered::Form::Reg | lowered::Form::Mem),
        // A count in CL.
        O::Rol | O::Ror | O::Rcl | O::Rcr | O::Shl | O::Shr | O::Sar | O::Shld | O::Shrd => {
            by_register
        }
        O::Bt | O::Bts | O::Btr | O::Btc => by_register,
        _ => false,
    };
    if long {
        Variant::Long
    } else if is_repeated(insn) {
        Variant::Repeated
    } else {
        Variant::Plain
    }
}

/// Whether it is a string instruction with a REP.
fn is_repeated(insn: &Insn) -> bool {
    let string =
        matches!(insn.op, O::Movs | O::Cmps | O::Stos | O::Lods | O::Scas | O::Ins | O::Outs);
    // Of all of them `aux` is zero without a repeat prefix.
    string && insn.aux != 0
}

/// Elements in memory that an iteration accesses; 0 without a REP.
fn elements_of_iteration(insn: &Insn) -> u8 {
    match insn.op {
        _ if !is_repeated(insn) => 0,
        O::Movs | O::Cmps => 2,
        _ => 1,
    }
}

/// What an instruction reads and writes, in the pipelines' words.
fn operands(insn: &Insn, mode: Mode, effects: &Effects) -> Operands {
    // What may stay as it was, or stays in part of an XMM register, is waited for.
    let may_stay = effects.conditional.intersection(GENERAL.union(XMM).union(X87));
    let stays = may_stay.union(effects.partial.intersection(XMM));
    let sources = numbers(effects.values.union(stays)) | flags_read(effects);
    let destinations = numbers(results(effects)) | flags_written(effects);
    let address = address(insn, effects);
    let general = effects.values.intersection(GENERAL);
    Operands {
        sources,
        address,
        destinations,
        partial: numbers(effects.partial.intersection(GENERAL)),
        whole: if reads_whole(insn) { numbers(general) & !low_source(insn) } else { 0 },
        pushes: -effects.x87_pops,
        zeroes: zeroes(insn),
        length: insn.len,
        length_changes: length_changes(insn, mode),
    }
}

/// The general registers.
const GENERAL: RegisterSet = RegisterSet::range(Register::General(0), 16);
/// XMM0 to XMM15.
const XMM: RegisterSet = RegisterSet::range(Register::Xmm(0), 16);
/// ST(0) to ST(7).
const X87: RegisterSet = RegisterSet::range(Register::X87(0), 8);

/// The registers that something waits for behind an instruction. Exception flags of the floating-point
/// units, which stay set, are collected when instructions retire: they are nobody's result.
fn results(effects: &Effects) -> RegisterSet {
    match effects.conditional.contains(Register::Mxcsr) {
        true => effects.written.without(RegisterSet::one(Register::Mxcsr)),
        false => effects.written,
    }
}

/// The numbers that the pipelines have for registers. The instruction pointer, and the x87 unit's own
/// record of its stack, exceptions and last instruction, are renamed or not waited for; no processor that
/// executes out of order here has ZMM and mask registers.
fn numbers(set: RegisterSet) -> Registers {
    let number = |register| {
        Some(match register {
            Register::General(n) => registers::GENERAL + n,
            Register::X87(n) => registers::X87 + n,
            Register::Mmx(n) => registers::MMX + n,
            Register::Xmm(n) => registers::XMM + n,
            Register::Segment(n) => registers::SEGMENT + n,
            Register::X87Control | Register::Mxcsr => registers::FLOAT_CONTROL,
            Register::Control(_)
            | Register::Debug(_)
            | Register::Gdtr
            | Register::Idtr
            | Register::Ldtr
            | Register::Tr
            | Register::TimeStamp
            | Register::PerformanceCounters
            | Register::ModelSpecific => registers::SYSTEM,
            Register::InstructionPointer
            | Register::X87Status
            | Register::X87Top
            | Register::X87Tags
            | Register::X87Pointers
            | Register::Zmm(_)
            | Register::Mask(_) => return None,
        })
    };
    set.iter().filter_map(number).fold(0, |set, number| set | registers::set(number))
}

/// The arithmetic flags apart from carry.
const STATUS: FlagSet =
    FlagSet::PF.union(FlagSet::AF).union(FlagSet::ZF).union(FlagSet::SF).union(FlagSet::OF);

/// The numbers of flags: those of the system are with the control registers.
fn flag_numbers(flags: FlagSet) -> Registers {
    let system = flags.without(FlagSet::ARITHMETIC).without(FlagSet::CONDITION_CODES);
    let groups = [
        (flags.intersection(FlagSet::CF), registers::CARRY),
        (flags.intersection(STATUS), registers::STATUS),
        (flags.intersection(FlagSet::CONDITION_CODES), registers::X87_CONDITION),
        (system, registers::SYSTEM),
    ];
    let there = groups.into_iter().filter(|(flags, _)| !flags.is_empty());
    there.fold(0, |set, (_, number)| set | registers::set(number))
}

fn flags_read(effects: &Effects) -> Registers {
    let flags = &effects.flags;
    let mut read = flags.read;
    let changed = flags.changed().intersection(FlagSet::ARITHMETIC);
    // Flags that stay are merged with those that change, which are renamed together.
    let status = changed.intersection(STATUS);
    if !status.is_empty() && status != STATUS {
        read = read.union(STATUS);
    }
    flag_numbers(read.union(flags.conditional.intersection(FlagSet::ARITHMETIC)))
}

fn flags_written(effects: &Effects) -> Registers {
    flag_numbers(effects.flags.changed())
}

/// The registers that the addresses of its memory operands are computed from.
fn address(insn: &Insn, effects: &Effects) -> Registers {
    let mut address = 0;
    for operand in &effects.memory {
        for register in [operand.mem.base, operand.mem.index] {
            if register != ZERO && register != BLOCK_BASE {
                address |= general(register);
            }
        }
    }
    let segments = RegisterSet::range(Register::Segment(0), 6);
    address |= numbers(effects.read.without(effects.values).intersection(segments));
    match insn.op {
        O::Xlatb => address | general(gpr::RAX),
        // The index of the bit says where in memory it is.
        O::Bt | O::Bts | O::Btr | O::Btc if insn.form == lowered::Form::MemReg => {
            address | general(insn.src)
        }
        _ => address,
    }
}

/// The number of a general register, of an operand number.
fn general(operand: u8) -> Registers {
    let n = if operand & HIGH_BYTE != 0 { operand & 3 } else { operand & 15 };
    registers::set(registers::GENERAL + n)
}

/// Whether more than a half of the general registers that it reads as values matters.
fn reads_whole(insn: &Insn) -> bool {
    match insn.op {
        // The source is narrower than the operand size says; it is a selector, or AL or AX.
        O::Movzx | O::Movsx | O::Cwde | O::Setcc | O::Sahf | O::In | O::Ins => false,
        O::MovToSegment | O::Lldt | O::Ltr | O::Lmsw | O::Lar | O::Lsl | O::Verr | O::Verw => false,
        O::Arpl | O::Pinsrw | O::Xlatb => false,
        O::Loop | O::Loope | O::Loopne => insn.aux != Size::B2 as u8,
        _ => insn.size >= Size::B4,
    }
}

/// The register of which an instruction that reads wholes reads the low byte or half only.
fn low_source(insn: &Insn) -> Registers {
    let in_cl = matches!(insn.form, lowered::Form::RegReg | lowered::Form::MemReg);
    let count = if in_cl && insn.dst != gpr::RCX { general(gpr::RCX) } else { 0 };
    match insn.op {
        O::Rol | O::Ror | O::Rcl | O::Rcr | O::Shl | O::Shr | O::Sar => count,
        O::Shld | O::Shrd if insn.src != gpr::RCX => count,
        // The port is in DX.
        O::Out | O::Outs => general(gpr::RDX),
        _ => 0,
    }
}

/// Whether it makes a register zero whatever it was.
fn zeroes(insn: &Insn) -> bool {
    matches!(insn.op, O::Xor | O::Sub) && insn.form == lowered::Form::RegReg && insn.dst == insn.src
}

/// Whether an operand-size prefix changes the length of the instruction's immediate, or an
/// address-size prefix that of its ModRM bytes and displacement. A lowered instruction has no prefixes:
/// they are told from the mode, and an immediate that fits in a byte is taken to be in one, as assemblers
/// encode it, where there is such an encoding.
fn length_changes(insn: &Insn, mode: Mode) -> bool {
    let (size, mask) = match mode.code {
        CodeSize::Bits16 => (Size::B2, AddrMask::Bits16),
        CodeSize::Bits32 => (Size::B4, AddrMask::Bits32),
        // The width of a displacement does not depend on that of the address.
        CodeSize::Bits64 => (Size::B4, insn.mem.mask),
    };
    let addressed = insn.mem_bytes > 0 && insn.mem.mask != mask;
    if addressed || insn.size == size || !matches!(insn.size, Size::B2 | Size::B4) {
        return addressed;
    }
    let immediate = match insn.form {
        lowered::Form::RegImm | lowered::Form::MemImm => true,
        lowered::Form::RegReg | lowered::Form::RegMem => insn.op == O::Imul && insn.aux == 3,
        _ => false,
    };
    let fits_in_a_byte = i8::try_from(insn.imm as i64).is_ok();
    immediate
        && match insn.op {
            O::Mov | O::Test => true,
            O::Add | O::Or | O::Adc | O::Sbb | O::And | O::Sub | O::Xor | O::Cmp => !fits_in_a_byte,
            O::Imul | O::Push => !fits_in_a_byte,
            _ => false,
        }
}

impl Prepared {
    /// Of an instruction that does nothing special.
    pub(super) fn of(instruction: Instruction) -> Self {
        Self { instruction, locked: false, segment: 0, high_byte: false, elements_of_iteration: 0 }
    }

    /// Saves it or loads it, as [`State::visit`] does.
    pub(super) fn visit<V: Visitor>(&mut self, visitor: &mut V, core: &Core) {
        let Self { instruction, locked, segment, high_byte, elements_of_iteration } = self;
        instruction.visit(visitor, core);
        locked.visit(visitor);
        segment.visit(visitor);
        high_byte.visit(visitor);
        elements_of_iteration.visit(visitor);
    }
}
