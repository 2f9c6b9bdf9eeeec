//! What the pipeline of the P55C is told of instructions, against the manuals and Agner Fog's rules.

use uarch::part::{self, Pipeline};
use uarch::pipeline::in_order::{Pairing, Pairing::*};
use uarch::pipeline::{Branch, Instruction, MemoryUse, Registers};
use x86_cpu::effects::Mode;
use x86_cpu::encoding::Encoding;
use x86_cpu::insn::{Insn, gpr};
use x86_cpu::mode::CodeSize;
use x86_cpu::operation::Operation;

use super::description::{Timings, describe, form};
use crate::platform::P55C;

fn timings() -> Timings {
    match part::P55C.pipeline {
        Pipeline::InOrder { rows_of, .. } => Timings::new(rows_of),
        _ => panic!("the P55C executes in order"),
    }
}

/// Every instruction that the processor executes has a row: all opcodes, behind the prefixes that select
/// others, with all ModRM bytes.
#[test]
fn every_instruction_has_a_timing() {
    let timings = timings();
    let mut operations = std::collections::BTreeSet::new();
    for code in [CodeSize::Bits16, CodeSize::Bits32] {
        let mode = Mode::new(code);
        for prefixes in [&[][..], &[0x66], &[0xf3], &[0xf2], &[0xf0], &[0x67]] {
            for opcode in 0..0x200u16 {
                for modrm in 0..=0xff {
                    let mut bytes = prefixes.to_vec();
                    if opcode >= 0x100 {
                        bytes.push(0x0f);
                    }
                    bytes.extend([opcode as u8, modrm, 0x11, 1, 2, 3, 4, 5, 6, 7, 8]);
                    let Some((insn, _)) = Insn::decode(P55C.features, mode, &bytes) else {
                        continue;
                    };
                    if matches!(insn.op, Operation::Invalid | Operation::TooLong) {
                        continue;
                    }
                    operations.insert(insn.op);
                    let encoding = Encoding::of(&bytes, code);
                    let form = form(&insn, &encoding, &insn.effects(mode));
                    assert!(timings.of(insn.op, form).is_some(), "{bytes:02x?} {insn:?} {form:?}");
                }
            }
        }
    }
    // Those of `uarch`'s own test of its tables: 47 of MMX, and all but a few of the others.
    assert!(operations.len() > 250, "{}", operations.len());
}

/// What is told of an instruction of 32-bit code.
fn told(bytes: &[u8]) -> Instruction {
    let mode = Mode::new(CodeSize::Bits32);
    let (insn, _) = Insn::decode(P55C.features, mode, bytes).expect("an instruction");
    assert_eq!(usize::from(insn.len), bytes.len(), "{bytes:02x?}");
    describe(&timings(), &insn, &Encoding::of(bytes, CodeSize::Bits32), mode).instruction.scalar
}

/// General registers by their numbers.
fn general(numbers: &[u8]) -> Registers {
    numbers.iter().fold(Registers::NONE, |all, &n| all.union(Registers::general(n)))
}

const EAX: u8 = gpr::RAX;
const ECX: u8 = gpr::RCX;
const EDX: u8 = gpr::RDX;
const EBX: u8 = gpr::RBX;
const ESP: u8 = gpr::RSP;
const EBP: u8 = gpr::RBP;
const ESI: u8 = gpr::RSI;
const EDI: u8 = gpr::RDI;

