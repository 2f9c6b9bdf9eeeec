//! Signals that are fired together so often that they are counted as one.
//!
//! A miss that the second level answers fires some fifteen signals. Which they are is one of a hundred cases, and how
//! often each case was is all that has to be noted until somebody looks.

use std::sync::Arc;

use super::{COUNTERS, Fired, LOGGED, Occurrences, spend};
use pmu_model::Signal;

/// Signals that are fired together, each so often.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(Box<[(Signal, u64)]>);

impl Bundle {
    /// What is fired by this, in its order.
    pub(crate) fn of(fire: impl FnOnce(&mut Occurrences)) -> Self {
        let mut occurrences = Occurrences::default();
        Signal::ALL.iter().for_each(|&signal| occurrences.log(signal));
        fire(&mut occurrences);
        Self(occurrences.take_log().collect())
    }
}

/// The bundles of a part, and how often each has been fired on one processor. Before the first one is, they take no
/// memory, as those of the many processors that do nothing.
#[derive(Clone, Debug)]
pub(super) struct Bundles {
    /// What each fires, by its number.
    definitions: Arc<[Bundle]>,
    tallies: Box<[Tally]>,
    /// The numbers of those that have been fired and not been spread.
    pending: Vec<usize>,
    /// Goes up whenever what counters count changes: a [`Tally`] of another one has to look again.
    epoch: u64,
}

/// How often one bundle has been fired since it was last spread, and what counters count of it.
#[derive(Clone, Debug, Default)]
struct Tally {
    times: u64,
    /// The [`Bundles::epoch`] of what follows; 0 if none is known.
    as_of: u64,
    /// The counters that count any of its signals, and whether any is logged, as in `BySignal::counted_by`.
    counted_by: u8,
    /// How many occurrences of its signals they count.
    counted: [u64; COUNTERS],
}

impl Default for Bundles {
    fn default() -> Self {
        Self::new(Arc::new([]))
    }
}

impl Bundles {
    pub(super) fn new(definitions: Arc<[Bundle]>) -> Self {
        Self { definitions, tallies: Box::default(), pending: Vec::new(), epoch: 1 }
    }

    /// Takes the memory for them.
    #[cold]
    fn unfold(&mut self) {
        self.tallies = vec![Tally::default(); self.definitions.len()].into();
        self.pending.reserve(self.definitions.len());
    }

    /// Whether none has been fired that has not been spread.
    pub(super) fn is_clear(&self) -> bool {
        self.pending.is_empty()
    }

    /// What was fired did not happen.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if !self.pending.is_empty() {
            self.pending.drain(..).for_each(|number| self.tallies[number].times = 0);
        }
    }

    /// What counters count has changed.
    #[inline(always)]
    pub(super) fn recount(&mut self) {
        self.epoch += 1;
    }
}

impl Occurrences {
    /// Has bundles to be fired. Nothing has been fired yet.
    pub(crate) fn prepare(&mut self, bundles: &Arc<[Bundle]>) {
        self.apart.bundles = Bundles::new(bundles.clone());
    }

    /// All signals of a bundle, by its number, if there is such: whether there is. It is the same as firing each.
    #[inline(always)]
    pub(crate) fn fire_bundle(&mut self, number: usize) -> bool {
        let Bundles { tallies, pending, epoch, .. } = &mut self.apart.bundles;
        let Some(tally) = tallies.get_mut(number) else { return self.fire_first_bundle(number) };
        if tally.times == 0 {
            pending.push(number);
        }
        tally.times += 1;
        if tally.counted_by != 0 || tally.as_of != *epoch {
            self.note_bundle(number);
        }
        true
    }

    /// The same, if none has been fired before, or there is none.
    #[cold]
    fn fire_first_bundle(&mut self, number: usize) -> bool {
        let there_is = number < self.apart.bundles.definitions.len();
        if there_is {
            self.apart.bundles.unfold();
            self.fire_bundle(number);
        }
        there_is
    }

    /// Takes those of a bundle from the budgets of counters, and notes them in the log.
    #[inline(never)]
    fn note_bundle(&mut self, number: usize) {
        if self.apart.bundles.tallies[number].as_of != self.apart.bundles.epoch {
            self.recount_bundle(number);
        }
        let Self { apart, spent, near } = self;
        let Fired { bundles, by_signal, .. } = &mut **apart;
        let Tally { counted_by, counted, .. } = &bundles.tallies[number];
        let mut counters = counted_by & !LOGGED;
        while counters != 0 {
            let counter = counters.trailing_zeros() as usize;
            spend(&mut by_signal.left[counter], counted[counter], near, spent);
            counters &= counters - 1;
        }
        if counted_by & LOGGED != 0 {
            self.log_bundle(number);
        }
    }

