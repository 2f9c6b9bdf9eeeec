//! Counting: privilege filter, overflow, PMI, counter mask, invert, edge, batches, statistics.
//!
//! Source: AMD BKDG 26094, section 10.2. Sequences and sums were worked out by hand.

use pmu_model::{MsrAccess, Personality, Pmis, Pmu, Reset, Signal, SignalCounts, SignalSet, Tier};

const EVTSEL: u32 = 0xC001_0000;
const PERFCTR: u32 = 0xC001_0004;

const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EDGE: u64 = 1 << 18;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;
const INV: u64 = 1 << 23;

fn cmask(n: u64) -> u64 {
    n << 24
}

/// A K8 with `selects` in its event selects, as many as given.
fn k8(selects: &[u64]) -> Pmu {
    let mut pmu = Pmu::new(Personality::by_name("k8").unwrap(), &SignalSet::ALL);
    for (i, &select) in (0..).zip(selects) {
        assert_eq!(pmu.write_msr(EVTSEL + i, select), MsrAccess::Done(()));
    }
    pmu
}

fn select(pmu: &mut Pmu, counter: u32, value: u64) {
    assert_eq!(pmu.write_msr(EVTSEL + counter, value), MsrAccess::Done(()));
}

fn preset(pmu: &mut Pmu, counter: u32, value: u64) {
    assert_eq!(pmu.write_msr(PERFCTR + counter, value), MsrAccess::Done(()));
}

fn value(pmu: &Pmu, counter: u32) -> u64 {
    match pmu.read_msr(PERFCTR + counter) {
        MsrAccess::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

fn pmis(pmis: Pmis) -> Vec<usize> {
    pmis.iter().collect()
}

fn counts(pairs: &[(Signal, u64)]) -> SignalCounts {
    pairs.iter().copied().collect()
}

/// USR counts at CPL > 0, OS at CPL 0, neither nothing.
#[test]
fn privilege_filter() {
    for (bits, at_cpl) in
        [(0, [0, 0, 0, 0]), (USR, [0, 1, 1, 1]), (OS, [1, 0, 0, 0]), (USR | OS, [1, 1, 1, 1])]
    {
        for (cpl, expected) in (0..).zip(at_cpl) {
            let mut pmu = k8(&[0xC0 | EN | bits]);
            assert!(pmu.fire(Signal::InsnRetired, 1, cpl).is_empty());
            assert_eq!(value(&pmu, 0), expected, "bits {bits:#x} CPL {cpl}");
            assert!(pmu.advance(&counts(&[(Signal::InsnRetired, 1)]), cpl).is_empty());
            assert_eq!(value(&pmu, 0), 2 * expected, "bits {bits:#x} CPL {cpl}");
        }
    }
}

#[test]
fn nothing_counts_without_en() {
    let mut pmu = k8(&[0xC0 | USR | OS | INT]);
    preset(&mut pmu, 0, 0xFFFF_FFFF_FFFF);
    assert!(pmu.fire(Signal::InsnRetired, 10, 0).is_empty());
    assert_eq!(value(&pmu, 0), 0xFFFF_FFFF_FFFF);
    assert!(!pmu.demand().counting);
    assert!(pmu.demand().signals.is_empty());
    assert_eq!(pmu.headroom(Signal::InsnRetired), None);
}

/// C0h: "each exception or interrupt is counted as one instruction"; C2h, C4h and C6h include them
/// too. One interrupt and one exception with 10 instructions, of which 4 branches, of which 3 taken,
/// of which 1 far: 12, 6, 5, 3.
#[test]
fn exceptions_and_interrupts_count_as_instructions_and_branches() {
    let mut pmu = k8(&[0xC0, 0xC2, 0xC4, 0xC6].map(|code| code | EN | USR | OS));
    let what = counts(&[
        (Signal::InsnRetired, 10),
        (Signal::BranchRetired, 4),
        (Signal::BranchTaken, 3),
        (Signal::BranchRetiredFar, 1),
        (Signal::ExceptionTaken, 1),
        (Signal::InterruptTaken, 1),
    ]);
    assert!(pmu.advance(&what, 0).is_empty());
    assert_eq!([0, 1, 2, 3].map(|i| value(&pmu, i)), [12, 6, 5, 3]);
}

/// Section 10.1: a two's-complement preset of -n overflows with the n-th event, at 2^48.
#[test]
fn overflow_comes_with_the_last_event_of_the_preset() {
    let mut pmu = k8(&[0xC0 | EN | USR | OS | INT]);
    preset(&mut pmu, 0, (-5_i64).cast_unsigned());
    assert_eq!(pmu.headroom(Signal::InsnRetired), Some(5));
    assert!(pmu.fire(Signal::InsnRetired, 4, 3).is_empty());
    assert_eq!(pmu.headroom(Signal::InsnRetired), Some(1));
    assert_eq!(pmis(pmu.fire(Signal::InsnRetired, 1, 3)), [0]);
    assert_eq!(value(&pmu, 0), 0);
    assert_eq!(pmu.headroom(Signal::InsnRetired), Some(1 << 48));
    assert!(pmu.fire(Signal::InsnRetired, 1, 3).is_empty());
    assert_eq!(value(&pmu, 0), 1);
}

/// Without INT the counter wraps in silence; the statistics still know.
#[test]
fn overflow_without_int_asserts_nothing() {
    let mut pmu = k8(&[0xC0 | EN | USR | OS]);
    preset(&mut pmu, 0, 0xFFFF_FFFF_FFFE);
    assert!(pmu.fire(Signal::InsnRetired, 3, 0).is_empty());
    assert_eq!(value(&pmu, 0), 1);
    let total = pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.count, total.overflows, total.pmis), (3, 1, 0));
}

