//! Instructions on single flags: CLC, STC, CMC, CLD, STD, LAHF, SAHF, SETcc, SALC.

use iced_x86::Instruction;

use super::{by_condition, condition, conditions, next, operands};
use crate::{
    cpu::Cpu,
    flags,
    insn::{Form, HIGH_BYTE, Handler, Insn, Size, gpr},
    lower::{Lowered, Lowering},
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

/// What SAHF sets and LAHF reads.
const LOW_FLAGS: u64 = flags::SF | flags::ZF | flags::AF | flags::PF | flags::CF;

fn clc<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.flags.set_cf(false);
    Ok(())
}

fn stc<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.flags.set_cf(true);
    Ok(())
}

fn cmc<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let cf = cpu.flags.cf();
    cpu.flags.set_cf(!cf);
    Ok(())
}

fn cld<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.system_flags &= !flags::DF;
    Ok(())
}

fn std<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.system_flags |= flags::DF;
    Ok(())
}

fn lahf<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    // Bit 1 of the flags always reads as one.
    let low = (cpu.flags.to_rflags() & LOW_FLAGS) as u8 | 2;
    cpu.set_reg(gpr::RAX | HIGH_BYTE, low);
    Ok(())
}

fn sahf<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let ah = u64::from(cpu.reg::<u8>(gpr::RAX | HIGH_BYTE));
    let kept = cpu.flags.to_rflags() & !LOW_FLAGS;
    cpu.flags.set_rflags(kept | ah & LOW_FLAGS);
    Ok(())
}

fn salc<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.set_reg(gpr::RAX, if cpu.flags.cf() { 0xffu8 } else { 0 });
    Ok(())
}

fn setcc_reg<O: Observer, const CC: u8>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.set_reg(insn.dst, u8::from(cpu.flags.condition(CC)));
    Ok(())
}

fn setcc_mem<O: Observer, const CC: u8>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let value = u8::from(cpu.flags.condition(CC));
    cpu.store_mem(cx, &insn.mem, value)
}

/// Lowers the instructions of this file. Of SETcc `aux` is the condition code.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Clc
        | Operation::Stc
        | Operation::Cmc
        | Operation::Cld
        | Operation::Std
        | Operation::Salc => {}
        Operation::Lahf | Operation::Sahf => {
            if l.code == CodeSize::Bits64 && !l.features.lahf_lm {
                return None;
            }
        }
        Operation::Setcc => {
            operands(l, i, &mut insn);
            insn.size = Size::B1;
            insn.aux = condition(i);
        }
        _ => return None,
    }
    next(insn)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Clc => clc,
        Operation::Stc => stc,
        Operation::Cmc => cmc,
        Operation::Cld => cld,
        Operation::Std => std,
        Operation::Lahf => lahf,
        Operation::Sahf => sahf,
        Operation::Salc => salc,
        Operation::Setcc if insn.form == Form::Reg => {
            by_condition(insn.aux, conditions!(setcc_reg, O))
        }
        Operation::Setcc => by_condition(insn.aux, conditions!(setcc_mem, O)),
        _ => return None,
    })
}
