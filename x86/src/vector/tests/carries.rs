//! Chains of carries and borrows.

use super::*;

/// An instruction on `zmm1{k1}, k2, zmm3`, of lanes 0 to 3: no carry in and none out, carry in, carry out,
/// both; lane 4 is not active. What it leaves in these lanes and in k2.
fn of(opcode: u8, d: [u32; 5], b: [u32; 5], k2: u16) -> ([u32; 5], u16) {
    let mut m = Machine::new();
    let widened = |five: [u32; 5]| std::array::from_fn(|n| five.get(n).copied().unwrap_or(0));
    m.set(1, widened(d));
    m.set(3, widened(b));
    m.cpu.set_mask(1, 0x000f);
    m.cpu.set_mask(2, k2);
    m.mvex(Mvex::new(2, 1, 0, opcode, 1, 2, Rm::Zmm(3)).masked(1));
    let mut result = [0; 5];
    result.copy_from_slice(&m.get(1)[..5]);
    (result, m.cpu.mask(2))
}

const MAX: u32 = u32::MAX;

#[test]
fn sums() {
    let d = [1, 1, MAX, MAX, 77];
    let b = [2, 2, 1, 0, 88];
    // Carries come in in lanes 1 and 3; bits of lanes that are not active, 5, stay.
    assert_eq!(of(0x5c, d, b, 0x2a), ([3, 4, 0, 0, 77], 0x2c));
    assert_eq!(of(0x5d, d, b, 0x2a), ([3, 3, 0, MAX, 77], 0x24));
}

#[test]
fn differences() {
    let d = [5, 5, 1, 2, 77];
    let b = [2, 2, 2, 2, 88];
    assert_eq!(of(0x5e, d, b, 0x2a), ([3, 2, MAX, MAX, 77], 0x2c));
    assert_eq!(of(0x5f, d, b, 0x2a), ([3, 3, MAX, 0, 77], 0x24));
    // The other way round.
    assert_eq!(of(0x6e, b, d, 0x2a), ([3, 2, MAX, MAX, 88], 0x2c));
    assert_eq!(of(0x6f, b, d, 0x2a), ([3, 3, MAX, 0, 88], 0x24));
}
