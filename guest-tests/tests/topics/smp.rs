//! Several processors, each with a PMU of its own: what one programs, counts and is interrupted for
//! is its own affair.

use guest_tests::guest::{EOI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::part::Event;
use guest_tests::timing::taken;
use guest_tests::{DISABLING, Guest, Options, PMI_VECTOR, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edi, edx, qword_ptr};
use vpmu::program::Image;
use vpmu::program::KERNEL_CS;

topics!(
    four_count_at_once,
    eight_count_at_once,
    they_start_and_stop_as_they_like,
    pmis_go_to_their_own,
    exceptions_of_the_host_at_once,
);

fn machine(cpus: u32) -> Options {
    Options { cpus: cpus as u8, ..Options::DEFAULT }
}

/// What processor `n` counts with its counters 0 and 1; cycles with counter 0, the only one that can
/// on P55C.
fn events(part: &Part, n: u32) -> [(&'static str, Event); 2] {
    let instructions = ("instructions", part.instructions);
    let branches = ("branches", part.branches);
    match n % 3 {
        0 => [instructions, branches],
        1 => [branches, instructions],
        _ => [("cycles", part.cycles), branches],
    }
}

/// Calls an empty function as many times as ECX says: CALL, RET, DEC, JNZ a round.
fn work(g: &mut Guest) -> Result {
    let (mut function, mut over) = (g.create_label(), g.create_label());
    g.jmp(over)?;
    g.place(&mut function)?;
    g.ret()?;
    g.place(&mut over)?;
    let next = g.here()?;
    g.call(function)?;
    g.dec(ecx)?;
    g.jnz(next)
}

/// Rounds of [`work`] on processor `n`.
fn rounds(n: u32) -> u32 {
    100 * (n + 1)
}

/// Of what comes between the start of counter 0 and the end of counter 1: `setup` instructions of one
/// cycle without branches around MOV, JMP and the rounds of [`work`]. The last JNZ is not taken.
fn expected(name: &str, n: u32, setup: u64) -> u64 {
    let rounds = u64::from(rounds(n));
    match name {
        "branches" => 1 + 3 * rounds,
        "cycles" => 1 + taken() + rounds * (2 * taken() + 1) + (rounds - 1) * taken() + 1 + setup,
        _ => 2 + 4 * rounds + setup,
    }
}

/// Starts both counters, works, stops both and leaves what they counted.
fn count(g: &mut Guest, n: u32) -> Result {
    let part = g.part;
    let [(_, first), (_, second)] = events(part, n);
    g.start(0, first, OS, 0)?;
    g.start(1, second, OS, 0)?;
    g.mov(ecx, rounds(n))?;
    work(g)?;
    g.stop(0)?;
    g.stop(1)?;
    for counter in 0..2 {
        g.read_pmc(counter)?;
        g.leave(SCRATCH + 0x100 * counter)?;
    }
    Ok(())
}

fn report(g: &mut Guest) -> Result {
    g.report_left("first", SCRATCH)?;
    g.report_left("second", SCRATCH + 0x100)
}

/// Runs `image`, in which each processor has done [`count`].
fn check(part: &Part, image: &Image, cpus: u32) {
    let outcome = run_with(part, image, machine(cpus));
    for n in 0..cpus {
        let [(first, _), (second, _)] = events(part, n);
        outcome.expect(&[
            (&format!("first{n}"), expected(first, n, part.starting() + DISABLING)),
            (&format!("second{n}"), expected(second, n, 2 * DISABLING)),
        ]);
    }
}

fn count_at_once(part: &'static Part, cpus: u32) -> Result {
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(cpus, |g| {
            g.barrier()?;
            (0..cpus).try_for_each(|n| g.on_processor(n, |g| count(g, n)))
        })?;
        report(g)
    })?;
    check(part, &image, cpus);
    Ok(())
}

fn four_count_at_once(part: &'static Part) -> Result {
    count_at_once(part, 4)
}

fn eight_count_at_once(part: &'static Part) -> Result {
    count_at_once(part, 8)
}

/// Some begin while others count, and end while others still do, time and again.
fn they_start_and_stop_as_they_like(part: &'static Part) -> Result {
    const CPUS: u32 = 4;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(CPUS, |g| {
            for turn in 0..3 {
                g.barrier()?;
                for n in 0..CPUS {
                    // Uncounted, and as long as the others' counted rounds.
                    g.on_processor(n, |g| {
                        g.mov(ecx, 1 + 150 * ((n + turn) % CPUS))?;
                        work(g)?;
                        count(g, n)
                    })?;
                }
            }
            Ok(())
        })?;
        report(g)
    })?;
    check(part, &image, CPUS);
    Ok(())
}

