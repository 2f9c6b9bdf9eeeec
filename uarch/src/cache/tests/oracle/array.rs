//! A set-associative array as a list of ways with the time of their last use.

use super::*;

#[derive(Clone, Copy, Default)]
struct Way {
    line: Option<Line>,
    taken: bool,
    used: u64,
    /// When the line came in.
    since: u64,
}

/// What an insertion had to drop.
pub(super) enum Gone {
    Nothing,
    Taken,
    Line(Line),
}

pub(in crate::cache::tests) struct Array {
    sets: Vec<Vec<Way>>,
    /// Which half of a range of ways was used last: (set, first, length) to "the upper".
    halves: BTreeMap<(usize, usize, usize), bool>,
    replacement: Replacement,
    now: u64,
}

impl Array {
    pub(super) fn new(geometry: &ArrayGeometry) -> Self {
        let set = vec![Way::default(); geometry.ways as usize];
        Self {
            sets: vec![set; geometry.sets as usize],
            halves: BTreeMap::new(),
            replacement: geometry.replacement,
            now: 0,
        }
    }

    pub(super) fn place(&self, number: u64) -> (usize, Option<usize>) {
        let set = (number % self.sets.len() as u64) as usize;
        let holds = |way: &Way| way.line.is_some_and(|line| line.number == number);
        (set, self.sets[set].iter().position(holds))
    }

    pub(super) fn get(&self, number: u64) -> Option<Line> {
        let (set, way) = self.place(number);
        self.sets[set][way?].line
    }

    pub(super) fn state(&self, number: u64) -> LineState {
        self.get(number).map_or(LineState::Invalid, |line| line.state)
    }

    /// When a line came in, which tells it from the same line after it was dropped.
    pub(super) fn since(&self, number: u64) -> Option<u64> {
        let (set, way) = self.place(number);
        Some(self.sets[set][way?].since)
    }

    pub(super) fn set(&mut self, number: u64, state: LineState) {
        let (set, way) = self.place(number);
        self.sets[set][way.unwrap()].line.as_mut().unwrap().state = state;
    }

    pub(super) fn touch(&mut self, number: u64) -> bool {
        let (set, Some(way)) = self.place(number) else { return false };
        self.used(set, way);
        true
    }

    pub(super) fn used(&mut self, set: usize, way: usize) {
        self.now += 1;
        self.sets[set][way].used = self.now;
        let (mut first, mut length) = (0, self.sets[set].len());
        while length > 1 {
            length /= 2;
            let upper = way >= first + length;
            self.halves.insert((set, first, 2 * length), upper);
            first += if upper { length } else { 0 };
        }
    }

    pub(super) fn victim(&self, set: usize) -> usize {
        let ways = &self.sets[set];
        if self.replacement == Replacement::Lru {
            return (0..ways.len()).min_by_key(|&way| ways[way].used).unwrap();
        }
        let (mut first, mut length) = (0, ways.len());
        while length > 1 {
            let upper_used = self.halves.get(&(set, first, length)).copied().unwrap_or(true);
            length /= 2;
            first += if upper_used { 0 } else { length };
        }
        first
    }

    pub(super) fn insert(&mut self, number: u64, state: LineState, marked: bool) -> Gone {
        let (set, None) = self.place(number) else { panic!("{number:#x} is there") };
        let free = self.sets[set].iter().position(|way| way.line.is_none());
        let way = free.unwrap_or_else(|| self.victim(set));
        let old = self.sets[set][way];
        self.sets[set][way].line = Some(Line { number, state, marked });
        self.sets[set][way].taken = false;
        self.used(set, way);
        self.sets[set][way].since = self.now;
        match old {
            Way { line: Some(line), .. } => Gone::Line(line),
            Way { taken: true, .. } => Gone::Taken,
            _ => Gone::Nothing,
        }
    }

    pub(super) fn remove(&mut self, number: u64, taken: bool) -> Option<Line> {
        let (set, way) = self.place(number);
        let way = &mut self.sets[set][way?];
        way.taken = taken;
        way.line.take()
    }

    pub(in crate::cache::tests) fn lines(&self) -> Vec<Line> {
        self.sets.iter().flatten().filter_map(|way| way.line).collect()
    }

    pub(super) fn clear(&mut self) {
        self.sets
            .iter_mut()
            .flatten()
            .for_each(|way| *way = Way { used: way.used, ..Way::default() });
    }
}
