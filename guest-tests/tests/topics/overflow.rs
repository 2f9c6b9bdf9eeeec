//! Preset and wrap of the 48-bit counters (BKDG 10.1).

use guest_tests::msr::{OS, PERF_CTR, WIDTH_MASK};
use guest_tests::{DISABLING, Guest, Result, run};

const INSTRUCTIONS: u64 = 0xC0;

/// A counter preset to minus n is zero after n, and goes on.
#[test]
fn a_negative_preset_counts_up_to_zero() -> Result {
    let image = Guest::assemble(|g| {
        for (name, preset) in
            [("short", 10_u64), ("exact", 9), ("beyond", 3), ("just", 1), ("full", 0)]
        {
            g.start(0, INSTRUCTIONS | OS, preset.wrapping_neg())?;
            for _ in 0..5 {
                g.nop()?;
            }
            g.stop(0)?;
            g.read_msr(PERF_CTR)?;
            g.report(name)?;
        }
        Ok(())
    })?;
    // Five NOPs and what disables: nine.
    assert_eq!(5 + DISABLING, 9);
    let outcome = run(&image);
    outcome.expect(&[
        ("short", WIDTH_MASK), // -10 + 9 = -1 in 48 bits
        ("exact", 0),
        ("beyond", 6),
        ("just", 8),
        ("full", 9),
    ]);
    // "exact", "beyond" and "just" wrapped.
    let vcpu = &outcome.machine.vcpus()[0];
    let stats = vcpu.pmu.counter_stats(0).expect("counter 0");
    let total = stats.total();
    assert_eq!((total.overflows, total.pmis), (3, 0), "INT was clear");
    Ok(())
}

/// Four counters count the same loop, each from its own preset, and wrap on their own. Each later
/// one misses the eight instructions that set the next one up.
#[test]
fn counters_are_independent() -> Result {
    /// Two WRMSR with three MOV each.
    const STARTING: u64 = 8;
    let image = Guest::assemble(|g| {
        for n in 0..4 {
            g.start(n, INSTRUCTIONS | OS, if n == 2 { u64::MAX } else { 0 })?;
        }
        for n in 0..4 {
            g.stop(n)?;
        }
        for n in 0..4 {
            g.read_msr(PERF_CTR + n)?;
            g.report(&format!("counter{n}"))?;
        }
        Ok(())
    })?;
    run(&image).expect(&[
        ("counter0", 3 * STARTING + DISABLING),
        ("counter1", 2 * STARTING + 2 * DISABLING),
        ("counter2", STARTING + 3 * DISABLING - 1),
        ("counter3", 4 * DISABLING),
    ]);
    Ok(())
}
