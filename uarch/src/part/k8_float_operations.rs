//! What K8's decoders make of x87, MMX, 3DNow! and SSE instructions.
//!
//! Sources as in [`super::k8_operations`]; `OG8` is table 15 there. A packed operation on 128 bits is a
//! DirectPath Double: two operations of 64 bits (AMD 25112 chapter 9, page 193).

use super::amd_operations::{
    self, COPIES, FADD, FADDMUL, FANY, FMUL, FSTORE, Float, LOADS, NOTHING, Root, STORES,
};
use crate::pipeline::out_of_order::{
    MacroOp,
    table::{
        ANY, DESTINATION, Decode, MEMORY, ONE, REGISTER, Row, SOURCE, W80, W128,
        behaviour::{DIVIDE, FLOP, MMX, MULTIPLY, SERIALISES},
    },
};

/// AMD 25112 rev. 3.06, appendix C.
const OG8: &str = "AMD 25112 appendix C";
/// gcc's description.
const GCC: &str = "gcc athlon.md, x86-tune-costs.h";
/// Nothing.
const NONE: &str = "not sourced";

/// The x87 instructions.
pub(super) const X87: &[Row] = &[
    Row::new(
        &["Fadd", "Faddp", "Fsub", "Fsubp", "Fsubr", "Fsubrp"],
        REGISTER,
        Float::<FADD, 4>::REGISTER,
        OG8,
    )
    .and(FLOP),
    Row::new(&["Fadd", "Fsub", "Fsubr"], MEMORY, Float::<FADD, 4>::SOURCE, OG8).and(FLOP),
    Row::new(&["Faddp", "Fsubp", "Fsubrp"], ANY, Float::<FADD, 4>::REGISTER, OG8).and(FLOP),
    Row::new(&["Fmul", "Fmulp"], REGISTER, Float::<FMUL, 4>::REGISTER, GCC).and(FLOP | MULTIPLY),
    Row::new(&["Fmul", "Fmulp"], MEMORY, Float::<FMUL, 4>::SOURCE, GCC).and(FLOP | MULTIPLY),
    // With integers: VectorPath, AMD 25112 chapter 4, page 75.
    Row::new(&["Fiadd", "Fisub", "Fisubr"], ANY, Float::<FADD, 8>::SOURCE, NONE)
        .in_all(2)
        .and(FLOP),
    Row::new(&["Fimul"], ANY, Float::<FMUL, 8>::SOURCE, NONE).in_all(2).and(FLOP | MULTIPLY),
    Row::new(&["Fidiv", "Fidivr"], ANY, Root::<24, 21>::SOURCE, NONE).in_all(2).and(FLOP | DIVIDE),
    Row::new(&["Ficom", "Ficomp"], ANY, Float::<FADD, 6>::SOURCE, NONE).in_all(2).and(FLOP),
    Row::new(&["Fsqrt"], ANY, Root::<35, 32>::REGISTER, GCC).and(FLOP),
    Row::new(&["Fabs", "Fchs"], ANY, Float::<FMUL, 2>::REGISTER, OG8),
    Row::new(
        &["Fcom", "Fcomp", "Fcompp", "Fucom", "Fucomp", "Fucompp", "Ftst"],
        REGISTER,
        Float::<FADD, 2>::REGISTER,
        OG8,
    )
    .and(FLOP),
    Row::new(
        &["Fcom", "Fcomp", "Fcompp", "Fucom", "Fucomp", "Fucompp", "Ftst"],
        MEMORY,
        Float::<FADD, 2>::SOURCE,
        OG8,
    )
    .and(FLOP),
    // VectorPath with one operation in one pipe: note 3.
    Row::new(&["Fcomi", "Fcomip", "Fucomi", "Fucomip"], ANY, Float::<FADD, 3>::REGISTER, OG8)
        .decoded(Decode::Microcode)
        .and(FLOP),
    Row::new(&["Fxam"], ANY, Float::<FADD, 2>::REGISTER, NONE),
    Row::new(&["Fxch"], ANY, EXCHANGES, NONE),
    Row::new(&["Fld"], ANY, Float::<FADDMUL, 2>::REGISTER, GCC),
    Row::new(&["Fst", "Fstp", "Fstpnce"], ANY, Float::<FADDMUL, 2>::REGISTER, GCC),
    Row::new(&["Fild"], ANY, Float::<FSTORE, 4>::SOURCE, NONE),
    Row::new(&["Fist", "Fistp", "Fisttp"], ANY, Float::<FSTORE, 4>::STORE, GCC),
    Row::new(&["Fbld"], ANY, Float::<FANY, 87>::SOURCE, OG8).in_all(60),
    Row::new(&["Fbstp"], ANY, Float::<FANY, 172>::STORE, OG8).in_all(60),
    Row::new(&["Fld1", "Fldz"], ANY, Float::<FSTORE, 4>::REGISTER, NONE),
    Row::new(&["Fldl2e", "Fldl2t", "Fldlg2", "Fldln2", "Fldpi"], ANY, CONSTANT, NONE),
    Row::new(&["Frndint"], ANY, Float::<FANY, 10>::REGISTER, NONE).in_all(5).and(FLOP),
    Row::new(&["Fscale", "Fxtract"], ANY, Float::<FANY, 10>::REGISTER, NONE).in_all(8).and(FLOP),
    Row::new(&["Fprem", "Fprem1"], ANY, Float::<FANY, 25>::REGISTER, NONE).in_all(10).and(FLOP),
    Row::new(&["F2xm1"], ANY, Float::<FANY, 65>::REGISTER, OG8).in_all(53).and(FLOP),
    Row::new(
        &["Fsin", "Fcos", "Fsincos", "Fptan", "Fpatan", "Fyl2x", "Fyl2xp1"],
        ANY,
        Float::<FANY, 100>::REGISTER,
        GCC,
    )
    .in_all(60)
    .and(FLOP),
    Row::new(&["Fnop", "Ffree", "Ffreep", "Fincstp", "Fdecstp"], ANY, ANYWHERE, NONE),
    Row::new(&["Wait", "Fneni", "Fndisi", "Fnsetpm", "Frstpm"], ANY, NOTHING, NONE),
    Row::new(&["Fldcw"], ANY, Float::<FANY, 9>::SOURCE, NONE).in_all(12),
    Row::new(&["Fnstcw"], ANY, Float::<FSTORE, 2>::STORE, NONE).in_all(3),
    Row::new(&["Fnstsw"], MEMORY, Float::<FSTORE, 2>::STORE, NONE).in_all(3),
    Row::new(&["Fnstsw"], ANY, Float::<FSTORE, 6>::REGISTER, NONE).in_all(3),
    Row::new(&["Fnclex"], ANY, Float::<FANY, 20>::REGISTER, NONE).in_all(18),
    Row::new(&["Fninit"], ANY, Float::<FANY, 70>::REGISTER, NONE).in_all(60),
    Row::new(&["Fnstenv", "Fnsave"], ANY, STATE, NONE).in_all(60),
    Row::new(&["Fldenv", "Frstor"], ANY, STATE, NONE).in_all(60),
];

