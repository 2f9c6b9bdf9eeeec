//! What K7's decoders make of instructions: what K8's do, but for the times below, and without DirectPath
//! Double. What is Double in K8 is VectorPath in K7 (gcc athlon.md), see [`Decoders::Lines`].
//!
//! Floating-point operations begin three stages behind the integer stage in which loads do, so that a
//! load adds nothing to them (AMD 22007 page 151; gcc's athlon.md).
//!
//! [`Decoders::Lines`]: crate::pipeline::out_of_order::Decoders::Lines

use super::{
    amd_operations::{Address, Alu, FANY, FSTORE, Float, Root, STEP},
    k8_float_operations::{MMX_3DNOW, SSE, SSE_MOVES, X87},
    k8_operations::{ARITHMETIC, BITS, CONTROL, MOVES, STACK, STRINGS, SYSTEM},
};
use crate::pipeline::out_of_order::table::{
    ANY, MEMORY, REGISTER, Row, Table, W80,
    behaviour::{DIVIDE, FLOP, MULTIPLY},
};

/// gcc's description.
const GCC: &str = "gcc athlon.md, x86-tune-costs.h";
/// The table of K7.
pub static TABLE: Table = Table {
    rows: &[
        MOVES, ARITHMETIC, PRODUCTS, BITS, STACK, CONTROL, STRINGS, SYSTEM, X87_SLOW, X87,
        MMX_3DNOW, SSE, SSE_MOVES,
    ],
    step: STEP,
};

/// LEA and multiplications.
const PRODUCTS: &[Row] = &[
    Row::new(&["Lea"], ANY, Address::<2>::OPERATIONS, GCC),
    Row::new(&["Mul", "Imul"], REGISTER, Alu::<5>::REGISTER, GCC).in_all(2).and(MULTIPLY),
    Row::new(&["Mul", "Imul"], MEMORY, Alu::<5>::SOURCE, GCC).in_all(2).and(MULTIPLY),
];

/// The x87 instructions that take another time than in K8.
const X87_SLOW: &[Row] = &[
    Row::new(&["Fdiv", "Fdivp", "Fdivr", "Fdivrp"], REGISTER, Root::<24, 21>::REGISTER, GCC)
        .and(FLOP | DIVIDE),
    Row::new(&["Fdiv", "Fdivp", "Fdivr", "Fdivrp"], MEMORY, Root::<24, 21>::SOURCE, GCC)
        .and(FLOP | DIVIDE),
    Row::new(&["Fcmovcc"], ANY, Float::<FANY, 7>::REGISTER, GCC).in_all(7),
    Row::new(&["Fld"], MEMORY, Float::<FANY, 12>::SOURCE, GCC).of_width(W80).in_all(7),
    // Forwarded past the pipe.
    Row::new(&["Fld"], MEMORY, Float::<FANY, 0>::SOURCE, GCC),
    Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Float::<FANY, 10>::STORE, GCC)
        .of_width(W80)
        .in_all(7),
    Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Float::<FSTORE, 4>::STORE, GCC),
];
