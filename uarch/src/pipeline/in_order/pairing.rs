//! Which two instructions pair, how long a pair takes, and which banks its accesses need.
//!
//! The numbered rules are those of Agner Fog, "How to optimize for the Pentium family of microprocessors",
//! chapter 10.1; those of MMX instructions are of Intel's MMX Technology Developer's Guide, chapter 3.

use super::{
    Pipes,
    timing::{Mmx, Pairing, Unit},
};
use crate::pipeline::{Branch, Instruction, MemoryUse, Registers};

/// Whether `second` may execute in the V pipe while `first` executes in the U pipe.
pub(super) fn pairs(pipes: &Pipes, first: &Instruction, second: &Instruction) -> bool {
    pipes_allow(first, second)
        && operands_allow(pipes, first, second)
        && encoding_allows(pipes, second)
        && mmx_allows(first, second)
}

/// Whether an instruction may be the first of a pair at all.
pub(super) fn may_be_first(instruction: &Instruction) -> bool {
    matches!(instruction.timing.pairing, Pairing::U | Pairing::UV | Pairing::WithExchange)
}

/// Rule 1: the first is pairable in the U pipe and the second in the V pipe.
fn pipes_allow(first: &Instruction, second: &Instruction) -> bool {
    match first.timing.pairing {
        Pairing::U | Pairing::UV => matches!(second.timing.pairing, Pairing::V | Pairing::UV),
        Pairing::WithExchange => second.timing.pairing == Pairing::Exchange,
        Pairing::Never | Pairing::V | Pairing::Exchange => false,
    }
}

/// Rules 2 to 6: the second neither reads nor writes what the first writes, but for flags that both write
/// or a conditional branch reads, and for the stack pointer of two pushes, of two pops, and of a push and
/// a call.
///
/// A flag writer and ADC or SBB behind it do not pair anyway, as these pair in the U pipe only.
fn operands_allow(pipes: &Pipes, first: &Instruction, second: &Instruction) -> bool {
    if second.timing.pairing == Pairing::Exchange {
        return true;
    }
    let mut hazards = first.writes;
    if second.branch == Branch::Conditional || !second.reads.intersects(Registers::FLAGS) {
        hazards = hazards.without(Registers::FLAGS);
    }
    if pipes.stack_pairs
        && first.predicts_stack_pointer
        && second.predicts_stack_pointer
        && first.memory == second.memory
    {
        hazards = hazards.without(Registers::STACK_POINTER);
    }
    !hazards.intersects(second.reads.union(second.writes))
}

/// Rules 7 and 8: a prefix other than of size, both displacement and immediate, or more bytes than the
/// V pipe takes, and an instruction cannot be the second.
fn encoding_allows(pipes: &Pipes, second: &Instruction) -> bool {
    second.prefixes.other == 0
        && !second.displacement_and_immediate
        && second.length <= pipes.longest_paired
}

/// An MMX instruction that accesses memory or a general register executes in the U pipe, and pairs only
/// with another MMX instruction; there is one shifter and one multiplier.
fn mmx_allows(first: &Instruction, second: &Instruction) -> bool {
    if second.timing.is_mmx() && leaves_the_unit(second) {
        return false;
    }
    match (first.timing.unit, second.timing.unit) {
        (Unit::Mmx(a), Unit::Mmx(b)) => a != b || a == Mmx::Alu,
        (Unit::Mmx(_), _) => !leaves_the_unit(first),
        _ => true,
    }
}

/// Whether an MMX instruction accesses memory or a general register.
fn leaves_the_unit(instruction: &Instruction) -> bool {
    instruction.memory != MemoryUse::None
        || instruction.reads.union(instruction.writes).has_general()
}

/// Clocks of a pair in the execution stage, without what its accesses wait for.
///
/// Agner Fog, chapter 10.2, rule 4: an instruction that reads, computes and writes back overlaps little.
pub(super) fn clocks(pipes: &Pipes, first: &Instruction, second: &Instruction) -> u64 {
    let index = |instruction: &Instruction| usize::from(instruction.timing.clocks - 1).min(2);
    u64::from(pipes.pair_clocks[index(first)][index(second)])
}

/// The banks of the data cache that an access needs, a bit each.
///
/// Two accesses of a pair that need the same are made one after the other (Agner Fog, chapter 10.2, rules 2
/// and 3).
#[inline]
pub(super) fn banks(pipes: &Pipes, address: u64, bytes: u8) -> u32 {
    let bank = |address: u64| (address >> pipes.bank_bit) & ((1 << pipes.bank_bits) - 1);
    let last = address.wrapping_add(u64::from(bytes.max(1)) - 1);
    1 << bank(address) | 1 << bank(last)
}

/// Registers that an address in the clock behind an instruction would wait for.
pub(super) fn address_hazards(pipes: &Pipes, instruction: &Instruction) -> Registers {
    if pipes.stack_pairs && instruction.predicts_stack_pointer {
        instruction.writes.without(Registers::STACK_POINTER)
    } else {
        instruction.writes
    }
}

/// Whether an instruction that others may join takes no longer alone than with any of them: what is true of
/// each instruction of a table.
pub(super) fn is_no_longer_alone(pipes: &Pipes, first: &Instruction) -> bool {
    let alone = first.timing.clocks;
    let together = &pipes.pair_clocks[usize::from(alone.saturating_sub(1)).min(2)];
    !may_be_first(first) || together.iter().all(|&together| together >= alone)
}
