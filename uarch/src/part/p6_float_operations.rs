//! What the decoders of the P6 family and Pentium M make of x87, MMX and SSE instructions.
//!
//! `PPRO` is gcc's ppro.md and x86-tune-costs.h, which restate Intel 245127; `FOG` as in
//! `p6_operations.rs`, section 29.2.

use super::intel_operations::{
    EXCHANGES, LOADS, LOADS_HALVES, NOTHING, Op, P0, P01, P1, Slow, Store,
};
use crate::pipeline::out_of_order::table::{
    ANY, MEMORY, ONE, REGISTER, Row, SOURCE, W80,
    behaviour::{DIVIDE, FLOP, MMX, MULTIPLY, SERIALISES},
};

/// gcc's description.
const PPRO: &str = "gcc ppro.md, x86-tune-costs.h";
/// Fog, section 29.2.
const FOG: &str = "Fog 29.2";
/// Nothing.
const NONE: &str = "not sourced";

/// Forms with a source in memory.
const SOURCES: u8 = SOURCE | ONE;

/// Rows of what Pentium M fuses.
pub(super) struct FloatRows<const FUSED: bool>;

impl<const FUSED: bool> FloatRows<FUSED> {
    /// The x87 instructions.
    pub(super) const X87: &[Row] = &[
        Row::new(&["Fadd", "Fsub", "Fsubr"], MEMORY, Op::<FUSED, P0, 3>::SOURCE, PPRO).and(FLOP),
        Row::new(
            &["Fadd", "Faddp", "Fsub", "Fsubp", "Fsubr", "Fsubrp"],
            ANY,
            Op::<FUSED, P0, 3>::REGISTER,
            PPRO,
        )
        .and(FLOP),
        // One every two cycles.
        Row::new(&["Fmul"], MEMORY, Slow::<FUSED, 5, 2>::MULTIPLY_SOURCE, FOG).and(FLOP | MULTIPLY),
        Row::new(&["Fmul", "Fmulp"], ANY, Slow::<FUSED, 5, 2>::MULTIPLY, FOG).and(FLOP | MULTIPLY),
        // 38 for 64 bits of precision, 32 for 53 and 18 for 24; the next one a cycle sooner.
        Row::new(&["Fdiv", "Fdivr"], MEMORY, Slow::<FUSED, 38, 37>::DIVIDE_SOURCE, FOG)
            .and(FLOP | DIVIDE),
        Row::new(&["Fdiv", "Fdivp", "Fdivr", "Fdivrp"], ANY, Slow::<FUSED, 38, 37>::DIVIDE, FOG)
            .and(FLOP | DIVIDE),
        Row::new(&["Fsqrt"], ANY, Slow::<FUSED, 69, 68>::DIVIDE, NONE).and(FLOP),
        Row::new(&["Fiadd", "Fisub", "Fisubr"], ANY, Op::<FUSED, P0, 9>::SOURCE, NONE)
            .in_all(6)
            .and(FLOP),
        Row::new(&["Fimul"], ANY, Slow::<FUSED, 11, 2>::MULTIPLY_SOURCE, NONE)
            .in_all(6)
            .and(FLOP | MULTIPLY),
        Row::new(&["Fidiv", "Fidivr"], ANY, Slow::<FUSED, 44, 37>::DIVIDE_SOURCE, NONE)
            .in_all(6)
            .and(FLOP | DIVIDE),
        Row::new(&["Ficom", "Ficomp"], ANY, Op::<FUSED, P0, 7>::SOURCE, NONE).in_all(6).and(FLOP),
        Row::new(&["Fabs", "Fchs", "Fxam"], ANY, Op::<FUSED, P0, 1>::REGISTER, PPRO),
        Row::new(&["Fcom", "Fcomp"], MEMORY, Op::<FUSED, P0, 1>::SOURCE, PPRO).and(FLOP),
        Row::new(
            &["Fcom", "Fcomp", "Fucom", "Fucomp", "Ftst"],
            ANY,
            Op::<FUSED, P0, 1>::REGISTER,
            PPRO,
        )
        .and(FLOP),
        Row::new(&["Fcompp", "Fucompp"], ANY, Op::<FUSED, P0, 2>::TWO, NONE).and(FLOP),
        Row::new(
            &["Fcomi", "Fcomip", "Fucomi", "Fucomip"],
            ANY,
            Op::<FUSED, P0, 1>::REGISTER,
            PPRO,
        )
        .and(FLOP),
        Row::new(&["Fcmovcc"], ANY, Op::<FUSED, P0, 2>::TWO, PPRO),
        Row::new(&["Fxch"], ANY, EXCHANGES, FOG),
        Row::new(&["Fld"], MEMORY, Op::<FUSED, P0, 2>::SOURCE, PPRO).of_width(W80).in_all(4),
        Row::new(&["Fld"], MEMORY, LOADS, PPRO),
        Row::new(&["Fld"], ANY, Op::<FUSED, P0, 1>::REGISTER, PPRO),
        Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Op::<FUSED, P0, 2>::STORE, NONE)
            .of_width(W80)
            .in_all(6),
        Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Store::<FUSED>::REGISTER, PPRO),
        Row::new(&["Fst", "Fstp", "Fstpnce"], ANY, Op::<FUSED, P0, 1>::REGISTER, PPRO),
        Row::new(&["Fild"], ANY, Op::<FUSED, P0, 2>::SOURCE, NONE).in_all(4),
        Row::new(&["Fist", "Fistp", "Fisttp"], ANY, Op::<FUSED, P0, 5>::STORE, PPRO).in_all(5),
        Row::new(&["Fbld"], ANY, Op::<FUSED, P0, 60>::SOURCE, NONE).in_all(36),
        Row::new(&["Fbstp"], ANY, Op::<FUSED, P0, 150>::STORE, NONE).in_all(36),
        Row::new(&["Fld1", "Fldz"], ANY, Op::<FUSED, P0, 1>::REGISTER, NONE),
        Row::new(
            &["Fldl2e", "Fldl2t", "Fldlg2", "Fldln2", "Fldpi"],
            ANY,
            Op::<FUSED, P0, 2>::TWO,
            NONE,
        ),
        Row::new(&["Frndint", "Fscale", "Fxtract"], ANY, Op::<FUSED, P0, 30>::REGISTER, NONE)
            .in_all(30)
            .and(FLOP),
        Row::new(&["Fprem", "Fprem1"], ANY, Op::<FUSED, P0, 30>::REGISTER, NONE)
            .in_all(23)
            .and(FLOP),
        Row::new(
            &["F2xm1", "Fsin", "Fcos", "Fsincos", "Fptan", "Fpatan", "Fyl2x", "Fyl2xp1"],
            ANY,
            Op::<FUSED, P0, 90>::REGISTER,
            NONE,
        )
        .in_all(36)
        .and(FLOP),
        Row::new(
            &["Fnop", "Ffree", "Ffreep", "Fincstp", "Fdecstp", "Wait", "Fneni", "Fndisi"],
            ANY,
            NOTHING,
            NONE,
        ),
        Row::new(&["Fnsetpm", "Frstpm"], ANY, NOTHING, NONE),
        Row::new(&["Fldcw"], ANY, Op::<FUSED, P0, 10>::SOURCE, NONE).in_all(3),
        Row::new(&["Fnstcw"], ANY, Op::<FUSED, P0, 1>::STORE, NONE),
        Row::new(&["Fnstsw"], MEMORY, Op::<FUSED, P0, 1>::STORE, NONE),
        Row::new(&["Fnstsw"], ANY, Op::<FUSED, P0, 7>::REGISTER, NONE).in_all(3),
        Row::new(&["Fnclex"], ANY, Op::<FUSED, P0, 3>::REGISTER, NONE).in_all(3),
        Row::new(&["Fninit"], ANY, Op::<FUSED, P0, 13>::REGISTER, NONE).in_all(13),
        Row::new(&["Fnstenv", "Fnsave"], ANY, Store::<FUSED>::HALVES, NONE).in_all(36),
        Row::new(&["Fldenv", "Frstor"], ANY, LOADS_HALVES, NONE).in_all(36),
    ];
}

