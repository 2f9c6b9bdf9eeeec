//! MMX, 3DNow! and SSE to SSE3.

use super::{Access, MemoryOperand, Register, RegisterSet, describe::Description, x87};
use crate::{
    insn::{File, Form, Mem},
    operation::Operation as O,
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    match insn.op {
        // The destination is replaced.
        O::Movapd
        | O::Movaps
        | O::Movdqa
        | O::Movdqu
        | O::Movupd
        | O::Movups
        | O::Lddqu
        | O::Movntdq
        | O::Movntpd
        | O::Movntps
        | O::Movntq
        | O::Movnti
        | O::Movd
        | O::Movq
        | O::Movq2dq
        | O::Movdq2q
        | O::Movshdup
        | O::Movsldup
        | O::Movddup
        | O::Pshufd
        | O::Pshufhw
        | O::Pshuflw
        | O::Pshufw
        | O::Pmovmskb
        | O::Movmskpd
        | O::Movmskps
        | O::Pextrw
        | O::Pf2id
        | O::Pf2iw
        | O::Pi2fd
        | O::Pi2fw
        | O::Pfrcp
        | O::Pfrsqrt
        | O::Pswapd
        | O::Sqrtpd
        | O::Sqrtps
        | O::Rcpps
        | O::Rsqrtps
        | O::Cvtdq2pd
        | O::Cvtdq2ps
        | O::Cvtpd2dq
        | O::Cvtpd2pi
        | O::Cvtpd2ps
        | O::Cvtpi2pd
        | O::Cvtps2dq
        | O::Cvtps2pd
        | O::Cvtps2pi
        | O::Cvtsd2si
        | O::Cvtss2si
        | O::Cvttpd2dq
        | O::Cvttpd2pi
        | O::Cvttps2dq
        | O::Cvttps2pi
        | O::Cvttsd2si
        | O::Cvttss2si => {
            d.read_second();
            replace_first(d);
        }
        // A part of the destination is replaced, by all of a store and by a load of MOVSS and MOVSD
        // the whole.
        O::Movss | O::Movsd if insn.form != Form::RegReg => {
            d.read_second();
            replace_first(d);
        }
        O::Movss
        | O::Movsd
        | O::Movhpd
        | O::Movhps
        | O::Movlpd
        | O::Movlps
        | O::Movhlps
        | O::Movlhps
        | O::Sqrtsd
        | O::Sqrtss
        | O::Rcpss
        | O::Rsqrtss
        | O::Cvtpi2ps
        | O::Cvtsd2ss
        | O::Cvtsi2sd
        | O::Cvtsi2ss
        | O::Cvtss2sd
        | O::Pinsrw => {
            d.read_second();
            match d.first() {
                Some(first) => d.write_part(first),
                None => d.operand(Access::Write),
            }
        }
        // The result is one of destination and source.
        O::Addpd
        | O::Addps
        | O::Addsd
        | O::Addss
        | O::Addsubpd
        | O::Addsubps
        | O::Andnpd
        | O::Andnps
        | O::Andpd
        | O::Andps
        | O::Cmppd
        | O::Cmpps
        | O::Cmpsd
        | O::Cmpss
        | O::Divpd
        | O::Divps
        | O::Divsd
        | O::Divss
        | O::Haddpd
        | O::Haddps
        | O::Hsubpd
        | O::Hsubps
        | O::Maxpd
        | O::Maxps
        | O::Maxsd
        | O::Maxss
        | O::Minpd
        | O::Minps
        | O::Minsd
        | O::Minss
        | O::Mulpd
        | O::Mulps
        | O::Mulsd
        | O::Mulss
        | O::Orpd
        | O::Orps
        | O::Subpd
        | O::Subps
        | O::Subsd
        | O::Subss
        | O::Unpckhpd
        | O::Unpckhps
        | O::Unpcklpd
        | O::Unpcklps
        | O::Xorpd
        | O::Xorps
        | O::Shufpd
        | O::Shufps
        | O::Packssdw
        | O::Packsswb
        | O::Packuswb
        | O::Paddb
        | O::Paddd
        | O::Paddq
        | O::Paddsb
        | O::Paddsw
        | O::Paddusb
        | O::Paddusw
        | O::Paddw
        | O::Pand
        | O::Pandn
        | O::Pavgb
        | O::Pavgusb
        | O::Pavgw
        | O::Pcmpeqb
        | O::Pcmpeqd
        | O::Pcmpeqw
        | O::Pcmpgtb
        | O::Pcmpgtd
        | O::Pcmpgtw
        | O::Pfacc
        | O::Pfadd
        | O::Pfcmpeq
        | O::Pfcmpge
        | O::Pfcmpgt
        | O::Pfmax
        | O::Pfmin
        | O::Pfmul
        | O::Pfnacc
        | O::Pfpnacc
        | O::Pfrcpit1
        | O::Pfrcpit2
        | O::Pfrsqit1
        | O::Pfsub
        | O::Pfsubr
        | O::Pmaddwd
        | O::Pmaxsw
        | O::Pmaxub
        | O::Pminsw
        | O::Pminub
        | O::Pmulhrw
        | O::Pmulhuw
        | O::Pmulhw
        | O::Pmullw
        | O::Pmuludq
        | O::Por
        | O::Psadbw
        | O::Pslld
        | O::Pslldq
        | O::Psllq
        | O::Psllw
        | O::Psrad
        | O::Psraw
        | O::Psrld
        | O::Psrldq
        | O::Psrlq
        | O::Psrlw
        | O::Psubb
        | O::Psubd
        | O::Psubq
        | O::Psubsb
        | O::Psubsw
        | O::Psubusb
        | O::Psubusw
        | O::Psubw
        | O::Punpckhbw
        | O::Punpckhdq
        | O::Punpckhqdq
        | O::Punpckhwd
        | O::Punpcklbw
        | O::Punpckldq
        | O::Punpcklqdq
        | O::Punpcklwd
        | O::Pxor => {
            d.read_second();
            read_first(d);
            replace_first(d);
        }
        O::Comisd | O::Comiss | O::Ucomisd | O::Ucomiss => {
            d.read_second();
            read_first(d);
        }
        O::Maskmovdqu | O::Maskmovq => masked_store(d),
        O::Ldmxcsr => {
            d.operand(Access::Read);
            d.write(Register::Mxcsr);
        }
        O::Stmxcsr => {
            d.read(Register::Mxcsr);
            d.operand(Access::Write);
        }
        O::Emms | O::Femms => {
            d.write(Register::X87Tags);
            // TOP stays (SDM volume 2, "EMMS"), or is cleared (APM volume 2, "Effect of Instructions on
            // x87 Registers").
            d.may_write(Register::X87Top);
        }
        O::Fxsave => {
            d.read_all(x87::STATE);
            d.read_all(xmm(d));
            d.read(Register::Mxcsr);
            d.operand(Access::Write);
        }
        O::Fxrstor => {
            d.operand(Access::Read);
            // AMD's processors leave them alone in the fast form (EFER.FFXSR; APM volume 5).
            for register in xmm(d) {
                d.may_write(register);
            }
            // Knights Corner clears their low 128 bits.
            for n in 0..32 {
                d.write_part(Register::Zmm(n));
                d.may_write(Register::Zmm(n));
            }
            d.write(Register::Mxcsr);
            d.write_all(x87::STATE);
        }
        _ => return false,
    }
    if uses_mxcsr(insn.op) {
        d.read(Register::Mxcsr);
        // Its exception flags stay set.
        d.may_write(Register::Mxcsr);
    }
    // Any MMX instruction makes all x87 registers valid and clears TOP (SDM volume 1, section 9.5.1).
    if insn.files.first() == File::Mmx || insn.files.second() == File::Mmx {
        d.write(Register::X87Tags);
        d.write(Register::X87Top);
    }
    true
}

