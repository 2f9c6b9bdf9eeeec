//! Single and double precision, one implementation for both formats.
//!
//! `E` is the number of exponent bits and `F` the number of fraction bits. Encodings are right
//! aligned in a `u64`. Inside an operation a finite number is `sig * 2^(exp - bias - 62)`, with
//! the leading one of `sig` in bit 62: bit 63 takes the carry of an addition, and the low bits
//! hold what is rounded off, the lowest being sticky.
//!
//! NaN rules are those of SSE: the first operand's NaN wins, made quiet (AMD64 APM volume 1,
//! section 4.7.2.1).

use super::{Context, DE, IE, OE, PE, Relation, Rounding, UE, ZE};

/// The position of the leading one of a significand.
const TOP: u32 = 62;

pub(super) const fn sign_bit<const E: u32, const F: u32>() -> u64 {
    1 << (E + F)
}

pub(super) const fn infinity<const E: u32, const F: u32>() -> u64 {
    ((1 << E) - 1) << F
}

pub(super) const fn bias<const E: u32>() -> i32 {
    (1 << (E - 1)) - 1
}

/// The real indefinite: the negative quiet NaN with an otherwise clear fraction.
pub(super) const fn indefinite<const E: u32, const F: u32>() -> u64 {
    sign_bit::<E, F>() | infinity::<E, F>() | quiet_bit::<F>()
}

pub(super) const fn quiet_bit<const F: u32>() -> u64 {
    1 << (F - 1)
}

pub(super) const fn is_nan<const E: u32, const F: u32>(a: u64) -> bool {
    a & !sign_bit::<E, F>() > infinity::<E, F>()
}

pub(super) const fn is_signaling<const E: u32, const F: u32>(a: u64) -> bool {
    is_nan::<E, F>(a) && a & quiet_bit::<F>() == 0
}

const fn is_infinite<const E: u32, const F: u32>(a: u64) -> bool {
    a & !sign_bit::<E, F>() == infinity::<E, F>()
}

const fn is_zero<const E: u32, const F: u32>(a: u64) -> bool {
    a & !sign_bit::<E, F>() == 0
}

const fn is_denormal<const E: u32, const F: u32>(a: u64) -> bool {
    let magnitude = a & !sign_bit::<E, F>();
    magnitude != 0 && magnitude < 1 << F
}

const fn sign_of<const E: u32, const F: u32>(a: u64) -> bool {
    a & sign_bit::<E, F>() != 0
}

const fn signed<const E: u32, const F: u32>(sign: bool, magnitude: u64) -> u64 {
    if sign { magnitude | sign_bit::<E, F>() } else { magnitude }
}

/// Shifts right; what falls off leaves its trace in bit 0.
pub(super) const fn shift_right_jam(sig: u64, count: u32) -> u64 {
    if count == 0 {
        sig
    } else if count < 64 {
        sig >> count | (sig << (64 - count) != 0) as u64
    } else {
        (sig != 0) as u64
    }
}

/// What rounding adds to a significand whose lowest kept bit has the weight `mask + 1`, before
/// the bits of `mask` are cut off.
const fn increment(rounding: Rounding, sign: bool, mask: u64) -> u64 {
    match rounding {
        Rounding::Nearest => (mask >> 1) + 1,
        Rounding::Zero => 0,
        Rounding::Down => {
            if sign {
                mask
            } else {
                0
            }
        }
        Rounding::Up => {
            if sign {
                0
            } else {
                mask
            }
        }
    }
}

/// The result of two operands of which at least one is a NaN.
#[cold]
pub(super) fn propagate_nan<const E: u32, const F: u32>(a: u64, b: u64, cx: &mut Context) -> u64 {
    if is_signaling::<E, F>(a) || is_signaling::<E, F>(b) {
        cx.raise(IE);
    }
    quiet_bit::<F>() | if is_nan::<E, F>(a) { a } else { b }
}

#[cold]
fn invalid<const E: u32, const F: u32>(cx: &mut Context) -> u64 {
    cx.raise(IE);
    indefinite::<E, F>()
}

/// A denormal operand raises DE, or is taken as zero under DAZ.
#[inline]
pub(super) fn admit<const E: u32, const F: u32>(a: u64, cx: &mut Context) -> u64 {
    if !is_denormal::<E, F>(a) {
        a
    } else if cx.daz {
        a & sign_bit::<E, F>()
    } else {
        cx.raise(DE);
        a
    }
}

