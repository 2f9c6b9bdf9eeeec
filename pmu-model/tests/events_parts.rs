//! The event tables of the Pentium MMX, the P6 family, the K7, Knights Corner and the Pentium M:
//! their rows, what counts, on which counter, and how unit masks select.
//!
//! Sources: Intel MMX Technology manual, chapter 6 (Tables 6-1 and 6-2); AMD 22007, Table 11; Intel
//! 327357-001JA, Table 1-6; Intel SDM volume 3 for what the tables lack.

use std::collections::{BTreeMap, BTreeSet};

use pmu_model::{
    Availability, EventDef, Fidelity, Personality, Scope, Signal, SignalSet, Tier, UmaskRule,
};

const MMX_MANUAL: &str = "Intel MMX Technology manual, chapter 6";

const PARTS: [&str; 7] = ["p55c", "ppro", "pii", "p6", "pm", "k7", "knc"];

fn part(name: &str) -> &'static Personality {
    Personality::by_name(name).unwrap()
}

/// The rows that `source` documents.
fn from(name: &str, source: &str) -> Vec<&'static EventDef> {
    part(name).events.iter().filter(|event| event.source == source).collect()
}

fn row(name: &str, event: &str) -> &'static EventDef {
    part(name).event_by_name(event).unwrap()
}

/// How many rows are exact, modelled, estimated and absent.
fn fidelities(rows: &[&'static EventDef]) -> [usize; 4] {
    [Fidelity::Exact, Fidelity::Modelled, Fidelity::Estimated, Fidelity::Absent]
        .map(|fidelity| rows.iter().filter(|row| row.fidelity == fidelity).count())
}

/// The signals of the instruction set.
fn fired(name: &str) -> &'static SignalSet {
    part(name).live.of(Tier::InstructionSet)
}

