//! The local vector table entry of the performance counters (APM volume 2, section 16.4.3).

use guest_tests::guest::{LVT_MASKED, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::{Guest, PMI_VECTOR, Result, run};
use iced_x86::code_asm::{dword_ptr, eax, edi, rdi};
use vpmu::demo::program::LAPIC;

const INSTRUCTIONS: u64 = 0xC0;

/// Counter 0 overflows with the second NOP.
fn overflow(g: &mut Guest) -> Result {
    g.start(0, INSTRUCTIONS | OS | INT, 2_u64.wrapping_neg())?;
    g.nop()?;
    g.nop()?;
    g.nop()?;
    g.stop(0)
}

fn report_lvtpc(g: &mut Guest, name: &str) -> Result {
    g.mov(edi, LAPIC)?;
    g.mov(eax, dword_ptr(rdi + LVTPC))?;
    g.report(name)
}

/// After reset LVTPC is masked; a PMI that meets the mask is lost, not kept.
#[test]
fn a_masked_entry_loses_the_interrupt() -> Result {
    for delivery in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(|g| {
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
        run(&image).expect(&[("reset", 0x1_0000), ("masked", 0), ("unmasked", 0), ("next", 1)]);
    }
    Ok(())
}

/// K8 does not set the mask bit when it delivers a PMI: the handler need not clear it.
#[test]
fn delivery_does_not_mask() -> Result {
    for delivery in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(|g| {
            g.write_lapic(LVTPC, delivery)?;
            g.sti()?;
            overflow(g)?;
            report_lvtpc(g, "lvtpc")?;
            overflow(g)?;
            overflow(g)?;
            g.report_pmis("pmis", 0)
        })?;
        run(&image).expect(&[("lvtpc", u64::from(delivery)), ("pmis", 3)]);
    }
    Ok(())
}
