//! BSD clients of the P6 family.

use pmu_model::Signal;

use crate::guest::Guest;

const EVTSEL0: u32 = 0x186;
const EVTSEL1: u32 = 0x187;
const CTR0: u32 = 0xC1;
const CTR1: u32 = 0xC2;

/// NetBSD `sys/arch/i386/i386/pmc.c` 1.23, `pmc_apply_cpu`: counter, then its own event select, with
/// EN. On counter 1 that is EN of 187h, which does nothing: it must not run before the client starts
/// counter 0.
#[test]
fn netbsd_counter_1_does_not_run_alone() {
    let mut guest = Guest::on("p6");
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(EVTSEL1, 0x0043_00C0);
    assert_eq!(guest.rdmsr(EVTSEL1), 0x0043_00C0);
    assert_eq!(guest.rdmsr(EVTSEL0), 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 1000, 3), []);
    assert_eq!(guest.rdmsr(CTR1) & 0xFF_FFFF_FFFF, 0, "PerfEvtSel0 has no EN");
    assert!(!guest.pmu.demand().counting);

    guest.wrmsr(CTR0, 0);
    guest.wrmsr(EVTSEL0, 0x0043_0079);
    assert_eq!(guest.fire(Signal::InsnRetired, 30, 3), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 80, 3), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [80, 30]);

    // Stopping counter 0 (event select 0) takes counter 1 with it.
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(EVTSEL0, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0, 30]);
}

/// FreeBSD `sys/i386/i386/perfmon.c` on a 686: `perfmon_setup` writes the control without EN and
/// clears the counter, `perfmon_start` writes the counter and the control with EN, and
/// `writectl6` writes 0 to stop counter 1 but only clears EN to stop counter 0.
#[test]
fn freebsd_perfmon() {
    let mut guest = Guest::on("p6");
    // Counter 1 is set up; not having EN it is written as 0.
    guest.wrmsr(EVTSEL1, 0);
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(EVTSEL0, 0x0003_00C4);
    guest.wrmsr(CTR0, 0);
    // Counter 1 starts: nothing happens.
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(EVTSEL1, 0x0043_00C0);
    assert_eq!(guest.fire(Signal::InsnRetired, 12, 0), []);
    assert_eq!(guest.rdmsr(CTR1), 0);
    // Counter 0 starts, and counter 1 with it.
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(EVTSEL0, 0x0043_00C4);
    assert_eq!(guest.fire(Signal::InsnRetired, 12, 0), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 4, 0), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [4, 12]);
    // Counter 1 stops.
    guest.wrmsr(EVTSEL1, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 100, 0), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [5, 12]);
    guest.wrmsr(EVTSEL0, 0x0003_00C4);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x0003_00C4);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), []);
    assert_eq!(guest.rdmsr(CTR0), 5);
}

/// FreeBSD `sys/dev/hwpmc/hwpmc_ppro.c`: `p6_stop_pmc` writes 0 to the event select and then gives
/// 186h its EN back if counter 1 still runs; `p6_intr` clears EN in 186h, looks for bit 39 clear
/// (RDPMC), reloads with the low 32 bits of the negative count, and writes 186h back.
#[test]
fn freebsd_hwpmc() {
    let mut guest = Guest::on("p6");
    // Both sample: counter 0 branches every 10, counter 1 instructions every 100.
    guest.wrmsr(CTR0, 0xFFFF_FFF6);
    guest.wrmsr(CTR1, 0xFFFF_FF9C);
    guest.wrmsr(EVTSEL1, 0x0013_00C0);
    guest.wrmsr(EVTSEL0, 0x0053_00C4);
    assert_eq!(guest.fire(Signal::BranchRetired, 9, 3), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 100, 3), [1]);

    let evtsel0 = guest.rdmsr(EVTSEL0);
    assert_eq!(evtsel0, 0x0053_00C4);
    guest.wrmsr(EVTSEL0, evtsel0 & !(1 << 22));
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), [], "both are stopped");
    assert_eq!(guest.fire(Signal::InsnRetired, 40, 0), []);
    assert_ne!(guest.rdpmc(0) & 1 << 39, 0, "counter 0 has not overflowed");
    assert_eq!(guest.rdpmc(1) & 1 << 39, 0, "counter 1 has");
    guest.wrmsr(CTR1, 0xFFFF_FF9C);
    assert_eq!(guest.rdpmc(1), 0xFF_FFFF_FF9C);
    guest.wrmsr(EVTSEL0, evtsel0);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), [0]);

    // Counter 0 is stopped; counter 1 goes on under EN of an otherwise empty 186h.
    guest.wrmsr(EVTSEL0, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(guest.rdpmc(1), 0xFF_FFFF_FF9C, "it stood for the moment");
    guest.wrmsr(EVTSEL0, 1 << 22);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 5, 3), []);
    assert_eq!([guest.rdpmc(0), guest.rdpmc(1)], [0, 0xFF_FFFF_FFA1]);
}

/// OpenBSD `sys/arch/i386/i386/pctr.c`, `p6ctrsel`: counter 0, event select with the caller's EN,
/// counter 0 again. What counted between the last two writes is gone.
#[test]
fn openbsd_pctr() {
    let mut guest = Guest::on("p6");
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(EVTSEL0, 0x0042_00C0);
    assert_eq!(guest.fire(Signal::InsnRetired, 2, 0), []);
    guest.wrmsr(CTR0, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 40, 0), []);
    assert_eq!(guest.rdpmc(0), 40);
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(EVTSEL1, 0x0002_00C4);
    guest.wrmsr(CTR1, 0);
    assert_eq!(guest.fire(Signal::BranchRetired, 6, 0), []);
    assert_eq!([guest.rdpmc(0), guest.rdpmc(1)], [40, 6], "counter 1 runs under EN of counter 0");
}
