//! The table of ports of `docs/machine.md`, against what answers.

use std::collections::BTreeSet;

use super::config;
use crate::devices::{Chipset, ChipsetConfig};

/// What any device reacts to: commands that change something in it, and bit patterns.
const VALUES: [u32; 7] = [0, 1, 6, 0x20, 0x55, 0xF1, 0xFFFF_FFFF];

/// A machine with everything, in which an x87 exception is latched.
fn chipset() -> Chipset {
    let config = config(2_000_000_000, 1_114_041_600);
    let mut chipset = Chipset::new(ChipsetConfig { test_device: true, pipes: true, ..config });
    chipset.assert_ferr();
    chipset
}

/// The ports of the page: `20h`, or `40h` to `43h`.
fn listed() -> BTreeSet<u16> {
    let page = include_str!("../../../../docs/machine.md");
    let rows = page.split("| ports | what |").nth(1).expect("the table").lines();
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let number = |text: &str| u16::from_str_radix(text.trim_end_matches('h'), 16).expect("a port");
    let ports = rows.flat_map(|row| {
        let cell: Vec<_> = row.split('|').nth(1).expect("a cell").split('`').collect();
        match cell[..] {
            [_, first, " to ", last, _] => number(first)..=number(last),
            [_, only, _] => number(only)..=number(only),
            _ => panic!("{row}"),
        }
    });
    ports.collect()
}

/// Whether a port of a machine reads as something else than ones, or is changed by writes.
fn answers(untouched: &Chipset, port: u16) -> bool {
    let mut chipset = untouched.clone();
    let sizes = || [1_u8, 2, 4].map(|size| (size, u32::MAX >> (32 - 8 * u32::from(size))));
    if sizes().into_iter().any(|(size, ones)| chipset.io_read(port, size, 0) != ones) {
        return true;
    }
    for (size, ones) in sizes() {
        for value in VALUES {
            chipset.io_write(port, size, value & ones, 0);
        }
    }
    chipset != *untouched
}

/// Accesses wider than a byte reach the ports behind; so a port that is not listed may answer if one of the
/// next three is.
#[test]
fn the_ports_of_the_page_are_those_that_answer() {
    let listed = listed();
    let chipset = chipset();
    assert!(listed.contains(&0x3F8) && listed.contains(&0x43));
    let reached: BTreeSet<u16> =
        listed.iter().flat_map(|&port| port.saturating_sub(3)..=port).collect();
    let judged = (0..=u16::MAX).filter(|port| listed.contains(port) || !reached.contains(port));
    let wrong: Vec<_> = judged
        .filter(|port| answers(&chipset, *port) != listed.contains(port))
        .map(|port| format!("{port:x}h"))
        .collect();
    assert!(wrong.is_empty(), "listed and silent, or not listed: {wrong:?}");
}
