//! What every textbook promises, measured by Debian's perf: a matrix read by rows or by columns, a branch
//! that follows a pattern or chance.
//!
//! The matrix has 256 rows of 1024 words of four bytes. It is larger than any first-level cache, and its
//! rows are 4 KiB apart, so that the words of a column share few sets.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::guest::{BRIEF, packages, run_with};
use crate::harness::{Verdict, tests};
use crate::program::{HEADERS, elf_at};

tests!(
    on_a_pentium_pro,
    on_a_pentium_ii,
    on_a_pentium_iii,
    on_a_pentium_m,
    on_an_athlon,
    on_an_opteron
);

/// Where the programs lie.
const BASE: u64 = 0x40_0000_0000;
const ROWS: u32 = 256;
const COLUMNS: u32 = 1024;
/// Bytes of the matrix.
const MATRIX: u32 = ROWS * COLUMNS * 4;
/// Rounds of the programs that branch.
const ROUNDS: u32 = 65_536;

fn exit(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()
}

/// Fills a matrix on the stack, then adds it up: row by row, or column by column.
fn sum(by_rows: bool) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    a.sub(rsp, MATRIX as i32 + 4096)?;
    a.mov(r8, rsp)?;
    a.and(r8, -4096)?;
    a.mov(rdi, r8)?;
    a.mov(ecx, MATRIX / 4)?;
    a.rep().stosd()?;
    let (outer, inner, stride) = if by_rows { (ROWS, COLUMNS, 4) } else { (COLUMNS, ROWS, 4096) };
    let (mut next, mut word) = (a.create_label(), a.create_label());
    a.mov(ebx, outer)?;
    a.set_label(&mut next)?;
    a.mov(rsi, r8)?;
    a.mov(ecx, inner)?;
    a.set_label(&mut word)?;
    a.add(eax, dword_ptr(rsi))?;
    a.add(rsi, stride)?;
    a.dec(ecx)?;
    a.jnz(word)?;
    a.add(r8, if by_rows { 4096 } else { 4 })?;
    a.dec(ebx)?;
    a.jnz(next)?;
    exit(&mut a)?;
    a.assemble(BASE + HEADERS)
}

/// Branches in each round, by a bit of a random number or by how many rounds are left.
fn branch(by_chance: bool) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut next, mut skip) = (a.create_label(), a.create_label());
    a.mov(ecx, ROUNDS)?;
    a.mov(eax, 0x9e37_79b9u32)?;
    a.set_label(&mut next)?;
    // Marsaglia's xorshift of 32 bits.
    for (left, by) in [(true, 13), (false, 17), (true, 5)] {
        a.mov(edx, eax)?;
        if left { a.shl(edx, by) } else { a.shr(edx, by) }?;
        a.xor(eax, edx)?;
    }
    if by_chance { a.test(eax, 1 << 13) } else { a.test(ecx, ROUNDS / 2) }?;
    a.jz(skip)?;
    a.inc(ebx)?;
    a.set_label(&mut skip)?;
    a.dec(ecx)?;
    a.jnz(next)?;
    exit(&mut a)?;
    a.assemble(BASE + HEADERS)
}

