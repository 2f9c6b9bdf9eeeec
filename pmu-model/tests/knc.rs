//! Knights Corner: two counters a hardware thread, the user preference of SPFLT, the overflow status
//! and the interrupt line of one bit, events of other threads.
//!
//! Source: Intel 327357-001, sections 1.4.2 to 1.4.4 (in Japanese; quotations are translated).

mod guest;

use guest::Guest;
use pmu_model::{MsrAccess, Personality, Reset, Signal, SignalCounts};

const CTR0: u32 = 0x20;
const CTR1: u32 = 0x21;
const EVTSEL0: u32 = 0x28;
const EVTSEL1: u32 = 0x29;
const SPFLT_CONTROL: u32 = 0x2C;
const STATUS: u32 = 0x2D;
const OVF_CTRL: u32 = 0x2E;
const CTRL: u32 = 0x2F;

const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EDGE: u64 = 1 << 18;
const INT: u64 = 1 << 20;
const ALL_THREADS: u64 = 1 << 21;
const EN: u64 = 1 << 22;
const INV: u64 = 1 << 23;

const USER_PREF: u64 = 1 << 63;

/// INSTRUCTIONS_EXECUTED.
const INSTRUCTIONS: u64 = 0x16;
/// BRANCHES.
const BRANCHES: u64 = 0x12;
/// L2_READ_MISS, an event of the ring interface, without a thread context.
const L2_READ_MISS: u64 = 0x10CB;

/// A thread whose counters count instructions and branches with INT, both one short of overflow.
fn about_to_overflow() -> Guest {
    let mut guest = Guest::on("knc");
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTR1, 0xFF_FFFF_FFFF);
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | OS | INT | EN);
    guest.wrmsr(EVTSEL1, BRANCHES | USR | OS | INT | EN);
    guest.wrmsr(CTRL, 3);
    guest
}

/// How often each signal occurred.
fn counts(pairs: &[(Signal, u64)]) -> SignalCounts {
    pairs.iter().copied().collect()
}

/// 1.4.3.2: "reads and writes set all 40 bits", unlike processors that extend bit 31.
#[test]
fn a_write_sets_all_forty_bits() {
    for (value, expected) in [
        (0x00_8000_0000, 0x00_8000_0000),
        (0x80_0000_0001, 0x80_0000_0001),
        (0xAB_1234_5678, 0xAB_1234_5678),
        (0xFFFF_FFFF_FFFF_FFFF, 0xFF_FFFF_FFFF),
    ] {
        let mut guest = Guest::on("knc");
        guest.wrmsr(CTR1, value);
        assert_eq!(guest.rdmsr(CTR1), expected);
        assert_eq!(guest.rdpmc(1), expected);
    }
    let mut guest = about_to_overflow();
    guest.wrmsr(CTR0, 0x00_FFFF_FFFF);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), [], "no overflow at 32 bits");
    assert_eq!(guest.rdmsr(CTR0), 0x01_0000_0000);
}

/// Tables 1-5, 1-7 and 1-10: a counter runs if GLOBAL_CTRL, EN and the privilege let it, and if SPFLT
/// does not control it or the user preference is set.
#[test]
fn the_rule_of_five_bits() {
    for bits in 0..32_u64 {
        let [filtered, preferred, global, en, user] =
            [1, 2, 4, 8, 16].map(|bit: u64| bits & bit != 0);
        for counter in 0..2 {
            let mut guest = Guest::on("knc");
            let control = if filtered { 1 << counter } else { 0 };
            guest.wrmsr(SPFLT_CONTROL, control | if preferred { USER_PREF } else { 0 });
            guest.wrmsr(CTRL, if global { 1 << counter } else { 0 });
            guest.wrmsr(EVTSEL0 + counter, INSTRUCTIONS | USR | if en { EN } else { 0 });
            let cpl = if user { 3 } else { 0 };
            assert_eq!(guest.fire(Signal::InsnRetired, 5, cpl), []);
            let runs = global && en && user && (!filtered || preferred);
            let expected = if runs { 5 } else { 0 };
            assert_eq!(guest.rdmsr(CTR0 + counter), expected, "counter {counter} {bits:#07b}");
            assert_eq!(guest.rdmsr(CTR0 + 1 - counter), 0, "the other counter");
        }
    }
}

