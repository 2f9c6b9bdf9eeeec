//! The boot ROM, and the block in memory that tells it what to do. [The README](../README.md) has the
//! memory map and the order of events.

mod handover;
pub mod map;

pub use handover::{Handover, Mode, PmuRegister, Segments, Table};

/// The ROM, for guest-physical address [`map::ROM`].
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rom.bin"));
