//! Which signals fire, by personality and tier: whether an event counts follows from it.
//!
//! What fires a signal is the execution of a tier, in so much detail as the tier has of this processor.
//! So the same signal may be live on one personality and wait for its model on another.

use crate::counts::SignalSet;
use crate::signal::Signal::{self, *};

/// In how much detail an engine executes, and so what it can tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The instruction set, and nothing of what is behind it: caches, TLBs, predictors and pipeline are
    /// not there, and the signals that need them wait for a tier that has them.
    InstructionSet,
}

/// The signals that fire on a personality, a set each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LiveSignals {
    /// In [`Tier::InstructionSet`].
    pub instruction_set: SignalSet,
}

impl LiveSignals {
    /// Those of a tier.
    pub const fn of(&self, tier: Tier) -> &SignalSet {
        match tier {
            Tier::InstructionSet => &self.instruction_set,
        }
    }
}

/// What follows from the instruction set alone is the same on every processor: a signal of instructions
/// that one lacks is live there, and never occurs.
pub(super) const INSTRUCTION_SET: SignalSet = SignalSet::of(INSTRUCTION_SET_SIGNALS);

const INSTRUCTION_SET_SIGNALS: &[Signal] = &[
    InsnRetired,
    InsnRetiredClflush,
    InsnRetiredCpuid,
    InsnRetiredX87,
    InsnRetiredMmx,
    InsnRetiredSsePacked,
    InsnRetiredSseScalar,
    ExceptionTaken,
    InterruptTaken,
    BranchRetired,
    BranchTaken,
    BranchRetiredRet,
    BranchRetiredFar,
    SegLoadEs,
    SegLoadCs,
    SegLoadSs,
    SegLoadDs,
    SegLoadFs,
    SegLoadGs,
    Misaligned,
    LockedOp,
    DebugMatch0,
    DebugMatch1,
    DebugMatch2,
    DebugMatch3,
    CyclesUnhalted,
    CyclesIntMasked,
    CyclesIntMaskedPending,
    FpuOpFastFlag,
    SoftPrefetchLoad,
    SoftPrefetchStore,
    SoftPrefetchNta,
    Load,
    Store,
    LoadMmx,
    StoreMmx,
    MisalignedMmx,
    IoAccess,
    X87Flop,
    MmxEmms,
    MmxFpToMmx,
    MmxMmxToFp,
    MmxSaturating,
    MmxSaturated,
    MmxPackedMultiply,
    MmxPackedShift,
    MmxPack,
    MmxUnpack,
    MmxPackedLogical,
    MmxPackedArithmetic,
    SsePackedArith,
    SseScalarArith,
];
