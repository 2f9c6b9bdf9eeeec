//! From decoded x87 instructions to handlers.

use iced_x86::{Instruction, MemorySize, Mnemonic, OpKind};

use super::MemoryFormat;
use super::exec::{self, POP, QUIET, TRUNCATE};
use crate::{
    insn::{Class, Form, Handler, Insn, Size},
    lower::{End, Lowered, Lowering},
    mode::CodeSize,
    observe::Observer,
};

/// Lowers an x87 instruction or FWAIT.
///
/// In the lowered instruction `dst` and `src` are stack positions, or `src` is a [`MemoryFormat`];
/// `aux` is what the handler says, `imm` the opcode as the unit keeps it.
pub(crate) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let mut insn = l.insn(i);
    insn.class = Class::X87;
    insn.imm = u64::from(last_opcode(l));
    insn.form = if has_memory(i) { Form::Mem } else { Form::Reg };
    insn.size = if l.code == CodeSize::Bits16 { Size::B2 } else { Size::B4 };
    let run = arithmetic(&mut insn, i)
        .or_else(|| transfer(&mut insn, i))
        .or_else(|| control(&mut insn, i))?;
    if computes(i.mnemonic()) {
        insn.class = insn.class.with(Class::X87_FLOP);
    }
    Some(Lowered { run, insn, end: End::Next })
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
fn computes(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
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

/// Arithmetic, comparisons and the operations without operands.
fn arithmetic<O: Observer>(insn: &mut Insn, i: &Instruction) -> Option<Handler<O>> {
    use Mnemonic as M;
    let (op, pop) = match i.mnemonic() {
        M::Fadd | M::Fiadd => (0, 0),
        M::Fmul | M::Fimul => (1, 0),
        M::Fsub | M::Fisub => (2, 0),
        M::Fsubr | M::Fisubr => (3, 0),
        M::Fdiv | M::Fidiv => (4, 0),
        M::Fdivr | M::Fidivr => (5, 0),
        M::Faddp => (0, POP),
        M::Fmulp => (1, POP),
        M::Fsubp => (2, POP),
        M::Fsubrp => (3, POP),
        M::Fdivp => (4, POP),
        M::Fdivrp => (5, POP),
        _ => return comparison(insn, i),
    };
    insn.aux = op | pop;
    if has_memory(i) {
        insn.src = format(i)? as u8;
        return Some(exec::arith_memory::<O>);
    }
    (insn.dst, insn.src) = (position(i, 0), position(i, 1));
    Some(exec::arith::<O>)
}

fn comparison<O: Observer>(insn: &mut Insn, i: &Instruction) -> Option<Handler<O>> {
    use Mnemonic as M;
    let (pops, quiet) = match i.mnemonic() {
        M::Fcom | M::Ficom => (0, 0),
        M::Fcomp | M::Ficomp => (1, 0),
        M::Fcompp => (2, 0),
        M::Fucom => (0, QUIET),
        M::Fucomp => (1, QUIET),
        M::Fucompp => (2, QUIET),
        M::Fcomi | M::Fcomip | M::Fucomi | M::Fucomip => {
            let quiet = matches!(i.mnemonic(), M::Fucomi | M::Fucomip);
            let pop = matches!(i.mnemonic(), M::Fcomip | M::Fucomip);
            insn.src = position(i, 1);
            insn.aux = if quiet { QUIET } else { 0 } | if pop { POP } else { 0 };
            insn.class = Class::X87.with(Class::FAST_FLAG);
            return Some(exec::compare_flags::<O>);
        }
        _ => return stack_only(insn, i),
    };
    insn.aux = pops | quiet;
    if has_memory(i) {
        insn.src = format(i)? as u8;
        return Some(exec::compare_memory::<O>);
    }
    insn.src = if pops == 2 { 1 } else { position(i, 1) };
    Some(exec::compare::<O>)
}

fn stack_only<O: Observer>(insn: &mut Insn, i: &Instruction) -> Option<Handler<O>> {
    use Mnemonic as M;
    let handler: Handler<O> = match i.mnemonic() {
        M::Ftst => exec::ftst::<O>,
        M::Fxam => exec::fxam::<O>,
        M::Fxtract => exec::fxtract::<O>,
        M::Fscale => exec::fscale::<O>,
        M::Fprem => exec::fprem::<O>,
        M::Fprem1 => exec::fprem1::<O>,
        M::Fincstp => exec::fincstp::<O>,
        M::Fdecstp => exec::fdecstp::<O>,
        M::Fnop => exec::fnop::<O>,
        M::Fsqrt | M::Frndint | M::Fabs | M::Fchs => {
            insn.aux = match i.mnemonic() {
                M::Fsqrt => 0,
                M::Frndint => 1,
                M::Fabs => 2,
                _ => 3,
            };
            exec::unary::<O>
        }
        other => {
            insn.aux = match other {
                M::F2xm1 => 0,
                M::Fyl2x => 1,
                M::Fyl2xp1 => 2,
                M::Fptan => 3,
                M::Fpatan => 4,
                M::Fsin => 5,
                M::Fcos => 6,
                M::Fsincos => 7,
                _ => return None,
            };
            exec::transcendental::<O>
        }
    };
    Some(handler)
}

/// Loads, stores, constants and moves.
fn transfer<O: Observer>(insn: &mut Insn, i: &Instruction) -> Option<Handler<O>> {
    use Mnemonic as M;
    let handler: Handler<O> = match i.mnemonic() {
        M::Fld | M::Fild | M::Fbld if has_memory(i) => {
            insn.src = format(i)? as u8;
            exec::load_memory::<O>
        }
        M::Fst | M::Fstp | M::Fist | M::Fistp | M::Fisttp | M::Fbstp if has_memory(i) => {
            insn.src = format(i)? as u8;
            insn.aux = match i.mnemonic() {
                M::Fst | M::Fist => 0,
                M::Fisttp => POP | TRUNCATE,
                _ => POP,
            };
            exec::store_memory::<O>
        }
        M::Fld => {
            insn.src = position(i, 0);
            exec::load::<O>
        }
        M::Fst | M::Fstp | M::Fstpnce => {
            insn.dst = position(i, 0);
            insn.aux = if i.mnemonic() == M::Fst { 0 } else { POP };
            exec::store::<O>
        }
        M::Fxch => {
            insn.src = position(i, 1);
            exec::fxch::<O>
        }
        M::Ffree => {
            insn.dst = position(i, 0);
            exec::ffree::<O>
        }
        M::Ffreep => {
            insn.dst = position(i, 0);
            exec::ffreep::<O>
        }
        M::Fld1 | M::Fldl2t | M::Fldl2e | M::Fldpi | M::Fldlg2 | M::Fldln2 | M::Fldz => {
            insn.aux = match i.mnemonic() {
                M::Fld1 => 0,
                M::Fldl2t => 1,
                M::Fldl2e => 2,
                M::Fldpi => 3,
                M::Fldlg2 => 4,
                M::Fldln2 => 5,
                _ => 6,
            };
            exec::constant::<O>
        }
        other => {
            // The condition codes of the integer instructions: below, equal, below or equal,
            // parity, and their opposites.
            insn.aux = match other {
                M::Fcmovb => 2,
                M::Fcmovnb => 3,
                M::Fcmove => 4,
                M::Fcmovne => 5,
                M::Fcmovbe => 6,
                M::Fcmovnbe => 7,
                M::Fcmovu => 10,
                M::Fcmovnu => 11,
                _ => return None,
            };
            insn.src = position(i, 1);
            exec::fcmov::<O>
        }
    };
    Some(handler)
}

/// The control instructions.
fn control<O: Observer>(insn: &mut Insn, i: &Instruction) -> Option<Handler<O>> {
    use Mnemonic as M;
    // The size of the image tells the operand size.
    if matches!(i.memory_size(), MemorySize::FpuEnv14 | MemorySize::FpuState94) {
        insn.size = Size::B2;
    } else if matches!(i.memory_size(), MemorySize::FpuEnv28 | MemorySize::FpuState108) {
        insn.size = Size::B4;
    }
    let handler: Handler<O> = match i.mnemonic() {
        M::Fldcw => exec::fldcw::<O>,
        M::Fnstcw => exec::fnstcw::<O>,
        M::Fnstsw if has_memory(i) => exec::fnstsw::<O>,
        M::Fnstsw => exec::fnstsw_ax::<O>,
        M::Fnclex => exec::fnclex::<O>,
        M::Fninit => exec::fninit::<O>,
        M::Fnstenv => exec::fnstenv::<O>,
        M::Fldenv => exec::fldenv::<O>,
        M::Fnsave => exec::fnsave::<O>,
        M::Frstor => exec::frstor::<O>,
        // FENI, FDISI, FSETPM, FRSTPM: what they did is gone since the 387.
        M::Fneni | M::Fndisi | M::Fnsetpm | M::Frstpm => exec::ignored::<O>,
        M::Wait => {
            insn.class = Class::NONE;
            exec::fwait::<O>
        }
        _ => return None,
    };
    Some(handler)
}
