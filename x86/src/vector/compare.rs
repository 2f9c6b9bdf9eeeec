//! Comparisons, whose result is in a mask register: a bit for each lane, 0 where the lane is not active.

use super::{
    element::Lanes,
    float::{Double, Format, Single, flag, modes},
    mvex::Mvex,
    operand::Compute,
    state::Zmm,
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    operation::Operation as O,
    softfloat::{Context, Relation},
};

/// The mask of the active lanes for which `holds` says yes.
fn mask_of(active: u16, mut holds: impl FnMut(usize) -> bool) -> u16 {
    (0..16).filter(|&n| active >> n & 1 != 0 && holds(n)).fold(0, |mask, n| mask | 1 << n)
}

/// VCMPPS and VCMPPD.
pub(super) struct CompareFloat;

impl Compute for CompareFloat {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        match insn.op.lanes() {
            Lanes::Sixteen => compare::<Single>(cpu, insn, active, b),
            Lanes::Eight => compare::<Double>(cpu, insn, active, b),
        }
    }
}

fn compare<F: Format>(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
    let mvex = Mvex::of(insn);
    let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
    let mut cx = modes(cpu, mvex);
    let result =
        mask_of(active, |n| predicate::<F>(F::get(&a, n), F::get(b, n), mvex.immediate(), &mut cx));
    flag(cpu, mvex, &cx);
    cpu.set_mask(insn.dst, result);
}

/// EQ, LT, LE, UNORD, and from 4 on their opposites. LT, LE and their opposites signal on quiet NaNs.
fn predicate<F: Format>(a: u64, b: u64, code: u8, cx: &mut Context) -> bool {
    let relation = F::compare(a, b, matches!(code & 3, 1 | 2), cx);
    let holds = match code & 3 {
        0 => relation == Relation::Equal,
        1 => relation == Relation::Less,
        2 => matches!(relation, Relation::Less | Relation::Equal),
        _ => relation == Relation::Unordered,
    };
    holds != (code & 4 != 0)
}

/// VPCMPD, VPCMPUD, VPCMPEQD, VPCMPGTD, VPCMPLTD and VPTESTMD.
pub(super) struct CompareInteger;

impl Compute for CompareInteger {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
        let result = mask_of(active, |n| {
            let (a, b) = (a[n], b[n]);
            let (signed_a, signed_b) = (a as i32, b as i32);
            match insn.op {
                O::Vpcmpeqd => a == b,
                O::Vpcmpgtd => signed_a > signed_b,
                O::Vpcmpltd => signed_a < signed_b,
                O::Vptestmd => a & b != 0,
                O::Vpcmpd => integer_predicate(signed_a, signed_b, mvex.immediate()),
                _ => integer_predicate(a, b, mvex.immediate()),
            }
        });
        cpu.set_mask(insn.dst, result);
    }
}

/// EQ, LT, LE, never, and from 4 on their opposites.
fn integer_predicate<T: Ord + Copy>(a: T, b: T, code: u8) -> bool {
    let holds = match code & 3 {
        0 => a == b,
        1 => a < b,
        2 => a <= b,
        _ => false,
    };
    holds != (code & 4 != 0)
}
