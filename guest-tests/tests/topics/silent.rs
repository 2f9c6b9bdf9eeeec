//! Events that count nothing: those of hardware that is not there, those that wait for a model of
//! the micro-architecture, reserved codes. Selecting one is no error; the run's summary names it.

use guest_tests::msr::OS;
use guest_tests::{Guest, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, ecx};

#[test]
fn they_count_nothing() -> Result {
    let selects = [
        ("dram_accesses", 0xE0, 0x07),
        ("hypertransport", 0xF6, 0x0F),
        ("l1d_accesses", 0x40, 0x00),
        ("l2_misses", 0x7E, 0x07),
        ("dispatch_stalls", 0xD1, 0x00),
        ("reserved", 0xAA, 0xFF),
    ];
    let image = Guest::assemble(|g| {
        for (name, event, unit_mask) in selects {
            g.count(name, event | unit_mask << 8 | OS, |g| {
                g.mov(ecx, dword_ptr(SCRATCH))?;
                g.mov(dword_ptr(SCRATCH + 64), ecx)
            })?;
        }
        Ok(())
    })?;
    let outcome = run(&image);
    for (name, event, _) in selects {
        outcome.expect(&[(name, 0)]);
        let pmu = &outcome.machine.vcpus()[0].pmu;
        let named = pmu.uncounted().iter().any(|s| u64::from(s.code(pmu.personality())) == event);
        assert!(named, "the summary names {name}");
    }
    Ok(())
}
