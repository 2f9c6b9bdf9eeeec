//! What an instruction costs on a machine of many threads: each of them executes the same loop, all at once.

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, ebp, ecx, edi, esi, esp};
use vpmu::config::Limits;
use vpmu::machine::End;
use vpmu::program::{DATA, Image, LAPIC, LAPIC_ID, Program, TRAMPOLINE, TRAMPOLINE_BYTES};

use crate::machine::{self, Setup};
use crate::{RUNS, Result, clock};

/// Threads of the machines.
const THREADS: [u8; 5] = [1, 4, 16, 64, 244];
/// Iterations of all threads together, about a second of a single one.
const ITERATIONS: u32 = 40_000_000;
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
/// A thread's stack and, beneath it, the words that its loop loads and stores.
const OWN: u32 = 0x40_0000;
const OWN_BYTES: u32 = 0x1000;

/// A guest in which each of `threads` does so many iterations of five instructions, with a load and a store.
fn guest(threads: u32, iterations: u32) -> std::result::Result<Image, IcedError> {
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
    p.imul_3(ebp, ebp, OWN_BYTES as i32)?;
    p.lea(esp, dword_ptr(ebp + (OWN + OWN_BYTES)))?;
    p.add(ebp, OWN as i32)?;
    p.mov(ecx, iterations)?;
    let next = p.here()?;
    p.mov(esi, dword_ptr(ebp))?;
    p.lea(esi, dword_ptr(esi + esi * 4 + 1))?;
    p.mov(dword_ptr(ebp), esi)?;
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

/// Nanoseconds for a retired instruction of any thread, the best of [`RUNS`].
fn cost(threads: u8) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let image = guest(threads.into(), ITERATIONS / u32::from(threads))?;
        let setup = Setup { cpus: threads, ..Setup::soft("knc", 16 << 20) };
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

/// What an instruction costs with more and more threads of Knights Corner.
pub(crate) fn compare() -> Result<()> {
    println!("| threads | ns an instruction | ratio to one |");
    println!("|---|---|---|");
    let mut one = None;
    for threads in THREADS {
        let cost = cost(threads)?;
        let one = *one.get_or_insert(cost);
        println!("| {threads} | {cost:.2} | {:.2} |", cost / one);
    }
    Ok(())
}
