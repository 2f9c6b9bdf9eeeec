//! Which handler executes which MMX, 3DNow! or SSE instruction.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::{
    class,
    convert::{self, *},
    float::{
        self, Add, AddSub, Div, Double, Horizontal, Max, Min, Mul, Single, Sqrt, Sub, arith_packed,
        arith_scalar,
    },
    integer::{self, *},
    moves, now3d, state,
};
use crate::{
    insn::{Class, Form, Handler},
    lower::{End, Lowered, Lowering},
    observe::Observer,
};

/// Operand `n` is memory.
pub(super) fn is_memory(i: &Instruction, n: u32) -> bool {
    n < i.op_count() && i.op_kind(n) == OpKind::Memory
}

fn is_register(i: &Instruction, n: u32) -> bool {
    n < i.op_count() && i.op_kind(n) == OpKind::Register
}

/// Operand `n` is an MMX register.
pub(super) fn is_mm(i: &Instruction, n: u32) -> bool {
    is_register(i, n) && i.op_register(n).is_mm()
}

/// Operand `n` is an XMM register.
pub(super) fn is_xmm(i: &Instruction, n: u32) -> bool {
    is_register(i, n) && i.op_register(n).is_xmm()
}

/// Operand `n` is a general register.
pub(super) fn is_gpr(i: &Instruction, n: u32) -> bool {
    is_register(i, n) && i.op_register(n).is_gpr()
}

/// Operand `n` is a 64-bit general register.
pub(super) fn is_gpr64(i: &Instruction, n: u32) -> bool {
    is_register(i, n) && i.op_register(n).is_gpr64()
}

/// The instruction with its handler: destination and source register and the 8-bit immediate in
/// their places.
pub(super) fn lowered<O>(
    l: &Lowering,
    i: &Instruction,
    run: Handler<O>,
    class: Class,
) -> Option<Lowered<O>> {
    let mut insn = l.insn(i);
    insn.class = class;
    if is_register(i, 0) {
        insn.dst = l.reg(i.op0_register());
    }
    if is_register(i, 1) {
        insn.src = l.reg(i.op1_register());
    }
    let last = i.op_count().saturating_sub(1);
    if last > 0 && i.op_kind(last) == OpKind::Immediate8 {
        insn.imm = u64::from(i.immediate8());
    }
    insn.form = match (is_memory(i, 0), is_memory(i, 1), last) {
        (_, _, 0) if is_memory(i, 0) => Form::Mem,
        (_, _, 0) => Form::None,
        (true, _, _) => Form::MemReg,
        (_, true, _) => Form::RegMem,
        _ if i.op1_kind() == OpKind::Immediate8 => Form::RegImm,
        _ => Form::RegReg,
    };
    Some(Lowered { run, insn, end: End::Next })
}

/// Lowers an instruction of this folder; `None` if it is not one.
pub(crate) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let mut lowered = lower_moves(l, i)
        .or_else(|| lower_integer(l, i))
        .or_else(|| lower_float(l, i))
        .or_else(|| lower_convert(l, i))
        .or_else(|| lower_now3d(l, i))?;
    lowered.insn.class = lowered.insn.class.with(class::of(i));
    Some(lowered)
}

