//! Debian's LIKWID on four cores of Knights Corner, which it calls `phi`.
//!
//! LIKWID programs the registers itself, by the kernel's `msr` module and past its driver, so that it has
//! both counters, and counts for all threads of a core, which perf cannot ask for. Four programs keep a
//! thread of the first core each; LIKWID is kept on another core, so that it counts nothing of its own.
//! `docs/linux.md` says why it has to be told how many counters there are, and what of it does not work on
//! this part.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use pmu_model::Personality;

use crate::boot::complaint;
use crate::guest::{BRIEF, Run, packages, run_with};
use crate::harness::{CannotRun, Verdict, tests};
use crate::program::{HEADERS, elf_at};

tests!(counts_each_group_on_the_threads_of_a_core);

const THREADS: usize = 16;
/// The watchdog would count on the first counter; each thread would measure the length of its delay loop.
const APPEND: &str = "nmi_watchdog=0 lpj=2200000";

/// LIKWID's groups for this part but [`ABORTS`].
const GROUPS: &[&str] = &[
    "CACHE",
    "COMPUTE_TO_DATA_RATIO",
    "CPI",
    "MEM",
    "MEM1",
    "MEM2",
    "MEM3",
    "MEM4",
    "MEM5",
    "MEM6",
    "MEM_READ",
    "MEM_WRITE",
    "PAIRING",
    "READ_MISS_RATIO",
    "TLB",
    "TLB_L1",
    "TLB_L2",
    "VECTOR",
    "VPU_FILL_RATIO_DBL",
    "VPU_PAIRING",
    "VPU_READ_MISS_RATIO",
    "VPU_WRITE_MISS_RATIO",
    "WRITE_MISS_RATIO",
];
/// A group whose formula names an event where LIKWID wants a counter: LIKWID aborts and leaves the
/// counters running.
const ABORTS: &str = "VECTOR2";
/// Two more sets, the first with what a core's threads execute together.
const SETS: &[&str] =
    &["INSTRUCTIONS_EXECUTED:PMC0:ANYTHREAD,BRANCHES:PMC1", "INSTRUCTIONS_EXECUTED:PMC1"];

/// LIKWID's own list of events. `likwid-perfctr -e` would have it from the daemon.
const LIST: &str = "\
package.path = '/usr/share/lua/?.lua;' .. package.path
local likwid = require('likwid')
likwid.getConfiguration()
likwid.setAccessClientMode(0)
for _, event in pairs(likwid.getEventsAndCounters().Events) do
    print(string.format('event,%s,%d,%d', event.Name, event.ID, event.UMask))
end
";

/// Where the first program lies, and how far the next is from it.
const BASE: u64 = 0x60_0000_0000;
const DISTANCE: u64 = 0x1_0000_0000;
/// Rounds of the programs on threads 0 to 3.
const ROUNDS: [u32; 4] = [10_000, 20_000, 30_000, 40_000];
/// Bytes that they go through again and again, a line a round: twice the first-level cache.
const WINDOW: u32 = 64 << 10;
const LINE: u32 = 64;

/// Moves itself to a thread, and then goes round; only what comes behind the system call is executed there.
fn program(thread: usize) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut again = a.create_label();
    a.push(1 << thread)?;
    a.xor(edi, edi)?;
    a.mov(esi, 8)?;
    a.mov(rdx, rsp)?;
    a.mov(eax, 203)?; // sched_setaffinity
    a.syscall()?;
    // Four before the loop.
    a.mov(ecx, ROUNDS[thread])?;
    a.lea(rsi, ptr(rsp - (WINDOW + LINE)))?;
    a.and(rsi, -(LINE as i32))?;
    a.xor(edx, edx)?;
    // Ten a round.
    a.set_label(&mut again)?;
    a.lea(rdi, ptr(rsi + rdx))?;
    a.mov(rax, qword_ptr(rdi))?;
    a.mov(qword_ptr(rdi), rax)?;
    a.db(&[0x62, 0xF1, 0x78, 0x08, 0x28, 0x0F])?; // vmovaps zmm1, [rdi]
    a.db(&[0x62, 0xF1, 0x70, 0x08, 0x58, 0x0F])?; // vaddps zmm1, zmm1, [rdi]
    a.db(&[0x62, 0xF1, 0x78, 0x08, 0x29, 0x0F])?; // vmovaps [rdi], zmm1
    a.add(edx, LINE as i32)?;
    a.and(edx, WINDOW as i32 - 1)?;
    a.dec(ecx)?;
    a.jnz(again)?;
    // Three behind it.
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()?;
    a.assemble(base(thread) + HEADERS)
}

