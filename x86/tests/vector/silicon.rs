//! The arithmetic of the reference against the host's scalar instructions: results in all rounding modes,
//! with and without denormals, and the flags.
//!
//! VXCSR has the layout of MXCSR, and DUE means that all exceptions are masked. What the vendors of the host
//! do differently is left out: operations on NaNs, but for the flags of signalling ones in the plain ones.

#![allow(unsafe_code, reason = "the oracle is the host's own instructions, reached by assembly")]

use std::arch::{asm, is_x86_feature_detected};

use crate::catalogue::Element;
use crate::{
    arithmetic::{self, Signs, add, fused, multiply},
    float::{Environment, F16, F32, F64, Format},
    random::Random,
    transfer::{down, up},
};

/// All exceptions masked.
const MASKED: u32 = 0x1f80;

/// Executes one instruction of two registers under the given MXCSR: what it leaves in the first (whose
/// operands may be three), and in MXCSR.
macro_rules! host {
    ($mxcsr:expr, $instruction:expr, $a:expr, $b:expr) => {
        host!($mxcsr, $instruction, $a, $b, 0u64)
    };
    ($mxcsr:expr, $instruction:expr, $a:expr, $b:expr, $c:expr) => {{
        let mut mxcsr: u32 = $mxcsr;
        let (mut a, b, c): (u64, u64, u64) = ($a, $b, $c);
        // SAFETY: registers alone are computed with; MXCSR is put back as the compiler has it.
        unsafe {
            asm!(
                "movq xmm0, {a}",
                "movq xmm1, {b}",
                "movq xmm2, {c}",
                "ldmxcsr [{mxcsr}]",
                $instruction,
                "stmxcsr [{mxcsr}]",
                "ldmxcsr [{default}]",
                "movq {a}, xmm0",
                a = inout(reg) a,
                b = in(reg) b,
                c = in(reg) c,
                mxcsr = in(reg) &raw mut mxcsr,
                default = in(reg) &MASKED,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
            );
        }
        (a, mxcsr & 0x3f)
    }};
}

/// A rounding mode, and DAZ and FZ now and then.
fn control(random: &mut Random) -> u32 {
    let mut mxcsr = MASKED | (random.below(4) as u32) << 13;
    for bit in [1 << 6, 1 << 15] {
        if random.once_in(3) {
            mxcsr |= bit;
        }
    }
    mxcsr
}

/// Compares a result and the flags; NaNs are alike.
#[track_caller]
fn check(f: Format, (host, flags): (u64, u32), ours: u64, e: &Environment, told: &str) {
    let host = host & (f.sign() << 1).wrapping_sub(1);
    let same = host == ours || f.is_nan(host) && f.is_nan(ours);
    assert!(
        same && flags == e.flags,
        "{told}: {host:x} {flags:02x}, ours {ours:x} {:02x}",
        e.flags
    );
}

#[test]
fn sums_and_products_are_the_hosts() {
    let mut random = Random::new(21);
    for _ in 0..150_000 {
        let mxcsr = control(&mut random);
        let [a, b] = std::array::from_fn(|_| random.float(F32));
        let told = format!("{mxcsr:04x} {a:08x} {b:08x}");
        let mut e = Environment::new(mxcsr);
        let sum = add(&mut e, F32, a, b, false);
        check(F32, host!(mxcsr, "addss xmm0, xmm1", a, b), sum, &e, &told);
        let mut e = Environment::new(mxcsr);
        let difference = add(&mut e, F32, a, b, true);
        check(F32, host!(mxcsr, "subss xmm0, xmm1", a, b), difference, &e, &told);
        let mut e = Environment::new(mxcsr);
        let product = multiply(&mut e, F32, a, b);
        check(F32, host!(mxcsr, "mulss xmm0, xmm1", a, b), product, &e, &told);
        let mut e = Environment::new(mxcsr);
        let wide = arithmetic::widen(&mut e, a);
        check(F64, host!(mxcsr, "cvtss2sd xmm0, xmm0", a, b), wide, &e, &told);

        let [a, b] = std::array::from_fn(|_| random.float(F64));
        let told = format!("{mxcsr:04x} {a:016x} {b:016x}");
        let mut e = Environment::new(mxcsr);
        let sum = add(&mut e, F64, a, b, false);
        check(F64, host!(mxcsr, "addsd xmm0, xmm1", a, b), sum, &e, &told);
        let mut e = Environment::new(mxcsr);
        let product = multiply(&mut e, F64, a, b);
        check(F64, host!(mxcsr, "mulsd xmm0, xmm1", a, b), product, &e, &told);
        // Of random doubles few are near the limits of the narrower format.
        let a = if random.once_in(2) { near_single(a, &mut random) } else { a };
        let told = format!("{mxcsr:04x} {a:016x}");
        let mut e = Environment::new(mxcsr);
        let narrow = arithmetic::narrow(&mut e, a);
        check(F32, host!(mxcsr, "cvtsd2ss xmm0, xmm0", a, b), narrow, &e, &told);
    }
}

