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
        op @ (M::Cvtpi2ps
        | M::Cvtpi2pd
        | M::Cvtps2pi
        | M::Cvttps2pi
        | M::Cvtpd2pi
        | M::Cvttpd2pi) => with_precision(op, Class::SSE_PACKED),
        M::Movq2dq | M::Movdq2q => Class::SSE_PACKED,
        op if of_mmx(insn) => Class::MMX.with(mmx(op)),
        op => with_precision(op, sse(op)),
    }
}

/// The classes of an instruction on XMM registers, and those of its precision.
fn with_precision(op: M, class: Class) -> Class {
    let (packed, scalar, packed_arithmetic, scalar_arithmetic) = match precision(op) {
        None => return class,
        Some(Precision::Single) => (
            Class::SSE_PACKED_SINGLE,
            Class::SSE_SCALAR_SINGLE,
            Class::SSE_PACKED_SINGLE_ARITHMETIC,
            Class::SSE_SCALAR_SINGLE_ARITHMETIC,
        ),
        Some(Precision::Double) => (
            Class::SSE_PACKED_DOUBLE,
            Class::SSE_SCALAR_DOUBLE,
            Class::SSE_PACKED_DOUBLE_ARITHMETIC,
            Class::SSE_SCALAR_DOUBLE_ARITHMETIC,
        ),
    };
    [
        (Class::SSE_PACKED, packed),
        (Class::SSE_SCALAR, scalar),
        (Class::SSE_PACKED_ARITHMETIC, packed_arithmetic),
        (Class::SSE_SCALAR_ARITHMETIC, scalar_arithmetic),
    ]
    .into_iter()
    .filter(|&(of, _)| class.is_any_of(of))
    .fold(class, |class, (_, precise)| class.with(precise))
}

#[derive(Clone, Copy)]
enum Precision {
    Single,
    Double,
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

/// The precision of an instruction, by the groups of Intel SDM volume 1, sections 5.5 and 5.6: conversions
/// from and to double precision are of the group of double precision, others of that of single. `None` for
/// an integer instruction and for one on MXCSR.
fn precision(op: M) -> Option<Precision> {
    match op {
        M::Addps
        | M::Addss
        | M::Addsubps
        | M::Andnps
        | M::Andps
        | M::Cmpps
        | M::Cmpss
        | M::Comiss
        | M::Cvtdq2ps
        | M::Cvtpi2ps
        | M::Cvtps2dq
        | M::Cvtps2pi
        | M::Cvtsi2ss
        | M::Cvtss2si
        | M::Cvttps2dq
        | M::Cvttps2pi
        | M::Cvttss2si
        | M::Divps
        | M::Divss
        | M::Haddps
        | M::Hsubps
        | M::Maxps
        | M::Maxss
        | M::Minps
        | M::Minss
        | M::Movaps
        | M::Movhlps
        | M::Movhps
        | M::Movlhps
        | M::Movlps
        | M::Movmskps
        | M::Movntps
        | M::Movshdup
        | M::Movsldup
        | M::Movss
        | M::Movups
        | M::Mulps
        | M::Mulss
        | M::Orps
        | M::Rcpps
        | M::Rcpss
        | M::Rsqrtps
        | M::Rsqrtss
        | M::Shufps
        | M::Sqrtps
        | M::Sqrtss
        | M::Subps
        | M::Subss
        | M::Ucomiss
        | M::Unpckhps
        | M::Unpcklps
        | M::Xorps => Some(Precision::Single),
        M::Addpd
        | M::Addsd
        | M::Addsubpd
        | M::Andnpd
        | M::Andpd
        | M::Cmppd
        | M::Cmpsd
        | M::Comisd
        | M::Cvtdq2pd
        | M::Cvtpd2dq
        | M::Cvtpd2pi
        | M::Cvtpd2ps
        | M::Cvtpi2pd
        | M::Cvtps2pd
        | M::Cvtsd2si
        | M::Cvtsd2ss
        | M::Cvtsi2sd
        | M::Cvtss2sd
        | M::Cvttpd2dq
        | M::Cvttpd2pi
        | M::Cvttsd2si
        | M::Divpd
        | M::Divsd
        | M::Haddpd
        | M::Hsubpd
        | M::Maxpd
        | M::Maxsd
        | M::Minpd
        | M::Minsd
        | M::Movapd
        | M::Movddup
        | M::Movhpd
        | M::Movlpd
        | M::Movmskpd
        | M::Movntpd
        | M::Movsd
        | M::Movupd
        | M::Mulpd
        | M::Mulsd
        | M::Orpd
        | M::Shufpd
        | M::Sqrtpd
        | M::Sqrtsd
        | M::Subpd
        | M::Subsd
        | M::Ucomisd
        | M::Unpckhpd
        | M::Unpcklpd
        | M::Xorpd => Some(Precision::Double),
        _ => None,
    }
}