/// MMX instructions, which Pentium M's decoders fuse with their loads: see [`MMX_FUSED`].
pub(super) const MMX_ROWS: &[Row] = MmxRows::<false>::ROWS;
/// The same, fused.
pub(super) const MMX_FUSED: &[Row] = MmxRows::<true>::ROWS;

/// Packed integer operations of either ALU.
pub(super) const PACKED: &[&str] = &[
    "Paddb", "Paddd", "Paddsb", "Paddsw", "Paddusb", "Paddusw", "Paddw", "Pand", "Pandn", "Pavgb",
    "Pavgw", "Pcmpeqb", "Pcmpeqd", "Pcmpeqw", "Pcmpgtb", "Pcmpgtd", "Pcmpgtw", "Pmaxsw", "Pmaxub",
    "Pminsw", "Pminub", "Por", "Psubb", "Psubd", "Psubsb", "Psubsw", "Psubusb", "Psubusw", "Psubw",
    "Pxor",
];

/// Packed shifts and what packs and unpacks.
pub(super) const SHIFTS: &[&str] = &[
    "Packssdw",
    "Packsswb",
    "Packuswb",
    "Pshufw",
    "Pslld",
    "Psllq",
    "Psllw",
    "Psrad",
    "Psraw",
    "Psrld",
    "Psrlq",
    "Psrlw",
    "Punpckhbw",
    "Punpckhdq",
    "Punpckhwd",
    "Punpcklbw",
    "Punpckldq",
    "Punpcklwd",
];

