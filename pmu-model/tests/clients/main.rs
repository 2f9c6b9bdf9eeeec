//! The register sequences of real clients, replayed write by write, with the value of every register
//! worked out by hand.
//!
//! Each test names the file and function whose order of accesses it follows.

#[path = "../guest/mod.rs"]
mod guest;

mod amd;
mod bsd;
mod cesr;
mod knc;
mod linux;
mod p6;
mod perf;
mod selects;
