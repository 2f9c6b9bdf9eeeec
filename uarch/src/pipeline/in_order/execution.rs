//! What happened when an instruction executed, which its bytes do not tell.

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
