//! Instructions that change no register: NOP, PAUSE, fences, PREFETCH*, CLFLUSH, the opcodes that are
//! defined to be undefined, and those that are no instruction.
//!
//! Memory is sequentially consistent and uncached, so fences order nothing and prefetches fetch
//! nothing; they are counted.

use iced_x86::{Code, Instruction};

use super::next;
use crate::{
    cpu::Cpu,
    insn::{Class, Handler, Insn},
    lower::{End, Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
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

pub(crate) fn undefined<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
}

fn too_long<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::GP0)
}

/// CLFLUSH faults as a read of one byte would. It walks the page tables itself: a device must not
/// see a read.
fn clflush<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let linear = cpu.linear_in_pieces(&insn.mem, 1, 1, false)?;
    cpu.walk(cx.ram, linear, cpu.mmu != 0, Intent::Read)?;
    Ok(())
}

/// What a NOP of later meaning counts as. The reserved members of the 0F 0D group are prefetches to a
/// processor that has the group: /3 for writing, as /1, the others as /0 (AMD64 APM volume 3,
/// "PREFETCH" and the opcode map's "Group P").
fn hint_class(l: &Lowering, i: &Instruction) -> Class {
    let in_group = matches!(
        i.code(),
        Code::Reservednop_rm16_r16_0F0D
            | Code::Reservednop_rm32_r32_0F0D
            | Code::Reservednop_rm64_r64_0F0D
    );
    if !in_group || !l.features.now3d {
        return Class::NONE;
    }
    match i.op1_register().number() & 7 {
        3 => Class::PREFETCH_STORE,
        _ => Class::PREFETCH_LOAD,
    }
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, insn: Insn) -> Option<Lowered> {
    let class = match insn.op {
        Operation::Ud => return Some(Lowered { insn, end: End::Fall }),
        Operation::Pause
        | Operation::Nop
        | Operation::Lfence
        | Operation::Mfence
        | Operation::Sfence => Class::NONE,
        Operation::HintNop => hint_class(l, i),
        // The decoder's PREFETCHWT1 is reserved to this processor: see `hint_class`.
        Operation::Prefetch
        | Operation::Prefetchwt1
        | Operation::Prefetcht0
        | Operation::Prefetcht1
        | Operation::Prefetcht2 => Class::PREFETCH_LOAD,
        Operation::Prefetchw => Class::PREFETCH_STORE,
        Operation::Prefetchnta => Class::PREFETCH_NTA,
        Operation::Clflush => Class::CLFLUSH,
        _ => return None,
    };
    next(Insn { class, ..insn })
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Pause => pause,
        // What the decoder knows as ENDBR, RDSSP, CLDEMOTE and reserved NOPs are NOPs to a processor
        // that does not know their meaning; so are the operands: nothing is accessed.
        Operation::Nop
        | Operation::HintNop
        | Operation::Lfence
        | Operation::Mfence
        | Operation::Sfence
        | Operation::Prefetch
        | Operation::Prefetchwt1
        | Operation::Prefetcht0
        | Operation::Prefetcht1
        | Operation::Prefetcht2
        | Operation::Prefetchw
        | Operation::Prefetchnta => nop,
        Operation::Clflush => clflush,
        Operation::Ud | Operation::Invalid => undefined,
        Operation::TooLong => too_long,
        _ => return None,
    })
}
