//! Real mode, and the way from there to 64-bit mode.

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

/// Section 8.6: INT pushes FLAGS, CS, IP as words, clears IF and TF; IRET takes them back.
#[test]
fn int_and_iret() {
    let mut m = Machine::real();
    m.cpu.set_rflags(2 | IF | 1);
    m.load(0x5000, 16, |a| {
        a.mov(bx, sp).unwrap();
        a.pushf().unwrap();
        a.pop(dx).unwrap();
        a.iret().unwrap();
    });
    // Vector 60h at 0100:4000.
    m.write_u32(4 * 0x60, 0x0100_4000);
    m.load(CODE, 16, |a| {
        a.int(0x60).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 3);
    assert_eq!((m.cpu.gpr(3), m.cpu.gpr(RSP)), (0x7000 - 6, 0x7000));
    assert_eq!([m.read_u16(0x6ffa), m.read_u16(0x6ffc)], [CODE as u16 + 2, 0]);
    assert_eq!(m.read_u16(0x6ffe), 0x203);
    // In the handler: CF, with IF clear.
    assert_eq!(m.cpu.gpr(RDX) & 0xffff, 3);
    assert_eq!(m.cpu.rflags(), 2 | IF | 1);
    assert_eq!(m.facts.far, 2);
}

/// Far transfers: CALL and RETF with released bytes; segments are selector times 16.
#[test]
fn far_call_and_return() {
    let mut m = Machine::real();
    m.write(0x5000, &[0xca, 4, 0]);
    // CALL 0400:1000.
    m.write(CODE, &[0x9a, 0x00, 0x10, 0x00, 0x04, 0xf4]);
    m.cpu.rip = CODE;
    m.step(1);
    assert_eq!((m.cpu.rip, m.cpu.segment(CS).base), (0x1000, 0x4000));
    assert_eq!([m.read_u16(0x6ffc), m.read_u16(0x6ffe)], [CODE as u16 + 5, 0]);
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.rip, m.cpu.gpr(RSP)), (CODE + 6, 0x7004));
    assert_eq!(m.facts.seg_loads[usize::from(CS)], 2);
}

/// Section 8.6.1: an interrupt table too short for #GP as well as #DF shuts the processor down.
#[test]
fn short_interrupt_table() {
    let mut m = Machine::real();
    m.cpu.idtr.limit = 8 * 4 - 1;
    m.load(CODE, 16, |a| a.int(0x60).unwrap());
    assert_eq!(m.run(), Exit::Shutdown);
}

/// Chapter 14: from reset's real mode by way of protected mode to 64-bit mode, as kernels do it.
#[test]
fn real_to_64_bit_mode() {
    let tables = Machine::long();
    let mut m = Machine::real();
    for at in (GDT..GDT + 0x40).step_by(8).chain([PML4, PML4 + 0x1000, PML4 + 0x2000]) {
        m.write_u64(at, tables.read_u64(at));
    }
    m.write_u16(DATA, 0x3f);
    m.write_u32(DATA + 2, GDT as u32);
    m.write_u32(DATA + 0x10, CODE as u32 + 0x200);
    m.write_u16(DATA + 0x14, sel::CODE64);
    m.load(CODE + 0x200, 64, |a| {
        a.mov(rax, 0x1122_3344_5566_7788u64).unwrap();
        a.mov(rbx, cr0).unwrap();
        a.hlt().unwrap();
    });
    m.load(CODE + 0x100, 32, |a| {
        a.mov(ax, i32::from(sel::DATA)).unwrap();
        for register in [ds, es, ss] {
            a.mov(register, ax).unwrap();
        }
        a.mov(eax, cr4).unwrap();
        a.or(eax, 0x20).unwrap();
        a.mov(cr4, eax).unwrap();
        a.mov(eax, PML4 as i32).unwrap();
        a.mov(cr3, eax).unwrap();
        a.mov(ecx, 0xc000_0080u32).unwrap();
        a.rdmsr().unwrap();
        a.or(eax, 0x100).unwrap();
        a.wrmsr().unwrap();
        a.mov(eax, cr0).unwrap();
        a.or(eax, 0x8000_0000u32).unwrap();
        a.mov(cr0, eax).unwrap();
        a.mov(ebx, DATA as i32 + 0x10).unwrap();
        // JMP FAR [EBX].
        a.db(&[0xff, 0x2b]).unwrap();
    });
    m.load(CODE, 16, |a| {
        a.cli().unwrap();
        a.mov(ax, (DATA >> 4) as i32).unwrap();
        a.mov(ds, ax).unwrap();
        // LGDT [0] with a 32-bit base.
        a.db(&[0x66, 0x0f, 0x01, 0x16, 0, 0]).unwrap();
        a.mov(eax, cr0).unwrap();
        a.or(al, 1).unwrap();
        a.mov(cr0, eax).unwrap();
        // JMP 18:8100 with a 32-bit offset.
        a.db(&[0x66, 0xea, 0x00, 0x81, 0, 0, sel::CODE32 as u8, 0]).unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.gpr(RAX), 0x1122_3344_5566_7788);
    assert_eq!(m.cpu.gpr(3), m.cpu.cr0());
    // LME and LMA.
    assert_eq!(m.cpu.efer(), 0x500);
    // Two far jumps; DS in real mode, then DS, ES, SS.
    assert_eq!(m.facts.far, 2);
    assert_eq!(m.facts.seg_loads, [1, 2, 1, 2, 0, 0]);
}

/// Segment limits stay when real mode loads a segment register ("unreal mode").
#[test]
fn real_mode_keeps_limits() {
    let mut m = Machine::real();
    let mut wide = *m.cpu.segment(DS);
    wide.limit = u32::MAX;
    m.cpu.set_segment(DS, wide);
    m.load(CODE, 16, |a| {
        a.mov(ax, 0x10).unwrap();
        a.mov(ds, ax).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    let segment = *m.cpu.segment(DS);
    assert_eq!((segment.selector, segment.base, segment.limit), (0x10, 0x100, u32::MAX));
}
