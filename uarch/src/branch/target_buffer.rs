//! The branch target buffer: branches by their addresses, with what is known of each.

use std::num::NonZeroU16;

use super::{TransferKind, geometry::TargetBufferGeometry, local_pattern::LocalPattern};
use crate::state::{State, Visitor};

/// Addresses of which it is remembered where their entries are. More than there are branches in most
/// loops, so that one look finds them.
const HINTS: usize = 2048;

/// What fetch takes a branch for that has an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BranchClass {
    #[default]
    Conditional,
    /// A jump or call to where the instruction says.
    Direct,
    /// A jump or call to where a register or memory says.
    Indirect,
    Return,
}

impl BranchClass {
    /// That of a transfer, unless it is far.
    #[inline(always)]
    pub(super) fn of(kind: TransferKind) -> Option<Self> {
        Some(match kind {
            TransferKind::Conditional => Self::Conditional,
            TransferKind::Jump | TransferKind::Call => Self::Direct,
            TransferKind::IndirectJump | TransferKind::IndirectCall => Self::Indirect,
            TransferKind::Return => Self::Return,
            TransferKind::FarCall | TransferKind::FarReturn | TransferKind::Far => return None,
        })
    }
}

/// What is known of a branch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// When it was used last.
    used: u64,
    /// Where it went when it was last taken.
    pub(super) target: u64,
    /// Its own history, if the direction scheme has one.
    pub(super) pattern: LocalPattern,
    pub(super) class: BranchClass,
    /// It went both ways since the entry was made.
    pub(super) varies: bool,
}

impl Entry {
    /// The entry of a branch that was executed for the first time.
    pub(super) fn new(class: BranchClass, target: u64, pattern: LocalPattern) -> Self {
        Self { used: 0, target, pattern, class, varies: false }
    }

    /// Makes it that of another branch. It has been used when this one has.
    #[inline]
    pub(super) fn replace(&mut self, other: Self) {
        *self = Self { used: self.used, ..other };
    }
}

/// Where the entry is that has a tag, if there is one.
#[derive(Clone, Copy, Debug)]
struct Hint {
    tag: u32,
    /// Index of the entry; that of none, if there is none.
    index: u16,
}

impl Hint {
    const NO_ENTRY: u16 = u16::MAX;

    fn new(tag: u32, slot: Option<Slot>) -> Self {
        Self { tag, index: slot.map_or(Self::NO_ENTRY, |slot| slot.index() as u16) }
    }

    #[inline(always)]
    fn slot(self) -> Option<Slot> {
        (self.index != Self::NO_ENTRY).then(|| Slot::new(self.index.into()))
    }
}

/// What a hint says of a branch.
pub(super) enum Hinted<'a> {
    /// It has this entry, which is now the one used last.
    Entry(&'a mut Entry),
    /// It has none.
    NoEntry,
    /// Nothing: the buffer has to be searched.
    Unknown,
}

/// A set-associative buffer with replacement of the least recently used entry.
#[derive(Clone, Debug)]
pub(super) struct TargetBuffer {
    geometry: TargetBufferGeometry,
    tag_mask: u32,
    /// By set and way.
    tags: Box<[Option<u32>]>,
    entries: Box<[Entry]>,
    /// By the low bits of tags. What they say is true at any time.
    hints: Box<[Hint; HINTS]>,
    clock: u64,
}

/// Where an entry is, until the buffer is next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(NonZeroU16);

impl Slot {
    fn new(index: usize) -> Self {
        let number = u16::try_from(index + 1).ok().and_then(NonZeroU16::new);
        Self(number.expect("the buffer was found small enough"))
    }

    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

impl TargetBuffer {
    /// An empty buffer.
    pub(super) fn new(geometry: TargetBufferGeometry) -> Self {
        let TargetBufferGeometry { sets, ways, tag_bits, .. } = geometry;
        assert!(sets.is_power_of_two() && ways > 0 && sets * ways < usize::from(u16::MAX));
        assert!((HINTS.ilog2()..=u32::BITS).contains(&tag_bits));
        Self {
            geometry,
            tag_mask: u32::MAX >> (u32::BITS - tag_bits),
            tags: vec![None; sets * ways].into(),
            entries: vec![Entry::default(); sets * ways].into(),
            // True of an empty buffer: it has no entry with tag 0.
            hints: Box::new([Hint::new(0, None); HINTS]),
            clock: 0,
        }
    }

