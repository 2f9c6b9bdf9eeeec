//! What other programs read.

use std::collections::BTreeMap;
use std::process::Command;

use crate::harness::{CannotRun, Verdict, tests};
use crate::{path, printed, sample, sample_file};

tests![callgrind_annotate_reads_the_profile, the_documented_reader_reads_the_file];

/// Runs a program that another package has.
fn run(command: &mut Command, needs: &str) -> Result<String, CannotRun> {
    let run = command.output().map_err(|e| CannotRun::without(needs, &e.to_string()))?;
    let error = String::from_utf8_lossy(&run.stderr);
    if error.contains("ModuleNotFoundError") {
        return Err(CannotRun::without(needs, &error));
    }
    assert!(run.status.success() && error.is_empty(), "{error}");
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// The first number of each line of `callgrind_annotate`, by function.
fn annotated(text: &str) -> BTreeMap<&str, u64> {
    let line = |line| -> Option<(&str, u64)> {
        let line: &str = line;
        let count = line.split_whitespace().next()?.replace(',', "").parse().ok()?;
        // The file is the module.
        let name = if line.ends_with("PROGRAM TOTALS") {
            "PROGRAM TOTALS"
        } else {
            line.split_once(':')?.1.rsplit_once(" [")?.0
        };
        Some((name, count))
    };
    text.lines().filter_map(line).collect()
}

/// Valgrind's manual, "callgrind_annotate": `--inclusive=yes` adds the cost of calls to the function
/// that calls. The function that calls itself has 30 of its own, 12 of the interrupt, and once more the 10
/// of the calls within.
fn callgrind_annotate_reads_the_profile() -> Verdict {
    let out = path("annotate-out");
    printed(&sample_file("annotate"), &format!("--callgrind {}", out.display()));
    let annotate = |option: &str| {
        let mut command = Command::new("callgrind_annotate");
        command.args(["--threshold=100", "--auto=no", option]).arg(&out);
        run(&mut command, "callgrind_annotate of Debian's valgrind")
    };
    let own = annotate("--inclusive=no")?;
    let expected = [
        ("0x500000", 30),
        ("0x700000", 10),
        ("0xffffffff81000300", 4),
        ("PROGRAM TOTALS", sample::TOTALS[0]),
        ("do_syscall", 53),
        ("entry_SYSCALL_64", 15),
        ("fact", 30),
        ("irq_entry", 12),
        ("main", 30),
    ];
    assert_eq!(annotated(&own), BTreeMap::from(expected), "{own}");
    let inclusive = annotate("--inclusive=yes")?;
    let found = annotated(&inclusive);
    for (function, expected) in [
        ("main", 30 + 42 + 65),
        ("fact", 30 + 12 + 10),
        ("[system call]", 65),
        ("entry_SYSCALL_64", 65),
        ("[interrupt 0xec]", 12),
        ("PROGRAM TOTALS", sample::TOTALS[0]),
    ] {
        assert_eq!(found.get(function), Some(&expected), "{function}: {inclusive}");
    }
    Ok(())
}

/// The program in `docs/truth.md`, as it stands there.
fn the_documented_reader_reads_the_file() -> Verdict {
    let document = include_str!("../../../docs/truth.md");
    let program =
        document.split("```python reader.py\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = program.expect("a program in docs/truth.md");
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(sample_file("python"));
    let text = run(&mut command, "Python's cbor2")?;
    let first = "\
50 25 cr3=0x2000 0xffffffff81000100 8b07
30 4 cr3=0x3000 0x500000 90
15 5 cr3=0x2000 0xffffffff81000000 0f01f8
";
    assert!(text.starts_with(first), "{text}");
    Ok(())
}
