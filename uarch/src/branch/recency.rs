//! Sets of entries in the order of their use: what the small tables are made of.

use crate::state::{State, Visitor, optional};

/// A set-associative table of entries without addresses of their own; who asks compares.
#[derive(Clone, Debug)]
pub(super) struct RecencySets<E> {
    ways: usize,
    /// By set; in each the most recently used first, and `None` behind the last.
    entries: Box<[Option<E>]>,
}

impl<E: Copy> RecencySets<E> {
    /// An empty table.
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Self { ways, entries: vec![None; sets * ways].into() }
    }

    /// The first entry of a set that fits, and its way until the set is next changed.
    #[inline(always)]
    pub(super) fn find(&self, set: usize, fits: impl Fn(&E) -> bool) -> Option<(usize, E)> {
        for (way, entry) in self.entries[set * self.ways..][..self.ways].iter().enumerate() {
            let Some(entry) = entry else { break };
            if fits(entry) {
                return Some((way, *entry));
            }
        }
        None
    }

    /// Changes the entry in a way, which is its most recent use.
    #[inline(always)]
    pub(super) fn replace(&mut self, set: usize, way: usize, entry: E) {
        let ways = &mut self.entries[set * self.ways..][..=way];
        if way != 0 {
            ways.copy_within(..way, 1);
        }
        ways[0] = Some(entry);
    }

    /// Adds an entry, for which the least recently used one goes.
    pub(super) fn insert(&mut self, set: usize, entry: E) {
        self.replace(set, self.ways - 1, entry);
    }

    /// Removes the entry in a way.
    pub(super) fn remove(&mut self, set: usize, way: usize) {
        let ways = &mut self.entries[set * self.ways..][way..self.ways];
        ways.rotate_left(1);
        if let Some(last) = ways.last_mut() {
            *last = None;
        }
    }
}

impl<E: Copy + State> RecencySets<E> {
    /// Saves the entries or loads them, as [`State::visit`] does; one that is loaded where none was goes into
    /// a blank. Each has to be possible.
    pub(super) fn visit<V: Visitor>(
        &mut self,
        visitor: &mut V,
        blank: E,
        is_possible: impl Fn(&E) -> bool,
    ) {
        let Self { ways: _, entries } = self;
        for entry in entries.iter_mut() {
            optional(visitor, entry, || blank);
        }
        visitor.check(entries.iter().flatten().all(is_possible));
    }
}
