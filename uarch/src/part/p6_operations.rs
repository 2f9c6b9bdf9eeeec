//! What the decoders of the P6 family make of instructions: general-purpose and system instructions. The
//! others are in `p6_float_operations.rs`, and what Pentium M does in another way in `pm_operations.rs`.
//!
//! `FOG` is A. Fog, "How to optimize for the Pentium family of microprocessors" (edition of about 2000),
//! section 29.1, whose counts of micro-operations by port these are. Where it has no delay, simple
//! operations take 1 cycle (gcc's ppro.md). Counts and delays of system instructions that it does not
//! list are estimates (`NONE`).

use super::{
    intel_operations::{
        CALLS, CALLS_MEMORY, LOADS, LOADS_ALL, NOTHING, Op, P0, P01, P1, POPS, PUSHES,
        PUSHES_MEMORY, RETURNS, STEP, STORES_ALL, Slow, Store,
    },
    p6_float_operations::{FloatRows, MMX_ROWS, SSE, SSE_MOVES},
    sse2_operations::{ELSEWHERE, PACKED_128, SSE2},
};
use crate::pipeline::out_of_order::table::{
    ANY, DESTINATION, MEMORY, REGISTER, Row, SOURCE, Table, Variant, W8, W16,
    behaviour::{
        self, ALL_QUIET, BRANCH, DIVIDE, DRAINS_STORES, FAR, FLOP, MULTIPLY, SEGMENT_LOAD,
        STACK as STACK_POINTER, SYNCHRONISES,
    },
};

/// Fog, section 29.1.
const FOG: &str = "Fog 29.1";
/// Nothing.
const NONE: &str = "not sourced";

/// A serialising instruction waits until the store buffer has drained (Intel SDM volume 3, "Serializing
/// Instructions"), and event 04h SB_DRAINS counts that.
pub(super) const SERIALISES: u16 = behaviour::SERIALISES | DRAINS_STORES;

/// The table of the P6 family: Pentium Pro, II and III.
pub static TABLE: Table = Table {
    rows: &[
        PACKED_128,
        Rows::<false>::MOVES,
        Rows::<false>::ARITHMETIC,
        Rows::<false>::BITS,
        STACK,
        Rows::<false>::STRINGS,
        Rows::<false>::CONTROL,
        Rows::<false>::SYSTEM,
        FloatRows::<false>::X87,
        MMX_ROWS,
        SSE,
        SSE_MOVES,
        SSE2,
        ELSEWHERE,
    ],
    step: STEP,
};

/// Pushes, pops, near calls and returns, which add to the stack pointer by a micro-operation.
const STACK: &[Row] = &[
    Row::new(&["Push"], MEMORY, PUSHES_MEMORY, FOG).and(STACK_POINTER),
    Row::new(&["Push"], ANY, PUSHES, FOG).and(STACK_POINTER),
    Row::new(&["Pop"], MEMORY, Op::<false, P01, 1>::DESTINATION, FOG).in_all(8),
    Row::new(&["Pop"], ANY, POPS, FOG).and(STACK_POINTER),
    Row::new(&["PushSegment"], ANY, PUSHES, FOG).in_all(4).and(STACK_POINTER),
    Row::new(&["PopSegment"], ANY, POPS, FOG).in_all(9).and(STACK_POINTER | SEGMENT_LOAD),
    Row::new(&["Pushf"], ANY, PUSHES, FOG).in_all(16).and(STACK_POINTER),
    Row::new(&["Popf"], ANY, POPS, FOG).in_all(17).and(STACK_POINTER),
    Row::new(&["Call"], MEMORY, CALLS_MEMORY, FOG).in_all(8).and(BRANCH | STACK_POINTER),
    Row::new(&["Call"], ANY, CALLS, FOG).and(BRANCH | STACK_POINTER),
    Row::new(&["Ret"], ANY, RETURNS, FOG).in_all(4).and(BRANCH | STACK_POINTER),
];

/// Rows that the P6 family and Pentium M share, apart from what Pentium M fuses.
pub(super) struct Rows<const FUSED: bool>;

