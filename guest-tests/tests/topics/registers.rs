//! PerfEvtSel0-3 and PerfCtr0-3 as registers (BKDG 10.1 and 10.2).

use guest_tests::guest::{FAULT_GP, NO_FAULT, RFLAGS_CLEAR};
use guest_tests::msr::{PERF_CTR, PERF_EVT_SEL, WIDTH_MASK};
use guest_tests::{Guest, Result, run};
use iced_x86::code_asm::ecx;

/// All fields but the reserved bits 21 and 63:32, which read as zero.
const EVT_SEL_BITS: u64 = 0xFFDF_FFFF;

#[test]
fn reset_leaves_all_zero() -> Result {
    let image = Guest::assemble(|g| {
        for n in 0..4 {
            g.read_msr(PERF_EVT_SEL + n)?;
            g.report(&format!("evtsel{n}"))?;
            g.read_msr(PERF_CTR + n)?;
            g.report(&format!("perfctr{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run(&image);
    for n in 0..4 {
        outcome.expect(&[(&format!("evtsel{n}"), 0), (&format!("perfctr{n}"), 0)]);
    }
    Ok(())
}

/// Every bit alone and all together, in every register: reserved bits are ignored, not refused. A
/// #GP would end the guest.
#[test]
fn reserved_bits_are_ignored() -> Result {
    for (first, kept) in [(PERF_EVT_SEL, EVT_SEL_BITS), (PERF_CTR, WIDTH_MASK)] {
        let image = Guest::assemble(|g| {
            for bit in 0..64 {
                g.write_msr(first + bit % 4, 1 << bit)?;
                g.read_msr(first + bit % 4)?;
                g.report(&format!("bit{bit}"))?;
                g.write_msr(first + bit % 4, 0)?;
            }
            for n in 0..4 {
                g.write_msr(first + n, u64::MAX)?;
                g.read_msr(first + n)?;
                g.report(&format!("ones{n}"))?;
                g.write_msr(first + n, 0)?;
            }
            Ok(())
        })?;
        let outcome = run(&image);
        for bit in 0..64 {
            outcome.expect(&[(&format!("bit{bit}"), 1 << bit & kept)]);
        }
        for n in 0..4 {
            outcome.expect(&[(&format!("ones{n}"), kept)]);
        }
    }
    Ok(())
}

/// The registers are four and four: what is written to one appears in no other.
#[test]
fn registers_are_apart() -> Result {
    let select = |n: u32| 0x0001_0000 + u64::from(n);
    let count = |n: u32| 0x1234_0000_0000 + u64::from(n);
    let image = Guest::assemble(|g| {
        for n in 0..4 {
            g.write_msr(PERF_EVT_SEL + n, select(n))?;
            g.write_msr(PERF_CTR + n, count(n))?;
        }
        for n in 0..4 {
            g.read_msr(PERF_EVT_SEL + n)?;
            g.report(&format!("evtsel{n}"))?;
            g.read_msr(PERF_CTR + n)?;
            g.report(&format!("perfctr{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run(&image);
    for n in 0..4 {
        outcome.expect(&[(&format!("evtsel{n}"), select(n)), (&format!("perfctr{n}"), count(n))]);
    }
    Ok(())
}

/// What Linux does before it trusts a PMU (check_hw_exists): a disabled counter keeps its value
/// with the low half inverted.
#[test]
fn a_disabled_counter_keeps_what_was_written() -> Result {
    let image = Guest::assemble(|g| {
        g.write_msr(PERF_CTR + 3, 0x8000_0000_00FF ^ 0xFFFF)?;
        g.read_msr(PERF_CTR + 3)?;
        g.report("perfctr3")
    })?;
    run(&image).expect(&[("perfctr3", 0x8000_0000_FF00)]);
    Ok(())
}

/// RDMSR and WRMSR are for CPL 0 (APM volume 3), and there is no register behind PerfCtr3.
#[test]
fn what_faults() -> Result {
    let image = Guest::assemble(|g| {
        g.probe("there", |g| g.read_msr(PERF_CTR + 3))?;
        g.probe("behind", |g| g.read_msr(PERF_CTR + 4))?;
        g.report_error_code("behind.code")?;
        g.at_cpl3(RFLAGS_CLEAR, |g| {
            g.probe("user.read", |g| g.read_msr(PERF_CTR))?;
            g.report_error_code("user.code")?;
            g.probe("user.write", |g| {
                g.mov(ecx, PERF_CTR)?;
                g.wrmsr()
            })
        })
    })?;
    run(&image).expect(&[
        ("there", NO_FAULT),
        ("behind", FAULT_GP),
        ("behind.code", 0),
        ("user.read", FAULT_GP),
        ("user.code", 0),
        ("user.write", FAULT_GP),
    ]);
    Ok(())
}