/// Those that K7 takes another time for.
pub(super) const X87_SLOW: &[Row] = &[
    // 16, 20 and 24 cycles by precision are said of it; gcc has 11 and 19.
    Row::new(&["Fdiv", "Fdivp", "Fdivr", "Fdivrp"], REGISTER, Root::<20, 17>::REGISTER, NONE)
        .and(FLOP | DIVIDE),
    Row::new(&["Fdiv", "Fdivp", "Fdivr", "Fdivrp"], MEMORY, Root::<20, 17>::SOURCE, NONE)
        .and(FLOP | DIVIDE),
    Row::new(&["Fcmovcc"], ANY, Float::<FANY, 15>::REGISTER, OG8).in_all(9),
    Row::new(&["Fld"], MEMORY, Float::<FANY, 13>::SOURCE, GCC).of_width(W80).in_all(7),
    Row::new(&["Fld"], MEMORY, Float::<FSTORE, 2>::SOURCE, GCC),
    Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Float::<FANY, 8>::STORE, GCC)
        .of_width(W80)
        .in_all(7),
    Row::new(&["Fst", "Fstp", "Fstpnce"], MEMORY, Float::<FSTORE, 2>::STORE, GCC),
];

/// FXCH: an internal NOP in any of the pipes (AMD 25112 table 15, note 2), and an exchange of names.
const EXCHANGES: &[MacroOp] = amd_operations::EXCHANGES;
/// An internal NOP in any of the pipes.
const ANYWHERE: &[MacroOp] = Float::<FANY, 2>::REGISTER;
/// A constant from the ROM.
const CONSTANT: &[MacroOp] = Float::<FSTORE, 7>::REGISTER;
/// A state in memory: loads and stores of it are a part of the microcode.
const STATE: &[MacroOp] = COPIES;

