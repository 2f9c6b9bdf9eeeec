//! The out-of-order pipelines: micro-operations retired, event C1h on K7 and K8 (AMD 26094, section 10.2;
//! AMD 22007, appendix D) and C2h on the P6 family, and stalls of dispatch by a serialising instruction, D3h
//! and A2h (Intel SDM volume 3, "P6 Family Processor Performance-Monitoring Events").
//!
//! How many micro-operations an instruction makes is AMD's and A. Fog's ("How to optimize for the Pentium
//! family of microprocessors", section 29.1), or a guess where they do not say: `uarch/src/part` has the
//! sources.

use guest_tests::guest::{EFLAGS_CLEAR, EFLAGS_IF, EOI, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS, USR};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, PMI_VECTOR, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{byte_ptr, dword_ptr, eax, ecx, edi, esi, esp};

topics!(
    counted_beside_another,
    a_pmi_behind_the_last_operation,
    a_pmi_behind_a_stall,
    iterations_of_a_string,
    a_pmi_within_a_string,
    a_halt_and_an_interrupt,
    there_and_back,
    code_written_before,
);

/// Of [`Guest::stop`] the MOV, MOV and MOV. WRMSR disables the counter before its operations retire.
const STOP: u64 = 3;

/// What a part makes of the instructions here.
struct Operations {
    retired: Event,
    /// Cycles in which dispatch waits for a serialising instruction.
    stalls: Event,
    exchange: u64,
    /// PUSH, MOV of a constant to memory, POP.
    push: u64,
    store: u64,
    pop: u64,
    near_return: u64,
    /// The decoder keeps the stack pointer, and needs one where another instruction has it as an operand.
    synchronises_stack: u64,
    cli: u64,
    sti: u64,
    halt: u64,
    software_interrupt: u64,
    delivery: u64,
    interrupt_return: u64,
    /// REP MOVSD, once and for each iteration.
    string: (u64, u64),
}

const AMD: Operations = Operations {
    retired: event(0xC1),
    stalls: event(0xD3),
    exchange: 2,
    push: 1,
    store: 1,
    pop: 2,
    near_return: 2,
    synchronises_stack: 0,
    cli: 4,
    sti: 5,
    halt: 10,
    software_interrupt: 80,
    delivery: 80,
    interrupt_return: 60,
    string: (7, 2),
};

const P6: Operations = Operations {
    retired: event(0xC2),
    stalls: event(0xA2),
    exchange: 3,
    push: 3,
    store: 2,
    pop: 2,
    near_return: 4,
    synchronises_stack: 0,
    cli: 9,
    sti: 17,
    halt: 10,
    software_interrupt: 60,
    delivery: 80,
    interrupt_return: 50,
    string: (10, 5),
};

const PM: Operations = Operations {
    push: 1,
    store: 1,
    pop: 1,
    near_return: 1,
    synchronises_stack: 1,
    string: (10, 3),
    ..P6
};

fn operations(part: &Part) -> Operations {
    match (part.registers, part.name) {
        (Registers::Amd, _) => AMD,
        (_, "pm") => PM,
        _ => P6,
    }
}

fn nops(g: &mut Guest, count: u32) -> Result {
    (0..count).try_for_each(|_| g.nop())
}

/// A counter counts the same, whether another one counts the same event meanwhile or not: nothing of the
/// WRMSR that enables it.
fn counted_beside_another(part: &'static Part) -> Result {
    let retired = operations(part).retired;
    let second = Event { counter: 1, ..retired };
    let image = Guest::assemble(part, |g| {
        g.count("alone", second, OS, |g| nops(g, 10))?;
        g.start(0, retired, OS, 0)?;
        g.count("beside", second, OS, |g| nops(g, 10))?;
        g.stop(0)
    })?;
    run(part, &image).expect(&[("alone", 10 + STOP), ("beside", 10 + STOP)]);
    Ok(())
}

/// Two NOP and the first operation of XCHG are what is left, or three NOP and the last one: the PMI comes
/// behind XCHG.
fn a_pmi_behind_the_last_operation(part: &'static Part) -> Result {
    let Operations { retired, exchange, .. } = operations(part);
    for (before, left) in [(2, 3), (3, 3 + exchange)] {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, LVT_NMI)?;
            g.start(0, retired, OS | INT, left.wrapping_neg())?;
            nops(g, before)?;
            g.xchg(eax, ecx)?;
            g.mark("behind")?;
            nops(g, 4)?;
            g.stop(0)?;
            g.report_pmis("pmis", 1)
        })?;
        let behind = image.symbol("behind").expect("a mark");
        run(part, &image).expect(&[("pmis", 1), ("pmis.0", behind)]);
    }
    Ok(())
}

/// Nothing waits before CPUID, which waits until the last NOP has retired.
fn a_pmi_behind_a_stall(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, operations(part).stalls, OS | INT, 1_u64.wrapping_neg())?;
        nops(g, 8)?;
        g.cpuid()?;
        g.mark("behind")?;
        nops(g, 8)?;
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    let behind = image.symbol("behind").expect("a mark");
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", behind)]);
    Ok(())
}

