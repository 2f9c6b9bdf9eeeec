//! Loops of constant length: a table that counts how often a branch goes one way before it goes the
//! other, as in the Pentium M.
//!
//! That it counts, in how many bits, and how it is indexed, is known; how an entry is made and learns is
//! not sourced.

use super::{
    geometry::HybridGeometry,
    path::ADDRESS_LOW_BIT,
    recency::{Packed, Place, RecencySets},
};
use crate::state::{State, Visitor};

/// The table of loops.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    sets: RecencySets<Loop>,
    set_mask: u64,
    tag_low_bit: u32,
    tag_mask: u64,
    longest: u16,
}

/// A loop, as it is in a lane: most branches do no more to it than to add one to its count.
#[derive(Clone, Copy, Debug)]
struct Loop(u64);

/// The outcome that repeats.
const BODY: u64 = 1 << 8;
/// The length is known.
const KNOWN: u64 = 1 << 9;
/// From this bit on, how often the outcome came since the other one did.
const COUNT_AT: u32 = 10;
/// From this bit on, how often it came before the other one did; 0 if that is not known.
const LENGTH_AT: u32 = COUNT_AT + COUNT_BITS;
/// Bits of a count, at most.
const COUNT_BITS: u32 = 11;
const COUNTS: u64 = (1 << COUNT_BITS) - 1;

impl Packed for Loop {
    const LANE_BITS: u32 = LENGTH_AT + COUNT_BITS;

    #[inline(always)]
    fn pack(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn unpack(lane: u64) -> Self {
        Self(lane & (BODY | KNOWN | COUNTS << COUNT_AT | COUNTS << LENGTH_AT))
    }
}

/// Where a branch is in the table, or would be, until the table is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopPlace(Place<Loop>);

impl LoopPlace {
    /// Which way the branch goes, if it closes a loop of known length.
    #[inline(always)]
    pub(super) fn prediction(&self) -> Option<bool> {
        let held = self.0.entry()?;
        held.length().map(|length| held.body() != (held.count() == length))
    }
}

impl Loops {
    /// An empty table.
    pub(super) fn new(geometry: HybridGeometry) -> Self {
        assert!(geometry.loop_count_bits <= COUNT_BITS);
        Self {
            sets: RecencySets::new(geometry.loop_sets, geometry.loop_ways, geometry.loop_tag_bits),
            set_mask: geometry.loop_sets as u64 - 1,
            tag_low_bit: ADDRESS_LOW_BIT + geometry.loop_sets.ilog2(),
            tag_mask: (1 << geometry.loop_tag_bits) - 1,
            longest: (1 << geometry.loop_count_bits) - 1,
        }
    }

    /// Where the branch at an address is.
    #[inline(always)]
    pub(super) fn find(&self, at: u64) -> LoopPlace {
        let set = (at >> ADDRESS_LOW_BIT & self.set_mask) as usize;
        let tag = at >> self.tag_low_bit & self.tag_mask;
        LoopPlace(self.sets.find(set, tag))
    }

    /// Learns an outcome of a branch that has an entry; or makes one if the branch was mispredicted,
    /// which is taken for the end of a loop.
    #[inline(always)]
    pub(super) fn learn(&mut self, place: LoopPlace, taken: bool, mispredicted: bool) {
        let LoopPlace(place) = place;
        match place.entry() {
            Some(held) => match held.after(taken, self.longest) {
                Some(held) => self.sets.replace(place, held),
                None => self.sets.remove(place),
            },
            None if mispredicted => {
                self.sets.insert(place, Loop::new(!taken, 0, None));
            }
            None => {}
        }
    }
}

impl Loop {
    #[inline(always)]
    fn new(body: bool, count: u16, length: Option<u16>) -> Self {
        let body = if body { BODY } else { 0 };
        let length = length.map_or(0, |length| KNOWN | u64::from(length) << LENGTH_AT);
        Self(body | u64::from(count) << COUNT_AT | length)
    }

    #[inline(always)]
    fn body(self) -> bool {
        self.0 & BODY != 0
    }

    #[inline(always)]
    fn count(self) -> u16 {
        (self.0 >> COUNT_AT & COUNTS) as u16
    }

    #[inline(always)]
    fn length(self) -> Option<u16> {
        (self.0 & KNOWN != 0).then_some((self.0 >> LENGTH_AT & COUNTS) as u16)
    }

    /// The entry after an outcome, unless the loop is longer than can be counted.
    #[inline(always)]
    fn after(self, taken: bool, longest: u16) -> Option<Self> {
        let count = self.count();
        if taken == self.body() {
            if count >= longest {
                return None;
            }
            let next = self.0 + (1 << COUNT_AT);
            // Where it is longer than it was, its length is not known any more.
            let is_longer = u64::from(count) >= self.0 >> LENGTH_AT & COUNTS;
            let length = if is_longer { KNOWN | COUNTS << LENGTH_AT } else { 0 };
            Some(Self(next & !length))
        } else if count == 0 {
            // The other outcome twice: it is the one that repeats.
            Some(Self::new(taken, 1, None))
        } else {
            Some(Self::new(self.body(), 0, Some(count)))
        }
    }
}

impl State for Loops {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Loops");
        let Self { sets, set_mask: _, tag_low_bit: _, tag_mask, longest } = self;
        sets.visit(visitor, *tag_mask, |held| {
            let (count, length) = (held.count(), held.length());
            let is_length = count <= *longest && length.is_none_or(|length| length <= *longest);
            is_length && held.0 == Loop::new(held.body(), count, length).0
        });
    }
}
