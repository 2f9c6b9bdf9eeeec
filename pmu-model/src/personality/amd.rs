//! The registers that K7 and K8 have in common.
//!
//! Where the manuals are silent, what KVM, Linux and kvm-unit-tests rely on decides: reserved bits of
//! the event selects and of the counters are ignored when written, never #GP (OProfile writes -1 to
//! the counters, Linux may write event-select bit 40).

use crate::evtsel::{CNT_MASK, EDGE, EN, EVENT_SELECT, INT, INV, OS, PIN_CONTROL, UNIT_MASK, USR};
use crate::register::{Access, Field, Register, RegisterKind};

/// `PerfEvtSel0` to 3 at C001_0000h, `PerfCtr0` to 3 at C001_0004h.
pub(super) const REGISTERS: &[Register] = &[
    evtsel("PerfEvtSel0", 0),
    evtsel("PerfEvtSel1", 1),
    evtsel("PerfEvtSel2", 2),
    evtsel("PerfEvtSel3", 3),
    perfctr("PerfCtr0", 0),
    perfctr("PerfCtr1", 1),
    perfctr("PerfCtr2", 2),
    perfctr("PerfCtr3", 3),
];

const fn evtsel(name: &'static str, n: usize) -> Register {
    Register {
        msr: 0xC001_0000 + n as u32,
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
            Field { name: "reserved", high: 21, low: 21, meaning: "should be zero" },
            Field { name: "EN", high: 22, low: 22, meaning: "enable this counter" },
            Field { name: "INV", high: 23, low: 23, meaning: "invert the CNT_MASK comparison" },
            Field {
                name: "CNT_MASK",
                high: 31,
                low: 24,
                meaning: "0 add the events; else threshold of events in a cycle",
            },
            Field { name: "reserved", high: 63, low: 32, meaning: "reads as zero" },
        ],
    }
}

const fn perfctr(name: &'static str, n: usize) -> Register {
    Register {
        msr: 0xC001_0004 + n as u32,
        name,
        kind: RegisterKind::Perfctr(n),
        access: Access::ReadWrite,
        reset: 0,
        stored: (1 << 48) - 1,
        faulting: 0,
        fields: &[
            Field { name: "CTR", high: 47, low: 0, meaning: "counter value" },
            Field { name: "reserved", high: 63, low: 48, meaning: "reads as zero" },
        ],
    }
}
