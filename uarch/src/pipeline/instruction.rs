//! An instruction as a pipeline sees it.

use super::{Registers, in_order::Timing};

/// What a pipeline has to know of an instruction: what can be told from its bytes and the mode it was
/// decoded in. It is worked out once, when the instruction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What the part's table says about it.
    pub timing: Timing,
    /// Registers that it reads, those of its address included.
    pub reads: Registers,
    /// Registers that it writes.
    pub writes: Registers,
    /// Registers that its address is computed from: base and index, of LEA as well, and the stack
    /// pointer if it pushes or pops.
    pub address: Registers,
    /// What it does with memory.
    pub memory: MemoryUse,
    /// It is PUSH, POP, CALL, or RET without an operand: the stack pointer behind it is known before it
    /// executes.
    pub predicts_stack_pointer: bool,
    /// How it transfers control.
    pub branch: Branch,
    /// It is FXCH with the entry of this place.
    pub exchanges: Option<u8>,
    /// How many entries it pops off the x87 stack; negative: pushes.
    pub x87_pops: i8,
    /// Bytes, prefixes included.
    pub length: u8,
    /// Its prefixes.
    pub prefixes: Prefixes,
    /// It has both a displacement and an immediate operand.
    pub displacement_and_immediate: bool,
    /// Nothing behind it begins before it is finished and all before it is in memory.
    pub serialises: bool,
}

impl Instruction {
    /// An instruction of one byte without operands.
    #[must_use]
    pub const fn new(timing: Timing) -> Self {
        Self {
            timing,
            reads: Registers::NONE,
            writes: Registers::NONE,
            address: Registers::NONE,
            memory: MemoryUse::None,
            predicts_stack_pointer: false,
            branch: Branch::None,
            exchanges: None,
            x87_pops: 0,
            length: 1,
            prefixes: Prefixes::NONE,
            displacement_and_immediate: false,
            serialises: false,
        }
    }
}

/// What an instruction does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Nothing.
    None,
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads, and writes to the same place.
    Modify,
}

/// How an instruction transfers control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It does not.
    None,
    /// If a condition is true.
    Conditional,
    /// Always.
    Unconditional,
}

/// The prefixes of an instruction, as far as they take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Operand-size and address-size prefixes: 66h, 67h.
    pub size: u8,
    /// Others, but for 0Fh, which is part of the opcode: segment, REP, LOCK.
    pub other: u8,
    /// LOCK is among them.
    pub lock: bool,
}

impl Prefixes {
    /// None.
    pub const NONE: Self = Self { size: 0, other: 0, lock: false };

    /// Whether there are any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.size != 0 || self.other != 0
    }
}

crate::state! {
    Instruction {
        saved: timing, reads, writes, address, memory, predicts_stack_pointer, branch, exchanges, x87_pops,
            length, prefixes, displacement_and_immediate, serialises;
    }
}
crate::state! { MemoryUse: None, Load, Store, Modify }
crate::state! { Branch: None, Conditional, Unconditional }
crate::state! { Prefixes { saved: size, other, lock; } }
