//! Where entries are that were used recently, so that they need not be searched.

use super::geometry::PageSize;
use super::level::Place;
use super::replacement::TreeUse;
use crate::state::Visitor;

/// For some pages of 4 KiB, the entry of the first level that translates them. Not part of what is
/// modelled: it makes look-ups short.
///
/// Of these pages, whoever asks may mark some of which more is known, and then ask for marked ones alone.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// In each row, a page number and the place of its entry.
    pages: [(u64, Place); PAGES],
    /// The rows that may have one, a bit each: on a core of several threads, all are cleared at every change of thread.
    used: u32,
    /// The same row of those that are marked.
    marked: [Marked; PAGES],
}

/// A page that whoever asks has marked, so that all that a use of it does is at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    page: u64,
    pub(super) place: Place,
    /// If a use is no more than that.
    pub(super) tree_use: Option<TreeUse>,
}

const NOT_MARKED: Marked = Marked { page: NO_PAGE, place: Place::FIRST, tree_use: None };

const PAGES: usize = u32::BITS as usize;
/// A page number that no address has.
const NO_PAGE: u64 = u64::MAX;
/// A row without a page.
const EMPTY: (u64, Place) = (NO_PAGE, Place::FIRST);

impl Default for Recent {
    fn default() -> Self {
        Self { pages: [EMPTY; PAGES], used: 0, marked: [NOT_MARKED; PAGES] }
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
        let row = Self::row(number);
        self.pages[row] = (number, place);
        self.used |= 1 << row;
        self.marked[row].page = NO_PAGE;
    }

    /// The page of an address, if it is marked.
    #[inline(always)]
    pub(super) fn marked(&self, linear: u64) -> Option<&Marked> {
        let number = linear >> PageSize::Kib4.shift();
        let marked = &self.marked[Self::row(number)];
        (marked.page == number).then_some(marked)
    }

    /// Marks the page of an address, of which it is known where its entry is.
    pub(super) fn mark(&mut self, linear: u64, place: Place, tree_use: Option<TreeUse>) {
        let page = linear >> PageSize::Kib4.shift();
        self.marked[Self::row(page)] = Marked { page, place, tree_use };
    }

    /// Whoever asks does not know the page of an address any more.
    pub(super) fn unmark(&mut self, linear: u64) {
        let number = linear >> PageSize::Kib4.shift();
        let marked = &mut self.marked[Self::row(number)];
        if marked.page == number {
            marked.page = NO_PAGE;
        }
    }

    /// The same of all pages.
    pub(super) fn unmark_all(&mut self) {
        self.marked = [NOT_MARKED; PAGES];
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        let mut used = std::mem::take(&mut self.used);
        while used != 0 {
            let row = used.trailing_zeros() as usize;
            self.pages[row] = EMPTY;
            self.marked[row].page = NO_PAGE;
            used &= used - 1;
        }
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
            self.unmark(linear);
            let known = &mut self.pages[Self::row(first)];
            if known.0 == first {
                known.0 = NO_PAGE;
            }
            return;
        }
        for (known, marked) in self.pages.iter_mut().zip(&mut self.marked) {
            if known.0.wrapping_sub(first) < pages {
                known.0 = NO_PAGE;
                marked.page = NO_PAGE;
            }
        }
    }
}

// Where entries overlap, because page tables were changed without a word, it decides which one is used.
crate::state! { Recent { saved: pages; derived: used, marked; then: restore; } }

impl Recent {
    /// Any row may have come with a load.
    fn restore<V: Visitor>(&mut self, _: &mut V) {
        if V::LOADS {
            self.used = u32::MAX;
            self.unmark_all();
        }
    }

    /// The places that are known.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.pages.iter().filter(|(page, _)| *page != NO_PAGE).map(|&(_, place)| place)
    }
}
