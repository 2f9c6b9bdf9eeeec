//! What the models fire: occurrences of signals, and how many more may come before the run has to end.

use pmu_model::Signal;

/// Occurrences of each signal since they were last taken.
///
/// A counter that overflows at an occurrence which nothing could foresee (a cache miss) has to end the
/// run on its own instruction. So a signal may have a budget: firing it counts that down, and when it is
/// used up, [`Occurrences::is_spent`] says so.
#[derive(Clone, Debug)]
pub struct Occurrences {
    fired: [u64; Signal::COUNT],
    budget: [u64; Signal::COUNT],
    spent: bool,
}

impl Default for Occurrences {
    fn default() -> Self {
        Self { fired: [0; Signal::COUNT], budget: [u64::MAX; Signal::COUNT], spent: false }
    }
}

impl Occurrences {
    /// `n` occurrences of a signal.
    #[inline(always)]
    pub fn fire(&mut self, signal: Signal, n: u64) {
        let index = signal.index();
        self.fired[index] += n;
        self.spent |= self.fired[index] >= self.budget[index];
    }

    /// How many there are of each signal, by [`Signal::index`].
    #[inline(always)]
    pub fn fired(&mut self) -> &mut [u64; Signal::COUNT] {
        &mut self.fired
    }

    /// Lets a signal occur so often, counted from when its occurrences were last zero, before the
    /// budget is spent.
    pub fn set_budget(&mut self, signal: Signal, occurrences: u64) {
        self.budget[signal.index()] = occurrences;
    }

    /// Takes all budgets away.
    pub fn clear_budgets(&mut self) {
        self.budget = [u64::MAX; Signal::COUNT];
        self.spent = false;
    }

    /// Whether a signal has used up its budget.
    #[inline(always)]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_occurrence_that_uses_up_the_budget_spends_it() {
        let mut occurrences = Occurrences::default();
        occurrences.set_budget(Signal::L1dMiss, 3);
        occurrences.fire(Signal::L1dMiss, 2);
        occurrences.fire(Signal::L1dAccess, 1000);
        assert!(!occurrences.is_spent());
        occurrences.fire(Signal::L1dMiss, 1);
        assert!(occurrences.is_spent());
        assert_eq!(occurrences.fired()[Signal::L1dMiss.index()], 3);
        occurrences.clear_budgets();
        assert!(!occurrences.is_spent());
    }
}
