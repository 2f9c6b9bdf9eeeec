//! Instructions that change no register: NOP, PAUSE, fences, PREFETCH*, CLFLUSH, the opcodes that are
//! defined to be undefined, and those that are no instruction.
//!
//! Memory is sequentially consistent and uncached, so fences order nothing and prefetches fetch
//! nothing; they are counted.

use super::next;
use crate::{
    class::Class,
    cpu::Cpu,
    insn::{Handler, Insn},
    lower::{End, Lowered},
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

/// Lowers the instructions of this file.
pub(super) fn lower(insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Ud => Some(Lowered { insn, class: Class::NONE, end: End::Fall }),
        Operation::Pause
        | Operation::Nop
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
        | Operation::Prefetchnta
        | Operation::Clflush => next(insn),
        _ => None,
    }
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
