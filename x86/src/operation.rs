//! What an instruction does, as a number.
//!
//! One operation for each mnemonic of the manuals, but for those that differ in a condition code, in
//! the size of an operand that [`crate::insn::Insn`] has beside it, or in nothing; and but for MOV,
//! PUSH, POP, JMP, CALL and RET, which do different things with different operands.

/// Declares [`Operation`], [`Family`] and which of the decoder's mnemonics is which.
macro_rules! operations {
    (
        $(
            $(#[$family_doc:meta])*
            $family:ident {
                by_operands { $($(#[$doc:meta])* $special:ident,)* }
                one_mnemonic { $($single:ident,)* }
                several_mnemonics { $($group:ident: $($mnemonic:ident)|*,)* }
            }
        )*
    ) => {
        /// What an instruction does. The numbers are dense from 0, so that tables can be indexed by
        /// them; they are not stable between versions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "named by the mnemonics of the manuals")]
        #[repr(u16)]
        pub enum Operation {
            $(
                $($(#[$doc])* $special,)*
                $($single,)*
                $($group,)*
            )*
        }

        /// Which part of the instruction set an operation belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Family {
            $($(#[$family_doc])* $family,)*
        }

        impl Operation {
            /// Every operation, in the order of the numbers.
            pub const ALL: &'static [Self] =
                &[$($(Self::$special,)* $(Self::$single,)* $(Self::$group,)*)*];

            /// The part of the instruction set that it belongs to.
            #[must_use]
            pub const fn family(self) -> Family {
                match self {
                    $(
                        $(Self::$special => Family::$family,)*
                        $(Self::$single => Family::$family,)*
                        $(Self::$group => Family::$family,)*
                    )*
                }
            }

            /// The operation of a mnemonic, whatever its operands.
            pub(crate) fn of_mnemonic(mnemonic: iced_x86::Mnemonic) -> Self {
                use iced_x86::Mnemonic;
                match mnemonic {
                    $(
                        $(Mnemonic::$single => Self::$single,)*
                        $($(Mnemonic::$mnemonic)|* => Self::$group,)*
                    )*
                    _ => Self::Invalid,
                }
            }
        }
    };
}

operations! {
    /// The general-purpose and system instructions.
    General {
        by_operands {
            /// No instruction of the processor: raises #UD.
            Invalid,
            /// Longer than 15 bytes: raises #GP(0).
            TooLong,
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
            Aaa, Aad, Aam, Aas, Adc, Add, And, Arpl, Bound, Bsf, Bsr, Bswap, Bt, Btc,
            Btr, Bts, Call, Cbw, Cdq, Cdqe, Clc, Cld, Clevict0, Clevict1, Clflush, Cli,
            Clts, Cmc, Cmp, Cmpxchg, Cmpxchg16b, Cmpxchg8b, Cpuid, Cqo, Cwd, Cwde, Daa,
            Das, Dec, Delay, Div, Enter, Hlt, Idiv, Imul, In, Inc, Int, Int1, Int3,
            Into, Invd, Invlpg, Jknzd, Jkzd, Jmp, Lahf, Lar, Lds, Lea, Leave, Les, Lfence, Lfs, Lgdt,
            Lgs, Lidt, Lldt, Lmsw, Loop, Loope, Loopne, Lsl, Lss, Ltr, Mfence, Mov,
            Movsx, Movsxd, Movzx, Mul, Neg, Nop, Not, Or, Out, Pause, Pop, Prefetch,
            Prefetchnta, Prefetcht0, Prefetcht1, Prefetcht2, Prefetchw, Prefetchwt1,
            Push, Rcl, Rcr, Rdmsr, Rdpmc, Rdtsc, Ret, Rol, Ror, Rsm, Sahf, Salc, Sar,
            Sbb, Sfence, Sgdt, Shld, Shr, Shrd, Sidt, Sldt, Smsw, Spflt, Stc, Std, Sti,
            Str, Sub, Swapgs, Syscall, Sysenter, Test, Verr, Verw, Wbinvd, Wrmsr, Xadd,
            Xchg, Xlatb, Xor,
        }
        several_mnemonics {
            Cmovcc: Cmovo | Cmovno | Cmovb | Cmovae | Cmove | Cmovne | Cmovbe | Cmova | Cmovs | Cmovns | Cmovp | Cmovnp | Cmovl | Cmovge | Cmovle | Cmovg,
            Cmps: Cmpsb | Cmpsw | Cmpsq,
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
    /// The x87 instructions.
    X87 {
        by_operands {}
        one_mnemonic {
            F2xm1, Fabs, Fadd, Faddp, Fbld, Fbstp, Fchs, Fcom, Fcomi, Fcomip, Fcomp,
            Fcompp, Fcos, Fdecstp, Fdiv, Fdivp, Fdivr, Fdivrp, Ffree, Ffreep, Fiadd,
            Ficom, Ficomp, Fidiv, Fidivr, Fild, Fimul, Fincstp, Fist, Fistp, Fisttp,
            Fisub, Fisubr, Fld, Fld1, Fldcw, Fldenv, Fldl2e, Fldl2t, Fldlg2, Fldln2,
            Fldpi, Fldz, Fmul, Fmulp, Fnclex, Fndisi, Fneni, Fninit, Fnop, Fnsave,
            Fnsetpm, Fnstcw, Fnstenv, Fnstsw, Fpatan, Fprem, Fprem1, Fptan, Frndint,
            Frstor, Frstpm, Fscale, Fsin, Fsincos, Fsqrt, Fst, Fstp, Fstpnce, Fsub,
            Fsubp, Fsubr, Fsubrp, Ftst, Fucom, Fucomi, Fucomip, Fucomp, Fucompp, Fxam,
            Fxch, Fxtract, Fyl2x, Fyl2xp1, Wait,
        }
        several_mnemonics {
            Fcmovcc: Fcmovb | Fcmove | Fcmovbe | Fcmovu | Fcmovnb | Fcmovne | Fcmovnbe | Fcmovnu,
        }
    }
    /// MMX, 3DNow! and SSE instructions, FXSAVE and FXRSTOR.
    Simd {
        by_operands {
            /// MOVSD of SSE2; the string instruction is [`Operation::Movs`].
            Movsd,
            /// CMPSD of SSE2; the string instruction is [`Operation::Cmps`].
            Cmpsd,
        }
        one_mnemonic {
            Addpd, Addps, Addsd, Addss, Addsubpd, Addsubps, Andnpd, Andnps, Andpd,
            Andps, Cmppd, Cmpps, Cmpss, Comisd, Comiss, Cvtdq2pd, Cvtdq2ps, Cvtpd2dq,
            Cvtpd2pi, Cvtpd2ps, Cvtpi2pd, Cvtpi2ps, Cvtps2dq, Cvtps2pd, Cvtps2pi,
            Cvtsd2si, Cvtsd2ss, Cvtsi2sd, Cvtsi2ss, Cvtss2sd, Cvtss2si, Cvttpd2dq,
            Cvttpd2pi, Cvttps2dq, Cvttps2pi, Cvttsd2si, Cvttss2si, Divpd, Divps, Divsd,
            Divss, Emms, Femms, Haddpd, Haddps, Hsubpd, Hsubps, Lddqu, Ldmxcsr,
            Maskmovdqu, Maskmovq, Maxpd, Maxps, Maxsd, Maxss, Minpd, Minps, Minsd,
            Minss, Movapd, Movaps, Movd, Movddup, Movdq2q, Movdqa, Movdqu, Movhlps,
            Movhpd, Movhps, Movlhps, Movlpd, Movlps, Movmskpd, Movmskps, Movntdq,
            Movnti, Movntpd, Movntps, Movntq, Movq, Movq2dq, Movshdup, Movsldup, Movss,
            Movupd, Movups, Mulpd, Mulps, Mulsd, Mulss, Orpd, Orps, Packssdw, Packsswb,
            Packuswb, Paddb, Paddd, Paddq, Paddsb, Paddsw, Paddusb, Paddusw, Paddw,
            Pand, Pandn, Pavgb, Pavgusb, Pavgw, Pcmpeqb, Pcmpeqd, Pcmpeqw, Pcmpgtb,
            Pcmpgtd, Pcmpgtw, Pextrw, Pf2id, Pf2iw, Pfacc, Pfadd, Pfcmpeq, Pfcmpge,
            Pfcmpgt, Pfmax, Pfmin, Pfmul, Pfnacc, Pfpnacc, Pfrcp, Pfrcpit1, Pfrcpit2,
            Pfrsqit1, Pfrsqrt, Pfsub, Pfsubr, Pi2fd, Pi2fw, Pinsrw, Pmaddwd, Pmaxsw,
            Pmaxub, Pminsw, Pminub, Pmovmskb, Pmulhrw, Pmulhuw, Pmulhw, Pmullw, Pmuludq,
            Por, Psadbw, Pshufd, Pshufhw, Pshuflw, Pshufw, Pslld, Pslldq, Psllq, Psllw,
            Psrad, Psraw, Psrld, Psrldq, Psrlq, Psrlw, Psubb, Psubd, Psubq, Psubsb,
            Psubsw, Psubusb, Psubusw, Psubw, Pswapd, Punpckhbw, Punpckhdq, Punpckhqdq,
            Punpckhwd, Punpcklbw, Punpckldq, Punpcklqdq, Punpcklwd, Pxor, Rcpps, Rcpss,
            Rsqrtps, Rsqrtss, Shufpd, Shufps, Sqrtpd, Sqrtps, Sqrtsd, Sqrtss, Stmxcsr,
            Subpd, Subps, Subsd, Subss, Ucomisd, Ucomiss, Unpckhpd, Unpckhps, Unpcklpd,
            Unpcklps, Xorpd, Xorps,
        }
        several_mnemonics {
            Fxrstor: Fxrstor | Fxrstor64,
            Fxsave: Fxsave | Fxsave64,
        }
    }
    /// The vector unit of Knights Corner: MVEX instructions, its mask instructions, and the counts of bits
    /// that it has in VEX form.
    Vector {
        by_operands {}
        one_mnemonic {
            Kand, Kandn, Kandnr, Kconcath, Kconcatl, Kextract, Kmerge2l1h, Kmerge2l1l,
            Kmov, Knot, Kor, Kortest, Kxnor, Kxor, Lzcnt, Popcnt, Tzcnt, Tzcnti,
            Vaddnpd, Vaddnps, Vaddpd, Vaddps, Vaddsetsps, Valignd, Vblendmpd, Vblendmps,
            Vbroadcastf32x4, Vbroadcastf64x4, Vbroadcasti32x4, Vbroadcasti64x4,
            Vbroadcastsd, Vbroadcastss, Vcmppd, Vcmpps, Vcvtdq2pd, Vcvtfxpntdq2ps,
            Vcvtfxpntpd2dq, Vcvtfxpntpd2udq, Vcvtfxpntps2dq, Vcvtfxpntps2udq,
            Vcvtfxpntudq2ps, Vcvtpd2ps, Vcvtps2pd, Vcvtudq2pd, Vexp223ps, Vfixupnanpd,
            Vfixupnanps, Vfmadd132pd, Vfmadd132ps, Vfmadd213pd, Vfmadd213ps,
            Vfmadd231pd, Vfmadd231ps, Vfmadd233ps, Vfmsub132pd, Vfmsub132ps,
            Vfmsub213pd, Vfmsub213ps, Vfmsub231pd, Vfmsub231ps, Vfnmadd132pd,
            Vfnmadd132ps, Vfnmadd213pd, Vfnmadd213ps, Vfnmadd231pd, Vfnmadd231ps,
            Vfnmsub132pd, Vfnmsub132ps, Vfnmsub213pd, Vfnmsub213ps, Vfnmsub231pd,
            Vfnmsub231ps, Vgatherdpd, Vgatherdps, Vgatherpf0dps, Vgatherpf0hintdpd,
            Vgatherpf0hintdps, Vgatherpf1dps, Vgetexppd, Vgetexpps, Vgetmantpd,
            Vgetmantps, Vgmaxabsps, Vgmaxpd, Vgmaxps, Vgminpd, Vgminps, Vloadunpackhd,
            Vloadunpackhpd, Vloadunpackhps, Vloadunpackhq, Vloadunpackld,
            Vloadunpacklpd, Vloadunpacklps, Vloadunpacklq, Vlog2ps, Vmovapd, Vmovaps,
            Vmovdqa32, Vmovdqa64, Vmovnrapd, Vmovnraps, Vmovnrngoapd, Vmovnrngoaps,
            Vmulpd, Vmulps, Vpackstorehd, Vpackstorehpd, Vpackstorehps, Vpackstorehq,
            Vpackstoreld, Vpackstorelpd, Vpackstorelps, Vpackstorelq, Vpadcd, Vpaddd,
            Vpaddsetcd, Vpaddsetsd, Vpandd, Vpandnd, Vpandnq, Vpandq, Vpblendmd,
            Vpblendmq, Vpbroadcastd, Vpbroadcastq, Vpcmpd, Vpcmpeqd, Vpcmpgtd, Vpcmpltd,
            Vpcmpud, Vpermd, Vpermf32x4, Vpgatherdd, Vpgatherdq, Vpmadd231d, Vpmadd233d,
            Vpmaxsd, Vpmaxud, Vpminsd, Vpminud, Vpmulhd, Vpmulhud, Vpmulld, Vpord,
            Vporq, Vprefetch0, Vprefetch1, Vprefetch2, Vprefetche0, Vprefetche1,
            Vprefetche2, Vprefetchenta, Vprefetchnta, Vpsbbd, Vpsbbrd, Vpscatterdd,
            Vpscatterdq, Vpshufd, Vpslld, Vpsllvd, Vpsrad, Vpsravd, Vpsrld, Vpsrlvd,
            Vpsubd, Vpsubrd, Vpsubrsetbd, Vpsubsetbd, Vptestmd, Vpxord, Vpxorq,
            Vrcp23ps, Vrndfxpntpd, Vrndfxpntps, Vrsqrt23ps, Vscaleps, Vscatterdpd,
            Vscatterdps, Vscatterpf0dps, Vscatterpf0hintdpd, Vscatterpf0hintdps,
            Vscatterpf1dps, Vsubpd, Vsubps, Vsubrpd, Vsubrps,
        }
        several_mnemonics {}
    }
}

impl Operation {
    /// Whether it is a conversion of floating-point numbers that writes an MMX register.
    pub(crate) const fn converts_to_mmx(self) -> bool {
        matches!(self, Self::Cvtps2pi | Self::Cvttps2pi | Self::Cvtpd2pi | Self::Cvttpd2pi)
    }

    /// Whether it is a prefetch of one line by the vector unit.
    pub(crate) const fn is_vector_prefetch(self) -> bool {
        matches!(
            self,
            Self::Vprefetch0
                | Self::Vprefetch1
                | Self::Vprefetch2
                | Self::Vprefetchnta
                | Self::Vprefetche0
                | Self::Vprefetche1
                | Self::Vprefetche2
                | Self::Vprefetchenta
        )
    }

    /// Whether nothing behind it begins before all before it is finished: the serialising instructions
    /// of AMD64 APM volume 2, section 7.6.4, and Intel SDM volume 3, "Serializing Instructions". MOV to
    /// CR8 is none, which the operation alone does not say.
    #[must_use]
    pub const fn is_serialising(self) -> bool {
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
