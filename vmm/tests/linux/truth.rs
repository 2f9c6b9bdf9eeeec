//! The truth of a run (`--truth`), beside what perf counts in the guest and what Valgrind's reader makes
//! of it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use vpmu::truth::Truth;

use crate::guest::{BRIEF, Run, assert_equal, packages, run_with};
use crate::harness::{CannotRun, Verdict, tests};
use crate::program::{HEADERS, elf_at};

tests!(
    perf_stat_counts_what_the_truth_has_on_a_k8,
    perf_stat_counts_what_the_truth_has_on_four_k8s,
    perf_stat_counts_what_the_truth_has_on_a_pentium_iii,
    callgrind_annotate_prints_the_functions_of_the_report,
    symbols_of_another_library_are_refused
);

/// A program's events: perf's name of each, and the column of the truth. A guest's event has no column of
/// its own where it is the same as one that is always there.
type Events = &'static [(&'static str, &'static str)];

/// BIOS and Kernel Developer's Guide (26094), section 10.2. Each processor has four counters.
const K8: &[Events] = &[
    &[
        ("instructions:u", "RETIRED_INSTRUCTIONS"),
        ("branches:u", "RETIRED_BRANCH_INSTRUCTIONS"),
        ("r0c4:u", "RETIRED_TAKEN_BRANCH_INSTRUCTIONS"),
        ("r0cf:u", "INTERRUPTS_TAKEN"),
    ],
    &[
        ("r0c8:u", "RETIRED_NEAR_RETURNS"),
        ("r0c6:u", "RETIRED_FAR_CONTROL_TRANSFERS"),
        ("r047:u", "MISALIGNED_ACCESSES"),
        ("r0fcb:u", "RETIRED_MMX_FP_INSTRUCTIONS:0x0f"),
    ],
    &[
        ("r076:u", "cycles"),
        ("r027:u", "RETIRED_CPUID_INSTRUCTIONS"),
        ("r07f20:u", "SEGMENT_REGISTER_LOADS:0x7f"),
    ],
    // What models tell.
    &[
        ("r041:u", "DATA_CACHE_MISSES"),
        ("r046:u", "L1_DTLB_AND_L2_DTLB_MISS"),
        ("r081:u", "INSTRUCTION_CACHE_MISSES"),
        ("r0c3:u", "RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS"),
    ],
    // What pipelines tell, and the cycles that they take.
    &[
        ("r0c1:u", "RETIRED_UOPS"),
        ("r0d1:u", "DISPATCH_STALLS"),
        ("r087:u", "INSTRUCTION_FETCH_STALL"),
        ("r0d0:u", "DECODER_EMPTY"),
    ],
];

/// What processors decide by themselves, what caches and predictors tell, and what pipelines do.
const FOUR_K8S: &[Events] = &[K8[0], K8[3], K8[4]];

/// Software Developer's Manual, volume 3 (24319202), appendix A.1. It has two counters.
const P6: &[Events] = &[
    &[("instructions:u", "instructions"), ("branches:u", "branches")],
    &[("r0c9:u", "taken-branches"), ("r0c8:u", "HW_INT_RX")],
    &[("r005:u", "MISALIGN_MEM_REF"), ("r043:u", "DATA_MEM_REFS")],
    &[("r0c1:u", "FLOPS"), ("r006:u", "SEGMENT_REG_LOADS")],
    // What models tell.
    &[("r045:u", "DCU_LINES_IN"), ("r0c5:u", "BR_MISS_PRED_RETIRED")],
    &[("r085:u", "ITLB_MISS"), ("r0e2:u", "BTB_MISSES")],
    // What pipelines tell.
    &[("r0c2:u", "UOPS_RETIRED"), ("r0a2:u", "RESOURCE_STALLS")],
];

/// Where the first program lies, and how far the next is from it. No other code of the guest is there, so
/// that the address tells the program, even if its page tables were another process's before.
const BASE: u64 = 0x30_0000_0000;
const DISTANCE: u64 = 0x1_0000_0000;
/// How often a program calls its function.
const CALLS: u32 = 1000;
/// Rounds of the loop in the function.
const ROUNDS: u32 = 5000;
/// Instructions of a program, each round of a REP one with the others: 2 before the loop, 8 in it, 11 in
/// the function beside its loop of two, 3 at the end.
const INSTRUCTIONS: u64 = 2 + CALLS as u64 * (8 + 11 + 2 * ROUNDS as u64) + 3;

