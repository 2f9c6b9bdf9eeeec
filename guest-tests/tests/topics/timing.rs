//! Virtual time by the pipelines' clocks, and by the flat one.
//!
//! Latencies are those of the manuals; what surrounds a chain of instructions that wait for each other is a
//! few hundred cycles of first misses, so that the chain is long.

use guest_tests::msr::{CMASK_1, CMASK_2, CMASK_3, OS};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Options, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebx, ecx, edi, edx, esi};
use vpmu::engine::soft::{Timing, Warm};
use vpmu::program::Image;

use crate::misses::{misses, read_lines};

topics!(
    a_chain_of_multiplications,
    the_clock_follows_what_is_asked_for,
    instructions_of_one_cycle,
    warm_caches,
    a_string_of_stores_and_a_loop_of_them,
    the_record_has_the_same_cycles,
    two_runs_are_equal,
);

/// Turns of a loop, and multiplications in one.
const TURNS: u32 = 50;
const CHAIN: u32 = 50;
const CHAINED: u64 = (TURNS * CHAIN) as u64;

/// Each multiplication waits for the one before it.
fn chain(g: &mut Guest) -> Result {
    g.mov(ecx, TURNS)?;
    let turn = g.here()?;
    for _ in 0..CHAIN {
        g.imul_2(eax, ebx)?;
    }
    g.dec(ecx)?;
    g.jnz(turn)
}

/// Cycles of IMUL r32, r32: gcc's athlon.md for K8 (3) and K7 (5), Fog 29.1 for the P6 family (4), and for the
/// Pentium (10) another emulator, 86Box (`codegen_timing_pentium.c`).
fn latency(part: &Part) -> u64 {
    match part.name {
        "k8" => 3,
        "k7" => 5,
        "p55c" => 10,
        _ => 4,
    }
}

/// Memory that no guest uses before.
const FRESH: u32 = 4 << 20;

fn with(timing: Timing) -> Options {
    Options { timing: Some(timing), ..Options::DEFAULT }
}

/// The cycles of the chain: those of its multiplications, and at most a twentieth more.
fn assert_chained(cycles: u64, part: &Part) {
    let least = CHAINED * latency(part);
    assert!((least..least + least / 20 + 400).contains(&cycles), "{cycles}, at least {least}");
}

/// By the unhalted cycles, and by the time-stamp counter, which goes on by the same clock.
fn a_chain_of_multiplications(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count("cycles", part.cycles, OS, |g| {
            g.rdtsc()?;
            g.mov(esi, eax)?;
            chain(g)?;
            g.rdtsc()?;
            g.sub(eax, esi)?;
            g.mov(dword_ptr(SCRATCH), eax)
        })?;
        g.report_word("by the time-stamp counter", SCRATCH)
    })?;
    let outcome = run_with(part, &image, with(Timing::Model));
    assert_chained(outcome.value("cycles"), part);
    assert_chained(outcome.value("by the time-stamp counter"), part);
    let flat = run_with(part, &image, with(Timing::Flat));
    // Two instructions around the chain, MOV, and DEC and JNZ of each turn.
    flat.expect(&[("by the time-stamp counter", CHAINED + 3 + 2 * u64::from(TURNS))]);
    Ok(())
}

/// Operations that the pipeline fires: RETIRED_UOPS, UOPS_RETIRED, INSTRUCTIONS_EXECUTED_IN_THE_V_PIPE.
fn of_the_pipeline(part: &Part) -> Event {
    match part.registers {
        Registers::P55c => event(0x17),
        Registers::P6 => event(0xC2),
        _ => event(0xC1),
    }
}

/// Cycles alone are flat. With an event of the pipeline beside them they are the pipeline's, unless the
/// clock is to be flat.
fn the_clock_follows_what_is_asked_for(part: &'static Part) -> Result {
    let image = |with_event: bool| {
        Guest::assemble(part, |g| {
            if with_event {
                g.start(1, of_the_pipeline(part), OS, 0)?;
            }
            g.rdtsc()?;
            g.mov(esi, eax)?;
            chain(g)?;
            g.rdtsc()?;
            g.sub(eax, esi)?;
            g.report_eax("cycles")
        })
    };
    let flat = CHAINED + 3 + 2 * u64::from(TURNS);
    run_with(part, &image(false)?, with(Timing::Auto)).expect(&[("cycles", flat)]);
    run_with(part, &image(true)?, with(Timing::Flat)).expect(&[("cycles", flat)]);
    let cycles = run_with(part, &image(true)?, with(Timing::Auto)).value("cycles");
    assert_chained(cycles, part);
    Ok(())
}

