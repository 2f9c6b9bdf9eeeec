//! Typical instructions of 32-bit code and of 64-bit code, worked out from the manuals' pages.

use uarch::part::pipelines::{K8, P6, PM};
use uarch::pipeline::out_of_order::table::Decode;
use uarch::pipeline::out_of_order::{Core, registers};
use x86_cpu::effects::Mode;
use x86_cpu::features::Features;
use x86_cpu::insn::Insn;
use x86_cpu::mode::CodeSize;

use super::super::{Preparation, Registers, operands};

const EAX: Registers = 1 << 0;
const ECX: Registers = 1 << 1;
const EDX: Registers = 1 << 2;
const EBX: Registers = 1 << 3;
const ESP: Registers = 1 << 4;
const ESI: Registers = 1 << 6;
const EDI: Registers = 1 << 7;
const R9: Registers = 1 << 9;
const CF: Registers = 1 << registers::CARRY;
const REST: Registers = 1 << registers::STATUS;
const FLAGS: Registers = CF | REST;
const CODES: Registers = 1 << registers::X87_CONDITION;
const CONTROL: Registers = 1 << registers::FLOAT_CONTROL;
const SYSTEM: Registers = 1 << registers::SYSTEM;
const DS: Registers = 1 << (registers::SEGMENT + 3);
const ES: Registers = 1 << registers::SEGMENT;
const FS: Registers = 1 << (registers::SEGMENT + 4);
const SS: Registers = 1 << (registers::SEGMENT + 2);

/// ST(n).
const fn st(n: u8) -> Registers {
    1 << (registers::X87 + n)
}

const fn mm(n: u8) -> Registers {
    1 << (registers::MMX + n)
}

const fn xmm(n: u8) -> Registers {
    1 << (registers::XMM + n)
}

