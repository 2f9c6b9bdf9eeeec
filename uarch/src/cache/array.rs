//! A set-associative array of lines, with their states and the order of replacement.

use super::geometry::{ArrayGeometry, Replacement};
use super::state::LineState;
use crate::state::{State, Visitor};

/// An entry is a line's number plus one, a mark and a state: bits 63 to 4, 3, and 2 to 0.
const LINE_SHIFT: u32 = 4;
const MARK: u64 = 1 << 3;
const STATE: u64 = MARK - 1;
/// An entry without a line, in the state Invalid.
const EMPTY: u64 = 0;
/// The way used last, in the low bits of a set's order.
const WAY: u64 = 0xF;

/// A line and what an array knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number: the physical address divided by the size of a line.
    pub number: u64,
    /// Its state.
    pub state: LineState,
    /// What the cache remembers of it beside its state; see [`LineArray::fill`].
    pub marked: bool,
}

/// What had to go for a line to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displaced {
    /// Nothing: the way was free.
    Nothing,
    /// Nothing: a probe had taken the line that was there.
    TakenByProbe,
    /// A line.
    Line(Line),
}

/// A set-associative array of lines.
///
/// A place in it is a number, the *slot*: set times ways plus way. The way of its set that was used last
/// is looked at first, and using it again changes nothing. An array that nothing has been put into has no
/// memory, as those of the many processors that do nothing.
#[derive(Clone, Debug)]
pub struct LineArray {
    /// Sets after each other; none before the first line.
    entries: Box<[u64]>,
    /// The order of replacement of each set, by policy: see [`LineArray::touch`].
    orders: Box<[u64]>,
    set_mask: u64,
    ways_log2: u32,
    replacement: Replacement,
}

impl LineArray {
    /// An empty array.
    ///
    /// # Panics
    ///
    /// If sets or ways are no power of two, or there are more than 16 ways.
    #[must_use]
    pub fn new(geometry: &ArrayGeometry) -> Self {
        let (sets, ways) = (geometry.sets as usize, geometry.ways as usize);
        assert!(sets.is_power_of_two() && ways.is_power_of_two() && ways <= 16);
        Self {
            entries: Box::default(),
            orders: Box::default(),
            set_mask: sets as u64 - 1,
            ways_log2: ways.trailing_zeros(),
            replacement: geometry.replacement,
        }
    }

    /// Takes the memory for its lines.
    #[cold]
    fn unfold(&mut self) {
        let (sets, ways) = (self.set_mask as usize + 1, 1 << self.ways_log2);
        let order = match self.replacement {
            Replacement::Lru => (0..ways).fold(0, |order, way| order | way << (4 * way)),
            Replacement::TreePseudoLru => 0,
        };
        self.entries = vec![EMPTY; sets << self.ways_log2].into();
        self.orders = vec![order; sets].into();
    }

    #[inline]
    fn set(&self, number: u64) -> usize {
        (number & self.set_mask) as usize
    }

    /// Where a line is, if its set used it last, so that using it changes nothing.
    #[inline(always)]
    #[must_use]
    pub fn find_recent(&self, number: u64) -> Option<usize> {
        let set = self.set(number);
        let recent = set << self.ways_log2 | (self.orders.get(set)? & WAY) as usize;
        (self.entries[recent] >> LINE_SHIFT == number + 1).then_some(recent)
    }

    /// Where a line is.
    #[inline]
    #[must_use]
    pub fn find(&self, number: u64) -> Option<usize> {
        self.find_recent(number).or_else(|| self.find_older(number))
    }

    /// Where a line is that its set did not use last.
    fn find_older(&self, number: u64) -> Option<usize> {
        let first = self.set(number) << self.ways_log2;
        let ways = self.entries.get(first..first + (1 << self.ways_log2))?;
        let way = match ways {
            // Without branches: which way it is nobody can foresee.
            [a, b, c, d] => way_of([a, b, c, d].map(|entry| entry >> LINE_SHIFT == number + 1)),
            _ => ways.iter().position(|entry| entry >> LINE_SHIFT == number + 1),
        };
        way.map(|way| first | way)
    }

