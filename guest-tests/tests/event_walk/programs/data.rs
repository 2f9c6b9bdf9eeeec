//! Loads and stores of data that may be cached.

use guest_tests::part::Registers;
use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{al, byte_ptr, ecx, esi};

use super::Program;

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        prepare: empty_caches,
        ..Program::new("loads", "64 loads, each of a line that no cache has", |g| {
            lines(g, 64, 64, false)
        })
    },
    Program {
        prepare: empty_caches,
        ..Program::new("stores", "64 stores, each to a line that no cache has", |g| {
            lines(g, 64, 64, true)
        })
    },
    Program::new("second level", "a load of each 64 bytes of 128 KiB, which the L2 has", |g| {
        lines(g, 2048, 64, false)
    }),
    Program {
        prepare: |g| {
            empty_caches(g)?;
            conflicting(g, false)
        },
        ..Program::new(
            "written behind reads",
            "16 stores to lines that were read, and are in the L2",
            |g| conflicting(g, true),
        )
    },
    Program {
        prepare: |g| {
            empty_caches(g)?;
            conflicting(g, true)
        },
        ..Program::new(
            "read behind writes",
            "16 loads of lines that were written, and are in the L2",
            |g| conflicting(g, false),
        )
    },
    Program {
        runs_on: |part| part.name == "pm",
        prepare: |g| {
            empty_caches(g)?;
            lines(g, 1024, 64, true)
        },
        ..Program::new(
            "read behind prefetched writes",
            "a load of each of 1,024 lines that were written one behind the other",
            |g| lines(g, 1024, 64, false),
        )
    },
    Program::new(
        "second level, dirty",
        "a store to each 64 bytes of 128 KiB, which the L2 has",
        |g| lines(g, 2048, 64, true),
    ),
    Program {
        prepare: empty_caches,
        ..Program::new("one set", "48 stores, twice, to lines 128 KiB apart", |g| {
            lines(g, 48, 0x2_0000, true)?;
            lines(g, 48, 0x2_0000, true)
        })
    },
];

/// WBINVD: no cache has anything.
pub(super) fn empty_caches(g: &mut Guest) -> Result {
    g.wbinvd()
}

/// 16 loads or stores of lines that are all in one set of the data cache, of at most 8 ways, and each of
/// which has a place in the L2: 4 KiB apart on Intel's parts, 32 KiB on AMD's.
fn conflicting(g: &mut Guest, store: bool) -> Result {
    let amd = g.part.registers == Registers::Amd;
    lines(g, 16, if amd { 0x8000 } else { 0x1000 }, store)
}

/// [`accesses`] from [`SCRATCH`] on.
pub(super) fn lines(g: &mut Guest, count: u32, stride: i32, store: bool) -> Result {
    accesses(g, SCRATCH, count, stride, store)
}

/// A load from, or a store to, the first byte of each of so many `stride`s: MOV, MOV; MOV, ADD, DEC, JNZ
/// each. Changes AL, ECX and ESI.
pub(super) fn accesses(g: &mut Guest, from: u32, count: u32, stride: i32, store: bool) -> Result {
    g.mov(esi, from)?;
    g.mov(ecx, count)?;
    let next = g.here()?;
    if store {
        g.mov(byte_ptr(esi), al)?;
    } else {
        g.mov(al, byte_ptr(esi))?;
    }
    g.add(esi, stride)?;
    g.dec(ecx)?;
    g.jnz(next)
}
