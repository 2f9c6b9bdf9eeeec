//! All hardware and cache events that perf has names for on a processor, beside the truth of the same run.
//!
//! `perf list` offers what Linux's driver has a number for (6.1, `arch/x86/events/amd/core.c`, `intel/p6.c` and `intel/knc.c`), and so
//! the tables below are whole. The columns of the truth are named by the manuals: AMD's BIOS and Kernel
//! Developer's Guide (26094), section 10.2, Athlon's (22007), appendix D; Intel's Software Developer's Manual,
//! volume 3 (24319202), appendix A.1.

use std::collections::BTreeSet;
use std::time::Duration;

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use vpmu::boot::initramfs::Archive;
use vpmu::boot::memory::RamLayout;
use vpmu::config::{Config, Limits};
use vpmu::console::Captured;
use vpmu::machine::{End, Machine, Pause};
use vpmu::platform::Isa;
use vpmu::truth::Truth;
use vpmu::truth::record::{DEFAULT_EVENTS, Recorder};

use crate::guest::{BRIEF, Packages, packages};
use crate::harness::{Verdict, tests};
use crate::program::{HEADERS, elf_at};
use crate::truth::{counted, of_code};

tests!(
    all_that_perf_lists_on_a_k8,
    all_that_perf_lists_on_a_k7,
    all_that_perf_lists_on_a_pentium_iii,
    all_that_perf_lists_on_a_pentium_m,
    all_that_perf_lists_on_knights_corner
);

/// perf's name of an event, and the column of the truth; none if nothing is ever counted.
type Event = (&'static str, Option<&'static str>);

const K8: &[Event] = &[
    ("cpu-cycles", Some("cycles")),
    ("instructions", Some("RETIRED_INSTRUCTIONS")),
    ("branch-instructions", Some("RETIRED_BRANCH_INSTRUCTIONS")),
    ("branch-misses", Some("RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS")),
    ("branch-loads", Some("RETIRED_BRANCH_INSTRUCTIONS")),
    ("branch-load-misses", Some("RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS")),
    ("L1-dcache-loads", Some("DATA_CACHE_ACCESSES")),
    ("L1-dcache-load-misses", Some("DATA_CACHE_MISSES")),
    ("dTLB-loads", Some("DATA_CACHE_ACCESSES")),
    ("dTLB-load-misses", Some("L1_DTLB_AND_L2_DTLB_MISS")),
    ("L1-icache-loads", Some("INSTRUCTION_CACHE_FETCHES")),
    ("L1-icache-load-misses", Some("INSTRUCTION_CACHE_MISSES")),
    ("iTLB-loads", Some("INSTRUCTION_CACHE_FETCHES")),
    ("iTLB-load-misses", Some("L1_ITLB_MISS_L2_ITLB_MISS")),
    ("L1-icache-prefetches", Some("PREFETCH_INSTRUCTIONS_DISPATCHED:0x01")),
    ("L1-dcache-prefetches", Some("DATA_PREFETCHER:0x02")),
    ("L1-dcache-prefetch-misses", Some("DATA_PREFETCHER:0x01")),
    ("cache-references", Some("REQUESTS_TO_L2_CACHE:0x07")),
    ("cache-misses", Some("L2_CACHE_MISSES:0x07")),
    ("LLC-loads", Some("REQUESTS_TO_L2_CACHE:0x03")),
    ("LLC-load-misses", Some("L2_CACHE_MISSES:0x03")),
    ("LLC-stores", Some("L2_FILL_WRITEBACK:0x01")),
    ("node-loads", Some("CPU_IO_REQUESTS_TO_MEMORY_IO:0xb8")),
    // From memory of other nodes, of which there are none.
    ("node-load-misses", None),
    ("stalled-cycles-frontend", Some("DECODER_EMPTY")),
    ("stalled-cycles-backend", Some("DISPATCH_STALLS")),
];

/// Where K7 differs. The driver has one table for all of AMD's processors of that time.
const K7: &[Event] = &[
    ("iTLB-load-misses", Some("L1_ITLB_MISS_AND_L2_ITLB_MISS")),
    ("L1-icache-prefetches", None),
    ("L1-dcache-prefetches", None),
    ("L1-dcache-prefetch-misses", None),
    ("cache-references", None),
    ("cache-misses", None),
    ("LLC-loads", None),
    ("LLC-load-misses", None),
    ("LLC-stores", None),
    ("node-loads", None),
    ("stalled-cycles-frontend", Some("INSTRUCTION_DECODER_EMPTY")),
];

