//! What execution takes in cycles of virtual time, and how much of it a run may do.

use crate::insn::Insn;

/// What a tier charges for execution. Blocks are lowered for one, so that a cache of translations
/// ([`crate::block::Translations`]) has one for good.
#[derive(Clone, Copy, Debug)]
pub struct CycleCosts {
    /// Cycles of an instruction, known when it is lowered; of a repeated one with its first iteration.
    pub instruction: fn(&Insn) -> u8,
    /// Further cycles of a branch that is taken, and of a far transfer.
    pub taken: u8,
    /// Cycles of each further iteration of a repeated instruction.
    pub iteration: u8,
    /// Cycles of the delivery of an exception or interrupt.
    pub delivery: u8,
}

impl CycleCosts {
    /// One cycle for each instruction, each further iteration and each delivery: a clock that keeps
    /// time for devices, and no model of a processor.
    pub const FLAT: Self = Self { instruction: |_| 1, taken: 0, iteration: 1, delivery: 1 };
}

/// How far a run goes: up to whichever bound comes first, between two instructions or between two
/// iterations of a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Virtual time in cycles: nothing begins then or later.
    pub until: u64,
    /// Steps: retired instructions, further iterations of repeated ones, deliveries of exceptions. As
    /// each of these does a thing at most so often, they also bound how often the thing is done.
    pub steps: u64,
}

impl Budget {
    /// Bounded by time alone.
    #[must_use]
    pub const fn until(until: u64) -> Self {
        Self { until, steps: u64::MAX }
    }

    /// Bounded by both.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { until: self.until.min(other.until), steps: self.steps.min(other.steps) }
    }
}
