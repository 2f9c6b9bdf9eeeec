//! A local APIC that IA32_APIC_BASE moves over RAM (APM volume 2, section 16.3.1; SDM Vol. 3A,
//! "Relocating the Local APIC Registers": "to allow individual processors in an MP system to map their
//! APIC registers to different locations in physical memory").

use guest_tests::{Guest, Options, Part, Result, SCRATCH, run, run_with};
use iced_x86::code_asm::{byte_ptr, dword_ptr, eax, ebx, ecx, edx};
use vpmu::program::LAPIC;

topics!(registers_hide_memory, instructions_come_from_the_registers, memory_of_one_processor_alone);

const APIC_BASE: u32 = 0x1B;
const ENABLE: u64 = 1 << 11;
/// A page of RAM.
const PAGE: u32 = SCRATCH + 0x1000;
/// Version register.
const VERSION: u32 = 0x30;
/// Task priority register.
const TPR: u32 = 0x80;

/// Moves the local APIC of this processor to `page`; BSP, which is read-only, may be written as zero.
fn move_to(g: &mut Guest, page: u32) -> Result {
    g.write_msr(APIC_BASE, u64::from(page) | ENABLE)
}

fn registers_hide_memory(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let report = |g: &mut Guest, when: &str, page: u32| {
            g.report_word(&format!("{when}.version"), page + VERSION)?;
            g.report_word(&format!("{when}.tpr"), page + TPR)
        };
        report(g, "there", LAPIC)?;
        g.mov(dword_ptr(PAGE + VERSION), 0x1234_5678)?;
        g.mov(dword_ptr(PAGE + TPR), 0x9ABC_DEF0_u32)?;
        report(g, "memory", PAGE)?;
        move_to(g, PAGE)?;
        report(g, "here", PAGE)?;
        g.mov(dword_ptr(PAGE + TPR), 0x21)?;
        g.mov(dword_ptr(PAGE + VERSION), 0)?;
        report(g, "written", PAGE)?;
        report(g, "nothing", LAPIC)?;
        move_to(g, LAPIC)?;
        report(g, "again", PAGE)?;
        report(g, "back", LAPIC)?;
        // Disabled, there is none over the RAM.
        g.write_msr(APIC_BASE, u64::from(PAGE))?;
        report(g, "disabled", PAGE)
    })?;
    let outcome = run(part, &image);
    let version = outcome.value("there.version");
    assert_eq!(version & 0xF0, 0x10, "an integrated local APIC");
    outcome.expect(&[
        ("there.tpr", 0),
        ("memory.version", 0x1234_5678),
        ("memory.tpr", 0x9ABC_DEF0),
        ("here.version", version),
        ("here.tpr", 0),
        ("written.version", version),
        ("written.tpr", 0x21),
        ("nothing.version", 0xFFFF_FFFF),
        ("nothing.tpr", 0xFFFF_FFFF),
        ("again.version", 0x1234_5678),
        ("again.tpr", 0x9ABC_DEF0),
        ("back.version", version),
        ("back.tpr", 0x21),
        ("disabled.version", 0x1234_5678),
        ("disabled.tpr", 0x9ABC_DEF0),
    ]);
    Ok(())
}

/// TPR takes any byte: C3h is RET.
fn instructions_come_from_the_registers(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        // INC EAX; RET.
        for (at, byte) in (PAGE + TPR..).zip([0x40, 0xC3]) {
            g.mov(byte_ptr(at), byte)?;
        }
        let call = |g: &mut Guest, when: &str| {
            g.xor(eax, eax)?;
            g.mov(ebx, PAGE + TPR)?;
            g.call(ebx)?;
            g.report_eax(when)
        };
        call(g, "memory")?;
        move_to(g, PAGE)?;
        g.mov(dword_ptr(PAGE + TPR), 0xC3)?;
        call(g, "register")?;
        move_to(g, LAPIC)?;
        call(g, "again")
    })?;
    run(part, &image).expect(&[("memory", 1), ("register", 0), ("again", 1)]);
    Ok(())
}

/// The RAM below one processor's local APIC is the other's all the time.
fn memory_of_one_processor_alone(part: &'static Part) -> Result {
    const SEEN: u32 = SCRATCH + 0x100;
    let image = Guest::assemble(part, |g| {
        let leave = |g: &mut Guest, place: u32| {
            g.mov(eax, dword_ptr(PAGE + TPR))?;
            g.xor(edx, edx)?;
            g.leave(place)
        };
        g.on_every_processor(2, |g| {
            leave(g, SEEN)?;
            g.barrier()?;
            g.on_processor(1, |g| {
                move_to(g, PAGE)?;
                g.mov(dword_ptr(PAGE + TPR), 0x31)
            })?;
            g.barrier()?;
            g.on_processor(0, |g| {
                g.mov(ecx, 0x5555)?;
                g.mov(dword_ptr(PAGE + TPR), ecx)
            })?;
            g.barrier()?;
            leave(g, SEEN + 0x10)?;
            g.on_processor(1, |g| move_to(g, LAPIC))?;
            leave(g, SEEN + 0x20)
        })?;
        g.report_left("before", SEEN)?;
        g.report_left("moved", SEEN + 0x10)?;
        g.report_left("back", SEEN + 0x20)
    })?;
    let machine = Options { cpus: 2, ..Options::default() };
    run_with(part, &image, machine).expect(&[
        ("before0", 0),
        ("before1", 0),
        ("moved0", 0x5555),
        ("moved1", 0x31),
        ("back0", 0x5555),
        ("back1", 0x5555),
    ]);
    Ok(())
}
