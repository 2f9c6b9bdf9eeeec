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
/// The lowest bit of each place of an order.
const FIRSTS: u64 = 0x1111_1111_1111_1111;

/// Most lines of an array that has hints.
const MOST_HINTED: usize = 2048;
/// Most of the sets that are listed which have got lines: with more, all memory is made as new at once.
const MOST_FILLED: usize = 512;

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
/// memory, as those of the many processors that do nothing; or, if it has been before, memory that is empty.
#[derive(Clone, Debug)]
pub struct LineArray {
    /// Sets after each other; none before the first line.
    entries: Box<[u64]>,
    /// The order of replacement of each set, by policy: see [`LineArray::touch`].
    orders: Box<[u64]>,
    /// The slot where a line was last, by the low bits of its number: it is looked at before all ways are, since nobody
    /// can foresee in which of many ways a line is. Of small arrays of many ways alone.
    hints: Box<[u16]>,
    /// Ways without a line.
    free: usize,
    /// Something has been put in: what it holds is saved.
    is_used: bool,
    /// The sets that a way without a line of has got one, again each time; `None` if there were many. All others are as
    /// in new memory.
    filled: Option<Vec<u32>>,
    set_mask: u64,
    ways_log2: u32,
    replacement: Replacement,
    /// What using a way does to the tree over the ways, if there is one.
    tree: &'static Tree,
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
            hints: Box::default(),
            free: 0,
            is_used: false,
            filled: Some(Vec::new()),
            set_mask: sets as u64 - 1,
            ways_log2: ways.trailing_zeros(),
            replacement: geometry.replacement,
            tree: &TREES[ways.trailing_zeros() as usize],
        }
    }

    /// Takes the memory for its lines.
    #[cold]
    fn unfold(&mut self) {
        let (sets, ways) = (self.set_mask as usize + 1, 1 << self.ways_log2);
        self.entries = vec![EMPTY; sets * ways].into();
        self.orders = vec![self.new_order(); sets].into();
        let has_hints = self.ways_log2 > 2 && self.entries.len() <= MOST_HINTED;
        self.hints = vec![0; if has_hints { 2 * self.entries.len() } else { 0 }].into();
        self.free = self.entries.len();
    }

    /// The order of a set in new memory.
    fn new_order(&self) -> u64 {
        match self.replacement {
            Replacement::Lru => {
                (0..1 << self.ways_log2).fold(0, |order, way| order | way << (4 * way))
            }
            Replacement::TreePseudoLru => 0,
        }
    }

    /// Nothing has been put in any more. What memory it has is as new: where a hint leads is looked at anyway.
    fn renew(&mut self) {
        let order = self.new_order();
        match &mut self.filled {
            Some(filled) => {
                for set in filled.drain(..) {
                    let first = (set as usize) << self.ways_log2;
                    self.entries[first..first + (1 << self.ways_log2)].fill(EMPTY);
                    self.orders[set as usize] = order;
                }
            }
            None => {
                self.entries.fill(EMPTY);
                self.orders.fill(order);
                self.filled = Some(Vec::new());
            }
        }
        (self.free, self.is_used) = (self.entries.len(), false);
    }

    /// A way of a set without a line gets one.
    #[cold]
    #[inline(never)]
    fn note_filled(&mut self, set: usize) {
        self.is_used = true;
        self.free -= 1;
        self.filled = self.filled.take().filter(|filled| filled.len() < MOST_FILLED);
        if let Some(filled) = &mut self.filled {
            filled.push(set as u32);
        }
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
        self.search(number)
    }

    /// Where a line is, as [`LineArray::find`], of which the way used last is not the most probable.
    #[inline(always)]
    #[must_use]
    pub fn search(&self, number: u64) -> Option<usize> {
        let (first, ways) = self.ways(number)?;
        let way = match ways {
            // Without branches: which way it is nobody can foresee.
            &[a, b, c, d] => way_of(a, b, c, d, number),
            _ => ways.iter().position(|entry| entry >> LINE_SHIFT == number + 1),
        };
        way.map(|way| first | way)
    }

    /// The slot of the first way of the set of a line, and the entries of all of them.
    #[inline(always)]
    fn ways(&self, number: u64) -> Option<(usize, &[u64])> {
        let first = self.set(number) << self.ways_log2;
        Some((first, self.entries.get(first..first + (1 << self.ways_log2))?))
    }

    /// Where a line is, which is used: it becomes the last of its set to be replaced.
    pub fn find_and_touch(&mut self, number: u64) -> Option<usize> {
        self.find_recent(number).or_else(|| self.find_older_and_touch(number))
    }

    /// The same of a line that its set did not use last.
    #[inline(always)]
    pub fn find_older_and_touch(&mut self, number: u64) -> Option<usize> {
        let slot = match self.hinted(number) {
            Some(slot) => slot,
            None => {
                let slot = self.search(number)?;
                self.hint(number, slot);
                slot
            }
        };
        self.touch(slot);
        Some(slot)
    }

    /// Where a line is, if it is where it was last.
    #[inline(always)]
    fn hinted(&self, number: u64) -> Option<usize> {
        let slot = usize::from(*self.hints.get(self.place_of_hint(number))?);
        (self.entries[slot] >> LINE_SHIFT == number + 1).then_some(slot)
    }

    /// A line is in a slot.
    #[inline(always)]
    fn hint(&mut self, number: u64, slot: usize) {
        let place = self.place_of_hint(number);
        if let Some(hint) = self.hints.get_mut(place) {
            *hint = slot as u16;
        }
    }

    #[inline(always)]
    fn place_of_hint(&self, number: u64) -> usize {
        number as usize & self.hints.len().wrapping_sub(1)
    }

    /// The state of the line in a slot.
    #[inline]
    #[must_use]
    pub fn state(&self, slot: usize) -> LineState {
        state_of(self.entries[slot])
    }

    /// The state of a line, Invalid if it is not there.
    #[inline]
    #[must_use]
    pub fn state_of(&self, number: u64) -> LineState {
        self.find(number).map_or(LineState::Invalid, |slot| self.state(slot))
    }

    /// The line in a slot that has one.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, slot: usize) -> Line {
        line_of(self.entries[slot])
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
        self.empty(slot, EMPTY);
    }

    /// Drops the line in a slot because a probe takes it, and remembers that until the slot is filled.
    pub fn take(&mut self, slot: usize) {
        self.empty(slot, EMPTY | MARK);
    }

    #[inline(always)]
    fn empty(&mut self, slot: usize, entry: u64) {
        if has_line(self.entries[slot]) {
            self.free += 1;
        }
        self.entries[slot] = entry;
    }

    /// Puts in a line that is not there: into the first free way, or in place of the line that the policy
    /// chooses. It may be marked, with what the cache wants to remember of it.
    pub fn fill(&mut self, line: Line) -> Displaced {
        if self.entries.is_empty() {
            self.unfold();
        }
        let slot = self.slot_in(self.set(line.number));
        let displaced = self.displaced(slot);
        self.fill_slot(slot, line);
        displaced
    }

    /// The slot that [`LineArray::fill`] would put a line into that is not there; `None` if the array has no memory
    /// yet.
    #[inline(always)]
    #[must_use]
    pub fn slot_for(&self, number: u64) -> Option<usize> {
        let set = self.set(number);
        (set < self.orders.len()).then(|| self.slot_in(set))
    }

    /// The first free slot of a set, or the one that the policy chooses.
    #[inline(always)]
    fn slot_in(&self, set: usize) -> usize {
        let first = set << self.ways_log2;
        // Once it has been used for a while, an array is full.
        let free = if self.free == 0 { None } else { self.free_way(first) };
        first | free.unwrap_or_else(|| self.way_to_replace(set))
    }

    /// The first free way of the set that begins at a slot.
    #[inline(never)]
    fn free_way(&self, first: usize) -> Option<usize> {
        let ways = &self.entries[first..first + (1 << self.ways_log2)];
        ways.iter().position(|&entry| !has_line(entry))
    }

    /// What has to go for a line to come into a slot.
    #[inline(always)]
    #[must_use]
    pub fn displaced(&self, slot: usize) -> Displaced {
        match self.entries[slot] {
            EMPTY => Displaced::Nothing,
            entry if !has_line(entry) => Displaced::TakenByProbe,
            entry => Displaced::Line(line_of(entry)),
        }
    }

    /// Whether no line has to go for one to come in once another one has gone, which is there.
    #[inline]
    #[must_use]
    pub fn has_room_for(&self, number: u64, gone: u64) -> bool {
        let set = self.set(number);
        set == self.set(gone) || self.free != 0 && self.free_way(set << self.ways_log2).is_some()
    }

    /// Puts a line into the slot where [`LineArray::slot_for`] wants it.
    #[inline(always)]
    pub fn fill_slot(&mut self, slot: usize, line: Line) {
        let mark = if line.marked { MARK } else { 0 };
        if !has_line(self.entries[slot]) {
            self.note_filled(slot >> self.ways_log2);
        }
        self.entries[slot] = (line.number + 1) << LINE_SHIFT | mark | line.state as u64;
        self.hint(line.number, slot);
        self.touch(slot);
    }

    /// Every line, in the order of the slots.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        let used = if self.is_used { self.entries.len() } else { 0 };
        (0..used).filter(|&slot| has_line(self.entries[slot])).map(|slot| self.line(slot))
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.entries.fill(EMPTY);
        self.free = self.entries.len();
    }

    /// Makes a slot the last of its set to be replaced.
    ///
    /// The order of a set begins with the way used last, in bits 3 to 0. For true LRU the other ways
    /// follow, four bits each, down to the one used longest ago. For tree pseudo-LRU, bit 4 + n is node n
    /// of a binary tree over the ways, whose root is node 1 and whose node n has the children 2n and 2n + 1;
    /// a node points away from the half that was used last.
    #[inline(always)]
    pub fn touch(&mut self, slot: usize) {
        let set = slot >> self.ways_log2;
        let way = (slot & ((1 << self.ways_log2) - 1)) as u64;
        let order = &mut self.orders[set];
        match self.replacement {
            Replacement::TreePseudoLru => {
                let (others, away) = self.tree.away[way as usize & 15];
                *order = *order & u64::from(others) | u64::from(away) | way;
            }
            Replacement::Lru if *order & WAY != way => *order = used_last(*order, way),
            Replacement::Lru => {}
        }
    }

    #[inline(always)]
    fn way_to_replace(&self, set: usize) -> usize {
        let order = self.orders[set];
        match self.replacement {
            Replacement::Lru => (order >> (4 * ((1 << self.ways_log2) - 1)) & WAY) as usize,
            Replacement::TreePseudoLru if self.ways_log2 <= MOST_LISTED => {
                usize::from(self.tree.oldest[(order >> 5) as usize & (LISTED - 1)])
            }
            Replacement::TreePseudoLru => oldest(order, self.ways_log2),
        }
    }
}

