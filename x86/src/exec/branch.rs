//! Near JMP, CALL and RET; Jcc, LOOP, LOOPE, LOOPNE, JCXZ, JKZD, JKNZD; BOUND.
//!
//! A target outside the limit of CS (legacy modes) or not canonical (64-bit mode) is #GP(0), raised
//! before anything has changed.

use iced_x86::{Code, Instruction, OpKind};

use super::{
    by_condition, condition, conditions, next, operands,
    stack::{
        by_stack, move_stack, peek_quickly, push_quickly, push_value, stack_access, stack_fault,
        stack_top, stacks,
    },
};
use crate::{
    access::is_canonical,
    class::Class,
    cpu::Cpu,
    flags::Word,
    insn::{BLOCK_BASE, Form, Handler, Insn, Size, gpr, seg},
    lower::{End, Lowered, Lowering},
    observe::{Branch, Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop, vector},
};

/// In [`Cpu::slot`]: the branch fell through.
pub(crate) const NOT_TAKEN: u32 = 0;
/// In [`Cpu::slot`]: the branch went to the one target that it can have.
const TAKEN: u32 = 1;
/// In [`Cpu::slot`]: the target is known only now.
const INDIRECT: u32 = 2;

/// The target of a branch with operand size `T`, checked.
#[inline(always)]
fn target<T: Word>(cpu: &Cpu, ip: u64) -> Exec<u64> {
    let ip = T::from_u64(ip).to_u64();
    let inside = if T::BITS == 64 {
        is_canonical(ip)
    } else {
        // A 16-bit operand in 64-bit mode leaves an address that is canonical.
        ip <= u64::from(cpu.segment(seg::CS).limit) || cpu.in_64bit()
    };
    if inside { Ok(ip) } else { Err(Stop::GP0) }
}

/// The target that the instruction names: `imm` is its offset from the block's first byte.
#[inline(always)]
fn static_target<T: Word>(cpu: &Cpu, insn: &Insn) -> Exec<u64> {
    target::<T>(cpu, cpu.regs[usize::from(BLOCK_BASE)].wrapping_add(insn.imm))
}

/// RIP of the next instruction.
#[inline(always)]
fn next_ip<T: Word>(cpu: &Cpu, insn: &Insn) -> u64 {
    if T::BITS == 64 {
        cpu.regs[usize::from(BLOCK_BASE)].wrapping_add(u64::from(insn.end))
    } else {
        cpu.rip_at(insn.end)
    }
}

#[inline(always)]
fn go<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, ip: u64, slot: u32) {
    cpu.rip = ip;
    cpu.slot = slot;
    if slot != NOT_TAKEN {
        cpu.spend_taken();
    }
    cx.observer.branch(Branch::Near, slot != NOT_TAKEN);
}

fn jmp<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let ip = static_target::<T>(cpu, insn)?;
    go(cpu, cx, ip, TAKEN);
    Ok(())
}

fn jmp_reg<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let ip = target::<T>(cpu, cpu.reg::<T>(insn.src).to_u64())?;
    go(cpu, cx, ip, INDIRECT);
    Ok(())
}

fn jmp_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let ip = cpu.load_mem::<O, T>(cx, &insn.mem)?.to_u64();
    let ip = target::<T>(cpu, ip)?;
    go(cpu, cx, ip, INDIRECT);
    Ok(())
}

/// Goes to the static target if `taken`, else on.
#[inline(always)]
fn branch_if<O: Observer, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    taken: bool,
) -> Exec<()> {
    if taken {
        let ip = static_target::<T>(cpu, insn)?;
        go(cpu, cx, ip, TAKEN);
    } else {
        let ip = next_ip::<T>(cpu, insn);
        go(cpu, cx, ip, NOT_TAKEN);
    }
    Ok(())
}

fn jcc<O: Observer, T: Word, const CC: u8>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let taken = cpu.flags.condition(CC);
    branch_if::<O, T>(cpu, cx, insn, taken)
}

/// What a LOOP looks at beside the count.
const COUNT_ONLY: u8 = 0;
const WHILE_EQUAL: u8 = 1;
const WHILE_NOT_EQUAL: u8 = 2;

