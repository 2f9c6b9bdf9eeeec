//! A set of processors.

use serde::{Deserialize, Serialize};

/// Processors by number, from 0 on: as many as there are identifiers of local APICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessorSet {
    words: [u64; ProcessorSet::CAPACITY / 64],
}

/// The word and the bit of a number.
fn place(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

impl ProcessorSet {
    /// The numbers below it are those that a set can have.
    pub(crate) const CAPACITY: usize = 256;

    /// The first processors, so many.
    ///
    /// # Panics
    /// If there are more than [`Self::CAPACITY`].
    pub(crate) fn first(count: usize) -> Self {
        let mut set = Self::default();
        (0..count).for_each(|number| set.insert(number));
        set
    }

    /// Whether all of them are among `others`.
    pub(crate) fn is_within(self, others: Self) -> bool {
        self.without(others).is_empty()
    }

    /// Adds a processor.
    ///
    /// # Panics
    /// If its number is not below [`Self::CAPACITY`].
    pub(crate) fn insert(&mut self, number: usize) {
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }

    /// Takes a processor out. One that is not in it may have any number.
    pub(crate) fn remove(&mut self, number: usize) {
        let (word, bit) = place(number);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Adds a processor if `is_in`, else takes it out.
    ///
    /// # Panics
    /// As [`Self::insert`].
    pub(crate) fn assign(&mut self, number: usize, is_in: bool) {
        if is_in {
            self.insert(number);
        } else {
            self.remove(number);
        }
    }

    /// Whether a processor is in it.
    pub(crate) fn contains(&self, number: usize) -> bool {
        let (word, bit) = place(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether there is none in it.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many there are in it.
    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The first one that is not below `number`.
    pub(crate) fn next(&self, number: usize) -> Option<usize> {
        let (first, bit) = place(number);
        let mut mask = !(bit - 1);
        for (word, bits) in self.words.iter().enumerate().skip(first) {
            let left = bits & mask;
            if left != 0 {
                return Some(word * 64 + left.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<usize> {
        let (word, bits) = self.words.iter().enumerate().rfind(|&(_, &bits)| bits != 0)?;
        Some(word * 64 + bits.ilog2() as usize)
    }

    /// Whether there is one in it beside `number`.
    pub(crate) fn has_other_than(&self, number: usize) -> bool {
        let mut others = *self;
        others.remove(number);
        !others.is_empty()
    }

    /// All of them, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.next(0), move |&last| self.next(last + 1))
    }

    /// Those of both sets.
    pub(crate) fn intersection(self, other: Self) -> Self {
        self.combined(other, |a, b| a & b)
    }

    /// Those of either set.
    pub(crate) fn union(self, other: Self) -> Self {
        self.combined(other, |a, b| a | b)
    }

    /// Those that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        self.combined(other, |a, b| a & !b)
    }

    fn combined(mut self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.words.iter_mut().zip(other.words) {
            *word = with(*word, other);
        }
        self
    }
}

impl FromIterator<usize> for ProcessorSet {
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Ten thousand changes, compared with the set of the standard library after each.
    #[test]
    fn it_is_a_set() {
        let mut random = 1_u64;
        let mut number = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as usize
        };
        let (mut set, mut expected) = (ProcessorSet::default(), BTreeSet::new());
        for _ in 0..10_000 {
            let (n, is_in) = (number(), number() % 2 == 0);
            set.assign(n, is_in);
            if is_in {
                expected.insert(n);
            } else {
                expected.remove(&n);
            }
            assert!(set.iter().eq(expected.iter().copied()));
            assert_eq!((set.len(), set.is_empty()), (expected.len(), expected.is_empty()));
            let n = number();
            assert_eq!(set.contains(n), expected.contains(&n));
            assert_eq!(set.next(n), expected.range(n..).next().copied());
            assert_eq!(set.last(), expected.last().copied());
            assert_eq!(set.has_other_than(n), expected.iter().any(|&other| other != n));
        }
    }

    #[test]
    fn sets_are_combined() {
        let [low, high]: [ProcessorSet; 2] =
            [&[0, 63, 64, 200][..], &[63, 65, 200, 255]].map(|all| all.iter().copied().collect());
        assert!(low.union(high).iter().eq([0, 63, 64, 65, 200, 255]));
        assert!(low.without(high).iter().eq([0, 64]));
        assert!(ProcessorSet::first(66).iter().eq(0..66));
        assert_eq!((low.contains(256), low.next(256)), (false, None));
    }
}
