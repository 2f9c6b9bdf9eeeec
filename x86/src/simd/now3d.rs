//! 3DNow! and its extension (AMD 3DNow! Technology Manual 21928, AMD Extensions to the 3DNow! and
//! MMX Instruction Sets Manual 22466, AMD64 APM volume 5, chapter 2).
//!
//! Two singles in an MMX register. No flags, no exceptions: denormals are zeros, tiny results
//! become zero, overflow gives the largest normal number. What infinities and NaNs give is undefined;
//! here they are what IEEE 754 makes of them, with infinities cut to the largest number.

use super::{
    approximate::{reciprocal, reciprocal_sqrt},
    integer::Binary,
    lanes::{low, mask32},
};
use crate::softfloat::{self, Context, Relation, Rounding};

/// Fraction bits of PFRCP.
const RCP_BITS: u32 = 14;
/// Fraction bits of PFRSQRT.
const RSQRT_BITS: u32 = 15;

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7f80_0000;
const LARGEST: u32 = 0x7f7f_ffff;

/// 2.0, 3.0 and 0.5 as doubles.
const TWO: u64 = 0x4000_0000_0000_0000;
const THREE: u64 = 0x4008_0000_0000_0000;
const HALF: u64 = 0x3fe0_0000_0000_0000;

fn context() -> Context {
    Context { daz: true, ftz: true, ..Context::default() }
}

/// Infinity becomes the largest normal number of its sign.
fn saturate(a: u32) -> u32 {
    if a & !SIGN == INFINITY { a & SIGN | LARGEST } else { a }
}

fn add(a: u32, b: u32) -> u32 {
    saturate(softfloat::f32_add(a, b, &mut context()))
}

fn sub(a: u32, b: u32) -> u32 {
    saturate(softfloat::f32_sub(a, b, &mut context()))
}

fn mul(a: u32, b: u32) -> u32 {
    saturate(softfloat::f32_mul(a, b, &mut context()))
}

fn relation(a: u32, b: u32) -> Relation {
    softfloat::f32_compare(a, b, false, &mut context())
}

/// Zeros and denormals are +0 as results of PFMIN and PFMAX.
fn plus_zero(a: u32) -> u32 {
    if a & INFINITY == 0 { 0 } else { a }
}

/// `minuend - a * b`, the product exact, in double precision.
fn newton(minuend: u64, a: u32, b: u32) -> u64 {
    let mut cx = context();
    let a = softfloat::f32_to_f64(a, &mut cx);
    let b = softfloat::f32_to_f64(b, &mut cx);
    let product = softfloat::f64_mul(a, b, &mut cx);
    softfloat::f64_sub(minuend, product, &mut cx)
}

fn single(a: u64) -> u32 {
    saturate(softfloat::f64_to_f32(a, &mut context()))
}

/// To an integer toward zero; out of range the nearest end of `low..=high`.
fn integer(a: u32, low: i32, high: i32) -> u32 {
    let wide = softfloat::f32_to_i64(a, Rounding::Zero, &mut context());
    // What does not even fit 64 bits comes out as the most negative integer.
    let wide = if wide == i64::MIN && a & SIGN == 0 { i64::MAX } else { wide };
    wide.clamp(low.into(), high.into()) as u32
}

fn halves(a: u64) -> [u32; 2] {
    [a as u32, (a >> 32) as u32]
}

fn pair([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

macro_rules! operations {
    ($($name:ident |$a:ident, $b:ident| $result:expr;)*) => {$(
        pub(super) struct $name;
        impl Binary for $name {
            fn xmm(a: u128, b: u128) -> u128 {
                u128::from(Self::mm(low(a), low(b)))
            }
            fn mm(a: u64, b: u64) -> u64 {
                let ($a, $b) = (halves(a), halves(b));
                pair($result)
            }
        }
    )*};
}

/// `f` of both pairs of singles.
fn each(a: [u32; 2], b: [u32; 2], f: impl Fn(u32, u32) -> u32) -> [u32; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

operations! {
    Pfadd |a, b| each(a, b, add);
    Pfsub |a, b| each(a, b, sub);
    Pfsubr |a, b| each(b, a, sub);
    Pfmul |a, b| each(a, b, mul);
    Pfacc |a, b| [add(a[0], a[1]), add(b[0], b[1])];
    Pfnacc |a, b| [sub(a[0], a[1]), sub(b[0], b[1])];
    Pfpnacc |a, b| [sub(a[0], a[1]), add(b[0], b[1])];
    Pfcmpeq |a, b| each(a, b, |a, b| mask32(relation(a, b) == Relation::Equal));
    Pfcmpgt |a, b| each(a, b, |a, b| mask32(relation(a, b) == Relation::Greater));
    Pfcmpge |a, b|
        each(a, b, |a, b| mask32(matches!(relation(a, b), Relation::Greater | Relation::Equal)));
    Pfmax |a, b|
        each(a, b, |a, b| plus_zero(if relation(a, b) == Relation::Greater { a } else { b }));
    Pfmin |a, b|
        each(a, b, |a, b| plus_zero(if relation(a, b) == Relation::Less { a } else { b }));
    Pi2fd |_a, b| b.map(|b| {
        softfloat::i32_to_f32(b as i32, &mut Context { rounding: Rounding::Zero, ..context() })
    });
    Pi2fw |_a, b| b.map(|b| softfloat::i32_to_f32(i32::from(b as i16), &mut context()));
    Pf2id |_a, b| b.map(|b| integer(b, i32::MIN, i32::MAX));
    Pf2iw |_a, b| b.map(|b| integer(b, i32::from(i16::MIN), i32::from(i16::MAX)));
    // Of the low single, into both; the sign goes through.
    Pfrcp |_a, b| [b[0] & SIGN | if b[0] & INFINITY == 0 { LARGEST } else {
        reciprocal(b[0], RCP_BITS)
    }; 2];
    Pfrsqrt |_a, b| [b[0] & SIGN | if b[0] & INFINITY == 0 { LARGEST } else {
        reciprocal_sqrt(b[0], RSQRT_BITS)
    }; 2];
    // The steps of Newton's iteration. The manuals define their sequences, which end one unit in the
    // last place (two for the root) from the truth at most, and not the value between the steps.
    Pfrcpit1 |a, b| each(a, b, |a, b| single(newton(TWO, a, b)));
    Pfrsqit1 |a, b| each(a, b, |a, b| {
        single(softfloat::f64_mul(newton(THREE, a, b), HALF, &mut context()))
    });
    Pfrcpit2 |a, b| each(a, b, mul);
}
