//! Sets of entries in the order of their use: what the small tables are made of.

use std::marker::PhantomData;

use crate::state::{State, Visitor};

/// In a lane: there is an entry. Below it is the tag.
const VALID: u64 = 1 << TAG_BITS;
/// Bits of a tag, at most.
pub(super) const TAG_BITS: u32 = 7;
/// Tag and validity.
const KEY: u64 = (1 << (TAG_BITS + 1)) - 1;

/// An entry without its tag, in a lane of a set.
pub(super) trait Packed: Copy {
    /// Bits of a lane, 16 or 32, of which the lowest eight are not the entry's.
    const LANE_BITS: u32;
    /// The other bits of its lane.
    fn pack(self) -> u64;
    /// The entry in a lane.
    fn unpack(lane: u64) -> Self;
}

/// A set-associative table of entries by tag.
///
/// A set is a word with a lane for each way; in the lowest is the entry used most recently, and nothing is behind
/// the last. So looking for a tag in all ways, and moving an entry to the front, are a few operations on one number.
#[derive(Clone, Debug)]
pub(super) struct RecencySets<E> {
    ways: u32,
    sets: Box<[u64]>,
    entries: PhantomData<E>,
}

impl<E: Packed> RecencySets<E> {
    /// An empty table.
    ///
    /// # Panics
    ///
    /// If the ways of a set have no room in a word, or the tags have none in a lane.
    pub(super) fn new(sets: usize, ways: usize, tag_bits: u32) -> Self {
        assert!(matches!(E::LANE_BITS, 16 | 32));
        assert!(ways > 0 && ways <= (u64::BITS / E::LANE_BITS) as usize && tag_bits <= TAG_BITS);
        Self { ways: ways as u32, sets: vec![0; sets].into(), entries: PhantomData }
    }

    /// The lowest bit of each lane.
    const LOWEST: u64 = {
        let (mut lowest, mut at) = (0, 0);
        while at + E::LANE_BITS <= u64::BITS {
            lowest |= 1 << at;
            at += E::LANE_BITS;
        }
        lowest
    };

    /// Where a tag is in a set, or would be.
    #[inline(always)]
    pub(super) fn find(&self, set: usize, tag: u64) -> Place<E> {
        let lanes = self.sets[set];
        let key = tag | VALID;
        let differences = (lanes ^ (key * Self::LOWEST)) & (KEY * Self::LOWEST);
        // What is not zero has a carry out of the key.
        let others = differences + KEY * Self::LOWEST;
        let found = !others & ((KEY + 1) * Self::LOWEST);
        // A lane above all lanes, if there is none.
        let at = found.trailing_zeros() & !(E::LANE_BITS - 1);
        // What is shifted by all bits is not looked at.
        Place { set, key, at, lane: lanes.wrapping_shr(at), entry: PhantomData }
    }

    /// Changes an entry that there is, which is its most recent use.
    #[inline(always)]
    pub(super) fn replace(&mut self, place: Place<E>, entry: E) {
        if place.at == 0 {
            let lanes = &mut self.sets[place.set];
            *lanes = *lanes & u64::MAX << E::LANE_BITS | entry.pack() | place.key;
        } else {
            self.put(place, place.at, entry);
        }
    }

    /// Adds an entry where there is none, for which the least recently used one goes.
    #[inline(always)]
    pub(super) fn insert(&mut self, place: Place<E>, entry: E) {
        self.put(place, (self.ways - 1) * E::LANE_BITS, entry);
    }

    /// Puts an entry into the lowest lane; those below the lane at bit `at` move up, over that.
    #[inline(always)]
    fn put(&mut self, place: Place<E>, at: u32, entry: E) {
        let lanes = &mut self.sets[place.set];
        let before = *lanes & !(u64::MAX << at);
        let behind = *lanes & u64::MAX << at << E::LANE_BITS;
        *lanes = behind | before << E::LANE_BITS | entry.pack() | place.key;
    }

    /// Removes an entry that there is.
    pub(super) fn remove(&mut self, place: Place<E>) {
        let lanes = &mut self.sets[place.set];
        let before = *lanes & !(u64::MAX << place.at);
        *lanes = before | *lanes >> E::LANE_BITS >> place.at << place.at;
    }
}

/// Where a tag is in a table, or would be; until the set is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<E> {
    set: usize,
    /// The tag, and that there is an entry.
    key: u64,
    /// The lowest bit of its lane, beyond all bits if it has none.
    at: u32,
    /// The lane, with others behind it; anything if there is none.
    lane: u64,
    entry: PhantomData<E>,
}

impl<E: Packed> Place<E> {
    /// The entry, if there is one.
    #[inline(always)]
    pub(super) fn entry(&self) -> Option<E> {
        (self.at < u64::BITS).then(|| E::unpack(self.lane))
    }
}

