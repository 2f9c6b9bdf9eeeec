//! The threads of a Knights Corner core (Intel 327357-001): SPFLT (1.4.2, 1.4.3.5), the thread mode
//! of bit 21 (table 1-5), and the handler of figure 1-2.

use guest_tests::guest::{EFLAGS_CLEAR, EFLAGS_IF, EOI, FAULT_UD, LVTPC, NO_FAULT};
use guest_tests::msr::{
    ALL_THREADS, GLOBAL_CTRL, GLOBAL_OVF_CTRL, GLOBAL_STATUS, INT, OS, SPFLT_CONTROL, USR,
};
use guest_tests::part::event;
use guest_tests::{DISABLING, Guest, Options, PMI_VECTOR, Part, Result, SCRATCH, run, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edi, edx};
use vpmu::program::Image;

use crate::misses::read_lines;

topics!(
    spflt_is_an_instruction,
    spflt_sets_the_preference,
    spflt_selects_a_region,
    each_thread_counts_its_region,
    a_counter_for_all_threads,
    an_event_of_the_core,
    pushes_are_of_the_level_they_go_to,
    what_a_sibling_has_brought_in,
    two_overflows_are_one_interrupt,
    a_later_overflow_is_in_the_status,
    the_wrong_order_loses_the_next,
    a_core_has_one_time_stamp_counter,
);

/// PERF_SPFLT_CONTROL: counters 0 and 1 obey SPFLT; the user's preference.
const OBEY: u64 = 3;
const USER_PREFERENCE: u64 = 1 << 63;
const THREADS: u32 = 4;
const FOUR_THREADS: Options = Options { cpus: THREADS as u8, ..Options::DEFAULT };
/// SPFLT EAX: counts from here on, or no longer. Two instructions.
fn spflt(g: &mut Guest, on: bool) -> Result {
    g.mov(eax, u32::from(on))?;
    // VEX.L0.F2.0F AE /6.
    g.db(&[0xC5, 0xFB, 0xAE, 0xF0])
}

/// DELAY EAX: waits for some cycles.
fn delay(g: &mut Guest) -> Result {
    g.mov(eax, 3)?;
    // VEX.L0.F3.0F AE /6.
    g.db(&[0xC5, 0xFA, 0xAE, 0xF0])
}

