//! When something is next due at each processor, and where first.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::processor_set::ProcessorSet;

/// At most one time for each processor, and the first of all at hand: it is asked for between any two
/// blocks of code, and seldom changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Schedule {
    times: Vec<Option<u64>>,
    /// The same, in order.
    ordered: BTreeSet<(u64, usize)>,
    first: Option<u64>,
}

impl Schedule {
    /// For so many processors, nothing is due.
    pub(super) fn new(processors: usize) -> Self {
        Self { times: vec![None; processors], ordered: BTreeSet::new(), first: None }
    }

    /// Whether it is of so many processors, and agrees with itself.
    pub(super) fn is_of(&self, processors: usize) -> bool {
        let times = self.times.iter().zip(0..).filter_map(|(time, n)| Some(((*time)?, n)));
        self.times.len() == processors
            && self.ordered == times.collect()
            && self.first == self.ordered.first().map(|&(time, _)| time)
    }

    /// Sets when something is next due at a processor.
    #[inline]
    pub(super) fn set(&mut self, processor: usize, time: Option<u64>) {
        if self.times[processor] != time {
            self.change(processor, time);
        }
    }

    fn change(&mut self, processor: usize, time: Option<u64>) {
        let before = std::mem::replace(&mut self.times[processor], time);
        if let Some(before) = before {
            self.ordered.remove(&(before, processor));
        }
        if let Some(time) = time {
            self.ordered.insert((time, processor));
        }
        self.first = self.ordered.first().map(|&(time, _)| time);
    }

    /// When something is next due at a processor.
    #[inline]
    pub(super) fn at(&self, processor: usize) -> Option<u64> {
        self.times[processor]
    }

    /// When something is next due at any.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    /// The processors at which something is due at `time` or before.
    pub(super) fn due(&self, time: u64) -> ProcessorSet {
        if self.first.is_none_or(|first| first > time) {
            return ProcessorSet::default();
        }
        let due = self.ordered.iter().take_while(|&&(at, _)| at <= time);
        due.map(|&(_, processor)| processor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand changes for each number of processors, compared with a look at all times.
    #[test]
    fn it_is_what_a_look_at_all_finds() {
        let mut random = 1_u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        for processors in [1_usize, 2, 8, 254] {
            let mut schedule = Schedule::new(processors);
            let mut times = vec![None; processors];
            for _ in 0..1000 {
                let processor = below(processors as u64) as usize;
                // Few times, so that some are equal.
                let time = (below(3) != 0).then(|| below(50));
                schedule.set(processor, time);
                times[processor] = time;
                assert_eq!(schedule.first(), times.iter().flatten().min().copied());
                assert!((0..processors).all(|n| schedule.at(n) == times[n]));
                let now = below(60);
                let is_due = |n: &usize| times[*n].is_some_and(|time| time <= now);
                assert!(schedule.due(now).iter().eq((0..processors).filter(is_due)));
            }
        }
    }
}
