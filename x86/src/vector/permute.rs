//! Moves between registers and from memory, blends, and permutations of elements.

use super::{
    element::Lanes,
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{cpu::Cpu, insn::Insn, operation::Operation as O};

/// VMOVAPS and the like, and broadcasts: the operand as it was converted.
pub(super) struct Move;

impl Compute for Move {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        write(cpu, insn.dst, insn.op.lanes(), active, b);
    }
}

/// VBLENDM and VPBLENDM: the last operand in the lanes that are active, the second in the others.
pub(super) struct Blend;

impl Compute for Blend {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let a = cpu.vector.zmm[usize::from(Mvex::of(insn).vvvv())];
        write(cpu, insn.dst, insn.op.lanes(), !active, &a);
        write(cpu, insn.dst, insn.op.lanes(), active, b);
    }
}

/// VPSHUFD, VPERMD, VPERMF32X4 and VALIGND.
pub(super) struct Permute;

impl Compute for Permute {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
        let control = usize::from(mvex.immediate());
        // Which of four a pair of bits of the immediate chooses.
        let chosen = |n: usize| control >> (2 * n) & 3;
        let result = std::array::from_fn(|n| match insn.op {
            O::Vpshufd => b[n & !3 | chosen(n & 3)],
            O::Vpermd => b[(a[n] & 15) as usize],
            O::Vpermf32x4 => b[4 * chosen(n / 4) + n % 4],
            // The last operand below the second, shifted right by elements.
            _ => match n + (control & 15) {
                at @ 0..16 => b[at],
                at => a[at - 16],
            },
        });
        write(cpu, insn.dst, Lanes::Sixteen, active, &result);
    }
}
