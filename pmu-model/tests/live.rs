//! Which signals fire is said for a processor and a tier, and decides what counts there.
//!
//! Sources: AMD BKDG 26094, section 10.2.1 (41h, C3h, C6h); Intel 327357-001JA, Table 1-6 (29h).

use pmu_model::{
    Availability, EventDef, MsrAccess, Personality, Pmu, Reset, Signal, SignalCounts, SignalSet,
    Tier,
};

/// The first event select and the first counter of a K8, and USR, OS and EN.
const K8: (u32, u32) = (0xC001_0000, 0xC001_0004);
const ON: u64 = 0x0043_0000;

fn part(name: &str) -> &'static Personality {
    Personality::by_name(name).unwrap()
}

fn row(name: &str, code: u8) -> &'static EventDef {
    part(name).events_of_code(code).next().unwrap()
}

/// The signals of the instruction set, and `more`.
fn instruction_set_and(name: &str, more: &[Signal]) -> SignalSet {
    part(name).live.of(Tier::InstructionSet).union(&SignalSet::of(more))
}

/// A K8 of which the signals `live` fire, with counter 0 on `code`.
fn k8(live: &SignalSet, code: u64) -> Pmu {
    let mut pmu = Pmu::new(part("k8"), live);
    assert_eq!(pmu.write_msr(K8.0, code | ON), MsrAccess::Done(()));
    pmu
}

fn counter_0(pmu: &Pmu) -> u64 {
    pmu.rdpmc(0, pmu_model::RdpmcCaller::default()).unwrap()
}

/// A miss of the data cache is 41h of the K8 and 29h of Knights Corner. Where the one has a model of
/// its cache and the other has none, the one counts and the other says that it does not.
#[test]
fn a_signal_can_be_live_on_one_processor_and_pending_on_another() {
    let k8_live = instruction_set_and("k8", &[Signal::L1dMiss]);
    let knc_live = instruction_set_and("knc", &[]);
    assert_eq!(row("k8", 0x41).availability(&k8_live), Availability::Live);
    assert_eq!(row("knc", 0x29).availability(&knc_live), Availability::Pending);
    assert_eq!(row("knc", 0x29).availability(&k8_live), Availability::Live);

    let mut counts = k8(&k8_live, 0x41);
    assert!(counts.demand().signals.contains(Signal::L1dMiss));
    assert!(counts.fire(Signal::L1dMiss, 7, 0).is_empty());
    assert_eq!(counter_0(&counts), 7);
    assert!(counts.uncounted().is_empty());

    let mut waits = Pmu::new(part("knc"), &knc_live);
    // Event select 0 and the global enable bits (sections 1.4.3.2 and 1.4.3.8).
    assert_eq!(waits.write_msr(0x28, 0x29 | ON), MsrAccess::Done(()));
    assert_eq!(waits.write_msr(0x2F, 1), MsrAccess::Done(()));
    assert!(!waits.demand().signals.contains(Signal::L1dMiss));
    assert!(waits.fire(Signal::L1dMiss, 7, 0).is_empty());
    assert_eq!(counter_0(&waits), 0);
    assert_eq!(waits.uncounted().iter().count(), 1);
}

/// C3h is mispredicted branches, far transfers, interrupts and exceptions together. Without a
/// predictor the other three would be a number that looks like a count: it stays zero, asks for
/// nothing and has no headroom. With one it counts all four.
#[test]
fn a_sum_counts_when_all_of_it_fires() {
    let occurrences: SignalCounts = [
        (Signal::BranchMispredicted, 1000),
        (Signal::BranchRetiredFar, 200),
        (Signal::InterruptTaken, 30),
        (Signal::ExceptionTaken, 4),
    ]
    .into_iter()
    .collect();
    let without = instruction_set_and("k8", &[]);
    let mut pmu = k8(&without, 0xC3);
    assert_eq!(pmu.demand().signals, SignalSet::of(&[Signal::CyclesUnhalted]));
    assert!(pmu.advance(&occurrences, 0).is_empty());
    assert!(pmu.advance_by(0, |signal| occurrences.get(signal)).is_empty());
    assert_eq!(counter_0(&pmu), 0);
    assert!(Signal::ALL.iter().all(|&signal| pmu.headroom(signal).is_none()));
    assert_eq!(row("k8", 0xC3).availability(&without), Availability::Pending);
    // C6h is the other three alone.
    let mut pmu = k8(&without, 0xC6);
    assert!(pmu.advance(&occurrences, 0).is_empty());
    assert_eq!(counter_0(&pmu), 234);

    let with = instruction_set_and("k8", &[Signal::BranchMispredicted]);
    let mut pmu = k8(&with, 0xC3);
    assert!(pmu.advance(&occurrences, 0).is_empty());
    assert_eq!(counter_0(&pmu), 1234);
    assert_eq!(row("k8", 0xC3).availability(&with), Availability::Live);
}

