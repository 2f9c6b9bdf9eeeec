//! The virtual-mode extensions: CR4.VME in virtual-8086 mode and CR4.PVI in protected mode (APM
//! volume 2, "Virtual Interrupts"; Intel SDM volume 3, "Virtual-8086 Mode Interrupts").

use x86_cpu::run::Exit;

use crate::machine::*;

const VME: u64 = 1 << 0;
const PVI: u64 = 1 << 1;
const VIF: u64 = 1 << 19;
const VIP: u64 = 1 << 20;
const GP: u64 = 13;
const INT3: u64 = 3;

const fn iopl(level: u64) -> u64 {
    level << 12
}

/// A program at 0A00:0010 in virtual-8086 mode with SS:SP 0B00:0100 and `flags`, CR4.VME set, and
/// a redirection bitmap at TSS+68h (the I/O bitmap behind it is empty) that sends INT 44h to the
/// monitor and INT 45h to the program's own table, where it is at 0C00:0020.
fn v8086(code: &[u8], flags: u64) -> Machine {
    let mut m = Machine::protected();
    m.cpu.set_control(m.cpu.cr0(), 0, VME, 0);
    m.set_gate(3, 0xee, 0);
    m.set_gate(0x44, 0xee, 0);
    m.set_gate(0x45, 0xee, 0);
    m.write_u16(TSS + 102, 0x68 + 32);
    m.write(TSS + 0x68, &[0; 33]);
    // 44h is bit 4 of byte 8.
    m.write(TSS + 0x68 + 8, &[1 << 4]);
    m.cpu.tr.limit = 0x68 + 32;
    m.write_u32(0x45 * 4, 0x0c00_0020);
    m.write(0xa010, code);
    m.load(CODE, 32, |a| {
        for word in [0, 0, 0, 0, 0x0b00, 0x100, (VM | flags | 2) as i32, 0x0a00, 0x10] {
            a.push(word).unwrap();
        }
        a.iretd().unwrap();
    });
    m.step(10);
    assert_eq!((m.cpu.rip, m.cpu.cpl()), (0x10, 3));
    m
}

/// The three words on top of the program's stack: IP, CS, FLAGS.
fn frame(m: &Machine) -> [u16; 3] {
    let top = m.cpu.segment(SS).base + m.cpu.gpr(RSP);
    [0, 2, 4].map(|n| m.read_u16(top + n))
}

/// INT n with its bit clear goes to the program's own handler, at any IOPL. Below IOPL 3 the image
/// has VIF as IF and IOPL 3, and VIF is cleared; at IOPL 3 IF is.
#[test]
fn redirected_to_the_program() {
    const KEPT: u64 = 2 | VM;
    for (flags, image, after) in [
        (IF | iopl(0) | VIF, 2 | IF | iopl(3), KEPT | IF),
        (IF | iopl(0), 2 | iopl(3), KEPT | IF),
        (iopl(2) | VIF, 2 | IF | iopl(3), KEPT | iopl(2)),
        (IF | iopl(3), 2 | IF | iopl(3), KEPT | iopl(3)),
        (iopl(3) | VIF, 2 | iopl(3), KEPT | iopl(3) | VIF),
    ] {
        let mut m = v8086(&[0xcd, 0x45], flags);
        let far = m.facts.far;
        m.step(1);
        assert_eq!((m.cpu.segment(CS).selector, m.cpu.rip), (0x0c00, 0x20), "{flags:x}");
        assert_eq!(frame(&m), [0x12, 0x0a00, image as u16], "{flags:x}");
        assert_eq!(m.cpu.rflags(), after, "{flags:x}");
        assert_eq!(m.cpu.gpr(RSP), 0x100 - 6);
        assert_eq!((m.cpu.cpl(), m.facts.far), (3, far + 1));
    }
}

/// INT n with its bit set is the monitor's: through the gate at IOPL 3, #GP(0) below. So is every
/// INT n without VME; and INT3 has no bit.
#[test]
fn left_to_the_monitor() {
    assert_eq!(v8086(&[0xcd, 0x44], iopl(3)).vector(), 0x44);
    let mut m = v8086(&[0xcd, 0x44], iopl(2));
    assert_eq!((m.vector(), m.stack(0), m.stack(1)), (GP, 0, 0x10));
    let mut m = v8086(&[0xcd, 0x45], iopl(3));
    m.cpu.set_control(m.cpu.cr0(), 0, 0, 0);
    assert_eq!(m.vector(), 0x45);
    assert_eq!(v8086(&[0xcc], iopl(0)).vector(), INT3);
}

/// #GP(0) where the task-state segment has no bit for the vector: too short for it, a bitmap that
/// would begin before the segment.
#[test]
fn no_bitmap() {
    // The last byte that is needed for 45h is the ninth.
    for (base, limit, vector) in [
        (0x68 + 32, 0x68 + 8, None),
        (0x68 + 32, 0x68 + 7, Some(GP)),
        (0x68 + 32, 102, Some(GP)),
        (31, 0x68 + 32, Some(GP)),
    ] {
        let mut m = v8086(&[0xcd, 0x45], iopl(3));
        m.write_u16(TSS + 102, base);
        m.cpu.tr.limit = limit;
        m.write(0xc020, &[0xcc]);
        assert_eq!(m.vector(), vector.unwrap_or(INT3), "{base:x} {limit:x}");
    }
}

