//! Steps in which nothing occurs that counters count, but what all such steps have in common: they are counted together,
//! where counters compare the occurrences of each cycle and each step would be counted by itself.

use pmu_model::{Alike, Pmu, Signal};

use super::stretch::Stretch;

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
    /// Whether a stretch is such a step. If so, it has passed, and is counted with the others; else it is to be counted
    /// by itself.
    #[inline]
    pub(super) fn passes(&mut self, pmu: &mut Pmu, stretch: &mut Stretch<'_, '_>) -> bool {
        let Stretch { instructions, cycles, context, .. } = *stretch;
        let is_step = cycles == 1 && instructions <= 1;
        if !is_step || pmu.asks_any(|signal| !is_in_common(signal) && stretch.look(signal) != 0) {
            return false;
        }
        let retired = instructions == 1;
        if self.retired != retired || self.steps == self.most {
            self.count(pmu);
            self.retired = retired;
        }
        if self.steps == 0 {
            let alike = self.alike[usize::from(retired)].get_or_insert_with(|| {
                let mut step = Stretch { observed: None, instructions, cycles, context };
                pmu.alike(context.cpl, |signal| step.look(signal))
            });
            self.most = pmu.alike_before_overflow(alike);
            if self.most == 0 {
                return false;
            }
        }
        self.steps += 1;
        true
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
