//! The four approximations. What bits the hardware gives is not published, so a result is checked against
//! the bound on its error; the special cases are exact.
//!
//! Denormal operands are zeros and denormal results are flushed, whatever VXCSR says.

use crate::{
    case::Bound,
    catalogue::What,
    float::{Environment, F32, ZE},
};

const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;

/// A result, and by how much it may be off if it is no special case.
pub(crate) fn lane(e: &mut Environment, what: What, b: u32) -> (u32, Option<Bound>) {
    if matches!(what, What::Exp2) {
        return exp2(b as i32);
    }
    let wide = u64::from(b);
    if F32.is_nan(wide) {
        return (e.quieted(F32, wide) as u32, None);
    }
    let sign = b & SIGN;
    let zero = F32.is_zero(wide) || F32.is_denormal(wide);
    if zero {
        // Whether a denormal is a division by zero is not known.
        if F32.is_denormal(wide) {
            e.open |= ZE;
        } else {
            e.flags |= ZE;
        }
        return (INFINITY | if matches!(what, What::Log2) { SIGN } else { sign }, None);
    }
    if !matches!(what, What::Reciprocal) && sign != 0 {
        return (e.invalid(F32) as u32, None);
    }
    let infinite = F32.is_infinite(wide);
    let x = f64::from(f32::from_bits(b));
    match what {
        What::Reciprocal if infinite => (sign, None),
        What::ReciprocalRoot if infinite => (0, None),
        What::Log2 if infinite => (b, None),
        What::Reciprocal => within(1.0 / x, 0.912),
        What::ReciprocalRoot => within(1.0 / x.sqrt(), 0.775),
        _ if x == 1.0 => (0, None),
        _ => {
            let exact = x.log2();
            // An absolute error, but no number is nearer than half a unit in the last place.
            let error = 2f64.powi(-23).max(unit(exact) * 0.500_001);
            (bits(exact), Some(Bound { exact, error }))
        }
    }
}

/// Of a fixed-point number with 24 bits behind the point.
fn exp2(x: i32) -> (u32, Option<Bound>) {
    match x {
        i32::MAX => (INFINITY, None),
        i32::MIN => (0, None),
        _ => within((f64::from(x) / 2f64.powi(24)).exp2(), 0.99),
    }
}

/// A number with an error in units of the last place, or zero if it would be denormal.
fn within(exact: f64, units: f64) -> (u32, Option<Bound>) {
    if exact.abs() < f64::from(f32::MIN_POSITIVE) {
        return (if exact < 0.0 { SIGN } else { 0 }, None);
    }
    (bits(exact), Some(Bound { exact, error: units * unit(exact) }))
}

fn bits(x: f64) -> u32 {
    (x as f32).to_bits()
}

/// What the last place of a binary32 number of this size weighs.
fn unit(x: f64) -> f64 {
    2f64.powi(x.abs().log2().floor() as i32 - 23)
}
