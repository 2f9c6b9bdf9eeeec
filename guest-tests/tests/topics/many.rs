//! As many processors as there can be: all are started, count, and send each other interrupts.

use guest_tests::guest::EOI;
use guest_tests::msr::OS;
use guest_tests::{DISABLING, Guest, Options, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ecx, edx};
use vpmu::program::LAPIC;

topics!(each_counts_its_own, an_interrupt_goes_round);

const ICR: u32 = LAPIC + 0x300;
const ICR_HIGH: u32 = LAPIC + 0x310;
const ASSERT: u32 = 1 << 14;
const ALL_BUT_SELF: u32 = 3 << 18;

/// All that a Knights Corner has; elsewhere nearly all that identifiers of eight bits allow.
fn processors(part: &Part) -> u32 {
    if part.name == "knc" { 244 } else { 250 }
}

fn machine(cpus: u32) -> Options {
    Options { cpus: cpus as u8, ..Options::DEFAULT }
}

/// Processor n does n + 1 times ten rounds of DEC and JNZ, all at once.
fn each_counts_its_own(part: &'static Part) -> Result {
    /// The sum of all counts, and how many are in it.
    const SUM: u32 = SCRATCH;
    const COUNTED: u32 = SCRATCH + 4;
    let cpus = processors(part);
    let image = Guest::assemble(part, |g| {
        g.on_many_processors(cpus, |g| {
            g.barrier()?;
            g.start(0, part.instructions, OS, 0)?;
            g.imul_3(ecx, ebp, 10)?;
            g.add(ecx, 10)?;
            let next = g.here()?;
            g.dec(ecx)?;
            g.jnz(next)?;
            g.stop(0)?;
            g.read_pmc(0)?;
            g.lock().add(dword_ptr(SUM), eax)?;
            g.lock().inc(dword_ptr(COUNTED))
        })?;
        g.report_word("sum", SUM)?;
        g.report_word("counted", COUNTED)
    })?;
    // IMUL, ADD, the rounds, and what stops the counter: 6 and 20 for each ten rounds, of which there
    // are 1 + 2 + ... + n.
    assert_eq!(DISABLING, 4);
    let sum = match cpus {
        244 => 6 * 244 + 20 * 29_890,
        _ => 6 * 250 + 20 * 31_375,
    };
    run_with(part, &image, machine(cpus)).expect(&[("sum", sum), ("counted", cpus.into())]);
    Ok(())
}

/// All are halted but the one that has the interrupt. It sends it to the next, three times round.
fn an_interrupt_goes_round(part: &'static Part) -> Result {
    const VECTOR: u8 = 0x60;
    const END: u8 = 0x61;
    /// How often it was sent on, how often it came to another one than it was sent to, and whether it
    /// has been round for the last time.
    const HOPS: u32 = SCRATCH;
    const ASTRAY: u32 = SCRATCH + 4;
    const OVER: u32 = SCRATCH + 8;
    /// Of each processor: how often it had it.
    const TAKEN: u32 = SCRATCH + 0x1000;
    let cpus = processors(part);
    let image = Guest::assemble(part, |g| {
        for vector in [VECTOR, END] {
            let (mut over, mut done) = (g.create_label(), g.create_label());
            g.jmp(over)?;
            let entry = g.here()?;
            g.gate(vector, entry, 0);
            if vector == VECTOR {
                g.inc(dword_ptr(ebp * 8 + TAKEN))?;
                // Hop h comes to processor h modulo their number.
                let mut right = g.create_label();
                g.inc(dword_ptr(HOPS))?;
                g.mov(eax, dword_ptr(HOPS))?;
                g.xor(edx, edx)?;
                g.mov(ecx, cpus)?;
                g.div(ecx)?;
                g.cmp(edx, ebp)?;
                g.je(right)?;
                g.inc(dword_ptr(ASTRAY))?;
                g.place(&mut right)?;
                // To the next of this one, EDX.
                let (mut on, mut wrapped) = (g.create_label(), g.create_label());
                g.cmp(dword_ptr(HOPS), (3 * cpus) as i32)?;
                g.jb(on)?;
                g.mov(dword_ptr(OVER), 1)?;
                g.mov(dword_ptr(ICR), ALL_BUT_SELF | ASSERT | u32::from(END))?;
                g.jmp(done)?;
                g.place(&mut on)?;
                g.lea(edx, dword_ptr(ebp + 1))?;
                g.cmp(edx, cpus as i32)?;
                g.jb(wrapped)?;
                g.xor(edx, edx)?;
                g.place(&mut wrapped)?;
                g.shl(edx, 24)?;
                g.mov(dword_ptr(ICR_HIGH), edx)?;
                g.mov(dword_ptr(ICR), ASSERT | u32::from(VECTOR))?;
            }
            g.place(&mut done)?;
            g.mov(dword_ptr(LAPIC + EOI as u32), 0)?;
            g.iretd()?;
            g.place(&mut over)?;
        }
        g.on_many_processors(cpus, |g| {
            g.barrier()?;
            g.on_processor(0, |g| {
                g.mov(dword_ptr(ICR_HIGH), 1 << 24)?;
                g.mov(dword_ptr(ICR), ASSERT | u32::from(VECTOR))
            })?;
            let (mut wait, mut over) = (g.create_label(), g.create_label());
            g.place(&mut wait)?;
            g.cli()?;
            g.cmp(dword_ptr(OVER), 0)?;
            g.jne(over)?;
            g.sti()?;
            g.hlt()?;
            g.jmp(wait)?;
            g.place(&mut over)
        })?;
        g.report_word("hops", HOPS)?;
        g.report_word("astray", ASTRAY)?;
        for n in [0, 1, cpus / 2, cpus - 1] {
            g.report_word(&format!("taken{n}"), TAKEN + 8 * n)?;
        }
        Ok(())
    })?;
    let outcome = run_with(part, &image, machine(cpus));
    outcome.expect(&[("hops", 3 * u64::from(cpus)), ("astray", 0)]);
    for n in [0, 1, cpus / 2, cpus - 1] {
        outcome.expect(&[(&format!("taken{n}"), 3)]);
    }
    Ok(())
}