/// LOOP, LOOPE, LOOPNE with a count of width `C` in rCX.
fn count_down<O: Observer, T: Word, C: Word, const WHILE: u8>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let count = C::from_u64(cpu.reg::<C>(gpr::RCX).to_u64().wrapping_sub(1));
    let holds = match WHILE {
        WHILE_EQUAL => cpu.flags.zf(),
        WHILE_NOT_EQUAL => !cpu.flags.zf(),
        _ => true,
    };
    branch_if::<O, T>(cpu, cx, insn, count.to_u64() != 0 && holds)?;
    cpu.set_reg(gpr::RCX, count);
    Ok(())
}

/// JCXZ, JECXZ, JRCXZ.
fn jump_if_zero<O: Observer, T: Word, C: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let taken = cpu.reg::<C>(gpr::RCX).to_u64() == 0;
    branch_if::<O, T>(cpu, cx, insn, taken)
}

/// JKZD, and JKNZD with `WANTED` set: whether any bit of the mask register in `src` is.
fn jump_by_mask<O: Observer, const WANTED: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let taken = (cpu.mask(insn.src) != 0) == WANTED;
    branch_if::<O, u64>(cpu, cx, insn, taken)
}

/// Pushes the address of the next instruction and goes to `ip`, which has been checked.
#[inline(always)]
fn call_to<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    ip: u64,
    slot: u32,
) -> Exec<()> {
    let back = T::from_u64(next_ip::<T>(cpu, insn));
    push_value::<O, T, S>(cpu, cx, insn, back)?;
    go(cpu, cx, ip, slot);
    Ok(())
}

fn call<O: Observer, T: Word, S: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let ip = static_target::<T>(cpu, insn)?;
    let back = T::from_u64(next_ip::<T>(cpu, insn));
    let Some(done) = push_quickly::<T, S>(cpu, insn, back) else {
        return call_slowly::<O, T, S>(cpu, cx, insn);
    };
    go(cpu, cx, ip, TAKEN);
    cpu.stored(cx, done)
}

#[inline(never)]
fn call_slowly<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let ip = static_target::<T>(cpu, insn)?;
    call_to::<O, T, S>(cpu, cx, insn, ip, TAKEN)
}

fn call_reg<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let ip = target::<T>(cpu, cpu.reg::<T>(insn.src).to_u64())?;
    call_to::<O, T, S>(cpu, cx, insn, ip, INDIRECT)
}

fn call_mem<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let ip = cpu.load_mem::<O, T>(cx, &insn.mem)?.to_u64();
    let ip = target::<T>(cpu, ip)?;
    call_to::<O, T, S>(cpu, cx, insn, ip, INDIRECT)
}

/// RET: `imm` is how much more than the return address it pops.
fn ret<O: Observer, T: Word, S: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let Some((ip, done)) = peek_quickly::<T, S>(cpu, insn) else {
        return ret_slowly::<O, T, S>(cpu, cx, insn);
    };
    let ip = target::<T>(cpu, ip.to_u64())?;
    return_to::<O, S>(cpu, cx, ip, T::BYTES as i64 + insn.imm as i64);
    cpu.loaded(cx, done)
}

/// Goes to an address, which has been checked, that was on the stack with so many bytes.
#[inline(always)]
fn return_to<O: Observer, S: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, ip: u64, bytes: i64) {
    move_stack::<S>(cpu, bytes);
    cpu.rip = ip;
    cpu.slot = INDIRECT;
    cpu.spend_taken();
    cx.observer.branch(Branch::Ret, true);
}

#[inline(never)]
fn ret_slowly<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let linear = stack_top::<T, S>(cpu, insn)?;
    let ip = cpu.load_part::<O, T>(cx, linear).map_err(stack_fault)?.to_u64();
    let ip = target::<T>(cpu, ip)?;
    cpu.count_load(cx, linear, T::BYTES as u64);
    return_to::<O, S>(cpu, cx, ip, T::BYTES as i64 + insn.imm as i64);
    Ok(())
}