/// 1.4.2: SPFLT sets or clears the user preference and cannot pick a counter; it has an effect only
/// on counters whose SPFLT control bit the operating system has set.
#[test]
fn spflt_counts_a_region() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | EN);
    guest.wrmsr(EVTSEL1, INSTRUCTIONS | USR | EN);
    guest.wrmsr(SPFLT_CONTROL, 0b01);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::InsnRetired, 100, 3), []);
    guest.pmu.set_user_preference(true);
    assert_eq!(guest.rdmsr(SPFLT_CONTROL), USER_PREF | 0b01);
    assert_eq!(guest.fire(Signal::InsnRetired, 20, 3), []);
    guest.pmu.set_user_preference(true);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 3), []);
    guest.pmu.set_user_preference(false);
    assert_eq!(guest.rdmsr(SPFLT_CONTROL), 0b01);
    assert_eq!(guest.fire(Signal::InsnRetired, 4000, 3), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [23, 4123]);

    for name in ["p55c", "ppro", "pii", "p6", "k7", "k8"] {
        let mut guest = Guest::on(name);
        let before = guest.pmu.clone();
        guest.pmu.set_user_preference(true);
        assert_eq!(guest.pmu, before, "{name} has no user preference");
    }
}

/// 1.4.3.9, figure 1-2, simultaneous overflows: the first interrupts, the other shows in the status
/// only. The handler of the document (stop the counters, read the status, service, clear the status,
/// unmask, start again) loses nothing, and the next overflow interrupts again.
#[test]
fn simultaneous_overflows_in_the_documents_order() {
    let mut guest = about_to_overflow();
    let both = counts(&[(Signal::InsnRetired, 1), (Signal::BranchRetired, 1)]);
    let pmis: Vec<usize> = guest.pmu.advance(&both, 3).iter().collect();
    assert_eq!(pmis.len(), 1, "one line, one edge");
    assert_eq!(guest.rdmsr(STATUS), 3);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0, 0]);

    guest.wrmsr(CTRL, 0);
    assert_eq!(guest.rdmsr(STATUS), 3, "the handler finds both");
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFE);
    guest.wrmsr(CTR1, 0xFF_FFFF_FF00);
    assert!(guest.pmu.advance(&both, 0).is_empty(), "stopped while it works");
    guest.wrmsr(OVF_CTRL, 3);
    assert_eq!(guest.rdmsr(STATUS), 0);
    guest.wrmsr(CTRL, 3);

    assert!(guest.pmu.advance(&both, 3).is_empty());
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0xFF_FFFF_FFFF, 0xFF_FFFF_FF01]);
    let pmis: Vec<usize> = guest.pmu.advance(&both, 3).iter().collect();
    assert_eq!(pmis, [0]);
    assert_eq!(guest.rdmsr(STATUS), 1);
}

/// Figure 1-2, consecutive overflows: the second comes before the handler of the first has stopped
/// the counters. It does not interrupt; the status has it, and so it is not lost.
#[test]
fn consecutive_overflows_in_the_documents_order() {
    let mut guest = about_to_overflow();
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
    assert_eq!(guest.rdmsr(STATUS), 1);
    // The way into the handler: instructions at CPL 0, the last of them a branch.
    assert_eq!(guest.fire(Signal::InsnRetired, 6, 0), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), [], "the line is 1 already");
    guest.wrmsr(CTRL, 0);
    assert_eq!(guest.rdmsr(STATUS), 3, "both are serviced");
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTR1, 0xFF_FFFF_FFFF);
    guest.wrmsr(OVF_CTRL, 3);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), [1]);
    assert_eq!(guest.rdmsr(STATUS), 2);
}