/// MMX and 3DNow!, and what SSE2 does as two of them.
pub(super) const MMX_3DNOW: &[Row] = &[
    Row::new(PACKED_MULTIPLY, REGISTER, Float::<FMUL, 3>::HALVES, GCC).of_width(W128),
    Row::new(PACKED_MULTIPLY, MEMORY, Float::<FMUL, 3>::HALVES_SOURCE, GCC).of_width(W128),
    Row::new(PACKED_MULTIPLY, REGISTER, Float::<FMUL, 3>::REGISTER, GCC).and(MMX | MULTIPLY),
    Row::new(PACKED_MULTIPLY, MEMORY, Float::<FMUL, 3>::SOURCE, GCC).and(MMX | MULTIPLY),
    Row::new(PACKED, REGISTER, Float::<FADDMUL, 2>::HALVES, GCC).of_width(W128),
    Row::new(PACKED, MEMORY, Float::<FADDMUL, 2>::HALVES_SOURCE, GCC).of_width(W128),
    Row::new(PACKED, REGISTER, Float::<FADDMUL, 2>::REGISTER, GCC).and(MMX),
    Row::new(PACKED, MEMORY, Float::<FADDMUL, 2>::SOURCE, GCC).and(MMX),
    Row::new(&["Pmovmskb"], ANY, Float::<FADD, 3>::REGISTER, NONE).in_all(3),
    Row::new(&["Pextrw"], ANY, Float::<FMUL, 6>::REGISTER, NONE).decoded(Decode::Double),
    Row::new(&["Pinsrw"], MEMORY, Float::<FADDMUL, 2>::SOURCE, NONE),
    Row::new(&["Pinsrw"], ANY, Float::<FADDMUL, 9>::REGISTER, NONE).decoded(Decode::Double),
    Row::new(&["Maskmovq", "Maskmovdqu"], ANY, Float::<FMUL, 4>::STORE, NONE).in_all(30),
    Row::new(&["Emms", "Femms"], ANY, ANYWHERE, NONE).and(MMX),
    Row::new(&["Pf2id", "Pf2iw", "Pi2fd", "Pi2fw"], REGISTER, Float::<FADD, 4>::REGISTER, NONE)
        .and(MMX),
    Row::new(&["Pf2id", "Pf2iw", "Pi2fd", "Pi2fw"], ANY, Float::<FADD, 4>::SOURCE, NONE).and(MMX),
    Row::new(FLOAT_ADD_3DNOW, REGISTER, Float::<FADD, 4>::REGISTER, NONE).and(MMX),
    Row::new(FLOAT_ADD_3DNOW, ANY, Float::<FADD, 4>::SOURCE, NONE).and(MMX),
    Row::new(FLOAT_MULTIPLY_3DNOW, REGISTER, Float::<FMUL, 4>::REGISTER, NONE).and(MMX | MULTIPLY),
    Row::new(FLOAT_MULTIPLY_3DNOW, ANY, Float::<FMUL, 4>::SOURCE, NONE).and(MMX | MULTIPLY),
    Row::new(&["Pfrcp", "Pfrsqrt"], REGISTER, Float::<FMUL, 3>::REGISTER, NONE).and(MMX),
    Row::new(&["Pfrcp", "Pfrsqrt"], ANY, Float::<FMUL, 3>::SOURCE, NONE).and(MMX),
];

/// Packed additions of 3DNow!.
pub(super) const FLOAT_ADD_3DNOW: &[&str] = &[
    "Pfadd", "Pfsub", "Pfsubr", "Pfacc", "Pfnacc", "Pfpnacc", "Pfcmpeq", "Pfcmpge", "Pfcmpgt",
    "Pfmax", "Pfmin",
];
/// Packed multiplications of 3DNow!.
pub(super) const FLOAT_MULTIPLY_3DNOW: &[&str] = &["Pfmul", "Pfrcpit1", "Pfrcpit2", "Pfrsqit1"];

/// Packed integer multiplications.
pub(super) const PACKED_MULTIPLY: &[&str] =
    &["Pmullw", "Pmulhw", "Pmulhuw", "Pmulhrw", "Pmaddwd", "Pmuludq", "Psadbw"];

