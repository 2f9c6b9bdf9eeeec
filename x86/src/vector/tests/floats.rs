//! Floating-point arithmetic: opcodes against what they compute, masks, modes and flags.

use super::*;

const IE: u32 = 1;
const DE: u32 = 2;
const ZE: u32 = 4;
const UE: u32 = 16;
const PE: u32 = 32;
const DAZ: u32 = 1 << 6;
const FZ: u32 = 1 << 15;

/// `pp`, opcode and map of an instruction on `zmm1, zmm2, zmm3` with 3, 10 and 4 in all lanes: the result.
fn of_3_10_4(map: u8, pp: u8, opcode: u8) -> f32 {
    let mut m = Machine::new();
    m.set_singles(1, all(3.0));
    m.set_singles(2, all(10.0));
    m.set_singles(3, all(4.0));
    m.mvex(Mvex::new(map, pp, 0, opcode, 1, 2, Rm::Zmm(3)));
    let result = m.singles(1);
    assert_eq!(result, all(result[0]));
    assert_eq!((m.counted, m.cpu.vxcsr()), ((0, 0, 16), DUE));
    result[0]
}

/// The destination is 3, the operands are 10 and 4.
#[test]
fn single_arithmetic() {
    let rows = [
        (1, 0, 0x58, 14.0),
        (1, 0, 0x5c, 6.0),
        (2, 1, 0x6d, -6.0),
        (2, 1, 0x50, -14.0),
        (1, 0, 0x59, 40.0),
        // VGMAXPS, VGMINPS, VGMAXABSPS.
        (2, 1, 0x53, 10.0),
        (2, 1, 0x52, 4.0),
        (2, 1, 0x51, 10.0),
        // 132: 3 * 4 + 10; 213: 10 * 3 + 4; 231: 10 * 4 + 3; with signs.
        (2, 1, 0x98, 22.0),
        (2, 1, 0xa8, 34.0),
        (2, 1, 0xb8, 43.0),
        (2, 1, 0x9a, 2.0),
        (2, 1, 0xaa, 26.0),
        (2, 1, 0xba, 37.0),
        (2, 1, 0x9c, -2.0),
        (2, 1, 0xac, -26.0),
        (2, 1, 0xbc, -37.0),
        (2, 1, 0x9e, -22.0),
        (2, 1, 0xae, -34.0),
        (2, 1, 0xbe, -43.0),
        // 233: 10 * 4 + 4.
        (2, 1, 0xa4, 44.0),
    ];
    for (map, pp, opcode, expected) in rows {
        assert_eq!(of_3_10_4(map, pp, opcode), expected, "{opcode:x}");
    }
}

#[test]
fn double_arithmetic_under_a_mask() {
    let rows: [(u8, u8, u8, f64); 9] = [
        (1, 1, 0x58, 14.0),
        (1, 1, 0x5c, 6.0),
        (2, 1, 0x6d, -6.0),
        (2, 1, 0x50, -14.0),
        (1, 1, 0x59, 40.0),
        (2, 1, 0x53, 10.0),
        (2, 1, 0x52, 4.0),
        (2, 1, 0xb8, 43.0),
        (2, 1, 0xae, -34.0),
    ];
    for (map, pp, opcode, expected) in rows {
        let mut m = Machine::new();
        m.set_doubles(1, [3.0; 8]);
        m.set_doubles(2, [10.0; 8]);
        m.set_doubles(3, [4.0; 8]);
        // The upper half of the mask is not looked at.
        m.cpu.set_mask(5, 0xff15);
        m.mvex(Mvex::new(map, pp, 1, opcode, 1, 2, Rm::Zmm(3)).masked(5));
        let want = std::array::from_fn(|n| if [0, 2, 4].contains(&n) { expected } else { 3.0 });
        assert_eq!(m.doubles(1), want, "{opcode:x}");
        assert_eq!((m.counted, m.cpu.mask(5)), ((0, 0, 3), 0xff15));
    }
}

