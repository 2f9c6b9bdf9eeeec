//! Lines of devices.

use guest_tests::{Guest, Result};
use iced_x86::code_asm::{al, dword_ptr, dx, eax};

use super::*;

/// Port B of the 8259A's master: its mask, and ICW2 to ICW4.
const PIC: i32 = 0x20;
const PIC_MASK: i32 = 0x21;
/// Non-specific end of interrupt (8259A data sheet, OCW2).
const PIC_EOI: u32 = 0x20;
const ALL_BUT_IRQ4: u32 = 0xEF;
/// Modem control and interrupt enable registers of the first 16550: OUT2 opens its line, IRQ4, and the
/// transmitter is empty.
const MODEM_CONTROL: u32 = 0x3FC;
const INTERRUPT_ENABLE: u32 = 0x3F9;
const OUT2: u32 = 8;
const TRANSMITTER_EMPTY: u32 = 2;
/// The I/O APIC's registers, and the lower half of the entry of IRQ4.
const IOREGSEL: u32 = 0xFEC0_0000;
const IOWIN: u32 = 0xFEC0_0010;
const ENTRY_4: u32 = 0x18;

/// MOV, OUT.
fn pic(g: &mut Guest, port: i32, value: u32) -> Result {
    g.mov(eax, value)?;
    g.out(port, al)
}

/// IRQ4: MOV, MOV, OUT.
fn line(g: &mut Guest, level: u32) -> Result {
    g.mov(dx, MODEM_CONTROL)?;
    g.mov(eax, level)?;
    g.out(dx, al)
}

/// The 8259A as firmware leaves it, with IRQ4 at [`IRQ4`] open, and its line low.
fn set_up_irq4(g: &mut Guest) -> Result {
    line(g, 0)?;
    g.mov(dx, INTERRUPT_ENABLE)?;
    g.mov(eax, TRANSMITTER_EMPTY)?;
    g.out(dx, al)?;
    pic(g, PIC, 0x11)?;
    for value in [u32::from(IRQ4) - 4, 4, 1, ALL_BUT_IRQ4] {
        pic(g, PIC_MASK, value)?;
    }
    g.write_lapic(LVT_LINT0, EXT_INT)
}

/// Line low, end of interrupt.
fn end_irq4(g: &mut Guest) -> Result {
    line(g, 0)?;
    pic(g, PIC, PIC_EOI)
}

/// Requests of the 8259A reach the processor at LINT0.
pub(super) const PIC_REQUESTS: &[Row] = {
    &[
            Row {
                name: "OUT that raises a line",
                prepare: |g| {
                    set_up_irq4(g)?;
                    enabled(g)
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    mark(g, "line")
                },
                body: end_irq4,
                expected: |_| vec![("line", 3)],
            },
            Row {
                name: "OUT to the mask",
                prepare: |g| {
                    set_up_irq4(g)?;
                    pic(g, PIC_MASK, 0xFF)?;
                    enabled(g)
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    pic(g, PIC_MASK, ALL_BUT_IRQ4)?; // 5
                    mark(g, "mask")
                },
                body: end_irq4,
                expected: |_| vec![("mask", 5)],
            },
            Row {
                name: "OUT of an end of interrupt",
                prepare: |g| {
                    set_up_irq4(g)?;
                    enabled(g)
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    mark(g, "in service")
                },
                body: |g| {
                    once(g, |g| {
                        // Another edge, while the first one is in service.
                        line(g, 0)?; // 3
                        line(g, OUT2)?; // 6
                        g.sti()?; // 7
                        g.nop()?; // 8
                        pic(g, PIC, PIC_EOI)?; // 10
                        mark(g, "ended")?;
                        g.nop()
                    })?;
                    end_irq4(g)
                },
                expected: |_| vec![("in service", 3), ("ended", 3 + PROLOGUE + ONCE + 10)],
            },
            Row {
                name: "unmasking LINT0",
                prepare: |g| {
                    set_up_irq4(g)?;
                    g.write_lapic(LVT_LINT0, MASKED | EXT_INT)?;
                    enabled(g)
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    g.write_lapic(LVT_LINT0, EXT_INT)?; // 5
                    mark(g, "lint0")
                },
                body: end_irq4,
                expected: |_| vec![("lint0", 5)],
            },
            Row {
                name: "unmasking LINT0 with a vector and a level",
                prepare: |g| {
                    set_up_irq4(g)?;
                    g.write_lapic(LVT_LINT0, MASKED | LEVEL | u32::from(VECTOR))?;
                    enabled(g)
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    g.write_lapic(LVT_LINT0, LEVEL | u32::from(VECTOR))?; // 5
                    mark(g, "level")
                },
                body: |g| {
                    pic(g, PIC_MASK, 0xFF)?;
                    line(g, 0)?;
                    end(g)?;
                    g.write_lapic(LVT_LINT0, MASKED | EXT_INT)
                },
                expected: |_| vec![("level", 5)],
            },
        ]
};

/// Requests of a pin of the I/O APIC.
pub(super) const IO_APIC: &[Row] = {
    fn set_up(g: &mut Guest) -> Result {
        set_up_irq4(g)?;
        g.write_lapic(LVT_LINT0, MASKED | EXT_INT)?;
        // The upper half is zero after reset: physical destination 0.
        g.mov(dword_ptr(IOREGSEL), ENTRY_4)?;
        enabled(g)
    }
    fn mask(g: &mut Guest) -> Result {
        line(g, 0)?;
        end(g)
    }
    &[
            Row {
                name: "an edge",
                prepare: |g| {
                    set_up(g)?;
                    g.mov(dword_ptr(IOWIN), u32::from(VECTOR))
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    mark(g, "edge")?;
                    g.mov(dword_ptr(IOWIN), MASKED)
                },
                body: mask,
                expected: |_| vec![("edge", 3)],
            },
            Row {
                name: "unmasking a level",
                prepare: |g| {
                    set_up(g)?;
                    g.mov(dword_ptr(IOWIN), MASKED | LEVEL | u32::from(VECTOR))
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    g.nop()?; // 4
                    g.mov(dword_ptr(IOWIN), LEVEL | u32::from(VECTOR))?; // 5
                    mark(g, "unmasked")?;
                    g.mov(dword_ptr(IOWIN), MASKED)
                },
                body: mask,
                expected: |_| vec![("unmasked", 5)],
            },
            Row {
                // Still asserted: it comes again.
                name: "EOI of a level",
                prepare: |g| {
                    set_up(g)?;
                    g.mov(dword_ptr(IOWIN), LEVEL | u32::from(VECTOR))
                },
                counted: |g| {
                    line(g, OUT2)?; // 3
                    mark(g, "asserted")?;
                    g.mov(dword_ptr(IOWIN), MASKED)
                },
                body: |g| {
                    once(g, |g| {
                        g.sti()?; // 1
                        g.nop()?; // 2
                        end(g)?; // 4
                        mark(g, "again")?;
                        g.nop()
                    })?;
                    mask(g)
                },
                expected: |_| vec![("asserted", 3), ("again", 3 + PROLOGUE + ONCE + 4)],
            },
        ]
};

