//! Near control transfers.

use iced_x86::code_asm::*;

use super::{CF, Machine, ZF};
use crate::{
    descriptor::Segment,
    insn::{Form, Size, gpr},
    lower::End,
    mode::CodeSize,
    operation::Operation,
    stop::{Stop, vector},
};

/// APM 3, JMP, CALL, RET: where they go, what they push, and what is reported.
#[test]
fn jump_call_return() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x8000);
    m.exec_bytes(&[0xe9, 0xfb, 0x0f, 0, 0]).unwrap(); // JMP +FFBh
    assert_eq!((m.cpu.rip, m.cpu.slot), (0x2000, 1));
    m.exec_bytes(&[0xe8, 0xfb, 0xef, 0xff, 0xff]).unwrap(); // CALL -1005h
    assert_eq!((m.cpu.rip, m.cpu.slot, m.get(gpr::RSP)), (0x1000, 1, 0x7ff8));
    assert_eq!(m.read_u64(0x7ff8), 0x2005);
    m.exec(|a| a.ret_1(0x10)).unwrap();
    assert_eq!((m.cpu.rip, m.cpu.slot, m.get(gpr::RSP)), (0x2005, 2, 0x8010));
    m.set(gpr::RAX, 0xffff_ffff_8000_1234);
    m.exec(|a| a.call(rax)).unwrap();
    assert_eq!((m.cpu.rip, m.cpu.slot), (0xffff_ffff_8000_1234, 2));
    assert_eq!(m.read_u64(0x8008), 0x2007);
    m.write_u64(0x3000, 0x4567);
    m.exec(|a| a.jmp(qword_ptr(0x3000))).unwrap();
    assert_eq!((m.cpu.rip, m.cpu.slot), (0x4567, 2));
    assert_eq!((m.facts.branches, m.facts.taken, m.facts.near_returns), (5, 5, 1));
}

/// APM 3, JMP, CALL, RET: a target that is not canonical is #GP(0), before anything changed.
#[test]
fn target_not_canonical() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RSP, 0x8000);
    m.set(gpr::RAX, 0x0000_8000_0000_0000);
    m.write_u64(0x8000, 0x0000_8000_0000_0000);
    assert_eq!(m.exec(|a| a.jmp(rax)), Err(Stop::GP0));
    assert_eq!(m.exec(|a| a.call(rax)), Err(Stop::GP0));
    assert_eq!(m.exec(CodeAssembler::ret), Err(Stop::GP0));
    m.cpu.rip = 0x0000_7fff_ffff_fff0;
    assert_eq!(m.exec_bytes(&[0xeb, 0x7f]), Err(Stop::GP0)); // JMP +7Fh
    assert_eq!((m.get(gpr::RSP), m.facts.branches), (0x8000, 0));
}

/// APM 3, JMP: a 16-bit operand size cuts the target to 16 bits; a limit of CS is #GP(0).
#[test]
fn targets_in_legacy_modes() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.cpu.rip = 0xfff0;
    m.exec_bytes(&[0xeb, 0x20]).unwrap(); // JMP +20h
    assert_eq!(m.cpu.rip, 0x0012);
    m.exec_bytes(&[0xeb, 0x80]).unwrap(); // JMP -80h
    assert_eq!(m.cpu.rip, 0xff94);
    m.set(gpr::RAX, 0x1_0000);
    assert_eq!(m.exec(|a| a.jmp(eax)), Err(Stop::GP0));
    m.exec(|a| a.jmp(ax)).unwrap();
    assert_eq!(m.cpu.rip, 0);
    let mut m = Machine::new(CodeSize::Bits32);
    m.cpu.rip = 0xffff_fff0;
    m.exec_bytes(&[0xeb, 0x20]).unwrap();
    assert_eq!(m.cpu.rip, 0x12);
    let code = *m.cpu.segment(1);
    m.cpu.set_segment(1, Segment { limit: 0xfff, ..code });
    m.cpu.rip = 0xff0;
    m.set_flags(CF);
    assert_eq!(m.exec_bytes(&[0x72, 0x0e]), Err(Stop::GP0)); // JC to 1000h
    m.exec_bytes(&[0x72, 0x0d]).unwrap(); // JC to FFFh
    assert_eq!(m.cpu.rip, 0xfff);
}

