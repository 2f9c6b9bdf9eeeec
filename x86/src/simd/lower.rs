//! Where the operands of MMX, 3DNow! and SSE instructions are.

use iced_x86::{Code, Instruction, OpKind};

use super::class;
use crate::{
    insn::{AddrMask, Form, Insn, Mem, Size, gpr},
    lower::{End, Lowered, Lowering, segment_number},
    operation::Operation,
};

/// Lowers an instruction of this folder; `insn` is what all have in common of it. Destination and
/// source register and the 8-bit immediate are in their places; `size` is 8 bytes with REX.W.
pub(crate) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    // PADDQ on MMX registers came with SSE2, though the decoder files it under MMX.
    if insn.op == Operation::Paddq && i.op0_register().is_mm() && !l.features.sse2 {
        return None;
    }
    if is_register(i, 0) {
        insn.dst = l.reg(i.op0_register());
    }
    if is_register(i, 1) {
        insn.src = l.reg(i.op1_register());
    }
    let last = i.op_count().saturating_sub(1);
    if last > 0 && i.op_kind(last) == OpKind::Immediate8 {
        insn.imm = u64::from(i.immediate8());
    }
    insn.form = form(i);
    insn.size = size(i, &insn);
    if matches!(insn.op, Operation::Maskmovq | Operation::Maskmovdqu) {
        masked_store_operands(l, i, &mut insn);
    }
    Some(Lowered { insn, class: class::of(&insn), end: End::Next })
}

fn is_register(i: &Instruction, n: u32) -> bool {
    n < i.op_count() && i.op_kind(n) == OpKind::Register
}

fn form(i: &Instruction) -> Form {
    let is_memory = |n| n < i.op_count() && i.op_kind(n) == OpKind::Memory;
    match i.op_count() {
        0 | 1 if is_memory(0) => Form::Mem,
        0 | 1 => Form::None,
        _ if is_memory(0) => Form::MemReg,
        _ if is_memory(1) => Form::RegMem,
        _ if i.op1_kind() == OpKind::Immediate8 => Form::RegImm,
        _ => Form::RegReg,
    }
}

/// The size of the integer in a conversion from or to a general register and in MOVNTI; of FXSAVE and
/// FXRSTOR that of the pointers.
fn size(i: &Instruction, insn: &Insn) -> Size {
    let wide = match insn.op {
        Operation::Cvtsi2ss | Operation::Cvtsi2sd if insn.form == Form::RegMem => {
            insn.mem_bytes == 8
        }
        Operation::Cvtsi2ss | Operation::Cvtsi2sd | Operation::Movnti => {
            i.op1_register().is_gpr64()
        }
        Operation::Cvtss2si | Operation::Cvtsd2si | Operation::Cvttss2si | Operation::Cvttsd2si => {
            i.op0_register().is_gpr64()
        }
        Operation::Fxsave | Operation::Fxrstor => {
            matches!(i.code(), Code::Fxsave64_m512byte | Code::Fxrstor64_m512byte)
        }
        _ => false,
    };
    if wide { Size::B8 } else { Size::B4 }
}

/// Enters the operands of MASKMOVQ and MASKMOVDQU: the value in `dst`, the mask in `src`, and memory
/// at rDI in the segment in `aux`.
fn masked_store_operands(l: &Lowering, i: &Instruction, insn: &mut Insn) {
    insn.dst = l.reg(i.op1_register());
    insn.src = l.reg(i.op2_register());
    insn.aux = segment_number(l.memory_segment(i));
    let mask = match i.op0_kind() {
        OpKind::MemorySegDI => AddrMask::Bits16,
        OpKind::MemorySegEDI => AddrMask::Bits32,
        _ => AddrMask::Bits64,
    };
    insn.mem = Mem { base: gpr::RDI, mask, ..Mem::NONE };
}
