//! The states of a line in a cache.

/// What a cache may say of a line: MESI, and the fifth state of MOESI (AMD64 Architecture Programmer's
/// Manual, volume 2, "Memory Coherency and Protocol").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LineState {
    /// It does not have it.
    #[default]
    Invalid,
    /// Others may have it too; it may be read.
    Shared,
    /// No other has it, and memory has the same.
    Exclusive,
    /// Others may have it too, memory is out of date, and this cache answers for it.
    Owned,
    /// No other has it, and memory is out of date.
    Modified,
}

impl LineState {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [Self; 5] =
        [Self::Invalid, Self::Shared, Self::Exclusive, Self::Owned, Self::Modified];

    /// Whether memory is out of date, so that the line has to be written back.
    #[inline]
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        matches!(self, Self::Owned | Self::Modified)
    }

    /// Whether no other processor has the line, so that it may be written without asking.
    #[inline]
    #[must_use]
    pub const fn is_sole(self) -> bool {
        matches!(self, Self::Exclusive | Self::Modified)
    }

    /// Whether the cache has the line.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        !matches!(self, Self::Invalid)
    }
}
