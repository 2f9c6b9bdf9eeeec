//! Near JMP, CALL and RET; Jcc, LOOP, LOOPE, LOOPNE, JCXZ; BOUND.
//!
//! A target outside the limit of CS (legacy modes) or not canonical (64-bit mode) is #GP(0), raised
//! before anything has changed.

use iced_x86::{Code, Instruction, Mnemonic, OpKind};

use super::{
    by_condition, condition, conditions, next, operands,
    stack::{by_stack, move_stack, peek, push_value, stack_segment, stacks},
};
use crate::{
    access::is_canonical,
    cpu::Cpu,
    flags::Word,
    insn::{BLOCK_BASE, Form, Handler, Insn, Size, gpr, seg},
    lower::{End, Lowered, Lowering},
    observe::{Branch, Cx, Observer},
    stop::{Exec, Stop, vector},
};

/// In [`Cpu::slot`]: the branch fell through.
const NOT_TAKEN: u32 = 0;
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
        cpu.time += u64::from(cpu.clock.taken);
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
    let mark = cx.observer.mark();
    let ip = peek::<O, T, S>(cpu, cx, insn)?.to_u64();
    let ip = target::<T>(cpu, ip).inspect_err(|_| cx.observer.roll_back(mark))?;
    move_stack::<S>(cpu, T::BYTES as i64 + insn.imm as i64);
    cpu.rip = ip;
    cpu.slot = INDIRECT;
    cpu.time += u64::from(cpu.clock.taken);
    cx.observer.branch(Branch::Ret, true);
    Ok(())
}

fn bound<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let linear = cpu.linear(&insn.mem, 2 * T::BYTES as u64, false)?;
    let lower = cpu.load::<O, T>(cx, linear)?.to_i64();
    let upper = cpu.load::<O, T>(cx, linear.wrapping_add(T::BYTES as u64))?.to_i64();
    let index = cpu.reg::<T>(insn.dst).to_i64();
    if index < lower || index > upper { Err(Stop::fault(vector::BR)) } else { Ok(()) }
}

fn last<O>(run: Handler<O>, insn: Insn) -> Option<Lowered<O>> {
    Some(Lowered { run, insn, end: End::Branch })
}

/// The row for a branch's operand size: 16, 32 or 64 bits.
fn by_operand<O>(size: Size, handlers: [Handler<O>; 3]) -> Handler<O> {
    match size {
        Size::B1 | Size::B2 => handlers[0],
        Size::B4 => handlers[1],
        Size::B8 => handlers[2],
    }
}

