//! What happened when an instruction executed, which its bytes do not tell.

use super::super::Precision;
use crate::state::{State, Visitor, optional};

/// What happened when an instruction executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// It transferred control, as predicted or not.
    pub taken: bool,
    /// Instructions had been fetched from elsewhere than where control went.
    pub mispredicted: bool,
    /// Clocks that its fetch took beyond hits in the code cache and the code TLB.
    pub fetch: u64,
    /// The first of its data accesses.
    pub access: Option<Access>,
    /// How many of its data accesses cross a boundary that costs time.
    pub misaligned: u64,
    /// Clocks that it waits for its data accesses beyond hits in the data cache and the data TLB.
    pub waits: u64,
    /// Iterations of REP.
    pub iterations: u64,
    /// Precision control of the x87 unit.
    pub precision: Precision,
    /// Clocks more than the part's table has, for an instruction whose clocks depend on its operands.
    pub more: u64,
    /// The thread is out behind it until it is started (HLT) or resumed (DELAY).
    pub halts: bool,
}

/// A data access of an instruction, as far as that of another can be in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Linear address of its first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u8,
    /// It writes, and does not read.
    pub writes: bool,
}

crate::state! { Access { saved: address, bytes, writes; } }

impl State for Execution {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("multithreaded::Execution");
        let Self {
            taken,
            mispredicted,
            fetch,
            access,
            misaligned,
            waits,
            iterations,
            precision,
            more,
            halts,
        } = self;
        for flag in [taken, mispredicted, halts] {
            flag.visit(visitor);
        }
        for number in [fetch, misaligned, waits, iterations, more] {
            visitor.cycles(std::slice::from_mut(number));
        }
        precision.visit(visitor);
        optional(visitor, access, || Access { address: 0, bytes: 1, writes: false });
    }
}
