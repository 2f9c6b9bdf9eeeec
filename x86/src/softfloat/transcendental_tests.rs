//! The transcendental functions against the host's: at most one unit in the last place apart
//! over the architectural domains (AMD64 APM volume 5; Intel SDM volume 1, section 8.3.10), and
//! the same special results and exception flags.

use super::oracle::{self, Random, X87};
use super::*;

const ROUNDS: u64 = 60_000;
/// UE in the status word.
const UNDERFLOW: u16 = 1 << 4;

type Host = fn(F80, F80, u16, &mut [u8; 16]) -> X87;

/// Units in the last place between two results of one sign; a large number if they do not compare.
fn distance(a: F80, b: F80) -> u128 {
    let rank = |a: F80| (u128::from(a.sign_exp & 0x7FFF) << 63) + u128::from(a.frac << 1 >> 1);
    // One unit may lie between the largest denormal number and the smallest normal one.
    let alike = |a: F80, b: F80| a.class() == b.class() || is_number(a) && is_number(b);
    if a == b {
        0
    } else if a.is_negative() != b.is_negative() || !alike(a, b) {
        u128::MAX
    } else {
        rank(a).abs_diff(rank(b))
    }
}

/// Neither zero, nor infinite, nor a NaN.
fn is_number(a: F80) -> bool {
    matches!(a.class(), Class::Normal | Class::Denormal)
}

/// A finite operand with a biased exponent in the range.
fn operand(random: &mut Random, exponents: std::ops::Range<u16>) -> F80 {
    let span = u64::from(exponents.end - exponents.start);
    let exponent = exponents.start + random.below(span) as u16;
    let sign = (random.below(2) as u16) << 15;
    F80::new(sign | exponent, 1 << 63 | random.fraction(63))
}

fn special(random: &mut Random) -> F80 {
    let bits = random.operand(15, 40);
    let exponent = (bits >> 40) as u16;
    let integer = u64::from(exponent & 0x7FFF != 0);
    let frac = if random.below(2) == 0 { 0 } else { random.fraction(63) };
    F80::new(exponent, integer << 63 | frac)
}

fn report(name: &str, worst: u128, differ: u64, total: u64) {
    println!("{name}: worst {worst} ulp, {differ} of {total} differ");
    assert!(worst <= 1, "{name}: {worst} units in the last place from the host");
}

fn check(
    name: &str,
    host: Host,
    ours: fn(F80, F80, &mut Context) -> F80,
    operands: fn(&mut Random) -> (F80, F80),
) {
    let mut random = Random::new(21);
    let (mut worst, mut differ) = (0, 0);
    for _ in 0..ROUNDS {
        let (a, b) = operands(&mut random);
        let want = host(a, b, 0x37F, &mut [0; 16]);
        let mut cx = Context::default();
        let got = ours(a, b, &mut cx);
        let apart = distance(got, want.stack[0]);
        if apart > worst {
            println!("{name} {a:x?} {b:x?}: got {got:x?}, host {:x?}", want.stack[0]);
        }
        worst = worst.max(apart);
        differ += u64::from(apart != 0);
        // Where only one of them is denormal, only that one is an underflow.
        let ignored = if got.class() == want.stack[0].class() { 0 } else { UNDERFLOW };
        let flags = [u16::from(cx.flags), want.status & 0x3F].map(|flags| flags & !ignored);
        assert_eq!(flags[0], flags[1], "{name} {a:x?} {b:x?} {got:x?}");
    }
    report(name, worst, differ, ROUNDS);
}

fn done(result: Reduction<F80>, unreduced: F80) -> F80 {
    match result {
        Reduction::Done(value) => value,
        Reduction::OutOfRange => unreduced,
    }
}

#[test]
fn exp2_minus_1_is_within_one_unit() {
    check(
        "f2xm1",
        oracle::f2xm1,
        |a, _, cx| a.exp2_minus_1(cx),
        |random| (operand(random, 0x3FFF - 80..0x3FFF), F80::ONE),
    );
}

#[test]
fn logarithm_is_within_one_unit() {
    check("fyl2x", oracle::fyl2x, F80::y_log2_x, |random| {
        (operand(random, 0x3FFF - 60..0x3FFF + 60).abs(), operand(random, 0x3F00..0x40FF))
    });
    check("fyl2x near one", oracle::fyl2x, F80::y_log2_x, |random| {
        (operand(random, 0x3FFE..0x4000).abs(), operand(random, 0x3FF0..0x4010))
    });
    check("fyl2xp1", oracle::fyl2xp1, F80::y_log2_x_plus_1, |random| {
        (operand(random, 0x3FFF - 80..0x3FFD), operand(random, 0x3F00..0x40FF))
    });
}

#[test]
fn arctangent_is_within_one_unit() {
    check("fpatan", oracle::fpatan, F80::arctangent, |random| {
        (operand(random, 0x3FFF - 40..0x3FFF + 40), operand(random, 0x3FFF - 40..0x3FFF + 40))
    });
    check("fpatan near", oracle::fpatan, F80::arctangent, |random| {
        (operand(random, 0x3FFD..0x4001), operand(random, 0x3FFD..0x4001))
    });
}

#[test]
fn trigonometry_is_within_one_unit() {
    fn small(random: &mut Random) -> (F80, F80) {
        (operand(random, 0x3FFF - 40..0x4000), F80::ONE)
    }
    fn large(random: &mut Random) -> (F80, F80) {
        (operand(random, 0x3FFF..0x3FFF + 64), F80::ONE)
    }
    for operands in [small as fn(&mut Random) -> (F80, F80), large] {
        check("fsin", oracle::fsin, |a, _, cx| done(a.sine(cx), a), operands);
        check("fcos", oracle::fcos, |a, _, cx| done(a.cosine(cx), a), operands);
    }
    for operands in [small as fn(&mut Random) -> (F80, F80), large] {
        check(
            "fptan",
            |a, b, control, memory| {
                let mut state = oracle::fptan(a, b, control, memory);
                if state.status & 0x0400 == 0 {
                    state.stack.rotate_left(1);
                }
                state
            },
            |a, _, cx| done(a.tangent(cx), a),
            operands,
        );
    }
}

#[test]
fn special_operands_give_what_the_host_gives() {
    fn operands(random: &mut Random) -> (F80, F80) {
        (special(random), special(random))
    }
    check("fyl2x", oracle::fyl2x, F80::y_log2_x, operands);
    check("fpatan", oracle::fpatan, F80::arctangent, operands);
    check("fsin", oracle::fsin, |a, _, cx| done(a.sine(cx), a), operands);
    check("fcos", oracle::fcos, |a, _, cx| done(a.cosine(cx), a), operands);
    check("f2xm1", oracle::f2xm1, |a, _, cx| a.exp2_minus_1(cx), operands);
}