fn base(program: usize) -> u64 {
    BASE + program as u64 * DISTANCE
}

/// Copies its code ever further down the stack, which faults before and within copies, and calls a function
/// that does something for every event.
fn program(base: u64) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut again, mut function, mut round) =
        (a.create_label(), a.create_label(), a.create_label());
    a.mov(ebp, CALLS)?;
    a.mov(r12, rsp)?;
    a.set_label(&mut again)?;
    a.sub(r12, 3001)?;
    a.mov(rdi, r12)?;
    a.mov(rsi, base + HEADERS)?;
    a.mov(ecx, 3000)?;
    a.rep().movsb()?;
    a.call(function)?;
    a.dec(ebp)?;
    a.jnz(again)?;
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()?;
    a.set_label(&mut function)?;
    a.mov(rax, qword_ptr(rsp - 63))?;
    a.movd(mm0, eax)?;
    a.paddd(mm0, mm0)?;
    a.emms()?;
    a.fld1()?;
    a.fstp(st0)?;
    a.xor(eax, eax)?;
    a.mov(es, eax)?;
    a.cpuid()?;
    a.mov(ecx, ROUNDS)?;
    a.set_label(&mut round)?;
    a.dec(ecx)?;
    a.jnz(round)?;
    a.ret()?;
    a.assemble(base + HEADERS)
}

/// Runs all programs at once under `perf stat`, and then some more of the kernel and of perf.
fn init(programs: &[Events]) -> String {
    let mut init = String::new();
    for (n, events) in programs.iter().enumerate() {
        let names: Vec<_> = events.iter().map(|(event, _)| *event).collect();
        init += &format!("perf stat -x , -o {n} -e {} program{n} &\n", names.join(","));
    }
    init + "wait\ncat ?\nperf bench sched pipe -l 200\npoweroff -f"
}

/// Where the truth of the run of this name is.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.truth"))
}

/// Runs the programs on the processor that `options` name; with the truth, or without.
fn boot(
    name: &str,
    cpus: u8,
    options: &[&str],
    programs: &[Events],
    truth: bool,
) -> Result<Run, CannotRun> {
    let packages = packages()?;
    let mut root = packages.root(&init(programs));
    packages.add_perf(&mut root);
    for n in 0..programs.len() {
        let code = program(base(n)).expect("the program assembles");
        root.file(&format!("/bin/program{n}"), 0o755, elf_at(base(n), &code));
    }
    // The watchdog would have one of the counters.
    let append = format!("{BRIEF} nmi_watchdog=0");
    let mut all = vec!["--append", &append];
    all.extend(options);
    let path = path(name).display().to_string();
    if truth {
        all.extend(["--truth", &path]);
    }
    Ok(run_with(packages, name, cpus, &root, "", &all))
}

/// The value of an event in perf's comma-separated output.
pub(crate) fn counted(log: &str, event: &str) -> u64 {
    let row = log.lines().find(|line| line.split(',').nth(2) == Some(event));
    let row = row.unwrap_or_else(|| panic!("no {event} in {log}"));
    let number = row.split(',').next().and_then(|number| number.parse().ok());
    // Of the time that perf wanted to count, it did all.
    assert_eq!(row.split(',').nth(4), Some("100.00"), "{row}");
    number.unwrap_or_else(|| panic!("no number in {row}"))
}

/// What the truth has of a program at CPL 3, by column.
fn of_program(truth: &Truth, program: usize) -> BTreeMap<&str, u64> {
    of_code(truth, base(program)..base(program) + 0x1000)
}

/// What the truth has of the instructions at some addresses at CPL 3, by column.
pub(crate) fn of_code(truth: &Truth, code: Range<u64>) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for row in truth.rows.iter().filter(|row| row.cpl == 3) {
        if code.contains(&truth.instructions[row.instruction as usize].address) {
            for (event, count) in truth.events.iter().zip(&row.counts) {
                *sums.entry(event.name.as_str()).or_default() += count;
            }
        }
    }
    sums
}

