//! Threads that take turns without a look at anything else, against the same where each instruction is looked at: all
//! of the state of both machines, to the last field, and their RAM, in generated guests whose threads count, wait for
//! each other, send and take interrupts.

mod steps;

use std::cell::Cell;

use iced_x86::code_asm::{al, dword_ptr, eax, ecx, edi, esi, esp, word_ptr};

use super::Exit;
use crate::machine::{End, Machine};
use crate::program::{DATA, LAPIC, LAPIC_ID, Program};
use crate::snapshot::tests::{difference, run};
use crate::turns::tests::{
    ASSERT, Counted, EOI, ICR, ICR_HIGH, IPI_VECTOR, Made, NMI, Random, core_script,
    each_by_itself, machine, seeds, spin,
};

/// INIT and start-up at page 8, in the interrupt command register.
const INIT: u32 = 5 << 8;
const START_UP: u32 = 6 << 8 | 8;

/// How turns ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// With that of another thread.
    pub(super) handed_over: u32,
    /// With what the instruction did beyond registers and memory.
    pub(super) acted: u32,
    /// With an overflow by time that passed before its instruction.
    pub(super) overflowed: u32,
    /// With the thread's going to sleep, or out of it.
    pub(super) slept: u32,
    /// With anything else: interrupts were allowed or not, the end of a turn.
    pub(super) others: u32,
    /// With counters so far from an overflow that they had no budgets.
    pub(super) far: u32,
    /// With those of counters of all threads of the core, too.
    pub(super) sums: u32,
    /// Turns that were a step; that were not, though they began as one; that asked for something before they executed;
    /// that overwrote code.
    pub(super) steps: u64,
    pub(super) not_steps: u32,
    pub(super) stopped: u32,
    pub(super) left: u32,
}

thread_local! {
    static ENDS: Cell<Ends> = const { Cell::new(Ends {
        handed_over: 0, acted: 0, overflowed: 0, slept: 0, others: 0, far: 0, sums: 0, steps: 0,
        not_steps: 0, stopped: 0, left: 0,
    }) };
}

/// Notes how a turn ended.
pub(super) fn note(add: impl FnOnce(&mut Ends)) {
    let mut ends = ENDS.get();
    add(&mut ends);
    ENDS.set(ends);
}

/// Of which kind the end of a turn is.
pub(super) fn note_end(exit: Exit, acted: bool, slept: bool, goes_on: bool) {
    note(|ends| match (goes_on, acted, slept, exit) {
        (true, ..) => ends.handed_over += 1,
        (_, true, ..) => ends.acted += 1,
        (_, _, true, _) | (_, _, _, Exit::Halt | Exit::Pause) => ends.slept += 1,
        _ => ends.others += 1,
    });
}

/// One of the things that a thread may do beside those of [`core_script`].
fn script(p: &mut Program, random: &mut Random, cpus: u32) -> Made {
    match random.below(9) {
        // Strings, some of which the others have in their caches.
        0 => {
            p.mov(edi, 0x30_2000 + 64 * random.below(32))?;
            p.mov(ecx, random.below(200))?;
            p.rep().stosd()
        }
        1 => {
            p.mov(esi, 0x30_2000 + random.below(4000))?;
            p.mov(edi, 0x30_4000 + random.below(4000))?;
            p.mov(ecx, random.below(90))?;
            p.rep().movsb()
        }
        2 => p.pause(),
        // A counter that is set anew while it counts: near an overflow, far from it, and between.
        3 => {
            let left = match random.below(4) {
                0 | 1 => 1 + u64::from(random.below(200)),
                2 => (1 << 24) - 500 + u64::from(random.below(1000)),
                _ => 1 << 39,
            };
            p.write_msr(0x20, left.wrapping_neg() & 0xFF_FFFF_FFFF)
        }
        4 => {
            p.xor(eax, eax)?;
            p.cpuid()
        }
        // A thread begins anew.
        5 if random.below(6) == 0 => {
            let to = 1 + random.below(cpus.max(2) - 1);
            // Not itself: it would be gone.
            let mut stay = p.create_label();
            p.mov(eax, dword_ptr(LAPIC + LAPIC_ID as u32))?;
            p.cmp(eax, (to << 24) as i32)?;
            p.je(stay)?;
            p.write_lapic(ICR_HIGH, to << 24)?;
            p.write_lapic(ICR, ASSERT | INIT)?;
            spin(p, 1 + random.below(300))?;
            p.write_lapic(ICR, ASSERT | START_UP)?;
            p.place(&mut stay)
        }
        6 => {
            p.mov(eax, 0x41)?;
            p.out(0x80, al)
        }
        // Interrupts are allowed, and forbidden again, before the one that may be pending is taken.
        7 => {
            p.sti()?;
            p.cli()
        }
        _ => {
            // Lines of its own and of others, not in the caches.
            p.mov(ecx, 1 + random.below(60))?;
            let again = p.here()?;
            p.mov(esi, ecx)?;
            p.shl(esi, 6)?;
            p.add(dword_ptr(esi + (0x31_0000 + 0x40 * random.below(64))), ecx)?;
            p.dec(ecx)?;
            p.jnz(again)
        }
    }
}