/// Exponent and significand of a finite number that is not zero.
#[inline]
pub(super) const fn unpack<const E: u32, const F: u32>(a: u64) -> (i32, u64) {
    let exp = (a >> F) & ((1 << E) - 1);
    let fraction = a & ((1 << F) - 1);
    if exp != 0 {
        (exp as i32, (fraction | 1 << F) << (TOP - F))
    } else {
        let shift = fraction.leading_zeros() - 1;
        (1 - shift as i32 + (TOP - F) as i32, fraction << shift)
    }
}

/// Rounds to the format and raises OE, UE and PE. Tininess is found after rounding, as if the
/// exponent had no lower bound (Intel SDM volume 1, section 4.9.1.5).
#[inline]
pub(super) fn round_pack<const E: u32, const F: u32>(
    sign: bool,
    exp: i32,
    sig: u64,
    cx: &mut Context,
) -> u64 {
    let mask = (1u64 << (TOP - F)) - 1;
    if exp <= 0 {
        return round_pack_tiny::<E, F>(sign, exp, sig, cx);
    }
    let add = increment(cx.rounding, sign, mask);
    let rest = sig & mask;
    // The leading one adds one to the exponent field, hence `exp - 1` below.
    let mut magnitude = sig >> (TOP - F);
    if rest != 0 {
        cx.raise(PE);
        magnitude = (sig + add) >> (TOP - F);
        if cx.rounding == Rounding::Nearest && rest == (mask >> 1) + 1 {
            magnitude &= !1;
        }
        cx.rounded_up = magnitude << (TOP - F) > sig;
    }
    let limit = (1 << E) - 1;
    if exp >= limit || magnitude.wrapping_add(((exp - 1) as u64) << F) >= infinity::<E, F>() {
        // Unmasked, no result is delivered, and PE tells about the rounding alone.
        cx.raise(OE | if cx.is_masked(OE) { PE } else { 0 });
        cx.rounded_up = add != 0;
        let to_largest = add == 0;
        return signed::<E, F>(sign, infinity::<E, F>() - u64::from(to_largest));
    }
    signed::<E, F>(sign, magnitude + (((exp - 1) as u64) << F))
}

#[cold]
fn round_pack_tiny<const E: u32, const F: u32>(
    sign: bool,
    exp: i32,
    sig: u64,
    cx: &mut Context,
) -> u64 {
    let mask = (1u64 << (TOP - F)) - 1;
    let add = increment(cx.rounding, sign, mask);
    // Only a number just below the smallest normal one can round out of the tiny range.
    let tiny = exp < 0 || sig & mask == 0 || sig + add < 1 << 63;
    if tiny && !cx.is_masked(UE) {
        cx.raise(if sig & mask != 0 { UE | PE } else { UE });
        return signed::<E, F>(sign, 0);
    } else if tiny && cx.ftz {
        cx.raise(UE | PE);
        return signed::<E, F>(sign, 0);
    }
    let sig = shift_right_jam(sig, (1 - exp) as u32);
    let rest = sig & mask;
    let mut magnitude = sig >> (TOP - F);
    if rest != 0 {
        cx.raise(if tiny { PE | UE } else { PE });
        magnitude = (sig + add) >> (TOP - F);
        if cx.rounding == Rounding::Nearest && rest == (mask >> 1) + 1 {
            magnitude &= !1;
        }
        cx.rounded_up = magnitude << (TOP - F) > sig;
    }
    signed::<E, F>(sign, magnitude)
}

