//! Control registers and model-specific registers (chapter 3).

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

/// Runs `MOV CRn, RAX` (0F 22 /n) and gives the vector of its exception, if any.
fn write(mut m: Machine, n: u8, value: u64) -> (Machine, Option<u64>) {
    m.write(CODE, &[0x0f, 0x22, 0xc0 | n << 3, 0xf4]);
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RAX, value);
    assert_eq!(m.run(), Exit::Halt);
    let vector = if m.cpu.rip == CODE + 4 { None } else { Some(m.handler()) };
    (m, vector)
}

/// Section 3.1: values that control registers refuse with #GP(0).
#[test]
fn refused_values() {
    const LONG_CR0: u64 = 0x8001_0031;
    for (long, n, value, vector) in [
        // Paging without protection; NW without CD.
        (false, 0, 0x8000_0010, Some(13)),
        (false, 0, 0x2000_0011, Some(13)),
        (false, 0, 0x6000_0011, None),
        // 64-bit mode cannot leave paging, nor PAE; the upper half of CR0 must be zero.
        (true, 0, 0x0001_0031, Some(13)),
        (true, 0, LONG_CR0 | 1 << 32, Some(13)),
        (true, 0, LONG_CR0 | 8, None),
        (true, 4, 0, Some(13)),
        (true, 4, 0x7ff, None),
        (true, 4, 0x820, Some(13)),
        // Bits beyond the 40 of a physical address.
        (true, 3, PML4 | 1 << 40, Some(13)),
        (true, 3, PML4 | 0x18, None),
        (true, 1, 0, Some(6)),
        (true, 5, 0, Some(6)),
        (true, 2, u64::MAX, None),
    ] {
        let m = if long { Machine::long() } else { Machine::protected() };
        let (m, got) = write(m, n, value);
        assert_eq!(got, vector, "CR{n} = {value:x}");
        if got.is_none() {
            let read = match n {
                0 => m.cpu.cr0(),
                2 => m.cpu.cr2,
                3 => m.cpu.cr3(),
                _ => m.cpu.cr4(),
            };
            assert_eq!(read, value);
        }
    }
    let (_, vector) = write(Machine::long().at_user(), 3, PML4);
    assert_eq!(vector, Some(13));
}

/// CR8 is the task-priority class of the local APIC.
#[test]
fn task_priority() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.mov(eax, 9).unwrap();
        a.mov(cr8, rax).unwrap();
        a.mov(rcx, cr8).unwrap();
        a.mov(eax, 16).unwrap();
        a.mov(cr8, rax).unwrap();
    });
    assert_eq!((m.vector(), m.stack(0)), (13, 0));
    assert_eq!((m.ports.cr8, m.cpu.gpr(RCX)), (9, 9));
}

