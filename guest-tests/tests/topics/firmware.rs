//! The boot ROM: its self-test on the console, and a guest behind it that starts the other
//! processors once more.
//!
//! Names of the registers: Intel MMX Technology manual, chapter 6 (P55C); SDM Vol. 3, chapter
//! "Performance Monitoring" (P6); AMD 22007, appendix D (K7, K8); Intel 327357-001 (Knights Corner).
//! All of them are zero after power-up; IA32_PERF_GLOBAL_OVF_CTRL cannot be read.

use guest_tests::part::Registers;
use guest_tests::{Guest, Options, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, ebp, ecx};
use vpmu::config::Boot;

topics!(self_test_of_one, self_test_of_two, self_test_of_four);

/// Number and name, ascending but for P6, whose manual has the event selects first.
fn registers(part: &Part) -> &'static [(u32, &'static str)] {
    match part.registers {
        Registers::P55c => &[(0x11, "CESR"), (0x12, "CTR0"), (0x13, "CTR1")],
        Registers::P6 => &[
            (0x186, "PerfEvtSel0"),
            (0x187, "PerfEvtSel1"),
            (0xC1, "PerfCtr0"),
            (0xC2, "PerfCtr1"),
        ],
        Registers::Amd => &[
            (0xC001_0000, "PerfEvtSel0"),
            (0xC001_0001, "PerfEvtSel1"),
            (0xC001_0002, "PerfEvtSel2"),
            (0xC001_0003, "PerfEvtSel3"),
            (0xC001_0004, "PerfCtr0"),
            (0xC001_0005, "PerfCtr1"),
            (0xC001_0006, "PerfCtr2"),
            (0xC001_0007, "PerfCtr3"),
        ],
        Registers::Knc => &[
            (0x20, "IA32_PerfCnt0"),
            (0x21, "IA32_PerfCnt1"),
            (0x28, "IA32_PerfEvtSel0"),
            (0x29, "IA32_PerfEvtSel1"),
            (0x2C, "PERF_SPFLT_CONTROL"),
            (0x2D, "IA32_PERF_GLOBAL_STATUS"),
            (0x2E, "IA32_PERF_GLOBAL_OVF_CTRL"),
            (0x2F, "IA32_PERF_GLOBAL_CTRL"),
        ],
    }
}

fn self_test(part: &'static Part, cpus: u8) -> Result {
    // Each processor leaves one more than its number.
    const FOUND: u32 = SCRATCH;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(cpus.into(), |g| {
            g.lea(ecx, dword_ptr(ebp + 1))?;
            g.mov(dword_ptr(ebp * 8 + FOUND), ecx)
        })?;
        (0..u32::from(cpus)).try_for_each(|n| g.report_quad(&format!("cpu{n}"), FOUND + 8 * n))
    })?;
    let options = Options { cpus, boot: Boot::Firmware, ..Options::default() };
    let outcome = run_with(part, &image, options);
    for n in 0..u64::from(cpus) {
        assert_eq!(outcome.value(&format!("cpu{n}")), n + 1);
    }

    let mut lines = outcome.serial.lines();
    let title = lines.next().unwrap_or_default();
    assert!(title.starts_with(&format!("vpmu firmware: {}, ", part.name)), "{title}");
    for cpu in 0..cpus {
        for &(index, name) in registers(part) {
            let value = if index == 0x2E { "#GP" } else { "0000000000000000" };
            let expected = format!("PASS cpu {cpu} {index:08X} {name} {value}");
            assert_eq!(lines.next(), Some(expected.as_str()));
        }
    }
    assert_eq!(lines.next(), Some("POST: PASS"));
    Ok(())
}

fn self_test_of_one(part: &'static Part) -> Result {
    self_test(part, 1)
}

fn self_test_of_two(part: &'static Part) -> Result {
    self_test(part, 2)
}

fn self_test_of_four(part: &'static Part) -> Result {
    self_test(part, 4)
}
