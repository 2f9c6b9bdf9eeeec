//! Event selects and counters as registers (BKDG 10.1 and 10.2; SDM Vol. 3, "Performance
//! Monitoring"; Intel 327357-001, section 1.4.3).

use guest_tests::guest::{EFLAGS_CLEAR, FAULT_GP, NO_FAULT};
use guest_tests::msr::{GLOBAL_CTRL, GLOBAL_OVF_CTRL, GLOBAL_STATUS, INT, OS, SPFLT_CONTROL};
use guest_tests::part::Registers;
use guest_tests::{Guest, Part, Result, run};
use iced_x86::code_asm::{eax, ecx};

topics!(
    reset_leaves_all_zero,
    reserved_bits_are_ignored,
    registers_are_apart,
    a_disabled_counter_keeps_what_was_written,
    what_faults,
    global_registers,
);

/// The bits of an event select that keep what is written.
fn evtsel_bits(part: &Part) -> u64 {
    match part.registers {
        // All but bit 21.
        Registers::Amd | Registers::P6 => 0xFFDF_FFFF,
        // All but bit 19.
        Registers::Knc => 0xFFF7_FFFF,
        // ES, CC and PC of both counters.
        Registers::P55c => 0x03FF_03FF,
    }
}

/// Event selects: P55C has one for both counters.
fn evtsels(part: &Part) -> u32 {
    if part.registers == Registers::P55c { 1 } else { part.counters }
}

