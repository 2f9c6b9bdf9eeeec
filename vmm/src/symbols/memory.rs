//! Guest-physical memory as it is at the end of a run.

use std::ops::Range;

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// Guest-physical memory.
#[derive(Clone, Copy)]
pub struct GuestMemory<'a> {
    /// Where RAM is: each contiguous range, by address.
    pub ranges: &'a [Range<u64>],
    /// Reads bytes at an address; false if any of them are not RAM.
    pub read: &'a dyn Fn(u64, &mut [u8]) -> bool,
}

impl GuestMemory<'_> {
    /// The addresses of all occurrences of `pattern` that lie in one range, in order.
    #[must_use]
    pub fn find(&self, pattern: &[u8]) -> Vec<u64> {
        let finder = memchr::memmem::Finder::new(pattern);
        let mut found = Vec::new();
        // What follows a chunk is read with it, for a pattern that lies across its end.
        let more = pattern.len().saturating_sub(1) as u64;
        let mut buffer = Vec::new();
        for range in self.ranges {
            let mut at = range.start;
            while at < range.end {
                let next = range.end.min(at.saturating_add(CHUNK));
                buffer.resize((range.end.min(next.saturating_add(more)) - at) as usize, 0);
                if (self.read)(at, &mut buffer) {
                    found.extend(finder.find_iter(&buffer).map(|offset| at + offset as u64));
                }
                at = next;
            }
        }
        found
    }

    /// The bytes from `before` ahead of `address` to `after` behind it, as far as they are in its
    /// range, and the address of the first.
    #[must_use]
    pub fn around(&self, address: u64, before: u64, after: u64) -> Option<(u64, Vec<u8>)> {
        let range = self.ranges.iter().find(|range| range.contains(&address))?;
        let start = address.saturating_sub(before).max(range.start);
        let end = address.saturating_add(after).min(range.end);
        let mut bytes = vec![0; (end - start) as usize];
        (self.read)(start, &mut bytes).then_some((start, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RAM of these bytes from 1000h on, in two ranges that are parted at `parted`.
    fn with<T>(bytes: &[u8], parted: u64, test: impl Fn(&GuestMemory<'_>) -> T) -> T {
        let ranges = [0x1000..parted, parted..0x1000 + bytes.len() as u64];
        let read = |address: u64, out: &mut [u8]| {
            let from = (address - 0x1000) as usize;
            bytes.get(from..from + out.len()).is_some_and(|bytes| {
                out.copy_from_slice(bytes);
                true
            })
        };
        test(&GuestMemory { ranges: &ranges, read: &read })
    }

    /// At the beginning, across the end of a chunk, at the end; not across the end of a range.
    #[test]
    fn a_pattern_is_found_where_it_lies_in_one_range() {
        let mut bytes = vec![0; 3 << 20];
        let end = bytes.len();
        for at in [0, (1 << 20) - 2, (2 << 20) + 0x1000 - 1, end - 4] {
            bytes[at..at + 4].copy_from_slice(b"here");
        }
        let parted = 0x1000 + (2 << 20) + 0x1000;
        let found = with(&bytes, parted, |memory| memory.find(b"here"));
        assert_eq!(found, [0x1000, 0x1000 + (1 << 20) - 2, 0x1000 + (3 << 20) - 4]);
    }

    #[test]
    fn what_is_around_ends_with_the_range() {
        let bytes: Vec<u8> = (0..100).collect();
        let around = |at| with(&bytes, 0x1032, |memory| memory.around(at, 10, 20));
        assert_eq!(around(0x1004), Some((0x1000, (0..24).collect())));
        assert_eq!(around(0x102A), Some((0x1020, (32..50).collect())));
        assert_eq!(around(0x1032), Some((0x1032, (50..70).collect())));
        assert_eq!(around(0x1064), None);
    }
}