/// There on Knights Corner at every level, as DELAY is; undefined opcodes everywhere else.
fn spflt_is_an_instruction(part: &'static Part) -> Result {
    let expected = if part.name == "knc" { NO_FAULT } else { FAULT_UD };
    let image = Guest::assemble(part, |g| {
        g.probe("spflt.0", |g| spflt(g, true))?;
        g.probe("delay.0", delay)?;
        for cpl in 1..=3 {
            g.at_cpl(cpl, EFLAGS_CLEAR, |g| {
                g.probe(&format!("spflt.{cpl}"), |g| spflt(g, true))?;
                g.probe(&format!("delay.{cpl}"), delay)
            })?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for cpl in 0..=3 {
        outcome.expect(&[(&format!("spflt.{cpl}"), expected), (&format!("delay.{cpl}"), expected)]);
    }
    Ok(())
}

/// The preference is bit 0 of the operand, whoever executes SPFLT and whatever is in the other bits;
/// the operand stays as it is, and DELAY changes nothing.
fn spflt_sets_the_preference(part: &'static Part) -> Result {
    const OPERANDS: [u32; 6] = [1, 0, 3, 2, u32::MAX, u32::MAX - 1];
    let image = Guest::assemble(part, |g| {
        for operand in OPERANDS {
            for cpl in [0, 3] {
                let body = |g: &mut Guest| {
                    g.mov(ecx, operand)?;
                    // VEX.L0.F2.0F AE /6 with ECX.
                    g.db(&[0xC5, 0xFB, 0xAE, 0xF1])?;
                    g.mov(edx, ecx)?;
                    delay(g)?;
                    g.report(&format!("kept.{cpl}.{operand:x}"))
                };
                if cpl == 0 {
                    body(g)?;
                } else {
                    g.at_cpl(cpl, EFLAGS_CLEAR, body)?;
                }
                g.read_msr(SPFLT_CONTROL)?;
                g.report(&format!("control.{cpl}.{operand:x}"))?;
                // The other way round for the next one.
                g.write_msr(SPFLT_CONTROL, u64::from(!operand & 1) << 63 | OBEY)?;
            }
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for (n, operand) in OPERANDS.into_iter().enumerate() {
        for cpl in [0, 3] {
            let preference = u64::from(operand & 1) << 63;
            let obey = if (n, cpl) == (0, 0) { 0 } else { OBEY };
            outcome.expect(&[
                (&format!("control.{cpl}.{operand:x}"), preference | obey),
                (&format!("kept.{cpl}.{operand:x}"), u64::from(operand) << 32 | 3),
            ]);
        }
    }
    Ok(())
}

/// A counter with its SPFLT bit set counts while the user's preference is set; one with the bit
/// clear does not care.
fn spflt_selects_a_region(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_msr(SPFLT_CONTROL, 1)?;
        for n in 0..2 {
            g.start(n, part.instructions, USR, 0)?;
        }
        g.at_cpl3(EFLAGS_CLEAR, |g| {
            g.nop()?; // 1
            spflt(g, true)?; // 2, 3
            g.nop()?; // 4; region 1
            g.nop()?; // 5; region 2
            spflt(g, false)?; // 6, 7; region 3, 4
            g.nop() // 8, and 9 for INT 80h
        })?;
        g.read_msr(SPFLT_CONTROL)?;
        g.report("off")?;
        g.at_cpl3(EFLAGS_CLEAR, |g| spflt(g, true))?; // 10, 11, 12 for INT 80h; region 5
        g.read_msr(SPFLT_CONTROL)?;
        g.report("on")?;
        for n in 0..2 {
            g.stop(n)?;
            g.read_pmc(n)?;
            g.report(&format!("counter{n}"))?;
        }
        Ok(())
    })?;
    run(part, &image).expect(&[
        ("off", 1),
        ("on", USER_PREFERENCE | 1),
        ("counter0", 5),
        ("counter1", 12),
    ]);
    Ok(())
}

/// A loop of 100 rounds for thread 0, 200 for thread 1 and so on: MOV, INC, IMUL, then DEC and JNZ
/// each round. EBP is the number of the thread.
fn region(g: &mut Guest) -> Result {
    g.mov(ecx, ebp)?;
    g.inc(ecx)?;
    g.imul_3(ecx, ecx, 100)?;
    let next = g.here()?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn in_region(thread: u64) -> u64 {
    3 + 2 * 100 * (thread + 1)
}

/// Each of four threads has counters of its own and a preference of its own.
fn each_thread_counts_its_region(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(THREADS, |g| {
            g.write_msr(SPFLT_CONTROL, OBEY)?;
            g.start(0, part.instructions, USR, 0)?;
            g.start(1, part.branches, USR, 0)?;
            g.barrier()?;
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.nop()?;
                spflt(g, true)?;
                region(g)?;
                spflt(g, false)?; // 2, and then no more
                g.nop()
            })?;
            g.barrier()?;
            g.stop(0)?;
            g.stop(1)?;
            for n in 0..2 {
                g.read_pmc(n)?;
                g.leave(SCRATCH + 0x100 * n)?;
            }
            Ok(())
        })?;
        g.report_left("instructions", SCRATCH)?;
        g.report_left("branches", SCRATCH + 0x100)
    })?;
    let outcome = run_with(part, &image, FOUR_THREADS);
    for n in 0..u64::from(THREADS) {
        outcome.expect(&[
            (&format!("instructions{n}"), in_region(n) + 2),
            (&format!("branches{n}"), 100 * (n + 1)),
        ]);
    }
    Ok(())
}

/// IA32_TIME_STAMP_COUNTER is one per core (table 1-2): what thread 0 writes, its three siblings read,
/// and the four threads of the other core do not.
fn a_core_has_one_time_stamp_counter(part: &'static Part) -> Result {
    const TIME_STAMP_COUNTER: u32 = 0x10;
    const WRITTEN: u64 = 0x1234 << 32;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(2 * THREADS, |g| {
            let mut others = g.create_label();
            g.test(ebp, ebp)?;
            g.jnz(others)?;
            g.write_msr(TIME_STAMP_COUNTER, WRITTEN)?;
            g.place(&mut others)?;
            g.barrier()?;
            g.rdtsc()?;
            // The low half has gone on since.
            g.xor(eax, eax)?;
            g.leave(SCRATCH)
        })?;
        g.report_left("tsc", SCRATCH)
    })?;
    let outcome = run_with(part, &image, Options { cpus: 2 * THREADS as u8, ..FOUR_THREADS });
    for n in 0..2 * THREADS {
        outcome.expect(&[(&format!("tsc{n}"), if n < THREADS { WRITTEN } else { 0 })]);
    }
    Ok(())
}