/// FreeBSD relies on one interrupt per overflowing counter: two at once are two assertions.
#[test]
fn two_counters_overflow_at_once() {
    let mut pmu = k8(&[0xC0 | EN | OS | INT, 0xC0 | EN | OS, 0, 0xC0 | EN | OS | INT]);
    for counter in 0..4 {
        preset(&mut pmu, counter, 0xFFFF_FFFF_FFFF);
    }
    let both = pmu.fire(Signal::InsnRetired, 1, 0);
    assert_eq!(both.count(), 2);
    assert_eq!(pmis(both), [0, 3]);
}

/// A batch long enough to wrap several times: 3 * 2^48 + 10 from 2^48 - 10 is four overflows.
#[test]
fn a_long_batch_counts_every_overflow() {
    let mut pmu = k8(&[0x76 | EN | OS | INT]);
    preset(&mut pmu, 0, (1 << 48) - 10);
    let four = pmu.fire(Signal::CyclesUnhalted, 3 * (1 << 48) + 10, 0);
    assert_eq!(four.count(), 4);
    assert_eq!(pmis(four), [0, 0, 0, 0]);
    assert_eq!(value(&pmu, 0), 0);
    // The largest batch there is: 2^64 - 1 from 0 wraps 2^16 - 1 times and leaves 2^48 - 1.
    assert_eq!(pmu.fire(Signal::CyclesUnhalted, u64::MAX, 0).count(), 0xFFFF);
    assert_eq!(value(&pmu, 0), 0xFFFF_FFFF_FFFF);
}

/// Headroom is the distance to the nearest overflow among the counters that take the signal.
#[test]
fn headroom_is_that_of_the_nearest_counter() {
    let mut pmu = k8(&[0xC0 | EN | OS, 0xC0 | EN | USR | INT, 0xC2 | EN | OS]);
    preset(&mut pmu, 0, (1 << 48) - 1000);
    preset(&mut pmu, 1, (1 << 48) - 300);
    preset(&mut pmu, 2, (1 << 48) - 7);
    assert_eq!(pmu.headroom(Signal::InsnRetired), Some(300));
    assert_eq!(pmu.headroom(Signal::BranchRetired), Some(7));
    assert_eq!(pmu.headroom(Signal::ExceptionTaken), Some(7), "C0h and C2h both take it");
    assert_eq!(pmu.headroom(Signal::Misaligned), None);
    select(&mut pmu, 1, 0);
    assert_eq!(pmu.headroom(Signal::InsnRetired), Some(1000));
}