/// `a + b`, or `a - b` when `negate` is set; a NaN in `b` keeps its sign either way.
#[inline]
pub(super) fn add<const E: u32, const F: u32>(
    a: u64,
    b: u64,
    negate: bool,
    cx: &mut Context,
) -> u64 {
    if is_nan::<E, F>(a) || is_nan::<E, F>(b) {
        return propagate_nan::<E, F>(a, b, cx);
    }
    let b = if negate { b ^ sign_bit::<E, F>() } else { b };
    let (sign_a, sign_b) = (sign_of::<E, F>(a), sign_of::<E, F>(b));
    if is_infinite::<E, F>(a) && is_infinite::<E, F>(b) && sign_a != sign_b {
        return invalid::<E, F>(cx);
    }
    let (a, b) = (admit::<E, F>(a, cx), admit::<E, F>(b, cx));
    if is_infinite::<E, F>(a) {
        return a;
    }
    if is_infinite::<E, F>(b) {
        return b;
    }
    if is_zero::<E, F>(a) || is_zero::<E, F>(b) {
        return add_zero::<E, F>(a, b, cx);
    }
    let (mut exp_a, mut sig_a) = unpack::<E, F>(a);
    let (mut exp_b, mut sig_b) = unpack::<E, F>(b);
    let mut sign = sign_a;
    if exp_b > exp_a || exp_b == exp_a && sig_b > sig_a {
        (exp_a, sig_a, exp_b, sig_b) = (exp_b, sig_b, exp_a, sig_a);
        sign = sign_b;
    }
    sig_b = shift_right_jam(sig_b, (exp_a - exp_b) as u32);
    if sign_a == sign_b {
        let sum = sig_a + sig_b;
        let carry = (sum >> 63) as u32;
        round_pack::<E, F>(sign, exp_a + carry as i32, shift_right_jam(sum, carry), cx)
    } else {
        let difference = sig_a - sig_b;
        if difference == 0 {
            return signed::<E, F>(cx.rounding == Rounding::Down, 0);
        }
        let shift = difference.leading_zeros() - 1;
        round_pack::<E, F>(sign, exp_a - shift as i32, difference << shift, cx)
    }
}

fn add_zero<const E: u32, const F: u32>(a: u64, b: u64, cx: &mut Context) -> u64 {
    match (is_zero::<E, F>(a), is_zero::<E, F>(b)) {
        (true, true) if a == b => a,
        (true, true) => signed::<E, F>(cx.rounding == Rounding::Down, 0),
        (a_is_zero, _) => {
            let other = if a_is_zero { b } else { a };
            let (exp, sig) = unpack::<E, F>(other);
            round_pack::<E, F>(sign_of::<E, F>(other), exp, sig, cx)
        }
    }
}

#[inline]
pub(super) fn mul<const E: u32, const F: u32>(a: u64, b: u64, cx: &mut Context) -> u64 {
    if is_nan::<E, F>(a) || is_nan::<E, F>(b) {
        return propagate_nan::<E, F>(a, b, cx);
    }
    let sign = sign_of::<E, F>(a) != sign_of::<E, F>(b);
    let (flags, a, b) = (cx.flags, admit::<E, F>(a, cx), admit::<E, F>(b, cx));
    let (zero_a, zero_b) = (is_zero::<E, F>(a), is_zero::<E, F>(b));
    let (inf_a, inf_b) = (is_infinite::<E, F>(a), is_infinite::<E, F>(b));
    if inf_a && zero_b || zero_a && inf_b {
        cx.flags = flags;
        return invalid::<E, F>(cx);
    }
    if inf_a || inf_b {
        return signed::<E, F>(sign, infinity::<E, F>());
    }
    if zero_a || zero_b {
        return signed::<E, F>(sign, 0);
    }
    let (exp_a, sig_a) = unpack::<E, F>(a);
    let (exp_b, sig_b) = unpack::<E, F>(b);
    let product = u128::from(sig_a) * u128::from(sig_b);
    let sig = (product >> TOP) as u64 | u64::from(product as u64 & ((1 << TOP) - 1) != 0);
    let carry = (sig >> 63) as u32;
    round_pack::<E, F>(
        sign,
        exp_a + exp_b - bias::<E>() + carry as i32,
        shift_right_jam(sig, carry),
        cx,
    )
}

