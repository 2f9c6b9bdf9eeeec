//! Linux's own table of its symbols, as it is in guest memory.
//!
//! The kernel keeps it for `/proc/kallsyms` and for its messages. It has no header; its parts are
//! recognised by what they contain, first of all the tokens of the digits. A kernel that moved itself
//! (KASLR) has moved the base of the addresses with it, so they are those of the running guest.
//!
//! The parts, each aligned to a word, since Linux 6.4: `num_syms`, `names`, `markers`, `token_table`,
//! `token_index`, `offsets`, `relative_base`, `seqs_of_names`. Before: `offsets`, `relative_base` (up to
//! 4.5 `addresses`), `num_syms`, `names`, `markers`, in 6.2 and 6.3 `seqs_of_names`, `token_table`,
//! `token_index`.
//!
//! Source: Linux, scripts/kallsyms.c and kernel/kallsyms.c, of the versions named.

mod addresses;
mod names;
#[cfg(test)]
mod tests;
mod tokens;

use super::memory::GuestMemory;
use crate::truth::Symbol;
use names::Names;
use tokens::{DIGITS, Tokens};

/// How far from the tokens the other parts are at most: five times those of a distribution's kernel.
const BEFORE: u64 = 24 << 20;
const BEHIND: u64 = 16 << 20;
/// Bytes of a page. The last symbol is taken to reach to the end of its own.
const PAGE: u64 = 4096;

/// A symbol of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Linear address.
    pub address: u64,
    /// Its type, as nm prints it.
    pub kind: u8,
    /// Its name.
    pub name: String,
}

/// The tables in guest-physical memory, by address: that of the kernel, and perhaps copies of it.
#[must_use]
pub fn find(memory: &GuestMemory<'_>) -> Vec<Vec<Row>> {
    memory.find(DIGITS).into_iter().filter_map(|address| table(memory, address)).collect()
}

/// The first of the tables, if it is at one of the first few places that look like one: what a guest has in
/// memory does not decide how long this takes.
#[must_use]
pub fn find_soon(memory: &GuestMemory<'_>) -> Option<Vec<Row>> {
    const PLACES: usize = 4;
    let places = memory.find(DIGITS).into_iter().take(PLACES);
    places.filter_map(|address| table(memory, address)).next()
}

/// The table whose tokens of the digits are at `address`.
fn table(memory: &GuestMemory<'_>, address: u64) -> Option<Vec<Row>> {
    // From an aligned address on.
    let (start, bytes) = memory.around(address, BEFORE + address % PAGE, BEHIND)?;
    read(&bytes, (address - start) as usize)
}

/// The table whose tokens of the digits are at `digits`. Its parts are aligned in `bytes` as they are
/// in memory.
fn read(bytes: &[u8], digits: usize) -> Option<Vec<Row>> {
    let tokens = Tokens::read(bytes, digits)?;
    [8, 4].into_iter().find_map(|word| {
        let names = Names::read(bytes, &tokens, word)?;
        let count = names.ranges.len();
        let addresses = addresses::read(bytes, names.start, tokens.end, count, word)?;
        let row = |(range, address): (_, u64)| {
            let text = tokens.expand(&bytes[std::ops::Range::clone(range)]);
            let (kind, name) = text.split_first()?;
            Some(Row { address, kind: *kind, name: String::from_utf8_lossy(name).into_owned() })
        };
        names.ranges.iter().zip(addresses).map(row).collect()
    })
}

/// The symbols of code. Each reaches up to the next address that has a symbol of any kind.
#[must_use]
pub fn text(rows: &[Row]) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    let (mut next, mut current) = (None, None);
    for row in rows.iter().rev() {
        if current != Some(row.address) {
            (next, current) = (current, Some(row.address));
        }
        if is_text(row.kind) {
            let size = next.map_or(PAGE - row.address % PAGE, |next| next - row.address);
            symbols.push(Symbol { address: row.address, size, name: row.name.clone() });
        }
    }
    symbols.reverse();
    symbols
}

/// Whether nm's letter is that of a symbol in code: local or global, or weak.
pub(super) fn is_text(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

/// The little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
