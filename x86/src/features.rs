//! What the instruction set of a processor has, and what it does where the vendors' manuals differ.

use crate::control_registers::cr4;

/// What the instruction set of the processor has, beyond the integer base of an i486.
///
/// Names follow the CPUID feature bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the CPUID feature bits")]
pub struct Features {
    pub tsc: bool,
    pub msr: bool,
    pub cx8: bool,
    pub cx16: bool,
    pub cmov: bool,
    pub sep: bool,
    pub syscall: bool,
    pub mmx: bool,
    pub mmx_ext: bool,
    pub now3d: bool,
    pub now3d_ext: bool,
    pub fxsr: bool,
    pub sse: bool,
    pub sse2: bool,
    pub sse3: bool,
    pub clflush: bool,
    pub long_mode: bool,
    pub lahf_lm: bool,
    pub rdpmc: bool,
    pub nx: bool,
    pub ffxsr: bool,
    /// F3 90 executes: as PAUSE, or as the NOP that it was before there was a PAUSE.
    pub pause: bool,
    /// The multi-byte NOP 0F 1F /0.
    pub nopl: bool,
    /// 0F 18 to 0F 1F are hints, and those without a meaning are NOPs, 0F 1F /0 among them.
    pub hint_nop: bool,
    /// The thread and cache-control instructions of Knights Corner: SPFLT, DELAY, CLEVICT0,
    /// CLEVICT1.
    pub knc: bool,
    /// The vector unit of Knights Corner: its registers of 512 bits, its mask registers, its MVEX and VEX
    /// instructions, POPCNT, TZCNT and LZCNT in VEX form among them. Beside SSE the two have nothing
    /// in common but MXCSR, which is the unit's VXCSR.
    pub vpu: bool,
    /// What SHLD and SHRD shift in last.
    pub double_shift: DoubleShift,
    /// PUSH and POP of a segment register with a 32-bit operand write and read two bytes, and leave
    /// the other two of the four alone: the i486 and the P6 family. Else all four: the Pentium (Intel
    /// SDM volume 3, section 22.31.1), and AMD's processors, whose manual has no such exception.
    pub selector_words: bool,
    /// A fault of a repeated CMPS or SCAS finds the flags from before the instruction, and not those of
    /// the last comparison: Intel's processors (Intel SDM volume 2, "REP").
    pub repeat_restores_flags: bool,
    /// FXSAVE stores and FXRSTOR loads the x87 exception pointers and the opcode always: Intel's
    /// processors (Intel SDM volume 2, "FXSAVE"). Else only while an unmasked exception is pending:
    /// AMD's (AMD64 APM volume 5, "FXSAVE").
    pub fxsave_pointers: bool,
    /// How encodings read that AMD64 and Intel 64 define differently.
    pub encodings: EncodingRules,
    /// LOCK MOV CR0 is MOV CR8 (AltMovCr8, bit 4 of ECX of CPUID function 8000_0001h; AMD from
    /// family 0Fh, revision F, on). Elsewhere it is #UD.
    pub alt_mov_cr8: bool,
    /// SYSCALL and SYSRET execute outside 64-bit mode, too (APM volume 3, "SYSCALL"). Intel's
    /// processors raise #UD there (SDM volume 2, "SYSCALL": IF (CS.L != 1) or (IA32_EFER.LMA != 1)
    /// or (IA32_EFER.SCE != 1) THEN #UD).
    pub syscall_outside_64bit: bool,
    /// SYSRET to 64-bit mode looks at RCX while it is at privilege 0, and loads all of SS (SDM volume
    /// 2, "SYSRET"). AMD's takes RCX as it is and loads the selector of SS only (APM volume 3).
    pub sysret_checks: bool,
    /// SYSENTER and SYSEXIT execute in long mode, with registers of 64 bits (SDM volume 2,
    /// "SYSENTER"). AMD's processors raise #UD there (APM volume 3, "SYSENTER").
    pub sysenter_in_long_mode: bool,
    /// An instruction breakpoint right behind MOV SS or POP SS is taken. To Intel's processors it is
    /// as if RF were set there (SDM volume 3, "Instruction-Breakpoint Exception Condition"); AMD's
    /// manual knows no such exception (APM volume 2, section 13.1.3.1).
    pub breakpoint_after_ss: bool,
    /// An IRET that faults ends the blocking of NMIs all the same.
    ///
    /// Intel: NMIs are unmasked before the handler of the exception is invoked (SDM volume 2, "IRET";
    /// volume 3A, "Handling Multiple NMIs"). AMD's manuals do not say.
    pub faulting_iret_unblocks_nmi: bool,
    /// Bits of CR4 that can be set; to write a one to any other is #GP(0).
    pub cr4: u64,
    /// Physical address bits.
    pub phys_bits: u8,
}

