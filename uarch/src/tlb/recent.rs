//! Where entries are that were used recently, so that they need not be searched.

use super::geometry::PageSize;
use super::level::Place;

/// For some pages of 4 KiB, the entry of the first level that translates them. Not part of what is
/// modelled: it makes look-ups short.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// In each row, a page number and the place of its entry.
    pages: [(u64, Place); PAGES],
}

const PAGES: usize = 32;
/// A page number that no address has.
const NO_PAGE: u64 = u64::MAX;

impl Default for Recent {
    fn default() -> Self {
        Self { pages: [(NO_PAGE, Place::FIRST); PAGES] }
    }
}

impl Recent {
    /// The place of the entry that translates an address, if it is known.
    #[inline(always)]
    pub(super) fn find(&self, linear: u64) -> Option<Place> {
        let number = linear >> PageSize::Kib4.shift();
        let (known, place) = self.pages[Self::row(number)];
        (known == number).then_some(place)
    }

    /// The entry at a place translates an address.
    pub(super) fn note(&mut self, linear: u64, place: Place) {
        let number = linear >> PageSize::Kib4.shift();
        self.pages[Self::row(number)] = (number, place);
    }

    /// Where a page would be: by the bits of its number that select it among neighbours, and among large
    /// pages.
    #[inline(always)]
    fn row(number: u64) -> usize {
        (number ^ number >> 9 ^ number >> 10) as usize % PAGES
    }

    /// What begins at an address is not translated any more.
    pub(super) fn forget(&mut self, linear: u64, size: PageSize) {
        let first = linear >> PageSize::Kib4.shift();
        let pages = size.bytes() >> PageSize::Kib4.shift();
        if pages == 1 {
            let known = &mut self.pages[Self::row(first)];
            if known.0 == first {
                known.0 = NO_PAGE;
            }
            return;
        }
        for known in &mut self.pages {
            if known.0.wrapping_sub(first) < pages {
                known.0 = NO_PAGE;
            }
        }
    }
}

// Where entries overlap, because page tables were changed without a word, it decides which one is used.
crate::state! { Recent { saved: pages; } }

impl Recent {
    /// The places that are known.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.pages.iter().filter(|(page, _)| *page != NO_PAGE).map(|&(_, place)| place)
    }
}
