//! What a hardware prefetcher follows: sequences of misses in neighbouring lines.

use crate::state::{State, Visitor, list, optional};

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

/// The sequences that a prefetcher follows, the one that missed last at the end.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    capacity: usize,
}

impl Streams {
    pub(super) fn new(capacity: usize) -> Self {
        Self { streams: Vec::with_capacity(capacity), capacity }
    }

    /// A line has missed. Which way to prefetch, if its neighbour has missed before and the sequence has
    /// not turned round.
    pub(super) fn miss(&mut self, line: u64) -> Option<Direction> {
        if self.capacity == 0 {
            return None;
        }
        let follows = |stream: &Stream| match stream.direction {
            None => line == stream.last.wrapping_add(1) || line == stream.last.wrapping_sub(1),
            Some(Direction::Up) => line == stream.last.wrapping_add(1),
            Some(Direction::Down) => line == stream.last.wrapping_sub(1),
        };
        if let Some(place) = self.streams.iter().position(follows) {
            let stream = self.streams.remove(place);
            let up = line == stream.last.wrapping_add(1);
            let direction = if up { Direction::Up } else { Direction::Down };
            self.streams.push(Stream { last: line, direction: Some(direction) });
            return Some(direction);
        }
        if self.streams.len() == self.capacity {
            self.streams.remove(0);
        }
        self.streams.push(Stream { last: line, direction: None });
        None
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

impl State for Streams {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Streams");
        let Self { streams, capacity } = self;
        list(visitor, streams, *capacity, || Stream { last: 0, direction: None });
    }
}