/// Packed integer operations of one step.
pub(super) const PACKED: &[&str] = &[
    "Packssdw",
    "Packsswb",
    "Packuswb",
    "Paddb",
    "Paddd",
    "Paddq",
    "Paddsb",
    "Paddsw",
    "Paddusb",
    "Paddusw",
    "Paddw",
    "Pand",
    "Pandn",
    "Pavgb",
    "Pavgusb",
    "Pavgw",
    "Pcmpeqb",
    "Pcmpeqd",
    "Pcmpeqw",
    "Pcmpgtb",
    "Pcmpgtd",
    "Pcmpgtw",
    "Pmaxsw",
    "Pmaxub",
    "Pminsw",
    "Pminub",
    "Por",
    "Pshufd",
    "Pshufhw",
    "Pshuflw",
    "Pshufw",
    "Pslld",
    "Pslldq",
    "Psllq",
    "Psllw",
    "Psrad",
    "Psraw",
    "Psrld",
    "Psrldq",
    "Psrlq",
    "Psrlw",
    "Psubb",
    "Psubd",
    "Psubq",
    "Psubsb",
    "Psubsw",
    "Psubusb",
    "Psubusw",
    "Psubw",
    "Pswapd",
    "Punpckhbw",
    "Punpckhdq",
    "Punpckhqdq",
    "Punpckhwd",
    "Punpcklbw",
    "Punpckldq",
    "Punpcklqdq",
    "Punpcklwd",
    "Pxor",
];

