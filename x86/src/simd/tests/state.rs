//! MXCSR, FXSAVE, FXRSTOR, and the x87 state that MMX instructions leave (APM volume 2, section
//! 11.4; volume 1, section 5.12).

use super::{CR0_PE, CR4_OSFXSR, DATA, EFER_LMA, Machine};
use crate::stop::Stop;

const LDMXCSR: &[u8] = &[0x0f, 0xae, 0x16];
const FXSAVE: &[u8] = &[0x0f, 0xae, 0x06];
const FXRSTOR: &[u8] = &[0x0f, 0xae, 0x0e];
const EFER_FFXSR: u64 = 1 << 14;

#[test]
fn ldmxcsr_refuses_reserved_bits() {
    let mut machine = Machine::new();
    assert_eq!(machine.cpu.simd.mxcsr, 0x1f80);
    machine.write(DATA, &0xffffu32.to_le_bytes());
    assert_eq!(machine.run(LDMXCSR), Ok(()));
    assert_eq!(machine.cpu.simd.mxcsr, 0xffff);
    machine.write(DATA, &0x0001_0000u32.to_le_bytes());
    assert_eq!(machine.run(LDMXCSR), Err(Stop::GP0));
    assert_eq!(machine.cpu.simd.mxcsr, 0xffff);
    // DAZ came with SSE2.
    machine.cpu.features.sse2 = false;
    machine.write(DATA, &0x0040u32.to_le_bytes());
    assert_eq!(machine.run(LDMXCSR), Err(Stop::GP0));
}

fn filled() -> Machine {
    let mut machine = Machine::new();
    for n in 0..16u8 {
        machine.cpu.simd.xmm[usize::from(n)] = u128::from_le_bytes([n + 1; 16]);
    }
    for n in 0..8 {
        machine.cpu.fpu.set_mmx(n, u64::from(n) + 0x10);
    }
    machine.cpu.fpu.enter_mmx();
    machine.cpu.simd.mxcsr = 0x3fa0;
    machine.write(DATA, &[0xcc; 512]);
    machine
}

