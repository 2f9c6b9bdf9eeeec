//! Hand-computed cases for each part, and a comparison with slow predictors that are written from the
//! documents' sentences and share nothing with the fast ones.

mod amd;
mod comparison;
mod intel;
mod pentium_m;
mod program;
mod reference;

use pmu_model::Signal;

use super::{Outcome, Predictor, PredictorGeometry, Resolution, Transfer, TransferKind};
use crate::occurrences::Occurrences;

/// A predictor and what it fired.
pub(super) struct Run {
    predictor: Predictor,
    occurrences: Occurrences,
}

impl Run {
    pub(super) fn new(geometry: &'static PredictorGeometry) -> Self {
        Self { predictor: Predictor::new(geometry), occurrences: Occurrences::default() }
    }

    pub(super) fn transfer(&mut self, transfer: Transfer) -> Outcome {
        self.predictor.transfer(&transfer, &mut self.occurrences)
    }

    /// A conditional branch of two bytes at an address.
    pub(super) fn conditional(&mut self, from: u64, to: u64, taken: bool) -> Resolution {
        self.transfer(branch(TransferKind::Conditional, from, 2, to, taken)).resolution
    }

    /// A conditional branch that repeats a pattern, so often that it has learnt what it can. Returns how
    /// often the last ten repetitions were mispredicted.
    pub(super) fn mispredictions_of(&mut self, from: u64, to: u64, pattern: &[bool]) -> usize {
        for _ in 0..100 {
            pattern.iter().for_each(|&taken| {
                self.conditional(from, to, taken);
            });
        }
        let last = std::iter::repeat_n(pattern, 10).flatten();
        last.filter(|&&taken| self.conditional(from, to, taken) == Resolution::Mispredicted).count()
    }

    pub(super) fn call(&mut self, from: u64, to: u64) -> Resolution {
        self.transfer(branch(TransferKind::Call, from, 5, to, true)).resolution
    }

    pub(super) fn ret(&mut self, from: u64, to: u64) -> Resolution {
        self.transfer(branch(TransferKind::Return, from, 1, to, true)).resolution
    }

    /// Jumps at a distance from each other, ten rounds of them: how many were not predicted in the last.
    pub(super) fn wrong_of_jumps(&mut self, count: u64, distance: u64) -> usize {
        let mut wrong = 0;
        for round in 0..10 {
            for n in 0..count {
                let from = 0x1_0000 + n * distance;
                let jump = branch(TransferKind::Jump, from, 2, from + distance, true);
                let is_predicted = self.transfer(jump).resolution == Resolution::Predicted;
                wrong += usize::from(round == 9 && !is_predicted);
            }
        }
        wrong
    }

    /// How often a signal was fired since this was last asked of any.
    pub(super) fn fired<const N: usize>(&mut self, signals: [Signal; N]) -> [u64; N] {
        let counts = signals.map(|signal| self.occurrences.fired()[signal.index()]);
        self.occurrences = Occurrences::default();
        counts
    }
}

/// A control transfer of a length.
pub(super) fn branch(kind: TransferKind, from: u64, len: u64, to: u64, taken: bool) -> Transfer {
    Transfer { from, last: from + len - 1, next: from + len, to, kind, taken }
}

/// A pattern of outcomes, from ones and zeros.
pub(super) fn pattern(text: &str) -> Vec<bool> {
    text.chars().map(|c| c == '1').collect()
}

#[test]
fn what_is_flushed_is_as_new() {
    let geometry = &crate::part::predictors::P6;
    let mut run = Run::new(geometry);
    assert_eq!(run.conditional(0x100, 0x200, true), Resolution::Mispredicted);
    assert_eq!(run.conditional(0x100, 0x200, true), Resolution::Predicted);
    run.predictor.flush();
    assert_eq!(run.conditional(0x100, 0x200, true), Resolution::Mispredicted);
}
