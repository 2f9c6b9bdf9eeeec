//! What it takes to put a machine aside in memory, and to go back.

use std::io;
use std::time::{Duration, Instant};

use iced_x86::code_asm::{dword_ptr, ecx, esi};
use vpmu::boot::memory::RamLayout;
use vpmu::config::Config;
use vpmu::console::Console;
use vpmu::engine::soft::Warm;
use vpmu::program::Program;
use vpmu::stop::Stop;

use crate::{Result, machine};

/// Rounds of one measurement.
const ROUNDS: u32 = 500;

/// A table of pages written between two resets.
pub(crate) fn table() -> Result<()> {
    println!("| pages written | processors | models | reset, us | of it a page | snapshot, us |");
    println!("|---|---|---|---|---|---|");
    for (cpus, warm) in [(1, Warm::Counting), (4, Warm::Counting), (1, Warm::Always)] {
        let mut none = Duration::ZERO;
        for pages in [0, 10, 100, 1000] {
            let (reset, snapshot) = measure(pages, cpus, warm)?;
            if pages == 0 {
                none = reset;
            }
            let page = match pages {
                0 => "-".into(),
                n => format!("{:.2}", micros(reset.saturating_sub(none)) / f64::from(n)),
            };
            let models = if warm == Warm::Always { "all" } else { "none" };
            println!(
                "| {pages} | {cpus} | {models} | {:.1} | {page} | {:.1} |",
                micros(reset),
                micros(snapshot)
            );
        }
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A reset behind so many pages, and a snapshot there.
fn measure(pages: u32, cpus: u8, warm: Warm) -> Result<(Duration, Duration)> {
    let config = Config::new("k8", RamLayout::new(16 << 20, None)?, machine::flat(guest(pages)?))?;
    let mut machine = vpmu::machine::Machine::new(&Config { cpus, warm, ..config })?;
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    let stop = Stop::new()?;
    // Behind the set-up, and once through the loop.
    let door = 2000 + 5 * u64::from(pages);
    let inside = door + 3 + 4 * u64::from(pages.max(1));
    machine.run_until(&stop, Some(door), &mut console)?;
    let base = machine.snapshot();
    // Too short for the clock of processor time: the shortest of many is one that nothing interrupted.
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        machine.run_until(&stop, Some(inside), &mut console)?;
        let started = Instant::now();
        let there = machine.snapshot();
        best[1] = best[1].min(started.elapsed());
        machine.reset_to(&base)?;
        drop(there);
        machine.run_until(&stop, Some(inside), &mut console)?;
        let started = Instant::now();
        machine.reset_to(&base)?;
        best[0] = best[0].min(started.elapsed());
    }
    Ok((best[0], best[1]))
}

/// A guest that adds to a word of so many pages, again and again.
fn guest(pages: u32) -> std::result::Result<vpmu::program::Image, iced_x86::IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let again = p.here()?;
    p.mov(ecx, pages.max(1))?;
    p.mov(esi, 0x20_0000)?;
    let next = p.here()?;
    if pages != 0 {
        p.inc(dword_ptr(esi))?;
    }
    p.add(esi, 4096)?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.jmp(again)?;
    program.finish()
}