/// 1.4.3.9: "if the counters are not stopped in step 2, a PMI from step 3 on is not cleared, and the
/// line to the APIC stays 1". What happens between reading and clearing is lost for good.
#[test]
fn without_stopping_the_counters_the_next_interrupt_is_lost() {
    let mut guest = about_to_overflow();
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
    let seen = guest.rdmsr(STATUS);
    assert_eq!(seen, 1);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), []);
    guest.wrmsr(OVF_CTRL, seen);
    assert_eq!(guest.rdmsr(STATUS), 2, "the line stays 1");
    for counter in [CTR0, CTR1] {
        guest.wrmsr(counter, 0xFF_FFFF_FFFF);
    }
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [], "no edge, no interrupt");
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), []);
    assert_eq!(guest.rdmsr(STATUS), 3);
    guest.wrmsr(OVF_CTRL, 3);
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0], "zero in between makes an edge again");
}

/// The wrong order: counters started before the status is cleared. The next PMI does not come.
#[test]
fn starting_before_clearing_loses_the_next_interrupt() {
    let mut guest = about_to_overflow();
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
    guest.wrmsr(CTRL, 0);
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [], "status is still 1");
    assert_eq!(guest.rdmsr(CTR0), 0);
    guest.wrmsr(OVF_CTRL, 1);
    assert_eq!(guest.rdmsr(STATUS), 0, "and nothing tells that it overflowed twice");
    let total = guest.pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.overflows, total.pmis), (2, 1), "but the run's statistics");
}

/// 1.4.3.5: the status is updated "even if the APIC interrupt is not enabled", its bits are sticky.
#[test]
fn the_status_is_sticky_and_set_without_int() {
    let mut guest = about_to_overflow();
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | OS | EN);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), []);
    assert_eq!(guest.rdmsr(STATUS), 1);
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(EVTSEL0, 0);
    guest.wrmsr(CTRL, 0);
    guest.wrmsr(CTRL, 3);
    guest.wrmsr(SPFLT_CONTROL, USER_PREF | 3);
    guest.wrmsr(SPFLT_CONTROL, 0);
    guest.wrmsr(OVF_CTRL, 0);
    assert_eq!(guest.rdmsr(STATUS), 1, "only a 1 written to its bit of 2Eh clears it");
    assert_eq!(guest.pmu.write_msr(STATUS, 0), MsrAccess::GpFault);
    assert_eq!(guest.rdmsr(STATUS), 1);
    guest.wrmsr(OVF_CTRL, !1);
    assert_eq!(guest.rdmsr(STATUS), 1);
    guest.wrmsr(OVF_CTRL, u64::MAX);
    assert_eq!(guest.rdmsr(STATUS), 0);
    assert_eq!(guest.pmu.read_msr(OVF_CTRL), MsrAccess::GpFault);
}

/// Each bit of 2Eh clears its own bit of 2Dh, at once.
#[test]
fn partial_clears() {
    for (clear, left) in [(0, 3), (1, 2), (2, 1), (3, 0), (4, 3), (0xFFFF_FFFF_FFFF_FFFC, 3)] {
        let mut guest = about_to_overflow();
        let both = counts(&[(Signal::InsnRetired, 1), (Signal::BranchRetired, 1)]);
        assert_eq!(guest.pmu.advance(&both, 0).count(), 1);
        guest.wrmsr(OVF_CTRL, clear);
        assert_eq!(guest.rdmsr(STATUS), left, "{clear:#x}");
    }
}

