//! Double extended precision against the host's x87 instructions: value, exception flags and C1,
//! in all rounding modes and precisions, masked and unmasked (AMD64 APM volume 1, section 6.8).

use super::oracle::{self, Random, X87};
use super::*;
use crate::host::{Vendor, has_sse3};

const ROUNDS: u64 = 12_000;
const C1: u16 = 0x0200;

type Host = fn(F80, F80, u16, &mut [u8; 16]) -> X87;

fn operand(random: &mut Random) -> F80 {
    let bits = random.operand(15, 40);
    let sign_exp = (bits >> 40) as u16;
    // Unnormals are rare; the integer bit otherwise follows the exponent.
    let integer =
        if random.below(16) == 0 { random.below(2) } else { u64::from(bits >> 40 & 0x7FFF != 0) };
    let frac = random.fraction(63);
    F80::new(sign_exp, integer << 63 | frac)
}

/// Control words of all rounding modes and precisions: all masked, then with one unmasked.
fn control_words() -> Vec<u16> {
    let mut all = Vec::new();
    for rounding in 0..4 {
        for precision in [0, 2, 3] {
            for masks in [0x3F, 0x3F, 0x3F, 0x3F, 0x37, 0x2F, 0x1F, 0x3D, 0x00] {
                all.push(masks | precision << 8 | rounding << 10);
            }
        }
    }
    all
}

/// Flags as the unit reports them: an unmasked pre-computation exception hides the others.
fn reported(cx: &Context) -> u16 {
    let mut flags = cx.flags;
    if cx.faulted() {
        flags &= PRE_COMPUTATION;
    }
    u16::from(flags) | if cx.rounded_up && flags & PE != 0 { C1 } else { 0 }
}

/// Whether the answer of a host of this vendor to FSCALE, FPREM or FPREM1 with underflow unmasked may
/// be another than ours where ST(0) is denormal.
///
/// Ours is the manuals': "the underflow exception is reported when the result is non-zero tiny,
/// regardless of inexactness", and the result is stored with its exponent adjusted by 24576 (Intel SDM
/// volume 1, sections 4.9.1.5 and 8.5.5; AMD64 APM volume 1, section 6.8.3), but where the modulus
/// is infinite, "the result is equal to the value in ST(0)" (Intel SDM volume 2, "FPREM", "FPREM1").
/// AMD's processors adjust that as well, and answer the rest as the manuals; other vendors' do not.
pub(crate) fn denormal_is_open(host: Vendor, a: F80, b: F80, masks: u16, scales: bool) -> bool {
    const UNDERFLOW: u16 = UE as u16;
    let tiny = a.class() == Class::Denormal && masks & UNDERFLOW == 0;
    tiny && (host != Vendor::Amd || !scales && b.class() == Class::Infinity)
}

type Ours = fn(F80, F80, &mut Context) -> F80;

fn check_unary_or_binary(name: &str, host: Host, ours: Ours) {
    check_where(name, host, ours, |_, _, _| true);
}

/// Compares those operands and control words that `defined` says are the same to all processors.
fn check_where(name: &str, host: Host, ours: Ours, defined: impl Fn(F80, F80, u16) -> bool) {
    let mut random = Random::new(name.len() as u64 + 5);
    for control in control_words() {
        for _ in 0..ROUNDS {
            let (a, b) = (operand(&mut random), operand(&mut random));
            let b = if random.below(8) == 0 { F80::new(a.sign_exp, b.frac) } else { b };
            let b = if random.below(32) == 0 { a.negated() } else { b };
            if !defined(a, b, control) {
                continue;
            }
            let want = host(a, b, control, &mut [0; 16]);
            let mut cx = Context::from_control_word(control);
            let got = ours(a, b, &mut cx);
            let got = if cx.faulted() { a } else { got };
            assert_eq!(
                (got, reported(&cx)),
                (want.stack[0], want.status & (0x3F | C1)),
                "{name} {a:x?} {b:x?} control {control:x}: got {got:x?}, host {want:x?}"
            );
        }
    }
}

