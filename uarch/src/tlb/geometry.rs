//! The TLBs of a part, as data.

/// Size of a page, or of what one entry of a TLB translates. The value is the number of the lowest
/// address bit that selects a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB.
    Kib4 = 12,
    /// 64 KiB.
    Kib64 = 16,
    /// 2 MiB.
    Mib2 = 21,
    /// 4 MiB.
    Mib4 = 22,
    /// 1 GiB.
    Gib1 = 30,
}

impl PageSize {
    /// How many bytes it is.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// The address bits that select a page.
    pub(super) const fn number_mask(self) -> u64 {
        !(self.bytes() - 1)
    }

    /// The number of the lowest of them.
    pub(super) const fn shift(self) -> u32 {
        self as u32
    }
}

/// How many entries a page may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Associativity {
    /// That many; which ones is decided by the low bits of the page number.
    Ways(u16),
    /// Any.
    Full,
}

/// Which entry makes room where all that a page may be in are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one.
    Lru,
    /// The one that a binary tree of bits leads to, each of which points away from the half that was
    /// used last. The number of ways is a power of two, 64 at most.
    PseudoLru,
    /// One after the other, whether used or not.
    RoundRobin,
}

/// The entries that pages of one size take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Size of the page.
    pub page: PageSize,
    /// What one entry translates of it: all, or a part of a page that takes several entries.
    pub entry: PageSize,
}

/// One array of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    /// How many entries there are.
    pub entries: u16,
    /// How many of them a page may be in.
    pub associativity: Associativity,
    /// Which of these makes room.
    pub replacement: Replacement,
    /// The pages that it holds.
    pub holds: &'static [Held],
}

impl ArrayGeometry {
    /// In how many entries a page may be.
    #[must_use]
    pub const fn ways(&self) -> u16 {
        match self.associativity {
            Associativity::Ways(ways) => ways,
            Associativity::Full => self.entries,
        }
    }

    /// Whether it holds pages of that size.
    #[must_use]
    pub const fn holds(&self, page: PageSize) -> bool {
        let mut row = 0;
        while row < self.holds.len() {
            if self.holds[row].page.shift() == page.shift() {
                return true;
            }
            row += 1;
        }
        false
    }
}

/// The TLBs for data or those for code. At each level, a page size is in one array at most.
#[derive(Clone, Copy, Debug)]
pub struct SideGeometry {
    /// The arrays of the first level.
    pub first: &'static [ArrayGeometry],
    /// The second level.
    pub second: Option<SecondLevel>,
}

/// A second level of TLBs.
#[derive(Clone, Copy, Debug)]
pub struct SecondLevel {
    /// Its arrays.
    pub arrays: &'static [ArrayGeometry],
    /// Whether a page is in one level at most: a hit moves it to the first, whose victim takes its turn
    /// in the second. Otherwise a walk fills both, and the victim of the first is gone.
    pub exclusive: bool,
    /// Cycles that an access takes longer if its page is found here.
    pub latency: u64,
}

/// The TLBs of a part.
#[derive(Clone, Copy, Debug)]
pub struct TlbGeometry {
    /// For loads and stores.
    pub data: SideGeometry,
    /// For instruction fetches.
    pub code: SideGeometry,
    /// A second level for both, which has page-directory entries too.
    pub shared_second: Option<SharedSecondLevel>,
    /// Entries of the cache of page-directory entries, which page walks look up; zero if there is none.
    pub directory_entries: u16,
    /// Cycles that a walk takes for each entry that it reads, beyond what the entry's line is waited for if
    /// it is not in the data cache.
    pub walk_read: u64,
    /// What keeps translations where page tables are loaded again.
    pub flush_filter: Option<FlushFilterGeometry>,
}

/// A second level that data and code share. It holds pages of 2 MiB and, where the pages are smaller, the
/// page-directory entries for them: of a small page, it makes the walk short.
#[derive(Clone, Copy, Debug)]
pub struct SharedSecondLevel {
    /// Its entries; small pages are in `holds` for their page-directory entries.
    pub array: ArrayGeometry,
    /// Cycles that an access takes longer if it is asked.
    pub latency: u64,
}

/// A flush filter: what it has room for.
#[derive(Clone, Copy, Debug)]
pub struct FlushFilterGeometry {
    /// How many blocks of page tables it monitors.
    pub blocks: u8,
    /// How many address spaces it tells apart, 127 at most.
    pub address_spaces: u8,
}

/// The array of a level that holds pages of that size.
#[must_use]
pub const fn array_for(level: &[ArrayGeometry], page: PageSize) -> Option<&ArrayGeometry> {
    let mut row = 0;
    while row < level.len() {
        if level[row].holds(page) {
            return Some(&level[row]);
        }
        row += 1;
    }
    None
}

crate::state! { PageSize: Kib4, Kib64, Mib2, Mib4, Gib1 }
