//! An instruction as a core with a vector unit sees it.

use crate::pipeline::{self, Branch, MemoryUse, Registers};

/// A set of registers of the vector unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorRegisters(u64);

/// First bit of the mask registers.
const MASK: u32 = 32;
/// The mask registers.
const MASKS: VectorRegisters = VectorRegisters(0xff << MASK);

impl VectorRegisters {
    /// None.
    pub const NONE: Self = Self(0);

    /// A vector register, ZMM0 to ZMM31.
    #[must_use]
    pub const fn zmm(number: u8) -> Self {
        Self(1 << (number & 31))
    }

    /// A mask register, k0 to k7.
    #[must_use]
    pub const fn mask(number: u8) -> Self {
        Self(1 << (MASK + (number & 7) as u32))
    }

    /// The registers of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a register is in both.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A bit each.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

/// What a core with a vector unit has to know of an instruction: what can be told from its bytes and the mode
/// it was decoded in. It is worked out once, when the instruction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// All that is not of the vector unit.
    pub scalar: pipeline::Instruction,
    /// Registers of the vector unit that it reads, but for those of its address.
    pub reads: VectorRegisters,
    /// Those of them that leave the unit: what is stored, and masks that the integer side reads.
    pub outgoing: VectorRegisters,
    /// Registers of the vector unit that it writes, wholly or in part.
    pub writes: VectorRegisters,
    /// Registers of the vector unit that its addresses are computed from.
    pub index: VectorRegisters,
}

impl Instruction {
    /// One that does nothing with the vector unit.
    #[must_use]
    pub const fn scalar(scalar: pipeline::Instruction) -> Self {
        let none = VectorRegisters::NONE;
        Self { scalar, reads: none, outgoing: none, writes: none, index: none }
    }

    /// One that reads and writes registers of the vector unit, and computes addresses from `index`. A part
    /// of a register that it leaves as it was is read and written.
    #[must_use]
    pub const fn new(
        scalar: pipeline::Instruction,
        reads: VectorRegisters,
        writes: VectorRegisters,
        index: VectorRegisters,
    ) -> Self {
        let stores = matches!(scalar.memory, MemoryUse::Store);
        let tells = scalar.writes.has_general()
            || scalar.writes.intersects(Registers::FLAGS)
            || !matches!(scalar.branch, Branch::None);
        let data = if stores { reads.without(MASKS) } else { VectorRegisters::NONE };
        let masks = if tells { reads.intersection(MASKS) } else { VectorRegisters::NONE };
        Self { scalar, reads, outgoing: data.union(masks), writes, index }
    }

    /// All registers of the vector unit that have to be there for it.
    pub(super) const fn needs(&self) -> VectorRegisters {
        self.reads.union(self.index)
    }

    /// Whether it gathers or scatters.
    pub(super) const fn gathers(&self) -> bool {
        use crate::pipeline::in_order::Unit;
        matches!(self.scalar.timing.unit, Unit::Vector(unit) if unit.gathers)
    }
}

crate::state! { VectorRegisters(_) }
crate::state! { Instruction { saved: scalar, reads, outgoing, writes, index; } }
