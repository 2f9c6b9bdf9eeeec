//! Conversions between binary16 and single precision.
//!
//! A binary16 number may be denormal whatever DAZ and FTZ say: those are about single and double precision,
//! and in no manual about this format (as with the conversions of F16C, Intel SDM volume 2, "VCVTPH2PS",
//! "VCVTPS2PH").

use super::convert::convert;
use super::{Context, IE};

/// Binary16 to single: exact; IE for a signaling NaN, which becomes quiet.
#[must_use]
pub fn f16_to_f32(a: u16, cx: &mut Context) -> u32 {
    let mut exact = Context { daz: false, flags: 0, ..*cx };
    let result = convert::<5, 10, 8, 23>(u64::from(a), &mut exact) as u32;
    cx.raise(exact.flags & IE);
    result
}

/// Single to binary16, rounded by `cx`; a denormal operand is zero under DAZ.
#[must_use]
pub fn f32_to_f16(a: u32, cx: &mut Context) -> u16 {
    let mut keeping = Context { ftz: false, ..*cx };
    let result = convert::<8, 23, 5, 10>(u64::from(a), &mut keeping) as u16;
    cx.flags = keeping.flags;
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::softfloat::{OE, PE, Rounding, UE};

    /// By the definition of the format: sign, 5 bits of exponent with a bias of 15, 10 of fraction.
    #[test]
    fn every_half_is_its_value() {
        for bits in 0..=u16::MAX {
            let (exp, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
            let magnitude = match exp {
                0 => fraction / 1024.0 * 2f64.powi(-14),
                31 => continue,
                _ => (1.0 + fraction / 1024.0) * 2f64.powi(i32::from(exp) - 15),
            };
            let want = if bits >> 15 != 0 { -magnitude } else { magnitude } as f32;
            let mut cx = Context { daz: true, ..Context::default() };
            assert_eq!(f16_to_f32(bits, &mut cx), want.to_bits(), "{bits:x}");
            assert_eq!(cx.flags, 0);
            // And back, in any direction, for nothing is rounded; denormals stay whatever FTZ says.
            for rounding in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Zero] {
                let mut cx = Context { rounding, ftz: true, ..Context::default() };
                assert_eq!(f32_to_f16(want.to_bits(), &mut cx), bits);
                assert_eq!(cx.flags, 0);
            }
        }
    }

    #[test]
    fn infinities_and_nans() {
        let mut cx = Context::default();
        assert_eq!(f16_to_f32(0xfc00, &mut cx), 0xff80_0000);
        assert_eq!(f16_to_f32(0x7e01, &mut cx), 0x7fc0_2000);
        assert_eq!(cx.flags, 0);
        assert_eq!(f16_to_f32(0x7c01, &mut cx), 0x7fc0_2000);
        assert_eq!(cx.flags, IE);
    }

    /// 65520 is half way from the largest half, 65504, to 65536: a tie, which goes to the even one, beyond.
    #[test]
    fn rounding_overflow_and_underflow() {
        let of = |value: f32, rounding| {
            let mut cx = Context { rounding, ..Context::default() };
            (f32_to_f16(value.to_bits(), &mut cx), cx.flags)
        };
        assert_eq!(of(65519.0, Rounding::Nearest), (0x7bff, PE));
        assert_eq!(of(65520.0, Rounding::Nearest), (0x7c00, OE | PE));
        assert_eq!(of(-65520.0, Rounding::Zero), (0xfbff, PE));
        assert_eq!(of(70000.0, Rounding::Down), (0x7bff, OE | PE));
        // 2^-25 is half of the smallest denormal.
        assert_eq!(of(2f32.powi(-25), Rounding::Nearest), (0, UE | PE));
        assert_eq!(of(2f32.powi(-25), Rounding::Up), (1, UE | PE));
        assert_eq!(of(1.0 + 2f32.powi(-11), Rounding::Nearest), (0x3c00, PE));
        assert_eq!(of(1.0 + 3.0 * 2f32.powi(-11), Rounding::Nearest), (0x3c02, PE));
    }
}
