//! From facts to signals: what the CPU did, in the words of the PMU.

use pmu_model::{Signal, SignalCounts, SignalSet};
use x86_cpu::observe::Facts;

/// How a processor was when the counted instructions began.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) cpl: u8,
    /// EFLAGS.IF clear.
    pub(super) masked: bool,
    /// A maskable interrupt waits.
    pub(super) pending: bool,
}

/// How often something happens at most.
pub(super) enum Most {
    /// Once in a cycle.
    AsManyAsCycles,
    /// So often in a step: an instruction that retires, a further iteration of a repeated one, the
    /// delivery of an exception or interrupt.
    Times(u64),
}

/// An upper bound of what any one counter that takes `signal` can gain, all the signals that an event
/// sums taken together.
pub(super) fn most_per_step(signal: Signal) -> Most {
    match signal {
        Signal::CyclesUnhalted | Signal::CyclesIntMasked | Signal::CyclesIntMaskedPending => {
            Most::AsManyAsCycles
        }
        // A hardware task switch loads all six, a far return through it SS twice.
        Signal::SegLoadEs
        | Signal::SegLoadCs
        | Signal::SegLoadSs
        | Signal::SegLoadDs
        | Signal::SegLoadFs
        | Signal::SegLoadGs => Most::Times(16),
        // FXSAVE moves 512 bytes, ENTER up to 32 stack slots twice; page walks do not count.
        Signal::Load
        | Signal::Store
        | Signal::LoadMmx
        | Signal::StoreMmx
        | Signal::Misaligned
        | Signal::MisalignedMmx
        | Signal::DebugMatch0
        | Signal::DebugMatch1
        | Signal::DebugMatch2
        | Signal::DebugMatch3 => Most::Times(256),
        // An instruction retires, an exception or an interrupt is delivered.
        _ => Most::Times(1),
    }
}

/// By debug register.
pub(super) const MATCH: [Signal; 4] =
    [Signal::DebugMatch0, Signal::DebugMatch1, Signal::DebugMatch2, Signal::DebugMatch3];

/// What the CPU did for a while, in one and the same circumstances.
pub(super) struct Stretch<'a> {
    /// What it did; what is counted is taken out.
    pub(super) facts: &'a mut Facts,
    /// Instructions retired.
    pub(super) instructions: u64,
    /// Clocks passed.
    pub(super) cycles: u64,
    pub(super) at: Circumstances,
}

impl Stretch<'_> {
    /// Takes the occurrences of the demanded signals, and the cycles.
    pub(super) fn fill(&mut self, counts: &mut SignalCounts, demanded: &SignalSet) {
        counts.add(Signal::CyclesUnhalted, self.cycles);
        for signal in demanded {
            if signal != Signal::CyclesUnhalted {
                counts.add(signal, self.take(signal));
            }
        }
    }

    /// Takes the occurrences of a signal.
    // Not inlined into a loop over signals: there the addresses of all facts would be worked out before
    // the first of them.
    #[inline(never)]
    pub(super) fn take(&mut self, signal: Signal) -> u64 {
        match self.of_the_stretch(signal) {
            Some(n) => n,
            None => fact(self.facts, signal).map_or(0, std::mem::take),
        }
    }

    /// The occurrences of a signal, which stay there.
    #[inline(never)]
    pub(super) fn look(&mut self, signal: Signal) -> u64 {
        match self.of_the_stretch(signal) {
            Some(n) => n,
            None => fact(self.facts, signal).map_or(0, |fact| *fact),
        }
    }

    /// The occurrences of a signal that is no single fact.
    fn of_the_stretch(&self, signal: Signal) -> Option<u64> {
        let masked = if self.at.masked { self.cycles } else { 0 };
        match signal {
            Signal::InsnRetired => Some(self.instructions),
            Signal::CyclesUnhalted => Some(self.cycles),
            Signal::CyclesIntMasked => Some(masked),
            Signal::CyclesIntMaskedPending if self.at.pending => Some(masked),
            _ => None,
        }
    }
}

/// The fact that feeds a signal.
pub(crate) fn fact(facts: &mut Facts, signal: Signal) -> Option<&mut u64> {
    Some(match signal {
        Signal::BranchRetired => &mut facts.branches,
        Signal::BranchTaken => &mut facts.taken,
        Signal::BranchRetiredRet => &mut facts.near_returns,
        Signal::BranchRetiredFar => &mut facts.far,
        Signal::Misaligned => &mut facts.misaligned,
        Signal::ExceptionTaken => &mut facts.exceptions,
        Signal::InterruptTaken => &mut facts.interrupts,
        // In the order of the CPU's classes.
        Signal::InsnRetiredClflush => &mut facts.class[0],
        Signal::InsnRetiredCpuid => &mut facts.class[1],
        Signal::InsnRetiredX87 => &mut facts.class[2],
        Signal::InsnRetiredMmx => &mut facts.class[3],
        Signal::InsnRetiredSsePacked => &mut facts.class[4],
        Signal::InsnRetiredSseScalar => &mut facts.class[5],
        Signal::LockedOp => &mut facts.class[6],
        Signal::FpuOpFastFlag => &mut facts.class[7],
        Signal::SoftPrefetchLoad => &mut facts.class[8],
        Signal::SoftPrefetchStore => &mut facts.class[9],
        Signal::SoftPrefetchNta => &mut facts.class[10],
        Signal::X87Flop => &mut facts.class[11],
        Signal::MmxEmms => &mut facts.class[12],
        Signal::MmxSaturating => &mut facts.class[13],
        Signal::MmxPackedMultiply => &mut facts.class[14],
        Signal::MmxPackedShift => &mut facts.class[15],
        Signal::MmxPack => &mut facts.class[16],
        Signal::MmxUnpack => &mut facts.class[17],
        Signal::MmxPackedLogical => &mut facts.class[18],
        Signal::MmxPackedArithmetic => &mut facts.class[19],
        Signal::SsePackedArith => &mut facts.class[20],
        Signal::SseScalarArith => &mut facts.class[21],
        // By encoding number.
        Signal::SegLoadEs => &mut facts.seg_loads[0],
        Signal::SegLoadCs => &mut facts.seg_loads[1],
        Signal::SegLoadSs => &mut facts.seg_loads[2],
        Signal::SegLoadDs => &mut facts.seg_loads[3],
        Signal::SegLoadFs => &mut facts.seg_loads[4],
        Signal::SegLoadGs => &mut facts.seg_loads[5],
        // By debug register.
        Signal::DebugMatch0 => &mut facts.debug_matches[0],
        Signal::DebugMatch1 => &mut facts.debug_matches[1],
        Signal::DebugMatch2 => &mut facts.debug_matches[2],
        Signal::DebugMatch3 => &mut facts.debug_matches[3],
        Signal::Load => &mut facts.loads,
        Signal::Store => &mut facts.stores,
        Signal::LoadMmx => &mut facts.mmx.loads,
        Signal::StoreMmx => &mut facts.mmx.stores,
        Signal::MisalignedMmx => &mut facts.mmx.misaligned,
        Signal::IoAccess => &mut facts.io_accesses,
        Signal::MmxSaturated => &mut facts.mmx_saturated,
        Signal::MmxMmxToFp => &mut facts.mmx_to_fp,
        Signal::MmxFpToMmx => &mut facts.fp_to_mmx,
        _ => return None,
    })
}
