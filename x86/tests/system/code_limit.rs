//! The end of the code segment: an instruction with a byte beyond the limit of CS is #GP(0) (section
//! 8.2.14, "#GP": exceeding a segment limit), and nothing behind the limit is fetched.

use x86_cpu::{descriptor::Segment, run::Exit};

use crate::machine::*;

const GP: u64 = 13;
const PF: u64 = 14;
const HLT: u8 = 0xf4;
const NOP: u8 = 0x90;

/// RIP and error code that the handler of #GP finds.
fn saved(m: &Machine) -> (u64, Option<u64>) {
    // Real mode pushes words, and no error code.
    if m.cpu.cr0() & 1 == 0 {
        (u64::from(m.read_u16(m.cpu.gpr(RSP))), None)
    } else {
        (m.stack(1), Some(m.stack(0)))
    }
}

/// One byte after the other comes inside the limit.
#[test]
fn beyond_the_limit_of_cs() {
    // MOV EBX, imm32, alone and behind NOPs.
    let mov = [0xbb, 1, 2, 3, 4];
    for before in [0, 1, 3] {
        for inside in 0..=6 {
            let mut m = Machine::protected();
            let code = [vec![NOP; before], mov.to_vec(), vec![HLT]].concat();
            let at = CODE + before as u64;
            m.write(CODE, &code);
            m.cpu.rip = CODE;
            let limit = (at + inside) as u32 - 1;
            let cs = Segment { limit, ..*m.cpu.segment(CS) };
            m.cpu.set_segment(CS, cs);
            assert_eq!(m.run(), Exit::Halt);
            if inside == 6 {
                assert_eq!(m.cpu.rip, at + 6);
            } else {
                let rip = if inside == 5 { at + 5 } else { at };
                assert_eq!((m.handler(), saved(&m)), (GP, (rip, Some(0))), "{before} {inside}");
                assert_eq!(m.cpu.gpr(3), if inside == 5 { 0x0403_0201 } else { 0 });
            }
        }
    }
    // At the end of 64 KiB in real mode; 16-bit code does not wrap in the middle of an instruction.
    let mut m = Machine::real();
    m.write(0xfffe, &[0xb8, 1, 2, HLT]);
    m.cpu.rip = 0xfffe;
    assert_eq!((m.vector(), saved(&m)), (GP, (0xfffe, None)));
}

/// The same where translations made under a larger limit are at hand.
#[test]
fn beyond_a_limit_that_shrank() {
    let mut m = Machine::protected();
    let code = [vec![NOP; 3], vec![0xbb, 1, 2, 3, 4, HLT]].concat();
    m.write(CODE, &code);
    let large = *m.cpu.segment(CS);
    for inside in 0..=8 {
        m.cpu.set_segment(CS, large);
        m.cpu.rip = CODE;
        assert_eq!(m.run(), Exit::Halt);
        assert_eq!(m.cpu.rip, CODE + 9);
        m.cpu.set_segment(CS, Segment { limit: (CODE + inside) as u32 - 1, ..large });
        m.cpu.rip = CODE;
        assert_eq!(m.run(), Exit::Halt);
        let fault = if inside < 3 || inside == 8 { CODE + inside } else { CODE + 3 };
        assert_eq!((m.handler(), saved(&m)), (GP, (fault, Some(0))), "{inside}");
    }
}

/// A limit that ends with the page comes before a page fault in the next.
#[test]
fn the_limit_comes_before_the_next_page() {
    // Legacy paging: one page table for the first four megabytes, without the second page.
    const SECOND_PAGE: u64 = 0x6000;
    const DIRECTORY: u64 = 0x10000;
    const TABLE: u64 = 0x11000;
    for (limit, vector) in [(SECOND_PAGE - 1, GP), (SECOND_PAGE, PF)] {
        let mut m = Machine::protected();
        m.write_u32(DIRECTORY, TABLE as u32 | 7);
        for page in 0..512_u64 {
            let present = if page << 12 == SECOND_PAGE { 0 } else { 7 };
            m.write_u32(TABLE + 4 * page, (page << 12) as u32 | present);
        }
        m.cpu.set_control(m.cpu.cr0() | 1 << 31, DIRECTORY, 0, 0);
        let cs = Segment { limit: limit as u32, ..*m.cpu.segment(CS) };
        m.cpu.set_segment(CS, cs);
        m.write(SECOND_PAGE - 2, &[0xbb, 1]);
        m.cpu.rip = SECOND_PAGE - 2;
        assert_eq!(m.vector(), vector, "{limit:x}");
    }
}
