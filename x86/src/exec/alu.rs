//! ADD, OR, ADC, SBB, AND, SUB, XOR, CMP, TEST; INC, DEC, NEG, NOT.

use iced_x86::{Instruction, Mnemonic};

use super::{by_size, next, operands, sizes};
use crate::{
    cpu::Cpu,
    flags::{Flags, Word},
    insn::{Form, Insn},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    stop::Exec,
};

/// An operation on two operands.
trait Binary {
    /// The result goes to the destination.
    const WRITES: bool = true;
    /// The result, with the flags set.
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T;
}

#[inline(always)]
fn sum<T: Word>(flags: &mut Flags, a: T, b: T, carry: bool) -> T {
    let result = T::from_u64(a.to_u64().wrapping_add(b.to_u64()).wrapping_add(u64::from(carry)));
    flags.set_add(a, b, result);
    result
}

#[inline(always)]
fn difference<T: Word>(flags: &mut Flags, a: T, b: T, borrow: bool) -> T {
    let result = T::from_u64(a.to_u64().wrapping_sub(b.to_u64()).wrapping_sub(u64::from(borrow)));
    flags.set_sub(a, b, result);
    result
}

#[inline(always)]
fn logic<T: Word>(flags: &mut Flags, result: u64) -> T {
    let result = T::from_u64(result);
    flags.set_logic(result);
    result
}

struct Add;
impl Binary for Add {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        sum(flags, a, b, false)
    }
}

struct Adc;
impl Binary for Adc {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        let carry = flags.cf();
        sum(flags, a, b, carry)
    }
}

struct Sub;
impl Binary for Sub {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        difference(flags, a, b, false)
    }
}

struct Sbb;
impl Binary for Sbb {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        let borrow = flags.cf();
        difference(flags, a, b, borrow)
    }
}

struct Cmp;
impl Binary for Cmp {
    const WRITES: bool = false;
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        difference(flags, a, b, false)
    }
}

struct And;
impl Binary for And {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        logic(flags, a.to_u64() & b.to_u64())
    }
}

struct Test;
impl Binary for Test {
    const WRITES: bool = false;
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        logic(flags, a.to_u64() & b.to_u64())
    }
}

struct Or;
impl Binary for Or {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        logic(flags, a.to_u64() | b.to_u64())
    }
}

struct Xor;
impl Binary for Xor {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, b: T) -> T {
        logic(flags, a.to_u64() ^ b.to_u64())
    }
}

#[inline(always)]
fn into_register<T: Word, P: Binary>(cpu: &mut Cpu, r: u8, a: T, b: T) {
    let result = P::apply(&mut cpu.flags, a, b);
    if P::WRITES {
        cpu.set_reg(r, result);
    }
}

#[inline(always)]
fn into_memory<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    b: T,
) -> Exec<()> {
    if P::WRITES {
        cpu.modify_mem(cx, &insn.mem, |cpu, a| P::apply(&mut cpu.flags, a, b))
    } else {
        let a = cpu.load_mem(cx, &insn.mem)?;
        P::apply(&mut cpu.flags, a, b);
        Ok(())
    }
}

fn reg_reg<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let (a, b) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    into_register::<T, P>(cpu, insn.dst, a, b);
    Ok(())
}

fn reg_imm<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let a = cpu.reg::<T>(insn.dst);
    into_register::<T, P>(cpu, insn.dst, a, T::from_u64(insn.imm));
    Ok(())
}

fn reg_mem<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let b = cpu.load_mem(cx, &insn.mem)?;
    let a = cpu.reg::<T>(insn.dst);
    into_register::<T, P>(cpu, insn.dst, a, b);
    Ok(())
}

fn mem_reg<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let b = cpu.reg::<T>(insn.src);
    into_memory::<O, T, P>(cpu, cx, insn, b)
}

fn mem_imm<O: Observer, T: Word, P: Binary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    into_memory::<O, T, P>(cpu, cx, insn, T::from_u64(insn.imm))
}

fn binary<O: Observer, P: Binary>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let mut insn = l.insn(i);
    if !operands(l, i, &mut insn) {
        return None;
    }
    let handlers = match insn.form {
        Form::RegReg => sizes!(reg_reg, O, P),
        Form::RegImm => sizes!(reg_imm, O, P),
        Form::RegMem => sizes!(reg_mem, O, P),
        Form::MemReg => sizes!(mem_reg, O, P),
        Form::MemImm => sizes!(mem_imm, O, P),
        Form::None | Form::Reg | Form::Mem => return None,
    };
    next(by_size(insn.size, handlers), insn)
}

/// An operation on one operand.
trait Unary {
    /// The result, with the flags set.
    fn apply<T: Word>(flags: &mut Flags, a: T) -> T;
}

struct Inc;
impl Unary for Inc {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T) -> T {
        let cf = flags.cf();
        let result = sum(flags, a, T::from_u64(1), false);
        flags.keep_cf(cf);
        result
    }
}

struct Dec;
impl Unary for Dec {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T) -> T {
        let cf = flags.cf();
        let result = difference(flags, a, T::from_u64(1), false);
        flags.keep_cf(cf);
        result
    }
}

struct Neg;
impl Unary for Neg {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T) -> T {
        difference(flags, T::from_u64(0), a, false)
    }
}

struct Not;
impl Unary for Not {
    #[inline(always)]
    fn apply<T: Word>(_: &mut Flags, a: T) -> T {
        T::from_u64(!a.to_u64())
    }
}

fn unary_reg<O: Observer, T: Word, P: Unary>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let a = cpu.reg::<T>(insn.dst);
    let result = P::apply(&mut cpu.flags, a);
    cpu.set_reg(insn.dst, result);
    Ok(())
}

fn unary_mem<O: Observer, T: Word, P: Unary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    cpu.modify_mem(cx, &insn.mem, |cpu, a: T| P::apply(&mut cpu.flags, a))
}

fn unary<O: Observer, P: Unary>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let mut insn = l.insn(i);
    if !operands(l, i, &mut insn) {
        return None;
    }
    let handlers = match insn.form {
        Form::Reg => sizes!(unary_reg, O, P),
        _ => sizes!(unary_mem, O, P),
    };
    next(by_size(insn.size, handlers), insn)
}

pub(super) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Add => binary::<O, Add>(l, i),
        Mnemonic::Or => binary::<O, Or>(l, i),
        Mnemonic::Adc => binary::<O, Adc>(l, i),
        Mnemonic::Sbb => binary::<O, Sbb>(l, i),
        Mnemonic::And => binary::<O, And>(l, i),
        Mnemonic::Sub => binary::<O, Sub>(l, i),
        Mnemonic::Xor => binary::<O, Xor>(l, i),
        Mnemonic::Cmp => binary::<O, Cmp>(l, i),
        Mnemonic::Test => binary::<O, Test>(l, i),
        Mnemonic::Inc => unary::<O, Inc>(l, i),
        Mnemonic::Dec => unary::<O, Dec>(l, i),
        Mnemonic::Neg => unary::<O, Neg>(l, i),
        Mnemonic::Not => unary::<O, Not>(l, i),
        _ => None,
    }
}