impl<E: Packed> RecencySets<E> {
    /// Saves the sets or loads them, as [`State::visit`] does. Each entry has to be possible.
    pub(super) fn visit<V: Visitor>(
        &mut self,
        visitor: &mut V,
        tag_mask: u64,
        is_possible: impl Fn(E) -> bool,
    ) {
        let Self { ways, sets, entries: _ } = self;
        u64::visit_all(sets, visitor);
        let is_entry = |lane: u64| {
            let entry = E::unpack(lane);
            let whole = entry.pack() | lane & KEY;
            whole == lane && lane & (VALID - 1) <= tag_mask && is_possible(entry)
        };
        visitor.check_all(|| sets.iter().all(|&set| is_set(set, *ways, E::LANE_BITS, is_entry)));
    }
}

/// Whether there are entries in the first lanes of a set, of so many, and nothing behind.
fn is_set(set: u64, ways: u32, lane_bits: u32, is_entry: impl Fn(u64) -> bool) -> bool {
    let lanes = (0..u64::BITS / lane_bits)
        .map(|way| set >> (way * lane_bits) & (u64::MAX >> (u64::BITS - lane_bits)));
    let entries = lanes.clone().take_while(|lane| lane & VALID != 0);
    let there = entries.clone().count();
    there <= ways as usize && entries.clone().all(is_entry) && lanes.skip(there).all(|l| l == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of so many bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Number<const BITS: u32>(u64);

    impl<const BITS: u32> Packed for Number<BITS> {
        const LANE_BITS: u32 = BITS + 8;

        fn pack(self) -> u64 {
            self.0 << 8
        }

        fn unpack(lane: u64) -> Self {
            Self(lane >> 8 & ((1 << BITS) - 1))
        }
    }

    /// Against lists, the most recent first: with full lanes and with room behind them, tags of which many differ in
    /// one bit, entries with all their bits set, and saved and loaded in between.
    fn is_as_a_list<const BITS: u32>(ways: usize) {
        const SETS: usize = 3;
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let mut sets = RecencySets::<Number<BITS>>::new(SETS, ways, 7);
        let mut lists = vec![Vec::<(u64, Number<BITS>)>::new(); SETS];
        for step in 0..50_000 {
            let set = below(SETS as u64) as usize;
            let tag = [0, 1, 0x7F, 0x7E, 0x3F, 0x40, 2, 3][below(8) as usize];
            let entry = Number([0, (1 << BITS) - 1, below(1 << BITS)][below(3) as usize]);
            let list = &mut lists[set];
            let place = list.iter().position(|(held, _)| *held == tag);
            let found = sets.find(set, tag);
            assert_eq!(found.entry(), place.map(|way| list[way].1), "step {step}");
            match (place, below(4)) {
                (Some(way), 0) => {
                    sets.remove(found);
                    list.remove(way);
                }
                (Some(way), _) => {
                    sets.replace(found, entry);
                    list.remove(way);
                    list.insert(0, (tag, entry));
                }
                (None, _) => {
                    sets.insert(found, entry);
                    list.insert(0, (tag, entry));
                    list.truncate(ways);
                }
            }
            if below(1000) == 0 {
                let mut bytes = Vec::new();
                let mut save = crate::state::Saver::new(&mut bytes);
                sets.visit(&mut save, 0x7F, |_| true);
                sets = RecencySets::new(SETS, ways, 7);
                let mut loader = crate::state::Loader::new(&bytes);
                sets.visit(&mut loader, 0x7F, |_| true);
                loader.finish().unwrap();
            }
        }
    }

    #[test]
    fn sets_are_as_lists() {
        is_as_a_list::<8>(4);
        is_as_a_list::<8>(3);
        is_as_a_list::<8>(1);
        is_as_a_list::<24>(2);
        is_as_a_list::<24>(1);
    }

    /// Two ways of 16 bits: the tag in the lowest seven, that there is an entry in bit 7, and the entry above. An entry
    /// behind a way without one or behind the last way is refused, and a tag with too many bits, an impossible entry, and
    /// anything where there is none.
    #[test]
    fn what_no_set_can_hold_is_refused() {
        for (set, is_possible) in [
            (0_u64, true),
            (0x0985, true),
            (0x0986_0985, true),
            (0x0985_0000, false),
            (0x0985_0986_0985, false),
            (0x0985_0000_0985, false),
            (0x09C0, false),
            (0x0A85, false),
            (0x0900, false),
            (0x0005, false),
            (1 << 63, false),
        ] {
            let mut sets = RecencySets::<Number<8>>::new(1, 2, 6);
            let bytes = set.to_le_bytes();
            let mut loader = crate::state::Loader::new(&bytes);
            sets.visit(&mut loader, 0x3F, |Number(n)| n <= 9);
            assert_eq!(loader.finish().is_ok(), is_possible, "{set:X}");
        }
    }
}
