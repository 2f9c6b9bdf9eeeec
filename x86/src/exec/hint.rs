//! Instructions that change no register: NOP, PAUSE, fences, PREFETCH*, CLFLUSH, and the opcodes
//! that are defined to be undefined.
//!
//! Memory is sequentially consistent and uncached, so fences order nothing and prefetches fetch
//! nothing; they are counted.

use iced_x86::{Instruction, Mnemonic};

use super::next;
use crate::{
    access::is_canonical,
    cpu::Cpu,
    insn::{Class, Insn, Kind},
    lower::{End, Lowered, Lowering},
    observe::{Cx, Observer},
    paging::Intent,
    stop::{Exec, Stop},
};

fn nop<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Ok(())
}

fn undefined<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
}

/// CLFLUSH faults as a read of one byte would. It walks the page tables itself: a device must not
/// see a read.
fn clflush<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let linear = cpu.linear(&insn.mem, 1, false)?;
    if cpu.long_mode() && !is_canonical(linear) {
        return Err(Stop::GP0);
    }
    cpu.walk(cx.ram, linear, cpu.mmu != 0, Intent::Read)?;
    Ok(())
}

pub(super) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let hint = |class| next(nop::<O>, Insn { kind: Kind::Nop, class, ..l.insn(i) });
    match i.mnemonic() {
        // The decoder's RESERVEDNOP, ENDBR, RDSSP and CLDEMOTE are NOPs to a processor that does
        // not know their meaning; so are the operands: nothing is accessed.
        Mnemonic::Nop
        | Mnemonic::Pause
        | Mnemonic::Reservednop
        | Mnemonic::Endbr32
        | Mnemonic::Endbr64
        | Mnemonic::Rdsspd
        | Mnemonic::Rdsspq
        | Mnemonic::Cldemote
        | Mnemonic::Lfence
        | Mnemonic::Mfence
        | Mnemonic::Sfence => hint(Class::NONE),
        // The reserved members of the 0F 0D group act as PREFETCH.
        Mnemonic::Prefetch
        | Mnemonic::Prefetchwt1
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2 => hint(Class::PREFETCH_LOAD),
        Mnemonic::Prefetchw => hint(Class::PREFETCH_STORE),
        Mnemonic::Prefetchnta => hint(Class::PREFETCH_NTA),
        Mnemonic::Clflush => next(clflush, Insn { class: Class::CLFLUSH, ..l.insn(i) }),
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => {
            Some(Lowered { run: undefined, insn: l.insn(i), end: End::Fall })
        }
        _ => None,
    }
}
