//! From bytes to an instruction, as a processor of given features reads them.

use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic};

use super::{bitness, supported};
use crate::{
    exec,
    features::{EncodingRules, Features},
    mode::CodeSize,
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
    let knc = if features.knc || features.vpu { DecoderOptions::KNC } else { 0 };
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
        if !ends_with_opcode(features, code, bytes) {
            return Decoded::Short;
        }
        return Decoded::Whole(invalid(bytes.len(), ip));
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
        i = invalid(i.len(), ip);
    }
    if i.code() == Code::INVALID && i.len() == MAX_LENGTH && is_too_long(bits, options, bytes) {
        return Decoded::TooLong(i);
    }
    let shorter = i.len().saturating_sub(1);
    if i.code() == Code::INVALID && ends_with_opcode(features, code, &bytes[..shorter]) {
        i = invalid(shorter, ip);
    }
    Decoded::Whole(i)
}

/// An invalid instruction.
fn invalid(length: usize, ip: u64) -> Instruction {
    let mut i = Instruction::default();
    i.set_len(length);
    i.set_next_ip(ip + length as u64);
    i
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
        let last = length - 1;
        if !decides(bits, options, &mut short, last) {
            length = last;
        }
    }
    dropped + length > MAX_LENGTH
}

/// Whether `bytes`, in which the decoder finds no whole instruction, are an opcode that is invalid
/// whatever follows, and its prefixes.
fn ends_with_opcode(features: &Features, code: CodeSize, bytes: &[u8]) -> bool {
    if bytes.is_empty() || features.knc && exec::knc::may_begin(code, bytes) {
        return false;
    }
    let options = options(features) | DecoderOptions::FORCE_RESERVED_NOP;
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len() + MAX_LENGTH, 0);
    !decides(bitness(code), options, &mut padded, bytes.len())
}

/// Whether it is for the byte at `at`, or for those behind, to say if there is such an instruction.
///
/// The decoder reads a ModRM byte behind an opcode that is invalid whatever it says; there the
/// instruction ends with the opcode.
fn decides(bits: u32, options: u32, bytes: &mut [u8], at: usize) -> bool {
    (0..=u8::MAX).any(|byte| {
        bytes[at] = byte;
        let i = Decoder::with_ip(bits, bytes, 0, options).decode();
        i.code() != Code::INVALID || i.len() != at + 1
    })
}
