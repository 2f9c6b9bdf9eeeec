//! A boot of Linux with perf in it, cut at random places: what comes later is what would have come without.
//!
//! Some runs are cut at many places each, by turns behind so many instructions and at a virtual time. At every other
//! place a new machine goes on from the bytes of a snapshot; at the others the same machine runs ahead and is reset.
//! What is compared is the console, on which there is a digest of all samples with their addresses and times, the
//! statistics, and what a trace has of each processor: every overflow and PMI, and every access to a register of the PMU,
//! with its time and where it was.
//!
//! `VPMU_CUTS=250 cargo test --release -p vpmu --test linux -- cuts` makes more of them in each test than the few of every day.

use std::path::PathBuf;
use std::time::Duration;

use vpmu::boot::Payload;
use vpmu::boot::memory::RamLayout;
use vpmu::config::{Config, Limits};
use vpmu::console::Captured;
use vpmu::engine::soft::{Timing, Warm};
use vpmu::machine::{End, Machine, Pause};
use vpmu::snapshot::Snapshot;
use vpmu::stop::Stop;
use vpmu::summary::Summary;
use vpmu::trace::{Asked, Form, Kind, Tracer};

use crate::guest::{BRIEF, Packages, packages};
use crate::harness::{CannotRun, Verdict, tests};
use crate::program::elf;

tests!(one_processor, four_processors, one_with_models, four_with_models);

/// Counts, then samples all processors, in the kernel as well.
const INIT: &str = "\
perf stat -e cycles,instructions,branch-misses,L1-dcache-load-misses static
perf record -q -a -e instructions -c 100003 -o p -- sh -c 'static & static; wait'
md5sum p
poweroff -f";

/// How many cuts there are to be of each test.
const VARIABLE: &str = "VPMU_CUTS";
/// Cuts of a test, unless the environment has another number.
const CUTS: usize = 10;
/// Cuts of a run.
const CUTS_PER_RUN: usize = 125;
/// The most instructions, or cycles, that a machine runs ahead before it is reset.
const AHEAD: u64 = 300_000;

fn one_processor() -> Verdict {
    cut(1, Timing::Auto, Warm::Counting)
}

fn four_processors() -> Verdict {
    cut(4, Timing::Auto, Warm::Counting)
}

fn one_with_models() -> Verdict {
    only_if_asked_for()?;
    cut(1, Timing::Model, Warm::Always)
}

fn four_with_models() -> Verdict {
    only_if_asked_for()?;
    cut(4, Timing::Model, Warm::Always)
}

/// All of a boot with all models takes minutes. Without these two, models are on while perf counts.
fn only_if_asked_for() -> Verdict {
    match std::env::var_os(VARIABLE) {
        Some(_) => Ok(()),
        None => Err(CannotRun::because(
            "all models throughout a boot take minutes: VPMU_CUTS is not set",
        )),
    }
}

fn cut(cpus: u8, timing: Timing, warm: Warm) -> Verdict {
    let config = config(packages()?, cpus, timing, warm);
    let whole = Run::whole(&config);
    assert!(whole.console.contains("  p\n"), "{}", whole.console);
    let delivered = whole.acts.concat().iter().filter(|act| act.contains("\"delivered\"")).count();
    assert!(delivered > 100, "{delivered} PMIs");
    let asked = std::env::var(VARIABLE).ok();
    let mut left = asked.map_or(CUTS, |number| number.parse().expect("VPMU_CUTS: a number"));
    let mut random =
        Random(0x9E37_79B9_7F4A_7C15 ^ u64::from(cpus) << 8 ^ u64::from(timing == Timing::Model));
    // Of the few of every day, those of one processor are by instructions and those of four by time.
    let mut by = if cpus == 1 { By::Instructions } else { By::Time };
    while left > 0 {
        let cuts = left.min(CUTS_PER_RUN);
        left -= cuts;
        let end = match by {
            By::Instructions => whole.instructions,
            By::Time => whole.time,
        };
        let mut places: Vec<_> = (0..cuts).map(|_| random.below(end)).collect();
        places.sort_unstable();
        let run = Run::in_pieces(&config, by, &places, &mut random);
        assert_eq!(run.console, whole.console, "cut by {by:?} at {places:?}");
        assert_eq!(run.statistics, whole.statistics, "cut by {by:?} at {places:?}");
        for (cpu, (acts, expected)) in run.acts.iter().zip(&whole.acts).enumerate() {
            let differs = acts.iter().zip(expected).find(|(act, expected)| act != expected);
            assert!(
                acts == expected,
                "processor {cpu}, cut by {by:?} at {places:?}: {differs:?}, {} and {} acts",
                acts.len(),
                expected.len(),
            );
        }
        by = match by {
            By::Instructions => By::Time,
            By::Time => By::Instructions,
        };
    }
    Ok(())
}

