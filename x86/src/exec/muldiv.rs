//! MUL, IMUL, DIV, IDIV; CBW, CWDE, CDQE, CWD, CDQ, CQO.

use iced_x86::Instruction;

use super::{by_size, next, operands, sign_extend, sizes};
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{Form, HIGH_BYTE, Handler, Insn, Size, gpr},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

/// An operation on the double-width accumulator (AX, DX:AX, EDX:EAX, RDX:RAX) and an operand.
trait Accumulator {
    fn apply<T: Word>(cpu: &mut Cpu, operand: T) -> Exec<()>;
}

#[inline(always)]
fn high_half<T: Word>() -> u8 {
    if T::BITS == 8 { gpr::RAX | HIGH_BYTE } else { gpr::RDX }
}

#[inline(always)]
fn set_halves<T: Word>(cpu: &mut Cpu, high: u64, low: u64) {
    cpu.set_reg(gpr::RAX, T::from_u64(low));
    cpu.set_reg(high_half::<T>(), T::from_u64(high));
}

/// After a multiplication: CF and OF say that the high half matters. SF, ZF, AF and PF are
/// undefined.
#[inline(always)]
fn product_flags<T: Word>(cpu: &mut Cpu, low: u64, overflow: bool) {
    cpu.flags.set_result(T::from_u64(low), overflow, overflow, false);
}

struct Mul;
impl Accumulator for Mul {
    #[inline(always)]
    fn apply<T: Word>(cpu: &mut Cpu, operand: T) -> Exec<()> {
        let accumulator = cpu.reg::<T>(gpr::RAX);
        let product = u128::from(accumulator.to_u64()) * u128::from(operand.to_u64());
        let high = (product >> T::BITS) as u64;
        set_halves::<T>(cpu, high, product as u64);
        product_flags::<T>(cpu, product as u64, high != 0);
        Ok(())
    }
}

/// The signed product and whether it does not fit into `T`.
#[inline(always)]
fn signed_product<T: Word>(a: T, b: T) -> (i128, bool) {
    let product = i128::from(a.to_i64()) * i128::from(b.to_i64());
    (product, i128::from(T::from_u64(product as u64).to_i64()) != product)
}

struct Imul;
impl Accumulator for Imul {
    #[inline(always)]
    fn apply<T: Word>(cpu: &mut Cpu, operand: T) -> Exec<()> {
        let accumulator = cpu.reg::<T>(gpr::RAX);
        let (product, overflow) = signed_product(accumulator, operand);
        set_halves::<T>(cpu, (product >> T::BITS) as u64, product as u64);
        product_flags::<T>(cpu, product as u64, overflow);
        Ok(())
    }
}

struct Div;
impl Accumulator for Div {
    #[inline(always)]
    fn apply<T: Word>(cpu: &mut Cpu, operand: T) -> Exec<()> {
        let (high, low) =
            (cpu.reg::<T>(high_half::<T>()).to_u64(), cpu.reg::<T>(gpr::RAX).to_u64());
        let divisor = operand.to_u64();
        // The quotient fits exactly if the high half is less than the divisor; so zero is caught.
        if high >= divisor {
            return Err(Stop::DE);
        }
        let (quotient, remainder) = if T::BITS < 64 {
            let dividend = high << T::BITS | low;
            (dividend / divisor, dividend % divisor)
        } else if high == 0 {
            (low / divisor, low % divisor)
        } else {
            let (dividend, divisor) =
                (u128::from(high) << 64 | u128::from(low), u128::from(divisor));
            ((dividend / divisor) as u64, (dividend % divisor) as u64)
        };
        set_halves::<T>(cpu, remainder, quotient);
        Ok(())
    }
}

struct Idiv;
impl Accumulator for Idiv {
    #[inline(always)]
    fn apply<T: Word>(cpu: &mut Cpu, operand: T) -> Exec<()> {
        let (high, low) =
            (cpu.reg::<T>(high_half::<T>()).to_i64(), cpu.reg::<T>(gpr::RAX).to_u64());
        let divisor = i128::from(operand.to_i64());
        let dividend = i128::from(high) << T::BITS | i128::from(low);
        // None: division by zero, or the one quotient that 128 bits do not hold.
        let quotient = dividend.checked_div(divisor).ok_or(Stop::DE)?;
        if i128::from(T::from_u64(quotient as u64).to_i64()) != quotient {
            return Err(Stop::DE);
        }
        let remainder = dividend - quotient * divisor;
        set_halves::<T>(cpu, remainder as u64, quotient as u64);
        Ok(())
    }
}

