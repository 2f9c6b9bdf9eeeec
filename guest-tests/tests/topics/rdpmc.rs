//! RDPMC (BKDG 10.1; APM volume 3): which counters there are, who may read them, and what is read.

use guest_tests::guest::{FAULT_GP, NO_FAULT, RFLAGS_CLEAR};
use guest_tests::msr::{OS, PERF_CTR};
use guest_tests::{Guest, Result, run};
use iced_x86::code_asm::{cr4, eax, ecx, esi, rax};

const CR4_PCE: i32 = 1 << 8;

fn probe_rdpmc(g: &mut Guest, name: &str, index: u32) -> Result {
    g.probe(name, |g| g.read_pmc(index))
}

#[test]
fn four_counters_of_48_bits() -> Result {
    let image = Guest::assemble(|g| {
        for n in 0..4 {
            g.write_msr(PERF_CTR + n, 0xFFFF_A987_6543_2100 + u64::from(n))?;
            g.read_pmc(n)?;
            g.report(&format!("counter{n}"))?;
        }
        for (name, index) in
            [("fifth", 4), ("fast", 1 << 31), ("msr", PERF_CTR), ("last", u32::MAX)]
        {
            probe_rdpmc(g, name, index)?;
            g.report_error_code(&format!("{name}.code"))?;
        }
        Ok(())
    })?;
    let outcome = run(&image);
    for n in 0..4 {
        outcome.expect(&[(&format!("counter{n}"), 0xA987_6543_2100 + n)]);
    }
    for name in ["fifth", "fast", "msr", "last"] {
        outcome.expect(&[(name, FAULT_GP), (&format!("{name}.code"), 0)]);
    }
    Ok(())
}

/// Above CPL 0 only with CR4.PCE; at CPL 0 always.
#[test]
fn who_may_read() -> Result {
    let image = Guest::assemble(|g| {
        g.at_cpl3(RFLAGS_CLEAR, |g| {
            probe_rdpmc(g, "pce.user", 3)?;
            probe_rdpmc(g, "pce.user.fifth", 4)
        })?;
        g.mov(rax, cr4)?;
        g.and(rax, !CR4_PCE)?;
        g.mov(cr4, rax)?;
        probe_rdpmc(g, "system", 3)?;
        g.at_cpl3(RFLAGS_CLEAR, |g| {
            probe_rdpmc(g, "user", 3)?;
            g.report_error_code("user.code")
        })
    })?;
    run(&image).expect(&[
        ("pce.user", NO_FAULT),
        ("pce.user.fifth", FAULT_GP),
        ("system", NO_FAULT),
        ("user", FAULT_GP),
        ("user.code", 0),
    ]);
    Ok(())
}

/// A read does not include itself; the next one does.
#[test]
fn what_is_read() -> Result {
    let image = Guest::assemble(|g| {
        g.start(0, 0xC0 | OS, 0)?;
        g.xor(ecx, ecx)?; // 1
        g.nop()?; // 2
        g.rdpmc()?; // reads 2, is 3
        g.mov(esi, eax)?; // 4
        g.rdpmc()?; // reads 4
        g.report("second")?;
        g.mov(eax, esi)?;
        g.report("first")?;
        g.stop(0)?;
        g.start(0, 0xC0 | OS, 0)?;
        g.mov(ecx, PERF_CTR)?; // 1
        g.nop()?; // 2
        g.nop()?; // 3
        g.rdmsr()?; // reads 3
        g.report("rdmsr")?;
        g.stop(0)
    })?;
    run(&image).expect(&[("first", 2), ("second", 4), ("rdmsr", 3)]);
    Ok(())
}