    /// Finds out what counters count of a bundle.
    #[cold]
    #[inline(never)]
    fn recount_bundle(&mut self, number: usize) {
        let Fired { bundles, by_signal, .. } = &mut *self.apart;
        let tally = &mut bundles.tallies[number];
        *tally = Tally { times: tally.times, as_of: bundles.epoch, ..Tally::default() };
        for &(signal, n) in &bundles.definitions[number].0 {
            let counted_by = by_signal.counted_by[signal.index()];
            tally.counted_by |= counted_by;
            for (counter, counted) in tally.counted.iter_mut().enumerate() {
                *counted += n * u64::from(counted_by >> counter & 1);
            }
        }
    }

    #[cold]
    fn log_bundle(&mut self, number: usize) {
        let definitions = self.apart.bundles.definitions.clone();
        for &(signal, n) in &definitions[number].0 {
            if self.apart.by_signal.counted_by[signal.index()] & LOGGED != 0 {
                self.note_in_log(signal, n);
            }
        }
    }

    /// Somebody looks at each signal.
    #[inline(always)]
    pub(super) fn spread_bundles(&mut self) {
        if !self.apart.bundles.is_clear() {
            self.spread();
        }
    }

    #[inline(never)]
    fn spread(&mut self) {
        let Fired { bundles, by_signal, .. } = &mut *self.apart;
        let Bundles { definitions, tallies, pending, .. } = bundles;
        for number in pending.drain(..) {
            let times = std::mem::take(&mut tallies[number].times);
            for &(signal, n) in &definitions[number].0 {
                by_signal.touched.add(signal);
                by_signal.fired[signal.index()] += n * times;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bundles of random signals, with some of them twice or of none, fired as bundles and signal by signal, with others
    /// in between; while counters get budgets and lose them, signals are logged, and what was fired is looked at,
    /// cleared, taken, and saved and loaded.
    #[test]
    fn a_bundle_is_what_its_signals_are() {
        let mut random = 0xA076_1D64_78BD_642F_u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        for _ in 0..40 {
            let mut signal = |n: u64| Signal::ALL[below(n) as usize];
            let lists: Vec<Vec<_>> = (0..12)
                .map(|number| (0..number).map(|n| (signal(40), n as u64 % 3)).collect())
                .collect();
            let bundles: Arc<[Bundle]> = lists
                .iter()
                .map(|list| {
                    Bundle::of(|occurrences| {
                        list.iter().for_each(|&(signal, n)| occurrences.fire(signal, n));
                    })
                })
                .collect();
            let (mut one, mut other) = (Occurrences::default(), Occurrences::default());
            one.prepare(&bundles);
            for step in 0..2_000 {
                let number = below(12) as usize;
                let signal = Signal::ALL[below(44) as usize];
                match below(60) {
                    0 => {
                        let (counter, budget) = (below(7) as usize, below(9000));
                        one.add_to_budget(counter, budget, signal);
                        other.add_to_budget(counter, budget, signal);
                    }
                    1 if below(4) == 0 => {
                        one.clear_budgets();
                        other.clear_budgets();
                    }
                    2 if below(10) == 0 => {
                        one.log(signal);
                        other.log(signal);
                    }
                    3 => {
                        one.clear();
                        other.clear();
                    }
                    4 => assert_eq!(one.take(), other.take()),
                    5 => {
                        let mut bytes = [Vec::new(), Vec::new()];
                        for (occurrences, bytes) in
                            [&mut one, &mut other].into_iter().zip(&mut bytes)
                        {
                            crate::state::State::visit(
                                occurrences,
                                &mut crate::state::Saver::new(bytes),
                            );
                        }
                        assert_eq!(bytes[0], bytes[1]);
                        for (occurrences, bytes) in [&mut one, &mut other].into_iter().zip(&bytes) {
                            let mut loader = crate::state::Loader::new(bytes);
                            crate::state::State::visit(occurrences, &mut loader);
                            loader.finish().unwrap();
                        }
                    }
                    6..9 => assert_eq!(one.fired(), other.fired(), "step {step}"),
                    9..15 => {
                        one.fire(signal, 2);
                        other.fire(signal, 2);
                    }
                    _ => {
                        assert!(one.fire_bundle(number) && !other.fire_bundle(number));
                        lists[number].iter().for_each(|&(signal, n)| other.fire(signal, n));
                    }
                }
                assert_eq!(one.is_spent(), other.is_spent(), "step {step}");
                assert_eq!(one.is_nearly_spent(), other.is_nearly_spent(), "step {step}");
                assert_eq!(one.apart.by_signal.left, other.apart.by_signal.left, "step {step}");
                if below(3) == 0 {
                    let mut logs = [&mut one, &mut other]
                        .map(|occurrences| occurrences.take_log().collect::<Vec<_>>());
                    logs.iter_mut().for_each(|log| log.sort_by_key(|(signal, _)| signal.index()));
                    assert_eq!(logs[0], logs[1], "step {step}");
                }
            }
        }
    }
}
