//! XCHG, XADD, CMPXCHG, CMPXCHG8B, CMPXCHG16B.

use iced_x86::Instruction;

use super::{by_size, next, operands, sizes};
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{Form, Handler, Insn, Size, gpr},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

fn xchg_reg<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (a, b) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    cpu.set_reg(insn.dst, b);
    cpu.set_reg(insn.src, a);
    Ok(())
}

fn xchg_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.modify_mem(cx, &insn.mem, |cpu, old: T| {
        let new = cpu.reg::<T>(insn.src);
        cpu.set_reg(insn.src, old);
        new
    })
}

#[inline(always)]
fn sum<T: Word>(cpu: &mut Cpu, a: T, b: T) -> T {
    let sum = T::from_u64(a.to_u64().wrapping_add(b.to_u64()));
    cpu.flags.set_add(a, b, sum);
    sum
}

fn xadd_reg<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (a, b) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    let sum = sum(cpu, a, b);
    // The sum comes last: it stays if both operands are the same register.
    cpu.set_reg(insn.src, a);
    cpu.set_reg(insn.dst, sum);
    Ok(())
}

fn xadd_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.modify_mem(cx, &insn.mem, |cpu, a: T| {
        let b = cpu.reg::<T>(insn.src);
        cpu.set_reg(insn.src, a);
        sum(cpu, a, b)
    })
}

/// Compares the accumulator with `old`, with the flags of CMP; if they differ, `old` goes into the
/// accumulator.
#[inline(always)]
fn compare<T: Word>(cpu: &mut Cpu, old: T) -> bool {
    let accumulator = cpu.reg::<T>(gpr::RAX);
    let difference = T::from_u64(accumulator.to_u64().wrapping_sub(old.to_u64()));
    cpu.flags.set_sub(accumulator, old, difference);
    if accumulator == old {
        return true;
    }
    cpu.set_reg(gpr::RAX, old);
    false
}

fn cmpxchg_reg<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let new = cpu.reg::<T>(insn.src);
    let old = cpu.reg::<T>(insn.dst);
    if compare(cpu, old) {
        cpu.set_reg(insn.dst, new);
    }
    Ok(())
}

/// Memory is written in either case, so a page that cannot be written faults.
fn cmpxchg_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let new = cpu.reg::<T>(insn.src);
    cpu.modify_mem(cx, &insn.mem, |cpu, old| if compare(cpu, old) { new } else { old })
}

fn cmpxchg8b<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.modify_mem(cx, &insn.mem, |cpu, old: u64| {
        let pair = |cpu: &Cpu, high, low| {
            u64::from(cpu.reg::<u32>(high)) << 32 | u64::from(cpu.reg::<u32>(low))
        };
        let equal = pair(cpu, gpr::RDX, gpr::RAX) == old;
        cpu.flags.set_zf(equal);
        if equal {
            return pair(cpu, gpr::RCX, gpr::RBX);
        }
        cpu.set_reg(gpr::RDX, (old >> 32) as u32);
        cpu.set_reg(gpr::RAX, old as u32);
        old
    })
}

fn cmpxchg16b<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if cpu.linear(&insn.mem, 16, true)? & 15 != 0 {
        return Err(Stop::GP0);
    }
    let linear = cpu.linear_in_pieces(&insn.mem, 16, 16, true)?;
    cpu.probe_write(cx, linear, 16)?;
    cpu.count_modify(cx, linear, 16);
    let low: u64 = cpu.load_part(cx, linear)?;
    let high: u64 = cpu.load_part(cx, linear.wrapping_add(8))?;
    let equal = (high, low) == (cpu.reg(gpr::RDX), cpu.reg(gpr::RAX));
    let (new_high, new_low) =
        if equal { (cpu.reg(gpr::RCX), cpu.reg(gpr::RBX)) } else { (high, low) };
    cpu.store_part::<O, u64>(cx, linear, new_low)?;
    cpu.store_part::<O, u64>(cx, linear.wrapping_add(8), new_high)?;
    cpu.flags.set_zf(equal);
    if !equal {
        cpu.set_reg(gpr::RDX, high);
        cpu.set_reg(gpr::RAX, low);
    }
    Ok(())
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Xchg | Operation::Xadd | Operation::Cmpxchg => {
            if !operands(l, i, &mut insn) {
                return None;
            }
        }
        Operation::Cmpxchg8b | Operation::Cmpxchg16b => {
            insn.form = Form::Mem;
            insn.size = Size::B8;
        }
        _ => return None,
    }
    // XCHG takes its register operand and memory in either order.
    if insn.form == Form::RegMem {
        insn.form = Form::MemReg;
        insn.src = insn.dst;
    }
    next(insn)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match (insn.op, insn.form) {
        (Operation::Xchg, Form::RegReg) => sizes!(xchg_reg, O),
        (Operation::Xchg, _) => sizes!(xchg_mem, O),
        (Operation::Xadd, Form::RegReg) => sizes!(xadd_reg, O),
        (Operation::Xadd, _) => sizes!(xadd_mem, O),
        (Operation::Cmpxchg, Form::RegReg) => sizes!(cmpxchg_reg, O),
        (Operation::Cmpxchg, _) => sizes!(cmpxchg_mem, O),
        (Operation::Cmpxchg8b, _) => return Some(cmpxchg8b),
        (Operation::Cmpxchg16b, _) => return Some(cmpxchg16b),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}