#[test]
fn addition_equals_the_host() {
    check_unary_or_binary("fadd", oracle::fadd, F80::add);
}

#[test]
fn subtraction_equals_the_host() {
    check_unary_or_binary("fsub", oracle::fsub, F80::sub);
}

#[test]
fn multiplication_equals_the_host() {
    check_unary_or_binary("fmul", oracle::fmul, F80::mul);
}

#[test]
fn division_equals_the_host() {
    check_unary_or_binary("fdiv", oracle::fdiv, F80::div);
}

#[test]
fn square_root_equals_the_host() {
    check_unary_or_binary("fsqrt", oracle::fsqrt, |a, _, cx| a.sqrt(cx));
}

#[test]
fn round_to_integer_equals_the_host() {
    check_unary_or_binary("frndint", oracle::frndint, |a, _, cx| a.round_to_integer(cx));
}

#[test]
fn scaling_equals_the_host() {
    let vendor = Vendor::of_host();
    check_where("fscale", oracle::fscale, F80::scale, |a, b, control| {
        !denormal_is_open(vendor, a, b, control, true)
    });
}

fn check_remainder(name: &str, host: Host, nearest: bool) {
    let vendor = Vendor::of_host();
    let mut random = Random::new(9);
    for control in control_words() {
        for _ in 0..ROUNDS {
            let (a, mut b) = (operand(&mut random), operand(&mut random));
            match random.below(8) {
                0 => b = F80::new(a.sign_exp ^ random.below(128) as u16, b.frac),
                1 => b = F80::new(a.sign_exp.wrapping_add(random.below(3) as u16), a.frac),
                _ => {}
            }
            if denormal_is_open(vendor, a, b, control, false) {
                continue;
            }
            let want = host(a, b, control, &mut [0; 16]);
            let mut cx = Context::from_control_word(control);
            let got = a.remainder(b, nearest, &mut cx);
            let value = if cx.faulted() { a } else { got.value };
            let q = u16::from(got.quotient);
            let conditions =
                (q & 4) << 6 | (q & 2) << 13 | (q & 1) << 9 | u16::from(got.partial) << 10;
            assert_eq!(
                (value, u16::from(cx.flags) | conditions),
                (want.stack[0], want.status & 0x473F),
                "{name} {a:x?} {b:x?} control {control:x}: got {got:x?}, host {want:x?}"
            );
        }
    }
}

#[test]
fn remainders_equal_the_host() {
    check_remainder("fprem", oracle::fprem, false);
    check_remainder("fprem1", oracle::fprem1, true);
}

/// Denormals, for which there is no oracle but the manual: the status is that after FNINIT and
/// one instruction, without TOP and the summary bits.
#[test]
fn denormals_with_underflow_unmasked() {
    const UNDERFLOW: u16 = 0x036F;
    const MASKED: u16 = 0x037F;
    let tiny = F80::new(0, 0x0000_1234_0000_0000);
    let other = F80::new(0x8000, 0x4000_0000_0000_0001);
    let pseudo = F80::new(0, 0x8000_0000_0000_0001);
    let infinity = F80::INFINITY;
    for nearest in [false, true] {
        for control in [UNDERFLOW, MASKED] {
            for (a, want) in [
                (tiny, tiny),
                (other, other),
                // A pseudo-denormal has the value of the normal number with exponent 1.
                (pseudo, F80::new(1, 0x8000_0000_0000_0001)),
            ] {
                for b in [infinity, infinity.negated()] {
                    let mut cx = Context::from_control_word(control);
                    let got = a.remainder(b, nearest, &mut cx);
                    let want = Remainder { value: want, quotient: 0, partial: false };
                    assert_eq!((got, cx.flags), (want, DE), "{a:x?} modulo {b:x?}, {control:x}");
                }
            }
        }
        // 1234_0000_0000h * 2^-16445 has its first bit at 2^-16401; 3FFFh - 16401 + 24576 = 5FEEh.
        let mut cx = Context::from_control_word(UNDERFLOW);
        let got = tiny.remainder(F80::ONE, nearest, &mut cx);
        assert_eq!((got.value, cx.flags), (F80::new(0x5FEE, 0x91A0 << 48), DE | UE));
    }
    // By 2^1 and 2^-1.
    for (b, sign_exp) in [(F80::ONE, 0x5FEF), (F80::ONE.negated(), 0x5FED)] {
        let mut cx = Context::from_control_word(UNDERFLOW);
        let got = tiny.scale(b, &mut cx);
        assert_eq!((got, cx.flags), (F80::new(sign_exp, 0x91A0 << 48), DE | UE));
    }
}

