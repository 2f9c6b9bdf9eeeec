//! String instructions, and that the way taken for many elements at once cannot be told from the
//! way of one at a time.

use iced_x86::code_asm::*;

use super::{CF, DF, Machine, PF, SF, ZF};
use crate::{class::Class, descriptor::Segment, insn::gpr, mode::CodeSize, stop::Stop};

/// 64-bit mode with RDI, RSI and RCX set.
fn long(to: u64, from: u64, count: u64) -> Machine {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RDI, to);
    m.set(gpr::RSI, from);
    m.set(gpr::RCX, count);
    // The software TLB has the translations, as after an access, so that the fast path is open.
    for page in 0..32 {
        let at = page * 0x1000;
        m.set(gpr::RBX, at);
        m.plain(|a| a.or(byte_ptr(rbx), 0)).unwrap();
    }
    m.cpu.time = 0;
    m
}

fn registers(m: &Machine) -> (u64, u64, u64) {
    (m.get(gpr::RDI), m.get(gpr::RSI), m.get(gpr::RCX))
}

/// APM 3, MOVS, STOS, LODS: one element, both directions.
#[test]
fn one_element() {
    let mut m = long(0x3000, 0x4000, 7);
    m.write_u64(0x4000, 0x1122_3344_5566_7788);
    m.exec(CodeAssembler::movsw).unwrap();
    assert_eq!((m.read_u64(0x3000), registers(&m)), (0x7788, (0x3002, 0x4002, 7)));
    m.set_flags(DF);
    m.exec(CodeAssembler::lodsb).unwrap();
    assert_eq!((m.get(gpr::RAX), registers(&m)), (0x66, (0x3002, 0x4001, 7)));
    m.exec(CodeAssembler::stosd).unwrap();
    assert_eq!((m.read_u64(0x3000), m.get(gpr::RDI)), (0x66_7788, 0x2ffe));
}

/// A copy across pages at odd addresses; the time is one cycle for each element, the last of which
/// the run loop adds.
#[test]
fn copies_across_pages() {
    let source: Vec<u8> = (0..10_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
    for counted in [false, true] {
        let mut m = long(0x8123, 0x2ff7, 10_000);
        m.write(0x2ff7, &source);
        let step = if counted { Machine::exec } else { Machine::plain };
        step(&mut m, |a| a.rep().movsb()).unwrap();
        let copy = (0..10_000u64).map(|n| m.read::<1>(0x8123 + n)[0]).collect::<Vec<_>>();
        assert_eq!(copy, source);
        assert_eq!(registers(&m), (0x8123 + 10_000, 0x2ff7 + 10_000, 0));
        assert_eq!((m.cpu.time, m.cpu.retired), (9_999, 0));
        assert_eq!(m.facts.misaligned, 0);
    }
}

/// APM 3, MOVS: elements go one by one, so a destination just behind the source repeats it; the
/// overlap is found in physical memory.
#[test]
fn overlapping_copies() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = long(0x3003, 0x3000, 9);
        m.write(0x3000, b"abc");
        step(&mut m, |a| a.rep().movsb()).unwrap();
        assert_eq!(m.read::<12>(0x3000), *b"abcabcabcabc");
        // The other way round nothing repeats.
        let mut m = long(0x3000, 0x3001, 8);
        m.write(0x3000, b"abcdefghi");
        step(&mut m, |a| a.rep().movsb()).unwrap();
        assert_eq!(m.read::<9>(0x3000), *b"bcdefghii");
        // Downwards, from the last element.
        let mut m = long(0x3007, 0x3006, 7);
        m.write(0x3000, b"abcdefgh");
        m.set_flags(DF);
        step(&mut m, |a| a.rep().movsb()).unwrap();
        assert_eq!(m.read::<8>(0x3000), *b"aabcdefg");
        assert_eq!(registers(&m), (0x3000, 0x2fff, 0));
    }
}

