//! Speed, measured beside the peers in one run: `cargo run --release -p benches [-- WHAT...]`.
//!
//! WHAT is any of
//!
//! - `loops`, `registers`, `boot`: the software engine. QEMU and Bochs take part if they are installed.
//!   All three without WHAT.
//! - `models`: the software engine with the models of micro-architecture on, beside QEMU with its cache
//!   plugin.
//! - `boot-models`: the same for the boot of Linux on each part that it runs on; half an hour.
//! - `images FOLDER ITERATIONS`: writes what `models` and `threads` execute to files, for callgrind.
//! - `threads`: what an instruction costs on machines of up to 244 threads.
//! - `kvm`: what an exit costs on the KVM engine, beside a bare KVM_RUN loop. Needs /dev/kvm.
//! - `long`: a guest of twenty billion instructions that counts a million in the middle, on the KVM
//!   engine, and a shorter one on the software engine. Needs /dev/kvm.
//! - `resets`: what it takes to go back to a snapshot in memory; `kvm-resets`: the same on KVM.
//! - `scripts`: the fuzz target of the PMU.
//! - `against OLD [NEW]`: two builds of `vpmu` in turns, this tree's where NEW is left out.
//!
//! A line a measurement goes to stdout, in Markdown.

mod against;
mod bochs;
mod clock;
mod disk;
mod guest;
mod kvm_exits;
mod kvm_raw;
mod linux;
mod long_count;
mod long_mode;
mod loops_32;
mod machine;
mod models;
mod qemu;
mod resets;
mod scripts;
mod soft;
mod threads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use guest::{Counted, Load, Workload};

/// Result of a measurement; an error is one line of text.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Each figure is the best of so many runs: other load on the host only ever adds time.
const RUNS: usize = 3;

fn main() -> ExitCode {
    let mut wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if wanted.is_empty() {
        wanted = ["loops", "registers", "boot"].map(String::from).to_vec();
    }
    let mut wanted = wanted.iter();
    while let Some(what) = wanted.next() {
        let result = match what.as_str() {
            "loops" => loops(),
            "registers" => registers(),
            "boot" => linux::boot(),
            "models" => models::compare(),
            "boot-models" => models::boot(),
            "images" => images(&mut wanted),
            "threads" => threads::compare(),
            "kvm" => kvm_exits::exits(),
            "long" => long_count::compare(),
            "resets" => resets::table(),
            "kvm-resets" => resets::table_on_kvm(),
            "scripts" => scripts::speed(),
            "against" => against(&mut wanted),
            _ => Err(format!(
                "{what}: not one of loops, registers, boot, models, boot-models, images, threads, kvm, long, resets, kvm-resets, scripts, against"
            )
            .into()),
        };
        if let Err(error) = result {
            eprintln!("benches: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The loops of `models` and `threads` as files: the folder, and how many iterations they do.
fn images<'a>(arguments: &mut impl Iterator<Item = &'a String>) -> Result<()> {
    let (Some(folder), Some(iterations)) = (arguments.next(), arguments.next()) else {
        return Err("images: which folder, and how many iterations?".into());
    };
    let (folder, iterations) = (Path::new(folder), iterations.parse()?);
    models::write_images(folder, iterations)?;
    threads::write_images(folder, iterations)
}

/// Two builds in turns, by the paths of their binaries.
fn against<'a>(paths: &mut impl Iterator<Item = &'a String>) -> Result<()> {
    let old = paths.next().ok_or("against: whose binary is the old one?")?;
    let new = match paths.next() {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("vpmu"),
    };
    against::compare(Path::new(old), &new)
}

/// What `n` further iterations take, both ends the shortest of [`RUNS`].
fn further(n: u64, run: impl Fn(u64) -> Result<Duration>) -> Result<Duration> {
    // A tenth is taken off as start-up: assembling, loading, the guest's way to the loop.
    let few = n / 10;
    let (mut shorter, mut longer) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        shorter = shorter.min(run(few)?);
        longer = longer.min(run(n + few)?);
    }
    Ok(longer.saturating_sub(shorter))
}

/// Millions of instructions a second.
fn mips(instructions: u64, time: Duration) -> f64 {
    instructions as f64 / time.as_secs_f64() / 1e6
}

/// A peer's column: its speed, or a dash where it is not installed.
fn column(measured: Option<Result<f64>>) -> String {
    match measured {
        Some(Ok(speed)) => format!("{speed:.0}"),
        Some(Err(error)) => {
            eprintln!("benches: {error}");
            "-".into()
        }
        None => "-".into(),
    }
}

/// Millions of instructions a second of small programs.
fn loops() -> Result<()> {
    let (qemu, bochs) = (qemu::find(), bochs::find());
    println!(
        "| loop | vpmu, MIPS | counting exact events | ratio | counting and --truth | ratio to counting \
         | QEMU TCG | Bochs |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for load in Load::ALL {
        // About a second of vpmu.
        let n = load.iterations();
        type RunIt = fn(Workload, u64) -> Result<soft::Run>;
        let speed = |workload, run: RunIt| -> Result<f64> {
            let instructions = soft::instructions(workload, n)?;
            let time = further(n, |n| run(workload, n).map(|run| run.time))?;
            Ok(mips(instructions, time))
        };
        let plain = speed(Workload { load, counted: Counted::Nothing }, soft::run)?;
        let counted = speed(Workload { load, counted: Counted::Exact }, soft::run)?;
        let recorded = speed(Workload { load, counted: Counted::Exact }, soft::run_recorded)?;
        let workload = Workload { load, counted: Counted::Nothing };
        // So many that the start of a process does not matter.
        let peer = |times: f64, run: &dyn Fn(u64) -> Result<Duration>| -> Result<f64> {
            let n = (n as f64 * times) as u64;
            Ok(mips(soft::instructions(workload, n / 100)? * 100, further(n, run)?))
        };
        let tcg = qemu.as_ref().map(|qemu| peer(8.0, &|n| qemu.run(workload, n)));
        let bochs = bochs.as_ref().map(|bochs| peer(1.0, &|n| bochs.run(workload, n)));
        println!(
            "| {} | {plain:.0} | {counted:.0} | {:.0} % | {recorded:.0} | {:.0} % | {} | {} |",
            load.name(),
            counted / plain * 100.0,
            recorded / counted * 100.0,
            column(tcg),
            column(bochs),
        );
    }
    Ok(())
}

/// Nanoseconds for an instruction that looks at the PMU.
fn registers() -> Result<()> {
    // Processor time comes in ticks of 4 or 10 ms: a nanosecond at most, spread over so many.
    const N: u64 = 10_000_000;
    println!("| instruction | ns |");
    println!("|---|---|");
    let time = |load, counted| -> Result<f64> {
        let workload = Workload { load, counted };
        let time = further(N, |n| soft::run(workload, n).map(|run| run.time))?;
        Ok(time.as_secs_f64() * 1e9 / N as f64)
    };
    for (counted, suffix) in [(Counted::Nothing, ""), (Counted::Exact, ", while counting")] {
        let empty = time(Load::Empty, counted)?;
        for load in [Load::Rdpmc, Load::Rdmsr, Load::Wrmsr] {
            println!("| {}{suffix} | {:.1} |", load.name(), time(load, counted)? - empty);
        }
    }
    Ok(())
}
