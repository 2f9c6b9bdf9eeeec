//! The options of snapshots: where a machine is put aside, and from where one goes on.

use std::path::{Path, PathBuf};

use clap::Args;

use super::machine::{MachineArgs, limits};
use crate::boot::Payload;
use crate::config::{self, Config};
use crate::engine::EngineKind;
use crate::error::{Error, Result};
use crate::machine::Pause;
use crate::snapshot::Snapshot;

/// The options that a snapshot answers.
const OF_THE_MACHINE: [&str; 15] = [
    "cpu",
    "isa",
    "lvtpc_automask",
    "boot",
    "count",
    "hypervisor_bit",
    "no_cache",
    "timing",
    "warm",
    "test_device",
    "smp",
    "mem",
    "skid",
    "clock",
    "rtc",
];

#[derive(Args)]
pub(super) struct SnapshotArgs {
    /// Go on from a snapshot that --save has written, on either engine. What the machine is comes from there.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_THE_MACHINE)]
    pub(super) load: Option<PathBuf>,
    /// Write a snapshot of the machine there when SIGUSR1 comes, or where --save-at says, and go on.
    #[arg(long, value_name = "FILE", conflicts_with = "gdb")]
    pub(super) save: Option<PathBuf>,
    /// Write the snapshot once, at this virtual time (1.5s, 20ms), behind so many instructions of all processors
    /// (insn:N), behind the first RDMSR or WRMSR of a register (msr:C0010000), or behind the marker that the guest
    /// writes to port 80h (marker).
    #[arg(long, value_name = "WHEN", requires = "save", value_parser = save_point)]
    pub(super) save_at: Option<SavePoint>,
}

impl SnapshotArgs {
    /// Whether a snapshot is read or written.
    pub(super) fn is_asked_for(&self) -> bool {
        self.load.is_some() || self.save.is_some()
    }

    /// That what is asked for can be, on this engine.
    ///
    /// # Errors
    /// A snapshot is to be written behind so many instructions, and KVM may be the engine.
    pub(super) fn check(&self, engine: EngineKind) -> Result<()> {
        if matches!(self.save_at, Some(SavePoint::Instructions(_))) && engine != EngineKind::Soft {
            let text = "KVM cannot count all instructions: --save-at insn:N needs --engine soft";
            return Err(Error::Usage(text.into()));
        }
        Ok(())
    }
}

/// The machine that a snapshot is of, with what the command line may still say. It runs what `vpmu exec` runs if
/// that is `of_command`.
///
/// # Errors
/// It cannot be read, or is of the other subcommand.
pub(super) fn machine_of_snapshot(
    args: &MachineArgs,
    path: &Path,
    of_command: bool,
) -> Result<Config> {
    let snapshot = Snapshot::read(path)?;
    let other = match snapshot.identity.pipes {
        true => "a snapshot of a command, with which vpmu exec --load goes on",
        false => "no snapshot of a command: vpmu run --load goes on with it",
    };
    if snapshot.identity.pipes != of_command {
        return Err(Error::Input(format!("{} is {other}", path.display())));
    }
    let identity = snapshot.identity.clone();
    let config = identity.config(Payload::Snapshot(snapshot))?;
    Ok(Config {
        script: config::script(args.input.as_ref(), &args.expect, config.clock_hz)?,
        engine: args.engine.into(),
        irqchip: args.irqchip.into(),
        limits: limits(args),
        ..config
    })
}

/// The value of `--save-at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SavePoint {
    /// Virtual time in nanoseconds.
    Time(u64),
    /// Instructions of all processors.
    Instructions(u64),
    /// The marker at port 80h.
    Marker,
    /// The first access to a model-specific register.
    Msr(u32),
}

impl SavePoint {
    /// The same for a machine with this clock.
    pub(super) fn pause(self, clock_hz: u64) -> Pause {
        match self {
            Self::Time(nanoseconds) => {
                let cycles = u128::from(nanoseconds) * u128::from(clock_hz) / 1_000_000_000;
                Pause::Time(u64::try_from(cycles).unwrap_or(u64::MAX))
            }
            Self::Instructions(count) => Pause::Instructions(count),
            Self::Marker => Pause::Marker,
            Self::Msr(index) => Pause::Msr(index),
        }
    }
}

fn save_point(text: &str) -> std::result::Result<SavePoint, String> {
    const UNITS: [(&str, u64); 4] =
        [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    if text == "marker" {
        return Ok(SavePoint::Marker);
    }
    if let Some(count) = text.strip_prefix("insn:") {
        let count = count.parse().map_err(|_| "expected a number behind insn:")?;
        return Ok(SavePoint::Instructions(count));
    }
    if let Some(index) = text.strip_prefix("msr:") {
        let digits = index.strip_prefix("0x").unwrap_or(index);
        let index = u32::from_str_radix(digits, 16);
        return index
            .map(SavePoint::Msr)
            .map_err(|_| "expected the number of a register in hexadecimal behind msr:".into());
    }
    let found = UNITS.iter().find_map(|&(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    found.and_then(|(number, scale)| decimal(number, scale)).map(SavePoint::Time).ok_or_else(|| {
        "expected a virtual time as in 1.5s or 20ms, insn:N, msr:INDEX, or marker".into()
    })
}

/// A decimal fraction times `scale`, a power of ten; what is behind that is cut off.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        value = value.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(value)
}