/// What is left out of the comparison is denormal and underflows, and no more of it than on the
/// other vendor's host: on AMD's an infinite modulus, on others all.
#[test]
fn little_is_open() {
    let denormal = F80::new(0, 1);
    let open = |host, a, b, masks, scales| denormal_is_open(host, a, b, masks, scales);
    for scales in [false, true] {
        for (b, amd) in [(F80::ONE, false), (F80::INFINITY, !scales)] {
            assert_eq!(open(Vendor::Amd, denormal, b, 0x2F, scales), amd);
            for host in [Vendor::Intel, Vendor::Other] {
                assert!(open(host, denormal, b, 0x2F, scales));
            }
            for host in [Vendor::Amd, Vendor::Intel, Vendor::Other] {
                assert!(!open(host, denormal, b, 0x3F, scales), "masked");
                assert!(!open(host, F80::ONE, b, 0x2F, scales), "not denormal");
            }
        }
    }
}

#[test]
fn extraction_equals_the_host() {
    let mut random = Random::new(11);
    for _ in 0..200_000 {
        let a = operand(&mut random);
        let want = oracle::fxtract(a, F80::ONE, 0x37F, &mut [0; 16]);
        let mut cx = Context::default();
        let (exponent, significand) = a.extract(&mut cx);
        assert_eq!(
            (significand, exponent, u16::from(cx.flags)),
            (want.stack[0], want.stack[1], want.status & 0x3F),
            "fxtract {a:x?}"
        );
    }
}

#[test]
fn comparison_equals_the_host() {
    let mut random = Random::new(12);
    for _ in 0..200_000 {
        let (a, mut b) = (operand(&mut random), operand(&mut random));
        if random.below(4) == 0 {
            b = F80::new(a.sign_exp, a.frac ^ random.below(2));
        }
        for (host, signal) in [(oracle::fcom as Host, true), (oracle::fucom, false)] {
            let want = host(a, b, 0x37F, &mut [0; 16]);
            let mut cx = Context::default();
            let conditions = match a.compare(b, signal, &mut cx) {
                Relation::Greater => 0,
                Relation::Less => 0x0100,
                Relation::Equal => 0x4000,
                Relation::Unordered => 0x4500,
            };
            assert_eq!(
                u16::from(cx.flags) | conditions,
                want.status & 0x473F,
                "compare {a:x?} {b:x?} signal {signal}"
            );
        }
    }
}

type Store = fn(F80, &mut Context) -> u128;

