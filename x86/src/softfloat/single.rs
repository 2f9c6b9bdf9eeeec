//! Single precision arithmetic with the semantics of the SSE instructions.

use super::{Context, Relation, binary};

const E: u32 = 8;
const F: u32 = 23;

/// `a + b` (ADDSS).
#[must_use]
#[inline]
pub fn f32_add(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::add::<E, F>(u64::from(a), u64::from(b), false, cx) as u32
}

/// `a - b` (SUBSS).
#[must_use]
#[inline]
pub fn f32_sub(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::add::<E, F>(u64::from(a), u64::from(b), true, cx) as u32
}

/// `a * b` (MULSS).
#[must_use]
#[inline]
pub fn f32_mul(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::mul::<E, F>(u64::from(a), u64::from(b), cx) as u32
}

/// `a / b` (DIVSS).
#[must_use]
#[inline]
pub fn f32_div(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::div::<E, F>(u64::from(a), u64::from(b), cx) as u32
}

/// The square root of `a` (SQRTSS).
#[must_use]
pub fn f32_sqrt(a: u32, cx: &mut Context) -> u32 {
    binary::sqrt::<E, F>(u64::from(a), cx) as u32
}

/// The smaller operand (MINSS); `b` if either is a NaN or both are zero.
#[must_use]
#[inline]
pub fn f32_min(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::select::<E, F>(u64::from(a), u64::from(b), Relation::Less, cx) as u32
}

/// The greater operand (MAXSS); `b` if either is a NaN or both are zero.
#[must_use]
#[inline]
pub fn f32_max(a: u32, b: u32, cx: &mut Context) -> u32 {
    binary::select::<E, F>(u64::from(a), u64::from(b), Relation::Greater, cx) as u32
}

/// How `a` relates to `b`. A signaling NaN raises IE; with `signal_on_qnan` (COMISS, and the
/// CMPSS predicates LT, LE, NLT and NLE) a quiet one does too.
#[inline]
pub fn f32_compare(a: u32, b: u32, signal_on_qnan: bool, cx: &mut Context) -> Relation {
    binary::compare::<E, F>(u64::from(a), u64::from(b), signal_on_qnan, cx)
}
