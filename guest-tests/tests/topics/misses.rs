//! Misses of the data cache, which no count of instructions foretells: on K7 and K8 event 41h (AMD 26094,
//! section 10.2; AMD 22007, appendix D), on the P6 family 45h DCU_LINES_IN, on P55C 03h DATA_READ_MISS
//! (Intel SDM volume 3, appendix A), on Knights Corner 03h too (Intel 327357, Table 1-6). And those of the
//! data TLB: 46h, 02h.

use guest_tests::guest::{EFLAGS_IF, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS, USR};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{al, byte_ptr, cr0, cr3, dword_ptr, eax, ecx, edi, edx, esi};

topics!(
    each_line_once,
    what_does_not_fit_is_missed_again,
    a_matrix_by_rows_and_by_columns,
    a_pmi_comes_behind_the_miss,
    a_pmi_within_a_string,
    page_tables_loaded_again,
);

/// The event, and bytes of a line.
pub(crate) fn misses(part: &Part) -> (Event, u64) {
    match (part.registers, part.name) {
        (Registers::Amd, _) => (event(0x41), 64),
        (Registers::P55c, _) => (event(0x03), 32),
        (_, "knc") => (event(0x03), 64),
        (_, "pm") => (event(0x45), 64),
        _ => (event(0x45), 32),
    }
}

/// Reads a byte of each of so many lines from [`SCRATCH`] on.
pub(crate) fn read_lines(g: &mut Guest, lines: u32, line: u64) -> Result {
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

/// Adds up the words of a matrix: so many times so many, and bytes between two of each.
pub(crate) fn add_up(g: &mut Guest, outer: (u32, u32), inner: (u32, u32)) -> Result {
    g.mov(edi, 4 << 20)?;
    g.mov(edx, outer.0)?;
    let again = g.here()?;
    g.mov(esi, edi)?;
    g.mov(ecx, inner.0)?;
    let next = g.here()?;
    g.add(eax, dword_ptr(esi))?;
    g.add(esi, inner.1 as i32)?;
    g.dec(ecx)?;
    g.jnz(next)?;
    g.add(edi, outer.1 as i32)?;
    g.dec(edx)?;
    g.jnz(again)
}

/// A matrix of 256 rows of 4 KiB: by rows each line is missed once. The lines of a column are 4 KiB apart, so that
/// they are in no more than 8 sets, each with 4 ways at most of a cache of lines of 32 bytes, or 8 of 64: of 256
/// lines none is there any more when the next column begins, and each of its words is missed.
fn a_matrix_by_rows_and_by_columns(part: &'static Part) -> Result {
    const ROWS: u32 = 256;
    const ROW: u32 = 4096;
    let (misses, line) = misses(part);
    let (rows, columns) = ((ROWS, ROW), (ROW / 4, 4));
    let image = Guest::assemble(part, |g| {
        g.count("by rows", misses, OS, |g| add_up(g, rows, columns))?;
        g.count("by columns", misses, OS, |g| add_up(g, columns, rows))
    })?;
    let bytes = u64::from(ROWS * ROW);
    run(part, &image).expect(&[("by rows", bytes / line), ("by columns", bytes / 4)]);
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

const DIRECTORY: u32 = SCRATCH + 0x10_0000;
const TABLE: u32 = DIRECTORY + 0x1000;
const PRESENT_WRITABLE: u32 = 3;
const CACHE_DISABLE: u32 = 0x10;
const LARGE: u32 = 0x80;
const CR4_PSE: i32 = 1 << 4;
const CR0_PG: u32 = 1 << 31;
/// CR0.CD and NW: set by reset.
const CR0_CACHES: i32 = !(3 << 29);
const HWCR: u32 = 0xC001_0015;
const HWCR_FFDIS: u64 = 1 << 6;

/// Turns paging on: all addresses are translated to themselves, the first 4 MiB in small pages.
fn turn_paging_on(g: &mut Guest) -> Result {
    let entries = |g: &mut Guest, at: u32, first: u32, step: i32| -> Result {
        g.mov(edi, at)?;
        g.mov(eax, first)?;
        g.mov(ecx, 1024)?;
        let next = g.here()?;
        g.mov(dword_ptr(edi), eax)?;
        g.add(edi, 4)?;
        g.add(eax, step)?;
        g.dec(ecx)?;
        g.jnz(next)
    };
    entries(g, TABLE, PRESENT_WRITABLE, 0x1000)?;
    entries(g, DIRECTORY, PRESENT_WRITABLE | LARGE | CACHE_DISABLE, 0x40_0000)?;
    g.mov(dword_ptr(DIRECTORY), TABLE | PRESENT_WRITABLE)?;
    g.mov(eax, DIRECTORY)?;
    g.mov(cr3, eax)?;
    g.set_cr4(CR4_PSE)?;
    g.mov(eax, cr0)?;
    g.or(eax, CR0_PG)?;
    g.and(eax, CR0_CACHES)?;
    g.mov(cr0, eax)
}

/// CR3 is loaded with what it has, and 20 pages are read, fewer than a TLB has entries. On the K8 they are
/// missed only if a page table was written since it was loaded before: it has a flush filter (US patent
/// 6510508), which HWCR.FFDIS disables (AMD 26094). The page table's own page is missed when it is written.
fn page_tables_loaded_again(part: &'static Part) -> Result {
    let misses = match part.registers {
        Registers::Amd => event(0x46),
        _ => event(0x02),
    };
    let load_and_read = |g: &mut Guest| -> Result {
        g.mov(eax, cr3)?;
        g.mov(cr3, eax)?;
        read_lines(g, 20, 0x1000)
    };
    let write = |g: &mut Guest| g.mov(dword_ptr(TABLE), PRESENT_WRITABLE);
    let image = Guest::assemble(part, |g| {
        turn_paging_on(g)?;
        write(g)?;
        g.count("loaded", misses, OS, |g| {
            load_and_read(g)?;
            load_and_read(g)?;
            load_and_read(g)
        })?;
        write(g)?;
        g.count("written", misses, OS, |g| {
            load_and_read(g)?;
            write(g)?;
            load_and_read(g)?;
            load_and_read(g)
        })?;
        if part.name == "k8" {
            g.write_msr(HWCR, HWCR_FFDIS)?;
        }
        write(g)?;
        g.count("disabled", misses, OS, |g| {
            load_and_read(g)?;
            load_and_read(g)?;
            load_and_read(g)
        })
    })?;
    let (loaded, written) = if part.name == "k8" { (20, 41) } else { (60, 61) };
    run(part, &image).expect(&[("loaded", loaded), ("written", written), ("disabled", 60)]);
    Ok(())
}
