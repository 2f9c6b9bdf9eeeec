//! Instructions that change no register: NOP, PAUSE, fences, PREFETCH*, CLFLUSH, and the opcodes
//! that are defined to be undefined.
//!
//! Memory is sequentially consistent and uncached, so fences order nothing and prefetches fetch
//! nothing; they are counted.

use iced_x86::{Code, Instruction, Mnemonic};

use super::next;
use crate::{
    cpu::Cpu,
    insn::{Class, Insn},
    lower::{End, Lowered, Lowering},
    observe::{Cx, Observer},
    paging::Intent,
    stop::{Exec, Stop},
};

fn nop<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Ok(())
}

fn pause<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.note_pause();
    Ok(())
}

fn undefined<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
}

/// CLFLUSH faults as a read of one byte would. It walks the page tables itself: a device must not
/// see a read.
fn clflush<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let linear = cpu.linear_in_pieces(&insn.mem, 1, 1, false)?;
    cpu.walk(cx.ram, linear, cpu.mmu != 0, Intent::Read)?;
    Ok(())
}

/// What a reserved NOP counts as. The reserved members of the 0F 0D group are prefetches to a
/// processor that has the group: /3 for writing, as /1, the others as /0 (AMD64 APM volume 3,
/// "PREFETCH" and the opcode map's "Group P").
fn prefetch_class(l: &Lowering, i: &Instruction) -> Class {
    let in_group = matches!(
        i.code(),
        Code::Reservednop_rm16_r16_0F0D
            | Code::Reservednop_rm32_r32_0F0D
            | Code::Reservednop_rm64_r64_0F0D
    );
    match i.op1_register().number() & 7 {
        _ if !in_group || !l.features.now3d => Class::NONE,
        3 => Class::PREFETCH_STORE,
        _ => Class::PREFETCH_LOAD,
    }
}

pub(super) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let hint = |class| next(nop::<O>, Insn { class, ..l.insn(i) });
    match i.mnemonic() {
        Mnemonic::Pause => next(pause, l.insn(i)),
        // The decoder's RESERVEDNOP, ENDBR, RDSSP and CLDEMOTE are NOPs to a processor that does
        // not know their meaning; so are the operands: nothing is accessed.
        Mnemonic::Nop
        | Mnemonic::Endbr32
        | Mnemonic::Endbr64
        | Mnemonic::Rdsspd
        | Mnemonic::Rdsspq
        | Mnemonic::Cldemote
        | Mnemonic::Lfence
        | Mnemonic::Mfence
        | Mnemonic::Sfence => hint(Class::NONE),
        Mnemonic::Reservednop => hint(prefetch_class(l, i)),
        // The decoder's PREFETCHWT1 is reserved to this processor: see `prefetch_class`.
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
