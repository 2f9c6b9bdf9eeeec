//! One array of entries.

use super::Page;
use super::flush_filter::AddressSpace;
use super::geometry::{ArrayGeometry, Associativity, PageSize};
use super::index::Index;
use super::replacement::{Order, TreeUse};
use crate::state::{State, Visitor};

/// An array of entries, each of which translates what begins at an aligned linear address. It has memory for
/// them from the first one on.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// The tag of each entry; 0 if it is free. There are none before the first is put in.
    tags: Box<[u64]>,
    entries: Box<[Entry]>,
    order: Order,
    /// Sizes of the entries, and how many there are of each.
    sizes: Box<[EntrySize]>,
    /// How many entries are free.
    free: usize,
    ways: usize,
    /// The number of sets, less one.
    set_mask: u64,
    /// Finds the entries, if there is one set alone.
    index: Option<Index>,
    geometry: ArrayGeometry,
}

#[derive(Clone, Copy, Debug)]
struct EntrySize {
    size: PageSize,
    entries: u32,
    /// How many of them are of no address space.
    of_none: u32,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Linear address of what it translates.
    pub(super) linear: u64,
    /// How much that is.
    pub(super) size: PageSize,
    /// The page that it is of.
    pub(super) page: Page,
    /// What it is tagged with.
    pub(super) space: AddressSpace,
}

/// Bits of a tag for the number of the size, and the highest number of an address space in those above.
const SIZE_BITS: u32 = 5;
const MOST_SPACE: u64 = 0x7F;

/// What an entry is found by: the address of what it translates, and in the low bits the address space and a
/// number for the size, which is never 0.
#[inline(always)]
fn tag(linear: u64, size: PageSize, space: AddressSpace) -> u64 {
    linear & size.number_mask() | u64::from(space) << SIZE_BITS | u64::from(size.shift())
}

impl Array {
    pub(super) fn new(geometry: &ArrayGeometry) -> Self {
        let (entries, ways) = (usize::from(geometry.entries), usize::from(geometry.ways()));
        let sets = entries / ways;
        assert!(sets.is_power_of_two() && sets * ways == entries, "{entries} entries, {ways} ways");
        let mut sizes: Vec<EntrySize> = Vec::new();
        for held in geometry.holds {
            if sizes.iter().all(|known| known.size != held.entry) {
                sizes.push(EntrySize { size: held.entry, entries: 0, of_none: 0 });
            }
        }
        Self {
            tags: Box::default(),
            entries: Box::default(),
            order: Order::new(geometry.replacement, 0, ways),
            sizes: sizes.into(),
            free: entries,
            ways,
            set_mask: sets as u64 - 1,
            index: None,
            geometry: *geometry,
        }
    }

    /// Takes the memory for the entries.
    #[cold]
    fn unfold(&mut self) {
        let (entries, page) = (self.free, Page { size: PageSize::Kib4, global: false });
        self.tags = vec![0; entries].into();
        self.entries = vec![Entry { linear: 0, size: page.size, page, space: 0 }; entries].into();
        self.order = Order::new(self.geometry.replacement, entries / self.ways, self.ways);
        let is_one_set = self.geometry.associativity == Associativity::Full;
        self.index = is_one_set.then(|| Index::new(entries));
    }

    /// How much of such a page one entry translates, if the array holds it.
    pub(super) fn entry_size(&self, page: PageSize) -> Option<PageSize> {
        self.geometry.holds.iter().find(|held| held.page == page).map(|held| held.entry)
    }

    /// The place of the entry that translates an address in an address space.
    #[inline(always)]
    pub(super) fn find(&self, linear: u64, space: AddressSpace) -> Option<usize> {
        for known in &self.sizes {
            if known.entries == 0 {
                continue;
            }
            let slot = self.find_sized(linear, known.size, space);
            if slot.is_some() {
                return slot;
            }
            if space != 0 && known.of_none != 0 {
                let slot = self.find_sized(linear, known.size, 0);
                if slot.is_some() {
                    return slot;
                }
            }
        }
        None
    }

    #[inline(always)]
    fn find_sized(&self, linear: u64, size: PageSize, space: AddressSpace) -> Option<usize> {
        let tag = tag(linear, size, space);
        if let Some(index) = &self.index {
            return index.find(tag);
        }
        let first = self.set(linear, size) * self.ways;
        let set = self.tags.get(first..first + self.ways)?;
        set.iter().position(|&found| found == tag).map(|way| first + way)
    }

