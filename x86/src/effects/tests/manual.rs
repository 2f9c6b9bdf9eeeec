//! What the decoder's tables do not have, from the manuals by hand: Intel SDM volume 2 and AMD64 APM
//! volumes 3 to 5, each instruction's page.

use super::lowering;
use crate::{
    effects::{Access, Effects, FlagSet, MemoryOperand, Mode},
    features::Features,
    insn::{AddrMask, Mem, ZERO, gpr, seg},
    lower::lower_bytes,
    mode::CodeSize,
};

const B16: CodeSize = CodeSize::Bits16;
const B32: CodeSize = CodeSize::Bits32;
const B64: CodeSize = CodeSize::Bits64;

/// The effects of `bytes`, to the last of them.
fn effects(code: CodeSize, bytes: &[u8]) -> Effects {
    in_mode(Mode::new(code), bytes)
}

fn in_mode(mode: Mode, bytes: &[u8]) -> Effects {
    let (_, insn) = lower_bytes(&lowering(Features::K8, mode.code), bytes).expect("whole");
    assert_eq!(usize::from(insn.len), bytes.len(), "{bytes:x?}");
    insn.effects(mode)
}

/// Registers read and written, those of the written that may stay as they were and those that are
/// written in part.
type Registers = [&'static str; 4];

fn check_registers(cases: &[(CodeSize, &[u8], Registers)]) {
    for &(code, bytes, [read, written, conditional, partial]) in cases {
        let e = effects(code, bytes);
        let found = [e.read, e.written, e.conditional, e.partial].map(|set| format!("{set:?}"));
        let expected = [read, written, conditional, partial].map(|names| format!("{{{names}}}"));
        assert_eq!(found, expected, "{bytes:x?}");
    }
}

/// Which registers are read for more than an address, and which are read at all.
#[test]
fn values_and_addresses() {
    let cases: [(CodeSize, &[u8], &str, &str); 12] = [
        // MOV EAX, [ECX+EDX*2]; MOV [ECX], EDX; ADD EAX, [EAX]; ADD ECX, [EAX].
        (B32, &[0x8b, 0x04, 0x51], "", "RCX, RDX, DS"),
        (B32, &[0x89, 0x11], "RDX", "RCX, RDX, DS"),
        (B32, &[0x03, 0x00], "RAX", "RAX, DS"),
        (B32, &[0x03, 0x08], "RCX", "RAX, RCX, DS"),
        // LEA EAX, [ECX]; MOV RAX, [RIP+0].
        (B64, &[0x8d, 0x01], "", "RCX"),
        (B64, &[0x48, 0x8b, 0x05, 0, 0, 0, 0], "", "RIP"),
        // The pointer is moved, and RBP is what RSP is computed from: PUSH RCX; POP RCX; LEAVE; LODSB.
        (B64, &[0x51], "RCX, RSP", "RCX, RSP"),
        (B64, &[0x59], "RSP", "RSP"),
        (B64, &[0xc9], "RBP", "RBP"),
        (B64, &[0xac], "RSI", "RSI"),
        // PUSH [RCX]; MOV EAX, FS:[ECX].
        (B64, &[0xff, 0x31], "RSP", "RCX, RSP"),
        (B32, &[0x64, 0x8b, 0x01], "", "RCX, FS"),
    ];
    for (code, bytes, values, read) in cases {
        let e = effects(code, bytes);
        let found = [e.values, e.read].map(|set| format!("{set:?}"));
        assert_eq!(found, [values, read].map(|names| format!("{{{names}}}")), "{bytes:x?}");
    }
}

#[test]
fn parts_of_general_registers() {
    check_registers(&[
        // MOV AL, 1; MOV AH, CH; MOV AX, CX; MOV EAX, ECX.
        (B64, &[0xb0, 1], ["", "RAX", "", "RAX"]),
        (B32, &[0x88, 0xec], ["RCX", "RAX", "", "RAX"]),
        (B32, &[0x66, 0x89, 0xc8], ["RCX", "RAX", "", "RAX"]),
        (B64, &[0x89, 0xc8], ["RCX", "RAX", "", ""]),
        // MOV SIL, R9B.
        (B64, &[0x44, 0x88, 0xce], ["R9", "RSI", "", "RSI"]),
        // CMOVE CX, DX; CMOVE ECX, EDX: in 64-bit mode the upper half of RCX is cleared in any case.
        (B64, &[0x66, 0x0f, 0x44, 0xca], ["RDX", "RCX", "RCX", "RCX"]),
        (B64, &[0x0f, 0x44, 0xca], ["RCX, RDX", "RCX", "", ""]),
        (B32, &[0x0f, 0x44, 0xca], ["RDX", "RCX", "RCX", ""]),
        // BSF EAX, ECX.
        (B64, &[0x0f, 0xbc, 0xc1], ["RCX", "RAX", "RAX", ""]),
        // MUL CL; MUL CX; DIV ECX; IMUL ECX, EDX; IMUL ECX, EDX, 0.
        (B64, &[0xf6, 0xe1], ["RAX, RCX", "RAX", "", "RAX"]),
        (B64, &[0x66, 0xf7, 0xe1], ["RAX, RCX", "RAX, RDX", "", "RAX, RDX"]),
        (B64, &[0xf7, 0xf1], ["RAX, RCX, RDX", "RAX, RDX", "", ""]),
        (B64, &[0x0f, 0xaf, 0xca], ["RCX, RDX", "RCX", "", ""]),
        (B64, &[0x6b, 0xca, 0], ["RDX", "RCX", "", ""]),
        // SHLD EAX, EBX, CL; SHL DWORD [RAX], CL.
        (B64, &[0x0f, 0xa5, 0xd8], ["RAX, RCX, RBX", "RAX", "", ""]),
        (B64, &[0xd3, 0x20], ["RAX, RCX", "", "", ""]),
        // CMPXCHG ECX, EDX; CMPXCHG [RCX], EDX.
        (B64, &[0x0f, 0xb1, 0xd1], ["RAX, RCX, RDX", "RAX, RCX", "RAX, RCX", ""]),
        (B64, &[0x0f, 0xb1, 0x11], ["RAX, RCX, RDX", "RAX", "RAX", ""]),
    ]);
}

#[test]
fn transfers_of_control() {
    check_registers(&[
        // JMP short; JE; LOOP with CX, with RCX; JRCXZ; JMP RAX.
        (B64, &[0xeb, 0], ["RIP", "RIP", "", ""]),
        (B64, &[0x74, 0], ["RIP", "RIP", "RIP", ""]),
        (B32, &[0x67, 0xe2, 0], ["RCX, RIP", "RCX, RIP", "RIP", "RCX"]),
        (B64, &[0xe2, 0], ["RCX, RIP", "RCX, RIP", "RIP", ""]),
        (B64, &[0xe3, 0], ["RCX, RIP", "RIP", "RIP", ""]),
        (B64, &[0xff, 0xe0], ["RAX", "RIP", "", ""]),
        // MOV EAX, [RIP].
        (B64, &[0x8b, 0x05, 0, 0, 0, 0], ["RIP", "RAX", "", ""]),
        // CALL near: 64-bit mode has no segment; RET.
        (B32, &[0xe8, 0, 0, 0, 0], ["RSP, SS, RIP", "RSP, RIP", "", ""]),
        (B64, &[0xc3], ["RSP", "RSP, RIP", "", ""]),
        // IRETQ, SYSCALL, SYSEXIT.
        (B64, &[0x48, 0xcf], ["RSP", "RSP, CS, SS, RIP", "", ""]),
        (B64, &[0x0f, 0x05], ["RIP, MSRs", "RCX, R11, CS, SS, RIP", "", ""]),
        (B32, &[0x0f, 0x35], ["RCX, RDX, MSRs", "RSP, CS, SS, RIP", "", ""]),
    ]);
    // JMP FAR [RAX], INT 80h and IRET may go through gates; RET does not.
    for (bytes, open_ended) in
        [(&[0xff, 0x28][..], true), (&[0xcd, 0x80], true), (&[0xcf], true), (&[0xc3], false)]
    {
        assert_eq!(effects(B64, bytes).open_ended, open_ended, "{bytes:x?}");
    }
}

#[test]
fn system_registers() {
    check_registers(&[
        // LGDT [RAX], SIDT [RAX], LLDT AX, STR EAX.
        (B64, &[0x0f, 0x01, 0x10], ["RAX", "GDTR", "", ""]),
        (B64, &[0x0f, 0x01, 0x08], ["RAX, IDTR", "", "", ""]),
        (B64, &[0x0f, 0x00, 0xd0], ["RAX", "LDTR", "", ""]),
        (B64, &[0x0f, 0x00, 0xc8], ["TR", "RAX", "", ""]),
        // RDTSC, RDPMC, RDMSR, WRMSR, SWAPGS.
        (B64, &[0x0f, 0x31], ["TSC", "RAX, RDX", "", ""]),
        (B64, &[0x0f, 0x33], ["RCX, PMCs", "RAX, RDX", "", ""]),
        (B64, &[0x0f, 0x32], ["RCX, MSRs", "RAX, RDX", "", ""]),
        (B64, &[0x0f, 0x30], ["RAX, RCX, RDX", "MSRs", "MSRs", ""]),
        (B64, &[0x0f, 0x01, 0xf8], ["GS, MSRs", "GS, MSRs", "MSRs", ""]),
        // MOV CR3, RAX; MOV RCX, DR7; CLTS; MOV DS, AX; MOV CS, AX, which is #UD.
        (B64, &[0x0f, 0x22, 0xd8], ["RAX", "CR3", "", ""]),
        (B64, &[0x0f, 0x21, 0xf9], ["DR7", "RCX", "", ""]),
        (B64, &[0x0f, 0x06], ["CR0", "CR0", "", ""]),
        (B64, &[0x8e, 0xd8], ["RAX", "DS", "", ""]),
        (B32, &[0x8e, 0xc8], ["", "", "", ""]),
        // LES EAX, [EBX].
        (B32, &[0xc4, 0x03], ["RBX, DS", "RAX, ES", "", ""]),
        // SMSW AX.
        (B32, &[0x66, 0x0f, 0x01, 0xe0], ["CR0", "RAX", "", "RAX"]),
    ]);
}

/// MXCSR is read where rounding, masks or flush modes matter, and its flags accumulate. CVTDQ2PD is
/// exact, and RCPPS does not look at it ("SIMD Floating-Point Exceptions: None").
#[test]
fn vectors() {
    check_registers(&[
        // ADDPS XMM1, XMM2; ANDPS XMM1, XMM2; SQRTSD XMM1, XMM2.
        (B64, &[0x0f, 0x58, 0xca], ["XMM1, XMM2, MXCSR", "XMM1, MXCSR", "MXCSR", ""]),
        (B64, &[0x0f, 0x54, 0xca], ["XMM1, XMM2", "XMM1", "", ""]),
        (B64, &[0xf2, 0x0f, 0x51, 0xca], ["XMM2, MXCSR", "XMM1, MXCSR", "MXCSR", "XMM1"]),
        // CVTDQ2PD XMM1, XMM2; RCPPS XMM1, XMM2.
        (B64, &[0xf3, 0x0f, 0xe6, 0xca], ["XMM2", "XMM1", "", ""]),
        (B64, &[0x0f, 0x53, 0xca], ["XMM2", "XMM1", "", ""]),
        // MOVSS XMM1, XMM2; MOVSS XMM1, [RAX]; MOVQ XMM1, XMM2; MOVHLPS XMM1, XMM2.
        (B64, &[0xf3, 0x0f, 0x10, 0xca], ["XMM2", "XMM1", "", "XMM1"]),
        (B64, &[0xf3, 0x0f, 0x10, 0x08], ["RAX", "XMM1", "", ""]),
        (B64, &[0xf3, 0x0f, 0x7e, 0xca], ["XMM2", "XMM1", "", ""]),
        (B64, &[0x0f, 0x12, 0xca], ["XMM2", "XMM1", "", "XMM1"]),
        // LDMXCSR [RAX]; STMXCSR [RAX].
        (B64, &[0x0f, 0xae, 0x10], ["RAX", "MXCSR", "", ""]),
        (B64, &[0x0f, 0xae, 0x18], ["RAX, MXCSR", "", "", ""]),
        // PADDB MM1, MM2 and MOVD EAX, MM1 make the tags valid; EMMS empties them.
        (B64, &[0x0f, 0xfc, 0xca], ["MM1, MM2", "MM1, TOP, FTW", "", ""]),
        (B64, &[0x0f, 0x7e, 0xc8], ["MM1", "RAX, TOP, FTW", "", ""]),
        (B64, &[0x0f, 0x77], ["", "TOP, FTW", "TOP", ""]),
        // PINSRW MM1, EAX, 0; PSRLW XMM1, 2; CVTPI2PS XMM1, [RAX].
        (B64, &[0x0f, 0xc4, 0xc8, 0], ["RAX", "MM1, TOP, FTW", "", "MM1"]),
        (B64, &[0x66, 0x0f, 0x71, 0xd1, 2], ["XMM1", "XMM1", "", ""]),
        (B64, &[0x0f, 0x2a, 0x08], ["RAX, MXCSR", "XMM1, MXCSR", "MXCSR", "XMM1"]),
    ]);
}

#[test]
fn x87() {
    const POINTERS: &str = "FIP/FDP/FOP";
    let at = |set: &str| format!("{{{}}}", set.replace("PTR", POINTERS));
    for (bytes, read, written, pops) in [
        // FADD ST(3); FADDP ST(3); FLD ST(2); FLD1; FSTP ST(2).
        (&[0xd8, 0xc3], "ST(0), ST(3), FCW", "ST(0), FSW, PTR", 0),
        (&[0xde, 0xc3], "ST(0), ST(3), FCW, TOP", "ST(3), FSW, TOP, FTW, PTR", 1),
        (&[0xd9, 0xc2], "ST(2), FCW, TOP", "ST(7), FSW, TOP, FTW, PTR", -1),
        (&[0xd9, 0xe8], "FCW, TOP", "ST(7), FSW, TOP, FTW, PTR", -1),
        (&[0xdd, 0xda], "ST(0), FCW, TOP", "ST(2), FSW, TOP, FTW, PTR", 1),
        // FCOMPP, FXCH ST(4), FFREE ST(1), FINCSTP.
        (&[0xde, 0xd9], "ST(0), ST(1), FCW, TOP", "FSW, TOP, FTW, PTR", 2),
        (&[0xd9, 0xcc], "ST(0), ST(4), FCW", "ST(0), ST(4), FSW, PTR", 0),
        (&[0xdd, 0xc1], "", "FTW, PTR", 0),
        (&[0xd9, 0xf7], "TOP", "TOP, PTR", 1),
        // FNINIT, FNCLEX: control instructions are not noted.
        (&[0xdb, 0xe3], "", "FCW, FSW, TOP, FTW, PTR", 0),
        (&[0xdb, 0xe2], "", "FSW", 0),
        // FPATAN.
        (&[0xd9, 0xf3], "ST(0), ST(1), FCW, TOP", "ST(1), FSW, TOP, FTW, PTR", 1),
    ] {
        let e = effects(B32, bytes);
        let found = [e.read, e.written].map(|set| format!("{set:?}"));
        assert_eq!((found, e.x87_pops), ([at(read), at(written)], pops), "{bytes:x?}");
    }
    // FSTENV masks the exceptions: a part of the control word.
    check_registers(&[(
        B32,
        &[0xd9, 0x30],
        ["RAX, DS, FCW, FSW, TOP, FTW, FIP/FDP/FOP", "FCW", "", "FCW"],
    )]);
}

/// Flags beyond the arithmetic flags, IF, DF and AC.
#[test]
fn flags_of_the_system() {
    use FlagSet as F;
    let all = |flags: &[F]| flags.iter().fold(F::EMPTY, |all, &flag| all.union(flag));
    let privilege = all(&[F::IOPL, F::VM]);
    // CLI: IF, or VIF in its place.
    let cli = effects(B32, &[0xfa]).flags;
    assert_eq!((cli.read, cli.cleared), (privilege, all(&[F::IF, F::VIF])));
    assert_eq!(cli.conditional, cli.written);
    // POPFD and POPFW: AC and ID are in the upper half; IF and IOPL need privilege; VM is left.
    for (bytes, upper) in [(&[0x9d][..], all(&[F::AC, F::ID])), (&[0x66, 0x9d], F::EMPTY)] {
        let flags = effects(B32, bytes).flags;
        let guarded = all(&[F::IF, F::IOPL, F::VIF]);
        let rest = all(&[F::ARITHMETIC, F::TF, F::DF, F::NT, F::RF]);
        assert_eq!(flags.written, all(&[guarded, rest, upper]), "{bytes:x?}");
        assert_eq!((flags.conditional, flags.cleared), (guarded, F::RF), "{bytes:x?}");
    }
    // PUSHFD stores RF and VM as zero; VM decides with IOPL what IF stands for.
    let pushf = effects(B32, &[0x9c]).flags;
    assert_eq!(pushf.read, F::ALL.without(F::RF));
    // IRETD: NT says whether it returns to a task; VM comes from privilege 0.
    let iret = effects(B32, &[0xcf]).flags;
    assert_eq!(iret.read, all(&[privilege, F::NT]));
    assert_eq!(iret.written, F::ALL);
    assert_eq!(iret.conditional, all(&[F::IF, F::IOPL, F::VIF, F::VIP, F::VM]));
    // INT 3 clears TF, NT, RF and VM; through an interrupt gate also IF.
    let int3 = effects(B32, &[0xcc]).flags;
    assert_eq!(int3.cleared, all(&[F::TF, F::NT, F::RF, F::VM, F::IF]));
    assert_eq!((int3.conditional, int3.read), (F::IF, F::ALL));
    // INTO does so if OF is set.
    let into = effects(B32, &[0xce]).flags;
    assert_eq!(into.conditional, into.written);
    // SYSENTER.
    assert_eq!(effects(B32, &[0x0f, 0x34]).flags.cleared, all(&[F::VM, F::IF, F::RF]));
    // SHL EAX, CL may leave all flags; SHL EAX, 0 leaves them.
    let shift = effects(B32, &[0xd3, 0xe0]).flags;
    assert_eq!((shift.changed(), shift.conditional), (F::ARITHMETIC, F::ARITHMETIC));
    assert_eq!(effects(B32, &[0xc1, 0xe0, 0x20]).flags, super::super::Flags::default());
    // CMPSB alone and repeated.
    assert_eq!(effects(B32, &[0xa6]).flags.conditional, F::EMPTY);
    assert_eq!(effects(B32, &[0xf3, 0xa6]).flags.conditional, F::ARITHMETIC);
}

fn stack(base: u8, disp: i64, seg: u8, mask: AddrMask) -> Mem {
    Mem { disp, base, index: ZERO, scale: 0, seg, mask }
}

fn operand(access: Access, mem: Mem, bytes: u16, count: u8) -> MemoryOperand {
    MemoryOperand { access, mem, bytes, count, conditional: false, repeated: false }
}

/// SS.B decides the width of the stack pointer, not the code size; its segment need not be flat.
#[test]
fn stacks_of_another_width() {
    let mixed = Mode { code: B32, stack: AddrMask::Bits16, stack_segment: seg::SS };
    // PUSH EAX.
    let push = in_mode(mixed, &[0x50]);
    let expected = operand(Access::Write, stack(gpr::RSP, -4, seg::SS, AddrMask::Bits16), 4, 1);
    assert_eq!(push.memory[..], [expected]);
    assert_eq!(format!("{:?} {:?}", push.read, push.partial), "{RAX, RSP, SS} {RSP}");
    let flat = Mode { code: B16, stack: AddrMask::Bits32, stack_segment: seg::FLAT_STACK };
    // PUSHA in 16-bit code: eight words below ESP.
    let pusha = in_mode(flat, &[0x60]);
    let at = stack(gpr::RSP, -16, seg::FLAT_STACK, AddrMask::Bits32);
    assert_eq!(pusha.memory[..], [operand(Access::Write, at, 2, 8)]);
    assert_eq!(pusha.memory[0].total_bytes(), 16);
    assert_eq!(format!("{:?} {:?}", pusha.written, pusha.partial), "{RSP} {}");
}

/// POP [ESP+4] computes its address with ESP after the pop.
#[test]
fn pop_to_the_stack() {
    let e = effects(B32, &[0x8f, 0x44, 0x24, 4]);
    let at = |disp| stack(gpr::RSP, disp, seg::SS, AddrMask::Bits32);
    let expected = [operand(Access::Read, at(0), 4, 1), operand(Access::Write, at(8), 4, 1)];
    assert_eq!(e.memory[..], expected);
}

/// ENTER 10h, 3 in 32-bit code: EBP is pushed, then the two frame pointers below [EBP], then its own:
/// 16 bytes, and 16 more are left for variables.
#[test]
fn frames() {
    let e = effects(B32, &[0xc8, 0x10, 0, 3]);
    let at = |base, disp| stack(base, disp, seg::SS, AddrMask::Bits32);
    let expected = [
        operand(Access::Read, at(gpr::RBP, -8), 4, 2),
        operand(Access::Write, at(gpr::RSP, -16), 4, 4),
        operand(Access::Address, at(gpr::RSP, -32), 4, 1),
    ];
    assert_eq!(e.memory[..], expected);
    assert_eq!(format!("{:?} {:?}", e.read, e.written), "{RSP, RBP, SS} {RSP, RBP}");
    // Without display.
    let e = effects(B32, &[0xc8, 0x10, 0, 0]);
    let expected = [
        operand(Access::Write, at(gpr::RSP, -4), 4, 1),
        operand(Access::Address, at(gpr::RSP, -20), 4, 1),
    ];
    assert_eq!(e.memory[..], expected);
}

/// REP MOVSD with 16-bit addresses: the count and both pointers are 16 bits wide and may stay.
#[test]
fn repeated_strings() {
    let e = effects(B32, &[0xf3, 0x67, 0xa5]);
    let element = |access, base, seg| MemoryOperand {
        conditional: true,
        repeated: true,
        ..operand(access, stack(base, 0, seg, AddrMask::Bits16), 4, 1)
    };
    let expected =
        [element(Access::Read, gpr::RSI, seg::DS), element(Access::Write, gpr::RDI, seg::ES)];
    assert_eq!(e.memory[..], expected);
    assert_eq!(format!("{:?}", e.read), "{RCX, RSI, RDI, ES, DS}");
    assert_eq!(format!("{:?}", e.written), "{RCX, RSI, RDI}");
    assert_eq!((e.conditional, e.partial), (e.written, e.written));
    // OUTSB: no count.
    let e = effects(B32, &[0x6e]);
    assert_eq!(format!("{:?} {:?}", e.read, e.written), "{RDX, RSI, DS} {RSI}");
    assert!(e.conditional.is_empty());
}

/// Operands that the instruction does not name, or names as something else.
#[test]
fn implied_operands() {
    let at = |base, seg| stack(base, 0, seg, AddrMask::Bits32);
    let ds = |base| at(base, seg::DS);
    // BOUND EAX, [EBX]: two bounds. XLAT with FS. LSS EAX, [EBX]. CMPXCHG8B [EBX]. INVLPG [EBX].
    for (bytes, expected) in [
        (&[0x62, 0x03][..], operand(Access::Read, ds(gpr::RBX), 4, 2)),
        (&[0x64, 0xd7], operand(Access::Read, at(gpr::RBX, seg::FS), 1, 1)),
        (&[0x0f, 0xb2, 0x03], operand(Access::Read, ds(gpr::RBX), 6, 1)),
        (&[0x0f, 0xc7, 0x0b], operand(Access::ReadWrite, ds(gpr::RBX), 8, 1)),
        (&[0x0f, 0x01, 0x3b], operand(Access::Address, ds(gpr::RBX), 0, 1)),
        // PREFETCHT0 [EBX]. CLFLUSH [EBX].
        (&[0x0f, 0x18, 0x0b], operand(Access::Cache, ds(gpr::RBX), 1, 1)),
        (&[0x0f, 0xae, 0x3b], operand(Access::Cache, ds(gpr::RBX), 1, 1)),
        // IRET pops three doublewords; LEAVE reads at EBP.
        (&[0xcf], operand(Access::Read, at(gpr::RSP, seg::SS), 4, 3)),
        (&[0xc9], operand(Access::Read, at(gpr::RBP, seg::SS), 4, 1)),
        // MASKMOVQ MM1, MM2.
        (
            &[0x0f, 0xf7, 0xca],
            MemoryOperand { conditional: true, ..operand(Access::Write, ds(gpr::RDI), 8, 1) },
        ),
    ] {
        assert_eq!(effects(B32, bytes).memory[..], [expected], "{bytes:x?}");
    }
    // CALL FAR [EBX] reads six bytes, and pushes CS and EIP.
    let call = effects(B32, &[0xff, 0x1b]);
    let pushed = operand(Access::Write, stack(gpr::RSP, -8, seg::SS, AddrMask::Bits32), 4, 2);
    assert_eq!(call.memory[..], [operand(Access::Read, ds(gpr::RBX), 6, 1), pushed]);
    // NOP [EBX] accesses nothing.
    assert!(effects(B32, &[0x0f, 0x1f, 0x03]).memory.is_empty());
}

/// Images: FXSAVE has XMM8 to XMM15 in 64-bit mode only; FSAVE's and FSTENV's size is the operand's.
#[test]
fn images() {
    let size = |code, bytes: &[u8]| effects(code, bytes).memory[0].total_bytes();
    for (code, xmm) in [(B32, 8), (B64, 16)] {
        let e = effects(code, &[0x0f, 0xae, 0x00]);
        let read = e.read.iter().filter(|r| matches!(r, crate::effects::Register::Xmm(_)));
        assert_eq!((read.count(), e.memory[0].total_bytes()), (xmm, 512));
    }
    assert_eq!((size(B32, &[0xdd, 0x30]), size(B16, &[0xdd, 0x30])), (108, 94));
    assert_eq!((size(B32, &[0xd9, 0x30]), size(B16, &[0xd9, 0x30])), (28, 14));
    // LGDT: 6 bytes, 10 in 64-bit mode. FBLD: 10.
    assert_eq!((size(B32, &[0x0f, 0x01, 0x10]), size(B64, &[0x0f, 0x01, 0x10])), (6, 10));
    assert_eq!(size(B32, &[0xdf, 0x20]), 10);
}

/// All that may matter for what is left behind.
#[test]
fn inputs() {
    // MOV AL, CL keeps the rest of RAX; CMOVE CX, DX may keep CX.
    assert_eq!(format!("{:?}", effects(B32, &[0x88, 0xc8]).inputs()), "{RAX, RCX}");
    assert_eq!(format!("{:?}", effects(B32, &[0x66, 0x0f, 0x44, 0xca]).inputs()), "{RCX, RDX}");
    // LEA EAX, [ECX]: no segment, no bytes.
    let lea = effects(B32, &[0x8d, 0x01]);
    assert_eq!(format!("{:?} {:?}", lea.inputs(), lea.written), "{RCX} {RAX}");
    assert_eq!((lea.memory[0].access, lea.memory[0].bytes), (Access::Address, 0));
}
