//! The device that kernel test suites expect of a PC: `pc-testdev`, as QEMU and kvm-unit-tests know it.

use guest_tests::guest::EOI;
use guest_tests::{Guest, Options, Part, Result, SCRATCH, run, run_with};
use iced_x86::code_asm::{al, ax, byte_ptr, dword_ptr, dx, eax, edx};
use vpmu::program::LAPIC;

topics!(a_line_through_the_io_apic, what_it_keeps, off_by_default);

const WITH: Options = Options { test_device: true, ..Options::DEFAULT };

/// Line 14, which no device has.
const LINE: u32 = 0x200E;
const ECHO: u32 = 0xE0;
const FLUSH: u32 = 0xE4;
const ECHO_BYTES: u32 = 0xE8;
const MEMORY: u32 = 0xFF00_0000;

const VECTOR: u8 = 0x60;
const IOREGSEL: u32 = 0xFEC0_0000;
const IOWIN: u32 = 0xFEC0_0010;
/// Lower half of the entry of pin 14.
const ENTRY_14: u32 = 0x10 + 2 * 14;
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;

const LVT_LINT0: u32 = 0x350;

const TAKEN: u32 = SCRATCH;

fn line(g: &mut Guest, level: u32) -> Result {
    g.mov(edx, LINE)?;
    g.mov(eax, level)?;
    g.out(dx, al)
}

fn wait_for(g: &mut Guest, taken: u32) -> Result {
    let again = g.here()?;
    g.cmp(dword_ptr(TAKEN), taken as i32)?;
    g.jb(again)
}

/// An edge is one interrupt, however long the line is high; a level one after the other until it is
/// low; a masked entry forgets an edge, and finds a level.
fn a_line_through_the_io_apic(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let mut over = g.create_label();
        g.jmp(over)?;
        let entry = g.here()?;
        g.gate(VECTOR, entry, 0);
        g.push(eax)?;
        g.push(edx)?;
        g.inc(dword_ptr(TAKEN))?;
        // The fifth time is enough.
        let mut high = g.create_label();
        g.cmp(dword_ptr(TAKEN), 5)?;
        g.jb(high)?;
        line(g, 0)?;
        g.place(&mut high)?;
        g.mov(dword_ptr(LAPIC + EOI as u32), 0)?;
        g.pop(edx)?;
        g.pop(eax)?;
        g.iretd()?;
        g.place(&mut over)?;

        // The line is the 8259A's as well.
        g.mov(dword_ptr(LAPIC + LVT_LINT0), MASKED)?;
        g.mov(dword_ptr(IOREGSEL), ENTRY_14)?;
        g.mov(dword_ptr(IOWIN), u32::from(VECTOR))?;
        g.sti()?;
        line(g, 1)?;
        wait_for(g, 1)?;
        line(g, 1)?;
        g.report_word("edge", TAKEN)?;
        line(g, 0)?;
        // Anything but zero is high.
        line(g, 0x80)?;
        wait_for(g, 2)?;
        g.mov(dword_ptr(IOWIN), MASKED | u32::from(VECTOR))?;
        line(g, 0)?;
        line(g, 1)?;
        g.mov(dword_ptr(IOWIN), u32::from(VECTOR))?;
        g.report_word("masked", TAKEN)?;
        g.mov(dword_ptr(IOWIN), LEVEL | u32::from(VECTOR))?;
        wait_for(g, 5)?;
        line(g, 0)?;
        g.report_word("level", TAKEN)?;
        g.cli()
    })?;
    let outcome = run_with(part, &image, WITH);
    outcome.expect(&[("edge", 1), ("masked", 2)]);
    // A kernel's I/O APIC may have sent one more before it sees the level fall.
    assert!(matches!(outcome.value("level"), 5 | 6));
    Ok(())
}

/// The ports in any width, the second four byte by byte; the memory; and the port that flushes, which
/// changes nothing.
fn what_it_keeps(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.mov(eax, 0x1234_5678)?;
        g.mov(edx, ECHO)?;
        g.out(dx, eax)?;
        for (name, port) in [("echo", ECHO), ("bytes", ECHO_BYTES)] {
            g.mov(edx, port)?;
            g.in_(eax, dx)?;
            g.report_eax(name)?;
        }
        g.xor(eax, eax)?;
        g.mov(edx, ECHO + 1)?;
        g.in_(al, dx)?;
        g.report_eax("second byte")?;
        g.mov(eax, 0xABCD)?;
        g.mov(edx, ECHO + 2)?;
        g.out(dx, ax)?;
        g.mov(edx, ECHO)?;
        g.in_(eax, dx)?;
        g.report_eax("upper word")?;
        g.mov(eax, SCRATCH)?;
        g.mov(edx, FLUSH)?;
        g.out(dx, eax)?;
        g.mov(dword_ptr(MEMORY + 0xFFFC), 0x0102_0304)?;
        g.mov(al, 0xEE)?;
        g.mov(byte_ptr(MEMORY + 0xFFFD), al)?;
        g.report_word("memory", MEMORY + 0xFFFC)?;
        g.report_word("first", MEMORY)?;
        g.report_word("behind", MEMORY + 0x1_0000)
    })?;
    run_with(part, &image, WITH).expect(&[
        ("echo", 0x1234_5678),
        ("bytes", 0x1234_5678),
        ("second byte", 0x56),
        ("upper word", 0xABCD_5678),
        ("memory", 0x0102_EE04),
        ("first", 0),
        ("behind", 0xFFFF_FFFF),
    ]);
    Ok(())
}

/// Then nobody is there.
fn off_by_default(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.mov(edx, ECHO)?;
        g.xor(eax, eax)?;
        g.out(dx, eax)?;
        g.in_(eax, dx)?;
        g.report_eax("echo")?;
        g.mov(dword_ptr(MEMORY), 0)?;
        g.report_word("memory", MEMORY)
    })?;
    run(part, &image).expect(&[("echo", 0xFFFF_FFFF), ("memory", 0xFFFF_FFFF)]);
    Ok(())
}
