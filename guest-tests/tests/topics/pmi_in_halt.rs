//! HLT while a counter is enabled: the clock of the counters stops (BKDG 10.2), whoever ends the
//! halt; and an overflow by another thread of the core ends it.

use guest_tests::guest::{EFLAGS_CLEAR, EOI, LVT_NMI, LVTPC};
use guest_tests::msr::{ALL_THREADS, INT, OS, USR};
use guest_tests::timing::{delivery, memory, taken};
use guest_tests::{DISABLING, Guest, Options, PMI_VECTOR, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, ecx, edi};

topics!(another_processor_ends_it, a_pmi_behind_the_waking_handler, another_thread_overflows_it,);

const TWO: Options = Options { cpus: 2, ..Options::DEFAULT };
const WAKE_VECTOR: u8 = 0x60;
const ICR: i32 = 0x300;
const ICR_HIGH: i32 = 0x310;
/// Fixed delivery, asserted, to the identifier in the upper half.
const ASSERT: u32 = 1 << 14;

/// Processor 0 is about to halt.
const READY: u32 = SCRATCH;
/// How often it was woken.
const WOKEN: u32 = SCRATCH + 4;

/// Iterations of the loop in which the other one waits for processor 0 to halt.
const DELAY: u32 = 20_000;

/// The handler at [`WAKE_VECTOR`].
fn waking_handler(g: &mut Guest) -> Result {
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(WAKE_VECTOR, entry, 0);
    g.push(edi)?; // 1
    g.inc(dword_ptr(WOKEN))?; // 2
    g.write_lapic(EOI, 0)?; // 3, 4
    g.pop(edi)?; // 5
    g.iretd()?; // 6
    g.place(&mut over)
}
const WAKING: u64 = 6;

/// Cycles of it: PUSH, INC, MOV, MOV to EOI, POP, IRETD.
fn waking_cycles() -> u64 {
    memory() + memory() + 1 + memory() + memory() + taken()
}

/// Waits until processor 0 is about to halt, and then some more.
fn wait_for_halt(g: &mut Guest) -> Result {
    let wait = g.here()?;
    g.cmp(dword_ptr(READY), 0)?;
    g.je(wait)?;
    g.mov(ecx, DELAY)?;
    let next = g.here()?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn wake(g: &mut Guest) -> Result {
    g.write_lapic(ICR_HIGH, 0)?;
    g.write_lapic(ICR, ASSERT | u32::from(WAKE_VECTOR))
}

/// An interrupt from another processor ends a halt in which the cycles stand still.
fn another_processor_ends_it(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        waking_handler(g)?;
        g.on_every_processor(2, |g| {
            g.on_processor(1, |g| {
                wait_for_halt(g)?;
                wake(g)
            })?;
            g.on_processor(0, |g| {
                g.count("unhalted", part.cycles, OS, |g| {
                    g.mov(dword_ptr(READY), 1)?; // a store
                    g.sti()?; // 1
                    g.hlt()?; // 1, then the delivery of the interrupt and the handler
                    g.cli() // 1
                })
            })
        })?;
        g.report_word("woken", WOKEN)
    })?;
    let cycles = memory() + 1 + 1 + delivery() + waking_cycles() + 1 + DISABLING;
    run_with(part, &image, TWO).expect(&[("woken", 1), ("unhalted", cycles)]);
    Ok(())
}

/// The last instruction of the handler that ended the halt overflows: the PMI is taken behind HLT.
fn a_pmi_behind_the_waking_handler(part: &'static Part) -> Result {
    // MOV, STI, HLT, the interrupt if it counts, the handler.
    let overflowing = 3 + part.exceptional.instructions + WAKING;
    for lvtpc in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(part, |g| {
            waking_handler(g)?;
            g.on_every_processor(2, |g| {
                g.on_processor(1, |g| {
                    wait_for_halt(g)?;
                    wake(g)
                })?;
                g.on_processor(0, |g| {
                    g.write_lapic(LVTPC, lvtpc)?;
                    g.start(0, part.instructions, OS | INT, overflowing.wrapping_neg())?;
                    g.mov(dword_ptr(READY), 1)?;
                    g.sti()?;
                    g.hlt()?;
                    g.mark("behind")?;
                    g.nop()?;
                    g.cli()?;
                    g.stop(0)?;
                    g.report_pmis("pmis", 1)
                })
            })?;
            g.report_word("woken", WOKEN)
        })?;
        let behind = image.symbol("behind").expect("a mark");
        run_with(part, &image, TWO).expect(&[("woken", 1), ("pmis", 1), ("pmis.0", behind)]);
    }
    Ok(())
}

/// A counter for all threads of the core goes on while its own thread is halted, and its overflow
/// ends the halt (Intel 327357-001, table 1-5). Nothing else would.
fn another_thread_overflows_it(part: &'static Part) -> Result {
    const OVERFLOWING: u64 = 150;
    const ROUNDS: u32 = 100;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(2, |g| {
            g.on_processor(1, |g| {
                wait_for_halt(g)?;
                g.at_cpl3(EFLAGS_CLEAR, |g| {
                    g.mov(ecx, ROUNDS)?; // 1
                    let next = g.here()?;
                    g.dec(ecx)?; // 1 each
                    g.jnz(next) // 1 each; then INT 80h
                })
            })?;
            g.on_processor(0, |g| {
                g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
                let preset = OVERFLOWING.wrapping_neg();
                g.start(0, part.instructions, USR | ALL_THREADS | INT, preset)?;
                g.mov(dword_ptr(READY), 1)?;
                g.sti()?;
                g.hlt()?;
                g.mark("behind")?;
                g.nop()?;
                g.cli()
            })?;
            g.barrier()?;
            g.on_processor(0, |g| {
                g.stop(0)?;
                g.read_pmc(0)?;
                g.report("counter")?;
                g.report_pmis("pmis", 1)
            })
        })
    })?;
    let behind = image.symbol("behind").expect("a mark");
    let counted = 1 + 2 * u64::from(ROUNDS) + 1;
    run_with(part, &image, TWO).expect(&[
        ("pmis", 1),
        ("pmis.0", behind),
        ("counter", counted - OVERFLOWING),
    ]);
    Ok(())
}
