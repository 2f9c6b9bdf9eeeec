//! Instructions for the tests, with timings of their own.

use super::{
    super::{Access, Execution, Instruction, VectorRegisters as V},
    Step,
};
use crate::pipeline::{
    self, Branch, MemoryUse, Registers,
    in_order::{Pairing, Timing},
};

/// An instruction of the integer side.
fn integer(timing: Timing, reads: Registers, writes: Registers) -> pipeline::Instruction {
    pipeline::Instruction { reads, writes, ..pipeline::Instruction::new(timing) }
}

/// The same with a memory operand at a register.
fn at(memory: MemoryUse, base: u8, of: pipeline::Instruction) -> pipeline::Instruction {
    let base = Registers::general(base);
    pipeline::Instruction { memory, address: base, reads: of.reads.union(base), ..of }
}

fn step(of: pipeline::Instruction) -> Step {
    Step::new(Instruction::scalar(of))
}

fn vector(of: pipeline::Instruction, reads: V, writes: V, index: V) -> Step {
    Step::new(Instruction::new(of, reads, writes, index))
}

fn general(register: u8) -> Registers {
    Registers::general(register)
}

const NONE: Registers = Registers::NONE;

/// NOP.
pub(super) fn nop() -> Step {
    step(integer(Timing::integer(1, Pairing::UV), NONE, NONE))
}

/// One clock, and no pair.
pub(super) fn alone() -> Step {
    long(1)
}

/// So many clocks in the execution stage, and no pair.
pub(super) fn long(clocks: u16) -> Step {
    step(integer(Timing::integer(clocks, Pairing::Never), NONE, NONE))
}

/// So many clocks of microcode.
pub(super) fn microcode(clocks: u16) -> Step {
    step(integer(Timing::microcode(clocks), NONE, NONE))
}

/// Arithmetic on registers: ADD.
pub(super) fn add(to: u8, from: u8) -> Step {
    let writes = general(to).union(Registers::FLAGS);
    step(integer(Timing::integer(1, Pairing::UV), general(to).union(general(from)), writes))
}

/// MOV from memory.
pub(super) fn load(to: u8, base: u8) -> Step {
    let of = integer(Timing::integer(1, Pairing::UV), NONE, general(to));
    step(at(MemoryUse::Load, base, of))
}

/// MOV to memory.
pub(super) fn store(base: u8, from: u8) -> Step {
    let of = integer(Timing::integer(1, Pairing::UV), general(from), NONE);
    step(at(MemoryUse::Store, base, of))
}

/// ADD from memory: two clocks.
pub(super) fn add_memory(to: u8, base: u8) -> Step {
    let writes = general(to).union(Registers::FLAGS);
    let of = integer(Timing::integer(2, Pairing::UV), general(to), writes);
    step(at(MemoryUse::Load, base, of))
}

/// ADD to memory: three clocks.
pub(super) fn modify(base: u8, from: u8) -> Step {
    let of = integer(Timing::integer(3, Pairing::UV), general(from), Registers::FLAGS);
    step(at(MemoryUse::Modify, base, of))
}

/// PUSH.
pub(super) fn push(from: u8) -> Step {
    let of = integer(Timing::integer(1, Pairing::UV), general(from), general(4));
    let of = pipeline::Instruction { predicts_stack_pointer: true, ..of };
    step(at(MemoryUse::Store, 4, of))
}

/// A conditional branch.
pub(super) fn branch() -> Step {
    let of = integer(Timing::integer(1, Pairing::V), Registers::FLAGS, NONE);
    step(pipeline::Instruction { branch: Branch::Conditional, ..of })
}

/// VPREFETCH0, of the V pipe when it pairs.
pub(super) fn prefetch(base: u8) -> Step {
    step(at(MemoryUse::None, base, integer(Timing::integer(1, Pairing::V), NONE, NONE)))
}

/// Arithmetic on vectors, under a mask if there is one.
pub(super) fn arithmetic(to: u8, a: u8, b: u8, mask: Option<u8>) -> Step {
    let of = integer(Timing::vector(4, Pairing::U), NONE, NONE);
    let masked = mask.map_or(V::NONE, |mask| V::mask(mask).union(V::zmm(to)));
    vector(of, V::zmm(a).union(V::zmm(b)).union(masked), V::zmm(to), V::NONE)
}

/// An operation whose result takes eight clocks, and that occupies the unit for two.
pub(super) fn exponential(to: u8, from: u8) -> Step {
    let of = integer(Timing::vector(8, Pairing::U).occupying(2), NONE, NONE);
    vector(of, V::zmm(from), V::zmm(to), V::NONE)
}

