//! Interrupts that processors send each other: when they arrive, and how long a request and its
//! reply take. Time is that of the time-stamp counters, which all show the same.

use guest_tests::guest::EOI;
use guest_tests::timing::{by_clock, delivery, memory};
use guest_tests::{Guest, Options, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edx};
use vpmu::program::LAPIC;

topics!(they_arrive_after_the_latency, round_trips, to_all_others);

const ICR: u32 = LAPIC + 0x300;
const ICR_HIGH: u32 = LAPIC + 0x310;
const ASSERT: u32 = 1 << 14;
const ALL_BUT_SELF: u32 = 3 << 18;
/// The question, and the answer.
const PING: u8 = 0x60;
const PONG: u8 = 0x61;

const ROUNDS: u32 = 50;
/// The number of the processor that has nothing left to ask.
const OVER: u32 = SCRATCH;
/// Answers so far.
const ANSWERS: u32 = SCRATCH + 4;
/// When the last of them arrived.
const NOTED: u32 = SCRATCH + 8;
/// Least and greatest of what is measured.
const LEAST: u32 = SCRATCH + 0x10;
const MOST: u32 = SCRATCH + 0x14;

/// How the processor that is asked passes the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Halted,
    Spinning,
    Pausing,
}

/// Another way round the loop of who waits.
fn pass_time(g: &mut Guest, waiting: Waiting) -> Result {
    match waiting {
        Waiting::Halted => g.hlt(),
        Waiting::Pausing => g.pause(),
        Waiting::Spinning => g.nop(),
    }
}

/// Sends `vector` to processor `to`: MOV, MOV.
fn send(g: &mut Guest, to: u32, vector: u8) -> Result {
    g.mov(dword_ptr(ICR_HIGH), to << 24)?;
    g.mov(dword_ptr(ICR), ASSERT | u32::from(vector))
}

/// A handler that notes the time with its third instruction, does `body` and ends.
fn handler(g: &mut Guest, vector: u8, body: impl FnOnce(&mut Guest) -> Result) -> Result {
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(vector, entry, 0);
    g.push(eax)?;
    g.push(edx)?;
    g.rdtsc()?;
    g.mov(dword_ptr(NOTED), eax)?;
    body(g)?;
    g.mov(dword_ptr(LAPIC + EOI as u32), 0)?;
    g.pop(edx)?;
    g.pop(eax)?;
    g.iretd()?;
    g.place(&mut over)
}

/// EAX is among what is measured.
fn measure(g: &mut Guest) -> Result {
    let (mut least, mut most) = (g.create_label(), g.create_label());
    g.cmp(eax, dword_ptr(LEAST))?;
    g.jae(least)?;
    g.mov(dword_ptr(LEAST), eax)?;
    g.place(&mut least)?;
    g.cmp(eax, dword_ptr(MOST))?;
    g.jbe(most)?;
    g.mov(dword_ptr(MOST), eax)?;
    g.place(&mut most)
}

fn machine(cpus: u32) -> Options {
    Options { cpus: cpus as u8, ..Options::DEFAULT }
}

/// Processor `from` asks processor `to`, again and again, with EBX the time of the question, and
/// spins until the answer is there; `answered` is done then.
fn ask(
    part: &'static Part,
    [from, to]: [u32; 2],
    waiting: Waiting,
    answer: impl Fn(&mut Guest) -> Result,
    answered: impl Fn(&mut Guest) -> Result,
) -> std::result::Result<vpmu::program::Image, iced_x86::IcedError> {
    Guest::assemble(part, |g| {
        handler(g, PING, answer)?;
        handler(g, PONG, |g| g.inc(dword_ptr(ANSWERS)))?;
        g.mov(dword_ptr(LEAST), -1)?;
        g.on_every_processor(2, |g| {
            g.barrier()?;
            g.sti()?;
            g.on_processor(to, |g| {
                let mut over = g.create_label();
                let again = g.here()?;
                g.cmp(dword_ptr(OVER), 0)?;
                g.jne(over)?;
                pass_time(g, waiting)?;
                g.jmp(again)?;
                g.place(&mut over)
            })?;
            g.on_processor(from, |g| {
                // So that the other one waits.
                g.mov(ecx, 1000)?;
                let delay = g.here()?;
                g.dec(ecx)?;
                g.jnz(delay)?;
                g.mov(ecx, ROUNDS)?;
                let next = g.here()?;
                g.mov(dword_ptr(ANSWERS), 0)?;
                send(g, to, PING)?;
                g.rdtsc()?;
                g.mov(ebx, eax)?;
                let spin = g.here()?;
                pass_time(g, if waiting == Waiting::Halted { Waiting::Spinning } else { waiting })?;
                g.cmp(dword_ptr(ANSWERS), 0)?;
                g.je(spin)?;
                answered(g)?;
                g.sub(eax, ebx)?;
                // The first one may come when the other has run ahead.
                let mut first = g.create_label();
                g.cmp(ecx, ROUNDS as i32)?;
                g.je(first)?;
                measure(g)?;
                g.place(&mut first)?;
                g.dec(ecx)?;
                g.jnz(next)?;
                g.mov(dword_ptr(OVER), 1)?;
                send(g, to, PING)
            })?;
            g.barrier()?;
            g.cli()
        })?;
        g.report_word("least", LEAST)?;
        g.report_word("most", MOST)
    })
}

fn ways(part: &Part) -> impl Iterator<Item = Waiting> {
    // Knights Corner has no PAUSE.
    let pauses = part.name != "knc";
    [Waiting::Halted, Waiting::Spinning, Waiting::Pausing]
        .into_iter()
        .filter(move |&way| pauses || way != Waiting::Pausing)
}

