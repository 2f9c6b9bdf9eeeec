//! Debian's own kernel and its own perf on the machine.
//!
//! The packages come from `guest-tests/linux/fetch`, which caches them below `target/guests`. Where
//! it cannot get them (a host without apt, or without its mirror) the tests are skipped, each with a
//! line on stderr that says why and how many were skipped until then.

mod boot;
mod guest;
mod jit;
mod perf;
mod program;
mod sampling;
mod trace;