fn accumulator_reg<O: Observer, T: Word, P: Accumulator>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let operand = cpu.reg::<T>(insn.dst);
    P::apply(cpu, operand)
}

fn accumulator_mem<O: Observer, T: Word, P: Accumulator>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let operand = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    P::apply(cpu, operand)
}

#[inline(always)]
fn imul_into<T: Word>(cpu: &mut Cpu, dst: u8, a: T, b: T) {
    let (product, overflow) = signed_product(a, b);
    cpu.set_reg(dst, T::from_u64(product as u64));
    product_flags::<T>(cpu, product as u64, overflow);
}

fn imul_reg<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (a, b) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    imul_into(cpu, insn.dst, a, b);
    Ok(())
}

fn imul_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let b = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    let a = cpu.reg::<T>(insn.dst);
    imul_into(cpu, insn.dst, a, b);
    Ok(())
}

fn imul_reg_imm<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let a = cpu.reg::<T>(insn.src);
    imul_into(cpu, insn.dst, a, T::from_u64(insn.imm));
    Ok(())
}

fn imul_mem_imm<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let a = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    imul_into(cpu, insn.dst, a, T::from_u64(insn.imm));
    Ok(())
}

/// CBW, CWDE, CDQE: the lower half of the accumulator, sign-extended; `T` is the whole.
fn widen<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let unused = 64 - T::BITS / 2;
    let value = (cpu.reg::<u64>(gpr::RAX) << unused) as i64 >> unused;
    cpu.set_reg(gpr::RAX, T::from_u64(value as u64));
    Ok(())
}

/// CWD, CDQ, CQO: the accumulator's sign into all of rDX.
fn spread<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let sign = cpu.reg::<T>(gpr::RAX).to_i64() >> 63;
    cpu.set_reg(gpr::RDX, T::from_u64(sign as u64));
    Ok(())
}

/// Lowers the instructions of this file. Of IMUL `aux` is the number of operands.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Mul | Operation::Imul | Operation::Div | Operation::Idiv => {
            if !operands(l, i, &mut insn) {
                return None;
            }
        }
        Operation::Cbw | Operation::Cwd => insn.size = Size::B2,
        Operation::Cwde | Operation::Cdq => insn.size = Size::B4,
        Operation::Cdqe | Operation::Cqo => insn.size = Size::B8,
        _ => return None,
    }
    if insn.op == Operation::Imul {
        insn.aux = i.op_count() as u8;
        if insn.aux == 3 {
            insn.imm = sign_extend(i.immediate(2), insn.size);
        }
    }
    next(insn)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.op {
        Operation::Mul => accumulator::<O, Mul>(insn.form),
        Operation::Imul => imul(insn),
        Operation::Div => accumulator::<O, Div>(insn.form),
        Operation::Idiv => accumulator::<O, Idiv>(insn.form),
        Operation::Cbw | Operation::Cwde | Operation::Cdqe => sizes!(widen, O),
        Operation::Cwd | Operation::Cdq | Operation::Cqo => sizes!(spread, O),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}

fn accumulator<O: Observer, P: Accumulator>(form: Form) -> [Handler<O>; 4] {
    match form {
        Form::Reg => sizes!(accumulator_reg, O, P),
        _ => sizes!(accumulator_mem, O, P),
    }
}

fn imul<O: Observer>(insn: &Insn) -> [Handler<O>; 4] {
    match (insn.aux, insn.form) {
        (1, form) => accumulator::<O, Imul>(form),
        (2, Form::RegReg) => sizes!(imul_reg, O),
        (2, _) => sizes!(imul_mem, O),
        (_, Form::RegReg) => sizes!(imul_reg_imm, O),
        (_, _) => sizes!(imul_mem_imm, O),
    }
}
