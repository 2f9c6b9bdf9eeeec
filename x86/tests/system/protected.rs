//! Legacy protected mode and virtual-8086 mode.

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

/// CALL FAR to `selector:0`.
fn call_far(selector: u16) -> [u8; 7] {
    [0x9a, 0, 0, 0, 0, selector as u8, (selector >> 8) as u8]
}

/// Section 4.11.2: a call gate to privilege 0 takes SS0:ESP0, copies its parameters and pushes the
/// old stack and return address; RETF 8 drops the parameters from both stacks and what the outer
/// level may not have.
#[test]
fn call_gate_to_inner_level() {
    const GATE: u16 = sel::FREE;
    let mut m = Machine::protected().at_user();
    m.set_descriptor(GATE, gate(sel::CODE32, CODE, 2, 0xec));
    m.load(CODE, 32, |a| {
        a.mov(ebx, esp).unwrap();
        a.mov(ax, i32::from(sel::DATA)).unwrap();
        a.mov(es, ax).unwrap();
        a.db(&[0xca, 8, 0]).unwrap();
    });
    m.load(USER_CODE, 32, |a| {
        a.push(0x1111).unwrap();
        a.push(0x2222).unwrap();
        a.db(&call_far(GATE | 3)).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.vector(), 13);
    // The HLT of the user program, with its stack as before the pushes.
    // Two pushes of five bytes, a call of seven.
    assert_eq!((m.stack(1), m.stack(2)), (USER_CODE + 17, 0x23));
    assert_eq!((m.stack(4), m.stack(5)), (USER_STACK, 0x2b));
    assert_eq!(m.cpu.gpr(3), KERNEL_STACK - 24);
    // ES held a segment of privilege 0; DS one of privilege 3.
    assert_eq!((m.cpu.segment(ES).selector, m.cpu.segment(DS).selector), (0, sel::USER_DATA));
    // CALL, RETF; each loads CS and SS, as does the exception; ES once.
    assert_eq!((m.facts.far, m.facts.exceptions), (2, 1));
    assert_eq!(m.facts.seg_loads, [1, 3, 3, 0, 0, 0]);
    // Two parameters are copied and RETF pops four slots; two pushes. On the inner stack a frame of
    // six slots for the gate and one of six with the error code. The task-state segment does not count.
    assert_eq!((m.facts.loads, m.facts.stores), (6, 2));
    assert_eq!((m.facts.inner.loads, m.facts.inner.stores), (0, 12));
}

/// The frame that the gate's code sees.
#[test]
fn call_gate_frame() {
    const GATE: u16 = sel::FREE;
    let mut m = Machine::protected().at_user();
    m.set_descriptor(GATE, gate(sel::CODE32, CODE, 2, 0xec));
    m.write(CODE, &[0xf4]);
    m.load(USER_CODE, 32, |a| {
        a.push(0x11).unwrap();
        a.push(0x22).unwrap();
        a.db(&call_far(GATE | 3)).unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    let frame: Vec<u64> = (0..6).map(|n| m.stack(n)).collect();
    // Two pushes of two bytes, a call of seven.
    assert_eq!(frame, [USER_CODE + 11, 0x23, 0x22, 0x11, USER_STACK - 8, 0x2b]);
    assert_eq!(m.cpu.segment(CS).selector, sel::CODE32);
    assert_eq!(m.cpu.segment(SS).selector, sel::DATA);
    assert_eq!(m.cpu.cpl(), 0);
}

/// Section 4.11: direct transfers must keep the privilege; gates must be in reach.
#[test]
fn far_transfers_that_fault() {
    // (descriptor at FREE, RPL, vector, error code)
    const CODE0: u64 = 0x9b;
    for (raw, vector) in [
        // Non-conforming code of another level.
        (descriptor(0, 0xf_ffff, CODE0, 12), 13),
        // Data.
        (descriptor(0, 0xf_ffff, 0xf3, 12), 13),
        // A gate of DPL 0.
        (gate(sel::CODE32, CODE, 0, 0x8c), 13),
        // Code and a gate that are not present.
        (descriptor(0, 0xf_ffff, 0x7b, 12), 11),
        (gate(sel::CODE32, CODE, 0, 0x6c), 11),
        // A busy task.
        (descriptor(TSS, 0x67, 0xeb, 0), 13),
        // An LDT.
        (descriptor(TSS, 0x67, 0xe2, 0), 13),
    ] {
        let mut m = Machine::protected().at_user();
        m.set_descriptor(sel::FREE, raw);
        m.write(USER_CODE, &call_far(sel::FREE | 3));
        m.cpu.rip = USER_CODE;
        assert_eq!(m.vector(), vector, "{raw:x}");
        assert_eq!((m.stack(0), m.stack(1)), (u64::from(sel::FREE), USER_CODE), "{raw:x}");
    }
    // The null selector, and an offset beyond the limit: #GP(0). Beyond the table: #GP(selector).
    for (selector, limit, code) in [(0, 0xff, 0), (sel::FREE, 0xff, 0), (0x8000, 0xff, 0x8000)] {
        let mut m = Machine::protected();
        m.set_descriptor(sel::FREE, descriptor(0, limit, CODE0, 4));
        m.write(CODE, &[0xea, 0, 1, 0, 0, selector as u8, (selector >> 8) as u8]);
        m.cpu.rip = CODE;
        assert_eq!((m.vector(), m.stack(0)), (13, code));
    }
}

/// Conforming code runs at the caller's privilege; its accessed bit is set.
#[test]
fn conforming_code() {
    let mut m = Machine::protected().at_user();
    m.set_descriptor(sel::FREE, descriptor(0, 0xf_ffff, 0x9e, 12));
    m.write(USER_CODE, &[0xea, 0, 0xa1, 0, 0, sel::FREE as u8, 0]);
    m.cpu.rip = USER_CODE;
    m.step(1);
    assert_eq!((m.cpu.rip, m.cpu.cpl()), (USER_CODE + 0x100, 3));
    assert_eq!(m.cpu.segment(CS).selector, sel::FREE | 3);
    assert_eq!(m.descriptor(sel::FREE) >> 40 & 0xff, 0x9f);
}

/// Section 8.7: a 16-bit interrupt gate pushes words.
#[test]
fn sixteen_bit_gate() {
    let mut m = Machine::protected();
    m.write_u64(IDT + 8 * 0x30, gate(sel::CODE32, HANDLERS + 0x300, 0, 0x86));
    m.cpu.set_rflags(2 | IF);
    m.load(CODE, 32, |a| a.int(0x30).unwrap());
    assert_eq!(m.vector(), 0x30);
    let top = KERNEL_STACK - 0x106;
    assert_eq!(m.cpu.gpr(RSP), top);
    let frame = [m.read_u16(top), m.read_u16(top + 2), m.read_u16(top + 4)];
    assert_eq!(frame, [CODE as u16 + 2, 0x18, 0x202]);
    assert!(!m.cpu.interrupts_enabled());
}

/// #TS when the task-state segment has no good stack for the handler.
#[test]
fn bad_inner_stack() {
    for (stack, limit, code) in [
        // Privilege 3 where 0 is needed; null; a code segment; a limit that ends before SS0.
        (sel::USER_DATA, 0x67, u64::from(sel::USER_DATA & !3)),
        (0, 0x67, 0),
        (sel::CODE32, 0x67, u64::from(sel::CODE32)),
        (sel::DATA, 8, u64::from(sel::TSS)),
    ] {
        let mut m = Machine::protected().at_user();
        m.set_gate(0x80, 0xee, 0);
        // #TS itself is handled at privilege 3 by a conforming segment, on the current stack.
        m.set_descriptor(sel::FREE, descriptor(0, 0xf_ffff, 0x9f, 12));
        m.write_u64(IDT + 8 * 10, gate(sel::FREE, USER_CODE + 0x100, 0, 0x8e));
        m.write(USER_CODE + 0x100, &[0xeb, 0xfe]);
        m.write_u32(TSS + 8, u32::from(stack));
        m.cpu.tr.limit = limit;
        m.load(USER_CODE, 32, |a| a.int(0x80).unwrap());
        m.step(1);
        assert_eq!((m.cpu.rip, m.cpu.cpl()), (USER_CODE + 0x100, 3));
        assert_eq!((m.stack(0), m.stack(1)), (code, USER_CODE));
    }
}

/// IRET to virtual-8086 mode and the way back by INT (section 12.6 of the 386 manual's successor,
/// APM section 8.8): nine words, data segments null in the handler.
#[test]
fn virtual_8086_mode() {
    let mut m = Machine::protected();
    m.load(CODE, 32, |a| {
        for word in [0x700, 0x600, 0x500, 0x400, 0x300, 0x0f00] {
            a.push(word).unwrap();
        }
        a.push((VM | IF | 3 << 12 | 2) as i32).unwrap();
        a.push(0x0a00).unwrap();
        a.push(0x10).unwrap();
        a.iretd().unwrap();
    });
    // INT 44h at 0A00:0010.
    m.write(0xa010, &[0xcd, 0x44]);
    m.set_gate(0x44, 0xee, 0);
    m.step(10);
    assert_eq!((m.cpu.cpl(), m.cpu.rip, m.cpu.gpr(RSP)), (3, 0x10, 0xf00));
    let bases: Vec<u64> = (0..6).map(|n| m.cpu.segment(n).base).collect();
    assert_eq!(bases, [0x4000, 0xa000, 0x3000, 0x5000, 0x6000, 0x7000]);
    assert_eq!(m.vector(), 0x44);
    let frame: Vec<u64> = (0..9).map(|n| m.stack(n)).collect();
    let flags = VM | IF | 3 << 12 | 2;
    assert_eq!(frame, [0x12, 0xa00, flags, 0xf00, 0x300, 0x400, 0x500, 0x600, 0x700]);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 36);
    assert_eq!(m.cpu.rflags(), 2 | 3 << 12);
    for n in [ES, DS, FS, GS] {
        assert_eq!((m.cpu.segment(n).selector, m.cpu.segment(n).attributes), (0, 0));
    }
}

/// Below IOPL 3, virtual-8086 mode traps INT n, IRET, PUSHF, POPF, CLI and STI; INT3 it does not.
#[test]
fn virtual_8086_sensitive_instructions() {
    for (code, vector) in [
        (&[0xcd, 0x44][..], 13),
        (&[0xcf], 13),
        (&[0x9c], 13),
        (&[0x9d], 13),
        (&[0xfa], 13),
        (&[0xfb], 13),
        (&[0xcc], 3),
    ] {
        let mut m = Machine::protected();
        m.set_gate(3, 0xee, 0);
        m.write(0xa010, code);
        m.load(CODE, 32, |a| {
            for word in [0, 0, 0, 0, 0, 0xf00, (VM | 2) as i32, 0xa00, 0x10] {
                a.push(word).unwrap();
            }
            a.iretd().unwrap();
        });
        assert_eq!(m.vector(), vector, "{code:x?}");
        if vector == 13 {
            assert_eq!((m.stack(0), m.stack(1)), (0, 0x10));
        }
    }
}

/// SYSENTER and SYSEXIT (APM volume 3): flat segments beside SYSENTER_CS.
#[test]
fn sysenter_and_sysexit() {
    let mut m = Machine::protected().at_user();
    m.cpu.msrs.sysenter_cs = 0x18;
    m.cpu.msrs.sysenter_esp = KERNEL_STACK;
    m.cpu.msrs.sysenter_eip = CODE;
    m.cpu.set_rflags(2 | IF);
    m.load(CODE, 32, |a| {
        a.mov(edx, USER_CODE as i32 + 0x100).unwrap();
        a.mov(ecx, USER_STACK as i32 - 16).unwrap();
        a.sysexit().unwrap();
    });
    m.load(USER_CODE, 32, |a| a.sysenter().unwrap());
    m.step(1);
    assert_eq!((m.cpu.rip, m.cpu.gpr(RSP), m.cpu.cpl()), (CODE, KERNEL_STACK, 0));
    assert_eq!((m.cpu.segment(CS).selector, m.cpu.segment(SS).selector), (0x18, 0x20));
    assert!(!m.cpu.interrupts_enabled());
    m.step(3);
    assert_eq!((m.cpu.rip, m.cpu.gpr(RSP), m.cpu.cpl()), (USER_CODE + 0x100, USER_STACK - 16, 3));
    assert_eq!((m.cpu.segment(CS).selector, m.cpu.segment(SS).selector), (0x2b, 0x33));
}

/// INTO traps when OF is set and is no transfer when it is not.
#[test]
fn into() {
    let mut m = Machine::protected();
    m.write(CODE, &[0xce, 0xf4]);
    m.cpu.rip = CODE;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.rip, m.facts.far), (CODE + 2, 0));
    m.cpu.rip = CODE;
    m.cpu.set_rflags(2 | 1 << 11);
    assert_eq!(m.vector(), 4);
    assert_eq!((m.stack(0), m.facts.far), (CODE + 1, 1));
}
