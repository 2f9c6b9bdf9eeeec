//! What lets an interrupt through in long mode is looked at on the next instruction boundary, as the
//! guests of `guest-tests` show of the rest.

use iced_x86::code_asm::*;
use x86_cpu::descriptor::{DescriptorTable, Segment};
use x86_cpu::insn::{gpr, seg};

use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};
use crate::config::{Config, Limits};
use crate::console::Console;
use crate::irq::pic::Chip;
use crate::machine::{End, Machine};

const TABLES: u64 = 0x1_0000;
const GDT: u64 = 0x2000;
const IDT: u64 = 0x3000;
const TSS: u64 = 0x4000;
/// A HLT for each vector, 16 bytes apart.
const HANDLERS: u64 = 0x5000;
const CODE: u64 = 0x8000;
/// Behind what lets the interrupt through.
const BEHIND: u64 = 0x9000;
const STACK: u64 = 0x2_0000;

const KERNEL_CS: u16 = 0x08;
const KERNEL_SS: u16 = 0x10;
/// SYSRET takes CS from bits 63:48 of STAR and 16, SS from 8.
const STAR: u64 = 0x18 << 48;
const IF: u64 = 1 << 9;
const VECTOR: u8 = 0x60;
/// The 8259A's vector of IRQ4.
const IRQ4: u8 = 0x24;

const LAPIC: u64 = 0xFEE0_0000;
const ICR: u64 = LAPIC + 0x300;
const SVR: u32 = 0xF0;
/// Fixed, asserted, to the sender.
const TO_SELF: u32 = 1 << 18 | 1 << 14;
/// NMI to physical destination 0.
const NMI: u32 = 4 << 8 | 1 << 14;

/// A K8 in 64-bit mode at CPL 0, with the first two megabytes and the local APIC mapped for all,
/// that is about to execute `code`. What follows it is at [`BEHIND`].
fn long_mode(code: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> Machine {
    let image = Image { name: "test".into(), bytes: vec![0xF4] };
    let ram = RamLayout::new(2 << 20, None).unwrap();
    let config = Config::new("k8", ram, Payload::Flat { image, address: CODE }).unwrap();
    let mut machine = Machine::new(&config).unwrap();
    let put = |address: u64, bytes: &[u8]| {
        assert!(machine.memory.ram().write_bytes(address, bytes));
    };
    let quad = |address: u64, value: u64| put(address, &value.to_le_bytes());

    // Present, writable, user; PS, 2 MiB. The local APIC is in gibibyte 3, megabytes 1006 and 1007.
    quad(TABLES, (TABLES + 0x1000) | 7);
    quad(TABLES + 0x1000, (TABLES + 0x2000) | 7);
    quad(TABLES + 0x1000 + 3 * 8, (TABLES + 0x3000) | 7);
    quad(TABLES + 0x2000, 0x87);
    quad(TABLES + 0x3000 + 503 * 8, LAPIC | 0x87);
    for (n, descriptor) in [
        0,
        0x00AF_9B00_0000_FFFF,
        0x00CF_9300_0000_FFFF,
        0,
        0x00CF_F300_0000_FFFF,
        0x00AF_FB00_0000_FFFF,
    ]
    .into_iter()
    .enumerate()
    {
        quad(GDT + 8 * n as u64, descriptor);
    }
    quad(TSS + 4, STACK);
    for vector in 0..256 {
        let handler = HANDLERS + 16 * vector;
        put(handler, &[0xF4]);
        let gate = handler | u64::from(KERNEL_CS) << 16 | 0x8E << 40;
        quad(IDT + 16 * vector, gate);
    }
    let mut assembler = CodeAssembler::new(64).unwrap();
    code(&mut assembler).unwrap();
    put(CODE, &assembler.assemble(CODE).unwrap());
    put(BEHIND, &[0x90; 64]);

    let cpu = &mut machine.vcpus[0].cpu;
    // PE, NE, PG; PAE; SCE, LME, LMA.
    cpu.set_control(0x8000_0021, TABLES, 0x20, 0x501);
    let flat = |selector, attributes| Segment { selector, base: 0, limit: u32::MAX, attributes };
    cpu.set_segment(seg::CS, flat(KERNEL_CS, 0xA09B));
    for n in [seg::SS, seg::DS, seg::ES] {
        cpu.set_segment(n, flat(KERNEL_SS, 0xC093));
    }
    cpu.tr = Segment { selector: 0x38, base: TSS, limit: 0x67, attributes: 0x8B };
    cpu.gdtr = DescriptorTable { base: GDT, limit: 0x2F };
    cpu.idtr = DescriptorTable { base: IDT, limit: 0xFFF };
    cpu.msrs.star = STAR;
    cpu.set_gpr(gpr::RSP, STACK - 0x100);
    cpu.set_rflags(2);
    cpu.rip = CODE;
    machine.board.chipset.irq.lapic_mut(0).write(SVR, 0x1FF, 0);
    machine
}

/// Runs until a handler halts: its vector, the address that it interrupted, and how many instructions
/// have retired, its HLT not among them.
fn interrupted(mut machine: Machine) -> (u64, u64, u64) {
    let limits = Limits { instructions: Some(1000), timeout: None };
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    assert_eq!(machine.run(limits, &mut console).unwrap(), End::Halted);
    let cpu = &machine.vcpus()[0].cpu;
    let mut frame = [0; 8];
    assert!(machine.memory.ram().read_bytes(cpu.gpr(gpr::RSP), &mut frame));
    ((cpu.rip - HANDLERS) / 16, u64::from_le_bytes(frame), cpu.retired() - 1)
}

fn store(a: &mut CodeAssembler, address: u64, value: u32) -> Result<(), IcedError> {
    a.mov(rdi, address)?;
    a.mov(dword_ptr(rdi), value)
}

/// JMP to [`BEHIND`], which does not count.
fn go_behind(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, BEHIND)?;
    a.jmp(rax)
}

