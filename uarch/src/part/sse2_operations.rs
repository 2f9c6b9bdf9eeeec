//! What Intel's decoders make of SSE2 and SSE3, and of what neither the P6 family nor Pentium M has.
//!
//! Pentium M executes operations on 128 bits as two of 64 bits, like the P6 family. Its figures for SSE2
//! are not sourced: they are those of the same operations in SSE and MMX, and of gcc's `pentium4` and
//! `nocona` costs for conversions. A part that does not have them has the rows for a guest that is given
//! more instructions than the processor.

use super::{
    intel_operations::{LOADS, LOADS_HALVES, NOTHING, Op, P0, P01, P1, Slow, Store},
    p6_float_operations::{PACKED, PRODUCTS, SHIFTS},
};
use crate::pipeline::out_of_order::table::{
    ANY, ONE, REGISTER, Row, SOURCE, W128,
    behaviour::{BRANCH, DIVIDE, DRAINS_STORES, FAR, MULTIPLY, SERIALISES, SYNCHRONISES},
};

/// Nothing.
const NONE: &str = "not sourced";

/// Forms with a source in memory.
const SOURCES: u8 = SOURCE | ONE;

/// Integer operations on 128 bits.
pub(super) const PACKED_128: &[Row] = &[
    Row::new(PACKED, REGISTER, Op::<false, P01, 1>::HALVES, NONE).of_width(W128),
    Row::new(PACKED, ANY, Op::<false, P01, 1>::HALVES_SOURCE, NONE).of_width(W128),
    Row::new(SHIFTS, REGISTER, Op::<false, P1, 1>::HALVES, NONE).of_width(W128),
    Row::new(SHIFTS, ANY, Op::<false, P1, 1>::HALVES_SOURCE, NONE).of_width(W128),
    Row::new(PRODUCTS, REGISTER, Op::<false, P0, 3>::HALVES, NONE).of_width(W128).and(MULTIPLY),
    Row::new(PRODUCTS, ANY, Op::<false, P0, 3>::HALVES_SOURCE, NONE).of_width(W128).and(MULTIPLY),
];

/// SSE2 and SSE3.
pub(super) const SSE2: &[Row] = &[
    Row::new(&["Paddq", "Psubq"], REGISTER, Op::<false, P01, 2>::HALVES, NONE),
    Row::new(&["Paddq", "Psubq"], ANY, Op::<false, P01, 2>::HALVES_SOURCE, NONE),
    Row::new(SHUFFLES, REGISTER, Op::<false, P1, 2>::HALVES, NONE),
    Row::new(SHUFFLES, ANY, Op::<false, P1, 2>::HALVES_SOURCE, NONE),
    Row::new(&["Pmuludq"], REGISTER, Op::<false, P0, 4>::HALVES, NONE).and(MULTIPLY),
    Row::new(&["Pmuludq"], ANY, Op::<false, P0, 4>::HALVES_SOURCE, NONE).and(MULTIPLY),
    Row::new(SCALAR_ADD, REGISTER, Op::<false, P1, 3>::REGISTER, NONE),
    Row::new(SCALAR_ADD, ANY, Op::<false, P1, 3>::SOURCE, NONE),
    Row::new(PACKED_ADD, REGISTER, Op::<false, P1, 3>::HALVES, NONE),
    Row::new(PACKED_ADD, ANY, Op::<false, P1, 3>::HALVES_SOURCE, NONE),
    Row::new(&["Mulsd"], REGISTER, Slow::<false, 5, 2>::MULTIPLY, NONE).and(MULTIPLY),
    Row::new(&["Mulsd"], ANY, Slow::<false, 5, 2>::MULTIPLY_SOURCE, NONE).and(MULTIPLY),
    Row::new(&["Mulpd"], REGISTER, Op::<false, P0, 5>::HALVES, NONE).and(MULTIPLY),
    Row::new(&["Mulpd"], ANY, Op::<false, P0, 5>::HALVES_SOURCE, NONE).and(MULTIPLY),
    Row::new(&["Divsd"], REGISTER, Slow::<false, 32, 31>::DIVIDE, NONE).and(DIVIDE),
    Row::new(&["Divsd"], ANY, Slow::<false, 32, 31>::DIVIDE_SOURCE, NONE).and(DIVIDE),
    Row::new(&["Divpd"], REGISTER, Slow::<false, 32, 31>::DIVIDE_HALVES, NONE).and(DIVIDE),
    Row::new(&["Divpd"], ANY, Slow::<false, 32, 31>::DIVIDE_HALVES_SOURCE, NONE).and(DIVIDE),
    Row::new(&["Sqrtsd"], REGISTER, Slow::<false, 57, 56>::DIVIDE, NONE),
    Row::new(&["Sqrtsd"], ANY, Slow::<false, 57, 56>::DIVIDE_SOURCE, NONE),
    Row::new(&["Sqrtpd"], REGISTER, Slow::<false, 57, 56>::DIVIDE_HALVES, NONE),
    Row::new(&["Sqrtpd"], ANY, Slow::<false, 57, 56>::DIVIDE_HALVES_SOURCE, NONE),
    Row::new(&["Comisd", "Ucomisd"], REGISTER, Op::<false, P0, 1>::REGISTER, NONE),
    Row::new(&["Comisd", "Ucomisd"], ANY, Op::<false, P0, 1>::SOURCE, NONE),
    Row::new(CONVERSIONS, REGISTER, Op::<false, P1, 4>::TWO, NONE),
    Row::new(CONVERSIONS, ANY, Op::<false, P1, 4>::TWO_SOURCE, NONE),
    Row::new(&["Movsd"], REGISTER, Op::<false, P01, 1>::REGISTER, NONE),
    Row::new(&["Movsd"], SOURCES, LOADS, NONE),
    Row::new(&["Movsd", "Movnti"], ANY, Store::<false>::REGISTER, NONE),
    Row::new(HALF_MOVES, REGISTER, Op::<false, P01, 1>::REGISTER, NONE),
    Row::new(HALF_MOVES, SOURCES, Op::<false, P01, 1>::SOURCE, NONE),
    Row::new(HALF_MOVES, ANY, Store::<false>::REGISTER, NONE),
    Row::new(WHOLE_MOVES, REGISTER, Op::<false, P01, 1>::HALVES, NONE),
    Row::new(WHOLE_MOVES, SOURCES, LOADS_HALVES, NONE),
    Row::new(WHOLE_MOVES, ANY, Store::<false>::HALVES, NONE),
    Row::new(&["Movq2dq", "Movdq2q"], ANY, Op::<false, P01, 1>::REGISTER, NONE),
    Row::new(&["Movmskpd"], ANY, Op::<false, P0, 1>::REGISTER, NONE),
    Row::new(&["Maskmovdqu"], ANY, Op::<false, P0, 2>::STORE, NONE).in_all(8),
    Row::new(&["Clflush"], ANY, Store::<false>::REGISTER, NONE).in_all(4),
    Row::new(&["Lfence"], ANY, NOTHING, NONE).in_all(4).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Mfence"], ANY, NOTHING, NONE)
        .in_all(4)
        .and(SERIALISES | DRAINS_STORES | SYNCHRONISES),
];

