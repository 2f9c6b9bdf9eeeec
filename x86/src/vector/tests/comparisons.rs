//! Comparisons to a mask register.

use super::*;

/// The bits of lanes 0 to 3 of an instruction on `k5{k1}, zmm2, zmm3`; lane 4 is not active, and its bit,
/// which was set, becomes zero.
fn of(code: Mvex, a: [u32; 5], b: [u32; 5]) -> u16 {
    let mut m = Machine::new();
    let widened = |five: [u32; 5]| std::array::from_fn(|n| five.get(n).copied().unwrap_or(0));
    m.set(2, widened(a));
    m.set(3, widened(b));
    m.cpu.set_mask(1, 0x000f);
    m.cpu.set_mask(5, 0xffff);
    m.mvex(code.masked(1));
    assert_eq!(m.counted, (0, 0, 4));
    m.cpu.mask(5)
}

#[test]
fn integers() {
    const MINUS: u32 = -1i32 as u32;
    // Smaller, equal, greater, smaller if signed.
    let (a, b) = ([1, 2, 3, MINUS, 0], [2, 2, 2, 2, 0]);
    let signed = |code| of(Mvex::new(3, 1, 0, 0x1f, 5, 2, Rm::Zmm(3)).imm(code), a, b);
    let unsigned = |code| of(Mvex::new(3, 1, 0, 0x1e, 5, 2, Rm::Zmm(3)).imm(code), a, b);
    let expected = [0b0010, 0b1001, 0b1011, 0, 0b1101, 0b0110, 0b0100, 0b1111];
    for (code, expected) in expected.into_iter().enumerate() {
        assert_eq!(signed(code as u8), expected, "{code}");
        assert_eq!(signed(code as u8 | 0xf8), expected, "{code}");
    }
    let expected = [0b0010, 0b0001, 0b0011, 0, 0b1101, 0b1110, 0b1100, 0b1111];
    for (code, expected) in expected.into_iter().enumerate() {
        assert_eq!(unsigned(code as u8), expected, "{code}");
    }
    assert_eq!(of(Mvex::new(1, 1, 0, 0x76, 5, 2, Rm::Zmm(3)), a, b), 0b0010);
    assert_eq!(of(Mvex::new(1, 1, 0, 0x66, 5, 2, Rm::Zmm(3)), a, b), 0b0100);
    assert_eq!(of(Mvex::new(2, 1, 0, 0x74, 5, 2, Rm::Zmm(3)), a, b), 0b1001);
    // VPTESTMD: 1 & 2 is zero.
    assert_eq!(of(Mvex::new(2, 1, 0, 0x27, 5, 2, Rm::Zmm(3)), a, b), 0b1110);
}

#[test]
fn singles() {
    let (a, b) = ([1f32, 2.0, 3.0, f32::NAN, 0.0], [2f32; 5]);
    let expected = [0b0010, 0b0001, 0b0011, 0b1000, 0b1101, 0b1110, 0b1100, 0b0111];
    for (code, expected) in expected.into_iter().enumerate() {
        let compare = Mvex::new(1, 0, 0, 0xc2, 5, 2, Rm::Zmm(3)).imm(code as u8);
        assert_eq!(of(compare, a.map(f32::to_bits), b.map(f32::to_bits)), expected, "{code}");
    }
}

/// LT, LE and their opposites are invalid of a quiet NaN, unless that is suppressed.
#[test]
fn invalid_comparisons() {
    for code in 0..8 {
        let mut m = Machine::new();
        m.set_singles(2, all(f32::NAN));
        let compare = Mvex::new(1, 0, 0, 0xc2, 5, 2, Rm::Zmm(3)).imm(code);
        m.mvex(compare.with_e(4));
        assert_eq!(m.cpu.vxcsr(), DUE);
        m.mvex(compare);
        let invalid = u32::from(matches!(code, 1 | 2 | 5 | 6));
        assert_eq!(m.cpu.vxcsr(), DUE | invalid, "{code}");
    }
}

/// Eight lanes: the upper half of the result is zero.
#[test]
fn doubles() {
    let mut m = Machine::new();
    m.set_doubles(2, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    m.set_doubles(3, [4.0; 8]);
    m.cpu.set_mask(5, 0xffff);
    m.mvex(Mvex::new(1, 1, 1, 0xc2, 5, 2, Rm::Zmm(3)).imm(2));
    assert_eq!((m.cpu.mask(5), m.counted), (0x001f, (0, 0, 8)));
}