/// Bytes, sources, address, destinations.
type Row = (&'static [u8], Registers, Registers, Registers);

/// 32-bit code, of which all segments are checked.
const IN_32_BITS: &[Row] = &[
    // MOV EAX, ECX; MOV EAX, [ECX]; MOV [ECX], EDX; MOV EAX, [ECX+EDX*4].
    (&[0x89, 0xc8], ECX, 0, EAX),
    (&[0x8b, 0x01], 0, ECX | DS, EAX),
    (&[0x89, 0x11], EDX, ECX | DS, 0),
    (&[0x8b, 0x04, 0x91], 0, ECX | EDX | DS, EAX),
    // ADD EAX, ECX; ADD EAX, [EAX]; ADD [ECX], EAX; ADC EAX, 1; INC EAX; CMP EAX, ECX.
    (&[0x01, 0xc8], EAX | ECX, 0, EAX | FLAGS),
    (&[0x03, 0x00], EAX, EAX | DS, EAX | FLAGS),
    (&[0x01, 0x01], EAX, ECX | DS, FLAGS),
    (&[0x83, 0xd0, 0x01], EAX | CF, 0, EAX | FLAGS),
    (&[0x40], EAX, 0, EAX | REST),
    (&[0x39, 0xc8], EAX | ECX, 0, FLAGS),
    // LEA EAX, [ECX+EDX*2+1]; MOVZX EAX, CL; BSF EAX, ECX keeps EAX if ECX is zero.
    (&[0x8d, 0x44, 0x51, 0x01], 0, ECX | EDX, EAX),
    (&[0x0f, 0xb6, 0xc1], ECX, 0, EAX),
    (&[0x0f, 0xbc, 0xc1], EAX | ECX, 0, EAX | FLAGS),
    // SHL EAX, 4; ROL EAX, 1 leaves SF, ZF, AF and PF; SHL EAX, CL may leave all.
    (&[0xc1, 0xe0, 0x04], EAX, 0, EAX | FLAGS),
    (&[0xd1, 0xc0], EAX | REST, 0, EAX | FLAGS),
    (&[0xd3, 0xe0], EAX | ECX | FLAGS, 0, EAX | FLAGS),
    // CMOVE EAX, ECX; SETE AL; JE; JB.
    (&[0x0f, 0x44, 0xc1], EAX | ECX | REST, 0, EAX),
    (&[0x0f, 0x94, 0xc0], REST, 0, EAX),
    (&[0x74, 0x00], REST, 0, 0),
    (&[0x72, 0x00], CF, 0, 0),
    // PUSH EAX; POP ECX; CALL; RET; CALL [EDX].
    (&[0x50], EAX | ESP, ESP | SS, ESP),
    (&[0x59], ESP, ESP | SS, ECX | ESP),
    (&[0xe8, 0, 0, 0, 0], ESP, ESP | SS, ESP),
    (&[0xc3], ESP, ESP | SS, ESP),
    (&[0xff, 0x12], ESP, EDX | ESP | DS | SS, ESP),
    // MUL ECX; IMUL EAX, ECX; DIV ECX.
    (&[0xf7, 0xe1], EAX | ECX, 0, EAX | EDX | FLAGS),
    (&[0x0f, 0xaf, 0xc1], EAX | ECX, 0, EAX | FLAGS),
    (&[0xf7, 0xf1], EAX | ECX | EDX, 0, EAX | EDX | FLAGS),
    // LODSB; REP MOVSD: by the direction flag, which is with the system's.
    (&[0xac], ESI | SYSTEM, ESI | DS, EAX | ESI),
    (&[0xf3, 0xa5], ESI | EDI | ECX | SYSTEM, ESI | EDI | DS | ES, ESI | EDI | ECX),
    // MOV EAX, FS:[0]; MOV DS, EAX.
    (&[0x64, 0xa1, 0, 0, 0, 0], 0, FS, EAX),
    (&[0x8e, 0xd8], EAX, 0, DS),
    // XCHG EAX, EBX.
    (&[0x93], EAX | EBX, 0, EAX | EBX),
    // FADD ST, ST(2); FADDP ST(1), ST; FLD QWORD PTR [EAX]; FSTP DWORD PTR [EAX]; FXCH ST(3). Entries
    // are those before the instruction: what is pushed goes to ST(7).
    (&[0xd8, 0xc2], st(0) | st(2) | CONTROL, 0, st(0) | CODES),
    (&[0xde, 0xc1], st(0) | st(1) | CONTROL, 0, st(1) | CODES),
    (&[0xdd, 0x00], CONTROL, EAX | DS, st(7) | CODES),
    (&[0xd9, 0x18], st(0) | CONTROL, EAX | DS, CODES),
    (&[0xd9, 0xcb], st(0) | st(3) | CONTROL, 0, st(0) | st(3) | CODES),
    // FNSTSW AX; FLDCW [EAX].
    (&[0xdf, 0xe0], CODES, 0, EAX | CODES),
    (&[0xd9, 0x28], 0, EAX | DS, CONTROL | CODES),
    // PADDB MM1, MM2; ADDPS XMM1, [EAX]; ADDSD XMM1, XMM2; MOVD EAX, XMM3; MOVSS XMM1, XMM2 leaves the
    // rest of XMM1; LDMXCSR [EAX].
    (&[0x0f, 0xfc, 0xca], mm(1) | mm(2), 0, mm(1)),
    (&[0x0f, 0x58, 0x08], xmm(1) | CONTROL, EAX | DS, xmm(1)),
    (&[0xf2, 0x0f, 0x58, 0xca], xmm(1) | xmm(2) | CONTROL, 0, xmm(1)),
    (&[0x66, 0x0f, 0x7e, 0xd8], xmm(3), 0, EAX),
    (&[0xf3, 0x0f, 0x10, 0xca], xmm(1) | xmm(2), 0, xmm(1)),
    (&[0x0f, 0xae, 0x10], 0, EAX | DS, CONTROL),
];

/// 64-bit code, without segments to check.
const IN_64_BITS: &[Row] = &[
    // MOV R9, [RIP+0]; MOV [R9], RAX; BT [RAX], RCX; XLATB.
    (&[0x4c, 0x8b, 0x0d, 0, 0, 0, 0], 0, 0, R9),
    (&[0x49, 0x89, 0x01], EAX, R9, 0),
    (&[0x48, 0x0f, 0xa3, 0x08], ECX | REST, EAX | ECX, FLAGS),
    (&[0xd7], EAX, EAX | EBX, EAX),
];

fn decode(code: CodeSize, bytes: &[u8]) -> (Insn, Mode) {
    let mode = Mode::new(code);
    let (insn, _) = Insn::decode(Features::K8, mode, bytes).expect("whole");
    assert_eq!(usize::from(insn.len), bytes.len(), "{bytes:02x?}");
    (insn, mode)
}

#[test]
fn registers_of_typical_instructions() {
    for (code, rows) in [(CodeSize::Bits32, IN_32_BITS), (CodeSize::Bits64, IN_64_BITS)] {
        for &(bytes, sources, address, destinations) in rows {
            let (insn, mode) = decode(code, bytes);
            let found = operands(&insn, mode, &insn.effects(mode));
            let found = [found.sources, found.address, found.destinations];
            let expected = [sources, address, destinations];
            assert_eq!(found, expected, "{bytes:02x?}: {found:x?} {expected:x?}");
        }
    }
}

/// Which registers are written in part, which are read whole, how the x87 stack moves, what is zeroed.
#[test]
fn parts_and_stacks() {
    for (bytes, partial, whole, pushes, zeroes) in [
        // MOV AL, 1; MOV AX, CX; MOV EAX, ECX; MOVZX EAX, CL; CWDE; CDQ; SHL EDX, CL; PUSH EAX.
        (&[0xb0, 1][..], EAX, 0, 0, false),
        (&[0x66, 0x89, 0xc8], EAX, 0, 0, false),
        (&[0x89, 0xc8], 0, ECX, 0, false),
        (&[0x0f, 0xb6, 0xc1], 0, 0, 0, false),
        (&[0x98], 0, 0, 0, false),
        (&[0x99], 0, EAX, 0, false),
        (&[0xd3, 0xe2], 0, EDX, 0, false),
        (&[0x50], 0, EAX | ESP, 0, false),
        // XOR EAX, EAX; SUB ECX, ECX; XOR EAX, ECX; SBB EAX, EAX.
        (&[0x31, 0xc0], 0, EAX, 0, true),
        (&[0x29, 0xc9], 0, ECX, 0, true),
        (&[0x31, 0xc8], 0, EAX | ECX, 0, false),
        (&[0x19, 0xc0], 0, EAX, 0, false),
        // FLD1; FADD ST, ST(1); FADDP; FCOMPP; FINCSTP.
        (&[0xd9, 0xe8], 0, 0, 1, false),
        (&[0xd8, 0xc1], 0, 0, 0, false),
        (&[0xde, 0xc1], 0, 0, -1, false),
        (&[0xde, 0xd9], 0, 0, -2, false),
        (&[0xd9, 0xf7], 0, 0, -1, false),
    ] {
        let (insn, mode) = decode(CodeSize::Bits32, bytes);
        let found = operands(&insn, mode, &insn.effects(mode));
        let found = (found.partial, found.whole, found.pushes, found.zeroes);
        assert_eq!(found, (partial, whole, pushes, zeroes), "{bytes:02x?}");
    }
}

/// Intel SDM volume 3B, event 87h of the P6 family: prefixes that change the length of an instruction.
#[test]
fn prefixes_that_change_lengths() {
    use CodeSize::{Bits16, Bits32, Bits64};
    for (code, bytes, expected) in [
        // ADD EAX, 12345678h; ADD AX, 1234h; ADD AX, 1; MOV CX, 1; TEST AX, 1; MOV AX, CX.
        (Bits32, &[0x05, 0x78, 0x56, 0x34, 0x12][..], false),
        (Bits32, &[0x66, 0x05, 0x34, 0x12], true),
        (Bits32, &[0x66, 0x83, 0xc0, 0x01], false),
        (Bits32, &[0x66, 0xb9, 0x01, 0x00], true),
        (Bits32, &[0x66, 0xa9, 0x01, 0x00], true),
        (Bits32, &[0x66, 0x89, 0xc8], false),
        // SHL AX, 4; IMUL AX, CX, 1234h; MOV AL, 1.
        (Bits32, &[0x66, 0xc1, 0xe0, 0x04], false),
        (Bits32, &[0x66, 0x69, 0xc1, 0x34, 0x12], true),
        (Bits32, &[0xb0, 0x01], false),
        // MOV EAX, [BX+SI]; MOV EAX, [ECX].
        (Bits32, &[0x67, 0x8b, 0x00], true),
        (Bits32, &[0x8b, 0x01], false),
        // In 16-bit code: MOV ECX, 1; MOV CX, 1.
        (Bits16, &[0x66, 0xb9, 1, 0, 0, 0], true),
        (Bits16, &[0xb9, 1, 0], false),
        // In 64-bit code: MOV EAX, [ECX]; ADD RAX, 12345678h; MOV CX, 1.
        (Bits64, &[0x67, 0x8b, 0x01], false),
        (Bits64, &[0x48, 0x05, 0x78, 0x56, 0x34, 0x12], false),
        (Bits64, &[0x66, 0xb9, 1, 0], true),
    ] {
        let (insn, mode) = decode(code, bytes);
        let found = operands(&insn, mode, &insn.effects(mode)).length_changes;
        assert_eq!(found, expected, "{bytes:02x?}");
    }
}

/// Macro-operations without those of iterations, loads, stores, and how they are decoded: AMD 25112
/// appendix C; Fog 29.1 (micro-operations); Intel 248966-013 page 1-29 (fused).
#[test]
fn decoding_of_typical_instructions() {
    use Decode::{Direct, Double, First, Microcode};
    for (bytes, on_k8, on_p6, on_pm) in [
        // ADD EAX, ECX; ADD EAX, [ECX]; ADD [ECX], EAX.
        (&[0x01, 0xc8][..], (1, 0, 0, Direct), (1, 0, 0), (1, 0, 0)),
        (&[0x03, 0x01], (1, 1, 0, Direct), (2, 1, 0), (1, 1, 0)),
        (&[0x01, 0x01], (1, 1, 1, Direct), (4, 1, 1), (2, 1, 1)),
        // MOV EAX, [ECX]; MOV [ECX], EAX.
        (&[0x8b, 0x01], (1, 1, 0, Direct), (1, 1, 0), (1, 1, 0)),
        (&[0x89, 0x01], (1, 0, 1, Direct), (2, 0, 1), (1, 0, 1)),
        // PUSH EAX; POP EAX: the P6 family adds to ESP by a micro-operation, Pentium M by the decoder.
        (&[0x50], (1, 0, 1, Direct), (3, 0, 1), (1, 0, 1)),
        (&[0x58], (2, 1, 0, Double), (2, 1, 0), (1, 1, 0)),
        // IMUL EAX, ECX: the multiplier is in the first lane. BSF EAX, ECX; CWDE.
        (&[0x0f, 0xaf, 0xc1], (1, 0, 0, First), (1, 0, 0), (1, 0, 0)),
        (&[0x0f, 0xbc, 0xc1], (21, 0, 0, Microcode), (2, 0, 0), (2, 0, 0)),
        (&[0x98], (1, 0, 0, Direct), (1, 0, 0), (1, 0, 0)),
        // ADDPS XMM0, XMM1 is two halves; ADDSS XMM0, XMM1 is one.
        (&[0x0f, 0x58, 0xc1], (2, 0, 0, Double), (2, 0, 0), (2, 0, 0)),
        (&[0xf3, 0x0f, 0x58, 0xc1], (1, 0, 0, Direct), (1, 0, 0), (1, 0, 0)),
        // FADD ST, ST(1); FADD QWORD PTR [EAX]; FXCH.
        (&[0xd8, 0xc1], (1, 0, 0, Direct), (1, 0, 0), (1, 0, 0)),
        (&[0xdc, 0x00], (1, 1, 0, Direct), (2, 1, 0), (1, 1, 0)),
        (&[0xd9, 0xc9], (1, 0, 0, Direct), (1, 0, 0), (1, 0, 0)),
    ] {
        let (insn, _) = decode(CodeSize::Bits32, bytes);
        let row = |core: &'static Core| {
            let row = Preparation::new(core).row(&insn);
            let sum = |of: fn(&_) -> u8| row.operations.iter().map(of).sum::<u8>();
            let loads = sum(|operation: &uarch::pipeline::out_of_order::MacroOp| operation.loads);
            (row.macro_ops(), loads, sum(|operation| operation.stores), row.decode)
        };
        let short = |(operations, loads, stores, _)| (operations, loads, stores);
        assert_eq!(row(&K8), on_k8, "{bytes:02x?}");
        assert_eq!(short(row(&P6)), on_p6, "{bytes:02x?}");
        assert_eq!(short(row(&PM)), on_pm, "{bytes:02x?}");
    }
}

