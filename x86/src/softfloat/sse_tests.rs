//! Single and double precision against the host's SSE instructions: value and MXCSR flags, in
//! all rounding modes with and without DAZ and FTZ (AMD64 APM volume 1, section 4.6 to 4.8).

use super::oracle::{self, Random, sse_contexts};
use super::*;

const ROUNDS: u64 = 40_000;

type Ours = fn(u64, u64, &mut Context) -> u64;
type Host = fn(u64, u64, &Context) -> (u64, u8);

fn check(name: &str, exponent_bits: u32, fraction_bits: u32, ours: Ours, host: Host) {
    let width = exponent_bits + fraction_bits + 1;
    check_result(name, exponent_bits, fraction_bits, u64::MAX >> (64 - width), ours, host);
}

fn check_result(name: &str, e: u32, f: u32, mask: u64, ours: Ours, host: Host) {
    let mut random = Random::new(name.len() as u64 + 17);
    for cx in sse_contexts() {
        for _ in 0..ROUNDS {
            let (a, b) = (random.operand(e, f), random.operand(e, f));
            let b = if random.below(8) == 0 { a ^ random.below(4) } else { b };
            let (want, want_flags) = host(a, b, &cx);
            let mut after = cx;
            let got = ours(a, b, &mut after);
            assert_eq!(
                (got & mask, after.flags),
                (want & mask, want_flags),
                "{name} {a:x} {b:x} {cx:?}: got {got:x}, host {want:x}"
            );
        }
    }
}

fn check_single(name: &str, ours: Ours, host: Host) {
    check(name, 8, 23, ours, host);
}

fn check_double(name: &str, ours: Ours, host: Host) {
    check(name, 11, 52, ours, host);
}

#[test]
fn single_arithmetic_equals_the_host() {
    check_single("addss", |a, b, cx| f32_add(a as u32, b as u32, cx).into(), oracle::addss);
    check_single("subss", |a, b, cx| f32_sub(a as u32, b as u32, cx).into(), oracle::subss);
    check_single("mulss", |a, b, cx| f32_mul(a as u32, b as u32, cx).into(), oracle::mulss);
    check_single("divss", |a, b, cx| f32_div(a as u32, b as u32, cx).into(), oracle::divss);
    check_single("sqrtss", |a, _, cx| f32_sqrt(a as u32, cx).into(), oracle::sqrtss);
    check_single("minss", |a, b, cx| f32_min(a as u32, b as u32, cx).into(), oracle::minss);
    check_single("maxss", |a, b, cx| f32_max(a as u32, b as u32, cx).into(), oracle::maxss);
}

#[test]
fn double_arithmetic_equals_the_host() {
    check_double("addsd", f64_add, oracle::addsd);
    check_double("subsd", f64_sub, oracle::subsd);
    check_double("mulsd", f64_mul, oracle::mulsd);
    check_double("divsd", f64_div, oracle::divsd);
    check_double("sqrtsd", |a, _, cx| f64_sqrt(a, cx), oracle::sqrtsd);
    check_double("minsd", f64_min, oracle::minsd);
    check_double("maxsd", f64_max, oracle::maxsd);
}

#[test]
fn comparisons_equal_the_host() {
    fn all_ones(condition: bool) -> u64 {
        if condition { u64::MAX } else { 0 }
    }
    check_single(
        "cmpunordss",
        |a, b, cx| all_ones(f32_compare(a as u32, b as u32, false, cx) == Relation::Unordered),
        oracle::cmpunordss,
    );
    check_single(
        "cmpltss",
        |a, b, cx| all_ones(f32_compare(a as u32, b as u32, true, cx) == Relation::Less),
        oracle::cmpltss,
    );
    check_double(
        "cmpunordsd",
        |a, b, cx| all_ones(f64_compare(a, b, false, cx) == Relation::Unordered),
        oracle::cmpunordsd,
    );
    check_double(
        "cmpltsd",
        |a, b, cx| all_ones(f64_compare(a, b, true, cx) == Relation::Less),
        oracle::cmpltsd,
    );
}

#[test]
fn conversions_equal_the_host() {
    let low = u64::from(u32::MAX);
    let all = u64::MAX;
    check_result("cvtss2sd", 8, 23, all, |a, _, cx| f32_to_f64(a as u32, cx), oracle::cvtss2sd);
    check_result("cvtsd2ss", 11, 52, low, |a, _, cx| f64_to_f32(a, cx).into(), oracle::cvtsd2ss);
    // The packed forms have the 32-bit results; the upper elements are zero and raise nothing.
    check_result(
        "cvtps2dq",
        8,
        23,
        low,
        |a, _, cx| f32_to_i32(a as u32, cx.rounding, cx) as u64,
        oracle::cvtps2dq,
    );
    check_result(
        "cvttps2dq",
        8,
        23,
        low,
        |a, _, cx| f32_to_i32(a as u32, Rounding::Zero, cx) as u64,
        oracle::cvttps2dq,
    );
    check_result(
        "cvtpd2dq",
        11,
        52,
        low,
        |a, _, cx| f64_to_i32(a, cx.rounding, cx) as u64,
        oracle::cvtpd2dq,
    );
    check_result(
        "cvttpd2dq",
        11,
        52,
        low,
        |a, _, cx| f64_to_i32(a, Rounding::Zero, cx) as u64,
        oracle::cvttpd2dq,
    );
    check_result(
        "cvtss2si",
        8,
        23,
        all,
        |a, _, cx| f32_to_i64(a as u32, cx.rounding, cx) as u64,
        |a, _, cx| oracle::cvtss2si(a, cx),
    );
    check_result(
        "cvttss2si",
        8,
        23,
        all,
        |a, _, cx| f32_to_i64(a as u32, Rounding::Zero, cx) as u64,
        |a, _, cx| oracle::cvttss2si(a, cx),
    );
    check_result(
        "cvtsd2si",
        11,
        52,
        all,
        |a, _, cx| f64_to_i64(a, cx.rounding, cx) as u64,
        |a, _, cx| oracle::cvtsd2si(a, cx),
    );
    check_result(
        "cvttsd2si",
        11,
        52,
        all,
        |a, _, cx| f64_to_i64(a, Rounding::Zero, cx) as u64,
        |a, _, cx| oracle::cvttsd2si(a, cx),
    );
}

#[test]
fn integers_convert_as_on_the_host() {
    let low = u64::from(u32::MAX);
    check_result(
        "cvtsi2ss_32",
        11,
        52,
        low,
        |a, _, cx| i32_to_f32(a as i32, cx).into(),
        |a, _, cx| oracle::cvtsi2ss_32(a, cx),
    );
    check_result(
        "cvtsi2ss_64",
        11,
        52,
        low,
        |a, b, cx| i64_to_f32((a >> (b & 63)) as i64, cx).into(),
        |a, b, cx| oracle::cvtsi2ss_64(a >> (b & 63), cx),
    );
    check_result(
        "cvtsi2sd_32",
        11,
        52,
        u64::MAX,
        |a, _, cx| i32_to_f64(a as i32, cx),
        |a, _, cx| oracle::cvtsi2sd_32(a, cx),
    );
    check_result(
        "cvtsi2sd_64",
        11,
        52,
        u64::MAX,
        |a, b, cx| i64_to_f64((a >> (b & 63)) as i64, cx),
        |a, b, cx| oracle::cvtsi2sd_64(a >> (b & 63), cx),
    );
}
