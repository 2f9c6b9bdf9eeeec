//! SHL, SHR, SAR, ROL, ROR, RCL, RCR, SHLD, SHRD.
//!
//! The count is masked to five bits (six with 64-bit operands); a masked count of zero leaves the
//! flags alone, but still writes the destination. OF is defined for counts of one; for others it is
//! what the same formula gives.

use iced_x86::{Instruction, OpKind};

use super::{Unread, by_size, next, sizes};
use crate::{
    cpu::Cpu,
    features::DoubleShift,
    flags::{Flags, Word},
    insn::{Form, Handler, Insn, Size, gpr},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

/// A shift or rotate by a count that is not zero and has been masked.
trait Shift {
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T;
}

/// Bit `n` of `value`, counted from the least significant; false beyond its width.
#[inline(always)]
fn bit(value: u64, n: u32) -> bool {
    value.checked_shr(n).unwrap_or(0) & 1 != 0
}

#[inline(always)]
fn top<T: Word>(value: T) -> bool {
    bit(value.to_u64(), T::BITS - 1)
}

#[inline(always)]
fn second<T: Word>(value: T) -> bool {
    bit(value.to_u64(), T::BITS - 2)
}

#[inline(always)]
fn rotated_left<T: Word>(a: T, count: u32) -> T {
    let (value, count) = (a.to_u64(), count % T::BITS);
    T::from_u64(value << count | value.checked_shr(T::BITS - count).unwrap_or(0))
}

#[inline(always)]
fn rotated_right<T: Word>(a: T, count: u32) -> T {
    let (value, count) = (a.to_u64(), count % T::BITS);
    T::from_u64(value >> count | value.checked_shl(T::BITS - count).unwrap_or(0))
}

struct Shl;
impl Shift for Shl {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let result = T::from_u64(a.to_u64() << count);
        let cf = bit(a.to_u64(), T::BITS.wrapping_sub(count));
        flags.set_result(result, cf, top(result) != cf, false);
        result
    }
}

struct Shr;
impl Shift for Shr {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let result = T::from_u64(a.to_u64() >> count);
        let cf = bit(a.to_u64(), count - 1);
        flags.set_result(result, cf, second(result), false);
        result
    }
}

struct Sar;
impl Shift for Sar {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let wide = a.to_i64();
        let result = T::from_u64((wide >> count) as u64);
        flags.set_result(result, wide >> (count - 1) & 1 != 0, false, false);
        result
    }
}

struct Rol;
impl Shift for Rol {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let result = rotated_left(a, count);
        let cf = bit(result.to_u64(), 0);
        flags.set_cf_of(cf, top(result) != cf);
        result
    }
}

struct Ror;
impl Shift for Ror {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let result = rotated_right(a, count);
        flags.set_cf_of(top(result), top(result) != second(result));
        result
    }
}

struct Rcl;
impl Shift for Rcl {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let count = count % (T::BITS + 1);
        if count == 0 {
            return a;
        }
        // The rotated word is CF followed by the operand.
        let ring = u128::from(flags.cf()) << T::BITS | u128::from(a.to_u64());
        let ring = ring << count | ring >> (T::BITS + 1 - count);
        let result = T::from_u64(ring as u64);
        let cf = ring >> T::BITS & 1 != 0;
        flags.set_cf_of(cf, top(result) != cf);
        result
    }
}

struct Rcr;
impl Shift for Rcr {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, count: u32) -> T {
        let count = count % (T::BITS + 1);
        if count == 0 {
            return a;
        }
        let ring = u128::from(flags.cf()) << T::BITS | u128::from(a.to_u64());
        let ring = ring >> count | ring << (T::BITS + 1 - count);
        let result = T::from_u64(ring as u64);
        let cf = ring >> T::BITS & 1 != 0;
        flags.set_cf_of(cf, top(result) != second(result));
        result
    }
}

