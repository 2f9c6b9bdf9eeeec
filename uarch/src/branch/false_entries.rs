//! Entries of the target buffer where there is no branch: left over from other code at the same linear
//! address, or of a branch elsewhere whose address is the same in the bits that are compared.
//!
//! Fetch comes to them in the straight-line code between two branches. To look each address up would
//! take too long; so there is a map of where entries are, in which all of a line of code is seen at once.

use std::ops::Range;

use super::{
    Predictor,
    geometry::TargetBufferGeometry,
    target_buffer::{BranchClass, TargetBuffer},
};
use crate::occurrences::Occurrences;
use crate::state::Visitor;

/// Lines of the map, a power of two. It has to be large enough for the bits of an address that select
/// the line and the place in it to contain those that select the set of the target buffer.
const LINES: usize = 2048;
/// Addresses that the target buffer tells apart in a line of the map.
const LINE_SHIFT: u32 = u64::BITS.ilog2();
/// No straight-line code is that long: nobody said that execution had gone elsewhere.
const LONGEST_RUN: u64 = 0x1_0000;

/// Where the target buffer has entries, but that all addresses with the same low bits are one.
#[derive(Clone, Debug)]
pub(super) struct EntryMap {
    /// A bit an address that the target buffer tells from others.
    lines: Box<[u64; LINES]>,
    low_bit: u32,
    /// Bits below that.
    below: u64,
    /// Runs in which no entry is, each in its row: those that are come to again and again.
    clear: [Range<u64>; CLEAR_RUNS],
}

/// How many runs are known to have no entry, a power of two.
const CLEAR_RUNS: usize = 64;
/// No run.
const NO_RUN: Range<u64> = u64::MAX..u64::MAX;

impl EntryMap {
    /// That of an empty target buffer.
    pub(super) fn new(geometry: TargetBufferGeometry) -> Self {
        assert!(geometry.index_low_bit >= geometry.tag_low_bit);
        assert!(
            geometry.index_low_bit + geometry.sets.ilog2()
                <= geometry.tag_low_bit + LINE_SHIFT + LINES.ilog2(),
            "an entry's place in the map has to tell its set"
        );
        Self {
            lines: Box::new([0; LINES]),
            low_bit: geometry.tag_low_bit,
            below: (1 << geometry.tag_low_bit) - 1,
            clear: [NO_RUN; CLEAR_RUNS],
        }
    }

    /// The target buffer has an entry for an address.
    pub(super) fn add(&mut self, at: u64) {
        let (line, bit) = self.place(at);
        self.lines[line] |= bit;
        self.forget_clear();
    }

    /// Forgets which runs have no entry.
    fn forget_clear(&mut self) {
        self.clear.fill(NO_RUN);
    }

    /// Whether there may be an entry in a run, as [`Self::first_in`] finds it.
    #[inline(always)]
    pub(super) fn may_have_in(&mut self, run: Range<u64>) -> bool {
        self.clear[Self::row(&run)] != run && self.finds_in(run)
    }

    /// The same where it is not known that there is none.
    #[inline(never)]
    fn finds_in(&mut self, run: Range<u64>) -> bool {
        let found = self.first_in(run.clone()).is_some();
        if !found {
            let row = Self::row(&run);
            self.clear[row] = run;
        }
        found
    }

    /// Where a run would be known. Several may begin or end at the same place.
    #[inline(always)]
    fn row(run: &Range<u64>) -> usize {
        (run.start << 1 ^ run.end ^ run.end >> CLEAR_RUNS.ilog2()) as usize % CLEAR_RUNS
    }

    /// The target buffer has lost its entry for an address.
    pub(super) fn remove(&mut self, at: u64, targets: &TargetBuffer) {
        let place = self.place(at);
        if targets.addresses_beside(at).all(|other| self.place(other) != place) {
            self.lines[place.0] &= !place.1;
        }
    }

    /// The first address from one on for which there may be an entry, in code from there up to another
    /// address. Neither is an instruction behind that, nor one that began before.
    #[inline(always)]
    pub(super) fn first_in(&self, run: Range<u64>) -> Option<u64> {
        if run.end.wrapping_sub(run.start) > LONGEST_RUN {
            return None;
        }
        let first = (run.start + self.below) >> self.low_bit;
        let end = run.end >> self.low_bit;
        if first >= end {
            return None;
        }
        // Mostly it is all in one line.
        let last = end - 1;
        if first >> LINE_SHIFT == last >> LINE_SHIFT {
            let held = self.lines[(first >> LINE_SHIFT) as usize & (LINES - 1)];
            let found = held >> (first & 63) & u64::MAX >> (63 - (last - first));
            let at = first + u64::from(found.trailing_zeros());
            return (found != 0).then_some(at << self.low_bit);
        }
        // Or in two, and there is nothing.
        if (first >> LINE_SHIFT) + 1 == last >> LINE_SHIFT {
            let line = |place: u64| self.lines[(place >> LINE_SHIFT) as usize & (LINES - 1)];
            if line(first) >> (first & 63) | line(last) << (63 - (last & 63)) == 0 {
                return None;
            }
        }
        self.first_in_lines(first, end).map(|at| at << self.low_bit)
    }

