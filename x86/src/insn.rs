//! The lowered instruction: what one guest instruction does, in plain data.
//!
//! [`Insn`] holds no type of the decoder and no pointer, so that a code generator could consume the
//! same blocks as the interpreter. The interpreter pairs each with the handler that executes it
//! ([`Op`]); a generator would inline the operations it knows and call the handler of the others.

use crate::{
    cpu::Cpu,
    handler::handler,
    lower::unread::{self, UNREAD},
    observe::{Cx, Observer},
    operation::{Family, Operation},
    stop::Exec,
};

/// Number of general registers; the register file has two pseudo registers behind them.
pub const GPRS: usize = 16;
/// Pseudo register that reads as zero: the base or index of an address that has none.
pub const ZERO: u8 = 16;
/// Pseudo register that holds the RIP of the running block's first byte.
pub const BLOCK_BASE: u8 = 17;
/// Added to a register number 0-3 in an 8-bit operand: AH, CH, DH or BH.
pub const HIGH_BYTE: u8 = 0x20;

/// Numbers of the general registers, as the instruction encoding has them.
pub mod gpr {
    #![allow(missing_docs, reason = "the architectural names say it all")]
    pub const RAX: u8 = 0;
    pub const RCX: u8 = 1;
    pub const RDX: u8 = 2;
    pub const RBX: u8 = 3;
    pub const RSP: u8 = 4;
    pub const RBP: u8 = 5;
    pub const RSI: u8 = 6;
    pub const RDI: u8 = 7;
    pub const R11: u8 = 11;
}

/// Numbers of the segment registers, as the instruction encoding has them.
pub mod seg {
    #![allow(missing_docs, reason = "the architectural names say it all")]
    pub const ES: u8 = 0;
    pub const CS: u8 = 1;
    pub const SS: u8 = 2;
    pub const DS: u8 = 3;
    pub const FS: u8 = 4;
    pub const GS: u8 = 5;
    /// Known at lowering to be flat: base zero, no limit or type to check.
    pub const FLAT: u8 = 6;
    /// FS in 64-bit mode: a base and no checks.
    pub const FS_BASE: u8 = 7;
    /// GS in 64-bit mode: a base and no checks.
    pub const GS_BASE: u8 = 8;
    /// SS, known at lowering to be flat. Apart from [`FLAT`] because a non-canonical address
    /// raises #SS here and #GP there.
    pub const FLAT_STACK: u8 = 9;
}

/// A memory operand: `segment : ((base + (index << scale) + disp) & mask)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Displacement, sign-extended; for a RIP-relative operand relative to the block's first byte.
    pub disp: i64,
    /// A general register, [`ZERO`] or [`BLOCK_BASE`].
    pub base: u8,
    /// A general register or [`ZERO`].
    pub index: u8,
    /// Left shift of the index: 0-3.
    pub scale: u8,
    /// One of [`seg`].
    pub seg: u8,
    /// Address size: bits of the effective address that count.
    pub mask: AddrMask,
}

impl Mem {
    /// No memory operand.
    pub const NONE: Self =
        Self { disp: 0, base: ZERO, index: ZERO, scale: 0, seg: seg::FLAT, mask: AddrMask::Bits64 };
}

/// Address size of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AddrMask {
    /// 16-bit addresses wrap at 64 KiB.
    Bits16,
    /// 32-bit addresses wrap at 4 GiB.
    Bits32,
    /// 64-bit addresses.
    Bits64,
}

impl AddrMask {
    /// The bits of an address that count.
    #[inline(always)]
    #[must_use]
    pub fn value(self) -> u64 {
        const MASKS: [u64; 4] = [0xffff, 0xffff_ffff, u64::MAX, u64::MAX];
        MASKS[self as usize & 3]
    }
}

/// Width of an integer operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Size {
    /// 8 bits.
    B1,
    /// 16 bits.
    B2,
    /// 32 bits.
    B4,
    /// 64 bits.
    B8,
}