/// Packed multiplications.
pub(super) const PRODUCTS: &[&str] = &["Pmullw", "Pmulhw", "Pmulhuw", "Pmaddwd"];

struct MmxRows<const FUSED: bool>;

impl<const FUSED: bool> MmxRows<FUSED> {
    const ROWS: &[Row] = &[
        Row::new(PACKED, REGISTER, Op::<FUSED, P01, 1>::REGISTER, PPRO).and(MMX),
        Row::new(PACKED, ANY, Op::<FUSED, P01, 1>::SOURCE, PPRO).and(MMX),
        Row::new(SHIFTS, REGISTER, Op::<FUSED, P1, 1>::REGISTER, PPRO).and(MMX),
        Row::new(SHIFTS, ANY, Op::<FUSED, P1, 1>::SOURCE, PPRO).and(MMX),
        Row::new(PRODUCTS, REGISTER, Op::<FUSED, P0, 3>::REGISTER, PPRO).and(MMX | MULTIPLY),
        Row::new(PRODUCTS, ANY, Op::<FUSED, P0, 3>::SOURCE, PPRO).and(MMX | MULTIPLY),
        Row::new(&["Psadbw"], REGISTER, Op::<FUSED, P0, 5>::TWO, NONE).in_all(3).and(MMX),
        Row::new(&["Psadbw"], ANY, Op::<FUSED, P0, 5>::TWO_SOURCE, NONE).in_all(4).and(MMX),
        Row::new(&["Pmovmskb"], ANY, Op::<FUSED, P1, 1>::REGISTER, NONE).and(MMX),
        Row::new(&["Pextrw"], ANY, Op::<FUSED, P1, 2>::TWO, NONE).and(MMX),
        Row::new(&["Pinsrw"], MEMORY, Op::<FUSED, P1, 1>::SOURCE, NONE).and(MMX),
        Row::new(&["Pinsrw"], ANY, Op::<FUSED, P1, 1>::REGISTER, NONE).and(MMX),
        Row::new(&["Movd", "Movq"], REGISTER, Op::<FUSED, P01, 1>::REGISTER, PPRO).and(MMX),
        Row::new(&["Movd", "Movq"], SOURCES, LOADS, PPRO).and(MMX),
        Row::new(&["Movd", "Movq", "Movntq"], ANY, Store::<FUSED>::REGISTER, PPRO).and(MMX),
        Row::new(&["Maskmovq"], ANY, Op::<FUSED, P0, 2>::STORE, NONE).in_all(8),
        // 11 micro-operations: not sourced.
        Row::new(&["Emms"], ANY, Op::<FUSED, P01, 6>::REGISTER, NONE).in_all(11).and(MMX),
    ];
}

/// Scalar additions and comparisons.
const SCALAR_ADD: &[&str] = &["Addss", "Subss", "Cmpss", "Maxss", "Minss"];
/// Packed additions and comparisons.
const PACKED_ADD: &[&str] = &["Addps", "Subps", "Cmpps", "Maxps", "Minps"];
/// Logic and shuffles.
const LOGIC: &[&str] = &["Andps", "Andnps", "Orps", "Xorps", "Shufps", "Unpckhps", "Unpcklps"];