fn lower_moves<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Movaps
        | Mnemonic::Movapd
        | Mnemonic::Movdqa
        | Mnemonic::Movntps
        | Mnemonic::Movntpd
        | Mnemonic::Movntdq => moves::whole_aligned(l, i),
        Mnemonic::Movups | Mnemonic::Movupd | Mnemonic::Movdqu | Mnemonic::Lddqu => {
            moves::whole_loose(l, i)
        }
        Mnemonic::Movss => moves::scalar_single(l, i),
        Mnemonic::Movsd => moves::scalar_double(l, i),
        Mnemonic::Movlps | Mnemonic::Movlpd => moves::low_half(l, i),
        Mnemonic::Movhps | Mnemonic::Movhpd => moves::high_half(l, i),
        Mnemonic::Movlhps => integer::binary::<O, Movlhps>(l, i),
        Mnemonic::Movhlps => integer::binary::<O, Movhlps>(l, i),
        Mnemonic::Movddup => integer::binary_low::<O, Movddup>(l, i),
        Mnemonic::Movsldup => integer::binary::<O, Movsldup>(l, i),
        Mnemonic::Movshdup => integer::binary::<O, Movshdup>(l, i),
        Mnemonic::Movd => moves::doubleword(l, i),
        Mnemonic::Movq | Mnemonic::Movntq => moves::quadword(l, i),
        Mnemonic::Movq2dq => moves::movq2dq(l, i),
        Mnemonic::Movdq2q => moves::movdq2q(l, i),
        Mnemonic::Movnti => moves::movnti(l, i),
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu => moves::maskmov(l, i),
        Mnemonic::Movmskps => moves::movmsk::<O, 32>(l, i),
        Mnemonic::Movmskpd => moves::movmsk::<O, 64>(l, i),
        Mnemonic::Pmovmskb => moves::pmovmskb(l, i),
        Mnemonic::Pextrw => moves::pextrw(l, i),
        Mnemonic::Pinsrw => moves::pinsrw(l, i),
        Mnemonic::Ldmxcsr => state::load_mxcsr(l, i),
        Mnemonic::Stmxcsr => state::store_mxcsr(l, i),
        Mnemonic::Emms | Mnemonic::Femms => state::empty(l, i),
        Mnemonic::Fxsave | Mnemonic::Fxsave64 | Mnemonic::Fxrstor | Mnemonic::Fxrstor64 => {
            state::area(l, i)
        }
        _ => None,
    }
}

