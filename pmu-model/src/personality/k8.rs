//! AMD K8: Athlon 64 and Opteron, family 0Fh up to revision E, one core a node.
//!
//! Source: *BIOS and Kernel Developer's Guide for the AMD Athlon 64 and AMD Opteron Processors*,
//! order 26094, chapter 10. Where it is silent, what KVM, Linux and kvm-unit-tests rely on decides:
//! - Reserved bits of the event selects and of the counters are ignored when written, never #GP
//!   (OProfile writes -1 to the counters, Linux may write event-select bit 40).
//! - Event selects and counters are zero after power-up and reset, and INIT keeps them.
//! - A reserved event code counts nothing.

use super::k8_events::EVENTS;
use super::{
    EnableRule, InitRule, Northbridge, Personality, Register, RegisterKind, index_by_code,
};
use crate::evtsel::{
    CNT_MASK, EDGE, EN, EVENT_SELECT, EvtselLayout, Field, INT, INV, OS, PIN_CONTROL, UNIT_MASK,
    USR,
};

/// The K8 PMU.
pub(super) static K8: Personality = Personality {
    name: "k8",
    part: "AMD Athlon 64 and Opteron (family 0Fh), to revision E",
    source: "AMD BKDG 26094, chapter 10",
    counters: 4,
    width: 48,
    registers: &[
        Register { msr: 0xC001_0000, name: "PerfEvtSel0", kind: RegisterKind::Evtsel(0) },
        Register { msr: 0xC001_0001, name: "PerfEvtSel1", kind: RegisterKind::Evtsel(1) },
        Register { msr: 0xC001_0002, name: "PerfEvtSel2", kind: RegisterKind::Evtsel(2) },
        Register { msr: 0xC001_0003, name: "PerfEvtSel3", kind: RegisterKind::Evtsel(3) },
        Register { msr: 0xC001_0004, name: "PerfCtr0", kind: RegisterKind::Perfctr(0) },
        Register { msr: 0xC001_0005, name: "PerfCtr1", kind: RegisterKind::Perfctr(1) },
        Register { msr: 0xC001_0006, name: "PerfCtr2", kind: RegisterKind::Perfctr(2) },
        Register { msr: 0xC001_0007, name: "PerfCtr3", kind: RegisterKind::Perfctr(3) },
    ],
    evtsel: EvtselLayout {
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
            Field { name: "reserved", high: 21, low: 21, meaning: "should be zero" },
            Field { name: "EN", high: 22, low: 22, meaning: "enable this counter" },
            Field { name: "INV", high: 23, low: 23, meaning: "invert the CNT_MASK comparison" },
            Field {
                name: "CNT_MASK",
                high: 31,
                low: 24,
                meaning: "0 add the events; 1-3 threshold of events in a cycle",
            },
            Field { name: "reserved", high: 63, low: 32, meaning: "reads as zero" },
        ],
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
        cmask_max: 3,
        max_events_per_cycle: 3,
    },
    perfctr_fields: &[
        Field { name: "CTR", high: 47, low: 0, meaning: "counter value" },
        Field { name: "reserved", high: 63, low: 48, meaning: "reads as zero" },
    ],
    enable: EnableRule::Own,
    usr_min_cpl: 1,
    lvtpc_auto_mask: false,
    evtsel_reset: 0,
    perfctr_reset: 0,
    init: InitRule::Keeps,
    northbridge: Some(Northbridge { first: 0xE0, last: 0xFF, cores_per_node: 1 }),
    events: EVENTS,
    by_code: &BY_CODE,
};

/// Codes to rows.
static BY_CODE: [u16; 256] = index_by_code(EVENTS);
