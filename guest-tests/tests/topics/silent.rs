//! Events that count nothing: those of hardware that is not there, those that wait for a model of
//! the micro-architecture, reserved codes. Selecting one is no error; the run's summary names it.

use guest_tests::msr::OS;
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, ecx};

topics!(they_count_nothing);

const P55C: &[(&str, Event)] = &[
    ("bus_ownership_latency", event(0x2A)),
    ("reserved", event(0x10)),
    ("last", event(0x3F)),
];
const P6: &[(&str, Event)] = &[
    ("bus_bnr_drv", event(0x61)),
    ("reserved", event(0xFFFF)),
];
const K7: &[(&str, Event)] = &[
    ("ecc_errors", event(0x0774)),
    ("k8_l2_requests", event(0x077D)),
    ("reserved", event(0xFFAA)),
];
const K8: &[(&str, Event)] = &[
    ("hypertransport", event(0x0FF6)),
    ("reserved", event(0xFFAA)),
];
const KNC: &[(&str, Event)] = &[
    ("snp_hitm_bunit", event(0x10E3)),
    ("reserved", event(0x50)),
];

fn they_count_nothing(part: &'static Part) -> Result {
    let silent = match part.registers {
        Registers::P55c => P55C,
        Registers::P6 => P6,
        Registers::Knc => KNC,
        Registers::Amd if part.name == "k7" => K7,
        Registers::Amd => K8,
    };
    let image = Guest::assemble(part, |g| {
        silent.iter().try_for_each(|&(name, event)| {
            g.count(name, event, OS, |g| {
                g.mov(ecx, dword_ptr(SCRATCH))?;
                g.mov(dword_ptr(SCRATCH + 64), ecx)
            })
        })
    })?;
    let outcome = run(part, &image);
    for (name, event) in silent {
        outcome.expect(&[(name, 0)]);
        let pmu = &outcome.machine.vcpus()[0].pmu;
        let code = event.code & 0xFF;
        let named = pmu.uncounted().iter().any(|s| u64::from(s.code(pmu.personality())) == code);
        assert!(named, "the summary names {name}");
    }
    Ok(())
}
