//! `examples/counted-loop.c`: a program programs a counter by the kernel's msr driver, and reads it by RDPMC.

use std::path::Path;
use std::process::Command;

use crate::guest::{packages, run};
use crate::harness::{Verdict, tests};

tests!(counts_its_loop);

/// The number behind `start` of the line that begins with it, up to the next blank.
fn number(log: &str, start: &str) -> u64 {
    let rest = log.lines().find_map(|line| line.strip_prefix(start));
    let rest = rest.unwrap_or_else(|| panic!("no line {start}: {log}"));
    rest.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Ten thousand rounds of DEC and JNZ, with the RDPMC before them and what the compiler puts between; an
/// interrupt at CPL 3 would count as well. RDMSR has what the machine itself says of the counter.
fn counts_its_loop() -> Verdict {
    let packages = packages()?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project");
    let built =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("counted-loop.{}", std::process::id()));
    let gcc = std::env::var("CC").unwrap_or_else(|_| "gcc".into());
    let mut command = Command::new(gcc);
    command.args(["-O1", "-static", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&built);
    let run_of_gcc = command.arg(project.join("examples/counted-loop.c")).output().expect("gcc");
    assert!(run_of_gcc.status.success(), "{}", String::from_utf8_lossy(&run_of_gcc.stderr));

    let mut root = packages.root("insmod /msr.ko\ncounted-loop\npoweroff -f");
    root.file("/msr.ko", 0o644, packages.module("arch/x86/kernel/msr.ko"));
    root.file("/bin/counted-loop", 0o755, std::fs::read(&built).expect("the program"));
    let guest = run(packages, "counted-loop", 1, &root);
    let counted = number(&guest.log, "RDPMC: 10000 rounds took ");
    assert!((20_001..20_020).contains(&counted), "{counted}");
    let at = number(&guest.log, "RDMSR: the counter is at ");
    assert!((counted..counted + 100).contains(&at), "{at}");
    let stats: serde_json::Value = serde_json::from_str(&guest.stats).expect("JSON");
    let counters = stats["vcpus"][0]["counters"].as_array().expect("counters");
    let third = counters.iter().find(|counter| counter["index"] == 3).expect("counter 3");
    assert_eq!(third["value"], at, "{third}");
    std::fs::remove_file(built).expect("what was built");
    Ok(())
}
