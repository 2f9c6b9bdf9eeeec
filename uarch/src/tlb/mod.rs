//! The translation lookaside buffers of a processor.
//!
//! ```text
//!   look up ──> first level ──(miss)──> second level, if there is one ──(miss)──> page walk ──> fill
//!                                                                                 by the caller
//! ```
//!
//! What is looked up are linear addresses with paging enabled, one look-up for each access to a page. No
//! translations are kept, only which pages have one: what they are translated to, who executes the guest
//! knows.

mod array;
mod directory;
mod flush_filter;
mod geometry;
mod index;
mod level;
mod recent;
mod replacement;
mod shared;
mod side;
mod threads;

pub use geometry::{
    ArrayGeometry, Associativity, FlushFilterGeometry, Held, PageSize, Replacement, SecondLevel,
    SharedSecondLevel, SideGeometry, TlbGeometry, array_for,
};
use pmu_model::Signal;

use self::directory::DirectoryCache;
use self::flush_filter::{AddressSpace, FlushFilter, Switch};
use self::shared::{Found, Shared};
use self::side::Side;
use self::threads::Threads;
use crate::occurrences::Occurrences;
use crate::state::Visitor;

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lookup {
    /// The page is in the first level.
    Hit,
    /// It was in the second level, and is in the first now.
    SecondLevel {
        /// Cycles that the access takes longer.
        latency: u64,
    },
    /// It is in none. The page tables have to be walked, and the page that was found filled in.
    Miss,
}

/// What a page walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Size of the page.
    pub size: PageSize,
    /// Whether it is global: the G bit of its entry, with CR4.PGE set.
    pub global: bool,
}

/// Where a page walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFrom {
    /// At the table that CR3 points to: every level is read.
    Root,
    /// At the page table, because the page-directory entry is cached: only the last level is read.
    PageTable,
    /// At its end, because a second level that has page-directory entries has the page: nothing is read.
    Page,
}

/// The TLBs of one processor, or of a core whose hardware threads are processors, and its cache of
/// page-directory entries.
#[derive(Clone, Debug)]
pub struct Tlbs {
    data: Side,
    code: Side,
    shared: Option<Shared>,
    directory: DirectoryCache,
    threads: Threads,
    flush_filter: Option<FlushFilter>,
    /// The address space that walks are for; 0 if none are told apart.
    space: AddressSpace,
}

impl Tlbs {
    /// Empty ones, of a core of so many threads.
    ///
    /// # Panics
    ///
    /// If the sets of an array are not a power of two, or a tree of bits cannot choose between its ways.
    #[must_use]
    pub fn new(geometry: &TlbGeometry, threads: usize) -> Self {
        let mut tlbs = Self {
            data: Side::new(&geometry.data, Signal::DtlbMissL1, Signal::DtlbMissLast),
            code: Side::new(&geometry.code, Signal::ItlbMissL1, Signal::ItlbMissLast),
            shared: geometry.shared_second.as_ref().map(Shared::new),
            directory: DirectoryCache::new(geometry.directory_entries),
            threads: Threads::new(threads),
            flush_filter: geometry.flush_filter.map(FlushFilter::new),
            space: 0,
        };
        tlbs.choose(0);
        tlbs
    }

    /// From now on, this thread of the core runs; the first does until then.
    #[inline]
    pub fn choose(&mut self, thread: usize) {
        if self.threads.are_several() {
            let space = self.threads.choose(thread);
            // What was found last is known of a space.
            if space != self.space {
                self.enter_space(space);
            }
        }
    }

    /// The running thread goes on with other page tables. What it had before is dropped if no other thread
    /// has it too.
    fn enter_tables(&mut self, cr3: u64) {
        if self.threads.load(cr3) {
            self.drop_pages(true);
        }
        self.enter_space(self.threads.space());
    }

    fn enter_space(&mut self, space: AddressSpace) {
        self.space = space;
        self.data.enter_space(space);
        self.code.enter_space(space);
    }

    /// Looks up the page of a load or store. Fires [`Signal::DtlbMissL1`] if the second level has it.
    #[inline(always)]
    pub fn data(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        self.data.look_up(linear, occurrences)
    }

