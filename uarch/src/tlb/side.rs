//! The TLBs for data, or those for code.

use pmu_model::Signal;

use super::array::Entry;
use super::flush_filter::AddressSpace;
use super::geometry::{PageSize, SideGeometry};
use super::level::Level;
use super::recent::Recent;
use super::{Lookup, Page};
use crate::occurrences::Occurrences;
use crate::state::Visitor;

/// One or two levels of TLBs for one kind of access.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// The entry that was used last: the address of what it translates, and the mask of the address bits
    /// that select it.
    last: u64,
    last_mask: u64,
    /// Entries of the first level that were used before.
    recent: Recent,
    /// The address space that is looked up in; 0 if none are told apart.
    space: AddressSpace,
    first: Level,
    second: Option<Second>,
    /// What an access fires that the second level has to answer.
    missed_first: Signal,
    /// What an access fires that a page walk has to answer.
    missed_all: Signal,
}

#[derive(Clone, Debug)]
struct Second {
    level: Level,
    exclusive: bool,
    latency: u64,
}

/// A `last` that, with `last_mask` 0, no address is part of.
const NO_ENTRY: u64 = 1;

impl Side {
    pub(super) fn new(geometry: &SideGeometry, missed_first: Signal, missed_all: Signal) -> Self {
        Self {
            last: NO_ENTRY,
            last_mask: 0,
            recent: Recent::default(),
            space: 0,
            first: Level::new(geometry.first),
            second: geometry.second.map(|second| Second {
                level: Level::new(second.arrays),
                exclusive: second.exclusive,
                latency: second.latency,
            }),
            missed_first,
            missed_all,
        }
    }

    #[inline(always)]
    pub(super) fn look_up(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        // The entry that was used last stays the one when it is used again: nothing to note.
        if self.used_last(linear) {
            return Lookup::Hit;
        }
        self.look_up_recent(linear, occurrences)
    }

    #[inline]
    fn look_up_recent(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        if self.use_recent(linear) {
            return Lookup::Hit;
        }
        self.look_up_first(linear, occurrences)
    }

    /// As [`Self::look_up`], but looks only where nothing has to be searched: whether it is there.
    #[inline(always)]
    pub(super) fn has_recent(&mut self, linear: u64) -> bool {
        self.used_last(linear) || self.use_recent(linear)
    }

    /// Whether an address is translated by the entry that was used last.
    #[inline(always)]
    pub(super) fn used_last(&self, linear: u64) -> bool {
        linear & self.last_mask == self.last
    }

    #[inline(always)]
    fn use_recent(&mut self, linear: u64) -> bool {
        let Some(place) = self.recent.find(linear) else { return false };
        self.first.touch(place);
        let page = PageSize::Kib4.number_mask();
        (self.last, self.last_mask) = (linear & page, page);
        true
    }

    /// Uses a page that is marked: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub(super) fn use_marked(&mut self, linear: u64) -> bool {
        let Some(marked) = self.recent.marked(linear) else { return false };
        match &marked.tree_use {
            Some(tree_use) => self.first.use_in_tree(marked.place, tree_use),
            None => self.first.touch(marked.place),
        }
        let page = PageSize::Kib4.number_mask();
        (self.last, self.last_mask) = (linear & page, page);
        true
    }

    /// Marks the page of an address, if it was used recently.
    pub(super) fn mark(&mut self, linear: u64) {
        if let Some(place) = self.recent.find(linear) {
            self.recent.mark(linear, place, self.first.tree_use(place));
        }
    }

    /// The page of an address is not marked any more.
    pub(super) fn unmark(&mut self, linear: u64) {
        self.recent.unmark(linear);
    }

    /// No page is.
    pub(super) fn unmark_all(&mut self) {
        self.recent.unmark_all();
    }

    #[inline(never)]
    fn look_up_first(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        let Some(place) = self.first.find(linear, self.space) else {
            return self.look_up_second(linear, occurrences);
        };
        self.first.touch(place);
        self.recent.note(linear, place);
        let entry = self.first.entry(place);
        self.remember(entry.linear, entry.size);
        Lookup::Hit
    }

    fn look_up_second(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        let Some(second) = &mut self.second else {
            return Lookup::Miss;
        };
        let Some(place) = second.level.find(linear, self.space) else {
            return Lookup::Miss;
        };
        let latency = second.latency;
        let Entry { page, space, .. } = second.level.entry(place);
        if second.exclusive {
            second.level.remove(place);
        } else {
            second.level.touch(place);
        }
        occurrences.fire(self.missed_first, 1);
        self.enter(linear, page, space);
        Lookup::SecondLevel { latency }
    }

    pub(super) fn fill(&mut self, linear: u64, page: Page, occurrences: &mut Occurrences) {
        occurrences.fire(self.missed_all, 1);
        let space = if page.global { 0 } else { self.space };
        if let Some(second) = self.second.as_mut().filter(|second| !second.exclusive) {
            second.level.insert(linear, page, space);
        }
        self.enter(linear, page, space);
    }

    /// Puts an entry into the first level.
    fn enter(&mut self, linear: u64, page: Page, space: AddressSpace) {
        let Some((place, displaced)) = self.first.insert(linear, page, space) else {
            return;
        };
        if let Some(victim) = displaced {
            self.recent.forget(victim.linear, victim.size);
            if let Some(second) = self.second.as_mut().filter(|second| second.exclusive) {
                second.level.insert(victim.linear, victim.page, victim.space);
            }
        }
        self.recent.note(linear, place);
        let entry = self.first.entry(place);
        self.remember(entry.linear, entry.size);
    }

    fn remember(&mut self, linear: u64, size: PageSize) {
        (self.last, self.last_mask) = (linear, size.number_mask());
    }

    /// Remembers nothing.
    fn forget(&mut self) {
        (self.last, self.last_mask) = (NO_ENTRY, 0);
        self.recent.clear();
    }

    /// What is looked up from now on is of another address space.
    pub(super) fn enter_space(&mut self, space: AddressSpace) {
        self.forget();
        self.space = space;
    }

    pub(super) fn invalidate(&mut self, linear: u64) {
        self.forget();
        self.first.invalidate(linear, self.space);
        if let Some(second) = &mut self.second {
            second.level.invalidate(linear, self.space);
        }
    }

    pub(super) fn flush(&mut self, keep_global: bool) {
        self.forget();
        self.first.flush(keep_global);
        if let Some(second) = &mut self.second {
            second.level.flush(keep_global);
        }
    }

    /// Drops what the address space in force has, as [`super::array::Array::flush_space`] does.
    pub(super) fn flush_space(&mut self, keep_global: bool) {
        self.forget();
        let space = self.space;
        self.first.flush_space(space, keep_global);
        if let Some(second) = &mut self.second {
            second.level.flush_space(space, keep_global);
        }
    }

    /// The entries of each level.
    #[cfg(test)]
    pub(super) fn entries(&self) -> [Vec<Entry>; 2] {
        let second = self.second.as_ref().map(|second| second.level.all());
        [self.first.all(), second.unwrap_or_default()]
    }
}

crate::state! {
    Side {
        saved: last, last_mask, recent, space, first;
        made: second;
        derived: missed_first, missed_all;
        then: check;
    }
}

crate::state! { Second { saved: level; derived: exclusive, latency; } }

impl Side {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.recent.places().all(|place| self.first.has(place)));
    }

    /// The address space that is looked up in.
    pub(super) fn space(&self) -> AddressSpace {
        self.space
    }
}