impl<P: Shift> Shift for Unread<P> {
    #[inline(always)]
    fn apply<T: Word>(_: &mut Flags, a: T, count: u32) -> T {
        P::apply(&mut Flags::default(), a, count)
    }
}

/// The bits of a count that matter.
#[inline(always)]
fn count_mask<T: Word>() -> u32 {
    if T::BITS == 64 { 63 } else { 31 }
}

#[inline(always)]
fn cl<T: Word>(cpu: &Cpu) -> u32 {
    u32::from(cpu.reg::<u8>(gpr::RCX)) & count_mask::<T>()
}

#[inline(always)]
fn shifted<T: Word, P: Shift>(flags: &mut Flags, a: T, count: u32) -> T {
    if count == 0 { a } else { P::apply(flags, a, count) }
}

fn reg_imm<O: Observer, T: Word, P: Shift>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let a = cpu.reg::<T>(insn.dst);
    let count = insn.imm as u32 & count_mask::<T>();
    let result = shifted::<T, P>(&mut cpu.flags, a, count);
    cpu.set_reg(insn.dst, result);
    Ok(())
}

fn reg_cl<O: Observer, T: Word, P: Shift>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let a = cpu.reg::<T>(insn.dst);
    let count = cl::<T>(cpu);
    let result = shifted::<T, P>(&mut cpu.flags, a, count);
    cpu.set_reg(insn.dst, result);
    Ok(())
}

fn mem_imm<O: Observer, T: Word, P: Shift>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let count = insn.imm as u32 & count_mask::<T>();
    cpu.modify_mem(cx, &insn.mem, |cpu, a| shifted::<T, P>(&mut cpu.flags, a, count))
}

fn mem_cl<O: Observer, T: Word, P: Shift>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let count = cl::<T>(cpu);
    cpu.modify_mem(cx, &insn.mem, |cpu, a| shifted::<T, P>(&mut cpu.flags, a, count))
}

/// SHLD or SHRD by a count that has been masked.
trait Double {
    /// `again` follows behind `fill` where the count is beyond the operand's size.
    fn apply<T: Word>(flags: &mut Flags, a: T, fill: T, again: T, count: u32) -> T;
}

/// `high` and `low` as one number, from which so many bits are dropped at the bottom.
#[inline(always)]
fn joined<T: Word>(high: T, low: T, drop: u32) -> T {
    let wide = u128::from(high.to_u64()) << T::BITS | u128::from(low.to_u64());
    T::from_u64((wide >> drop) as u64)
}

struct Shld;
impl Double for Shld {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, fill: T, again: T, count: u32) -> T {
        let result = if count <= T::BITS {
            joined(a, fill, T::BITS - count)
        } else {
            joined(fill, again, 2 * T::BITS - count)
        };
        let cf = bit(a.to_u64(), T::BITS.wrapping_sub(count));
        flags.set_result(result, cf, top(result) != top(a), false);
        result
    }
}

struct Shrd;
impl Double for Shrd {
    #[inline(always)]
    fn apply<T: Word>(flags: &mut Flags, a: T, fill: T, again: T, count: u32) -> T {
        let result = if count <= T::BITS {
            joined(fill, a, count)
        } else {
            joined(again, fill, count - T::BITS)
        };
        let cf = bit(a.to_u64(), count - 1);
        flags.set_result(result, cf, top(result) != top(a), false);
        result
    }
}

#[inline(always)]
fn shifted_double<T: Word, P: Double>(cpu: &mut Cpu, a: T, fill: T, count: u32) -> T {
    if count == 0 {
        return a;
    }
    // The count has five bits, six with 64-bit operands: only 16-bit operands are shifted further
    // than they are wide.
    let again = match cpu.features.double_shift {
        DoubleShift::Destination if T::BITS == 16 => a,
        _ => fill,
    };
    P::apply(&mut cpu.flags, a, fill, again, count)
}

