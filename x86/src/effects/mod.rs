//! What an instruction does: which registers and flags it reads and writes, and which memory.
//!
//! [`Effects::of`] tells it from the lowered instruction. It is computed on demand: for a model of
//! pairing, a scoreboard, a code generator or a debugger that shows what an instruction is about to
//! do. Sources are the instruction pages of Intel SDM volume 2 and AMD64 APM volumes 3 to 5; where they
//! leave a result undefined, so do the effects, whatever the handlers do there.
//!
//! They are the effects of an instruction that completes. What only decides whether it faults is not
//! read: CR0.TS for an x87 instruction, IOPL for IN, the tag of the x87 register that is pushed into. What a processor looks up to translate addresses,
//! to load a segment register or to deliver an interrupt (page tables, descriptors, task-state
//! segments, the registers that say where they are) is not listed either.
//!
//! ```text
//! register.rs   Register, RegisterSet
//! flag.rs       FlagSet, Flags
//! memory.rs     MemoryOperand, Access
//! describe.rs   what the families put an instruction's effects together with
//! flags.rs      the flags of all instructions, as the manuals tabulate them
//! integer.rs    moves, arithmetic, bits, shifts
//! stack.rs      the stack, and transfers of control
//! string.rs     string instructions and ports
//! system.rs     control, debug, segment, system and model-specific registers
//! vector.rs     MMX, 3DNow! and SSE
//! vpu.rs        the vector unit of Knights Corner
//! x87.rs        the x87 unit
//! ```

mod describe;
mod flag;
mod flags;
mod integer;
mod memory;
mod register;
mod stack;
mod string;
mod system;
#[cfg(test)]
mod tests;
mod vector;
mod vpu;
mod x87;

pub use self::{
    flag::{FlagSet, Flags},
    memory::{Access, MemoryOperand, MemoryOperands},
    register::{Register, RegisterSet, Registers},
};

use self::describe::Description;
use crate::{
    cpu::Cpu,
    insn::{AddrMask, Insn, seg},
    mode::CodeSize,
    operation::Operation,
};

/// What the effects of an instruction depend on beside the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Code size.
    pub code: CodeSize,
    /// Width of the stack pointer: by SS.B, 64 bits in 64-bit mode.
    pub stack: AddrMask,
    /// How the stack is addressed: [`seg::SS`] or [`seg::FLAT_STACK`].
    pub stack_segment: u8,
}

impl Mode {
    /// Code of a size, with a stack of the same.
    #[must_use]
    pub const fn new(code: CodeSize) -> Self {
        match code {
            CodeSize::Bits16 => Self { code, stack: AddrMask::Bits16, stack_segment: seg::SS },
            CodeSize::Bits32 => Self { code, stack: AddrMask::Bits32, stack_segment: seg::SS },
            CodeSize::Bits64 => {
                Self { code, stack: AddrMask::Bits64, stack_segment: seg::FLAT_STACK }
            }
        }
    }

    /// The mode that `cpu` is in.
    #[must_use]
    pub fn of(cpu: &Cpu) -> Self {
        let code = cpu.code_size();
        if code == CodeSize::Bits64 {
            return Self::new(code);
        }
        let wide = cpu.stack_mask() == AddrMask::Bits32.value();
        Self {
            code,
            stack: if wide { AddrMask::Bits32 } else { AddrMask::Bits16 },
            stack_segment: if cpu.segment(seg::SS).is_flat_data() {
                seg::FLAT_STACK
            } else {
                seg::SS
            },
        }
    }

    /// 64-bit mode.
    const fn is_64bit(self) -> bool {
        matches!(self.code, CodeSize::Bits64)
    }
}

/// What an instruction does when it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Registers that are looked at, to compute addresses as well.
    pub read: RegisterSet,
    /// Of those read, the ones whose value matters to more than the addresses of [`Effects::memory`].
    pub values: RegisterSet,
    /// Registers that are written, or may be.
    pub written: RegisterSet,
    /// Of those written, the ones that may also stay as they were: CMOVcc, BSF of zero, REP with a
    /// count of zero, exception flags that are never cleared by the way.
    pub conditional: RegisterSet,
    /// Of those written, the ones of which a part stays as it was: 8- and 16-bit destinations, the
    /// upper part of an XMM register behind a scalar.
    pub partial: RegisterSet,
    /// What becomes of the flags.
    pub flags: Flags,
    /// Memory operands, implied ones included.
    pub memory: MemoryOperands,
    /// How many entries the x87 stack is popped by; negative: pushed by. By FPTAN and FSINCOS it is
    /// not if their operand is out of range (C2).
    pub x87_pops: i8,
    /// It may do more than is listed: a far transfer or an interrupt may go through a gate to another
    /// privilege or another task, with a frame on another stack.
    pub open_ended: bool,
}

impl Effects {
    /// Nothing.
    const NONE: Self = Self {
        read: RegisterSet::EMPTY,
        values: RegisterSet::EMPTY,
        written: RegisterSet::EMPTY,
        conditional: RegisterSet::EMPTY,
        partial: RegisterSet::EMPTY,
        flags: Flags {
            read: FlagSet::EMPTY,
            written: FlagSet::EMPTY,
            cleared: FlagSet::EMPTY,
            set: FlagSet::EMPTY,
            undefined: FlagSet::EMPTY,
            conditional: FlagSet::EMPTY,
        },
        memory: MemoryOperands::NONE,
        x87_pops: 0,
        open_ended: false,
    };

    /// The effects of `insn` in `mode`, for which it has been lowered. An instruction that always
    /// raises #UD has none.
    #[must_use]
    pub fn of(insn: &Insn, mode: Mode) -> Self {
        let mut effects = Description::new(insn, mode);
        let known = integer::describe(&mut effects)
            || vector::describe(&mut effects)
            || vpu::describe(&mut effects)
            || x87::describe(&mut effects)
            || stack::describe(&mut effects)
            || string::describe(&mut effects)
            || system::describe(&mut effects)
            || does_nothing(insn.op);
        debug_assert!(known, "no family describes {:?}", insn.op);
        effects.finish()
    }

    /// All registers whose value before the instruction can matter to what is in registers, flags and
    /// memory afterwards: those read, and those written of which something may stay.
    #[must_use]
    pub fn inputs(&self) -> RegisterSet {
        self.read.union(self.conditional).union(self.partial)
    }
}

impl Insn {
    /// What it does in `mode`, for which it has been lowered.
    #[must_use]
    pub fn effects(&self, mode: Mode) -> Effects {
        Effects::of(self, mode)
    }
}

/// Whether an operation has no effect that a program could see: hints, fences, what flushes caches,
/// and what raises #UD. The operands of a NOP are not accessed, registers included (Intel SDM volume 2,
/// "NOP").
fn does_nothing(operation: Operation) -> bool {
    use Operation as O;
    matches!(
        operation,
        O::Invalid
            | O::TooLong
            | O::Ud
            | O::Rsm
            | O::Nop
            | O::HintNop
            | O::Pause
            | O::Lfence
            | O::Mfence
            | O::Sfence
            | O::Hlt
            | O::Invd
            | O::Wbinvd
    )
}
