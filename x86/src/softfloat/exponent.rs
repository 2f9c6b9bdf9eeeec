//! Exponent and significand of a number, and scaling by a power of two.

use super::binary::{
    admit, bias, indefinite, infinity, is_nan, is_signaling, quiet_bit, round_pack, sign_bit,
    unpack,
};
use super::convert::from_integer;
use super::{Context, IE};

/// Where [`f32_significand`] puts its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// At least 1, below 2.
    OneToTwo,
    /// At least 1/2, below 2: by whole powers of four.
    HalfToTwo,
    /// At least 1/2, below 1.
    HalfToOne,
    /// At least 3/4, below 3/2.
    ThreeQuartersToThreeHalves,
}

/// What sign the result of [`f32_significand`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignControl {
    /// Plus, whatever that of the number.
    pub clears: bool,
    /// A number below zero has none: the result is the default NaN, and IE is raised.
    pub refuses_negative: bool,
}

/// The largest integer that is at most the binary logarithm of the magnitude, as a single. Of zero minus
/// infinity, of infinity plus infinity.
#[must_use]
pub fn f32_exponent(a: u32, cx: &mut Context) -> u32 {
    exponent::<8, 23>(u64::from(a), cx) as u32
}

/// The same in double precision.
#[must_use]
pub fn f64_exponent(a: u64, cx: &mut Context) -> u64 {
    exponent::<11, 52>(a, cx)
}

/// The significand, as a number in the interval. Of zero and infinity 1.
#[must_use]
pub fn f32_significand(a: u32, interval: Interval, sign: SignControl, cx: &mut Context) -> u32 {
    significand::<8, 23>(u64::from(a), interval, sign, cx) as u32
}

/// The same in double precision.
#[must_use]
pub fn f64_significand(a: u64, interval: Interval, sign: SignControl, cx: &mut Context) -> u64 {
    significand::<11, 52>(a, interval, sign, cx)
}

/// `a * 2^power`, rounded once.
#[must_use]
pub fn f32_scale(a: u32, power: i32, cx: &mut Context) -> u32 {
    let a = u64::from(a);
    if is_nan::<8, 23>(a) {
        return quieted::<8, 23>(a, cx) as u32;
    }
    let magnitude = admit::<8, 23>(a, cx) & !sign_bit::<8, 23>();
    let sign = a & sign_bit::<8, 23>();
    if magnitude == 0 || magnitude == infinity::<8, 23>() {
        return (sign | magnitude) as u32;
    }
    let (exp, sig) = unpack::<8, 23>(magnitude);
    // More than this is beyond the range of exponents whatever the number is.
    let exp = exp + power.clamp(-1000, 1000);
    round_pack::<8, 23>(sign != 0, exp, sig, cx) as u32
}

/// A NaN, made quiet.
fn quieted<const E: u32, const F: u32>(a: u64, cx: &mut Context) -> u64 {
    if is_signaling::<E, F>(a) {
        cx.raise(IE);
    }
    a | quiet_bit::<F>()
}

fn exponent<const E: u32, const F: u32>(a: u64, cx: &mut Context) -> u64 {
    if is_nan::<E, F>(a) {
        return quieted::<E, F>(a, cx);
    }
    let magnitude = admit::<E, F>(a, cx) & !sign_bit::<E, F>();
    if magnitude == 0 {
        return sign_bit::<E, F>() | infinity::<E, F>();
    }
    if magnitude == infinity::<E, F>() {
        return magnitude;
    }
    let (exp, _) = unpack::<E, F>(magnitude);
    from_integer::<E, F>(i64::from(exp - bias::<E>()), cx)
}

