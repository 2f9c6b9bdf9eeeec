//! What the controller of the memory tells apart.

use guest_tests::{Guest, Result};
use iced_x86::code_asm::{al, byte_ptr, ecx};

use super::Program;
use super::data::empty_caches;

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        prepare: empty_caches,
        ..Program::new("rare loads", "8 loads, a thousand cycles apart", rare)
    },
    Program {
        prepare: empty_caches,
        memory: 5 * CHIP_SELECT,
        ..Program::new("chip selects", "loads from 4 banks of each of 5 chip selects", chip_selects)
    },
];

/// Bytes of memory of a chip select, and of a page, with the Opteron; elsewhere they are less.
const CHIP_SELECT: u64 = 512 << 20;
const PAGE: u64 = 16 << 10;
/// Where nothing else is.
const BASE: u64 = 0x100_0000;

fn rare(g: &mut Guest) -> Result {
    for n in 0..8 {
        g.mov(al, byte_ptr(BASE as u32 - 0x1_0000 + 64 * n))?;
        g.mov(ecx, 500)?;
        let wait = g.here()?;
        g.dec(ecx)?;
        g.jnz(wait)?;
    }
    Ok(())
}

fn chip_selects(g: &mut Guest) -> Result {
    for chip_select in 0..5 {
        for bank in 0..4 {
            g.mov(al, byte_ptr((BASE + chip_select * CHIP_SELECT + bank * PAGE) as u32))?;
        }
    }
    Ok(())
}