/// SSE. No load is fused with its operation, by Pentium M either.
pub(super) const SSE: &[Row] = &[
    Row::new(SCALAR_ADD, REGISTER, Op::<false, P1, 3>::REGISTER, PPRO),
    Row::new(SCALAR_ADD, ANY, Op::<false, P1, 3>::SOURCE, PPRO),
    Row::new(PACKED_ADD, REGISTER, Op::<false, P1, 3>::HALVES, PPRO),
    Row::new(PACKED_ADD, ANY, Op::<false, P1, 3>::HALVES_SOURCE, PPRO),
    Row::new(&["Mulss"], REGISTER, Op::<false, P0, 4>::REGISTER, PPRO).and(MULTIPLY),
    Row::new(&["Mulss"], ANY, Op::<false, P0, 4>::SOURCE, PPRO).and(MULTIPLY),
    Row::new(&["Mulps"], REGISTER, Op::<false, P0, 4>::HALVES, PPRO).and(MULTIPLY),
    Row::new(&["Mulps"], ANY, Op::<false, P0, 4>::HALVES_SOURCE, PPRO).and(MULTIPLY),
    Row::new(&["Divss"], REGISTER, Slow::<false, 18, 17>::DIVIDE, PPRO).and(DIVIDE),
    Row::new(&["Divss"], ANY, Slow::<false, 18, 17>::DIVIDE_SOURCE, PPRO).and(DIVIDE),
    // 48 cycles, of which the divider is busy 34.
    Row::new(&["Divps"], REGISTER, Slow::<false, 31, 17>::DIVIDE_HALVES, PPRO).and(DIVIDE),
    Row::new(&["Divps"], ANY, Slow::<false, 31, 17>::DIVIDE_HALVES_SOURCE, PPRO).and(DIVIDE),
    Row::new(&["Sqrtss"], REGISTER, Slow::<false, 31, 30>::DIVIDE, PPRO),
    Row::new(&["Sqrtss"], ANY, Slow::<false, 31, 30>::DIVIDE_SOURCE, PPRO),
    Row::new(&["Sqrtps"], REGISTER, Slow::<false, 29, 28>::DIVIDE_HALVES, NONE),
    Row::new(&["Sqrtps"], ANY, Slow::<false, 29, 28>::DIVIDE_HALVES_SOURCE, NONE),
    Row::new(&["Rcpss", "Rsqrtss"], REGISTER, Op::<false, P1, 1>::REGISTER, NONE),
    Row::new(&["Rcpss", "Rsqrtss"], ANY, Op::<false, P1, 1>::SOURCE, NONE),
    Row::new(&["Rcpps", "Rsqrtps"], REGISTER, Op::<false, P1, 1>::HALVES, NONE),
    Row::new(&["Rcpps", "Rsqrtps"], ANY, Op::<false, P1, 1>::HALVES_SOURCE, NONE),
    Row::new(LOGIC, REGISTER, Op::<false, P1, 1>::HALVES, PPRO),
    Row::new(LOGIC, ANY, Op::<false, P1, 1>::HALVES_SOURCE, PPRO),
    Row::new(&["Comiss", "Ucomiss"], REGISTER, Op::<false, P0, 1>::REGISTER, PPRO),
    Row::new(&["Comiss", "Ucomiss"], ANY, Op::<false, P0, 1>::SOURCE, PPRO),
    Row::new(CONVERSIONS, REGISTER, Op::<false, P1, 4>::TWO, PPRO),
    Row::new(CONVERSIONS, ANY, Op::<false, P1, 4>::TWO_SOURCE, PPRO),
];

/// Conversions.
const CONVERSIONS: &[&str] =
    &["Cvtpi2ps", "Cvtps2pi", "Cvttps2pi", "Cvtsi2ss", "Cvtss2si", "Cvttss2si"];

/// Moves of XMM registers.
pub(super) const SSE_MOVES: &[Row] = &[
    Row::new(&["Movss"], REGISTER, Op::<false, P01, 1>::REGISTER, PPRO),
    Row::new(&["Movss"], SOURCES, LOADS, PPRO),
    Row::new(&["Movss"], ANY, Store::<false>::REGISTER, PPRO),
    Row::new(HALF_MOVES, REGISTER, Op::<false, P01, 1>::REGISTER, PPRO),
    Row::new(HALF_MOVES, SOURCES, Op::<false, P01, 1>::SOURCE, PPRO),
    Row::new(HALF_MOVES, ANY, Store::<false>::REGISTER, PPRO),
    Row::new(WHOLE_MOVES, REGISTER, Op::<false, P01, 1>::HALVES, PPRO),
    Row::new(WHOLE_MOVES, SOURCES, LOADS_HALVES, PPRO),
    Row::new(WHOLE_MOVES, ANY, Store::<false>::HALVES, PPRO),
    Row::new(&["Movmskps"], ANY, Op::<false, P0, 1>::REGISTER, NONE),
    Row::new(&["Ldmxcsr"], ANY, Op::<false, P0, 10>::SOURCE, NONE).in_all(11).and(SERIALISES),
    Row::new(&["Stmxcsr"], ANY, Op::<false, P0, 1>::STORE, NONE).in_all(9),
    Row::new(&["Fxsave"], ANY, Store::<false>::HALVES, NONE).in_all(100),
    Row::new(&["Fxrstor"], ANY, LOADS_HALVES, NONE).in_all(90),
];

/// Moves of one half.
const HALF_MOVES: &[&str] = &["Movlps", "Movhps", "Movhlps", "Movlhps"];
/// Moves of both.
const WHOLE_MOVES: &[&str] = &["Movaps", "Movups", "Movntps"];
