//! Two processors and the lines between them.

use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{al, byte_ptr, dword_ptr, ecx, edi};

use super::code::{call_code, chain};
use super::data::{accesses, empty_caches};
use super::{CODE, Program};
use crate::runner::ask;

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        other: Some(|g| touch(g, MINE, false)),
        ..Program::new(
            "read by another",
            "16 lines written; another processor reads them; they are written again",
            |g| {
                touch(g, MINE, true)?;
                ask(g)?;
                touch(g, MINE, true)
            },
        )
    },
    Program {
        other: Some(|g| touch(g, MINE, true)),
        ..Program::new(
            "written by another",
            "16 lines written; another processor writes them; they are read",
            |g| {
                touch(g, MINE, true)?;
                ask(g)?;
                touch(g, MINE, false)
            },
        )
    },
    Program {
        other: Some(|g| touch(g, MINE, false)),
        ..Program::new(
            "shared",
            "16 lines read, by another processor too; 128 KiB read; the lines read again, and written",
            shared,
        )
    },
    Program {
        set_up: |g| chain(g, 16, 64),
        other: Some(|g| touch(g, CODE, false)),
        ..Program::new(
            "code read by another",
            "16 lines executed; another processor reads them; they are executed",
            |g| {
                call_code(g)?;
                ask(g)?;
                call_code(g)
            },
        )
    },
    Program {
        set_up: |g| chain(g, 16, 64),
        other: Some(|g| rewrite(g, CODE)),
        ..Program::new(
            "code written by another",
            "16 lines executed; another processor writes them; they are executed",
            |g| {
                call_code(g)?;
                ask(g)?;
                call_code(g)
            },
        )
    },
    Program {
        other: Some(|g| touch(g, MINE, false)),
        ..Program::new(
            "read from the L2 by another",
            "16 lines written and displaced by 128 KiB; another processor reads them",
            |g| {
                touch(g, MINE, true)?;
                many(g, SCRATCH + 0x10_0000, 2048, false)?;
                ask(g)
            },
        )
    },
    Program {
        set_up: |g| chain(g, 1100, 64),
        other: Some(|g| touch(g, CODE, false)),
        ..Program::new(
            "shared code",
            "1,100 lines executed, twice; another processor reads 16 of them in between",
            |g| {
                call_code(g)?;
                ask(g)?;
                call_code(g)
            },
        )
    },
    Program {
        other: Some(|g| {
            g.mov(edi, dword_ptr(RUNNING))?;
            g.mov(al, byte_ptr(edi))?;
            g.mov(byte_ptr(edi), al)
        }),
        ..Program::new(
            "running code written",
            "another processor writes, 4 times, to the line of the code that waits for it",
            |g| {
                for _ in 0..4 {
                    let mut here = g.create_label();
                    g.store_address(dword_ptr(RUNNING), here)?;
                    g.place(&mut here)?;
                    ask(g)?;
                }
                Ok(())
            },
        )
    },
    Program {
        prepare: empty_caches,
        other: Some(|_| Ok(())),
        ..Program::new(
            "loads beside another",
            "16 loads of lines that no cache has, with a second processor",
            |g| touch(g, MINE, false),
        )
    },
    Program {
        other: Some(|g| {
            touch(g, MINE, true)?;
            touch(g, MINE + 0x1000, false)
        }),
        ..Program::new(
            "dirty elsewhere",
            "another processor writes 16 lines; they are read, and written",
            |g| {
                ask(g)?;
                touch(g, MINE, false)?;
                touch(g, MINE, true)?;
                touch(g, MINE + 0x1000, true)
            },
        )
    },
];

/// Where the address is of the code that the first processor runs.
const RUNNING: u32 = SCRATCH + 0x8000;
/// The lines that both access.
const MINE: u32 = SCRATCH + 0x1_0000;

/// Accesses a byte of each of 16 lines.
fn touch(g: &mut Guest, at: u32, store: bool) -> Result {
    many(g, at, 16, store)
}

/// Accesses a byte of each of so many lines.
fn many(g: &mut Guest, at: u32, count: u32, store: bool) -> Result {
    accesses(g, at, count, 64, store)
}

/// Writes what is there.
fn rewrite(g: &mut Guest, at: u32) -> Result {
    g.mov(edi, at)?;
    g.mov(ecx, 16)?;
    let next = g.here()?;
    g.mov(al, byte_ptr(edi))?;
    g.mov(byte_ptr(edi), al)?;
    g.add(edi, 64)?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn shared(g: &mut Guest) -> Result {
    touch(g, MINE, false)?;
    ask(g)?;
    many(g, SCRATCH + 0x10_0000, 2048, false)?;
    touch(g, MINE, false)?;
    touch(g, MINE, true)
}
