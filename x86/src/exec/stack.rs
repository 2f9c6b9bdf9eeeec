//! PUSH, POP, PUSHA, POPA, ENTER, LEAVE, and the stack accesses of near calls and returns.
//!
//! Two widths meet here: `T`, the operand's, and `S`, the stack pointer's (SS.B; 64 bits in 64-bit
//! mode). Lowered stack instructions have in `aux` what [`stack_access`] says.

use iced_x86::{Code, Instruction, OpKind, Register};

use super::{next, sign_extend};
use crate::{
    access::Uncounted,
    cpu::Cpu,
    flags::Word,
    insn::{AddrMask, Form, Handler, Insn, Mem, Size, ZERO, gpr, seg},
    lower::{Lowered, Lowering},
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

/// One row per pair of operand and stack width that exists: `stacks!(h, O)`.
macro_rules! stacks {
    ($handler:ident, $o:ty) => {
        [
            $handler::<$o, u16, u16>,
            $handler::<$o, u16, u32>,
            $handler::<$o, u16, u64>,
            $handler::<$o, u32, u16>,
            $handler::<$o, u32, u32>,
            $handler::<$o, u64, u64>,
        ]
    };
}
pub(super) use stacks;

/// The handler for a pair of operand and stack width.
pub(super) fn by_stack<O>(insn: &Insn, handlers: [Handler<O>; 6]) -> Handler<O> {
    let wide = insn.size >= Size::B4;
    let row = match insn.aux & WIDTH {
        STACK_16 => 3 * usize::from(wide),
        STACK_32 => 1 + 3 * usize::from(wide),
        _ => 2 + 3 * usize::from(wide),
    };
    handlers[row]
}

/// In `aux`: the width of the stack pointer, as [`AddrMask`].
const WIDTH: u8 = 3;
const STACK_16: u8 = AddrMask::Bits16 as u8;
const STACK_32: u8 = AddrMask::Bits32 as u8;
/// In `aux`: SS is known to be flat.
const FLAT: u8 = 4;

/// Width of the stack pointer.
fn stack_width(l: &Lowering) -> AddrMask {
    match (l.code, l.stack_big) {
        (CodeSize::Bits64, _) => AddrMask::Bits64,
        (_, true) => AddrMask::Bits32,
        (_, false) => AddrMask::Bits16,
    }
}

/// How the lowered instruction addresses the stack, for `aux`: the width of the stack pointer, and
/// whether SS is flat.
pub(super) fn stack_access(l: &Lowering) -> u8 {
    let flat = if l.segment(Register::SS) == seg::FLAT_STACK { FLAT } else { 0 };
    stack_width(l) as u8 | flat
}

/// The linear address of `bytes` at `offset` in the stack segment.
#[inline(always)]
fn stack_linear<S: Word>(
    cpu: &Cpu,
    insn: &Insn,
    offset: u64,
    bytes: usize,
    write: bool,
) -> Exec<u64> {
    if S::BITS == 64 || insn.aux & FLAT != 0 {
        Ok(offset)
    } else {
        cpu.linear_at(seg::SS, offset, bytes as u64, write)
    }
}

/// The linear address of the word on top of the stack, which is read.
#[inline(always)]
pub(super) fn stack_top<T: Word, S: Word>(cpu: &Cpu, insn: &Insn) -> Exec<u64> {
    let offset = cpu.reg::<u64>(gpr::RSP);
    stack_linear::<S>(cpu, insn, wrap::<S>(offset), T::BYTES, false)
}

/// A stack address that is not canonical raises #SS(0).
#[cold]
pub(super) fn stack_fault(stop: Stop) -> Stop {
    if stop == Stop::GP0 { Stop::SS0 } else { stop }
}

/// `offset`, wrapped to the width of the stack pointer.
#[inline(always)]
fn wrap<S: Word>(offset: u64) -> u64 {
    S::from_u64(offset).to_u64()
}

/// Writes `value` at `offset` in the stack segment.
#[inline(always)]
fn write_stack<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    offset: u64,
    value: T,
) -> Exec<()> {
    let linear = stack_linear::<S>(cpu, insn, wrap::<S>(offset), T::BYTES, true)?;
    cpu.store(cx, linear, value).map_err(stack_fault)
}

