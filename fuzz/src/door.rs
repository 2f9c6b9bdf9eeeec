//! A machine at a door: what every input begins from, and is reset to.

use vpmu::boot::memory::RamLayout;
use vpmu::boot::{Image, Payload};
use vpmu::config::Config;
use vpmu::console::Console;
use vpmu::machine::{End, Machine, Pause};
use vpmu::program;
use vpmu::snapshot::Snapshot;
use vpmu::stop::Stop;

/// Bytes of memory: little is written, and a snapshot has it all.
pub(crate) const MEMORY: u64 = 4 << 20;

/// A machine, and what it was where its guest wrote the marker to port 80h.
pub(crate) struct Door {
    machine: Machine,
    base: Snapshot,
    retired: u64,
    /// Where a run ends, in cycles, but for what is left of a turn.
    latest: u64,
    stop: Stop,
    console: Console,
}

impl Door {
    /// A machine with this processor that has run the program to the marker. `adapt` says how it is to differ from one
    /// with the defaults; `at` is in its memory from the door on. No run is
    /// longer than `longest` cycles and what is left of a turn.
    ///
    /// # Errors
    /// The host has no memory, or the program does not come to the marker.
    pub(crate) fn new(
        cpu: &str,
        program: &program::Image,
        adapt: impl FnOnce(Config) -> Config,
        at: &[(u64, Vec<u8>)],
        longest: u64,
    ) -> Result<Self, String> {
        let image = Image { name: "door".into(), bytes: program.bytes.clone() };
        let payload = Payload::Flat { image, address: program.load_address };
        let ram = RamLayout::new(MEMORY, None).map_err(|e| e.to_string())?;
        let config = adapt(Config::new(cpu, ram, payload).map_err(|e| e.to_string())?);
        let mut machine = Machine::new(&config).map_err(|e| e.to_string())?;
        let stop = Stop::new().map_err(|e| e.to_string())?;
        let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
        machine.pause_at(Pause::Marker);
        let end = machine.run_until(&stop, Some(10_000_000), &mut console);
        if !matches!(end, Ok(End::Paused)) {
            return Err(format!("{cpu} did not come to the door: {end:?}"));
        }
        at.iter().try_for_each(|(address, bytes)| write(&mut machine, *address, bytes))?;
        let base = machine.snapshot();
        let (retired, latest) = (machine.retired(), machine.time().saturating_add(longest));
        Ok(Self { machine, base, retired, latest, stop, console })
    }

    /// Back at the door.
    pub(crate) fn back(&mut self) -> Result<(), String> {
        self.machine.reset_to(&self.base).map_err(|e| e.to_string())
    }

    /// The same, with `bytes` in memory.
    pub(crate) fn begin(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.back()?;
        self.write(address, bytes)
    }

    /// Writes to memory.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        write(&mut self.machine, address, bytes)
    }

    /// Runs on until so many instructions have retired since the door, or the guest writes to the debug exit; no longer
    /// than the turn in which as many cycles have passed: an instruction that is repeated is one.
    pub(crate) fn run(&mut self, instructions: u64) -> Result<End, String> {
        self.machine.pause_at(Pause::Time(self.latest));
        let limit = Some(self.retired + instructions);
        self.machine.run_until(&self.stop, limit, &mut self.console).map_err(|e| e.to_string())
    }

    /// Instructions since the door.
    pub(crate) fn retired(&self) -> u64 {
        self.machine.retired() - self.retired
    }

    /// The machine.
    pub(crate) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

fn write(machine: &mut Machine, address: u64, bytes: &[u8]) -> Result<(), String> {
    match machine.write_physical(address, bytes) {
        true => Ok(()),
        false => Err(format!("no memory at {address:#x}")),
    }
}
