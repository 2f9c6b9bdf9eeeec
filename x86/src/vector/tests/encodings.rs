//! Bytes that are known from a card's kernel, from assemblers and their tests.

use super::*;
use crate::operation::Operation;

fn operation(bytes: &[u8]) -> Operation {
    let mut cpu = Machine::new().cpu;
    cpu.features = PART;
    lower_bytes(&Lowering::of(&cpu), bytes).expect("a whole instruction").1.op
}

/// The assembler of these tests makes the bytes that are published.
#[test]
fn the_helper_makes_published_encodings() {
    let vaddps = Mvex::new(1, 0, 0, 0x58, 0, 1, Rm::Zmm(2));
    assert_eq!(vaddps.bytes(), [0x62, 0xf1, 0x70, 0x08, 0x58, 0xc2]);
    let vpackstorelpd = Mvex::new(2, 1, 1, 0xd1, 0, 0, Rm::At(-0x340)).masked(2);
    assert_eq!(vpackstorelpd.bytes(), [0x62, 0xf2, 0xf9, 0x0a, 0xd1, 0x86, 0xc0, 0xfc, 0xff, 0xff]);
}

#[test]
fn published_encodings() {
    let rows: [(&[u8], Operation); 8] = [
        (&[0x62, 0xf1, 0x78, 0x08, 0x28, 0xc1], Operation::Vmovaps),
        (&[0x62, 0xf1, 0x78, 0x08, 0x29, 0x5c, 0x24, 0x04], Operation::Vmovaps),
        (&[0x62, 0xf2, 0xf9, 0x0a, 0xd1, 0x45, 0x98], Operation::Vpackstorelpd),
        (
            &[0x62, 0xb2, 0xf9, 0x8d, 0x90, 0x1c, 0xe5, 0x80, 0x13, 0x69, 0x00],
            Operation::Vpgatherdq,
        ),
        (&[0xc5, 0xf8, 0x93, 0xc1], Operation::Kmov),
        (&[0xc5, 0xf8, 0x92, 0xc8], Operation::Kmov),
        (&[0xc5, 0xfb, 0xae, 0x78, 0x40], Operation::Clevict0),
        (&[0xc5, 0x7b, 0xae, 0xf5], Operation::Spflt),
    ];
    for (bytes, expected) in rows {
        assert_eq!(operation(bytes), expected, "{bytes:02x?}");
    }
}

/// 62 F1 78 08 29 5C 24 04: the displacement of one byte counts in 64 bytes, 100h. Under the mask of 16-bit
/// integers it counts in 32.
#[test]
fn short_displacements_count_in_operands() {
    let mut m = Machine::new();
    m.cpu.set_gpr(gpr::RSP, DATA);
    m.set(3, counted());
    assert_eq!(m.run(&[0x62, 0xf1, 0x78, 0x08, 0x29, 0x5c, 0x24, 0x04]), Ok(()));
    assert_eq!(m.words::<16>(DATA + 0x100), counted());
    // vmovdqa32 [rsp+4*32]{sint16}, zmm3
    assert_eq!(m.run(&[0x62, 0xf1, 0x79, 0x78, 0x7f, 0x5c, 0x24, 0x04]), Ok(()));
    let halves: Vec<u8> = (0..16u16).flat_map(u16::to_le_bytes).collect();
    assert_eq!(m.read::<32>(DATA + 0x80), halves[..]);
}

/// Codes that an instruction has not, rounding where there is none, prefixes, unused fields: #UD. And so is
/// each instruction outside 64-bit mode and on a part without the unit.
#[test]
fn reserved_encodings_are_undefined() {
    let reg = Rm::Zmm(2);
    let mem = Rm::At(0);
    let valid = [
        Mvex::new(1, 0, 0, 0x58, 0, 1, mem).with(3),
        Mvex::new(1, 1, 0, 0xfe, 0, 1, mem).with(4),
        Mvex::new(1, 1, 1, 0x58, 0, 1, mem).with(2),
        Mvex::new(1, 0, 0, 0x58, 0, 1, reg).with_e(7),
        // VCMPPS with exceptions suppressed, VPADDD without.
        Mvex::new(1, 0, 0, 0xc2, 0, 1, reg).with_e(4).imm(0),
        Mvex::new(1, 1, 0, 0xfe, 0, 1, reg).with_e(0),
        // VPGATHERDD.
        Mvex::new(2, 1, 0, 0x90, 0, 0, Rm::Vsib(1, 0)).masked(1),
    ];
    let invalid = [
        // Integers from binary16, doubles from bytes, a broadcast by VMOVAPS, a swizzle by VPERMD.
        Mvex::new(1, 1, 0, 0xfe, 0, 1, mem).with(3),
        Mvex::new(1, 1, 1, 0x58, 0, 1, mem).with(4),
        Mvex::new(1, 0, 0, 0x28, 0, 0, mem).with(1),
        Mvex::new(2, 1, 0, 0x36, 0, 1, reg).with(1),
        // Rounding of a comparison, and of integers.
        Mvex::new(1, 0, 0, 0xc2, 0, 1, reg).with_e(1).imm(0),
        Mvex::new(1, 1, 0, 0xfe, 0, 1, reg).with_e(1),
        Mvex::new(1, 1, 0, 0xfe, 0, 1, reg).with_e(4),
        // vvvv of VMOVAPS, which has two operands.
        Mvex::new(1, 0, 0, 0x28, 0, 1, reg),
        // A gather without a mask, and to its own index; VADDSETPS without a mask.
        Mvex::new(2, 1, 0, 0x90, 0, 0, Rm::Vsib(1, 0)),
        Mvex::new(2, 1, 0, 0x90, 1, 0, Rm::Vsib(1, 0)).masked(1),
        Mvex::new(2, 1, 0, 0xcc, 0, 1, reg),
        // An opcode that decodes and has no description.
        Mvex::new(2, 1, 0, 0x48, 0, 0, reg),
    ];
    for code in valid {
        assert_ne!(operation(&code.bytes()), Operation::Invalid, "{:02x?}", code.bytes());
    }
    for code in invalid {
        assert_eq!(operation(&code.bytes()), Operation::Invalid, "{:02x?}", code.bytes());
    }
    for prefix in [0x66, 0xf2, 0xf3, 0xf0, 0x48] {
        let bytes = [&[prefix][..], &valid[0].bytes()].concat();
        assert_eq!(operation(&bytes), Operation::Invalid, "{bytes:02x?}");
        let kand = [prefix, 0xc5, 0xf8, 0x41, 0xc1];
        assert_eq!(operation(&kand), Operation::Invalid, "{kand:02x?}");
    }
    let mut cpu = Machine::new().cpu;
    let kand: &[u8] = &[0xc5, 0xf8, 0x41, 0xc1];
    let of = |cpu: &Cpu, bytes: &[u8]| lower_bytes(&Lowering::of(cpu), bytes).map(|both| both.1.op);
    assert_eq!(of(&cpu, kand), Some(Operation::Kand));
    cpu.features = Features { vpu: false, ..PART };
    for bytes in [kand, &valid[0].bytes(), &[0xc5, 0xf8, 0x18, 0x08]] {
        assert_eq!(of(&cpu, bytes), Some(Operation::Invalid));
    }
    cpu.features = PART;
    // 32-bit code.
    cpu.set_segment(seg::CS, Segment { attributes: 0xc09b, ..*cpu.segment(seg::CS) });
    for bytes in [kand, &valid[3].bytes()] {
        assert_eq!(of(&cpu, bytes), Some(Operation::Invalid), "{bytes:02x?}");
    }
}
