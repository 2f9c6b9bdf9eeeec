//! What Pentium M's decoders make of instructions: what those of the P6 family make, with loads and
//! operations fused, and stores in one piece (Intel 248966-013 page 1-29), and without operations for the
//! stack pointer where PUSH, POP, CALL and RET change it (page 1-28).

use super::{
    intel_operations::{
        CALLS_FOLDED, CALLS_MEMORY_FOLDED, LOADS, Op, P01, PUSHES_FOLDED, PUSHES_MEMORY_FOLDED,
        RETURNS_FOLDED, STEP,
    },
    p6_float_operations::{FloatRows, MMX_FUSED, SSE, SSE_MOVES},
    p6_operations::Rows,
    sse2_operations::{ELSEWHERE, PACKED_128, SSE2},
};
use crate::pipeline::out_of_order::table::{
    ANY, MEMORY, Row, Table,
    behaviour::{BRANCH, SEGMENT_LOAD, STACK as STACK_POINTER},
};

/// Intel 248966-013.
const OR6: &str = "Intel 248966-013 pages 1-28, 1-29";
/// Nothing.
const NONE: &str = "not sourced";

/// The table of Pentium M.
pub static TABLE: Table = Table {
    rows: &[
        PACKED_128,
        Rows::<true>::MOVES,
        Rows::<true>::ARITHMETIC,
        Rows::<true>::BITS,
        STACK,
        Rows::<true>::STRINGS,
        Rows::<true>::CONTROL,
        Rows::<true>::SYSTEM,
        FloatRows::<true>::X87,
        MMX_FUSED,
        SSE,
        SSE_MOVES,
        SSE2,
        ELSEWHERE,
    ],
    step: STEP,
};

/// Pushes, pops, near calls and returns.
const STACK: &[Row] = &[
    Row::new(&["Push"], MEMORY, PUSHES_MEMORY_FOLDED, OR6).and(STACK_POINTER),
    Row::new(&["Push"], ANY, PUSHES_FOLDED, OR6).and(STACK_POINTER),
    Row::new(&["Pop"], MEMORY, Op::<true, P01, 1>::DESTINATION, NONE).in_all(5),
    Row::new(&["Pop"], ANY, LOADS, OR6).and(STACK_POINTER),
    Row::new(&["PushSegment"], ANY, PUSHES_FOLDED, NONE).in_all(2).and(STACK_POINTER),
    Row::new(&["PopSegment"], ANY, LOADS, NONE).in_all(9).and(STACK_POINTER | SEGMENT_LOAD),
    Row::new(&["Pushf"], ANY, PUSHES_FOLDED, NONE).in_all(15).and(STACK_POINTER),
    Row::new(&["Popf"], ANY, LOADS, NONE).in_all(17).and(STACK_POINTER),
    Row::new(&["Call"], MEMORY, CALLS_MEMORY_FOLDED, OR6).and(BRANCH | STACK_POINTER),
    Row::new(&["Call"], ANY, CALLS_FOLDED, OR6).and(BRANCH | STACK_POINTER),
    Row::new(&["Ret"], ANY, RETURNS_FOLDED, OR6).and(BRANCH | STACK_POINTER),
];
