//! The classes of the instructions in this folder: what they are counted as.

use iced_x86::{Code, Instruction};

use crate::{
    class::Class,
    insn::{Form, Insn},
    lower::Lowering,
    operation::Operation,
};

/// The classes of a lowered instruction.
pub(super) fn of(l: &Lowering, i: &Instruction, insn: &Insn) -> Class {
    let in_memory = matches!(insn.form, Form::Mem | Form::MemReg | Form::MemImm);
    match insn.op {
        Operation::Cpuid => Class::CPUID,
        Operation::Clflush => Class::CLFLUSH,
        // The decoder's PREFETCHWT1 is reserved to this processor: see `hint`.
        Operation::Prefetch
        | Operation::Prefetchwt1
        | Operation::Prefetcht0
        | Operation::Prefetcht1
        | Operation::Prefetcht2 => Class::PREFETCH_LOAD,
        Operation::Prefetchw => Class::PREFETCH_STORE,
        Operation::Prefetchnta => Class::PREFETCH_NTA,
        Operation::HintNop => hint(l, i),
        // Locked with or without the prefix.
        Operation::Xchg if in_memory => Class::LOCKED,
        _ if i.has_lock_prefix() && in_memory => Class::LOCKED,
        _ => Class::NONE,
    }
}

/// What a NOP of later meaning counts as. The reserved members of the 0F 0D group are prefetches to a
/// processor that has the group: /3 for writing, as /1, the others as /0 (AMD64 APM volume 3,
/// "PREFETCH" and the opcode map's "Group P").
fn hint(l: &Lowering, i: &Instruction) -> Class {
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
