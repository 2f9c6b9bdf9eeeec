//! Machines that the programs run on: the software engine in this process.

use guest_tests::Part;
use vpmu::boot::memory::RamLayout;
use vpmu::boot::{self, Payload};
use vpmu::config::{Config, Limits};
use vpmu::console::Captured;
use vpmu::engine::soft::Timing;
use vpmu::machine::{End, Machine};
use vpmu::program::Image;

use crate::Result;

/// Retired instructions beyond which a program is taken to be in an endless loop.
const MAX_INSTRUCTIONS: u64 = 1_000_000_000;

/// What a program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Processors.
    pub cpus: u8,
    /// Bytes of memory.
    pub memory: u64,
    /// Whose clock the time-stamp counter has.
    pub timing: Timing,
}

impl Default for Options {
    /// A processor with 16 MiB, and a cycle for each instruction.
    fn default() -> Self {
        Self { cpus: 1, memory: 16 << 20, timing: Timing::Flat }
    }
}

/// What came of a run.
pub struct Outcome {
    serial: String,
    /// Frequency of the processor.
    pub clock_hz: u64,
}

impl Outcome {
    /// The value that the program reported as `name`.
    ///
    /// # Errors
    /// If it reported none.
    pub fn value(&self, name: &str) -> Result<u64> {
        self.serial
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(known, _)| *known == name)
            .and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| format!("a program did not report {name}: {}", self.serial).into())
    }
}

/// Runs `image` on `part`.
///
/// # Errors
/// If there can be no such machine, or the program does not end by itself and well.
pub fn run(part: &Part, image: Image, options: Options) -> Result<Outcome> {
    let payload = Payload::Flat {
        image: boot::Image { name: "program".into(), bytes: image.bytes },
        address: image.load_address,
    };
    let ram = RamLayout::new(options.memory, None)?;
    let limits = Limits { timeout: None, instructions: Some(MAX_INSTRUCTIONS) };
    let Options { cpus, timing, .. } = options;
    let config = Config { cpus, timing, limits, ..Config::new(part.name, ram, payload)? };
    let mut machine = Machine::new(&config)?;
    let captured = Captured::default();
    let end = machine.run(limits, &mut captured.console())?;
    let serial = captured.text();
    // Code 0 at the debug-exit port is status 1.
    if !matches!(end, End::Exit(1)) {
        return Err(format!("a program on {} ended with {end:?}: {serial}", part.name).into());
    }
    Ok(Outcome { serial, clock_hz: machine.clock_hz() })
}
