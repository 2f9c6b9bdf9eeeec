//! Counts of bits in general registers: POPCNT, LZCNT, TZCNT and TZCNTI in VEX form.
//!
//! POPCNT sets ZF if nothing was counted and clears the other flags. The others set CF if the source is zero
//! and ZF if the result is (as with BMI, Intel SDM volume 2, "LZCNT", "TZCNT"), and clear the rest.

use super::set_flags;
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{Handler, Insn, Size},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

fn count<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let source = cpu.reg::<T>(insn.src).to_u64();
    let result = match insn.op {
        Operation::Popcnt => source.count_ones(),
        Operation::Lzcnt => source.leading_zeros() - (64 - T::BITS),
        Operation::Tzcnt => source.trailing_zeros().min(T::BITS),
        _ => first_above(source, cpu.reg::<T>(insn.dst).to_i64()).min(T::BITS),
    };
    cpu.set_reg(insn.dst, T::from_u64(u64::from(result)));
    let carry = insn.op != Operation::Popcnt && source == 0;
    set_flags(cpu, carry, result == 0);
    Ok(())
}

/// The place of the first bit that is set above place `index`, of which a negative one is below them all; 64
/// if there is none.
fn first_above(bits: u64, index: i64) -> u32 {
    let first = index.saturating_add(1).max(0);
    let above = u32::try_from(first).ok().and_then(|first| u64::MAX.checked_shl(first));
    (bits & above.unwrap_or(0)).trailing_zeros()
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Popcnt | Operation::Lzcnt | Operation::Tzcnt | Operation::Tzcnti => {
            match insn.size {
                Size::B8 => count::<O, u64>,
                _ => count::<O, u32>,
            }
        }
        _ => return None,
    })
}
