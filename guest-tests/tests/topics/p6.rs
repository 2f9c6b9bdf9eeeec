//! What only P6 has: one enable bit for both counters, event 2Eh that counts nothing without a unit
//! mask, and counters that take 32 bits and extend the sign (SDM Vol. 3, "PerfEvtSel0 and
//! PerfEvtSel1 MSRs" and "PerfCtr0 and PerfCtr1 MSRs"; Intel MMX Technology manual, table 6-2); and a
//! local APIC whose registers are not on the bus.

use guest_tests::msr::{EN, OS, P6_EVT_SEL0, P6_EVT_SEL1};
use guest_tests::part::event;
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, ecx, edi};

topics!(
    one_enable_bit,
    event_2eh_without_a_unit_mask,
    writes_extend_the_sign,
    the_local_apic_is_not_on_the_bus,
);

const INSTRUCTIONS: u64 = 0xC0;

/// EN of PerfEvtSel1 does nothing, as NetBSD finds out that starts counter 1 alone; EN of
/// PerfEvtSel0 starts and stops both.
fn one_enable_bit(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let report = |g: &mut Guest, when: &str| {
            for n in 0..2 {
                g.read_msr(part.perfctr(n))?;
                g.report(&format!("{when}.{n}"))?;
            }
            Ok(())
        };
        g.write_msr(P6_EVT_SEL1, INSTRUCTIONS | OS | EN)?;
        g.nop()?;
        g.read_msr(P6_EVT_SEL1)?;
        g.report("evtsel1")?;
        report(g, "alone")?;

        g.write_msr(P6_EVT_SEL0, INSTRUCTIONS | OS | EN)?;
        g.nop()?; // 1
        g.write_msr(P6_EVT_SEL0, INSTRUCTIONS | OS)?; // 4
        g.nop()?;
        report(g, "both")?;

        // Counter 0 selects nothing, and its EN still serves counter 1.
        g.write_msr(P6_EVT_SEL0, EN)?;
        g.nop()?; // 1
        g.nop()?; // 2
        g.write_msr(P6_EVT_SEL0, 0)?; // 4
        report(g, "other")
    })?;
    run(part, &image).expect(&[
        ("evtsel1", INSTRUCTIONS | OS | EN),
        ("alone.0", 0),
        ("alone.1", 0),
        ("both.0", 1 + 4),
        ("both.1", 1 + 4),
        ("other.0", 1 + 4),
        ("other.1", 1 + 4 + 2 + 4),
    ]);
    Ok(())
}

/// Linux disables a counter by event 2Eh with unit mask 0: in PerfEvtSel0 that clears EN, and
/// counter 1 stops as well until EN comes back.
fn event_2eh_without_a_unit_mask(part: &'static Part) -> Result {
    const NOTHING: u64 = 0x2E;
    let image = Guest::assemble(part, |g| {
        g.count("2E", event(NOTHING), OS, |g| {
            g.mov(ecx, dword_ptr(SCRATCH))?;
            g.wbinvd()?;
            g.mov(ecx, dword_ptr(SCRATCH))
        })?;
        g.start(0, part.instructions, OS, 0)?;
        g.start(1, part.instructions, OS, 0)?;
        g.nop()?; // 1
        g.write_msr(P6_EVT_SEL0, NOTHING)?; // 4
        g.nop()?;
        g.nop()?;
        g.write_msr(P6_EVT_SEL0, NOTHING | EN)?;
        g.nop()?; // 1, counter 1 alone
        g.write_msr(P6_EVT_SEL0, 0)?; // 4
        for n in 0..2 {
            g.read_msr(part.perfctr(n))?;
            g.report(&format!("counter{n}"))?;
        }
        Ok(())
    })?;
    run(part, &image).expect(&[
        ("2E", 0),
        ("counter0", part.starting() + 1 + 4),
        ("counter1", 1 + 4 + 1 + 4),
    ]);
    Ok(())
}

/// Bits 39:32 are copies of bit 31, whatever EDX holds.
fn writes_extend_the_sign(part: &'static Part) -> Result {
    let cases: [(u64, u64); 5] = [
        (0x0000_0000_7FFF_FFFF, 0x00_7FFF_FFFF),
        (0x0000_0000_8000_0001, 0xFF_8000_0001),
        (0xFFFF_FFFF_FFFF_FFFF, 0xFF_FFFF_FFFF),
        (0xFFFF_FFFF_0000_0001, 0x00_0000_0001),
        (0x0000_0012_3456_789A, 0x00_3456_789A),
    ];
    let image = Guest::assemble(part, |g| {
        for (value, _) in cases {
            for n in 0..2 {
                g.write_msr(part.perfctr(n), value)?;
                g.read_msr(part.perfctr(n))?;
                g.report(&format!("rdmsr{n}.{value:x}"))?;
                g.read_pmc(n)?;
                g.report(&format!("rdpmc{n}.{value:x}"))?;
            }
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for (value, held) in cases {
        for register in ["rdmsr0", "rdmsr1", "rdpmc0", "rdpmc1"] {
            outcome.expect(&[(&format!("{register}.{value:x}"), held)]);
        }
    }
    Ok(())
}

/// Writes of uncacheable memory are partial writes on the bus, event 6Ah. The registers of the I/O APIC are
/// such memory; "the APIC handles all memory accesses to addresses within the 4-KByte APIC register space
/// internally and no external bus cycles are produced" (SDM Vol. 3, "Local APIC Block Diagram").
fn the_local_apic_is_not_on_the_bus(part: &'static Part) -> Result {
    const TASK_PRIORITY: i32 = 0x80;
    const IO_APIC: u32 = 0xFEC0_0000;
    let writes = event(0x6A);
    let image = Guest::assemble(part, |g| {
        g.count("local", writes, OS, |g| {
            (0..4).try_for_each(|_| g.write_lapic(TASK_PRIORITY, 0))
        })?;
        g.count("other", writes, OS, |g| {
            g.mov(edi, IO_APIC)?;
            g.xor(ecx, ecx)?;
            (0..4).try_for_each(|_| g.mov(dword_ptr(edi), ecx))
        })
    })?;
    run(part, &image).expect(&[("local", 0), ("other", 4)]);
    Ok(())
}
