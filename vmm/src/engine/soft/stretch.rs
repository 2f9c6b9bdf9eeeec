//! From facts to signals: what the CPU observed, as occurrences that the PMU counts.

use serde::{Deserialize, Serialize};

use pmu_model::{Signal, SignalCounts, SignalSet};
use x86_cpu::class::Class;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::seg;
use x86_cpu::observe::{DR0, DR1, DR2, DR3, Facts, Observed};

/// The processor's state by which instructions are counted: that at the beginning of the first of
/// them. A run ends where it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountingContext {
    /// Current privilege level.
    pub(super) cpl: u8,
    /// EFLAGS.IF is clear.
    pub(super) masked: bool,
    /// A maskable interrupt is pending.
    pub(super) pending: bool,
}

impl CountingContext {
    /// Whether it is that of a processor, for which no interrupt is pending.
    pub(super) fn is_that_of(&self, cpu: &Cpu) -> bool {
        let Self { cpl, masked, pending } = *self;
        cpl == cpu.cpl() && masked != cpu.interrupts_enabled() && !pending
    }
}

/// How often a signal occurs at most.
pub(super) enum Most {
    /// Once in a cycle.
    AsManyAsCycles,
    /// So often in a step ([`x86_cpu::timing::Budget::steps`]).
    Times(u64),
}

/// By how much a counter that takes `signal` grows at most. The bound covers events that are the sum
/// of several signals. For what the instruction set alone tells; how often something occurs that models
/// tell, nobody knows before ([`super::model`]).
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
        // The elements of a register.
        Signal::VpuElementActive => Most::Times(16),
        // An instruction retires, an exception or an interrupt is delivered.
        _ => Most::Times(1),
    }
}

/// The signals of matching debug registers, by number of the register.
pub(super) const MATCH: [Signal; 4] =
    [Signal::DebugMatch0, Signal::DebugMatch1, Signal::DebugMatch2, Signal::DebugMatch3];

/// A stretch of execution under one [`CountingContext`].
pub(super) struct Stretch<'a, 'b> {
    /// What was observed, if anything. Taking a signal sets what feeds it to zero. A model's numbers are
    /// those of the signals.
    pub(super) observed: Option<&'a mut Observed<'b>>,
    /// Instructions retired.
    pub(super) instructions: u64,
    /// Cycles passed.
    pub(super) cycles: u64,
    /// What it is counted under.
    pub(super) context: CountingContext,
}

impl Stretch<'_, '_> {
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
    // Not inlined: in a loop over signals the compiler would compute the addresses of all facts before
    // the first iteration.
    #[inline(never)]
    pub(super) fn take(&mut self, signal: Signal) -> u64 {
        match self.feeding(signal) {
            Feeding::Stretch(n) => n,
            Feeding::Observed(count) => std::mem::take(count),
        }
    }

    /// Leaves one occurrence of each of the demanded signals that last for cycles, of which models tell, and takes the
    /// others: how many of which.
    #[inline(always)]
    pub(super) fn cut_levels(&mut self, demanded: &SignalSet) -> Vec<(Signal, u64)> {
        let mut levels = Vec::new();
        let demanded = demanded.intersection(&SignalSet::LEVELS);
        let Some(Observed { modelled, .. }) = self.observed.as_deref_mut() else { return levels };
        if demanded.is_empty() || modelled.is_empty() {
            return levels;
        }
        for signal in &demanded {
            if let Some(count) = modelled.get_mut(signal.index())
                && *count > 1
            {
                levels.push((signal, *count - 1));
                *count = 1;
            }
        }
        levels
    }

    /// The occurrences of a signal, without taking them.
    #[inline(never)]
    pub(super) fn look(&mut self, signal: Signal) -> u64 {
        match self.feeding(signal) {
            Feeding::Stretch(n) => n,
            Feeding::Observed(count) => *count,
        }
    }