/// Clocks and pipe, registers of the address, and what it does with memory.
#[test]
fn clocks_pipes_and_addresses() {
    use MemoryUse::{Load, Modify, None, Store};
    type Row = (&'static [u8], u16, Pairing, &'static [u8], MemoryUse);
    let rows: &[Row] = &[
        (&[0x89, 0xc8], 1, UV, &[], None),                  // MOV EAX, ECX
        (&[0x8b, 0x04, 0x8b], 1, UV, &[EBX, ECX], Load),    // MOV EAX, [EBX+ECX*4]
        (&[0x89, 0x43, 8], 1, UV, &[EBX], Store),           // MOV [EBX+8], EAX
        (&[0xa1, 0, 0x10, 0, 0], 1, UV, &[], Load),         // MOV EAX, [1000h]
        (&[0x01, 0xd8], 1, UV, &[], None),                  // ADD EAX, EBX
        (&[0x03, 0x06], 2, UV, &[ESI], Load),               // ADD EAX, [ESI]
        (&[0x01, 0x06], 3, UV, &[ESI], Modify),             // ADD [ESI], EAX
        (&[0x3b, 0x06], 2, UV, &[ESI], Load),               // CMP EAX, [ESI]
        (&[0x39, 0x06], 2, UV, &[ESI], Load),               // CMP [ESI], EAX
        (&[0x11, 0xd8], 1, U, &[], None),                   // ADC EAX, EBX
        (&[0x8d, 0x44, 0x8b, 4], 1, UV, &[EBX, ECX], None), // LEA EAX, [EBX+ECX*4+4]
        (&[0xd1, 0xe0], 1, U, &[], None),                   // SHL EAX, 1
        (&[0xc1, 0xe0, 4], 1, U, &[], None),                // SHL EAX, 4
        (&[0xd3, 0xe0], 4, Never, &[], None),               // SHL EAX, CL
        (&[0xc1, 0xc0, 4], 1, Never, &[], None),            // ROL EAX, 4
        (&[0xa9, 1, 0, 0, 0], 1, UV, &[], None),            // TEST EAX, 1
        (&[0xf7, 0xc1, 1, 0, 0, 0], 1, Never, &[], None),   // TEST ECX, 1
        (&[0x85, 0xc9], 1, UV, &[], None),                  // TEST ECX, ECX
        (&[0x50], 1, UV, &[ESP], Store),                    // PUSH EAX
        (&[0x58], 1, UV, &[ESP], Load),                     // POP EAX
        (&[0xff, 0x33], 2, Never, &[EBX, ESP], Modify),     // PUSH [EBX]
        (&[0xe8, 0, 0, 0, 0], 1, V, &[ESP], Store),         // CALL
        (&[0xff, 0xd0], 2, Never, &[ESP], Store),           // CALL EAX
        (&[0xc3], 2, Never, &[ESP], Load),                  // RET
        (&[0xc2, 4, 0], 3, Never, &[ESP], Load),            // RET 4
        (&[0xeb, 0], 1, V, &[], None),                      // JMP
        (&[0x74, 0], 1, V, &[], None),                      // JE
        (&[0xf7, 0xe3], 10, Never, &[], None),              // MUL EBX
        (&[0x66, 0xf7, 0xf3], 25, Never, &[], None),        // DIV BX
        (&[0xd7], 4, Never, &[EBX, EAX], Load),             // XLATB
        (&[0xa5], 4, Never, &[ESI, EDI], Modify),           // MOVSD
        (&[0xc9], 3, Never, &[EBP], Load),                  // LEAVE
        (&[0xdd, 0x03], 1, WithExchange, &[EBX], Load),     // FLD qword [EBX]
        (&[0xdb, 0x2b], 3, Never, &[EBX], Load),            // FLD tbyte [EBX]
        (&[0xdd, 0x1b], 2, Never, &[EBX], Store),           // FSTP qword [EBX]
        (&[0xd9, 0xc9], 1, Exchange, &[], None),            // FXCH
        (&[0x0f, 0x6f, 0x03], 1, UV, &[EBX], Load),         // MOVQ MM0, [EBX]
    ];
    for &(bytes, clocks, pairing, address, memory) in rows {
        let told = told(bytes);
        let timing = told.timing;
        assert_eq!((timing.clocks, timing.pairing), (clocks, pairing), "{bytes:02x?}");
        assert_eq!(told.address, general(address), "{bytes:02x?}");
        assert_eq!(told.memory, memory, "{bytes:02x?}");
        assert_eq!(usize::from(told.length), bytes.len());
    }
}

