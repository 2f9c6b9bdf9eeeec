//! Port input and output (section 12.2.5).

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

/// Sizes and ports of IN and OUT; IN EAX clears the upper half of RAX.
#[test]
fn in_and_out() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.mov(rax, 0x8877_6655_4433_2211u64).unwrap();
        a.mov(edx, 0x1234).unwrap();
        a.out(0x80, al).unwrap();
        a.out(dx, ax).unwrap();
        a.out(dx, eax).unwrap();
        a.in_(al, dx).unwrap();
        a.mov(rcx, rax).unwrap();
        a.in_(eax, 0x70).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    let expected = [(0x80, 1, 0x11), (0x1234, 2, 0x2211), (0x1234, 4, 0x4433_2211)];
    assert_eq!(m.ports.written, expected);
    assert_eq!((m.cpu.gpr(RCX), m.cpu.gpr(RAX)), (0x8877_6655_4433_2201, 0x1111_1102));
}

/// Above IOPL the bitmap of the task-state segment decides, for every byte of the access.
#[test]
fn permission_bitmap() {
    // (port, bytes, allowed): ports 8 to 11 are open, and the bitmap ends at 31.
    for (port, bytes, allowed) in [
        (8, 4, true),
        (11, 1, true),
        (11, 2, false),
        (7, 1, false),
        (7, 2, false),
        (12, 1, false),
        (24, 1, true),
        (32, 1, false),
    ] {
        let mut m = Machine::long().at_user();
        m.set_gate(3, 0xee, 0);
        m.write(TSS + 0x68, &[0xff, 0xf0, 0xff, 0x00, 0xff]);
        m.cpu.tr.limit = 0x6c;
        m.load(USER_CODE, 64, |a| {
            a.mov(edx, port).unwrap();
            match bytes {
                1 => a.in_(al, dx),
                2 => a.in_(ax, dx),
                _ => a.in_(eax, dx),
            }
            .unwrap();
            a.int3().unwrap();
        });
        let vector = m.vector();
        assert_eq!(vector, if allowed { 3 } else { 13 }, "{bytes} at {port}");
        assert_eq!(m.ports.reads, u32::from(allowed));
    }
    // IOPL 3 needs no bitmap.
    let mut m = Machine::long().at_user();
    m.cpu.tr.limit = 0x67;
    m.cpu.set_rflags(2 | 3 << 12);
    m.load(USER_CODE, 64, |a| a.out(0x80, al).unwrap());
    m.step(1);
    assert_eq!(m.ports.written.len(), 1);
}

/// REP OUTS and REP INS: pointers, counter, direction; an iteration is a cycle, the instruction
/// retires once.
#[test]
fn string_io() {
    let mut m = Machine::long();
    m.write(DATA, &[1, 0, 2, 0, 3, 0]);
    m.load(CODE, 64, |a| {
        a.mov(rsi, DATA).unwrap();
        a.mov(ecx, 3).unwrap();
        a.mov(edx, 0x99).unwrap();
        a.rep().outsw().unwrap();
        a.std().unwrap();
        a.mov(rdi, DATA + 0x104).unwrap();
        a.mov(ecx, 2).unwrap();
        a.rep().insd().unwrap();
        a.rep().insd().unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.ports.written, [(0x99, 2, 1), (0x99, 2, 2), (0x99, 2, 3)]);
    assert_eq!(m.cpu.gpr(RSI), DATA + 6);
    assert_eq!((m.cpu.gpr(RDI), m.cpu.gpr(RCX)), (DATA + 0xfc, 0));
    assert_eq!((m.read_u32(DATA + 0x104), m.read_u32(DATA + 0x100)), (0x1111_1101, 0x1111_1102));
    assert_eq!(m.ports.reads, 2);
    // Ten instructions; two further iterations of OUTS, one of INS.
    assert_eq!((m.cpu.retired(), m.cpu.time), (10, 13));
}

/// With a count of zero the string instruction is not executed: "WHILE CountReg <> 0 DO [...] Execute
/// associated string instruction" (Intel SDM volume 2, "REP"). So neither the permission nor the memory
/// operand is looked at.
#[test]
fn no_iteration_no_fault() {
    for (count, outs, vector) in [(0, false, 3), (0, true, 3), (1, false, 13), (1, true, 13)] {
        let mut m = Machine::long().at_user();
        m.set_gate(3, 0xee, 0);
        m.cpu.tr.limit = 0x67;
        m.load(USER_CODE, 64, |a| {
            a.mov(ecx, count).unwrap();
            a.mov(edx, 0x99).unwrap();
            a.mov(rdi, 1u64 << 63).unwrap();
            a.mov(rsi, 1u64 << 63).unwrap();
            if outs {
                a.rep().outsb().unwrap();
            } else {
                a.rep().insb().unwrap();
            }
            a.int3().unwrap();
        });
        assert_eq!(m.vector(), vector, "{count} {outs}");
        assert_eq!((m.ports.reads, m.ports.written.len()), (0, 0));
    }
}

/// "When a fault occurs during the execution of a CMPS or SCAS instruction that is prefixed with REPE
/// or REPNE, the EFLAGS value is restored to the state prior to the execution of the instruction"
/// (Intel SDM volume 2, "REP"). AMD's manual does not say so; its processors have the flags of the last
/// comparison.
#[test]
fn flags_of_a_repeated_comparison_that_faults() {
    for (restores, zf) in [(true, 0), (false, 0x40)] {
        let mut m = Machine::long();
        m.cpu.features.repeat_restores_flags = restores;
        // Four equal bytes before a page that is not there.
        m.load(CODE, 64, |a| {
            a.mov(rsi, DATA).unwrap();
            a.mov(rdi, 0x1f_fffcu64).unwrap();
            a.mov(ecx, 9).unwrap();
            a.or(eax, 1).unwrap();
            a.stc().unwrap();
            a.repe().cmpsb().unwrap();
        });
        assert_eq!(m.vector(), 14);
        assert_eq!((m.cpu.cr2, m.cpu.gpr(RCX)), (0x20_0000, 5));
        // Behind error code, RIP and CS: RFLAGS. CF is set before, and clear after a comparison of
        // equal bytes.
        let cf = u64::from(restores);
        assert_eq!(m.stack(3) & 0x41, zf | cf, "{restores}");
    }
}

/// INS to a page that is not there faults before the port is read.
#[test]
fn ins_faults_before_it_reads() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.mov(rdi, 0x1f_ffffu64).unwrap();
        a.insd().unwrap();
    });
    assert_eq!(m.vector(), 14);
    assert_eq!(m.ports.reads, 0);
    assert_eq!(m.cpu.cr2, 0x20_0000);
}
