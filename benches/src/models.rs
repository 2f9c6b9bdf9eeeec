//! The software engine with the models of micro-architecture on, beside QEMU with its own cache plugin.

use std::path::Path;
use std::time::Duration;

use vpmu::platform::Isa;
use vpmu::program::Image;

use crate::guest::{self, COUNT, Counted, Load, MODELLED_EVENT, Workload};
use crate::linux::{Flavour, Modelled};
use crate::qemu::{self, Cache, FirstLevel, Qemu};
use crate::soft;
use crate::{Result, loops_32, mips};

/// A part without 64-bit mode, and the registers that have a counter count misses of the data cache.
struct Part32 {
    cpu: &'static str,
    /// Its caches, for the peer to model.
    first_level: FirstLevel,
    registers: &'static [(u32, u64)],
    /// QEMU's name of a processor like it; `None` if it has no CMOV, which Debian's kernel for 32-bit processors wants.
    peer: Option<&'static str>,
}

/// PerfEvtSel0 of the P6 family, DCU_LINES_IN (SDM volume 3, "P6 Family Processors").
const P6: &[(u32, u64)] = &[(0x186, 0x45 | COUNT)];
/// 16 KiB of four ways and lines of 32 bytes each.
const PENTIUM: FirstLevel = equal(Cache { bytes: 16 << 10, ways: 4, line: 32 });
/// 8 KiB each, of four ways for code and two for data.
const PPRO: FirstLevel = FirstLevel {
    code: Cache { bytes: 8 << 10, ways: 4, line: 32 },
    data: Cache { bytes: 8 << 10, ways: 2, line: 32 },
};
const PM: FirstLevel = equal(Cache { bytes: 32 << 10, ways: 8, line: 64 });
const ATHLON: FirstLevel = equal(Cache { bytes: 64 << 10, ways: 2, line: 64 });

const fn equal(cache: Cache) -> FirstLevel {
    FirstLevel { code: cache, data: cache }
}

const PARTS: [Part32; 6] = [
    // CESR: CTR0 counts DATA_READ_MISS_OR_WRITE_MISS at any CPL (SDM volume 3, "Pentium Processors").
    Part32 { cpu: "p55c", first_level: PENTIUM, registers: &[(0x11, 0x29 | 3 << 6)], peer: None },
    Part32 { cpu: "ppro", first_level: PPRO, registers: P6, peer: Some("pentium2") },
    Part32 { cpu: "pii", first_level: PENTIUM, registers: P6, peer: Some("pentium2") },
    Part32 { cpu: "p6", first_level: PENTIUM, registers: P6, peer: Some("pentium3") },
    Part32 { cpu: "pm", first_level: PM, registers: P6, peer: Some("pentium3") },
    // PerfEvtSel0, DATA_CACHE_MISSES (AMD 22007, appendix D).
    Part32 {
        cpu: "k7",
        first_level: ATHLON,
        registers: &[(0xC001_0000, MODELLED_EVENT | COUNT)],
        peer: Some("athlon"),
    },
];

/// PerfEvtSel3 of K8.
const K8: &[(u32, u64)] = &[(0xC001_0003, MODELLED_EVENT | COUNT)];

/// The boots, with the caches of their parts.
fn boots() -> impl Iterator<Item = (Modelled, FirstLevel)> {
    let k8 = Modelled {
        cpu: "k8",
        isa: Isa::Strict,
        flavour: Flavour::Cloud,
        registers: K8,
        peer: "qemu64",
    };
    let others = PARTS.iter().map(|&Part32 { cpu, first_level, registers, peer }| {
        let (isa, flavour, peer) = match peer {
            Some(peer) => (Isa::Strict, Flavour::I686, peer),
            None => (Isa::Distro, Flavour::Cloud, "qemu64"),
        };
        (Modelled { cpu, isa, flavour, registers, peer }, first_level)
    });
    std::iter::once((k8, ATHLON)).chain(others)
}

/// The loops.
pub(crate) fn compare() -> Result<()> {
    let qemu = qemu::with_cache_plugin(ATHLON);
    loops_of_64_bits(qemu.as_ref())?;
    println!();
    loops_of_32_bits(qemu.as_ref())
}

/// Each part's boot of Linux, to power-off, and behind it the peer's.
pub(crate) fn boot() -> Result<()> {
    let qemu = qemu::with_cache_plugin(ATHLON);
    println!("| boot to power-off | million instructions | vpmu, s | MIPS | the peer, s | ratio |");
    println!("|---|---|---|---|---|---|");
    for (modelled, caches) in boots() {
        let soft::Run { time, instructions } = modelled.boot()?;
        let seconds = time.as_secs_f64();
        let speed = mips(instructions, time);
        print!("| {} | {} | {seconds:.1} | {speed:.0} |", modelled.cpu, instructions / 1_000_000);
        match &qemu {
            Some(qemu) => {
                let peer = modelled.boot_peer(&qemu.with_caches(caches))?.as_secs_f64();
                println!(" {peer:.1} | {:.2} |", peer / seconds);
            }
            None => println!(" | |"),
        }
    }
    Ok(())
}

