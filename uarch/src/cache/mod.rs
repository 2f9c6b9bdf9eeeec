//! Caches.

/// How memory is cached (Intel SDM volume 3, "Methods of Caching Available").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// UC: every access goes to the bus, in order.
    Uncacheable,
    /// WC: not cached; writes are collected in buffers.
    WriteCombining,
    /// WT: reads are cached, writes go to the cache and to the bus.
    WriteThrough,
    /// WP: reads are cached, writes go to the bus and drop the line everywhere.
    WriteProtected,
    /// WB: reads and writes are cached.
    WriteBack,
}