fn base(thread: usize) -> u64 {
    BASE + thread as u64 * DISTANCE
}

/// What a program has of an event, by a count of its instructions; none for what only models tell.
fn by_hand(event: &str, rounds: u64) -> Option<u64> {
    Some(match event {
        "INSTRUCTIONS_EXECUTED" => 4 + 10 * rounds + 3,
        // The system call is one, a far transfer.
        "BRANCHES" => rounds + 1,
        "DATA_READ" => 3 * rounds,
        "DATA_WRITE" => 2 * rounds,
        "DATA_READ_OR_WRITE" => 5 * rounds,
        "VPU_INSTRUCTIONS_EXECUTED" => 3 * rounds,
        "VPU_ELEMENTS_ACTIVE" => 3 * 16 * rounds,
        "VPU_DATA_READ" => 2 * rounds,
        "VPU_DATA_WRITE" => rounds,
        _ => return None,
    })
}

/// The least of an event, whatever the caches replace: of all lines of the window, which are read in
/// turns, the first level has 512 at most; and each page is touched for the first time once.
fn at_least(event: &str, rounds: u64) -> u64 {
    let lines = u64::from(WINDOW / LINE);
    match event {
        "DATA_READ_MISS" | "DATA_READ_MISS_OR_WRITE_MISS" => (rounds / lines - 1) * (lines - 512),
        "DATA_PAGE_WALK" | "LONG_DATA_PAGE_WALK" => u64::from(WINDOW / 4096),
        _ => 0,
    }
}

fn init() -> String {
    let measured: Vec<_> = GROUPS.iter().chain(SETS).copied().collect();
    format!(
        "insmod /msr.ko allow_writes=on\n\
         likwid-topology -c\n\
         likwid-perfctr -a | sed -n 's/^ *\\([A-Z0-9_]*\\)\\t.*/group,\\1/p'\n\
         likwid-genTopoCfg -o topology\n\
         sed 's/perf_num_ctr = 0/perf_num_ctr = 2/' topology >/etc/likwid_topo.cfg\n\
         lua5.3 /list.lua\n\
         export LIKWID_IGNORE_CPUSET=1\n\
         for n in {}; do\n\
         echo measured,$n\n\
         taskset 10 likwid-perfctr -M 0 -O -c 0-3 -g $n sh /programs\n\
         done\n\
         poweroff -f",
        measured.join(" ")
    )
}

fn boot() -> Result<Run, CannotRun> {
    let packages = packages()?;
    let mut root = packages.root(&init());
    root.directory("/etc");
    root.file("/msr.ko", 0o644, packages.module("arch/x86/kernel/msr.ko"));
    root.file("/list.lua", 0o644, LIST.into());
    root.file("/programs", 0o644, "thread0 & thread1 & thread2 & thread3 & wait\n".into());
    for thread in 0..ROUNDS.len() {
        let code = program(thread).expect("it assembles");
        root.file(&format!("/bin/thread{thread}"), 0o755, elf_at(base(thread), &code));
    }
    packages.add_linked(&mut root, "usr/bin/lua5.3");
    // Lua loads it by this name.
    packages.add_linked(&mut root, "usr/lib/x86_64-linux-gnu/liblikwid.so");
    for tool in ["likwid-topology", "likwid-perfctr", "likwid-genTopoCfg"] {
        packages.add_file(&mut root, &format!("usr/bin/{tool}"));
    }
    packages.add_file(&mut root, "usr/share/lua/likwid.lua");
    // It has to be there even where it is not asked.
    packages.add_file(&mut root, "usr/sbin/likwid-accessD");
    let groups = "usr/share/likwid/perfgroups/phi";
    root.tree(groups, &packages.path(groups)).expect("LIKWID's groups");
    let append = format!("{BRIEF} {APPEND}");
    let options = ["--cpu", "knc", "--isa", "distro", "--append", &append];
    Ok(run_with(packages, "likwid", THREADS as u8, &root, "", &options))
}