/// Has others do something between the two writes of an interrupt that is sent to one of them.
fn send_late(p: &mut Program, random: &mut Random, cpus: u32) -> Made {
    p.write_lapic(ICR_HIGH, random.below(cpus) << 24)?;
    spin(p, 1 + random.below(30))?;
    p.write_lapic(ICR, ASSERT | if random.below(4) == 0 { NMI } else { u32::from(IPI_VECTOR) })
}

/// A string of which more time is told than it takes, and lines that are in no cache soon behind it.
fn copy_and_miss(p: &mut Program, random: &mut Random) -> Made {
    p.mov(esi, 0x30_2000 + random.below(4000))?;
    p.mov(edi, 0x30_4000 + random.below(4000))?;
    p.mov(ecx, random.below(900))?;
    p.rep().movsb()?;
    for _ in 0..random.below(8) {
        p.write_lapic(EOI, 0)?;
        p.mov(eax, dword_ptr(0x32_0000 + 64 * random.below(0x4000)))?;
    }
    Ok(())
}

/// What the counters of a guest's threads count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// Mostly what a thread does itself.
    Own,
    /// Often what all threads do, and the occurrences of each cycle as well.
    Together,
    /// The sums of what all threads do.
    Sums,
    /// What a thread does itself, at either level, and mostly far from an overflow.
    Far,
}

/// Has a counter be far from an overflow, and at times begin then to count an event of all threads.
fn set_far(p: &mut Program, random: &mut Random, event: u32) -> Made {
    let begins = random.below(3) == 0;
    if begins {
        p.write_msr(0x28, 0)?;
    }
    let left = 1 << [29, 39][random.below(2) as usize];
    p.write_msr(0x20, u64::wrapping_neg(left) & 0xFF_FFFF_FFFF)?;
    if begins {
        p.write_msr(0x28, u64::from(event | 3 << 16 | 1 << 21 | 1 << 22))?;
    }
    Ok(())
}

/// Reads a counter each second time that it comes here, by an instruction that it has just written over two others.
fn read_by_new_code(p: &mut Program, random: &mut Random) -> Made {
    let mut here = p.create_label();
    p.xor(ecx, ecx)?;
    p.call(here)?;
    p.place(&mut here)?;
    p.pop(esi)?;
    // Two NOPs, or RDPMC: behind POP and this XOR of 6 bytes.
    let (nops, rdpmc) = (0x9090, 0x330F);
    p.xor(word_ptr(esi + 7), nops ^ rdpmc)?;
    p.db(&[[0x90, 0x90], [0x0F, 0x33]][random.below(2) as usize])?;
    p.add(dword_ptr(DATA + 0x200), eax)
}

/// Interrupt by which a thread comes back from CPL 3, to where ESI says.
const BACK: u8 = 0x90;

/// Where that interrupt arrives.
fn come_back(p: &mut Program) -> Made {
    let mut over = p.create_label();
    p.jmp(over)?;
    let back = p.here()?;
    p.gate(BACK, back, 3);
    p.jmp(esi)?;
    p.place(&mut over)
}