    /// The same in several lines, by numbers of places.
    #[inline(never)]
    fn first_in_lines(&self, first: u64, end: u64) -> Option<u64> {
        let mut line = first >> LINE_SHIFT;
        let mut mask = u64::MAX << (first & 63);
        while line << LINE_SHIFT < end {
            let found = self.lines[line as usize & (LINES - 1)] & mask;
            if found != 0 {
                let at = line << LINE_SHIFT | u64::from(found.trailing_zeros());
                return (at < end).then_some(at);
            }
            mask = u64::MAX;
            line += 1;
        }
        None
    }

    #[inline(always)]
    fn place(&self, at: u64) -> (usize, u64) {
        let number = at >> self.low_bit;
        ((number >> LINE_SHIFT) as usize & (LINES - 1), 1 << (number & 63))
    }
}

impl Predictor {
    /// Execution came in a straight line from where it last went to up to an address. Returns how often
    /// fetch was led astray on the way.
    #[inline(always)]
    pub(super) fn run_up_to(&mut self, end: u64, occurrences: &mut Occurrences) -> u32 {
        match &self.entry_map {
            Some(map) => match map.first_in(self.run_start..end) {
                Some(suspect) => self.look_for_false_entries(suspect, end, occurrences),
                None => 0,
            },
            None => 0,
        }
    }

    #[inline(never)]
    fn look_for_false_entries(
        &mut self,
        mut suspect: u64,
        end: u64,
        occurrences: &mut Occurrences,
    ) -> u32 {
        let mut found = 0;
        loop {
            if let Some(slot) = self.targets.search(suspect) {
                let entry = self.targets.entry(slot);
                let guess = self.direction.guess(suspect, Some(entry), &self.path);
                if entry.class != BranchClass::Conditional || guess.taken {
                    found += 1;
                    self.report_false_entry(occurrences);
                    self.targets.remove(slot);
                    if let Some(map) = &mut self.entry_map {
                        map.remove(suspect, &self.targets);
                    }
                }
            }
            let next = suspect + (1 << self.geometry.targets.tag_low_bit);
            match self.entry_map.as_ref().and_then(|map| map.first_in(next..end)) {
                Some(another) => suspect = another,
                None => return found,
            }
        }
    }
}

crate::state! { EntryMap { saved: lines; derived: low_bit, below, clear; then: restore; } }

impl EntryMap {
    fn restore<V: Visitor>(&mut self, _: &mut V) {
        if V::LOADS {
            self.forget_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::PredictorGeometry;
    use crate::part::predictors;
    use crate::state::{Loader, Saver, State};

    const GEOMETRY: &PredictorGeometry = &predictors::P55C;

    /// Entries come and go, and runs are asked for that end where others do: there may be one where looking through all
    /// of the run finds one. Now and then all is as it was some time ago.
    #[test]
    fn a_run_that_is_known_is_as_one_that_is_looked_through() {
        let mut map = EntryMap::new(GEOMETRY.targets);
        let targets = TargetBuffer::new(GEOMETRY.targets);
        let mut random = 0xD1B5_4A32_D192_ED03_u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let (mut saved, mut found) = (Vec::new(), [0, 0]);
        for step in 0..100_000 {
            let at = 0x1000 + below(0x800);
            match below(24) {
                0 => map.add(at),
                1..4 => map.remove(at, &targets),
                _ => {}
            }
            match below(200) {
                0 => {
                    saved.clear();
                    map.visit(&mut Saver::new(&mut saved));
                }
                1 if !saved.is_empty() => {
                    let mut loader = Loader::new(&saved);
                    map.visit(&mut loader);
                    loader.finish().unwrap();
                }
                _ => {}
            }
            // Few ends, which have rows of their own and which have not.
            let end = 0x1000 + [0x7F0, 0x7F0 - 0x41, 0x300, 0x280, 0x40][below(5) as usize];
            let run = end - below(4) * 0x10..end;
            let expected = map.first_in(run.clone()).is_some();
            assert_eq!(map.may_have_in(run.clone()), expected, "{run:x?}, step {step}");
            found[usize::from(expected)] += 1;
        }
        assert!(found[0] > 5_000 && found[1] > 5_000, "{found:?}");
    }
}