impl Size {
    /// Width in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        1 << self as usize
    }
}

/// Where the operands of a lowered instruction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// None, or implied by the instruction.
    None,
    /// Destination register.
    Reg,
    /// Destination memory.
    Mem,
    /// Destination register, source register.
    RegReg,
    /// Destination register, source memory.
    RegMem,
    /// Destination memory, source register.
    MemReg,
    /// Destination register, source immediate.
    RegImm,
    /// Destination memory, source immediate.
    MemImm,
}

impl Form {
    /// Whether one of the operands is memory.
    pub(crate) fn has_memory(self) -> bool {
        match self {
            Self::None | Self::Reg | Self::RegReg | Self::RegImm => false,
            Self::Mem | Self::RegMem | Self::MemReg | Self::MemImm => true,
        }
    }
}

/// A file of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum File {
    /// The operand is no register, or there is none.
    None,
    /// General registers.
    General,
    /// MM0-MM7.
    Mmx,
    /// XMM0-XMM15.
    Xmm,
    /// ST(0)-ST(7), by their place on the stack.
    X87,
    /// ES, CS, SS, DS, FS, GS.
    Segment,
    /// CR0-CR8.
    Control,
    /// DR0-DR7.
    Debug,
    /// ZMM0-ZMM31.
    Zmm,
    /// k0-k7.
    Mask,
}

impl File {
    /// By number; the last ones are of no file.
    const ALL: [Self; 16] = [
        Self::None,
        Self::General,
        Self::Mmx,
        Self::Xmm,
        Self::X87,
        Self::Segment,
        Self::Control,
        Self::Debug,
        Self::Zmm,
        Self::Mask,
        Self::None,
        Self::None,
        Self::None,
        Self::None,
        Self::None,
        Self::None,
    ];
}

/// The register files of the first two operands as the manual writes them, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files(u8);

impl Files {
    /// Of the first and the second operand.
    #[must_use]
    pub const fn new(first: File, second: File) -> Self {
        Self(first as u8 | (second as u8) << 4)
    }

    /// Of the first operand.
    #[must_use]
    pub const fn first(self) -> File {
        File::ALL[(self.0 & 15) as usize]
    }

    /// Of the second operand.
    #[must_use]
    pub const fn second(self) -> File {
        File::ALL[(self.0 >> 4) as usize]
    }
}

/// One guest instruction, lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The memory operand; [`Mem::NONE`] if there is none.
    pub mem: Mem,
    /// Immediate, sign-extended to 64 bits; or another number that the operation's `lower` function
    /// puts there for its handler.
    pub imm: u64,
    /// What it does.
    pub op: Operation,
    /// Which files its register operands are in.
    pub files: Files,
    /// Bytes of the memory operand, 0 if there is none or if its size is not fixed.
    pub mem_bytes: u16,
    /// Where its operands are.
    pub form: Form,
    /// Operand size.
    pub size: Size,
    /// Destination register (a general register number with [`HIGH_BYTE`], or an XMM, MMX, ST,
    /// segment, control, debug, ZMM or mask register number).
    pub dst: u8,
    /// Source register.
    pub src: u8,
    /// A further small operand: condition code, rounding mode or prefix, by the operation; of arithmetic on
    /// registers, whether its flags are ever read.
    pub aux: u8,
    /// Length in bytes: 1-15.
    pub len: u8,
    /// How many instructions of the block come before it.
    pub index: u8,
    /// How many cycles they take.
    pub before: u16,
    /// Offset of the byte behind it from the block's first byte.
    pub end: u16,
}

impl Insn {
    /// Offset of its first byte from the block's first byte.
    #[must_use]
    pub fn start(&self) -> u16 {
        self.end - u16::from(self.len)
    }

