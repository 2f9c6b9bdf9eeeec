//! The P6 family: counters that are written by 32 bits, one enable bit, unit masks, CMASK, INV, E,
//! and events that only one counter can count.
//!
//! Sources: Intel SDM volume 3, section "Performance Monitoring (P6 Family Processor)"; Intel MMX
//! Technology manual, table 6-2 and its notes.

mod guest;

use guest::Guest;
use pmu_model::{MsrAccess, Signal, SignalCounts};

const EVTSEL0: u32 = 0x186;
const EVTSEL1: u32 = 0x187;
const CTR0: u32 = 0xC1;
const CTR1: u32 = 0xC2;

const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EDGE: u64 = 1 << 18;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;
const INV: u64 = 1 << 23;

/// The members of the family.
const FAMILY: [&str; 3] = ["ppro", "pii", "p6"];

/// How often each signal occurred in one clock.
fn clock(pairs: &[(Signal, u64)]) -> SignalCounts {
    pairs.iter().copied().collect()
}

/// Every signal there is, `n` times.
fn everything(n: u64) -> SignalCounts {
    Signal::ALL.iter().map(|&signal| (signal, n)).collect()
}

/// "PerfCtr0 and PerfCtr1 MSRs": 31:0 are written, 39:32 become copies of bit 31, and counting
/// uses all 40 bits: 80000000h is 2^31 below the wrap, 7FFFFFFFh is 2^40 - 2^31 + 1.
#[test]
fn a_write_extends_the_sign_and_counting_uses_forty_bits() {
    for name in FAMILY {
        let mut guest = Guest::on(name);
        guest.wrmsr(EVTSEL0, 0xC0 | OS | INT | EN);
        guest.wrmsr(CTR0, 0x8000_0000);
        assert_eq!([guest.rdmsr(CTR0), guest.rdpmc(0)], [0xFF_8000_0000; 2]);
        assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(0x8000_0000));
        assert_eq!(guest.fire(Signal::InsnRetired, 0x7FFF_FFFF, 0), []);
        assert_eq!(guest.rdmsr(CTR0), 0xFF_FFFF_FFFF);
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), [0]);
        assert_eq!(guest.rdmsr(CTR0), 0);

        guest.wrmsr(CTR0, 0xFFFF_FFFF_7FFF_FFFF);
        assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(0xFF_8000_0001));
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), []);
        assert_eq!(guest.rdmsr(CTR0), 0x8000_0000, "counting carries, it does not extend");
        assert_eq!(guest.fire(Signal::InsnRetired, 0x8000_0000, 0), []);
        assert_eq!(guest.rdmsr(CTR0), 0x01_0000_0000, "bit 32 counts");
    }
}

/// "PerfEvtSel0 and PerfEvtSel1 MSRs": EN is there only in `PerfEvtSel0` and gates both counters;
/// libpfm4 sets it in the second as well, where it is kept and does nothing.
#[test]
fn en_of_the_first_event_select_gates_both_counters() {
    for name in FAMILY {
        for (en0, en1, runs) in
            [(false, false, 0), (false, true, 0), (true, false, 7), (true, true, 7)]
        {
            let bit = |on| if on { EN } else { 0 };
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL1, 0xC0 | USR | bit(en1));
            guest.wrmsr(EVTSEL0, 0xC0 | USR | bit(en0));
            assert_eq!(guest.fire(Signal::InsnRetired, 7, 3), []);
            assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [runs; 2], "{name} {en0} {en1}");
            assert_eq!(guest.rdmsr(EVTSEL1), 0xC0 | USR | bit(en1), "reads back as written");
            assert_eq!(guest.pmu.demand().counting, en0);
        }
    }
}

/// `PerfEvtSel1` zero stops counter 1 alone: it has neither USR nor OS. A guest that leaves it so
/// has selected nothing, and the summary names nothing.
#[test]
fn an_event_select_without_privilege_bits_stops_its_counter_alone() {
    let mut guest = Guest::on("p6");
    guest.wrmsr(EVTSEL0, 0xC0 | OS | EN);
    assert!(guest.pmu.uncounted().is_empty(), "counter 1 selects nothing");
    assert_eq!(guest.pmu.counter_stats(1).unwrap().selections().len(), 0);
    guest.wrmsr(EVTSEL1, 0xC0 | OS);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 0), []);
    guest.wrmsr(EVTSEL1, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 4, 0), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [7, 3]);
    guest.wrmsr(EVTSEL0, 0);
    guest.wrmsr(EVTSEL1, 0xC0 | OS | EN);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 0), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [7, 3], "both stand without EN in 186h");
}

