//! Threads of a core that begin to take turns, and cease to: what is counted then, and that it does not depend on where
//! runs end.

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, dx, eax, ebx, ecx, edi, edx, esi};

use super::{Timing, Warm};
use crate::console::Console;
use crate::devices::debug_exit::{MARKER, POST_CODE};
use crate::machine::{End, Machine, Pause};
use crate::program::{DATA, Image, Program, TRAMPOLINE, TRAMPOLINE_BYTES};
use crate::stop::Stop;
use crate::turns::tests::{
    ASSERT, Counted, ICR, ICR_HIGH, IPI_VECTOR, Made, Random, core_script, each_by_itself,
    image_of_each, machine, seeds, spin, start_pit,
};

/// Knights Corner's registers (Intel 327357-001, 1.4.3): global enable, the selects of both counters, and which of them count
/// where a thread has executed SPFLT.
const GLOBAL: u32 = 0x2F;
const SELECT: u32 = 0x28;
const SELECT_1: u32 = 0x29;
const SPFLT_CONTROL: u32 = 0x2C;
/// Events of 327357-001, table 1-6: INSTRUCTIONS_EXECUTED, CPU_CLK_UNHALTED and, which the pipeline tells,
/// EXEC_STAGE_CYCLES.
const INSTRUCTIONS: u64 = 0x16;
const CYCLES: u64 = 0x2A;
const EXEC_STAGE_CYCLES: u64 = 0x2E;
/// Fields of a select (table 1-5): USR and OS; EDGE; thread count mode, for all threads; EN.
const ALL_LEVELS: u64 = 3 << 16;
const EDGE: u64 = 1 << 18;
const ALL_THREADS: u64 = 1 << 21;
const ENABLE: u64 = 1 << 22;
/// In the interrupt command register.
const ALL_BUT_SELF: u32 = 3 << 18;
const INIT: u32 = 5 << 8;
const START_UP: u32 = 6 << 8 | 8;
const EOI: i32 = 0xB0;

/// Two instructions that issue alone: BSWAP never pairs (Agner Fog, "How to optimize for the Pentium family of
/// microprocessors", chapter 10.1), so that MOV has none to pair with.
fn alone_each(p: &mut Program, times: u32) -> Made {
    (0..times).try_for_each(|_| {
        p.bswap(ebx)?;
        p.mov(esi, edi)
    })
}

/// Has the other threads begin at `entry`, and goes on.
fn start_others(p: &mut Program) -> Made {
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, 8 << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | INIT)?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | START_UP)
}

/// Pauses the machine here, for [`Runner::step_to`].
fn mark(p: &mut Program) -> Made {
    p.mov(edx, u32::from(POST_CODE))?;
    p.mov(eax, MARKER)?;
    p.out(dx, eax)
}

/// What every run of machines needs, and is the same for all.
struct Runner {
    stop: Stop,
    console: Console,
}

impl Runner {
    fn new() -> Self {
        let console = Console::to("nowhere".into(), Box::new(std::io::sink()));
        Self { stop: Stop::new().unwrap(), console }
    }

    /// Runs a machine until so many instructions have retired.
    fn run(&mut self, machine: &mut Machine, instructions: u64) -> End {
        machine.run_until(&self.stop, Some(instructions), &mut self.console).unwrap()
    }

    /// Runs a machine to the marker, and then one instruction at a time until a thread is at a place. How many have
    /// retired.
    fn step_to(&mut self, machine: &mut Machine, thread: usize, place: u64) -> u64 {
        machine.pause_at(Pause::Marker);
        assert_eq!(self.run(machine, 1_000_000), End::Paused);
        while machine.vcpus()[thread].cpu.rip != place {
            let next = machine.retired() + 1;
            self.run(machine, next);
        }
        machine.retired()
    }
}

/// Where two machines differ, but for what their models remember.
fn difference(one: &mut Machine, other: &mut Machine) -> Option<String> {
    one.snapshot().difference_beside_models(&other.snapshot())
}

/// A doubleword of the guest's memory.
fn word(machine: &Machine, address: u32) -> u32 {
    let mut bytes = [0; 4];
    assert!(machine.read_physical(address.into(), &mut bytes));
    u32::from_le_bytes(bytes)
}