/// The same fraction with an exponent about the least or the greatest of binary32.
fn near_single(x: u64, random: &mut Random) -> u64 {
    let exponent = 1023 + random.pick(&[-126, 127]) + random.below(60) as i64 - 30;
    x & (F64.sign() | (F64.hidden() - 1)) | (exponent as u64) << 52
}

#[test]
fn comparisons_are_the_hosts() {
    let mut random = Random::new(22);
    for _ in 0..100_000 {
        let mxcsr = control(&mut random);
        let a = random.float(F32);
        let b = if random.once_in(3) { a } else { random.float(F32) };
        for predicate in 0..8 {
            let host = match predicate {
                0 => host!(mxcsr, "cmpss xmm0, xmm1, 0", a, b),
                1 => host!(mxcsr, "cmpss xmm0, xmm1, 1", a, b),
                2 => host!(mxcsr, "cmpss xmm0, xmm1, 2", a, b),
                3 => host!(mxcsr, "cmpss xmm0, xmm1, 3", a, b),
                4 => host!(mxcsr, "cmpss xmm0, xmm1, 4", a, b),
                5 => host!(mxcsr, "cmpss xmm0, xmm1, 5", a, b),
                6 => host!(mxcsr, "cmpss xmm0, xmm1, 6", a, b),
                _ => host!(mxcsr, "cmpss xmm0, xmm1, 7", a, b),
            };
            let mut e = Environment::new(mxcsr);
            let holds = arithmetic::compare(&mut e, F32, a, b, predicate);
            let told = format!("{mxcsr:04x} {a:08x} {b:08x} {predicate}");
            assert_eq!((host.0 & 1 != 0, host.1), (holds, e.flags), "{told}");
        }
    }
}

#[test]
fn integers_are_the_hosts() {
    const INDEFINITE: u64 = 0x8000_0000;
    let mut random = Random::new(23);
    for _ in 0..150_000 {
        let mxcsr = control(&mut random);
        let x = random.float(F32);
        let mut e = Environment::new(mxcsr);
        let range = [i64::from(i32::MIN), i64::from(i32::MAX)];
        let ours = arithmetic::to_integer(&mut e, F32, x, 0, range) as u64 & 0xffff_ffff;
        let (host, flags) = host!(mxcsr, "cvtps2dq xmm0, xmm0", x, 0);
        let told = format!("{mxcsr:04x} {x:08x}: {host:x} {flags:02x}, {ours:x} {:02x}", e.flags);
        assert_eq!(flags, e.flags, "{told}");
        // What does not fit is another integer here.
        assert!(
            host & 0xffff_ffff == ours || host & 0xffff_ffff == INDEFINITE && flags == 1,
            "{told}"
        );

        let x = random.integer();
        let mut e = Environment::new(mxcsr);
        let ours = arithmetic::integer(&mut e, F32, i64::from(x as i32), 0);
        let host = host!(mxcsr, "cvtdq2ps xmm0, xmm0", x, 0);
        check(F32, host, ours, &e, &format!("{mxcsr:04x} {x:08x}"));
    }
}

