//! What only CESR of P55C has (SDM Vol. 3, "Control and Event Select Register"): privilege levels 0
//! to 2 against 3, clocks against occurrences, and one register for both counters.

use guest_tests::guest::{EFLAGS_CLEAR, ENTERING, LEAVING};
use guest_tests::msr::{CESR, CLOCKS, OS, PC, USR};
use guest_tests::part::{Event, event};
use guest_tests::timing::taken;
use guest_tests::{DISABLING, Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{byte_ptr, cl, cx, dword_ptr, eax, ebx, ecx, mm0, qword_ptr, word_ptr};
use vpmu::summary::Summary;

topics!(
    counter_control,
    split_references,
    clocks_and_occurrences,
    twins_differ_by_counter,
    one_register_for_both_counters,
    pins_show_increments_or_overflows,
);

/// The values of CC: 0 and 4 count nothing, 1 CPL 0 to 2, 2 CPL 3, 3 all.
fn counter_control(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for cc in 0..8_u64 {
            g.write_msr(part.perfctr(0), 0)?;
            g.write_msr(CESR, 0x16 | cc << 6)?;
            g.at_cpl(2, EFLAGS_CLEAR, |g| {
                g.nop()?;
                g.nop()
            })?;
            g.at_cpl3(EFLAGS_CLEAR, |g| g.nop())?;
            g.write_msr(CESR, 0)?;
            g.read_msr(part.perfctr(0))?;
            g.report(&format!("cc{cc}"))?;
        }
        Ok(())
    })?;
    // With INT 80h.
    let (level_2, level_3) = (2 + 1, 1 + 1);
    let low = 2 * (ENTERING + LEAVING) + level_2 + DISABLING;
    let outcome = run(part, &image);
    for (cc, expected) in [(0, 0), (1, low), (2, level_3), (3, low + level_3)] {
        outcome.expect(&[(&format!("cc{cc}"), expected)]);
        // The clocks in which one instruction is executed are as many as the instructions.
        outcome.expect(&[(&format!("cc{}", cc | 4), expected)]);
    }
    Ok(())
}

/// "Split cycle reads are counted individually", writes likewise (SDM Vol. 3, events 00h and 01h): what is
/// misaligned by event 0Bh is two. So there are no more misses than reads where two lines are read.
fn split_references(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("reads", event(0x00), OS),
            ("writes", event(0x01), OS),
            ("both", event(0x28), OS),
            ("misaligned", event(0x0B), OS),
            ("mmx reads", event(0x31), OS),
        ];
        g.count_each(&selects, |g| {
            g.mov(ebx, SCRATCH)?;
            g.mov(ecx, dword_ptr(ebx + 4))?; // bytes 4 to 7: read 1
            g.mov(ecx, dword_ptr(ebx + 1))?; // 1 to 4: reads 2 and 3
            g.mov(cx, word_ptr(ebx + 1))?; // 1 and 2: read 4
            g.mov(word_ptr(ebx + 3), cx)?; // 3 and 4: writes 1 and 2
            g.mov(byte_ptr(ebx + 3), cl)?; // write 3
            g.add(dword_ptr(ebx + 30), ecx)?; // 30 to 33: reads 5 and 6, writes 4 and 5
            g.movq(mm0, qword_ptr(ebx + 8))?; // 8 to 15: read 7
            g.movq(mm0, qword_ptr(ebx + 12))?; // 12 to 19: reads 8 and 9
            g.emms()
        })?;
        // Bytes 1022 to 1025: in two lines of 32 bytes that nothing has read.
        g.count("missed", event(0x03), OS, |g| g.mov(ecx, dword_ptr(SCRATCH + 1022)))?;
        g.count("read", event(0x00), OS, |g| g.mov(ecx, dword_ptr(SCRATCH + 1022)))
    })?;
    run(part, &image).expect(&[
        ("reads", 9),
        ("writes", 5),
        ("both", 9 + 5),
        ("misaligned", 4),
        ("mmx reads", 3),
        ("missed", 2),
        ("read", 2),
    ]);
    Ok(())
}