/// What a counter counts that is programmed so before as many instructions that issue alone, twice.
fn counted(select: u64, times: u32) -> Result<u32, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    p.write_msr(GLOBAL, 3)?;
    p.write_msr(SELECT, select)?;
    alone_each(p, times)?;
    p.write_msr(SELECT, 0)?;
    p.mov(ecx, 0)?;
    p.rdpmc()?;
    p.mov(dword_ptr(DATA), eax)?;
    let over = p.here()?;
    p.jmp(over)?;
    let mut machine = machine("knc", 1, &program.finish()?.bytes);
    machine.soft.set_timing(Timing::Model, Warm::Counting);
    Runner::new().run(&mut machine, u64::from(2 * times) + 500);
    Ok(word(&machine, DATA))
}

/// EDGE counts how often a condition begins to hold, and not that it goes on (327357-001, table 1-5, bit 18): here that
/// an instruction issues. A thread does not issue in two successive cycles (328207, section 2.1.2), so each that issues
/// alone is an edge, whether the counter counts its thread or all (bit 21), of which there is no other.
#[test]
fn each_instruction_alone_is_an_edge() {
    for all_threads in [0, ALL_THREADS] {
        let select = INSTRUCTIONS | ALL_LEVELS | EDGE | ENABLE | all_threads;
        let [once, twice] = [200, 400].map(|times| counted(select, times).unwrap());
        assert_eq!(twice - once, 400, "select {select:x}");
    }
}

/// How often thread 0 executes CLD, which pairs with nothing: while it does, thread 1 comes to its HLT.
const CLEARS: u32 = 6000;

/// Thread 1 says so, executes instructions that issue alone, and halts. Thread 0 has a counter count edges of all
/// threads then, behind "enabled", and leaves in DATA + 4 what it has counted.
fn edges_of_both() -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let mut first = p.create_label();
    p.jmp(first)?;
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_processor()?;
    p.mov(dword_ptr(DATA), 1)?;
    alone_each(p, 700)?;
    p.cli()?;
    p.hlt()?;
    p.place(&mut first)?;
    start_others(p)?;
    p.write_msr(GLOBAL, 3)?;
    let waits = p.here()?;
    p.cmp(dword_ptr(DATA), 1)?;
    p.jne(waits)?;
    mark(p)?;
    p.write_msr(SELECT, INSTRUCTIONS | ALL_LEVELS | EDGE | ALL_THREADS | ENABLE)?;
    p.mark("enabled")?;
    (0..CLEARS).try_for_each(|_| p.cld())?;
    // ECX and EDX are as they were. What programs counters is counted in the cycle in which it begins: that is its own
    // behind one that pairs with nothing.
    p.xor(eax, eax)?;
    p.cld()?;
    p.wrmsr()?;
    p.mov(ecx, 0)?;
    p.rdpmc()?;
    p.mov(dword_ptr(DATA + 4), eax)?;
    let over = p.here()?;
    p.jmp(over)?;
    program.finish()
}

/// Each instruction of both threads is an edge, as above: of thread 0 those behind the WRMSR that enables the counter,
/// with the one that disables it; of thread 1 those that it executes behind that. Turns are short, as the start-up IPI
/// is not long ago, so that some are left.
#[test]
fn edges_of_a_sibling_are_counted_from_the_write_on() {
    let image = edges_of_both().unwrap();
    let [mut whole, mut cut] = [0; 2].map(|_| {
        let mut machine = machine("knc", 2, &image.bytes);
        machine.soft.set_timing(Timing::Model, Warm::Counting);
        machine
    });
    let mut runner = Runner::new();
    let enabled = runner.step_to(&mut cut, 0, image.symbol("enabled").unwrap());
    let begun = cut.vcpus()[0].cpu.time;
    let mut before = None;
    for at in enabled + 1..enabled + 100 {
        // The other may be yet to come as far.
        let other = &cut.vcpus()[1].cpu;
        before = before.or_else(|| (other.time >= begun).then(|| other.retired()));
        runner.run(&mut cut, at);
    }
    let before = before.unwrap();
    runner.run(&mut whole, enabled + 99);
    assert_eq!(difference(&mut whole, &mut cut), None);
    for machine in [&mut whole, &mut cut] {
        runner.run(machine, enabled + u64::from(CLEARS) + 3000);
        assert!(machine.vcpus()[1].cpu.halted);
        let sibling = (machine.vcpus()[1].cpu.retired() - before) as u32;
        assert!(sibling > 100, "{sibling}");
        assert_eq!(word(machine, DATA + 4), CLEARS + 3 + sibling);
    }
}

