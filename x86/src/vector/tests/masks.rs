//! Instructions on mask registers, and counts of bits.

use super::*;
use crate::flags::{AF, ARITHMETIC, CF, PF, SF, ZF};

/// `op k1, k2` with these values: what is in k1.
fn combined(opcode: u8, d: u16, s: u16) -> u16 {
    let mut m = Machine::new();
    m.cpu.set_mask(1, d);
    m.cpu.set_mask(2, s);
    assert_eq!(m.run(&[0xc5, 0xf8, opcode, 0xca]), Ok(()));
    assert_eq!((m.cpu.mask(2), m.counted), (s, (0, 0, 0)));
    m.cpu.mask(1)
}

#[test]
fn logic_and_merges() {
    let (d, s) = (0xf0cc, 0xaa0f);
    for (opcode, expected) in [
        (0x41, 0xa00c),
        (0x42, 0x0a03),
        (0x43, 0x50c0),
        (0x44, 0x55f0),
        (0x45, 0xfacf),
        (0x46, 0xa53c),
        (0x47, 0x5ac3),
        // KMERGE2L1H: the low half of the source above the high half of the destination.
        (0x48, 0x0ff0),
        (0x49, 0x0fcc),
        (0x90, 0xaa0f),
    ] {
        assert_eq!(combined(opcode, d, s), expected, "{opcode:x}");
    }
}

#[test]
fn general_registers() {
    let mut m = Machine::new();
    m.cpu.set_gpr(0, u64::MAX - 0xfff0);
    // kmov k1, eax; kmov r9d, k1
    assert_eq!(m.run(&[0xc5, 0xf8, 0x92, 0xc8]), Ok(()));
    assert_eq!(m.cpu.mask(1), 0x000f);
    m.cpu.set_gpr(9, u64::MAX);
    assert_eq!(m.run(&[0xc5, 0x78, 0x93, 0xc9]), Ok(()));
    assert_eq!(m.cpu.gpr(9), 0x000f);
    // kconcatl rax, k1, k2; kconcath rax, k1, k2
    m.cpu.set_mask(1, 0x1111);
    m.cpu.set_mask(2, 0x2222);
    assert_eq!(m.run(&[0xc5, 0xf0, 0x97, 0xc2]), Ok(()));
    assert_eq!(m.cpu.gpr(0), 0x1111_2222);
    assert_eq!(m.run(&[0xc5, 0xf0, 0x95, 0xc2]), Ok(()));
    assert_eq!(m.cpu.gpr(0), 0x1111_2222_0000_0000);
    // kextract k3, rax, n
    m.cpu.set_gpr(0, 0x4444_3333_2222_1111);
    for n in 0..8u8 {
        assert_eq!(m.run(&[0xc4, 0xe3, 0x79, 0x3e, 0xd8, n]), Ok(()));
        assert_eq!(m.cpu.mask(3), 0x1111 * (1 + u16::from(n & 3)), "{n}");
    }
}

#[test]
fn kortest() {
    let flags = |d, s| {
        let mut m = Machine::new();
        m.cpu.set_mask(1, d);
        m.cpu.set_mask(2, s);
        m.cpu.set_rflags(ARITHMETIC);
        assert_eq!(m.run(&[0xc5, 0xf8, 0x98, 0xca]), Ok(()));
        m.cpu.rflags() & ARITHMETIC
    };
    assert_eq!(flags(0, 0), ZF);
    assert_eq!(flags(0xff00, 0x00ff), CF);
    assert_eq!(flags(1, 2), 0);
}

/// `op rax, rcx` of 32 and 64 bits: the result and the flags.
fn counted_bits(pp: u8, opcode: u8, wide: bool, d: u64, s: u64) -> (u64, u64) {
    let mut m = Machine::new();
    m.cpu.set_gpr(0, d);
    m.cpu.set_gpr(1, s);
    m.cpu.set_rflags(ARITHMETIC);
    let w = if wide { 0x80 } else { 0 };
    assert_eq!(m.run(&[0xc4, 0xe1, w | 0x78 | pp, opcode, 0xc1]), Ok(()));
    (m.cpu.gpr(0), m.cpu.rflags() & (ARITHMETIC | SF | AF | PF))
}

#[test]
fn counts_of_bits() {
    const F3: u8 = 2;
    let (popcnt, tzcnt, lzcnt) = (0xb8, 0xbc, 0xbd);
    for (opcode, wide, source, expected, flags) in [
        (popcnt, true, 0xff00_0000_0000_0001, 9, 0),
        (popcnt, false, 0xff00_0000_0000_0001, 1, 0),
        (popcnt, false, 0xff00_0000_0000_0000, 0, ZF),
        (tzcnt, true, 0x100_0000_0000, 40, 0),
        (tzcnt, false, 0x100_0000_0000, 32, CF),
        (tzcnt, true, 0, 64, CF),
        (tzcnt, false, 1, 0, ZF),
        (lzcnt, true, 1, 63, 0),
        (lzcnt, false, 1, 31, 0),
        (lzcnt, false, 1 << 31, 0, ZF),
        (lzcnt, true, 0, 64, CF),
    ] {
        let got = counted_bits(F3, opcode, wide, u64::MAX, source);
        assert_eq!(got, (expected, flags), "{opcode:x} {wide} {source:x}");
    }
}

/// A loop over the bits of a mask, from -1 on until there is none.
#[test]
fn tzcnti_steps_through_a_mask() {
    const F2: u8 = 3;
    let mut place = u64::from(u32::MAX);
    let mut seen = Vec::new();
    loop {
        (place, _) = counted_bits(F2, 0xbc, false, place, 0x8000_0025);
        if place == 32 {
            break;
        }
        seen.push(place);
    }
    assert_eq!(seen, [0, 2, 5, 31]);
    assert_eq!(counted_bits(F2, 0xbc, true, 31, 0x8000_0025), (64, 0));
    assert_eq!(counted_bits(F2, 0xbc, true, u64::MAX, 1), (0, ZF));
    assert_eq!(counted_bits(F2, 0xbc, true, 5, 0), (64, CF));
    assert_eq!(counted_bits(F2, 0xbc, true, i64::MAX as u64, u64::MAX), (64, 0));
}

/// JKZD and JKNZD, with 8 and 32 bits of distance.
#[test]
fn jumps_by_mask() {
    for (mask, zero) in [(0, true), (0x8000, false)] {
        for (bytes, when_zero) in [
            (&[0xc4, 0xe0, 0x70, 0x74, 0x10][..], true),
            (&[0xc4, 0xe0, 0x70, 0x75, 0x10], false),
            (&[0xc5, 0xf0, 0x84, 0x10, 0, 0, 0], true),
            (&[0xc5, 0xf0, 0x85, 0x10, 0, 0, 0], false),
        ] {
            let mut m = Machine::new();
            m.cpu.set_mask(1, mask);
            assert_eq!(m.run(bytes), Ok(()));
            let next = bytes.len() as u64;
            let expected = if zero == when_zero { next + 0x10 } else { next };
            assert_eq!(m.cpu.rip, expected, "{bytes:02x?} {mask:x}");
        }
    }
}