/// Reads at `offset` in the stack segment.
#[inline(always)]
fn read_stack<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    offset: u64,
) -> Exec<T> {
    let linear = stack_linear::<S>(cpu, insn, wrap::<S>(offset), T::BYTES, false)?;
    cpu.load(cx, linear).map_err(stack_fault)
}

/// Moves the stack pointer, of which `S` counts.
#[inline(always)]
pub(super) fn move_stack<S: Word>(cpu: &mut Cpu, by: i64) {
    let rsp = cpu.reg::<u64>(gpr::RSP).wrapping_add(by as u64);
    cpu.set_reg(gpr::RSP, S::from_u64(rsp));
}

/// Pushes `value`.
#[inline(always)]
pub(super) fn push_value<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    value: T,
) -> Exec<()> {
    let offset = cpu.reg::<u64>(gpr::RSP).wrapping_sub(T::BYTES as u64);
    write_stack::<O, T, S>(cpu, cx, insn, offset, value)?;
    cpu.set_reg(gpr::RSP, S::from_u64(offset));
    Ok(())
}

/// Whether a stack of pointers of `S` is all of memory, so that an offset in it is a linear address.
#[inline(always)]
fn is_flat<S: Word>(insn: &Insn) -> bool {
    S::BITS == 64 || insn.aux & FLAT != 0
}

/// Pushes `value`, if the fast path does: see [`Cpu::load_quickly`].
#[inline(always)]
pub(super) fn push_quickly<T: Word, S: Word>(
    cpu: &mut Cpu,
    insn: &Insn,
    value: T,
) -> Option<Uncounted> {
    if !is_flat::<S>(insn) {
        return None;
    }
    let offset = cpu.reg::<u64>(gpr::RSP).wrapping_sub(T::BYTES as u64);
    let done = cpu.store_quickly_at(wrap::<S>(offset), value)?;
    cpu.set_reg(gpr::RSP, S::from_u64(offset));
    Some(done)
}

/// Reads the top of the stack and leaves it there, if the fast path does.
#[inline(always)]
pub(super) fn peek_quickly<T: Word, S: Word>(cpu: &Cpu, insn: &Insn) -> Option<(T, Uncounted)> {
    if !is_flat::<S>(insn) {
        return None;
    }
    cpu.load_quickly_at(wrap::<S>(cpu.reg::<u64>(gpr::RSP)))
}

/// Reads the top of the stack and leaves it there.
#[inline(always)]
pub(super) fn peek<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<T> {
    let offset = cpu.reg::<u64>(gpr::RSP);
    read_stack::<O, T, S>(cpu, cx, insn, offset)
}

fn push_reg<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = cpu.reg::<T>(insn.src);
    match push_quickly::<T, S>(cpu, insn, value) {
        Some(done) => cpu.stored(cx, done),
        None => push_slowly::<O, T, S>(cpu, cx, insn, value),
    }
}

#[inline(never)]
fn push_slowly<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    value: T,
) -> Exec<()> {
    push_value::<O, T, S>(cpu, cx, insn, value)
}

fn push_imm<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = T::from_u64(insn.imm);
    match push_quickly::<T, S>(cpu, insn, value) {
        Some(done) => cpu.stored(cx, done),
        None => push_slowly::<O, T, S>(cpu, cx, insn, value),
    }
}

fn push_mem<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    push_value::<O, T, S>(cpu, cx, insn, value)
}

/// POP rSP leaves the value that was read.
fn pop_reg<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let Some((value, done)) = peek_quickly::<T, S>(cpu, insn) else {
        return pop_reg_slowly::<O, T, S>(cpu, cx, insn);
    };
    move_stack::<S>(cpu, T::BYTES as i64);
    cpu.set_reg(insn.dst, value);
    cpu.loaded(cx, done)
}