fn bound<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let linear = cpu.linear(&insn.mem, 2 * T::BYTES as u64, false)?;
    let lower = cpu.load::<O, T>(cx, linear)?.to_i64();
    let upper = cpu.load::<O, T>(cx, linear.wrapping_add(T::BYTES as u64))?.to_i64();
    let index = cpu.reg::<T>(insn.dst).to_i64();
    if index < lower || index > upper { Err(Stop::fault(vector::BR)) } else { Ok(()) }
}

fn last(insn: Insn) -> Option<Lowered> {
    Some(Lowered { insn, class: Class::NONE, end: End::Branch })
}

/// Enters the static target, if there is one, and the operand size.
fn static_operand(i: &Instruction, insn: &mut Insn) -> bool {
    insn.size = match i.op_kind(i.op_count().saturating_sub(1)) {
        OpKind::NearBranch16 => Size::B2,
        OpKind::NearBranch32 => Size::B4,
        OpKind::NearBranch64 => Size::B8,
        _ => return false,
    };
    // The decoder was given offsets from the block's first byte as addresses.
    insn.imm = i.near_branch_target();
    true
}

/// Width of the count of a LOOP or JCXZ: the address size.
fn count_size(code: Code) -> Size {
    match code {
        Code::Loop_rel8_16_CX
        | Code::Loop_rel8_32_CX
        | Code::Loope_rel8_16_CX
        | Code::Loope_rel8_32_CX
        | Code::Loopne_rel8_16_CX
        | Code::Loopne_rel8_32_CX
        | Code::Jcxz_rel8_16
        | Code::Jcxz_rel8_32 => Size::B2,
        Code::Loop_rel8_16_RCX
        | Code::Loop_rel8_64_RCX
        | Code::Loope_rel8_16_RCX
        | Code::Loope_rel8_64_RCX
        | Code::Loopne_rel8_16_RCX
        | Code::Loopne_rel8_64_RCX
        | Code::Jrcxz_rel8_16
        | Code::Jrcxz_rel8_64 => Size::B8,
        _ => Size::B4,
    }
}

/// Enters the register, if there is one, through which an indirect JMP or CALL goes, and the operand
/// size.
fn indirect_operand(l: &Lowering, i: &Instruction, insn: &mut Insn) {
    insn.size = l.size_of(i);
    if i.op0_kind() == OpKind::Memory {
        insn.form = Form::Mem;
    } else {
        insn.form = Form::Reg;
        insn.src = l.reg(i.op0_register());
    }
}