    /// What feeds a signal: the number of instructions or cycles, a fact, or else a model.
    #[inline(always)]
    fn feeding(&mut self, signal: Signal) -> Feeding<'_> {
        match signal {
            Signal::InsnRetired => return Feeding::Stretch(self.instructions),
            Signal::CyclesUnhalted => return Feeding::Stretch(self.cycles),
            _ => {}
        }
        let mut model = None;
        if let Some(Observed { facts, modelled }) = self.observed.as_deref_mut() {
            if let Some(fact) = fact(facts, signal) {
                return Feeding::Observed(fact);
            }
            model = modelled.get_mut(signal.index());
        }
        // Behind the facts, so that one table of jumps leads to each of these.
        let CountingContext { masked, pending, .. } = self.context;
        let lasts = match signal {
            Signal::CyclesIntMasked => masked,
            Signal::CyclesIntMaskedPending => masked && pending,
            _ => return model.map_or(Feeding::Stretch(0), Feeding::Observed),
        };
        Feeding::Stretch(if lasts { self.cycles } else { 0 })
    }
}

/// Where the occurrences of a signal in a stretch are.
enum Feeding<'a> {
    /// Here: they follow from the stretch itself.
    Stretch(u64),
    /// Among what was observed.
    Observed(&'a mut u64),
}

