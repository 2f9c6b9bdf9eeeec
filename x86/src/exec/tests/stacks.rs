//! PUSH, POP, PUSHA, POPA, ENTER, LEAVE.

use iced_x86::code_asm::*;

use super::Machine;
use crate::{insn::gpr, mode::CodeSize, stop::Stop};

/// APM 2, section 6.2 in effect: a 16-bit stack pointer wraps and leaves the rest of RSP alone; an
/// operand across the limit is #SS(0).
#[test]
fn stack_of_16_bits_wraps() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RAX, 0x1122_3344);
    m.set(gpr::RSP, 0x1234_0000);
    m.exec(|a| a.push(ax)).unwrap();
    assert_eq!((m.get(gpr::RSP), m.read_u16(0xfffe)), (0x1234_fffe, 0x3344));
    m.exec(|a| a.pop(bx)).unwrap();
    assert_eq!((m.get(gpr::RSP), m.get(gpr::RBX)), (0x1234_0000, 0x3344));
    m.set(gpr::RSP, 1);
    assert_eq!(m.exec(|a| a.push(ax)), Err(Stop::SS0));
    assert_eq!(m.get(gpr::RSP), 1);
    m.set(gpr::RSP, 0x100);
    m.exec(|a| a.push(eax)).unwrap();
    assert_eq!((m.get(gpr::RSP), m.read_u32(0xfc)), (0xfc, 0x1122_3344));
}

/// APM 3, PUSH, POP in 64-bit mode: 64 or 16 bits; immediates are sign-extended.
#[test]
fn long_stack() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x8000);
    m.exec(|a| a.push(-2)).unwrap();
    assert_eq!((m.get(gpr::RSP), m.read_u64(0x7ff8)), (0x7ff8, u64::MAX - 1));
    m.exec(|a| a.push(ax)).unwrap();
    assert_eq!(m.get(gpr::RSP), 0x7ff6);
    m.exec(|a| a.pop(bx)).unwrap();
    m.exec(|a| a.pop(rcx)).unwrap();
    assert_eq!((m.get(gpr::RSP), m.get(gpr::RCX)), (0x8000, u64::MAX - 1));
    // PUSH RSP pushes it as it was; POP RSP leaves what was read.
    m.exec(|a| a.push(rsp)).unwrap();
    assert_eq!(m.read_u64(0x7ff8), 0x8000);
    m.write_u64(0x7ff8, 0x6000);
    m.exec(|a| a.pop(rsp)).unwrap();
    assert_eq!(m.get(gpr::RSP), 0x6000);
    // 66h PUSH imm16 (68h) takes two bytes.
    m.exec_bytes(&[0x66, 0x68, 0x34, 0x82]).unwrap();
    assert_eq!((m.get(gpr::RSP), m.read_u16(0x5ffe)), (0x5ffe, 0x8234));
}

/// APM 3, POP: the address of a memory destination is computed with rSP already moved.
#[test]
fn memory_operands() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x7000);
    m.write_u64(0x7000, 0x1234);
    m.exec(|a| a.pop(qword_ptr(rsp + 8))).unwrap();
    assert_eq!((m.read_u64(0x7010), m.get(gpr::RSP)), (0x1234, 0x7008));
    m.exec(|a| a.push(qword_ptr(rsp + 8))).unwrap();
    assert_eq!((m.read_u64(0x7000), m.get(gpr::RSP)), (0x1234, 0x7000));
    // A destination that faults leaves rSP where it was.
    m.set(gpr::RBX, 1 << 63);
    assert_eq!(m.exec(|a| a.pop(qword_ptr(rbx))), Err(Stop::GP0));
    assert_eq!(m.get(gpr::RSP), 0x7000);
}

