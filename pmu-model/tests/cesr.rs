//! The Pentium with MMX technology: one register for two counters, CPL 0 to 2 against 3, clocks
//! against occurrences, twin events, pins instead of interrupts.
//!
//! Sources: Intel SDM volume 3, section "Performance Monitoring (Pentium Processors)"; Intel MMX
//! Technology manual, table 6-1 and section 6.3.

mod guest;

use guest::Guest;
use pmu_model::{Personality, RdpmcCaller, Select, Signal, SignalCounts};

const CESR: u32 = 0x11;
const CTR0: u32 = 0x12;
const CTR1: u32 = 0x13;

/// `CC`: CPL 0 to 2.
const SUPERVISOR: u64 = 1 << 6;
/// `CC`: CPL 3.
const USER: u64 = 1 << 7;
/// `CC`: clocks.
const CLOCKS: u64 = 1 << 8;
/// `PC`.
const PC: u64 = 1 << 9;

fn counters(guest: &Guest) -> [u64; 2] {
    [guest.rdmsr(CTR0), guest.rdmsr(CTR1)]
}

/// How often each signal occurred in one clock.
fn clock(pairs: &[(Signal, u64)]) -> SignalCounts {
    pairs.iter().copied().chain([(Signal::CyclesUnhalted, 1)]).collect()
}

/// "CC0 and CC1": 000 and 100 count nothing, x01 at CPL 0, 1 and 2, x10 at CPL 3, x11 at any CPL;
/// 1xx clocks. Instructions come one a clock here, so that clocks and occurrences agree.
#[test]
fn counter_control_against_cpl() {
    for (cc, at_cpl) in [
        (0b000, [0, 0, 0, 0]),
        (0b001, [1, 1, 1, 0]),
        (0b010, [0, 0, 0, 1]),
        (0b011, [1, 1, 1, 1]),
        (0b100, [0, 0, 0, 0]),
        (0b101, [1, 1, 1, 0]),
        (0b110, [0, 0, 0, 1]),
        (0b111, [1, 1, 1, 1]),
    ] {
        for (cpl, expected) in (0..).zip(at_cpl) {
            for shift in [0, 16] {
                let mut guest = Guest::on("p55c");
                guest.wrmsr(CESR, (cc << 6 | 0x16) << shift);
                assert!(guest.pmu.cycle(&clock(&[(Signal::InsnRetired, 1)]), cpl).is_empty());
                let wanted = if shift == 0 { [expected, 0] } else { [0, expected] };
                assert_eq!(counters(&guest), wanted, "CC {cc:#05b} CPL {cpl}");
                assert_eq!(guest.pmu.demand().counting, cc & 0b11 != 0, "CC {cc:#05b}");
            }
        }
    }
}

/// An event of table 6-1 with OCCURRENCE: its occurrences are added, or the clocks in which there was
/// one are counted.
#[test]
fn occurrences_of_a_pulse_against_its_clocks() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, (USER | CLOCKS | 0x16) << 16 | USER | 0x16);
    assert!(guest.pmu.demand().per_cycle);
    for retired in [2, 0, 1, 2, 0, 0, 2] {
        assert!(guest.pmu.cycle(&clock(&[(Signal::InsnRetired, retired)]), 3).is_empty());
    }
    assert_eq!(counters(&guest), [7, 4], "seven instructions in four clocks");
}

/// An event with DURATION: its beginnings, or the clocks that it lasts.
#[test]
fn occurrences_of_a_duration_against_its_clocks() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, (SUPERVISOR | CLOCKS | 0x18) << 16 | SUPERVISOR | 0x18);
    for busy in [0, 1, 1, 1, 0, 1, 0, 0, 1, 1] {
        assert!(guest.pmu.cycle(&clock(&[(Signal::BusBusy, busy)]), 1).is_empty());
    }
    assert_eq!(counters(&guest), [3, 6], "three bus cycles of six clocks in all");
}

