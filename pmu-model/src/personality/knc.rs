//! Intel Xeon Phi coprocessor, Knights Corner: the PMU of one hardware thread.
//!
//! Source: *Performance Monitoring Units of the Intel Xeon Phi Coprocessor (codename Knights
//! Corner)*, order 327357. Where it is silent: reserved bits are ignored and read as zero, writing the
//! read-only status and reading the write-only clear register raise #GP, and RDPMC above CPL 0 needs
//! CR4.PCE as on the P6 family.

use super::knc_events::EVENTS;
use super::live::{MODELS, MULTITHREADED_PIPELINE};
use super::{
    CodeIndex, EnableRule, InitRule, LiveSignals, Personality, PmiRule, Programming,
    UndefinedEvent, index_by_code, metrics, perf,
};
use crate::evtsel::{ALL_THREADS, CNT_MASK, EDGE, EN, EVENT_SELECT, INT, INV, OS, UNIT_MASK, USR};
use crate::register::{Access, Field, PerfctrWrite, Register, RegisterKind};
use crate::select::USER_PREFERENCE;

/// The Knights Corner PMU.
pub(super) static KNC: Personality = Personality {
    name: "knc",
    part: "Intel Xeon Phi coprocessor, Knights Corner (family 0Bh model 1)",
    source: "Intel 327357-001, section 1.4",
    select_section: "Intel 327357-001, section 1.4.3",
    interrupt_section: "Intel 327357-001, section 1.4.3.9",
    counters: 2,
    width: 40,
    registers: REGISTERS,
    programming: Programming::PerfEvtSel,
    perfctr_write: PerfctrWrite::Whole,
    enable: EnableRule::Global,
    cmask_max: 255,
    max_events_per_cycle: 255,
    // Intel 327357-001, table 1-5, EVENT_SELECT: an illegal encoding causes no exception or error, and the counter
    // does not count.
    undefined_event: UndefinedEvent::StandsStill,
    usr_min_cpl: 1,
    rdpmc_32bit_in_16bit_code: false,
    pmi: PmiRule::StatusEdge,
    // Section 1.4.3.9 quotes the Pentium 4's rule that delivery masks the entry; the Linux driver
    // never unmasks it and samples on.
    lvtpc_auto_mask: false,
    init: InitRule::Keeps,
    northbridge: None,
    mask_must_be_named: &[],
    live: LiveSignals::with_models(MODELS).and(MULTITHREADED_PIPELINE).selected_by(EVENTS),
    events: EVENTS,
    metrics: metrics::KNC,
    perf_names: perf::KNC,
    by_code: &BY_CODE,
};

/// Codes to rows.
static BY_CODE: CodeIndex = index_by_code(EVENTS);

/// Bits 1:0, one a counter.
const COUNTERS: u64 = 0b11;

const REGISTERS: &[Register] = &[
    perfctr(0x20, "IA32_PerfCnt0", 0),
    perfctr(0x21, "IA32_PerfCnt1", 1),
    evtsel(0x28, "IA32_PerfEvtSel0", 0),
    evtsel(0x29, "IA32_PerfEvtSel1", 1),
    Register {
        msr: 0x2C,
        name: "PERF_SPFLT_CONTROL",
        kind: RegisterKind::SpfltControl,
        access: Access::ReadWrite,
        reset: 0,
        stored: USER_PREFERENCE | COUNTERS,
        faulting: 0,
        fields: &[
            Field {
                name: "SPFLT_0",
                high: 0,
                low: 0,
                meaning: "counter 0 counts only while USER_PREF is set",
            },
            Field {
                name: "SPFLT_1",
                high: 1,
                low: 1,
                meaning: "counter 1 counts only while USER_PREF is set",
            },
            Field { name: "reserved", high: 62, low: 2, meaning: "reads as zero" },
            Field {
                name: "USER_PREF",
                high: 63,
                low: 63,
                meaning: "user preference, bit 0 of SPFLT's operand",
            },
        ],
    },
    Register {
        msr: 0x2D,
        name: "IA32_PERF_GLOBAL_STATUS",
        kind: RegisterKind::GlobalStatus,
        access: Access::ReadOnly,
        reset: 0,
        stored: COUNTERS,
        faulting: 0,
        fields: &[
            Field { name: "OVF_0", high: 0, low: 0, meaning: "counter 0 overflowed; sticky" },
            Field { name: "OVF_1", high: 1, low: 1, meaning: "counter 1 overflowed; sticky" },
            Field { name: "reserved", high: 63, low: 2, meaning: "reads as zero" },
        ],
    },
    Register {
        msr: 0x2E,
        name: "IA32_PERF_GLOBAL_OVF_CTRL",
        kind: RegisterKind::GlobalOvfCtrl,
        access: Access::WriteOnly,
        reset: 0,
        stored: COUNTERS,
        faulting: 0,
        fields: &[
            Field { name: "CLEAR_OVF_0", high: 0, low: 0, meaning: "clear OVF_0" },
            Field { name: "CLEAR_OVF_1", high: 1, low: 1, meaning: "clear OVF_1" },
            Field { name: "reserved", high: 63, low: 2, meaning: "ignored" },
        ],
    },
    Register {
        msr: 0x2F,
        name: "IA32_PERF_GLOBAL_CTRL",
        kind: RegisterKind::GlobalCtrl,
        access: Access::ReadWrite,
        reset: 0,
        stored: COUNTERS,
        faulting: 0,
        fields: &[
            Field { name: "EN_0", high: 0, low: 0, meaning: "counter 0 may count" },
            Field { name: "EN_1", high: 1, low: 1, meaning: "counter 1 may count" },
            Field { name: "reserved", high: 63, low: 2, meaning: "reads as zero" },
        ],
    },
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
            | INT
            | ALL_THREADS
            | EN
            | INV
            | CNT_MASK,
        faulting: 0,
        fields: &[
            Field { name: "EVENT_SELECT", high: 7, low: 0, meaning: "event code" },
            Field { name: "UMASK", high: 15, low: 8, meaning: "qualifies the event" },
            Field { name: "USR", high: 16, low: 16, meaning: "count at CPL > 0" },
            Field { name: "OS", high: 17, low: 17, meaning: "count at CPL 0" },
            Field { name: "E", high: 18, low: 18, meaning: "1 edge, 0 level" },
            Field { name: "reserved", high: 19, low: 19, meaning: "reads as zero" },
            Field { name: "INT", high: 20, low: 20, meaning: "APIC interrupt on overflow" },
            Field {
                name: "THREAD",
                high: 21,
                low: 21,
                meaning: "thread count mode: 0 own thread, 1 all threads of the core",
            },
            Field { name: "EN", high: 22, low: 22, meaning: "enable this counter" },
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
            Field { name: "CTR", high: 39, low: 0, meaning: "counter value" },
            Field { name: "reserved", high: 63, low: 40, meaning: "reads as zero" },
        ],
    }
}
