//! RDPMC (Intel MMX Technology manual, section 6.3; APM volume 3): which counters there are, who may
//! read them, and what is read.

use guest_tests::guest::{EFLAGS_CLEAR, FAULT, FAULT_GP, NO_FAULT};
use guest_tests::msr::OS;
use guest_tests::{Guest, Part, Result, run};
use iced_x86::code_asm::{cr4, eax, ecx, edx, esi};

topics!(every_counter_and_no_other, at_cpl_3, who_may_read, what_is_read);

const CR4_PCE: i32 = 1 << 8;

fn probe_rdpmc(g: &mut Guest, name: &str, index: u32) -> Result {
    g.probe(name, |g| g.read_pmc(index))
}

fn every_counter_and_no_other(part: &'static Part) -> Result {
    let value = |n: u32| 0xFFFF_A987_6543_2100 + u64::from(n);
    let outside = [
        ("behind", part.counters),
        ("fast", 1 << 31),
        ("msr", part.perfctr(0)),
        ("last", u32::MAX),
    ];
    let image = Guest::assemble(part, |g| {
        for n in 0..part.counters {
            g.write_msr(part.perfctr(n), part.written(value(n)))?;
            g.read_pmc(n)?;
            g.report(&format!("counter{n}"))?;
        }
        for (name, index) in outside {
            probe_rdpmc(g, name, index)?;
            g.report_error_code(&format!("{name}.code"))?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for n in 0..part.counters {
        outcome.expect(&[(&format!("counter{n}"), part.written(value(n)))]);
    }
    for (name, _) in outside {
        outcome.expect(&[(name, FAULT_GP), (&format!("{name}.code"), 0)]);
    }
    Ok(())
}

/// With CR4.PCE as at CPL 0: each counter, written or never touched, and nothing else; all 32 bits
/// of ECX count, and 31, the fast read of the Pentium 4, is as good as any. Without, nothing.
fn at_cpl_3(part: &'static Part) -> Result {
    const PRESET: u64 = 0x0012_3456_789A;
    let last = part.counters - 1;
    let outside: Vec<u32> = (0..part.counters)
        .map(|n| 1 << 31 | n)
        .chain([last + 1, 1 << 4 | last, 1 << 30, 0xFFFF, part.perfctr(0), u32::MAX])
        .collect();
    let image = Guest::assemble(part, |g| {
        g.write_msr(part.perfctr(last), part.written(PRESET))?;
        for (level, pce) in [("open", true), ("closed", false)] {
            if !pce {
                g.mov(eax, cr4)?;
                g.and(eax, !CR4_PCE)?;
                g.mov(cr4, eax)?;
            }
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                for n in 0..part.counters {
                    g.mov(eax, u32::MAX)?;
                    g.mov(edx, eax)?;
                    g.attempt(|g| g.read_pmc(n))?;
                    g.report(&format!("{level}.{n}"))?;
                    g.report_word(&format!("{level}.{n}.fault"), FAULT)?;
                }
                outside.iter().try_for_each(|&index| {
                    probe_rdpmc(g, &format!("{level}.{index:x}.fault"), index)
                })
            })?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for n in 0..part.counters {
        let value = if n == last { part.written(PRESET) } else { 0 };
        outcome.expect(&[
            (&format!("open.{n}"), value),
            (&format!("open.{n}.fault"), NO_FAULT),
            (&format!("closed.{n}"), u64::MAX),
            (&format!("closed.{n}.fault"), FAULT_GP),
        ]);
    }
    for index in outside {
        for level in ["open", "closed"] {
            outcome.expect(&[(&format!("{level}.{index:x}.fault"), FAULT_GP)]);
        }
    }
    Ok(())
}

/// Above CPL 0 only with CR4.PCE; at CPL 0 always.
fn who_may_read(part: &'static Part) -> Result {
    let last = part.counters - 1;
    let image = Guest::assemble(part, |g| {
        g.at_cpl3(EFLAGS_CLEAR, |g| {
            probe_rdpmc(g, "pce.user", last)?;
            probe_rdpmc(g, "pce.user.behind", last + 1)
        })?;
        g.mov(eax, cr4)?;
        g.and(eax, !CR4_PCE)?;
        g.mov(cr4, eax)?;
        probe_rdpmc(g, "system", last)?;
        g.at_cpl(1, EFLAGS_CLEAR, |g| probe_rdpmc(g, "level 1", last))?;
        g.at_cpl3(EFLAGS_CLEAR, |g| {
            probe_rdpmc(g, "user", last)?;
            g.report_error_code("user.code")
        })
    })?;
    run(part, &image).expect(&[
        ("pce.user", NO_FAULT),
        ("pce.user.behind", FAULT_GP),
        ("system", NO_FAULT),
        ("level 1", FAULT_GP),
        ("user", FAULT_GP),
        ("user.code", 0),
    ]);
    Ok(())
}

/// A read does not include itself; the next one does.
fn what_is_read(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.start(0, part.instructions, OS, 0)?;
        g.xor(ecx, ecx)?; // 1
        g.nop()?; // 2
        g.rdpmc()?; // reads 2, is 3
        g.mov(esi, eax)?; // 4
        g.rdpmc()?; // reads 4
        g.report("second")?;
        g.mov(eax, esi)?;
        g.report("first")?;
        g.stop(0)?;
        g.start(0, part.instructions, OS, 0)?;
        g.mov(ecx, part.perfctr(0))?; // 1
        g.nop()?; // 2
        g.nop()?; // 3
        g.rdmsr()?; // reads 3
        g.report("rdmsr")?;
        g.stop(0)
    })?;
    run(part, &image).expect(&[("first", 2), ("second", 4), ("rdmsr", 3)]);
    Ok(())
}
