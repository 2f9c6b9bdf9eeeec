//! The names of `kallsyms`: `kallsyms_num_syms`, `kallsyms_names` and `kallsyms_markers`, which
//! stand behind each other in this order.

use std::ops::Range;

use super::number;
use super::tokens::Tokens;

/// Names that one marker stands for.
const MARKED: usize = 256;
/// Most symbols of a kernel that are looked for.
const MOST: usize = 4 << 20;

/// Where the names of a kernel are.
pub(super) struct Names {
    /// Offset of `kallsyms_num_syms`.
    pub(super) start: usize,
    /// Of each symbol, where its compressed name is.
    pub(super) ranges: Vec<Range<usize>>,
}

impl Names {
    /// The names nearest ahead of a token table, of a kernel with words of so many bytes.
    ///
    /// The markers are found first: the offsets of the 1st, 257th... name, which begin with 0. Between
    /// them and the tokens there may be `kallsyms_seqs_of_names` (Linux 6.2 and 6.3).
    pub(super) fn read(bytes: &[u8], tokens: &Tokens, word: usize) -> Option<Self> {
        // They have a word each before Linux 4.20, 32 bits since then.
        let widths: &[usize] = if word == 4 { &[4] } else { &[4, 8] };
        (0..tokens.start / 4).rev().map(|index| index * 4).find_map(|start| {
            widths.iter().find_map(|&width| {
                let markers = markers(bytes.get(start..tokens.start)?, width);
                // What comes behind the last marker may look like another.
                let counts = [markers.len(), markers.len().saturating_sub(1)];
                counts.iter().find_map(|&count| {
                    // A single zero is no reason to believe anything, and no kernel has so few names.
                    let markers = markers.get(..count).filter(|markers| markers.len() > 1)?;
                    Self::ahead(bytes, start, markers, word)
                })
            })
        })
    }

    /// The names ahead of these markers, which begin at `end`.
    fn ahead(bytes: &[u8], end: usize, markers: &[usize], word: usize) -> Option<Self> {
        let last = *markers.last()?;
        // The names of the last marker follow it, 256 at most, each of 129 bytes at most on average.
        let latest = end.checked_sub(last)?;
        let earliest = latest.saturating_sub(MARKED * 129);
        let mut start = latest - latest % 4;
        while start > earliest {
            start -= 4;
            // The number is a word before Linux 4.20 and 32 bits since then, both aligned to a word.
            let Some(number_at) = start.checked_sub(word) else { break };
            let count = number(bytes, number_at, 4)? as usize;
            if (1..=MOST).contains(&count) && count.div_ceil(MARKED) == markers.len() {
                let ranges = ranges(bytes, start, end, count, markers);
                if let Some(ranges) = ranges {
                    return Some(Self { start: number_at, ranges });
                }
            }
        }
        None
    }
}

/// As many markers as there can be at the beginning of `bytes`.
fn markers(bytes: &[u8], width: usize) -> Vec<usize> {
    let mut markers = Vec::new();
    let mut at = 0;
    while let Some(value) = number(bytes, at, width) {
        let possible = match markers.last() {
            None => value == 0,
            // Each name has 2 bytes at least; 1 KiB is more than the longest.
            Some(&last) => {
                let grown = value.wrapping_sub(last as u64);
                (2 * MARKED as u64..=1024 * MARKED as u64).contains(&grown)
            }
        };
        if !possible {
            break;
        }
        markers.push(value as usize);
        at += width;
    }
    markers
}

/// Where `count` names are from `start` on, if the markers agree and they end at `end`.
fn ranges(
    bytes: &[u8],
    start: usize,
    end: usize,
    count: usize,
    markers: &[usize],
) -> Option<Vec<Range<usize>>> {
    let mut ranges = Vec::with_capacity(count);
    let mut at = start;
    for index in 0..count {
        if index % MARKED == 0 && at - start != markers[index / MARKED] {
            return None;
        }
        // A length of 128 or more has two bytes, the lower seven bits first (since Linux 6.1).
        let mut length = usize::from(*bytes.get(at)?);
        at += 1;
        if length >= 0x80 {
            length = length & 0x7F | usize::from(*bytes.get(at)?) << 7;
            at += 1;
        }
        if length == 0 || at + length > end {
            return None;
        }
        ranges.push(at..at + length);
        at += length;
    }
    // Up to the markers there are only zeros of their alignment.
    (end - at < 8 && bytes[at..end].iter().all(|byte| *byte == 0)).then_some(ranges)
}
