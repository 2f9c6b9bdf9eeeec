//! The software engine with the models of micro-architecture on, beside QEMU with its own cache plugin.

use std::path::Path;
use std::time::Duration;

use vpmu::program::Image;

use crate::guest::{self, COUNT, Counted, Load, MODELLED_EVENT, Workload};
use crate::linux;
use crate::qemu::{self, Cache, FirstLevel, Qemu};
use crate::soft;
use crate::{Result, further, loops_32, mips};

/// A part without 64-bit mode, and the registers that have a counter count misses of the data cache.
struct Part32 {
    cpu: &'static str,
    /// Its caches, for the peer to model.
    first_level: FirstLevel,
    registers: &'static [(u32, u64)],
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
    Part32 { cpu: "p55c", first_level: PENTIUM, registers: &[(0x11, 0x29 | 3 << 6)] },
    Part32 { cpu: "ppro", first_level: PPRO, registers: P6 },
    Part32 { cpu: "pii", first_level: PENTIUM, registers: P6 },
    Part32 { cpu: "p6", first_level: PENTIUM, registers: P6 },
    Part32 { cpu: "pm", first_level: PM, registers: P6 },
    // PerfEvtSel0, DATA_CACHE_MISSES (AMD 22007, appendix D).
    Part32 { cpu: "k7", first_level: ATHLON, registers: &[(0xC001_0000, MODELLED_EVENT | COUNT)] },
];

/// All tables.
pub(crate) fn compare() -> Result<()> {
    let qemu = qemu::with_cache_plugin(ATHLON);
    loops_of_64_bits(qemu.as_ref())?;
    println!();
    loops_of_32_bits(qemu.as_ref())?;
    println!();
    linux::boot_modelled(qemu.as_ref())
}

/// Writes so many iterations of each loop for each part to a folder, and the boot, to be run one by one where
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
    linux::write_image(folder)
}

/// About a second of vpmu.
fn iterations(load: Load) -> u64 {
    load.iterations() / 3
}

/// Millions of instructions a second of a loop on something that runs an image. `retired` tells how many
/// instructions so many iterations are.
fn speed(
    n: u64,
    retired: &dyn Fn(u64) -> Result<u64>,
    run: &dyn Fn(u64) -> Result<Duration>,
) -> Result<f64> {
    // Iterations differ where branches are random, so many of them hardly do.
    let instructions = (retired(n / 100 + 1)? - retired(1)?) * 100;
    Ok(mips(instructions, further(n, run)?))
}

/// A cell: vpmu's speed, the peer's, and the ratio of the two.
fn cell(speed: f64, peer: Option<f64>) -> String {
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
        let n = iterations(load);
        let retired = |n| Ok(soft::run(workload, n)?.instructions);
        let peer = qemu.map(|qemu| speed(n, &retired, &|n| qemu.run(workload, n))).transpose()?;
        let own = speed(n, &retired, &|n| Ok(soft::run(workload, n)?.time))?;
        println!("| {} | {} |", load.name(), cell(own, peer));
    }
    Ok(())
}

fn loops_of_32_bits(qemu: Option<&Qemu>) -> Result<()> {
    let names = PARTS.map(|part| part.cpu).join(" | ");
    println!("| loop, 32 bits | {names} |");
    println!("|---|{}", "---|".repeat(PARTS.len()));
    for load in Load::ALL {
        let n = iterations(load);
        let image = |registers: &[(u32, u64)], n: u64| -> Result<Image> {
            Ok(loops_32::assemble(load, registers, u32::try_from(n)?)?)
        };
        let run = |cpu, image| soft::run_image(cpu, image, false);
        let retired = |n| Ok(run("k7", image(&[], n)?)?.instructions);
        print!("| {} |", load.name());
        let mut peers: Vec<(FirstLevel, f64)> = Vec::new();
        for Part32 { cpu, first_level, registers } in &PARTS {
            let measured = peers.iter().find(|(caches, _)| caches == first_level);
            let peer = match (measured, qemu) {
                (Some(&(_, peer)), _) => Some(peer),
                (None, Some(qemu)) => {
                    let qemu = qemu.with_caches(*first_level);
                    let peer = speed(n, &retired, &|n| qemu.run_image(image(&[], n)?))?;
                    peers.push((*first_level, peer));
                    Some(peer)
                }
                (None, None) => None,
            };
            let own = speed(n, &retired, &|n| Ok(run(cpu, image(registers, n)?)?.time))?;
            print!(" {} |", cell(own, peer));
        }
        println!();
    }
    Ok(())
}
