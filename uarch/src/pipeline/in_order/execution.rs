//! What happened when an instruction executed, which its bytes do not tell.

use crate::state::{Cycles, State, Visitor};

/// What happened when an instruction executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execution<'a> {
    /// It transferred control, as predicted or not.
    pub taken: bool,
    /// Instructions had been fetched from elsewhere than where control went.
    pub mispredicted: bool,
    /// Clocks that its fetch took beyond hits in the code cache and the code TLB.
    pub fetch: u64,
    /// Its data accesses, in order; those of page walks are not among them.
    pub accesses: &'a [Access],
    /// Iterations of REP.
    pub iterations: u64,
    /// Precision control of the x87 unit.
    pub precision: Precision,
    /// Clocks more than the part's table has, for an instruction whose clocks depend on its operands.
    pub more: u64,
}

/// A data access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Linear address of its first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u8,
    /// It crosses a boundary that costs time.
    pub misaligned: bool,
    /// Clocks of page walks, on a miss in the data TLB.
    pub walk: u64,
    /// What becomes of it.
    pub outcome: Outcome,
}

impl Access {
    /// An access to the data cache that hits.
    #[must_use]
    pub const fn hit(address: u64, bytes: u8, outcome: Outcome) -> Self {
        Self { address, bytes, misaligned: false, walk: 0, outcome }
    }
}

/// What becomes of a data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A read that hits in the data cache.
    Hit,
    /// A read that misses.
    Miss {
        /// Clocks until the data is there, beyond those of a hit.
        clocks: u64,
    },
    /// A write to a line that the data cache holds modified or exclusive.
    Owned,
    /// A write that has to go out: a miss, or a line held shared or written through.
    Buffered {
        /// Clocks until the caches or the bus have taken it, once it is the oldest of the write buffers.
        clocks: u64,
    },
}

/// Precision control of the x87 unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits.
    Single,
    /// 53 bits.
    Double,
    /// 64 bits.
    #[default]
    Extended,
}

crate::state! { Precision: Single, Double, Extended }
crate::state! { Access { saved: address, bytes, misaligned, outcome; cycles: walk; } }

/// A number for the outcome, and behind it the clocks of those that have any.
impl State for Outcome {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let (mut number, mut taken) = match *self {
            Self::Hit => (0_u8, 0),
            Self::Miss { clocks } => (1, clocks),
            Self::Owned => (2, 0),
            Self::Buffered { clocks } => (3, clocks),
        };
        number.visit(visitor);
        visitor.cycles(taken.cycles());
        *self = match number {
            1 => Self::Miss { clocks: taken },
            2 => Self::Owned,
            3 => Self::Buffered { clocks: taken },
            _ => Self::Hit,
        };
        visitor.check(number <= 3);
    }
}

impl Access {
    /// A hit, to load another into.
    #[must_use]
    pub const fn blank() -> Self {
        Self::hit(0, 1, Outcome::Hit)
    }
}
