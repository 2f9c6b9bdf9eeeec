//! Steps in which nothing occurs that counters count, but what all such steps have in common: they are counted together,
//! where counters compare the occurrences of each cycle and each step would be counted by itself.

use pmu_model::{Alike, Pmu, Signal, SignalSet};
use x86_cpu::observe::Heeded;

use super::stretch::{CountingContext, Stretch};

/// Steps of one cycle each that have passed, and are yet to be counted.
#[derive(Default)]
pub(super) struct Quiet {
    steps: u64,
    /// Behind how many of them a counter may overflow.
    most: u64,
    /// Each of them retired an instruction; else none did, as in iterations of a repeated one.
    retired: bool,
    /// What a step does that retired an instruction, and one that did not, once that has been asked for.
    alike: [Option<Alike>; 2],
}

impl Quiet {
    /// If a stretch is such a step, it has passed, and is counted with the others: for how many more like it there is
    /// room. Else it is to be counted by itself.
    #[inline]
    pub(super) fn passes(&mut self, pmu: &mut Pmu, stretch: &mut Stretch<'_, '_>) -> Option<u64> {
        let Stretch { instructions, cycles, context, .. } = *stretch;
        let is_step = cycles == 1 && instructions <= 1;
        if !is_step || pmu.asks_any(|signal| !is_in_common(signal) && stretch.look(signal) != 0) {
            return None;
        }
        let more = self.room(pmu, context, instructions == 1).checked_sub(1)?;
        self.steps += 1;
        Some(more)
    }

    /// So many have passed of those that there was room for: how many instructions retired.
    #[inline(always)]
    pub(super) fn pass(&mut self, steps: u64) -> u64 {
        self.steps += steps;
        if self.retired { steps } else { 0 }
    }

    /// How many more may pass that retire an instruction each, or that do not. Others have been counted.
    #[inline]
    pub(super) fn room(&mut self, pmu: &mut Pmu, context: CountingContext, retired: bool) -> u64 {
        if self.retired != retired || self.steps == self.most {
            self.count(pmu);
            self.retired = retired;
        }
        if self.steps == 0 {
            let alike = self.alike[usize::from(retired)].get_or_insert_with(|| {
                let instructions = u64::from(retired);
                let mut step = Stretch { observed: None, instructions, cycles: 1, context };
                pmu.alike(context.cpl, |signal| step.look(signal))
            });
            self.most = pmu.alike_before_overflow(alike);
        }
        self.most - self.steps
    }

    /// Counts what has passed.
    #[inline]
    pub(super) fn count(&mut self, pmu: &mut Pmu) {
        if let Some(alike) = &self.alike[usize::from(self.retired)]
            && self.steps != 0
        {
            pmu.pass_alike(alike, self.steps);
            self.steps = 0;
        }
    }
}

/// What a step is not to do that passes quietly, of what counters count.
pub(super) fn heeded(demanded: &SignalSet) -> Heeded {
    let kinds = [
        (Signal::Load, Heeded::LOADS),
        (Signal::Store, Heeded::STORES),
        (Signal::Misaligned, Heeded::MISALIGNED),
        (Signal::BranchRetired, Heeded::BRANCHES),
        (Signal::BranchTaken, Heeded::TAKEN),
        (Signal::BranchRetiredRet, Heeded::NEAR_RETURNS),
    ];
    let demanded = kinds.into_iter().filter(|&(signal, _)| demanded.contains(signal));
    demanded.fold(Heeded::NOTHING, |all, (_, heeded)| all.with(heeded))
}

/// Whether each step has so much of a signal as any other, under one context.
#[inline]
fn is_in_common(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::InsnRetired
            | Signal::CyclesUnhalted
            | Signal::CyclesIntMasked
            | Signal::CyclesIntMaskedPending
    )
}
