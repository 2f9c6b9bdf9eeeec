//! Conversions between single, double and integers with the semantics of the SSE instructions.

use super::binary::{
    admit, bias, infinity, is_nan, is_signaling, quiet_bit, round_pack, shift_right_jam, sign_bit,
    unpack,
};
use super::{Context, IE, PE, Rounding};

/// Single to double (CVTSS2SD): exact; DE for a denormal, IE for a signaling NaN.
#[must_use]
pub fn f32_to_f64(a: u32, cx: &mut Context) -> u64 {
    convert::<8, 23, 11, 52>(u64::from(a), cx)
}

/// Double to single (CVTSD2SS), rounded by `cx`.
#[must_use]
pub fn f64_to_f32(a: u64, cx: &mut Context) -> u32 {
    convert::<11, 52, 8, 23>(a, cx) as u32
}

/// Single to a 32-bit integer (CVTSS2SI with `cx.rounding`, CVTTSS2SI with [`Rounding::Zero`]).
/// NaNs and values out of range give the integer indefinite 8000_0000h and raise IE.
#[must_use]
pub fn f32_to_i32(a: u32, rounding: Rounding, cx: &mut Context) -> i32 {
    to_integer::<8, 23>(u64::from(a), rounding, i64::from(i32::MIN), i64::from(i32::MAX), cx) as i32
}

/// Single to a 64-bit integer; as [`f32_to_i32`], with the indefinite 8000_0000_0000_0000h.
#[must_use]
pub fn f32_to_i64(a: u32, rounding: Rounding, cx: &mut Context) -> i64 {
    to_integer::<8, 23>(u64::from(a), rounding, i64::MIN, i64::MAX, cx)
}

/// Double to a 32-bit integer (CVTSD2SI, CVTTSD2SI); as [`f32_to_i32`].
#[must_use]
pub fn f64_to_i32(a: u64, rounding: Rounding, cx: &mut Context) -> i32 {
    to_integer::<11, 52>(a, rounding, i64::from(i32::MIN), i64::from(i32::MAX), cx) as i32
}

/// Double to a 64-bit integer; as [`f32_to_i64`].
#[must_use]
pub fn f64_to_i64(a: u64, rounding: Rounding, cx: &mut Context) -> i64 {
    to_integer::<11, 52>(a, rounding, i64::MIN, i64::MAX, cx)
}

/// A 32-bit integer to single (CVTSI2SS), rounded by `cx`.
#[must_use]
pub fn i32_to_f32(a: i32, cx: &mut Context) -> u32 {
    from_integer::<8, 23>(i64::from(a), cx) as u32
}

/// A 64-bit integer to single (CVTSI2SS), rounded by `cx`.
#[must_use]
pub fn i64_to_f32(a: i64, cx: &mut Context) -> u32 {
    from_integer::<8, 23>(a, cx) as u32
}

/// A 32-bit integer to double (CVTSI2SD): exact.
#[must_use]
pub fn i32_to_f64(a: i32, cx: &mut Context) -> u64 {
    from_integer::<11, 52>(i64::from(a), cx)
}

/// A 64-bit integer to double (CVTSI2SD), rounded by `cx`.
#[must_use]
pub fn i64_to_f64(a: i64, cx: &mut Context) -> u64 {
    from_integer::<11, 52>(a, cx)
}

pub(super) fn convert<const E: u32, const F: u32, const E2: u32, const F2: u32>(
    a: u64,
    cx: &mut Context,
) -> u64 {
    let sign = a & sign_bit::<E, F>() != 0;
    let magnitude = a & !sign_bit::<E, F>();
    let sign_out = if sign { sign_bit::<E2, F2>() } else { 0 };
    if is_nan::<E, F>(a) {
        if is_signaling::<E, F>(a) {
            cx.raise(IE);
        }
        let fraction = magnitude & !infinity::<E, F>();
        let fraction = if F2 >= F { fraction << (F2 - F) } else { fraction >> (F - F2) };
        return sign_out | infinity::<E2, F2>() | quiet_bit::<F2>() | fraction;
    }
    if magnitude == infinity::<E, F>() {
        return sign_out | infinity::<E2, F2>();
    }
    if admit::<E, F>(magnitude, cx) == 0 {
        return sign_out;
    }
    let (exp, sig) = unpack::<E, F>(magnitude);
    round_pack::<E2, F2>(sign, exp - bias::<E>() + bias::<E2>(), sig, cx)
}

fn to_integer<const E: u32, const F: u32>(
    a: u64,
    rounding: Rounding,
    min: i64,
    max: i64,
    cx: &mut Context,
) -> i64 {
    let sign = a & sign_bit::<E, F>() != 0;
    let magnitude = a & !sign_bit::<E, F>();
    if magnitude == 0 || cx.daz && magnitude < 1 << F {
        return 0;
    }
    if magnitude < infinity::<E, F>() {
        let (exp, sig) = unpack::<E, F>(magnitude);
        // The integer part of `wide` starts at bit 64.
        let exp = exp - bias::<E>();
        if exp < 64 {
            let wide = if exp >= -2 {
                u128::from(sig) << (exp + 2)
            } else {
                u128::from(shift_right_jam(sig, (-2 - exp) as u32))
            };
            let (result, inexact) = round_integer(sign, wide, rounding);
            if (i128::from(min)..=i128::from(max)).contains(&result) {
                if inexact {
                    cx.raise(PE);
                }
                return result as i64;
            }
        }
    }
    cx.raise(IE);
    min
}

/// Rounds a magnitude with 64 fraction bits to an integer; also says whether that lost anything.
pub(super) fn round_integer(sign: bool, magnitude: u128, rounding: Rounding) -> (i128, bool) {
    let (whole, fraction) = (magnitude >> 64, magnitude as u64);
    let up = match rounding {
        Rounding::Nearest => fraction > 1 << 63 || fraction == 1 << 63 && whole & 1 != 0,
        Rounding::Zero => false,
        Rounding::Down => sign && fraction != 0,
        Rounding::Up => !sign && fraction != 0,
    };
    let whole = whole as i128 + i128::from(up);
    (if sign { -whole } else { whole }, fraction != 0)
}

pub(super) fn from_integer<const E: u32, const F: u32>(a: i64, cx: &mut Context) -> u64 {
    if a == 0 {
        return 0;
    }
    let magnitude = a.unsigned_abs();
    let shift = magnitude.leading_zeros();
    let sig = shift_right_jam(magnitude << shift, 1);
    round_pack::<E, F>(a < 0, bias::<E>() + 63 - shift as i32, sig, cx)
}
