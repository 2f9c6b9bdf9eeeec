//! The slots of a direct-mapped cache, and which of them are taken: most never are, so that who drops everything passes
//! over them.

/// What a slot holds.
pub(super) trait Slot: Copy {
    /// Nothing.
    const EMPTY: Self;
}

/// The most slots.
const MOST: usize = 1024;

/// `N` slots, of which those that hold something are remembered.
#[derive(Clone)]
pub(super) struct Slots<E, const N: usize> {
    slots: [E; N],
    /// A bit a slot: zero if it is empty.
    taken: [u64; MOST / 64],
}

impl<E: Slot, const N: usize> Slots<E, N> {
    /// All empty.
    pub(super) const EMPTY: Self = {
        assert!(N <= MOST, "a bit for each slot");
        Self { slots: [E::EMPTY; N], taken: [0; MOST / 64] }
    };

    /// What slot `n` holds.
    #[inline(always)]
    pub(super) fn get(&self, n: usize) -> &E {
        &self.slots[n]
    }

    /// The same, to be changed, if it holds anything.
    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut E> {
        (self.taken[n / 64] >> (n % 64) & 1 != 0).then_some(&mut self.slots[n])
    }

    /// Has slot `n` hold this.
    pub(super) fn put(&mut self, n: usize, entry: E) {
        self.slots[n] = entry;
        self.taken[n / 64] |= 1 << (n % 64);
    }

    /// What all hold, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        let Self { slots, taken } = self;
        let words = taken.iter().enumerate();
        words.flat_map(move |(word, &taken)| Bits(taken).map(move |bit| &slots[64 * word + bit]))
    }

    /// Does this with what each holds.
    pub(super) fn for_each(&mut self, mut change: impl FnMut(&mut E)) {
        let Self { slots, taken } = self;
        for (word, &taken) in taken.iter().enumerate() {
            Bits(taken).for_each(|bit| change(&mut slots[64 * word + bit]));
        }
    }

    /// Empties slot `n` if it holds this.
    pub(super) fn empty(&mut self, n: usize, is_held: impl Fn(&E) -> bool) {
        if is_held(&self.slots[n]) {
            self.slots[n] = E::EMPTY;
            self.taken[n / 64] &= !(1 << (n % 64));
        }
    }

    /// Empties those that hold something else than what is to be kept.
    pub(super) fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        let Self { slots, taken } = self;
        for (word, taken) in taken.iter_mut().enumerate() {
            for bit in Bits(*taken) {
                let entry = &mut slots[64 * word + bit];
                if !keep(entry) {
                    *entry = E::EMPTY;
                    *taken &= !(1 << bit);
                }
            }
        }
    }
}

/// The numbers of the bits that are set, in their order.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl Slot for u32 {
        const EMPTY: Self = 0;
    }

    /// Against a map, which forgets what is dropped: nothing is lost, and nothing that was dropped comes back.
    #[test]
    fn as_a_map_would() {
        const SLOTS: usize = 256;
        let (mut slots, mut map) = (Slots::<u32, SLOTS>::EMPTY, BTreeMap::new());
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for _ in 0..20_000 {
            let (n, value) = (random() as usize % SLOTS, random() | 1);
            match random() % 64 {
                0 => {
                    slots.retain(|_| false);
                    map.clear();
                }
                1..4 => {
                    slots.retain(|held| held & 2 != 0);
                    map.retain(|_, held: &mut u32| *held & 2 != 0);
                }
                4 => {
                    slots.for_each(|held| *held ^= 4);
                    map.values_mut().for_each(|held| *held ^= 4);
                }
                5..10 => {
                    let (held, known) = (slots.get_mut(n), map.get_mut(&n));
                    assert_eq!(held.as_deref(), known.as_deref());
                    if let (Some(held), Some(known)) = (held, known) {
                        (*held, *known) = (value, value);
                    }
                }
                10..14 => {
                    slots.empty(n, |held| held & 8 != 0);
                    if map.get(&n).is_some_and(|held| held & 8 != 0) {
                        map.remove(&n);
                    }
                }
                _ => {
                    slots.put(n, value);
                    map.insert(n, value);
                }
            }
            assert!(slots.iter().eq(map.values()), "slot {n}");
            assert_eq!(*slots.get(n), map.get(&n).copied().unwrap_or(0), "slot {n}");
        }
    }
}
