//! Which clocks of a bus are taken: a reservation table.

use crate::state::{Cycles, LATEST, State, Visitor};
use std::ops::Range;

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
    /// Clocks that are all taken, those around the last that were: the queue before something that is
    /// busy for long need not be searched clock by clock.
    queue: Range<u64>,
    /// All clocks from this one on are free.
    end: u64,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { taken: vec![0; WORDS as usize].into(), first: 0, queue: 0..0, end: 0 }
    }
}

impl Reservations {
    /// Takes the first `clocks` free clocks in a row that begin at `earliest` or later. The first of them.
    #[inline(always)]
    pub(super) fn reserve(&mut self, earliest: u64, clocks: u64) -> u64 {
        // What is out of the table is free, and forgotten at once.
        if earliest + clocks <= self.first * 64 {
            return earliest;
        }
        let start = self.find(earliest, clocks);
        self.take(start, start + clocks);
        start
    }

    /// The first of the first `clocks` free clocks in a row that begin at `earliest` or later.
    #[inline(always)]
    pub(super) fn find(&self, earliest: u64, clocks: u64) -> u64 {
        // Mostly nothing is in the way, or it is the queue alone.
        let table = self.first * 64;
        if earliest >= self.end || earliest + clocks <= table {
            return earliest;
        }
        if self.queue.end == self.end && self.queue.start <= earliest && earliest >= table {
            return self.end;
        }
        self.find_gap(earliest, clocks)
    }

    /// The same where there may be gaps.
    #[inline(never)]
    fn find_gap(&self, earliest: u64, clocks: u64) -> u64 {
        let mut start = self.behind_queue(earliest);
        while let Some(taken) = self.last_taken(start, start + clocks) {
            start = self.first_free(self.behind_queue(taken + 1));
        }
        start
    }

    /// The clock behind the queue, if this one is in it.
    fn behind_queue(&self, clock: u64) -> u64 {
        // What is out of the table is free, even if it was in the queue.
        let is_in_queue = self.queue.contains(&clock) && clock >= self.first * 64;
        if is_in_queue { self.queue.end } else { clock }
    }

    /// The first free clock from this one on, which is no earlier than the table.
    fn first_free(&self, from: u64) -> u64 {
        for word in from / 64..self.first + WORDS {
            let free = !self.taken[(word % WORDS) as usize] & mask(word, from, (word + 1) * 64);
            if free != 0 {
                return word * 64 + u64::from(free.trailing_zeros());
            }
        }
        from.max((self.first + WORDS) * 64)
    }

    /// Takes the clocks from `from` up to `to`, which is not one of them, whether they are free or not.
    #[inline(always)]
    pub(super) fn take(&mut self, from: u64, to: u64) {
        // Mostly they are behind all others, and of one word.
        let word = from / 64;
        let is_in_table = (self.first..self.first + WORDS).contains(&word);
        if from < self.end || from >= to || to > (word + 1) * 64 || !is_in_table {
            return self.take_anywhere(from, to);
        }
        self.taken[(word % WORDS) as usize] |= u64::MAX >> (64 - (to - from)) << (from % 64);
        if from != self.queue.end {
            self.queue.start = from;
        }
        self.queue.end = to;
        self.end = to;
    }

    /// The same wherever they are.
    #[inline(never)]
    fn take_anywhere(&mut self, from: u64, to: u64) {
        // What is out of the table is forgotten at once.
        if from >= to || to <= self.first * 64 {
            return;
        }
        self.advance((to - 1) / 64);
        for word in (from / 64).max(self.first)..=(to - 1) / 64 {
            self.taken[(word % WORDS) as usize] |= mask(word, from, to);
        }
        let Range { start, end } = self.queue;
        if from <= end && start <= to {
            self.queue = from.min(start)..to.max(end);
        } else if end != self.end || to > end {
            // The queue behind which all is free is worth more.
            self.queue = from..to;
        }
        self.end = self.end.max(to);
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

/// The table. The queue in it need not be known for it to be searched.
impl State for Reservations {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { taken, first, queue, end } = self;
        visitor.name("Reservations.taken");
        taken.visit(visitor);
        visitor.name("Reservations.first");
        visitor.cycles(first.cycles());
        visitor.check(*first <= LATEST / 64);
        if V::LOADS {
            *queue = 0..0;
            *end = 0;
            self.first = self.first.min(LATEST / 64);
            let last = self.last_taken(self.first * 64, (self.first + WORDS) * 64);
            self.end = last.map_or(0, |last| last + 1);
        }
    }
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

    /// With clock 1,000,003 the table has the words from 15,562 on, which is from clock 995,968: what begins before and
    /// reaches into it has the clocks there.
    #[test]
    fn what_reaches_into_the_table_is_taken_there() {
        let mut table = Reservations::default();
        assert_eq!(table.reserve(1_000_000, 4), 1_000_000);
        assert_eq!(table.reserve(995_964, 4), 995_964);
        assert_eq!(table.reserve(995_968, 1), 995_968);
        let mut table = Reservations::default();
        assert_eq!(table.reserve(1_000_000, 4), 1_000_000);
        assert_eq!(table.reserve(995_966, 4), 995_966);
        assert_eq!(table.reserve(995_968, 1), 995_970);
    }

    /// A queue as long as the table: with the next clock, the table loses the first 64.
    #[test]
    fn a_queue_is_no_longer_than_the_table() {
        let mut table = Reservations::default();
        for n in 0..1024 {
            assert_eq!(table.reserve(0, 4), 4 * n);
        }
        assert_eq!(table.reserve(10, 4), 4096);
        assert_eq!(table.reserve(10, 4), 10);
        assert_eq!(table.reserve(64, 4), 4100);
    }

    /// Against a clock-by-clock search in a list of taken clocks: where there are gaps, and where more is
    /// asked for than there are clocks, so that queues form.
    #[test]
    fn gaps_are_where_a_list_of_clocks_has_them() {
        for seed in 1..40 {
            let mut random = Random::new(seed);
            let mut table = Reservations::default();
            let mut taken = std::collections::BTreeSet::new();
            let mut now = 0;
            let pace = if seed < 20 { 14 } else { 3 + seed % 9 };
            for _ in 0..3000 {
                now += random.below(pace);
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
