//! The cache of page-directory entries.

use super::flush_filter::AddressSpace;
use super::geometry::PageSize;
use crate::state::{State, Visitor, list};

/// The page-directory entries that page walks read last, fully associative, least recently used out.
///
/// The entries name page tables. One that maps a large page is in the TLBs instead.
#[derive(Clone, Debug)]
pub(super) struct DirectoryCache {
    /// The address spaces that the cached entries are of, and the addresses that they are for, divided by
    /// what an entry spans; the last used one first.
    cached: Vec<(AddressSpace, u64)>,
    capacity: usize,
    /// What an entry of the paging mode spans.
    span: PageSize,
}

impl DirectoryCache {
    pub(super) fn new(entries: u16) -> Self {
        let capacity = usize::from(entries);
        Self { cached: Vec::with_capacity(capacity), capacity, span: PageSize::Mib2 }
    }

    /// Whether the entry for an address is there; it counts as used.
    pub(super) fn use_entry(&mut self, linear: u64, space: AddressSpace) -> bool {
        let number = linear >> self.span.shift();
        let place = self.cached.iter().position(|&cached| cached == (space, number));
        if let Some(place) = place {
            self.cached[..=place].rotate_right(1);
        }
        place.is_some()
    }

    /// A walk read the entry for an address.
    pub(super) fn insert(&mut self, linear: u64, span: PageSize, space: AddressSpace) {
        if span != self.span {
            self.span = span;
            self.cached.clear();
        }
        if self.capacity == 0 || self.use_entry(linear, space) {
            return;
        }
        self.cached.truncate(self.capacity - 1);
        self.cached.insert(0, (space, linear >> span.shift()));
    }

    pub(super) fn flush(&mut self) {
        self.cached.clear();
    }
}

impl State for DirectoryCache {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("DirectoryCache");
        let Self { cached, capacity, span } = self;
        list(visitor, cached, *capacity, Default::default);
        span.visit(visitor);
    }
}
