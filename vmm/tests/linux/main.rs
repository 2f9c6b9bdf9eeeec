//! Debian's own kernel and its own perf on the machine, and its kernels that are not Linux.
//!
//! The packages come from `guest-tests/linux/fetch`, which caches them below `target/guests`. Where
//! it cannot get them (a host without apt, or without its mirror) the tests are ignored, and their
//! lines say why.

mod boot;
mod counted_loop;
mod cuts;
mod events;
mod exec;
mod gdb;
#[path = "../harness/gdb.rs"]
mod gdb_client;
mod guest;
#[path = "../harness/mod.rs"]
mod harness;
mod jit;
mod knights_corner;
mod likwid;
mod memtest;
mod multiboot;
mod perf;
mod program;
mod sampling;
mod symbols;
mod textbook;
mod trace;
mod truth;

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::run(&[
        ("boot", boot::TESTS),
        ("counted_loop", counted_loop::TESTS),
        ("cuts", cuts::TESTS),
        ("events", events::TESTS),
        ("exec", exec::TESTS),
        ("gdb", gdb::TESTS),
        ("jit", jit::TESTS),
        ("knights_corner", knights_corner::TESTS),
        ("likwid", likwid::TESTS),
        ("memtest", memtest::TESTS),
        ("multiboot", multiboot::TESTS),
        ("perf", perf::TESTS),
        ("program", program::TESTS),
        ("sampling", sampling::TESTS),
        ("symbols", symbols::TESTS),
        ("textbook", textbook::TESTS),
        ("truth", truth::TESTS),
    ])
}
