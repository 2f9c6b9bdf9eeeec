//! Snapshots: what is loaded is saved as the same bytes, and goes on.

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use ciborium::Value;
use pmu_model::Personality;
use vpmu::boot::memory::RamLayout;
use vpmu::boot::{Image, Payload};
use vpmu::config::{Boot, Config, Limits};
use vpmu::console::Console;
use vpmu::demo;
use vpmu::engine::soft::{Timing, Warm};
use vpmu::framed::{self, Kind};
use vpmu::input::Script;
use vpmu::machine::{Machine, Pause};
use vpmu::snapshot::Snapshot;
use vpmu::stop::Stop;
use vpmu::truth::Truth;
use vpmu::truth::record::Recorder;

use super::edits::{Edit, Source};
use super::sound::refused;
use super::{goes_on, tree};

/// Bytes of memory of the machines: what the demo needs.
const MEMORY: u64 = 6 << 20;
/// Machines with more memory than this, or more processors, are not made: an input may ask for whatever the host has.
const LARGEST: (u64, u8) = (64 << 20, 8);
/// Instructions of the demo.
const INSTRUCTIONS: u64 = 40_000;
/// Host time after which a machine that goes on is asked to stop: what it does in a thousandth of that is enough.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most changes of an input.
const CHANGES: usize = 8;

/// A processor, and what a machine with it is beside the default.
type Maker = (&'static str, fn(Config) -> Config);

/// The machines.
const MACHINES: [Maker; 12] = [
    ("p55c", |config| config),
    ("ppro", |config| config),
    ("p6", |config| config),
    ("pm", |config| config),
    ("k7", |config| config),
    ("k8", |config| config),
    ("knc", |config| config),
    ("k8", |config| Config { cpus: 2, pipes: true, test_device: true, script: script(), ..config }),
    ("knc", |config| Config { cpus: 5, warm: Warm::Always, ..config }),
    ("k8", |config| Config { warm: Warm::Always, timing: Timing::Model, ..config }),
    ("p6", |config| Config { boot: Boot::Firmware, skid: 100, no_cache: true, ..config }),
    ("p55c", |config| Config { warm: Warm::Always, cpus: 2, ..config }),
];

fn script() -> Script {
    let text = "wait \"never\"\n+1 \"a\"\n";
    Script::parse(text, 2_000_000_000).unwrap_or_default()
}

/// How many there are.
pub(super) const COUNT: usize = MACHINES.len();

/// What a snapshot consists of, inside of its frame.
struct Parts {
    name: String,
    kind: Kind,
    tree: Value,
    ram: Vec<u8>,
}

/// A machine of [`MACHINES`] that runs the demo.
fn machine(n: usize) -> Result<(&'static str, Machine), String> {
    let (name, adapt) = MACHINES[n % COUNT];
    let part = demo::Part::by_name(name).ok_or("no part")?;
    let image = demo::sampling(part).map_err(|e| e.to_string())?;
    let payload = Payload::Flat {
        image: Image { name: "demo".into(), bytes: image.bytes },
        address: image.load_address,
    };
    let ram = RamLayout::new(MEMORY, None).map_err(|e| e.to_string())?;
    let config = adapt(Config::new(name, ram, payload).map_err(|e| e.to_string())?);
    Ok((name, Machine::new(&config).map_err(|e| e.to_string())?))
}

fn run(machine: &mut Machine, instructions: u64) -> Result<(), String> {
    let stop = Stop::new().map_err(|e| e.to_string())?;
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let end = machine.run_until(&stop, Some(instructions), &mut console);
    end.map(|_| ()).map_err(|e| e.to_string())
}

/// The snapshot of such a machine.
fn parts(n: usize) -> Result<&'static Parts, String> {
    static ALL: [OnceLock<Result<Parts, String>>; COUNT] = [const { OnceLock::new() }; COUNT];
    let n = n % COUNT;
    ALL[n].get_or_init(|| take_apart(n)).as_ref().map_err(Clone::clone)
}

fn take_apart(n: usize) -> Result<Parts, String> {
    let (name, mut machine) = machine(n)?;
    run(&mut machine, INSTRUCTIONS)?;
    let file = machine.snapshot().to_bytes();
    let (kind, body) = unframed("vpmu-snapshot", &file)?;
    let mut inside = Vec::new();
    let mut decoder = zstd::Decoder::new(body).map_err(|e| e.to_string())?;
    decoder.read_to_end(&mut inside).map_err(|e| e.to_string())?;
    let (length, rest) = inside.split_first_chunk::<8>().ok_or("no length")?;
    let length = u64::from_le_bytes(*length) as usize;
    let (tree, ram) = rest.split_at_checked(length).ok_or("no tree")?;
    let tree = framed::from_cbor(tree)?;
    let name = format!("a snapshot of machine {n}, {name}");
    Ok(Parts { name, kind, tree, ram: ram.to_vec() })
}