/// Of two overflows at one instant the one with INT interrupts, whichever it is; with INT on
/// neither there is no interrupt.
#[test]
fn simultaneous_overflows_with_int_on_one() {
    for (int0, int1, expected) in [(INT, 0, &[0][..]), (0, INT, &[1]), (0, 0, &[])] {
        let mut guest = about_to_overflow();
        guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | OS | EN | int0);
        guest.wrmsr(EVTSEL1, INSTRUCTIONS | USR | OS | EN | int1);
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), expected);
        assert_eq!(guest.rdmsr(STATUS), 3);
    }
}

/// A long batch that wraps a counter several times is one edge of the line.
#[test]
fn several_wraps_at_once_are_one_edge() {
    let mut guest = about_to_overflow();
    assert_eq!(guest.fire(Signal::InsnRetired, 2 << 40, 0), [0]);
    assert_eq!(guest.rdmsr(CTR0), 0xFF_FFFF_FFFF);
    let total = guest.pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.overflows, total.pmis), (2, 1));
}

/// Table 1-5, bit 21: clear counts this thread, set counts every thread of the core. Four threads
/// run 1000, 200, 30 and 4 instructions at CPL 3; bit 21 gives the sum, 1234.
#[test]
fn thread_count_mode() {
    let ran = [1000, 200, 30, 4];
    let mut core: Vec<Guest> = (0..4).map(|_| Guest::on("knc")).collect();
    for thread in &mut core {
        thread.wrmsr(EVTSEL0, INSTRUCTIONS | USR | EN);
        thread.wrmsr(EVTSEL1, INSTRUCTIONS | USR | ALL_THREADS | EN);
        thread.wrmsr(CTRL, 3);
        assert!(thread.pmu.sibling_demand().signals.contains(Signal::InsnRetired));
    }
    for (runner, n) in ran.into_iter().enumerate() {
        let batch = counts(&[(Signal::InsnRetired, n), (Signal::Load, 7)]);
        for (i, thread) in core.iter_mut().enumerate() {
            let pmis = if i == runner {
                thread.pmu.advance(&batch, 3)
            } else {
                thread.pmu.sibling(0, &batch, 3)
            };
            assert!(pmis.is_empty());
        }
    }
    for (thread, own) in core.iter().zip(ran) {
        assert_eq!([thread.rdmsr(CTR0), thread.rdmsr(CTR1)], [own, 1234]);
        assert!(!thread.pmu.is_core_event(0) && !thread.pmu.is_core_event(1));
    }
}

/// Bit 21 filters by the privilege level of the thread that did it, obeys the enable bits of the
/// counter's own thread, and overflows there.
#[test]
fn thread_count_mode_obeys_the_counters_own_bits() {
    let mut guest = Guest::on("knc");
    let batch = counts(&[(Signal::InsnRetired, 10)]);
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | OS | INT | ALL_THREADS | EN);
    assert!(guest.pmu.sibling(0, &batch, 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 0, "GLOBAL_CTRL is clear");
    assert!(!guest.pmu.sibling_demand().counting);
    guest.wrmsr(CTRL, 1);
    assert!(guest.pmu.sibling_demand().counting);
    assert!(guest.pmu.sibling(0, &batch, 3).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 0, "OS, and the other thread is at CPL 3");
    assert!(guest.pmu.sibling(0, &batch, 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 10);
    guest.wrmsr(SPFLT_CONTROL, 1);
    assert!(guest.pmu.sibling(0, &batch, 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 10, "this thread's user preference is clear");
    guest.pmu.set_user_preference(true);
    guest.wrmsr(CTR0, 0xFF_FFFF_FFF6);
    let pmis: Vec<usize> = guest.pmu.sibling(0, &batch, 0).iter().collect();
    assert_eq!(pmis, [0]);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(STATUS)], [0, 1]);
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | OS | INT | EN);
    assert!(guest.pmu.sibling(0, &batch, 0).is_empty());
    assert_eq!(guest.rdmsr(CTR0), 0, "own thread only");
    assert!(!guest.pmu.sibling_demand().counting);
}

