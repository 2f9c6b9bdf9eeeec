//! Intel P6 family: Pentium Pro, Pentium II and Pentium III.
//!
//! Sources: Intel, *MMX Technology* manual, chapter 6; Intel SDM volume 3, section "Performance
//! Monitoring (P6 Family Processor)". Where they are silent, what Linux, FreeBSD, NetBSD, OProfile and
//! perfctr rely on decides:
//! - Reserved bits (21 and 63:32) of the event selects are ignored and read as zero.
//! - A counter takes 32 bits and extends their sign; the upper half of the value is ignored.
//! - `EN` of `PerfEvtSel1` can be written and read, and does nothing.
//! - An event on a counter that cannot count it counts nothing.

use super::live::{MODELS, OUT_OF_ORDER_PIPELINE};
use super::p6_events::{PII as PII_EVENTS, PIII as PIII_EVENTS, PPRO as PPRO_EVENTS};
use super::{
    CodeIndex, EnableRule, InitRule, LiveSignals, Personality, PmiRule, Programming,
    UndefinedEvent, index_by_code, metrics, perf,
};
use crate::evtsel::{CNT_MASK, EDGE, EN, EVENT_SELECT, INT, INV, OS, PIN_CONTROL, UNIT_MASK, USR};
use crate::register::{Access, Field, PerfctrWrite, Register, RegisterKind};

/// The Pentium Pro's PMU.
pub(super) static PPRO: Personality = Personality {
    name: "ppro",
    part: "Intel Pentium Pro (family 6 model 1)",
    source: SOURCE,
    select_section: "Intel SDM volume 3, \"PerfEvtSel0 and PerfEvtSel1 MSRs\"",
    interrupt_section: "Intel SDM volume 3, \"Local Vector Table\"",
    counters: 2,
    width: 40,
    registers: REGISTERS,
    programming: Programming::PerfEvtSel,
    perfctr_write: PerfctrWrite::SignExtended32,
    enable: EnableRule::First,
    cmask_max: 255,
    max_events_per_cycle: 255,
    undefined_event: UndefinedEvent::NeverOccurs,
    usr_min_cpl: 1,
    rdpmc_32bit_in_16bit_code: false,
    pmi: PmiRule::EachOverflow,
    lvtpc_auto_mask: false,
    init: InitRule::Keeps,
    northbridge: None,
    mask_must_be_named: &[0x28, 0x29, 0x2A, 0x2E],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(&PPRO_EVENTS),
    events: &PPRO_EVENTS,
    metrics: metrics::P6,
    perf_names: perf::P6,
    by_code: &PPRO_BY_CODE,
};

/// The Pentium II's PMU.
pub(super) static PII: Personality = Personality {
    name: "pii",
    part: "Intel Pentium II (family 6 models 3, 5, 6)",
    mask_must_be_named: &[0x28, 0x29, 0x2A, 0x2E, 0xB3, 0xCC, 0xD4, 0xD5],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(&PII_EVENTS),
    events: &PII_EVENTS,
    by_code: &PII_BY_CODE,
    ..PPRO
};

/// The Pentium III's PMU.
pub(super) static PIII: Personality = Personality {
    name: "p6",
    part: "Intel Pentium III (family 6 models 7, 8, 10, 11)",
    mask_must_be_named: &[0x07, 0x28, 0x29, 0x2A, 0x2E, 0x4B, 0xB3, 0xCC, 0xD4, 0xD5, 0xD8, 0xD9],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(&PIII_EVENTS),
    events: &PIII_EVENTS,
    by_code: &PIII_BY_CODE,
    ..PPRO
};

/// The documents.
pub(super) const SOURCE: &str = "Intel MMX Technology manual, chapter 6; Intel SDM volume 3";

/// Codes to rows.
static PPRO_BY_CODE: CodeIndex = index_by_code(&PPRO_EVENTS);
/// Codes to rows.
static PII_BY_CODE: CodeIndex = index_by_code(&PII_EVENTS);
/// Codes to rows.
static PIII_BY_CODE: CodeIndex = index_by_code(&PIII_EVENTS);

/// The registers of the family.
pub(super) const REGISTERS: &[Register] = &[
    evtsel(0x186, "PerfEvtSel0", 0),
    evtsel(0x187, "PerfEvtSel1", 1),
    perfctr(0xC1, "PerfCtr0", 0),
    perfctr(0xC2, "PerfCtr1", 1),
];

const fn evtsel(msr: u32, name: &'static str, n: usize) -> Register {
    Register {
        msr,
        name,
        kind: RegisterKind::Evtsel(n),
        access: Access::ReadWrite,
        reset: 0,
        stored: EVENT_SELECT
            | UNIT_MASK
            | USR
            | OS
            | EDGE
            | PIN_CONTROL
            | INT
            | EN
            | INV
            | CNT_MASK,
        faulting: 0,
        fields: &[
            Field { name: "EVENT_SELECT", high: 7, low: 0, meaning: "event code" },
            Field { name: "UNIT_MASK", high: 15, low: 8, meaning: "qualifies the event" },
            Field { name: "USR", high: 16, low: 16, meaning: "count at CPL > 0" },
            Field { name: "OS", high: 17, low: 17, meaning: "count at CPL 0" },
            Field { name: "E", high: 18, low: 18, meaning: "1 edge, 0 level" },
            Field {
                name: "PC",
                high: 19,
                low: 19,
                meaning: "PM pin toggles: 1 on overflow, 0 on each increment",
            },
            Field { name: "INT", high: 20, low: 20, meaning: "APIC interrupt on overflow" },
            Field { name: "reserved", high: 21, low: 21, meaning: "reads as zero" },
            Field {
                name: "EN",
                high: 22,
                low: 22,
                meaning: "in PerfEvtSel0 enable both counters, in PerfEvtSel1 without function",
            },
            Field { name: "INV", high: 23, low: 23, meaning: "invert the CMASK comparison" },
            Field {
                name: "CMASK",
                high: 31,
                low: 24,
                meaning: "0 add the events; else threshold of events in a cycle",
            },
            Field { name: "reserved", high: 63, low: 32, meaning: "reads as zero" },
        ],
    }
}

const fn perfctr(msr: u32, name: &'static str, n: usize) -> Register {
    Register {
        msr,
        name,
        kind: RegisterKind::Perfctr(n),
        access: Access::ReadWrite,
        reset: 0,
        stored: (1 << 40) - 1,
        faulting: 0,
        fields: &[
            Field {
                name: "CTR",
                high: 39,
                low: 0,
                meaning: "counter value; a write sets 31:0 and copies bit 31 to 39:32",
            },
            Field { name: "reserved", high: 63, low: 40, meaning: "reads as zero" },
        ],
    }
}