/// APM 2, section 5.3.1: a stack address that is not canonical is #SS(0), others are #GP(0).
#[test]
fn address_not_canonical() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x0001_0000_0000_0000);
    m.set(gpr::RBP, 0x0001_0000_0000_0000);
    assert_eq!(m.exec(|a| a.push(rax)), Err(Stop::SS0));
    assert_eq!(m.exec(|a| a.pop(rax)), Err(Stop::SS0));
    assert_eq!(m.exec(CodeAssembler::leave), Err(Stop::SS0));
    assert_eq!(m.exec(|a| a.enter(0, 0)), Err(Stop::SS0));
    assert_eq!(m.exec(CodeAssembler::ret), Err(Stop::SS0));
    assert_eq!(m.get(gpr::RSP), 0x0001_0000_0000_0000);
}

/// APM 3, PUSHA, POPA: RAX first, RSP as before, and not popped. The stack wraps in the middle.
#[test]
fn all_registers() {
    let mut m = Machine::new(CodeSize::Bits16);
    for (r, value) in (0u8..8).zip([10, 11, 12, 13, 8, 15, 16, 17]) {
        m.set(r, value);
    }
    m.exec(CodeAssembler::pusha).unwrap();
    assert_eq!(m.get(gpr::RSP), 0xfff8);
    let words: Vec<u16> =
        [6, 4, 2, 0, 0xfffe, 0xfffc, 0xfffa, 0xfff8].map(|at| m.read_u16(at)).to_vec();
    assert_eq!(words, [10, 11, 12, 13, 8, 15, 16, 17]);
    for r in 0..8 {
        if r != gpr::RSP {
            m.set(r, 0);
        }
    }
    m.exec(CodeAssembler::popa).unwrap();
    let registers: Vec<u64> = (0..8).map(|r| m.get(r)).collect();
    assert_eq!(registers, [10, 11, 12, 13, 8, 15, 16, 17]);
    // With a slot across the limit nothing is written.
    m.set(gpr::RSP, 7);
    m.write(0, &[0x5a; 8]);
    assert_eq!(m.exec(CodeAssembler::pusha), Err(Stop::SS0));
    assert_eq!((m.get(gpr::RSP), m.read::<8>(0)), (7, [0x5a; 8]));
}

/// APM 3, ENTER with nesting: the outer frame pointers are copied, then the new one; LEAVE.
#[test]
fn nested_frames() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x8000);
    m.set(gpr::RBP, 0x9000);
    m.write_u64(0x8ff8, 0xa1);
    m.write_u64(0x8ff0, 0xa2);
    m.exec(|a| a.enter(0x20, 3)).unwrap();
    let pushed: Vec<u64> = [0x7ff8, 0x7ff0, 0x7fe8, 0x7fe0].map(|at| m.read_u64(at)).to_vec();
    assert_eq!(pushed, [0x9000, 0xa1, 0xa2, 0x7ff8]);
    assert_eq!((m.get(gpr::RBP), m.get(gpr::RSP)), (0x7ff8, 0x7fc0));
    m.exec(CodeAssembler::leave).unwrap();
    assert_eq!((m.get(gpr::RBP), m.get(gpr::RSP)), (0x9000, 0x8000));
    // The level counts modulo 32.
    m.exec(|a| a.enter(8, 32)).unwrap();
    assert_eq!((m.get(gpr::RBP), m.get(gpr::RSP)), (0x7ff8, 0x7ff0));
}

/// APM 3, ENTER: with 16-bit operands only BP changes; a fault at the last step undoes all.
#[test]
fn frames_of_16_bits() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RSP, 0x0002);
    m.set(gpr::RBP, 0x7777_1234);
    m.exec(|a| a.enter(4, 0)).unwrap();
    assert_eq!((m.get(gpr::RBP), m.get(gpr::RSP)), (0x7777_0000, 0xfffc));
    assert_eq!(m.read_u16(0), 0x1234);
    m.set(gpr::RSP, 0x0002);
    assert_eq!(m.exec(|a| a.enter(1, 0)), Err(Stop::SS0));
    assert_eq!((m.get(gpr::RBP), m.get(gpr::RSP)), (0x7777_0000, 2));
}