fn counts_each_group_on_the_threads_of_a_core() -> Verdict {
    let Run { log, stats } = boot()?;
    let lines: Vec<_> = log.lines().collect();
    let complaints: Vec<_> = lines.iter().filter(|line| complaint(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_topology(&lines);
    assert_events(&lines);
    assert_documented(&lines);

    let mut groups: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("group,")).collect();
    groups.retain(|group| *group != ABORTS);
    groups.sort_unstable();
    assert_eq!(groups, GROUPS);
    let measured: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("measured,")).collect();
    assert!(measured.iter().eq(GROUPS.iter().chain(SETS)), "{measured:?}");

    // What LIKWID prints is what the counters counted in all.
    let printed = printed(&lines);
    assert_eq!(printed, counted(&stats), "{log}");

    let mut known = 0;
    for ((thread, counter, event), &count) in &printed {
        let rounds = u64::from(ROUNDS[*thread]);
        let times = printed_times(&lines, event, *counter);
        let (name, of_all) = match event.strip_suffix(":u:t") {
            Some(name) => (name, true),
            None => (event.strip_suffix(":u").expect(event), false),
        };
        let expected = if of_all {
            ROUNDS.iter().map(|&rounds| by_hand(name, rounds.into())).sum()
        } else {
            by_hand(name, rounds)
        };
        if let Some(expected) = expected {
            assert_eq!(count, times * expected, "{event} on thread {thread}");
            known += 1;
        }
        assert!(count >= times * at_least(name, rounds), "{count} {event} on thread {thread}");
        // The second-level cache's events are the first counter's alone, whatever LIKWID's groups say.
        let first_only = ["HWP_L2MISS", "SNP_HITM_L2"].contains(&name) && *counter == 1;
        assert!(!first_only || count == 0, "{count} {event} on thread {thread}");
    }
    // On each thread nine events, two of them on both counters, and one for all threads as well.
    assert_eq!(known, 4 * (9 + 2 + 1), "{printed:#?}");
    // Of four bytes each, sixteen elements an instruction.
    assert!(lines.contains(&"Vectorization intensity,16,16,16,16,"), "{log}");
    Ok(())
}

/// Four cores of four threads each, and the part's caches: 32 KiB and 512 KiB, eight ways, lines of 64
/// bytes.
fn assert_topology(lines: &[&str]) {
    let words: Vec<String> =
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let values = |name: &str| -> Vec<&str> {
        words.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
    };
    assert_eq!(values("CPU type")[0], "Intel Xeon Phi (Knights Corner) Coprocessor");
    assert_eq!(values("CPU stepping"), ["3"]);
    assert_eq!(values("Sockets"), ["1"]);
    assert_eq!(values("Cores per socket"), ["4"]);
    assert_eq!(values("Threads per core"), ["4"]);
    for n in 0..THREADS {
        let row = format!("{n} {} {} 0 0 *", n % 4, n / 4);
        assert!(words.contains(&row), "{row}");
    }
    assert_eq!(values("Level"), ["1", "2"]);
    assert_eq!(values("Size"), ["32 kB", "512 kB"]);
    assert_eq!(values("Associativity"), ["8", "8"]);
    assert_eq!(values("Number of sets"), ["64", "1024"]);
    assert_eq!(values("Cache line size"), ["64", "64"]);
    assert_eq!(values("Shared by threads"), ["4", "4"]);
    let cores = "( 0 1 2 3 ) ( 4 5 6 7 ) ( 8 9 10 11 ) ( 12 13 14 15 )";
    assert_eq!(values("Cache groups"), [cores, cores]);
}