/// One that compares goes up by one in a cycle at most, whatever occurs in it: CNT_MASK 1 in each, EDGE in every other.
#[test]
fn those_that_compare_overflow_in_so_many_cycles_at_the_earliest() {
    let mut pmu = k8(&[0xC0 | EN | OS, 0xC0 | EN | OS | INT | cmask(1), 0xC0 | EN | OS | EDGE]);
    preset(&mut pmu, 0, (1 << 48) - 2);
    preset(&mut pmu, 1, (1 << 48) - 5);
    preset(&mut pmu, 2, (1 << 48) - 9);
    assert_eq!(pmu.nearest_compared(), Some(5), "counter 0 compares nothing");
    let three = counts(&[(Signal::InsnRetired, 3)]);
    for left in (1..5).rev() {
        assert!(pmu.compare(&three, 0).is_empty());
        assert_eq!(pmu.nearest_compared(), Some(left));
    }
    assert_eq!(pmis(pmu.compare(&three, 0)), [1]);
    // One edge, in the first of the five.
    assert_eq!(pmu.nearest_compared(), Some(8));
    select(&mut pmu, 2, 0);
    assert_eq!(pmu.nearest_compared(), Some(1 << 48));
    select(&mut pmu, 1, 0);
    assert_eq!(pmu.nearest_compared(), None);
}

/// CNT_MASK 0 adds the number of events, 1 to 3 compare (rule b), from 4 is reserved: never true
/// because three is the most in a cycle, and always true with INV. INV alone is ignored (rule a).
#[test]
fn counter_mask_truth_table() {
    for (mask, inverted, expected) in [
        (0, false, [0, 1, 2, 3]),
        (0, true, [0, 1, 2, 3]),
        (1, false, [0, 1, 1, 1]),
        (2, false, [0, 0, 1, 1]),
        (3, false, [0, 0, 0, 1]),
        (1, true, [1, 0, 0, 0]),
        (2, true, [1, 1, 0, 0]),
        (3, true, [1, 1, 1, 0]),
        (4, false, [0, 0, 0, 0]),
        (4, true, [1, 1, 1, 1]),
        (255, false, [0, 0, 0, 0]),
        (255, true, [1, 1, 1, 1]),
    ] {
        for (events, expected) in (0..).zip(expected) {
            let inv = if inverted { INV } else { 0 };
            let mut pmu = k8(&[0xC0 | EN | OS | inv | cmask(mask)]);
            assert!(pmu.cycle(&counts(&[(Signal::InsnRetired, events)]), 0).is_empty());
            assert_eq!(value(&pmu, 0), expected, "CNT_MASK {mask} INV {inverted}, {events} events");
        }
    }
}

/// Events in a cycle beyond the hardware's three do not reach a reserved threshold.
#[test]
fn reserved_thresholds_stay_out_of_reach() {
    let mut pmu = k8(&[0xC0 | EN | OS | cmask(4), 0xC0 | EN | OS | INV | cmask(4)]);
    assert!(pmu.cycle(&counts(&[(Signal::InsnRetired, 9)]), 0).is_empty());
    assert_eq!([value(&pmu, 0), value(&pmu, 1)], [0, 1]);
}

/// The events of a sum are counted together before they are compared: one instruction and one
/// interrupt are two events of C0h.
#[test]
fn the_threshold_sees_the_whole_sum() {
    let mut pmu = k8(&[0xC0 | EN | OS | cmask(2)]);
    let two = counts(&[(Signal::InsnRetired, 1), (Signal::InterruptTaken, 1)]);
    assert!(pmu.cycle(&two, 0).is_empty());
    assert_eq!(value(&pmu, 0), 1);
}

/// kvm-unit-tests: CNT_MASK must not be ignored when nothing is known of cycles.
#[test]
fn batches_leave_out_counters_that_need_cycles() {
    let mut pmu = k8(&[0xC0 | EN | OS | cmask(2), 0xCD | EN | OS | EDGE, 0xC0 | EN | OS]);
    let what = counts(&[(Signal::InsnRetired, 100), (Signal::CyclesIntMasked, 100)]);
    assert!(pmu.advance(&what, 0).is_empty());
    assert!(pmu.fire(Signal::InsnRetired, 100, 0).is_empty());
    assert_eq!([0, 1, 2].map(|i| value(&pmu, i)), [0, 0, 200]);
    assert!(pmu.demand().per_cycle);
    assert!(pmu.demand().signals.contains(Signal::CyclesIntMasked));
    assert_eq!(pmu.headroom(Signal::CyclesIntMasked), None);
}

/// One cycle for each character: '1' if the interrupts-masked signal is up in it.
fn masked_cycles(pmu: &mut Pmu, pattern: &str, cpl: u8) {
    for level in pattern.bytes() {
        let what =
            [(Signal::CyclesUnhalted, 1), (Signal::CyclesIntMasked, u64::from(level - b'0'))];
        assert!(pmu.cycle(&counts(&what), cpl).is_empty());
    }
}