/// The true LRU order after a way was used that was not the last.
#[inline(never)]
pub(super) fn used_last(order: u64, way: u64) -> u64 {
    // The ways before it move one place on, into the place it leaves: the first of those that have its number,
    // for there may be zeros behind.
    let others = order ^ (way * FIRSTS);
    let zeros = others.wrapping_sub(FIRSTS) & !others & (FIRSTS << 3);
    let place = 4 * (zeros.trailing_zeros() / 4);
    let before = order & ((1 << place) - 1);
    let behind = order & (u64::MAX << place << 4);
    behind | before << 4 | way
}

/// The way that the tree of an order points to.
const fn oldest(order: u64, ways_log2: u32) -> usize {
    let (mut node, mut level) = (1, 0);
    while level < ways_log2 {
        node = 2 * node + (order >> (4 + node) & 1) as usize;
        level += 1;
    }
    node - (1 << ways_log2)
}

/// What there is to know of a tree over ways.
#[derive(Debug)]
struct Tree {
    /// By way: the bits of the order of a set that using it leaves as they are, and those that it sets, but for the
    /// way itself. See [`LineArray::touch`].
    away: [(u32, u32); 16],
    /// By the bits of the tree: the way that they point to, if there are not too many.
    oldest: [u8; LISTED],
}

