//! What the event tables are put together from.

use crate::event::{Aliases, EventDef, Fidelity, UnitMask};
use crate::signal::Signal;

/// One row of a table of unit masks: mask, name, name in libpfm4, title, fidelity, signals.
pub(super) const fn bit(
    mask: u8,
    name: &'static str,
    libpfm4: &'static str,
    title: &'static str,
    fidelity: Fidelity,
    signals: &'static [Signal],
) -> UnitMask {
    UnitMask { mask, name, libpfm4, title, fidelity, signals }
}

/// One name that every client has.
pub(super) const fn everywhere(name: &'static str) -> Aliases {
    Aliases { libpfm4: name, oprofile: name, likwid: name, perfctr: name }
}

/// The tables in `parts`, one after the other; `N` is the number of their rows.
pub(super) const fn concat<const N: usize>(parts: &[&[EventDef]]) -> [EventDef; N] {
    let mut rows = [parts[0][0]; N];
    let (mut part, mut length) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            rows[length] = parts[part][row];
            (row, length) = (row + 1, length + 1);
        }
        part += 1;
    }
    assert!(length == N, "not the number of rows");
    rows
}

/// `table` with each of `revisions` in the place of the row that has its code.
pub(super) const fn revised<const N: usize>(
    mut table: [EventDef; N],
    revisions: &[EventDef],
) -> [EventDef; N] {
    let mut revision = 0;
    while revision < revisions.len() {
        let mut row = 0;
        while table[row].code != revisions[revision].code {
            row += 1;
        }
        table[row] = revisions[revision];
        revision += 1;
    }
    table
}