/// The driver has the number of L2_LD for misses of stores.
const P6: &[Event] = &[
    ("cpu-cycles", Some("cycles")),
    ("instructions", Some("instructions")),
    ("branch-instructions", Some("branches")),
    ("branch-misses", Some("BR_MISS_PRED_RETIRED")),
    ("branch-loads", Some("branches")),
    ("branch-load-misses", Some("BR_MISS_PRED_RETIRED")),
    ("L1-dcache-loads", Some("DATA_MEM_REFS")),
    ("L1-dcache-load-misses", Some("DCU_LINES_IN")),
    ("L1-dcache-store-misses", Some("L2_LD:0x0f")),
    ("dTLB-loads", Some("DATA_MEM_REFS")),
    ("L1-icache-loads", Some("IFU_IFETCH")),
    ("L1-icache-load-misses", Some("L2_IFETCH:0x0f")),
    ("iTLB-loads", Some("IFU_IFETCH")),
    ("iTLB-load-misses", Some("ITLB_MISS")),
    ("cache-references", Some("L2_RQSTS:0x0f")),
    ("cache-misses", Some("L2_RQSTS:0x01")),
    ("LLC-store-misses", Some("L2_M_LINES_INM")),
    ("bus-cycles", Some("BUS_DRDY_CLOCKS:0x00")),
    ("stalled-cycles-frontend", Some("RESOURCE_STALLS")),
];

/// Nothing is prefetched into the second level. Its write hits go by the name of stores.
const KNC: &[Event] = &[
    ("cpu-cycles", Some("cycles")),
    ("instructions", Some("instructions")),
    ("cache-references", Some("DATA_READ_OR_WRITE:0x00")),
    ("cache-misses", Some("DATA_READ_MISS_OR_WRITE_MISS:0x00")),
    ("branch-instructions", Some("branches")),
    ("branch-misses", Some("BRANCHES_MISPREDICTED:0x00")),
    ("branch-loads", Some("branches")),
    ("branch-load-misses", Some("BRANCHES_MISPREDICTED:0x00")),
    ("L1-dcache-loads", Some("loads")),
    ("L1-dcache-load-misses", Some("DATA_READ_MISS:0x00")),
    ("L1-dcache-stores", Some("stores")),
    ("L1-dcache-store-misses", Some("DATA_WRITE_MISS:0x00")),
    ("L1-dcache-prefetches", Some("L1_DATA_PF1:0x00")),
    ("L1-dcache-prefetch-misses", Some("L1_DATA_PF1_MISS:0x00")),
    ("L1-icache-loads", Some("CODE_READ:0x00")),
    ("L1-icache-load-misses", Some("CODE_CACHE_MISS:0x00")),
    ("LLC-load-misses", Some("L2_READ_MISS:0x10")),
    ("LLC-stores", Some("L2_WRITE_HIT:0x10")),
    ("LLC-prefetches", None),
    ("LLC-prefetch-misses", None),
    ("dTLB-loads", Some("loads")),
    ("dTLB-load-misses", Some("DATA_PAGE_WALK:0x00")),
    ("dTLB-stores", Some("stores")),
    ("dTLB-store-misses", Some("DATA_PAGE_WALK:0x00")),
    ("iTLB-loads", Some("CODE_READ:0x00")),
    ("iTLB-load-misses", Some("CODE_PAGE_WALK:0x00")),
];

/// What `perf stat -d -d -d` counts, by what it prints.
const DETAILED: &[&str] = &[
    "cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "instructions",
    "branches",
    "branch-misses",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "LLC-loads",
    "LLC-load-misses",
    "L1-icache-loads",
    "L1-icache-load-misses",
    "dTLB-loads",
    "dTLB-load-misses",
    "iTLB-loads",
    "iTLB-load-misses",
    "L1-dcache-prefetches",
    "L1-dcache-prefetch-misses",
];

/// Events that the programs need not have: prefetches of the hardware's, and lines for stores that are not in an
/// L2 of 2 MiB.
const SELDOM: &[(&str, &str)] = &[
    ("k8", "L1-dcache-prefetches"),
    ("k8", "L1-dcache-prefetch-misses"),
    ("pm", "LLC-store-misses"),
];

/// Where the first program lies, and how far the next is from it: no other code of the guest is there.
const BASE: u64 = 0x50_0000_0000;
const DISTANCE: u64 = 0x1_0000_0000;
/// Where the program lies that writes the marker.
const MARKER: u64 = BASE - DISTANCE;
/// Bytes of a row of the matrix, and of all of it.
const ROW: u32 = 4096 + 64;
const MATRIX: u32 = 160 * ROW;
/// Pages of code: more than entries of any first-level TLB, and all of their lines in few sets of the cache.
const PAGES: usize = 40;
const PAGE: u64 = 0x1000;
/// Rounds of the program that is counted in turns.
const ROUNDS: u32 = 12;

