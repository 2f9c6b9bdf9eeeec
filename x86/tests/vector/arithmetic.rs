//! Floating-point operations on one lane.
//!
//! An operation gets the encodings of its operands in the order in which their NaNs are looked at, and the
//! environment, in which it raises flags.

use crate::{
    exact::{Fraction, Mode, Sum},
    float::{Environment, F32, F64, Format, IE, PE},
};

/// The sign of a sum that is exactly zero: that of both terms if they agree, else minus when rounding down.
fn zero_of_sum(e: &Environment, f: Format, first: bool, second: bool) -> u64 {
    f.zero(if first == second { first } else { e.mode == Mode::Down })
}

/// a + b, or a - b if `subtract`.
pub(crate) fn add(e: &mut Environment, f: Format, a: u64, b: u64, subtract: bool) -> u64 {
    if let Some(nan) = e.nan(f, &[a, b]) {
        return nan;
    }
    let (da, db) = (e.operand(f, a), e.operand(f, b));
    let b = if subtract { db ^ f.sign() } else { db };
    if f.is_infinite(da) && f.is_infinite(b) && da != b {
        return e.invalid(f);
    }
    e.note_denormals(f, &[da, db]);
    if f.is_infinite(da) {
        return da;
    }
    if f.is_infinite(b) {
        return b;
    }
    let zero = zero_of_sum(e, f, f.negative(da), f.negative(b));
    e.rounded(f, &Sum::of(&[f.value(da), f.value(b)]), zero)
}

/// -(a + b): the sum is rounded first. A NaN keeps the sign that the sum gives it.
pub(crate) fn add_negated(e: &mut Environment, f: Format, a: u64, b: u64) -> u64 {
    let sum = add(e, f, a, b, false);
    if f.is_nan(sum) { sum } else { sum ^ f.sign() }
}

pub(crate) fn multiply(e: &mut Environment, f: Format, a: u64, b: u64) -> u64 {
    if let Some(nan) = e.nan(f, &[a, b]) {
        return nan;
    }
    let (a, b) = (e.operand(f, a), e.operand(f, b));
    let negative = f.negative(a) != f.negative(b);
    if f.is_infinite(a) && f.is_zero(b) || f.is_zero(a) && f.is_infinite(b) {
        return e.invalid(f);
    }
    e.note_denormals(f, &[a, b]);
    if f.is_infinite(a) || f.is_infinite(b) {
        return f.infinity() | f.zero(negative);
    }
    e.rounded(f, &Sum::of(&[f.value(a).times(f.value(b))]), f.zero(negative))
}

/// The signs of product and addend in a fused operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    /// -(x * y)
    pub(crate) product: bool,
    /// - z
    pub(crate) addend: bool,
}

/// x * y + z with one rounding.
pub(crate) fn fused(e: &mut Environment, f: Format, s: Signs, x: u64, y: u64, z: u64) -> u64 {
    if let Some(nan) = e.nan(f, &[x, y, z]) {
        return nan;
    }
    let (x, y, dz) = (e.operand(f, x), e.operand(f, y), e.operand(f, z));
    let z = if s.addend { dz ^ f.sign() } else { dz };
    let negative = (f.negative(x) != f.negative(y)) != s.product;
    if f.is_infinite(x) && f.is_zero(y) || f.is_zero(x) && f.is_infinite(y) {
        return e.invalid(f);
    }
    if f.is_infinite(x) || f.is_infinite(y) {
        let product = f.infinity() | f.zero(negative);
        if f.is_infinite(z) && z != product {
            return e.invalid(f);
        }
        e.note_denormals(f, &[x, y, dz]);
        return product;
    }
    e.note_denormals(f, &[x, y, dz]);
    if f.is_infinite(z) {
        return z;
    }
    let product = f.value(x).times(f.value(y));
    let product = if s.product { product.negated() } else { product };
    let zero = zero_of_sum(e, f, negative, f.negative(z));
    e.rounded(f, &Sum::of(&[product, f.value(z)]), zero)
}

/// a * 2^by.
pub(crate) fn scale(e: &mut Environment, f: Format, a: u64, by: i32) -> u64 {
    if let Some(nan) = e.nan(f, &[a]) {
        return nan;
    }
    let a = e.operand(f, a);
    e.note_denormals(f, &[a]);
    if f.is_infinite(a) {
        return a;
    }
    // Beyond the format's range a power more or less makes no difference.
    let by = by.clamp(-1000, 1000);
    e.rounded(f, &Sum::of(&[f.value(a).scaled(by)]), f.zero(f.negative(a)))
}