/// Variants: LEA with a scaled index or three parts, counts in CL, products of twice the width, bits by
/// an index in a register.
#[test]
fn variants() {
    use uarch::pipeline::out_of_order::table::Variant::{Long, Plain, Repeated};
    for (bytes, expected) in [
        // LEA EAX, [ECX+EDX]; [ECX+EDX*2]; [ECX+EDX+1]; [ECX+1].
        (&[0x8d, 0x04, 0x11][..], Plain),
        (&[0x8d, 0x04, 0x51], Long),
        (&[0x8d, 0x44, 0x11, 0x01], Long),
        (&[0x8d, 0x41, 0x01], Plain),
        // RCL EAX, CL; RCL EAX, 1; IMUL ECX; IMUL EAX, ECX; BT [EAX], ECX; BT DWORD PTR [EAX], 1.
        (&[0xd3, 0xd0], Long),
        (&[0xd1, 0xd0], Plain),
        (&[0xf7, 0xe9], Long),
        (&[0x0f, 0xaf, 0xc1], Plain),
        (&[0x0f, 0xa3, 0x08], Long),
        (&[0x0f, 0xba, 0x20, 0x01], Plain),
        // REP STOSB; STOSB; REP RET.
        (&[0xf3, 0xaa], Repeated),
        (&[0xaa], Plain),
        (&[0xf3, 0xc3], Plain),
    ] {
        let (insn, _) = decode(CodeSize::Bits32, bytes);
        assert_eq!(super::super::variant(&insn), expected, "{bytes:02x?}");
    }
}

/// LOCK INC [EAX] is locked, XCHG [EAX], ECX without a prefix too; MOV FS, AX loads a segment register.
#[test]
fn locks_and_segments() {
    let preparation = Preparation::new(&K8);
    for (bytes, locked, segment) in [
        (&[0xf0, 0xff, 0x00][..], true, 0),
        (&[0x87, 0x08], true, 0),
        (&[0xff, 0x00], false, 0),
        (&[0x8e, 0xe0], false, 4),
    ] {
        let mode = Mode::new(CodeSize::Bits32);
        let (insn, class) = Insn::decode(Features::K8, mode, bytes).expect("whole");
        let prepared = preparation.prepare(&insn, class, mode);
        assert_eq!((prepared.locked, prepared.segment), (locked, segment), "{bytes:02x?}");
    }
}
