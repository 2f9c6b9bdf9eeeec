//! Which handler executes which MMX, 3DNow! or SSE instruction.

use super::{
    convert::{self, *},
    float::{
        self, Add, AddSub, Div, Double, Horizontal, Max, Min, Mul, Single, Sqrt, Sub, arith_packed,
        arith_scalar,
    },
    integer::{self, *},
    moves, now3d, state,
};
use crate::{
    insn::{File, Form, Handler, Insn},
    observe::Observer,
    operation::Operation,
};

/// The handler of a lowered instruction of this folder.
pub(crate) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    moves(insn)
        .or_else(|| integer(insn))
        .or_else(|| float(insn))
        .or_else(|| convert(insn))
        .or_else(|| now3d(insn))
        .or_else(|| state::handler(insn))
}

/// The source operand is memory.
pub(super) fn is_load(insn: &Insn) -> bool {
    insn.form == Form::RegMem
}

/// The destination operand is memory.
pub(super) fn is_store(insn: &Insn) -> bool {
    insn.form == Form::MemReg
}

/// One of the operands is an MMX register.
pub(super) fn of_mmx(insn: &Insn) -> bool {
    insn.files.first() == File::Mmx || insn.files.second() == File::Mmx
}

fn moves<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Movaps
        | Operation::Movapd
        | Operation::Movdqa
        | Operation::Movntps
        | Operation::Movntpd
        | Operation::Movntdq => moves::whole_aligned(insn),
        Operation::Movups | Operation::Movupd | Operation::Movdqu | Operation::Lddqu => {
            moves::whole_loose(insn)
        }
        Operation::Movss => moves::scalar_single(insn),
        Operation::Movsd => moves::scalar_double(insn),
        Operation::Movlps | Operation::Movlpd => moves::low_half(insn),
        Operation::Movhps | Operation::Movhpd => moves::high_half(insn),
        Operation::Movlhps => integer::binary::<O, Movlhps>(insn),
        Operation::Movhlps => integer::binary::<O, Movhlps>(insn),
        Operation::Movddup => integer::binary_low::<O, Movddup>(insn),
        Operation::Movsldup => integer::binary::<O, Movsldup>(insn),
        Operation::Movshdup => integer::binary::<O, Movshdup>(insn),
        Operation::Movd => moves::doubleword(insn),
        Operation::Movq | Operation::Movntq => moves::quadword(insn),
        Operation::Movq2dq => moves::movq2dq(),
        Operation::Movdq2q => moves::movdq2q(),
        Operation::Movnti => moves::movnti(insn),
        Operation::Maskmovq | Operation::Maskmovdqu => moves::maskmov(insn),
        Operation::Movmskps => moves::movmsk::<O, 32>(),
        Operation::Movmskpd => moves::movmsk::<O, 64>(),
        Operation::Pmovmskb => moves::pmovmskb(insn),
        Operation::Pextrw => moves::pextrw(insn),
        Operation::Pinsrw => moves::pinsrw(insn),
        _ => return None,
    })
}

