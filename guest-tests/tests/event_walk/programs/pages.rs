//! What goes through page tables.

use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{cr0, cr3, cr4, dword_ptr, eax, ecx, edi};

use super::code::{call_code, chain};
use super::data::{accesses, empty_caches};
use super::{CODE, Program};

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        set_up: page_tables,
        ..Program::new("pages", "1,024 loads, each of another page", |g| {
            touch(g, SCRATCH, 1024, 0x1040)
        })
    },
    Program {
        set_up: page_tables,
        ..Program::new("pages again", "64 loads, each of another page, twice", |g| {
            touch(g, SCRATCH, 64, 0x1040)?;
            touch(g, SCRATCH, 64, 0x1040)
        })
    },
    Program {
        set_up: page_tables,
        ..Program::new("large pages", "128 loads, each of another page of 4 MiB", |g| {
            touch(g, LARGE, 128, 0x40_0040)
        })
    },
    Program {
        set_up: |g| {
            chain(g, 640, 0x1040)?;
            page_tables(g)
        },
        ..Program::new("code pages", "640 jumps, each in another page", call_code)
    },
    Program {
        set_up: |g| {
            chain(g, 60, 0x1040)?;
            page_tables(g)
        },
        ..Program::new("code pages again", "60 jumps, each in another page, twice", |g| {
            call_code(g)?;
            call_code(g)
        })
    },
    Program {
        set_up: page_tables,
        prepare: forget,
        ..Program::new("accessed bits", "64 loads of pages that were not accessed", |g| {
            touch(g, SCRATCH, 64, 0x1040)
        })
    },
    Program {
        set_up: page_tables,
        prepare: |g| {
            empty_caches(g)?;
            g.mov(eax, cr3)?;
            g.mov(cr3, eax)
        },
        ..Program::new(
            "cold pages",
            "64 loads, each of another page, whose page tables no cache has",
            |g| touch(g, SCRATCH, 64, 0x1040),
        )
    },
    Program {
        set_up: page_tables,
        prepare: |g| {
            touch(g, UNCACHED, 1, 64)?;
            empty_caches(g)
        },
        ..Program::new(
            "uncached",
            "16 loads from, and 16 stores to, pages that are not cached",
            |g| {
                touch(g, UNCACHED, 16, 64)?;
                write(g, UNCACHED, 16, 64)
            },
        )
    },
    Program {
        set_up: |g| {
            chain(g, 16, 64)?;
            page_tables(g)
        },
        ..Program::new("uncached code", "16 jumps in a page that is not cached", |g| {
            g.mov(eax, UNCACHED + (CODE & 0x3F_FFFF))?;
            g.call(eax)
        })
    },
    Program {
        set_up: page_tables,
        prepare: empty_caches,
        ..Program::new(
            "write-through",
            "16 loads from, and 16 stores to, pages that are written through",
            |g| {
                touch(g, WRITE_THROUGH, 16, 64)?;
                write(g, WRITE_THROUGH, 16, 64)
            },
        )
    },
];

/// Where all memory is again, in pages of 4 MiB: cached, not cached, written through.
const LARGE: u32 = 0x4000_0000;
const UNCACHED: u32 = 0x8000_0000 + (CODE & !0x3F_FFFF);
const WRITE_THROUGH: u32 = 0xA000_0000 + (CODE & !0x3F_FFFF);

const DIRECTORY: u32 = 0xF0_0000;
const TABLES: u32 = 0xF1_0000;
const PRESENT_WRITABLE_USER: i32 = 7;
const LARGE_PAGE: i32 = 0x80;
const PWT: i32 = 8;
const PCD: i32 = 16;
const CR4_PSE: i32 = 1 << 4;
const CR0_PG: u32 = 1 << 31;
/// CR0.CD and NW: set by reset.
const CR0_CACHES: i32 = !(3 << 29);

/// Turns paging on: 16 MiB in pages of 4 KiB where they are, the local APIC, and the memory again in pages
/// of 4 MiB. Changes EAX, ECX and EDI.
pub(super) fn page_tables(g: &mut Guest) -> Result {
    let entries = |g: &mut Guest, at: u32, count: u32, first: i32, step: i32| -> Result {
        g.mov(edi, at)?;
        g.mov(eax, first)?;
        g.mov(ecx, count)?;
        let next = g.here()?;
        g.mov(dword_ptr(edi), eax)?;
        g.add(edi, 4)?;
        g.add(eax, step)?;
        g.dec(ecx)?;
        g.jnz(next)
    };
    entries(g, TABLES, 4096, PRESENT_WRITABLE_USER, 0x1000)?;
    entries(g, DIRECTORY, 4, TABLES as i32 | PRESENT_WRITABLE_USER, 0x1000)?;
    let large = PRESENT_WRITABLE_USER | LARGE_PAGE;
    let directory = |linear: u32| DIRECTORY + (linear >> 22) * 4;
    // 64 bytes more each time: the last ones are in the next page.
    entries(g, directory(LARGE), 130, large, 0)?;
    entries(g, directory(0x8000_0000), 4, large | PCD, 0x40_0000)?;
    entries(g, directory(0xA000_0000), 4, large | PWT, 0x40_0000)?;
    g.mov(dword_ptr(directory(0xFEE0_0000)), 0xFEC0_0000 | (large | PCD) as u32)?;
    g.mov(eax, DIRECTORY)?;
    g.mov(cr3, eax)?;
    g.mov(eax, cr4)?;
    g.or(eax, CR4_PSE)?;
    g.mov(cr4, eax)?;
    g.mov(eax, cr0)?;
    g.or(eax, CR0_PG)?;
    g.and(eax, CR0_CACHES)?;
    g.mov(cr0, eax)
}

/// A load of a byte from each of so many strides.
fn touch(g: &mut Guest, from: u32, count: u32, stride: i32) -> Result {
    accesses(g, from, count, stride, false)
}

/// A store of a byte to each of so many strides.
fn write(g: &mut Guest, from: u32, count: u32, stride: i32) -> Result {
    accesses(g, from, count, stride, true)
}

/// Clears the accessed bit of the entries of 65 pages, and the TLBs.
fn forget(g: &mut Guest) -> Result {
    g.mov(edi, TABLES + (SCRATCH >> 12) * 4)?;
    g.mov(ecx, 66)?;
    let next = g.here()?;
    g.and(dword_ptr(edi), !0x60)?;
    g.add(edi, 4)?;
    g.dec(ecx)?;
    g.jnz(next)?;
    g.mov(eax, cr3)?;
    g.mov(cr3, eax)
}