/// USR is CPL 1 to 3, OS is CPL 0.
#[test]
fn privilege() {
    for (bits, at_cpl) in
        [(0, [0, 0, 0, 0]), (USR, [0, 1, 1, 1]), (OS, [1, 0, 0, 0]), (USR | OS, [1, 1, 1, 1])]
    {
        for (cpl, expected) in (0..).zip(at_cpl) {
            let mut guest = Guest::on("p6");
            guest.wrmsr(EVTSEL1, 0xC0 | bits);
            guest.wrmsr(EVTSEL0, 0xC0 | bits | EN);
            assert_eq!(guest.fire(Signal::InsnRetired, 1, cpl), []);
            assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [expected; 2], "{bits:#x} {cpl}");
        }
    }
}

/// INT is each counter's own; two overflows at once are two assertions, and both counters wrap.
#[test]
fn both_counters_overflow_at_once() {
    for (int0, int1, expected) in
        [(INT, INT, &[0, 1][..]), (INT, 0, &[0]), (0, INT, &[1]), (0, 0, &[])]
    {
        let mut guest = Guest::on("p6");
        guest.wrmsr(CTR0, 0xFFFF_FFFF);
        guest.wrmsr(CTR1, 0xFFFF_FFFF);
        guest.wrmsr(EVTSEL1, 0xC0 | OS | int1);
        guest.wrmsr(EVTSEL0, 0xC0 | OS | int0 | EN);
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), expected);
        assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0, 0]);
    }
}

/// Table 6-2, comments: C1h, 10h and 14h "Counter 0 only", 11h, 12h and 13h "Counter 1 only". On
/// the other counter the processor's answer is not written down; here it is zero.
#[test]
fn events_of_one_counter_count_nothing_on_the_other() {
    for name in FAMILY {
        for (code, signal, counts_on) in [
            (0xC1, Signal::X87Flop, CTR0),
            (0x10, Signal::X87FlopExecuted, CTR0),
            (0x14, Signal::DividerBusy, CTR0),
            (0x11, Signal::FpAssist, CTR1),
            (0x12, Signal::ArithMul, CTR1),
            (0x13, Signal::ArithDiv, CTR1),
        ] {
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL1, code | USR | OS | INT);
            guest.wrmsr(EVTSEL0, code | USR | OS | INT | EN);
            assert_eq!(guest.fire(signal, 9, 3), [], "{name} {code:#x}");
            assert!(guest.pmu.advance(&everything(1), 3).is_empty());
            for counter in [CTR0, CTR1] {
                let expected = if counter == counts_on { 10 } else { 0 };
                assert_eq!(guest.rdmsr(counter), expected, "{name} {code:#x} {counter:#x}");
            }
        }
    }
}

/// Table 6-2, note 1: UMSK bits 3:0 are M, E, S, I; each adds its state and 0 "will result in
/// nothing being counted". Linux disables a counter by 2Eh with mask 0. Bits 7:4 are no state.
#[test]
fn l2_unit_masks_select_states_and_mask_0_counts_nothing() {
    let states = [
        (Signal::L2RequestModified, 8, 1000),
        (Signal::L2RequestExclusive, 4, 200),
        (Signal::L2RequestShared, 2, 30),
        (Signal::L2RequestInvalid, 1, 4),
    ];
    for name in FAMILY {
        for umask in 0..=0xFF {
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL1, 0x2E | umask << 8 | USR | OS);
            guest.wrmsr(EVTSEL0, 0x2E | umask << 8 | USR | OS | EN);
            let mut expected = 0;
            for (signal, bit, n) in states {
                assert_eq!(guest.fire(signal, n, 0), []);
                expected += if umask & bit != 0 { n } else { 0 };
            }
            assert_eq!(guest.rdmsr(CTR0), expected, "{name} {umask:#x}");
            assert_eq!(guest.rdmsr(CTR1), expected, "{name} {umask:#x}");
        }
    }
    let mut guest = Guest::on("p6");
    guest.wrmsr(EVTSEL0, 0x2E | USR | OS | EN);
    assert!(guest.pmu.advance(&everything(100), 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 0, "mask 0: whatever happens");
    assert!(guest.pmu.uncounted().is_empty(), "its zero is the true count");
}