/// Whether a < b; zeros are equal. Neither is a NaN.
fn less(f: Format, a: u64, b: u64) -> bool {
    if f.is_zero(a) && f.is_zero(b) {
        return false;
    }
    match (f.negative(a), f.negative(b)) {
        (false, false) => a < b,
        (true, true) => a > b,
        (negative, _) => negative,
    }
}

/// The eight predicates: equal, less, less or equal, unordered, and their negations.
pub(crate) fn compare(e: &mut Environment, f: Format, a: u64, b: u64, predicate: u8) -> bool {
    let nan = f.is_nan(a) || f.is_nan(b);
    let (a, b) = if nan { (a, b) } else { (e.operand(f, a), e.operand(f, b)) };
    let ordering = matches!(predicate & 3, 1 | 2);
    if f.is_signalling(a) || f.is_signalling(b) || nan && ordering {
        e.flags |= IE;
    }
    if !nan {
        e.note_denormals(f, &[a, b]);
    }
    let equal = !nan && (a == b || f.is_zero(a) && f.is_zero(b));
    let holds = match predicate & 3 {
        0 => equal,
        1 => !nan && less(f, a, b),
        2 => !nan && (equal || less(f, a, b)),
        _ => nan,
    };
    holds != (predicate & 4 != 0)
}

/// Which of two is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    /// The first if it is less, else the second.
    Least,
    /// The first if it is not less, else the second.
    Greatest,
    /// The same of the absolute values.
    GreatestMagnitude,
}

/// Minimum and maximum. One NaN gives the other operand, two give the first, quieted.
pub(crate) fn extreme(e: &mut Environment, f: Format, a: u64, b: u64, which: Extreme) -> u64 {
    let strip = |x| if which == Extreme::GreatestMagnitude { f.magnitude(x) } else { x };
    let (a, b) = (strip(a), strip(b));
    if f.is_signalling(a) || f.is_signalling(b) {
        e.flags |= IE;
    }
    let (da, db) = (e.operand(f, a), e.operand(f, b));
    let result = match (f.is_nan(a), f.is_nan(b)) {
        (true, true) => return a | f.quiet(),
        (true, false) => db,
        (false, true) => da,
        (false, false) => {
            e.note_denormals(f, &[da, db]);
            let first = match which {
                Extreme::Least => less(f, da, db),
                Extreme::Greatest | Extreme::GreatestMagnitude => !less(f, da, db),
            };
            if first { da } else { db }
        }
    };
    if e.fz && f.is_denormal(result) { result & f.sign() } else { result }
}

/// The exponent of a finite number other than zero: floor(log2|x|).
fn exponent(f: Format, x: u64) -> i32 {
    let value = f.value(x);
    value.magnitude.ilog2() as i32 + value.exponent
}

/// The exponent as a number.
pub(crate) fn get_exponent(e: &mut Environment, f: Format, x: u64) -> u64 {
    if let Some(nan) = e.nan(f, &[x]) {
        return nan;
    }
    let x = e.operand(f, x);
    e.note_denormals(f, &[x]);
    if f.is_infinite(x) {
        return f.infinity();
    }
    if f.is_zero(x) {
        return f.infinity() | f.sign();
    }
    integer(&mut e.clone(), f, i64::from(exponent(f, x)), 0)
}

/// The significand, in an interval and with a sign that the immediate chooses.
pub(crate) fn get_mantissa(e: &mut Environment, f: Format, x: u64, immediate: u8) -> u64 {
    let (interval, sign_rule) = (immediate & 3, immediate >> 2 & 3);
    if let Some(nan) = e.nan(f, &[x]) {
        return nan;
    }
    let x = e.operand(f, x);
    let negative = f.negative(x);
    if negative && sign_rule & 2 != 0 && !f.is_zero(x) {
        return e.invalid(f);
    }
    let sign = f.zero(negative && sign_rule & 1 == 0);
    if f.is_infinite(x) || f.is_zero(x) {
        return f.one() | sign;
    }
    e.note_denormals(f, &[x]);
    let value = f.value(x);
    let leading = value.magnitude.ilog2();
    let second = leading > 0 && value.magnitude >> (leading - 1) & 1 != 0;
    let halved = match interval {
        0 => false,
        1 => exponent(f, x) & 1 != 0,
        2 => true,
        _ => second,
    };
    let significand = Fraction {
        negative: false,
        magnitude: value.magnitude,
        exponent: -(leading as i32) - i32::from(halved),
    };
    e.clone().rounded(f, &Sum::of(&[significand]), 0) | sign
}

