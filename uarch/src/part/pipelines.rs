//! The out-of-order pipelines of the parts: widths, depths and sizes.
//!
//! OG8 is AMD 25112 rev. 3.06 (Software Optimization Guide for AMD64 Processors), OG7 AMD 22007E (AMD Athlon
//! Processor x86 Code Optimization Guide), BKDG AMD 26094, and Fog the edition of about 2000 of A. Fog,
//! "How to optimize for the Pentium family of microprocessors".

use pmu_model::Signal;

use super::{k7_operations, k8_operations, p6_operations, pm_operations};
use crate::pipeline::out_of_order::{
    Core, Decoders, Fetch, Memory, PartialRegisters, Schedulers, SegmentLoads, Stalls,
    StoreForwarding,
};

/// What AMD's dispatch stalls are counted as: events D0h to DAh of BKDG, section 10.2.1.6.
const AMD_STALLS: Stalls = Stalls {
    any: Some(Signal::StallDispatchAny),
    reorder_buffer: Some(Signal::StallRobFull),
    integer: Some(Signal::StallRsFull),
    float: Some(Signal::StallFpuFull),
    memory: Some(Signal::StallLsFull),
    mispredicted: Some(Signal::StallBranchAbort),
    serialising: Some(Signal::StallSerialize),
    far: Some(Signal::StallFarOrResync),
    segment: Some(Signal::StallSegmentLoad),
    all_quiet: Some(Signal::StallAllQuiet),
    decoder_empty: Some(Signal::StallDecoderEmpty),
    without_float: true,
};

/// LS1 and LS2 (OG8 A.15 page 259, OG7 page 151): 12 and 32 places, two probes a cycle. Two loads of the
/// same bank (address bits 5:3) and another index (bits 14:6) cannot probe in the same cycle: OG8 5.9
/// page 114.
const AMD_MEMORY: Memory =
    Memory::InOrder { first: 12, second: 32, ports: 2, bank: 0x38, index: 0x7fc0 };

/// Cycles from the execution of a mispredicted branch to the arrival of the right window, so that the
/// bubble is the minimum of 10 cycles of OG8 page 253 and OG7 page 132. A branch that waits for nothing is
/// dispatched, issued one cycle later (`issue_delay`) and complete another one later; behind the window
/// come decoding and dispatch.
const AMD_REDIRECT: u8 = 10 + 1 - 1 - 1 - 2;

/// K8: Athlon 64 and Opteron.
pub static K8: Core = K8_CORE;

/// What K7 and K8 have in common.
const K8_CORE: Core = Core {
    table: &k8_operations::TABLE,
    fetch: Fetch {
        // 16-byte packets into a 32-byte pick window: OG8 chapter 4 page 71.
        window_shift: 4,
        windows: 2,
        // OG8 page 253.
        bubble: 1,
        // "Unconditional branch bubbles" are in event 87h: BKDG 10.2.1.5.
        bubble_stalls: true,
        // AMD's predecode bits find an instruction's end whatever its prefixes.
        length_change: 0,
    },
    decoders: Decoders::Lines { double: true },
    // Three macro-operations, 72 = 24 lines of 3: OG7 figure 1 page 131, which K8 shares; gcc athlon.md.
    width: 3,
    reorder_buffer: 24,
    // 3 x 8: OG8 A.11 page 256. 36: OG7 page 131.
    schedulers: Schedulers::Lanes { integer: 8, float: 36 },
    // Not sourced: the cycle behind dispatch.
    issue_delay: 1,
    // Floating-point execution begins at stage 12, integer execution at stage 11: gcc athlon.md.
    float_delay: 2,
    memory: AMD_MEMORY,
    // OG8 5.5 pages 100 to 103, OG7 pages 51 to 54: a load is compared with the most recent store that
    // address bits 11:2 match.
    forwarding: StoreForwarding { granule_shift: 2, aligned: true, low_byte: true },
    // Not sourced: as long as a load takes.
    forward_delay: 3,
    // One at least: OG8 5.2 page 95.
    misaligned: 1,
    redirect: AMD_REDIRECT,
    // Not sourced.
    decode_redirect: 4,
    // Not sourced.
    assist: 0,
    // OG8 appendix E.3.
    assists_special: false,
    partial: PartialRegisters::Merged,
    segment_loads: SegmentLoads::InTurn,
    folds_stack: false,
    fuses: false,
    float_pipes: [k8_operations::FADD, k8_operations::FMUL, k8_operations::FSTORE],
    stalls: AMD_STALLS,
};