/// Threads that do nothing but go round a loop, until `counting` has gone round it so often: that one has a counter count
/// an event of all then, up to "begun", and reads it ten instructions later, from "read" on: by the WRMSR that selects it, or
/// `by_spflt`. If it `has_turns_taken`, another counter has begun to count what the pipeline tells, right before.
fn counts_all_at_once(
    cpus: u32,
    counting: u32,
    rounds: u32,
    event: u64,
    has_turns_taken: bool,
    by_spflt: bool,
) -> Result<Image, IcedError> {
    let mut thread = 0;
    image_of_each(
        cpus,
        true,
        |p| p.write_msr(GLOBAL, 3),
        |p| {
            thread += 1;
            if thread - 1 != counting {
                return spin(p, 100_000);
            }
            // Turns are short for a while, as a start-up IPI is not long ago.
            spin(p, 20_000 + rounds)?;
            mark(p)?;
            if has_turns_taken {
                p.write_msr(SELECT_1, EXEC_STAGE_CYCLES | ALL_LEVELS | ENABLE)?;
            }
            if by_spflt {
                p.write_msr(SPFLT_CONTROL, 1)?;
            }
            p.write_msr(SELECT, event | ALL_LEVELS | ALL_THREADS | ENABLE)?;
            if by_spflt {
                p.mov(eax, 1)?;
                // SPFLT EAX (327357-001, 1.4.2).
                p.db(&[0xC5, 0xFB, 0xAE, 0xF0])?;
            }
            p.mark("begun")?;
            (0..9).try_for_each(|_| p.nop())?;
            p.mov(ecx, 0)?;
            p.mark("read")?;
            p.rdpmc()?;
            p.mov(dword_ptr(DATA), eax)
        },
    )
}

/// What such a thread has counted, what the others have executed since they had come as far, and in how many cycles.
fn counted_of_all(machine: &mut Machine, image: &Image, counting: usize) -> (u64, u64, u64) {
    let mut runner = Runner::new();
    runner.step_to(machine, counting, image.symbol("begun").unwrap());
    let begun = machine.vcpus()[counting].cpu.time;
    let read = image.symbol("read").unwrap();
    let mut from = vec![None; machine.vcpus().len()];
    let (mut of_others, mut cycles) = (0, 0);
    while machine.vcpus()[counting].cpu.rip <= read {
        of_others = 0;
        cycles = machine.vcpus()[counting].cpu.time - begun;
        for (vcpu, from) in machine.vcpus().iter().zip(&mut from) {
            let retired = vcpu.cpu.retired();
            if vcpu.cpu.time >= begun && vcpu.id != counting {
                of_others += retired - *from.get_or_insert(retired);
            }
        }
        let next = machine.retired() + 1;
        runner.run(machine, next);
    }
    let next = machine.retired() + 200;
    runner.run(machine, next);
    (word(machine, DATA).into(), of_others, cycles)
}

/// Where threads did not take turns instruction by instruction until one began to count what all do, some may be ahead of
/// it and some behind, by up to what is left of a turn. Counted is what they all do from when on none of them has to be
/// caught up with: ten instructions of the thread itself, and what the others execute meanwhile, for some of them that
/// of the cycles in which the code of the ten comes from memory; or the cycles of all.
#[test]
fn threads_that_were_apart_are_counted_from_the_same_time_on() {
    for (cpus, counting) in (2..=4).flat_map(|cpus| (0..cpus).map(move |counting| (cpus, counting)))
    {
        for (nth, rounds) in [0, 450, 900, 1350, 1800, 2250].into_iter().enumerate() {
            let timing = [Timing::Auto, Timing::Model][(nth + counting as usize) % 2];
            let has_turns_taken = nth % 3 == 0;
            let event = [INSTRUCTIONS, CYCLES][nth / 3];
            let by_spflt = nth % 3 == 1;
            let image =
                counts_all_at_once(cpus, counting, rounds, event, has_turns_taken, by_spflt)
                    .unwrap();
            let mut machine = machine("knc", cpus, &image.bytes);
            machine.soft.set_timing(timing, Warm::Counting);
            let (counted, of_others, cycles) =
                counted_of_all(&mut machine, &image, counting as usize);
            let place = format!(
                "{counting} of {cpus} behind {rounds}, {timing:?}, turns {has_turns_taken}, \
                 by SPFLT {by_spflt}"
            );
            let each = of_others / u64::from(cpus - 1);
            assert!((4..400).contains(&each), "{of_others}: {place}");
            let expected = match event {
                INSTRUCTIONS => 10 + of_others,
                // None of them is halted.
                _ => u64::from(cpus) * cycles,
            };
            assert_eq!(counted, expected, "{place}");
        }
    }
}

