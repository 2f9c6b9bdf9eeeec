//! Preset and wrap of the counters: 48 bits on K7 and K8 (BKDG 10.1), 40 elsewhere.

use guest_tests::msr::OS;
use guest_tests::{DISABLING, Guest, Part, Result, run};

topics!(a_negative_preset_counts_up_to_zero, counters_are_independent);

/// A counter preset to minus n is zero after n, and goes on.
fn a_negative_preset_counts_up_to_zero(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for (name, preset) in
            [("short", 10_u64), ("exact", 9), ("beyond", 3), ("just", 1), ("full", 0)]
        {
            g.start(0, part.instructions, OS, preset.wrapping_neg())?;
            for _ in 0..5 {
                g.nop()?;
            }
            g.stop(0)?;
            g.read_msr(part.perfctr(0))?;
            g.report(name)?;
        }
        Ok(())
    })?;
    // Five NOPs and what disables: nine.
    assert_eq!(5 + DISABLING, 9);
    let outcome = run(part, &image);
    outcome.expect(&[
        ("short", part.width_mask()), // -10 + 9 = -1
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

/// All counters count the same code, each from its own preset, and wrap on their own. Each later one
/// misses the instructions that set it up.
fn counters_are_independent(part: &'static Part) -> Result {
    let last = part.counters - 1;
    let image = Guest::assemble(part, |g| {
        for n in 0..=last {
            g.start(n, part.instructions, OS, if n == last { u64::MAX } else { 0 })?;
        }
        for n in 0..=last {
            g.stop(n)?;
        }
        for n in 0..=last {
            g.read_msr(part.perfctr(n))?;
            g.report(&format!("counter{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for n in 0..=last {
        let (started, stopped) = (u64::from(last - n), u64::from(n + 1));
        // The last one began at minus one.
        let counted = started * part.starting() + stopped * DISABLING - u64::from(n == last);
        outcome.expect(&[(&format!("counter{n}"), counted)]);
    }
    Ok(())
}