/// perf counts a program from its first instruction to its last, at CPL 3: what the truth has of it, in each
/// column.
fn assert_perf_agrees(log: &str, truth: &Truth, programs: &[Events]) {
    for (n, events) in programs.iter().enumerate() {
        let sums = of_program(truth, n);
        assert_eq!(sums["instructions"], INSTRUCTIONS, "program {n}");
        for (event, column) in *events {
            let sum = sums.get(column).unwrap_or_else(|| panic!("no {column} in {sums:?}"));
            assert_eq!(counted(log, event), *sum, "{event}, {column}");
        }
    }
}

/// The log of a K8 with one processor, whose truth is at `path("truth-k8")`. The first test that wants it
/// runs it.
fn one_k8() -> Result<String, CannotRun> {
    static LOG: Mutex<Option<String>> = Mutex::new(None);
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if log.is_none() {
        *log = Some(boot("truth-k8", 1, &["--cpu", "k8"], K8, true)?.log);
    }
    Ok(log.clone().expect("it ran"))
}

fn perf_stat_counts_what_the_truth_has_on_a_k8() -> Verdict {
    let log = one_k8()?;
    let truth = Truth::read(&path("truth-k8")).expect("a truth");
    assert_perf_agrees(&log, &truth, K8);
    // Returns, misaligned loads, and instructions of the x87 and of MMX, are as many as the program has; what
    // came of interrupts and of page faults is there, too.
    for (event, count) in [("r0c8:u", 1), ("r047:u", 1), ("r0fcb:u", 5), ("r027:u", 1)] {
        assert_eq!(counted(&log, event), count * u64::from(CALLS), "{event}");
    }
    let taken = counted(&log, "instructions:u") - INSTRUCTIONS;
    // Of 3001 bytes a call, each page of the stack faults once.
    let faults = taken - counted(&log, "r0cf:u");
    assert!((730..740).contains(&faults) && faults < taken, "{faults} of {taken}");
    Ok(())
}

/// What the guest does and counts is the same as without `--truth`.
fn perf_stat_counts_what_the_truth_has_on_four_k8s() -> Verdict {
    let options = ["--cpu", "k8"];
    let mut first = boot("truth-k8-4", 4, &options, FOUR_K8S, true)?;
    let truth = Truth::read(&path("truth-k8-4")).expect("a truth");
    fs::remove_file(path("truth-k8-4")).expect("the file is ours");
    assert_perf_agrees(&first.log, &truth, FOUR_K8S);
    let used = truth.rows.iter().filter(|row| {
        let address = truth.instructions[row.instruction as usize].address;
        row.cpl == 3 && (base(0)..base(FOUR_K8S.len())).contains(&address)
    });
    let used: std::collections::BTreeSet<_> = used.map(|row| row.vcpu).collect();
    assert!(used.len() > 1, "only processors {used:?} executed the programs");

    let mut second = boot("truth-k8-4", 4, &options, FOUR_K8S, false)?;
    // The recorder has its own translations, and is an option.
    for run in [&mut first, &mut second] {
        for field in ["options", "translated"] {
            let begins = format!("\"{field}\": {{");
            let (before, object) = run.stats.split_once(&begins).expect("a field");
            let (_, behind) = object.split_once('}').expect("its end");
            run.stats = format!("{before}{behind}");
        }
    }
    assert_equal(&first, &second);
    Ok(())
}

/// perf is among the packages for amd64 alone; that kernel, with what it insists on lent to the processor, takes
/// the same driver for the counters as the one for 32-bit processors.
fn perf_stat_counts_what_the_truth_has_on_a_pentium_iii() -> Verdict {
    let log = boot("truth-p6", 1, &["--cpu", "p6", "--isa", "distro"], P6, true)?.log;
    assert!(log.contains("p6 PMU driver"), "{log}");
    let truth = Truth::read(&path("truth-p6")).expect("a truth");
    fs::remove_file(path("truth-p6")).expect("the file is ours");
    assert_perf_agrees(&log, &truth, P6);
    // INST_RETIRED does not count what was taken.
    assert_eq!(counted(&log, "instructions:u"), INSTRUCTIONS);
    Ok(())
}

