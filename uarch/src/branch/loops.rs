//! Loops of constant length: a table that counts how often a branch goes one way before it goes the
//! other, as in the Pentium M.
//!
//! That it counts, in how many bits, and how it is indexed, is known; how an entry is made and learns is
//! not sourced.

use super::{geometry::HybridGeometry, path::ADDRESS_LOW_BIT, recency::RecencySets};
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
    tag: u16,
    /// The outcome that repeats.
    body: bool,
    /// How often it came since the other one did.
    count: u16,
    /// How often it came before the other one did, once that is known.
    length: Option<u16>,
}

/// Where a branch is in the table, or would be, until the table is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopPlace {
    set: usize,
    tag: u16,
    held: Option<(usize, Loop)>,
}

impl LoopPlace {
    /// Which way the branch goes, if it closes a loop of known length.
    #[inline(always)]
    pub(super) fn prediction(&self) -> Option<bool> {
        let (_, held) = self.held?;
        held.length.map(|length| if held.count == length { !held.body } else { held.body })
    }
}

impl Loops {
    /// An empty table.
    pub(super) fn new(geometry: HybridGeometry) -> Self {
        Self {
            sets: RecencySets::new(geometry.loop_sets, geometry.loop_ways),
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
        let tag = (at >> self.tag_low_bit & self.tag_mask) as u16;
        LoopPlace { set, tag, held: self.sets.find(set, |held| held.tag == tag) }
    }

    /// Learns an outcome of a branch that has an entry; or makes one if the branch was mispredicted,
    /// which is taken for the end of a loop.
    #[inline(always)]
    pub(super) fn learn(&mut self, place: LoopPlace, taken: bool, mispredicted: bool) {
        let LoopPlace { set, tag, held } = place;
        match held {
            Some((way, held)) => match held.after(taken, self.longest) {
                Some(held) => self.sets.replace(set, way, held),
                None => self.sets.remove(set, way),
            },
            None if mispredicted => {
                self.sets.insert(set, Loop { tag, body: !taken, count: 0, length: None });
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
            Some(Self { body: taken, count: 1, length: None, ..self })
        } else {
            Some(Self { count: 0, length: Some(self.count), ..self })
        }
    }
}

crate::state! { Loop { saved: tag, body, count, length; } }

impl State for Loops {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Loops");
        let Self { sets, set_mask: _, tag_low_bit: _, tag_mask: _, longest } = self;
        let blank = Loop { tag: 0, body: false, count: 0, length: None };
        sets.visit(visitor, blank, |held| held.count <= *longest);
    }
}