/// Something for every event, `rounds` times: writes, reads and prefetches by columns, branches by chance,
/// calls through pages of code.
fn program(base: u64, rounds: u32) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let [mut round, mut column, mut row, mut toss, mut skip] = [(); 5].map(|()| a.create_label());
    a.sub(rsp, MATRIX as i32 + 4096)?;
    a.mov(r8, rsp)?;
    a.mov(eax, 0x9e37_79b9u32)?;
    a.mov(r9d, rounds)?;
    a.set_label(&mut round)?;
    a.mov(rdi, r8)?;
    a.mov(ecx, MATRIX / 4)?;
    a.rep().stosd()?;
    a.mov(r10d, 200)?;
    a.mov(r11, r8)?;
    a.set_label(&mut column)?;
    a.mov(rsi, r11)?;
    a.mov(ecx, MATRIX / ROW - 1)?;
    a.set_label(&mut row)?;
    a.prefetcht0(byte_ptr(rsi + ROW))?;
    a.add(ebx, dword_ptr(rsi))?;
    a.mov(dword_ptr(rsi), ebx)?;
    a.add(rsi, ROW as i32)?;
    a.dec(ecx)?;
    a.jnz(row)?;
    a.add(r11, 20)?;
    a.dec(r10d)?;
    a.jnz(column)?;
    a.mov(ecx, 8192)?;
    a.set_label(&mut toss)?;
    // Marsaglia's xorshift of 32 bits.
    for (left, by) in [(true, 13), (false, 17), (true, 5)] {
        a.mov(edx, eax)?;
        if left { a.shl(edx, by) } else { a.shr(edx, by) }?;
        a.xor(eax, edx)?;
    }
    a.test(eax, 1 << 13)?;
    a.jz(skip)?;
    a.inc(ebx)?;
    a.set_label(&mut skip)?;
    a.dec(ecx)?;
    a.jnz(toss)?;
    for _ in 0..20 {
        a.call(base + PAGE)?;
    }
    a.dec(r9d)?;
    a.jnz(round)?;
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()?;
    let mut code = a.assemble(base + HEADERS)?;
    // Each page jumps to the next; the last returns.
    let page = |page: usize| page * PAGE as usize - HEADERS as usize;
    for n in 1..PAGES {
        code.resize(page(n), 0xcc);
        code.extend(if n + 1 < PAGES { &[0xe9, 0xfb, 0x0f, 0, 0][..] } else { &[0xc3] });
    }
    Ok(code)
}

/// Writes the marker to port 80h, which the machine pauses at.
fn marker() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    // ioperm
    a.mov(eax, 173)?;
    a.mov(edi, 0x80)?;
    a.mov(esi, 4)?;
    a.mov(edx, 1)?;
    a.syscall()?;
    a.mov(eax, u32::from_le_bytes(*b"snap"))?;
    a.out(0x80, eax)?;
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()?;
    a.assemble(MARKER + HEADERS)
}

/// Runs a guest until it powers off: its console, and the truth from where it writes the marker on. To record the boot as
/// well takes as long as all the rest.
fn run(packages: &Packages, cpu: &str, root: &Archive) -> (String, Truth) {
    let append = format!("{BRIEF} nmi_watchdog=0");
    let ram = RamLayout::new(512 << 20, None).expect("memory");
    let payload = packages.payload(root, &append);
    let known = Config::new(cpu, ram, payload).expect("a known processor");
    // Of a slow processor, a turn of a millisecond has few cycles.
    let config = Config { isa: Isa::Distro, clock_hz: 200_000_000, ..known };
    let limits = Limits { timeout: Some(Duration::from_mins(7)), instructions: None };
    let captured = Captured::default();
    let mut console = captured.console();
    let mut machine = Machine::new(&config).expect("a machine");
    machine.pause_at(Pause::Marker);
    let booted = machine.run(limits, &mut console).expect("a run");
    assert_eq!(booted, End::Paused, "{}", captured.text());
    let recorder = Recorder::new(config.personality, DEFAULT_EVENTS).expect("known events");
    machine.record(recorder).expect("the software engine");
    let end = machine.run(limits, &mut console).expect("a run");
    assert_eq!(end, End::PowerOff, "{}", captured.text());
    let truth = machine.recorded().expect("there is room").expect("it was recorded");
    (captured.text().replace('\r', ""), truth)
}

