//! Cycles, and what E, INV and the counter mask make of them (BKDG 10.2; SDM Vol. 3, "PerfEvtSel0
//! and PerfEvtSel1 MSRs"; Intel 327357-001, table 1-5), on events that are one or none in each
//! cycle: cycles not halted, with interrupts masked, with an interrupt pending. An instruction is one
//! cycle, or what is said beside it.

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::msr::{CMASK_1, CMASK_2, EDGE, INV, OS, USR};
use guest_tests::timing::{delivery, memory, taken};
use guest_tests::{DISABLING, Guest, PMI_VECTOR, Part, Result, run};

topics!(
    masked_cycles,
    masked_throughout,
    masked_and_pending,
    edges_at_one_level,
    instructions_per_cycle,
    halted_cycles_do_not_count,
);

const CMASK_4: u64 = 4 << 24;

/// Three times two cycles with IF = 0 between two with IF = 1. The cycle of CLI begins with IF = 1,
/// that of STI with IF = 0.
fn masked_cycles(part: &'static Part) -> Result {
    let Some(masked) = part.masked else { unreachable!() };
    let selects = [
        ("unhalted", part.cycles, OS),
        ("masked", masked, OS),
        ("edges", masked, OS | EDGE),
        ("at least one", masked, OS | CMASK_1),
        ("at least two", masked, OS | CMASK_2),
        ("less than one", masked, OS | INV | CMASK_1),
        ("less than two", masked, OS | INV | CMASK_2),
        ("edges of less than one", masked, OS | INV | CMASK_1 | EDGE),
        ("edges of at least one", masked, OS | CMASK_1 | EDGE),
        // Reserved on K7 and K8, never reached on P6.
        ("at least four", masked, OS | CMASK_4),
    ];
    let image = Guest::assemble(part, |g| {
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
    run(part, &image).expect(&[
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
        ("at least four", 0),
    ]);
    Ok(())
}

/// IF = 0 all the time: every cycle counts, and enabling begins with an edge.
fn masked_throughout(part: &'static Part) -> Result {
    let Some(masked) = part.masked else { unreachable!() };
    let image = Guest::assemble(part, |g| {
        let selects =
            [("unhalted", part.cycles, OS), ("masked", masked, OS), ("edges", masked, OS | EDGE)];
        g.count_each(&selects, |g| (0..8).try_for_each(|_| g.nop()))
    })?;
    run(part, &image).expect(&[
        ("unhalted", 8 + DISABLING),
        ("masked", 8 + DISABLING),
        ("edges", 1),
    ]);
    Ok(())
}

/// An interrupt that waits: from behind the write to ICR to the end of STI. Once the handler runs,
/// nothing waits.
fn masked_and_pending(part: &'static Part) -> Result {
    const ICR: i32 = 0x300;
    const TO_ITSELF: u32 = 1 << 18;
    let (Some(pending), Some(interrupts)) = (part.masked_pending, part.interrupts) else {
        unreachable!()
    };
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("pending", pending, OS),
            ("edges", pending, OS | EDGE),
            ("interrupts", interrupts, OS),
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
    run(part, &image).expect(&[("pending", 4), ("edges", 1), ("interrupts", 1)]);
    Ok(())
}

/// A counter that does not count at a level does not see its cycles: an edge is not made by leaving
/// the level and coming back.
fn edges_at_one_level(part: &'static Part) -> Result {
    let Some(masked) = part.masked else { unreachable!() };
    let image = Guest::assemble(part, |g| {
        let body = |g: &mut Guest| {
            g.nop()?;
            g.at_cpl3(EFLAGS_CLEAR, |g| g.nop())
        };
        g.count("system", masked, OS | EDGE, body)?;
        g.count("user", masked, USR | EDGE, body)?;
        g.count("user.level", masked, USR, body)
    })?;
    // IF is 0 all the time. At CPL 3: NOP, INT 80h, which begins there.
    run(part, &image).expect(&[("system", 1), ("user", 1), ("user.level", 1 + taken())]);
    Ok(())
}

/// Each cycle retires one instruction.
fn instructions_per_cycle(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let instructions = part.instructions;
        let selects = [
            ("instructions", instructions, OS),
            ("at least one", instructions, OS | CMASK_1),
            ("at least two", instructions, OS | CMASK_2),
            ("less than one", instructions, OS | INV | CMASK_1),
            ("less than two", instructions, OS | INV | CMASK_2),
            ("edges", instructions, OS | EDGE),
            ("INV alone", instructions, OS | INV),
        ];
        g.count_each(&selects, |g| (0..8).try_for_each(|_| g.nop()))
    })?;
    let all = 8 + DISABLING;
    run(part, &image).expect(&[
        ("instructions", all),
        ("at least one", all),
        ("at least two", 0),
        ("less than one", 0),
        ("less than two", all),
        ("edges", 1),
        // Without a counter mask there is nothing to invert.
        ("INV alone", all),
    ]);
    Ok(())
}

/// The clock of the counters stops in HLT (BKDG 10.2): a halt of 10,000 bus clocks adds the cycle of
/// HLT itself and nothing else.
fn halted_cycles_do_not_count(part: &'static Part) -> Result {
    const LVT_TIMER: i32 = 0x320;
    const INITIAL_COUNT: i32 = 0x380;
    let image = Guest::assemble(part, |g| {
        g.count("unhalted", part.cycles, OS, |g| {
            g.write_lapic(LVT_TIMER, u32::from(PMI_VECTOR))?; // 1, a store
            g.write_lapic(INITIAL_COUNT, 10_000)?; // 1, a store
            g.sti()?; // 1
            g.hlt()?; // 1, then the delivery of the interrupt and the handler
            g.cli() // 1
        })
    })?;
    let writes = 2 * (1 + memory());
    let cycles = writes + 1 + 1 + delivery() + part.handling_cycles() + 1 + DISABLING;
    run(part, &image).expect(&[("unhalted", cycles)]);
    Ok(())
}