/// Codes and counters of the rows that count when no unit mask is named, in the table's order.
fn live(name: &str, rows: &[&'static EventDef]) -> Vec<(u8, u8)> {
    rows.iter()
        .filter(|row| row.selected(row.default_umask).next().is_some())
        .filter(|row| row.availability_of(row.default_umask, fired(name)) == Availability::Live)
        .map(|row| (row.code, row.counters))
        .collect()
}

/// The signals that `event` counts under `umask`.
fn counted(event: &'static EventDef, umask: u8) -> BTreeSet<Signal> {
    event.selected(umask).flatten().copied().collect()
}

fn set(signals: &[Signal]) -> BTreeSet<Signal> {
    signals.iter().copied().collect()
}

/// Rows by document: what the manual's table has, and what it lost or never had.
#[test]
fn rows() {
    let by_source = |name| {
        let mut rows = BTreeMap::new();
        for event in part(name).events {
            *rows.entry(event.source).or_insert(0) += 1;
        }
        rows.into_iter().collect::<Vec<_>>()
    };
    let sdm = "Intel SDM volume 3";
    assert_eq!(by_source("p55c"), [(MMX_MANUAL, 65), (sdm, 9)]);
    assert_eq!(by_source("ppro"), [(MMX_MANUAL, 60), (sdm, 8)]);
    assert_eq!(by_source("pii"), [(MMX_MANUAL, 60), (sdm, 18)]);
    assert_eq!(by_source("p6"), [(MMX_MANUAL, 60), (sdm, 20)]);
    assert_eq!(by_source("k7"), [("AMD 22007", 57)]);
    assert_eq!(by_source("knc"), [("Intel 327357-001JA", 59), ("Linux", 2), ("Linux, LIKWID", 2)]);
    // Four rows of the P6 and two of the Pentium III are changed in the Pentium M; 22 are its own.
    assert_eq!(by_source("pm"), [(MMX_MANUAL, 56), (sdm, 46)]);
    assert_eq!(part("pm").events.len(), 102);
}

/// The rows of the documents by fidelity.
#[test]
fn fidelity_distribution() {
    assert_eq!(fidelities(&from("p55c", MMX_MANUAL)), [25, 22, 18, 0]);
    assert_eq!(fidelities(&from("p6", MMX_MANUAL)), [11, 30, 17, 2]);
    assert_eq!(fidelities(&from("k7", "AMD 22007")), [15, 26, 15, 1]);
    assert_eq!(fidelities(&from("knc", "Intel 327357-001JA")), [10, 35, 13, 1]);
}

/// Table 6-1: what needs no cache, predictor or pipeline. Twins count on one counter each.
#[test]
fn p55c_live() {
    let rows = from("p55c", MMX_MANUAL);
    let expected = [
        (0x00, 0b11),
        (0x01, 0b11),
        (0x0B, 0b11),
        (0x0F, 0b11),
        (0x12, 0b11),
        (0x16, 0b11),
        (0x1D, 0b11),
        (0x22, 0b11),
        (0x23, 0b11),
        (0x24, 0b11),
        (0x25, 0b11),
        (0x26, 0b11),
        (0x27, 0b11),
        (0x28, 0b11),
        (0x2D, 0b01),
        (0x2D, 0b10),
        (0x2F, 0b01),
        (0x2F, 0b10),
        (0x30, 0b01),
        (0x31, 0b01),
        (0x32, 0b10),
        (0x34, 0b01),
        (0x36, 0b01),
        (0x39, 0b01),
    ];
    assert_eq!(live("p55c", &rows), expected);
    assert_eq!(live("p55c", &from("p55c", "Intel SDM volume 3")), [(0x1C, 0b11)]);
}

/// Section 6.1: events of one code sit on different counters, so that a pair runs at once.
#[test]
fn p55c_twins() {
    let mut counters = BTreeMap::<u8, Vec<u8>>::new();
    for event in part("p55c").events {
        assert!(event.code < 64, "a selector has six bits: {}", event.name);
        assert_eq!(event.umask_rule, UmaskRule::Ignored, "{}", event.name);
        counters.entry(event.code).or_default().push(event.counters);
    }
    for (code, counters) in counters {
        let expected: &[u8] = if code >= 0x2A { &[0b01, 0b10] } else { &[0b11] };
        let mut counters = counters;
        counters.sort_unstable();
        assert_eq!(counters, expected, "{code:02X}h");
        assert!(![0x10, 0x11, 0x20, 0x21].contains(&code), "{code:02X}h is reserved");
    }
    assert_eq!(row("p55c", "MMX_INSTRUCTION_DATA_READS").counters, 0b01);
    assert_eq!(row("p55c", "TAKEN_BRANCHES").counters, 0b10);
}

/// Two directions of a transition and two kinds of access are one event each.
#[test]
fn p55c_sums() {
    let transitions = row("p55c", "TRANSITION_BETWEEN_MMX_INSTRUCTIONS_AND_FP_INSTRUCTIONS");
    assert_eq!(counted(transitions, 0), set(&[Signal::MmxFpToMmx, Signal::MmxMmxToFp]));
    let accesses = row("p55c", "DATA_READ_OR_DATA_WRITE");
    assert_eq!(counted(accesses, 0), set(&[Signal::Load, Signal::Store]));
    let branches = row("p55c", "BRANCHES");
    assert_eq!(
        counted(branches, 0xFF),
        set(&[Signal::BranchRetired, Signal::InterruptTaken, Signal::ExceptionTaken])
    );
}

/// Table 6-2, and what the later parts added to it.
#[test]
fn p6_live() {
    let codes = |name: &str| -> Vec<u8> {
        let rows: Vec<_> = part(name).events.iter().collect();
        let mut codes: Vec<u8> = live(name, &rows).iter().map(|row| row.0).collect();
        codes.sort_unstable();
        codes
    };
    let all = [0x05, 0x06, 0x11, 0x43, 0x6C, 0x79, 0xC0, 0xC1, 0xC4, 0xC6, 0xC7, 0xC8, 0xC9];
    let mmx = [0xB1, 0xB3, 0xCC, 0xCD, 0xD5, 0xD6];
    let sorted = |more: &[u8]| -> Vec<u8> {
        let mut codes = [&all[..], more].concat();
        codes.sort_unstable();
        codes
    };
    assert_eq!(codes("ppro"), sorted(&[]));
    assert_eq!(codes("pii"), sorted(&[&mmx[..], &[0xB0, 0xCE]].concat()));
    assert_eq!(codes("p6"), sorted(&[&mmx[..], &[0x07, 0xD8, 0xD9]].concat()));
    assert_eq!(codes("pm"), sorted(&[&mmx[..], &[0x07, 0xCE, 0xD8, 0xD9]].concat()));
}

/// The comments of Table 6-2: six events are bound to a counter.
#[test]
fn p6_counter_limits() {
    for name in ["ppro", "pii", "p6", "pm"] {
        for event in part(name).events {
            let expected = match event.code {
                0x10 | 0x14 | 0xC1 => 0b01,
                0x11..=0x13 => 0b10,
                _ => 0b11,
            };
            assert_eq!(event.counters, expected, "{name} {}", event.name);
        }
    }
}

/// Note 1 of Table 6-2: UMSK[3:0] are the states M, E, S, I; 0Fh counts all, 00h nothing.
#[test]
fn p6_line_states() {
    let loads = row("p6", "L2_LD");
    let states = [
        Signal::L2RequestLoadInvalid,
        Signal::L2RequestLoadShared,
        Signal::L2RequestLoadExclusive,
        Signal::L2RequestLoadModified,
    ];
    for (bit, state) in states.into_iter().enumerate() {
        assert_eq!(counted(loads, 1 << bit), set(&[state]));
    }
    assert_eq!(counted(loads, 0x0F), set(&states));
    for name in ["L2_IFETCH", "L2_LD", "L2_ST", "L2_RQSTS"] {
        let event = row("ppro", name);
        assert_eq!(event.default_umask, 0x0F, "{name}");
        assert_eq!(event.selected(0).count(), 0, "{name}");
        assert_eq!(
            event.availability_of(0, fired("ppro")),
            Availability::Live,
            "{name}: zero is the count"
        );
    }
}

/// Note 2 of Table 6-2: UMSK[5] is clear for self-generated transactions, set for any agent's.
#[test]
fn p6_agents() {
    let any = row("p6", "BUS_TRAN_ANY");
    for umask in [0x00, 0x0F, 0xDF] {
        assert_eq!(counted(any, umask), set(&[Signal::BusTransaction]), "{umask:02X}h");
    }
    for umask in [0x20, 0x2F, 0xFF] {
        assert_eq!(counted(any, umask), set(&[Signal::BusTransactionAny]), "{umask:02X}h");
    }
    assert_eq!(counted(row("p6", "BUS_TRANS_IO"), 0), set(&[Signal::IoAccess]));
    for event in part("p6").events {
        let masks: Vec<(u8, &str)> = event.umasks.iter().map(|bit| (bit.mask, bit.name)).collect();
        if matches!(event.code, 0x62 | 0x63 | 0x65..=0x70) {
            assert_eq!(masks, [(0x00, "SELF"), (0x20, "ANY")], "{}", event.name);
            assert_eq!(event.umask_rule, UmaskRule::Values { field: 0x20 }, "{}", event.name);
        } else {
            assert!(masks.iter().all(|mask| mask.1 != "ANY"), "{}", event.name);
        }
    }
}

/// Table 6-2 prints 00h (Self) beside these: there is nothing to choose.
#[test]
fn p6_self_only() {
    for name in ["BUS_HIT_DRV", "BUS_HITM_DRV", "BUS_SNOOP_STALL", "BUS_DATA_RCV"] {
        let event = row("p6", name);
        assert_eq!(event.selected(0).count(), 1, "{name}");
        assert_eq!(counted(event, 0), counted(event, 0xFF), "{name}");
    }
}

/// Intel SDM: unit masks of the events that the Pentium II and III added.
#[test]
fn p6_mmx_and_sse_masks() {
    let uops = row("p6", "MMX_UOPS_EXEC");
    assert_eq!(counted(uops, 0x0F), set(&[Signal::UopMmx]));
    for umask in [0x00, 0x01, 0x0E, 0x1F, 0xFF] {
        assert_eq!(uops.selected(umask).count(), 0, "{umask:02X}h");
    }
    let transitions = row("pii", "FP_MMX_TRANS");
    assert_eq!(counted(transitions, 0), set(&[Signal::MmxMmxToFp]));
    assert_eq!(counted(transitions, 1), set(&[Signal::MmxFpToMmx]));
    let types = row("pii", "MMX_INSTR_TYPE_EXEC");
    assert_eq!(
        counted(types, 0x21),
        set(&[Signal::MmxPackedMultiply, Signal::MmxPackedArithmetic])
    );
    assert_eq!(types.default_umask, 0x3F);
    let retired = row("p6", "EMON_KNI_INST_RETIRED");
    assert_eq!(
        counted(retired, 0),
        set(&[Signal::InsnRetiredSsePacked, Signal::InsnRetiredSseScalar])
    );
    assert_eq!(counted(retired, 1), set(&[Signal::InsnRetiredSseScalar]));
    let arithmetic = row("p6", "EMON_KNI_COMP_INST_RET");
    assert_eq!(counted(arithmetic, 0), set(&[Signal::SsePackedArith, Signal::SseScalarArith]));
    assert_eq!(counted(arithmetic, 1), set(&[Signal::SseScalarArith]));
    // The Pentium M tells the precisions apart.
    let retired = row("pm", "EMON_SSE_SSE2_INST_RETIRED");
    assert_eq!(counted(retired, 0), set(&[Signal::SsePackedSingle, Signal::SseScalarSingle]));
    assert_eq!(counted(retired, 1), set(&[Signal::SseScalarSingle]));
    assert_eq!(counted(retired, 2), set(&[Signal::SsePackedDouble]));
    assert_eq!(counted(retired, 3), set(&[Signal::SseScalarDouble]));
    let arithmetic = row("pm", "EMON_SSE_SSE2_COMP_INST_RETIRED");
    assert_eq!(
        counted(arithmetic, 0),
        set(&[Signal::SsePackedSingleArith, Signal::SseScalarSingleArith])
    );
    assert_eq!(counted(arithmetic, 1), set(&[Signal::SseScalarSingleArith]));
    assert_eq!(counted(arithmetic, 2), set(&[Signal::SsePackedDoubleArith]));
    assert_eq!(counted(arithmetic, 3), set(&[Signal::SseScalarDoubleArith]));
    let prefetches = row("p6", "EMON_KNI_PREF_DISPATCHED");
    assert_eq!(counted(prefetches, 2), set(&[Signal::SoftPrefetchT2]));
    assert_eq!(prefetches.availability(fired("p6")), Availability::Partial, "NTA alone is live");
}

/// Which part has which of the added events.
#[test]
fn p6_family_members() {
    let has = |code| {
        let has = |name: &&str| part(name).events.iter().any(|event| event.code == code);
        ["ppro", "pii", "p6", "pm"].into_iter().filter(has).collect::<Vec<_>>()
    };
    assert_eq!(has(0xB0), ["pii"]);
    assert_eq!(has(0xB1), ["pii", "p6", "pm"]);
    assert_eq!(has(0xCE), ["pii", "pm"]);
    assert_eq!(has(0xD8), ["p6", "pm"]);
    assert_eq!(has(0x88), ["pm"]);
    assert_eq!(row("pii", "MMX_INSTR_RET").code, 0xCE);
    assert_eq!(row("pm", "EMON_SIMD_INSTR_RETIRED").code, 0xCE);
    assert_eq!(row("pm", "L2_M_LINES_OUT").code, 0x27);
    assert_eq!(row("p6", "L2_M_LINES_OUTM").code, 0x27);
}

/// Intel SDM, events modified on Pentium M: states as on the P6, and bits 5:4 for the prefetches.
#[test]
fn pm_line_masks() {
    for name in ["L2_LD", "L2_LINES_IN", "L2_LINES_OUT", "L2_M_LINES_OUT"] {
        let event = row("pm", name);
        for umask in [0x00, 0x10, 0x20, 0x30] {
            assert_eq!(event.selected(umask).count(), 0, "{name} {umask:02X}h: no state");
        }
        assert_eq!(event.availability_of(0x0F, fired("pm")), Availability::Pending, "{name}");
    }
    assert_eq!(counted(row("pm", "L2_LD"), 0x08), set(&[Signal::L2LoadDemandModified]));
    let both = [Signal::L2FillDemandExclusive, Signal::L2FillPrefetchedExclusive];
    assert_eq!(counted(row("pm", "L2_LINES_IN"), 0x24), set(&both));
    assert!(counted(row("pm", "L2_M_LINES_OUT"), 0x07).is_empty(), "only Modified lines");
}

/// Table 11: what needs no model.
#[test]
fn k7_live() {
    let mut codes: Vec<u8> = live("k7", &from("k7", "AMD 22007")).iter().map(|row| row.0).collect();
    codes.sort_unstable();
    assert_eq!(
        codes,
        [0x20, 0x47, 0x76, 0xC0, 0xC2, 0xC4, 0xC6, 0xC8, 0xCD, 0xCE, 0xCF, 0xDC, 0xDD, 0xDE, 0xDF]
    );
    assert!(part("k7").events.iter().all(|event| event.counters == 0b1111));
}

/// 22007: "Invalid" is bit 0 of 42h to 44h, where the K8 has "system" at bit 0 of 42h; 65h has
/// other bits than on the K8.
#[test]
fn k7_masks() {
    let refills = row("k7", "DATA_CACHE_REFILLS");
    assert_eq!(refills.default_umask, 0x1F);
    assert_eq!(counted(refills, 0x01), set(&[Signal::L1dRefillL2Invalid]));
    assert_eq!(counted(refills, 0x10), set(&[Signal::L1dRefillL2Modified]));
    assert!(counted(refills, 0xE0).is_empty());
    let requests = row("k7", "SYSTEM_REQUESTS_WITH_THE_SELECTED_TYPE");
    assert_eq!(counted(requests, 0x40), set(&[Signal::SystemRequestWb]));
    assert!(counted(requests, 0x80).is_empty());
    let loads = row("k7", "SEGMENT_REGISTER_LOADS");
    assert_eq!(counted(loads, 0x05), set(&[Signal::SegLoadEs, Signal::SegLoadSs]));
    assert!(counted(loads, 0x40).is_empty(), "HS");
}

/// Linux asks for 0141h, 0746h and 0385h, whose masks mean something on later families only, and
/// for codes that the K7 does not have.
#[test]
fn k7_without_a_mask_table() {
    for (code, name) in [
        (0x41, "DATA_CACHE_MISSES"),
        (0x46, "L1_DTLB_AND_L2_DTLB_MISS"),
        (0x85, "L1_AND_L2_ITLB_MISSES"),
    ] {
        let event = row("k7", name);
        assert_eq!(event.code, code);
        for umask in [0x01, 0x03, 0x07, 0xFF] {
            assert_eq!(counted(event, umask), counted(event, 0), "{name}");
        }
    }
    for code in [0x7D, 0x7E, 0x7F, 0x67, 0x4B, 0xE9] {
        assert!(part("k7").events.iter().all(|event| event.code != code), "{code:02X}h");
    }
}

/// Table 1-6: what needs no model.
#[test]
fn knc_live() {
    let rows = from("knc", "Intel 327357-001JA");
    let codes: Vec<u8> = live("knc", &rows).iter().map(|row| row.0).collect();
    // Of the vector unit the last four.
    assert_eq!(codes, [0x00, 0x01, 0x12, 0x16, 0x28, 0x2A, 0x00, 0x01, 0x16, 0x18]);
    assert!(live("knc", &from("knc", "Linux")).is_empty());
    assert!(live("knc", &from("knc", "Linux, LIKWID")).is_empty());
}

/// The unit mask is the unit's number and nothing else. A code can belong to two units.
#[test]
fn knc_units() {
    let mut units = BTreeMap::<u8, usize>::new();
    let mut selects = BTreeSet::new();
    for event in part("knc").events {
        assert_eq!(event.umask_rule, UmaskRule::Values { field: 0xFF }, "{}", event.name);
        assert_eq!(event.umasks.len(), 1, "{}", event.name);
        assert_eq!(event.umasks[0].mask, event.default_umask, "{}", event.name);
        assert!(selects.insert((event.code, event.default_umask)), "{}", event.name);
        *units.entry(event.default_umask).or_default() += 1;
        for umask in (0..=0xFF).filter(|&umask| umask != event.default_umask) {
            assert_eq!(event.selected(umask).count(), 0, "{} {umask:02X}h", event.name);
        }
    }
    assert_eq!(units, BTreeMap::from([(0x00, 32), (0x10, 23), (0x20, 8)]));
    let twice = |code| part("knc").events.iter().filter(|event| event.code == code).count();
    for code in [0x00, 0x01, 0x03, 0x04, 0x16, 0x17] {
        assert_eq!(twice(code), 2, "{code:02X}h");
    }
    // Why the L2 drops a request is in no document.
    let of = |name| row("knc", name).fidelity;
    assert_eq!(of("L1_DATA_HIT_INFLIGHT_PF1"), Fidelity::Estimated);
    assert_eq!(of("SNP_HITM_BUNIT"), Fidelity::Absent);
    assert_eq!(of("L2_DATA_PF2_DROP"), Fidelity::Estimated);
    assert_eq!(row("knc", "DATA_READ").availability(fired("knc")), Availability::Live);
    assert_eq!(row("knc", "VPU_DATA_READ").availability(fired("knc")), Availability::Live);
    assert_eq!(row("knc", "VPU_STALL_REG").availability(fired("knc")), Availability::Pending);
}

/// libpfm4 and Linux bind 17 events of the L2 and the ring to counter 0, and Linux four more; F0h
/// and F5h count on both.
#[test]
fn knc_counter_limits() {
    let first_only = [
        0xC3, 0xC4, 0xC8, 0xC9, 0xCA, 0xCB, 0xCC, 0xCE, 0xCF, 0xD7, 0xE3, 0xE6, 0xE7, 0xF1, 0xF2,
        0xF6, 0xF7, 0xFC, 0xFD, 0xFE, 0xFF,
    ];
    for event in part("knc").events {
        let expected = if first_only.contains(&event.code) { 0b01 } else { 0b11 };
        assert_eq!(event.counters, expected, "{}", event.name);
    }
}

/// What the architecture defines, signal by signal: the events that equal a hand count.
#[test]
fn what_exact_events_count() {
    use Signal::*;
    let segments = [SegLoadEs, SegLoadCs, SegLoadSs, SegLoadDs, SegLoadFs, SegLoadGs];
    let expected: &[(&str, &str, &[Signal])] = &[
        ("p55c", "DATA_READ", &[Load]),
        ("p55c", "DATA_WRITE", &[Store]),
        ("p55c", "MISALIGNED_DATA_MEMORY_OR_IO_REFERENCES", &[Misaligned]),
        ("p55c", "ANY_SEGMENT_REGISTER_LOADED", &segments),
        ("p55c", "INSTRUCTIONS_EXECUTED", &[InsnRetired]),
        ("p55c", "LOCKED_BUS_CYCLE", &[LockedOp]),
        ("p55c", "IO_READ_OR_WRITE_CYCLE", &[IoAccess]),
        ("p55c", "FLOPS", &[X87Flop]),
        ("p55c", "BREAKPOINT_MATCH_ON_DR0_REGISTER", &[DebugMatch0]),
        ("p55c", "BREAKPOINT_MATCH_ON_DR1_REGISTER", &[DebugMatch1]),
        ("p55c", "BREAKPOINT_MATCH_ON_DR2_REGISTER", &[DebugMatch2]),
        ("p55c", "BREAKPOINT_MATCH_ON_DR3_REGISTER", &[DebugMatch3]),
        ("p55c", "HARDWARE_INTERRUPTS", &[InterruptTaken]),
        ("p55c", "EMMS_INSTRUCTIONS_EXECUTED", &[MmxEmms]),
        ("p55c", "SATURATING_MMX_INSTRUCTIONS_EXECUTED", &[MmxSaturating]),
        ("p55c", "SATURATIONS_PERFORMED", &[MmxSaturated]),
        ("p55c", "NUMBER_OF_CYCLES_NOT_IN_HLT_STATE", &[CyclesUnhalted]),
        ("p55c", "MMX_INSTRUCTION_DATA_READS", &[LoadMmx]),
        ("p55c", "TAKEN_BRANCHES", &[BranchTaken]),
        ("p55c", "MMX_INSTRUCTION_DATA_WRITES", &[StoreMmx]),
        ("p55c", "MISALIGNED_DATA_MEMORY_REFERENCE_ON_MMX_INSTRUCTION", &[MisalignedMmx]),
        ("p55c", "RETURNS", &[BranchRetiredRet]),
        ("p6", "DATA_MEM_REFS", &[Load, Store]),
        ("p6", "FLOPS", &[X87Flop]),
        ("p6", "MISALIGN_MEM_REF", &[Misaligned]),
        ("p6", "INST_RETIRED", &[InsnRetired]),
        ("p6", "HW_INT_RX", &[InterruptTaken]),
        ("p6", "CYCLES_INT_MASKED", &[CyclesIntMasked]),
        ("p6", "CYCLES_INT_PENDING_AND_MASKED", &[CyclesIntMaskedPending]),
        ("p6", "BR_INST_RETIRED", &[BranchRetired]),
        ("p6", "BR_TAKEN_RETIRED", &[BranchTaken]),
        ("p6", "SEGMENT_REG_LOADS", &segments),
        ("p6", "CPU_CLK_UNHALTED", &[CyclesUnhalted]),
        ("p6", "MMX_SAT_INSTR_EXEC", &[MmxSaturating]),
        ("p6", "MMX_ASSIST", &[MmxEmms]),
        ("pii", "MMX_INSTR_EXEC", &[InsnRetiredMmx]),
        ("pii", "MMX_INSTR_RET", &[InsnRetiredMmx]),
        ("pm", "EMON_SIMD_INSTR_RETIRED", &[InsnRetiredMmx]),
        ("k7", "MISALIGNED_ACCESSES", &[Misaligned]),
        ("k7", "CPU_CLK_UNHALTED", &[CyclesUnhalted]),
        ("k7", "RETIRED_INSTRUCTIONS", &[InsnRetired, InterruptTaken, ExceptionTaken]),
        ("k7", "RETIRED_BRANCH_INSTRUCTIONS", &[BranchRetired, InterruptTaken, ExceptionTaken]),
        ("k7", "RETIRED_TAKEN_BRANCH_INSTRUCTIONS", &[BranchTaken, InterruptTaken, ExceptionTaken]),
        (
            "k7",
            "RETIRED_FAR_CONTROL_TRANSFERS",
            &[BranchRetiredFar, InterruptTaken, ExceptionTaken],
        ),
        ("k7", "INTERRUPTS_MASKED_CYCLES", &[CyclesIntMasked]),
        ("k7", "INTERRUPTS_MASKED_CYCLES_WITH_INTERRUPT_PENDING", &[CyclesIntMaskedPending]),
        ("k7", "INTERRUPTS_TAKEN", &[InterruptTaken]),
        ("k7", "RETIRED_NEAR_RETURNS", &[BranchRetiredRet]),
        ("k7", "BREAKPOINT_MATCHES_FOR_DR0", &[DebugMatch0]),
        ("k7", "BREAKPOINT_MATCHES_FOR_DR3", &[DebugMatch3]),
        ("knc", "DATA_READ", &[Load]),
        ("knc", "DATA_WRITE", &[Store]),
        ("knc", "DATA_READ_OR_WRITE", &[Load, Store]),
        ("knc", "BRANCHES", &[BranchRetired]),
        ("knc", "INSTRUCTIONS_EXECUTED", &[InsnRetired]),
        ("knc", "CPU_CLK_UNHALTED", &[CyclesUnhalted]),
    ];
    for (name, event, signals) in expected {
        assert_eq!(counted(row(name, event), 0), set(signals), "{name} {event}");
    }
}

/// What the models of Knights Corner's caches count.
#[test]
fn what_caches_count() {
    use Signal::*;
    let expected: [(&str, &[Signal]); 11] = [
        ("DATA_READ_MISS", &[L1dMissLoad]),
        ("DATA_READ_MISS_OR_WRITE_MISS", &[L1dMiss]),
        ("VPU_DATA_READ_MISS", &[L1dMissLoadVpu]),
        ("VPU_DATA_WRITE_MISS", &[L1dMissStoreVpu]),
        ("L2_WRITE_HIT", &[L2WriteHit]),
        ("L2_DATA_PF1_MISS", &[PrefetchL1L2Miss]),
        ("L2_DATA_READ_MISS_CACHE_FILL", &[L2MissLoadFromCache]),
        ("L2_DATA_WRITE_MISS_MEM_FILL", &[L2MissStoreFromMemory]),
        ("SNP_HITM_L2", &[SnoopHitmL2]),
        ("L2_STRONGLY_ORDERED_STREAMING_VSTORES_MISS", &[L2MissWriteLineOrdered]),
        ("L2_WEAKLY_ORDERED_STREAMING_VSTORE_MISS", &[L2MissWriteLineWeak]),
    ];
    for (name, signals) in expected {
        let row = row("knc", name);
        assert_eq!(counted(row, row.default_umask), set(signals), "{name}");
        assert_eq!(row.fidelity, Fidelity::Modelled, "{name}");
    }
}

/// A bit is one bit, a value lies in its field, and no mask has two meanings.
#[test]
fn masks_fit_their_rule() {
    for name in PARTS {
        for event in part(name).events {
            let label = format!("{name} {}", event.name);
            let masks: BTreeSet<u8> = event.umasks.iter().map(|bit| bit.mask).collect();
            assert_eq!(masks.len(), event.umasks.len(), "{label}");
            match event.umask_rule {
                UmaskRule::Ignored => assert!(masks.is_empty(), "{label}"),
                UmaskRule::Bits => {
                    assert!(masks.iter().all(|mask| mask.count_ones() == 1), "{label}");
                    assert_eq!(event.default_umask, masks.iter().sum::<u8>(), "{label}");
                }
                UmaskRule::Values { field } => {
                    assert!(masks.iter().all(|mask| mask & !field == 0), "{label}");
                    // libpfm4's mask for this one selects nothing.
                    let selects = masks.contains(&event.default_umask);
                    assert_eq!(selects, event.name != "MMX_UOPS_EXEC", "{label}");
                }
                UmaskRule::Routes(_) => assert_eq!(event.default_umask, 0x0F, "{label}"),
                UmaskRule::Required => panic!("{label}"),
            }
        }
    }
}

/// Section 1.4.3.3, bit 21: some events have no thread. Those of the L2 and the ring, and the
/// clock, which is that of the core.
#[test]
fn scopes() {
    for name in PARTS {
        for event in part(name).events {
            let core = name == "knc" && event.default_umask == 0x10;
            let expected = if core { Scope::Core } else { Scope::Thread };
            assert_eq!(event.scope, expected, "{name} {}", event.name);
        }
    }
}

/// Names, and the names of each client, are unique within a part; a name finds its own row.
#[test]
fn names_are_unique() {
    for name in PARTS {
        let mut names = BTreeSet::new();
        let mut aliases = BTreeSet::new();
        for event in part(name).events {
            assert!(names.insert(event.name), "{name} {}", event.name);
            let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            assert!(event.name.chars().all(upper), "{name} {}", event.name);
            assert_eq!(row(name, event.name), event);
            assert!(!event.title.is_empty() && !event.section.is_empty(), "{name} {}", event.name);
            assert!(event.description.ends_with('.'), "{name} {}", event.name);
            for (client, alias) in event.aliases.all().into_iter().enumerate() {
                let free = alias.is_empty() || aliases.insert((client, alias));
                assert!(free, "{name} {alias}");
            }
        }
    }
}

/// The manual, OProfile and LIKWID spell some names of the P6 in other ways.
#[test]
fn client_names() {
    assert_eq!(row("p6", "BUS_TRANS_RFO").code, 0x66, "libpfm4");
    assert_eq!(row("p6", "BUS_TRAN_RFO").code, 0x66, "the manual");
    assert_eq!(row("p6", "BUS_DATA_RECV").code, 0x64, "libpfm4");
    assert_eq!(row("p6", "INST_DECODER").code, 0xD0, "the manual");
    assert_eq!(row("p6", "INST_DECODED").code, 0xD0, "every client");
    assert_eq!(row("p6", "FLOPS").code, 0xC1, "OProfile means 10h by it");
    assert_eq!(row("p6", "COMP_FLOP_RET").code, 0xC1, "OProfile");
    assert_eq!(row("p55c", "BTB_HITS").code, 0x13, "perfctr");
    assert_eq!(row("knc", "MEMORY_ACCESS_BOTH_PIPES").code, 0x09, "LIKWID");
    assert_eq!(row("k7", "RETIRED_INSNS").code, 0xC0, "OProfile");
}

/// By the instruction set alone, an exact row counts, but for writes to memory that may not be cached (the
/// models know memory types); an absent row has no signal, any other row has some.
#[test]
fn rows_keep_their_fidelity() {
    for name in PARTS {
        for event in part(name).events {
            let availability = event.availability_of(event.default_umask, fired(name));
            match event.fidelity {
                Fidelity::Exact if (name, event.code) == ("p55c", 0x2E) => {
                    assert_eq!(availability, Availability::Pending);
                }
                Fidelity::Exact => {
                    assert_eq!(availability, Availability::Live, "{name} {}", event.name);
                }
                Fidelity::Absent => {
                    assert_eq!(
                        event.availability(fired(name)),
                        Availability::Absent,
                        "{name} {}",
                        event.name
                    );
                    assert!(event.umasks.iter().all(|bit| bit.signals.is_empty()));
                }
                _ => assert_ne!(availability, Availability::Absent, "{name} {}", event.name),
            }
        }
    }
}