/// CDh: "edge-counting with this event gives the number of times IF is cleared".
#[test]
fn edge_counts_the_rises_and_level_the_cycles() {
    let mut pmu = k8(&[0xCD | EN | OS | USR | EDGE, 0xCD | EN | OS | USR]);
    masked_cycles(&mut pmu, "0111001011", 0);
    assert_eq!([value(&pmu, 0), value(&pmu, 1)], [3, 6]);
    // The level is remembered: still up, so no edge until it has been down.
    masked_cycles(&mut pmu, "1101", 3);
    assert_eq!([value(&pmu, 0), value(&pmu, 1)], [4, 9]);
}

/// With INV the condition is turned round, so the falls are counted. It starts at 0 when the
/// counter is enabled: a condition that is true at once is an edge.
#[test]
fn edge_with_invert_counts_the_falls() {
    let mut pmu = k8(&[0xCD | EN | OS | EDGE | INV | cmask(1)]);
    masked_cycles(&mut pmu, "0011011", 0);
    assert_eq!(value(&pmu, 0), 2, "the start and the fall in the fifth cycle");
}

/// The condition of an edge is the one of CNT_MASK: two instructions a cycle or more.
#[test]
fn edge_of_a_threshold() {
    let mut pmu = k8(&[0xC0 | EN | OS | EDGE | cmask(2)]);
    for n in [1, 2, 3, 1, 0, 2, 2, 1, 3] {
        assert!(pmu.cycle(&counts(&[(Signal::InsnRetired, n)]), 0).is_empty());
    }
    assert_eq!(value(&pmu, 0), 3);
}

/// A cycle at a CPL that does not count is not seen: the level before it stays.
#[test]
fn edge_state_survives_cycles_at_another_cpl() {
    let mut pmu = k8(&[0xCD | EN | OS | EDGE]);
    masked_cycles(&mut pmu, "1", 0);
    masked_cycles(&mut pmu, "000", 3);
    masked_cycles(&mut pmu, "1", 0);
    assert_eq!(value(&pmu, 0), 1);
    masked_cycles(&mut pmu, "01", 0);
    assert_eq!(value(&pmu, 0), 2);
}

/// Enabling starts from 0; a change of the event without disabling counts the false edge that
/// section 10.2 describes ("the first event is a static 0 and the second event is a static one").
#[test]
fn edge_state_across_register_writes() {
    let mut pmu = k8(&[0xCD | EN | OS | EDGE]);
    masked_cycles(&mut pmu, "1", 0);
    select(&mut pmu, 0, 0xCD | OS | EDGE);
    select(&mut pmu, 0, 0xCD | EN | OS | EDGE);
    masked_cycles(&mut pmu, "1", 0);
    assert_eq!(value(&pmu, 0), 2);

    // Section 10.2's case: D0h never fires, 76h always does.
    let mut pmu = k8(&[0xD0 | EN | OS | EDGE]);
    masked_cycles(&mut pmu, "000", 0);
    assert_eq!(value(&pmu, 0), 0);
    select(&mut pmu, 0, 0x76 | EN | OS | EDGE);
    masked_cycles(&mut pmu, "000", 0);
    assert_eq!(value(&pmu, 0), 1);
    // And from a static 1 to a static 1 there is none.
    select(&mut pmu, 0, 0x76 | EN | OS | EDGE | INT);
    masked_cycles(&mut pmu, "000", 0);
    assert_eq!(value(&pmu, 0), 1);
}

/// A counter with a threshold overflows and interrupts like any other.
#[test]
fn a_threshold_counter_overflows() {
    let mut pmu = k8(&[0xC0 | EN | OS | INT | cmask(1)]);
    preset(&mut pmu, 0, 0xFFFF_FFFF_FFFE);
    let busy = counts(&[(Signal::InsnRetired, 3)]);
    assert!(pmu.cycle(&busy, 0).is_empty());
    assert_eq!(pmis(pmu.cycle(&busy, 0)), [0]);
    assert_eq!(value(&pmu, 0), 0);
}