/// CLTS, LMSW and SMSW: LMSW sets PE and does not clear it.
#[test]
fn machine_status_word() {
    let mut m = Machine::protected();
    m.load(CODE, 32, |a| {
        a.mov(eax, 0x0e).unwrap();
        a.lmsw(ax).unwrap();
        a.smsw(ecx).unwrap();
        a.clts().unwrap();
        a.smsw(edx).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    // PE, MP, EM, TS, ET, NE.
    assert_eq!((m.cpu.gpr(RCX), m.cpu.gpr(RDX)), (0x3f, 0x37));
}

/// A load of CR3 makes a changed page table count; INVLPG does so for one page.
#[test]
fn stale_translations() {
    let mut m = Machine::long();
    // Linear 2 MiB shows physical 0, later nothing.
    m.write_u64(PML4 + 0x2008, 0x87);
    m.write_u64(DATA, 0x1122_3344);
    m.load(CODE, 64, |a| {
        a.mov(rbx, 0x20_0000 + DATA).unwrap();
        a.mov(rcx, qword_ptr(rbx)).unwrap();
        a.mov(rdx, PML4 + 0x2008).unwrap();
        a.mov(dword_ptr(rdx), 0).unwrap();
        a.invlpg(ptr(rbx)).unwrap();
        a.mov(rsi, qword_ptr(rbx)).unwrap();
    });
    assert_eq!((m.vector(), m.stack(0)), (14, 0));
    assert_eq!((m.cpu.gpr(RCX), m.cpu.cr2), (0x1122_3344, 0x20_0000 + DATA));
    // Mapped again: not-present entries are not kept.
    m.write_u64(PML4 + 0x2008, 0x87);
    assert_eq!(m.ask(|a| a.mov(rax, qword_ptr(rbx)).unwrap()), 0x1122_3344);
    m.write_u64(PML4 + 0x2008, 0);
    m.load(CODE, 64, |a| {
        a.mov(rax, cr3).unwrap();
        a.mov(cr3, rax).unwrap();
        a.mov(rsi, qword_ptr(rbx)).unwrap();
    });
    assert_eq!(m.vector(), 14);
}

/// One INVLPG is enough for a page of 2 MiB, wherever in it the address is (Intel SDM volume 3, "Operations that
/// Invalidate TLBs and Paging-Structure Caches"): the other pages of 4 KiB in it are not read through what is gone,
/// nor fetched from.
#[test]
fn one_invlpg_drops_a_large_page() {
    const LINEAR: u64 = 0x20_0000;
    for fetches in [false, true] {
        let mut m = Machine::long();
        m.write_u64(PML4 + 0x2008, 0x87);
        m.write_u64(DATA + 0x1000, 0x5566_7788);
        // RET in another page of 4 KiB than the data's.
        m.write(DATA + 0x2000, &[0xC3]);
        m.load(CODE, 64, |a| {
            a.mov(rbx, LINEAR + DATA).unwrap();
            a.mov(rcx, qword_ptr(rbx + 0x1000)).unwrap();
            a.mov(rdi, LINEAR + DATA + 0x2000).unwrap();
            a.call(rdi).unwrap();
            a.mov(rdx, PML4 + 0x2008).unwrap();
            a.mov(dword_ptr(rdx), 0).unwrap();
            a.invlpg(ptr(rbx)).unwrap();
            if fetches {
                a.call(rdi).unwrap();
            } else {
                a.mov(rsi, qword_ptr(rbx + 0x1000)).unwrap();
            }
        });
        assert_eq!(m.vector(), 14);
        let faults = if fetches { DATA + 0x2000 } else { DATA + 0x1000 };
        assert_eq!((m.cpu.gpr(RCX), m.cpu.cr2), (0x5566_7788, LINEAR + faults));
    }
}

/// Runs WRMSR and gives the vector of its exception, if any.
fn write_msr(m: &mut Machine, number: u64, value: u64) -> Option<u64> {
    m.write(CODE, &[0x0f, 0x30, 0xf4]);
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RCX, number);
    m.cpu.set_gpr(RAX, value & 0xffff_ffff);
    m.cpu.set_gpr(RDX, value >> 32);
    assert_eq!(m.run(), Exit::Halt);
    if m.cpu.rip == CODE + 3 { None } else { Some(m.handler()) }
}

/// The registers of the core: what is written is read, bad values are refused.
#[test]
fn model_specific_registers() {
    const BASE: u64 = 0xffff_8000_1234_5678;
    const NOT_CANONICAL: u64 = 0x8000_0000_0000;
    for (number, value, vector) in [
        (0xc000_0081, 0x0023_0010_1234_5678, None),
        (0xc000_0082, BASE, None),
        (0xc000_0082, NOT_CANONICAL, Some(13)),
        (0xc000_0083, NOT_CANONICAL, Some(13)),
        (0xc000_0084, 0x4_7700, None),
        (0xc000_0100, BASE, None),
        (0xc000_0100, NOT_CANONICAL, Some(13)),
        (0xc000_0101, BASE, None),
        (0xc000_0102, BASE, None),
        (0x174, 8, None),
        (0x175, 0x1234, None),
        (0x176, 0x5678, None),
        // EFER: SCE, LME, LMA, NXE; a reserved bit; LME while paging is on.
        (0xc000_0080, 0xd01, None),
        (0xc000_0080, 0x502, Some(13)),
        (0xc000_0080, 0x401, Some(13)),
        (0xc001_9999, 0, Some(13)),
    ] {
        let mut m = Machine::long();
        assert_eq!(write_msr(&mut m, number, value), vector, "{number:x} = {value:x}");
        if vector.is_none() {
            let low = m.ask(|a| {
                a.mov(ecx, number as u32).unwrap();
                a.rdmsr().unwrap();
            });
            assert_eq!(low | m.cpu.gpr(RDX) << 32, value, "{number:x}");
        } else {
            assert_eq!(m.stack(0), 0);
        }
    }
    let mut m = Machine::long();
    assert_eq!(write_msr(&mut m, 0xc000_0101, BASE), None);
    assert_eq!(m.cpu.segment(GS).base, BASE);
    let mut m = Machine::long().at_user();
    assert_eq!(write_msr(&mut m, 0xc000_0101, BASE), Some(13));
}

/// CPUID, RDTSC, RDPMC and RDMSR ask the outside and zero-extend; CR4.TSD and CR4.PCE rule at
/// privilege 3.
#[test]
fn questions_to_the_outside() {
    let mut m = Machine::long();
    let low = m.ask(|a| {
        a.mov(rdx, -1i64 as u64).unwrap();
        a.mov(ecx, 3).unwrap();
        a.rdpmc().unwrap();
    });
    assert_eq!((low, m.cpu.gpr(RDX)), (0x1234_5678, 0xab));
    m.ask(|a| {
        a.mov(eax, 5).unwrap();
        a.mov(ecx, 6).unwrap();
        a.cpuid().unwrap();
    });
    assert_eq!([RAX, 3, RCX, RDX].map(|n| m.cpu.gpr(n)), [6, 7, 3, 4]);
    let time = m.cpu.time;
    assert_eq!(m.ask(|a| a.rdtsc().unwrap()), time, "the time at the start of RDTSC");

    for (features, code, vector) in [
        (0x220, [0x0f, 0x31], 3),
        (0x224, [0x0f, 0x31], 13),
        (0x220, [0x0f, 0x33], 13),
        (0x320, [0x0f, 0x33], 3),
    ] {
        let mut m = Machine::long().at_user();
        m.set_gate(3, 0xee, 0);
        m.cpu.set_control(m.cpu.cr0(), PML4, features, m.cpu.efer());
        m.write(USER_CODE, &[code[0], code[1], 0xcc]);
        m.cpu.rip = USER_CODE;
        assert_eq!(m.vector(), vector);
    }
}
