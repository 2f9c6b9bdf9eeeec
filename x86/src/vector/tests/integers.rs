//! Integer arithmetic, logic and shifts.

use super::*;

/// An instruction on `zmm1, zmm2, zmm3` with these in all lanes.
fn of(map: u8, opcode: u8, d: u32, a: u32, b: u32) -> u32 {
    let mut m = Machine::new();
    m.set(1, [d; 16]);
    m.set(2, [a; 16]);
    m.set(3, [b; 16]);
    m.mvex(Mvex::new(map, 1, 0, opcode, 1, 2, Rm::Zmm(3)));
    assert_eq!(m.get(1), [m.get(1)[0]; 16]);
    m.get(1)[0]
}

#[test]
fn arithmetic_logic_and_shifts() {
    const MINUS_2: u32 = -2i32 as u32;
    let rows = [
        (1, 0xfe, MINUS_2, 5, 3),
        (1, 0xfa, MINUS_2, 5, -7i32 as u32),
        (2, 0x6c, MINUS_2, 5, 7),
        (2, 0x40, 0x8000_0001, 2, 2),
        (2, 0x40, MINUS_2, 5, -10i32 as u32),
        // High halves: -2 * 5 is -10, whose high half is all ones; unsigned it is 5 * 2^32 - 10.
        (2, 0x87, MINUS_2, 5, u32::MAX),
        (2, 0x86, MINUS_2, 5, 4),
        (2, 0x39, MINUS_2, 5, MINUS_2),
        (2, 0x3b, MINUS_2, 5, 5),
        (2, 0x3d, MINUS_2, 5, 5),
        (2, 0x3f, MINUS_2, 5, MINUS_2),
        (1, 0xdb, 0b1100, 0b1010, 0b1000),
        (1, 0xdf, 0b1100, 0b1010, 0b0010),
        (1, 0xeb, 0b1100, 0b1010, 0b1110),
        (1, 0xef, 0b1100, 0b1010, 0b0110),
        (2, 0x47, 0x8000_0001, 4, 0x10),
        (2, 0x45, 0x8000_0001, 4, 0x0800_0000),
        (2, 0x46, 0x8000_0001, 4, 0xf800_0000),
        (2, 0x47, 1, 32, 0),
        (2, 0x45, u32::MAX, 0x1_0000, 0),
        (2, 0x46, 0x8000_0000, 99, u32::MAX),
        // VPMADD231D: a * b + 7; VPMADD233D.
        (2, 0xb5, MINUS_2, 5, -3i32 as u32),
        (2, 0xb4, MINUS_2, 5, -5i32 as u32),
    ];
    for (map, opcode, a, b, expected) in rows {
        assert_eq!(of(map, opcode, 7, a, b), expected, "{opcode:x} {a:x} {b:x}");
    }
}

/// The destination is in vvvv. Opcode 72h: /2 VPSRLD, /4 VPSRAD, /6 VPSLLD.
#[test]
fn shifts_by_an_immediate() {
    for (reg, count, expected) in [
        (2, 4, 0x0800_0001),
        (4, 4, 0xf800_0001),
        (6, 4, 0x0000_0100),
        (2, 32, 0),
        (4, 200, u32::MAX),
        (6, 32, 0),
    ] {
        let mut m = Machine::new();
        m.set(20, [9; 16]);
        m.set(3, [0x8000_0010; 16]);
        m.cpu.set_mask(1, 0x7fff);
        m.mvex(Mvex::new(1, 1, 0, 0x72, reg, 20, Rm::Zmm(3)).masked(1).imm(count));
        assert_eq!(m.get(20)[..15], [expected; 15]);
        assert_eq!(m.get(20)[15], 9);
    }
}

/// A quadword's mask bit stands for both of its halves.
#[test]
fn logic_on_quadwords() {
    let mut m = Machine::new();
    m.set(2, [0xff; 16]);
    m.set(3, [0x0f; 16]);
    m.cpu.set_mask(2, 0b10);
    m.mvex(Mvex::new(1, 1, 1, 0xef, 1, 2, Rm::Zmm(3)).masked(2));
    let mut want = [0; 16];
    want[2..4].fill(0xf0);
    assert_eq!((m.get(1), m.counted), (want, (0, 0, 1)));
}

/// VPADDSETSD: signs of the sums.
#[test]
fn vpaddsetsd_sets_the_mask() {
    let mut m = Machine::new();
    m.set(2, counted());
    m.set(3, [-8i32 as u32; 16]);
    m.cpu.set_mask(7, 0xfff0);
    m.mvex(Mvex::new(2, 1, 0, 0xcd, 1, 2, Rm::Zmm(3)).masked(7));
    assert_eq!(m.cpu.mask(7), 0x00f0);
    assert_eq!(m.get(1)[3..5], [0, -4i32 as u32]);
}