/// Processor n has n + 1 overflows; all are open for interrupts all the time.
fn pmis_go_to_their_own(part: &'static Part) -> Result {
    const CPUS: u32 = 4;
    let registers = [eax, ecx, edx, edi];
    let image = Guest::assemble(part, |g| {
        let mut over = g.create_label();
        g.jmp(over)?;
        let entry = g.here()?;
        g.gate(PMI_VECTOR, entry, 0);
        for register in registers {
            g.push(register)?;
        }
        g.inc(dword_ptr(ebp * 8 + SCRATCH))?;
        g.allow_another()?;
        g.write_lapic(EOI, 0)?;
        for register in registers.into_iter().rev() {
            g.pop(register)?;
        }
        g.iretd()?;
        g.place(&mut over)?;

        g.on_every_processor(CPUS, |g| {
            g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
            g.sti()?;
            g.barrier()?;
            for n in 0..CPUS {
                g.on_processor(n, |g| {
                    for _ in 0..=n {
                        g.start(0, part.instructions, OS | INT, 3_u64.wrapping_neg())?;
                        (0..4).try_for_each(|_| g.nop())?;
                        g.stop(0)?;
                    }
                    Ok(())
                })?;
            }
            g.barrier()?;
            g.cli()
        })?;
        g.report_left("pmis", SCRATCH)
    })?;
    let outcome = run_with(part, &image, machine(CPUS));
    for n in 0..CPUS {
        outcome.expect(&[(&format!("pmis{n}"), u64::from(n) + 1)]);
    }
    Ok(())
}

/// All of them come at once, time and again, to what KVM may not be able to execute (x87 or IRETD at
/// CPL 0), while those that have been there spin and leave the guest for nobody: who helps one must
/// not forget another. As long as processor 0 says, since such a host may take a millisecond for each.
fn exceptions_of_the_host_at_once(part: &'static Part) -> Result {
    const CPUS: u32 = 4;
    /// A tenth of a second at 2.5 GHz.
    const TICKS: i32 = 250_000_000;
    const ROUNDS: u32 = SCRATCH + 0x100;
    const MEETING: u32 = SCRATCH + 0x200;
    const ONE: u32 = SCRATCH + 0x204;
    const LAST_ROUND: u32 = SCRATCH + 0x208;
    const DEADLINE: u32 = SCRATCH + 0x210;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(CPUS, |g| {
            g.xor(edi, edi)?;
            g.xor(ebx, ebx)?;
            g.fldz()?;
            g.mov(dword_ptr(ONE), 1.0_f32.to_bits())?;
            g.on_processor(0, |g| {
                g.rdtsc()?;
                g.add(eax, TICKS)?;
                g.adc(edx, 0)?;
                g.mov(dword_ptr(DEADLINE), eax)?;
                g.mov(dword_ptr(DEADLINE + 4), edx)
            })?;
            g.barrier()?;
            let next = g.here()?;
            g.inc(ebx)?;
            g.on_processor(0, |g| {
                // The next round is the last one: those behind are still in this one.
                let mut go_on = g.create_label();
                g.rdtsc()?;
                g.sub(eax, dword_ptr(DEADLINE))?;
                g.sbb(edx, dword_ptr(DEADLINE + 4))?;
                g.jb(go_on)?;
                g.cmp(dword_ptr(LAST_ROUND), 0)?;
                g.jne(go_on)?;
                g.lea(eax, dword_ptr(ebx + 1))?;
                g.mov(dword_ptr(LAST_ROUND), eax)?;
                g.place(&mut go_on)
            })?;
            let (mut even, mut behind) = (g.create_label(), g.create_label());
            g.test(ebp, 1)?;
            g.jz(even)?;
            g.pushfd()?;
            g.push(i32::from(KERNEL_CS))?;
            g.push_address(behind)?;
            g.iretd()?;
            g.place(&mut even)?;
            g.fadd(dword_ptr(ONE))?;
            g.place(&mut behind)?;
            g.meet(MEETING)?;
            g.mov(eax, dword_ptr(LAST_ROUND))?;
            g.dec(eax)?;
            g.cmp(ebx, eax)?;
            g.jbe(next)?;
            g.fistp(qword_ptr(ebp * 8 + SCRATCH))?;
            g.mov(eax, ebx)?;
            g.xor(edx, edx)?;
            g.leave(ROUNDS)
        })?;
        g.report_left("sum", SCRATCH)?;
        g.report_left("rounds", ROUNDS)?;
        g.report_word("last", LAST_ROUND)?;
        g.report_word("meeting", MEETING)
    })?;
    let outcome = run_with(part, &image, machine(CPUS));
    let last = outcome.value("last");
    assert!(last > 1, "there were rounds");
    outcome.expect(&[("meeting", u64::from(CPUS) * last)]);
    for n in 0..CPUS {
        let sum = if n % 2 == 0 { last } else { 0 };
        outcome.expect(&[(&format!("rounds{n}"), last), (&format!("sum{n}"), sum)]);
    }
    Ok(())
}