/// Arithmetic, logic and conversions of SSE to SSE3.
pub(super) const SSE: &[Row] = &[
    Row::new(SCALAR_ADD, REGISTER, Float::<FADD, 4>::REGISTER, GCC),
    Row::new(SCALAR_ADD, MEMORY, Float::<FADD, 4>::SOURCE, GCC),
    Row::new(&["Mulss", "Mulsd"], REGISTER, Float::<FMUL, 4>::REGISTER, GCC).and(MULTIPLY),
    Row::new(&["Mulss", "Mulsd"], MEMORY, Float::<FMUL, 4>::SOURCE, GCC).and(MULTIPLY),
    Row::new(PACKED_ADD, REGISTER, Float::<FADD, 4>::HALVES, GCC),
    Row::new(PACKED_ADD, MEMORY, Float::<FADD, 4>::HALVES_SOURCE, GCC),
    Row::new(&["Mulps", "Mulpd"], REGISTER, Float::<FMUL, 4>::HALVES, GCC).and(MULTIPLY),
    Row::new(&["Mulps", "Mulpd"], MEMORY, Float::<FMUL, 4>::HALVES_SOURCE, GCC).and(MULTIPLY),
    Row::new(SCALAR_COMPARE, REGISTER, Float::<FADD, 2>::REGISTER, GCC),
    Row::new(SCALAR_COMPARE, MEMORY, Float::<FADD, 2>::SOURCE, GCC),
    Row::new(PACKED_COMPARE, REGISTER, Float::<FADD, 2>::HALVES, GCC),
    Row::new(PACKED_COMPARE, MEMORY, Float::<FADD, 2>::HALVES_SOURCE, GCC),
    Row::new(&["Comiss", "Comisd", "Ucomiss", "Ucomisd"], REGISTER, COMPARE_FLAGS, GCC)
        .decoded(Decode::Microcode),
    Row::new(&["Comiss", "Comisd", "Ucomiss", "Ucomisd"], MEMORY, Float::<FADD, 4>::SOURCE, GCC)
        .decoded(Decode::Microcode),
    Row::new(&["Divss"], REGISTER, Root::<16, 13>::REGISTER, GCC).and(DIVIDE),
    Row::new(&["Divss"], MEMORY, Root::<16, 13>::SOURCE, GCC).and(DIVIDE),
    Row::new(&["Divsd"], REGISTER, Root::<20, 17>::REGISTER, GCC).and(DIVIDE),
    Row::new(&["Divsd"], MEMORY, Root::<20, 17>::SOURCE, GCC).and(DIVIDE),
    Row::new(&["Divps", "Divpd"], REGISTER, Root::<39, 17>::HALVES, GCC).and(DIVIDE),
    Row::new(&["Divps", "Divpd"], MEMORY, Root::<39, 17>::HALVES_SOURCE, GCC).and(DIVIDE),
    Row::new(&["Sqrtss"], REGISTER, Root::<19, 16>::REGISTER, GCC),
    Row::new(&["Sqrtss"], MEMORY, Root::<19, 16>::SOURCE, GCC),
    Row::new(&["Sqrtsd"], REGISTER, Root::<27, 24>::REGISTER, GCC),
    Row::new(&["Sqrtsd"], MEMORY, Root::<27, 24>::SOURCE, GCC),
    Row::new(&["Sqrtps", "Sqrtpd"], REGISTER, Root::<51, 24>::HALVES, NONE),
    Row::new(&["Sqrtps", "Sqrtpd"], MEMORY, Root::<51, 24>::HALVES_SOURCE, NONE),
    Row::new(&["Rcpss", "Rsqrtss"], REGISTER, Float::<FMUL, 3>::REGISTER, NONE),
    Row::new(&["Rcpss", "Rsqrtss"], MEMORY, Float::<FMUL, 3>::SOURCE, NONE),
    Row::new(&["Rcpps", "Rsqrtps"], REGISTER, Float::<FMUL, 3>::HALVES, NONE),
    Row::new(&["Rcpps", "Rsqrtps"], MEMORY, Float::<FMUL, 3>::HALVES_SOURCE, NONE),
    Row::new(LOGIC, REGISTER, Float::<FMUL, 2>::HALVES, GCC),
    Row::new(LOGIC, MEMORY, Float::<FMUL, 2>::HALVES_SOURCE, GCC),
    Row::new(&["Cvtss2sd"], REGISTER, Float::<FSTORE, 2>::REGISTER, GCC),
    Row::new(&["Cvtss2sd"], MEMORY, Float::<FSTORE, 2>::SOURCE, GCC),
    Row::new(&["Cvtsd2ss"], REGISTER, Float::<FSTORE, 12>::REGISTER, GCC).in_all(3),
    Row::new(&["Cvtsd2ss"], MEMORY, Float::<FSTORE, 7>::SOURCE, GCC).decoded(Decode::Double),
    Row::new(&["Cvtsi2sd"], MEMORY, Float::<FSTORE, 4>::SOURCE, GCC),
    Row::new(&["Cvtsi2sd"], REGISTER, Float::<FSTORE, 11>::REGISTER, GCC).decoded(Decode::Double),
    Row::new(&["Cvtsi2ss"], MEMORY, Float::<FSTORE, 7>::SOURCE, GCC).decoded(Decode::Double),
    Row::new(&["Cvtsi2ss"], REGISTER, Float::<FSTORE, 14>::REGISTER, GCC).in_all(3),
    Row::new(TO_INTEGER, REGISTER, Float::<FSTORE, 9>::REGISTER, GCC).decoded(Decode::Double),
    Row::new(TO_INTEGER, MEMORY, Float::<FSTORE, 7>::SOURCE, GCC).in_all(3),
    Row::new(&["Cvtps2pd"], REGISTER, Float::<FSTORE, 2>::HALVES, GCC),
    Row::new(&["Cvtps2pd"], MEMORY, Float::<FSTORE, 2>::HALVES_SOURCE, GCC),
    Row::new(&["Cvtpd2ps"], REGISTER, Float::<FSTORE, 8>::REGISTER, GCC).in_all(4),
    Row::new(&["Cvtpd2ps"], MEMORY, Float::<FSTORE, 6>::HALVES_SOURCE, GCC).in_all(4),
    Row::new(CONVERSIONS, REGISTER, Float::<FSTORE, 4>::HALVES, NONE),
    Row::new(CONVERSIONS, MEMORY, Float::<FSTORE, 4>::HALVES_SOURCE, NONE),
];

/// A comparison into the flags of the integer unit.
const COMPARE_FLAGS: &[MacroOp] = Float::<FADD, 4>::REGISTER;