fn double_reg_imm<O: Observer, T: Word, P: Double>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let (a, fill) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    let count = insn.imm as u32 & count_mask::<T>();
    let result = shifted_double::<T, P>(cpu, a, fill, count);
    cpu.set_reg(insn.dst, result);
    Ok(())
}

fn double_reg_cl<O: Observer, T: Word, P: Double>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let (a, fill) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    let count = cl::<T>(cpu);
    let result = shifted_double::<T, P>(cpu, a, fill, count);
    cpu.set_reg(insn.dst, result);
    Ok(())
}

fn double_mem_imm<O: Observer, T: Word, P: Double>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let fill = cpu.reg::<T>(insn.src);
    let count = insn.imm as u32 & count_mask::<T>();
    cpu.modify_mem(cx, &insn.mem, |cpu, a| shifted_double::<T, P>(cpu, a, fill, count))
}

fn double_mem_cl<O: Observer, T: Word, P: Double>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let fill = cpu.reg::<T>(insn.src);
    let count = cl::<T>(cpu);
    cpu.modify_mem(cx, &insn.mem, |cpu, a| shifted_double::<T, P>(cpu, a, fill, count))
}

/// Operand 0, and the count (operand `count_at`) if it is an immediate.
fn shift_operands(l: &Lowering, i: &Instruction, mut insn: Insn, count_at: u32) -> Insn {
    insn.size = l.size_of(i);
    let immediate = i.op_kind(count_at) != OpKind::Register;
    let to_register = i.op0_kind() == OpKind::Register;
    if to_register {
        insn.dst = l.reg(i.op0_register());
    }
    if immediate {
        let mask = if insn.size == Size::B8 { 63 } else { 31 };
        insn.imm = i.immediate(count_at) & mask;
    } else {
        insn.src = gpr::RCX;
    }
    insn.form = match (to_register, immediate) {
        (true, true) => Form::RegImm,
        (true, false) => Form::RegReg,
        (false, true) => Form::MemImm,
        (false, false) => Form::MemReg,
    };
    insn
}

/// Lowers the instructions of this file; `src` is the register that SHLD and SHRD shift in.
pub(super) fn lower(l: &Lowering, i: &Instruction, insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Shl
        | Operation::Shr
        | Operation::Sar
        | Operation::Rol
        | Operation::Ror
        | Operation::Rcl
        | Operation::Rcr => next(shift_operands(l, i, insn, 1)),
        Operation::Shld | Operation::Shrd => {
            next(Insn { src: l.reg(i.op1_register()), ..shift_operands(l, i, insn, 2) })
        }
        _ => None,
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.op {
        Operation::Shl => shift::<O, Shl>(insn),
        Operation::Shr => shift::<O, Shr>(insn),
        Operation::Sar => shift::<O, Sar>(insn),
        Operation::Rol => shift::<O, Rol>(insn),
        Operation::Ror => shift::<O, Ror>(insn),
        Operation::Rcl => shift::<O, Rcl>(insn),
        Operation::Rcr => shift::<O, Rcr>(insn),
        Operation::Shld => double::<O, Shld>(insn.form),
        Operation::Shrd => double::<O, Shrd>(insn.form),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}

fn shift<O: Observer, P: Shift>(insn: &Insn) -> [Handler<O>; 4] {
    match insn.form {
        Form::RegImm if insn.flags_are_unread() => sizes!(reg_imm, O, Unread<P>),
        Form::RegImm => sizes!(reg_imm, O, P),
        Form::RegReg => sizes!(reg_cl, O, P),
        Form::MemImm => sizes!(mem_imm, O, P),
        _ => sizes!(mem_cl, O, P),
    }
}

fn double<O: Observer, P: Double>(form: Form) -> [Handler<O>; 4] {
    match form {
        Form::RegImm => sizes!(double_reg_imm, O, P),
        Form::RegReg => sizes!(double_reg_cl, O, P),
        Form::MemImm => sizes!(double_mem_imm, O, P),
        _ => sizes!(double_mem_cl, O, P),
    }
}
