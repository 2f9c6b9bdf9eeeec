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

#[derive(Clone, Copy, Debug)]
struct Loop {
    /// The outcome that repeats.
    body: bool,
    /// How often it came since the other one did.
    count: u16,
    /// How often it came before the other one did, once that is known.
    length: Option<u16>,
}

/// Bits of the counts of a loop, at most.
const COUNT_BITS: u32 = 11;

/// In a lane, from bit 8 on: the body, whether the length is known, the count, the length.
impl Packed for Loop {
    const LANE_BITS: u32 = 32;

    #[inline(always)]
    fn pack(self) -> u64 {
        let Self { body, count, length } = self;
        u64::from(body) << 8
            | u64::from(length.is_some()) << 9
            | u64::from(count) << 10
            | u64::from(length.unwrap_or(0)) << (10 + COUNT_BITS)
    }

    #[inline(always)]
    fn unpack(lane: u64) -> Self {
        const COUNT: u64 = (1 << COUNT_BITS) - 1;
        let length = (lane >> (10 + COUNT_BITS) & COUNT) as u16;
        Self {
            body: lane >> 8 & 1 != 0,
            count: (lane >> 10 & COUNT) as u16,
            length: (lane >> 9 & 1 != 0).then_some(length),
        }
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
        held.length.map(|length| if held.count == length { !held.body } else { held.body })
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
                self.sets.insert(place, Loop { body: !taken, count: 0, length: None });
            }
            None => {}
        }
    }
}

impl Loop {
    /// The entry after an outcome, unless the loop is longer than can be counted.
    fn after(self, taken: bool, longest: u16) -> Option<Self> {
        if taken == self.body {
            let count = self.count + 1;
            let length = self.length.filter(|&length| count <= length);
            (count <= longest).then_some(Self { count, length, ..self })
        } else if self.count == 0 {
            // The other outcome twice: it is the one that repeats.
            Some(Self { body: taken, count: 1, length: None })
        } else {
            Some(Self { count: 0, length: Some(self.count), ..self })
        }
    }
}

crate::state! { Loop { saved: body, count, length; } }

impl State for Loops {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Loops");
        let Self { sets, set_mask: _, tag_low_bit: _, tag_mask, longest } = self;
        let blank = Loop { body: false, count: 0, length: None };
        let is_possible = |count: u16| count <= *longest;
        sets.visit(visitor, *tag_mask, blank, |held| {
            is_possible(held.count) && held.length.is_none_or(is_possible)
        });
    }
}
