//! Addition and subtraction with a mask register for the carries or borrows of the lanes.
//!
//! The first source is the destination; the mask register is in vvvv. The lanes that are not active leave
//! both as they were.

use super::{
    element::Lanes,
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{cpu::Cpu, insn::Insn, operation::Operation as O};

/// VPADC, VPADDSETC, VPSBB, VPSBBR, VPSUBSETB and VPSUBRSETB.
pub(super) struct Carry;

impl Compute for Carry {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let chain = Mvex::of(insn).vvvv();
        let (before, d) = (cpu.mask(chain), cpu.vector.zmm[usize::from(insn.dst)]);
        let takes_carry = matches!(insn.op, O::Vpadcd | O::Vpsbbd | O::Vpsbbrd);
        let mut after = before;
        let result = std::array::from_fn(|n| {
            let carry = takes_carry && before >> n & 1 != 0;
            let (d, b) = (d[n], b[n]);
            let (value, carry) = match insn.op {
                O::Vpadcd | O::Vpaddsetcd => sum(d, b, carry),
                O::Vpsbbd | O::Vpsubsetbd => difference(d, b, carry),
                _ => difference(b, d, carry),
            };
            after = after & !(1 << n) | u16::from(carry) << n;
            value
        });
        write(cpu, insn.dst, Lanes::Sixteen, active, &result);
        cpu.set_mask(chain, before & !active | after & active);
    }
}

/// A sum and its carry.
fn sum(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// A difference and its borrow.
fn difference(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = i64::from(a) - i64::from(b) - i64::from(borrow);
    (difference as u32, difference < 0)
}