/// Puts a constant in the place of an operand by its class; see the instruction's table.
pub(crate) fn fix_up(e: &mut Environment, f: Format, d: u64, a: u64, table: u64) -> u64 {
    if f.is_nan(a) {
        return e.quieted(f, a);
    }
    let a = e.operand(f, a);
    let class = match (f.is_infinite(a), f.is_zero(a), f.negative(a)) {
        (true, _, true) => 0,
        (_, false, true) => 1,
        (_, true, true) => 2,
        (_, true, false) => 3,
        (false, false, false) => 4,
        (true, _, false) => 5,
    };
    match table >> (3 * class) & 7 {
        0 => d,
        1 => f.infinity() | f.sign(),
        2 => f.sign(),
        3 => 0,
        4 => f.infinity(),
        5 => f.default_nan(),
        6 => f.infinity() - 1,
        _ => f.hidden(),
    }
}

/// An integer divided by 2^adjust, as a number.
pub(crate) fn integer(e: &mut Environment, f: Format, x: i64, adjust: i32) -> u64 {
    let value =
        Fraction { negative: x < 0, magnitude: u128::from(x.unsigned_abs()), exponent: -adjust };
    e.rounded(f, &Sum::of(&[value]), 0)
}

/// x * 2^adjust as an integer between `least` and `greatest`.
pub(crate) fn to_integer(
    e: &mut Environment,
    f: Format,
    x: u64,
    adjust: i32,
    [least, greatest]: [i64; 2],
) -> i64 {
    if f.is_nan(x) {
        e.flags |= IE;
        return 0;
    }
    let x = e.operand(f, x);
    let limit = if f.negative(x) { least } else { greatest };
    // What is 2^64 or more is out of range whatever the rounding.
    if f.is_infinite(x) || !f.is_zero(x) && exponent(f, x) + adjust >= 64 {
        e.flags |= IE;
        return limit;
    }
    let Some(rounded) = Sum::of(&[f.value(x).scaled(adjust)]).round(e.mode, |_| 0) else {
        return 0;
    };
    let magnitude = i128::try_from(rounded.magnitude).unwrap_or(i128::MAX);
    let value = if rounded.negative { -magnitude } else { magnitude };
    if value < i128::from(least) || value > i128::from(greatest) {
        e.flags |= IE;
        return limit;
    }
    if !rounded.exact {
        e.flags |= PE;
    }
    value as i64
}

/// x * 2^adjust rounded to an integer, divided by 2^adjust again.
pub(crate) fn to_fixed(e: &mut Environment, f: Format, x: u64, adjust: i32) -> u64 {
    if let Some(nan) = e.nan(f, &[x]) {
        return nan;
    }
    let x = e.operand(f, x);
    if f.is_infinite(x) || f.is_zero(x) {
        return x;
    }
    // Where the last bit of the number weighs more than the last bit of the result, nothing is cut off.
    let step = -adjust;
    if f.value(x).exponent >= step {
        return x;
    }
    let rounded = Sum::of(&[f.value(x)]).round(e.mode, |_| step).expect("not zero");
    if !rounded.exact {
        e.flags |= PE;
    }
    let value = Fraction {
        negative: rounded.negative,
        magnitude: rounded.magnitude,
        exponent: rounded.exponent,
    };
    e.clone().rounded(f, &Sum::of(&[value]), f.zero(rounded.negative))
}

/// binary32 to binary64, exact.
pub(crate) fn widen(e: &mut Environment, x: u64) -> u64 {
    if F32.is_nan(x) {
        let quiet = e.quieted(F32, x);
        let payload = (quiet & (F32.hidden() - 1)) << 29;
        return payload | F64.infinity() | F64.zero(F32.negative(x));
    }
    let x = e.operand(F32, x);
    e.note_denormals(F32, &[x]);
    let sign = F64.zero(F32.negative(x));
    if F32.is_infinite(x) {
        return F64.infinity() | sign;
    }
    e.clone().rounded(F64, &Sum::of(&[F32.value(x)]), sign)
}

/// binary64 to binary32.
pub(crate) fn narrow(e: &mut Environment, x: u64) -> u64 {
    if F64.is_nan(x) {
        let quiet = e.quieted(F64, x);
        let payload = quiet >> 29 & (F32.hidden() - 1);
        return payload | F32.infinity() | F32.zero(F64.negative(x));
    }
    let x = e.operand(F64, x);
    e.note_denormals(F64, &[x]);
    let sign = F32.zero(F64.negative(x));
    if F64.is_infinite(x) {
        return F32.infinity() | sign;
    }
    e.rounded(F32, &Sum::of(&[F64.value(x)]), sign)
}

/// b - a. Of two NaNs it is the first operand's all the same.
pub(crate) fn subtract_reversed(e: &mut Environment, f: Format, a: u64, b: u64) -> u64 {
    e.nan(f, &[a, b]).unwrap_or_else(|| add(e, f, b, a, true))
}