/// The second element of each group multiplies, the first is added.
#[test]
fn vfmadd233ps_takes_two_of_each_group() {
    let mut m = Machine::new();
    m.set_singles(2, std::array::from_fn(|n| n as f32));
    m.set_singles(3, std::array::from_fn(|n| [1.0, 10.0, -1.0, -1.0][n % 4] * (1 + n / 4) as f32));
    m.mvex(Mvex::new(2, 1, 0, 0xa4, 1, 2, Rm::Zmm(3)));
    let want = std::array::from_fn(|n| (1 + n / 4) as f32 * (10.0 * n as f32 + 1.0));
    assert_eq!(m.singles(1), want);
}

/// 1 + 2^-25 rounds to 1, but up to 1 + 2^-23, by VXCSR or by the encoding. SAE keeps PE clear; a static mode
/// alone does not.
#[test]
fn rounding_and_suppression() {
    let up = 2 << 13;
    let above = 1.0 + 2f32.powi(-23);
    for (vxcsr, code, expected, flags) in [
        (0, None, 1.0, PE),
        (up, None, above, PE),
        (up, Some(0), 1.0, PE),
        (0, Some(2), above, PE),
        (0, Some(6), above, 0),
        (up, Some(7), 1.0, 0),
    ] {
        let mut m = Machine::new();
        m.cpu.set_vxcsr(DUE | vxcsr);
        m.set_singles(2, all(1.0));
        m.set_singles(3, all(2f32.powi(-25)));
        let add = Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::Zmm(3));
        m.mvex(code.map_or(add, |sss| add.with_e(sss)));
        assert_eq!(m.singles(1), all(expected));
        assert_eq!(m.cpu.vxcsr(), DUE | vxcsr | flags);
    }
}

/// Flags come of the lanes that are active alone, and stay.
#[test]
fn flags_are_sticky_and_of_active_lanes() {
    let mut m = Machine::new();
    let mut operand = all(1.0);
    operand[3] = f32::from_bits(0x7f80_0001);
    m.set_singles(2, all(1.0));
    m.set_singles(3, operand);
    m.cpu.set_mask(1, !8);
    let add = Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::Zmm(3));
    m.mvex(add.masked(1));
    assert_eq!(m.cpu.vxcsr(), DUE);
    m.mvex(add);
    assert_eq!(m.cpu.vxcsr(), DUE | IE);
    assert_eq!(m.get(1)[3], 0x7fc0_0001);
    m.set_singles(3, all(1.0));
    m.mvex(add);
    assert_eq!(m.cpu.vxcsr(), DUE | IE);
}

/// The masks of exceptions in VXCSR, all clear here, are not looked at: a tiny result is denormal.
#[test]
fn denormals() {
    let mut m = Machine::new();
    m.set(2, [0x0080_0000; 16]);
    m.set_singles(3, all(0.5));
    let mul = Mvex::new(1, 0, 0, 0x59, 1, 2, Rm::Zmm(3));
    m.mvex(mul);
    assert_eq!((m.get(1), m.cpu.vxcsr()), ([0x0040_0000; 16], DUE));
    m.cpu.set_vxcsr(DUE | FZ);
    m.mvex(mul);
    assert_eq!((m.get(1), m.cpu.vxcsr()), ([0; 16], DUE | FZ | UE | PE));
    m.set(2, [0x0040_0000; 16]);
    m.cpu.set_vxcsr(DUE);
    m.set_singles(3, all(2.0));
    m.mvex(mul);
    assert_eq!((m.get(1), m.cpu.vxcsr()), ([0x0080_0000; 16], DUE | DE));
    m.cpu.set_vxcsr(DUE | DAZ);
    m.mvex(mul);
    assert_eq!((m.get(1), m.cpu.vxcsr()), ([0; 16], DUE | DAZ));
}

