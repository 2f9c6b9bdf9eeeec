//! What the manuals leave to the processor: an outcome is compared with a host's without it.

use iced_x86::{Instruction, Mnemonic, OpKind};

use crate::{host::Vendor, state::Case};

/// The parts of an outcome in which the software CPU and the host's processor may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// These flags; zero for an instruction that defines them all.
    Flags(u64),
    /// All that the instruction writes; not whether it raises an exception.
    Result,
    /// Whether there is such an instruction.
    Existence,
}

const CF: u64 = 1;

/// What is open between the K8 of this crate and a host of this vendor. AMD's processors answer as
/// the K8 does in what is undefined as well, and are compared in full, as far as `rflags_undefined`
/// lets them.
pub(crate) fn open(case: &Case, host: Vendor) -> Open {
    let flags = undefined_flags(&case.instruction);
    if host == Vendor::Amd {
        return Open::Flags(flags);
    }
    let i = &case.instruction;
    let register = i.op0_kind() == OpKind::Register;
    let size = match i.op0_kind() {
        OpKind::Register => i.op0_register().size(),
        _ => i.memory_size().size(),
    };
    let bits = 8 * size as u64;
    match i.mnemonic() {
        // "If a count is greater than the operand size, the result is undefined" (Intel SDM volume
        // 2, "SHLD" and "SHRD").
        Mnemonic::Shld | Mnemonic::Shrd if count(case) > bits => Open::Result,
        // "The CF flag [...] is undefined for SHL and SHR instructions where the count is greater
        // than or equal to the size (in bits) of the destination operand" (Intel SDM volume 2,
        // "SAL/SAR/SHL/SHR").
        Mnemonic::Shl | Mnemonic::Sal | Mnemonic::Shr if count(case) >= bits => {
            Open::Flags(flags | CF)
        }
        // "If the content of the source operand is 0, the content of the destination operand is
        // undefined" (Intel SDM volume 2, "BSF" and "BSR"). AMD leaves it unchanged (AMD64 APM
        // volume 3, "BSF").
        Mnemonic::Bsf | Mnemonic::Bsr if case.operand(1)[..size] == [0; 8][..size] => Open::Result,
        // "When the BSWAP instruction references a 16-bit register, the result is undefined" (Intel
        // SDM volume 2, "BSWAP").
        Mnemonic::Bswap if size == 2 => Open::Result,
        // "The packed BCD digits are assumed to be in the range 0 through 9; the instruction does not
        // check for invalid digits (AH through FH). Attempting to load an invalid encoding produces
        // an undefined result" (Intel SDM volume 2, "FBLD").
        Mnemonic::Fbld if case.operand(0)[..9].iter().any(|b| b & 15 > 9 || b >> 4 > 9) => {
            Open::Result
        }
        // The opcode 0F 0D has register operands as reserved NOPs on Intel's processors with it, and
        // is #UD with them on AMD's (AMD64 APM volume 3, "PREFETCH": a memory operand).
        Mnemonic::Reservednop if register && case.bytes_contain_0f0d() => Open::Existence,
        _ => Open::Flags(flags),
    }
}

/// The count of a shift, masked as the processor masks it.
fn count(case: &Case) -> u64 {
    let i = &case.instruction;
    let last = i.op_count() - 1;
    let count = match i.op_kind(last) {
        OpKind::Immediate8 => u64::from(i.immediate8()),
        _ => case.regs[1],
    };
    let wide = match i.op0_kind() {
        OpKind::Register => i.op0_register().size() == 8,
        _ => i.memory_size().size() == 8,
    };
    count & if wide { 63 } else { 31 }
}

/// Flags that the manuals leave undefined after this instruction.
fn undefined_flags(i: &Instruction) -> u64 {
    use iced_x86::RflagsBits as B;
    let mut bits = i.rflags_undefined();
    if matches!(i.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr) {
        // AMD64 APM volume 3: OF is defined for a count of one only.
        bits |= B::OF;
    }
    let mut flags = 0;
    for (bit, flag) in
        [(B::CF, CF), (B::PF, 4), (B::AF, 0x10), (B::ZF, 0x40), (B::SF, 0x80), (B::OF, 0x800)]
    {
        if bits & bit != 0 {
            flags |= flag;
        }
    }
    flags
}