/// A batch equals its parts: state, statistics and interrupts, for any way to cut it.
#[test]
fn a_batch_equals_its_parts() {
    let selects = [0xC0 | EN | USR | OS | INT, 0xC2 | EN | OS, 0x76 | EN | USR, 0x07CB | EN | USR];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let signals = [
        Signal::InsnRetired,
        Signal::InterruptTaken,
        Signal::BranchRetired,
        Signal::CyclesUnhalted,
        Signal::InsnRetiredX87,
        Signal::InsnRetiredSsePacked,
        Signal::InsnRetiredSseScalar,
        Signal::Misaligned,
    ];
    for round in 0..500 {
        let (mut whole, mut parts) = (k8(&selects), k8(&selects));
        for counter in 0..4 {
            let start = next(1 << 48);
            preset(&mut whole, counter, start);
            preset(&mut parts, counter, start);
        }
        let mut sum = SignalCounts::new();
        let cpl = (round % 4) as u8;
        let mut from_parts = 0;
        for _ in 0..3 {
            let part: SignalCounts = signals.iter().map(|&s| (s, next(1 << 47))).collect();
            from_parts += parts.advance(&part, cpl).count();
            sum.add_all(&part);
        }
        assert_eq!(whole.advance(&sum, cpl).count(), from_parts, "round {round}");
        assert_eq!(whole, parts, "round {round}");
    }
}

/// The engine is asked for the signals of the enabled counters, and for cycles.
#[test]
fn demand_names_the_signals() {
    let mut pmu = k8(&[0xC6 | EN | OS]);
    let demand = pmu.demand();
    assert!(demand.counting && !demand.per_cycle);
    let expected = [
        Signal::BranchRetiredFar,
        Signal::ExceptionTaken,
        Signal::InterruptTaken,
        Signal::CyclesUnhalted,
    ];
    assert_eq!(demand.signals, expected.into_iter().collect());
    select(&mut pmu, 0, 0);
    assert_eq!(*pmu.demand(), pmu_model::Demand::default());
}

/// Statistics outlive WRMSR to the counter, keep selections apart and know the enabled time.
#[test]
fn statistics_by_selection() {
    let mut pmu = k8(&[0xC0 | EN | USR | OS | INT]);
    preset(&mut pmu, 0, 0xFFFF_FFFF_FFFF);
    let what = counts(&[(Signal::InsnRetired, 10), (Signal::CyclesUnhalted, 25)]);
    assert_eq!(pmu.advance(&what, 0).count(), 1);
    preset(&mut pmu, 0, 0);
    assert!(pmu.advance(&what, 3).is_empty());
    select(&mut pmu, 0, 0xC0 | USR | OS | INT);
    assert!(pmu.advance(&what, 0).is_empty());
    select(&mut pmu, 0, 0x76 | EN | OS);
    assert!(pmu.advance(&what, 3).is_empty());
    select(&mut pmu, 0, 0xC0 | EN | USR | OS | INT);
    assert!(pmu.advance(&what, 0).is_empty());

    let stats = pmu.counter_stats(0).unwrap();
    let seen: Vec<_> = stats
        .selections()
        .iter()
        .map(|s| (s.word, s.tally.count, s.tally.overflows, s.tally.pmis, s.tally.enabled_cycles))
        .collect();
    // The cycles of the second selection passed at CPL 3, where it does not count, but enabled.
    assert_eq!(seen, [(0xC0 | USR | OS | INT, 30, 1, 1, 75), (0x76 | OS, 0, 0, 0, 25)]);
    let total = stats.total();
    assert_eq!((total.count, total.pmis, total.enabled_cycles), (30, 1, 100));
    let now = pmu.select(0).unwrap();
    assert_eq!((now.word, now.enabled), (0xC0 | USR | OS | INT, true));
    assert!(pmu.counter_stats(4).is_none() && pmu.select(4).is_none());
}

/// Beyond 31 distinct selections the rest is one sum, so nothing is lost.
#[test]
fn more_selections_than_the_record_holds() {
    let mut pmu = k8(&[]);
    for n in 0..40 {
        select(&mut pmu, 1, 0xC0 | n << 8 | EN | OS);
        assert!(pmu.fire(Signal::InsnRetired, n + 1, 0).is_empty());
    }
    let stats = pmu.counter_stats(1).unwrap();
    assert_eq!(stats.selections().len(), 31);
    assert_eq!(stats.selections()[30].tally.count, 31);
    // 32 + 33 + ... + 40
    assert_eq!(stats.others().count, 324);
    assert_eq!(stats.total().count, 820);
    // A known selection finds its entry again.
    select(&mut pmu, 1, 0xC0 | 2 << 8 | EN | OS);
    assert!(pmu.fire(Signal::InsnRetired, 1, 0).is_empty());
    assert_eq!(pmu.counter_stats(1).unwrap().selections()[2].tally.count, 4);
}

