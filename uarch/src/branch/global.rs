//! Directions by the path to a branch: the Pentium M's global predictor. It has entries only for what
//! the other tables get wrong.

use super::{
    counter::{after, predicts_taken},
    geometry::HybridGeometry,
    path::{ADDRESS_LOW_BIT, Path},
    recency::{Packed, Place, RecencySets},
};
use crate::state::{State, Visitor};

/// The table by path.
#[derive(Clone, Debug)]
pub(super) struct Global {
    sets: RecencySets<Known>,
    tag_bits: u32,
    index_bits: u32,
    index_mask: u64,
    tag_mask: u64,
}

/// A two-bit counter.
#[derive(Clone, Copy, Debug)]
struct Known {
    counter: u8,
}

impl Packed for Known {
    const LANE_BITS: u32 = 16;

    #[inline(always)]
    fn pack(self) -> u64 {
        u64::from(self.counter) << 8
    }

    #[inline(always)]
    fn unpack(lane: u64) -> Self {
        Self { counter: (lane >> 8) as u8 }
    }
}

/// Where a branch is in the table, on the path to it, or would be; until the table is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlobalPlace(Place<Known>);

impl GlobalPlace {
    /// The direction, if the table knows the branch on this path.
    #[inline(always)]
    pub(super) fn prediction(&self) -> Option<bool> {
        self.0.entry().map(|known| predicts_taken(known.counter))
    }
}

impl Global {
    /// An empty table.
    pub(super) fn new(geometry: HybridGeometry) -> Self {
        Self {
            sets: RecencySets::new(
                geometry.global_sets,
                geometry.global_ways,
                geometry.global_tag_bits,
            ),
            tag_bits: geometry.global_tag_bits,
            index_bits: geometry.global_sets.ilog2(),
            index_mask: geometry.global_sets as u64 - 1,
            tag_mask: (1 << geometry.global_tag_bits) - 1,
        }
    }

    /// Where the branch at an address is. The upper bits of the path select the set, with the lower
    /// bits of the address; and the other way round for the tag.
    #[inline(always)]
    pub(super) fn find(&self, at: u64, path: &Path) -> GlobalPlace {
        let path = path.register();
        let at = at >> ADDRESS_LOW_BIT;
        let set = ((at ^ path >> self.tag_bits) & self.index_mask) as usize;
        let tag = (at >> self.index_bits ^ path) & self.tag_mask;
        GlobalPlace(self.sets.find(set, tag))
    }

    /// Learns an outcome, for which it makes an entry if there is none.
    #[inline(always)]
    pub(super) fn learn(&mut self, place: GlobalPlace, taken: bool) {
        let GlobalPlace(place) = place;
        match place.entry() {
            Some(known) => {
                self.sets.replace(place, Known { counter: after(known.counter, taken) });
            }
            None => self.sets.insert(place, Known { counter: if taken { 3 } else { 0 } }),
        }
    }

    /// Forgets the branch on this path.
    pub(super) fn forget(&mut self, place: GlobalPlace) {
        if place.0.entry().is_some() {
            self.sets.remove(place.0);
        }
    }
}

impl State for Global {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Global");
        let Self { sets, tag_bits: _, index_bits: _, index_mask: _, tag_mask } = self;
        sets.visit(visitor, *tag_mask, |known| known.counter <= 3);
    }
}
