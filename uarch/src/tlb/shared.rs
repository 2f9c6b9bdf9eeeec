//! A second level that data and code share: large pages, and the page-directory entries that name page
//! tables.

use super::Page;
use super::array::Array;
use super::flush_filter::AddressSpace;
use super::geometry::{PageSize, SharedSecondLevel};

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The page-directory entry that names the page table.
    Table,
    /// The large page.
    Page,
}

/// The second level. Each entry stands for 2 MiB of linear addresses. One that stands for a page-directory
/// entry is marked as one of small pages.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    array: Array,
    pub(super) latency: u64,
}

impl Shared {
    pub(super) fn new(geometry: &SharedSecondLevel) -> Self {
        Self { array: Array::new(&geometry.array), latency: geometry.latency }
    }

    /// What it has for an address; that counts as used.
    pub(super) fn use_entry(&mut self, linear: u64, space: AddressSpace) -> Option<Found> {
        let slot = self.array.find(linear, space)?;
        self.array.touch(slot);
        Some(match self.array.entry(slot).page.size {
            PageSize::Kib4 | PageSize::Kib64 => Found::Table,
            PageSize::Mib2 | PageSize::Mib4 | PageSize::Gib1 => Found::Page,
        })
    }

    /// A walk for an address found a page. Of a small page, the page-directory entry is put in, which is
    /// never global.
    pub(super) fn insert(&mut self, linear: u64, page: Page, space: AddressSpace) {
        let is_large = matches!(page.size, PageSize::Mib2 | PageSize::Mib4 | PageSize::Gib1);
        let page = Page { global: page.global && is_large, ..page };
        let space = if page.global { 0 } else { space };
        if let Some(size) = self.array.entry_size(page.size) {
            self.array.insert(linear, page, size, space);
        }
    }

    /// Drops the page of an address, and all page-directory entries of the address space.
    pub(super) fn invalidate(&mut self, linear: u64, space: AddressSpace) {
        self.array.invalidate(linear, space);
        self.array.drop_where(|entry| {
            entry.page.size.bytes() < entry.size.bytes() && entry.space == space
        });
    }

    /// Drops what an address space has, and what is global unless that is to be kept.
    pub(super) fn flush(&mut self, space: AddressSpace, keep_global: bool) {
        self.array.flush_space(space, keep_global);
    }

    /// The entries.
    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<super::array::Entry> {
        self.array.all().collect()
    }
}

crate::state! { Shared { saved: array; derived: latency; } }