/// What `vpmu truth` says of the truth of the K8, and its status.
fn report(options: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vpmu"));
    let run = command.arg("truth").arg(path("truth-k8")).args(options).output().expect("vpmu runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&run.stdout), text(&run.stderr), run.status.code())
}

/// A line a function: first the counts, then `file:function [object]`, where file and object are the
/// module (Valgrind's manual, "callgrind_annotate").
fn callgrind_annotate_prints_the_functions_of_the_report() -> Verdict {
    one_k8()?;
    let profile = path("truth-k8").with_extension("callgrind");
    let written = report(&["--callgrind", &profile.display().to_string()]);
    assert_eq!(written, (String::new(), String::new(), Some(0)));
    let annotate = Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no", "--show-percs=no"])
        .arg(&profile)
        .output();
    let needs = "callgrind_annotate of Debian's valgrind";
    let annotate = annotate.map_err(|e| CannotRun::without(needs, &e.to_string()))?;
    fs::remove_file(&profile).expect("the file is ours");
    assert!(annotate.status.success() && annotate.stderr.is_empty());
    let printed = String::from_utf8_lossy(&annotate.stdout);

    let (json, _, _) = report(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let events = json["events"].as_array().expect("events").len();
    let rows = printed.lines().filter_map(|line| {
        let mut rest = line.trim_start();
        let mut counts = Vec::new();
        for _ in 0..events {
            let (count, behind) = rest.split_once(' ')?;
            counts.push(count.replace(',', "").parse::<u64>().ok()?);
            rest = behind.trim_start();
        }
        Some((rest.to_owned(), counts))
    });
    let rows: Vec<_> = rows.collect();
    let lines = json["lines"].as_array().expect("lines").iter().map(|line| {
        let text = |key: &str| line[key].as_str().expect("a text").to_owned();
        let (module, function) = (text("module"), text("function"));
        let counts = line["counts"].as_array().expect("counts").iter();
        let counts: Vec<_> = counts.map(|count| count.as_u64().expect("a count")).collect();
        (format!("{module}:{function} [{module}]"), counts)
    });
    let total = json["total"].as_array().expect("a total").iter();
    let total: Vec<_> = total.map(|count| count.as_u64().expect("a count")).collect();
    let lines: Vec<_> = lines.collect();
    assert_eq!(rows[0], ("PROGRAM TOTALS".to_owned(), total));
    // Those with most in the same order, and all with the same counts.
    assert_eq!(rows[1..11], lines[..10]);
    assert!(lines.len() > 5000, "{} functions", lines.len());
    for function in ["kernel:pipe_write [kernel]", "kernel:entry_SYSCALL_64 [kernel]"] {
        assert!(lines.iter().any(|(name, _)| name == function), "{function}");
    }
    let [rows, lines] = [&rows[1..], &lines].map(|all| all.iter().cloned().collect());
    let [rows, lines]: [BTreeMap<_, _>; 2] = [rows, lines];
    for (name, counts) in &lines {
        assert_eq!(rows.get(name), Some(counts), "{name}");
    }
    assert_eq!(rows.len(), lines.len());
    Ok(())
}

/// The build-id of a file, as GNU binutils read it.
fn build_id(file: &Path) -> String {
    let notes = Command::new("readelf").arg("-n").arg(file).output().expect("readelf, as gcc is");
    let notes = String::from_utf8_lossy(&notes.stdout);
    let (_, id) = notes.split_once("Build ID: ").expect("a build-id");
    id.split_whitespace().next().expect("a build-id").to_owned()
}

/// Where the C library was executed, another file was not: the message has both build-ids.
fn symbols_of_another_library_are_refused() -> Verdict {
    one_k8()?;
    let packages = packages()?;
    let truth = Truth::read(&path("truth-k8")).expect("a truth");
    let libc = packages.path("lib/x86_64-linux-gnu/libc.so.6");
    let libc_id = build_id(&libc);
    let module = truth.modules.iter().find(|module| module.build_id.as_ref() == Some(&libc_id));
    let module = module.expect("the C library");
    let at = module.symbols[0].address & !0xfff;
    let strace = packages.path("usr/bin/strace");
    let file = format!("{}@{at:#x}", strace.display());
    let (text, error, status) = report(&["--symbols", &file]);
    assert_eq!((&*text, status), ("", Some(4)));
    let wrong = format!(
        "vpmu: --symbols {file}: build-id {}: it differs from the code executed at ",
        build_id(&strace)
    );
    assert!(error.starts_with(&wrong), "{error}");
    assert!(error.ends_with(&format!(", of libc.so.6, build-id {libc_id}\n")), "{error}");
    assert_eq!(error.lines().count(), 1);
    Ok(())
}
