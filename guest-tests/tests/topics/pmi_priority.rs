//! A PMI with a vector among other interrupts (SDM Vol. 3A, "Task and Processor Priorities"; APM
//! volume 2, "Interrupt Priority" of the local APIC): it waits in IRR while its class, bits 7:4 of
//! the vector, is not above that of TPR and of the interrupt in service. An NMI does not.

use guest_tests::guest::{EOI, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::{Guest, PMI_VECTOR, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, eax, ecx, edi, edx};
use vpmu::program::LAPIC;

topics!(
    it_waits_for_a_higher_class,
    it_waits_for_the_task_priority,
    it_interrupts_a_lower_class,
    the_higher_of_two_that_wait_is_first,
    an_nmi_does_not_wait,
);

const TPR: i32 = 0x80;
const ICR: i32 = 0x300;
/// Fixed delivery, asserted, to the sender.
const TO_SELF: u32 = 1 << 18 | 1 << 14;
/// Word of IRR with [`PMI_VECTOR`], 50h, in bit 16.
const IRR_2: i32 = 0x220;
const IN_IRR: u64 = 1 << 16;

/// How often the other handler was there.
const OTHERS: u32 = SCRATCH;

/// The handler at `vector`.
fn handler(g: &mut Guest, vector: u8, body: impl FnOnce(&mut Guest) -> Result) -> Result {
    let registers = [eax, ecx, edx, edi];
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(vector, entry, 0);
    for register in registers {
        g.push(register)?;
    }
    g.inc(dword_ptr(OTHERS))?;
    body(g)?;
    for register in registers.into_iter().rev() {
        g.pop(register)?;
    }
    g.iretd()?;
    g.place(&mut over)
}

/// Counter 0 overflows with the second NOP; the place behind that is called `next`.
fn overflow(g: &mut Guest, next: &str) -> Result {
    g.start(0, g.part.instructions, OS | INT, 2_u64.wrapping_neg())?;
    g.nop()?;
    g.nop()?;
    g.mark(next)?;
    g.nop()?;
    g.stop(0)?;
    g.nop()
}

/// Reports whether the PMI waits in IRR.
fn report_irr(g: &mut Guest, name: &str) -> Result {
    g.mov(edi, LAPIC)?;
    g.mov(eax, dword_ptr(edi + IRR_2))?;
    g.and(eax, IN_IRR as i32)?;
    g.report_eax(name)
}

/// In the handler of a higher class, or of the same, with IF set: until EOI.
fn it_waits_for_a_higher_class(part: &'static Part) -> Result {
    for vector in [0x61, 0x5F, 0x51] {
        let image = Guest::assemble(part, |g| {
            handler(g, vector, |g| {
                g.sti()?;
                overflow(g, "next")?;
                g.report_pmis("in service", 0)?;
                report_irr(g, "irr")?;
                g.write_lapic(EOI, 0)?;
                g.mark("ended")?;
                g.nop()?;
                report_irr(g, "irr.ended")?;
                g.cli()
            })?;
            g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
            g.sti()?;
            g.nop()?;
            g.write_lapic(ICR, TO_SELF | u32::from(vector))?;
            g.nop()?;
            g.cli()?;
            g.report_word("others", OTHERS)?;
            g.report_pmis("pmis", 1)
        })?;
        let ended = image.symbol("ended").expect("a mark");
        run(part, &image).expect(&[
            ("others", 1),
            ("in service", 0),
            ("irr", IN_IRR),
            ("irr.ended", 0),
            ("pmis", 1),
            ("pmis.0", ended),
        ]);
    }
    Ok(())
}

/// Until TPR is below its class; the bits 3:0 of TPR are of no importance.
fn it_waits_for_the_task_priority(part: &'static Part) -> Result {
    for (held, open) in [(0x50, 0x4F), (0xF0, 0x40), (0x5F, 0x00)] {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
            g.write_lapic(TPR, held)?;
            g.sti()?;
            overflow(g, "next")?;
            g.report_pmis("held", 0)?;
            report_irr(g, "irr")?;
            g.write_lapic(TPR, open)?;
            g.mark("open")?;
            g.nop()?;
            g.cli()?;
            g.report_pmis("pmis", 1)
        })?;
        let open = image.symbol("open").expect("a mark");
        run(part, &image).expect(&[("held", 0), ("irr", IN_IRR), ("pmis", 1), ("pmis.0", open)]);
    }
    Ok(())
}

/// In the handler of a lower class that has set IF, at once.
fn it_interrupts_a_lower_class(part: &'static Part) -> Result {
    const LOWER: u8 = 0x4F;
    let image = Guest::assemble(part, |g| {
        handler(g, LOWER, |g| {
            g.sti()?;
            overflow(g, "next")?;
            g.report_pmis("in service", 1)?;
            g.cli()?;
            g.write_lapic(EOI, 0)
        })?;
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        g.sti()?;
        g.nop()?;
        g.write_lapic(ICR, TO_SELF | u32::from(LOWER))?;
        g.nop()?;
        g.cli()?;
        g.report_word("others", OTHERS)?;
        g.report_pmis("pmis", 0)
    })?;
    let next = image.symbol("next").expect("a mark");
    run(part, &image).expect(&[
        ("others", 1),
        ("in service", 1),
        ("in service.0", next),
        ("pmis", 1),
    ]);
    Ok(())
}

/// Both wait for IF; both then come between the same two instructions.
fn the_higher_of_two_that_wait_is_first(part: &'static Part) -> Result {
    for (vector, pmis_before) in [(0x61, 0), (0x41, 1)] {
        let image = Guest::assemble(part, |g| {
            handler(g, vector, |g| {
                g.report_pmis("before", 0)?;
                g.write_lapic(EOI, 0)
            })?;
            g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
            overflow(g, "next")?;
            g.write_lapic(ICR, TO_SELF | u32::from(vector))?;
            g.report_word("others.masked", OTHERS)?;
            g.report_pmis("pmis.masked", 0)?;
            g.sti()?;
            g.nop()?;
            g.mark("behind the shadow")?;
            g.nop()?;
            g.cli()?;
            g.report_word("others", OTHERS)?;
            g.report_pmis("pmis", 1)
        })?;
        let behind = image.symbol("behind the shadow").expect("a mark");
        run(part, &image).expect(&[
            ("others.masked", 0),
            ("pmis.masked", 0),
            ("others", 1),
            ("before", pmis_before),
            ("pmis", 1),
            ("pmis.0", behind),
        ]);
    }
    Ok(())
}

/// Neither for TPR nor for what is in service nor for IF.
fn an_nmi_does_not_wait(part: &'static Part) -> Result {
    const HIGHEST: u8 = 0xFE;
    let image = Guest::assemble(part, |g| {
        handler(g, HIGHEST, |g| {
            g.write_lapic(TPR, 0xFF)?;
            overflow(g, "next")?;
            g.report_pmis("in service", 1)?;
            g.write_lapic(EOI, 0)
        })?;
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.sti()?;
        g.nop()?;
        g.write_lapic(ICR, TO_SELF | u32::from(HIGHEST))?;
        g.nop()?;
        g.cli()?;
        g.report_word("others", OTHERS)
    })?;
    let next = image.symbol("next").expect("a mark");
    run(part, &image).expect(&[("others", 1), ("in service", 1), ("in service.0", next)]);
    Ok(())
}
