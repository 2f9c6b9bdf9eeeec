//! AMD K7: Athlon and Duron, family 6.
//!
//! Source: *AMD Athlon Processor x86 Code Optimization Guide*, order 22007, "Performance Counter
//! Usage". The guide calls the counters 64 bits wide; software that ran on them (perfctr, FreeBSD,
//! Linux) knows 48. A reserved event code counts nothing.

use super::k7_events::EVENTS;
use super::live::{MODELS, OUT_OF_ORDER_PIPELINE};
use super::{
    CodeIndex, EnableRule, InitRule, LiveSignals, Personality, PmiRule, Programming,
    UndefinedEvent, amd, index_by_code, metrics, perf,
};
use crate::register::PerfctrWrite;

/// The K7 PMU.
pub(super) static K7: Personality = Personality {
    name: "k7",
    part: "AMD Athlon (family 6)",
    source: "AMD 22007, Performance Counter Usage",
    select_section: "AMD 22007, \"Performance Counter Usage\"",
    interrupt_section: "AMD64 APM volume 2, section 16.4.3",
    counters: 4,
    width: 48,
    registers: amd::REGISTERS,
    programming: Programming::PerfEvtSel,
    perfctr_write: PerfctrWrite::Whole,
    enable: EnableRule::Own,
    cmask_max: 255,
    max_events_per_cycle: 3,
    undefined_event: UndefinedEvent::NeverOccurs,
    usr_min_cpl: 1,
    rdpmc_32bit_in_16bit_code: false,
    pmi: PmiRule::EachOverflow,
    lvtpc_auto_mask: false,
    init: InitRule::Keeps,
    northbridge: None,
    mask_must_be_named: &[],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(EVENTS),
    events: EVENTS,
    metrics: metrics::K7,
    perf_names: perf::AMD,
    by_code: &BY_CODE,
};

/// Codes to rows.
static BY_CODE: CodeIndex = index_by_code(EVENTS);
