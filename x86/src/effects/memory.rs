//! Memory operands: which bytes an instruction accesses, and how.

use std::{fmt, ops::Deref};

use crate::insn::Mem;

/// What is done with a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// It is read, then written.
    ReadWrite,
    /// Its address is computed and checked or used as a number; the bytes are neither read nor written:
    /// LEA, INVLPG.
    Address,
    /// It may be fetched into a cache, or evicted from it, which no program can tell.
    Cache,
}

impl Access {
    /// Whether the bytes are read.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether the bytes are written.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// A memory operand, explicit or implied: `count` elements of `bytes` each, one behind the other in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// What is done with it.
    pub access: Access,
    /// Where the lowest element is, in terms of the registers before the instruction. Each element's
    /// offset wraps at the address size on its own. XLAT adds AL; BT, BTS, BTR and BTC with an index in
    /// a register add as many elements as the index, a signed number of bits, is away. A gather or scatter
    /// of the vector unit has an index for each element.
    pub mem: Mem,
    /// Bytes of an element.
    pub bytes: u16,
    /// Number of elements: more than one for what PUSHA, POPA, ENTER, BOUND, IRET and far calls and
    /// returns access, for streams of elements, and for gathers and scatters, which access some of them.
    pub count: u8,
    /// The access may not take place: the count of a REP may be zero, the mask of MASKMOVDQU may be,
    /// and so may that of an instruction of the vector unit.
    pub conditional: bool,
    /// With REP there are as many elements as rCX says, upwards or with DF downwards from here.
    pub repeated: bool,
}

impl MemoryOperand {
    /// Bytes of all elements; of one if it is repeated.
    #[must_use]
    pub const fn total_bytes(&self) -> u32 {
        self.bytes as u32 * self.count as u32
    }
}

/// Most memory operands that an instruction has: ENTER reads the display, writes the frame and looks
/// at the new top of the stack.
const MOST: usize = 3;

/// The memory operands of an instruction, in the order in which they are accessed; a slice of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MemoryOperands {
    operands: [MemoryOperand; MOST],
    len: u8,
}

impl MemoryOperands {
    /// None.
    pub(super) const NONE: Self = {
        let nothing = MemoryOperand {
            access: Access::Address,
            mem: Mem::NONE,
            bytes: 0,
            count: 0,
            conditional: false,
            repeated: false,
        };
        Self { operands: [nothing; MOST], len: 0 }
    };

    /// Adds one.
    pub(super) fn push(&mut self, operand: MemoryOperand) {
        self.operands[usize::from(self.len)] = operand;
        self.len += 1;
    }
}

impl Deref for MemoryOperands {
    type Target = [MemoryOperand];

    fn deref(&self) -> &[MemoryOperand] {
        &self.operands[..usize::from(self.len)]
    }
}

impl<'a> IntoIterator for &'a MemoryOperands {
    type Item = &'a MemoryOperand;
    type IntoIter = std::slice::Iter<'a, MemoryOperand>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for MemoryOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
