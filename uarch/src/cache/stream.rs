//! What a hardware prefetcher follows: sequences of misses in neighbouring lines.

use super::array::used_last;
use crate::state::{State, Visitor, list, optional};

/// Most sequences that a prefetcher follows.
const MOST: usize = 16;

/// One sequence of misses.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The line that missed last, by its number.
    last: u64,
    /// Whether its neighbour had missed before it, and on which side the sequence goes on.
    direction: Option<Direction>,
}

/// Which way a sequence of misses goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Towards higher addresses.
    Up,
    /// Towards lower addresses.
    Down,
}

impl Stream {
    /// Whether the sequence goes on with a line.
    fn is_followed_by(&self, line: u64) -> bool {
        let is_above = line == self.last.wrapping_add(1);
        let is_below = line == self.last.wrapping_sub(1);
        match self.direction {
            None => is_above || is_below,
            Some(Direction::Up) => is_above,
            Some(Direction::Down) => is_below,
        }
    }
}

/// The sequences that a prefetcher follows.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    capacity: usize,
    /// Apart, since what is known of the running core is moved where it is another one at every instruction.
    table: Box<Table>,
}

/// Each in a place, where it stays.
#[derive(Clone, Debug)]
struct Table {
    streams: [Option<Stream>; MOST],
    /// The low bits of the lines above and below the last of each. Most misses are no line's neighbour, which these
    /// say of all at once.
    above: [u16; MOST],
    below: [u16; MOST],
    /// The places by their use, four bits each, the one that missed last first.
    order: u64,
}

impl Streams {
    /// # Panics
    ///
    /// If there are to be more than 16.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity <= MOST);
        Self { capacity, table: Box::new(Table::new(capacity)) }
    }

    /// A line has missed. Which way to prefetch, if its neighbour has missed before and the sequence has
    /// not turned round.
    #[inline(always)]
    pub(super) fn miss(&mut self, line: u64) -> Option<Direction> {
        if self.capacity == 0 {
            return None;
        }
        let table = &mut *self.table;
        let low = line as u16;
        let places = table.above.iter().zip(&table.below);
        let may_follow =
            places.fold(false, |any, (&above, &below)| any | (above == low) | (below == low));
        let mut place = table.place(self.capacity - 1);
        let mut direction = None;
        if may_follow && let Some((at, last)) = table.find(self.capacity, line) {
            place = at;
            let is_up = line == last.wrapping_add(1);
            direction = Some(if is_up { Direction::Up } else { Direction::Down });
        }
        table.set(self.capacity - 1, place, Stream { last: line, direction });
        direction
    }
}

impl Table {
    fn new(capacity: usize) -> Self {
        Self {
            streams: [None; MOST],
            above: [0; MOST],
            below: [0; MOST],
            order: (0..capacity).fold(0, |order, place| order | (place as u64) << (4 * place)),
        }
    }

    /// The place that so many others have been used after.
    fn place(&self, others: usize) -> usize {
        (self.order >> (4 * others)) as usize % MOST
    }

    /// The sequence that goes on with a line: its place, and its last line. Of several the one used longest ago.
    #[inline(never)]
    fn find(&self, capacity: usize, line: u64) -> Option<(usize, u64)> {
        (0..capacity).rev().map(|others| self.place(others)).find_map(|place| {
            let stream = self.streams[place].filter(|stream| stream.is_followed_by(line))?;
            Some((place, stream.last))
        })
    }

    /// A sequence in a place is the one that missed last; there are so many others.
    fn set(&mut self, others: usize, place: usize, stream: Stream) {
        self.above[place] = stream.last.wrapping_add(1) as u16;
        self.below[place] = stream.last.wrapping_sub(1) as u16;
        self.streams[place] = Some(stream);
        if place == self.place(others) {
            // The oldest goes to the front, as most do.
            let places = u64::MAX >> (60 - 4 * others);
            self.order = (self.order << 4 | place as u64) & places;
        } else if self.place(0) != place {
            self.order = used_last(self.order, place as u64);
        }
    }
}

crate::state! { Direction: Up, Down }

impl State for Stream {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { last, direction } = self;
        last.visit(visitor);
        optional(visitor, direction, || Direction::Up);
    }
}

/// The sequences in the order of their use, the one that missed last at the end: which places they have says nothing.
impl State for Streams {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Streams");
        let Self { capacity, table } = self;
        let places = (0..*capacity).rev().map(|others| table.place(others));
        let mut streams: Vec<_> = places.filter_map(|place| table.streams[place]).collect();
        list(visitor, &mut streams, *capacity, || Stream { last: 0, direction: None });
        if V::LOADS {
            **table = Table::new(*capacity);
            for stream in streams {
                let others = *capacity - 1;
                table.set(others, table.place(others), stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of sequences, the one that missed last at the end.
    fn miss(list: &mut Vec<Stream>, capacity: usize, line: u64) -> Option<Direction> {
        let place = list.iter().position(|stream| match stream.direction {
            None => line.abs_diff(stream.last) == 1,
            Some(Direction::Up) => line == stream.last + 1,
            Some(Direction::Down) => line + 1 == stream.last,
        });
        let direction =
            place.map(
                |place| {
                    if list.remove(place).last < line { Direction::Up } else { Direction::Down }
                },
            );
        if list.len() == capacity {
            list.remove(0);
        }
        list.push(Stream { last: line, direction });
        direction
    }

    /// Sequences that go up, down and turn round, several around the same lines, lines that differ in their high
    /// bits alone, the lowest lines, and saved and loaded in between.
    #[test]
    fn sequences_are_as_in_a_list() {
        let mut random = 0x853C_49E6_748F_EA9B_u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        for capacity in [1, 2, 8, 12, 16] {
            let mut streams = Streams::new(capacity);
            let mut list = Vec::new();
            let mut followed = 0;
            for step in 0..50_000 {
                let line = below(40) + 1000 * below(2) + (below(2) << 16);
                let direction = streams.miss(line);
                assert_eq!(direction, miss(&mut list, capacity, line), "{capacity}, step {step}");
                followed += u64::from(direction.is_some());
                if below(500) == 0 {
                    let mut bytes = Vec::new();
                    streams.visit(&mut crate::state::Saver::new(&mut bytes));
                    streams = Streams::new(capacity);
                    let mut loader = crate::state::Loader::new(&bytes);
                    streams.visit(&mut loader);
                    loader.finish().unwrap();
                }
            }
            assert!((500..40_000).contains(&followed), "{followed} of {capacity}");
        }
    }
}
