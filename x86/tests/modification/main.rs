//! Code that changes under the processor's feet.
//!
//! A generator makes programs that overwrite themselves in every way that the instruction set
//! offers, through aliases, across pages, by the page walk's own writes, on one and two processors.
//! They run on a processor with all its caches and on one without any, which fetches, decodes and
//! walks anew for each instruction ([`lockstep`]); and, at user level, on the host's ([`silicon`]).
//! After every stretch both are in the same state, or the cache has run something that was no longer
//! there.
//!
//! `VPMU_MODIFICATION_ROUNDS` sets the number of rounds (ten thousand by default),
//! `VPMU_MODIFICATION_SEED` that of the first.

mod gadget;
mod guest;
#[allow(dead_code, reason = "what else the host lacks is of no concern here")]
#[path = "../host/mod.rs"]
mod host;
mod kernel;
mod lockstep;
#[path = "../system/memory.rs"]
mod memory;
mod next;
mod random;
mod silicon;

/// Rounds of one test.
fn rounds() -> u64 {
    setting("VPMU_MODIFICATION_ROUNDS", 10_000)
}

fn first_seed() -> u64 {
    setting("VPMU_MODIFICATION_SEED", 1)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.replace('_', "").parse().ok()).unwrap_or(default)
}