/// Is at CPL 3 for some instructions, while a counter counts one of the levels or both.
fn visit_cpl3(p: &mut Program, random: &mut Random, event: u32) -> Made {
    let levels = 1 + random.below(3);
    p.write_msr(0x28, u64::from(event | levels << 16 | 1 << 22))?;
    p.write_msr(0x20, 1 << 39)?;
    let (mut there, mut back) = (p.create_label(), p.create_label());
    p.address(esi, back)?;
    p.mov(edi, esp)?;
    // With IF or without.
    p.enter(3, there, [0x2, 0x202][random.below(2) as usize])?;
    p.place(&mut there)?;
    spin(p, 1 + random.below(60))?;
    p.mov(eax, dword_ptr(0x30_0000 + 64 * random.below(64)))?;
    p.int(i32::from(BACK))?;
    p.place(&mut back)?;
    p.mov(esp, edi)
}

/// A guest whose threads count so, each by a script of its own.
fn guest(random: &mut Random, cpus: u32, counting: Counting) -> Vec<u8> {
    // Of 327357-001: reads that miss, flushes, the V pipe, address interlocks, front end, E stage, cycles,
    // instructions.
    const EVENTS: [u32; 9] = [0x03, 0x15, 0x17, 0x1F, 0x2D, 0x2E, 0x2A, 0x16, 0x00];
    // Threads that count nothing by themselves are there too.
    let counts = random.below(4);
    let prepare = |p: &mut Program| {
        if counting == Counting::Far {
            come_back(p)?;
        }
        p.write_msr(0x2F, 3)?;
        if counts == 0 {
            return Ok(());
        }
        p.write_msr(0x29, 0x2E | 3 << 16 | 1 << 22)
    };
    // One in so many events.
    let odds = match counting {
        Counting::Together => [0, 0, 0, 0, 0, 12, 2, 2][random.below(8) as usize],
        Counting::Own => [u32::MAX, u32::MAX, u32::MAX, 12][random.below(4) as usize],
        Counting::Sums | Counting::Far => 0,
    };
    each_by_itself(cpus, true, prepare, |p| {
        if counts == 0 && random.below(2) == 0 {
            p.write_msr(0x29, 0x2E | 3 << 16 | 1 << 22)?;
        }
        (0..10).try_for_each(|_| match random.below(4) {
            // What is pending is taken from here on, up to where interrupts are forbidden again.
            0 => p.sti(),
            1 => script(p, random, cpus),
            2 if counting == Counting::Sums => match random.below(4) {
                0 => send_late(p, random, cpus),
                1 => copy_and_miss(p, random),
                _ => read_by_new_code(p, random),
            },
            2 if counting == Counting::Far => match random.below(6) {
                0 => copy_and_miss(p, random),
                1 => read_by_new_code(p, random),
                _ => {
                    let event = EVENTS[random.below(9) as usize];
                    visit_cpl3(p, random, event)
                }
            },
            _ => {
                let event = EVENTS[random.below(9) as usize];
                let mut at_times = || odds != 0 && random.below(odds) == 0;
                let mut counted = Counted { all_threads: at_times(), compared: at_times() };
                counted.all_threads |= counting == Counting::Sums;
                core_script(p, random, cpus, event, counted)?;
                match counting {
                    Counting::Sums if random.below(4) != 0 => set_far(p, random, event),
                    Counting::Far if random.below(4) != 0 => p.write_msr(0x20, 1 << 39),
                    _ => Ok(()),
                }
            }
        })
    })
    .unwrap()
}

fn compare(cpus: u32, seed: u64, counting: Counting) {
    let random = &mut Random(seed);
    let bytes = guest(random, cpus, counting);
    compare_guest(cpus, seed, &bytes, random);
}

