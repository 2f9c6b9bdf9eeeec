//! What it takes to put a machine aside in memory, and to go back.

use std::io;
use std::time::{Duration, Instant};

use iced_x86::code_asm::{dword_ptr, eax, ecx, esi};
use vpmu::boot::memory::RamLayout;
use vpmu::config::Config;
use vpmu::console::Console;
use vpmu::engine::EngineKind;
use vpmu::engine::soft::Warm;
use vpmu::machine::{End, Machine, Pause};
use vpmu::program::Program;
use vpmu::stop::Stop;

use crate::{Result, machine};

/// Rounds of one measurement.
const ROUNDS: u32 = 500;

/// Bytes that a guest writes to port 80h at once where it is to be put aside: "snap".
const MARKER: u32 = u32::from_le_bytes(*b"snap");
const PAGES: [u32; 4] = [0, 10, 100, 1000];

/// The same on KVM: the guest writes natively, and a run behind a reset is a part of what it takes.
pub(crate) fn table_on_kvm() -> Result<()> {
    println!("| pages written | reset, us | snapshot, us | run, us | run behind a reset, us |");
    println!("|---|---|---|---|---|");
    for pages in PAGES {
        let [reset, snapshot, run, behind] = measure_on_kvm(pages)?.map(micros);
        println!("| {pages} | {reset:.1} | {snapshot:.1} | {run:.1} | {behind:.1} |");
    }
    Ok(())
}

/// A reset behind so many pages, a snapshot there, a run from marker to marker, and one that begins with a reset.
fn measure_on_kvm(pages: u32) -> Result<[Duration; 4]> {
    let config = Config::new("k8", RamLayout::new(16 << 20, None)?, machine::flat(guest(pages)?))?;
    let mut machine = Machine::new(&Config { engine: EngineKind::Kvm, ..config })?;
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    let stop = Stop::new()?;
    let mut to_marker = |machine: &mut Machine| -> Result<Duration> {
        let started = Instant::now();
        machine.pause_at(Pause::Marker);
        let end = machine.run_until(&stop, None, &mut console)?;
        assert_eq!(end, End::Paused);
        Ok(started.elapsed())
    };
    to_marker(&mut machine)?;
    let mut best = [Duration::MAX; 4];
    // Without a snapshot nothing is logged.
    for _ in 0..ROUNDS {
        best[2] = best[2].min(to_marker(&mut machine)?);
    }
    let base = machine.snapshot();
    for _ in 0..ROUNDS {
        to_marker(&mut machine)?;
        let started = Instant::now();
        let there = machine.snapshot();
        best[1] = best[1].min(started.elapsed());
        machine.reset_to(&base)?;
        drop(there);
        best[3] = best[3].min(to_marker(&mut machine)?);
        let started = Instant::now();
        machine.reset_to(&base)?;
        best[0] = best[0].min(started.elapsed());
    }
    Ok(best)
}

/// A table of pages written between two resets.
pub(crate) fn table() -> Result<()> {
    println!("| pages written | processors | models | reset, us | of it a page | snapshot, us |");
    println!("|---|---|---|---|---|---|");
    for (cpus, warm) in [(1, Warm::Counting), (4, Warm::Counting), (1, Warm::Always)] {
        let mut none = Duration::ZERO;
        for pages in PAGES {
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
    let mut machine = Machine::new(&Config { cpus, warm, ..config })?;
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    let stop = Stop::new()?;
    // Behind the set-up, and once through the loop.
    let door = 2000 + 5 * u64::from(pages);
    let inside = door + 6 + 4 * u64::from(pages.max(1));
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

/// A guest that adds to a word of so many pages, again and again, and marks each time.
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
    p.mov(eax, MARKER)?;
    p.out(0x80, eax)?;
    p.jmp(again)?;
    program.finish()
}