/// Lowers the instructions of this file. Of Jcc `aux` is the condition code, of LOOP, LOOPE, LOOPNE
/// and JCXZ the width of the count (as [`Size`]), of CALL and RET what
/// [`stack_access`](super::stack::stack_access) says.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Jmp | Operation::Call => {
            if insn.op == Operation::Call {
                insn.aux = stack_access(l);
            }
            if !static_operand(i, &mut insn) {
                if !i.is_jmp_near_indirect() && !i.is_call_near_indirect() {
                    return None;
                }
                indirect_operand(l, i, &mut insn);
            }
        }
        Operation::Ret => {
            insn.aux = stack_access(l);
            insn.size = match i.code() {
                Code::Retnw | Code::Retnw_imm16 => Size::B2,
                Code::Retnq | Code::Retnq_imm16 => Size::B8,
                _ => Size::B4,
            };
            if i.op_count() == 1 {
                insn.imm = i.immediate(0);
            }
        }
        Operation::Jcc => {
            insn.aux = condition(i);
            if !static_operand(i, &mut insn) {
                return None;
            }
        }
        Operation::Loop | Operation::Loope | Operation::Loopne | Operation::Jcxz => {
            insn.aux = count_size(i.code()) as u8;
            if !static_operand(i, &mut insn) {
                return None;
            }
        }
        // The decoder has them in 64-bit mode alone.
        Operation::Jkzd | Operation::Jknzd => {
            insn.src = l.reg(i.op0_register());
            if !static_operand(i, &mut insn) {
                return None;
            }
        }
        Operation::Bound => {
            operands(l, i, &mut insn);
            return next(insn);
        }
        _ => return None,
    }
    last(insn)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match (insn.op, insn.form) {
        (Operation::Jmp, Form::Mem) => {
            by_operand(insn.size, [jmp_mem::<O, u16>, jmp_mem::<O, u32>, jmp_mem::<O, u64>])
        }
        (Operation::Jmp, Form::Reg) => {
            by_operand(insn.size, [jmp_reg::<O, u16>, jmp_reg::<O, u32>, jmp_reg::<O, u64>])
        }
        (Operation::Jmp, _) => by_operand(insn.size, [jmp::<O, u16>, jmp::<O, u32>, jmp::<O, u64>]),
        (Operation::Call, Form::Mem) => by_stack(insn, stacks!(call_mem, O)),
        (Operation::Call, Form::Reg) => by_stack(insn, stacks!(call_reg, O)),
        (Operation::Call, _) => by_stack(insn, stacks!(call, O)),
        (Operation::Ret, _) => by_stack(insn, stacks!(ret, O)),
        (Operation::Jcc, _) => {
            let handlers = match insn.size {
                Size::B1 | Size::B2 => conditions!(jcc, O, u16),
                Size::B4 => conditions!(jcc, O, u32),
                Size::B8 => conditions!(jcc, O, u64),
            };
            by_condition(insn.aux, handlers)
        }
        (Operation::Loop, _) => loop_handler::<O, COUNT_ONLY>(insn),
        (Operation::Loope, _) => loop_handler::<O, WHILE_EQUAL>(insn),
        (Operation::Loopne, _) => loop_handler::<O, WHILE_NOT_EQUAL>(insn),
        (Operation::Jcxz, _) => zero_handler(insn),
        (Operation::Jkzd, _) => jump_by_mask::<O, false>,
        (Operation::Jknzd, _) => jump_by_mask::<O, true>,
        (Operation::Bound, _) if insn.size == Size::B2 => bound::<O, u16>,
        (Operation::Bound, _) => bound::<O, u32>,
        _ => return None,
    })
}

/// The row for a branch's operand size: 16, 32 or 64 bits.
fn by_operand<O>(size: Size, handlers: [Handler<O>; 3]) -> Handler<O> {
    match size {
        Size::B1 | Size::B2 => handlers[0],
        Size::B4 => handlers[1],
        Size::B8 => handlers[2],
    }
}

const COUNT_16: u8 = Size::B2 as u8;
const COUNT_32: u8 = Size::B4 as u8;

fn loop_handler<O: Observer, const WHILE: u8>(insn: &Insn) -> Handler<O> {
    let handlers: [Handler<O>; 3] = match insn.aux {
        COUNT_16 => [
            count_down::<O, u16, u16, WHILE>,
            count_down::<O, u32, u16, WHILE>,
            count_down::<O, u64, u16, WHILE>,
        ],
        COUNT_32 => [
            count_down::<O, u16, u32, WHILE>,
            count_down::<O, u32, u32, WHILE>,
            count_down::<O, u64, u32, WHILE>,
        ],
        _ => [
            count_down::<O, u16, u64, WHILE>,
            count_down::<O, u32, u64, WHILE>,
            count_down::<O, u64, u64, WHILE>,
        ],
    };
    by_operand(insn.size, handlers)
}

fn zero_handler<O: Observer>(insn: &Insn) -> Handler<O> {
    let handlers: [Handler<O>; 3] = match insn.aux {
        COUNT_16 => {
            [jump_if_zero::<O, u16, u16>, jump_if_zero::<O, u32, u16>, jump_if_zero::<O, u64, u16>]
        }
        COUNT_32 => {
            [jump_if_zero::<O, u16, u32>, jump_if_zero::<O, u32, u32>, jump_if_zero::<O, u64, u32>]
        }
        _ => {
            [jump_if_zero::<O, u16, u64>, jump_if_zero::<O, u32, u64>, jump_if_zero::<O, u64, u64>]
        }
    };
    by_operand(insn.size, handlers)
}