/// What says where a run is cut.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Instructions that have retired.
    Instructions,
    /// Virtual time, in cycles. Processors may be halted then, or have one another's instructions yet to come.
    Time,
}

impl By {
    fn pause(self, place: u64) -> Pause {
        match self {
            Self::Instructions => Pause::Instructions(place),
            Self::Time => Pause::Time(place),
        }
    }
}

/// The guest, on a K8.
fn config(packages: &Packages, cpus: u8, timing: Timing, warm: Warm) -> Config {
    let mut root = packages.root(INIT);
    packages.add_perf(&mut root);
    root.file("/bin/static", 0o755, elf());
    let payload = packages.payload(&root, BRIEF);
    let ram = RamLayout::new(512 << 20, None).expect("memory");
    let known = Config::new("k8", ram, payload).expect("a known processor");
    // What takes minutes, on four processors with all models a quarter of an hour, takes longer beside other load.
    let minutes = if warm == Warm::Always { 90 } else { 7 };
    let limits = Limits { timeout: Some(Duration::from_mins(minutes)), instructions: None };
    Config { cpus, timing, warm, limits, ..known }
}

/// What came of a run.
struct Run {
    console: String,
    statistics: String,
    instructions: u64,
    /// Virtual time at its end, in cycles.
    time: u64,
    /// What was traced, by processor, a line of JSON an act.
    acts: Vec<Vec<String>>,
}

impl Run {
    fn whole(config: &Config) -> Self {
        Self::in_pieces(config, By::Instructions, &[], &mut Random(1))
    }

    /// Cut at these places.
    fn in_pieces(config: &Config, by: By, places: &[u64], random: &mut Random) -> Self {
        let captured = Captured::default();
        let mut console = captured.console();
        let mut machine = Machine::new(config).expect("a machine");
        let mut traces = Traces::new(config.cpus);
        traces.begin(&mut machine);
        for (n, &place) in places.iter().enumerate() {
            machine.pause_at(by.pause(place));
            assert_eq!(machine.run(config.limits, &mut console).expect("a run"), End::Paused);
            traces.end(&mut machine);
            let snapshot = machine.snapshot();
            if n % 2 == 0 {
                let snapshot = Snapshot::from_bytes(&snapshot.to_bytes()).expect("a snapshot");
                let payload = Payload::Snapshot(snapshot);
                machine = Machine::new(&Config { payload, ..config.clone() }).expect("a machine");
            } else {
                machine.pause_at(by.pause(place + random.below(AHEAD)));
                machine.run(config.limits, &mut Captured::default().console()).expect("a run");
                machine.reset_to(&snapshot).expect("its own snapshot");
            }
            traces.begin(&mut machine);
        }
        let end = machine.run(config.limits, &mut console).expect("a run");
        assert_eq!(end, End::PowerOff);
        traces.end(&mut machine);
        let statistics =
            Summary::new(config.personality, &machine, end).json().expect("statistics");
        let mut statistics: serde_json::Value = serde_json::from_str(&statistics).expect("JSON");
        // How much was translated is nothing that a guest sees.
        statistics.as_object_mut().expect("an object").remove("translated").expect("a member");
        Self {
            console: captured.text(),
            statistics: statistics.to_string(),
            instructions: machine.retired(),
            time: machine.time(),
            acts: traces.acts.clone(),
        }
    }
}

/// Traces of the pieces of a run, of all acts but that an engine begins.
struct Traces {
    file: PathBuf,
    acts: Vec<Vec<String>>,
}

impl Traces {
    const KINDS: [Kind; 6] =
        [Kind::Msr, Kind::Rdpmc, Kind::Overflow, Kind::Pmi, Kind::Lvtpc, Kind::Eoi];

    fn new(cpus: u8) -> Self {
        // Tests of other processors and clocks run at the same time, in threads of one process.
        let thread = std::thread::current().id();
        let name = format!("vpmu-cuts-{}-{thread:?}.jsonl", std::process::id());
        Self { file: std::env::temp_dir().join(name), acts: vec![Vec::new(); cpus.into()] }
    }

    fn begin(&self, machine: &mut Machine) {
        let personality = machine.vcpus()[0].pmu.personality();
        let asked = Asked { path: &self.file, form: Form::Json, kinds: &Self::KINDS };
        let tracer =
            Tracer::new(&asked, machine.subject(personality), &Stop::new().expect("signals"));
        machine.trace(tracer.expect("a trace"));
    }

    fn end(&mut self, machine: &mut Machine) {
        machine.end_trace().expect("a trace");
        for line in std::fs::read_to_string(&self.file).expect("a trace").lines() {
            let act: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let cpu = act["vcpu"].as_u64().expect("a processor") as usize;
            self.acts[cpu].push(line.to_owned());
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.file);
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}
