//! Fixed-point numbers: an integer that stands for itself divided by a power of two.

use std::ops::RangeInclusive;

use super::binary::{
    bias, infinity, is_nan, is_signaling, quiet_bit, round_pack, sign_bit, unpack,
};
use super::convert::round_integer;
use super::{Context, IE, PE, Rounding};

/// `a * 2^scale` as an integer in `range`, with saturation: single precision. A NaN is zero. IE for a NaN and
/// for what does not fit, else PE if it was rounded.
#[must_use]
pub fn f32_to_fixed(
    a: u32,
    scale: u8,
    rounding: Rounding,
    range: RangeInclusive<i64>,
    cx: &mut Context,
) -> i64 {
    to_fixed::<8, 23>(u64::from(a), scale, rounding, range, cx)
}

/// The same in double precision.
#[must_use]
pub fn f64_to_fixed(
    a: u64,
    scale: u8,
    rounding: Rounding,
    range: RangeInclusive<i64>,
    cx: &mut Context,
) -> i64 {
    to_fixed::<11, 52>(a, scale, rounding, range, cx)
}

/// `value / 2^scale` in single precision, rounded by `cx`.
#[must_use]
pub fn fixed_to_f32(value: i64, scale: u8, cx: &mut Context) -> u32 {
    if value == 0 {
        return 0;
    }
    let magnitude = value.unsigned_abs();
    let shift = magnitude.leading_zeros();
    let top = magnitude << shift;
    let exp = bias::<8>() + 63 - shift as i32 - i32::from(scale);
    round_pack::<8, 23>(value < 0, exp, top >> 1 | top & 1, cx) as u32
}

/// `a` rounded to a multiple of `2^-scale`: single precision. IE for a signaling NaN, which becomes quiet,
/// else PE if it was rounded.
#[must_use]
pub fn f32_round_to_fixed(a: u32, scale: u8, rounding: Rounding, cx: &mut Context) -> u32 {
    round_to_fixed::<8, 23>(u64::from(a), scale, rounding, cx) as u32
}

/// The same in double precision.
#[must_use]
pub fn f64_round_to_fixed(a: u64, scale: u8, rounding: Rounding, cx: &mut Context) -> u64 {
    round_to_fixed::<11, 52>(a, scale, rounding, cx)
}

/// A finite magnitude that is not zero, times `2^scale`, with 64 fraction bits, the lowest sticky; `None` if
/// it is 2^63 or more.
fn scaled<const E: u32, const F: u32>(magnitude: u64, scale: u8) -> Option<u128> {
    let (exp, sig) = unpack::<E, F>(magnitude);
    // The leading one of `sig` is in bit 62.
    let shift = exp - bias::<E>() + i32::from(scale) + 2;
    let sig = u128::from(sig);
    match shift {
        65.. => None,
        0..=64 => Some(sig << shift),
        -63..=-1 => Some(sig >> -shift | u128::from(sig << (128 + shift) != 0)),
        _ => Some(1),
    }
}

fn to_fixed<const E: u32, const F: u32>(
    a: u64,
    scale: u8,
    rounding: Rounding,
    range: RangeInclusive<i64>,
    cx: &mut Context,
) -> i64 {
    if is_nan::<E, F>(a) {
        cx.raise(IE);
        return 0;
    }
    let sign = a & sign_bit::<E, F>() != 0;
    let magnitude = a & !sign_bit::<E, F>();
    if magnitude == 0 || cx.daz && magnitude < 1 << F {
        return 0;
    }
    if magnitude < infinity::<E, F>()
        && let Some(wide) = scaled::<E, F>(magnitude, scale)
    {
        let (result, inexact) = round_integer(sign, wide, rounding);
        if let Ok(result) = i64::try_from(result)
            && range.contains(&result)
        {
            cx.raise(if inexact { PE } else { 0 });
            return result;
        }
    }
    cx.raise(IE);
    if sign { *range.start() } else { *range.end() }
}

