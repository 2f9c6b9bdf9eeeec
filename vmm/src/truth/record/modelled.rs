//! What models of micro-architecture told of an instruction, a delivery or a run.

use pmu_model::Signal;

/// Occurrences of a few signals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Modelled(Vec<(Signal, u64)>);

impl Modelled {
    /// Adds occurrences.
    pub(super) fn add(&mut self, signal: Signal, n: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == signal) {
            Some((_, count)) => *count += n,
            None => self.0.push((signal, n)),
        }
    }

    /// How many there are of a signal.
    pub(super) fn of(&self, signal: Signal) -> u64 {
        self.0.iter().find(|(known, _)| *known == signal).map_or(0, |&(_, count)| count)
    }
}