/// BKDG 26094, 42h and 43h: refills from the system, all together and by state. None comes Invalid or
/// Owned here; that is the truth of the sum, and nothing of the masks that ask for no other. The same of
/// requests of devices, which are half of E9h.
#[test]
fn what_never_occurs_is_absent_alone_and_not_missed_in_a_sum() {
    let personality = part("k8");
    let with = personality.live.of(Tier::Microarchitecture);
    let without = personality.live.of(Tier::InstructionSet);
    for (code, umask, expected) in [
        (0x42, 0x01, Availability::Live),
        (0x43, 0x02, Availability::Live),
        (0x43, 0x01, Availability::Absent),
        (0x43, 0x08, Availability::Absent),
        (0x43, 0x1F, Availability::Live),
        (0x7D, 0x10, Availability::Absent),
        (0xE9, 0xA8, Availability::Live),
        (0xE9, 0xA2, Availability::Absent),
        (0xEC, 0x70, Availability::Absent),
    ] {
        assert_eq!(
            row("k8", code).availability_of(umask, with),
            expected,
            "{code:02X}h {umask:02X}h"
        );
        let pending = match expected {
            Availability::Live => Availability::Pending,
            absent => absent,
        };
        assert_eq!(row("k8", code).availability_of(umask, without), pending, "{code:02X}h");
    }
    let mut pmu = k8(with, 0x0142);
    assert!(pmu.fire(Signal::L1dRefillSystemShared, 5, 0).is_empty());
    assert!(pmu.fire(Signal::L1dRefillSystemExclusive, 2, 0).is_empty());
    assert_eq!(counter_0(&pmu), 7);
    assert!(pmu.uncounted().is_empty());
    let absent = k8(with, 0x0143);
    assert_eq!(absent.demand().signals, SignalSet::of(&[Signal::CyclesUnhalted]));
    assert_eq!(absent.uncounted().iter().count(), 1);
}

/// What is about the hardware of other parts is not live: the Pentium has no second-level cache of its
/// own, the Athlon no front-side bus, and only the K8 a northbridge.
#[test]
fn models_are_live_where_an_event_selects_them() {
    for (signal, parts) in [
        (Signal::L1dStoreHitOwned, &["p55c"][..]),
        (Signal::L2Fill, &["ppro", "pii", "p6", "pm", "k8"]),
        (Signal::SnoopHitL2, &["k7"]),
        (Signal::BusTransaction, &["ppro", "pii", "p6", "pm"]),
        (Signal::HwPrefetchUp, &["pm"]),
        (Signal::NbRequestCpuToMem, &["k8"]),
        (Signal::SoftPrefetchT1, &["p6", "pm"]),
        (Signal::UopRetired, &["ppro", "pii", "p6", "pm", "k7", "k8"]),
        (Signal::UopEsp, &["pm"]),
        (Signal::StallAgi, &["p55c"]),
    ] {
        for personality in Personality::ALL.iter().filter(|personality| personality.name != "knc") {
            let live = personality.live.of(Tier::Microarchitecture).contains(signal);
            assert_eq!(live, parts.contains(&personality.name), "{} {signal:?}", personality.name);
        }
    }
}

/// What fires belongs to the engine, not to the registers: no reset changes it, and a state is
/// restored for the engine that goes on with it.
#[test]
fn resets_keep_what_fires_and_a_restored_pmu_is_told() {
    let live = instruction_set_and("k8", &[Signal::L1dMiss]);
    let mut pmu = k8(&live, 0x41);
    for kind in [Reset::Init, Reset::Warm, Reset::Cold] {
        pmu.reset(kind);
        assert_eq!(pmu.live(), &live, "{kind:?}");
    }
    let pmu = k8(&live, 0x41);
    let same = Pmu::restore(part("k8"), &live, &pmu.save()).unwrap();
    assert_eq!(same, pmu);
    assert_eq!(same.live(), &live);
    let other = Pmu::restore(part("k8"), &SignalSet::EMPTY, &pmu.save()).unwrap();
    assert_ne!(other, pmu, "goes on otherwise");
    assert!(!other.demand().signals.contains(Signal::L1dMiss));
}

/// The sets and counts have room for the whole vocabulary, each signal in a place of its own.
#[test]
fn sets_and_counts_hold_every_signal() {
    assert_eq!(SignalSet::ALL.len(), Signal::ALL.len());
    assert!(SignalSet::ALL.contains_all(Signal::ALL));
    assert!(SignalSet::ALL.iter().eq(Signal::ALL.iter().copied()));
    let mut counts: SignalCounts = (1..).zip(Signal::ALL).map(|(n, &signal)| (signal, n)).collect();
    assert!(counts.iter().eq(Signal::ALL.iter().copied().zip(1..)));
    counts.add_all(&counts.clone());
    assert!((1..).zip(Signal::ALL).all(|(n, &signal)| counts.get(signal) == 2 * n));
    counts.clear();
    assert!(counts.is_empty() && Signal::ALL.iter().all(|&signal| counts.get(signal) == 0));
    for &signal in Signal::ALL {
        let alone = SignalSet::of(&[signal]);
        assert!(alone.contains(signal) && alone.len() == 1);
        assert!(alone.iter().eq([signal]));
    }
}
