//! Hardware task switches ("Hardware Task-Management in Legacy Mode").

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

const NEW_TSS: u64 = 0x3800;
const NEW: u16 = sel::FREE;

/// A machine with a second 32-bit task at [`CODE`] + 0x400, privilege 0, registers 1 to 8.
fn machine() -> Machine {
    let m = Machine::protected();
    m.set_descriptor(NEW, descriptor(NEW_TSS, 0x67, 0x89, 0));
    m.write_u32(NEW_TSS + 32, CODE as u32 + 0x400);
    m.write_u32(NEW_TSS + 36, 2 | 1);
    for n in 0..8 {
        m.write_u32(NEW_TSS + 40 + 4 * n, n as u32 + 1);
    }
    m.write_u32(NEW_TSS + 40 + 16, KERNEL_STACK as u32 - 0x800);
    for (n, selector) in
        [sel::DATA, sel::CODE32, sel::DATA, sel::DATA, 0, 0].into_iter().enumerate()
    {
        m.write_u32(NEW_TSS + 72 + 4 * n as u64, u32::from(selector));
    }
    m
}

/// Whether the busy bit of a descriptor is set.
fn is_busy(m: &Machine, selector: u16) -> bool {
    m.descriptor(selector) >> 41 & 1 != 0
}

/// JMP to a task: state saved and loaded, the busy bit moves, no back link, CR0.TS set.
#[test]
fn jump_to_task() {
    let mut m = machine();
    m.write(CODE + 0x400, &[0xf4]);
    m.write(CODE, &[0xea, 0, 0, 0, 0, NEW as u8, 0]);
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RAX, 0x1234);
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x401);
    assert_eq!((m.cpu.gpr(RAX), m.cpu.gpr(RDI)), (1, 8));
    assert_eq!(m.cpu.rflags(), 3);
    assert_eq!(m.cpu.tr.selector, NEW);
    assert_eq!((is_busy(&m, sel::TSS), is_busy(&m, NEW)), (false, true));
    assert_eq!(m.read_u32(NEW_TSS), 0);
    assert_eq!(m.read_u32(TSS + 32), CODE as u32 + 7);
    assert_eq!(m.read_u32(TSS + 40), 0x1234);
    assert_eq!(m.read_u32(TSS + 40 + 16), KERNEL_STACK as u32 - 0x100);
    assert_eq!(m.read_u16(TSS + 76), sel::CODE32);
    assert_eq!(m.cpu.cr0() & 8, 8);
    assert_eq!((m.facts.far, m.facts.exceptions), (1, 0));
    assert_eq!(m.facts.seg_loads, [1; 6]);
}

/// CALL nests: back link and NT; IRET goes back, clears NT in the image and both busy bits are as
/// before.
#[test]
fn call_task_and_return() {
    let mut m = machine();
    m.write(CODE + 0x400, &[0xcf]);
    m.load(CODE, 32, |a| {
        a.db(&[0x9a, 0, 0, 0, 0, NEW as u8, 0]).unwrap();
        a.hlt().unwrap();
    });
    m.step(1);
    assert_eq!(m.cpu.rflags(), 3 | NT);
    assert_eq!(m.read_u32(NEW_TSS), u32::from(sel::TSS));
    assert_eq!((is_busy(&m, sel::TSS), is_busy(&m, NEW)), (true, true));
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 8);
    assert_eq!(m.cpu.tr.selector, sel::TSS);
    assert_eq!((is_busy(&m, sel::TSS), is_busy(&m, NEW)), (true, false));
    assert_eq!(m.read_u32(NEW_TSS + 36) & NT as u32, 0);
    assert_eq!(m.read_u32(NEW_TSS + 32), CODE as u32 + 0x401);
    assert_eq!(m.facts.far, 2);
}

/// An exception through a task gate pushes its error code on the new task's stack; it is counted as
/// an exception and not as a far transfer.
#[test]
fn exception_through_task_gate() {
    let mut m = machine();
    m.write_u64(IDT + 8 * 13, gate(NEW, 0, 0, 0x85));
    m.write(CODE + 0x400, &[0xf4]);
    m.load(CODE, 32, |a| {
        a.mov(ax, 0x1f8).unwrap();
        a.mov(ds, ax).unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x401);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 0x804);
    assert_eq!(m.stack(0), 0x1f8);
    assert_eq!(m.read_u32(TSS + 32), CODE as u32 + 4);
    assert_eq!((m.facts.far, m.facts.exceptions), (0, 1));
}

/// A fault saves the old task's flags with RF set, as in an interrupt gate's frame; INT n and JMP
/// do not ("RFLAGS Register", RF).
#[test]
fn resume_flag_of_the_old_task() {
    for (code, vector, rf) in [
        (&[0x0f, 0x0b][..], 6, RF),
        (&[0xcd, 0x40], 0x40, 0),
        (&[0xea, 0, 0, 0, 0, NEW as u8, 0], 0x40, 0),
    ] {
        let mut m = machine();
        m.write_u64(IDT + 8 * vector, gate(NEW, 0, 0, 0x85));
        m.write(CODE + 0x400, &[0xf4]);
        m.write(CODE, code);
        m.cpu.rip = CODE;
        assert_eq!(m.run(), Exit::Halt);
        assert_eq!(m.cpu.rip, CODE + 0x401);
        assert_eq!(u64::from(m.read_u32(TSS + 36)), 2 | rf, "{code:x?}");
    }
}