/// What was enabled and cannot wholly count is named: pending 41h, absent F6h, reserved 99h, and
/// 24h with a pending mask; not C0h, and not 24h with its live mask alone.
#[test]
fn uncounted_selections_are_named() {
    let on = EN | USR | OS;
    let personality = Personality::by_name("k8").unwrap();
    let mut pmu = Pmu::new(personality, personality.live.of(Tier::InstructionSet));
    for (counter, evtsel) in (0..).zip([0xC0 | on, 0x0124 | on, 0x41]) {
        select(&mut pmu, counter, evtsel);
    }
    assert!(pmu.uncounted().is_empty());
    for evtsel in [0x41, 0x0FF6, 0x99, 0x0724] {
        select(&mut pmu, 2, evtsel | on);
    }
    let mut codes: Vec<_> =
        pmu.uncounted().iter().map(|selected| selected.code(pmu.personality())).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0x24, 0x41, 0x99, 0xF6]);
}

/// A PMU without demand has live registers and counts no signals; what the host's PMU has
/// counted is added to enabled counters only, wraps at 48 bits and asserts with INT alone. INIT
/// and a cold reset do not make it ask.
#[test]
fn without_demand_only_what_is_handed_over_counts() {
    let mut pmu = Pmu::without_demand(Personality::by_name("k8").unwrap());
    let on = 0xC0 | EN | USR | OS;
    select(&mut pmu, 0, on | INT);
    select(&mut pmu, 1, on | EDGE | cmask(1));
    assert_eq!(pmu.read_msr(EVTSEL), MsrAccess::Done(on | INT));
    assert!(!pmu.demand().counting && pmu.demand().signals.is_empty());
    assert_eq!(pmu.headroom(Signal::InsnRetired), None);
    preset(&mut pmu, 0, 0xFFFF_FFFF_FFFE);
    let batch = counts(&[(Signal::InsnRetired, 5), (Signal::CyclesUnhalted, 5)]);
    assert!(pmu.fire(Signal::InsnRetired, 5, 0).is_empty());
    assert!(pmu.advance(&batch, 0).is_empty());
    assert!(pmu.advance_by(0, |_| 5).is_empty());
    assert!(pmu.cycle(&batch, 0).is_empty());
    assert_eq!((value(&pmu, 0), value(&pmu, 1)), (0xFFFF_FFFF_FFFE, 0));

    assert_eq!(pmis(pmu.count(0, 1)), []);
    assert_eq!(pmis(pmu.count(0, 4)), [0]);
    assert_eq!(pmis(pmu.count(1, 1 << 48)), []);
    assert_eq!(pmis(pmu.count(2, 1 << 48)), []);
    assert_eq!(pmis(pmu.count(99, 1)), []);
    assert_eq!((value(&pmu, 0), value(&pmu, 1), value(&pmu, 2)), (3, 0, 0));
    select(&mut pmu, 0, 0);
    assert_eq!(pmis(pmu.count(0, 1)), []);
    assert_eq!(value(&pmu, 0), 3);
    let total = pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.count, total.overflows, total.pmis), (5, 1, 1));

    for kind in [Reset::Init, Reset::Warm, Reset::Cold] {
        pmu.reset(kind);
        select(&mut pmu, 3, on);
        assert!(!pmu.demand().counting, "{kind:?}");
    }
}

/// Counter 0 overflows with INT, counter 1 without, which asserts nothing; counter 2 is one short of it.
#[test]
fn overflows_are_told_once_whether_they_interrupt_or_not() {
    const LAST: u64 = (1 << 48) - 1;
    let mut pmu = k8(&[0xC0 | EN | OS | INT, 0xC0 | EN | OS, 0xC0 | EN | OS | INT]);
    preset(&mut pmu, 0, LAST);
    preset(&mut pmu, 1, LAST - 1);
    preset(&mut pmu, 2, LAST - 2);
    assert_eq!(pmu.take_overflowed().count(), 0);
    assert_eq!(pmis(pmu.fire(Signal::InsnRetired, 2, 0)), [0]);
    assert_eq!(pmu.take_overflowed().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(pmu.take_overflowed().count(), 0);
    assert_eq!(pmis(pmu.fire(Signal::InsnRetired, 1, 0)), [2]);
    assert_eq!(pmu.take_overflowed().collect::<Vec<_>>(), [2]);
}
