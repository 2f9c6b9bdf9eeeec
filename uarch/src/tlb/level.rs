//! One level: its arrays, which are searched at once.

use super::Page;
use super::array::{Array, Entry};
use super::flush_filter::AddressSpace;
use super::geometry::ArrayGeometry;
use super::replacement::TreeUse;

/// The arrays of one level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    arrays: Box<[Array]>,
}

/// Where in a level an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    array: u32,
    slot: u32,
}

impl Place {
    /// The first entry of the first array.
    pub(super) const FIRST: Self = Self { array: 0, slot: 0 };

    fn new(array: usize, slot: usize) -> Self {
        Self { array: array as u32, slot: slot as u32 }
    }

    fn slot(self) -> usize {
        self.slot as usize
    }
}

impl Level {
    pub(super) fn new(arrays: &[ArrayGeometry]) -> Self {
        Self { arrays: arrays.iter().map(Array::new).collect() }
    }

    /// The place of the entry that translates an address in an address space.
    pub(super) fn find(&self, linear: u64, space: AddressSpace) -> Option<Place> {
        let mut arrays = self.arrays.iter().enumerate();
        arrays.find_map(|(number, array)| Some(Place::new(number, array.find(linear, space)?)))
    }

    /// Uses an entry.
    #[inline(always)]
    pub(super) fn touch(&mut self, place: Place) {
        self.arrays[place.array as usize].touch(place.slot());
    }

    /// What a use of an entry is, if that is no more than to set bits of a tree.
    pub(super) fn tree_use(&self, place: Place) -> Option<TreeUse> {
        self.arrays[place.array as usize].tree_use(place.slot())
    }

    /// The entry at a place is used, which does this.
    #[inline(always)]
    pub(super) fn use_in_tree(&mut self, place: Place, of: &TreeUse) {
        self.arrays[place.array as usize].use_in_tree(of);
    }

    /// The entry at a place.
    pub(super) fn entry(&self, place: Place) -> Entry {
        self.arrays[place.array as usize].entry(place.slot())
    }

    /// Frees an entry.
    pub(super) fn remove(&mut self, place: Place) {
        self.arrays[place.array as usize].remove(place.slot());
    }

    /// Puts an entry for an address of a page in, with its tag. Its place, and the entry that it displaced;
    /// `None` if the level does not hold such pages.
    pub(super) fn insert(
        &mut self,
        linear: u64,
        page: Page,
        space: AddressSpace,
    ) -> Option<(Place, Option<Entry>)> {
        let mut arrays = self.arrays.iter_mut().enumerate();
        arrays.find_map(|(number, array)| {
            let size = array.entry_size(page.size)?;
            let (slot, displaced) = array.insert(linear, page, size, space);
            Some((Place::new(number, slot), displaced))
        })
    }

    pub(super) fn invalidate(&mut self, linear: u64, space: AddressSpace) {
        for array in &mut self.arrays {
            array.invalidate(linear, space);
        }
    }

    pub(super) fn flush(&mut self, keep_global: bool) {
        for array in &mut self.arrays {
            array.flush(keep_global);
        }
    }

    pub(super) fn flush_space(&mut self, space: AddressSpace, keep_global: bool) {
        for array in &mut self.arrays {
            array.flush_space(space, keep_global);
        }
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Entry> {
        self.arrays.iter().flat_map(Array::all).collect()
    }
}

crate::state! { Level { saved: arrays; } }
crate::state! { Place { saved: array, slot; } }

impl Level {
    /// Whether there is such a place.
    pub(super) fn has(&self, place: Place) -> bool {
        self.arrays.get(place.array as usize).is_some_and(|array| array.has(place.slot()))
    }
}