/// Table 1-5, bit 21: "events without a thread-specific context are always counted, whatever the
/// thread count mode": each thread's counter that selects one sees the whole core.
#[test]
fn events_without_a_thread_count_in_every_threads_counter() {
    let mut core: Vec<Guest> = (0..4).map(|_| Guest::on("knc")).collect();
    for (mode, thread) in [0, ALL_THREADS, 0].into_iter().zip(&mut core) {
        thread.wrmsr(EVTSEL0, L2_READ_MISS | USR | OS | mode | EN);
        thread.wrmsr(CTRL, 1);
        assert!(thread.pmu.is_core_event(0) && !thread.pmu.is_core_event(1));
        assert!(thread.pmu.sibling_demand().signals.contains(Signal::L2MissRead));
    }
    for runner in 0..4 {
        let batch = counts(&[(Signal::L2MissRead, 10 + runner as u64)]);
        for (i, thread) in core.iter_mut().enumerate() {
            let pmis = if i == runner {
                thread.pmu.advance(&batch, 0)
            } else {
                thread.pmu.sibling(0, &batch, 0)
            };
            assert!(pmis.is_empty());
        }
    }
    let values: Vec<u64> = core.iter().map(|thread| thread.rdmsr(CTR0)).collect();
    assert_eq!(values, [46, 46, 46, 0], "10 + 11 + 12 + 13; the fourth selects nothing");
}

/// The counter of another thread overflows by what this thread does: the model returns the overflow
/// and says that the event has no thread (1.4.3.8: its interrupt goes to the thread in execution).
#[test]
fn an_overflow_of_an_event_without_a_thread() {
    let mut waiting = Guest::on("knc");
    waiting.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    waiting.wrmsr(EVTSEL0, L2_READ_MISS | USR | OS | INT | EN);
    waiting.wrmsr(CTRL, 1);
    let pmis: Vec<usize> =
        waiting.pmu.sibling(0, &counts(&[(Signal::L2MissRead, 1)]), 3).iter().collect();
    assert_eq!(pmis, [0]);
    assert!(waiting.pmu.is_core_event(0));
    assert_eq!(waiting.rdmsr(STATUS), 1, "the status is that of the counter's thread");
}

/// CMASK and E on what the other threads do, clock by clock.
#[test]
fn thread_count_mode_with_counter_mask_and_edge() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | ALL_THREADS | 2 << 24 | EN);
    guest.wrmsr(EVTSEL1, INSTRUCTIONS | USR | ALL_THREADS | EDGE | EN);
    guest.wrmsr(CTRL, 3);
    assert!(guest.pmu.sibling_demand().per_cycle);
    for n in [0, 1, 2, 2, 0, 1] {
        assert!(guest.pmu.sibling(0, &counts(&[(Signal::InsnRetired, n)]), 3).is_empty());
    }
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [2, 2]);
    // Another thread's cycles have edges of their own, as the own ones have: in this thread's last cycle an
    // instruction retired, in theirs none had.
    let one = counts(&[(Signal::InsnRetired, 1)]);
    assert!(guest.pmu.sibling_compare(1, &one, 3).is_empty());
    assert!(guest.pmu.compare(&one, 3).is_empty());
    assert!(guest.pmu.sibling_compare(0, &one, 3).is_empty());
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [2, 4]);
    // The two halves of it.
    let two = counts(&[(Signal::InsnRetired, 2)]);
    assert!(guest.pmu.sibling_advance(&two, 3).is_empty());
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [2, 4]);
    assert!(guest.pmu.sibling_compare(0, &two, 3).is_empty());
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [3, 4]);
}

