//! Double precision arithmetic with the semantics of the SSE instructions.

use super::{Context, Relation, binary};

const E: u32 = 11;
const F: u32 = 52;

/// `a + b` (ADDSD).
#[must_use]
#[inline]
pub fn f64_add(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::add::<E, F>(a, b, false, cx)
}

/// `a - b` (SUBSD).
#[must_use]
#[inline]
pub fn f64_sub(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::add::<E, F>(a, b, true, cx)
}

/// `a * b` (MULSD).
#[must_use]
#[inline]
pub fn f64_mul(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::mul::<E, F>(a, b, cx)
}

/// `a / b` (DIVSD).
#[must_use]
#[inline]
pub fn f64_div(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::div::<E, F>(a, b, cx)
}

/// The square root of `a` (SQRTSD).
#[must_use]
pub fn f64_sqrt(a: u64, cx: &mut Context) -> u64 {
    binary::sqrt::<E, F>(a, cx)
}

/// The smaller operand (MINSD); `b` if either is a NaN or both are zero.
#[must_use]
#[inline]
pub fn f64_min(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::select::<E, F>(a, b, Relation::Less, cx)
}

/// The greater operand (MAXSD); `b` if either is a NaN or both are zero.
#[must_use]
#[inline]
pub fn f64_max(a: u64, b: u64, cx: &mut Context) -> u64 {
    binary::select::<E, F>(a, b, Relation::Greater, cx)
}

/// How `a` relates to `b`. A signaling NaN raises IE; with `signal_on_qnan` (COMISD, and the
/// CMPSD predicates LT, LE, NLT and NLE) a quiet one does too.
#[inline]
pub fn f64_compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation {
    binary::compare::<E, F>(a, b, signal_on_qnan, cx)
}