#[inline]
pub(super) fn div<const E: u32, const F: u32>(a: u64, b: u64, cx: &mut Context) -> u64 {
    if is_nan::<E, F>(a) || is_nan::<E, F>(b) {
        return propagate_nan::<E, F>(a, b, cx);
    }
    let sign = sign_of::<E, F>(a) != sign_of::<E, F>(b);
    let (flags, a, b) = (cx.flags, admit::<E, F>(a, cx), admit::<E, F>(b, cx));
    let (zero_a, zero_b) = (is_zero::<E, F>(a), is_zero::<E, F>(b));
    let (inf_a, inf_b) = (is_infinite::<E, F>(a), is_infinite::<E, F>(b));
    if inf_a && inf_b || zero_a && zero_b {
        cx.flags = flags;
        return invalid::<E, F>(cx);
    }
    if inf_a {
        return signed::<E, F>(sign, infinity::<E, F>());
    }
    if inf_b || zero_a {
        return signed::<E, F>(sign, 0);
    }
    if zero_b {
        // A division by zero does not look at its dividend.
        cx.flags = flags | ZE;
        return signed::<E, F>(sign, infinity::<E, F>());
    }
    let (mut exp_a, mut sig_a) = unpack::<E, F>(a);
    let (exp_b, sig_b) = unpack::<E, F>(b);
    if sig_a < sig_b {
        sig_a <<= 1;
        exp_a -= 1;
    }
    round_pack::<E, F>(sign, exp_a - exp_b + bias::<E>(), quotient::<F>(sig_a, sig_b), cx)
}

/// `a * 2^62 / b` with a sticky lowest bit, for `b <= a < 2 b`.
fn quotient<const F: u32>(a: u64, b: u64) -> u64 {
    if F <= 23 {
        // The low 38 bits of either significand are zero: a 64-bit division is enough.
        let (high, divisor) = (a >> 38 << 38, b >> 38);
        let quotient = high / divisor;
        quotient << 24 | u64::from(high % divisor != 0)
    } else {
        let (high, divisor) = (u128::from(a) << TOP, u128::from(b));
        let quotient = (high / divisor) as u64;
        quotient | u64::from(high != u128::from(quotient) * divisor)
    }
}

pub(super) fn sqrt<const E: u32, const F: u32>(a: u64, cx: &mut Context) -> u64 {
    if is_nan::<E, F>(a) {
        return propagate_nan::<E, F>(a, a, cx);
    }
    let flags = cx.flags;
    let a = admit::<E, F>(a, cx);
    if is_zero::<E, F>(a) {
        return a;
    }
    if sign_of::<E, F>(a) {
        cx.flags = flags;
        return invalid::<E, F>(cx);
    }
    if is_infinite::<E, F>(a) {
        return a;
    }
    let (exp, sig) = unpack::<E, F>(a);
    let exp = exp - bias::<E>();
    let radicand = sig << (exp & 1);
    let root = if F <= 23 {
        let root = radicand.isqrt();
        root << 31 | u64::from(root * root != radicand)
    } else {
        let radicand = u128::from(radicand) << TOP;
        let root = radicand.isqrt();
        root as u64 | u64::from(root * root != radicand)
    };
    round_pack::<E, F>(false, (exp >> 1) + bias::<E>(), root, cx)
}

pub(super) fn compare<const E: u32, const F: u32>(
    a: u64,
    b: u64,
    signal_on_qnan: bool,
    cx: &mut Context,
) -> Relation {
    if is_nan::<E, F>(a) || is_nan::<E, F>(b) {
        if signal_on_qnan || is_signaling::<E, F>(a) || is_signaling::<E, F>(b) {
            cx.raise(IE);
        }
        return Relation::Unordered;
    }
    let (a, b) = (admit::<E, F>(a, cx), admit::<E, F>(b, cx));
    order(rank::<E, F>(a), rank::<E, F>(b))
}

/// A number that orders encodings as the values they stand for.
fn rank<const E: u32, const F: u32>(a: u64) -> i64 {
    let magnitude = (a & !sign_bit::<E, F>()) as i64;
    if sign_of::<E, F>(a) { -magnitude } else { magnitude }
}

fn order(a: i64, b: i64) -> Relation {
    match a.cmp(&b) {
        std::cmp::Ordering::Less => Relation::Less,
        std::cmp::Ordering::Equal => Relation::Equal,
        std::cmp::Ordering::Greater => Relation::Greater,
    }
}

/// MINSS and its family, or MAXSS with `wanted` = Greater: the first operand if it is strictly
/// the wanted one, else the second, which also answers for NaNs and pairs of zeros.
pub(super) fn select<const E: u32, const F: u32>(
    a: u64,
    b: u64,
    wanted: Relation,
    cx: &mut Context,
) -> u64 {
    let relation = compare::<E, F>(a, b, true, cx);
    let chosen = if relation == wanted { a } else { b };
    // Under DAZ the operand itself counts as zero, and so does the copy of it.
    if cx.daz && is_denormal::<E, F>(chosen) { chosen & sign_bit::<E, F>() } else { chosen }
}