fn check_store(name: &str, host: Host, size: usize, ours: Store) {
    let mut random = Random::new(13);
    for control in control_words() {
        for _ in 0..ROUNDS / 2 {
            let mut a = operand(&mut random);
            if random.below(2) == 0 {
                // Near the ends of the single, double and integer ranges.
                let centers = [0x3FFF - 150, 0x3FFF - 126, 0x3FFF - 1074, 0x3FFF - 1022];
                let more = [0x3FFF + 127, 0x3FFF + 1023, 0x3FFF + 62, 0x3FFF + 30];
                let center = [centers, more][random.below(2) as usize][random.below(4) as usize];
                a.sign_exp = a.sign_exp & 0x8000 | (center + random.below(8) as u16 - 4);
            }
            let mut memory = [0xAA; 16];
            let want = host(a, F80::ONE, control, &mut memory);
            let mut cx = Context::from_control_word(control);
            let got = ours(a, &mut cx);
            let stored = cx.unmasked() & !PE == 0;
            let mut bytes = [0xAA; 16];
            if stored {
                bytes[..size].copy_from_slice(&got.to_le_bytes()[..size]);
            }
            assert_eq!(
                (bytes, reported(&cx)),
                (memory, want.status & (0x3F | C1)),
                "{name} {a:x?} control {control:x}: got {got:x}, host {want:x?}"
            );
        }
    }
}

#[test]
fn stores_equal_the_host() {
    check_store("fst m32", oracle::fst32, 4, |a, cx| a.to_f32(cx).into());
    check_store("fst m64", oracle::fst64, 8, |a, cx| a.to_f64(cx).into());
}

#[test]
fn integer_stores_equal_the_host() {
    check_store("fist m16", oracle::fist16, 2, |a, cx| a.to_i16(cx.rounding, cx) as u16 as u128);
    check_store("fist m32", oracle::fist32, 4, |a, cx| a.to_i32(cx.rounding, cx) as u32 as u128);
    check_store("fistp m64", oracle::fistp64, 8, |a, cx| a.to_i64(cx.rounding, cx) as u64 as u128);
    if has_sse3() {
        check_store("fisttp m64", oracle::fisttp64, 8, |a, cx| {
            a.to_i64(Rounding::Zero, cx) as u64 as u128
        });
    }
    check_store("fbstp", oracle::fbstp, 10, |a, cx| {
        let mut wide = [0; 16];
        wide[..10].copy_from_slice(&a.to_bcd(cx));
        u128::from_le_bytes(wide)
    });
}

#[test]
fn loads_equal_the_host() {
    let mut random = Random::new(14);
    for _ in 0..100_000 {
        let (single, double) = (random.operand(8, 23) as u32, random.operand(11, 52));
        let mut cx = Context::default();
        let mut memory = [0; 16];
        memory[..4].copy_from_slice(&single.to_le_bytes());
        let want = oracle::fld32(F80::ONE, F80::ONE, 0x37F, &mut memory);
        let got = F80::from_f32(single, &mut cx);
        assert_eq!((got, u16::from(cx.flags)), (want.stack[0], want.status & 0x3F), "{single:x}");
        cx.flags = 0;
        memory[..8].copy_from_slice(&double.to_le_bytes());
        let want = oracle::fld64(F80::ONE, F80::ONE, 0x37F, &mut memory);
        let got = F80::from_f64(double, &mut cx);
        assert_eq!((got, u16::from(cx.flags)), (want.stack[0], want.status & 0x3F), "{double:x}");
        let want = oracle::fild64(F80::ONE, F80::ONE, 0x37F, &mut memory);
        assert_eq!(F80::from_i64(double as i64), want.stack[0], "{double:x}");
        let want = oracle::fild16(F80::ONE, F80::ONE, 0x37F, &mut memory);
        assert_eq!(F80::from_i64((double as i16).into()), want.stack[0], "{double:x}");
        // Decimal digits only: others are undefined.
        let mut decimal = [0u8; 16];
        for byte in &mut decimal[..9] {
            *byte = (random.below(10) << 4 | random.below(10)) as u8;
        }
        decimal[9] = random.next() as u8 & 0x80;
        let want = oracle::fbld(F80::ONE, F80::ONE, 0x37F, &mut decimal);
        let bytes = std::array::from_fn(|i| decimal[i]);
        assert_eq!(F80::from_bcd(bytes), want.stack[0], "{decimal:x?}");
    }
}