/// The first NaN in the order of the operands, whichever is subtracted; its sign stays where a result is
/// negated.
#[test]
fn nans() {
    let rows = [(1, 0, 0x5c), (2, 1, 0x6d), (2, 1, 0x50), (1, 0, 0x59)];
    for (map, pp, opcode) in rows {
        let mut m = Machine::new();
        m.set(2, [0x7fc0_0005; 16]);
        m.set(3, [0xffc0_0007; 16]);
        m.mvex(Mvex::new(map, pp, 0, opcode, 1, 2, Rm::Zmm(3)));
        assert_eq!((m.get(1), m.cpu.vxcsr()), ([0x7fc0_0005; 16], DUE));
    }
    // VADDNPS: -(0 + 0), and infinity less infinity.
    let mut m = Machine::new();
    let addn = Mvex::new(2, 1, 0, 0x50, 1, 2, Rm::Zmm(3));
    m.mvex(addn);
    assert_eq!(m.get(1), [0x8000_0000; 16]);
    m.set(2, [0x7f80_0000; 16]);
    m.set(3, [0xff80_0000; 16]);
    m.mvex(addn);
    assert_eq!((m.get(1), m.cpu.vxcsr()), ([0xffc0_0000; 16], DUE | IE));
}

/// A number rather than a NaN; of zeros the first by >=, the second by <.
#[test]
fn minimum_and_maximum() {
    let of = |opcode, a: u32, b: u32| {
        let mut m = Machine::new();
        m.set(2, [a; 16]);
        m.set(3, [b; 16]);
        m.mvex(Mvex::new(2, 1, 0, opcode, 1, 2, Rm::Zmm(3)));
        (m.get(1)[0], m.cpu.vxcsr() & 0x3f)
    };
    let (max, min, max_abs) = (0x53, 0x52, 0x51);
    let one = 1f32.to_bits();
    assert_eq!(of(max, 0x7fc0_0001, one), (one, 0));
    assert_eq!(of(min, one, 0xffc0_0001), (one, 0));
    assert_eq!(of(max, one, 0x7f80_0001), (one, IE));
    assert_eq!(of(min, 0x7fc0_0001, 0x7fc0_0002), (0x7fc0_0001, 0));
    assert_eq!(of(max, 0x8000_0000, 0), (0x8000_0000, 0));
    assert_eq!(of(min, 0x8000_0000, 0), (0, 0));
    assert_eq!(of(max_abs, (-3f32).to_bits(), one), (3f32.to_bits(), 0));
    assert_eq!(of(max_abs, one, (-3f32).to_bits()), (3f32.to_bits(), 0));
}

/// The signs of the sums go to the mask: 1 - 2 in lanes that are active, the others' bits become zero.
#[test]
fn vaddsetsps_sets_the_mask() {
    let mut m = Machine::new();
    m.set_singles(1, all(9.0));
    m.set_singles(2, all(1.0));
    m.set_singles(3, std::array::from_fn(|n| if n % 2 == 0 { -2.0 } else { 2.0 }));
    m.cpu.set_mask(3, 0x0fff);
    m.mvex(Mvex::new(2, 1, 0, 0xcc, 1, 2, Rm::Zmm(3)).masked(3));
    assert_eq!(m.cpu.mask(3), 0x0555);
    assert_eq!(m.singles(1)[..3], [-1.0, 3.0, -1.0]);
    assert_eq!(m.singles(1)[12..], [9.0; 4]);
}

/// VGETEXPPS, VGETMANTPD, VSCALEPS.
#[test]
fn parts_of_numbers() {
    let mut m = Machine::new();
    m.set_singles(3, all(-10.0));
    m.mvex(Mvex::new(2, 1, 0, 0x42, 1, 0, Rm::Zmm(3)));
    assert_eq!(m.singles(1), all(3.0));
    m.set_doubles(3, [-10.0; 8]);
    m.mvex(Mvex::new(3, 1, 1, 0x26, 1, 0, Rm::Zmm(3)).imm(0b0101));
    assert_eq!(m.doubles(1), [0.625; 8]);
    m.mvex(Mvex::new(3, 1, 1, 0x26, 1, 0, Rm::Zmm(3)).imm(0b1000));
    assert!(m.doubles(1)[0].is_nan());
    assert_eq!(m.cpu.vxcsr(), DUE | IE);
    m.set_singles(2, all(1.5));
    m.set(3, std::array::from_fn(|n| (n as u32).wrapping_sub(2)));
    m.mvex(Mvex::new(2, 1, 0, 0x84, 1, 2, Rm::Zmm(3)));
    assert_eq!(m.singles(1)[..4], [0.375, 0.75, 1.5, 3.0]);
}

