//! BT, BTS, BTR, BTC, BSF, BSR.

use iced_x86::Instruction;

use super::{by_size, next, operands, sizes};
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{Form, Handler, Insn, Mem},
    lower::{Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

/// What becomes of the tested bit.
trait BitChange {
    const WRITES: bool = true;
    fn apply(value: u64, bit: u64) -> u64;
}

struct Keep;
impl BitChange for Keep {
    const WRITES: bool = false;
    #[inline(always)]
    fn apply(value: u64, _: u64) -> u64 {
        value
    }
}

struct Set;
impl BitChange for Set {
    #[inline(always)]
    fn apply(value: u64, bit: u64) -> u64 {
        value | bit
    }
}

struct Reset;
impl BitChange for Reset {
    #[inline(always)]
    fn apply(value: u64, bit: u64) -> u64 {
        value & !bit
    }
}

struct Complement;
impl BitChange for Complement {
    #[inline(always)]
    fn apply(value: u64, bit: u64) -> u64 {
        value ^ bit
    }
}

/// Tests bit `index` modulo the operand size: CF is the bit; the other flags stay.
#[inline(always)]
fn tested<T: Word, P: BitChange>(cpu: &mut Cpu, value: T, index: u64) -> T {
    let bit = 1 << (index & u64::from(T::BITS - 1));
    cpu.flags.set_cf(value.to_u64() & bit != 0);
    T::from_u64(P::apply(value.to_u64(), bit))
}

#[inline(always)]
fn in_register<T: Word, P: BitChange>(cpu: &mut Cpu, r: u8, index: u64) {
    let value = cpu.reg::<T>(r);
    let result = tested::<T, P>(cpu, value, index);
    if P::WRITES {
        cpu.set_reg(r, result);
    }
}

#[inline(always)]
fn in_memory<O: Observer, T: Word, P: BitChange>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    mem: &Mem,
    index: u64,
) -> Exec<()> {
    if P::WRITES {
        cpu.modify_mem(cx, mem, |cpu, value| tested::<T, P>(cpu, value, index))
    } else {
        let value = cpu.load_mem::<O, T>(cx, mem)?;
        tested::<T, P>(cpu, value, index);
        Ok(())
    }
}

fn bit_reg_reg<O: Observer, T: Word, P: BitChange>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let index = cpu.reg::<T>(insn.src).to_u64();
    in_register::<T, P>(cpu, insn.dst, index);
    Ok(())
}

fn bit_reg_imm<O: Observer, T: Word, P: BitChange>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    in_register::<T, P>(cpu, insn.dst, insn.imm);
    Ok(())
}

/// The register is a signed index into a bit string that starts at the memory operand.
fn bit_mem_reg<O: Observer, T: Word, P: BitChange>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let index = cpu.reg::<T>(insn.src).to_i64();
    let element = index >> T::BITS.trailing_zeros();
    let disp = insn.mem.disp.wrapping_add(element.wrapping_mul(T::BYTES as i64));
    in_memory::<O, T, P>(cpu, cx, &Mem { disp, ..insn.mem }, index as u64)
}

fn bit_mem_imm<O: Observer, T: Word, P: BitChange>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    in_memory::<O, T, P>(cpu, cx, &insn.mem, insn.imm)
}

/// Which end BSF and BSR scan from: FORWARD finds the least significant set bit.
///
/// A source of zero sets ZF and leaves the destination alone, all 64 bits of it. The other flags
/// are undefined.
#[inline(always)]
fn scanned<T: Word, const FORWARD: bool>(cpu: &mut Cpu, dst: u8, source: T) {
    cpu.flags.set_logic(source);
    let value = source.to_u64();
    if value != 0 {
        let index = if FORWARD { value.trailing_zeros() } else { value.ilog2() };
        cpu.set_reg(dst, T::from_u64(u64::from(index)));
    }
}

fn scan_forward_reg<O: Observer, T: Word>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let source = cpu.reg::<T>(insn.src);
    scanned::<T, true>(cpu, insn.dst, source);
    Ok(())
}

fn scan_forward_mem<O: Observer, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let source = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    scanned::<T, true>(cpu, insn.dst, source);
    Ok(())
}

fn scan_reverse_reg<O: Observer, T: Word>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let source = cpu.reg::<T>(insn.src);
    scanned::<T, false>(cpu, insn.dst, source);
    Ok(())
}

fn scan_reverse_mem<O: Observer, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let source = cpu.load_mem::<O, T>(cx, &insn.mem)?;
    scanned::<T, false>(cpu, insn.dst, source);
    Ok(())
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Bt
        | Operation::Bts
        | Operation::Btr
        | Operation::Btc
        | Operation::Bsf
        | Operation::Bsr => {
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
    let in_register = insn.form == Form::RegReg;
    let handlers = match insn.op {
        Operation::Bt => bit_test::<O, Keep>(insn.form),
        Operation::Bts => bit_test::<O, Set>(insn.form),
        Operation::Btr => bit_test::<O, Reset>(insn.form),
        Operation::Btc => bit_test::<O, Complement>(insn.form),
        Operation::Bsf if in_register => sizes!(scan_forward_reg, O),
        Operation::Bsf => sizes!(scan_forward_mem, O),
        Operation::Bsr if in_register => sizes!(scan_reverse_reg, O),
        Operation::Bsr => sizes!(scan_reverse_mem, O),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}

fn bit_test<O: Observer, P: BitChange>(form: Form) -> [Handler<O>; 4] {
    match form {
        Form::RegReg => sizes!(bit_reg_reg, O, P),
        Form::RegImm => sizes!(bit_reg_imm, O, P),
        Form::MemReg => sizes!(bit_mem_reg, O, P),
        _ => sizes!(bit_mem_imm, O, P),
    }
}