/// Table 1-5: CMASK at least, with INV less; E the beginnings.
#[test]
fn counter_mask_invert_and_edge() {
    for (bits, expected) in [
        (0, 8),
        (INV, 8),
        (1 << 24, 5),
        (2 << 24, 3),
        (3 << 24, 0),
        (2 << 24 | INV, 4),
        (EDGE, 2),
        (EDGE | 2 << 24, 2),
        (EDGE | INV | 1 << 24, 2),
    ] {
        let mut guest = Guest::on("knc");
        guest.wrmsr(EVTSEL1, INSTRUCTIONS | OS | EN | bits);
        guest.wrmsr(CTRL, 2);
        for n in [0, 1, 2, 2, 0, 1, 2] {
            let clock = counts(&[(Signal::InsnRetired, n), (Signal::CyclesUnhalted, 1)]);
            assert!(guest.pmu.cycle(&clock, 0).is_empty());
        }
        assert_eq!(guest.rdmsr(CTR1), expected, "{bits:#x}");
    }
}

/// Event code and unit mask (first two digits) of table 1-6, and of the four events that only
/// public clients list (C3h, C4h, CEh, CFh).
const SELECTS: [u16; 63] = [
    0x0000, 0x0001, 0x0002, 0x0003, 0x0004, 0x0006, 0x0009, 0x000A, 0x000C, 0x000D, 0x000E, 0x0011,
    0x0012, 0x0015, 0x0016, 0x0017, 0x001C, 0x001E, 0x001F, 0x0020, 0x0021, 0x0028, 0x0029, 0x002A,
    0x002B, 0x002C, 0x002D, 0x002E, 0x0037, 0x0038, 0x003A, 0x003B, 0x10C3, 0x10C4, 0x10C8, 0x10C9,
    0x10CA, 0x10CB, 0x10CC, 0x10CE, 0x10CF, 0x10D7, 0x10E3, 0x10E6, 0x10E7, 0x10F0, 0x10F1, 0x10F2,
    0x10F5, 0x10F6, 0x10F7, 0x10FC, 0x10FD, 0x10FE, 0x10FF, 0x2000, 0x2001, 0x2003, 0x2004, 0x2005,
    0x2016, 0x2017, 0x2018,
];

/// Table 1-5, event select: "an illegal encoding causes no exception or error, and the counter does
/// not count". Every encoding there is that the tables do not list.
#[test]
fn unknown_selects_neither_count_nor_fault() {
    let everything: SignalCounts = Signal::ALL.iter().map(|&signal| (signal, 3)).collect();
    let mut guest = Guest::on("knc");
    guest.wrmsr(CTRL, 3);
    let mut unknown = 0;
    for select in (0..=0xFFFF).filter(|select| !SELECTS.contains(select)) {
        let evtsel = u64::from(select) | USR | OS | EN;
        guest.wrmsr(EVTSEL0, evtsel);
        guest.wrmsr(EVTSEL1, evtsel);
        assert!(guest.pmu.advance(&everything, 3).is_empty());
        assert_eq!(guest.rdmsr(EVTSEL0), evtsel);
        assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0, 0], "{select:#06x}");
        unknown += 1;
    }
    assert_eq!(unknown, 0x10000 - 63);
    // The summary names each: BRANCHES has no unit mask but 0, and 3Fh is no event.
    for select in [0x2012, 0x003F] {
        let mut guest = Guest::on("knc");
        guest.wrmsr(CTRL, 1);
        guest.wrmsr(EVTSEL0, select | USR | EN);
        assert_eq!(guest.pmu.uncounted().iter().count(), 1, "{select:#06x}");
    }
    let rows = Personality::by_name("knc").unwrap().events.len();
    assert_eq!(rows, SELECTS.len());
}

/// Select 0 is DATA_READ, not "nothing": Linux encodes it as INT alone.
#[test]
fn select_0_is_data_read() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL1, 0x0053_0000);
    guest.wrmsr(CTRL, 2);
    assert_eq!(guest.fire(Signal::Load, 17, 3), []);
    assert_eq!(guest.fire(Signal::Store, 5, 3), []);
    assert_eq!(guest.rdmsr(CTR1), 17);
}