fn lower_integer<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Paddb => binary::<O, Paddb>(l, i),
        Mnemonic::Paddw => binary::<O, Paddw>(l, i),
        Mnemonic::Paddd => binary::<O, Paddd>(l, i),
        // PADDQ on MMX registers came with SSE2, though the decoder files it under MMX.
        Mnemonic::Paddq if is_mm(i, 0) && !l.features.sse2 => None,
        Mnemonic::Paddq => binary::<O, Paddq>(l, i),
        Mnemonic::Paddsb => binary::<O, Paddsb>(l, i),
        Mnemonic::Paddsw => binary::<O, Paddsw>(l, i),
        Mnemonic::Paddusb => binary::<O, Paddusb>(l, i),
        Mnemonic::Paddusw => binary::<O, Paddusw>(l, i),
        Mnemonic::Psubb => binary::<O, Psubb>(l, i),
        Mnemonic::Psubw => binary::<O, Psubw>(l, i),
        Mnemonic::Psubd => binary::<O, Psubd>(l, i),
        Mnemonic::Psubq => binary::<O, Psubq>(l, i),
        Mnemonic::Psubsb => binary::<O, Psubsb>(l, i),
        Mnemonic::Psubsw => binary::<O, Psubsw>(l, i),
        Mnemonic::Psubusb => binary::<O, Psubusb>(l, i),
        Mnemonic::Psubusw => binary::<O, Psubusw>(l, i),
        Mnemonic::Pmullw => binary::<O, Pmullw>(l, i),
        Mnemonic::Pmulhw => binary::<O, Pmulhw>(l, i),
        Mnemonic::Pmulhuw => binary::<O, Pmulhuw>(l, i),
        // Cyrix has an instruction of the same name; the decoder gives it only on request.
        Mnemonic::Pmulhrw => binary::<O, Pmulhrw>(l, i),
        Mnemonic::Pmuludq => binary::<O, Pmuludq>(l, i),
        Mnemonic::Pmaddwd => binary::<O, Pmaddwd>(l, i),
        Mnemonic::Pavgb | Mnemonic::Pavgusb => binary::<O, Pavgb>(l, i),
        Mnemonic::Pavgw => binary::<O, Pavgw>(l, i),
        Mnemonic::Pminub => binary::<O, Pminub>(l, i),
        Mnemonic::Pmaxub => binary::<O, Pmaxub>(l, i),
        Mnemonic::Pminsw => binary::<O, Pminsw>(l, i),
        Mnemonic::Pmaxsw => binary::<O, Pmaxsw>(l, i),
        Mnemonic::Psadbw => binary::<O, Psadbw>(l, i),
        Mnemonic::Pcmpeqb => binary::<O, Pcmpeqb>(l, i),
        Mnemonic::Pcmpeqw => binary::<O, Pcmpeqw>(l, i),
        Mnemonic::Pcmpeqd => binary::<O, Pcmpeqd>(l, i),
        Mnemonic::Pcmpgtb => binary::<O, Pcmpgtb>(l, i),
        Mnemonic::Pcmpgtw => binary::<O, Pcmpgtw>(l, i),
        Mnemonic::Pcmpgtd => binary::<O, Pcmpgtd>(l, i),
        Mnemonic::Pand | Mnemonic::Andps | Mnemonic::Andpd => binary::<O, Pand>(l, i),
        Mnemonic::Pandn | Mnemonic::Andnps | Mnemonic::Andnpd => binary::<O, Pandn>(l, i),
        Mnemonic::Por | Mnemonic::Orps | Mnemonic::Orpd => binary::<O, Por>(l, i),
        Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd => binary::<O, Pxor>(l, i),
        Mnemonic::Psllw => shift::<O, Psllw>(l, i),
        Mnemonic::Pslld => shift::<O, Pslld>(l, i),
        Mnemonic::Psllq => shift::<O, Psllq>(l, i),
        Mnemonic::Psrlw => shift::<O, Psrlw>(l, i),
        Mnemonic::Psrld => shift::<O, Psrld>(l, i),
        Mnemonic::Psrlq => shift::<O, Psrlq>(l, i),
        Mnemonic::Psraw => shift::<O, Psraw>(l, i),
        Mnemonic::Psrad => shift::<O, Psrad>(l, i),
        Mnemonic::Pslldq => shift::<O, Pslldq>(l, i),
        Mnemonic::Psrldq => shift::<O, Psrldq>(l, i),
        Mnemonic::Packsswb => binary::<O, Packsswb>(l, i),
        Mnemonic::Packssdw => binary::<O, Packssdw>(l, i),
        Mnemonic::Packuswb => binary::<O, Packuswb>(l, i),
        Mnemonic::Punpcklbw => binary::<O, Punpcklbw>(l, i),
        Mnemonic::Punpcklwd => binary::<O, Punpcklwd>(l, i),
        Mnemonic::Punpckldq | Mnemonic::Unpcklps => binary::<O, Punpckldq>(l, i),
        Mnemonic::Punpcklqdq | Mnemonic::Unpcklpd => binary::<O, Punpcklqdq>(l, i),
        Mnemonic::Punpckhbw => binary::<O, Punpckhbw>(l, i),
        Mnemonic::Punpckhwd => binary::<O, Punpckhwd>(l, i),
        Mnemonic::Punpckhdq | Mnemonic::Unpckhps => binary::<O, Punpckhdq>(l, i),
        Mnemonic::Punpckhqdq | Mnemonic::Unpckhpd => binary::<O, Punpckhqdq>(l, i),
        Mnemonic::Pshufw => shuffle::<O, Pshufw>(l, i),
        Mnemonic::Pshuflw => shuffle::<O, Pshuflw>(l, i),
        Mnemonic::Pshufhw => shuffle::<O, Pshufhw>(l, i),
        Mnemonic::Pshufd => shuffle::<O, Pshufd>(l, i),
        Mnemonic::Shufps => shuffle::<O, Shufps>(l, i),
        Mnemonic::Shufpd => shuffle::<O, Shufpd>(l, i),
        _ => None,
    }
}