/// Thread 1 halts, and is woken by thread 0, of which a counter counts what all threads do. Some rounds of a loop later
/// another one has the threads take turns, by the WRMSR before "enabled".
fn woken_where_all_begin(rounds: u32) -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let mut first = p.create_label();
    p.jmp(first)?;
    let handler = p.here()?;
    p.gate(IPI_VECTOR, handler, 0);
    p.write_lapic(EOI, 0)?;
    p.inc(dword_ptr(DATA + 8))?;
    p.iretd()?;
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_processor()?;
    p.mov(dword_ptr(DATA), 1)?;
    let again = p.here()?;
    p.sti()?;
    p.hlt()?;
    p.jmp(again)?;
    p.place(&mut first)?;
    start_others(p)?;
    p.write_msr(GLOBAL, 3)?;
    p.write_msr(SELECT_1, INSTRUCTIONS | ALL_LEVELS | ALL_THREADS | ENABLE)?;
    let waits = p.here()?;
    p.cmp(dword_ptr(DATA), 1)?;
    p.jne(waits)?;
    spin(p, 300)?;
    mark(p)?;
    p.write_lapic(ICR_HIGH, 1 << 24)?;
    p.write_lapic(ICR, ASSERT | u32::from(IPI_VECTOR))?;
    spin(p, rounds)?;
    p.write_msr(SELECT, EXEC_STAGE_CYCLES | ALL_LEVELS | ENABLE)?;
    p.mark("enabled")?;
    let over = p.here()?;
    p.inc(eax)?;
    p.jmp(over)?;
    program.finish()
}

/// Of a core whose threads did not take turns until a WRMSR began both that and that a counter counts what all do, time
/// is the same wherever runs end.
#[test]
fn time_is_the_same_where_a_write_has_threads_go_in_step() {
    let mut runner = Runner::new();
    for rounds in (240..500).step_by(5) {
        let image = woken_where_all_begin(rounds).unwrap();
        let [mut whole, mut cut] = [0; 2].map(|_| machine("knc", 2, &image.bytes));
        let enabled = runner.step_to(&mut cut, 0, image.symbol("enabled").unwrap());
        for at in enabled + 1..enabled + 40 {
            runner.run(&mut cut, at);
        }
        runner.run(&mut whole, enabled + 39);
        assert_eq!(difference(&mut whole, &mut cut), None, "{rounds} rounds");
    }
}

/// A guest whose threads program counters, and have them count no longer, by which their core begins to be told of what
/// they do, and ceases to be.
fn comes_and_goes(random: &mut Random, cpus: u32) -> Vec<u8> {
    // Of 327357-001: reads that miss, the V pipe, the front end, the E stage, cycles, instructions.
    const EVENTS: [u32; 6] = [0x03, 0x17, 0x2D, 0x2E, 0x2A, 0x16];
    let prepare = |p: &mut Program| p.write_msr(GLOBAL, 3);
    each_by_itself(cpus, true, prepare, |p| {
        (0..8).try_for_each(|_| match random.below(9) {
            0..3 => p.write_msr(SELECT + random.below(2), 0),
            // Halts while an interrupt may be on its way to it.
            3 => {
                p.write_lapic(ICR_HIGH, random.below(cpus) << 24)?;
                p.write_lapic(ICR, ASSERT | u32::from(IPI_VECTOR))?;
                spin(p, 1 + random.below(200))?;
                p.sti()?;
                p.hlt()?;
                p.cli()
            }
            _ => {
                let event = EVENTS[random.below(6) as usize];
                core_script(p, random, cpus, event, Counted { all_threads: true, compared: true })
            }
        })
    })
    .unwrap()
}

