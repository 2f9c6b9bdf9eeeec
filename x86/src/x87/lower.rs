//! Where the operands of x87 instructions are, and what the instructions are counted as.

use iced_x86::{Instruction, MemorySize, Mnemonic, OpKind};

use super::MemoryFormat;
use super::exec::{POP, QUIET, TRUNCATE};
use crate::{
    class::Class,
    insn::{Form, Insn, Size},
    lower::{End, Lowered, Lowering},
    mode::CodeSize,
    operation::Operation,
};

/// Lowers an x87 instruction or FWAIT; `insn` is what all instructions have in common of it.
///
/// In the lowered instruction `dst` and `src` are stack positions, or `src` is a [`MemoryFormat`];
/// `aux` is what the handler says, `imm` the opcode as the unit keeps it.
pub(crate) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    insn.imm = u64::from(last_opcode(l));
    insn.form = if has_memory(i) { Form::Mem } else { Form::Reg };
    insn.size = match i.memory_size() {
        // The size of the image tells the operand size.
        MemorySize::FpuEnv14 | MemorySize::FpuState94 => Size::B2,
        MemorySize::FpuEnv28 | MemorySize::FpuState108 => Size::B4,
        _ if l.code == CodeSize::Bits16 => Size::B2,
        _ => Size::B4,
    };
    insn.aux = choice(&insn, i);
    if insn.form == Form::Mem {
        insn.src = format(i).map_or(0, |format| format as u8);
    } else {
        positions(i, &mut insn);
    }
    Some(Lowered { insn, class: class(insn.op), end: End::Next })
}

fn class(op: Operation) -> Class {
    match op {
        Operation::Wait => Class::NONE,
        Operation::Fcomi | Operation::Fcomip | Operation::Fucomi | Operation::Fucomip => {
            Class::X87.with(Class::FAST_FLAG).with(Class::X87_FLOP)
        }
        _ if computes(op) => Class::X87.with(Class::X87_FLOP),
        _ => Class::X87,
    }
}

/// The low three bits of the first opcode byte, D8h-DFh, and the byte behind it (AMD64 APM volume
/// 1, "x87 Opcode"); zero for FWAIT, which has one byte only.
fn last_opcode(l: &Lowering) -> u16 {
    // All prefixes are below D8h or above DFh.
    let at = l.bytes.iter().position(|byte| (0xD8..=0xDF).contains(byte));
    match at.and_then(|at| l.bytes.get(at..at + 2)) {
        Some(&[first, second]) => u16::from(first & 7) << 8 | u16::from(second),
        _ => 0,
    }
}

/// Whether the instruction is one of [`Class::X87_FLOP`].
fn computes(op: Operation) -> bool {
    use Operation as M;
    matches!(
        op,
        M::Fadd
            | M::Faddp
            | M::Fiadd
            | M::Fsub
            | M::Fsubp
            | M::Fisub
            | M::Fsubr
            | M::Fsubrp
            | M::Fisubr
            | M::Fmul
            | M::Fmulp
            | M::Fimul
            | M::Fdiv
            | M::Fdivp
            | M::Fidiv
            | M::Fdivr
            | M::Fdivrp
            | M::Fidivr
            | M::Fsqrt
            | M::Fprem
            | M::Fprem1
            | M::Frndint
            | M::Fscale
            | M::Fxtract
            | M::Fcom
            | M::Fcomp
            | M::Fcompp
            | M::Ficom
            | M::Ficomp
            | M::Fucom
            | M::Fucomp
            | M::Fucompp
            | M::Fcomi
            | M::Fcomip
            | M::Fucomi
            | M::Fucomip
            | M::Ftst
            | M::F2xm1
            | M::Fyl2x
            | M::Fyl2xp1
            | M::Fptan
            | M::Fpatan
            | M::Fsin
            | M::Fcos
            | M::Fsincos
    )
}

fn has_memory(i: &Instruction) -> bool {
    i.op_count() > 0 && i.op0_kind() == OpKind::Memory
}

/// The stack position of operand `n`; 0 if it is none.
fn position(i: &Instruction, n: u32) -> u8 {
    if n < i.op_count() && i.op_kind(n) == OpKind::Register {
        let register = i.op_register(n);
        if register.is_st() { register.number() as u8 & 7 } else { 0 }
    } else {
        0
    }
}

