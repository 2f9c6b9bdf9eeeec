//! Which instructions pair, in words.

use crate::pipeline::{
    Branch, Instruction, MemoryUse, Registers,
    in_order::{Mmx, Pairing, Unit},
};

/// Whether two instructions pair, by the sentences of Agner Fog, chapter 10.1, and of Intel's guide for
/// MMX technology, chapter 3.
pub(super) fn pairs(u: &Instruction, v: &Instruction) -> bool {
    use Pairing::{Exchange, U, UV, V, WithExchange};
    // Prefixes, displacement with immediate and length keep an instruction out of the V pipe.
    if v.prefixes.other > 0 || v.displacement_and_immediate || v.length > 7 {
        return false;
    }
    // FXCH pairs behind some x87 instructions, and nothing else does.
    if u.timing.pairing == WithExchange || v.timing.pairing == Exchange {
        return u.timing.pairing == WithExchange && v.timing.pairing == Exchange;
    }
    // The first is pairable in the U pipe, the second in the V pipe.
    if !matches!(u.timing.pairing, U | UV) || !matches!(v.timing.pairing, V | UV) {
        return false;
    }
    // The second does not read or write what the first writes.
    for register in
        (0..8).filter(|&n| n != 4).map(Registers::general).chain((0..8).map(Registers::mmx))
    {
        if u.writes.intersects(register) && v.reads.union(v.writes).intersects(register) {
            return false;
        }
    }
    // But two may push, or pop.
    let esp = Registers::STACK_POINTER;
    if u.writes.intersects(esp) && v.reads.union(v.writes).intersects(esp) {
        let stack = u.predicts_stack_pointer && v.predicts_stack_pointer;
        let pushes = [u, v].iter().all(|i| i.memory == MemoryUse::Store);
        let pops = [u, v].iter().all(|i| i.memory == MemoryUse::Load);
        if !stack || !(pushes || pops) {
            return false;
        }
    }
    // Of those that read flags, only a conditional jump goes with an instruction that writes them.
    let flags = Registers::FLAGS;
    if u.writes.intersects(flags) && v.reads.intersects(flags) && v.branch != Branch::Conditional {
        return false;
    }
    // MMX instructions that need memory or a general register, and units of which there is one.
    let outside = |i: &Instruction| {
        i.timing.is_mmx() && (i.memory != MemoryUse::None || i.reads.union(i.writes).has_general())
    };
    if outside(v) || outside(u) && !v.timing.is_mmx() {
        return false;
    }
    let one_of = |part| u.timing.unit == Unit::Mmx(part) && v.timing.unit == Unit::Mmx(part);
    !one_of(Mmx::Shifter) && !one_of(Mmx::Multiplier)
}