/// libpfm4 and the constraints of the Linux driver have the events of the ring interface on counter
/// 0 only, and on the hardware counter 1 reads 0 (LIKWID).
#[test]
fn events_of_the_ring_interface_count_on_counter_0_only() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL0, L2_READ_MISS | USR | OS | EN);
    guest.wrmsr(EVTSEL1, L2_READ_MISS | USR | OS | EN);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::L2MissRead, 8, 3), []);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [8, 0]);
}

/// 1.4.4: after a warm reset "all control registers and counter state are zero", the overflow status
/// and the line with it; INIT does not touch them, even between an overflow and its handler.
#[test]
fn warm_reset_drops_the_line_and_init_keeps_it() {
    let mut guest = about_to_overflow();
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
    guest.pmu.reset(Reset::Init);
    assert_eq!(guest.rdmsr(STATUS), 1);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), [], "the line is still 1");
    assert_eq!(guest.rdmsr(STATUS), 3);
    guest.pmu.reset(Reset::Warm);
    assert_eq!(guest.rdmsr(STATUS), 0);
    for msr in [CTR0, CTR1, EVTSEL0, EVTSEL1, SPFLT_CONTROL, CTRL] {
        assert_eq!(guest.rdmsr(msr), 0, "{msr:#x}");
    }
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(EVTSEL0, INSTRUCTIONS | USR | INT | EN);
    guest.wrmsr(CTRL, 1);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
}

/// Table 1-5, EVENT_SELECT: an illegal encoding "causes no exception or error, and the counter does not count":
/// not even, with INV, the clocks in which less happens than CMASK. 80h is no event, and 0116h has a mask that
/// table 1-6 does not; that of 00h counts such clocks, or that the first of them begins.
#[test]
fn an_illegal_encoding_stands_still() {
    for (event, edge, expected) in
        [(0x80, 0, 0), (0x80, EDGE, 0), (0x0116, 0, 0), (0x00, 0, 3), (0x00, EDGE, 1)]
    {
        let mut guest = Guest::on("knc");
        guest.wrmsr(EVTSEL0, event | USR | OS | EN | INV | edge | 1 << 24);
        guest.wrmsr(CTRL, 3);
        for _ in 0..3 {
            assert!(guest.pmu.cycle(&counts(&[]), 0).is_empty());
        }
        assert_eq!(guest.rdmsr(CTR0), expected, "{event:x}");
    }
}

/// The same in the cycles of other threads: 00CBh has the code of an event without a thread, but not its mask, and so
/// sees them in thread count mode alone. What it does not see leaves the condition as it was; what it sees ends it,
/// since it is never true.
#[test]
fn an_illegal_encoding_sees_other_threads_in_thread_count_mode_alone() {
    const L2_READ_MISS_WITHOUT_ITS_MASK: u64 = 0x00CB;
    for (illegal, expected) in [(0, 1), (ALL_THREADS, 2)] {
        let mut guest = Guest::on("knc");
        guest.wrmsr(CTRL, 3);
        let edge_of_less = USR | OS | EN | INV | EDGE | ALL_THREADS | 1 << 24;
        guest.wrmsr(EVTSEL0, edge_of_less);
        assert!(guest.pmu.sibling_compare(0, &counts(&[]), 0).is_empty());
        assert_eq!(guest.rdmsr(CTR0), 1);
        guest.wrmsr(EVTSEL0, L2_READ_MISS_WITHOUT_ITS_MASK | USR | OS | EN | EDGE | illegal);
        assert_eq!(guest.pmu.sibling_demand().per_cycle, illegal != 0);
        assert!(guest.pmu.sibling_compare(0, &counts(&[]), 0).is_empty());
        guest.wrmsr(EVTSEL0, edge_of_less);
        assert!(guest.pmu.sibling_compare(0, &counts(&[]), 0).is_empty());
        assert_eq!(guest.rdmsr(CTR0), expected);
    }
}
