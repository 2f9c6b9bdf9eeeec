//! Instructions on single flags: CLC, STC, CMC, CLD, STD, LAHF, SAHF, SETcc, SALC.

use iced_x86::{Instruction, Mnemonic};

use super::{by_condition, condition, conditions, next, operands};
use crate::{
    cpu::Cpu,
    flags,
    insn::{Form, HIGH_BYTE, Insn, Size, gpr},
    lower::{Lowered, Lowering},
    mode::CodeSize,
    observe::{Cx, Observer},
    stop::{Exec, Stop},
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

fn no_lahf<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
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

fn setcc<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let mut insn = l.insn(i);
    operands(l, i, &mut insn);
    insn.size = Size::B1;
    insn.aux = condition(i);
    let handlers = match insn.form {
        Form::Reg => conditions!(setcc_reg, O),
        _ => conditions!(setcc_mem, O),
    };
    next(by_condition(insn.aux, handlers), insn)
}

pub(super) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let has_lahf = l.code != CodeSize::Bits64 || l.features.lahf_lm;
    match i.mnemonic() {
        Mnemonic::Clc => next(clc, l.insn(i)),
        Mnemonic::Stc => next(stc, l.insn(i)),
        Mnemonic::Cmc => next(cmc, l.insn(i)),
        Mnemonic::Cld => next(cld, l.insn(i)),
        Mnemonic::Std => next(std, l.insn(i)),
        Mnemonic::Lahf | Mnemonic::Sahf if !has_lahf => next(no_lahf, l.insn(i)),
        Mnemonic::Lahf => next(lahf, l.insn(i)),
        Mnemonic::Sahf => next(sahf, l.insn(i)),
        Mnemonic::Salc => next(salc, l.insn(i)),
        Mnemonic::Seto
        | Mnemonic::Setno
        | Mnemonic::Setb
        | Mnemonic::Setae
        | Mnemonic::Sete
        | Mnemonic::Setne
        | Mnemonic::Setbe
        | Mnemonic::Seta
        | Mnemonic::Sets
        | Mnemonic::Setns
        | Mnemonic::Setp
        | Mnemonic::Setnp
        | Mnemonic::Setl
        | Mnemonic::Setge
        | Mnemonic::Setle
        | Mnemonic::Setg => setcc(l, i),
        _ => None,
    }
}
