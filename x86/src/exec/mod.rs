//! The instructions without x87 and vectors: how they are lowered and what they do.
//!
//! One file per family. Each offers `lower`, which alone knows the decoder, and `handler`, which knows
//! the lowered instruction alone; both answer `None` for an instruction that is not of the family.
//! Handlers are generic over the operand size, so that no size is looked at while they run; `handler`
//! picks the right one from an array with a row per size.

mod alu;
mod bcd;
mod bits;
pub(crate) mod branch;
mod class;
mod control;
mod exchange;
mod flag;
mod hint;
pub(crate) mod knc;
mod mov;
mod msr;
mod muldiv;
mod portio;
mod privilege;
mod shift;
mod stack;
pub(crate) mod string;
mod system;
#[cfg(test)]
mod tests;

pub(crate) use hint::undefined;

use std::marker::PhantomData;

use iced_x86::{Instruction, OpKind};

use crate::{
    class::Class,
    insn::{Form, Handler, Insn, Size},
    lower::{End, Lowered, Lowering},
    observe::Observer,
};

/// Lowers an instruction of the families of this module; `insn` is what all have in common of it.
pub(crate) fn lower(l: &Lowering, i: &Instruction, insn: Insn) -> Option<Lowered> {
    let lowered = mov::lower(l, i, insn)
        .or_else(|| alu::lower(l, i, insn))
        .or_else(|| branch::lower(l, i, insn))
        .or_else(|| stack::lower(l, i, insn))
        .or_else(|| shift::lower(l, i, insn))
        .or_else(|| bits::lower(l, i, insn))
        .or_else(|| muldiv::lower(l, i, insn))
        .or_else(|| flag::lower(l, i, insn))
        .or_else(|| exchange::lower(l, i, insn))
        .or_else(|| string::lower(l, i, insn))
        .or_else(|| hint::lower(insn))
        .or_else(|| bcd::lower(i, insn))
        .or_else(|| system::lower(l, i, insn))
        .or_else(|| privilege::lower(l, i, insn))
        .or_else(|| control::lower(l, i, insn))
        .or_else(|| msr::lower(insn))
        .or_else(|| portio::lower(l, i, insn))
        .or_else(|| knc::lower(l, i, insn))?;
    Some(Lowered { class: class::of(l, i, &lowered.insn), ..lowered })
}

/// The handler of a lowered instruction of the families of this module.
pub(crate) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    mov::handler(insn)
        .or_else(|| alu::handler(insn))
        .or_else(|| branch::handler(insn))
        .or_else(|| stack::handler(insn))
        .or_else(|| shift::handler(insn))
        .or_else(|| bits::handler(insn))
        .or_else(|| muldiv::handler(insn))
        .or_else(|| flag::handler(insn))
        .or_else(|| exchange::handler(insn))
        .or_else(|| string::handler(insn))
        .or_else(|| hint::handler(insn))
        .or_else(|| bcd::handler(insn))
        .or_else(|| system::handler(insn))
        .or_else(|| privilege::handler(insn))
        .or_else(|| control::handler(insn))
        .or_else(|| msr::handler(insn))
        .or_else(|| portio::handler(insn))
        .or_else(|| knc::handler(insn))
}

/// An operation whose result takes nothing from the flags, where nobody reads those that it leaves
/// ([`crate::lower::unread`]): the compiler does not work them out for ones that are dropped.
struct Unread<P>(PhantomData<P>);

/// The handler for an operand size; the array has a row for each, smallest first.
fn by_size<O>(size: Size, handlers: [Handler<O>; 4]) -> Handler<O> {
    handlers[size as usize & 3]
}

/// One row per operand size: `sizes!(h, O, P)` is `[h::<O, u8, P>, .., h::<O, u64, P>]`.
macro_rules! sizes {
    ($handler:ident, $o:ty $(, $more:ty)*) => {
        [
            $handler::<$o, u8 $(, $more)*>,
            $handler::<$o, u16 $(, $more)*>,
            $handler::<$o, u32 $(, $more)*>,
            $handler::<$o, u64 $(, $more)*>,
        ]
    };
}