    /// Where the entry of a branch is. It is now the one used last.
    #[inline(always)]
    pub(super) fn find(&mut self, at: u64) -> Option<Slot> {
        let slot = self.place(at)?;
        self.use_entry_at(slot);
        Some(slot)
    }

    /// The entry of a branch. It is now the one used last.
    #[inline(always)]
    pub(super) fn find_entry(&mut self, at: u64) -> Option<&mut Entry> {
        let slot = self.place(at)?;
        Some(self.use_entry_at(slot))
    }

    /// The same, if it need not be searched for.
    #[inline(always)]
    pub(super) fn hinted_entry(&mut self, at: u64) -> Hinted<'_> {
        let tag = self.tag(at);
        let hint = self.hints[Self::hint(tag)];
        if hint.tag != tag {
            return Hinted::Unknown;
        }
        let Some(entry) = self.entries.get_mut(usize::from(hint.index)) else {
            return Hinted::NoEntry;
        };
        self.clock += 1;
        entry.used = self.clock;
        Hinted::Entry(entry)
    }

    #[inline(always)]
    fn use_entry_at(&mut self, slot: Slot) -> &mut Entry {
        let entry = &mut self.entries[slot.index()];
        self.clock += 1;
        entry.used = self.clock;
        entry
    }

    /// Where the entry of a branch is.
    #[inline(always)]
    fn place(&mut self, at: u64) -> Option<Slot> {
        let tag = self.tag(at);
        let hint = self.hints[Self::hint(tag)];
        if hint.tag == tag { hint.slot() } else { self.search_and_hint(at) }
    }

    #[inline(never)]
    fn search_and_hint(&mut self, at: u64) -> Option<Slot> {
        let slot = self.search(at);
        let tag = self.tag(at);
        self.hints[Self::hint(tag)] = Hint::new(tag, slot);
        slot
    }

    /// Where the entry of a branch is; nothing changes by asking.
    pub(super) fn search(&self, at: u64) -> Option<Slot> {
        let tag = self.tag(at);
        let first = self.first_of_set(at);
        let tags = &self.tags[first..][..self.geometry.ways];
        tags.iter().position(|&held| held == Some(tag)).map(|way| Slot::new(first + way))
    }

    /// The entry at a place.
    #[inline(always)]
    pub(super) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index()]
    }

    /// The entry at a place, to change it.
    #[inline(always)]
    pub(super) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.index()]
    }

    /// Replaces the entry at a place by that of another branch.
    pub(super) fn replace(&mut self, slot: Slot, entry: Entry) {
        self.entry_mut(slot).replace(entry);
    }

    /// Adds an entry for a branch that has none, and returns the address of the branch whose entry had
    /// to go for it, as far as it was known.
    #[inline(never)]
    pub(super) fn insert(&mut self, at: u64, entry: Entry) -> Option<u64> {
        let first = self.first_of_set(at);
        // An empty way is as good as one that was never used.
        let age = |&slot: &usize| self.tags[slot].map_or(0, |_| self.entries[slot].used);
        let slot = (first..first + self.geometry.ways).min_by_key(age).expect("a set has ways");
        let slot = Slot::new(slot);
        let gone = self.remove(slot);
        let tag = self.tag(at);
        self.clock += 1;
        self.tags[slot.index()] = Some(tag);
        self.entries[slot.index()] = Entry { used: self.clock, ..entry };
        self.hints[Self::hint(tag)] = Hint::new(tag, Some(slot));
        gone
    }

    /// Removes the entry at a place, and returns the address of its branch, as far as it was known.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<u64> {
        let tag = self.tags[slot.index()].take()?;
        let hint = &mut self.hints[Self::hint(tag)];
        if hint.tag == tag {
            hint.index = Hint::NO_ENTRY;
        }
        Some(self.address(tag))
    }

    /// The addresses, as far as they are known, of the branches in the set of an address.
    pub(super) fn addresses_beside(&self, at: u64) -> impl Iterator<Item = u64> {
        let tags = &self.tags[self.first_of_set(at)..][..self.geometry.ways];
        tags.iter().flatten().map(|&tag| self.address(tag))
    }

    #[inline(always)]
    fn hint(tag: u32) -> usize {
        tag as usize & (HINTS - 1)
    }

    fn first_of_set(&self, at: u64) -> usize {
        let set = (at >> self.geometry.index_low_bit) as usize & (self.geometry.sets - 1);
        set * self.geometry.ways
    }

    #[inline(always)]
    fn tag(&self, at: u64) -> u32 {
        (at >> self.geometry.tag_low_bit) as u32 & self.tag_mask
    }

    fn address(&self, tag: u32) -> u64 {
        u64::from(tag) << self.geometry.tag_low_bit
    }
}