/// A table by hand: -inf keeps the destination (0), negative becomes -0 (2), -0 infinity (4), +0 the largest
/// number (6), positive -inf (1), infinity a NaN (5).
#[test]
fn vfixupnan_replaces_by_class() {
    let table = 2 << 3 | 4 << 6 | 6 << 9 | 1 << 12 | 5 << 15 | 7 << 18;
    let mut m = Machine::new();
    m.set(1, [0x1234_5678; 16]);
    let mut a = [0x7f80_0001; 16];
    a[..6].copy_from_slice(&[0xff80_0000, 0xbf80_0000, 1 << 31, 0, 0x3f80_0000, 0x7f80_0000]);
    m.set(2, a);
    m.set(3, [table; 16]);
    m.mvex(Mvex::new(2, 1, 0, 0x55, 1, 2, Rm::Zmm(3)));
    let want =
        [0x1234_5678, 1 << 31, 0x7f80_0000, 0x7f7f_ffff, 0xff80_0000, 0xffc0_0000, 0x7fc0_0001];
    assert_eq!(m.get(1)[..7], want);
    assert_eq!(m.cpu.vxcsr(), DUE | IE);
}

/// By hand: 50h is round to nearest with 24 fraction bits.
#[test]
fn fixed_point() {
    let convert = |pp, opcode, imm, value: u32| {
        let mut m = Machine::new();
        m.set(3, [value; 16]);
        m.mvex(Mvex::new(3, pp, 0, opcode, 1, 0, Rm::Zmm(3)).imm(imm));
        m.get(1)[5]
    };
    assert_eq!(convert(1, 0xcb, 0x50, 1.5f32.to_bits()), 0x0180_0000);
    assert_eq!(convert(1, 0xcb, 0x00, 1e10f32.to_bits()), 0x7fff_ffff);
    assert_eq!(convert(1, 0xca, 0x00, (-1f32).to_bits()), 0);
    assert_eq!(convert(1, 0xca, 0x03, 2.9f32.to_bits()), 2);
    assert_eq!(convert(0, 0xcb, 0x10, 24), 1.5f32.to_bits());
    assert_eq!(convert(0, 0xcb, 0x00, 0xffff_ffff), (-1f32).to_bits());
    assert_eq!(convert(0, 0xca, 0x00, 0x8000_0000), 2_147_483_648f32.to_bits());
    // VRNDFXPNTPS down to quarters: no such code; to sixteenths.
    assert_eq!(convert(1, 0x52, 0x11, 1.1f32.to_bits()), 1.0625f32.to_bits());
}

/// Eight elements in the low half; the high half becomes zero, under a mask too.
#[test]
fn conversions_of_width() {
    let mut m = Machine::new();
    let doubles = [0.5, -1.0, 2.5, 1e300, -3.0, 4.0, 5.0, 6.0];
    m.set_doubles(3, doubles);
    m.set_singles(1, all(9.0));
    m.cpu.set_mask(1, 0xff0f);
    // VCVTPD2PS.
    m.mvex(Mvex::new(1, 1, 1, 0x5a, 1, 0, Rm::Zmm(3)).masked(1));
    let mut want = all(0.0);
    want[..8].copy_from_slice(&[0.5, -1.0, 2.5, f32::INFINITY, 9.0, 9.0, 9.0, 9.0]);
    assert_eq!(m.singles(1), want);
    assert_eq!(m.counted, (0, 0, 4));
    // VCVTFXPNTPD2DQ, to nearest.
    m.mvex(Mvex::new(3, 3, 1, 0xe6, 1, 0, Rm::Zmm(3)).imm(0));
    let mut want = [0; 16];
    want[..8].copy_from_slice(&[0, u32::MAX, 2, 0x7fff_ffff, -3i32 as u32, 4, 5, 6]);
    assert_eq!(m.get(1), want);
    // VCVTPS2PD of a swizzled register: the low half of what is swizzled. VCVTUDQ2PD, VCVTDQ2PD.
    m.set_singles(3, std::array::from_fn(|n| n as f32));
    m.mvex(Mvex::new(1, 0, 0, 0x5a, 1, 0, Rm::Zmm(3)).with(7));
    assert_eq!(m.doubles(1), [3.0, 3.0, 3.0, 3.0, 7.0, 7.0, 7.0, 7.0]);
    m.set(3, [u32::MAX; 16]);
    m.mvex(Mvex::new(1, 2, 0, 0x7a, 1, 0, Rm::Zmm(3)));
    assert_eq!(m.doubles(1), [4_294_967_295.0; 8]);
    m.mvex(Mvex::new(1, 2, 0, 0xe6, 1, 0, Rm::Zmm(3)));
    assert_eq!(m.doubles(1), [-1.0; 8]);
}