fn significand<const E: u32, const F: u32>(
    a: u64,
    interval: Interval,
    control: SignControl,
    cx: &mut Context,
) -> u64 {
    if is_nan::<E, F>(a) {
        return quieted::<E, F>(a, cx);
    }
    let negative = a & sign_bit::<E, F>() != 0;
    let sign = if control.clears { 0 } else { a & sign_bit::<E, F>() };
    let flags = cx.flags;
    let magnitude = admit::<E, F>(a, cx) & !sign_bit::<E, F>();
    if negative && control.refuses_negative && magnitude != 0 {
        cx.flags = flags;
        cx.raise(IE);
        return indefinite::<E, F>();
    }
    let one = (bias::<E>() as u64) << F;
    if magnitude == 0 || magnitude == infinity::<E, F>() {
        return sign | one;
    }
    let (exp, sig) = unpack::<E, F>(magnitude);
    let fraction = sig >> (62 - F) & ((1 << F) - 1);
    let halves = match interval {
        Interval::OneToTwo => false,
        Interval::HalfToTwo => (exp - bias::<E>()) & 1 != 0,
        Interval::HalfToOne => true,
        Interval::ThreeQuartersToThreeHalves => fraction >> (F - 1) != 0,
    };
    let power = one - (u64::from(halves) << F);
    sign | power | fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::softfloat::{DE, OE, PE, UE};

    const KEEP: SignControl = SignControl { clears: false, refuses_negative: false };

    fn exponent_of(a: f32) -> (f32, u8) {
        let mut cx = Context::default();
        (f32::from_bits(f32_exponent(a.to_bits(), &mut cx)), cx.flags)
    }

    #[test]
    fn exponents_by_hand() {
        assert_eq!(exponent_of(-10.0), (3.0, 0));
        assert_eq!(exponent_of(0.75), (-1.0, 0));
        assert_eq!(exponent_of(0.0), (f32::NEG_INFINITY, 0));
        assert_eq!(exponent_of(f32::NEG_INFINITY), (f32::INFINITY, 0));
        // 3 * 2^-149.
        assert_eq!(exponent_of(f32::from_bits(3)), (-148.0, DE));
        let mut daz = Context { daz: true, ..Context::default() };
        assert_eq!(f32_exponent(3, &mut daz), 0xff80_0000);
        assert_eq!((f32_exponent(0x7f80_0001, &mut daz), daz.flags), (0x7fc0_0001, IE));
        assert_eq!(f64::from_bits(f64_exponent(0.3f64.to_bits(), &mut daz)), -2.0);
        assert_eq!(
            f64::from_bits(f64_exponent(5e-324f64.to_bits(), &mut Context::default())),
            -1074.0
        );
    }

    #[test]
    fn significands_by_hand() {
        use Interval::*;
        let of = |a: f32, interval, sign| {
            let mut cx = Context::default();
            let result = f32_significand(a.to_bits(), interval, sign, &mut cx);
            (f32::from_bits(result), cx.flags)
        };
        // 10 = 1.25 * 2^3, 20 = 1.25 * 2^4, 14 = 1.75 * 2^3.
        assert_eq!(of(-10.0, OneToTwo, KEEP), (-1.25, 0));
        assert_eq!(of(10.0, HalfToTwo, KEEP), (0.625, 0));
        assert_eq!(of(20.0, HalfToTwo, KEEP), (1.25, 0));
        assert_eq!(of(20.0, HalfToOne, KEEP), (0.625, 0));
        assert_eq!(of(10.0, ThreeQuartersToThreeHalves, KEEP), (1.25, 0));
        assert_eq!(of(14.0, ThreeQuartersToThreeHalves, KEEP), (0.875, 0));
        assert_eq!(of(f32::from_bits(3), OneToTwo, KEEP), (1.5, DE));
        let plus = SignControl { clears: true, refuses_negative: false };
        assert_eq!(of(-10.0, OneToTwo, plus), (1.25, 0));
        assert_eq!(of(f32::NEG_INFINITY, HalfToOne, plus), (1.0, 0));
        assert_eq!(of(-0.0, HalfToOne, KEEP), (-1.0, 0));
        let refusing = SignControl { clears: false, refuses_negative: true };
        let (result, flags) = of(-10.0, OneToTwo, refusing);
        assert_eq!((result.to_bits(), flags), (0xffc0_0000, IE));
        assert_eq!(of(-0.0, OneToTwo, refusing), (-1.0, 0));
        let double = f64_significand(20f64.to_bits(), HalfToOne, KEEP, &mut Context::default());
        assert_eq!(f64::from_bits(double), 0.625);
    }

    #[test]
    fn scaling_by_hand() {
        let of = |a: f32, power| {
            let mut cx = Context::default();
            (f32::from_bits(f32_scale(a.to_bits(), power, &mut cx)), cx.flags)
        };
        assert_eq!(of(1.5, 3), (12.0, 0));
        assert_eq!(of(-1.5, -149), (-2.0 * 2f32.powi(-149), UE | PE));
        assert_eq!(of(1.5, -149), (f32::from_bits(2), UE | PE));
        assert_eq!(of(1.0, i32::MAX), (f32::INFINITY, OE | PE));
        assert_eq!(of(1.0, i32::MIN), (0.0, UE | PE));
        assert_eq!(of(f32::from_bits(1), 149), (1.0, DE));
        assert_eq!(of(f32::INFINITY, i32::MIN), (f32::INFINITY, 0));
        let mut ftz = Context { ftz: true, ..Context::default() };
        assert_eq!(f32_scale(1f32.to_bits(), -127, &mut ftz), 0);
    }
}