/// Registers read, and written.
#[test]
fn registers() {
    let flags = Registers::FLAGS;
    let rows: &[(&[u8], Registers, Registers)] = &[
        // MOV EAX, ECX
        (&[0x89, 0xc8], general(&[ECX]), general(&[EAX])),
        // MOV AH, [EBX+ECX*4]
        (&[0x8a, 0x24, 0x8b], general(&[EBX, ECX]), general(&[EAX])),
        // ADC EAX, EBX
        (&[0x11, 0xd8], general(&[EAX, EBX]).union(flags), general(&[EAX]).union(flags)),
        // CMP EAX, EBX
        (&[0x39, 0xd8], general(&[EAX, EBX]), flags),
        // INC EDX
        (&[0x42], general(&[EDX]), general(&[EDX]).union(flags)),
        // JE
        (&[0x74, 0], flags, Registers::NONE),
        // PUSH EDX
        (&[0x52], general(&[EDX, ESP]), general(&[ESP])),
        // POP EDX
        (&[0x5a], general(&[ESP]), general(&[EDX, ESP])),
        // MUL EBX
        (&[0xf7, 0xe3], general(&[EAX, EBX]), general(&[EAX, EDX]).union(flags)),
        // NOT EAX
        (&[0xf7, 0xd0], general(&[EAX]), general(&[EAX])),
        // NOP
        (&[0x90], Registers::NONE, Registers::NONE),
        // FADD ST(3), ST
        (&[0xdc, 0xc3], Registers::x87(0).union(Registers::x87(3)), Registers::x87(3)),
        // FLD qword [EBX]
        (&[0xdd, 0x03], general(&[EBX]), Registers::x87(7)),
        // PADDW MM1, MM2
        (&[0x0f, 0xfd, 0xca], Registers::mmx(1).union(Registers::mmx(2)), Registers::mmx(1)),
        // MOVD EAX, MM3
        (&[0x0f, 0x7e, 0xd8], Registers::mmx(3), general(&[EAX])),
    ];
    for &(bytes, reads, writes) in rows {
        let told = told(bytes);
        assert_eq!((told.reads, told.writes), (reads, writes), "{bytes:02x?}");
    }
}

/// PUSH, POP, CALL and RET have an adder for the stack pointer; POP ESP and RET with an operand do not get
/// by with it.
#[test]
fn the_stack_pointer_is_predicted() {
    let predicts = |bytes: &[u8]| told(bytes).predicts_stack_pointer;
    assert!(predicts(&[0x50])); // PUSH EAX
    assert!(predicts(&[0x58])); // POP EAX
    assert!(predicts(&[0x8f, 0x00])); // POP [EAX]
    assert!(predicts(&[0xe8, 0, 0, 0, 0])); // CALL
    assert!(predicts(&[0xc3])); // RET
    assert!(!predicts(&[0x5c])); // POP ESP
    assert!(!predicts(&[0xc2, 4, 0])); // RET 4
    assert!(!predicts(&[0x83, 0xc4, 4])); // ADD ESP, 4
    assert!(!predicts(&[0xc9])); // LEAVE
}

#[test]
fn branches_prefixes_and_the_rest() {
    assert_eq!(told(&[0x74, 0]).branch, Branch::Conditional);
    assert_eq!(told(&[0xe2, 0xfe]).branch, Branch::Conditional); // LOOP
    assert_eq!(told(&[0xff, 0xe0]).branch, Branch::Unconditional); // JMP EAX
    assert_eq!(told(&[0x90]).branch, Branch::None);
    let locked = told(&[0xf0, 0x66, 0x01, 0x03]).prefixes; // LOCK ADD [EBX], AX
    assert_eq!((locked.size, locked.other, locked.lock), (1, 1, true));
    // MOV dword [EBX+8], 1 and MOV dword [EBX], 1
    assert!(told(&[0xc7, 0x43, 8, 1, 0, 0, 0]).displacement_and_immediate);
    assert!(!told(&[0xc7, 0x03, 1, 0, 0, 0]).displacement_and_immediate);
    assert_eq!(told(&[0xd9, 0xcb]).exchanges, Some(3)); // FXCH ST(3)
    assert_eq!(told(&[0xd8, 0xc3]).exchanges, None); // FADD ST(3)
    assert_eq!(told(&[0xde, 0xc1]).x87_pops, 1); // FADDP
    assert_eq!(told(&[0xd9, 0xe8]).x87_pops, -1); // FLD1
    assert!(told(&[0x0f, 0xa2]).serialises); // CPUID
    assert!(!told(&[0x90]).serialises);
}

/// Elements of an iteration: MOVS reads one and writes one.
#[test]
fn iterations() {
    let elements = |bytes: &[u8]| {
        let mode = Mode::new(CodeSize::Bits32);
        let (insn, _) = Insn::decode(P55C.features, mode, bytes).expect("an instruction");
        let encoding = Encoding::of(bytes, CodeSize::Bits32);
        describe(&timings(), &insn, &encoding, mode).elements_of_iteration
    };
    assert_eq!(elements(&[0xf3, 0xa5]), 2); // REP MOVSD
    assert_eq!(elements(&[0xf3, 0xab]), 1); // REP STOSD
    assert_eq!(elements(&[0xf2, 0xae]), 1); // REPNE SCASB
    assert_eq!(elements(&[0xf3, 0xa6]), 2); // REPE CMPSB
    assert_eq!(elements(&[0xa5]), 0); // MOVSD
    assert_eq!(elements(&[0xf3, 0x90]), 0); // PAUSE, a NOP here
}
