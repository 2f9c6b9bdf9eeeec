//! Static user programs in a Linux guest, beside what cachegrind counts of them on the host.

mod guest;
mod host;
mod programs;

use std::fmt::Write;
use std::path::Path;

use crate::check::{Check, table};
use crate::{Extent, Report, Result};
use programs::PROGRAMS;

const ABOUT: &str = "\
The same executables, of which every byte is known, run in a Linux guest on `k8`, where they are counted at
CPL 3 (`--truth-events`), and on the host under cachegrind of Valgrind 3.19, which is told of the caches of
the K8: 64 KiB each of code and data, two ways, lines of 64 bytes, and replaces the least recently used line
as they do. What it counts is another's work: a cache simulator that knows nothing of this project.

What differs, and what is done about it:

- The K8's caches are looked up by physical address here, cachegrind's by linear address. A way has eight
  pages of 4 KiB. The programs have their data, and the last one its code, in a page of 2 MiB, in which both
  are the same; on a host without such pages they make one more system call for small ones.
- Cachegrind counts an instruction as one reference of the instruction cache, whose line, or lines, it looks
  up. The K8 fetches 16 bytes at a time, and counts these. So instructions are compared with instructions, and
  only misses with misses: a line is missed by the first instruction in it, or by the first fetch.
- An instruction that reads and writes memory is one reference to cachegrind; these programs have none.
- A REP is as many instructions to cachegrind as it has rounds; these programs have none.
- In the guest there is a kernel. What an interrupt or a page fault pushes counts at the instruction that it
  comes at: a few hundred references. It clears pages before a program has them, so that their lines are in a
  cache, and it takes lines whenever it runs. So misses may be apart by 1 % or by so many lines as the data
  cache has, whichever is more.
";

/// The K8's, and as last level the K8's L2, which is not compared: it is exclusive.
const K8: host::Caches = [(65536, 2, 64), (65536, 2, 64), (1 << 20, 16, 64)];
/// Lines of a cache of the K8.
const LINES: f64 = 1024.0;
/// Instructions that the second system call takes on a host without large pages.
const SECOND_CALL: f64 = 16.0;

/// What interrupts and page faults push while a program runs, which counts at its instructions: five
/// quadwords each, so many times at most.
const PUSHED: f64 = 5.0 * 64.0;

/// BIOS and Kernel Developer's Guide, section 10.2: C0h, 40h, 41h, 81h.
const EVENTS: [&str; 4] =
    ["instructions", "DATA_CACHE_ACCESSES", "DATA_CACHE_MISSES", "INSTRUCTION_CACHE_MISSES"];

/// Runs the section. There is nothing quick in it.
///
/// # Errors
/// If a program does not run.
pub fn run(extent: Extent) -> Result<Report> {
    if extent == Extent::Quick {
        return Ok(Report::default());
    }
    let mut report = Report { text: ABOUT.into(), ..Report::default() };
    report.text += "\n| Program | What it does |\n|---|---|\n";
    for program in PROGRAMS {
        let _ = writeln!(report.text, "| {} | {} |", program.name, program.does);
    }
    let files = guest::files().and_then(|_| host::valgrind());
    let valgrind = match files {
        Ok(valgrind) => valgrind,
        Err(error) => {
            eprintln!("validation: cachegrind: NOT RUN: {error}");
            let _ = writeln!(report.text, "\n**Not run here: {error}.**");
            return Ok(report);
        }
    };
    let elves: Vec<Vec<u8>> = PROGRAMS
        .iter()
        .enumerate()
        .map(|(n, program)| program.elf(n))
        .collect::<std::result::Result<_, _>>()?;
    let folder = std::env::temp_dir().join(format!("vpmu-validation-{}", std::process::id()));
    let counted = under_cachegrind(&folder, &valgrind, &elves);
    std::fs::remove_dir_all(&folder)?;
    let counted = counted?;
    eprintln!("validation: cachegrind: k8");
    let guest = guest::count("k8", &elves, &EVENTS)?;
    for ((program, host), guest) in PROGRAMS.iter().zip(counted).zip(guest) {
        let misses = |count: u64| (count as f64 * 0.01).max(LINES);
        for (what, count, apart, guest) in [
            ("instructions", host.instructions, SECOND_CALL, guest[0]),
            ("data references", host.accesses, PUSHED, guest[1]),
            ("data misses", host.data_misses, misses(host.data_misses), guest[2]),
            ("instruction-cache misses", host.code_misses, misses(host.code_misses), guest[3]),
        ] {
            report.checks.push(Check {
                part: "k8",
                what: format!("{}: {what}", program.name),
                at_least: (count as f64 - apart).max(0.0).ceil(),
                at_most: (count as f64 + apart).floor(),
                measured: guest as f64,
                why: format!("cachegrind: {count}"),
                outside: None,
            });
        }
    }
    report.text += "\n";
    report.text += &table(&report.checks);
    Ok(report)
}

fn under_cachegrind(
    folder: &Path,
    valgrind: &Path,
    elves: &[Vec<u8>],
) -> Result<Vec<host::Counts>> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder)?;
    PROGRAMS
        .iter()
        .zip(elves)
        .map(|(program, elf)| {
            eprintln!("validation: cachegrind: {} on the host", program.name);
            let path = folder.join(program.name);
            std::fs::write(&path, elf)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            host::count(valgrind, &path, &K8)
        })
        .collect()
}