/// Cycles not in HLT state (30h, counter 0, DURATION): clocks count clocks, occurrences count how
/// often execution began.
#[test]
fn cycles_not_in_halt() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, USER | SUPERVISOR | CLOCKS | 0x30);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 500, 0), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 25, 3), []);
    assert_eq!(counters(&guest), [525, 0]);
    assert!(!guest.pmu.demand().per_cycle);

    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, USER | SUPERVISOR | 0x30);
    for _ in 0..9 {
        assert!(guest.pmu.cycle(&clock(&[]), 0).is_empty());
    }
    assert_eq!(counters(&guest), [1, 0]);
}

/// Table 6-1: 43 to 59 decimal mean one thing on counter 0 and another on counter 1.
#[test]
fn twin_events() {
    for (code, on_0, on_1) in [
        (0x2B, Signal::MmxPipeU, Signal::MmxPipeV),
        (0x2D, Signal::MmxEmms, Signal::MmxFpToMmx),
        (0x2F, Signal::MmxSaturating, Signal::MmxSaturated),
        (0x34, Signal::StoreMmx, Signal::L1dMissStoreMmx),
        (0x35, Signal::FlushMispredict, Signal::FlushMispredictWb),
        (0x37, Signal::BranchMispredictedRet, Signal::RasPredicted),
        (0x39, Signal::BranchRetiredRet, Signal::RasOverflow),
        (0x3A, Signal::BtbFalseEntry, Signal::BranchMispredictedNotTaken),
    ] {
        let half = USER | SUPERVISOR | code;
        let mut guest = Guest::on("p55c");
        guest.wrmsr(CESR, half << 16 | half);
        assert_eq!(guest.fire(on_0, 3, 3), []);
        assert_eq!(counters(&guest), [3, 0], "{code:#x} {on_0:?}");
        assert_eq!(guest.fire(on_1, 50, 0), []);
        assert_eq!(counters(&guest), [3, 50], "{code:#x} {on_1:?}");
    }
    // 32h is a duration on counter 0 and an occurrence on counter 1, under the same control.
    let half = USER | CLOCKS | 0x32;
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, half << 16 | half);
    for (stalled, taken) in [(1, 0), (1, 2), (0, 1), (1, 0)] {
        let clock = clock(&[(Signal::StallFpu, stalled), (Signal::BranchTaken, taken)]);
        assert!(guest.pmu.cycle(&clock, 3).is_empty());
    }
    assert_eq!(counters(&guest), [3, 2], "three clocks of stall, two clocks with taken branches");
    // 2Eh is writes to non-cacheable memory on counter 1, 31h is MMX data reads on counter 0.
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, (USER | 0x2E) << 16 | USER | 0x31);
    assert_eq!(guest.fire(Signal::LoadMmx, 4, 3), []);
    assert_eq!(guest.fire(Signal::UncachedWrite, 5, 3), []);
    assert_eq!(counters(&guest), [4, 5]);
}

/// Codes 0 to 41 count on either counter, both at once.
#[test]
fn common_events_count_on_both() {
    for (code, signal) in [
        (0x00, Signal::Load),
        (0x01, Signal::Store),
        (0x0B, Signal::Misaligned),
        (0x12, Signal::BranchRetired),
        (0x16, Signal::InsnRetired),
        (0x1D, Signal::IoAccess),
        (0x22, Signal::X87Flop),
        (0x23, Signal::DebugMatch0),
        (0x27, Signal::InterruptTaken),
    ] {
        let half = USER | SUPERVISOR | code;
        let mut guest = Guest::on("p55c");
        guest.wrmsr(CESR, half << 16 | half);
        assert_eq!(guest.fire(signal, 8, 2), []);
        assert_eq!(counters(&guest), [8, 8], "{code:#x}");
    }
    let half = USER | 0x0F;
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CESR, half);
    for signal in [
        Signal::SegLoadCs,
        Signal::SegLoadDs,
        Signal::SegLoadEs,
        Signal::SegLoadFs,
        Signal::SegLoadGs,
        Signal::SegLoadSs,
    ] {
        assert_eq!(guest.fire(signal, 1, 3), []);
    }
    assert_eq!(counters(&guest), [6, 0], "any segment register loaded");
}

