//! The arithmetic of the reference against the host's, and against itself in other rounding modes.

use crate::{
    arithmetic::{Signs, add, fused, multiply},
    exact::Mode,
    float::{Environment, F32, F64, Format},
    random::Random,
};

/// A result of the host's, or any NaN.
fn same(f: Format, host: u64, ours: u64) -> bool {
    host == ours || f.is_nan(host) && f.is_nan(ours)
}

fn nearest() -> Environment {
    Environment { mode: Mode::Nearest, daz: false, fz: false, flags: 0, open: 0 }
}

const PLUS: Signs = Signs { product: false, addend: false };

/// Rust defines `+`, `*` and `mul_add` as IEEE 754 does, to nearest, on every host.
#[test]
fn exact_arithmetic_rounds_as_the_host() {
    let mut random = Random::new(11);
    for _ in 0..300_000 {
        let [x, y, z] = std::array::from_fn(|_| random.float(F32));
        let [a, b, c] = [x, y, z].map(|bits| f32::from_bits(bits as u32));
        let told = format!("{x:08x} {y:08x} {z:08x}");
        let host = |value: f32| u64::from(value.to_bits());
        assert!(same(F32, host(a + b), add(&mut nearest(), F32, x, y, false)), "{told}");
        assert!(same(F32, host(a - b), add(&mut nearest(), F32, x, y, true)), "{told}");
        assert!(same(F32, host(a * b), multiply(&mut nearest(), F32, x, y)), "{told}");
        let ours = fused(&mut nearest(), F32, PLUS, x, y, z);
        assert!(same(F32, host(a.mul_add(b, c)), ours), "{told}");

        let [x, y, z] = std::array::from_fn(|_| random.float(F64));
        let [a, b, c] = [x, y, z].map(f64::from_bits);
        let told = format!("{x:016x} {y:016x} {z:016x}");
        assert!(same(F64, (a + b).to_bits(), add(&mut nearest(), F64, x, y, false)), "{told}");
        assert!(same(F64, (a - b).to_bits(), add(&mut nearest(), F64, x, y, true)), "{told}");
        assert!(same(F64, (a * b).to_bits(), multiply(&mut nearest(), F64, x, y)), "{told}");
        let ours = fused(&mut nearest(), F64, PLUS, x, y, z);
        assert!(same(F64, a.mul_add(b, c).to_bits(), ours), "{told}");
    }
}

/// The number above, of the same format; neither is a NaN nor the last.
fn next_up(f: Format, x: u64) -> u64 {
    if f.is_zero(x) {
        1
    } else if f.negative(x) {
        x - 1
    } else {
        x + 1
    }
}

/// The four roundings of one exact number: if it is no number of the format, those down and up are neighbours
/// with it between them, and the others are one of the two.
#[test]
fn directed_roundings_enclose_the_exact_result() {
    const PE: u32 = 0x20;
    let mut random = Random::new(13);
    let mut inexact = 0;
    for n in 0..400_000 {
        let f = [F32, F64][n % 2];
        let [x, y, z] = std::array::from_fn(|_| random.float(f));
        let told = format!("{x:x} {y:x} {z:x}");
        let results = [Mode::Nearest, Mode::Down, Mode::Up, Mode::Zero].map(|mode| {
            let mut e = Environment { mode, ..nearest() };
            let result = match n % 3 {
                0 => add(&mut e, f, x, y, false),
                1 => multiply(&mut e, f, x, y),
                _ => fused(&mut e, f, PLUS, x, y, z),
            };
            (result, e.flags & PE)
        });
        let [(nearest, pe), (down, _), (up, _), (zero, _)] = results;
        assert!(results.iter().all(|&(_, flag)| flag == pe), "{told}");
        if pe == 0 {
            let same = |x: u64| x == nearest || f.is_zero(x) && f.is_zero(nearest);
            assert!(same(down) && same(up) && same(zero), "{told}");
            continue;
        }
        inexact += 1;
        let above = next_up(f, down);
        assert!(above == up || f.is_zero(above) && f.is_zero(up), "{told}: {down:x} {up:x}");
        assert!(nearest == down || nearest == up, "{told}");
        let toward = if f.negative(zero) { up } else { down };
        assert_eq!(zero, toward, "{told}");
    }
    assert!(inexact > 100_000);
}