/// "CR8 ... system software can use it to block low-priority interrupts" (APM volume 2, "CR8 (Task
/// Priority Register, TPR)"): it holds class 6, until it is below.
#[test]
fn mov_to_cr8() {
    let held = |then: u32| {
        long_mode(move |a| {
            a.mov(eax, 6)?; // 1
            a.mov(cr8, rax)?; // 2
            a.sti()?; // 3
            a.nop()?; // 4
            store(a, ICR, TO_SELF | u32::from(VECTOR))?; // 6
            a.nop()?; // 7
            a.mov(eax, then)?; // 8
            a.mov(cr8, rax)?; // 9
            (0..4).try_for_each(|_| a.nop())?;
            a.mov(eax, 0)?;
            a.mov(cr8, rax)?; // 15
            go_behind(a)
        })
    };
    for (then, retired) in [(5, 9), (0, 9), (7, 15), (6, 15)] {
        let (vector, _, at) = interrupted(held(then));
        assert_eq!((vector, at), (u64::from(VECTOR), retired), "CR8 = {then}");
    }
}

/// RFLAGS is R11's (APM volume 3, "SYSRET").
#[test]
fn sysret() {
    let machine = long_mode(|a| {
        store(a, ICR, TO_SELF | u32::from(VECTOR))?; // 2
        a.mov(rcx, BEHIND)?; // 3
        a.mov(r11, IF | 2)?; // 4
        a.sysretq() // 5
    });
    assert_eq!(interrupted(machine), (u64::from(VECTOR), BEHIND, 5));
}

/// RFLAGS is the frame's.
#[test]
fn iretq() {
    let machine = long_mode(|a| {
        store(a, ICR, TO_SELF | u32::from(VECTOR))?; // 2
        for word in [KERNEL_SS.into(), STACK as i32, IF as i32 | 2, KERNEL_CS.into()] {
            a.push(word)?; // 6
        }
        a.push(BEHIND as i32)?; // 7
        a.iretq() // 8
    });
    assert_eq!(interrupted(machine), (u64::from(VECTOR), BEHIND, 8));
}

/// IRETQ ends the blocking of NMIs, IF being what it is.
#[test]
fn iretq_of_an_nmi_handler() {
    for flags in [2, IF | 2] {
        let mut machine = long_mode(move |a| {
            store(a, ICR, NMI)?; // 2
            a.nop()?; // 3
            for word in [KERNEL_SS.into(), STACK as i32, flags as i32, KERNEL_CS.into()] {
                a.push(word)?; // 7
            }
            a.push(BEHIND as i32)?; // 8
            a.iretq() // 9
        });
        machine.vcpus[0].cpu.set_nmi_blocked(true);
        assert_eq!(interrupted(machine), (2, BEHIND, 9));
    }
}

/// Without a local APIC, LINT0 is the processor's INTR (APM volume 2, "Local APIC Enable").
#[test]
fn wrmsr_that_disables_the_local_apic() {
    const APIC_BASE: u32 = 0x1B;
    const LINT0: u32 = 0x350;
    let mut machine = long_mode(|a| {
        a.sti()?; // 1
        a.nop()?; // 2
        a.mov(ecx, APIC_BASE)?; // 3
        a.xor(edx, edx)?; // 4
        a.mov(eax, LAPIC as u32)?; // 5
        a.wrmsr()?; // 6
        go_behind(a)
    });
    let irq = &mut machine.board.chipset.irq;
    irq.pic_write(Chip::Master, false, 0x11);
    for value in [IRQ4 - 4, 4, 1, 0xEF] {
        irq.pic_write(Chip::Master, true, value);
    }
    irq.lapic_mut(0).write(LINT0, 1 << 16, 0);
    irq.set_gsi(4, true);
    let (vector, _, retired) = interrupted(machine);
    assert_eq!((vector, retired), (u64::from(IRQ4), 6));
}