/// The XMM registers that the mode has.
fn xmm(d: &Description<'_>) -> RegisterSet {
    RegisterSet::range(Register::Xmm(0), if d.mode.is_64bit() { 16 } else { 8 })
}

fn read_first(d: &mut Description<'_>) {
    if let Some(first) = d.first() {
        d.read(first);
    }
}

fn replace_first(d: &mut Description<'_>) {
    match d.first() {
        Some(first) => d.write(first),
        None => d.operand(Access::Write),
    }
}

/// MASKMOVQ and MASKMOVDQU: some of the bytes at rDI.
fn masked_store(d: &mut Description<'_>) {
    let insn = d.insn;
    let file = insn.files.second();
    for n in [insn.dst, insn.src] {
        if let Some(register) = super::describe::in_file(file, n) {
            d.read(register);
        }
    }
    d.memory(MemoryOperand {
        access: Access::Write,
        mem: Mem { seg: d.segment(insn.aux), ..insn.mem },
        bytes: if file == File::Mmx { 8 } else { 16 },
        count: 1,
        conditional: true,
        repeated: false,
    });
}

/// Whether rounding, masks or flush modes matter, and exceptions are noted: the instructions of which
/// the manuals list SIMD floating-point exceptions.
fn uses_mxcsr(operation: O) -> bool {
    matches!(
        operation,
        O::Addpd
            | O::Addps
            | O::Addsd
            | O::Addss
            | O::Addsubpd
            | O::Addsubps
            | O::Cmppd
            | O::Cmpps
            | O::Cmpsd
            | O::Cmpss
            | O::Comisd
            | O::Comiss
            | O::Ucomisd
            | O::Ucomiss
            | O::Divpd
            | O::Divps
            | O::Divsd
            | O::Divss
            | O::Haddpd
            | O::Haddps
            | O::Hsubpd
            | O::Hsubps
            | O::Maxpd
            | O::Maxps
            | O::Maxsd
            | O::Maxss
            | O::Minpd
            | O::Minps
            | O::Minsd
            | O::Minss
            | O::Mulpd
            | O::Mulps
            | O::Mulsd
            | O::Mulss
            | O::Sqrtpd
            | O::Sqrtps
            | O::Sqrtsd
            | O::Sqrtss
            | O::Subpd
            | O::Subps
            | O::Subsd
            | O::Subss
            | O::Cvtdq2ps
            | O::Cvtpd2dq
            | O::Cvtpd2pi
            | O::Cvtpd2ps
            | O::Cvtpi2ps
            | O::Cvtps2dq
            | O::Cvtps2pd
            | O::Cvtps2pi
            | O::Cvtsd2si
            | O::Cvtsd2ss
            | O::Cvtsi2sd
            | O::Cvtsi2ss
            | O::Cvtss2sd
            | O::Cvtss2si
            | O::Cvttpd2dq
            | O::Cvttpd2pi
            | O::Cvttps2dq
            | O::Cvttps2pi
            | O::Cvttsd2si
            | O::Cvttss2si
    )
}