    /// Whether another instruction of its block replaces its flags before anything can read them. Where only a part
    /// of the block is executed, that says nothing.
    #[inline(always)]
    pub(crate) fn flags_are_unread(&self) -> bool {
        self.aux == UNREAD && unread::may_be(self)
    }

    /// Whether it is known to make one memory access at most, behind which it cannot fault, so that
    /// there is never anything to take back.
    pub(crate) fn accesses_last(&self) -> bool {
        use Operation as Op;
        match self.op {
            Op::Push | Op::Pop | Op::Jmp | Op::Call => self.form != Form::Mem,
            Op::Mov | Op::Movzx | Op::Movsx | Op::Movsxd | Op::Cmovcc | Op::Xchg => true,
            Op::Add | Op::Or | Op::Adc | Op::Sbb | Op::And | Op::Sub | Op::Xor => true,
            Op::Cmp | Op::Test | Op::Inc | Op::Dec | Op::Neg | Op::Not => true,
            Op::Shl | Op::Shr | Op::Sar | Op::Imul | Op::Lea | Op::Setcc => true,
            Op::Rol | Op::Ror | Op::Rcl | Op::Rcr | Op::Shld | Op::Shrd | Op::Mul => true,
            Op::Bt | Op::Bts | Op::Btr | Op::Btc | Op::Bsf | Op::Bsr => true,
            Op::Jcc | Op::Ret | Op::Nop | Op::HintNop => true,
            // #DE comes when the divisor is there.
            Op::Div | Op::Idiv => !self.form.has_memory(),
            // They access no memory.
            Op::Cbw | Op::Cwde | Op::Cdqe | Op::Cwd | Op::Cdq | Op::Cqo | Op::Bswap => true,
            Op::Clc | Op::Stc | Op::Cmc | Op::Cld | Op::Std | Op::Lahf | Op::Sahf => true,
            Op::Loop | Op::Loope | Op::Loopne | Op::Jcxz => true,
            Op::Jkzd | Op::Jknzd => true,
            Op::Rdmsr | Op::Wrmsr | Op::Rdpmc | Op::Rdtsc => true,
            Op::Lfence | Op::Mfence | Op::Sfence | Op::Clevict0 | Op::Clevict1 => true,
            Op::Prefetch | Op::Prefetchw | Op::Prefetchwt1 | Op::Prefetchnta => true,
            Op::Prefetcht0 | Op::Prefetcht1 | Op::Prefetcht2 => true,
            op => match op.family() {
                Family::General => false,
                Family::X87 => true,
                // One line at most, and no exception follows it.
                Family::Vector => true,
                Family::Simd => match self.form {
                    Form::None | Form::RegReg | Form::RegImm | Form::MemReg => true,
                    // Arithmetic may fault when its operand is there, and so may LDMXCSR.
                    _ => self.files.first() == File::Mmx && !op.converts_to_mmx(),
                },
            },
        }
    }
}

/// Executes one lowered instruction.
///
/// `Ok` goes on with the next instruction of the block. An instruction that faults must leave the
/// architectural state as it was.
pub type Handler<O> = fn(&mut Cpu, &mut Cx<'_, O>, &Insn) -> Exec<()>;

/// A lowered instruction and the handler that executes it under observer `O`.
pub struct Op<O> {
    /// Its handler where the whole block is executed.
    pub run: Handler<O>,
    /// Its data.
    pub insn: Insn,
}

impl<O: Observer> Op<O> {
    /// The handler that executes it where the run may end before the block does: it leaves its flags, whether or not
    /// they are read behind it.
    pub(crate) fn run_exactly(&self) -> Handler<O> {
        if self.insn.flags_are_unread() { handler(&Insn { aux: 0, ..self.insn }) } else { self.run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run loop walks through these: four of them with their handlers are in three cache lines.
    #[test]
    fn a_lowered_instruction_is_small() {
        assert!(size_of::<Insn>() <= 40, "{}", size_of::<Insn>());
    }
}
