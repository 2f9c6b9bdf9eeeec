//! How the counters of each part are programmed for a demo, as its manual has it and apart from the
//! model.
//!
//! Always the same measurement at CPL 3: instructions, with an interrupt once in [`PERIOD`] where
//! the part has one, and as many totals as there are counters left.

/// Instructions from sample to sample. Prime, so that no loop is hit at the same place again and
/// again.
pub(super) const PERIOD: u64 = 10_007;

/// A preset that overflows after a period. P6 takes 32 bits and extends the sign.
const PRESET_32: u64 = (PERIOD as u32).wrapping_neg() as u64;
const PRESET_40: u64 = PERIOD.wrapping_neg() & ((1 << 40) - 1);
const PRESET_48: u64 = PERIOD.wrapping_neg() & ((1 << 48) - 1);

/// PerfEvtSel bits, the same on all parts that have them: USR, INT, EN.
const USR: u64 = 1 << 16;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;

/// A model-specific register and the value to write to it.
pub(super) type Write = (u32, u64);

/// A part, as a demo programs it.
#[derive(Debug)]
pub struct Part {
    /// Name on the command line.
    pub name: &'static str,
    /// What is sampled: the name in the manual.
    pub(super) event: &'static str,
    /// Starts counting, with the last one.
    pub(super) start: &'static [Write],
    /// Stops it.
    pub(super) stop: &'static [Write],
    /// What the handler of an overflow of the sampling counter writes. Empty: there is no
    /// interrupt.
    pub(super) again: &'static [Write],
    /// Counters to read at the end: RDPMC index, what to subtract, what they counted.
    pub(super) totals: &'static [(u32, u64, &'static str)],
}

/// K7 and K8: PerfEvtSel0-3 C001_0000h, PerfCtr0-3 C001_0004h, each with its own EN.
const fn amd(name: &'static str) -> Part {
    Part {
        name,
        event: "RETIRED_INSTRUCTIONS",
        start: &[
            (0xC001_0004, PRESET_48),
            (0xC001_0000, 0xC0 | INT | USR | EN),
            (0xC001_0005, 0),
            (0xC001_0001, 0x76 | USR | EN),
            (0xC001_0006, 0),
            (0xC001_0002, 0xC0 | USR | EN),
            (0xC001_0007, 0),
            (0xC001_0003, 0xC2 | USR | EN),
        ],
        stop: &[(0xC001_0000, 0), (0xC001_0001, 0), (0xC001_0002, 0), (0xC001_0003, 0)],
        again: &[(0xC001_0004, PRESET_48)],
        totals: &[(1, 0, "cycles"), (2, 0, "instructions"), (3, 0, "branches")],
    }
}

/// P6: PerfEvtSel0-1 186h, PerfCtr0-1 C1h. EN of PerfEvtSel0 enables both.
const fn p6(name: &'static str) -> Part {
    Part {
        name,
        event: "INST_RETIRED",
        start: &[(0xC1, PRESET_32), (0xC2, 0), (0x187, 0x79 | USR), (0x186, 0xC0 | INT | USR | EN)],
        stop: &[(0x186, 0)],
        again: &[(0xC1, PRESET_32)],
        totals: &[(1, 0, "cycles")],
    }
}

/// Knights Corner: PerfEvtSel0-1 28h, PerfCnt0-1 20h, global control 2Fh, overflow control 2Eh. The
/// handler stops, clears the overflow, without which there is no further interrupt, and starts.
const KNC: Part = Part {
    name: "knc",
    event: "INSTRUCTIONS_EXECUTED",
    start: &[
        (0x2F, 0),
        (0x2E, 3),
        (0x20, PRESET_40),
        (0x28, 0x16 | INT | USR | EN),
        (0x21, 0),
        (0x29, 0x2A | USR | EN),
        (0x2F, 3),
    ],
    stop: &[(0x2F, 0)],
    again: &[(0x2F, 0), (0x2E, 3), (0x20, PRESET_40), (0x2F, 3)],
    totals: &[(1, 0, "cycles")],
};

/// Pentium with MMX: CESR 11h, CTR0-1 12h. Counter 0 counts cycles (30h, clocks by bit 8) and shows
/// each on PM0; counter 1 counts instructions (16h) and shows its overflow on PM1 (bit 25). CPL 3
/// only (bits 7 and 23).
const P55C: Part = Part {
    name: "p55c",
    event: "INSTRUCTIONS_EXECUTED",
    start: &[
        (0x12, 0),
        (0x13, PRESET_40),
        (0x11, 0x30 | 1 << 7 | 1 << 8 | (0x16 | 1 << 7 | 1 << 9) << 16),
    ],
    stop: &[(0x11, 0)],
    again: &[],
    totals: &[(0, 0, "cycles"), (1, PRESET_40, "instructions")],
};

const ALL: &[Part] = &[P55C, p6("ppro"), p6("pii"), p6("p6"), p6("pm"), amd("k7"), amd("k8"), KNC];

impl Part {
    /// The part called `name` on the command line.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|part| part.name == name)
    }
}