    /// Where a line is, which is used: it becomes the last of its set to be replaced.
    #[inline]
    pub fn find_and_touch(&mut self, number: u64) -> Option<usize> {
        if let Some(recent) = self.find_recent(number) {
            return Some(recent);
        }
        let slot = self.find_older(number)?;
        self.touch(slot);
        Some(slot)
    }

    /// The state of the line in a slot.
    #[inline]
    #[must_use]
    pub fn state(&self, slot: usize) -> LineState {
        match self.entries[slot] & STATE {
            0 => LineState::Invalid,
            1 => LineState::Shared,
            2 => LineState::Exclusive,
            3 => LineState::Owned,
            _ => LineState::Modified,
        }
    }

    /// The state of a line, Invalid if it is not there.
    #[inline]
    #[must_use]
    pub fn state_of(&self, number: u64) -> LineState {
        self.find(number).map_or(LineState::Invalid, |slot| self.state(slot))
    }

    /// The line in a slot that has one.
    #[inline]
    #[must_use]
    pub fn line(&self, slot: usize) -> Line {
        let entry = self.entries[slot];
        Line {
            number: (entry >> LINE_SHIFT).wrapping_sub(1),
            state: self.state(slot),
            marked: entry & MARK != 0,
        }
    }

    /// Gives the line in a slot another state, which is not Invalid.
    #[inline]
    pub fn set_state(&mut self, slot: usize, state: LineState) {
        debug_assert!(state.is_valid());
        self.entries[slot] = self.entries[slot] & !STATE | state as u64;
    }

    /// The order of replacement of the set that a line is or would be in, if there is memory for it.
    pub(super) fn order_of(&mut self, number: u64) -> Option<&mut u64> {
        let set = self.set(number);
        self.orders.get_mut(set)
    }

    /// Drops the line in a slot.
    pub fn remove(&mut self, slot: usize) {
        self.entries[slot] = EMPTY;
    }

    /// Drops the line in a slot because a probe takes it, and remembers that until the slot is filled.
    pub fn take(&mut self, slot: usize) {
        self.entries[slot] = EMPTY | MARK;
    }

    /// Puts in a line that is not there: into the first free way, or in place of the line that the policy
    /// chooses. It may be marked, with what the cache wants to remember of it.
    pub fn fill(&mut self, line: Line) -> Displaced {
        if self.entries.is_empty() {
            self.unfold();
        }
        let set = self.set(line.number);
        let first = set << self.ways_log2;
        let ways = &self.entries[first..first + (1 << self.ways_log2)];
        let free = ways.iter().position(|entry| entry & STATE == 0);
        let slot = first | free.unwrap_or_else(|| self.way_to_replace(set));
        let displaced = match self.entries[slot] {
            EMPTY => Displaced::Nothing,
            entry if entry & STATE == 0 => Displaced::TakenByProbe,
            _ => Displaced::Line(self.line(slot)),
        };
        let mark = if line.marked { MARK } else { 0 };
        self.entries[slot] = (line.number + 1) << LINE_SHIFT | mark | line.state as u64;
        self.touch(slot);
        displaced
    }