fn lower_float<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Addps => arith_packed::<O, Single, Add>(l, i),
        Mnemonic::Addpd => arith_packed::<O, Double, Add>(l, i),
        Mnemonic::Addss => arith_scalar::<O, Single, Add>(l, i),
        Mnemonic::Addsd => arith_scalar::<O, Double, Add>(l, i),
        Mnemonic::Subps => arith_packed::<O, Single, Sub>(l, i),
        Mnemonic::Subpd => arith_packed::<O, Double, Sub>(l, i),
        Mnemonic::Subss => arith_scalar::<O, Single, Sub>(l, i),
        Mnemonic::Subsd => arith_scalar::<O, Double, Sub>(l, i),
        Mnemonic::Mulps => arith_packed::<O, Single, Mul>(l, i),
        Mnemonic::Mulpd => arith_packed::<O, Double, Mul>(l, i),
        Mnemonic::Mulss => arith_scalar::<O, Single, Mul>(l, i),
        Mnemonic::Mulsd => arith_scalar::<O, Double, Mul>(l, i),
        Mnemonic::Divps => arith_packed::<O, Single, Div>(l, i),
        Mnemonic::Divpd => arith_packed::<O, Double, Div>(l, i),
        Mnemonic::Divss => arith_scalar::<O, Single, Div>(l, i),
        Mnemonic::Divsd => arith_scalar::<O, Double, Div>(l, i),
        Mnemonic::Minps => arith_packed::<O, Single, Min>(l, i),
        Mnemonic::Minpd => arith_packed::<O, Double, Min>(l, i),
        Mnemonic::Minss => arith_scalar::<O, Single, Min>(l, i),
        Mnemonic::Minsd => arith_scalar::<O, Double, Min>(l, i),
        Mnemonic::Maxps => arith_packed::<O, Single, Max>(l, i),
        Mnemonic::Maxpd => arith_packed::<O, Double, Max>(l, i),
        Mnemonic::Maxss => arith_scalar::<O, Single, Max>(l, i),
        Mnemonic::Maxsd => arith_scalar::<O, Double, Max>(l, i),
        Mnemonic::Sqrtps => arith_packed::<O, Single, Sqrt>(l, i),
        Mnemonic::Sqrtpd => arith_packed::<O, Double, Sqrt>(l, i),
        Mnemonic::Sqrtss => arith_scalar::<O, Single, Sqrt>(l, i),
        Mnemonic::Sqrtsd => arith_scalar::<O, Double, Sqrt>(l, i),
        Mnemonic::Cmpps => float::cmp_packed::<O, Single>(l, i),
        Mnemonic::Cmppd => float::cmp_packed::<O, Double>(l, i),
        Mnemonic::Cmpss => float::cmp_scalar::<O, Single>(l, i),
        // The string instruction has the same name.
        Mnemonic::Cmpsd if is_xmm(i, 0) => float::cmp_scalar::<O, Double>(l, i),
        Mnemonic::Comiss => float::comi::<O, Single, true>(l, i),
        Mnemonic::Comisd => float::comi::<O, Double, true>(l, i),
        Mnemonic::Ucomiss => float::comi::<O, Single, false>(l, i),
        Mnemonic::Ucomisd => float::comi::<O, Double, false>(l, i),
        Mnemonic::Addsubps => float::across::<O, Single, AddSub>(l, i),
        Mnemonic::Addsubpd => float::across::<O, Double, AddSub>(l, i),
        Mnemonic::Haddps => float::across::<O, Single, Horizontal<Add>>(l, i),
        Mnemonic::Haddpd => float::across::<O, Double, Horizontal<Add>>(l, i),
        Mnemonic::Hsubps => float::across::<O, Single, Horizontal<Sub>>(l, i),
        Mnemonic::Hsubpd => float::across::<O, Double, Horizontal<Sub>>(l, i),
        _ => None,
    }
}