/// The kind of a file with such a first line, in the version that is written now, and its body.
pub(super) fn unframed<'a>(word: &'static str, file: &'a [u8]) -> Result<(Kind, &'a [u8]), String> {
    let end = file.iter().position(|&byte| byte == b'\n').ok_or("no first line")?;
    let line = String::from_utf8_lossy(&file[..end]);
    let version = line.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or("no version")?;
    Ok((Kind { word, name: "file", version }, &file[end + 1..]))
}

/// A snapshot with changes of its tree and its RAM, and these in words. Length and CRC are right.
pub(super) fn changed(n: usize, source: &mut Source<'_>) -> Result<(Vec<u8>, Vec<String>), String> {
    let parts = parts(n)?;
    let (mut tree, mut ram) = (parts.tree.clone(), parts.ram.clone());
    let mut words = vec![parts.name.clone()];
    while !source.is_over() && words.len() <= CHANGES {
        if source.byte() < 0xE0 {
            words.push(tree::edit(&mut tree, source));
        } else {
            let edit = Edit::next(source, &ram, &[]);
            words.push(format!("RAM: {edit}"));
            edit.apply(&mut ram);
        }
    }
    let tree = framed::to_cbor(&tree);
    let body = zstd::Encoder::new(Vec::new(), 1).and_then(|mut out| {
        out.write_all(&(tree.len() as u64).to_le_bytes())?;
        out.write_all(&tree)?;
        out.write_all(&ram)?;
        out.finish()
    });
    Ok((parts.kind.frame(body.map_err(|e| e.to_string())?), words))
}

/// Loads a snapshot, and goes on from it: whether it is accepted.
///
/// # Errors
/// What does not hold.
pub(super) fn check(bytes: &[u8]) -> Result<bool, String> {
    let snapshot = match Snapshot::from_bytes(bytes) {
        Ok(snapshot) => snapshot,
        Err(error) => return refused(&error),
    };
    let saved = snapshot.to_bytes();
    let identity = snapshot.identity.clone();
    let config = match identity.config(Payload::Snapshot(snapshot)) {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    let (memory, cpus) = LARGEST;
    if config.ram.size() > memory || config.cpus > cpus {
        return Ok(false);
    }
    match Machine::new(&config) {
        Ok(mut machine) => {
            let again = machine.snapshot();
            if again.to_bytes() != saved {
                let loaded = Snapshot::from_bytes(&saved).map_err(|e| e.to_string())?;
                let what = loaded.difference(&again).unwrap_or_else(|| "in its form".into());
                return Err(format!("is loaded and saved as another: {what}"));
            }
            goes_on(&mut machine)?;
            Ok(true)
        }
        Err(error) => refused(&error),
    }
}

/// That a machine's snapshot is read, and saved as the same bytes.
pub(super) fn is_saved(machine: &mut Machine) -> Result<(), String> {
    let saved = machine.snapshot().to_bytes();
    let read = Snapshot::from_bytes(&saved).map_err(|error| format!("its snapshot: {error}"))?;
    if read.to_bytes() == saved { Ok(()) } else { Err("its snapshot is saved as another".into()) }
}

/// What one of these machines did, recorded.
pub(super) fn recorded(n: usize) -> Result<Truth, String> {
    let (name, mut machine) = machine(n)?;
    let personality = Personality::by_name(name).ok_or("no personality")?;
    let recorder = Recorder::new(personality, "instructions,cycles").map_err(|e| e.to_string())?;
    machine.record(recorder).map_err(|e| e.to_string())?;
    run(&mut machine, INSTRUCTIONS)?;
    machine.recorded().map_err(|e| e.to_string())?.ok_or_else(|| "nothing recorded".into())
}

/// Lets a machine go on for a while, in time and in instructions. A snapshot may have a processor that is ahead by years,
/// which the others sleep through event by event: that ends when the machine is asked to stop, or it is a find.
pub(super) fn go_on(machine: &mut Machine) -> Result<(), String> {
    machine.pause_at(Pause::Time(machine.time().saturating_add(30_000)));
    let instructions = Some(machine.retired().saturating_add(3000));
    let limits = Limits { timeout: Some(PATIENCE), instructions };
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    machine.run(limits, &mut console).map(|_| ()).map_err(|e| e.to_string())
}