/// One row per condition code: `conditions!(h, O, T)` is `[h::<O, T, 0>, .., h::<O, T, 15>]`.
macro_rules! conditions {
    ($handler:ident, $o:ty $(, $more:ty)*) => {
        [
            $handler::<$o $(, $more)*, 0>,
            $handler::<$o $(, $more)*, 1>,
            $handler::<$o $(, $more)*, 2>,
            $handler::<$o $(, $more)*, 3>,
            $handler::<$o $(, $more)*, 4>,
            $handler::<$o $(, $more)*, 5>,
            $handler::<$o $(, $more)*, 6>,
            $handler::<$o $(, $more)*, 7>,
            $handler::<$o $(, $more)*, 8>,
            $handler::<$o $(, $more)*, 9>,
            $handler::<$o $(, $more)*, 10>,
            $handler::<$o $(, $more)*, 11>,
            $handler::<$o $(, $more)*, 12>,
            $handler::<$o $(, $more)*, 13>,
            $handler::<$o $(, $more)*, 14>,
            $handler::<$o $(, $more)*, 15>,
        ]
    };
}
use {conditions, sizes};

/// The handler for a condition code; the array has a row for each.
fn by_condition<O>(code: u8, handlers: [Handler<O>; 16]) -> Handler<O> {
    handlers[usize::from(code & 15)]
}

/// The condition code of Jcc, SETcc, CMOVcc, LOOPE and LOOPNE: 0-15 as encoded.
fn condition(i: &Instruction) -> u8 {
    // The decoder counts from 1, in the order of the encoding.
    (i.condition_code() as u8).wrapping_sub(1) & 15
}

/// An instruction after which the next of the block follows.
fn next(insn: Insn) -> Option<Lowered> {
    Some(Lowered { insn, class: Class::NONE, end: End::Next })
}

/// The size of a register or memory operand of `bytes`.
fn size_of_bytes(bytes: usize) -> Size {
    match bytes {
        1 => Size::B1,
        2 => Size::B2,
        8 => Size::B8,
        _ => Size::B4,
    }
}

/// The size of operand `n`, a register or memory.
fn operand_size(i: &Instruction, n: u32) -> Size {
    match i.op_kind(n) {
        OpKind::Register => size_of_bytes(i.op_register(n).size()),
        _ => size_of_bytes(i.memory_size().size()),
    }
}

/// `value`, of which the low `size` count, sign-extended.
fn sign_extend(value: u64, size: Size) -> u64 {
    let unused = 64 - 8 * size.bytes() as u32;
    ((value << unused) as i64 >> unused) as u64
}

/// Enters the operands of a one- or two-operand instruction on general registers, memory and
/// immediates; false if there are others.
fn operands(l: &Lowering, i: &Instruction, insn: &mut Insn) -> bool {
    insn.size = l.size_of(i);
    let to_register = match i.op0_kind() {
        OpKind::Register if i.op0_register().is_gpr() => {
            insn.dst = l.reg(i.op0_register());
            true
        }
        OpKind::Memory => false,
        _ => return false,
    };
    if i.op_count() == 1 {
        insn.form = if to_register { Form::Reg } else { Form::Mem };
        return true;
    }
    insn.form = match i.op1_kind() {
        OpKind::Register if i.op1_register().is_gpr() => {
            insn.src = l.reg(i.op1_register());
            if to_register { Form::RegReg } else { Form::MemReg }
        }
        OpKind::Memory => Form::RegMem,
        OpKind::Register => return false,
        _ => {
            insn.imm = sign_extend(i.immediate(1), insn.size);
            if to_register { Form::RegImm } else { Form::MemImm }
        }
    };
    true
}