#[test]
fn fxsave_and_back() {
    let mut machine = filled();
    machine.run(FXSAVE).expect("no exception");
    let area: [u8; 512] = machine.read(DATA);
    // Abridged tag: all valid. MXCSR and its mask.
    assert_eq!(area[4], 0xff);
    assert_eq!(area[24..32], [0xa0, 0x3f, 0, 0, 0xff, 0xff, 0, 0]);
    for n in 0..8u8 {
        let at = 32 + 16 * usize::from(n);
        assert_eq!(area[at..at + 10], [n + 0x10, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }
    for n in 0..16u8 {
        let at = 160 + 16 * usize::from(n);
        assert_eq!(area[at..at + 16], [n + 1; 16]);
    }
    // What is behind belongs to the program.
    assert_eq!(area[416..], [0xcc; 96]);
    let (fpu, simd) = (machine.cpu.fpu, machine.cpu.simd);
    machine.cpu.fpu = crate::x87::Fpu::default();
    machine.cpu.simd = crate::simd::Simd::default();
    machine.run(FXRSTOR).expect("no exception");
    assert_eq!(machine.cpu.fpu, fpu);
    assert_eq!(machine.cpu.simd, simd);
}

/// Outside 64-bit mode eight XMM registers; with EFER.FFXSR at CPL 0 in 64-bit mode none.
#[test]
fn how_many_registers_are_saved() {
    let mut machine = filled();
    machine.cpu.set_control(CR0_PE, 0, CR4_OSFXSR, EFER_LMA | EFER_FFXSR);
    machine.run(FXSAVE).expect("no exception");
    assert_eq!(machine.read::<256>(DATA + 160), [0xcc; 256]);
    assert_eq!(machine.read::<4>(DATA + 24), 0x3fa0u32.to_le_bytes());
    machine.run(FXRSTOR).expect("no exception");
    assert_eq!(machine.cpu.simd.xmm[3], u128::from_le_bytes([4; 16]));
    machine.cpu.set_cpl(3);
    machine.run(FXSAVE).expect("no exception");
    assert_eq!(machine.read::<16>(DATA + 400), [16; 16]);
    // A 32-bit code segment.
    let mut machine = filled();
    let mut cs = *machine.cpu.segment(1);
    cs.attributes = 0xc09b;
    machine.cpu.set_control(CR0_PE, 0, CR4_OSFXSR, 0);
    machine.cpu.set_segment(1, cs);
    let mut ds = *machine.cpu.segment(3);
    (ds.limit, ds.attributes) = (u32::MAX, 0xc093);
    machine.cpu.set_segment(3, ds);
    machine.run(FXSAVE).expect("no exception");
    assert_eq!(machine.read::<16>(DATA + 272), [8; 16]);
    assert_eq!(machine.read::<128>(DATA + 288), [0xcc; 128]);
}

#[test]
fn fxrstor_refuses_reserved_mxcsr_bits() {
    let mut machine = filled();
    machine.run(FXSAVE).expect("no exception");
    machine.write(DATA + 26, &[1]);
    machine.write(DATA + 160, &[0x55]);
    let (fpu, simd) = (machine.cpu.fpu, machine.cpu.simd);
    assert_eq!(machine.run(FXRSTOR), Err(Stop::GP0));
    assert_eq!((machine.cpu.fpu, machine.cpu.simd), (fpu, simd));
}

/// Any MMX instruction makes all registers valid and TOP zero, one that only reads included; EMMS
/// and FEMMS make them empty.
#[test]
fn mmx_and_the_x87_tags() {
    const EMPTY: u16 = 0xffff;
    const EMMS: &[u8] = &[0x0f, 0x77];
    const FEMMS: &[u8] = &[0x0f, 0x0e];
    // MOVQ MM0, MM1; MOVQ [RSI], MM1; MOVD EAX, MM1; PMOVMSKB EAX, MM1; PEXTRW EAX, MM1, 0;
    // MOVQ2DQ XMM0, MM1; CVTPI2PS XMM0, MM1; CVTPI2PD XMM0, MM1; PFADD MM0, MM1;
    // MASKMOVQ MM0, MM1; MOVNTQ [RSI], MM1.
    let users: [&[u8]; 11] = [
        &[0x0f, 0x6f, 0xc1],
        &[0x0f, 0x7f, 0x0e],
        &[0x0f, 0x7e, 0xc8],
        &[0x0f, 0xd7, 0xc1],
        &[0x0f, 0xc5, 0xc1, 0x00],
        &[0xf3, 0x0f, 0xd6, 0xc1],
        &[0x0f, 0x2a, 0xc1],
        &[0x66, 0x0f, 0x2a, 0xc1],
        &[0x0f, 0x0f, 0xc1, 0x9e],
        &[0x0f, 0xf7, 0xc1],
        &[0x0f, 0xe7, 0x0e],
    ];
    for (n, code) in users.into_iter().enumerate() {
        let mut machine = Machine::new();
        machine.run(if n & 1 == 0 { EMMS } else { FEMMS }).expect("no exception");
        assert_eq!(machine.cpu.fpu.tag_word(), EMPTY);
        machine.cpu.fpu.decrement_top();
        machine.run(code).expect("no exception");
        let tags = machine.cpu.fpu.tag_word();
        assert!((0..8).all(|n| tags >> (2 * n) & 3 != 3), "{code:x?}: {tags:x}");
        assert_eq!(machine.cpu.fpu.status_word() >> 11 & 7, 0, "{code:x?}");
    }
    // CVTPI2PS and CVTPI2PD from memory leave the x87 state alone.
    let from_memory: [&[u8]; 2] = [&[0x0f, 0x2a, 0x06], &[0x66, 0x0f, 0x2a, 0x06]];
    for code in from_memory {
        let mut machine = Machine::new();
        machine.run(EMMS).expect("no exception");
        machine.run(code).expect("no exception");
        assert_eq!(machine.cpu.fpu.tag_word(), EMPTY, "{code:x?}");
    }
}