fn integer<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Paddb => binary::<O, Paddb>(insn),
        Operation::Paddw => binary::<O, Paddw>(insn),
        Operation::Paddd => binary::<O, Paddd>(insn),
        Operation::Paddq => binary::<O, Paddq>(insn),
        Operation::Paddsb => binary::<O, Paddsb>(insn),
        Operation::Paddsw => binary::<O, Paddsw>(insn),
        Operation::Paddusb => binary::<O, Paddusb>(insn),
        Operation::Paddusw => binary::<O, Paddusw>(insn),
        Operation::Psubb => binary::<O, Psubb>(insn),
        Operation::Psubw => binary::<O, Psubw>(insn),
        Operation::Psubd => binary::<O, Psubd>(insn),
        Operation::Psubq => binary::<O, Psubq>(insn),
        Operation::Psubsb => binary::<O, Psubsb>(insn),
        Operation::Psubsw => binary::<O, Psubsw>(insn),
        Operation::Psubusb => binary::<O, Psubusb>(insn),
        Operation::Psubusw => binary::<O, Psubusw>(insn),
        Operation::Pmullw => binary::<O, Pmullw>(insn),
        Operation::Pmulhw => binary::<O, Pmulhw>(insn),
        Operation::Pmulhuw => binary::<O, Pmulhuw>(insn),
        // Cyrix has an instruction of the same name; the decoder gives it only on request.
        Operation::Pmulhrw => binary::<O, Pmulhrw>(insn),
        Operation::Pmuludq => binary::<O, Pmuludq>(insn),
        Operation::Pmaddwd => binary::<O, Pmaddwd>(insn),
        Operation::Pavgb | Operation::Pavgusb => binary::<O, Pavgb>(insn),
        Operation::Pavgw => binary::<O, Pavgw>(insn),
        Operation::Pminub => binary::<O, Pminub>(insn),
        Operation::Pmaxub => binary::<O, Pmaxub>(insn),
        Operation::Pminsw => binary::<O, Pminsw>(insn),
        Operation::Pmaxsw => binary::<O, Pmaxsw>(insn),
        Operation::Psadbw => binary::<O, Psadbw>(insn),
        Operation::Pcmpeqb => binary::<O, Pcmpeqb>(insn),
        Operation::Pcmpeqw => binary::<O, Pcmpeqw>(insn),
        Operation::Pcmpeqd => binary::<O, Pcmpeqd>(insn),
        Operation::Pcmpgtb => binary::<O, Pcmpgtb>(insn),
        Operation::Pcmpgtw => binary::<O, Pcmpgtw>(insn),
        Operation::Pcmpgtd => binary::<O, Pcmpgtd>(insn),
        Operation::Pand | Operation::Andps | Operation::Andpd => binary::<O, Pand>(insn),
        Operation::Pandn | Operation::Andnps | Operation::Andnpd => binary::<O, Pandn>(insn),
        Operation::Por | Operation::Orps | Operation::Orpd => binary::<O, Por>(insn),
        Operation::Pxor | Operation::Xorps | Operation::Xorpd => binary::<O, Pxor>(insn),
        Operation::Psllw => shift::<O, Psllw>(insn),
        Operation::Pslld => shift::<O, Pslld>(insn),
        Operation::Psllq => shift::<O, Psllq>(insn),
        Operation::Psrlw => shift::<O, Psrlw>(insn),
        Operation::Psrld => shift::<O, Psrld>(insn),
        Operation::Psrlq => shift::<O, Psrlq>(insn),
        Operation::Psraw => shift::<O, Psraw>(insn),
        Operation::Psrad => shift::<O, Psrad>(insn),
        Operation::Pslldq => shift::<O, Pslldq>(insn),
        Operation::Psrldq => shift::<O, Psrldq>(insn),
        Operation::Packsswb => binary::<O, Packsswb>(insn),
        Operation::Packssdw => binary::<O, Packssdw>(insn),
        Operation::Packuswb => binary::<O, Packuswb>(insn),
        Operation::Punpcklbw => binary::<O, Punpcklbw>(insn),
        Operation::Punpcklwd => binary::<O, Punpcklwd>(insn),
        Operation::Punpckldq | Operation::Unpcklps => binary::<O, Punpckldq>(insn),
        Operation::Punpcklqdq | Operation::Unpcklpd => binary::<O, Punpcklqdq>(insn),
        Operation::Punpckhbw => binary::<O, Punpckhbw>(insn),
        Operation::Punpckhwd => binary::<O, Punpckhwd>(insn),
        Operation::Punpckhdq | Operation::Unpckhps => binary::<O, Punpckhdq>(insn),
        Operation::Punpckhqdq | Operation::Unpckhpd => binary::<O, Punpckhqdq>(insn),
        Operation::Pshufw => shuffle::<O, Pshufw>(insn),
        Operation::Pshuflw => shuffle::<O, Pshuflw>(insn),
        Operation::Pshufhw => shuffle::<O, Pshufhw>(insn),
        Operation::Pshufd => shuffle::<O, Pshufd>(insn),
        Operation::Shufps => shuffle::<O, Shufps>(insn),
        Operation::Shufpd => shuffle::<O, Shufpd>(insn),
        _ => return None,
    })
}

