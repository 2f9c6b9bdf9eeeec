//! Exponents and significands: VGETEXP, VGETMANT, VSCALEPS; and VFIXUPNAN, which replaces numbers by class.

use super::{
    element::Lanes,
    float::{Double, Format, Single, flag, modes},
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    operation::Operation as O,
    softfloat::{
        Context, IE, Interval, SignControl, f32_exponent, f32_scale, f32_significand, f64_exponent,
        f64_significand,
    },
};

/// VGETEXP and VGETMANT.
pub(super) struct Parts;

impl Compute for Parts {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let mut cx = modes(cpu, mvex);
        let (interval, sign) = selection(mvex.immediate());
        let cx = &mut cx;
        let result = match insn.op {
            O::Vgetexpps => Single::map(active, |n| f32_exponent(b[n], cx).into()),
            O::Vgetexppd => Double::map(active, |n| f64_exponent(Double::get(b, n), cx)),
            O::Vgetmantps => {
                Single::map(active, |n| f32_significand(b[n], interval, sign, cx).into())
            }
            _ => Double::map(active, |n| f64_significand(Double::get(b, n), interval, sign, cx)),
        };
        flag(cpu, mvex, cx);
        write(cpu, insn.dst, insn.op.lanes(), active, &result);
    }
}

/// What VGETMANT's immediate asks for: in bits 1:0 the interval, in bits 3:2 the sign, of which code 3 is the
/// second and the third of the others together.
fn selection(immediate: u8) -> (Interval, SignControl) {
    let interval = match immediate & 3 {
        0 => Interval::OneToTwo,
        1 => Interval::HalfToTwo,
        2 => Interval::HalfToOne,
        _ => Interval::ThreeQuartersToThreeHalves,
    };
    let sign = SignControl { clears: immediate & 4 != 0, refuses_negative: immediate & 8 != 0 };
    (interval, sign)
}

/// VSCALEPS.
pub(super) struct Scale;

impl Compute for Scale {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
        let mut cx = modes(cpu, mvex);
        let result = Single::map(active, |n| f32_scale(a[n], b[n] as i32, &mut cx).into());
        flag(cpu, mvex, &cx);
        write(cpu, insn.dst, Lanes::Sixteen, active, &result);
    }
}

/// VFIXUPNANPS and VFIXUPNANPD.
///
/// The table in `b` has three bits for each class of the number in `a`: negative infinity in bits 2:0, then
/// negative, minus zero, plus zero, positive, infinity. What they stand for takes the place of the
/// destination; 0 leaves it. A NaN in `a` is the result, made quiet, whatever the table says.
pub(super) struct FixupNan;

impl Compute for FixupNan {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        match insn.op.lanes() {
            Lanes::Sixteen => fixup::<Single>(cpu, insn, active, b),
            Lanes::Eight => fixup::<Double>(cpu, insn, active, b),
        }
    }
}

fn fixup<F: Format>(cpu: &mut Cpu, insn: &Insn, active: u16, tables: &Zmm) {
    let mvex = Mvex::of(insn);
    let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
    let d = cpu.vector.zmm[usize::from(insn.dst)];
    let mut cx = modes(cpu, mvex);
    let result =
        F::map(active, |n| fixed_up::<F>(F::get(&d, n), F::get(&a, n), F::get(tables, n), &mut cx));
    flag(cpu, mvex, &cx);
    write(cpu, insn.dst, F::LANES, active, &result);
}

fn fixed_up<F: Format>(d: u64, a: u64, table: u64, cx: &mut Context) -> u64 {
    if F::is_nan(a) {
        cx.flags |= if F::is_signaling(a) { IE } else { 0 };
        return a | F::QUIET;
    }
    let negative = a & F::SIGN != 0;
    let magnitude = a & !F::SIGN;
    let is_zero = magnitude == 0 || cx.daz && F::is_denormal(a);
    let class = match (is_zero, magnitude == F::INFINITY, negative) {
        (_, true, true) => 0,
        (true, _, true) => 2,
        (true, _, false) => 3,
        (_, true, false) => 5,
        (_, _, true) => 1,
        _ => 4,
    };
    match table >> (3 * class) & 7 {
        0 => d,
        1 => F::SIGN | F::INFINITY,
        2 => F::SIGN,
        3 => 0,
        4 => F::INFINITY,
        5 => F::SIGN | F::INFINITY | F::QUIET,
        6 => F::INFINITY - 1,
        _ => F::SMALLEST_NORMAL,
    }
}