/// Two moves between registers and one from memory wait for nothing: three begin and retire in each cycle (AMD
/// 25112 A.8, AMD 22007 page 131; Fog chapter 14 of the P6 family, which has two ports for the former and one
/// for the latter), and never four. A chain of multiplications retires one at most in each.
fn instructions_of_one_cycle(part: &'static Part) -> Result {
    let selects = |name: &'static str, flags| (name, part.instructions, OS | flags);
    let image = Guest::assemble(part, |g| {
        let all = [
            selects("all", 0),
            selects("1", CMASK_1),
            selects("2", CMASK_2),
            selects("3", CMASK_3),
            selects("4", 4 << 24),
        ];
        g.count_each(&all, |g| {
            g.mov(esi, SCRATCH)?;
            g.mov(ecx, TURNS)?;
            let turn = g.here()?;
            for _ in 0..CHAIN {
                g.mov(eax, esi)?;
                g.mov(ebx, dword_ptr(esi))?;
                g.mov(edx, esi)?;
            }
            g.dec(ecx)?;
            g.jnz(turn)
        })?;
        g.count("chained 2", part.instructions, OS | CMASK_2, chain)?;
        g.count("chained 1", part.instructions, OS | CMASK_1, chain)
    })?;
    let outcome = run_with(part, &image, with(Timing::Model));
    let value = |name: &str| outcome.value(name);
    let cycles = 3 * CHAINED / 3;
    // Of each cycle that retires any, nearly all retire three.
    assert!((cycles..cycles + cycles / 5).contains(&value("1")), "{}", value("1"));
    assert!(value("3") > cycles * 4 / 5, "{}", value("3"));
    assert_eq!(value("4"), 0);
    // The loop is at another address each time.
    let sum = value("1") + value("2") + value("3");
    assert!(sum.abs_diff(value("all")) <= cycles / 20, "{sum} {}", value("all"));
    assert!(value("chained 1") >= CHAINED);
    // DEC and JNZ retire with a multiplication, or together.
    assert!(value("chained 2") <= 2 * u64::from(TURNS) + 8, "{}", value("chained 2"));
    Ok(())
}

/// What is read while nothing is counted is in the cache afterwards if the models are always warm.
fn warm_caches(part: &'static Part) -> Result {
    let (misses, line) = misses(part);
    let image = Guest::assemble(part, |g| {
        read_lines(g, 64, line)?;
        g.count("misses", misses, OS, |g| read_lines(g, 64, line))
    })?;
    run_with(part, &image, Options::DEFAULT).expect(&[("misses", 64)]);
    let warm = Options { warm: Warm::Always, ..Options::DEFAULT };
    run_with(part, &image, warm).expect(&[("misses", 0)]);
    Ok(())
}

/// 512 KiB that are in no cache, written by REP STOSD and by a loop of MOV: the same lines come from memory, one
/// after the other, whoever asks for them. Where memory is fast (K8) the loop takes longer, with four
/// instructions for each element.
fn a_string_of_stores_and_a_loop_of_them(part: &'static Part) -> Result {
    const BYTES: u32 = 512 << 10;
    let image = Guest::assemble(part, |g| {
        g.count("string", part.cycles, OS, |g| {
            g.mov(edi, FRESH)?;
            g.mov(ecx, BYTES / 4)?;
            g.rep().stosd()
        })?;
        g.count("loop", part.cycles, OS, |g| {
            g.mov(edi, FRESH + BYTES)?;
            g.mov(ecx, BYTES / 4)?;
            let turn = g.here()?;
            g.mov(dword_ptr(edi), eax)?;
            g.add(edi, 4)?;
            g.dec(ecx)?;
            g.jnz(turn)
        })
    })?;
    let outcome = run_with(part, &image, with(Timing::Model));
    let [string, by_loop] = ["string", "loop"].map(|name| outcome.value(name));
    let some = by_loop / 4..by_loop * 5 / 4;
    assert!(some.contains(&string), "{string} by a string, {by_loop} by a loop");
    Ok(())
}

/// Counts the cycles of the chain, and of a string.
fn chain_and_string(part: &'static Part) -> Result<Image> {
    Guest::assemble(part, |g| {
        g.count("cycles", part.cycles, OS, |g| {
            chain(g)?;
            g.mov(esi, SCRATCH)?;
            g.mov(ecx, 1000)?;
            g.rep().lodsb()
        })
    })
}

/// The recorder takes part in nothing: the same cycles as without it, and its own are those that the counter
/// has counted.
fn the_record_has_the_same_cycles(part: &'static Part) -> Result {
    let image = chain_and_string(part)?;
    let cycles = |recorded| {
        run_with(part, &image, Options { recorded, ..with(Timing::Model) }).value("cycles")
    };
    assert_eq!(cycles(false), cycles(true));
    Ok(())
}

fn two_runs_are_equal(part: &'static Part) -> Result {
    let image = chain_and_string(part)?;
    let cycles = || run_with(part, &image, with(Timing::Model)).value("cycles");
    assert_eq!(cycles(), cycles());
    Ok(())
}
