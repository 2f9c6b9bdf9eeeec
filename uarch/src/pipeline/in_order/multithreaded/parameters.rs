//! The figures of a multithreaded in-order core: data of a part.

use super::super::Pipes;

/// The figures of an in-order core with two pipes that executes several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// What it has in common with others of its family.
    pub pipes: Pipes,
    /// Cycles from one issue of a thread to its next at the earliest.
    pub cadence: u64,
    /// Clocks by which a register of the vector unit has to be ready before it leaves the unit: what is
    /// stored, and a mask that the integer side reads.
    pub vector_to_outside: u64,
    /// Writes of a thread that wait for the caches or the bus until it has to wait itself.
    pub write_buffers: usize,
    /// A read and a write of a pair may be of the same bank.
    pub reads_beside_writes: bool,
}
