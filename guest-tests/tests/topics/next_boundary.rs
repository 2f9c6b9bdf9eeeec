//! Whatever lets a waiting interrupt or NMI through is looked at on the next instruction boundary:
//! the handler finds the address of the instruction behind it, and a counter of retired instructions
//! has counted up to there and no further.
//!
//! Each row has the instructions by which something waits and those by which it is let through, with
//! their number in a comment. The handlers read counter 1 with their sixth instruction and log it with
//! the interrupted address.

use guest_tests::guest::EOI;
use guest_tests::msr::{OS, USR};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{ds, dword_ptr, eax, ecx, edi, edx, es, esp};

mod lines;
mod modes;
mod nmi;
mod pmi;
mod vector;

topics!(
    of_an_nmi,
    of_a_vector,
    of_the_8259a,
    of_the_io_apic,
    of_a_pmi,
    of_sysret,
    of_virtual_8086_mode,
    of_a_task_switch,
    of_the_uncounted,
);

/// A vector, one of a higher class, and IRQ4 of the 8259A.
const VECTOR: u8 = 0x60;
const HIGHER: u8 = 0x70;
const IRQ4: u8 = 0x24;
/// INT n from CPL 3 and from virtual-8086 mode.
const BACK: u8 = 0x81;
/// A handler that is one IRETD.
const EMPTY: u8 = 0x82;

const TPR: i32 = 0x80;
const ICR: i32 = 0x300;
const LVT_LINT0: i32 = 0x350;
/// Fixed delivery, asserted, to the sender.
const TO_SELF: u32 = 1 << 18 | 1 << 14;
/// NMI, asserted, to the physical destination in ICR 63:56, which is 0: processor 0. (NMI has no
/// shorthand for the sender: SDM Vol. 3A, "Valid Combinations for the P6 Family Processors' Local
/// APIC Interrupt Command Register".)
const NMI_TO_0: u32 = 4 << 8 | 1 << 14;
const EXT_INT: u32 = 7 << 8;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;

// What the handlers know: how many there were, what the next does behind its log, and the log.
const ENTRIES: u32 = SCRATCH;
const BODY: u32 = SCRATCH + 4;
const KEPT_ESP: u32 = SCRATCH + 8;
const LOG: u32 = SCRATCH + 0x100;

/// Instructions of a handler before the RDPMC.
const BEFORE: u64 = 5;
/// Instructions of a handler up to its body.
const PROLOGUE: u64 = 12;
/// Instructions behind its body: four POP, IRETD.
const EPILOGUE: u64 = 5;
/// Instructions of [`once`] before what is done once.
const ONCE: u64 = 2;

type Build = fn(&mut Guest) -> Result;

