//! What an instruction costs on a machine of many threads: each of them executes the same loop, all at once.
//! Plain, and with each thread counting what only the pipeline tells, so that all models are on.

use std::path::Path;

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, ebp, ecx, edi, esi, esp};
use vpmu::config::Limits;
use vpmu::machine::End;
use vpmu::program::{DATA, Image, LAPIC, LAPIC_ID, Program, TRAMPOLINE, TRAMPOLINE_BYTES};

use crate::machine::{self, Setup};
use crate::{RUNS, Result, clock};

/// Threads of the machines.
const THREADS: [u8; 5] = [1, 4, 16, 64, 244];
/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Execution {
    /// Nothing is counted.
    Plain,
    /// Each thread counts what the pipeline tells of it.
    Models,
    /// Each thread counts what all threads of its core execute: without models, if there is one alone.
    Shared,
    /// As with all models, and each thread reads a megabyte of its own line by line, more than its core's caches hold.
    Megabyte,
}

impl Execution {
    /// Iterations of all threads together, of some eight seconds or less. Making the models of 244 threads takes some
    /// 30 ms, which are a hundredth of the shortest of these with models, or less; and each reads its megabyte at least
    /// twice.
    const fn iterations(self, threads: u8) -> u32 {
        match self {
            Self::Plain => 40_000_000,
            // No model is told of it.
            Self::Shared if threads == 1 => 40_000_000,
            Self::Shared => 4_000_000,
            Self::Models | Self::Megabyte => 8_000_000,
        }
    }

    /// Bytes of a thread's own memory.
    const fn own(self) -> u32 {
        match self {
            Self::Megabyte => 1 << 20,
            _ => 0x1000,
        }
    }
}

/// Of Intel 327357-001: the select of counter 0, and what is in it: enabled at CPL 0, PIPELINE_AGI_STALLS, or
/// INSTRUCTIONS_EXECUTED of all threads; and the two counters enabled.
const EVENT_SELECT: u32 = 0x28;
const OWN_STALLS: u64 = 1 << 22 | 1 << 17 | 0x1F;
const ALL_INSTRUCTIONS: u64 = 1 << 22 | 1 << 21 | 1 << 17 | 0x16;
const GLOBAL_CONTROL: (u32, u64) = (0x2F, 3);
/// Debug-exit port, which ends the machine.
const EXIT: i32 = 0xF4;

const ICR: i32 = 0x300;
const ALL_BUT_SELF: u32 = 3 << 18;
const ASSERT: u32 = 1 << 14;
const INIT: u32 = 5 << 8;
/// Start-up, at page 8.
const START_UP: u32 = 6 << 8 | 8;
/// How many threads have done their work.
const DONE: u32 = DATA;
/// The words that the first thread's loop loads and stores, and its stack above them.
const OWN: u32 = 0x40_0000;
/// How far above them the stack begins.
const STACK: u32 = 0x1000;
/// Bytes of a line of the caches.
const LINE: i32 = 64;