/// log2 of the ways of the largest tree of which it is listed where its bits point to, and how its bits may be.
const MOST_LISTED: u32 = 3;
const LISTED: usize = 1 << ((1 << MOST_LISTED) - 1);

/// Those over 1, 2, 4, 8 and 16 ways.
static TREES: [Tree; 5] = [Tree::new(0), Tree::new(1), Tree::new(2), Tree::new(3), Tree::new(4)];

impl Tree {
    const fn new(ways_log2: u32) -> Self {
        let mut tree = Self { away: [(0, 0); 16], oldest: [0; LISTED] };
        let mut way = 0;
        while way < 1 << ways_log2 {
            let (mut nodes, mut away, mut node, mut level) = (0, 0, 1, ways_log2);
            while level > 0 {
                level -= 1;
                let half = way >> level & 1;
                nodes |= 1 << (4 + node);
                away |= (1 - half as u32) << (4 + node);
                node = 2 * node + half;
            }
            tree.away[way] = (!(nodes | WAY as u32), away);
            way += 1;
        }
        let mut bits = 0;
        while ways_log2 <= MOST_LISTED && bits < LISTED {
            tree.oldest[bits] = oldest((bits as u64) << 5, ways_log2) as u8;
            bits += 1;
        }
        tree
    }
}