/// With CC bit 2 clear, an event that lasts counts once when it begins; with the bit set, an event
/// that occurs counts the clocks in which it does.
fn clocks_and_occurrences(part: &'static Part) -> Result {
    const UNHALTED: Event = event(0x30);
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("branches", part.branches, OS),
            ("clocks of branches", part.branches, OS | CLOCKS),
            ("unhalted", UNHALTED, OS),
            ("clocks unhalted", UNHALTED, OS | CLOCKS),
        ];
        g.count_each(&selects, |g| {
            g.mov(ecx, 20)?; // 1
            let next = g.here()?;
            g.nop()?; // 20
            g.dec(ecx)?; // 20
            g.jnz(next) // 20, taken 19 times
        })
    })?;
    run(part, &image).expect(&[
        ("branches", 20),
        ("clocks of branches", 20),
        ("unhalted", 1),
        ("clocks unhalted", 1 + 2 * 20 + 19 * taken() + 1 + DISABLING),
    ]);
    Ok(())
}

/// 30h is cycles on counter 0; 32h is taken branches, 39h returns on one counter only.
fn twins_differ_by_counter(part: &'static Part) -> Result {
    let selects = [
        ("30.0", 0x30 | CLOCKS, 0),
        ("30.1", 0x30 | CLOCKS, 1),
        ("32.0", 0x32, 0),
        ("32.1", 0x32, 1),
        ("39.0", 0x39, 0),
        ("39.1", 0x39, 1),
    ];
    let image = Guest::assemble(part, |g| {
        selects.into_iter().try_for_each(|(name, code, counter)| {
            g.count(name, Event { code, counter }, OS, |g| {
                let (mut over, mut f) = (g.create_label(), g.create_label());
                g.call(f)?; // taken
                g.jmp(over)?; // taken
                g.place(&mut f)?;
                g.ret()?; // taken, a return
                g.place(&mut over)
            })
        })
    })?;
    run(part, &image).expect(&[
        ("30.0", 3 * taken() + DISABLING),
        ("30.1", 0), // stalls of data TLB misses: no model
        ("32.0", 0), // floating-point stalls: no model
        ("32.1", 3),
        ("39.0", 1),
        ("39.1", 0), // overflows of the return stack: none
    ]);
    Ok(())
}

/// Drivers rewrite all of CESR to change one half: the other counter goes on as if nothing had
/// happened.
fn one_register_for_both_counters(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.start(0, part.instructions, OS | USR, 0)?; // CESR
        g.start(1, part.instructions, OS | USR, 0)?; // 8: CTR1, CESR
        g.stop(1)?; // 4
        g.read_msr(CESR)?; // 2
        g.report("cesr")?; // 2
        g.start(1, part.branches, OS, 7)?; // 8
        g.stop(0)?; // 4
        g.stop(1)?;
        for n in 0..2 {
            g.read_msr(part.perfctr(n))?;
            g.report(&format!("counter{n}"))?;
        }
        g.xor(eax, eax)?;
        g.report_eax("done")
    })?;
    run(part, &image).expect(&[
        ("cesr", 0x16 | 0b011 << 6),
        ("counter0", 8 + 4 + 2 + 2 + 8 + 4),
        ("counter1", 7),
        ("done", 0),
    ]);
    Ok(())
}

/// PM0 and PM1 toggle with each increment, or with PC with each overflow. Nobody in the machine sees
/// them; the statistics of the run count the toggles.
fn pins_show_increments_or_overflows(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.start(0, part.branches, OS, 0)?;
        g.start(1, part.branches, OS | PC, 5_u64.wrapping_neg())?;
        g.mov(ecx, 20)?;
        let next = g.here()?;
        g.dec(ecx)?;
        g.jnz(next)?; // 20
        g.stop(0)?;
        g.stop(1)
    })?;
    let outcome = run(part, &image);
    let personality = outcome.machine.vcpus()[0].pmu.personality();
    let table = Summary::new(personality, &outcome.machine, outcome.end).table();
    for toggles in ["pin PM0 toggled 20 times", "pin PM1 toggled 1 times"] {
        assert!(table.contains(toggles), "{toggles}:\n{table}");
    }
    Ok(())
}
