//! A bounded log of pages, for several readers that each read what is new to them.

use std::cell::Cell;

/// How many pages a reader may be behind before it has to take all pages for named.
const KEPT: usize = 64;

/// The pages that something happened to, in order, of which the last [`KEPT`] are kept. Each reader
/// remembers how many it has seen.
pub(crate) struct PageLog {
    pages: [Cell<u64>; KEPT],
    count: Cell<u64>,
}

impl Default for PageLog {
    fn default() -> Self {
        Self { pages: [const { Cell::new(0) }; KEPT], count: Cell::new(0) }
    }
}

impl PageLog {
    /// Adds the page at guest-physical address `page`.
    pub(crate) fn push(&self, page: u64) {
        let count = self.count.get();
        self.pages[count as usize % KEPT].set(page);
        self.count.set(count + 1);
    }

    /// Takes all pages for named, to every reader.
    pub(crate) fn push_all(&self) {
        self.count.set(self.count.get() + KEPT as u64 + 1);
    }

    /// How many pages there have been.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// The pages since there were `seen`; `None` if there are too many to name them.
    pub(crate) fn since(&self, seen: u64) -> Option<impl Iterator<Item = u64> + Clone> {
        let count = self.count.get();
        let missed = count.checked_sub(seen).filter(|&missed| missed <= KEPT as u64)?;
        Some((count - missed..count).map(|n| self.pages[n as usize % KEPT].get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &PageLog, seen: u64) -> Option<Vec<u64>> {
        log.since(seen).map(Iterator::collect)
    }

    #[test]
    fn a_reader_sees_what_it_missed_in_order() {
        let log = PageLog::default();
        assert_eq!(since(&log, 0), Some(vec![]));
        log.push(0x1000);
        log.push(0x3000);
        log.push(0x1000);
        assert_eq!(since(&log, 0), Some(vec![0x1000, 0x3000, 0x1000]));
        assert_eq!(since(&log, 2), Some(vec![0x1000]));
        assert_eq!(since(&log, 3), Some(vec![]));
    }

    /// 64 pages are kept: one more, and a reader that has seen none is told so.
    #[test]
    fn a_reader_too_far_behind_is_told() {
        let log = PageLog::default();
        (0..64).for_each(|n| log.push(n << 12));
        assert_eq!(since(&log, 0), Some((0..64).map(|n| n << 12).collect()));
        log.push(64 << 12);
        assert_eq!(since(&log, 0), None);
        assert_eq!(since(&log, 1), Some((1..65).map(|n| n << 12).collect()));
        assert_eq!(log.count(), 65);
    }
}
