//! Which way of a set makes room.

use super::geometry::Replacement;
use crate::state::Visitor;

/// The order of use of all entries of an array.
#[derive(Clone, Debug)]
pub(super) struct Order {
    policy: Replacement,
    ways: usize,
    /// With [`Replacement::Lru`], when each entry was last used, by `clock`, above its own number, so that
    /// the least word names the entry.
    used: Box<[u64]>,
    clock: u64,
    /// Otherwise a word a set: the bits of the tree, the one of its root in bit 1 and those below bit `n`
    /// in bits `2n` and `2n + 1`; or the way whose turn it is.
    sets: Box<[u64]>,
    /// For each way, the bits of the tree that lead to it, and their values that lead to the other halves.
    away: Box<[(u64, u64)]>,
}

/// What a use of an entry does to the tree of its set.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeUse {
    set: usize,
    /// The bits that lead to it, and their values that lead to the other halves.
    path: u64,
    away: u64,
}

/// Bits for the number of an entry.
const NUMBER_BITS: u32 = 16;

impl Order {
    /// That of an array of so many sets, of none as long as nothing is in it.
    pub(super) fn new(policy: Replacement, sets: usize, ways: usize) -> Self {
        if policy == Replacement::PseudoLru {
            assert!(ways.is_power_of_two() && ways <= 64, "a tree of {ways} ways");
        }
        let of = |rule, words| vec![0; if policy == rule { words } else { 0 }].into();
        let words = if policy == Replacement::Lru { 0 } else { sets };
        let paths = if policy == Replacement::PseudoLru && sets != 0 { ways } else { 0 };
        Self {
            policy,
            ways,
            used: of(Replacement::Lru, sets * ways),
            clock: 0,
            sets: vec![0; words].into(),
            away: (0..paths).map(|way| away_from(ways + way)).collect(),
        }
    }

    /// An entry is used.
    #[inline(always)]
    pub(super) fn touch(&mut self, slot: usize) {
        match self.policy {
            Replacement::Lru => {
                self.clock += 1;
                self.used[slot] = self.clock << NUMBER_BITS | slot as u64;
            }
            Replacement::PseudoLru => {
                // The number of ways is a power of two.
                let (path, away) = self.away[slot & (self.ways - 1)];
                let tree = &mut self.sets[slot >> self.ways.trailing_zeros()];
                *tree = *tree & !path | away;
            }
            Replacement::RoundRobin => (),
        }
    }

    /// What a use of an entry is, if that is no more than to set bits of a tree.
    pub(super) fn tree_use(&self, slot: usize) -> Option<TreeUse> {
        if self.policy != Replacement::PseudoLru {
            return None;
        }
        let (path, away) = self.away[slot % self.ways];
        Some(TreeUse { set: slot / self.ways, path, away })
    }

    /// An entry is used, which does this.
    #[inline(always)]
    pub(super) fn use_in_tree(&mut self, of: &TreeUse) {
        let tree = &mut self.sets[of.set];
        *tree = *tree & !of.path | of.away;
    }

    /// The entry of a full set that makes room.
    pub(super) fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways;
        match self.policy {
            Replacement::Lru => {
                let oldest = self.used[first..first + self.ways].iter().min();
                oldest.map_or(first, |used| (used & ((1 << NUMBER_BITS) - 1)) as usize)
            }
            Replacement::PseudoLru => {
                let mut node = 1;
                while node < self.ways {
                    node = node << 1 | (self.sets[set] >> node & 1) as usize;
                }
                first + node - self.ways
            }
            Replacement::RoundRobin => {
                let turn = self.sets[set] as usize;
                self.sets[set] = ((turn + 1) % self.ways) as u64;
                first + turn
            }
        }
    }
}

/// The bits on the way to a leaf, and those of them that are set when they point to the other halves.
fn away_from(leaf: usize) -> (u64, u64) {
    let (mut path, mut away) = (0, 0);
    let mut node = leaf;
    while node > 1 {
        let (parent, is_upper) = (node >> 1, node & 1 == 1);
        path |= 1 << parent;
        away |= u64::from(!is_upper) << parent;
        node = parent;
    }
    (path, away)
}

crate::state! {
    Order { saved: used, clock, sets; derived: policy, ways, away; then: check; }
}

impl Order {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        // A clock has to fit above the number of an entry, for longer than anything runs.
        visitor.check(self.clock < 1 << 46);
        let is_a_turn = |&turn: &u64| turn < self.ways as u64;
        visitor.check(self.policy != Replacement::RoundRobin || self.sets.iter().all(is_a_turn));
    }

    /// Whether it can be told when an entry was used, if that has to be told.
    pub(super) fn knows(&self, slot: usize) -> bool {
        let Some(used) = self.used.get(slot) else { return true };
        let (clock, number) = (used >> NUMBER_BITS, used & ((1 << NUMBER_BITS) - 1));
        number == slot as u64 && (1..=self.clock).contains(&clock)
    }
}
