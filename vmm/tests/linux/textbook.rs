//! What every textbook promises, measured by Debian's perf: a matrix read by rows or by columns, a branch
//! that follows a pattern or chance.
//!
//! The matrix has 256 rows of 1024 words of four bytes. It is larger than any first-level cache, and its
//! rows are 4 KiB apart, so that the words of a column share few sets.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::guest::{packages, run_with};
use crate::harness::{Verdict, tests};
use crate::program::{HEADERS, elf_at};

tests!(rows_and_columns, patterns_and_chance, stalls_by_rows_and_columns);

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

/// What `perf stat` counts of an event for each of two programs on a processor.
fn measure(
    cpu: &str,
    event: &str,
    programs: &[Vec<u8>; 2],
) -> Result<[u64; 2], crate::harness::CannotRun> {
    let packages = packages()?;
    let mut root = packages.root(&format!(
        "for n in 0 1; do perf stat -x , -e {event}:u program$n; done\npoweroff -f"
    ));
    packages.add_perf(&mut root);
    for (n, code) in programs.iter().enumerate() {
        root.file(&format!("/bin/program{n}"), 0o755, elf_at(BASE, code));
    }
    let append = "console=ttyS0 nmi_watchdog=0 initcall_blacklist=load_system_certificate_list";
    let options = ["--append", append, "--cpu", cpu, "--isa", "distro"];
    let run = run_with(packages, &format!("textbook-{cpu}-{event}"), 1, &root, "", &options);
    // perf leaves the modifier away where it makes up the name.
    let is_it = |name: &str| name.trim_end_matches(":u") == event;
    let rows = run.log.lines().filter(|line| line.split(',').nth(2).is_some_and(is_it));
    let counts: Vec<u64> =
        rows.map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    Ok(counts.try_into().unwrap_or_else(|_| panic!("two counts in {}", run.log)))
}

/// By rows each line is missed once, by columns each word: a column has 256 lines, of which a set holds 2
/// (K8) or 4 (P6), and they come to no more than 8 sets. Filling the matrix misses little, since the kernel
/// has just cleared each page when it is filled: what its page fault needed on the way back, about 8 of a
/// page's 128 lines in the 16 KiB of a P6. So a tenth more at most.
fn rows_and_columns() -> Verdict {
    for (cpu, line) in [("k8", 64), ("p6", 32)] {
        let programs = [sum(true).expect("it assembles"), sum(false).expect("it assembles")];
        let [rows, columns] = measure(cpu, "L1-dcache-load-misses", &programs)?;
        let lines = u64::from(MATRIX) / line;
        let words = u64::from(ROWS * COLUMNS);
        assert!((lines..lines * 11 / 10).contains(&rows), "{cpu}: {rows} misses by rows");
        assert!((words..words * 11 / 10).contains(&columns), "{cpu}: {columns} by columns");
    }
    Ok(())
}

/// What is missed is waited for: by columns 262,144 words, by rows a sixteenth or an eighth as many lines, which a
/// K8 prefetches. How long depends on how much of it overlaps, so that no more is asked than that columns stall
/// at least twice as long.
fn stalls_by_rows_and_columns() -> Verdict {
    for (cpu, event) in [("k8", "stalled-cycles-backend"), ("p6", "stalled-cycles-frontend")] {
        let programs = [sum(true).expect("it assembles"), sum(false).expect("it assembles")];
        let [rows, columns] = measure(cpu, event, &programs)?;
        assert!(columns > 2 * rows, "{cpu}: {rows} stalled cycles by rows, {columns} by columns");
    }
    Ok(())
}

/// By chance every second branch is mispredicted: 32,768 with a standard deviation of 128. By the pattern
/// (32,768 times the one way and then as often the other) only where it changes and at the beginning.
fn patterns_and_chance() -> Verdict {
    for cpu in ["k8", "p6"] {
        let programs = [branch(true).expect("it assembles"), branch(false).expect("it assembles")];
        let [chance, pattern] = measure(cpu, "branch-misses", &programs)?;
        let half = u64::from(ROUNDS) / 2;
        assert!((half - 1280..half + 1280).contains(&chance), "{cpu}: {chance} by chance");
        assert!(pattern < 200, "{cpu}: {pattern} by a pattern");
    }
    Ok(())
}