/// With bit 21 every thread's counter has the sum over the core; the other counter of the thread has
/// its own.
fn a_counter_for_all_threads(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(THREADS, |g| {
            g.start(0, part.instructions, USR | ALL_THREADS, 0)?;
            g.start(1, part.instructions, USR, 0)?;
            // All count before the first begins, and until the last has ended.
            g.barrier()?;
            g.at_cpl3(EFLAGS_CLEAR, region)?;
            g.barrier()?;
            g.stop(0)?;
            g.stop(1)?;
            for n in 0..2 {
                g.read_pmc(n)?;
                g.leave(SCRATCH + 0x100 * n)?;
            }
            Ok(())
        })?;
        g.report_left("all", SCRATCH)?;
        g.report_left("own", SCRATCH + 0x100)
    })?;
    // With INT 80h.
    let own = |n| in_region(n) + 1;
    let all = (0..u64::from(THREADS)).map(own).sum();
    let outcome = run_with(part, &image, FOUR_THREADS);
    for n in 0..u64::from(THREADS) {
        outcome.expect(&[(&format!("all{n}"), all), (&format!("own{n}"), own(n))]);
    }
    Ok(())
}

/// L2_DATA_WRITE_MISS_MEM_FILL (10F7h) has no thread: each thread's counter has the lines that all four have
/// written, here 16 each at CPL 3, none of which any cache has, nor the neighbour of which is written.
fn an_event_of_the_core(part: &'static Part) -> Result {
    const LINES: u32 = 16;
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(THREADS, |g| {
            g.start(0, event(0x10F7), USR, 0)?;
            g.barrier()?;
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.mov(edi, ebp)?;
                g.shl(edi, 20)?;
                g.add(edi, 0x80_0000)?;
                g.mov(ecx, LINES)?;
                let next = g.here()?;
                g.mov(dword_ptr(edi), ecx)?;
                g.add(edi, 0x1040)?;
                g.dec(ecx)?;
                g.jnz(next)
            })?;
            g.barrier()?;
            g.stop(0)?;
            g.read_pmc(0)?;
            g.leave(SCRATCH)
        })?;
        g.report_left("lines", SCRATCH)
    })?;
    let outcome = run_with(part, &image, FOUR_THREADS);
    for n in 0..THREADS {
        outcome.expect(&[(&format!("lines{n}"), (THREADS * LINES).into())]);
    }
    Ok(())
}

/// INT 80h at CPL 3 pushes on the stack of CPL 0, and "accesses made while CPL = 3 are user-mode accesses" (Intel
/// SDM volume 3A, "Determination of Access Rights") says that the others are not: DATA_WRITE (01h) at CPL 3 has none
/// of them. So it is where the threads take turns, as PIPELINE_AGI_STALLS (1Fh) has them, and time passes between
/// the pushes and the first instruction at CPL 0.
fn pushes_are_of_the_level_they_go_to(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.on_every_processor(THREADS, |g| {
            g.start(0, event(0x1F), USR, 0)?;
            g.start(1, event(0x01), USR, 0)?;
            g.barrier()?;
            g.at_cpl3(EFLAGS_CLEAR, region)?;
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.push(eax)?;
                g.push(eax)
            })?;
            g.barrier()?;
            g.stop(0)?;
            g.stop(1)?;
            g.read_pmc(1)?;
            g.leave(SCRATCH)
        })?;
        g.report_left("writes", SCRATCH)
    })?;
    let outcome = run_with(part, &image, FOUR_THREADS);
    for n in 0..THREADS {
        outcome.expect(&[(&format!("writes{n}"), 2)]);
    }
    Ok(())
}

