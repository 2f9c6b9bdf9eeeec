//! What execution takes in cycles of virtual time, and how much of it a run may do.

use crate::{insn::Insn, observe::Heeded};

/// Cycles of virtual time that execution takes. They are lowered into the blocks, so that a cache of
/// translations ([`crate::block::Translations`]) has the same costs throughout.
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

    /// None: a model of the pipeline tells what has passed ([`crate::observe::Observer::take_cycles`]).
    pub const MODELLED: Self = Self { instruction: |_| 0, taken: 0, iteration: 0, delivery: 0 };
}

/// How far a run goes: up to whichever bound comes first, between two instructions or between two
/// iterations of a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Virtual time in cycles: nothing begins then or later.
    pub until: u64,
    /// The most steps. A step is the retirement of an instruction, one iteration of a repeated
    /// instruction after which another follows, or the delivery of an exception or interrupt.
    ///
    /// The number of occurrences in one step is bounded for each kind of occurrence (one retired
    /// instruction, so many loads), so that a bound on steps bounds occurrences: it lets a run end
    /// before the step that could overflow a counter.
    pub steps: u64,
    /// The most instructions that retire. A repeated one is finished before this ends a run: only time and steps come
    /// between two iterations.
    pub instructions: u64,
    /// Steps that may pass beyond it if they are alike.
    pub alike: AlikeSteps,
}

/// Steps that need not end a run. If a budget is one step, and it passed in one cycle, was of this kind and did nothing
/// that is heeded, the run has the same budget again, up to so many times. The owner is told how many have passed when it
/// is told what was observed ([`crate::bus::Uncounted::alike`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlikeSteps {
    /// How many.
    pub most: u64,
    /// Each of them is an iteration of a repeated instruction that another follows; else each retires an instruction.
    pub iterations: bool,
    /// What does not occur in any of them. Nor does anything that is neither an access nor a near transfer, such as an
    /// exception, nor do they retire instructions of a class.
    pub heeded: Heeded,
}

impl Budget {
    /// Bounded by time alone.
    #[must_use]
    pub const fn until(until: u64) -> Self {
        let alike = AlikeSteps { most: 0, iterations: false, heeded: Heeded::NOTHING };
        Self { until, steps: u64::MAX, instructions: u64::MAX, alike }
    }

    /// Bounded by `self` and by `other`; no steps that are alike pass beyond it.
    #[inline]
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            until: self.until.min(other.until),
            steps: self.steps.min(other.steps),
            instructions: self.instructions.min(other.instructions),
            alike: AlikeSteps::default(),
        }
    }
}
