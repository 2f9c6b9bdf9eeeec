//! Conversions: between single precision and fixed-point numbers (VCVTFXPNT), to a multiple of a power of two
//! (VRNDFXPNT), and between single precision, double precision and 32-bit integers.
//!
//! The immediate has the rounding mode in bits 1:0, for which bit 2 takes that of VXCSR, and in bits 6:4 a
//! code for the number of fraction bits. To an integer a number is multiplied by their power of two before it
//! is rounded, and saturated; the other way it is divided.

use std::ops::RangeInclusive;

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
        Context, Rounding, f32_round_to_fixed, f32_to_f64, f32_to_fixed, f64_round_to_fixed,
        f64_to_f32, f64_to_fixed, fixed_to_f32, i64_to_f64,
    },
};

const SIGNED: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
const UNSIGNED: RangeInclusive<i64> = 0..=u32::MAX as i64;

/// Fraction bits by their code.
const FRACTION_BITS: [u8; 8] = [0, 4, 5, 8, 16, 24, 31, 32];

/// How many fraction bits an immediate asks for.
const fn fraction_bits(immediate: u8) -> u8 {
    FRACTION_BITS[(immediate >> 4 & 7) as usize]
}

/// The rounding that an immediate asks for, `current` that of VXCSR.
fn rounding(immediate: u8, current: Rounding) -> Rounding {
    if immediate & 4 != 0 { current } else { Rounding::from_rc(u32::from(immediate)) }
}

/// VCVTFXPNT and VRNDFXPNT.
pub(super) struct FixedPoint;

impl Compute for FixedPoint {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let scale = fraction_bits(mvex.immediate());
        let mut cx = modes(cpu, mvex);
        cx.rounding = rounding(mvex.immediate(), cx.rounding);
        let (rounding, cx) = (cx.rounding, &mut cx);
        let double = |n| Double::get(b, n);
        let result = match insn.op {
            O::Vcvtfxpntps2dq => {
                Single::map(active, |n| f32_to_fixed(b[n], scale, rounding, SIGNED, cx) as u64)
            }
            O::Vcvtfxpntps2udq => {
                Single::map(active, |n| f32_to_fixed(b[n], scale, rounding, UNSIGNED, cx) as u64)
            }
            O::Vcvtfxpntdq2ps => {
                Single::map(active, |n| fixed_to_f32(i64::from(b[n] as i32), scale, cx).into())
            }
            O::Vcvtfxpntudq2ps => {
                Single::map(active, |n| fixed_to_f32(i64::from(b[n]), scale, cx).into())
            }
            O::Vcvtfxpntpd2dq => {
                Single::map(active, |n| f64_to_fixed(double(n), scale, rounding, SIGNED, cx) as u64)
            }
            O::Vcvtfxpntpd2udq => Single::map(active, |n| {
                f64_to_fixed(double(n), scale, rounding, UNSIGNED, cx) as u64
            }),
            O::Vrndfxpntps => {
                Single::map(active, |n| f32_round_to_fixed(b[n], scale, rounding, cx).into())
            }
            _ => Double::map(active, |n| f64_round_to_fixed(double(n), scale, rounding, cx)),
        };
        flag(cpu, mvex, cx);
        match insn.op {
            O::Vcvtfxpntpd2dq | O::Vcvtfxpntpd2udq => write_low_half(cpu, insn, active, &result),
            op => write(cpu, insn.dst, op.lanes(), active, &result),
        }
    }
}

/// Writes the eight elements of 32 bits that are active to the low half. The high half becomes zero, under a
/// mask as well.
fn write_low_half(cpu: &mut Cpu, insn: &Insn, active: u16, result: &Zmm) {
    write(
        cpu,
        insn.dst,
        Lanes::Sixteen,
        active & 0xff | 0xff00,
        &std::array::from_fn(|n| if n < 8 { result[n] } else { 0 }),
    );
}

/// VCVTPS2PD, VCVTPD2PS, VCVTDQ2PD and VCVTUDQ2PD.
pub(super) struct Widths;

impl Compute for Widths {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let mut modes = modes(cpu, mvex);
        let cx: &mut Context = &mut modes;
        let result = match insn.op {
            O::Vcvtps2pd => Double::map(active, |n| f32_to_f64(b[n], cx)),
            O::Vcvtdq2pd => Double::map(active, |n| i64_to_f64(i64::from(b[n] as i32), cx)),
            O::Vcvtudq2pd => Double::map(active, |n| i64_to_f64(i64::from(b[n]), cx)),
            _ => Single::map(active, |n| f64_to_f32(Double::get(b, n), cx).into()),
        };
        flag(cpu, mvex, &modes);
        match insn.op {
            O::Vcvtpd2ps => write_low_half(cpu, insn, active, &result),
            op => write(cpu, insn.dst, op.lanes(), active, &result),
        }
    }
}