fn round_to_fixed<const E: u32, const F: u32>(
    a: u64,
    scale: u8,
    rounding: Rounding,
    cx: &mut Context,
) -> u64 {
    if is_nan::<E, F>(a) {
        cx.raise(if is_signaling::<E, F>(a) { IE } else { 0 });
        return a | quiet_bit::<F>();
    }
    let sign = a & sign_bit::<E, F>();
    let magnitude = a & !sign_bit::<E, F>();
    if magnitude == 0 || cx.daz && magnitude < 1 << F {
        return sign;
    }
    // From 2^F on, all numbers are integers.
    let exp = (magnitude >> F) as i32 - bias::<E>() + i32::from(scale);
    if exp >= F as i32 {
        return a;
    }
    let Some(wide) = scaled::<E, F>(magnitude, scale) else { return a };
    let (result, inexact) = round_integer(sign != 0, wide, rounding);
    cx.raise(if inexact { PE } else { 0 });
    let result = result.unsigned_abs() as u64;
    if result == 0 {
        return sign;
    }
    // At most F + 1 bits, which are exact.
    let top = result.leading_zeros();
    let exp = bias::<E>() + 63 - top as i32 - i32::from(scale);
    let mut exact = Context::default();
    sign | round_pack::<E, F>(false, exp, result << top >> 1, &mut exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    const I32: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
    const U32: RangeInclusive<i64> = 0..=u32::MAX as i64;

    fn fixed(a: f32, scale: u8, range: RangeInclusive<i64>) -> (i64, u8) {
        let mut cx = Context::default();
        (f32_to_fixed(a.to_bits(), scale, Rounding::Nearest, range, &mut cx), cx.flags)
    }

    /// 1.5 in 8.24 is 0180_0000h; ties go to even; what does not fit is at the end of the range.
    #[test]
    fn to_fixed_by_hand() {
        assert_eq!(fixed(1.5, 24, I32), (0x0180_0000, 0));
        assert_eq!(fixed(2.5, 0, I32), (2, PE));
        assert_eq!(fixed(-3.5, 0, I32), (-4, PE));
        assert_eq!(fixed(1.0, 31, I32), (i64::from(i32::MAX), IE));
        assert_eq!(fixed(-1.0, 31, I32), (i64::from(i32::MIN), 0));
        assert_eq!(fixed(1.0, 31, U32), (1 << 31, 0));
        assert_eq!(fixed(1.0, 32, U32), (i64::from(u32::MAX), IE));
        assert_eq!(fixed(-0.25, 0, U32), (0, PE));
        assert_eq!(fixed(-0.75, 0, U32), (0, IE));
        assert_eq!(fixed(f32::NAN, 5, I32), (0, IE));
        assert_eq!(fixed(f32::NEG_INFINITY, 5, I32), (i64::from(i32::MIN), IE));
        assert_eq!(fixed(f32::from_bits(1), 32, I32), (0, PE));
        let mut cx = Context { daz: true, ..Context::default() };
        assert_eq!(f32_to_fixed(1, 0, Rounding::Up, I32, &mut cx), 0);
        assert_eq!(cx.flags, 0);
        assert_eq!(f64_to_fixed((-2.75f64).to_bits(), 0, Rounding::Down, I32, &mut cx), -3);
    }

    #[test]
    fn from_fixed_by_hand() {
        let mut cx = Context::default();
        assert_eq!(fixed_to_f32(0x0180_0000, 24, &mut cx), 1.5f32.to_bits());
        assert_eq!(fixed_to_f32(-1, 32, &mut cx), (-2f32.powi(-32)).to_bits());
        assert_eq!(cx.flags, 0);
        // 2^32 - 1 has 32 bits: one more than the nearest number below.
        assert_eq!(fixed_to_f32(0xffff_ffff, 0, &mut cx), 4_294_967_296f32.to_bits());
        assert_eq!(cx.flags, PE);
        let mut down = Context { rounding: Rounding::Zero, ..Context::default() };
        assert_eq!(fixed_to_f32(0xffff_ffff, 0, &mut down), 4_294_967_040f32.to_bits());
    }

    #[test]
    fn rounding_to_a_multiple_by_hand() {
        let of = |a: f32, scale, rounding| {
            let mut cx = Context::default();
            let result = f32_round_to_fixed(a.to_bits(), scale, rounding, &mut cx);
            (f32::from_bits(result), cx.flags)
        };
        // Multiples of 1/16.
        assert_eq!(of(1.03125, 4, Rounding::Nearest), (1.0, PE));
        assert_eq!(of(1.09375, 4, Rounding::Nearest), (1.125, PE));
        assert_eq!(of(-1.01, 4, Rounding::Down), (-1.0625, PE));
        assert_eq!(of(1e30, 4, Rounding::Up), (1e30, 0));
        assert_eq!(of(8_388_609.0, 0, Rounding::Up), (8_388_609.0, 0));
        assert_eq!(of(0.999_999_94, 0, Rounding::Nearest), (1.0, PE));
        assert_eq!(of(f32::from_bits(3), 32, Rounding::Up), (2f32.powi(-32), PE));
        let (zero, flags) = of(-0.4, 0, Rounding::Nearest);
        assert_eq!((zero.to_bits(), flags), (0x8000_0000, PE));
        let mut cx = Context::default();
        assert_eq!(f32_round_to_fixed(0x7f80_0001, 0, Rounding::Up, &mut cx), 0x7fc0_0001);
        assert_eq!(cx.flags, IE);
        let half = f64_round_to_fixed(0.3f64.to_bits(), 0, Rounding::Up, &mut cx);
        assert_eq!(f64::from_bits(half), 1.0);
    }
}
