//! MOV, MOVZX, MOVSX, MOVSXD, LEA, CMOVcc, BSWAP, XLAT.

use iced_x86::Instruction;

use super::{by_condition, by_size, condition, conditions, next, operand_size, operands, sizes};
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{Form, Handler, Insn, Mem, Size, ZERO, gpr},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

fn reg_reg<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = cpu.reg::<T>(insn.src);
    cpu.set_reg(insn.dst, value);
    Ok(())
}

fn reg_imm<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.set_reg(insn.dst, T::from_u64(insn.imm));
    Ok(())
}

fn reg_mem<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let Some((value, done)) = cpu.load_quickly::<T>(&insn.mem) else {
        return reg_mem_slowly::<O, T>(cpu, cx, insn);
    };
    cpu.set_reg(insn.dst, value);
    cpu.loaded_operand(cx, insn, done)
}

#[inline(never)]
fn reg_mem_slowly<O: Observer, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    cpu.set_reg(insn.dst, value);
    Ok(())
}

fn mem_reg<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = cpu.reg::<T>(insn.src);
    match cpu.store_quickly(&insn.mem, value) {
        Some(done) => cpu.stored_operand(cx, insn, done),
        None => store_slowly(cpu, cx, insn, value),
    }
}

fn mem_imm<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = T::from_u64(insn.imm);
    match cpu.store_quickly(&insn.mem, value) {
        Some(done) => cpu.stored_operand(cx, insn, done),
        None => store_slowly(cpu, cx, insn, value),
    }
}

#[inline(never)]
fn store_slowly<O: Observer, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    value: T,
) -> Exec<()> {
    cpu.store_mem(cx, &insn.mem, value)
}

#[inline(always)]
fn extended<S: Word, D: Word, const SIGNED: bool>(value: S) -> D {
    D::from_u64(if SIGNED { value.to_i64() as u64 } else { value.to_u64() })
}

fn extend_reg<O: Observer, S: Word, D: Word, const SIGNED: bool>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = cpu.reg::<S>(insn.src);
    cpu.set_reg(insn.dst, extended::<S, D, SIGNED>(value));
    Ok(())
}

fn extend_mem<O: Observer, S: Word, D: Word, const SIGNED: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let Some((value, done)) = cpu.load_quickly::<S>(&insn.mem) else {
        return extend_mem_slowly::<O, S, D, SIGNED>(cpu, cx, insn);
    };
    cpu.set_reg(insn.dst, extended::<S, D, SIGNED>(value));
    cpu.loaded_operand(cx, insn, done)
}

#[inline(never)]
fn extend_mem_slowly<O: Observer, S: Word, D: Word, const SIGNED: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = cpu.load_mem::<O, S>(cx, &insn.mem)?;
    cpu.set_reg(insn.dst, extended::<S, D, SIGNED>(value));
    Ok(())
}

fn load_address<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let address = cpu.effective(&insn.mem);
    cpu.set_reg(insn.dst, T::from_u64(address));
    Ok(())
}

/// The source is written if the condition holds, else the destination's own value: so a 32-bit
/// destination is zero-extended either way.
fn cmov_reg<O: Observer, T: Word, const CC: u8>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let (old, new) = (cpu.reg::<T>(insn.dst), cpu.reg::<T>(insn.src));
    cpu.set_reg(insn.dst, if cpu.flags.condition(CC) { new } else { old });
    Ok(())
}

fn cmov_mem<O: Observer, T: Word, const CC: u8>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let new = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    let old = cpu.reg::<T>(insn.dst);
    cpu.set_reg(insn.dst, if cpu.flags.condition(CC) { new } else { old });
    Ok(())
}

/// With 16-bit operands the result is undefined by the manuals, and zero on AMD processors.
fn swap_bytes<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = cpu.reg::<T>(insn.dst).to_u64();
    let swapped = match T::BITS {
        16 => 0,
        32 => value.swap_bytes() >> 32,
        _ => value.swap_bytes(),
    };
    cpu.set_reg(insn.dst, T::from_u64(swapped));
    Ok(())
}

fn translate<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let at = Mem { disp: i64::from(cpu.reg::<u8>(gpr::RAX)), ..insn.mem };
    let value = cpu.load_mem::<O, u8>(cx, &at)?;
    cpu.set_reg(gpr::RAX, value);
    Ok(())
}

