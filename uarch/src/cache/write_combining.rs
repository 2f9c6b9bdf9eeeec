//! Write-combining buffers: writes to memory that is not cached, collected until they fill a line.
//!
//! Source: AMD 22007E, appendix C; AMD 25112, appendix B; Intel SDM volume 3, "Buffering of Write Combining
//! Memory Locations".

use super::array::NO_NUMBER;
use crate::state::{State, Visitor, list};

/// What a buffer has collected of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// The line's number.
    pub(super) line: u64,
    /// Which of its bytes were written, a bit each.
    pub(super) bytes: u64,
    /// Streaming stores filled it, not stores to write-combining memory.
    pub(super) streaming: bool,
}

/// The write-combining buffers of a processor, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct WriteCombining {
    buffers: Vec<Buffer>,
    capacity: usize,
}

impl WriteCombining {
    pub(super) fn new(capacity: usize) -> Self {
        Self { buffers: Vec::with_capacity(capacity), capacity }
    }

    /// Adds bytes of a line. What has to be written for it: the oldest buffer if none was free for
    /// the line, and the line's own once it is full.
    pub(super) fn write(
        &mut self,
        line: u64,
        bytes: u64,
        full: u64,
        streaming: bool,
    ) -> (Option<Buffer>, Option<Buffer>) {
        let found = self.buffers.iter().position(|buffer| buffer.line == line);
        let mut evicted = None;
        let place = found.unwrap_or_else(|| {
            if self.buffers.len() == self.capacity {
                evicted = Some(self.buffers.remove(0));
            }
            self.buffers.push(Buffer { line, bytes: 0, streaming });
            self.buffers.len() - 1
        });
        self.buffers[place].bytes |= bytes;
        let complete = self.buffers[place].bytes == full;
        (evicted, complete.then(|| self.buffers.remove(place)))
    }

    /// Takes out the buffer of a line.
    pub(super) fn take(&mut self, line: u64) -> Option<Buffer> {
        let place = self.buffers.iter().position(|buffer| buffer.line == line)?;
        Some(self.buffers.remove(place))
    }

    /// Takes out the oldest buffer.
    pub(super) fn take_oldest(&mut self) -> Option<Buffer> {
        (!self.buffers.is_empty()).then(|| self.buffers.remove(0))
    }

    /// Whether nothing is waiting to be written.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// What is waiting to be written, the oldest first.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> &[Buffer] {
        &self.buffers
    }
}

crate::state! { Buffer { saved: line, bytes, streaming; } }

impl State for WriteCombining {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("WriteCombining");
        let Self { buffers, capacity } = self;
        list(visitor, buffers, *capacity, || Buffer { line: 0, bytes: 0, streaming: false });
        visitor.check(buffers.iter().all(|buffer| buffer.line < NO_NUMBER));
    }
}