/// APM 3, STOS of each width, of a value with equal and with different bytes.
#[test]
fn fills() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = long(0x3ff8, 0, 5);
        m.set(gpr::RAX, 0x0123_4567_89ab_cdef);
        step(&mut m, |a| a.rep().stosq()).unwrap();
        assert_eq!(m.read_u64(0x3ff0), 0);
        for n in 0..5 {
            assert_eq!(m.read_u64(0x3ff8 + 8 * n), 0x0123_4567_89ab_cdef);
        }
        assert_eq!((m.read_u64(0x4020), m.get(gpr::RDI)), (0, 0x4020));
        m.set(gpr::RCX, 3);
        step(&mut m, |a| a.rep().stosw()).unwrap();
        assert_eq!(m.read_u64(0x4020), 0xcdef_cdef_cdef);
        m.set(gpr::RCX, 2);
        m.set(gpr::RAX, 0x5555_5555);
        step(&mut m, |a| a.rep().stosd()).unwrap();
        assert_eq!(m.read_u64(0x4026), 0x5555_5555_5555_5555);
    }
}

/// K8 event 47h: each element that crosses an eight-byte boundary counts.
#[test]
fn misaligned_elements_count() {
    // Of nine doublewords from ...2h, those at offsets 6h, eh, 16h, 1eh cross.
    let mut m = long(0x3002, 0, 9);
    m.exec(|a| a.rep().stosd()).unwrap();
    assert_eq!(m.facts.misaligned, 4);
    let mut m = long(0x3004, 0x4004, 8);
    m.exec(|a| a.rep().movsd()).unwrap();
    assert_eq!(m.facts.misaligned, 0);
}

/// The instruction stops at the deadline, and takes as long in all as without.
#[test]
fn stops_at_the_deadline() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = long(0x3000, 0, 100);
        m.cpu.deadline = 10;
        let rip = m.cpu.rip;
        assert_eq!(step(&mut m, |a| a.rep().stosb()), Err(Stop::RESTART));
        assert_eq!((registers(&m), m.cpu.time, m.cpu.rip), ((0x300a, 0, 90), 10, rip));
        m.cpu.deadline = u64::MAX;
        step(&mut m, |a| a.rep().stosb()).unwrap();
        assert_eq!((registers(&m), m.cpu.time, m.cpu.retired), ((0x3064, 0, 0), 99, 0));
        // Something to look at: after one iteration, or what was done at once.
        let mut m = long(0x3000, 0x4000, 100);
        m.set(gpr::RAX, 1);
        m.cpu.leave.ask();
        assert_eq!(step(&mut m, |a| a.repne().scasb()), Err(Stop::RESTART));
        assert_eq!((registers(&m), m.cpu.time), ((0x3001, 0x4000, 99), 1));
    }
}

/// APM 3, REP: a count of zero does nothing; the count has the width of the addresses.
#[test]
fn counts() {
    let mut m = long(0x3000, 0x4000, 0xffff_ffff_0000_0000);
    m.set_flags(ZF);
    m.exec_bytes(&[0x67, 0xf3, 0xaa]).unwrap(); // REP STOSB with ECX
    m.exec_bytes(&[0x67, 0xf3, 0xa6]).unwrap(); // REPE CMPSB with ECX
    assert_eq!(registers(&m), (0x3000, 0x4000, 0xffff_ffff_0000_0000));
    assert_eq!(m.flags(), ZF);
    m.set(gpr::RCX, 0xffff_ffff_0000_0002);
    m.exec_bytes(&[0x67, 0xf3, 0xaa]).unwrap();
    assert_eq!(registers(&m), (0x3002, 0x4000, 0));
}

/// APM 3, CMPS, SCAS: REPE stops at a difference, REPNE at a match; the flags are those of CMP.
#[test]
fn comparisons() {
    let mut m = long(0x3000, 0x4000, 10);
    m.write(0x3000, b"pear-tree!");
    m.write(0x4000, b"pear_tree!");
    m.exec(|a| a.repe().cmpsb()).unwrap();
    // '_' - '-' = 5fh - 2dh = 32h, of three ones.
    assert_eq!((registers(&m), m.flags()), ((0x3005, 0x4005, 5), 0));
    m.exec(|a| a.repe().cmpsb()).unwrap();
    assert_eq!((registers(&m), m.flags()), ((0x300a, 0x400a, 0), ZF | PF));
    // The length of a string, as strlen has it: not of "pear_tree!" and nine more.
    let mut m = long(0x4000, 0, u64::MAX);
    m.write(0x4000, b"pear_tree!");
    m.set(gpr::RAX, 0);
    m.exec(|a| a.repne().scasb()).unwrap();
    assert_eq!((m.get(gpr::RDI), m.get(gpr::RCX)), (0x400b, u64::MAX - 11));
    // SCAS subtracts memory from the accumulator: 0 - 70h.
    m.set(gpr::RDI, 0x4000);
    m.exec(CodeAssembler::scasb).unwrap();
    assert_eq!(m.flags(), CF | SF | PF);
}