/// A guest in which each of `threads` does its share of the iterations of five instructions, with a load and
/// a store, or with a load of another line each time.
fn guest(
    threads: u32,
    execution: Execution,
    iterations: u32,
) -> std::result::Result<Image, IcedError> {
    let iterations = iterations / threads;
    let mut program = Program::new()?;
    let p = &mut program;
    let (mut start, mut work) = (p.create_label(), p.create_label());
    p.jmp(start)?;
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_segments()?;
    p.place(&mut work)?;
    p.mov(ebp, dword_ptr(LAPIC + LAPIC_ID as u32))?;
    p.shr(ebp, 24)?;
    p.imul_3(ebp, ebp, execution.own() as i32)?;
    p.lea(esp, dword_ptr(ebp + (OWN + STACK)))?;
    p.add(ebp, OWN as i32)?;
    let select = match execution {
        Execution::Plain => None,
        Execution::Models | Execution::Megabyte => Some(OWN_STALLS),
        Execution::Shared => Some(ALL_INSTRUCTIONS),
    };
    if let Some(select) = select {
        for (register, value) in [GLOBAL_CONTROL, (EVENT_SELECT, select)] {
            p.write_msr(register, value)?;
        }
    }
    p.mov(ecx, iterations)?;
    p.xor(edi, edi)?;
    let next = p.here()?;
    if execution == Execution::Megabyte {
        p.mov(esi, dword_ptr(ebp + edi))?;
        p.add(edi, LINE)?;
        p.and(edi, execution.own() as i32 - LINE)?;
    } else {
        p.mov(esi, dword_ptr(ebp))?;
        p.lea(esi, dword_ptr(esi + esi * 4 + 1))?;
        p.mov(dword_ptr(ebp), esi)?;
    }
    p.dec(ecx)?;
    p.jnz(next)?;
    p.lock().inc(dword_ptr(DONE))?;
    // The first to see that all are done ends the machine; until then each is halted but processor 0.
    let mut stay = p.create_label();
    p.cmp(ebp, OWN as i32)?;
    p.jne(stay)?;
    let wait = p.here()?;
    p.cmp(dword_ptr(DONE), threads as i32)?;
    p.jb(wait)?;
    p.out(EXIT, iced_x86::code_asm::al)?;
    p.place(&mut stay)?;
    p.hlt()?;
    p.jmp(stay)?;

    p.place(&mut start)?;
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, 8 << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | INIT)?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | START_UP)?;
    p.jmp(work)?;
    program.finish()
}

/// Bytes of memory of such a machine.
fn memory(threads: u8, execution: Execution) -> u64 {
    let own = u64::from(threads) * u64::from(execution.own());
    (u64::from(OWN) + own).next_multiple_of(16 << 20)
}

/// Nanoseconds for a retired instruction of any thread, the best of [`RUNS`].
fn cost(threads: u8, execution: Execution) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let image = guest(threads.into(), execution, execution.iterations(threads))?;
        let setup = Setup { cpus: threads, ..Setup::soft("knc", memory(threads, execution)) };
        let mut machine = setup.machine(machine::flat(image))?;
        let started = clock::own()?;
        match machine::run(&mut machine, Limits::default())? {
            End::Exit(_) => {}
            end => return Err(format!("the guest ended with {end:?}").into()),
        }
        let time = clock::own()?.saturating_sub(started);
        best = best.min(time.as_secs_f64() * 1e9 / machine.retired() as f64);
    }
    Ok(best)
}

/// Writes the guests with all models to a folder, with so many iterations of all threads together: a line each with
/// the arguments of `vpmu run`.
pub(crate) fn write_images(folder: &Path, iterations: u32) -> Result<()> {
    for (execution, name) in [(Execution::Models, "threads"), (Execution::Megabyte, "megabyte")] {
        for threads in THREADS {
            let image = guest(threads.into(), execution, iterations)?;
            let file = folder.join(format!("knc-{name}-{threads}-{iterations}"));
            std::fs::write(&file, &image.bytes)?;
            let (file, address) = (file.display(), image.load_address);
            let memory = memory(threads, execution) >> 20;
            println!("--cpu=knc --smp={threads} --mem={memory}M --flat={file}@{address:#x}");
        }
    }
    Ok(())
}

/// What an instruction costs with more and more threads of Knights Corner.
pub(crate) fn compare() -> Result<()> {
    for (execution, name) in [
        (Execution::Plain, "plain"),
        (Execution::Models, "all models"),
        (Execution::Shared, "all models, each counts its core"),
        (Execution::Megabyte, "all models, each reads a megabyte"),
    ] {
        println!("| threads, {name} | ns an instruction | ratio to one | ratio to four |");
        println!("|---|---|---|---|");
        let mut costs = Vec::new();
        for threads in THREADS {
            costs.push((threads, cost(threads, execution)?));
        }
        // That of one thread, and that of a core with all of its threads.
        let [(_, one), (_, core), ..] = costs[..] else { return Err("too few machines".into()) };
        for (threads, cost) in costs {
            println!("| {threads} | {cost:.1} | {:.2} | {:.2} |", cost / one, cost / core);
        }
        println!();
    }
    Ok(())
}
