//! A machine of vpmu, in this process.

use std::io;

use vpmu::boot::memory::RamLayout;
use vpmu::boot::{self, Payload};
use vpmu::config::{Config, Limits};
use vpmu::console::Console;
use vpmu::engine::EngineKind;
use vpmu::machine::{End, Machine};
use vpmu::platform::Isa;
use vpmu::program::Image;

use crate::Result;

/// What of a machine matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Whose processor.
    pub(crate) cpu: &'static str,
    /// What it has beside its own instructions.
    pub(crate) isa: Isa,
    /// How many.
    pub(crate) cpus: u8,
    /// What executes the guest.
    pub(crate) engine: EngineKind,
    /// Bytes of memory.
    pub(crate) ram: u64,
}

impl Setup {
    /// One processor on the software engine.
    pub(crate) fn soft(cpu: &'static str, ram: u64) -> Self {
        Self { cpu, isa: Isa::Strict, cpus: 1, engine: EngineKind::Soft, ram }
    }

    /// The machine with its payload loaded.
    pub(crate) fn machine(self, payload: Payload) -> Result<Machine> {
        let config = Config::new(self.cpu, RamLayout::new(self.ram, None)?, payload)?;
        let Self { isa, cpus, engine, .. } = self;
        let config = Config { isa, cpus, engine, ..config };
        Ok(Machine::new(&config)?)
    }
}

/// An image as a payload.
pub(crate) fn flat(image: Image) -> Payload {
    Payload::Flat {
        image: boot::Image { name: "guest".into(), bytes: image.bytes },
        address: image.load_address,
    }
}

/// Runs a machine to its end, cut off by `limits`.
pub(crate) fn run(machine: &mut Machine, limits: Limits) -> Result<End> {
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    Ok(machine.run(limits, &mut console)?)
}
