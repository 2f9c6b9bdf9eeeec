//! Which clocks of a bus are taken: a reservation table.

/// Words of the table: 4,096 clocks.
const WORDS: u64 = 64;

/// The clocks in which something that one agent at a time can use (request lines, data lines) is taken.
///
/// Processors take turns on the time line: the second one's transactions of a turn come after the first
/// one's, though they are as early. So it does not do to remember when the lines are free again; each
/// transaction gets the first gap that is long enough, whatever came before it. The table looks back
/// 4,096 clocks at least, more than a turn; what is earlier is forgotten, and free.
#[derive(Clone, Debug)]
pub(super) struct Reservations {
    /// A bit a clock, the word of clock `n` at `n / 64 % WORDS`.
    taken: Box<[u64]>,
    /// The first word, counted from clock 0, that is still in the table.
    first: u64,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { taken: vec![0; WORDS as usize].into(), first: 0 }
    }
}

impl Reservations {
    /// Takes the first `clocks` free clocks in a row that begin at `earliest` or later. The first of them.
    pub(super) fn reserve(&mut self, earliest: u64, clocks: u64) -> u64 {
        let start = self.find(earliest, clocks);
        self.take(start, start + clocks);
        start
    }

    /// The first of the first `clocks` free clocks in a row that begin at `earliest` or later.
    pub(super) fn find(&self, earliest: u64, clocks: u64) -> u64 {
        let mut start = earliest;
        while let Some(taken) = self.last_taken(start, start + clocks) {
            start = taken + 1;
        }
        start
    }

    /// Takes the clocks from `from` up to `to`, which is not one of them, whether they are free or not.
    pub(super) fn take(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        self.advance((to - 1) / 64);
        for word in (from / 64).max(self.first)..=(to - 1) / 64 {
            self.taken[(word % WORDS) as usize] |= mask(word, from, to);
        }
    }

    /// The last clock of these that is taken.
    fn last_taken(&self, from: u64, to: u64) -> Option<u64> {
        if from >= to {
            return None;
        }
        let last = ((to - 1) / 64).min(self.first + WORDS - 1);
        for word in ((from / 64).max(self.first)..=last).rev() {
            let taken = self.taken[(word % WORDS) as usize] & mask(word, from, to);
            if taken != 0 {
                return Some(word * 64 + u64::from(taken.ilog2()));
            }
        }
        None
    }

    /// Moves the table on until it has this word.
    fn advance(&mut self, word: u64) {
        if word < self.first + WORDS {
            return;
        }
        let first = word + 1 - WORDS;
        for dropped in self.first..first.min(self.first + WORDS) {
            self.taken[(dropped % WORDS) as usize] = 0;
        }
        self.first = first;
    }
}

/// The bits of a word that stand for the clocks from `from` up to `to`.
fn mask(word: u64, from: u64, to: u64) -> u64 {
    let low = from.saturating_sub(word * 64).min(63);
    let high = (to - word * 64).min(64);
    (u64::MAX << low) & (u64::MAX >> (64 - high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::tests::Random;

    #[test]
    fn the_first_gap_that_is_long_enough_is_taken() {
        let mut table = Reservations::default();
        assert_eq!(table.reserve(10, 4), 10);
        assert_eq!(table.reserve(16, 2), 16);
        // 14 and 15 are free, but three clocks are wanted.
        assert_eq!(table.reserve(10, 3), 18);
        assert_eq!(table.reserve(10, 2), 14);
        assert_eq!(table.reserve(0, 10), 0);
        assert_eq!(table.reserve(0, 1), 21);
    }

    #[test]
    fn what_is_out_of_the_table_is_free() {
        let mut table = Reservations::default();
        assert_eq!(table.reserve(100, 4), 100);
        assert_eq!(table.reserve(1_000_000, 4), 1_000_000);
        assert_eq!(table.reserve(100, 4), 100);
        assert_eq!(table.reserve(1_000_000, 4), 1_000_004);
    }

    /// Against a clock-by-clock search in a list of taken clocks.
    #[test]
    fn gaps_are_where_a_list_of_clocks_has_them() {
        for seed in 1..20 {
            let mut random = Random::new(seed);
            let mut table = Reservations::default();
            let mut taken = std::collections::BTreeSet::new();
            let mut now = 0;
            for _ in 0..5000 {
                now += random.below(14);
                // As much as 2,000 clocks back, as another processor's turn would be.
                let earliest = now - random.below(2000).min(now);
                let clocks = 1 + random.below(9);
                let mut start = earliest;
                while (start..start + clocks).any(|clock| taken.contains(&clock)) {
                    start += 1;
                }
                taken.extend(start..start + clocks);
                assert_eq!(table.reserve(earliest, clocks), start, "seed {seed}");
                now = now.max(start.saturating_sub(1500));
            }
        }
    }
}