fn float<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Addps => arith_packed::<O, Single, Add>(insn),
        Operation::Addpd => arith_packed::<O, Double, Add>(insn),
        Operation::Addss => arith_scalar::<O, Single, Add>(insn),
        Operation::Addsd => arith_scalar::<O, Double, Add>(insn),
        Operation::Subps => arith_packed::<O, Single, Sub>(insn),
        Operation::Subpd => arith_packed::<O, Double, Sub>(insn),
        Operation::Subss => arith_scalar::<O, Single, Sub>(insn),
        Operation::Subsd => arith_scalar::<O, Double, Sub>(insn),
        Operation::Mulps => arith_packed::<O, Single, Mul>(insn),
        Operation::Mulpd => arith_packed::<O, Double, Mul>(insn),
        Operation::Mulss => arith_scalar::<O, Single, Mul>(insn),
        Operation::Mulsd => arith_scalar::<O, Double, Mul>(insn),
        Operation::Divps => arith_packed::<O, Single, Div>(insn),
        Operation::Divpd => arith_packed::<O, Double, Div>(insn),
        Operation::Divss => arith_scalar::<O, Single, Div>(insn),
        Operation::Divsd => arith_scalar::<O, Double, Div>(insn),
        Operation::Minps => arith_packed::<O, Single, Min>(insn),
        Operation::Minpd => arith_packed::<O, Double, Min>(insn),
        Operation::Minss => arith_scalar::<O, Single, Min>(insn),
        Operation::Minsd => arith_scalar::<O, Double, Min>(insn),
        Operation::Maxps => arith_packed::<O, Single, Max>(insn),
        Operation::Maxpd => arith_packed::<O, Double, Max>(insn),
        Operation::Maxss => arith_scalar::<O, Single, Max>(insn),
        Operation::Maxsd => arith_scalar::<O, Double, Max>(insn),
        Operation::Sqrtps => arith_packed::<O, Single, Sqrt>(insn),
        Operation::Sqrtpd => arith_packed::<O, Double, Sqrt>(insn),
        Operation::Sqrtss => arith_scalar::<O, Single, Sqrt>(insn),
        Operation::Sqrtsd => arith_scalar::<O, Double, Sqrt>(insn),
        Operation::Cmpps => float::cmp_packed::<O, Single>(insn),
        Operation::Cmppd => float::cmp_packed::<O, Double>(insn),
        Operation::Cmpss => float::cmp_scalar::<O, Single>(insn),
        Operation::Cmpsd => float::cmp_scalar::<O, Double>(insn),
        Operation::Comiss => float::comi::<O, Single, true>(insn),
        Operation::Comisd => float::comi::<O, Double, true>(insn),
        Operation::Ucomiss => float::comi::<O, Single, false>(insn),
        Operation::Ucomisd => float::comi::<O, Double, false>(insn),
        Operation::Addsubps => float::across::<O, Single, AddSub>(insn),
        Operation::Addsubpd => float::across::<O, Double, AddSub>(insn),
        Operation::Haddps => float::across::<O, Single, Horizontal<Add>>(insn),
        Operation::Haddpd => float::across::<O, Double, Horizontal<Add>>(insn),
        Operation::Hsubps => float::across::<O, Single, Horizontal<Sub>>(insn),
        Operation::Hsubpd => float::across::<O, Double, Horizontal<Sub>>(insn),
        _ => return None,
    })
}

