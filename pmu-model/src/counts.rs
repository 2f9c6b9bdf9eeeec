//! Sets of signals and counts of signals, without allocation.

use crate::signal::Signal;

/// Words of a [`SignalSet`].
const WORDS: usize = Signal::COUNT.div_ceil(64);

/// A set of signals, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalSet([u64; WORDS]);

impl SignalSet {
    /// The set without members.
    pub const EMPTY: SignalSet = SignalSet([0; WORDS]);

    /// Every signal.
    pub const ALL: SignalSet = SignalSet::of(Signal::ALL);

    /// The signals of states that last for cycles ([`Signal::is_level`]).
    pub const LEVELS: SignalSet = {
        let mut set = SignalSet::EMPTY;
        let mut n = 0;
        while n < Signal::ALL.len() {
            if Signal::ALL[n].is_level() {
                set.insert(Signal::ALL[n]);
            }
            n += 1;
        }
        set
    };

    /// The set of these.
    pub const fn of(signals: &[Signal]) -> SignalSet {
        let mut set = SignalSet::EMPTY;
        let mut n = 0;
        while n < signals.len() {
            set.insert(signals[n]);
            n += 1;
        }
        set
    }

    /// Whether no signal is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Number of signals in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds `signal`.
    pub const fn insert(&mut self, signal: Signal) {
        self.0[signal.index() / 64] |= 1 << (signal.index() % 64);
    }

    /// Whether `signal` is in the set.
    #[inline]
    pub const fn contains(&self, signal: Signal) -> bool {
        self.0[signal.index() / 64] >> (signal.index() % 64) & 1 != 0
    }

    /// Whether all of `signals` are in the set.
    pub fn contains_all(&self, signals: &[Signal]) -> bool {
        signals.iter().all(|&signal| self.contains(signal))
    }

    /// The signals that are in both sets.
    #[inline]
    #[must_use]
    pub fn intersection(&self, other: &SignalSet) -> SignalSet {
        SignalSet(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The signals that are in this set and not in `other`.
    #[must_use]
    pub fn without(&self, other: &SignalSet) -> SignalSet {
        SignalSet(core::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The signals that are in either set.
    #[inline]
    #[must_use]
    pub fn union(&self, other: &SignalSet) -> SignalSet {
        SignalSet(core::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The members, in the order of [`Signal::ALL`].
    #[inline]
    pub fn iter(&self) -> SignalIter {
        SignalIter { set: *self, word: 0 }
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SignalSet {
        let mut set = SignalSet::EMPTY;
        signals.into_iter().for_each(|signal| set.insert(signal));
        set
    }
}

impl IntoIterator for &SignalSet {
    type Item = Signal;
    type IntoIter = SignalIter;

    fn into_iter(self) -> SignalIter {
        self.iter()
    }
}

/// As the sequence of its members' names.
#[cfg(feature = "serde")]
impl serde::Serialize for SignalSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// As the sequence of the signals that occurred, each with how often.
#[cfg(feature = "serde")]
impl serde::Serialize for SignalCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.in_order())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for SignalCounts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts: alloc::vec::Vec<(crate::Signal, u64)> =
            serde::Deserialize::deserialize(deserializer)?;
        let mut sum = SignalCounts::new();
        counts.into_iter().for_each(|(signal, n)| sum.add(signal, n));
        Ok(sum)
    }
}

/// Iterator over the members of a [`SignalSet`].
#[derive(Debug, Clone)]
pub struct SignalIter {
    set: SignalSet,
    word: usize,
}

impl Iterator for SignalIter {
    type Item = Signal;

    #[inline]
    fn next(&mut self) -> Option<Signal> {
        while self.word < WORDS {
            let bits = self.set.0[self.word];
            if bits != 0 {
                self.set.0[self.word] = bits & (bits - 1);
                return Some(Signal::ALL[self.word * 64 + bits.trailing_zeros() as usize]);
            }
            self.word += 1;
        }
        None
    }
}

/// How often each signal occurred in some stretch of execution.
///
/// A sum that would pass `u64::MAX` stays there. Clearing and walking cost by the number of
/// different signals that occurred, not by the size of the vocabulary.
#[derive(Clone)]
pub struct SignalCounts {
    counts: [u64; Signal::COUNT],
    /// Those that occurred, `different` of them, in no particular order: a list, which is walked faster than a set.
    present: [Signal; Signal::COUNT],
    different: usize,
}

impl SignalCounts {
    /// No occurrences.
    pub const fn new() -> SignalCounts {
        SignalCounts {
            counts: [0; Signal::COUNT],
            present: [Signal::CyclesUnhalted; Signal::COUNT],
            different: 0,
        }
    }

    /// Adds `n` occurrences of `signal`.
    #[inline]
    pub fn add(&mut self, signal: Signal, n: u64) {
        if n == 0 {
            return;
        }
        let count = &mut self.counts[signal.index()];
        if *count == 0 {
            self.present[self.different] = signal;
            self.different += 1;
        }
        *count = count.saturating_add(n);
    }

    /// Takes away up to `most` occurrences of `signal`: how many.
    #[inline]
    pub fn take(&mut self, signal: Signal, most: u64) -> u64 {
        let count = &mut self.counts[signal.index()];
        let taken = most.min(*count);
        *count -= taken;
        if taken != 0
            && *count == 0
            && let Some(place) = self.present().iter().position(|&present| present == signal)
        {
            self.different -= 1;
            self.present[place] = self.present[self.different];
        }
        taken
    }

    /// Adds every count of `other`.
    #[inline]
    pub fn add_all(&mut self, other: &SignalCounts) {
        for (signal, n) in other.iter() {
            self.add(signal, n);
        }
    }

    /// Occurrences of `signal`.
    #[inline]
    pub fn get(&self, signal: Signal) -> u64 {
        self.counts[signal.index()]
    }

    /// Whether nothing occurred.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.different == 0
    }

    /// The signals that occurred, in no particular order.
    #[inline]
    pub fn present(&self) -> &[Signal] {
        &self.present[..self.different]
    }

    /// The same, each with its count.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Signal, u64)> + '_ {
        self.present().iter().map(|&signal| (signal, self.get(signal)))
    }

    /// The same in the order of [`Signal::ALL`].
    pub fn in_order(&self) -> impl Iterator<Item = (Signal, u64)> + '_ {
        let present: SignalSet = self.present().iter().copied().collect();
        present.iter().map(|signal| (signal, self.get(signal)))
    }

    /// Back to no occurrences.
    #[inline]
    pub fn clear(&mut self) {
        for &signal in &self.present[..self.different] {
            self.counts[signal.index()] = 0;
        }
        self.different = 0;
    }
}

/// In whatever order they came.
impl PartialEq for SignalCounts {
    fn eq(&self, other: &SignalCounts) -> bool {
        self.different == other.different && self.iter().all(|(signal, n)| n == other.get(signal))
    }
}

impl Eq for SignalCounts {}

impl core::fmt::Debug for SignalCounts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.in_order()).finish()
    }
}

impl Default for SignalCounts {
    fn default() -> SignalCounts {
        SignalCounts::new()
    }
}

impl FromIterator<(Signal, u64)> for SignalCounts {
    fn from_iter<I: IntoIterator<Item = (Signal, u64)>>(pairs: I) -> SignalCounts {
        let mut counts = SignalCounts::new();
        pairs.into_iter().for_each(|(signal, n)| counts.add(signal, n));
        counts
    }
}