/// APM 3, REP: iterations before a fault stay done.
#[test]
fn fault_in_the_middle() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = Machine::new(CodeSize::Bits16);
        m.set(gpr::RDI, 0xfffb);
        m.set(gpr::RAX, 0x4141);
        m.set(gpr::RCX, 8);
        m.write(0xfffb, &[0; 8]);
        m.plain(|a| a.or(byte_ptr(di), 0)).unwrap();
        assert_eq!(step(&mut m, |a| a.rep().stosw()), Err(Stop::GP0));
        assert_eq!((m.get(gpr::RDI), m.get(gpr::RCX)), (0xffff, 6));
        assert_eq!(m.read::<8>(0xfffb), [0x41, 0x41, 0x41, 0x41, 0, 0, 0, 0]);
    }
}

/// APM 2, section 2.4: 16-bit addresses wrap in the segment, elements that fit one by one.
#[test]
fn addresses_of_16_bits_wrap() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = Machine::new(CodeSize::Bits16);
        m.set(gpr::RDI, 0x5555_fffc);
        m.set(gpr::RAX, 0x4241);
        m.set(gpr::RCX, 0x7777_0004);
        m.plain(|a| a.or(byte_ptr(di), 0)).unwrap();
        step(&mut m, |a| a.rep().stosw()).unwrap();
        assert_eq!((m.get(gpr::RDI), m.get(gpr::RCX)), (0x5555_0004, 0x7777_0000));
        assert_eq!((m.read::<4>(0xfffc), m.read::<4>(0)), (*b"ABAB", *b"ABAB"));
        assert_eq!(m.read_u32(0x1_0000), 0);
    }
}

/// The same in a segment that goes on behind 64 KiB and does not begin with a page.
#[test]
fn addresses_of_16_bits_wrap_within_a_page() {
    for counted in [false, true] {
        let step = if counted { Machine::exec } else { Machine::plain };
        let mut m = Machine::new(CodeSize::Bits32);
        let data = *m.cpu.segment(0);
        m.cpu.set_segment(0, Segment { base: 0x10, ..data });
        m.set(gpr::RDI, 0xfffc);
        m.set(gpr::RAX, 0x4241);
        m.set(gpr::RCX, 4);
        m.plain(|a| a.or(byte_ptr(0x1_000c), 0)).unwrap();
        // REP STOSW with DI and CX.
        step(&mut m, |a| a.db(&[0x67, 0x66, 0xf3, 0xab])).unwrap();
        assert_eq!((m.get(gpr::RDI), m.get(gpr::RCX)), (4, 0));
        assert_eq!((m.read::<8>(0x1_000c), m.read::<4>(0x10)), (*b"ABAB\0\0\0\0", *b"ABAB"));
    }
}

/// APM 3, MOVS: a segment prefix moves the source only. FS has a base in 64-bit mode, DS has none.
#[test]
fn segments() {
    let mut m = long(0x3000, 0x10, 1);
    let data = *m.cpu.segment(4);
    m.cpu.set_segment(4, Segment { base: 0x5000, ..data });
    m.cpu.set_segment(0, Segment { base: 0x5000, ..data });
    m.write_u64(0x5010, 0xabcd);
    m.exec_bytes(&[0x64, 0x48, 0xa5]).unwrap(); // MOVSQ with FS
    assert_eq!(m.read_u64(0x3000), 0xabcd);
    let class = m.lower(&m.decode_bytes(&[0xf3, 0xa4])).class;
    assert_eq!(class, Class::NONE);
}

/// MOVSD and CMPSD of SSE2 have the names of string instructions and are none.
#[test]
fn vector_namesakes() {
    let m = Machine::new(CodeSize::Bits64);
    for bytes in [&[0xf2u8, 0x0f, 0x10, 0x03][..], &[0xf2, 0x0f, 0xc2, 0xc1, 0]] {
        let instruction = m.decode_bytes(bytes);
        let lowering = crate::lower::Lowering::of(&m.cpu);
        assert!(
            super::super::lower(&lowering, &instruction, lowering.insn(&instruction)).is_none()
        );
    }
}
