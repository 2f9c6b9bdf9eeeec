//! The addresses of `kallsyms`, which are written in three ways.

use super::{PAGE, number};

/// Reads the addresses of `count` symbols from the tables that end at `ahead` (up to Linux 6.3) or
/// begin at `behind` (since then). A word has so many bytes.
///
/// Only addresses in order are those of a kernel: its tables are sorted.
pub(super) fn read(
    bytes: &[u8],
    ahead: usize,
    behind: usize,
    count: usize,
    word: usize,
) -> Option<Vec<u64>> {
    let padded = (4 * count).next_multiple_of(word);
    // `kallsyms_offsets`, then `kallsyms_relative_base`.
    let behind = behind.next_multiple_of(word);
    let base_ahead = ahead.checked_sub(word);
    let relative = |offsets: Option<usize>| {
        let offsets = offsets?;
        from_offsets(bytes, offsets, number(bytes, offsets + padded, word)?, count, word)
    };
    relative(base_ahead.and_then(|base| base.checked_sub(padded)))
        .or_else(|| relative(Some(behind)))
        // `kallsyms_addresses`: before Linux 4.6.
        .or_else(|| absolute(bytes, ahead.checked_sub(count * word)?, count, word))
}

/// 32-bit offsets from the lowest address of the kernel.
///
/// With `CONFIG_KALLSYMS_ABSOLUTE_PERCPU` only those below zero are offsets, from -1 downwards; the
/// others are addresses that stay where they are when the kernel is moved.
fn from_offsets(bytes: &[u8], at: usize, base: u64, count: usize, word: usize) -> Option<Vec<u64>> {
    // The base is the beginning of the kernel, which begins with a page.
    if !base.is_multiple_of(PAGE) {
        return None;
    }
    let table = bytes.get(at..at.checked_add(4 * count)?)?;
    let offsets: Vec<i32> =
        table.as_chunks().0.iter().map(|row| i32::from_le_bytes(*row)).collect();
    let absolute_percpu = offsets.iter().any(|offset| *offset < 0);
    let mask = mask(word);
    let addresses = offsets.iter().map(|&offset| match offset {
        0.. if absolute_percpu => u64::from(offset.unsigned_abs()),
        ..0 if absolute_percpu => base.wrapping_add(u64::from((-1 - offset).unsigned_abs())) & mask,
        _ => base.wrapping_add(u64::from(offset as u32)) & mask,
    });
    in_order(addresses.collect(), word)
}

fn absolute(bytes: &[u8], at: usize, count: usize, word: usize) -> Option<Vec<u64>> {
    let addresses: Option<Vec<u64>> =
        (0..count).map(|index| number(bytes, at + index * word, word)).collect();
    in_order(addresses?, word)
}

/// The addresses, if they are in order and the last is in the upper half, where kernels are.
fn in_order(addresses: Vec<u64>, word: usize) -> Option<Vec<u64>> {
    let upper = *addresses.last()? > mask(word) / 2;
    (upper && addresses.is_sorted()).then_some(addresses)
}

fn mask(word: usize) -> u64 {
    if word == 8 { u64::MAX } else { u64::from(u32::MAX) }
}