#[inline(never)]
fn pop_reg_slowly<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = peek::<O, T, S>(cpu, cx, insn)?;
    move_stack::<S>(cpu, T::BYTES as i64);
    cpu.set_reg(insn.dst, value);
    Ok(())
}

/// The address of the destination is computed with rSP as it is after the pop.
fn pop_mem<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = peek::<O, T, S>(cpu, cx, insn)?;
    let rsp = cpu.reg::<u64>(gpr::RSP);
    move_stack::<S>(cpu, T::BYTES as i64);
    let result = cpu.store_mem(cx, &insn.mem, value);
    if result.is_err() {
        cpu.set_reg(gpr::RSP, rsp);
    }
    result
}

/// The registers of PUSHA, in the order of their slots from the top of the stack.
const ALL: [u8; 8] =
    [gpr::RDI, gpr::RSI, gpr::RBP, gpr::RSP, gpr::RBX, gpr::RDX, gpr::RCX, gpr::RAX];

fn push_all<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let bottom = cpu.reg::<u64>(gpr::RSP).wrapping_sub(8 * T::BYTES as u64);
    let slot = |n: usize| bottom.wrapping_add((n * T::BYTES) as u64);
    // The stack may wrap in the middle, so each slot is looked at on its own.
    for n in 0..ALL.len() {
        let linear = stack_linear::<S>(cpu, insn, wrap::<S>(slot(n)), T::BYTES, true)?;
        cpu.probe_write(cx, linear, T::BYTES as u64)?;
    }
    for (n, r) in ALL.into_iter().enumerate() {
        let value = cpu.reg::<T>(r);
        write_stack::<O, T, S>(cpu, cx, insn, slot(n), value)?;
    }
    cpu.set_reg(gpr::RSP, S::from_u64(bottom));
    Ok(())
}

fn pop_all<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let bottom = cpu.reg::<u64>(gpr::RSP);
    let mut values = [T::from_u64(0); 8];
    for (n, (value, r)) in values.iter_mut().zip(ALL).enumerate() {
        // rSP's slot is skipped and not read (SDM volume 2, "POPA": "Increment ESP by 4").
        if r != gpr::RSP {
            let offset = bottom.wrapping_add((n * T::BYTES) as u64);
            *value = read_stack::<O, T, S>(cpu, cx, insn, offset)?;
        }
    }
    for (r, value) in ALL.into_iter().zip(values) {
        if r != gpr::RSP {
            cpu.set_reg(r, value);
        }
    }
    move_stack::<S>(cpu, 8 * T::BYTES as i64);
    Ok(())
}

/// ENTER: `imm` is the size of the frame, `dst` the nesting level.
fn enter<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let rsp = cpu.reg::<u64>(gpr::RSP);
    let result = build_frame::<O, T, S>(cpu, cx, insn);
    if result.is_err() {
        cpu.set_reg(gpr::RSP, rsp);
    }
    result
}

fn build_frame<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let old = cpu.reg::<u64>(gpr::RBP);
    push_value::<O, T, S>(cpu, cx, insn, T::from_u64(old))?;
    let frame = cpu.reg::<T>(gpr::RSP);
    if insn.dst > 0 {
        for n in 1..u64::from(insn.dst) {
            let offset = old.wrapping_sub(n * T::BYTES as u64);
            let pointer = read_stack::<O, T, S>(cpu, cx, insn, offset)?;
            push_value::<O, T, S>(cpu, cx, insn, pointer)?;
        }
        push_value::<O, T, S>(cpu, cx, insn, frame)?;
    }
    move_stack::<S>(cpu, -(insn.imm as i64));
    // The new top of the stack has to be writable.
    let top = cpu.reg::<S>(gpr::RSP).to_u64();
    let linear = stack_linear::<S>(cpu, insn, top, T::BYTES, true)?;
    cpu.probe_write(cx, linear, T::BYTES as u64).map_err(stack_fault)?;
    cpu.set_reg(gpr::RBP, frame);
    Ok(())
}