/// A near call with a 16-bit operand in a 32-bit segment pushes two bytes.
#[test]
fn call_of_16_bits() {
    let mut m = Machine::new(CodeSize::Bits32);
    m.cpu.rip = 0x1_1000;
    m.set(gpr::RSP, 0x8000);
    m.exec_bytes(&[0x66, 0xe8, 0x00, 0x01]).unwrap(); // CALL +100h
    assert_eq!((m.cpu.rip, m.get(gpr::RSP), m.read_u16(0x7ffe)), (0x1104, 0x7ffe, 0x1004));
    m.exec_bytes(&[0x66, 0xc3]).unwrap();
    assert_eq!((m.cpu.rip, m.get(gpr::RSP)), (0x1004, 0x8000));
}

/// A call that cannot push leaves RIP and RSP.
#[test]
fn call_that_faults() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RSP, 1);
    assert_eq!(m.exec_bytes(&[0xe8, 0x10, 0x00]), Err(Stop::SS0));
    assert_eq!((m.get(gpr::RSP), m.cpu.rip, m.facts.branches), (1, 0x1000, 0));
}

/// APM 3, Jcc, LOOPcc, JCXZ: reported whether taken or not; the count has the address size.
#[test]
fn loops() {
    let mut m = Machine::new(CodeSize::Bits64);
    m.set(gpr::RCX, 0xffff_ffff_0000_0001);
    m.exec_bytes(&[0x67, 0xe2, 0x10]).unwrap(); // LOOP with ECX
    assert_eq!((m.cpu.rip, m.cpu.slot, m.get(gpr::RCX)), (0x1003, 0, 0));
    m.exec_bytes(&[0xe2, 0x10]).unwrap(); // LOOP with RCX: 0 - 1
    assert_eq!((m.cpu.rip, m.cpu.slot, m.get(gpr::RCX)), (0x1015, 1, u64::MAX));
    m.exec_bytes(&[0xe1, 0x10]).unwrap(); // LOOPE, ZF clear
    assert_eq!((m.cpu.rip, m.get(gpr::RCX)), (0x1017, u64::MAX - 1));
    m.exec_bytes(&[0xe0, 0x10]).unwrap(); // LOOPNE, ZF clear
    assert_eq!((m.cpu.rip, m.get(gpr::RCX)), (0x1029, u64::MAX - 2));
    m.set_flags(ZF);
    m.exec_bytes(&[0xe1, 0x10]).unwrap();
    assert_eq!(m.cpu.rip, 0x103b);
    m.set(gpr::RCX, 0xffff_ffff_0000_0000);
    m.exec_bytes(&[0xe3, 0x10]).unwrap(); // JRCXZ
    assert_eq!(m.cpu.rip, 0x103d);
    m.exec_bytes(&[0x67, 0xe3, 0x10]).unwrap(); // JECXZ
    assert_eq!(m.cpu.rip, 0x1050);
    assert_eq!((m.facts.branches, m.facts.taken), (7, 4));
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RCX, 0x1_0001);
    m.exec_bytes(&[0xe2, 0xfe]).unwrap(); // LOOP with CX
    assert_eq!((m.cpu.rip, m.get(gpr::RCX)), (0x1002, 0x1_0000));
}

/// APM 3, BOUND: #BR outside the closed interval, signed.
#[test]
fn bounds() {
    let mut m = Machine::new(CodeSize::Bits32);
    m.write(0x3000, &(-5i32).to_le_bytes());
    m.write(0x3004, &7i32.to_le_bytes());
    for (index, inside) in [(-5i32, true), (7, true), (-6, false), (8, false)] {
        m.set(gpr::RAX, u64::from(index as u32));
        let result = m.exec(|a| a.bound(eax, qword_ptr(0x3000)));
        let expected = if inside { Ok(()) } else { Err(Stop::fault(vector::BR)) };
        assert_eq!(result, expected, "{index}");
    }
}

/// What a code generator reads, and that far transfers are left to others.
#[test]
fn lowered_forms() {
    let m = Machine::new(CodeSize::Bits64);
    let jcc = m.lower(&m.decode_bytes(&[0x75, 0x10]));
    assert_eq!((jcc.insn.op, jcc.insn.aux, jcc.insn.imm), (Operation::Jcc, 5, 0x12));
    assert_eq!((jcc.end, jcc.insn.size), (End::Branch, Size::B8));
    let call = m.lower(&m.decode_bytes(&[0xff, 0xd3])).insn;
    assert_eq!((call.op, call.form, call.src), (Operation::Call, Form::Reg, gpr::RBX));
    let lowering = crate::lower::Lowering::of(&m.cpu);
    for bytes in [&[0xffu8, 0x2b][..], &[0xff, 0x1b], &[0xcb], &[0xcd, 0x80]] {
        let instruction = m.decode_bytes(bytes);
        let lowered =
            super::super::branch::lower(&lowering, &instruction, lowering.insn(&instruction));
        assert!(lowered.is_none(), "{bytes:x?}");
    }
}
