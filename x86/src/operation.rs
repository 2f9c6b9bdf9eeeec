//! What an instruction does, as a number.
//!
//! One operation for each mnemonic of the manuals, but for those that differ in a condition code, in
//! the size of an operand that [`crate::insn::Insn`] has beside it, or in nothing; and but for MOV,
//! PUSH, POP, JMP, CALL and RET, which do different things with different operands.

/// Declares [`Operation`] and which of the decoder's mnemonics is which.
macro_rules! operations {
    (
        by_operands { $($(#[$doc:meta])* $special:ident,)* }
        one_mnemonic { $($single:ident,)* }
        several_mnemonics { $($group:ident: $($mnemonic:ident)|*,)* }
    ) => {
        /// What an instruction does. The numbers are dense from 0, so that tables can be indexed by
        /// them; they are not stable between versions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "named by the mnemonics of the manuals")]
        #[repr(u16)]
        pub enum Operation {
            $($(#[$doc])* $special,)*
            $($single,)*
            $($group,)*
        }

        impl Operation {
            /// Every operation, in the order of the numbers.
            pub const ALL: &'static [Self] =
                &[$(Self::$special,)* $(Self::$single,)* $(Self::$group,)*];

            /// The operation of a mnemonic, whatever its operands.
            pub(crate) fn of_mnemonic(mnemonic: iced_x86::Mnemonic) -> Self {
                use iced_x86::Mnemonic;
                match mnemonic {
                    $(Mnemonic::$single => Self::$single,)*
                    $($(Mnemonic::$mnemonic)|* => Self::$group,)*
                    _ => Self::Invalid,
                }
            }
        }
    };
}

operations! {
    by_operands {
        /// No instruction of the processor: raises #UD.
        Invalid,
        /// Longer than 15 bytes: raises #GP(0).
        TooLong,
        /// MOVSD of SSE2; the string instruction is [`Operation::Movs`].
        Movsd,
        /// CMPSD of SSE2; the string instruction is [`Operation::Cmps`].
        Cmpsd,
        JmpFar,
        CallFar,
        RetFar,
        MovToSegment,
        MovFromSegment,
        PushSegment,
        PopSegment,
        MovToControl,
        MovFromControl,
        MovToDebug,
        MovFromDebug,
    }
    one_mnemonic {
        Aaa, Aad, Aam, Aas, Adc, Add, Addpd, Addps, Addsd, Addss, Addsubpd, Addsubps, And,
        Andnpd, Andnps, Andpd, Andps, Arpl, Bound, Bsf, Bsr, Bswap, Bt, Btc, Btr, Bts, Call,
        Cbw, Cdq, Cdqe, Clc, Cld, Clevict0, Clevict1, Clflush, Cli, Clts, Cmc, Cmp, Cmppd,
        Cmpps, Cmpss, Cmpxchg, Cmpxchg16b, Cmpxchg8b, Comisd, Comiss, Cpuid, Cqo, Cvtdq2pd,
        Cvtdq2ps, Cvtpd2dq, Cvtpd2pi, Cvtpd2ps, Cvtpi2pd, Cvtpi2ps, Cvtps2dq, Cvtps2pd,
        Cvtps2pi, Cvtsd2si, Cvtsd2ss, Cvtsi2sd, Cvtsi2ss, Cvtss2sd, Cvtss2si, Cvttpd2dq,
        Cvttpd2pi, Cvttps2dq, Cvttps2pi, Cvttsd2si, Cvttss2si, Cwd, Cwde, Daa, Das, Dec,
        Delay, Div, Divpd, Divps, Divsd, Divss, Emms, Enter, F2xm1, Fabs, Fadd, Faddp, Fbld,
        Fbstp, Fchs, Fcom, Fcomi, Fcomip, Fcomp, Fcompp, Fcos, Fdecstp, Fdiv, Fdivp, Fdivr,
        Fdivrp, Femms, Ffree, Ffreep, Fiadd, Ficom, Ficomp, Fidiv, Fidivr, Fild, Fimul,
        Fincstp, Fist, Fistp, Fisttp, Fisub, Fisubr, Fld, Fld1, Fldcw, Fldenv, Fldl2e,
        Fldl2t, Fldlg2, Fldln2, Fldpi, Fldz, Fmul, Fmulp, Fnclex, Fndisi, Fneni, Fninit,
        Fnop, Fnsave, Fnsetpm, Fnstcw, Fnstenv, Fnstsw, Fpatan, Fprem, Fprem1, Fptan,
        Frndint, Frstor, Frstpm, Fscale, Fsin, Fsincos, Fsqrt, Fst, Fstp, Fstpnce, Fsub,
        Fsubp, Fsubr, Fsubrp, Ftst, Fucom, Fucomi, Fucomip, Fucomp, Fucompp, Fxam, Fxch,
        Fxtract, Fyl2x, Fyl2xp1, Haddpd, Haddps, Hlt, Hsubpd, Hsubps, Idiv, Imul, In, Inc,
        Int, Int1, Int3, Into, Invd, Invlpg, Jmp, Lahf, Lar, Lddqu, Ldmxcsr, Lds, Lea,
        Leave, Les, Lfence, Lfs, Lgdt, Lgs, Lidt, Lldt, Lmsw, Loop, Loope, Loopne, Lsl, Lss,
        Ltr, Maskmovdqu, Maskmovq, Maxpd, Maxps, Maxsd, Maxss, Mfence, Minpd, Minps, Minsd,
        Minss, Mov, Movapd, Movaps, Movd, Movddup, Movdq2q, Movdqa, Movdqu, Movhlps, Movhpd,
        Movhps, Movlhps, Movlpd, Movlps, Movmskpd, Movmskps, Movntdq, Movnti, Movntpd,
        Movntps, Movntq, Movq, Movq2dq, Movshdup, Movsldup, Movss, Movsx, Movsxd, Movupd,
        Movups, Movzx, Mul, Mulpd, Mulps, Mulsd, Mulss, Neg, Nop, Not, Or, Orpd, Orps, Out,
        Packssdw, Packsswb, Packuswb, Paddb, Paddd, Paddq, Paddsb, Paddsw, Paddusb, Paddusw,
        Paddw, Pand, Pandn, Pause, Pavgb, Pavgusb, Pavgw, Pcmpeqb, Pcmpeqd, Pcmpeqw,
        Pcmpgtb, Pcmpgtd, Pcmpgtw, Pextrw, Pf2id, Pf2iw, Pfacc, Pfadd, Pfcmpeq, Pfcmpge,
        Pfcmpgt, Pfmax, Pfmin, Pfmul, Pfnacc, Pfpnacc, Pfrcp, Pfrcpit1, Pfrcpit2, Pfrsqit1,
        Pfrsqrt, Pfsub, Pfsubr, Pi2fd, Pi2fw, Pinsrw, Pmaddwd, Pmaxsw, Pmaxub, Pminsw,
        Pminub, Pmovmskb, Pmulhrw, Pmulhuw, Pmulhw, Pmullw, Pmuludq, Pop, Por, Prefetch,
        Prefetchnta, Prefetcht0, Prefetcht1, Prefetcht2, Prefetchw, Prefetchwt1, Psadbw, Pshufd,
        Pshufhw, Pshuflw, Pshufw, Pslld, Pslldq, Psllq, Psllw, Psrad, Psraw, Psrld, Psrldq,
        Psrlq, Psrlw, Psubb, Psubd, Psubq, Psubsb, Psubsw, Psubusb, Psubusw, Psubw, Pswapd,
        Punpckhbw, Punpckhdq, Punpckhqdq, Punpckhwd, Punpcklbw, Punpckldq, Punpcklqdq,
        Punpcklwd, Push, Pxor, Rcl, Rcpps, Rcpss, Rcr, Rdmsr, Rdpmc, Rdtsc, Ret, Rol, Ror,
        Rsm, Rsqrtps, Rsqrtss, Sahf, Salc, Sar, Sbb, Sfence, Sgdt, Shld, Shr, Shrd, Shufpd,
        Shufps, Sidt, Sldt, Smsw, Spflt, Sqrtpd, Sqrtps, Sqrtsd, Sqrtss, Stc, Std, Sti,
        Stmxcsr, Str, Sub, Subpd, Subps, Subsd, Subss, Swapgs, Syscall, Sysenter, Test,
        Ucomisd, Ucomiss, Unpckhpd, Unpckhps, Unpcklpd, Unpcklps, Verr, Verw, Wait, Wbinvd,
        Wrmsr, Xadd, Xchg, Xlatb, Xor, Xorpd, Xorps,
    }
    several_mnemonics {
        Cmovcc: Cmovo | Cmovno | Cmovb | Cmovae | Cmove | Cmovne | Cmovbe | Cmova | Cmovs | Cmovns | Cmovp | Cmovnp | Cmovl | Cmovge | Cmovle | Cmovg,
        Cmps: Cmpsb | Cmpsw | Cmpsq,
        Fcmovcc: Fcmovb | Fcmove | Fcmovbe | Fcmovu | Fcmovnb | Fcmovne | Fcmovnbe | Fcmovnu,
        Fxrstor: Fxrstor | Fxrstor64,
        Fxsave: Fxsave | Fxsave64,
        HintNop: Endbr32 | Endbr64 | Rdsspd | Rdsspq | Cldemote | Reservednop,
        Ins: Insb | Insw | Insd,
        Iret: Iret | Iretd | Iretq,
        Jcc: Jo | Jno | Jb | Jae | Je | Jne | Jbe | Ja | Js | Jns | Jp | Jnp | Jl | Jge | Jle | Jg,
        Jcxz: Jcxz | Jecxz | Jrcxz,
        Lods: Lodsb | Lodsw | Lodsd | Lodsq,
        Movs: Movsb | Movsw | Movsq,
        Outs: Outsb | Outsw | Outsd,
        Popa: Popa | Popad,
        Popf: Popf | Popfd | Popfq,
        Pusha: Pusha | Pushad,
        Pushf: Pushf | Pushfd | Pushfq,
        Scas: Scasb | Scasw | Scasd | Scasq,
        Setcc: Seto | Setno | Setb | Setae | Sete | Setne | Setbe | Seta | Sets | Setns | Setp | Setnp | Setl | Setge | Setle | Setg,
        Shl: Shl | Sal,
        Stos: Stosb | Stosw | Stosd | Stosq,
        Sysexit: Sysexit | Sysexitq,
        Sysret: Sysret | Sysretq,
        Ud: Ud0 | Ud1 | Ud2,
    }
}

impl Operation {
    /// Whether nothing behind it begins before all before it is finished: the serialising instructions
    /// of AMD64 APM volume 2, section 7.6.4, and Intel SDM volume 3, "Serializing Instructions". MOV to
    /// CR8 is none, which the operation alone does not say.
    #[must_use]
    pub fn is_serialising(self) -> bool {
        matches!(
            self,
            Self::Cpuid
                | Self::Iret
                | Self::Rsm
                | Self::Invd
                | Self::Wbinvd
                | Self::Invlpg
                | Self::Lgdt
                | Self::Lidt
                | Self::Lldt
                | Self::Ltr
                | Self::MovToControl
                | Self::MovToDebug
                | Self::Wrmsr
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense() {
        for (n, &operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(operation as usize, n);
        }
    }
}
