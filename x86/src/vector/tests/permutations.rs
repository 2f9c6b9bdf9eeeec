//! Permutations of elements.

use super::*;

#[test]
fn shuffles() {
    let mut m = Machine::new();
    m.set(3, counted());
    // VPSHUFD 1Bh turns each group of four round.
    m.mvex(Mvex::new(1, 1, 0, 0x70, 1, 0, Rm::Zmm(3)).imm(0x1b));
    assert_eq!(m.get(1), std::array::from_fn(|n| (n as u32 & !3) + 3 - (n as u32 & 3)));
    // VPERMF32X4: groups 2, 0, 3, 1 from the lowest on.
    m.mvex(Mvex::new(3, 1, 0, 0x07, 1, 0, Rm::Zmm(3)).imm(0b01_11_00_10));
    let groups = [2, 0, 3, 1];
    assert_eq!(m.get(1), std::array::from_fn(|n| 4 * groups[n / 4] + n as u32 % 4));
    // VPERMD: the low four bits of the second operand's elements are indices.
    m.set(2, std::array::from_fn(|n| 0xffff_fff0 | (15 - n as u32)));
    m.mvex(Mvex::new(2, 1, 0, 0x36, 1, 2, Rm::Zmm(3)));
    assert_eq!(m.get(1), std::array::from_fn(|n| 15 - n as u32));
}

/// VALIGND: the last operand below the second, shifted right.
#[test]
fn valignd() {
    let mut m = Machine::new();
    m.set(2, std::array::from_fn(|n| 100 + n as u32));
    m.set(3, counted());
    for shift in [0, 1, 15, 0x13] {
        m.mvex(Mvex::new(3, 1, 0, 0x03, 1, 2, Rm::Zmm(3)).imm(shift));
        let want = std::array::from_fn(|n| match n as u32 + u32::from(shift & 15) {
            at @ 0..16 => at,
            at => 100 + at - 16,
        });
        assert_eq!(m.get(1), want, "{shift}");
    }
}
