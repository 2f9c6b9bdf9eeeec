//! The truth recorder against the performance counters: what a counter with USR has counted at its end
//! is the sum over all instructions that were executed at CPL 3.
//!
//! The events are all that the personality's table says are live; what each counts, other topics work
//! out by hand.

use std::collections::BTreeSet;

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::machine::Options;
use guest_tests::msr::{CLOCKS, OS, USR};
use guest_tests::part::{Event, Registers};
use guest_tests::{Guest, Outcome, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{
    byte_ptr, dr0, dr7, dword_ptr, eax, ecx, edi, es, esi, mm0, mm1, qword_ptr, st0, word_ptr, xmm0, xmm1,
    xmmword_ptr,
};
use pmu_model::{Availability, Personality, Signal};
use vpmu::engine::soft::TIER;

const CR4_OSFXSR: i32 = 1 << 9;

topics!(every_live_event, every_processor_apart, a_watched_address, twice_the_same);

/// Does a bit of everything at CPL 3.
fn mixture(g: &mut Guest) -> Result {
    let part = g.part;
    let (mut function, mut over, mut skip) = (g.create_label(), g.create_label(), g.create_label());
    g.mov(ecx, 37)?;
    let top = g.here()?;
    g.mov(eax, dword_ptr(SCRATCH))?;
    g.mov(dword_ptr(SCRATCH + 1), eax)?; // misaligned
    g.lock().inc(dword_ptr(SCRATCH + 8))?;
    g.push(ecx)?;
    g.call(function)?;
    g.pop(ecx)?;
    g.test(ecx, 1)?;
    g.jz(skip)?;
    g.push(es)?;
    g.pop(es)?;
    g.place(&mut skip)?;
    g.dec(ecx)?;
    g.jnz(top)?;
    g.jmp(over)?;
    g.place(&mut function)?;
    g.mov(esi, SCRATCH)?;
    g.mov(edi, SCRATCH + 0x400)?;
    g.mov(ecx, 100)?;
    g.cld()?;
    g.rep().movsb()?;
    g.fld1()?;
    g.fadd_2(st0, st0)?;
    g.fstp(dword_ptr(SCRATCH + 16))?;
    if part.mmx {
        g.movq(mm0, qword_ptr(SCRATCH))?;
        g.mov(dword_ptr(SCRATCH + 0x20), 0x7fff_7fff)?;
        g.movd(mm1, dword_ptr(SCRATCH + 0x20))?;
        g.paddsw(mm1, mm1)?; // saturates
        g.pmullw(mm0, mm1)?;
        g.packsswb(mm0, mm1)?;
        g.punpcklbw(mm0, mm1)?;
        g.psllw(mm0, mm1)?;
        g.pand(mm0, mm1)?;
        g.movq(qword_ptr(SCRATCH + 0x28), mm0)?;
        g.emms()?;
    }
    if part.sse {
        g.movups(xmm0, xmmword_ptr(SCRATCH + 0x40))?;
        g.addps(xmm0, xmm0)?;
        g.addss(xmm0, xmm1)?;
        g.ucomiss(xmm0, xmm1)?;
        g.prefetchnta(byte_ptr(SCRATCH))?;
    }
    g.cmp(word_ptr(SCRATCH), 1)?;
    g.ret()?;
    g.place(&mut over)
}

fn ready_for_floating_point(g: &mut Guest) -> Result {
    g.clts()?;
    g.fninit()?;
    if g.part.sse { g.set_cr4(CR4_OSFXSR) } else { Ok(()) }
}

fn guest(part: &'static Part, event: Event) -> Result<vpmu::program::Image> {
    Guest::assemble(part, |g| {
        ready_for_floating_point(g)?;
        g.count("counted", event, USR, |g| g.at_cpl3(EFLAGS_CLEAR, mixture))
    })
}

const RECORDED: Options = Options { recorded: true, ..Options::DEFAULT };

/// The sum at CPL 3 on a processor of what `signals` count.
fn recorded(outcome: &Outcome, signals: &BTreeSet<&str>, vcpu: u32) -> Option<u64> {
    let truth = outcome.truth.as_ref()?;
    let is_it = |event: &vpmu::truth::Event| {
        event.signals.iter().map(String::as_str).collect::<BTreeSet<_>>() == *signals
    };
    let column = truth.events.iter().position(is_it)?;
    let rows = truth.rows.iter().filter(|row| row.cpl == 3 && row.vcpu == vcpu);
    Some(rows.map(|row| row.counts[column]).sum())
}

/// Each live event of the part with each of its unit masks; what is not of single instructions (cycles
/// with interrupts masked) has no column.
fn every_live_event(part: &'static Part) -> Result {
    let personality = Personality::by_name(part.name).expect("a personality");
    let live = personality.live.of(TIER);
    let mut compared = 0;
    for def in personality.events {
        let masks = def.umasks.iter().map(|umask| umask.mask).chain([def.default_umask]);
        for umask in masks.collect::<BTreeSet<u8>>() {
            if def.availability_of(umask, live) != Availability::Live {
                continue;
            }
            let counter = def.counters.trailing_zeros();
            let signals: BTreeSet<&str> = def.counted(umask, live).map(Signal::name).collect();
            // CESR counts the clocks of a state only if it is asked to.
            let lasts = |name: &&str| Signal::by_name(name).is_some_and(Signal::is_level);
            let in_clocks = part.registers == Registers::P55c && signals.iter().any(lasts);
            let code = u64::from(def.code)
                | u64::from(umask) << 8
                | if in_clocks { CLOCKS } else { 0 };
            let outcome = run_with(part, &guest(part, Event { code, counter })?, RECORDED);
            let counted = outcome.value("counted");
            match recorded(&outcome, &signals, 0) {
                Some(sum) => assert_eq!(sum, counted, "{} {umask:#x}", def.name),
                None => {
                    let masked = signals.iter().all(|name| name.starts_with("cycles_int_masked"));
                    assert!(masked, "{} {umask:#x} is not recorded: {signals:?}", def.name);
                    continue;
                }
            }
            compared += 1;
        }
    }
    // Instructions, branches and cycles at least.
    assert!(compared >= 3, "{compared}");
    Ok(())
}

/// Four processors, each with its own counter and its own way through the code.
fn every_processor_apart(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(4, |g| {
            ready_for_floating_point(g)?;
            g.start(0, g.part.instructions, USR, 0)?;
            g.at_cpl3(EFLAGS_CLEAR, mixture)?;
            g.stop(0)
        })
    })?;
    let outcome = run_with(part, &image, Options { cpus: 4, ..RECORDED });
    let truth = outcome.truth.as_ref().expect("a recorded run");
    let name = |n: usize| truth.events[n].name.as_str();
    let instructions = (0..truth.events.len()).find(|&n| name(n) == "instructions").expect("it");
    for (vcpu, processor) in (0..).zip(outcome.machine.vcpus()) {
        let rows = truth.rows.iter().filter(|row| row.cpl == 3 && row.vcpu == vcpu);
        let sum: u64 = rows.map(|row| row.counts[instructions]).sum();
        assert!(sum > 500, "{sum}");
        assert_eq!(processor.pmu.registers().perfctr[0], sum, "processor {vcpu}");
    }
    Ok(())
}