/// The fact that feeds a signal.
#[inline(always)]
pub(crate) fn fact(facts: &mut Facts, signal: Signal) -> Option<&mut u64> {
    Some(match signal {
        Signal::BranchRetired => &mut facts.branches,
        Signal::BranchTaken => &mut facts.taken,
        Signal::BranchRetiredRet => &mut facts.near_returns,
        Signal::BranchRetiredFar => &mut facts.far,
        Signal::Misaligned => &mut facts.misaligned,
        Signal::ExceptionTaken => &mut facts.exceptions,
        Signal::InterruptTaken => &mut facts.interrupts,
        Signal::InsnRetiredClflush => facts.of_class(Class::CLFLUSH)?,
        Signal::InsnRetiredCpuid => facts.of_class(Class::CPUID)?,
        Signal::InsnRetiredX87 => facts.of_class(Class::X87)?,
        Signal::InsnRetiredMmx => facts.of_class(Class::MMX)?,
        Signal::InsnRetiredSsePacked => facts.of_class(Class::SSE_PACKED)?,
        Signal::InsnRetiredSseScalar => facts.of_class(Class::SSE_SCALAR)?,
        Signal::LockedOp => facts.of_class(Class::LOCKED)?,
        Signal::FpuOpFastFlag => facts.of_class(Class::FAST_FLAG)?,
        Signal::SoftPrefetchLoad => facts.of_class(Class::PREFETCH_LOAD)?,
        Signal::SoftPrefetchStore => facts.of_class(Class::PREFETCH_STORE)?,
        Signal::SoftPrefetchNta => facts.of_class(Class::PREFETCH_NTA)?,
        Signal::X87Flop => facts.of_class(Class::X87_FLOP)?,
        Signal::MmxEmms => facts.of_class(Class::EMMS)?,
        Signal::MmxSaturating => facts.of_class(Class::MMX_SATURATING)?,
        Signal::MmxPackedMultiply => facts.of_class(Class::MMX_MULTIPLY)?,
        Signal::MmxPackedShift => facts.of_class(Class::MMX_SHIFT)?,
        Signal::MmxPack => facts.of_class(Class::MMX_PACK)?,
        Signal::MmxUnpack => facts.of_class(Class::MMX_UNPACK)?,
        Signal::MmxPackedLogical => facts.of_class(Class::MMX_LOGICAL)?,
        Signal::MmxPackedArithmetic => facts.of_class(Class::MMX_ARITHMETIC)?,
        Signal::SsePackedArith => facts.of_class(Class::SSE_PACKED_ARITHMETIC)?,
        Signal::SseScalarArith => facts.of_class(Class::SSE_SCALAR_ARITHMETIC)?,
        Signal::SsePackedSingle => facts.of_class(Class::SSE_PACKED_SINGLE)?,
        Signal::SseScalarSingle => facts.of_class(Class::SSE_SCALAR_SINGLE)?,
        Signal::SsePackedDouble => facts.of_class(Class::SSE_PACKED_DOUBLE)?,
        Signal::SseScalarDouble => facts.of_class(Class::SSE_SCALAR_DOUBLE)?,
        Signal::SsePackedSingleArith => facts.of_class(Class::SSE_PACKED_SINGLE_ARITHMETIC)?,
        Signal::SseScalarSingleArith => facts.of_class(Class::SSE_SCALAR_SINGLE_ARITHMETIC)?,
        Signal::SsePackedDoubleArith => facts.of_class(Class::SSE_PACKED_DOUBLE_ARITHMETIC)?,
        Signal::SseScalarDoubleArith => facts.of_class(Class::SSE_SCALAR_DOUBLE_ARITHMETIC)?,
        Signal::VpuOp => facts.of_class(Class::VPU)?,
        Signal::VpuElementActive => &mut facts.vector_elements,
        Signal::LoadVpu => &mut facts.vector_loads,
        Signal::StoreVpu => &mut facts.vector_stores,
        Signal::SegLoadEs => &mut facts.seg_loads[usize::from(seg::ES)],
        Signal::SegLoadCs => &mut facts.seg_loads[usize::from(seg::CS)],
        Signal::SegLoadSs => &mut facts.seg_loads[usize::from(seg::SS)],
        Signal::SegLoadDs => &mut facts.seg_loads[usize::from(seg::DS)],
        Signal::SegLoadFs => &mut facts.seg_loads[usize::from(seg::FS)],
        Signal::SegLoadGs => &mut facts.seg_loads[usize::from(seg::GS)],
        Signal::DebugMatch0 => &mut facts.debug_matches[DR0],
        Signal::DebugMatch1 => &mut facts.debug_matches[DR1],
        Signal::DebugMatch2 => &mut facts.debug_matches[DR2],
        Signal::DebugMatch3 => &mut facts.debug_matches[DR3],
        Signal::Load => &mut facts.loads,
        Signal::Store => &mut facts.stores,
        Signal::LoadMmx => &mut facts.mmx.loads,
        Signal::StoreMmx => &mut facts.mmx.stores,
        Signal::MisalignedMmx => &mut facts.mmx.misaligned,
        Signal::IoAccess => &mut facts.io_accesses,
        Signal::MmxSaturated => &mut facts.mmx_saturated,
        Signal::FpAssist => &mut facts.float_cases,
        Signal::FpAssistX87Reclass => &mut facts.x87_denormal_operands,
        Signal::FpAssistSseReclass => &mut facts.sse_denormal_operands,
        Signal::FpAssistMicrotrap => &mut facts.tiny_results,
        Signal::MmxMmxToFp => &mut facts.mmx_to_fp,
        Signal::MmxFpToMmx => &mut facts.fp_to_mmx,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use pmu_model::{Personality, Tier};
    use x86_cpu::observe::{Accesses, Counting, Observer};

    use x86_cpu::class::ClassCount;

    use super::*;

    /// Interrupts masked, one of them pending.
    const CONTEXT: CountingContext = CountingContext { cpl: 0, masked: true, pending: true };

    /// The signals that take something of `facts`, of a stretch of so many cycles and instructions.
    fn taken(mut facts: Facts, n: u64) -> SignalSet {
        let mut observed = Observed { facts: &mut facts, modelled: &mut [] };
        let observed = Some(&mut observed);
        let mut stretch = Stretch { observed, instructions: n, cycles: n, context: CONTEXT };
        let all = || Signal::ALL.iter().copied();
        let looked: SignalCounts = all().map(|signal| (signal, stretch.look(signal))).collect();
        let taken: SignalCounts = all().map(|signal| (signal, stretch.take(signal))).collect();
        assert!(looked == taken, "what is looked at stays, and feeds one signal");
        taken.present().iter().copied().collect()
    }

    /// What the personalities say of the instruction set is what it tells: a signal that was live and
    /// never taken would be an event that counts zero without a word. (Of the models, `uarch` has such a
    /// test.)
    #[test]
    fn the_signals_that_are_live_are_those_that_are_taken() {
        let accesses = Accesses { loads: 1, stores: 1, misaligned: 1 };
        let everything = Facts {
            class: [1; Class::COUNT],
            branches: 1,
            taken: 1,
            near_returns: 1,
            far: 1,
            loads: 1,
            stores: 1,
            misaligned: 1,
            inner: accesses,
            io_accesses: 1,
            mmx: accesses,
            vector_loads: 1,
            vector_stores: 1,
            vector_elements: 1,
            mmx_saturated: 1,
            float_cases: 1,
            x87_denormal_operands: 1,
            sse_denormal_operands: 1,
            tiny_results: 1,
            mmx_to_fp: 1,
            fp_to_mmx: 1,
            seg_loads: [1; 6],
            debug_matches: [1; 4],
            exceptions: 1,
            interrupts: 1,
        };
        let taken = taken(everything, 1);
        for personality in Personality::ALL {
            let live = personality.live.of(Tier::InstructionSet);
            assert_eq!(taken.iter().collect::<Vec<_>>(), live.iter().collect::<Vec<_>>());
        }
    }

    /// An instruction of one class is an occurrence of the signal that means it, and of no other.
    #[test]
    fn each_class_segment_and_debug_register_has_its_signal() {
        let only = |observe: &dyn Fn(&mut Counting)| {
            let mut observer = Counting::default();
            observe(&mut observer);
            let taken = taken(*observer.facts().unwrap(), 0);
            taken.iter().map(Signal::name).collect::<Vec<_>>()
        };
        for (class, signal) in [
            (Class::CLFLUSH, "insn_retired_clflush"),
            (Class::CPUID, "insn_retired_cpuid"),
            (Class::X87, "insn_retired_x87"),
            (Class::MMX, "insn_retired_mmx"),
            (Class::SSE_PACKED, "insn_retired_sse_packed"),
            (Class::SSE_SCALAR, "insn_retired_sse_scalar"),
            (Class::LOCKED, "locked_op"),
            (Class::FAST_FLAG, "fpu_op_fast_flag"),
            (Class::PREFETCH_LOAD, "soft_prefetch_load"),
            (Class::PREFETCH_STORE, "soft_prefetch_store"),
            (Class::PREFETCH_NTA, "soft_prefetch_nta"),
            (Class::X87_FLOP, "x87_flop"),
            (Class::EMMS, "mmx_emms"),
            (Class::MMX_SATURATING, "mmx_saturating"),
            (Class::MMX_MULTIPLY, "mmx_packed_multiply"),
            (Class::MMX_SHIFT, "mmx_packed_shift"),
            (Class::MMX_PACK, "mmx_pack"),
            (Class::MMX_UNPACK, "mmx_unpack"),
            (Class::MMX_LOGICAL, "mmx_packed_logical"),
            (Class::MMX_ARITHMETIC, "mmx_packed_arithmetic"),
            (Class::SSE_PACKED_ARITHMETIC, "sse_packed_arith"),
            (Class::SSE_SCALAR_ARITHMETIC, "sse_scalar_arith"),
            (Class::SSE_PACKED_SINGLE, "sse_packed_single"),
            (Class::SSE_SCALAR_SINGLE, "sse_scalar_single"),
            (Class::SSE_PACKED_DOUBLE, "sse_packed_double"),
            (Class::SSE_SCALAR_DOUBLE, "sse_scalar_double"),
            (Class::SSE_PACKED_SINGLE_ARITHMETIC, "sse_packed_single_arith"),
            (Class::SSE_SCALAR_SINGLE_ARITHMETIC, "sse_scalar_single_arith"),
            (Class::SSE_PACKED_DOUBLE_ARITHMETIC, "sse_packed_double_arith"),
            (Class::SSE_SCALAR_DOUBLE_ARITHMETIC, "sse_scalar_double_arith"),
            (Class::VPU, "vpu_op"),
        ] {
            let class = class.0.trailing_zeros() as u16;
            let one = [ClassCount { class, count: 1 }];
            assert_eq!(only(&|observer| observer.retired_classes(&one)), [signal]);
        }
        assert!(only(&|observer| observer.retired_classes(&[])).is_empty());
        assert_eq!(only(&|observer| observer.vector_access(1, 0)), ["load_vpu"]);
        assert_eq!(only(&|observer| observer.vector_access(0, 1)), ["store_vpu"]);
        assert_eq!(only(&|observer| observer.vector_elements(7)), ["vpu_element_active"]);
        assert_eq!(Facts::default().of_class(Class::NONE), None);
        for (segment, signal) in [
            (seg::ES, "seg_load_es"),
            (seg::CS, "seg_load_cs"),
            (seg::SS, "seg_load_ss"),
            (seg::DS, "seg_load_ds"),
            (seg::FS, "seg_load_fs"),
            (seg::GS, "seg_load_gs"),
        ] {
            assert_eq!(only(&|observer| observer.seg_load(segment)), [signal]);
        }
        for (register, signal) in [
            (DR0, "debug_match0"),
            (DR1, "debug_match1"),
            (DR2, "debug_match2"),
            (DR3, "debug_match3"),
        ] {
            assert_eq!(only(&|observer| observer.debug_match(register)), [signal]);
        }
    }
}