/// A vector comparison.
pub(super) fn compare(mask: u8, a: u8, b: u8) -> Step {
    let of = integer(Timing::vector(4, Pairing::U), NONE, NONE);
    vector(of, V::zmm(a).union(V::zmm(b)), V::mask(mask), V::NONE)
}

/// A vector load: three clocks.
pub(super) fn vector_load(to: u8, base: u8) -> Step {
    let of = at(MemoryUse::Load, base, integer(Timing::vector(3, Pairing::U), NONE, NONE));
    vector(of, V::NONE, V::zmm(to), V::NONE)
}

/// A vector store, in either pipe.
pub(super) fn vector_store(base: u8, from: u8) -> Step {
    let of = at(MemoryUse::Store, base, integer(Timing::vector(1, Pairing::UV), NONE, NONE));
    vector(of, V::zmm(from), V::NONE, V::NONE)
}

/// KMOV to a general register.
pub(super) fn from_mask(to: u8, mask: u8) -> Step {
    let of = integer(Timing::vector(1, Pairing::UV), NONE, general(to));
    vector(of, V::mask(mask), V::NONE, V::NONE)
}

/// KMOV to a mask register.
pub(super) fn to_mask(mask: u8, from: u8) -> Step {
    let of = integer(Timing::vector(4, Pairing::UV), general(from), NONE);
    vector(of, V::NONE, V::mask(mask), V::NONE)
}

/// JKZD.
pub(super) fn mask_branch(mask: u8) -> Step {
    let of = integer(Timing::integer(1, Pairing::V), NONE, NONE);
    let of = pipeline::Instruction { branch: Branch::Conditional, ..of };
    vector(of, V::mask(mask), V::NONE, V::NONE)
}

/// A gather.
pub(super) fn gather(to: u8, base: u8, index: u8, mask: u8) -> Step {
    let timing = Timing::vector(4, Pairing::U).gathering();
    let of = at(MemoryUse::Load, base, integer(timing, NONE, NONE));
    let both = V::zmm(to).union(V::mask(mask));
    vector(of, both, both, V::zmm(index))
}

/// An x87 instruction as a table has it: FADD is 3, 2, 2.
fn x87(clocks: u16, integer: u16, x87: u16) -> Timing {
    Timing::x87(clocks, integer, x87, Pairing::WithExchange)
}

/// FADD ST, ST(place).
pub(super) fn fadd(place: u8) -> Step {
    let reads = Registers::x87(0).union(Registers::x87(place));
    step(integer(x87(3, 2, 2), reads, Registers::x87(0)))
}

/// FMUL ST, ST(place).
pub(super) fn fmul(place: u8) -> Step {
    let reads = Registers::x87(0).union(Registers::x87(place));
    step(integer(x87(3, 2, 2).multiplying(), reads, Registers::x87(0)))
}

/// FDIV ST, ST(place).
pub(super) fn fdiv(place: u8) -> Step {
    let reads = Registers::x87(0).union(Registers::x87(place));
    step(integer(x87(39, 38, 2).shorter(20, 6), reads, Registers::x87(0)))
}

/// FXCH ST(place).
pub(super) fn fxch(place: u8) -> Step {
    let timing = Timing::x87(1, 0, 0, Pairing::Exchange);
    let of = integer(timing, NONE, NONE);
    step(pipeline::Instruction { exchanges: Some(place), ..of })
}

/// FLD from memory.
pub(super) fn fld(base: u8) -> Step {
    let of = integer(x87(1, 0, 0), NONE, Registers::x87(7));
    step(pipeline::Instruction { x87_pops: -1, ..at(MemoryUse::Load, base, of) })
}

/// FSTP to memory.
pub(super) fn fstp(base: u8) -> Step {
    let timing = Timing::x87(2, 0, 0, Pairing::Never).operand_early();
    let of = integer(timing, Registers::x87(0), NONE);
    step(pipeline::Instruction { x87_pops: 1, ..at(MemoryUse::Store, base, of) })
}

/// An instruction that empties its thread's pipeline: CPUID.
pub(super) fn serialising() -> Step {
    let of = integer(Timing::microcode(14), NONE, NONE);
    step(pipeline::Instruction { serialises: true, ..of })
}

/// A read of so many bytes that hits.
pub(super) fn read(address: u64, bytes: u8) -> Execution {
    let access = Some(Access { address, bytes, writes: false });
    Execution { access, ..Execution::default() }
}

/// A write.
pub(super) fn write(address: u64, bytes: u8) -> Execution {
    let access = Some(Access { address, bytes, writes: true });
    Execution { access, ..Execution::default() }
}

/// A read that takes so many clocks longer than a hit.
pub(super) fn miss(clocks: u64) -> Execution {
    Execution { waits: clocks, ..read(0, 4) }
}