/// K7: Athlon and Athlon XP.
pub static K7: Core = Core {
    table: &k7_operations::TABLE,
    decoders: Decoders::Lines { double: false },
    // 18 places for integers: OG7 page 131; six a lane.
    schedulers: Schedulers::Lanes { integer: 6, float: 36 },
    // Floating-point execution begins at stage 12, integer execution at stage 9: gcc athlon.md.
    float_delay: 4,
    ..K8_CORE
};

/// What is counted of the stalls of Intel's renamer: RESOURCE_STALLS (A2h) has them all, the wait for the
/// retirement of a mispredicted branch and for the store buffer to drain among them (Intel SDM volume 3B,
/// events of the P6 family).
const INTEL_STALLS: Stalls = Stalls {
    any: Some(Signal::StallResource),
    reorder_buffer: None,
    integer: None,
    float: None,
    memory: None,
    mispredicted: None,
    serialising: None,
    far: None,
    segment: None,
    all_quiet: None,
    decoder_empty: None,
    without_float: false,
};

/// The P6 family: Pentium Pro, II and III.
pub static P6: Core = P6_CORE;

/// What the family has in common.
const P6_CORE: Core = Core {
    table: &p6_operations::TABLE,
    fetch: Fetch {
        // Aligned blocks of 16 bytes, and a double buffer: Fog chapter 15.
        window_shift: 4,
        windows: 2,
        // A taken jump takes two cycles: Fog 29.1.
        bubble: 1,
        // IFU_MEM_STALL has only what memory and translation delay.
        bubble_stalls: false,
        // Not sourced.
        length_change: 3,
    },
    // Fog chapter 14: three decoders, the first for up to 4 micro-operations, the others for one of up
    // to 8 bytes; at most 6 micro-operations leave them. Three a cycle from microcode: not sourced.
    decoders: Decoders::Template { count: 3, first: 4, bytes: 8, queue: 6, microcode: 3 },
    // Three are renamed and retire a cycle: Fog chapter 14. The rest is not sourced (40 places in the
    // reorder buffer, 20 in the reservation station, 16 load and 12 store buffers are common
    // knowledge).
    width: 3,
    reorder_buffer: 40,
    schedulers: Schedulers::Unified { entries: 20 },
    issue_delay: 1,
    float_delay: 1,
    memory: Memory::Buffers { loads: 16, stores: 12 },
    // Fog, on partial memory stalls: the same address and no wider, and no store to the same bytes of
    // another page.
    forwarding: StoreForwarding { granule_shift: 0, aligned: false, low_byte: false },
    // Not sourced.
    forward_delay: 3,
    // Not sourced.
    misaligned: 6,
    // 10 cycles at least: Fog 22.2.2 has 10 to 20. See `AMD_REDIRECT` for the stages.
    redirect: 10 + 1 - 1 - 1 - 2,
    // Not sourced.
    decode_redirect: 4,
    // Fog chapter 29: 50 to 150.
    assist: 100,
    assists_special: true,
    partial: PartialRegisters::Renamed,
    segment_loads: SegmentLoads::Renamed,
    folds_stack: false,
    fuses: false,
    float_pipes: [0; 3],
    stalls: INTEL_STALLS,
};

/// Pentium M (Dothan).
pub static PM: Core = Core {
    table: &pm_operations::TABLE,
    // 12 cycles at least: not sourced.
    redirect: 12 + 1 - 1 - 1 - 2,
    // Not sourced; a place holds a fused micro-operation.
    schedulers: Schedulers::Unified { entries: 24 },
    folds_stack: true,
    fuses: true,
    ..P6_CORE
};