/// Table 6-2, note 2: UMSK bit 5 is this processor's transactions (0) or those of all agents (1).
#[test]
fn bus_unit_mask_bit_5_tells_self_from_any() {
    for (umask, expected) in [(0x00, 3), (0x20, 50), (0x0F, 3), (0xDF, 3), (0xFF, 50)] {
        let mut guest = Guest::on("p6");
        guest.wrmsr(EVTSEL1, 0x6F | umask << 8 | USR | OS);
        guest.wrmsr(EVTSEL0, EN);
        assert_eq!(guest.fire(Signal::BusMemory, 3, 0), []);
        assert_eq!(guest.fire(Signal::BusMemoryAny, 50, 0), []);
        assert_eq!(guest.rdmsr(CTR1), expected, "mask {umask:#x}");
    }
}

/// Table 6-2 takes no unit mask for C0h: it is not looked at (Linux and libpfm4 give none; a mask
/// left over from another event must not stop the count).
#[test]
fn unit_masks_without_meaning_are_ignored() {
    for umask in [0x00, 0x01, 0x20, 0xFF] {
        let mut guest = Guest::on("ppro");
        guest.wrmsr(EVTSEL0, 0xC0 | umask << 8 | OS | EN);
        assert_eq!(guest.fire(Signal::InsnRetired, 11, 0), []);
        assert_eq!(guest.rdmsr(CTR0), 11, "mask {umask:#x}");
    }
}

/// "All performance event encodings not listed in the table are reserved": no #GP, no count. B7h
/// and BBh are the off-core responses of much later processors, 00h is listed nowhere. Their MSRs,
/// and those of architectural performance monitoring, do not exist.
#[test]
fn reserved_codes_and_later_registers() {
    for name in FAMILY {
        for code in [0x00, 0x01, 0x3C, 0xB7, 0xBB, 0xF0, 0xFF] {
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL1, code | 0xFF00 | USR | OS);
            guest.wrmsr(EVTSEL0, code | 0xFF00 | USR | OS | EN);
            assert_eq!(guest.rdmsr(EVTSEL0), code | 0xFF00 | USR | OS | EN);
            assert!(guest.pmu.advance(&everything(5), 0).is_empty());
            let named = guest.pmu.uncounted().iter().count();
            assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0, 0], "{name} {code:#x}");
            assert_eq!(named, 1, "{name} {code:#x} is named in the summary, once");
        }
        let guest = Guest::on(name);
        for msr in [0xC3, 0x188, 0x189, 0x1A6, 0x1A7, 0x309, 0x30A, 0x38D, 0x38E, 0x38F, 0x390] {
            assert_eq!(guest.pmu.read_msr(msr), MsrAccess::NotOurs, "{name} {msr:#x}");
        }
    }
}

/// Each member has its events, as libpfm4's tables `ppro`, `pii` and `p6` tell them apart: MMX from
/// the Pentium II on, of which B0h and CEh are gone from the Pentium III, and SSE on that alone.
#[test]
fn each_member_has_its_own_events() {
    for (code, signal, expected) in [
        (0xC0, Signal::InsnRetired, [6, 6, 6]),
        (0xB0, Signal::InsnRetiredMmx, [0, 6, 0]),
        (0xCE, Signal::InsnRetiredMmx, [0, 6, 0]),
        (0xB1, Signal::MmxSaturating, [0, 6, 6]),
        (0xD8, Signal::InsnRetiredSsePacked, [0, 0, 6]),
    ] {
        for (name, expected) in FAMILY.into_iter().zip(expected) {
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL0, code | USR | EN);
            assert_eq!(guest.fire(signal, 6, 3), []);
            assert_eq!(guest.rdmsr(CTR0), expected, "{name} {code:#x}");
        }
    }
}

