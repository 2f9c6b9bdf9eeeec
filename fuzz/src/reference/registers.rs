//! Which registers a processor has, by number.

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "processors")]
pub enum Part {
    P55c,
    Ppro,
    Pii,
    Piii,
    Pm,
    K7,
    K8,
    Knc,
}

/// What a register is. The number is that of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Says what a counter counts.
    Select(usize),
    /// Says what both counters of the Pentium count.
    Cesr,
    /// A counter.
    Counter(usize),
    /// `PERF_SPFLT_CONTROL`.
    Spflt,
    /// `IA32_PERF_GLOBAL_STATUS`.
    Status,
    /// `IA32_PERF_GLOBAL_OVF_CONTROL`.
    Clear,
    /// `IA32_PERF_GLOBAL_CTRL`.
    Control,
}

use Kind::{Cesr, Clear, Control, Counter, Select, Spflt, Status};

impl Kind {
    /// How many places there are.
    pub const PLACES: usize = 13;

    /// Where what it holds is: a place of its own, of which that of a register that a processor lacks stays zero.
    pub fn place(self) -> usize {
        match self {
            Select(counter) => counter,
            Counter(counter) => 4 + counter,
            Cesr => 8,
            Spflt => 9,
            Status => 10,
            Clear => 11,
            Control => 12,
        }
    }
}

impl Part {
    /// Every processor, in the order in which scripts number them.
    pub const ALL: [Part; 8] =
        [Part::P55c, Part::Ppro, Part::Pii, Part::Piii, Part::Pm, Part::K7, Part::K8, Part::Knc];

    /// The name that the product has for it.
    pub fn name(self) -> &'static str {
        match self {
            Part::P55c => "p55c",
            Part::Ppro => "ppro",
            Part::Pii => "pii",
            Part::Piii => "p6",
            Part::Pm => "pm",
            Part::K7 => "k7",
            Part::K8 => "k8",
            Part::Knc => "knc",
        }
    }

    /// The registers.
    pub fn registers(self) -> &'static [(u32, Kind)] {
        match self {
            // Intel SDM volume 3, "Performance Monitoring (Pentium Processors)": "The CESR is MSR 11H, CTR0
            // and CTR1 are 12H and 13H".
            Part::P55c => &[(0x11, Cesr), (0x12, Counter(0)), (0x13, Counter(1))],
            // Intel SDM volume 3, "Performance Monitoring (P6 Family Processor)": "PerfEvtSel0 and
            // PerfEvtSel1 MSRs (MSR addresses 186H and 187H)", "PerfCtr0 and PerfCtr1 MSRs (C1H and C2H)".
            Part::Ppro | Part::Pii | Part::Piii | Part::Pm => {
                &[(0x186, Select(0)), (0x187, Select(1)), (0xC1, Counter(0)), (0xC2, Counter(1))]
            }
            // AMD 26094, 10.2: "PerfEvtSel0–PerfEvtSel3 Registers C001_0000h, C001_0001h, C001_0002h,
            // C001_0003h"; 10.1: "PerfCtr0–PerfCtr3 Registers C001_0004h, C001_0005h, C001_0006h,
            // C001_0007h".
            Part::K7 | Part::K8 => &[
                (0xC001_0000, Select(0)),
                (0xC001_0001, Select(1)),
                (0xC001_0002, Select(2)),
                (0xC001_0003, Select(3)),
                (0xC001_0004, Counter(0)),
                (0xC001_0005, Counter(1)),
                (0xC001_0006, Counter(2)),
                (0xC001_0007, Counter(3)),
            ],
            // Intel 327357-001, table 1-2.
            Part::Knc => &[
                (0x20, Counter(0)),
                (0x21, Counter(1)),
                (0x28, Select(0)),
                (0x29, Select(1)),
                (0x2C, Spflt),
                (0x2D, Status),
                (0x2E, Clear),
                (0x2F, Control),
            ],
        }
    }

    /// How many counters there are: "four 48-bit performance counters" (AMD 26094, 10.1), "two 40-bit event
    /// counters" (MMX manual, 6.3), "two general-purpose event counters a thread" (327357-001, 1.4).
    pub fn counters(self) -> usize {
        if matches!(self, Part::K7 | Part::K8) { 4 } else { 2 }
    }

    /// How many bits a counter has; the same sentences.
    pub fn width(self) -> usize {
        if matches!(self, Part::K7 | Part::K8) { 48 } else { 40 }
    }
}
