//! What every textbook promises: a branch on random bytes is predicted wrongly every other time and one on
//! sorted bytes hardly ever, and a matrix read by columns keeps the processor waiting where one read by rows
//! does not. Events C5h (P6), C3h (K7, K8), 35h (P55C) and 2Bh (Knights Corner) of mispredictions; A2h, D1h and 1Ah of stalls.

use guest_tests::msr::{CLOCKS, OS};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{al, byte_ptr, eax, ebx, ecx, edi, edx, esi};

use crate::misses::{add_up, misses};

topics!(a_branch_on_random_and_on_sorted_bytes, a_matrix_keeps_waiting_by_columns);

/// As many as [examples/textbook.c] has.
const BYTES: u32 = 65_536;
const ROWS: u32 = 256;
const ROW: u32 = 4096;

fn mispredictions(part: &Part) -> Event {
    match part.registers {
        Registers::Amd => event(0xC3),
        Registers::P55c => event(0x35),
        Registers::Knc => event(0x2B),
        _ => event(0xC5),
    }
}

/// The event, and the flag that it needs if it counts clocks.
fn stalls(part: &Part) -> (Event, u64) {
    match part.registers {
        Registers::Amd => (event(0xD1), 0),
        Registers::P55c => (event(0x1A), CLOCKS),
        _ => (event(0xA2), 0),
    }
}

/// Adds up the bytes from [`SCRATCH`] on that are at least 128.
fn add_large_ones(g: &mut Guest) -> Result {
    let mut small = g.create_label();
    g.mov(esi, SCRATCH)?;
    g.mov(ecx, BYTES)?;
    g.xor(eax, eax)?;
    g.xor(ebx, ebx)?;
    let next = g.here()?;
    g.mov(al, byte_ptr(esi))?;
    g.cmp(al, 128)?;
    g.jb(small)?;
    g.add(ebx, eax)?;
    g.place(&mut small)?;
    g.inc(esi)?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn a_branch_on_random_and_on_sorted_bytes(part: &'static Part) -> Result {
    let event = mispredictions(part);
    let image = Guest::assemble(part, |g| {
        // Xorshift of 32 bits (Marsaglia, 2003).
        g.mov(edx, 0x9E37_79B9_u32)?;
        g.mov(edi, SCRATCH)?;
        g.mov(ecx, BYTES)?;
        let next = g.here()?;
        for (shift, left) in [(13, true), (17, false), (5, true)] {
            g.mov(eax, edx)?;
            if left { g.shl(eax, shift)? } else { g.shr(eax, shift)? }
            g.xor(edx, eax)?;
        }
        g.mov(eax, edx)?;
        g.mov(byte_ptr(edi), al)?;
        g.inc(edi)?;
        g.dec(ecx)?;
        g.jnz(next)?;
        g.count("unsorted", event, OS, add_large_ones)?;
        // As many of each value.
        g.mov(ecx, BYTES)?;
        let next = g.here()?;
        g.mov(eax, ecx)?;
        g.dec(eax)?;
        g.shr(eax, 8)?;
        g.mov(byte_ptr(ecx + (SCRATCH as i32 - 1)), al)?;
        g.dec(ecx)?;
        g.jnz(next)?;
        g.count("sorted", event, OS, add_large_ones)
    })?;
    let outcome = run(part, &image);
    let (unsorted, sorted) = (outcome.value("unsorted"), outcome.value("sorted"));
    let half = u64::from(BYTES) / 2;
    assert!((half * 9 / 10..half * 11 / 10).contains(&unsorted), "unsorted: {unsorted}");
    // The branch changes its mind once, and the loop ends once; some have to be met first.
    assert!(sorted <= 16, "sorted: {sorted}");
    println!("{}: {unsorted} mispredicted unsorted, {sorted} sorted", part.name);
    Ok(())
}

fn a_matrix_keeps_waiting_by_columns(part: &'static Part) -> Result {
    let ((misses, line), (stalls, clocks)) = (misses(part), stalls(part));
    let (rows, columns) = ((ROWS, ROW), (ROW / 4, 4));
    let image = Guest::assemble(part, |g| {
        g.count("missed by rows", misses, OS, |g| add_up(g, rows, columns))?;
        g.count("missed by columns", misses, OS, |g| add_up(g, columns, rows))?;
        g.count("by rows", stalls, OS | clocks, |g| add_up(g, rows, columns))?;
        g.count("by columns", stalls, OS | clocks, |g| add_up(g, columns, rows))
    })?;
    let outcome = run(part, &image);
    let (missed_rows, missed_columns) =
        (outcome.value("missed by rows"), outcome.value("missed by columns"));
    assert_eq!(missed_rows, u64::from(ROWS * ROW) / line);
    assert_eq!(missed_columns, u64::from(ROWS * ROW) / 4);
    let (rows, columns) = (outcome.value("by rows"), outcome.value("by columns"));
    assert!(columns >= 3 * rows, "by rows {rows}, by columns {columns}");
    println!(
        "{}: {missed_rows} missed by rows, {missed_columns} by columns; stalled {rows} and {columns}",
        part.name
    );
    Ok(())
}
