//! The geometries of the parts, typed in from their documents.
//!
//! Intel's are the descriptors of CPUID function 2 that real parts return (dumps in Bochs' `cpudb`), decoded
//! with Intel 243191, table 3-9; AMD's those of functions 8000_0005h and 8000_0006h, decoded with AMD 25481.

use guest_tests::part::{Event, event};

/// Sets and ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) sets: u32,
    pub(super) ways: u32,
}

impl Array {
    pub(super) fn entries(self) -> u32 {
        self.sets * self.ways
    }
}

const fn array(sets: u32, ways: u32) -> Array {
    Array { sets, ways }
}

const fn full(ways: u32) -> Array {
    Array { sets: 1, ways }
}

/// Which entry of a full set goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replacement {
    /// The least recently used.
    Lru,
    /// No document says.
    Unknown,
}

/// What stands behind a first level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) array: Array,
    /// Whether it has none of what the first level has.
    pub(super) exclusive: bool,
}

/// The counters' events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events {
    /// Loads that the data cache did not have.
    pub(super) data: Event,
    /// Loads that the L2 did not have either.
    pub(super) second: Option<Event>,
    /// Accesses that the first level of the TLB did not have, and that of those which the second had.
    pub(super) data_tlb: Option<(Event, Option<Event>)>,
    /// Fetches that the instruction cache did not have.
    pub(super) code: Event,
    /// Fetches that no level of the TLB had, and those that the second level had.
    pub(super) code_tlb: (Event, Option<Event>),
}

/// A part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) name: &'static str,
    pub(super) line: u32,
    pub(super) code: Array,
    pub(super) data: Array,
    pub(super) second: Option<Second>,
    pub(super) data_tlb: Array,
    pub(super) code_tlb: Array,
    /// Behind each of the two.
    pub(super) second_tlb: Option<Second>,
    /// Data pages of 4 MiB.
    pub(super) large: Array,
    pub(super) replacement: Replacement,
    /// Cycles of a load that the data cache has, at least and at most.
    pub(super) latency: (f64, f64),
    /// Those of one that only the L2 has, if a document tells.
    pub(super) second_latency: Option<(f64, f64)>,
    pub(super) events: Events,
    /// Where the numbers come from.
    pub(super) source: &'static str,
}

/// Intel SDM volume 3, "Performance-Monitoring Events", Pentium: DATA_READ_MISS, DATA_TLB_MISS,
/// CODE_CACHE_MISS, CODE_TLB_MISS.
const P55C: Geometry = Geometry {
    name: "p55c",
    line: 32,
    code: array(128, 4),
    data: array(128, 4),
    // On the board: no counter tells what it has.
    second: None,
    data_tlb: full(64),
    code_tlb: full(32),
    second_tlb: None,
    large: full(64),
    replacement: Replacement::Unknown,
    latency: (2.0, 2.2),
    second_latency: None,
    events: Events {
        data: event(0x03),
        second: None,
        data_tlb: Some((event(0x02), None)),
        code: event(0x0E),
        code_tlb: (event(0x0D), None),
    },
    source: "Intel 243185 (data sheet): 16 KiB, 4 ways, lines of 32; TLBs not sourced",
};

/// Intel SDM volume 3, P6 family: DCU_LINES_IN, L2_LD in state Invalid, IFU_IFETCH_MISS, ITLB_MISS. No event
/// counts misses of the data TLB.
const PPRO: Geometry = Geometry {
    name: "ppro",
    line: 32,
    code: array(64, 4),
    data: array(128, 2),
    second: Some(Second { array: array(2048, 4), exclusive: false }),
    data_tlb: array(16, 4),
    code_tlb: array(8, 4),
    second_tlb: None,
    large: array(2, 4),
    replacement: Replacement::Unknown,
    latency: (3.0, 3.2),
    second_latency: None,
    events: Events {
        data: event(0x45),
        second: Some(event(0x0129)),
        data_tlb: None,
        code: event(0x81),
        code_tlb: (event(0x85), None),
    },
    source: "descriptors 01h to 04h, 06h, 0Ah, 42h",
};

const PII: Geometry = Geometry {
    name: "pii",
    code: array(128, 4),
    data: array(128, 4),
    second: Some(Second { array: array(4096, 4), exclusive: false }),
    second_latency: Some((15.0, 21.0)),
    source: "descriptors 01h to 04h, 08h, 0Ch, 43h",
    ..PPRO
};

const P6: Geometry = Geometry {
    name: "p6",
    second: Some(Second { array: array(1024, 8), exclusive: false }),
    second_latency: None,
    source: "descriptors 01h to 04h, 08h, 0Ch, 82h",
    ..PII
};

/// L2_LD in state Invalid, whoever brings the line.
const PM: Geometry = Geometry {
    name: "pm",
    line: 64,
    code: array(64, 8),
    data: array(64, 8),
    second: Some(Second { array: array(4096, 8), exclusive: false }),
    data_tlb: array(32, 4),
    code_tlb: array(32, 4),
    events: Events { second: Some(event(0x2129)), ..PPRO.events },
    source: "descriptors 02h, 04h, 2Ch, 30h, 7Dh, B0h, B3h",
    ..PPRO
};

/// AMD 22007E, appendix D: 41h, 43h, 45h, 46h, 81h, 84h, 85h.
const K7: Geometry = Geometry {
    name: "k7",
    line: 64,
    code: array(512, 2),
    data: array(512, 2),
    second: Some(Second { array: array(256, 16), exclusive: true }),
    data_tlb: full(24),
    code_tlb: full(16),
    second_tlb: Some(Second { array: array(64, 4), exclusive: false }),
    large: array(2, 4),
    replacement: Replacement::Lru,
    latency: (3.0, 3.2),
    second_latency: None,
    events: Events {
        data: event(0x41),
        second: Some(event(0x1F43)),
        data_tlb: Some((event(0x46), Some(event(0x45)))),
        code: event(0x81),
        code_tlb: (event(0x85), Some(event(0x84))),
    },
    source: "AMD 22007E, appendix A; 8000_0005h and 8000_0006h of model 4",
};

const K8: Geometry = Geometry {
    name: "k8",
    second: Some(Second { array: array(1024, 16), exclusive: true }),
    data_tlb: full(32),
    code_tlb: full(32),
    second_tlb: Some(Second { array: array(128, 4), exclusive: true }),
    second_latency: Some((11.0, 20.0)),
    large: full(8),
    source: "AMD 25112, appendix A; 8000_0005h FF08FF08h, FF20FF20h, 8000_0006h 42004200h",
    ..K7
};

/// All of them.
pub(super) const ALL: [Geometry; 7] = [P55C, PPRO, PII, P6, PM, K7, K8];