fn leave<O: Observer, T: Word, S: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let frame = cpu.reg::<u64>(gpr::RBP);
    let old = read_stack::<O, T, S>(cpu, cx, insn, frame)?;
    cpu.set_reg(gpr::RSP, S::from_u64(frame.wrapping_add(T::BYTES as u64)));
    cpu.set_reg(gpr::RBP, old);
    Ok(())
}

/// The stack operand of PUSH (`disp` is minus the operand's size) or POP: so that a code generator
/// finds the address where it finds all others.
fn stack_operand(l: &Lowering, disp: i64) -> Mem {
    Mem {
        disp,
        base: gpr::RSP,
        index: ZERO,
        scale: 0,
        seg: l.segment(Register::SS),
        mask: stack_width(l),
    }
}

/// Operand size of an instruction that has it in its name only.
fn implied_size(code: Code) -> Size {
    match code {
        Code::Pushaw | Code::Popaw | Code::Enterw_imm16_imm8 | Code::Leavew => Size::B2,
        Code::Enterq_imm16_imm8 | Code::Leaveq => Size::B8,
        _ => Size::B4,
    }
}

/// Operand size of a PUSH of an immediate.
fn immediate_size(l: &Lowering, i: &Instruction) -> Size {
    match i.op0_kind() {
        OpKind::Immediate8to16 | OpKind::Immediate16 => Size::B2,
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Size::B8,
        _ if l.code == CodeSize::Bits64 => Size::B8,
        _ => Size::B4,
    }
}

/// Enters the operand of PUSH; false if it is a segment register.
fn push_operand(l: &Lowering, i: &Instruction, insn: &mut Insn) -> bool {
    match i.op0_kind() {
        OpKind::Register if i.op0_register().is_gpr() => {
            insn.form = Form::Reg;
            insn.size = l.size_of(i);
            insn.src = l.reg(i.op0_register());
            insn.mem = stack_operand(l, -(insn.size.bytes() as i64));
        }
        OpKind::Register => return false,
        OpKind::Memory => {
            insn.form = Form::Mem;
            insn.size = l.size_of(i);
        }
        _ => {
            insn.form = Form::RegImm;
            insn.size = immediate_size(l, i);
            insn.imm = sign_extend(i.immediate(0), insn.size);
            insn.mem = stack_operand(l, -(insn.size.bytes() as i64));
        }
    }
    true
}

/// Enters the operand of POP; false if it is a segment register.
fn pop_operand(l: &Lowering, i: &Instruction, insn: &mut Insn) -> bool {
    insn.size = l.size_of(i);
    match i.op0_kind() {
        OpKind::Register if i.op0_register().is_gpr() => {
            insn.form = Form::Reg;
            insn.dst = l.reg(i.op0_register());
            insn.mem = stack_operand(l, 0);
        }
        OpKind::Register => return false,
        _ => insn.form = Form::Mem,
    }
    true
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    let known = match insn.op {
        Operation::Push => push_operand(l, i, &mut insn),
        Operation::Pop => pop_operand(l, i, &mut insn),
        Operation::Pusha | Operation::Popa | Operation::Leave => {
            insn.size = implied_size(i.code());
            true
        }
        Operation::Enter => {
            insn.size = implied_size(i.code());
            insn.imm = i.immediate(0);
            insn.dst = i.immediate(1) as u8 & 31;
            true
        }
        _ => false,
    };
    insn.aux = stack_access(l);
    if known { next(insn) } else { None }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match (insn.op, insn.form) {
        (Operation::Push, Form::Reg) => stacks!(push_reg, O),
        (Operation::Push, Form::Mem) => stacks!(push_mem, O),
        (Operation::Push, _) => stacks!(push_imm, O),
        (Operation::Pop, Form::Reg) => stacks!(pop_reg, O),
        (Operation::Pop, _) => stacks!(pop_mem, O),
        (Operation::Pusha, _) => stacks!(push_all, O),
        (Operation::Popa, _) => stacks!(pop_all, O),
        (Operation::Enter, _) => stacks!(enter, O),
        (Operation::Leave, _) => stacks!(leave, O),
        _ => return None,
    };
    Some(by_stack(insn, handlers))
}