    /// Uses the page of a load or store, if it is among those of the first level that were used recently:
    /// whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn has_recent_data(&mut self, linear: u64) -> bool {
        self.data.has_recent(linear)
    }

    /// Whether the page of a load or store is the one used last, so that nothing happens when it is used.
    #[inline(always)]
    #[must_use]
    pub fn used_last_data(&self, linear: u64) -> bool {
        self.data.used_last(linear)
    }

    /// As [`Self::has_recent_data`], of a page that is marked: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn uses_marked_data(&mut self, linear: u64) -> bool {
        self.data.use_marked(linear)
    }

    /// Marks the page of a load or store, of which the caller knows more, if it was used recently. It is marked until
    /// it has left the first level, or other pages are asked for than those of this address space.
    pub fn mark_data(&mut self, linear: u64) {
        self.data.mark(linear);
    }

    /// What the caller knew of a page is no more so.
    pub fn unmark_data(&mut self, linear: u64) {
        self.data.unmark(linear);
    }

    /// The same of all pages.
    pub fn unmark_all_data(&mut self) {
        self.data.unmark_all();
    }

    /// As [`Self::has_recent_data`], of an instruction fetch.
    #[inline(always)]
    pub fn has_recent_code(&mut self, linear: u64) -> bool {
        self.code.has_recent(linear)
    }

    /// Looks up the page of an instruction fetch. Fires [`Signal::ItlbMissL1`] if the second level has
    /// it.
    #[inline(always)]
    pub fn code(&mut self, linear: u64, occurrences: &mut Occurrences) -> Lookup {
        self.code.look_up(linear, occurrences)
    }

    /// Enters the page that a walk found for a load or store. Fires [`Signal::DtlbMissLast`].
    pub fn fill_data(&mut self, linear: u64, page: Page, occurrences: &mut Occurrences) {
        self.data.fill(linear, page, occurrences);
    }

    /// Enters the page that a walk found for an instruction fetch. Fires [`Signal::ItlbMissLast`].
    pub fn fill_code(&mut self, linear: u64, page: Page, occurrences: &mut Occurrences) {
        self.code.fill(linear, page, occurrences);
    }

    /// Cycles of looking into the second level that both share, if there is one.
    #[must_use]
    pub fn shared_latency(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.latency)
    }

    /// Which tables a walk for an address has to read.
    pub fn walk_from(&mut self, linear: u64) -> WalkFrom {
        if let Some(shared) = &mut self.shared {
            return match shared.use_entry(linear, self.space) {
                Some(Found::Page) => WalkFrom::Page,
                Some(Found::Table) => WalkFrom::PageTable,
                None => WalkFrom::Root,
            };
        }
        if self.directory.use_entry(linear, self.space) {
            WalkFrom::PageTable
        } else {
            WalkFrom::Root
        }
    }

    /// A walk read the page-directory entry for an address, which names a page table. It spans
    /// [`PageSize::Mib2`] with PAE and in long mode, else [`PageSize::Mib4`].
    pub fn fill_directory(&mut self, linear: u64, span: PageSize) {
        self.directory.insert(linear, span, self.space);
    }

    /// A walk found a page that was not in the second level which both share.
    pub fn fill_shared(&mut self, linear: u64, page: Page) {
        if let Some(shared) = &mut self.shared {
            shared.insert(linear, page, self.space);
        }
    }

    /// Drops all pages and all page-directory entries: PG or PE in CR0, or PSE, PGE or PAE in CR4, were
    /// changed (AMD 24593, Translation-Lookaside Buffer; Intel 243192, Invalidating the TLBs). CR3 may have
    /// been loaded with `cr3` since it was last told. On a core of several threads, it is the running one
    /// that did so, and other address spaces than its own stay.
    pub fn flush(&mut self, cr3: u64) {
        if self.threads.are_several() {
            self.enter_tables(cr3);
        }
        self.drop_pages(false);
        if let Some(filter) = &mut self.flush_filter {
            filter.restart();
        }
    }

    /// CR3 is loaded, by a MOV or a task switch: drops all pages but global ones, and all page-directory
    /// entries. A flush filter may prevent that. On a core of several threads, it is the running one that
    /// loads it, and other address spaces than its new one stay.
    pub fn load_page_tables(&mut self, cr3: u64) {
        if self.flush_filter.is_none() {
            self.enter_tables(cr3);
            return self.drop_pages(true);
        }
        let switch = self.flush_filter.as_mut().map(|filter| filter.load(cr3));
        let (Switch::Keep(space) | Switch::Flush(space)) = switch.unwrap_or(Switch::Flush(0));
        if !matches!(switch, Some(Switch::Keep(_))) {
            self.drop_pages(true);
        }
        self.enter_space(space);
    }

    /// A walk read these entries, by guest-physical address. Whether a flush filter has to know when they
    /// are written.
    pub fn monitor(&mut self, entries: &[u64]) -> bool {
        let Some(filter) = &mut self.flush_filter else { return false };
        entries.iter().fold(false, |_, &entry| filter.monitor(entry))
    }

    /// Guest-physical addresses in all pages whose being written a flush filter has to know.
    pub fn monitored(&self) -> impl Iterator<Item = u64> + '_ {
        self.flush_filter.iter().flat_map(FlushFilter::monitored)
    }

    /// Memory was written within a page.
    pub fn written(&mut self, physical: u64) {
        if let Some(filter) = &mut self.flush_filter {
            filter.written(physical);
        }
    }

    /// Memory may have been written anywhere.
    pub fn written_anywhere(&mut self) {
        if let Some(filter) = &mut self.flush_filter {
            filter.restart();
        }
    }

    /// Enables or disables the flush filter, if there is one: it is enabled until then.
    pub fn enable_flush_filter(&mut self, enabled: bool) {
        if let Some(filter) = &mut self.flush_filter {
            filter.enable(enabled);
        }
    }

    /// Drops the pages of all address spaces; of a core of several threads, those of the one in force.
    fn drop_pages(&mut self, keep_global: bool) {
        if self.threads.are_several() {
            self.data.flush_space(keep_global);
            self.code.flush_space(keep_global);
        } else {
            self.data.flush(keep_global);
            self.code.flush(keep_global);
        }
        if let Some(shared) = &mut self.shared {
            shared.flush(self.space, keep_global);
        }
        self.directory.flush();
    }

    /// Drops the page of an address, global or not, and all page-directory entries: INVLPG (AMD 24593,
    /// EFER.TCE: without it, upper-level entries go whether or not they led to the page).
    pub fn invalidate(&mut self, linear: u64) {
        self.data.invalidate(linear);
        self.code.invalidate(linear);
        if let Some(shared) = &mut self.shared {
            shared.invalidate(linear, self.space);
        }
        self.directory.flush();
    }
}

crate::state! {
    Tlbs {
        saved: data, code, directory, threads, space;
        made: shared, flush_filter;
        then: check;
    }
}

crate::state! { Page { saved: size, global; } }

impl Tlbs {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.data.space() == self.space && self.code.space() == self.space);
        // As many as tags have room for.
        visitor.check(self.space < 128);
    }
}

#[cfg(test)]
mod generated_tests;
#[cfg(test)]
mod tests;
