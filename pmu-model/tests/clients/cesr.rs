//! Clients of the Pentium's one control register: a client that programs one counter writes the half of
//! the other too, and must not disturb it.

use pmu_model::{Signal, SignalCounts};

use crate::guest::Guest;

const CESR: u32 = 0x11;
const CTR0: u32 = 0x12;
const CTR1: u32 = 0x13;

fn counters(guest: &Guest) -> [u64; 2] {
    [guest.rdmsr(CTR0), guest.rdmsr(CTR1)]
}

/// A clock in which a bus cycle is in progress, or none is.
fn clock(busy: u64) -> SignalCounts {
    [(Signal::CyclesUnhalted, 1), (Signal::BusBusy, busy)].into_iter().collect()
}

/// NetBSD `sys/arch/i386/i386/pmc.c` 1.23, `pmc_apply_cpu`: the counter, then both halves of CESR
/// from memory. Stopping clears the counter and its half.
#[test]
fn netbsd_writes_both_halves() {
    let mut guest = Guest::on("p55c");
    // Counter 0: instructions in user mode.
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(CESR, 0x96);
    assert_eq!(guest.fire(Signal::InsnRetired, 10, 3), []);
    // Counter 1: data reads and writes in every mode.
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(CESR, 0x00E8_0096);
    assert_eq!(guest.rdmsr(CESR), 0x00E8_0096);
    assert_eq!(counters(&guest), [10, 0]);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 0), []);
    assert_eq!(guest.fire(Signal::Load, 3, 0), []);
    assert_eq!(guest.fire(Signal::Store, 1, 3), []);
    assert_eq!(counters(&guest), [15, 4]);
    // Counter 0 stops.
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(CESR, 0x00E8_0000);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(guest.fire(Signal::Load, 2, 3), []);
    assert_eq!(counters(&guest), [0, 6]);
}

/// FreeBSD `sys/i386/i386/perfmon.c`, `writectl5`: both halves from memory, zero for a counter that is
/// not enabled; bit 8 is set when its caller did *not* ask for edges. `perfmon_start` writes the counter
/// and then CESR, `perfmon_stop` reads it and then writes CESR.
#[test]
fn freebsd_perfmon() {
    let mut guest = Guest::on("p55c");
    // Setup and start of counter 0: bus cycles begun, at every CPL (edge asked for).
    guest.wrmsr(CESR, 0);
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(CESR, 0x00D8);
    for busy in [0, 1, 1] {
        assert!(guest.pmu.cycle(&clock(busy), 0).is_empty());
    }
    assert_eq!(counters(&guest), [1, 0]);
    // Setup of counter 1 while the bus cycle goes on: the same CESR again.
    guest.wrmsr(CESR, 0x00D8);
    guest.wrmsr(CTR1, 0);
    assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
    // Start of counter 1: clocks of bus cycles (no edge).
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(CESR, 0x01D8_00D8);
    assert_eq!(guest.rdmsr(CESR), 0x01D8_00D8);
    for busy in [1, 1, 0, 1] {
        assert!(guest.pmu.cycle(&clock(busy), 0).is_empty());
    }
    assert_eq!(counters(&guest), [2, 3], "two bus cycles, three clocks since counter 1 runs");
    // Stop of counter 0; counter 1 goes on.
    let shadow = guest.rdmsr(CTR0) & 0xFF_FFFF_FFFF;
    guest.wrmsr(CESR, 0x01D8_0000);
    assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
    assert_eq!(counters(&guest), [2, 4]);
    // Start of counter 0 again from its shadow.
    guest.wrmsr(CTR0, shadow);
    guest.wrmsr(CESR, 0x01D8_00D8);
    assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
    assert_eq!(counters(&guest), [3, 5], "a counter that starts sees the condition begin");
}

/// OpenBSD `sys/arch/i386/i386/pctr.c`, `p5ctrsel`: read CESR, replace 8:0 of one half, write it back,
/// clear that counter. Bit 9, which it does not know, stays.
#[test]
fn openbsd_read_modify_write() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, 0x0200_0200);
    let select = |guest: &mut Guest, counter: u32, function: u64| {
        let cesr = guest.rdmsr(CESR);
        let shift = 16 * counter;
        guest.wrmsr(CESR, cesr & !(0x1FF << shift) | function << shift);
        guest.wrmsr(CTR0 + counter, 0);
    };
    select(&mut guest, 0, 0xD6);
    assert_eq!(guest.rdmsr(CESR), 0x0200_02D6);
    assert_eq!(guest.fire(Signal::InsnRetired, 40, 3), []);
    select(&mut guest, 1, 0xC0);
    assert_eq!(guest.rdmsr(CESR), 0x02C0_02D6);
    assert_eq!(counters(&guest), [40, 0]);
    assert_eq!(guest.fire(Signal::InsnRetired, 2, 0), []);
    assert_eq!(guest.fire(Signal::Load, 7, 0), []);
    assert_eq!(counters(&guest), [42, 7]);
    // The same function again clears the counter, and leaves the other alone.
    select(&mut guest, 0, 0xD6);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 0), []);
    assert_eq!(counters(&guest), [3, 7]);
    select(&mut guest, 1, 0);
    assert_eq!(guest.rdmsr(CESR), 0x0200_02D6);
    assert_eq!(guest.fire(Signal::Load, 7, 0), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), []);
    assert_eq!(counters(&guest), [4, 0]);
}

/// In the middle of a condition that holds on, the same value and a change of the other half alone
/// are no new beginning; disabling and enabling the counter itself is one.
#[test]
fn rewriting_a_half_keeps_its_edge_state() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, 0x00D8);
    assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
    for other in [0, 0x00D6, 0x01D6, 0x0116, 0x02D6, 0] {
        guest.wrmsr(CESR, other << 16 | 0x00D8);
        assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
        assert_eq!(guest.rdmsr(CTR0), 1, "other half {other:#x}");
    }
    guest.wrmsr(CESR, 0);
    guest.wrmsr(CESR, 0x00D8);
    assert!(guest.pmu.cycle(&clock(1), 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 2);
}

/// perfctr 2.6 `linux/drivers/perfctr/x86.c`, P5: CESR, CTR0 and CTR1 are cleared in this order; then
/// CESR off, counters, CESR on. It reads the low halves by RDPMC.
#[test]
fn perfctr_init_and_use() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, 0x03FF_03FF);
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTR1, 0x55);
    for msr in [CESR, CTR0, CTR1] {
        guest.wrmsr(msr, 0);
    }
    assert_eq!(guest.fire(Signal::InsnRetired, 9, 3), []);
    assert_eq!(counters(&guest), [0, 0]);
    guest.wrmsr(CESR, 0);
    guest.wrmsr(CTR0, 100);
    guest.wrmsr(CTR1, 200);
    guest.wrmsr(CESR, 0x0092_0096);
    assert_eq!(guest.fire(Signal::InsnRetired, 9, 3), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 2, 3), []);
    assert_eq!([guest.rdpmc(0), guest.rdpmc(1)], [109, 202]);
}