/// A row of a table.
struct Row {
    name: &'static str,
    /// Done before anything counts, with IF clear.
    prepare: Build,
    /// What is counted.
    counted: Build,
    /// The handlers' body.
    body: Build,
    /// Where each interrupt comes, by the mark, and what has retired by then.
    expected: fn(&Part) -> Vec<(&'static str, u64)>,
}

/// What most rows have.
const ROW: Row = Row { name: "", prepare: nothing, counted: nothing, body: nothing, expected: |_| vec![] };

fn nothing(_: &mut Guest) -> Result {
    Ok(())
}

/// EFLAGS.IF set, long before.
fn enabled(g: &mut Guest) -> Result {
    g.sti()?;
    g.nop()
}

/// An NMI: MOV, MOV.
fn nmi(g: &mut Guest) -> Result {
    g.write_lapic(ICR, NMI_TO_0)
}

/// An interrupt at [`VECTOR`]: MOV, MOV.
fn vector(g: &mut Guest) -> Result {
    g.write_lapic(ICR, TO_SELF | u32::from(VECTOR))
}

/// An interrupt at [`HIGHER`]: MOV, MOV.
fn higher(g: &mut Guest) -> Result {
    g.write_lapic(ICR, TO_SELF | u32::from(HIGHER))
}

/// MOV, MOV.
fn end(g: &mut Guest) -> Result {
    g.write_lapic(EOI, 0)
}

/// Does `body` in the first handler of the row only: CMP, JNE.
fn once(g: &mut Guest, body: Build) -> Result {
    let mut over = g.create_label();
    g.cmp(dword_ptr(ENTRIES), 1)?;
    g.jne(over)?;
    body(g)?;
    g.place(&mut over)
}

fn mark(g: &mut Guest, name: &str) -> Result {
    g.mark(name)?;
    Ok(())
}

/// The handlers: four PUSH, MOV, RDPMC, MOV, MOV, MOV, MOV, INC, JMP to the row's body, which ends
/// with four POP and IRETD.
fn handlers(g: &mut Guest) -> Result {
    let mut over = g.create_label();
    g.jmp(over)?;
    let empty = g.here()?;
    g.gate(EMPTY, empty, 0);
    g.iretd()?;
    let back = g.here()?;
    g.gate(BACK, back, 3);
    g.mov(esp, dword_ptr(KEPT_ESP).ss())?;
    // The segments of virtual-8086 mode are null.
    g.mov(eax, 0x43)?;
    g.mov(ds, eax)?;
    g.mov(es, eax)?;
    g.ret()?;
    let entry = g.here()?;
    for handled in [2, VECTOR, HIGHER, IRQ4] {
        g.gate(handled, entry, 0);
    }
    for register in [eax, ecx, edx, edi] {
        g.push(register)?;
    }
    g.mov(ecx, 1)?;
    g.rdpmc()?;
    g.mov(edi, dword_ptr(ENTRIES).ss())?;
    g.mov(dword_ptr(edi * 8 + LOG).ss(), eax)?;
    g.mov(eax, dword_ptr(esp + 16))?;
    g.mov(dword_ptr(edi * 8 + (LOG + 4)).ss(), eax)?;
    g.inc(dword_ptr(ENTRIES).ss())?;
    g.jmp(dword_ptr(BODY).ss())?;
    g.place(&mut over)
}

/// Assembles one row. Without `counted` nothing counts, and the handlers read zero.
fn assemble(g: &mut Guest, row: &Row, counted: bool) -> Result {
    let (mut over, mut body) = (g.create_label(), g.create_label());
    g.jmp(over)?;
    g.place(&mut body)?;
    (row.body)(g)?;
    for register in [edi, edx, ecx, eax] {
        g.pop(register)?;
    }
    g.iretd()?;
    g.place(&mut over)?;
    g.store_address(dword_ptr(BODY), body)?;
    g.mov(dword_ptr(ENTRIES), 0)?;
    (row.prepare)(g)?;
    if counted {
        g.start(1, g.part.instructions, OS | USR, 0)?;
    }
    (row.counted)(g)?;
    if counted {
        g.stop(1)?;
    }
    g.cli()?;
    g.write_lapic(TPR, 0)?;
    g.report_word(&format!("{}: entries", row.name), ENTRIES)?;
    for n in 0..(row.expected)(g.part).len() as u32 {
        g.report_word(&format!("{}: count {n}", row.name), LOG + 8 * n)?;
        g.report_word(&format!("{}: address {n}", row.name), LOG + 8 * n + 4)?;
    }
    Ok(())
}

/// Runs the rows of a table, one after the other.
fn check(part: &'static Part, rows: &[Row], counted: bool) -> Result {
    let image = Guest::assemble(part, |g| {
        handlers(g)?;
        rows.iter().try_for_each(|row| assemble(g, row, counted))
    })?;
    let outcome = run(part, &image);
    let mut wrong = Vec::new();
    for Row { name, expected, .. } in rows {
        let mut compare = |what: String, expected: u64| {
            let value = outcome.value(&format!("{name}: {what}"));
            if value != expected {
                wrong.push(format!("{name}: {what}: {value:#x}, expected {expected:#x}"));
            }
        };
        let expected = expected(part);
        compare("entries".into(), expected.len() as u64);
        for (n, (place, retired)) in (0..).zip(expected) {
            // On K7 and K8 each interrupt counts as well.
            let taken = part.exceptional.instructions * (n + 1);
            let count = if counted { retired + BEFORE + taken } else { 0 };
            compare(format!("count {n}"), count);
            // Numbers are offsets in virtual-8086 mode.
            let address = place.parse().ok().or(image.symbol(place)).expect("a mark");
            compare(format!("address {n}"), address);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn of_an_nmi(part: &'static Part) -> Result {
    check(part, nmi::NMI, true)
}

fn of_a_vector(part: &'static Part) -> Result {
    check(part, vector::VECTORS, true)
}

fn of_the_8259a(part: &'static Part) -> Result {
    check(part, lines::PIC_REQUESTS, true)
}

fn of_the_io_apic(part: &'static Part) -> Result {
    check(part, lines::IO_APIC, true)
}

fn of_a_pmi(part: &'static Part) -> Result {
    check(part, pmi::PMI, true)
}

fn of_sysret(part: &'static Part) -> Result {
    check(part, modes::SYSRET, true)
}

fn of_virtual_8086_mode(part: &'static Part) -> Result {
    check(part, modes::VIRTUAL_8086, true)
}

fn of_a_task_switch(part: &'static Part) -> Result {
    check(part, modes::TASK_SWITCH, true)
}

/// The same where nothing counts, for which a processor runs another way.
fn of_the_uncounted(part: &'static Part) -> Result {
    for rows in [
        nmi::NMI,
        vector::VECTORS,
        lines::PIC_REQUESTS,
        lines::IO_APIC,
        modes::VIRTUAL_8086,
        modes::TASK_SWITCH,
    ] {
        check(part, rows, false)?;
    }
    Ok(())
}