/// Processors and seeds at which this has failed, by what was told wrongly: time that a thread slept for what was left of
/// its HLT; that of one that sleeps ahead of a turn's end; the overflow of a sibling behind a WRMSR.
const FAILED: [(u32, u64); 3] = [(4, 6), (2, 344), (3, 129)];

/// A guest of which a thread has the PIT wake one that sleeps, or interrupt one that executes, while all that they do is
/// counted by the cycles of their core.
fn wakes_by_a_device(random: &mut Random, cpus: u32) -> Vec<u8> {
    let prepare = |p: &mut Program| {
        p.write_msr(GLOBAL, 3)?;
        p.write_msr(SELECT_1, EXEC_STAGE_CYCLES | ALL_LEVELS | ENABLE)
    };
    each_by_itself(cpus, true, prepare, |p| {
        (0..8).try_for_each(|_| match random.below(5) {
            0 | 1 => start_pit(p, random, cpus),
            2 => {
                p.sti()?;
                p.hlt()?;
                p.cli()
            }
            // Lines that are not in the caches.
            3 => (0..4).try_for_each(|_| {
                p.mov(eax, dword_ptr(0x40_0000 + 0x40 * random.below(0x4000)))?;
                p.imul_2(eax, eax)
            }),
            _ => {
                let nothing = Counted { all_threads: false, compared: false };
                core_script(p, random, cpus, INSTRUCTIONS as u32, nothing)
            }
        })
    })
    .unwrap()
}

/// Runs a guest on two machines, one of them in pieces, and compares them now and then: how often.
fn compare(cpus: u32, timing: Timing, bytes: &[u8], random: &mut Random, what: &str) -> u64 {
    let make = || {
        let mut machine = machine("knc", cpus, bytes);
        machine.soft.set_timing(timing, Warm::Counting);
        machine
    };
    let mut runner = Runner::new();
    let (mut whole, mut cut, mut at) = (make(), make(), 0);
    for compared in 0..8 {
        let until = at + 1 + u64::from(random.below(1500));
        let end = runner.run(&mut whole, until);
        let mut cut_end = End::Instructions;
        while at < until && cut_end == End::Instructions {
            // Mostly behind each instruction.
            let next = if random.below(8) == 0 { 1 + u64::from(random.below(400)) } else { 1 };
            at = until.min(at + next);
            cut_end = runner.run(&mut cut, at);
        }
        let place = format!("{cpus} {what} timing {timing:?} at {until}");
        assert_eq!(cut_end, end, "{place}");
        assert_eq!(difference(&mut whole, &mut cut), None, "{place}");
        if end != End::Instructions {
            return compared;
        }
    }
    8
}

/// Where runs are cut changes nothing of what such a guest does.
#[test]
fn counters_that_come_and_go_count_the_same_however_runs_are_cut() {
    let mut compared = 0;
    let guests = (1..=4).flat_map(|cpus| seeds(0, 24).map(move |seed| (cpus, seed)));
    for (cpus, seed) in FAILED.into_iter().chain(guests) {
        let random = &mut Random(7000 + 1000 * u64::from(cpus) + seed);
        let bytes = comes_and_goes(random, cpus);
        let timing = [Timing::Auto, Timing::Model][random.below(2) as usize];
        compared += compare(cpus, timing, &bytes, random, &format!("seed {seed}"));
    }
    assert!(compared > 16 * seeds(0, 24).end, "{compared}");
}

#[test]
fn a_device_wakes_a_thread_at_the_same_time_however_runs_are_cut() {
    let mut compared = 0;
    for (cpus, seed) in (2..=4).flat_map(|cpus| seeds(0, 24).map(move |seed| (cpus, seed))) {
        let random = &mut Random(17_000 + 1000 * u64::from(cpus) + seed);
        let bytes = wakes_by_a_device(random, cpus);
        compared += compare(cpus, Timing::Auto, &bytes, random, &format!("seed {seed}"));
    }
    assert!(compared > 8 * seeds(0, 24).end, "{compared}");
}