/// RF in the image of the new task lets its first instruction through a breakpoint, and only that,
/// whatever RF the JMP ran with.
#[test]
fn resume_flag_of_the_new_task() {
    for before in [0, RF] {
        let mut m = machine();
        m.write_u32(NEW_TSS + 36, (2 | RF) as u32);
        m.write(CODE + 0x400, &[0x90, 0x90, 0xf4]);
        m.ask(|a| {
            // Global breakpoints on both instructions: a task switch drops local ones.
            a.mov(eax, CODE as i32 + 0x400).unwrap();
            a.mov(dr0, eax).unwrap();
            a.inc(eax).unwrap();
            a.mov(dr1, eax).unwrap();
            a.mov(eax, 0xa).unwrap();
            a.mov(dr7, eax).unwrap();
        });
        m.write(CODE, &[0xea, 0, 0, 0, 0, NEW as u8, 0]);
        m.cpu.rip = CODE;
        m.cpu.set_rflags(2 | before);
        assert_eq!((m.vector(), m.stack(0)), (1, CODE + 0x401), "{before:x}");
        assert_eq!(m.read_u32(TSS + 36), 2, "the old task has had its one instruction");
    }
}

/// Before the switch a bad target is the old task's fault; after it, bad segments are the new
/// task's #TS.
#[test]
fn switches_that_fault() {
    let jump = |prepare: &dyn Fn(&Machine)| {
        let mut m = machine();
        m.write(CODE, &[0xea, 0, 0, 0, 0, NEW as u8, 0]);
        m.cpu.rip = CODE;
        prepare(&m);
        let vector = m.vector();
        (vector, m.stack(0), m.stack(1), m.cpu.tr.selector)
    };
    let target = u64::from(NEW);
    // Not present; too short.
    let raw = descriptor(NEW_TSS, 0x67, 0x09, 0);
    assert_eq!(jump(&|m| m.set_descriptor(NEW, raw)), (11, target, CODE, sel::TSS));
    let raw = descriptor(NEW_TSS, 0x66, 0x89, 0);
    assert_eq!(jump(&|m| m.set_descriptor(NEW, raw)), (10, target, CODE, sel::TSS));
    // DS that names code which cannot be read, an LDT selector that names no LDT.
    let new_ip = CODE + 0x400;
    let bad_data = |m: &Machine| {
        m.set_descriptor(NEW + 8, descriptor(0, 0xf_ffff, 0x99, 12));
        m.write_u32(NEW_TSS + 84, u32::from(NEW + 8));
    };
    assert_eq!(jump(&bad_data), (10, target + 8, new_ip, NEW));
}

/// The T bit of the new task raises #DB with DR6.BT before its first instruction.
#[test]
fn debug_trap_bit() {
    let mut m = machine();
    m.write_u32(NEW_TSS + 100, 1);
    m.write(CODE, &[0xea, 0, 0, 0, 0, NEW as u8, 0]);
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), 1);
    assert_eq!(m.stack(0), CODE + 0x400);
    assert_eq!(m.ask(|a| a.mov(eax, dr6).unwrap()), 0xffff_8ff0);
}

/// A 16-bit task: words at the offsets of the Intel SDM, volume 3, "16-Bit Task-State Segment".
#[test]
fn sixteen_bit_task() {
    let mut m = Machine::protected();
    m.set_descriptor(NEW, descriptor(NEW_TSS, 0x2b, 0x81, 0));
    m.write_u16(NEW_TSS + 14, CODE as u16 + 0x400);
    m.write_u16(NEW_TSS + 16, 2);
    for n in 0..8 {
        m.write_u16(NEW_TSS + 18 + 2 * n, n as u16 + 0x101);
    }
    for (n, selector) in [sel::DATA, sel::CODE32, sel::DATA, sel::DATA].into_iter().enumerate() {
        m.write_u16(NEW_TSS + 34 + 2 * n as u64, selector);
    }
    // "The upper 16 bits of the registers are modified and not maintained" (the same section): what
    // they hold afterwards is not said. Here they are zero.
    m.cpu.set_gpr(RAX, 0x1234_5678);
    m.cpu.set_gpr(RDI, 0xffff_ffff);
    m.write(CODE + 0x400, &[0xf4]);
    m.write(CODE, &[0xea, 0, 0, 0, 0, NEW as u8, 0]);
    m.cpu.rip = CODE;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x401);
    assert_eq!((m.cpu.gpr(RAX), m.cpu.gpr(RDI)), (0x101, 0x108));
    assert_eq!(m.cpu.segment(FS).selector, 0);
}
