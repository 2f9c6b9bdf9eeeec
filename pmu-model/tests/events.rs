//! The K8's event table: its size, its rules, and how unit masks select.
//!
//! Source: AMD BKDG 26094, section 10.2.1.

use std::collections::{BTreeMap, BTreeSet};

use pmu_model::{
    Availability, EventDef, Fidelity, MsrAccess, Personality, Pmu, Route, Signal, SignalSet, Tier,
    UmaskRule, nearest,
};

/// USR, OS and EN.
const ON: u64 = 0x0043_0000;

fn k8() -> &'static Personality {
    Personality::by_name("K8").unwrap()
}

/// The signals of the instruction set.
fn live() -> &'static SignalSet {
    k8().live.of(Tier::InstructionSet)
}

/// What counter 0 holds after one occurrence of each of `signals` under `select`.
fn counted(select: u64, signals: &[Signal]) -> u64 {
    let mut pmu = Pmu::new(k8(), &SignalSet::ALL);
    assert_eq!(pmu.write_msr(0xC001_0000, ON | select), MsrAccess::Done(()));
    for &signal in signals {
        assert!(pmu.fire(signal, 1, 0).is_empty());
    }
    match pmu.read_msr(0xC001_0004) {
        MsrAccess::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

fn all(select: u64) -> u64 {
    counted(select, Signal::ALL)
}

/// The codes under each section of the manual, counted there; codes and names are unique.
#[test]
fn eighty_seven_rows() {
    let mut rows = BTreeMap::new();
    for event in k8().events {
        *rows.entry(event.section).or_insert(0) += 1;
    }
    let expected = [
        ("10.2.1.1", 3),
        ("10.2.1.2", 6),
        ("10.2.1.3", 13),
        ("10.2.1.4", 6),
        ("10.2.1.5", 10),
        ("10.2.1.6", 35),
        ("10.2.1.7", 11),
        ("10.2.1.9", 3),
    ];
    assert_eq!(rows, BTreeMap::from(expected));
    assert_eq!(k8().events.len(), 87);
    let codes: BTreeSet<u8> = k8().events.iter().map(|event| event.code).collect();
    assert_eq!(codes.len(), 87);
    let names: BTreeSet<&str> = k8().events.iter().map(|event| event.name).collect();
    assert_eq!(names.len(), 87);
}

#[test]
fn fidelity_distribution() {
    let with = |fidelity| k8().events.iter().filter(|event| event.fidelity == fidelity).count();
    assert_eq!(with(Fidelity::Exact), 19);
    assert_eq!(with(Fidelity::Modelled), 33);
    assert_eq!(with(Fidelity::Estimated), 28);
    assert_eq!(with(Fidelity::Absent), 7);
}

/// The codes that the CPU core alone can feed. 24h is live in its mask 01h only.
#[test]
fn live_rows() {
    let codes = |availability| -> Vec<u8> {
        let is = |event: &&'static EventDef| {
            event.availability_of(event.default_umask, live()) == availability
        };
        let mut codes: Vec<u8> = k8().events.iter().filter(is).map(|event| event.code).collect();
        codes.sort_unstable();
        codes
    };
    assert_eq!(
        codes(Availability::Live),
        [
            0x02, 0x20, 0x26, 0x27, 0x47, 0x4B, 0x76, 0xC0, 0xC2, 0xC4, 0xC6, 0xC8, 0xCB, 0xCD,
            0xCE, 0xCF, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF
        ]
    );
    assert_eq!(codes(Availability::Partial), [0x24]);
    assert_eq!(codes(Availability::Absent), [0x4A, 0xE4, 0xE8, 0xEE, 0xF6, 0xF7, 0xF8]);
    assert_eq!(codes(Availability::Pending).len(), 87 - 21 - 1 - 7);
}

/// An exact row is live, an absent row has no signal, any other row has some.
#[test]
fn rows_keep_their_fidelity() {
    for event in k8().events {
        let availability = event.availability(live());
        match event.fidelity {
            Fidelity::Exact => assert_eq!(availability, Availability::Live, "{}", event.name),
            Fidelity::Absent => assert_eq!(availability, Availability::Absent, "{}", event.name),
            _ => assert_ne!(availability, Availability::Absent, "{}", event.name),
        }
        for bit in event.umasks {
            assert_eq!(bit.mask.count_ones(), 1, "{} {}", event.name, bit.name);
        }
        let bits: u8 = event.umasks.iter().fold(0, |sum, bit| sum | bit.mask);
        assert_eq!(event.default_umask & !bits, 0, "{}", event.name);
        assert!(!event.description.is_empty() && event.section.starts_with("10.2.1."));
    }
}

/// Every signal is named once, and feeds some row of some table.
#[test]
fn no_signal_is_idle() {
    let mut fed = BTreeSet::<&Signal>::new();
    for event in Personality::ALL.iter().flat_map(|personality| personality.events) {
        let routes: &[Route] = match event.umask_rule {
            UmaskRule::Routes(routes) => routes,
            _ => &[],
        };
        fed.extend(event.signals);
        fed.extend(event.umasks.iter().flat_map(|bit| bit.signals));
        fed.extend(routes.iter().flat_map(|route| route.signals));
    }
    let idle: Vec<_> = Signal::ALL.iter().filter(|signal| !fed.contains(signal)).collect();
    assert!(idle.is_empty(), "{idle:?}");
    let names: BTreeSet<&str> = Signal::ALL.iter().map(|signal| signal.name()).collect();
    assert_eq!(names.len(), Signal::COUNT);
    for (i, signal) in Signal::ALL.iter().enumerate() {
        assert_eq!(signal.index(), i);
    }
}

/// Linux selects 0141h, 0746h and 0385h; where the manual shows no mask table the mask is not
/// applicable, so those count as with mask 00h.
#[test]
fn inapplicable_masks_are_ignored() {
    for code in [0x41, 0x46, 0x85] {
        for mask in [0, 1, 3, 7, 0xFF] {
            assert_eq!(all(mask << 8 | code), 1, "{mask:02X}{code:02X}h");
        }
    }
}

/// 7Dh, 7Eh and 42h to 44h select by mask; mask 00h selects nothing.
#[test]
fn mask_zero_of_a_bit_mask_selects_nothing() {
    for code in [0x00, 0x20, 0x42, 0x43, 0x44, 0x7D, 0x7E, 0xCB, 0xEC] {
        assert_eq!(all(code), 0, "{code:02X}h");
    }
    assert_eq!(counted(0x047D, &[Signal::L2RequestTlb, Signal::L2RequestData]), 1);
    assert_eq!(counted(0x077D, &[Signal::L2RequestTlb, Signal::L2RequestData]), 2);
}

/// 42h: "UNIT_MASK bit 0 ... provides the same measure as the combined sub-events of event 43h".
#[test]
fn refills_from_the_system_are_the_sum_of_43h() {
    assert_eq!(all(0x0142), 5);
    assert_eq!(all(0x1F43), 5);
    assert_eq!(all(0x1E42), 4);
    assert_eq!(all(0x1F42), 9);
}

/// 65h: mask 02h includes the flushes of 80h, and "all events selected are simultaneously
/// monitored": a streaming flush counts once with both.
#[test]
fn a_signal_selected_twice_counts_once() {
    assert_eq!(all(0x0265), 2);
    assert_eq!(all(0x8065), 1);
    assert_eq!(all(0x8265), 2);
}

/// 4Ch and 6Dh show a single mask, which must be set.
#[test]
fn single_masks_are_required() {
    for (code, mask) in [(0x4C, 0x02), (0x6D, 0x01)] {
        assert_eq!(all(mask << 8 | code), 1);
        assert_eq!(all(code), 0);
        assert_eq!(all((0xFF & !mask) << 8 | code), 0);
        assert_eq!(all(0xFF00 | code), 1);
    }
}

/// 7Fh: bit 0 fills, bit 1 write-backs (in the text, not in the table).
#[test]
fn l2_fills_and_writebacks() {
    assert_eq!(counted(0x017F, &[Signal::L2Fill, Signal::L2Fill, Signal::L2EvictModified]), 2);
    assert_eq!(counted(0x027F, &[Signal::L2Fill, Signal::L2Fill, Signal::L2EvictModified]), 1);
    assert_eq!(counted(0x037F, &[Signal::L2Fill, Signal::L2Fill, Signal::L2EvictModified]), 3);
}

/// E9h: a request, a source and a target must be set. On one socket only local to local happens.
#[test]
fn e9_needs_a_request_and_a_whole_route() {
    for bit in 0..8 {
        assert_eq!(all(1 << (8 + bit) | 0xE9), 0, "a single bit is no route");
    }
    for (mask, expected) in [
        (0xA8, 1),
        (0xA4, 1),
        (0xA2, 1),
        (0xA1, 1),
        (0xB8, 1),
        (0x98, 0),
        (0xF4, 1),
        (0x64, 0),
        (0x61, 0),
        (0xAF, 4),
        (0xFF, 4),
        (0x0F, 0),
        (0xA0, 0),
        (0x28, 0),
        (0x88, 0),
        (0x5F, 0),
    ] {
        assert_eq!(all(mask << 8 | 0xE9), expected, "{mask:02X}E9h");
    }
    // 26094's own example: local CPU to memory anywhere.
    assert_eq!(counted(0xB8E9, &[Signal::NbRequestCpuToMem, Signal::NbRequestCpuToIo]), 1);
}

/// Classes of CBh and registers of 20h; HS (40h) is no register that software can load.
#[test]
fn masks_pick_the_class() {
    let classes = [
        Signal::InsnRetiredX87,
        Signal::InsnRetiredMmx,
        Signal::InsnRetiredSsePacked,
        Signal::InsnRetiredSseScalar,
    ];
    for (bit, class) in classes.iter().enumerate() {
        assert_eq!(counted(0xCB | 1 << (8 + bit), &[*class]), 1);
        assert_eq!(counted(0x0FCB & !(1 << (8 + bit)), &[*class]), 0);
    }
    let loads = [
        Signal::SegLoadEs,
        Signal::SegLoadCs,
        Signal::SegLoadSs,
        Signal::SegLoadDs,
        Signal::SegLoadFs,
        Signal::SegLoadGs,
    ];
    for (bit, load) in loads.iter().enumerate() {
        assert_eq!(counted(0x20 | 1 << (8 + bit), &[*load]), 1);
        assert_eq!(counted(0x20 | 1 << (8 + bit), &loads), 1);
    }
    assert_eq!(counted(0x4020, &loads), 0);
    assert_eq!(all(0x0124), 1);
}

/// "Some events are reserved. When a reserved event is selected, the results are undefined": here
/// they count nothing.
#[test]
fn reserved_codes_count_nothing() {
    let mut reserved = 0;
    for code in (0..=0xFF).filter(|&code| k8().events_of_code(code).next().is_none()) {
        assert_eq!(all(0xFF00 | u64::from(code)), 0, "{code:02X}h");
        reserved += 1;
    }
    assert_eq!(reserved, 256 - 87);
}

/// Section 10.2: the northbridge is shared by the cores of a node; Linux takes (code & E0h) == E0h.
#[test]
fn northbridge_range() {
    for code in 0..=0xFF {
        assert_eq!(k8().is_northbridge(code), code & 0xE0 == 0xE0, "{code:02X}h");
    }
    assert_eq!(k8().northbridge.unwrap().cores_per_node, 1);
}

/// Names of the public clients find the row; the manual's own name wins over an alias.
#[test]
fn names_and_aliases() {
    let code = |name| k8().event_by_name(name).map(|event| event.code);
    assert_eq!(code("RETIRED_BRANCH_INSTRUCTIONS"), Some(0xC2));
    assert_eq!(code("retired_branches"), Some(0xC2), "perfctr");
    assert_eq!(code("CPU_CLK_UNHALTED"), Some(0x76), "libpfm4, OProfile, perfctr");
    assert_eq!(code("L2_MISSES"), Some(0x7E), "LIKWID");
    assert_eq!(code("INTERRUPTS_MASKED_CYCLES"), Some(0xCD), "LIKWID means CEh by it");
    assert_eq!(code(""), None);
    assert_eq!(code("CYCLES"), None);
    assert_eq!(Personality::by_name("k9"), None);
    assert_eq!(nearest("k9", Personality::ALL.iter().map(|p| p.name)), Some("k7"), "the first");
}

/// The LVTPC of these processors is not masked by a PMI.
#[test]
fn no_auto_mask() {
    assert!(!k8().lvtpc_auto_mask);
}