/// Runs a guest with threads that are looked at and threads that are not, for a while.
fn compare_guest(cpus: u32, seed: u64, bytes: &[u8], random: &mut Random) {
    let make = |looks_at_each| {
        let mut machine = machine("knc", cpus, bytes);
        machine.soft.looks_at_each = looks_at_each;
        machine
    };
    let mut both: [Machine; 2] = [false, true].map(make);
    let mut at = 0;
    for _ in 0..5 {
        at += u64::from(1 + random.below(12_000));
        let ends = both.each_mut().map(|machine| run(machine, at));
        assert_eq!(ends[0], ends[1], "{cpus} seed {seed} at {at}");
        let [one, other] = &mut both;
        if let Some(difference) = lasting_difference(one, other, at) {
            panic!("{cpus} seed {seed}: {difference}; behind {}", first_difference(&make, at));
        }
        // A processor that has shut down has no next instruction, and another may have none that retires.
        if ends[0] != End::Instructions {
            return;
        }
    }
}

/// Where the two differ, which have retired so many instructions: for longer than there. Where a run is cut off, a thread
/// that DELAY holds up may have waited for less than another of its core, whose time has passed in larger pieces; until
/// DELAY is over, that is so wherever they are cut off.
fn lasting_difference(one: &mut Machine, other: &mut Machine, at: u64) -> Option<String> {
    let difference_there = difference(one, other)?;
    let is_delayed = |machine: &Machine| {
        machine.vcpus.iter().any(|vcpu| vcpu.cpu.delayed_until() > vcpu.cpu.time)
    };
    let (mut behind, mut to_compare) = (at, 20);
    while to_compare > 0 && behind < at + 2000 {
        behind += 1;
        let _ends = [&mut *one, &mut *other].map(|machine| run(machine, behind));
        if is_delayed(one) || is_delayed(other) {
            continue;
        }
        difference(one, other)?;
        to_compare -= 1;
    }
    Some(difference_there)
}

/// The first instruction behind which the two differ.
fn first_difference(make: &impl Fn(bool) -> Machine, last: u64) -> String {
    let differ = |at| {
        let [mut one, mut other] = [false, true].map(make);
        run(&mut one, at);
        run(&mut other, at);
        lasting_difference(&mut one, &mut other, at)
    };
    let (mut same, mut differs) = (0, last);
    while differs - same > 1 {
        let middle = u64::midpoint(same, differs);
        match differ(middle) {
            Some(_) => differs = middle,
            None => same = middle,
        }
    }
    format!("instruction {differs}: {:?}", differ(differs))
}

#[test]
fn turns_that_nobody_looks_at_are_those_of_threads_that_are_looked_at() {
    for cpus in [1, 2, 3, 4, 6, 8] {
        let failed: &[u64] = match cpus {
            // A thread is started while another's counter counts what both do.
            3 => &[181],
            // A DELAY of no cycles, which nobody holds up and the core has stopped all the same; a counter that compares what
            // both do wakes one that sleeps.
            4 => &[49, 202],
            // A string is cut off of which more was told than it had taken.
            8 => &[26],
            _ => &[],
        };
        for seed in seeds(0, 24).chain(failed.iter().copied()) {
            let counting = [Counting::Sums, Counting::Own, Counting::Together, Counting::Own];
            compare(cpus, 1000 * u64::from(cpus) + seed, counting[(seed % 4) as usize]);
        }
    }
    for cpus in [1, 2, 4, 6] {
        for seed in seeds(0, 12) {
            compare(cpus, 1000 * u64::from(cpus) + seed, Counting::Far);
        }
    }
    // A thread waits across the time from which on another's counter takes what it does; turns begin before that.
    for seed in [2022, 2054] {
        compare(2, seed, Counting::Sums);
    }
    let ends = ENDS.get();
    let Ends { handed_over, acted, overflowed, slept, others, far, sums, steps, .. } = ends;
    // Those near an overflow are the others.
    let near = handed_over + acted + slept + others - far;
    assert!(handed_over > 20_000 && far > 5000 && near > 5000 && sums > 2000, "{ends:?}");
    assert!(steps > 100_000, "{ends:?}");
    assert!([acted, slept, others].into_iter().all(|n| n > 100) && overflowed > 0, "{ends:?}");
}