#[test]
fn fused_operations_are_the_hosts() {
    if !is_x86_feature_detected!("fma") {
        println!("the host has no FMA");
        return;
    }
    let mut random = Random::new(24);
    for _ in 0..150_000 {
        let mxcsr = control(&mut random);
        let signs = Signs { product: random.once_in(2), addend: random.once_in(2) };
        let [a, b, c] = std::array::from_fn(|_| random.float(F32));
        if ![a, b, c].iter().any(|&x| F32.is_nan(x)) {
            // The first and the third are multiplied.
            let host = match (signs.product, signs.addend) {
                (false, false) => host!(mxcsr, "vfmadd132ss xmm0, xmm2, xmm1", a, b, c),
                (false, true) => host!(mxcsr, "vfmsub132ss xmm0, xmm2, xmm1", a, b, c),
                (true, false) => host!(mxcsr, "vfnmadd132ss xmm0, xmm2, xmm1", a, b, c),
                (true, true) => host!(mxcsr, "vfnmsub132ss xmm0, xmm2, xmm1", a, b, c),
            };
            let mut e = Environment::new(mxcsr);
            let ours = fused(&mut e, F32, signs, a, b, c);
            check(F32, host, ours, &e, &format!("{mxcsr:04x} {signs:?} {a:08x} {b:08x} {c:08x}"));
        }
        let [a, b, c] = std::array::from_fn(|_| random.float(F64));
        if ![a, b, c].iter().any(|&x| F64.is_nan(x)) {
            let host = match (signs.product, signs.addend) {
                (false, false) => host!(mxcsr, "vfmadd132sd xmm0, xmm2, xmm1", a, b, c),
                (false, true) => host!(mxcsr, "vfmsub132sd xmm0, xmm2, xmm1", a, b, c),
                (true, false) => host!(mxcsr, "vfnmadd132sd xmm0, xmm2, xmm1", a, b, c),
                (true, true) => host!(mxcsr, "vfnmsub132sd xmm0, xmm2, xmm1", a, b, c),
            };
            let mut e = Environment::new(mxcsr);
            let ours = fused(&mut e, F64, signs, a, b, c);
            check(F64, host, ours, &e, &format!("{mxcsr:04x} {signs:?} {a:x} {b:x} {c:x}"));
        }
    }
}

#[test]
fn half_precision_is_the_hosts() {
    if !is_x86_feature_detected!("f16c") {
        println!("the host has no F16C");
        return;
    }
    let mut random = Random::new(25);
    for half in 0..0x1_0000 {
        let (host, flags) = host!(MASKED, "vcvtph2ps xmm0, xmm0", half, 0);
        let mut e = Environment::new(MASKED);
        let ours = up(&mut e, Element::F32, 3, half);
        assert_eq!((host & 0xffff_ffff, flags), (ours, e.flags), "{half:04x}");
        if !F16.is_nan(half) {
            let back = down(&mut Environment::new(MASKED), Element::F32, 3, ours);
            assert_eq!(back, half);
        }
    }
    for _ in 0..100_000 {
        // Without DAZ: the host's conversion to binary16 takes no notice of it.
        let mxcsr = control(&mut random) & !0x40;
        let x = if random.once_in(2) {
            random.float(F32)
        } else {
            let exponent = 127 + random.pick(&[-14, 15]) + random.below(30) as i64 - 15;
            random.float(F32) & 0x807f_ffff | (exponent as u64) << 23
        };
        let (host, flags) = host!(mxcsr, "vcvtps2ph xmm0, xmm0, 4", x, 0);
        let mut e = Environment::new(mxcsr);
        let ours = down(&mut e, Element::F32, 3, x);
        assert_eq!((host & 0xffff, flags), (ours, e.flags), "{mxcsr:04x} {x:08x}");
    }
}

/// The exponent and the significand, which were taken over into AVX-512.
#[test]
fn exponents_and_significands_are_the_hosts() {
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512vl") {
        println!("the host has no AVX-512");
        return;
    }
    macro_rules! significand {
        ($mxcsr:expr, $x:expr, $immediate:expr, $($n:literal)*) => {
            match $immediate {
                $($n => host!($mxcsr, concat!("vgetmantps xmm0, xmm0, ", $n), $x, 0x3f80_0000),)*
                _ => unreachable!(),
            }
        };
    }
    let mut random = Random::new(26);
    for _ in 0..100_000 {
        let mxcsr = control(&mut random);
        let x = random.float(F32);
        let mut e = Environment::new(mxcsr);
        let ours = arithmetic::get_exponent(&mut e, F32, x);
        // The other lanes are zeros, which raise nothing.
        let host = host!(mxcsr, "vgetexpps xmm0, xmm0", x, 0);
        check(F32, host, ours, &e, &format!("{mxcsr:04x} {x:08x}"));
        let immediate = random.below(16) as u8;
        let mut e = Environment::new(mxcsr);
        let ours = arithmetic::get_mantissa(&mut e, F32, x, immediate);
        let host = significand!(mxcsr, x, immediate, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        check(F32, host, ours, &e, &format!("{mxcsr:04x} {x:08x} {immediate}"));
    }
}