impl Features {
    /// The i486 with CPUID: what all other processors add to. The i486's x87 is always there.
    pub const I486: Self = Self {
        tsc: false,
        msr: false,
        cx8: false,
        cx16: false,
        cmov: false,
        sep: false,
        syscall: false,
        mmx: false,
        mmx_ext: false,
        now3d: false,
        now3d_ext: false,
        fxsr: false,
        sse: false,
        sse2: false,
        sse3: false,
        clflush: false,
        long_mode: false,
        lahf_lm: false,
        rdpmc: false,
        nx: false,
        ffxsr: false,
        pause: true,
        nopl: false,
        hint_nop: false,
        knc: false,
        vpu: false,
        double_shift: DoubleShift::Destination,
        selector_words: true,
        repeat_restores_flags: true,
        fxsave_pointers: true,
        encodings: EncodingRules::Intel64,
        alt_mov_cr8: false,
        syscall_outside_64bit: false,
        sysret_checks: true,
        sysenter_in_long_mode: true,
        breakpoint_after_ss: false,
        faulting_iret_unblocks_nmi: true,
        cr4: 0,
        phys_bits: 32,
    };

    /// AMD Opteron, revision E: AMD64 with SSE3, without CMPXCHG16B.
    pub const K8: Self = Self {
        tsc: true,
        msr: true,
        cx8: true,
        cx16: false,
        cmov: true,
        sep: true,
        syscall: true,
        mmx: true,
        mmx_ext: true,
        now3d: true,
        now3d_ext: true,
        fxsr: true,
        sse: true,
        sse2: true,
        sse3: true,
        clflush: true,
        long_mode: true,
        lahf_lm: true,
        rdpmc: true,
        nx: true,
        ffxsr: true,
        pause: true,
        nopl: true,
        hint_nop: true,
        knc: false,
        vpu: false,
        double_shift: DoubleShift::Source,
        selector_words: false,
        repeat_restores_flags: false,
        fxsave_pointers: false,
        encodings: EncodingRules::Amd64,
        alt_mov_cr8: false,
        syscall_outside_64bit: true,
        sysret_checks: false,
        sysenter_in_long_mode: false,
        breakpoint_after_ss: true,
        faulting_iret_unblocks_nmi: false,
        cr4: cr4::VME
            | cr4::PVI
            | cr4::TSD
            | cr4::DE
            | cr4::PSE
            | cr4::PAE
            | cr4::MCE
            | cr4::PGE
            | cr4::PCE
            | cr4::OSFXSR
            | cr4::OSXMMEXCPT,
        phys_bits: 40,
    };
}

/// What SHLD and SHRD of 16-bit operands shift in behind the source where the count is above 16. The
/// manuals leave the result undefined (AMD64 APM volume 3, "SHLD"; Intel SDM volume 2, "SHLD"); it is
/// what processors of either vendor do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubleShift {
    /// The source once more: AMD.
    Source,
    /// The destination as it was: Intel.
    Destination,
}

/// Encodings that mean different things in the two 64-bit architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingRules {
    /// AMD64. In 64-bit mode 66h gives near branches an operand of 16 bits, and RIP with it (APM
    /// volume 1, table 3-9, "Near Branches in 64-Bit Mode": possible override 16); far pointers in
    /// memory have an offset of 16 or 32 bits whatever REX.W says (volume 3, "LFS", "CALL (Far)",
    /// "JMP (Far)"); UD0 is two bytes.
    Amd64,
    /// Intel 64. In 64-bit mode near branches have 64-bit operands whatever 66h says (SDM volume 1,
    /// "Branch Functions in 64-bit Mode": "forced to 64 bits"); with REX.W the far pointers of LFS,
    /// LGS, LSS, CALL and JMP are m16:64 (volume 2); UD0 has a ModRM byte, which it does not look at
    /// but reads. ("Some older processors decode the UD0 instruction without a ModR/M byte", volume
    /// 2, "UD": it does not say which.)
    Intel64,
}
