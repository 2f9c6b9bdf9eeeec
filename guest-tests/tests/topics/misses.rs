//! Misses of the data cache, which no count of instructions foretells: on K7 and K8 event 41h (AMD 26094,
//! section 10.2; AMD 22007, appendix D), on the P6 family 45h DCU_LINES_IN, on P55C 03h DATA_READ_MISS
//! (Intel SDM volume 3, appendix A).

use guest_tests::guest::{EFLAGS_IF, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS, USR};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{al, byte_ptr, ecx, esi};

topics!(
    each_line_once,
    what_does_not_fit_is_missed_again,
    a_pmi_comes_behind_the_miss,
    a_pmi_within_a_string,
);

/// The event, and bytes of a line.
fn misses(part: &Part) -> (Event, u64) {
    match (part.registers, part.name) {
        (Registers::Amd, _) => (event(0x41), 64),
        (Registers::P55c, _) => (event(0x03), 32),
        (_, "pm") => (event(0x45), 64),
        _ => (event(0x45), 32),
    }
}

/// Reads a byte of each of so many lines from [`SCRATCH`] on.
fn read_lines(g: &mut Guest, lines: u32, line: u64) -> Result {
    g.mov(esi, SCRATCH)?;
    g.mov(ecx, lines)?;
    let next = g.here()?;
    g.mov(al, byte_ptr(esi))?;
    g.add(esi, line as i32)?;
    g.dec(ecx)?;
    g.jnz(next)
}

/// 64 lines are missed when they are read for the first time, and are there when they are read again.
fn each_line_once(part: &'static Part) -> Result {
    let (misses, line) = misses(part);
    let image = Guest::assemble(part, |g| {
        g.count("first", misses, OS, |g| read_lines(g, 64, line))?;
        g.count("again", misses, OS, |g| read_lines(g, 64, line))
    })?;
    run(part, &image).expect(&[("first", 64), ("again", 0)]);
    Ok(())
}

/// 256 KiB, read in order, is twice as much as the largest of the caches and four times as much as a set
/// holds: each line is gone when its turn comes again (the oldest line of a set is replaced, or one that
/// was used longer ago than the one before).
fn what_does_not_fit_is_missed_again(part: &'static Part) -> Result {
    let (misses, line) = misses(part);
    let lines = 0x4_0000 / line as u32;
    let image = Guest::assemble(part, |g| {
        g.count("first", misses, OS, |g| read_lines(g, lines, line))?;
        g.count("again", misses, OS, |g| read_lines(g, lines, line))
    })?;
    run(part, &image).expect(&[("first", lines.into()), ("again", lines.into())]);
    Ok(())
}

/// The fifth miss overflows the counter: the PMI finds the address behind that load, not that of the end
/// of the loop's turn.
fn a_pmi_comes_behind_the_miss(part: &'static Part) -> Result {
    let (misses, line) = misses(part);
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.mov(esi, SCRATCH)?;
        g.start(0, misses, OS | INT, 5u64.wrapping_neg())?;
        for n in 0..8 {
            g.mov(al, byte_ptr(esi + n * line as i32))?;
            if n == 4 {
                g.mark("behind")?;
            }
            g.mov(al, byte_ptr(esi + n * line as i32 + 1))?;
            g.nop()?;
        }
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    let behind = image.symbol("behind").expect("a mark");
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", behind)]);
    Ok(())
}

/// REP LODSB from 4 bytes before a line on, at CPL 3: the second miss is its fifth element, and the handler
/// finds the instruction itself.
fn a_pmi_within_a_string(part: &'static Part) -> Result {
    let (misses, line) = misses(part);
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, misses, USR | INT, 2u64.wrapping_neg())?;
        g.at_cpl3(EFLAGS_IF, |g| {
            g.mov(esi, SCRATCH + line as u32 - 4)?;
            g.mov(ecx, 100)?;
            g.mark("string")?;
            g.rep().lodsb()
        })?;
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    let string = image.symbol("string").expect("a mark");
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", string)]);
    Ok(())
}