impl<const FUSED: bool> Rows<FUSED> {
    /// Moves and conversions.
    pub(super) const MOVES: &[Row] = &[
        Row::new(&["Mov", "Movzx", "Movsx"], REGISTER, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Mov", "Movzx", "Movsx"], SOURCE, LOADS, FOG),
        Row::new(&["Movzx", "Movsx"], ANY, LOADS, FOG),
        Row::new(&["Mov"], ANY, Store::<FUSED>::REGISTER, FOG),
        Row::new(&["Cmovcc"], REGISTER, Op::<FUSED, P0, 2>::TWO, FOG),
        Row::new(&["Cmovcc"], ANY, Op::<FUSED, P0, 2>::TWO_SOURCE, FOG),
        Row::new(&["Bswap"], ANY, Op::<FUSED, P0, 2>::TWO, FOG),
        Row::new(&["Setcc"], REGISTER, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Setcc"], ANY, Op::<FUSED, P01, 1>::STORE, FOG),
        Row::new(&["Cbw", "Cwde", "Cwd", "Cdq"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Lea"], ANY, Op::<FUSED, P0, 1>::ADDRESS, FOG),
        Row::new(&["Xchg"], REGISTER, Op::<FUSED, P01, 2>::TWO, FOG).in_all(3),
        Row::new(&["Xchg"], ANY, Op::<FUSED, P01, 1>::DESTINATION, FOG).in_all(7).and(SYNCHRONISES),
        Row::new(&["Xadd"], REGISTER, Op::<FUSED, P01, 2>::TWO, NONE).in_all(4),
        Row::new(&["Xadd"], ANY, Op::<FUSED, P01, 1>::DESTINATION, NONE).in_all(7),
        Row::new(&["Cmpxchg"], REGISTER, Op::<FUSED, P01, 3>::TWO, NONE).in_all(5),
        Row::new(&["Cmpxchg"], ANY, Op::<FUSED, P01, 2>::DESTINATION, NONE).in_all(8),
        Row::new(&["Cmpxchg8b"], ANY, Op::<FUSED, P01, 4>::DESTINATION, NONE).in_all(15),
        Row::new(&["Xlatb"], ANY, Op::<FUSED, P01, 1>::SOURCE, FOG),
        Row::new(&["Lahf", "Sahf", "Salc"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Clc", "Stc", "Cmc"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Cld", "Std"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG).in_all(4),
    ];

    /// Arithmetic and logic.
    pub(super) const ARITHMETIC: &[Row] = &[
        Row::new(&["Cmp", "Test"], MEMORY, Op::<FUSED, P01, 1>::SOURCE, FOG),
        Row::new(&["Add", "Sub", "And", "Or", "Xor"], SOURCE, Op::<FUSED, P01, 1>::SOURCE, FOG),
        Row::new(
            &["Add", "Sub", "And", "Or", "Xor", "Inc", "Dec", "Neg", "Not"],
            MEMORY,
            Op::<FUSED, P01, 1>::DESTINATION,
            FOG,
        ),
        Row::new(
            &["Add", "Sub", "And", "Or", "Xor", "Inc", "Dec", "Neg", "Not", "Cmp", "Test"],
            ANY,
            Op::<FUSED, P01, 1>::REGISTER,
            FOG,
        ),
        Row::new(&["Adc", "Sbb"], REGISTER, Op::<FUSED, P01, 2>::TWO, FOG),
        Row::new(&["Adc", "Sbb"], SOURCE, Op::<FUSED, P01, 2>::TWO_SOURCE, FOG),
        Row::new(&["Adc", "Sbb"], ANY, Op::<FUSED, P01, 2>::TWO_DESTINATION, FOG).in_all(6),
        // In the multiplier and the divider of the floating-point unit: event 10h counts them too (Intel SDM).
        Row::new(&["Mul", "Imul"], REGISTER, Op::<FUSED, P0, 4>::REGISTER, FOG)
            .and(FLOP | MULTIPLY),
        Row::new(&["Mul", "Imul"], ANY, Op::<FUSED, P0, 4>::SOURCE, FOG).and(FLOP | MULTIPLY),
        Row::new(&["Div", "Idiv"], REGISTER, Slow::<FUSED, 19, 12>::DIVIDE, FOG)
            .of_width(W8)
            .in_all(3)
            .and(FLOP | DIVIDE),
        Row::new(&["Div", "Idiv"], REGISTER, Slow::<FUSED, 23, 21>::DIVIDE, FOG)
            .of_width(W16)
            .in_all(4)
            .and(FLOP | DIVIDE),
        Row::new(&["Div", "Idiv"], REGISTER, Slow::<FUSED, 39, 37>::DIVIDE, FOG)
            .in_all(4)
            .and(FLOP | DIVIDE),
        Row::new(&["Div", "Idiv"], ANY, Slow::<FUSED, 19, 12>::DIVIDE_SOURCE, FOG)
            .of_width(W8)
            .in_all(4)
            .and(FLOP | DIVIDE),
        Row::new(&["Div", "Idiv"], ANY, Slow::<FUSED, 23, 21>::DIVIDE_SOURCE, FOG)
            .of_width(W16)
            .in_all(5)
            .and(FLOP | DIVIDE),
        Row::new(&["Div", "Idiv"], ANY, Slow::<FUSED, 39, 37>::DIVIDE_SOURCE, FOG)
            .in_all(5)
            .and(FLOP | DIVIDE),
        Row::new(&["Aaa", "Aas", "Daa", "Das"], ANY, Op::<FUSED, P0, 1>::REGISTER, FOG),
        Row::new(&["Aad"], ANY, Op::<FUSED, P0, 4>::REGISTER, FOG).in_all(3),
        Row::new(&["Aam"], ANY, Op::<FUSED, P0, 15>::REGISTER, FOG).in_all(4).and(DIVIDE),
    ];

    /// Shifts and bits.
    pub(super) const BITS: &[Row] = &[
        Row::new(&["Shl", "Shr", "Sar", "Rol", "Ror"], REGISTER, Op::<FUSED, P0, 1>::REGISTER, FOG),
        Row::new(&["Shl", "Shr", "Sar", "Rol", "Ror"], ANY, Op::<FUSED, P0, 1>::DESTINATION, FOG),
        Row::new(&["Rcl", "Rcr"], REGISTER, Op::<FUSED, P0, 6>::TWO, FOG)
            .when(Variant::Long)
            .in_all(6),
        Row::new(&["Rcl", "Rcr"], REGISTER, Op::<FUSED, P0, 2>::TWO, FOG),
        Row::new(&["Rcl", "Rcr"], ANY, Op::<FUSED, P0, 6>::TWO_DESTINATION, FOG)
            .when(Variant::Long)
            .in_all(9),
        Row::new(&["Rcl", "Rcr"], ANY, Op::<FUSED, P0, 2>::TWO_DESTINATION, FOG).in_all(6),
        Row::new(&["Shld", "Shrd"], REGISTER, Op::<FUSED, P0, 2>::TWO, FOG),
        Row::new(&["Shld", "Shrd"], ANY, Op::<FUSED, P0, 2>::TWO_DESTINATION, FOG).in_all(6),
        Row::new(&["Bt", "Bts", "Btr", "Btc"], REGISTER, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Bt"], ANY, Op::<FUSED, P01, 1>::SOURCE, FOG).in_all(8),
        Row::new(&["Bts", "Btr", "Btc"], ANY, Op::<FUSED, P01, 1>::DESTINATION, FOG).in_all(10),
        Row::new(&["Bsf", "Bsr"], REGISTER, Op::<FUSED, P1, 2>::TWO, FOG),
        Row::new(&["Bsf", "Bsr"], ANY, Op::<FUSED, P1, 2>::TWO_SOURCE, FOG),
    ];

    /// String instructions and ports; what pushes and pops several registers.
    pub(super) const STRINGS: &[Row] = &[
        Row::new(&["Pusha"], ANY, STORES_ALL, FOG).in_all(18),
        Row::new(&["Popa"], ANY, LOADS_ALL, FOG).in_all(10),
        Row::new(&["Enter"], ANY, Store::<FUSED>::REGISTER, FOG).in_all(14),
        Row::new(&["Leave"], ANY, Op::<FUSED, P01, 1>::SOURCE, FOG).in_all(3),
        // 10 and 6 for each element: the loads, the additions to pointer and counter, the jump.
        Row::new(&["Lods"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG)
            .in_all(10)
            .each(Op::<FUSED, P01, 2>::TWO_SOURCE)
            .when(Variant::Repeated),
        Row::new(&["Lods"], ANY, Op::<FUSED, P01, 1>::SOURCE, FOG),
        Row::new(&["Stos"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG)
            .in_all(10)
            .each(Op::<FUSED, P01, 1>::STORE)
            .when(Variant::Repeated),
        Row::new(&["Stos"], ANY, Op::<FUSED, P01, 1>::STORE, FOG),
        Row::new(&["Movs"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG)
            .in_all(10)
            .each(Op::<FUSED, P01, 2>::TWO_DESTINATION)
            .when(Variant::Repeated),
        Row::new(&["Movs"], ANY, Store::<FUSED>::COPY, FOG).in_all(6),
        Row::new(&["Scas"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG)
            .in_all(12)
            .each(Op::<FUSED, P01, 2>::TWO_SOURCE)
            .when(Variant::Repeated),
        Row::new(&["Scas"], ANY, Op::<FUSED, P01, 2>::TWO_SOURCE, FOG).in_all(3),
        Row::new(&["Cmps"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG)
            .in_all(12)
            .each(Op::<FUSED, P01, 2>::TWO_SOURCE)
            .when(Variant::Repeated),
        Row::new(&["Cmps"], ANY, Op::<FUSED, P01, 2>::TWO_SOURCE, FOG).in_all(6),
        Row::new(&["Ins", "Outs"], ANY, Op::<FUSED, P0, 300>::REGISTER, NONE)
            .in_all(18)
            .each(Store::<FUSED>::COPY)
            .and(ALL_QUIET | DRAINS_STORES | SYNCHRONISES),
        Row::new(&["In", "Out"], ANY, Op::<FUSED, P0, 300>::REGISTER, FOG)
            .in_all(18)
            .and(ALL_QUIET | DRAINS_STORES | SYNCHRONISES),
    ];

    /// Near and far transfers.
    pub(super) const CONTROL: &[Row] = &[
        Row::new(&["Jcc"], ANY, Op::<FUSED, P1, 1>::REGISTER, FOG).and(BRANCH),
        Row::new(&["Jmp"], MEMORY, Op::<FUSED, P1, 1>::SOURCE, FOG).and(BRANCH),
        Row::new(&["Jmp"], ANY, Op::<FUSED, P1, 1>::REGISTER, FOG).and(BRANCH),
        Row::new(&["Jcxz"], ANY, Op::<FUSED, P1, 2>::TWO, FOG).and(BRANCH),
        Row::new(&["Loop", "Loope", "Loopne"], ANY, Op::<FUSED, P1, 2>::TWO, FOG)
            .in_all(11)
            .and(BRANCH),
        Row::new(&["JmpFar"], ANY, LOADS, FOG).in_all(22).and(BRANCH | FAR),
        Row::new(&["CallFar"], MEMORY, Store::<FUSED>::COPY, FOG).in_all(33).and(BRANCH | FAR),
        Row::new(&["CallFar"], ANY, Store::<FUSED>::HALVES, FOG).in_all(33).and(BRANCH | FAR),
        Row::new(&["RetFar"], ANY, LOADS, FOG).in_all(26).and(BRANCH | FAR),
        Row::new(&["Into"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG).in_all(5).and(BRANCH),
        Row::new(&["Int", "Int1", "Int3"], ANY, Store::<FUSED>::HALVES, NONE)
            .in_all(60)
            .and(BRANCH | FAR),
        Row::new(&["Iret"], ANY, LOADS_ALL, NONE).in_all(50).and(BRANCH | FAR | SERIALISES),
        Row::new(&["Sysenter", "Sysexit"], ANY, Op::<FUSED, P0, 20>::REGISTER, NONE)
            .in_all(25)
            .and(BRANCH | FAR),
        Row::new(&["Bound"], ANY, Op::<FUSED, P0, 4>::SOURCE, FOG).in_all(15),
        Row::new(&["Ud", "Invalid", "TooLong"], ANY, NOTHING, NONE),
        // What the processor does to deliver an interrupt or exception: no instruction's name. It drains the
        // store buffer: Intel SDM volume 3, event 04h.
        Row::new(&["Delivery"], ANY, STORES_ALL, NONE).in_all(80).and(FAR | DRAINS_STORES),
    ];

    /// System instructions and hints.
    pub(super) const SYSTEM: &[Row] = &[
        Row::new(&["Nop", "HintNop", "Pause"], ANY, NOTHING, FOG),
        Row::new(&["Prefetchnta", "Prefetcht0", "Prefetcht1", "Prefetcht2"], ANY, LOADS, FOG),
        Row::new(&["Sfence"], ANY, Store::<FUSED>::REGISTER, FOG).and(DRAINS_STORES | SYNCHRONISES),
        Row::new(&["MovToSegment"], MEMORY, Op::<FUSED, P01, 5>::SOURCE, FOG)
            .in_all(8)
            .and(SEGMENT_LOAD),
        Row::new(&["MovToSegment"], ANY, Op::<FUSED, P01, 5>::REGISTER, FOG)
            .in_all(8)
            .and(SEGMENT_LOAD),
        Row::new(&["MovFromSegment"], DESTINATION, Op::<FUSED, P01, 1>::STORE, FOG),
        Row::new(&["MovFromSegment"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG),
        Row::new(&["Lds", "Les", "Lfs", "Lgs", "Lss"], ANY, Op::<FUSED, P01, 5>::SOURCE, FOG)
            .in_all(11)
            .and(SEGMENT_LOAD),
        Row::new(&["Arpl"], MEMORY, Op::<FUSED, P01, 6>::DESTINATION, NONE).in_all(12),
        Row::new(&["Arpl"], ANY, Op::<FUSED, P01, 6>::REGISTER, NONE).in_all(10),
        Row::new(&["Verr", "Verw", "Lar", "Lsl"], MEMORY, Op::<FUSED, P01, 12>::SOURCE, NONE)
            .in_all(16),
        Row::new(&["Verr", "Verw", "Lar", "Lsl"], ANY, Op::<FUSED, P01, 12>::REGISTER, NONE)
            .in_all(16),
        Row::new(&["Lgdt", "Lidt"], ANY, Op::<FUSED, P01, 20>::SOURCE, NONE)
            .in_all(20)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["Lldt", "Ltr"], MEMORY, Op::<FUSED, P01, 20>::SOURCE, NONE)
            .in_all(25)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["Lldt", "Ltr"], ANY, Op::<FUSED, P01, 20>::REGISTER, NONE)
            .in_all(25)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["Lmsw"], MEMORY, Op::<FUSED, P01, 10>::SOURCE, NONE).in_all(12).and(SERIALISES),
        Row::new(&["Lmsw", "Clts"], ANY, Op::<FUSED, P01, 10>::REGISTER, NONE)
            .in_all(12)
            .and(SERIALISES),
        Row::new(&["Sgdt", "Sidt"], ANY, Store::<FUSED>::HALVES, NONE).in_all(12),
        Row::new(&["Sldt", "Str", "Smsw"], MEMORY, Store::<FUSED>::REGISTER, NONE).in_all(4),
        Row::new(&["Sldt", "Str", "Smsw"], ANY, Op::<FUSED, P01, 3>::REGISTER, NONE).in_all(4),
        Row::new(&["MovToControl", "MovToDebug"], ANY, Op::<FUSED, P01, 25>::REGISTER, NONE)
            .in_all(20)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["MovFromControl", "MovFromDebug"], ANY, Op::<FUSED, P01, 4>::REGISTER, NONE)
            .in_all(5),
        Row::new(&["Invlpg"], ANY, Op::<FUSED, P01, 30>::REGISTER, NONE)
            .in_all(25)
            .and(SERIALISES | ALL_QUIET | SYNCHRONISES),
        Row::new(&["Invd", "Wbinvd"], ANY, Op::<FUSED, P01, 200>::REGISTER, NONE)
            .in_all(40)
            .and(SERIALISES | ALL_QUIET | SYNCHRONISES),
        Row::new(&["Cpuid"], ANY, Op::<FUSED, P01, 10>::REGISTER, FOG)
            .in_all(36)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["Rdtsc"], ANY, Op::<FUSED, P01, 10>::REGISTER, FOG).in_all(31),
        Row::new(&["Rdpmc", "Rdmsr"], ANY, Op::<FUSED, P01, 10>::REGISTER, NONE).in_all(31),
        Row::new(&["Wrmsr"], ANY, Op::<FUSED, P01, 25>::REGISTER, NONE)
            .in_all(40)
            .and(SERIALISES | SYNCHRONISES),
        Row::new(&["Cli"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG).in_all(9),
        Row::new(&["Sti"], ANY, Op::<FUSED, P01, 1>::REGISTER, FOG).in_all(17),
        Row::new(&["Hlt"], ANY, NOTHING, NONE).in_all(10).and(SERIALISES | ALL_QUIET),
        Row::new(&["Rsm"], ANY, LOADS_ALL, NONE).in_all(120).and(SERIALISES | FAR | SYNCHRONISES),
    ];
}