crate::state! { BranchClass: Conditional, Direct, Indirect, Return }
crate::state! { Entry { saved: used, target, pattern, class, varies; } }

/// The entries that there are, each with its tag. When they were used is told by the order of their use
/// alone: how often the buffer is asked depends on the hints, which only save time.
impl State for TargetBuffer {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("TargetBuffer");
        if !V::LOADS {
            self.renumber_uses();
        }
        let Self { geometry: _, tag_mask: _, tags, entries, hints, clock } = self;
        if V::LOADS {
            // As of an empty buffer.
            hints.fill(Hint::new(0, None));
        }
        let words = tags.chunks_mut(WORD).zip(entries.chunks_mut(WORD));
        for (first, (tags, entries)) in (0..).step_by(WORD).zip(words) {
            let present = visit_present(visitor, tags, entries);
            if V::LOADS {
                for n in bits(present) {
                    if let Some(tag) = tags[n] {
                        hints[Self::hint(tag)] = Hint::new(tag, Some(Slot::new(first + n)));
                    }
                }
            }
        }
        let most = entries.len();
        let mut uses = *clock as usize;
        visitor.index(&mut uses, most + 1);
        *clock = uses as u64;
        visitor.check_all(|| {
            tags.iter().zip(entries).all(|(tag, entry)| tag.is_none() || entry.used <= *clock)
        });
        if V::LOADS {
            visitor.check_all(|| self.finds_its_entries());
        }
    }
}

/// Entries that are visited together.
const WORD: usize = u64::BITS as usize;

/// Visits up to 64 entries: which of them there are, one bit each, and those. Which there are now.
fn visit_present<V: Visitor>(
    visitor: &mut V,
    tags: &mut [Option<u32>],
    entries: &mut [Entry],
) -> u64 {
    let mut present = 0;
    if V::LOADS {
        tags.fill(None);
    } else {
        let all = tags.iter().enumerate();
        present = all.fold(0, |bits, (n, tag)| bits | u64::from(tag.is_some()) << n);
    }
    present.visit(visitor);
    let most = u64::MAX >> (WORD - tags.len());
    visitor.check(present & !most == 0);
    present &= most;
    for n in bits(present) {
        tags[n].get_or_insert_default().visit(visitor);
        entries[n].visit(visitor);
    }
    present
}

/// The numbers of the bits that are set, ascending.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            n
        })
    })
}

impl TargetBuffer {
    /// Numbers the entries by the order of their last uses, as if each had been used once.
    fn renumber_uses(&mut self) {
        let Self { tags, entries, clock, .. } = self;
        let there = tags.iter().zip(entries).filter(|(tag, _)| tag.is_some());
        let mut there: Vec<&mut Entry> = there.map(|(_, entry)| entry).collect();
        there.sort_unstable_by_key(|entry| entry.used);
        *clock = 0;
        for entry in there {
            *clock += 1;
            entry.used = *clock;
        }
    }

    /// Whether each entry is the one that is found where it is looked for.
    fn finds_its_entries(&self) -> bool {
        let is_found = |(index, tag): (usize, &Option<u32>)| {
            tag.is_none_or(|tag| {
                let found = self.search(self.address(tag)).map(Slot::index);
                tag & !self.tag_mask == 0 && found == Some(index)
            })
        };
        self.tags.iter().enumerate().all(is_found)
    }
}