/// Instructions of neither: of 64-bit mode, 3DNow!, AMD's system calls, Knights Corner.
pub(super) const ELSEWHERE: &[Row] = &[
    Row::new(&["Cdqe", "Cqo"], ANY, Op::<false, P01, 1>::REGISTER, NONE),
    Row::new(&["Movsxd"], SOURCES, LOADS, NONE),
    Row::new(&["Movsxd"], ANY, Op::<false, P01, 1>::REGISTER, NONE),
    Row::new(&["Cmpxchg16b"], ANY, Op::<false, P01, 4>::DESTINATION, NONE).in_all(20),
    Row::new(&["Prefetch", "Prefetchw", "Prefetchwt1"], ANY, LOADS, NONE),
    Row::new(&["Clevict0", "Clevict1", "Delay", "Spflt"], ANY, NOTHING, NONE),
    Row::new(&["Swapgs"], ANY, Op::<false, P01, 10>::REGISTER, NONE).in_all(8).and(SERIALISES),
    Row::new(&["Syscall", "Sysret"], ANY, Op::<false, P0, 20>::REGISTER, NONE)
        .in_all(25)
        .and(BRANCH | FAR),
    Row::new(&["Femms"], ANY, NOTHING, NONE),
    Row::new(FLOAT_3DNOW, REGISTER, Op::<false, P1, 3>::REGISTER, NONE),
    Row::new(FLOAT_3DNOW, ANY, Op::<false, P1, 3>::SOURCE, NONE),
];

const SHUFFLES: &[&str] = &[
    "Pshufd",
    "Pshufhw",
    "Pshuflw",
    "Pslldq",
    "Psrldq",
    "Punpckhqdq",
    "Punpcklqdq",
    "Shufpd",
    "Unpckhpd",
    "Unpcklpd",
    "Andnpd",
    "Andpd",
    "Orpd",
    "Xorpd",
];
const SCALAR_ADD: &[&str] = &["Addsd", "Subsd", "Cmpsd", "Maxsd", "Minsd"];
const PACKED_ADD: &[&str] = &[
    "Addpd", "Subpd", "Cmppd", "Maxpd", "Minpd", "Addsubpd", "Addsubps", "Haddpd", "Haddps",
    "Hsubpd", "Hsubps",
];
const CONVERSIONS: &[&str] = &[
    "Cvtdq2pd",
    "Cvtdq2ps",
    "Cvtpd2dq",
    "Cvtpd2pi",
    "Cvtpd2ps",
    "Cvtpi2pd",
    "Cvtps2dq",
    "Cvtps2pd",
    "Cvtsd2si",
    "Cvtsd2ss",
    "Cvtsi2sd",
    "Cvtss2sd",
    "Cvttpd2dq",
    "Cvttpd2pi",
    "Cvttps2dq",
    "Cvttsd2si",
];
const HALF_MOVES: &[&str] = &["Movlpd", "Movhpd", "Movddup"];
const WHOLE_MOVES: &[&str] = &[
    "Movapd", "Movupd", "Movdqa", "Movdqu", "Lddqu", "Movntpd", "Movntdq", "Movshdup", "Movsldup",
];
const FLOAT_3DNOW: &[&str] = &[
    "Pavgusb", "Pf2id", "Pf2iw", "Pfacc", "Pfadd", "Pfcmpeq", "Pfcmpge", "Pfcmpgt", "Pfmax",
    "Pfmin", "Pfmul", "Pfnacc", "Pfpnacc", "Pfrcp", "Pfrcpit1", "Pfrcpit2", "Pfrsqit1", "Pfrsqrt",
    "Pfsub", "Pfsubr", "Pi2fd", "Pi2fw", "Pmulhrw", "Pswapd",
];
