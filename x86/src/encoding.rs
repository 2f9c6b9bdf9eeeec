//! How an instruction is encoded, as far as processors take time over it: what two encodings that do the
//! same, and are lowered to the same, may differ in.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::{lower::bitness, mode::CodeSize};

/// How an instruction is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Operand-size and address-size prefixes: 66h, 67h.
    pub size_prefixes: u8,
    /// Other legacy prefixes: of segments, LOCK, REP and REPNE.
    pub other_prefixes: u8,
    /// LOCK is among them.
    pub lock: bool,
    /// REP, REPE or REPNE is among them.
    pub repeat: bool,
    /// It has a displacement.
    pub displacement: bool,
    /// It has an immediate operand; the distance of a branch is none.
    pub immediate: bool,
    /// What its last operand is.
    pub last: LastOperand,
}

/// What the last operand of an instruction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastOperand {
    /// A register or memory; or there is none.
    #[default]
    Other,
    /// An immediate, or the distance of a branch.
    Immediate,
    /// An immediate, in the encoding without ModRM that an operation has for the accumulator.
    AccumulatorImmediate,
    /// One, in the encodings of their own that shifts and rotations have for it.
    One,
    /// CL, the count of a shift or rotation.
    Count,
}

impl Encoding {
    /// The encoding of the instruction that `bytes`, which may be more than its own, begin with.
    #[must_use]
    pub fn of(bytes: &[u8], code: CodeSize) -> Self {
        let mut decoder = Decoder::with_ip(bitness(code), bytes, 0, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let constants = decoder.get_constant_offsets(&instruction);
        let mut encoding = Self {
            displacement: constants.has_displacement(),
            immediate: constants.has_immediate() && !names_target(&instruction),
            ..Self::default()
        };
        let opcode = encoding.count_prefixes(bytes);
        encoding.last = last(&instruction, constants.has_immediate(), opcode);
        encoding
    }

    /// Counts the prefixes. The byte behind them, 0 if there is none.
    fn count_prefixes(&mut self, bytes: &[u8]) -> u8 {
        for &byte in bytes {
            match byte {
                0x66 | 0x67 => self.size_prefixes += 1,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {
                    self.other_prefixes += 1;
                    self.lock |= byte == 0xf0;
                    self.repeat |= matches!(byte, 0xf2 | 0xf3);
                }
                opcode => return opcode,
            }
        }
        0
    }
}

/// Whether it is a near branch to a place that it names.
fn names_target(instruction: &Instruction) -> bool {
    use OpKind::{NearBranch16, NearBranch32, NearBranch64};
    instruction.op_count() != 0
        && matches!(instruction.op0_kind(), NearBranch16 | NearBranch32 | NearBranch64)
}

/// What the last operand of an instruction with this opcode is.
fn last(instruction: &Instruction, has_immediate: bool, opcode: u8) -> LastOperand {
    let Some(n) = instruction.op_count().checked_sub(1) else { return LastOperand::Other };
    if names_target(instruction) {
        return LastOperand::Immediate;
    }
    match instruction.op_kind(n) {
        OpKind::Immediate8
        | OpKind::Immediate8_2nd
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate32to64
        | OpKind::Immediate64 => match opcode {
            _ if !has_immediate => LastOperand::One,
            // ADD to CMP, and TEST.
            0x04..=0x3d if matches!(opcode & 7, 4 | 5) => LastOperand::AccumulatorImmediate,
            0xa8 | 0xa9 => LastOperand::AccumulatorImmediate,
            _ => LastOperand::Immediate,
        },
        OpKind::Register if instruction.op_register(n) == Register::CL && shifts(instruction) => {
            LastOperand::Count
        }
        _ => LastOperand::Other,
    }
}

/// Whether it shifts or rotates by a count.
fn shifts(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Sal
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Encoding {
        Encoding::of(bytes, CodeSize::Bits32)
    }

    fn last_of(bytes: &[u8]) -> LastOperand {
        of(bytes).last
    }

    /// The opcodes are those of Intel SDM volume 2.
    #[test]
    fn last_operands() {
        assert_eq!(last_of(&[0xd1, 0xe0]), LastOperand::One); // SHL EAX, 1
        assert_eq!(last_of(&[0xc1, 0xe0, 0x01]), LastOperand::Immediate); // the same, C1 /4 ib
        assert_eq!(last_of(&[0xd3, 0xe0]), LastOperand::Count); // SHL EAX, CL
        assert_eq!(last_of(&[0x0f, 0xa5, 0xd0]), LastOperand::Count); // SHLD EAX, EDX, CL
        assert_eq!(last_of(&[0x88, 0xc8]), LastOperand::Other); // MOV AL, CL
        assert_eq!(last_of(&[0xa8, 0x01]), LastOperand::AccumulatorImmediate); // TEST AL, 1
        assert_eq!(last_of(&[0xf6, 0xc0, 0x01]), LastOperand::Immediate); // the same, F6 /0 ib
        assert_eq!(last_of(&[0x05, 1, 0, 0, 0]), LastOperand::AccumulatorImmediate); // ADD EAX, 1
        assert_eq!(last_of(&[0x0f, 0xa4, 0xd0, 4]), LastOperand::Immediate); // SHLD EAX, EDX, 4
        assert_eq!(last_of(&[0xeb, 0xfe]), LastOperand::Immediate); // JMP short
        assert_eq!(last_of(&[0xe8, 0, 0, 0, 0]), LastOperand::Immediate); // CALL
        assert_eq!(last_of(&[0xff, 0xd0]), LastOperand::Other); // CALL EAX
        assert_eq!(last_of(&[0x75, 0xfe]), LastOperand::Immediate); // JNE
        assert_eq!(last_of(&[0xc2, 8, 0]), LastOperand::Immediate); // RET 8
        assert_eq!(last_of(&[0xc3]), LastOperand::Other); // RET
        assert_eq!(last_of(&[0x6a, 1]), LastOperand::Immediate); // PUSH 1
        assert_eq!(last_of(&[0x0f, 0xba, 0xe0, 3]), LastOperand::Immediate); // BT EAX, 3
    }

    #[test]
    fn displacements_and_immediates() {
        let has = |bytes: &[u8]| (of(bytes).displacement, of(bytes).immediate);
        // MOV dword [EBX+8], 1
        assert_eq!(has(&[0xc7, 0x43, 8, 1, 0, 0, 0]), (true, true));
        assert_eq!(has(&[0xc7, 0x03, 1, 0, 0, 0]), (false, true)); // MOV dword [EBX], 1
        assert_eq!(has(&[0x8b, 0x43, 0]), (true, false)); // MOV EAX, [EBX+0]
        assert_eq!(has(&[0xa1, 0, 0x10, 0, 0]), (true, false)); // MOV EAX, [1000h]
        assert_eq!(has(&[0x83, 0x3d, 0, 0x10, 0, 0, 5]), (true, true)); // CMP dword [1000h], 5
        assert_eq!(has(&[0xd1, 0x63, 4]), (true, false)); // SHL dword [EBX+4], 1
        assert_eq!(has(&[0x75, 0xfe]), (false, false)); // JNE
        assert_eq!(has(&[0xe9, 0, 0, 0, 0]), (false, false)); // JMP
    }

    #[test]
    fn prefixes() {
        let counts = |bytes: &[u8]| (of(bytes).size_prefixes, of(bytes).other_prefixes);
        assert_eq!(counts(&[0x90]), (0, 0));
        assert_eq!(counts(&[0x66, 0x67, 0x8b, 0x07]), (2, 0)); // MOV AX, [BX]
        assert_eq!(counts(&[0xf3, 0x66, 0xa5]), (1, 1)); // REP MOVSW
        assert_eq!(counts(&[0x0f, 0xaf, 0xc1]), (0, 0)); // IMUL EAX, ECX: 0Fh is none
        let locked = of(&[0xf0, 0x64, 0x01, 0x03]); // LOCK ADD FS:[EBX], EAX
        assert_eq!((locked.other_prefixes, locked.lock, locked.repeat), (2, true, false));
        assert!(of(&[0xf2, 0xae]).repeat); // REPNE SCASB
        // In 16-bit code, MOV AX, [BX+2] has no prefix and a displacement.
        let short = Encoding::of(&[0x8b, 0x47, 2], CodeSize::Bits16);
        assert_eq!((short.size_prefixes, short.displacement), (0, true));
    }
}