/// A match of DR0, which watches writes to four bytes and is not enabled, is that of the MOV that writes
/// them, and not of an instruction behind it.
fn a_watched_address(part: &'static Part) -> Result {
    let Some(first) = part.breakpoints else { unreachable!() };
    const WATCHED: u32 = SCRATCH + 0x900;
    let image = Guest::assemble(part, |g| {
        g.mov(eax, WATCHED)?;
        g.mov(dr0, eax)?;
        g.mov(eax, 1 << 10 | 0b1101 << 16)?;
        g.mov(dr7, eax)?;
        g.count("matches", first, OS, |g| {
            g.mov(ecx, 5)?;
            let top = g.here()?;
            g.mov(dword_ptr(WATCHED), ecx)?;
            g.mov(eax, dword_ptr(WATCHED))?;
            g.push(es)?;
            g.pop(es)?;
            g.dec(ecx)?;
            g.jnz(top)
        })
    })?;
    let outcome = run_with(part, &image, RECORDED);
    assert_eq!(outcome.value("matches"), 5);
    let truth = outcome.truth.as_ref().expect("a recorded run");
    let is_it = |event: &vpmu::truth::Event| event.signals == ["debug_match0"];
    let column = truth.events.iter().position(is_it).expect("a column");
    let matched = truth.rows.iter().filter(|row| row.counts[column] != 0);
    let matched: Vec<_> = matched
        .map(|row| {
            let bytes = &truth.instructions[row.instruction as usize].bytes;
            (bytes[..2].to_vec(), row.counts[column])
        })
        .collect();
    // MOV r/m32, r32 with ECX and a 32-bit address: 89 /r, ModRM 0Dh.
    assert_eq!(matched, [(vec![0x89, 0x0d], 5)]);
    Ok(())
}

/// The same guest gives the same file.
fn twice_the_same(part: &'static Part) -> Result {
    let image = guest(part, part.branches)?;
    let bytes = || run_with(part, &image, RECORDED).truth.expect("a truth").to_bytes();
    assert!(bytes() == bytes());
    Ok(())
}