/// An approximation of `value`, and the flags.
fn approximation(opcode: u8, value: u32) -> (u32, u32) {
    let mut m = Machine::new();
    m.set(3, [value; 16]);
    m.mvex(Mvex::new(2, 1, 0, opcode, 1, 0, Rm::Zmm(3)));
    assert_eq!(m.get(1), [m.get(1)[0]; 16]);
    (m.get(1)[0], m.cpu.vxcsr() & 0x3f)
}

/// Special values, and numbers whose result is exact.
#[test]
fn approximations_by_hand() {
    const INFINITY: u32 = 0x7f80_0000;
    const SIGN: u32 = 1 << 31;
    let (exp, log, rcp, rsqrt) = (0xc8, 0xc9, 0xca, 0xcb);
    let bits = f32::to_bits;
    for (opcode, value, expected, flags) in [
        (rcp, bits(-4.0), bits(-0.25), 0),
        (rcp, SIGN, SIGN | INFINITY, ZE),
        (rcp, 1, INFINITY, 0),
        (rcp, SIGN | INFINITY, SIGN, 0),
        // 2^127: 2^-127 would be denormal.
        (rcp, bits(2f32.powi(127)), 0, 0),
        (rcp, 0x7f80_0001, 0x7fc0_0001, IE),
        (rsqrt, bits(4.0), bits(0.5), 0),
        (rsqrt, 0, INFINITY, ZE),
        (rsqrt, SIGN, SIGN | INFINITY, ZE),
        (rsqrt, INFINITY, 0, 0),
        (rsqrt, bits(-1.0), 0xffc0_0000, IE),
        // 8.24: 3, -1, the ends; 2^-127 is flushed.
        (exp, 3 << 24, bits(8.0), 0),
        (exp, -1i32 as u32 & 0xff00_0000, bits(0.5), 0),
        (exp, 0x7fff_ffff, INFINITY, 0),
        (exp, 0x8000_0000, 0, 0),
        (exp, (-127i32 << 24) as u32, 0, 0),
        (exp, 127 << 24, bits(2f32.powi(127)), 0),
        (log, bits(8.0), bits(3.0), 0),
        (log, bits(1.0), 0, 0),
        (log, SIGN, SIGN | INFINITY, ZE),
        (log, bits(-2.0), 0xffc0_0000, IE),
        (log, INFINITY, INFINITY, 0),
    ] {
        assert_eq!(approximation(opcode, value), (expected, flags), "{opcode:x} {value:x}");
    }
}

/// Others are within half a unit in the last place of what the host's double precision says, and a little.
#[test]
fn approximations_are_near() {
    for n in 1..2000u32 {
        let bits = 0x3000_0000 + n * 0x0001_2345;
        let x = f64::from(f32::from_bits(bits));
        let fixed = n.wrapping_mul(0x0123_4567) as i32 / 2;
        for (opcode, value, exact) in [
            (0xca, bits, 1.0 / x),
            (0xcb, bits, 1.0 / x.sqrt()),
            (0xc8, fixed as u32, (f64::from(fixed) / 16_777_216.0).exp2()),
            (0xc9, bits, x.log2()),
        ] {
            let got = f64::from(f32::from_bits(approximation(opcode, value).0));
            let error = (got - exact).abs() / exact.abs().max(f64::from(f32::MIN_POSITIVE));
            assert!(error < 0.501 * 2f64.powi(-23), "{opcode:x} {value:x}: {got} {exact}");
        }
    }
}