/// Cycles from the store to ICR until the message is there. On the serial APIC bus "short messages
/// (21 cycles) are used for sending fixed, NMI, SMI, INIT, start-up, ExtINT" (SDM Vol. 3B, "APIC Bus
/// Message Formats"), at 16.67 MHz, on Pentium III 33.3 MHz. For the others no source is known.
fn latency(part: &Part) -> u64 {
    match part.name {
        "p55c" | "ppro" => 21 * 200 * 3 / 50,
        "pii" => 21 * 400 * 3 / 50,
        "p6" | "k7" => 21 * 1000 * 3 / 100,
        _ => 500,
    }
}

/// From where an interrupt can be taken to the time that a handler notes: the delivery and two PUSH.
fn taking() -> u64 {
    delivery() + 2 * memory()
}

/// How long a message may have to wait for the end of an instruction, at most. Who is halted takes it
/// at once; so does everybody on the flat clock. On the other, the loops of those who wait for it have
/// instructions of three cycles, in the first of which it may arrive.
fn latest(waiting: Waiting) -> u64 {
    if waiting == Waiting::Halted { 0 } else { by_clock(0, 2) }
}

/// In the same cycle each time, but for the wait for the end of an instruction, whatever the receiver
/// does and whoever has the lower number.
fn they_arrive_after_the_latency(part: &'static Part) -> Result {
    for waiting in ways(part) {
        for pair in [[0, 1], [1, 0]] {
            let image = ask(
                part,
                pair,
                waiting,
                |g| g.mov(dword_ptr(ANSWERS), 1),
                |g| g.mov(eax, dword_ptr(NOTED)),
            )?;
            let outcome = run_with(part, &image, machine(2));
            let expected = latency(part) + taking();
            let (least, most) = (outcome.value("least"), outcome.value("most"));
            let accepted = expected..=expected + latest(waiting);
            assert!(
                accepted.contains(&least) && accepted.contains(&most),
                "{waiting:?} {pair:?}: {least} to {most} cycles, not {accepted:?}"
            );
            let again = run_with(part, &image, machine(2));
            assert_eq!(outcome.machine.time(), again.machine.time(), "two runs are equal");
        }
    }
    Ok(())
}

/// A request by interrupt, and a reply in memory or by another interrupt. Where in its loop who waits
/// is when it comes has no fixed number of cycles. A reply takes the latency once more: as an interrupt,
/// and in memory because it is seen in the other processor's next turn, which is as long as that. The
/// rest is less than the slack: the handlers, a pass of the loop and the delay of the turns.
fn round_trips(part: &'static Part) -> Result {
    const SLACK: u64 = 240;
    for waiting in ways(part) {
        for pair in [[0, 1], [1, 0]] {
            let [from, _] = pair;
            let answers: [&dyn Fn(&mut Guest) -> Result; 2] =
                [&|g| g.mov(dword_ptr(ANSWERS), 1), &|g| send(g, from, PONG)];
            for answer in answers {
                let image = ask(part, pair, waiting, answer, |g| g.rdtsc())?;
                let most = run_with(part, &image, machine(2)).value("most");
                let bound = 2 * latency(part) + SLACK;
                assert!(most < bound, "{waiting:?} {pair:?}: {most} of {bound} cycles");
            }
        }
    }
    Ok(())
}

/// A message to all others comes to all in the same cycle, and is taken behind the instruction there.
fn to_all_others(part: &'static Part) -> Result {
    const CPUS: u32 = 4;
    const TIMES: u32 = SCRATCH + 0x100;
    // Two halt, one does not.
    let waiting = |n| if n == 2 { Waiting::Spinning } else { Waiting::Halted };
    let image = Guest::assemble(part, |g| {
        handler(g, PING, |g| {
            g.mov(dword_ptr(ebp * 8 + TIMES), eax)?;
            g.inc(dword_ptr(ebp * 8 + (TIMES + 4)))?;
            g.lock().inc(dword_ptr(ANSWERS))
        })?;
        g.on_every_processor(CPUS, |g| {
            g.barrier()?;
            g.sti()?;
            for n in 1..CPUS {
                g.on_processor(n, |g| {
                    let again = g.here()?;
                    pass_time(g, waiting(n))?;
                    g.cmp(dword_ptr(TIMES + 8 * n + 4), 2)?;
                    g.jb(again)
                })?;
            }
            g.on_processor(0, |g| {
                for turn in 1..=2 {
                    g.mov(dword_ptr(ICR), ALL_BUT_SELF | ASSERT | u32::from(PING))?;
                    g.rdtsc()?;
                    g.mov(ebx, eax)?;
                    let spin = g.here()?;
                    g.cmp(dword_ptr(ANSWERS), (turn * (CPUS - 1)) as i32)?;
                    g.jb(spin)?;
                }
                g.mov(dword_ptr(TIMES), ebx)
            })?;
            g.cli()
        })?;
        for n in 1..CPUS {
            g.mov(eax, dword_ptr(TIMES + 8 * n))?;
            g.sub(eax, dword_ptr(TIMES))?;
            g.report_eax(&format!("time{n}"))?;
        }
        Ok(())
    })?;
    let outcome = run_with(part, &image, machine(CPUS));
    for n in 1..CPUS {
        let time = outcome.value(&format!("time{n}"));
        let expected = latency(part) + taking();
        let accepted = expected..=expected + latest(waiting(n));
        assert!(accepted.contains(&time), "processor {n}: {time} cycles, not {accepted:?}");
    }
    Ok(())
}