/// Scalar additions, minima and maxima.
pub(super) const SCALAR_ADD: &[&str] = &["Addss", "Addsd", "Subss", "Subsd"];
/// Packed additions.
pub(super) const PACKED_ADD: &[&str] = &[
    "Addps", "Addpd", "Subps", "Subpd", "Addsubps", "Addsubpd", "Haddps", "Haddpd", "Hsubps",
    "Hsubpd",
];
/// Scalar comparisons.
pub(super) const SCALAR_COMPARE: &[&str] = &["Cmpss", "Cmpsd", "Maxss", "Maxsd", "Minss", "Minsd"];
/// Packed comparisons.
pub(super) const PACKED_COMPARE: &[&str] = &["Cmpps", "Cmppd", "Maxps", "Maxpd", "Minps", "Minpd"];
/// Logic and shuffles of XMM registers.
pub(super) const LOGIC: &[&str] = &[
    "Andps", "Andpd", "Andnps", "Andnpd", "Orps", "Orpd", "Xorps", "Xorpd", "Shufps", "Shufpd",
    "Unpckhps", "Unpckhpd", "Unpcklps", "Unpcklpd",
];
/// Conversions to an integer in a general register.
pub(super) const TO_INTEGER: &[&str] = &["Cvtss2si", "Cvttss2si", "Cvtsd2si", "Cvttsd2si"];
/// Packed conversions.
pub(super) const CONVERSIONS: &[&str] = &[
    "Cvtdq2pd",
    "Cvtdq2ps",
    "Cvtpd2dq",
    "Cvtpd2pi",
    "Cvtpi2pd",
    "Cvtpi2ps",
    "Cvtps2dq",
    "Cvtps2pi",
    "Cvttpd2dq",
    "Cvttpd2pi",
    "Cvttps2dq",
    "Cvttps2pi",
];

/// Moves of MMX and XMM registers.
pub(super) const SSE_MOVES: &[Row] = &[
    // Between the register files: FSTORE and the integer unit.
    Row::new(&["Movd"], REGISTER, Float::<FSTORE, 4>::REGISTER, GCC).decoded(Decode::Double),
    Row::new(&["Movd", "Movq"], SOURCES, Float::<FSTORE, 2>::SOURCE, GCC),
    Row::new(&["Movd", "Movq", "Movntq"], MEMORY, Float::<FSTORE, 2>::STORE, GCC),
    Row::new(&["Movq", "Movntq", "Movq2dq", "Movdq2q"], ANY, Float::<FADDMUL, 2>::REGISTER, GCC),
    Row::new(&["Movss", "Movsd"], REGISTER, Float::<FADDMUL, 2>::REGISTER, GCC),
    // The rest of the register is zeroed by a second operation.
    Row::new(&["Movss", "Movsd"], SOURCES, Float::<FSTORE, 2>::SOURCE, GCC).decoded(Decode::Double),
    Row::new(SCALAR_MOVES, SOURCES, Float::<FSTORE, 2>::SOURCE, GCC),
    Row::new(SCALAR_MOVES, MEMORY, Float::<FSTORE, 2>::STORE, GCC),
    Row::new(SCALAR_MOVES, ANY, Float::<FADDMUL, 2>::REGISTER, GCC),
    Row::new(&["Movss", "Movsd"], MEMORY, Float::<FSTORE, 2>::STORE, GCC),
    Row::new(&["Movups", "Movupd", "Movdqu"], DESTINATION, Float::<FSTORE, 3>::HALVES_STORE, NONE)
        .in_all(5),
    Row::new(PACKED_MOVES, REGISTER, Float::<FADDMUL, 2>::HALVES, GCC),
    Row::new(PACKED_MOVES, SOURCES, Float::<FSTORE, 2>::HALVES_SOURCE, GCC),
    Row::new(PACKED_MOVES, ANY, Float::<FSTORE, 3>::HALVES_STORE, GCC),
    Row::new(&["Movmskps", "Movmskpd"], ANY, Float::<FADD, 3>::REGISTER, NONE).in_all(3),
    Row::new(&["Ldmxcsr"], ANY, Float::<FANY, 8>::SOURCE, NONE).in_all(9).and(SERIALISES),
    Row::new(&["Stmxcsr"], ANY, Float::<FSTORE, 2>::STORE, NONE).in_all(3),
    Row::new(&["Fxsave"], ANY, STORES, NONE).in_all(60),
    Row::new(&["Fxrstor"], ANY, LOADS, NONE).in_all(60),
];

/// Forms with a source in memory.
const SOURCES: u8 = SOURCE | ONE;

/// Moves of one half of a register.
pub(super) const SCALAR_MOVES: &[&str] =
    &["Movlps", "Movlpd", "Movhps", "Movhpd", "Movhlps", "Movlhps", "Movddup"];
/// Moves of a whole register.
pub(super) const PACKED_MOVES: &[&str] = &[
    "Movaps", "Movapd", "Movdqa", "Movups", "Movupd", "Movdqu", "Lddqu", "Movntps", "Movntpd",
    "Movntdq", "Movshdup", "Movsldup",
];
