//! Cycles, and what E, INV and CNT_MASK make of them (BKDG 10.2), on the events that are one or none
//! in each cycle: 76h, CDh and CEh. One instruction is one cycle.

use guest_tests::guest::RFLAGS_CLEAR;
use guest_tests::msr::{CMASK_1, EDGE, INV, OS, USR};
use guest_tests::{DISABLING, Guest, PMI_VECTOR, Result, run};

const UNHALTED: u64 = 0x76 | OS;
const MASKED: u64 = 0xCD | OS;
const MASKED_PENDING: u64 = 0xCE | OS;
const CMASK_2: u64 = 2 << 24;
const CMASK_4: u64 = 4 << 24;

/// Three times two cycles with IF = 0 between two with IF = 1. The cycle of CLI begins with IF = 1,
/// that of STI with IF = 0.
#[test]
fn masked_cycles() -> Result {
    let selects = [
        ("unhalted", UNHALTED),
        ("masked", MASKED),
        ("edges", MASKED | EDGE),
        ("at least one", MASKED | CMASK_1),
        ("at least two", MASKED | CMASK_2),
        ("less than one", MASKED | INV | CMASK_1),
        ("less than two", MASKED | INV | CMASK_2),
        ("edges of less than one", MASKED | INV | CMASK_1 | EDGE),
        ("edges of at least one", MASKED | CMASK_1 | EDGE),
        ("four is reserved", MASKED | CMASK_4),
    ];
    let image = Guest::assemble(|g| {
        g.sti()?;
        g.nop()?;
        g.count_each(&selects, |g| {
            for _ in 0..3 {
                g.cli()?; // open
                g.nop()?; // masked
                g.sti()?; // masked
                g.nop()?; // open
            }
            Ok(())
        })?;
        g.cli()
    })?;
    let all = 3 * 4 + DISABLING;
    run(&image).expect(&[
        ("unhalted", all),
        ("masked", 3 * 2),
        ("edges", 3),
        ("at least one", 3 * 2),
        ("at least two", 0),
        ("less than one", all - 3 * 2),
        ("less than two", all),
        // Open from the first cycle on, and again behind each STI.
        ("edges of less than one", 1 + 3),
        ("edges of at least one", 3),
        ("four is reserved", 0),
    ]);
    Ok(())
}

/// IF = 0 all the time: every cycle counts, and enabling begins with an edge.
#[test]
fn masked_throughout() -> Result {
    let image = Guest::assemble(|g| {
        let selects = [("unhalted", UNHALTED), ("masked", MASKED), ("edges", MASKED | EDGE)];
        g.count_each(&selects, |g| (0..8).try_for_each(|_| g.nop()))
    })?;
    run(&image).expect(&[("unhalted", 8 + DISABLING), ("masked", 8 + DISABLING), ("edges", 1)]);
    Ok(())
}

/// An interrupt that waits: from behind the write to ICR to the end of STI. Once the handler runs,
/// nothing waits.
#[test]
fn masked_and_pending() -> Result {
    const ICR: i32 = 0x300;
    const TO_ITSELF: u32 = 1 << 18;
    let image = Guest::assemble(|g| {
        let selects = [
            ("pending", MASKED_PENDING),
            ("edges", MASKED_PENDING | EDGE),
            ("interrupts", 0xCF | OS),
        ];
        g.count_each(&selects, |g| {
            g.write_lapic(ICR, TO_ITSELF | u32::from(PMI_VECTOR))?;
            g.nop()?; // pending 1
            g.nop()?; // pending 2
            g.nop()?; // pending 3
            g.sti()?; // pending 4
            g.nop()?; // pending, but IF is 1
            g.cli() // behind the handler
        })
    })?;
    run(&image).expect(&[("pending", 4), ("edges", 1), ("interrupts", 1)]);
    Ok(())
}

/// A counter that does not count at a level does not see its cycles: an edge is not made by leaving
/// the level and coming back.
#[test]
fn edges_at_one_level() -> Result {
    let image = Guest::assemble(|g| {
        let body = |g: &mut Guest| {
            g.nop()?;
            g.at_cpl3(RFLAGS_CLEAR, |g| g.nop())
        };
        g.count("system", MASKED | EDGE, body)?;
        g.count("user", 0xCD | USR | EDGE, body)?;
        g.count("user.level", 0xCD | USR, body)
    })?;
    // IF is 0 all the time. At CPL 3: NOP, INT 80h.
    run(&image).expect(&[("system", 1), ("user", 1), ("user.level", 2)]);
    Ok(())
}

/// The clock of the counters stops in HLT (BKDG 10.2): a halt of 10,000 bus clocks adds the cycle of
/// HLT itself and nothing else.
#[test]
fn halted_cycles_do_not_count() -> Result {
    const LVT_TIMER: i32 = 0x320;
    const INITIAL_COUNT: i32 = 0x380;
    let image = Guest::assemble(|g| {
        g.count("unhalted", UNHALTED, |g| {
            g.write_lapic(LVT_TIMER, u32::from(PMI_VECTOR))?; // 2
            g.write_lapic(INITIAL_COUNT, 10_000)?; // 2
            g.sti()?; // 1
            g.hlt()?; // 1, then 1 for the interrupt and the handler
            g.cli() // 1
        })
    })?;
    let handler = guest_tests::guest::HANDLING;
    run(&image).expect(&[("unhalted", 2 + 2 + 1 + 1 + 1 + handler + 1 + DISABLING)]);
    Ok(())
}