/// Table 6-1 marks 16, 17, 32 and 33 decimal reserved, and has nothing from 60 up: no fault, no count.
#[test]
fn reserved_codes_count_nothing() {
    let everything: SignalCounts = Signal::ALL.iter().map(|&signal| (signal, 2)).collect();
    for code in [0x10, 0x11, 0x20, 0x21, 0x3C, 0x3D, 0x3E, 0x3F] {
        let half = USER | SUPERVISOR | code;
        let mut guest = Guest::on("p55c");
        guest.wrmsr(CESR, half << 16 | half);
        assert_eq!(guest.rdmsr(CESR), half << 16 | half);
        assert!(guest.pmu.advance(&everything, 3).is_empty());
        assert_eq!(counters(&guest), [0, 0], "{code:#x}");
        assert_eq!(guest.pmu.uncounted().iter().count(), 1, "{code:#x}");
    }
}

/// The counters are 40 bits wide and an overflow does not interrupt: the counter wraps.
#[test]
fn an_overflow_is_silent() {
    let mut guest = Guest::on("p55c");
    let half = USER | SUPERVISOR | PC | 0x16;
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFE);
    guest.wrmsr(CTR1, 0x00_FFFF_FFFE);
    guest.wrmsr(CESR, half << 16 | half);
    assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(2));
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(counters(&guest), [3, 0x01_0000_0003]);
    assert!(guest.pmu.advance(&clock(&[(Signal::InsnRetired, 1 << 40)]), 0).is_empty());
    assert!(guest.pmu.cycle(&clock(&[(Signal::InsnRetired, 1)]), 0).is_empty());
    let total = guest.pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.overflows, total.pmis), (2, 0));
}

/// "PC0 and PC1": the PM pin toggles on overflow if set, else on each increment.
#[test]
fn pins() {
    let p55c = Personality::by_name("p55c").unwrap();
    let mut guest = Guest::on("p55c");
    let half = USER | 0x16;
    guest.wrmsr(CTR0, 0xFF_FFFF_FFF0);
    guest.wrmsr(CTR1, 0xFF_FFFF_FFF0);
    guest.wrmsr(CESR, half << 16 | half | PC);
    assert_eq!(guest.fire(Signal::InsnRetired, 40, 3), []);
    // The other way round, without an overflow.
    guest.wrmsr(CESR, (half | PC) << 16 | half);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 3), []);
    let toggles = |counter: usize| -> Vec<(u64, u64)> {
        let stats = guest.pmu.counter_stats(counter).unwrap();
        let of = |word| Select::from_word(p55c, word, counter);
        let selections = stats.selections().iter();
        selections.map(|s| (s.word, s.tally.pin_toggles(&of(s.word)))).collect()
    };
    assert_eq!(toggles(0), [(half | PC, 1), (half, 3)]);
    assert_eq!(toggles(1), [(half, 40), (half | PC, 0)]);
}

/// Section 6.3, remarks: 16-bit code and virtual-8086 mode get a 32-bit result; #GP rules are the same.
#[test]
fn rdpmc_in_16bit_code() {
    let mut guest = Guest::on("p55c");
    guest.wrmsr(CTR0, 0x12_3456_789A);
    assert_eq!(guest.rdpmc(0), 0x12_3456_789A);
    let real = RdpmcCaller { real_mode: true, code_16bit: true, ..RdpmcCaller::default() };
    assert_eq!(guest.pmu.rdpmc(0, real), Ok(0x3456_789A));
    let v86 = RdpmcCaller { cpl: 3, code_16bit: true, ..RdpmcCaller::default() };
    assert!(guest.pmu.rdpmc(0, v86).is_err());
    assert_eq!(guest.pmu.rdpmc(0, RdpmcCaller { pce: true, ..v86 }), Ok(0x3456_789A));
    assert!(guest.pmu.rdpmc(2, real).is_err());
}
