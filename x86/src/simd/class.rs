//! What an MMX or SSE instruction is counted as.

use super::handler::of_mmx;
use crate::{class::Class, insn::Insn, operation::Operation as M};

/// The classes of a lowered instruction.
pub(super) fn of(insn: &Insn) -> Class {
    match insn.op {
        M::Fxsave | M::Fxrstor | M::Movnti => Class::NONE,
        M::Emms => Class::MMX.with(Class::EMMS),
        M::Femms => Class::MMX,
        // What goes between the two files is no MMX instruction.
        M::Cvtpi2ps
        | M::Cvtpi2pd
        | M::Cvtps2pi
        | M::Cvttps2pi
        | M::Cvtpd2pi
        | M::Cvttpd2pi
        | M::Movq2dq
        | M::Movdq2q => Class::SSE_PACKED,
        op if of_mmx(insn) => Class::MMX.with(mmx(op)),
        op => sse(op),
    }
}

/// The types of MMX instructions, as Intel's summary has them (SDM volume 1, section 9.4, table of
/// the MMX instruction set): comparisons and minimum and maximum are none of the six types that P6
/// event B3h selects.
fn mmx(op: M) -> Class {
    match op {
        M::Paddsb
        | M::Paddsw
        | M::Paddusb
        | M::Paddusw
        | M::Psubsb
        | M::Psubsw
        | M::Psubusb
        | M::Psubusw => Class::MMX_ARITHMETIC.with(Class::MMX_SATURATING),
        M::Paddb
        | M::Paddw
        | M::Paddd
        | M::Paddq
        | M::Psubb
        | M::Psubw
        | M::Psubd
        | M::Psubq
        | M::Pavgb
        | M::Pavgw
        | M::Psadbw => Class::MMX_ARITHMETIC,
        M::Packsswb | M::Packssdw | M::Packuswb => Class::MMX_PACK.with(Class::MMX_SATURATING),
        M::Pmulhw | M::Pmulhuw | M::Pmullw | M::Pmuludq | M::Pmaddwd => Class::MMX_MULTIPLY,
        M::Psllw | M::Pslld | M::Psllq | M::Psrlw | M::Psrld | M::Psrlq | M::Psraw | M::Psrad => {
            Class::MMX_SHIFT
        }
        M::Punpcklbw | M::Punpcklwd | M::Punpckldq | M::Punpckhbw | M::Punpckhwd | M::Punpckhdq => {
            Class::MMX_UNPACK
        }
        M::Pand | M::Pandn | M::Por | M::Pxor => Class::MMX_LOGICAL,
        _ => Class::NONE,
    }
}

/// The classes of an instruction on XMM registers. Arithmetic as the manual understands it (SDM volume 1, section 10.4.1.2 and its like in chapters
/// 11 and 12): no moves, comparisons, logic, shuffles or conversions.
fn sse(op: M) -> Class {
    match op {
        M::Addps
        | M::Addpd
        | M::Subps
        | M::Subpd
        | M::Mulps
        | M::Mulpd
        | M::Divps
        | M::Divpd
        | M::Minps
        | M::Minpd
        | M::Maxps
        | M::Maxpd
        | M::Sqrtps
        | M::Sqrtpd
        | M::Rcpps
        | M::Rsqrtps
        | M::Addsubps
        | M::Addsubpd
        | M::Haddps
        | M::Haddpd
        | M::Hsubps
        | M::Hsubpd => Class::SSE_PACKED.with(Class::SSE_PACKED_ARITHMETIC),
        M::Addss
        | M::Addsd
        | M::Subss
        | M::Subsd
        | M::Mulss
        | M::Mulsd
        | M::Divss
        | M::Divsd
        | M::Minss
        | M::Minsd
        | M::Maxss
        | M::Maxsd
        | M::Sqrtss
        | M::Sqrtsd
        | M::Rcpss
        | M::Rsqrtss => Class::SSE_SCALAR.with(Class::SSE_SCALAR_ARITHMETIC),
        M::Comiss | M::Comisd | M::Ucomiss | M::Ucomisd => Class::SSE_SCALAR.with(Class::FAST_FLAG),
        M::Movss
        | M::Movsd
        | M::Cmpss
        | M::Cmpsd
        | M::Cvtss2sd
        | M::Cvtsd2ss
        | M::Cvtsi2ss
        | M::Cvtsi2sd
        | M::Cvtss2si
        | M::Cvtsd2si
        | M::Cvttss2si
        | M::Cvttsd2si
        | M::Ldmxcsr
        | M::Stmxcsr => Class::SSE_SCALAR,
        _ => Class::SSE_PACKED,
    }
}
