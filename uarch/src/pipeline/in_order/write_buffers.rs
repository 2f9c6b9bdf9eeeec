//! The write buffers: writes that the data cache could not take, on their way out in order.

/// Most write buffers that a part may have.
pub(super) const MOST: usize = 8;

/// The write buffers of a processor.
///
/// Only when the last writes leave is kept, as many as there may be buffers, oldest first. They leave one
/// after the other, so a part with `n` buffers has none free while the `n`th last write is still there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteBuffers {
    leaves: [u64; MOST],
}

impl WriteBuffers {
    /// When the last write has left.
    pub(super) fn empty_at(&self) -> u64 {
        self.leaves[MOST - 1]
    }

    /// When one of `buffers` is free.
    pub(super) fn free_at(&self, buffers: usize) -> u64 {
        self.leaves[MOST - buffers]
    }

    /// A write enters at `now`, when a buffer is free, and takes `clocks` to leave.
    pub(super) fn enter(&mut self, now: u64, clocks: u64) {
        let leaves = self.empty_at().max(now) + clocks;
        self.leaves.copy_within(1.., 0);
        self.leaves[MOST - 1] = leaves;
    }
}

crate::state! { WriteBuffers { cycles: leaves; } }