/// The state that an entry says.
#[inline(always)]
fn state_of(entry: u64) -> LineState {
    const STATES: [LineState; 1 << MARK.trailing_zeros()] = {
        let mut states = [LineState::Modified; 1 << MARK.trailing_zeros()];
        states[0] = LineState::Invalid;
        states[1] = LineState::Shared;
        states[2] = LineState::Exclusive;
        states[3] = LineState::Owned;
        states
    };
    STATES[(entry & STATE) as usize]
}

/// The line of an entry that has one.
#[inline(always)]
fn line_of(entry: u64) -> Line {
    Line {
        number: (entry >> LINE_SHIFT).wrapping_sub(1),
        state: state_of(entry),
        marked: entry & MARK != 0,
    }
}

/// Whether there is a line in a way with this entry.
#[inline(always)]
fn has_line(entry: u64) -> bool {
    entry & STATE != 0
}

/// Which of four ways has a line.
#[inline(always)]
fn way_of(a: u64, b: u64, c: u64, d: u64, number: u64) -> Option<usize> {
    let has = |entry: u64| u32::from(entry >> LINE_SHIFT == number + 1);
    let set = has(a) | has(b) << 1 | has(c) << 2 | has(d) << 3;
    (set != 0).then_some(set.trailing_zeros() as usize)
}

/// A number that no line has: no part has as many bytes of physical addresses.
pub(super) const NO_NUMBER: u64 = 1 << 48;

/// The lines and the orders of their sets, if anything has been put in.
impl State for LineArray {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("LineArray");
        let mut is_used = self.is_used;
        is_used.visit(visitor);
        if V::LOADS {
            self.renew();
        }
        if !is_used {
            return;
        }
        if self.entries.is_empty() {
            self.unfold();
        }
        let Self {
            entries,
            orders,
            hints: _,
            free: _,
            is_used: _,
            filled: _,
            set_mask: _,
            ways_log2: _,
            replacement: _,
            tree: _,
        } = self;
        entries.visit(visitor);
        orders.visit(visitor);
        visitor.check_all(|| {
            let ways = 1 << self.ways_log2;
            let mut sets = self.entries.chunks_exact(ways).zip(&self.orders).enumerate();
            sets.all(|(set, (entries, &order))| {
                entries.iter().all(|&entry| self.can_be(set, entry)) && self.is_order(order)
            })
        });
        if V::LOADS {
            self.free = self.entries.iter().filter(|&&entry| !has_line(entry)).count();
            (self.is_used, self.filled) = (true, None);
        }
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
