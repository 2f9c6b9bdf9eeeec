//! Intel Pentium processor with MMX technology (P55C).
//!
//! Sources: Intel, *MMX Technology* manual, chapter 6; Intel SDM volume 3, section "Performance
//! Monitoring (Pentium Processors)". Where they are silent, what FreeBSD, NetBSD, OpenBSD and perfctr
//! rely on decides: reserved bits of CESR are ignored and read as zero, a counter takes all of its 40
//! bits.

use super::live::{IN_ORDER_PIPELINE, MODELS};
use super::p55c_events::EVENTS;
use super::{
    CodeIndex, EnableRule, InitRule, LiveSignals, Personality, PmiRule, Programming,
    UndefinedEvent, index_by_code, metrics,
};
use crate::cesr::{HALF, HALF_MASK};
use crate::register::{Access, Field, PerfctrWrite, Register, RegisterKind};

/// The P55C PMU.
pub(super) static P55C: Personality = Personality {
    name: "p55c",
    part: "Intel Pentium with MMX technology (family 5 models 4 and 8)",
    source: "Intel MMX Technology manual, chapter 6; Intel SDM volume 3",
    select_section: "Intel SDM volume 3, \"Performance Monitoring (Pentium Processors)\"",
    interrupt_section: "",
    counters: 2,
    width: 40,
    registers: REGISTERS,
    programming: Programming::Cesr,
    perfctr_write: PerfctrWrite::Whole,
    enable: EnableRule::Own,
    cmask_max: 0,
    max_events_per_cycle: 255,
    undefined_event: UndefinedEvent::NeverOccurs,
    usr_min_cpl: 3,
    rdpmc_32bit_in_16bit_code: true,
    pmi: PmiRule::PinsOnly,
    lvtpc_auto_mask: false,
    init: InitRule::Keeps,
    northbridge: None,
    mask_must_be_named: &[],
    live: LiveSignals::with_models(MODELS).and(IN_ORDER_PIPELINE).selected_by(EVENTS),
    events: EVENTS,
    metrics: metrics::P55C,
    perf_names: &[],
    by_code: &BY_CODE,
};

/// Codes to rows.
static BY_CODE: CodeIndex = index_by_code(EVENTS);

const REGISTERS: &[Register] = &[
    Register {
        msr: 0x11,
        name: "CESR",
        kind: RegisterKind::Cesr,
        access: Access::ReadWrite,
        reset: 0,
        stored: HALF_MASK << HALF | HALF_MASK,
        faulting: 0,
        fields: &[
            Field { name: "ES0", high: 5, low: 0, meaning: "event code of counter 0" },
            Field {
                name: "CC0",
                high: 8,
                low: 6,
                meaning: "counter 0: bit 6 at CPL 0-2, bit 7 at CPL 3, bit 8 clocks and not events",
            },
            Field {
                name: "PC0",
                high: 9,
                low: 9,
                meaning: "PM0 toggles: 1 on overflow, 0 on each increment",
            },
            Field { name: "reserved", high: 15, low: 10, meaning: "reads as zero" },
            Field { name: "ES1", high: 21, low: 16, meaning: "event code of counter 1" },
            Field {
                name: "CC1",
                high: 24,
                low: 22,
                meaning: "counter 1: bit 22 at CPL 0-2, bit 23 at CPL 3, bit 24 clocks and not events",
            },
            Field {
                name: "PC1",
                high: 25,
                low: 25,
                meaning: "PM1 toggles: 1 on overflow, 0 on each increment",
            },
            Field { name: "reserved", high: 63, low: 26, meaning: "reads as zero" },
        ],
    },
    perfctr(0x12, "CTR0", 0),
    perfctr(0x13, "CTR1", 1),
];

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
            Field { name: "CTR", high: 39, low: 0, meaning: "counter value" },
            Field { name: "reserved", high: 63, low: 40, meaning: "reads as zero" },
        ],
    }
}