fn reset_leaves_all_zero(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for n in 0..evtsels(part) {
            g.read_msr(part.evtsel(n))?;
            g.report(&format!("evtsel{n}"))?;
        }
        for n in 0..part.counters {
            g.read_msr(part.perfctr(n))?;
            g.report(&format!("perfctr{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for n in 0..evtsels(part) {
        outcome.expect(&[(&format!("evtsel{n}"), 0)]);
    }
    for n in 0..part.counters {
        outcome.expect(&[(&format!("perfctr{n}"), 0)]);
    }
    Ok(())
}

/// Every bit alone and all together, in every register: reserved bits are ignored, not refused. A
/// #GP would end the guest.
fn reserved_bits_are_ignored(part: &'static Part) -> Result {
    every_bit(part, part.evtsel(0), evtsels(part), |value| value & evtsel_bits(part))?;
    every_bit(part, part.perfctr(0), part.counters, |value| part.written(value))
}

/// Writes values to `registers` registers from `first` on, which hold `kept` of them.
fn every_bit(part: &'static Part, first: u32, registers: u32, kept: impl Fn(u64) -> u64) -> Result {
    let image = Guest::assemble(part, |g| {
        for bit in 0..64 {
            let register = first + bit % registers;
            g.write_msr(register, 1 << bit)?;
            g.read_msr(register)?;
            g.report(&format!("bit{bit}"))?;
            g.write_msr(register, 0)?;
        }
        for n in 0..registers {
            g.write_msr(first + n, u64::MAX)?;
            g.read_msr(first + n)?;
            g.report(&format!("ones{n}"))?;
            g.write_msr(first + n, 0)?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for bit in 0..64 {
        outcome.expect(&[(&format!("bit{bit}"), kept(1 << bit))]);
    }
    for n in 0..registers {
        outcome.expect(&[(&format!("ones{n}"), kept(u64::MAX))]);
    }
    Ok(())
}

/// What is written to one register appears in no other.
fn registers_are_apart(part: &'static Part) -> Result {
    let select = |n: u32| 0x0001_0000 + u64::from(n);
    let count = |n: u32| 0x0034_5678_9ABC + u64::from(n);
    let image = Guest::assemble(part, |g| {
        for n in 0..evtsels(part) {
            g.write_msr(part.evtsel(n), select(n))?;
        }
        for n in 0..part.counters {
            g.write_msr(part.perfctr(n), count(n))?;
        }
        for n in 0..evtsels(part) {
            g.read_msr(part.evtsel(n))?;
            g.report(&format!("evtsel{n}"))?;
        }
        for n in 0..part.counters {
            g.read_msr(part.perfctr(n))?;
            g.report(&format!("perfctr{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for n in 0..evtsels(part) {
        outcome.expect(&[(&format!("evtsel{n}"), select(n))]);
    }
    for n in 0..part.counters {
        outcome.expect(&[(&format!("perfctr{n}"), part.written(count(n)))]);
    }
    Ok(())
}

/// What Linux does before it trusts a PMU (check_hw_exists): a disabled counter keeps its value
/// with the low half inverted.
fn a_disabled_counter_keeps_what_was_written(part: &'static Part) -> Result {
    let last = part.perfctr(part.counters - 1);
    let image = Guest::assemble(part, |g| {
        g.write_msr(last, 0x8000_00FF)?;
        g.read_msr(last)?;
        g.report("before")?;
        g.xor(eax, 0xFFFF)?;
        g.mov(ecx, last)?;
        g.wrmsr()?;
        g.read_msr(last)?;
        g.report("after")
    })?;
    run(part, &image)
        .expect(&[("before", part.written(0x8000_00FF)), ("after", part.written(0x8000_FF00))]);
    Ok(())
}

/// RDMSR and WRMSR are for CPL 0 (APM volume 3; SDM Vol. 2), and there is no register behind the
/// last counter.
fn what_faults(part: &'static Part) -> Result {
    let first = part.perfctr(0);
    let last = part.perfctr(part.counters - 1);
    let image = Guest::assemble(part, |g| {
        g.probe("there", |g| g.read_msr(last))?;
        g.probe("behind", |g| g.read_msr(last + 1))?;
        g.report_error_code("behind.code")?;
        g.at_cpl3(EFLAGS_CLEAR, |g| {
            g.probe("user.read", |g| g.read_msr(first))?;
            g.report_error_code("user.code")?;
            g.probe("user.write", |g| {
                g.mov(ecx, first)?;
                g.wrmsr()
            })
        })
    })?;
    run(part, &image).expect(&[
        ("there", NO_FAULT),
        ("behind", FAULT_GP),
        ("behind.code", 0),
        ("user.read", FAULT_GP),
        ("user.code", 0),
        ("user.write", FAULT_GP),
    ]);
    Ok(())
}

/// Knights Corner's global registers: status is read-only, overflow control write-only, and status
/// is set with INT clear too, until it is cleared.
fn global_registers(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_msr(GLOBAL_CTRL, 0)?;
        for (name, index) in [("control", GLOBAL_CTRL), ("spflt", SPFLT_CONTROL)] {
            g.read_msr(index)?;
            g.report(&format!("{name}.zero"))?;
            g.write_msr(index, u64::MAX)?;
            g.read_msr(index)?;
            g.report(&format!("{name}.ones"))?;
            g.write_msr(index, 0)?;
        }
        g.probe("status.write", |g| g.write_msr(GLOBAL_STATUS, 0))?;
        g.probe("overflow control.read", |g| g.read_msr(GLOBAL_OVF_CTRL))?;

        // Linux reaches for 2Ah and survives what comes of it; 29h stays as it was.
        g.probe("beyond", |g| g.write_msr(0x2A, OS | INT))?;
        g.read_msr(0x29)?;
        g.report("evtsel1")?;

        g.write_msr(GLOBAL_CTRL, 3)?;
        g.start(1, part.instructions, OS, 1_u64.wrapping_neg())?;
        g.stop(1)?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("overflow")?;
        g.write_msr(GLOBAL_OVF_CTRL, 1)?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("other bit")?;
        g.write_msr(GLOBAL_OVF_CTRL, 2)?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("cleared")
    })?;
    run(part, &image).expect(&[
        ("control.zero", 0),
        ("control.ones", 3),
        ("spflt.zero", 0),
        ("spflt.ones", 1 << 63 | 3),
        ("status.write", FAULT_GP),
        ("overflow control.read", FAULT_GP),
        ("evtsel1", 0),
        ("overflow", 2),
        ("other bit", 2),
        ("cleared", 0),
    ]);
    Ok(())
}
