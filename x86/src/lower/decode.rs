//! From bytes to an instruction, as a processor of given features reads them.

use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic};

use super::{bitness, supported};
use crate::{
    cpu::{CodeSize, EncodingRules, Features},
    exec,
};

/// The longest instruction (Intel SDM volume 2, section 2.3.11, "AVX Instruction Length"; AMD64 APM
/// volume 3, section 1.1).
pub(super) const MAX_LENGTH: usize = 15;

/// The decoder reads as a processor without TZCNT, LZCNT and WBNOINVD does: there the prefix is
/// ignored, and BSF, BSR or WBINVD executes.
const DECODING: u32 =
    DecoderOptions::NO_MPFX_0FBC | DecoderOptions::NO_MPFX_0FBD | DecoderOptions::NO_WBNOINVD;

/// How the decoder reads for a processor of these features.
fn options(features: &Features) -> u32 {
    let encodings = match features.encodings {
        EncodingRules::Amd64 => DecoderOptions::AMD,
        EncodingRules::Intel64 => 0,
    };
    let knc = if features.knc { DecoderOptions::KNC } else { 0 };
    DECODING | encodings | knc
}

/// What the bytes at an instruction pointer are.
pub(super) enum Decoded {
    /// An instruction, [`Code::INVALID`] among them.
    Whole(Instruction),
    /// More than [`MAX_LENGTH`] bytes; as far as it is looked at, an invalid instruction of so many.
    TooLong(Instruction),
    /// The bytes end before the instruction does.
    Short,
}

/// Decodes the instruction that `bytes` begin with, at `ip`. Of its bytes [`MAX_LENGTH`] are enough,
/// whatever they are.
pub(super) fn decode(features: &Features, code: CodeSize, bytes: &[u8], ip: u64) -> Decoded {
    let bytes = &bytes[..bytes.len().min(MAX_LENGTH)];
    let bits = bitness(code);
    let options = options(features);
    let mut decoder = Decoder::with_ip(bits, bytes, ip, options);
    let mut i = decoder.decode();
    if decoder.last_error() == DecoderError::NoMoreBytes {
        return Decoded::Short;
    }
    if !supported(features, &i) {
        // Encodings that became something else later, or nothing yet, are NOPs.
        let options = options | DecoderOptions::FORCE_RESERVED_NOP;
        let nop = Decoder::with_ip(bits, bytes, ip, options).decode();
        if nop.mnemonic() == Mnemonic::Reservednop {
            i = nop;
        }
    }
    if i.code() == Code::INVALID && features.knc {
        i = exec::knc::decode(code, bytes, ip).unwrap_or(i);
    }
    if is_locked_move(&i, bytes) && !features.alt_mov_cr8 {
        let length = i.len();
        i = Instruction::default();
        i.set_len(length);
        i.set_next_ip(ip + length as u64);
    }
    if i.code() == Code::INVALID && i.len() == MAX_LENGTH && is_too_long(bits, options, bytes) {
        return Decoded::TooLong(i);
    }
    Decoded::Whole(i)
}

/// Whether it is MOV CR8 in its form with LOCK, which the decoder knows as AMD's.
fn is_locked_move(i: &Instruction, bytes: &[u8]) -> bool {
    use Code::{Mov_cr_r32, Mov_cr_r64, Mov_r32_cr, Mov_r64_cr};
    let prefixes = bytes.iter().take_while(|&&byte| byte != 0x0f);
    matches!(i.code(), Mov_cr_r32 | Mov_cr_r64 | Mov_r32_cr | Mov_r64_cr)
        && prefixes.into_iter().any(|&byte| byte == 0xf0)
}

/// Whether an instruction that the decoder refuses after [`MAX_LENGTH`] bytes has more of them.
///
/// To the decoder that is one error among others. So it gets the instruction without the prefixes
/// that mean nothing for its length, with zeros behind its bytes.
fn is_too_long(bits: u32, options: u32, bytes: &[u8]) -> bool {
    let options = options | DecoderOptions::FORCE_RESERVED_NOP;
    let (mut operand_size, mut address_size, mut repeat, mut rex) = (None, None, None, None);
    let mut opcode = bytes.len();
    for (at, &byte) in bytes.iter().enumerate() {
        // REX counts directly before the opcode only.
        let last_rex = rex.take();
        match byte {
            0x66 => operand_size = Some(byte),
            0x67 => address_size = Some(byte),
            0xf2 | 0xf3 => repeat = Some(byte),
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => {}
            0x40..=0x4f if bits == 64 => rex = Some(byte),
            _ => {
                rex = last_rex;
                opcode = at;
                break;
            }
        }
    }
    let prefixes = [operand_size, address_size, repeat, rex].into_iter().flatten();
    let mut short: Vec<u8> = prefixes.collect();
    let dropped = opcode - short.len();
    short.extend(&bytes[opcode..]);
    short.resize(MAX_LENGTH, 0);
    let i = Decoder::with_ip(bits, &short, 0, options).decode();
    let mut length = i.len();
    if i.code() == Code::INVALID && length > 0 {
        // The decoder reads a ModRM byte behind an opcode that is invalid whatever it says; there
        // the instruction ends with the opcode.
        let last = length - 1;
        let depends = (0..=u8::MAX).any(|byte| {
            short[last] = byte;
            Decoder::with_ip(bits, &short, 0, options).decode().code() != Code::INVALID
        });
        if !depends {
            length = last;
        }
    }
    dropped + length > MAX_LENGTH
}