    #[inline(always)]
    fn set(&self, linear: u64, size: PageSize) -> usize {
        (linear >> size.shift() & self.set_mask) as usize
    }

    /// Uses an entry.
    #[inline(always)]
    pub(super) fn touch(&mut self, slot: usize) {
        self.order.touch(slot);
    }

    /// As [`Order::tree_use`].
    pub(super) fn tree_use(&self, slot: usize) -> Option<TreeUse> {
        self.order.tree_use(slot)
    }

    /// As [`Order::use_in_tree`].
    #[inline(always)]
    pub(super) fn use_in_tree(&mut self, of: &TreeUse) {
        self.order.use_in_tree(of);
    }

    /// The entry at a place.
    pub(super) fn entry(&self, slot: usize) -> Entry {
        self.entries[slot]
    }

    /// Puts an entry for an address of a page in, of which it translates so much. Its place, and the entry
    /// that it displaced.
    pub(super) fn insert(
        &mut self,
        linear: u64,
        page: Page,
        size: PageSize,
        space: AddressSpace,
    ) -> (usize, Option<Entry>) {
        if self.tags.is_empty() {
            self.unfold();
        }
        let (slot, displaced) = self.make_room(linear, size, space);
        self.tags[slot] = tag(linear, size, space);
        self.entries[slot] = Entry { linear: linear & size.number_mask(), size, page, space };
        self.order.touch(slot);
        self.free -= 1;
        self.count(size, space, 1);
        if let Some(index) = &mut self.index {
            index.insert(self.tags[slot], slot);
        }
        (slot, displaced)
    }

    /// Frees an entry for an address, if none is: its place, and what was there.
    fn make_room(
        &mut self,
        linear: u64,
        size: PageSize,
        space: AddressSpace,
    ) -> (usize, Option<Entry>) {
        if let Some(slot) = self.find_sized(linear, size, space) {
            self.remove(slot);
            return (slot, None);
        }
        let set = self.set(linear, size);
        let first = set * self.ways;
        if self.free > 0 {
            let ways = &self.tags[first..first + self.ways];
            if let Some(way) = ways.iter().position(|&tag| tag == 0) {
                return (first + way, None);
            }
        }
        let slot = self.order.victim(set);
        (slot, Some(self.remove(slot)))
    }

    /// Frees an entry.
    pub(super) fn remove(&mut self, slot: usize) -> Entry {
        let tag = std::mem::take(&mut self.tags[slot]);
        if let Some(index) = &mut self.index {
            index.remove(tag);
        }
        self.free += 1;
        let Entry { size, space, .. } = self.entries[slot];
        self.count(size, space, -1);
        self.entries[slot]
    }

    /// Drops all entries of the pages that an address is in, of an address space or of none.
    pub(super) fn invalidate(&mut self, linear: u64, space: AddressSpace) {
        for held in self.geometry.holds {
            let page = linear & held.page.number_mask();
            for part in 0..held.page.bytes() / held.entry.bytes() {
                for space in [space, 0] {
                    let part = page + part * held.entry.bytes();
                    let slot = self.find_sized(part, held.entry, space);
                    let is_of = |&slot: &usize| self.entries[slot].page.size == held.page;
                    if let Some(slot) = slot.filter(is_of) {
                        self.remove(slot);
                    }
                }
            }
        }
    }

    /// Drops all entries, but those of global pages if they are to be kept.
    pub(super) fn flush(&mut self, keep_global: bool) {
        if self.free == self.tags.len() {
            return;
        }
        for slot in 0..self.tags.len() {
            if self.tags[slot] != 0 && !(keep_global && self.entries[slot].page.global) {
                self.remove(slot);
            }
        }
    }

    /// Drops all entries of an address space, and all of none unless they are of global pages that are to be
    /// kept.
    pub(super) fn flush_space(&mut self, space: AddressSpace, keep_global: bool) {
        self.drop_where(|entry| {
            (entry.space == space || entry.space == 0) && !(keep_global && entry.page.global)
        });
    }