/// The programs, by name.
fn programs() -> Result<[(&'static str, Vec<u8>); 4], IcedError> {
    Ok([
        ("rows", sum(true)?),
        ("columns", sum(false)?),
        ("chance", branch(true)?),
        ("pattern", branch(false)?),
    ])
}

/// Measures the programs on a processor with data cache lines of so many bytes. `stalls` is the event of
/// cycles in which it waits for data.
fn check(cpu: &str, line: u64, stalls: &str) -> Verdict {
    let packages = packages()?;
    let misses = "L1-dcache-load-misses";
    let mut init = String::new();
    for (event, programs) in [
        (misses, ["rows", "columns"]),
        ("branch-misses", ["chance", "pattern"]),
        (stalls, ["rows", "columns"]),
    ] {
        for program in programs {
            init +=
                &format!("perf stat -x , -e {event}:u {program} 2>&1 | sed 's/^/{program},/'\n");
        }
    }
    let mut root = packages.root(&(init + "poweroff -f"));
    packages.add_perf(&mut root);
    for (name, code) in programs().expect("they assemble") {
        root.file(&format!("/bin/{name}"), 0o755, elf_at(BASE, &code));
    }
    let append = format!("{BRIEF} nmi_watchdog=0");
    let options = ["--append", &append, "--cpu", cpu, "--isa", "distro"];
    let log = run_with(packages, &format!("textbook-{cpu}"), 1, &root, "", &options).log;
    let counted = |program: &str, event: &str| -> u64 {
        let rows = log.lines().filter_map(|row| row.strip_prefix(program)?.strip_prefix(','));
        let rows = rows.map(|row| row.split(',').collect::<Vec<_>>());
        // perf leaves the modifier away where it makes up the name.
        let is_it =
            |row: &Vec<_>| row.get(2).is_some_and(|n: &&str| n.trim_end_matches(":u") == event);
        let row = rows.into_iter().find(is_it).unwrap_or_else(|| panic!("no {event} in {log}"));
        row[0].parse().unwrap_or_else(|_| panic!("{cpu}: {row:?}"))
    };

    // By rows each line is missed once, by columns each word: a column has 256 lines, of which a set holds 2 to
    // 8, and they come to no more than 8 sets. Filling the matrix misses little, since the kernel has just
    // cleared each page when it is filled: what its page fault needed on the way back, about 8 of a page's 128
    // lines in the 16 KiB of a Pentium III, and in the 8 KiB of a Pentium Pro, two ways of it, 37.
    let [rows, columns] = ["rows", "columns"].map(|program| counted(program, misses));
    let (lines, words) = (u64::from(MATRIX) / line, u64::from(ROWS * COLUMNS));
    let with_faults = if cpu == "ppro" { lines * 4 / 3 } else { lines * 11 / 10 };
    assert!((lines..with_faults).contains(&rows), "{cpu}: {rows} misses by rows");
    assert!((words..words * 11 / 10).contains(&columns), "{cpu}: {columns} by columns");

    // By chance every second branch is mispredicted: 32,768 with a standard deviation of 128; and where the
    // history of all branches tells, as on a Pentium M, now and then the loop's own branch. By the pattern (32,768
    // times the one way and then as often the other) only where it changes and at the beginning.
    let [chance, pattern] = ["chance", "pattern"].map(|program| counted(program, "branch-misses"));
    let half = u64::from(ROUNDS) / 2;
    let with_loop = if cpu == "pm" { half * 9 / 8 } else { half + 1280 };
    assert!((half - 1280..with_loop).contains(&chance), "{cpu}: {chance} by chance");
    assert!(pattern < 200, "{cpu}: {pattern} by a pattern");

    // What is missed is waited for: by columns 262,144 words, by rows a sixteenth or an eighth as many lines,
    // which some prefetch. How long depends on how much of it overlaps, so that no more is asked than that
    // columns stall at least twice as long.
    let [rows, columns] = ["rows", "columns"].map(|program| counted(program, stalls));
    assert!(columns > 2 * rows, "{cpu}: {rows} stalled cycles by rows, {columns} by columns");
    Ok(())
}

fn on_a_pentium_pro() -> Verdict {
    check("ppro", 32, "stalled-cycles-frontend")
}

fn on_a_pentium_ii() -> Verdict {
    check("pii", 32, "stalled-cycles-frontend")
}

fn on_a_pentium_iii() -> Verdict {
    check("p6", 32, "stalled-cycles-frontend")
}

fn on_a_pentium_m() -> Verdict {
    check("pm", 64, "stalled-cycles-frontend")
}

fn on_an_athlon() -> Verdict {
    check("k7", 64, "stalled-cycles-backend")
}

fn on_an_opteron() -> Verdict {
    check("k8", 64, "stalled-cycles-backend")
}