/// Boots a processor, and lets perf count each of these events, and those of `-d -d -d` in turns; perf lists `all`.
fn check(cpu: &str, counters: usize, events: &[Event], all: &[Event]) -> Verdict {
    let packages = packages()?;
    let groups: Vec<_> = events.chunks(counters).collect();
    let mut init = "marker\n".to_owned();
    for (n, group) in groups.iter().enumerate() {
        let names: Vec<_> = group.iter().map(|(name, _)| format!("{name}:u")).collect();
        init += &format!("perf stat -x , -o {n} -e {} program{n} &\n", names.join(","));
    }
    init += "wait\ncat [0-9]*\n";
    if counters > 1 {
        init += "echo 1 >/sys/devices/cpu/perf_event_mux_interval_ms\n\
             perf stat -x , -o turns --all-user -d -d -d long\n\
             sed 's/^/turns,/' turns\n";
    }
    init += "perf list hw cache | sed -n 's/^  \\([^ ]*\\).*\\[Hardware.*/listed,\\1/p'\n\
         poweroff -f";
    let mut root = packages.root(&init);
    packages.add_perf(&mut root);
    let base = |n: usize| BASE + n as u64 * DISTANCE;
    for n in 0..groups.len() {
        let code = program(base(n), 1).expect("it assembles");
        root.file(&format!("/bin/program{n}"), 0o755, elf_at(base(n), &code));
    }
    let long = program(base(groups.len()), ROUNDS).expect("it assembles");
    root.file("/bin/long", 0o755, elf_at(base(groups.len()), &long));

    root.file("/bin/marker", 0o755, elf_at(MARKER, &marker().expect("it assembles")));
    let (log, truth) = run(packages, cpu, &root);

    let listed: BTreeSet<_> = log.lines().filter_map(|line| line.strip_prefix("listed,")).collect();
    assert_eq!(listed, all.iter().map(|&(name, _)| name).collect());

    let of = |n: usize| of_code(&truth, base(n)..base(n) + PAGES as u64 * PAGE);
    for (n, group) in groups.iter().enumerate() {
        let sums = of(n);
        for &(event, column) in *group {
            // perf leaves the modifier away where it makes up the name.
            let with = format!("{event}:u");
            let printed = if log.contains(&format!(",{with},")) { &with } else { event };
            let sum = column.map_or(0, |column| {
                *sums.get(column).unwrap_or_else(|| panic!("no {column} in {sums:?}"))
            });
            assert_eq!(counted(&log, printed), sum, "{cpu}: {event}, {column:?}");
            let some = sum != 0 || column.is_none() || SELDOM.contains(&(cpu, event));
            assert!(some, "{cpu}: no {event}");
        }
    }

    if counters == 1 {
        return Ok(());
    }
    let sums = of(groups.len());
    let rows = log.lines().filter_map(|line| line.strip_prefix("turns,"));
    let rows: Vec<Vec<_>> = rows.map(|row| row.split(',').collect()).collect();
    for event in DETAILED {
        let name = |row: &&Vec<_>| row.get(2).map(|name: &&str| name.trim_end_matches(":u"));
        let row = rows.iter().find(|row| name(row) == Some(event));
        let listed = match *event {
            "cycles" => "cpu-cycles",
            "branches" => "branch-instructions",
            event => event,
        };
        let Some((_, column)) = events.iter().find(|(name, _)| *name == listed) else {
            // The driver has no number for it.
            assert!(row.is_none_or(|row| row[0] == "<not supported>"), "{cpu}: {event}, {row:?}");
            continue;
        };
        let row = row.unwrap_or_else(|| panic!("{cpu}: no {event} in {log}"));
        // Of what there is much of in all, there is something in each turn.
        let count: u64 = row[0].parse().unwrap_or_else(|_| panic!("{cpu}: {row:?}"));
        let sum = column.map_or(0, |column| sums[column]);
        assert!(sum < 1000 || count != 0, "{cpu}: {event}, none of {sum}");
        assert!(sum != 0 || count == 0, "{cpu}: {event}, {count} of none");
    }
    Ok(())
}

fn all_that_perf_lists_on_a_k8() -> Verdict {
    check("k8", 4, K8, K8)
}

fn all_that_perf_lists_on_a_k7() -> Verdict {
    let of_k7 = |&(name, column): &Event| {
        let other = K7.iter().find(|(other, _)| *other == name);
        (name, other.map_or(column, |(_, column)| *column))
    };
    let events: Vec<_> = K8.iter().map(of_k7).collect();
    check("k7", 4, &events, &events)
}

fn all_that_perf_lists_on_a_pentium_iii() -> Verdict {
    check("p6", 2, P6, P6)
}

fn all_that_perf_lists_on_a_pentium_m() -> Verdict {
    check("pm", 2, P6, P6)
}

/// One event at a time, and none in turns: the driver programs the second counter where it is not. Of names for one
/// event the first is counted, for a truth has room for no more runs of perf than that takes.
fn all_that_perf_lists_on_knights_corner() -> Verdict {
    let is_first =
        |&(n, &(_, column)): &(usize, &Event)| KNC[..n].iter().all(|&(_, other)| other != column);
    let counted: Vec<_> =
        KNC.iter().enumerate().filter(is_first).map(|(_, &event)| event).collect();
    check("knc", 1, &counted, KNC)
}