/// Enters the static target, if there is one, and the operand size.
fn static_operand(i: &Instruction, insn: &mut Insn) -> bool {
    insn.size = match i.op0_kind() {
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

fn loop_handler<O: Observer, const WHILE: u8>(operand: Size, count: Size) -> Handler<O> {
    let handlers: [Handler<O>; 3] = match count {
        Size::B1 | Size::B2 => [
            count_down::<O, u16, u16, WHILE>,
            count_down::<O, u32, u16, WHILE>,
            count_down::<O, u64, u16, WHILE>,
        ],
        Size::B4 => [
            count_down::<O, u16, u32, WHILE>,
            count_down::<O, u32, u32, WHILE>,
            count_down::<O, u64, u32, WHILE>,
        ],
        Size::B8 => [
            count_down::<O, u16, u64, WHILE>,
            count_down::<O, u32, u64, WHILE>,
            count_down::<O, u64, u64, WHILE>,
        ],
    };
    by_operand(operand, handlers)
}

fn zero_handler<O: Observer>(operand: Size, count: Size) -> Handler<O> {
    let handlers: [Handler<O>; 3] = match count {
        Size::B1 | Size::B2 => {
            [jump_if_zero::<O, u16, u16>, jump_if_zero::<O, u32, u16>, jump_if_zero::<O, u64, u16>]
        }
        Size::B4 => {
            [jump_if_zero::<O, u16, u32>, jump_if_zero::<O, u32, u32>, jump_if_zero::<O, u64, u32>]
        }
        Size::B8 => {
            [jump_if_zero::<O, u16, u64>, jump_if_zero::<O, u32, u64>, jump_if_zero::<O, u64, u64>]
        }
    };
    by_operand(operand, handlers)
}

/// LOOP, LOOPcc and JCXZ.
fn counted<O: Observer>(i: &Instruction, mut insn: Insn) -> Option<Lowered<O>> {
    if !static_operand(i, &mut insn) {
        return None;
    }
    let count = count_size(i.code());
    let run = match i.mnemonic() {
        Mnemonic::Loop => loop_handler::<O, COUNT_ONLY>(insn.size, count),
        Mnemonic::Loope => loop_handler::<O, WHILE_EQUAL>(insn.size, count),
        Mnemonic::Loopne => loop_handler::<O, WHILE_NOT_EQUAL>(insn.size, count),
        _ => zero_handler::<O>(insn.size, count),
    };
    last(run, insn)
}

fn conditional<O: Observer>(i: &Instruction, mut insn: Insn) -> Option<Lowered<O>> {
    if !static_operand(i, &mut insn) {
        return None;
    }
    insn.aux = condition(i);
    let handlers = match insn.size {
        Size::B1 | Size::B2 => conditions!(jcc, O, u16),
        Size::B4 => conditions!(jcc, O, u32),
        Size::B8 => conditions!(jcc, O, u64),
    };
    last(by_condition(insn.aux, handlers), insn)
}

fn jump<O: Observer>(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered<O>> {
    if static_operand(i, &mut insn) {
        return last(by_operand(insn.size, [jmp::<O, u16>, jmp::<O, u32>, jmp::<O, u64>]), insn);
    }
    if !i.is_jmp_near_indirect() {
        return None;
    }
    insn.size = l.size_of(i);
    if i.op0_kind() == OpKind::Memory {
        insn.form = Form::Mem;
        let handlers = [jmp_mem::<O, u16>, jmp_mem::<O, u32>, jmp_mem::<O, u64>];
        return last(by_operand(insn.size, handlers), insn);
    }
    insn.form = Form::Reg;
    insn.src = l.reg(i.op0_register());
    let handlers = [jmp_reg::<O, u16>, jmp_reg::<O, u32>, jmp_reg::<O, u64>];
    last(by_operand(insn.size, handlers), insn)
}

fn near_call<O: Observer>(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered<O>> {
    insn.aux = stack_segment(l);
    if static_operand(i, &mut insn) {
        return last(by_stack(l, insn.size, stacks!(call, O)), insn);
    }
    if !i.is_call_near_indirect() {
        return None;
    }
    insn.size = l.size_of(i);
    if i.op0_kind() == OpKind::Memory {
        insn.form = Form::Mem;
        return last(by_stack(l, insn.size, stacks!(call_mem, O)), insn);
    }
    insn.form = Form::Reg;
    insn.src = l.reg(i.op0_register());
    last(by_stack(l, insn.size, stacks!(call_reg, O)), insn)
}

fn near_return<O: Observer>(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered<O>> {
    insn.aux = stack_segment(l);
    insn.size = match i.code() {
        Code::Retnw | Code::Retnw_imm16 => Size::B2,
        Code::Retnq | Code::Retnq_imm16 => Size::B8,
        _ => Size::B4,
    };
    if i.op_count() == 1 {
        insn.imm = i.immediate(0);
    }
    last(by_stack(l, insn.size, stacks!(ret, O)), insn)
}

pub(super) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Jmp => jump(l, i, l.insn(i)),
        Mnemonic::Call => near_call(l, i, l.insn(i)),
        Mnemonic::Ret => near_return(l, i, l.insn(i)),
        Mnemonic::Loop
        | Mnemonic::Loope
        | Mnemonic::Loopne
        | Mnemonic::Jcxz
        | Mnemonic::Jecxz
        | Mnemonic::Jrcxz => counted(i, l.insn(i)),
        Mnemonic::Bound => {
            let mut insn = l.insn(i);
            operands(l, i, &mut insn);
            next(if insn.size == Size::B2 { bound::<O, u16> } else { bound::<O, u32> }, insn)
        }
        _ if i.is_jcc_short_or_near() => conditional(i, l.insn(i)),
        _ => None,
    }
}
