//! What the caches of a part are like, as data.

/// The caches of a part: their sizes, and the policies in which parts differ.
#[derive(Clone, Copy, Debug)]
pub struct CacheGeometry {
    /// Bytes of a line, the same in every cache.
    pub line: u32,
    /// The first-level instruction cache.
    pub code: ArrayGeometry,
    /// The first-level data cache.
    pub data: ArrayGeometry,
    /// The processor's second-level cache, if it has one.
    pub second_level: Option<SecondLevel>,
    /// A second-level cache on the board, shared by all processors: look-aside, written through.
    pub board: Option<ArrayGeometry>,
    /// What happens to a dirty line that another processor reads.
    pub protocol: Protocol,
    /// Who is asked for a line that a processor does not have.
    pub coherence: Coherence,
    /// Whether a line may be in both first-level caches.
    pub code_and_data: CodeAndData,
    /// Aligned bytes that one read of the instruction cache gives.
    pub fetch_window: u32,
    /// Aligned bytes of one read of code that may not be cached.
    pub uncached_fetch: u32,
    /// A miss of the instruction cache brings in the next line too.
    pub next_line_fetch: bool,
    /// A write that misses the data cache brings the line in.
    pub write_allocate: bool,
    /// How a processor gets the right to write a line that it holds Shared.
    pub shared_write: SharedWrite,
    /// Where the page walker reads.
    pub walks: WalkPath,
    /// What a locked access to a line that may be cached locks.
    pub locks: LockPolicy,
    /// An access to memory that may not be cached counts as a miss of the data cache.
    pub uncached_is_miss: bool,
    /// A snooped dirty line goes to memory in a bus cycle of its own, before the requester's.
    pub snooped_write_back: bool,
    /// What a device's read does to a line that a processor holds.
    pub device_read: DeviceRead,
    /// What a prefetch instruction is to the caches.
    pub prefetches: Prefetches,
    /// Where prefetch instructions with the hints T1 and T2 bring their line.
    pub outer_prefetch: PrefetchInto,
    /// How many lines that prefetches have asked for may be on their way at once.
    pub prefetch_fills: PrefetchFills,
    /// The write-combining buffers.
    pub write_combining: WriteCombiningGeometry,
    /// The hardware prefetcher, if there is one.
    pub prefetcher: Option<PrefetcherGeometry>,
    /// Banks of the data cache, a power of two.
    pub banks: u32,
    /// Bytes of a bank.
    pub bank_width: u32,
}

/// Size and replacement of an array of lines.
#[derive(Clone, Copy, Debug)]
pub struct ArrayGeometry {
    /// Sets, a power of two.
    pub sets: u32,
    /// Ways, a power of two, 16 at most.
    pub ways: u32,
    /// Which line of a full set goes.
    pub replacement: Replacement,
}

/// Which line of a full set is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The one used longest ago.
    Lru,
    /// The one that a binary tree of bits points to, each of which points away from the half used last.
    TreePseudoLru,
}

/// A processor's second-level cache.
#[derive(Clone, Copy, Debug)]
pub struct SecondLevel {
    /// Its size.
    pub array: ArrayGeometry,
    /// What it holds of the first-level caches' lines.
    pub inclusion: Inclusion,
    /// Cycles that a hit in it takes beyond a first-level hit.
    pub latency: u64,
    /// What lines go over to it and from it.
    pub bus: SecondLevelBus,
}

/// The data bus between a processor and its second-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondLevelBus {
    /// Bytes that it moves at once, a power of two.
    pub width: u32,
    /// Cycles of the processor that this takes.
    pub period: u64,
}

impl SecondLevelBus {
    /// Cycles of the processor that a line of so many bytes takes.
    pub(super) const fn cycles(self, line: u32) -> u64 {
        line.div_ceil(self.width) as u64 * self.period
    }
}

/// What a second-level cache holds of the lines of the first-level caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    /// All of them: a line that leaves it leaves them too.
    Inclusive,
    /// None: a line moves up, and what it displaces moves down.
    Exclusive,
}

/// What happens to a dirty line that another processor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// It is written to memory and becomes Shared.
    Mesi,
    /// It becomes Owned, and memory stays out of date.
    Moesi,
}

/// Who is asked for a line that a processor does not have, or may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// The caches of all others.
    Snooping,
    /// Those that have it, which directories know that hold a copy of the tags of every second level. Which
    /// of the directories has a line, an address hash decides; to a line, one is as far away as another here,
    /// so that there is no such hash.
    TagDirectories,
}

/// What a prefetch instruction is to the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetches {
    /// An access, which may miss (AMD BKDG, event 4Bh).
    Accesses,
    /// A request of its own kind, to the first or to the second level, which none of the accesses' signals
    /// counts.
    Requests,
}

/// Whether a line may be in both first-level caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAndData {
    /// It may, Shared in both; a write drops it from the instruction cache.
    BothCaches,
    /// It may not: when one cache gets it, the other casts it out to the second level.
    OneCache,
}

/// How a processor gets the right to write a line that it holds Shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWrite {
    /// It has the others drop it, and holds it Modified.
    Invalidate,
    /// It writes to memory, at which the others drop it, and holds it Exclusive.
    WriteThrough,
}

/// Where the page walker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkPath {
    /// In the data cache, as a load does.
    DataCache,
    /// In the second-level cache; a line that is in the data cache is found there, and none is put there.
    SecondLevel,
}

/// What a locked access to a line that may be cached locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPolicy {
    /// The line in the cache, unless the access crosses lines.
    Cache,
    /// The bus, always.
    Bus,
}

/// What a device's read does to a line that a processor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRead {
    /// What a processor's read does.
    Shares,
    /// Nothing: it gets the data, and no cache has got the line.
    Leaves,
}

/// Which cache a prefetch brings its line into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchInto {
    /// The data cache.
    DataCache,
    /// The second-level cache only.
    SecondLevel,
}

/// How many lines may be on their way into a cache because prefetches have asked for them, by the cache. With
/// none, a line is there when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchFills {
    /// Into the data cache.
    pub data: usize,
    /// Into the second level, and no further.
    pub second_level: usize,
}

impl PrefetchFills {
    /// Lines are there when they are asked for.
    pub const AT_ONCE: Self = Self { data: 0, second_level: 0 };
}

/// The write-combining buffers of a processor, each of the size of a line.
#[derive(Clone, Copy, Debug)]
pub struct WriteCombiningGeometry {
    /// How many there are. With none, write-combining memory is written like uncacheable memory.
    pub buffers: usize,
    /// Aligned bytes that one transaction carries of a buffer that is not full.
    pub partial: u32,
}

/// A hardware prefetcher, which watches the misses of the data cache and fetches into the second level.
#[derive(Clone, Copy, Debug)]
pub struct PrefetcherGeometry {
    /// How many sequences of misses it follows.
    pub streams: usize,
    /// A sequence of writes is prefetched to be written.
    pub for_ownership: bool,
}