/// 64 lines are read by one thread, then by the others of its core, which find them in the data cache, then
/// by a thread of another core, which gets them from the first core's L2.
fn what_a_sibling_has_brought_in(part: &'static Part) -> Result {
    const FIVE: u32 = THREADS + 1;
    let expected = [(0x03, [64, 0, 0, 0, 64]), (0x10F1, [0, 0, 0, 0, 64])];
    for (code, expected) in expected {
        let image = Guest::assemble(part, |g| {
            g.on_every_processor(FIVE, |g| {
                g.start(0, event(code), USR, 0)?;
                for n in 0..FIVE {
                    g.barrier()?;
                    g.on_processor(n, |g| {
                        g.at_cpl3(EFLAGS_CLEAR, |g| read_lines(g, 64, 0x1040))
                    })?;
                }
                g.barrier()?;
                g.stop(0)?;
                g.read_pmc(0)?;
                g.leave(SCRATCH + 0x10_0000)
            })?;
            g.report_left("misses", SCRATCH + 0x10_0000)
        })?;
        let outcome = run_with(part, &image, Options { cpus: FIVE as u8, ..Options::DEFAULT });
        for (n, misses) in expected.into_iter().enumerate() {
            outcome.expect(&[(&format!("misses{n}"), misses)]);
        }
    }
    Ok(())
}

/// Where the handlers below keep their count of interrupts and the statuses they found.
const PMIS: u32 = SCRATCH;
const STATUSES: u32 = SCRATCH + 0x10;

/// Runs a guest of one thread whose PMIs leave LVTPC as it is, and again where they mask it (1.4.3.9): its
/// handler opens LVTPC each time, so that it finds the same.
fn expect_with_and_without_auto_mask(part: &Part, image: &Image, expected: &[(&str, u64)]) {
    for on in [false, true] {
        let options = Options { lvtpc_auto_mask: Some(on), ..Options::DEFAULT };
        run_with(part, image, options).expect(expected);
    }
}

/// A handler of PMIs that stops the counters, reads the status to EAX, does `rest`, opens LVTPC,
/// ends the interrupt and starts the counters.
fn handler(g: &mut Guest, rest: impl Fn(&mut Guest) -> Result) -> Result {
    let registers = [eax, ebx, ecx, edx, edi];
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(PMI_VECTOR, entry, 0);
    for register in registers {
        g.push(register)?;
    }
    g.write_msr(GLOBAL_CTRL, 0)?;
    g.read_msr(GLOBAL_STATUS)?;
    g.mov(ebx, dword_ptr(PMIS))?;
    g.mov(dword_ptr(ebx * 4 + STATUSES), eax)?;
    g.inc(dword_ptr(PMIS))?;
    rest(g)?;
    g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
    g.write_lapic(EOI, 0)?;
    g.write_msr(GLOBAL_CTRL, 3)?;
    for register in registers.into_iter().rev() {
        g.pop(register)?;
    }
    g.iretd()?;
    g.place(&mut over)
}

/// WRMSR of EAX to the overflow control: what the handler has read is cleared, and nothing else.
fn clear_what_was_read(g: &mut Guest) -> Result {
    g.mov(ecx, GLOBAL_OVF_CTRL)?;
    g.xor(edx, edx)?;
    g.wrmsr()
}