fn format(i: &Instruction) -> Option<MemoryFormat> {
    Some(match i.memory_size() {
        MemorySize::Float32 => MemoryFormat::Single,
        MemorySize::Float64 => MemoryFormat::Double,
        MemorySize::Float80 => MemoryFormat::Extended,
        MemorySize::Int16 => MemoryFormat::Int16,
        MemorySize::Int32 => MemoryFormat::Int32,
        MemorySize::Int64 => MemoryFormat::Int64,
        MemorySize::Bcd => MemoryFormat::Decimal,
        _ => return None,
    })
}

/// Enters the stack positions of an instruction without a memory operand.
fn positions(i: &Instruction, insn: &mut Insn) {
    match insn.op {
        Operation::Fadd
        | Operation::Fmul
        | Operation::Fsub
        | Operation::Fsubr
        | Operation::Fdiv
        | Operation::Fdivr
        | Operation::Faddp
        | Operation::Fmulp
        | Operation::Fsubp
        | Operation::Fsubrp
        | Operation::Fdivp
        | Operation::Fdivrp => (insn.dst, insn.src) = (position(i, 0), position(i, 1)),
        Operation::Fcom
        | Operation::Fcomp
        | Operation::Fucom
        | Operation::Fucomp
        | Operation::Fcomi
        | Operation::Fcomip
        | Operation::Fucomi
        | Operation::Fucomip
        | Operation::Fxch
        | Operation::Fcmovcc => insn.src = position(i, 1),
        Operation::Fcompp | Operation::Fucompp => insn.src = 1,
        Operation::Fld => insn.src = position(i, 0),
        Operation::Fst
        | Operation::Fstp
        | Operation::Fstpnce
        | Operation::Ffree
        | Operation::Ffreep => insn.dst = position(i, 0),
        _ => {}
    }
}

/// Which of several things the handler does, for `aux`.
fn choice(insn: &Insn, i: &Instruction) -> u8 {
    use Operation as Op;
    match insn.op {
        Op::Fadd | Op::Fiadd => 0,
        Op::Fmul | Op::Fimul => 1,
        Op::Fsub | Op::Fisub => 2,
        Op::Fsubr | Op::Fisubr => 3,
        Op::Fdiv | Op::Fidiv => 4,
        Op::Fdivr | Op::Fidivr => 5,
        Op::Faddp => POP,
        Op::Fmulp => 1 | POP,
        Op::Fsubp => 2 | POP,
        Op::Fsubrp => 3 | POP,
        Op::Fdivp => 4 | POP,
        Op::Fdivrp => 5 | POP,
        // The number of pops, or one pop.
        Op::Fcomp | Op::Ficomp => 1,
        Op::Fcompp => 2,
        Op::Fucom => QUIET,
        Op::Fucomp => 1 | QUIET,
        Op::Fucompp => 2 | QUIET,
        Op::Fcomip => POP,
        Op::Fucomi => QUIET,
        Op::Fucomip => QUIET | POP,
        Op::Frndint => 1,
        Op::Fabs => 2,
        Op::Fchs => 3,
        Op::Fyl2x => 1,
        Op::Fyl2xp1 => 2,
        Op::Fptan => 3,
        Op::Fpatan => 4,
        Op::Fsin => 5,
        Op::Fcos => 6,
        Op::Fsincos => 7,
        Op::Fisttp => POP | TRUNCATE,
        Op::Fstp | Op::Fistp | Op::Fbstp | Op::Fstpnce => POP,
        Op::Fldl2t => 1,
        Op::Fldl2e => 2,
        Op::Fldpi => 3,
        Op::Fldlg2 => 4,
        Op::Fldln2 => 5,
        Op::Fldz => 6,
        // The condition codes of the integer instructions: below, equal, below or equal, parity, and
        // their opposites.
        Op::Fcmovcc => match i.mnemonic() {
            Mnemonic::Fcmovb => 2,
            Mnemonic::Fcmovnb => 3,
            Mnemonic::Fcmove => 4,
            Mnemonic::Fcmovne => 5,
            Mnemonic::Fcmovbe => 6,
            Mnemonic::Fcmovnbe => 7,
            Mnemonic::Fcmovu => 10,
            _ => 11,
        },
        _ => 0,
    }
}