/// Writes so many iterations of each loop for each part to a folder, and the boots, to be run one by one where
/// instructions of the host are counted: a line each with the arguments of `vpmu run`.
pub(crate) fn write_images(folder: &Path, iterations: u32) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let write = |cpu: &str, load: Load, image: &Image| -> Result<()> {
        let file = folder.join(format!("{cpu}-{}-{iterations}", load.name().replace(' ', "-")));
        std::fs::write(&file, &image.bytes)?;
        println!("--cpu={cpu} --mem=16M --flat={}@{:#x}", file.display(), image.load_address);
        Ok(())
    };
    for load in Load::ALL {
        let workload = Workload { load, counted: Counted::Modelled };
        write("k8", load, &guest::assemble(workload, iterations.into())?)?;
        for Part32 { cpu, registers, .. } in &PARTS {
            write(cpu, load, &loops_32::assemble(load, registers, iterations)?)?;
        }
    }
    boots().try_for_each(|(modelled, _)| modelled.write(folder))
}

/// About a second of vpmu.
fn iterations(load: Load) -> u64 {
    load.iterations() / 3
}

/// Rounds of a row, in each of which all that is compared runs once: what the host does beside it for some seconds is
/// not in the way of one of them alone.
const ROUNDS: usize = 5;

/// Something that executes so many iterations of a loop: how long it takes.
type Run<'a> = Box<dyn Fn(u64) -> Result<Duration> + 'a>;

/// Millions of instructions a second of a loop on each of several things, in turns. `retired` tells how many instructions
/// so many iterations are.
fn speeds(n: u64, retired: impl Fn(u64) -> Result<u64>, runs: &[Run<'_>]) -> Result<Vec<f64>> {
    // Iterations differ where branches are random, so many of them hardly do.
    let instructions = (retired(n / 100 + 1)? - retired(1)?) * 100;
    // As `further`: a tenth is taken off as start-up.
    let few = n / 10;
    let mut shortest = vec![[Duration::MAX; 2]; runs.len()];
    for _ in 0..ROUNDS {
        for (run, [shorter, longer]) in runs.iter().zip(&mut shortest) {
            *shorter = run(few)?.min(*shorter);
            *longer = run(n + few)?.min(*longer);
        }
    }
    let speed =
        |[shorter, longer]: [Duration; 2]| mips(instructions, longer.saturating_sub(shorter));
    Ok(shortest.into_iter().map(speed).collect())
}

/// A cell: vpmu's speed, the peer's, and the ratio of the two.
fn cell(speed: f64, peer: Option<&f64>) -> String {
    match peer {
        Some(peer) => format!("{speed:.0} / {peer:.0} ({:.2})", speed / peer),
        None => format!("{speed:.0}"),
    }
}

fn loops_of_64_bits(qemu: Option<&Qemu>) -> Result<()> {
    println!("| loop, 64 bits | k8 |");
    println!("|---|---|");
    for load in Load::ALL {
        let workload = Workload { load, counted: Counted::Modelled };
        let mut runs: Vec<Run<'_>> = vec![Box::new(|n| Ok(soft::run(workload, n)?.time))];
        if let Some(qemu) = qemu {
            runs.push(Box::new(|n| qemu.run(workload, n)));
        }
        let retired = |n| Ok(soft::run(workload, n)?.instructions);
        let speeds = speeds(iterations(load), retired, &runs)?;
        println!("| {} | {} |", load.name(), cell(speeds[0], speeds.get(1)));
    }
    Ok(())
}

fn loops_of_32_bits(qemu: Option<&Qemu>) -> Result<()> {
    let names = PARTS.map(|part| part.cpu).join(" | ");
    println!("| loop, 32 bits | {names} |");
    println!("|---|{}", "---|".repeat(PARTS.len()));
    // Several parts have the same caches, and one peer.
    let mut peers: Vec<(FirstLevel, Qemu)> = Vec::new();
    for Part32 { first_level, .. } in &PARTS {
        if let Some(qemu) = qemu
            && peers.iter().all(|(caches, _)| caches != first_level)
        {
            peers.push((*first_level, qemu.with_caches(*first_level)));
        }
    }
    for load in Load::ALL {
        let image = move |registers: &[(u32, u64)], n: u64| -> Result<Image> {
            Ok(loops_32::assemble(load, registers, u32::try_from(n)?)?)
        };
        let run = |cpu, image| soft::run_image(cpu, image, false);
        let mut runs: Vec<Run<'_>> = Vec::new();
        for Part32 { cpu, registers, .. } in &PARTS {
            runs.push(Box::new(move |n| Ok(run(cpu, image(registers, n)?)?.time)));
        }
        for (_, qemu) in &peers {
            runs.push(Box::new(move |n| qemu.run_image(image(&[], n)?)));
        }
        let retired = |n| Ok(run("k7", image(&[], n)?)?.instructions);
        let speeds = speeds(iterations(load), retired, &runs)?;
        let (own, others) = speeds.split_at(PARTS.len());
        print!("| {} |", load.name());
        for (part, &speed) in PARTS.iter().zip(own) {
            let peer = peers.iter().position(|(caches, _)| *caches == part.first_level);
            print!(" {} |", cell(speed, peer.map(|peer| &others[peer])));
        }
        println!();
    }
    Ok(())
}