/// "Counter mask": 0 adds the events of a clock, and INV is ignored; else 1 is added when there are
/// at least CMASK, with INV when there are fewer.
#[test]
fn counter_mask_and_invert() {
    for (cmask, inv, expected) in [
        (0, 0, [0, 1, 2, 3, 9]),
        (0, INV, [0, 1, 2, 3, 9]),
        (1, 0, [0, 1, 1, 1, 1]),
        (1, INV, [1, 0, 0, 0, 0]),
        (2, 0, [0, 0, 1, 1, 1]),
        (2, INV, [1, 1, 0, 0, 0]),
        (3, 0, [0, 0, 0, 1, 1]),
        (4, 0, [0, 0, 0, 0, 1]),
        (4, INV, [1, 1, 1, 1, 0]),
        (255, 0, [0, 0, 0, 0, 0]),
        (255, INV, [1, 1, 1, 1, 1]),
    ] {
        for (events, expected) in [0, 1, 2, 3, 9].into_iter().zip(expected) {
            let mut guest = Guest::on("p6");
            guest.wrmsr(EVTSEL1, 0xC0 | OS | inv | cmask << 24);
            guest.wrmsr(EVTSEL0, EN);
            let clock = clock(&[(Signal::InsnRetired, events), (Signal::CyclesUnhalted, 1)]);
            assert!(guest.pmu.cycle(&clock, 0).is_empty());
            assert_eq!(guest.rdmsr(CTR1), expected, "CMASK {cmask} INV {inv:#x}: {events}");
        }
    }
}

/// "Edge detect": assertions that follow each other without a gap are one. Of interrupts masked in
/// the clocks 0111 0011 0 it sees two, which is how a guest learns the mean length.
#[test]
fn edge_counts_the_beginnings() {
    let mut guest = Guest::on("p6");
    guest.wrmsr(EVTSEL1, 0xC6 | OS);
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE | EN);
    for masked in [0, 1, 1, 1, 0, 0, 1, 1, 0] {
        let clock = clock(&[(Signal::CyclesIntMasked, masked), (Signal::CyclesUnhalted, 1)]);
        assert!(guest.pmu.cycle(&clock, 0).is_empty());
    }
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [2, 5], "5 clocks in 2 stretches");

    // INV is ignored here too while CMASK is 0.
    let mut guest = Guest::on("p6");
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE | INV | EN);
    for masked in [0, 1, 1, 1, 0, 0, 1, 1, 0] {
        let clock = clock(&[(Signal::CyclesIntMasked, masked), (Signal::CyclesUnhalted, 1)]);
        assert!(guest.pmu.cycle(&clock, 0).is_empty());
    }
    assert_eq!(guest.rdmsr(CTR0), 2);

    // With INV and CMASK 1 the condition is "not masked": clocks 1000 1100 1, three beginnings.
    let mut guest = Guest::on("p6");
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE | INV | 1 << 24 | EN);
    for masked in [0, 1, 1, 1, 0, 0, 1, 1, 0] {
        let clock = clock(&[(Signal::CyclesIntMasked, masked), (Signal::CyclesUnhalted, 1)]);
        assert!(guest.pmu.cycle(&clock, 0).is_empty());
    }
    assert_eq!(guest.rdmsr(CTR0), 3);
}

/// Disabling and enabling by the one bit restarts edge detection on both counters: a condition that
/// holds on is seen to begin again.
#[test]
fn the_one_enable_bit_restarts_edge_detection_of_both() {
    let mut guest = Guest::on("p6");
    let held = clock(&[(Signal::CyclesIntMasked, 1), (Signal::CyclesUnhalted, 1)]);
    guest.wrmsr(EVTSEL1, 0xC6 | OS | EDGE);
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE | EN);
    for _ in 0..3 {
        assert!(guest.pmu.cycle(&held, 0).is_empty());
    }
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [1, 1]);
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE);
    guest.wrmsr(EVTSEL0, 0xC6 | OS | EDGE | EN);
    assert!(guest.pmu.cycle(&held, 0).is_empty());
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [2, 2]);
}