    /// Drops the entries that fulfil a condition.
    pub(super) fn drop_where(&mut self, drops: impl Fn(&Entry) -> bool) {
        for slot in 0..self.tags.len() {
            if self.tags[slot] != 0 && drops(&self.entries[slot]) {
                self.remove(slot);
            }
        }
    }

    fn count(&mut self, size: PageSize, space: AddressSpace, more: i32) {
        for known in self.sizes.iter_mut().filter(|known| known.size == size) {
            known.entries = known.entries.wrapping_add_signed(more);
            if space == 0 {
                known.of_none = known.of_none.wrapping_add_signed(more);
            }
        }
    }

    /// All entries, by place.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.tags.len()).filter(|&slot| self.tags[slot] != 0).map(|slot| self.entries[slot])
    }
}

/// The tags, with the pages of those that are taken, and the order of replacement. All else follows.
impl State for Array {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Array.tags");
        let mut is_unfolded = !self.tags.is_empty();
        is_unfolded.visit(visitor);
        if is_unfolded == self.tags.is_empty() {
            *self = Self::new(&self.geometry);
            if is_unfolded {
                self.unfold();
            }
        }
        if !is_unfolded {
            return;
        }
        let Self {
            tags,
            entries,
            order,
            sizes: _,
            free: _,
            ways: _,
            set_mask: _,
            index: _,
            geometry: _,
        } = self;
        tags.visit(visitor);
        visitor.name("Array.entries");
        for (_, entry) in tags.iter().zip(entries).filter(|(tag, _)| **tag != 0) {
            entry.page.visit(visitor);
        }
        order.visit(visitor);
        if V::LOADS {
            self.restore(visitor);
        }
    }
}

impl Array {
    /// Works out what follows from tags and pages.
    fn restore<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Array.tags");
        self.free = self.tags.len();
        for known in &mut self.sizes {
            (known.entries, known.of_none) = (0, 0);
        }
        if let Some(index) = &mut self.index {
            index.clear();
        }
        for slot in 0..self.tags.len() {
            if self.tags[slot] != 0 && !self.restore_entry(slot) {
                visitor.refuse();
            }
        }
    }

    /// The same of the entry at a place: whether it can be there.
    fn restore_entry(&mut self, slot: usize) -> bool {
        let (found, page) = (self.tags[slot], self.entries[slot].page);
        let Some(size) = self.entry_size(page.size) else { return false };
        let (linear, space) = (found & size.number_mask(), (found >> SIZE_BITS & MOST_SPACE) as u8);
        if found != tag(linear, size, space) || !self.order.knows(slot) {
            return false;
        }
        // It is the one that is found; of an index, which has none twice, once it is in.
        let before = self.find_sized(linear, size, space);
        match &mut self.index {
            Some(index) if before.is_none() => index.insert(found, slot),
            None if before == Some(slot) => {}
            _ => return false,
        }
        self.entries[slot] = Entry { linear, size, page, space };
        self.free -= 1;
        self.count(size, space, 1);
        true
    }

    /// Whether there is such a place.
    pub(super) fn has(&self, slot: usize) -> bool {
        slot < self.tags.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Held, Replacement};
    use super::*;

    /// An array that nothing was put into takes no memory, and has no entry; with the first entry it takes all.
    #[test]
    fn an_array_without_entries_takes_no_memory() {
        const PAGE: Page = Page { size: PageSize::Kib4, global: false };
        for associativity in [Associativity::Full, Associativity::Ways(2)] {
            let mut array = Array::new(&ArrayGeometry {
                entries: 8,
                associativity,
                replacement: Replacement::PseudoLru,
                holds: &[Held { page: PageSize::Kib4, entry: PageSize::Kib4 }],
            });
            assert!(array.tags.is_empty() && array.entries.is_empty() && array.index.is_none());
            array.flush(false);
            array.flush_space(1, false);
            array.invalidate(0x5000, 1);
            assert_eq!((array.find(0x5000, 1), array.all().count()), (None, 0));
            let (slot, displaced) = array.insert(0x5000, PAGE, PageSize::Kib4, 1);
            assert_eq!((array.tags.len(), array.entries.len(), displaced), (8, 8, None));
            assert_eq!((array.find(0x5abc, 1), array.find(0x6000, 1)), (Some(slot), None));
        }
    }
}