fn lower_convert<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Cvtdq2ps => convert::packed::<O, Dq2Ps>(l, i),
        Mnemonic::Cvtps2dq => convert::packed::<O, Ps2Dq>(l, i),
        Mnemonic::Cvttps2dq => convert::packed::<O, Tps2Dq>(l, i),
        Mnemonic::Cvtpd2ps => convert::packed::<O, Pd2Ps>(l, i),
        Mnemonic::Cvtpd2dq => convert::packed::<O, Pd2Dq>(l, i),
        Mnemonic::Cvttpd2dq => convert::packed::<O, Tpd2Dq>(l, i),
        Mnemonic::Cvtdq2pd => convert::widening::<O, Dq2Pd>(l, i),
        Mnemonic::Cvtps2pd => convert::widening::<O, Ps2Pd>(l, i),
        Mnemonic::Cvtss2sd => convert::scalar::<O, Ss2Sd, u32>(l, i),
        Mnemonic::Cvtsd2ss => convert::scalar::<O, Sd2Ss, u64>(l, i),
        Mnemonic::Cvtsi2ss => convert::from_gpr::<O, Si2Ss, Sq2Ss>(l, i),
        Mnemonic::Cvtsi2sd => convert::from_gpr::<O, Si2Sd, Sq2Sd>(l, i),
        Mnemonic::Cvtss2si => convert::to_gpr::<O, Single, false>(l, i),
        Mnemonic::Cvtsd2si => convert::to_gpr::<O, Double, false>(l, i),
        Mnemonic::Cvttss2si => convert::to_gpr::<O, Single, true>(l, i),
        Mnemonic::Cvttsd2si => convert::to_gpr::<O, Double, true>(l, i),
        Mnemonic::Cvtpi2ps => convert::from_mmx::<O, Pi2Ps>(l, i),
        Mnemonic::Cvtpi2pd => convert::from_mmx::<O, Dq2Pd>(l, i),
        Mnemonic::Cvtps2pi => convert::to_mmx::<O, Ps2Pi>(l, i),
        Mnemonic::Cvttps2pi => convert::to_mmx::<O, Tps2Pi>(l, i),
        Mnemonic::Cvtpd2pi => convert::to_mmx::<O, Pd2Dq>(l, i),
        Mnemonic::Cvttpd2pi => convert::to_mmx::<O, Tpd2Dq>(l, i),
        Mnemonic::Rcpps => convert::estimate_packed::<O, Rcp>(l, i),
        Mnemonic::Rcpss => convert::estimate_scalar::<O, Rcp>(l, i),
        Mnemonic::Rsqrtps => convert::estimate_packed::<O, Rsqrt>(l, i),
        Mnemonic::Rsqrtss => convert::estimate_scalar::<O, Rsqrt>(l, i),
        _ => None,
    }
}

fn lower_now3d<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    match i.mnemonic() {
        Mnemonic::Pfadd => binary::<O, now3d::Pfadd>(l, i),
        Mnemonic::Pfsub => binary::<O, now3d::Pfsub>(l, i),
        Mnemonic::Pfsubr => binary::<O, now3d::Pfsubr>(l, i),
        Mnemonic::Pfmul => binary::<O, now3d::Pfmul>(l, i),
        Mnemonic::Pfacc => binary::<O, now3d::Pfacc>(l, i),
        Mnemonic::Pfnacc => binary::<O, now3d::Pfnacc>(l, i),
        Mnemonic::Pfpnacc => binary::<O, now3d::Pfpnacc>(l, i),
        Mnemonic::Pfcmpeq => binary::<O, now3d::Pfcmpeq>(l, i),
        Mnemonic::Pfcmpgt => binary::<O, now3d::Pfcmpgt>(l, i),
        Mnemonic::Pfcmpge => binary::<O, now3d::Pfcmpge>(l, i),
        Mnemonic::Pfmax => binary::<O, now3d::Pfmax>(l, i),
        Mnemonic::Pfmin => binary::<O, now3d::Pfmin>(l, i),
        Mnemonic::Pi2fd => binary::<O, now3d::Pi2fd>(l, i),
        Mnemonic::Pi2fw => binary::<O, now3d::Pi2fw>(l, i),
        Mnemonic::Pf2id => binary::<O, now3d::Pf2id>(l, i),
        Mnemonic::Pf2iw => binary::<O, now3d::Pf2iw>(l, i),
        Mnemonic::Pfrcp => binary::<O, now3d::Pfrcp>(l, i),
        Mnemonic::Pfrsqrt => binary::<O, now3d::Pfrsqrt>(l, i),
        Mnemonic::Pfrcpit1 => binary::<O, now3d::Pfrcpit1>(l, i),
        Mnemonic::Pfrsqit1 => binary::<O, now3d::Pfrsqit1>(l, i),
        Mnemonic::Pfrcpit2 => binary::<O, now3d::Pfrcpit2>(l, i),
        Mnemonic::Pswapd => binary::<O, Pswapd>(l, i),
        _ => None,
    }
}
