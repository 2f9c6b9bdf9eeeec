//! AMD K8: Athlon 64 and Opteron, family 0Fh up to revision E, one core a node.
//!
//! Source: *BIOS and Kernel Developer's Guide for the AMD Athlon 64 and AMD Opteron Processors*,
//! order 26094, chapter 10. Where it is silent, what KVM, Linux and kvm-unit-tests rely on decides:
//! event selects and counters are zero after power-up and reset, INIT keeps them, and a reserved
//! event code counts nothing.

use super::k8_events::EVENTS;
use super::live::{MODELS, OUT_OF_ORDER_PIPELINE};
use super::{
    CodeIndex, EnableRule, InitRule, LiveSignals, Northbridge, Personality, PmiRule, Programming,
    UndefinedEvent, amd, index_by_code, metrics, perf,
};
use crate::register::PerfctrWrite;

/// The K8 PMU.
pub(super) static K8: Personality = Personality {
    name: "k8",
    part: "AMD Athlon 64 and Opteron (family 0Fh), to revision E",
    source: "AMD BKDG 26094, chapter 10",
    select_section: "AMD BKDG 26094, section 10.2",
    interrupt_section: "AMD64 APM volume 2, section 16.4.3",
    counters: 4,
    width: 48,
    registers: amd::REGISTERS,
    programming: Programming::PerfEvtSel,
    perfctr_write: PerfctrWrite::Whole,
    enable: EnableRule::Own,
    cmask_max: 3,
    max_events_per_cycle: 3,
    undefined_event: UndefinedEvent::NeverOccurs,
    usr_min_cpl: 1,
    rdpmc_32bit_in_16bit_code: false,
    pmi: PmiRule::EachOverflow,
    lvtpc_auto_mask: false,
    init: InitRule::Keeps,
    northbridge: Some(Northbridge { first: 0xE0, last: 0xFF, cores_per_node: 1 }),
    mask_must_be_named: &[],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(EVENTS),
    events: EVENTS,
    metrics: metrics::K8,
    perf_names: perf::AMD,
    by_code: &BY_CODE,
};

/// Codes to rows.
static BY_CODE: CodeIndex = index_by_code(EVENTS);