fn convert<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Cvtdq2ps => convert::packed::<O, Dq2Ps>(insn),
        Operation::Cvtps2dq => convert::packed::<O, Ps2Dq>(insn),
        Operation::Cvttps2dq => convert::packed::<O, Tps2Dq>(insn),
        Operation::Cvtpd2ps => convert::packed::<O, Pd2Ps>(insn),
        Operation::Cvtpd2dq => convert::packed::<O, Pd2Dq>(insn),
        Operation::Cvttpd2dq => convert::packed::<O, Tpd2Dq>(insn),
        Operation::Cvtdq2pd => convert::widening::<O, Dq2Pd>(insn),
        Operation::Cvtps2pd => convert::widening::<O, Ps2Pd>(insn),
        Operation::Cvtss2sd => convert::scalar::<O, Ss2Sd, u32>(insn),
        Operation::Cvtsd2ss => convert::scalar::<O, Sd2Ss, u64>(insn),
        Operation::Cvtsi2ss => convert::from_gpr::<O, Si2Ss, Sq2Ss>(insn),
        Operation::Cvtsi2sd => convert::from_gpr::<O, Si2Sd, Sq2Sd>(insn),
        Operation::Cvtss2si => convert::to_gpr::<O, Single, false>(insn),
        Operation::Cvtsd2si => convert::to_gpr::<O, Double, false>(insn),
        Operation::Cvttss2si => convert::to_gpr::<O, Single, true>(insn),
        Operation::Cvttsd2si => convert::to_gpr::<O, Double, true>(insn),
        Operation::Cvtpi2ps => convert::from_mmx::<O, Pi2Ps>(insn),
        Operation::Cvtpi2pd => convert::from_mmx::<O, Dq2Pd>(insn),
        Operation::Cvtps2pi => convert::to_mmx::<O, Ps2Pi>(insn),
        Operation::Cvttps2pi => convert::to_mmx::<O, Tps2Pi>(insn),
        Operation::Cvtpd2pi => convert::to_mmx::<O, Pd2Dq>(insn),
        Operation::Cvttpd2pi => convert::to_mmx::<O, Tpd2Dq>(insn),
        Operation::Rcpps => convert::estimate_packed::<O, Rcp>(insn),
        Operation::Rcpss => convert::estimate_scalar::<O, Rcp>(insn),
        Operation::Rsqrtps => convert::estimate_packed::<O, Rsqrt>(insn),
        Operation::Rsqrtss => convert::estimate_scalar::<O, Rsqrt>(insn),
        _ => return None,
    })
}

fn now3d<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Pfadd => binary::<O, now3d::Pfadd>(insn),
        Operation::Pfsub => binary::<O, now3d::Pfsub>(insn),
        Operation::Pfsubr => binary::<O, now3d::Pfsubr>(insn),
        Operation::Pfmul => binary::<O, now3d::Pfmul>(insn),
        Operation::Pfacc => binary::<O, now3d::Pfacc>(insn),
        Operation::Pfnacc => binary::<O, now3d::Pfnacc>(insn),
        Operation::Pfpnacc => binary::<O, now3d::Pfpnacc>(insn),
        Operation::Pfcmpeq => binary::<O, now3d::Pfcmpeq>(insn),
        Operation::Pfcmpgt => binary::<O, now3d::Pfcmpgt>(insn),
        Operation::Pfcmpge => binary::<O, now3d::Pfcmpge>(insn),
        Operation::Pfmax => binary::<O, now3d::Pfmax>(insn),
        Operation::Pfmin => binary::<O, now3d::Pfmin>(insn),
        Operation::Pi2fd => binary::<O, now3d::Pi2fd>(insn),
        Operation::Pi2fw => binary::<O, now3d::Pi2fw>(insn),
        Operation::Pf2id => binary::<O, now3d::Pf2id>(insn),
        Operation::Pf2iw => binary::<O, now3d::Pf2iw>(insn),
        Operation::Pfrcp => binary::<O, now3d::Pfrcp>(insn),
        Operation::Pfrsqrt => binary::<O, now3d::Pfrsqrt>(insn),
        Operation::Pfrcpit1 => binary::<O, now3d::Pfrcpit1>(insn),
        Operation::Pfrsqit1 => binary::<O, now3d::Pfrsqit1>(insn),
        Operation::Pfrcpit2 => binary::<O, now3d::Pfrcpit2>(insn),
        Operation::Pswapd => binary::<O, Pswapd>(insn),
        _ => return None,
    })
}
