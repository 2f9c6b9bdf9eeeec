//! ADD, OR, ADC, SBB, AND, SUB, XOR, CMP, TEST; INC, DEC, NEG, NOT.

use iced_x86::Instruction;

use super::{Unread, by_size, next, operands, sizes};
use crate::{
    cpu::Cpu,
    flags::{Flags, Word},
    insn::{Form, Handler, Insn},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
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

impl<P: Binary> Binary for Unread<P> {
    const WRITES: bool = P::WRITES;
    #[inline(always)]
    fn apply<T: Word>(_: &mut Flags, a: T, b: T) -> T {
        P::apply(&mut Flags::default(), a, b)
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
    let Some((b, done)) = cpu.load_quickly::<T>(&insn.mem) else {
        return reg_mem_slowly::<O, T, P>(cpu, cx, insn);
    };
    let a = cpu.reg::<T>(insn.dst);
    into_register::<T, P>(cpu, insn.dst, a, b);
    cpu.loaded_operand(cx, insn, done)
}

#[inline(never)]
fn reg_mem_slowly<O: Observer, T: Word, P: Binary>(
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

impl<P: Unary> Unary for Unread<P> {
    #[inline(always)]
    fn apply<T: Word>(_: &mut Flags, a: T) -> T {
        P::apply(&mut Flags::default(), a)
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

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Add
        | Operation::Or
        | Operation::Adc
        | Operation::Sbb
        | Operation::And
        | Operation::Sub
        | Operation::Xor
        | Operation::Cmp
        | Operation::Test
        | Operation::Inc
        | Operation::Dec
        | Operation::Neg
        | Operation::Not => {
            if operands(l, i, &mut insn) {
                next(insn)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    match insn.op {
        Operation::Add => binary::<O, Add>(insn),
        Operation::Or => binary::<O, Or>(insn),
        Operation::Adc => binary::<O, Adc>(insn),
        Operation::Sbb => binary::<O, Sbb>(insn),
        Operation::And => binary::<O, And>(insn),
        Operation::Sub => binary::<O, Sub>(insn),
        Operation::Xor => binary::<O, Xor>(insn),
        Operation::Cmp => binary::<O, Cmp>(insn),
        Operation::Test => binary::<O, Test>(insn),
        Operation::Inc => unary::<O, Inc>(insn),
        Operation::Dec => unary::<O, Dec>(insn),
        Operation::Neg => unary::<O, Neg>(insn),
        Operation::Not => unary::<O, Not>(insn),
        _ => None,
    }
}

fn binary<O: Observer, P: Binary>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.form {
        Form::RegReg if insn.flags_are_unread() => sizes!(reg_reg, O, Unread<P>),
        Form::RegImm if insn.flags_are_unread() => sizes!(reg_imm, O, Unread<P>),
        Form::RegReg => sizes!(reg_reg, O, P),
        Form::RegImm => sizes!(reg_imm, O, P),
        Form::RegMem => sizes!(reg_mem, O, P),
        Form::MemReg => sizes!(mem_reg, O, P),
        Form::MemImm => sizes!(mem_imm, O, P),
        Form::None | Form::Reg | Form::Mem => return None,
    };
    Some(by_size(insn.size, handlers))
}

fn unary<O: Observer, P: Unary>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.form {
        Form::Reg if insn.flags_are_unread() => sizes!(unary_reg, O, Unread<P>),
        Form::Reg => sizes!(unary_reg, O, P),
        _ => sizes!(unary_mem, O, P),
    };
    Some(by_size(insn.size, handlers))
}
