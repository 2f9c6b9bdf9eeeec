//! Undoing the delivery of an exception. The oracle is the state before the delivery: unwinding is
//! the inverse of what chapter 8 of the manual describes, whatever the gate.

use x86_cpu::cpu::Cpu;
use x86_cpu::descriptor::Segment;
use x86_cpu::stop::Exception;
use x86_cpu::unwind::Unwound;

use crate::machine::*;

const UD: u8 = 6;
const NP: u8 = 11;
const GP: u8 = 13;
/// CF, PF, AF, ZF, SF, TF, IF, DF, OF, IOPL, NT, AC, VIF, VIP, ID: all of RFLAGS but RF and VM.
const FLAGS: u64 = 0x003c_7fd5;
const AC: u64 = 1 << 18;
const INTERRUPT32: u8 = 0x8e;
const TRAP32: u8 = 0x8f;
const INTERRUPT16: u8 = 0x86;
const TRAP16: u8 = 0x87;

/// All that a delivery can change.
#[derive(Debug, PartialEq)]
struct State {
    rip: u64,
    gprs: Vec<u64>,
    rflags: u64,
    segments: Vec<Segment>,
    cpl: u8,
    cr2: u64,
    nmi_blocked: bool,
}

fn state(cpu: &Cpu) -> State {
    State {
        rip: cpu.rip,
        gprs: (0..16).map(|n| cpu.gpr(n)).collect(),
        rflags: cpu.rflags(),
        segments: (0..6).map(|n| *cpu.segment(n)).collect(),
        cpl: cpu.cpl(),
        cr2: cpu.cr2,
        nmi_blocked: cpu.nmi_blocked(),
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Delivers #UD, #NP and #GP with gates of type `gate` from random registers, and expects each to be
/// undone. `rf`: RF is in the frame and so set afterwards.
fn there_and_back(make: impl Fn() -> Machine, gate: Option<(u8, u64)>, rf: bool, fixed: u64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (vector, code) in [(UD, None), (NP, Some(0x48)), (GP, Some(0)), (GP, Some(0xfff8))] {
        for blocked in [false, true] {
            for _ in 0..16 {
                let mut m = make();
                if let Some((access, ist)) = gate {
                    m.set_gate(vector, access.into(), ist);
                }
                let real = m.cpu.cr0() & 1 == 0;
                let code = if real { None } else { code };
                let wide = m.cpu.efer() & 0x400 != 0;
                for n in (0..16).filter(|&n| n != RSP) {
                    let value = random.next();
                    m.cpu.set_gpr(n, if wide { value } else { value & 0xffff_ffff });
                }
                m.cpu.rip = CODE + (random.next() & 0xff);
                m.cpu.set_rflags(random.next() & FLAGS & !fixed | m.cpu.rflags() & (VM | fixed));
                m.cpu.cr2 = random.next();
                m.cpu.set_nmi_blocked(blocked);
                let mut expected = state(&m.cpu);
                m.exception(vector, code);
                assert_ne!(state(&m.cpu).rip, expected.rip);
                if rf {
                    expected.rflags |= RF;
                }
                let unwound = m.unwind(vector);
                let exception = Exception { vector, code };
                assert_eq!(unwound, Some(Unwound { exception, proven: rf }), "{expected:x?}");
                assert_eq!(state(&m.cpu), expected);
            }
        }
    }
}

#[test]
fn from_long_mode() {
    for gate in [(INTERRUPT32, 0), (TRAP32, 0), (INTERRUPT32, 1), (TRAP32, 1)] {
        there_and_back(Machine::long, Some(gate), true, 0);
        there_and_back(|| Machine::long().at_user(), Some(gate), true, 0);
        let compatibility = || {
            let mut m = Machine::long().at_user();
            let attributes = 0xc0fb;
            let cs = Segment { selector: sel::USER_CODE32, base: 0, limit: u32::MAX, attributes };
            m.cpu.set_segment(CS, cs);
            m
        };
        there_and_back(compatibility, Some(gate), true, 0);
    }
}

/// 64-bit frames are aligned to 16 bytes; what was below the alignment is in the frame.
#[test]
fn from_a_misaligned_stack() {
    for off in 1..16 {
        let make = || {
            let mut m = Machine::long();
            m.cpu.set_gpr(RSP, KERNEL_STACK - 0x200 + off);
            m
        };
        there_and_back(make, None, true, 0);
    }
}

#[test]
fn from_protected_mode() {
    for access in [INTERRUPT32, TRAP32] {
        there_and_back(Machine::protected, Some((access, 0)), true, 0);
        there_and_back(|| Machine::protected().at_user(), Some((access, 0)), true, 0);
    }
    // A 16-bit frame has no RF, and only half of RFLAGS, RIP and RSP.
    for access in [INTERRUPT16, TRAP16] {
        there_and_back(Machine::protected, Some((access, 0)), false, 0);
    }
}

/// A KVM that interprets code at CPL 0 clears AC when it delivers an exception, which the manual has
/// it leave alone. The frame has it.
#[test]
fn from_a_delivery_that_clears_ac() {
    for access in [INTERRUPT32, TRAP32] {
        let mut m = Machine::protected();
        m.set_gate(GP, access.into(), 0);
        m.cpu.set_rflags(2 | AC);
        m.exception(GP, Some(0));
        m.cpu.set_rflags(m.cpu.rflags() & !AC);
        let exception = Exception { vector: GP, code: Some(0) };
        assert_eq!(m.unwind(GP), Some(Unwound { exception, proven: true }));
        assert_eq!(m.cpu.rflags(), 2 | AC | RF);
    }
}

/// The segment registers of a virtual-8086 task are in the frame as well.
#[test]
fn from_virtual_8086_mode() {
    let make = || {
        let mut m = Machine::protected();
        m.cpu.set_rflags(2 | VM);
        for (n, selector) in (0..6).zip([0x500, 0x7f0, 0x600, 0x900, 0xa00, 0xb00]) {
            let base = u64::from(selector) << 4;
            m.cpu.set_segment(n, Segment { selector, base, limit: 0xffff, attributes: 0xf3 });
        }
        m.cpu.set_cpl(3);
        m.cpu.set_gpr(RSP, 0x100);
        m
    };
    for access in [INTERRUPT32, TRAP32] {
        there_and_back(make, Some((access, 0)), true, 0);
    }
}

/// Real mode pushes three words and no error code, and the handler loses AC.
#[test]
fn from_real_mode() {
    let make = || {
        let mut m = Machine::real();
        // As a far transfer leaves it.
        m.cpu.set_segment(CS, Segment { attributes: 0x93, ..*m.cpu.segment(CS) });
        m
    };
    there_and_back(make, None, false, AC);
}

/// Where nothing was delivered there is nothing to undo, and nothing changes.
#[test]
fn a_jump_to_the_handler_is_no_exception() {
    for mut m in [Machine::long(), Machine::protected(), Machine::long().at_user()] {
        for vector in [UD, GP] {
            m.cpu.rip = HANDLERS + 16 * u64::from(vector);
            let expected = state(&m.cpu);
            assert_eq!(m.unwind(vector), None);
            assert_eq!(state(&m.cpu), expected);
        }
    }
}

/// INT n leaves RF clear in its frame, which points behind it; #UD and #GP come with RF set.
#[test]
fn int_n_is_no_fault() {
    for mut m in [Machine::long(), Machine::protected()] {
        for vector in [UD, GP] {
            m.write(CODE, &[0xcd, vector]);
            m.cpu.rip = CODE;
            m.step(1);
            assert_eq!(m.cpu.rip, HANDLERS + 16 * u64::from(vector));
            let expected = state(&m.cpu);
            assert_eq!(m.unwind(vector), None);
            assert_eq!(state(&m.cpu), expected);
        }
    }
}

/// Neither is an external interrupt.
#[test]
fn an_interrupt_is_no_fault() {
    for mut m in [Machine::long(), Machine::protected().at_user()] {
        m.cpu.rip = CODE;
        m.interrupt(UD);
        let expected = state(&m.cpu);
        assert_eq!(m.unwind(UD), None);
        assert_eq!(state(&m.cpu), expected);
    }
}

/// #UD and #GP may share a handler: the frames differ by the error code.
#[test]
fn the_frame_tells_two_vectors_of_one_handler_apart() {
    for make in [Machine::long, Machine::protected, || Machine::long().at_user()] {
        for (delivered, code, other) in [(UD, None, GP), (GP, Some(0), UD)] {
            let mut m = make();
            let from = m.read_u64(IDT + if m.cpu.efer() != 0 { 16 * 6 } else { 8 * 6 });
            m.write_u64(IDT + if m.cpu.efer() != 0 { 16 * 13 } else { 8 * 13 }, from);
            m.cpu.rip = CODE;
            let mut expected = state(&m.cpu);
            m.exception(delivered, code);
            assert_eq!(m.unwind(other), None);
            assert!(m.unwind(delivered).is_some());
            expected.rflags |= RF;
            assert_eq!(state(&m.cpu), expected);
        }
    }
}