/// Lowers the instructions of this file. Of MOVZX, MOVSX and MOVSXD `size` is the destination's and
/// `aux` the source's (as [`Size`]); of CMOVcc `aux` is the condition code.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Mov
        | Operation::Movzx
        | Operation::Movsx
        | Operation::Movsxd
        | Operation::Lea
        | Operation::Cmovcc
        | Operation::Bswap => {
            if !operands(l, i, &mut insn) {
                return None;
            }
        }
        Operation::Xlatb => {
            // The decoder's index is AL, of which only the byte counts: the handler adds it.
            insn.size = Size::B1;
            insn.mem.index = ZERO;
        }
        _ => return None,
    }
    match insn.op {
        Operation::Movzx | Operation::Movsx | Operation::Movsxd => {
            insn.aux = operand_size(i, 1) as u8;
        }
        Operation::Cmovcc => insn.aux = condition(i),
        _ => {}
    }
    next(insn)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Mov => by_size(insn.size, mov(insn.form)?),
        Operation::Movzx => extend::<O, false>(insn),
        Operation::Movsx | Operation::Movsxd => extend::<O, true>(insn),
        Operation::Lea => by_size(insn.size, sizes!(load_address, O)),
        Operation::Cmovcc => cmov(insn),
        Operation::Bswap => by_size(insn.size, sizes!(swap_bytes, O)),
        Operation::Xlatb => translate,
        _ => return None,
    })
}

fn mov<O: Observer>(form: Form) -> Option<[Handler<O>; 4]> {
    Some(match form {
        Form::RegReg => sizes!(reg_reg, O),
        Form::RegImm => sizes!(reg_imm, O),
        Form::RegMem => sizes!(reg_mem, O),
        Form::MemReg => sizes!(mem_reg, O),
        Form::MemImm => sizes!(mem_imm, O),
        Form::None | Form::Reg | Form::Mem => return None,
    })
}

fn extend<O: Observer, const SIGNED: bool>(insn: &Insn) -> Handler<O> {
    const B1: u8 = Size::B1 as u8;
    const B2: u8 = Size::B2 as u8;
    let (register, memory): (Handler<O>, Handler<O>) = match (insn.aux, insn.size) {
        (B1, Size::B2) => (extend_reg::<O, u8, u16, SIGNED>, extend_mem::<O, u8, u16, SIGNED>),
        (B1, Size::B4) => (extend_reg::<O, u8, u32, SIGNED>, extend_mem::<O, u8, u32, SIGNED>),
        (B1, _) => (extend_reg::<O, u8, u64, SIGNED>, extend_mem::<O, u8, u64, SIGNED>),
        (B2, Size::B2) => (extend_reg::<O, u16, u16, SIGNED>, extend_mem::<O, u16, u16, SIGNED>),
        (B2, Size::B4) => (extend_reg::<O, u16, u32, SIGNED>, extend_mem::<O, u16, u32, SIGNED>),
        (B2, _) => (extend_reg::<O, u16, u64, SIGNED>, extend_mem::<O, u16, u64, SIGNED>),
        // MOVSXD with a 16-bit destination reads 16 bits of a 32-bit register operand.
        (_, Size::B2) => (extend_reg::<O, u16, u16, SIGNED>, extend_mem::<O, u16, u16, SIGNED>),
        (_, Size::B4) => (extend_reg::<O, u32, u32, SIGNED>, extend_mem::<O, u32, u32, SIGNED>),
        (_, _) => (extend_reg::<O, u32, u64, SIGNED>, extend_mem::<O, u32, u64, SIGNED>),
    };
    if insn.form == Form::RegReg { register } else { memory }
}

fn cmov<O: Observer>(insn: &Insn) -> Handler<O> {
    let handlers = match (insn.form, insn.size) {
        (Form::RegReg, Size::B2) => conditions!(cmov_reg, O, u16),
        (Form::RegReg, Size::B8) => conditions!(cmov_reg, O, u64),
        (Form::RegReg, _) => conditions!(cmov_reg, O, u32),
        (_, Size::B2) => conditions!(cmov_mem, O, u16),
        (_, Size::B8) => conditions!(cmov_mem, O, u64),
        (_, _) => conditions!(cmov_mem, O, u32),
    };
    by_condition(insn.aux, handlers)
}