    /// Every line, in the order of the slots.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        (0..self.entries.len())
            .filter(|&slot| self.entries[slot] & STATE != 0)
            .map(|slot| self.line(slot))
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.entries.fill(EMPTY);
    }

    /// Makes a slot the last of its set to be replaced.
    ///
    /// The order of a set begins with the way used last, in bits 3 to 0. For true LRU the other ways
    /// follow, four bits each, down to the one used longest ago. For tree pseudo-LRU, bit 4 + n is node n
    /// of a binary tree over the ways, whose root is node 1 and whose node n has the children 2n and 2n + 1;
    /// a node points away from the half that was used last.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        let set = slot >> self.ways_log2;
        let way = (slot & ((1 << self.ways_log2) - 1)) as u64;
        if self.orders[set] & WAY != way {
            self.reorder(set, way);
        }
    }

    fn reorder(&mut self, set: usize, way: u64) {
        let order = self.orders[set];
        self.orders[set] = match self.replacement {
            Replacement::Lru => {
                // The ways before it move one place on, into the place it leaves, which is not the
                // first.
                let place = (1..16).find(|place| order >> (4 * place) & WAY == way).unwrap_or(0);
                let before = order & ((1 << (4 * place)) - 1);
                let behind = order & (u64::MAX << (4 * place) << 4);
                behind | before << 4 | way
            }
            Replacement::TreePseudoLru => {
                let mut order = order & !WAY | way;
                let mut node = 1;
                for level in (0..self.ways_log2).rev() {
                    let half = way >> level & 1;
                    let bit = 1 << (4 + node);
                    order = if half == 0 { order | bit } else { order & !bit };
                    node = 2 * node + half;
                }
                order
            }
        };
    }

    fn way_to_replace(&self, set: usize) -> usize {
        let order = self.orders[set];
        match self.replacement {
            Replacement::Lru => (order >> (4 * ((1 << self.ways_log2) - 1)) & WAY) as usize,
            Replacement::TreePseudoLru => {
                let mut node = 1;
                for _ in 0..self.ways_log2 {
                    node = 2 * node + (order >> (4 + node) & 1) as usize;
                }
                node - (1 << self.ways_log2)
            }
        }
    }
}

/// The first way that is the one.
#[inline(always)]
fn way_of(is: [bool; 4]) -> Option<usize> {
    let set = is.iter().rev().fold(0, |set, &is| set << 1 | u32::from(is));
    (set != 0).then_some(set.trailing_zeros() as usize)
}

/// A number that no line has: no part has as many bytes of physical addresses.
pub(super) const NO_NUMBER: u64 = 1 << 48;

/// The lines and the orders of their sets, if it has memory for them.
impl State for LineArray {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("LineArray");
        let mut is_unfolded = !self.entries.is_empty();
        is_unfolded.visit(visitor);
        if is_unfolded && self.entries.is_empty() {
            self.unfold();
        } else if !is_unfolded {
            (self.entries, self.orders) = Default::default();
        }
        let Self { entries, orders, set_mask: _, ways_log2: _, replacement: _ } = self;
        entries.visit(visitor);
        orders.visit(visitor);
        let ways = 1 << self.ways_log2;
        let mut sets = self.entries.chunks_exact(ways).zip(&self.orders).enumerate();
        visitor.check(sets.all(|(set, (entries, &order))| {
            entries.iter().all(|&entry| self.can_be(set, entry)) && self.is_order(order)
        }));
    }
}

impl LineArray {
    /// Whether a way of a set can hold this.
    fn can_be(&self, set: usize, entry: u64) -> bool {
        let number = (entry >> LINE_SHIFT).wrapping_sub(1);
        match entry & STATE {
            0 => entry == EMPTY || entry == EMPTY | MARK,
            state => {
                state <= LineState::Modified as u64 && number < NO_NUMBER && self.set(number) == set
            }
        }
    }

    /// Whether a set can have this order.
    fn is_order(&self, order: u64) -> bool {
        let ways = 1 << self.ways_log2;
        match self.replacement {
            Replacement::Lru => {
                let named =
                    (0..ways).fold(0, |named, place| named | 1 << (order >> (4 * place) & WAY));
                named == (1_u64 << ways) - 1 && order.checked_shr(4 * ways).unwrap_or(0) == 0
            }
            Replacement::TreePseudoLru => order & WAY < ways.into(),
        }
    }
}

#[cfg(test)]
mod tests;