fn copy(g: &mut Guest, doublewords: u32) -> Result {
    g.mov(esi, SCRATCH)?;
    g.mov(edi, SCRATCH + 0x8000)?;
    g.mov(ecx, doublewords)
}

fn iterations_of_a_string(part: &'static Part) -> Result {
    let Operations { retired, string: (once, each), .. } = operations(part);
    let counts = [0, 1, 32, 1000];
    let image = Guest::assemble(part, |g| {
        counts.into_iter().try_for_each(|count| {
            g.count(&format!("{count}"), retired, OS, |g| {
                copy(g, count)?;
                g.rep().movsd()
            })
        })
    })?;
    let outcome = run(part, &image);
    for count in counts {
        let expected = 3 + once + each * u64::from(count) + STOP;
        outcome.expect(&[(&format!("{count}"), expected)]);
    }
    Ok(())
}

/// 1,000 iterations make more than 2,000 operations: the counter overflows at one of them, and the handler
/// finds the instruction itself.
fn a_pmi_within_a_string(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, operations(part).retired, USR | INT, 1500_u64.wrapping_neg())?;
        g.at_cpl3(EFLAGS_IF, |g| {
            copy(g, 1000)?;
            g.mark("string")?;
            g.rep().movsd()
        })?;
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    let string = image.symbol("string").expect("a mark");
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", string)]);
    Ok(())
}

/// An interrupt that the processor sends itself ends a halt. Its delivery makes operations, the halt itself
/// none but those of HLT.
fn a_halt_and_an_interrupt(part: &'static Part) -> Result {
    const ICR: i32 = 0x300;
    const SELF: u32 = 1 << 18 | 1 << 14;
    let of = operations(part);
    let image = Guest::assemble(part, |g| {
        let mut over = g.create_label();
        g.jmp(over)?;
        let entry = g.here()?;
        g.gate(PMI_VECTOR, entry, 0);
        g.push(edi)?;
        g.write_lapic(EOI, 0)?; // MOV, MOV to memory
        g.pop(edi)?;
        g.iretd()?;
        g.place(&mut over)?;
        g.count("operations", of.retired, OS, |g| {
            g.write_lapic(ICR, SELF | u32::from(PMI_VECTOR))?;
            g.sti()?;
            g.hlt()?;
            g.cli()
        })
    })?;
    // POP is the last before IRETD.
    let handler =
        of.push + 1 + of.store + of.pop + of.synchronises_stack + of.interrupt_return;
    let around = 1 + of.store + of.sti + of.halt + of.cli;
    run(part, &image).expect(&[("operations", around + of.delivery + handler + STOP)]);
    Ok(())
}

/// Ten NOP at CPL 3, and INT that goes back, belong to it; IRETD that goes there to CPL 0.
fn there_and_back(part: &'static Part) -> Result {
    let of = operations(part);
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("none", of.retired, 0),
            ("user", of.retired, USR),
            ("system", of.retired, OS),
            ("all", of.retired, USR | OS),
        ];
        g.count_each(&selects, |g| g.at_cpl3(EFLAGS_CLEAR, |g| nops(g, 10)))
    })?;
    // PUSH, MOV, AND, MOV to memory; MOV, AND, ADD, PUSH five times, IRETD; MOV, RET. The first MOV and IRETD
    // have the stack pointer as an operand, behind PUSH.
    let there = of.push + of.synchronises_stack + 2 + of.store + 3 + 5 * of.push;
    let back = of.synchronises_stack + of.interrupt_return + 1 + of.near_return;
    let (user, system) = (10 + of.software_interrupt, there + back + STOP);
    let expected = [("none", 0), ("user", user), ("system", system), ("all", user + system)];
    run(part, &image).expect(&expected);
    Ok(())
}

/// A write to code that was fetched restarts the pipeline behind itself (AMD 26094, event C7h), and nothing that
/// is counted later: here it is written while only misses are counted, and in the end while restarts are.
fn code_written_before(part: &'static Part) -> Result {
    const DATA_CACHE_MISSES: Event = event(0x41);
    const RESTARTS: Event = event(0xC7);
    const NOP: i32 = 0x90;
    let image = Guest::assemble(part, |g| {
        let (mut over, mut routine) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut routine)?;
        g.mov(edi, dword_ptr(esp))?;
        g.ret()?;
        g.place(&mut over)?;
        // Writes to the NOP that it has executed.
        let write = |g: &mut Guest| {
            g.call(routine)?;
            g.nop()?;
            g.mov(byte_ptr(edi), NOP)
        };
        g.count("misses", DATA_CACHE_MISSES, OS, write)?;
        g.count("nothing", RESTARTS, OS, |g| nops(g, 10))?;
        g.count("written", RESTARTS, OS, write)
    })?;
    run(part, &image).expect(&[("nothing", 0), ("written", 1)]);
    Ok(())
}
