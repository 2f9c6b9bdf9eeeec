//! The local vector table entry of the performance counters (APM volume 2, section 16.4.3; SDM Vol.
//! 3A, "Local Vector Table").

use guest_tests::guest::{EOI, LVT_MASKED, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::{Guest, PMI_VECTOR, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, eax, edi};
use vpmu::program::LAPIC;

topics!(a_masked_entry_loses_the_interrupt, delivery_does_not_mask, delivery_masks);

/// Counter 0 overflows with the second NOP.
fn overflow(g: &mut Guest) -> Result {
    g.start(0, g.part.instructions, OS | INT, 2_u64.wrapping_neg())?;
    g.nop()?;
    g.nop()?;
    g.nop()?;
    g.stop(0)
}

fn report_lvtpc(g: &mut Guest, name: &str) -> Result {
    g.mov(edi, LAPIC)?;
    g.mov(eax, dword_ptr(edi + LVTPC))?;
    g.report_eax(name)
}

/// After reset LVTPC is masked; a PMI that meets the mask is lost, not kept.
fn a_masked_entry_loses_the_interrupt(part: &'static Part) -> Result {
    for delivery in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(part, |g| {
            report_lvtpc(g, "reset")?;
            g.write_lapic(LVTPC, delivery | LVT_MASKED)?;
            g.sti()?;
            overflow(g)?;
            g.report_pmis("masked", 0)?;
            g.write_lapic(LVTPC, delivery)?;
            g.nop()?;
            g.nop()?;
            g.report_pmis("unmasked", 0)?;
            overflow(g)?;
            g.report_pmis("next", 0)
        })?;
        run(part, &image).expect(&[
            ("reset", 0x1_0000),
            ("masked", 0),
            ("unmasked", 0),
            ("next", 1),
        ]);
    }
    Ok(())
}

/// Delivery does not set the mask bit: the handler need not clear it.
fn delivery_does_not_mask(part: &'static Part) -> Result {
    for delivery in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, delivery)?;
            g.sti()?;
            overflow(g)?;
            report_lvtpc(g, "lvtpc")?;
            overflow(g)?;
            overflow(g)?;
            g.report_pmis("pmis", 0)
        })?;
        run(part, &image).expect(&[("lvtpc", u64::from(delivery)), ("pmis", 3)]);
    }
    Ok(())
}

/// Delivery sets the mask bit, and the next PMI is lost unless the handler clears it.
fn delivery_masks(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let mut over = g.create_label();
        g.jmp(over)?;
        let handler = g.here()?;
        g.gate(PMI_VECTOR, handler, 0);
        g.push(edi)?;
        g.inc(dword_ptr(SCRATCH))?;
        g.write_lapic(EOI, 0)?;
        g.pop(edi)?;
        g.iretd()?;
        g.place(&mut over)?;

        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        g.sti()?;
        overflow(g)?;
        report_lvtpc(g, "delivered")?;
        overflow(g)?;
        g.report_word("pmis", SCRATCH)?;
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        overflow(g)?;
        g.report_word("pmis.unmasked", SCRATCH)
    })?;
    run(part, &image).expect(&[
        ("delivered", u64::from(LVT_MASKED | u32::from(PMI_VECTOR))),
        ("pmis", 1),
        ("pmis.unmasked", 2),
    ]);
    Ok(())
}