/// Figure 1-2: two counters that overflow with one instruction make one interrupt, whose handler
/// finds both; the next overflow makes the next interrupt.
fn two_overflows_are_one_interrupt(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        handler(g, clear_what_was_read)?;
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        // Both overflow with the third instruction at CPL 3.
        g.start(0, part.instructions, USR | INT, 3_u64.wrapping_neg())?;
        g.start(1, part.instructions, USR | INT, 3_u64.wrapping_neg())?;
        g.at_cpl3(EFLAGS_IF, |g| (0..3).try_for_each(|_| g.nop()))?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("between")?;
        // Counter 1 does so with the fourth at the next entry to CPL 3.
        g.write_msr(part.perfctr(1), part.written(4_u64.wrapping_neg()))?;
        g.at_cpl3(EFLAGS_IF, |g| (0..8).try_for_each(|_| g.nop()))?;
        g.stop(0)?;
        g.stop(1)?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("status")?;
        g.report_word("pmis", PMIS)?;
        g.report_word("first", STATUSES)?;
        g.report_word("second", STATUSES + 4)?;
        for n in 0..2 {
            g.read_pmc(n)?;
            g.report(&format!("counter{n}"))?;
        }
        Ok(())
    })?;
    let expected = [
        ("pmis", 2),
        ("first", 3),
        ("between", 0),
        ("second", 2),
        ("status", 0),
        // Behind the overflow: INT 80h, eight NOPs, INT 80h; four of the eight and INT 80h.
        ("counter0", 1 + 8 + 1),
        ("counter1", 4 + 1),
    ];
    expect_with_and_without_auto_mask(part, &image, &expected);
    Ok(())
}

/// An overflow between another one and its handler: the status that the handler reads has both, and
/// there is no second interrupt.
fn a_later_overflow_is_in_the_status(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        handler(g, clear_what_was_read)?;
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        g.start(0, part.instructions, OS | INT, (part.starting() + 3).wrapping_neg())?;
        g.start(1, part.instructions, OS | INT, 5_u64.wrapping_neg())?;
        g.nop()?; // 1
        g.nop()?; // 2
        g.nop()?; // 3: counter 0 overflows
        g.nop()?; // 4
        g.nop()?; // 5: counter 1 overflows
        g.report_word("masked", PMIS)?;
        g.sti()?;
        g.nop()?; // in the shadow of STI; then the interrupt
        g.nop()?;
        g.cli()?;
        g.stop(0)?;
        g.stop(1)?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("status")?;
        g.report_word("pmis", PMIS)?;
        g.report_word("first", STATUSES)
    })?;
    let expected = [("masked", 0), ("pmis", 1), ("first", 3), ("status", 0)];
    expect_with_and_without_auto_mask(part, &image, &expected);
    Ok(())
}

/// The line to the local APIC is status being other than zero. A handler that leaves a bit standing
/// gets no further interrupt, though status has every overflow.
fn the_wrong_order_loses_the_next(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        handler(g, |_| Ok(()))?;
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        g.sti()?;
        g.start(0, part.instructions, OS | INT, 3_u64.wrapping_neg())?;
        (0..3).try_for_each(|_| g.nop())?;
        g.stop(0)?;
        g.report_word("pmis.first", PMIS)?;
        // Without the clearing that Guest::start does.
        g.write_msr(part.perfctr(1), part.written(DISABLING.wrapping_neg()))?;
        g.write_msr(part.evtsel(1), part.instructions.code | OS | INT | 1 << 22)?;
        g.stop(1)?;
        g.nop()?;
        g.read_msr(GLOBAL_STATUS)?;
        g.report("status")?;
        g.report_word("pmis.second", PMIS)?;
        // Cleared, the line falls, and the next overflow raises it.
        g.write_msr(GLOBAL_OVF_CTRL, 3)?;
        g.start(0, part.instructions, OS | INT, 3_u64.wrapping_neg())?;
        (0..3).try_for_each(|_| g.nop())?;
        g.stop(0)?;
        g.report_word("pmis.third", PMIS)
    })?;
    let expected = [
        ("pmis.first", 1),
        ("status", 3),
        ("pmis.second", 1),
        ("pmis.third", 2),
    ];
    expect_with_and_without_auto_mask(part, &image, &expected);
    Ok(())
}