/// CLI, STI, PUSHF, POPF and IRET below IOPL 3 act on VIF, and leave IF and IOPL.
#[test]
fn virtual_interrupt_flag() {
    // STI; PUSHF; CLI; PUSHF; INT3
    let mut m = v8086(&[0xfb, 0x9c, 0xfa, 0x9c, 0xcc], iopl(1));
    m.step(1);
    assert_eq!(m.cpu.rflags(), 2 | VM | iopl(1) | VIF);
    m.step(2);
    assert_eq!(m.cpu.rflags(), 2 | VM | iopl(1));
    m.step(1);
    assert_eq!(frame(&m)[..2], [(2 | iopl(3)) as u16, (2 | IF | iopl(3)) as u16]);
    assert_eq!(m.vector(), INT3);

    // PUSH 0202h; POPF; PUSH 0002h; POPF
    let mut m = v8086(&[0x68, 0x02, 0x02, 0x9d, 0x6a, 2, 0x9d], iopl(1));
    m.step(2);
    assert_eq!(m.cpu.rflags(), 2 | VM | iopl(1) | VIF);
    m.step(2);
    assert_eq!(m.cpu.rflags(), 2 | VM | iopl(1));

    // PUSH 3203h; PUSH 0C00h; PUSH 0020h; IRET
    let code = [0x68, 0x03, 0x32, 0x68, 0x00, 0x0c, 0x6a, 0x20, 0xcf];
    let mut m = v8086(&code, iopl(1));
    m.step(4);
    assert_eq!((m.cpu.segment(CS).selector, m.cpu.rip, m.cpu.gpr(RSP)), (0x0c00, 0x20, 0x100));
    assert_eq!(m.cpu.rflags(), 3 | VM | iopl(1) | VIF);
    // At IOPL 3 it is IF.
    let mut m = v8086(&code, iopl(3));
    m.step(4);
    assert_eq!(m.cpu.rflags(), 3 | VM | IF | iopl(3));
}

/// #GP(0) instead of an enabled interrupt that waits (VIP), for images with TF, and for 32-bit
/// operands.
#[test]
fn what_the_monitor_has_to_see() {
    let faults = |code: &[u8], flags: u64, steps: u64| {
        let mut m = v8086(code, flags | iopl(1));
        m.step(steps);
        let (rip, before) = (m.cpu.rip, m.cpu.rflags());
        let vector = m.vector();
        if vector == GP {
            assert_eq!((m.stack(0), m.stack(1)), (0, rip), "{code:x?}");
            assert_eq!(m.stack(3) & !RF, before, "{code:x?}");
        }
        vector == GP
    };
    // STI
    assert!(faults(&[0xfb, 0xcc], VIP, 0));
    assert!(!faults(&[0xfb, 0xcc], 0, 0));
    // PUSH flags; POPF
    assert!(faults(&[0x68, 0x02, 0x02, 0x9d, 0xcc], VIP, 1));
    assert!(!faults(&[0x68, 0x02, 0x02, 0x9d, 0xcc], 0, 1));
    assert!(!faults(&[0x68, 0x02, 0x00, 0x9d, 0xcc], VIP, 1));
    assert!(faults(&[0x68, 0x02, 0x01, 0x9d, 0xcc], 0, 1));
    // PUSH flags; PUSH 0A00h; PUSH 0019h; IRET; INT3
    let iret = |low, high| [0x68, low, high, 0x68, 0x00, 0x0a, 0x6a, 0x19, 0xcf, 0xcc];
    assert!(faults(&iret(0x02, 0x02), VIP, 3));
    assert!(!faults(&iret(0x02, 0x02), 0, 3));
    assert!(!faults(&iret(0x02, 0x00), VIP, 3));
    assert!(faults(&iret(0x02, 0x01), 0, 3));
    // PUSHFD, POPFD, IRETD
    for code in [0x9c, 0x9d, 0xcf] {
        assert!(faults(&[0x66, code, 0xcc], 0, 0));
    }
}

/// CR4.PVI: at privilege 3 below IOPL 3, CLI and STI act on VIF; VIP makes STI fault. POPF changes
/// neither flag, and without PVI both instructions fault.
#[test]
fn protected_mode_virtual_interrupts() {
    let start = |enable: u64, flags: u64, code: &[u8]| {
        let mut m = Machine::protected().at_user();
        m.cpu.set_control(m.cpu.cr0(), 0, enable, 0);
        m.cpu.set_rflags(2 | IF | flags);
        m.set_gate(3, 0xee, 0);
        m.write(USER_CODE, code);
        m.cpu.rip = USER_CODE;
        m
    };
    let mut m = start(PVI, iopl(2), &[0xfb, 0xfa]);
    m.step(1);
    assert_eq!(m.cpu.rflags(), 2 | IF | iopl(2) | VIF);
    m.step(1);
    assert_eq!(m.cpu.rflags(), 2 | IF | iopl(2));
    assert_eq!(start(PVI, VIP, &[0xfb]).vector(), GP);
    assert_eq!(start(0, 0, &[0xfb]).vector(), GP);
    assert_eq!(start(0, 0, &[0xfa]).vector(), GP);
    // PUSH 2; POPF
    let mut m = start(PVI, VIF, &[0x6a, 2, 0x9d]);
    m.step(2);
    assert_eq!(m.cpu.rflags(), 2 | IF | VIF);
    // PVI is nothing to privilege 2 and inner: STI above IOPL faults there.
    let mut m = Machine::protected();
    m.cpu.set_control(m.cpu.cr0(), 0, PVI, 0);
    m.load(CODE, 32, |a| {
        a.cli().unwrap();
        a.hlt().unwrap();
    });
    m.cpu.set_rflags(2 | IF);
    assert_eq!(m.run(), Exit::Halt);
    assert!(!m.cpu.interrupts_enabled());
}