/// What `docs/linux.md` shows of LIKWID is what it prints, but for times.
fn assert_documented(lines: &[&str]) {
    let document = include_str!("../../../docs/linux.md");
    let (_, section) = document.split_once("\n## LIKWID").expect("the section");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed: BTreeSet<String> =
        lines.iter().map(|line| words(line.trim_end_matches(','))).collect();
    let topology = ["Sockets:", "Cores per", "Threads per", "Level:", "Size:", "Cache groups:"];
    let mut shown = 0;
    for line in section.lines() {
        let cells: Vec<_> =
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let is_row =
            line.starts_with('|') && cells.last().is_some_and(|n| n.parse::<u64>().is_ok());
        let expected = if is_row {
            cells.join(",")
        } else if topology.iter().any(|name| line.starts_with(name)) {
            words(line)
        } else {
            continue;
        };
        assert!(printed.contains(&expected), "{expected}");
        shown += 1;
    }
    // Four events and a metric; of the topology three lines and two levels of three.
    assert_eq!(shown, 4 + 1 + 3 + 2 * 3);
}

/// LIKWID's table of events, typed in by others from the same document, has the same numbers by the same
/// names.
fn assert_events(lines: &[&str]) {
    let part = Personality::by_name("knc").expect("a personality");
    let mut events = 0;
    for line in lines.iter().filter_map(|line| line.strip_prefix("event,")) {
        let fields: Vec<_> = line.split(',').collect();
        let [name, code, umask] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<u8>().expect("a number of eight bits");
        let event = part.event(number(code), number(umask), 0).expect("an event");
        match name {
            // Any event, by number.
            "GENERIC_EVENT" => continue,
            "MEMORY_ACCESS_BOTH_PIPES" => assert_eq!(event.name, "MEMORY_ACCESSES_IN_BOTH_PIPES"),
            name => assert_eq!(event.name, name),
        }
        assert!(event.umasks.iter().any(|mask| mask.mask == number(umask)), "{line}");
        events += 1;
    }
    assert_eq!(events, 61);
}

/// A thread, one of its counters, and what that counted in the words of the statistics.
type Counts = BTreeMap<(usize, usize, String), u64>;

/// The rows of LIKWID's tables: event, counter, and a count for each thread.
fn rows<'a>(lines: &'a [&str]) -> impl Iterator<Item = (usize, String, [u64; 4])> + 'a {
    lines.iter().filter_map(|line| {
        let fields: Vec<_> = line.split(',').collect();
        let (event, register) = (*fields.first()?, *fields.get(1)?);
        let (counter, all) = match register {
            "PMC0" => (0, ""),
            "PMC1" => (1, ""),
            "PMC0:ANYTHREAD" => (0, ":t"),
            _ => return None,
        };
        if event.ends_with(" STAT") {
            return None;
        }
        let counts: Vec<u64> = fields[2..].iter().map(|n| n.parse().expect(line)).collect();
        Some((counter, format!("{event}:u{all}"), counts.try_into().expect(line)))
    })
}

/// What LIKWID printed, in sums over the groups that have the same event.
fn printed(lines: &[&str]) -> Counts {
    let mut sums = Counts::new();
    for (counter, event, counts) in rows(lines) {
        for (thread, count) in counts.into_iter().enumerate() {
            *sums.entry((thread, counter, event.clone())).or_default() += count;
        }
    }
    sums
}

/// How many groups have an event on a counter.
fn printed_times(lines: &[&str], event: &str, counter: usize) -> u64 {
    rows(lines).filter(|(other, name, _)| (*other, &**name) == (counter, event)).count() as u64
}

/// The same by the statistics of the run, of all processors.
fn counted(stats: &str) -> Counts {
    let stats: serde_json::Value = serde_json::from_str(stats).expect("JSON");
    let array = |value: &serde_json::Value| value.as_array().expect("an array").clone();
    let mut counts = Counts::new();
    for (thread, vcpu) in array(&stats["vcpus"]).iter().enumerate() {
        for (counter, statistics) in array(&vcpu["counters"]).iter().enumerate() {
            for selection in array(&statistics["selections"]) {
                let words = selection["words"].as_str().expect("words").to_owned();
                let count = selection["count"].as_u64().expect("a count");
                counts.insert((thread, counter, words), count);
            }
        }
    }
    counts
}
