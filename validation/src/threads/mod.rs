//! The threads of a Knights Corner core, and its cores: who issues when, what hides latency, what memory gives.

mod program;

use guest_tests::Part;
use iced_x86::code_asm::{CodeAssembler, eax, ebx, qword_ptr, rdi};
use iced_x86::{Code, Register};

use self::program::{DATA, Program, THREADS, cycles};
use crate::check::{Check, table};
use crate::plot::{Plot, Series, number};
use crate::{Extent, Report, Result, each};

const ABOUT: &str = "\
Threads of Knights Corner that do the same at the same time, in 64-bit code, with the clock of the core
(RDTSC) behind rounds that nobody times. *Issue* has cycles of the core for each instruction of all its
threads: a thread issues in every other cycle at most (Intel 328207, as restated), so that one alone takes
twice what two take together. *Chains* has loads, each of which finds the address of the next in the L2, a
list of its own for each thread: 23.4 cycles were measured for one (J. McCalpin, MIC forum). *Distance* has
one thread that reads memory line by line behind VPREFETCH0 of a line so far ahead. *Memory* has a thread on
each of so many cores that copies from an array to another: STREAM's Copy with 60 threads was 169.4 GB/s (J.
McCalpin, blog, 2013-12-05). That was compiled for prefetches 64 and 8 lines ahead and for streaming stores,
and so is one of the two programs: the model comes to 162 with 60 cores, and to 2.7 with one. The other has
neither: both arrays are read, by prefetches into the data cache alone, of which eight can be on their way,
some 300 cycles each. That is 1.9 a core, and 109 with 60. In both each core adds as much as the first, so
that what a thread may have under way sets the rate, and not yet the memory: its eight controllers, 64 bytes
in two clocks each, have 282. What a thread may have under way (prefetches; four writes, each some 250 cycles
until it has the right to its line) has no source at first hand, nor has the time of a line from memory, so
that 162 shows no more than that the order is right. No bound is held against it.

";

/// Instructions in a round.
const UNROLLED: u32 = 192;
/// Rounds before those that are timed, and those.
const ROUNDS: [u32; 2] = [3, 20];
/// Bytes of a line.
const LINE: u32 = 64;

type Round = fn(&mut CodeAssembler) -> guest_tests::Result;

/// Cycles of a core for an instruction, with one to four threads.
struct Issue {
    name: &'static str,
    round: Round,
    cycles: [f64; THREADS as usize],
    why: &'static str,
}

const ISSUES: [Issue; 4] = [
    Issue {
        name: "U pipe only",
        round: |a| (0..UNROLLED).try_for_each(|_| a.shl(eax, 1)),
        cycles: [2.0, 1.0, 1.0, 1.0],
        why: "SHL pairs with no SHL",
    },
    Issue {
        name: "both pipes",
        round: |a| {
            (0..UNROLLED / 2).try_for_each(|_| {
                a.inc(eax)?;
                a.inc(ebx)
            })
        },
        cycles: [1.0, 0.5, 0.5, 0.5],
        why: "pairs of INC",
    },
    Issue {
        name: "vector chain",
        round: |a| (0..UNROLLED).try_for_each(|_| add(a, [1; 3])),
        cycles: [4.0, 2.0, 4.0 / 3.0, 1.0],
        why: "VADDPS takes four clocks (Intel, Vector Microarchitecture)",
    },
    Issue {
        name: "vector apart",
        round: |a| (0..UNROLLED).try_for_each(|n| add(a, [n % 16, 20, 21])),
        cycles: [2.0, 1.0, 1.0, 1.0],
        why: "one VADDPS a clock (ibidem)",
    },
];

/// VADDPS.
fn add(a: &mut CodeAssembler, registers: [u32; 3]) -> guest_tests::Result {
    program::vector(a, Code::MVEX_Vaddps_zmm_k1_zmm_zmmmt, registers)
}

/// Runs the section.
///
/// # Errors
/// If a program does not run.
pub fn run_threads(extent: Extent) -> Result<Report> {
    let part = Part::ALL.iter().find(|part| part.name == "knc").ok_or("no such part")?;
    let mut checks = issue(part)?;
    let (chains, chases) = chains(part)?;
    checks.extend(chains);
    let mut plots = vec![chases, distance(part)?];
    if extent == Extent::Full {
        plots.push(memory(part)?);
    }
    Ok(Report { text: format!("{ABOUT}{}", table(&checks)), plots, checks })
}

fn issue(part: &'static Part) -> Result<Vec<Check>> {
    let runs: Vec<_> = ISSUES.iter().flat_map(|of| (1..=THREADS).map(move |n| (of, n))).collect();
    each(&runs, |&(of, threads)| {
        let program = Program {
            data: (DATA, 0),
            memory: Vec::new(),
            set_up: &|_| Ok(()),
            round: &of.round,
            rounds: ROUNDS,
        };
        let processors: Vec<_> = (0..threads).collect();
        let (cycles, _) = cycles(part, &processors, 16 << 20, &program)?;
        let slowest = cycles.iter().max().copied().unwrap_or_default();
        let figure = of.cycles[threads as usize - 1];
        // The loop's own two instructions, and RDTSC, are among what is timed.
        Ok(check(
            part,
            format!("issue: {}, {threads} of 4 threads", of.name),
            (figure * 0.95, figure * 1.05),
            slowest as f64 / f64::from(ROUNDS[1] * UNROLLED * threads),
            of.why,
        ))
    })
}

fn check(
    part: &Part,
    what: String,
    (at_least, at_most): (f64, f64),
    measured: f64,
    why: &str,
) -> Check {
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    Check {
        part: part.name,
        what,
        at_least: rounded(at_least),
        at_most: rounded(at_most),
        measured: (measured * 100.0).round() / 100.0,
        why: why.into(),
        outside: None,
    }
}

/// Loads of 96 KiB a thread, three times what the data cache has, line by line in an order that no prefetcher knows.
fn chains(part: &'static Part) -> Result<(Vec<Check>, Plot)> {
    const LINES: u32 = 96 * 1024 / LINE;
    const APART: u32 = 0x2_0000;
    let list = |at: u32| {
        let mut order: Vec<u32> = (0..LINES).collect();
        let mut random = 0x1234_5678_u32;
        for n in (1..order.len()).rev() {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            order.swap(n, ((u64::from(random) * n as u64) >> 32) as usize);
        }
        let mut bytes = vec![0; (LINES * LINE) as usize];
        for (n, &line) in order.iter().enumerate() {
            let next = u64::from(at + order[(n + 1) % order.len()] * LINE);
            let place = (line * LINE) as usize;
            bytes[place..place + 8].copy_from_slice(&next.to_le_bytes());
        }
        (at, bytes)
    };
    let program = Program {
        data: (DATA, 0),
        memory: (0..THREADS).map(|n| list(DATA + n * APART)).collect(),
        // The list of the thread's own.
        set_up: &|a| {
            use iced_x86::code_asm::{ebp, esi};
            a.mov(eax, ebp)?;
            a.imul_3(eax, eax, APART as i32)?;
            a.add(esi, eax)
        },
        round: &|a| (0..UNROLLED).try_for_each(|_| a.mov(rdi, qword_ptr(rdi))),
        rounds: [2 * LINES / UNROLLED, 2 * LINES / UNROLLED],
    };
    let threads: Vec<u32> = (1..=THREADS).collect();
    let of = each(&threads, |&threads| {
        let processors: Vec<_> = (0..threads).collect();
        let (cycles, _) = cycles(part, &processors, 16 << 20, &program)?;
        let loads = 2 * LINES / UNROLLED * UNROLLED;
        Ok(cycles.iter().max().copied().unwrap_or_default() as f64 / f64::from(loads))
    })?;
    let measured = of[0];
    let checks = vec![check(
        part,
        "chains: L2, one thread".into(),
        (23.4 * 0.9, 23.4 * 1.1),
        measured,
        "23.4 was measured (J. McCalpin)",
    )];
    let points = threads.iter().zip(&of).map(|(&n, &cycles)| (f64::from(n), cycles / f64::from(n)));
    let plot = Plot {
        name: "knc-chains".into(),
        title: "knc: cycles of a core for a load from the L2, in a chain for each thread".into(),
        x_label: "threads",
        y_label: "cycles",
        x_tick: number,
        series: vec![Series { name: "a load of any thread".into(), points: points.collect() }],
        marks: vec![(1.0, "23.4 measured".into())],
    };
    Ok((checks, plot))
}

/// How many lines ahead lines are prefetched.
fn distance(part: &'static Part) -> Result<Plot> {
    const LINES: u32 = 4096;
    let distances: Vec<u32> = vec![0, 1, 2, 4, 8, 16, 32, 64];
    let of = each(&distances, |&distance| {
        let program = Program {
            data: (DATA, 0),
            memory: Vec::new(),
            set_up: &|_| Ok(()),
            round: &|a| {
                for n in 0..8 {
                    if distance != 0 {
                        prefetch(a, 0, LINE * (n + distance))?;
                    }
                    program::load(a, n, Register::RDI, (LINE * n) as i32)?;
                }
                a.add(rdi, (8 * LINE) as i32)
            },
            rounds: [1, LINES / 8],
        };
        let (cycles, _) = cycles(part, &[0], 16 << 20, &program)?;
        Ok(cycles[0] as f64 / f64::from(LINES))
    })?;
    // The first is without.
    let points = |of: &dyn Fn(usize) -> f64| {
        (1..distances.len()).map(|at| (f64::from(distances[at]), of(at))).collect::<Vec<_>>()
    };
    Ok(Plot {
        name: "knc-distance".into(),
        title: "knc: cycles of a thread for a line from memory, prefetched so many lines ahead"
            .into(),
        x_label: "lines ahead",
        y_label: "cycles a line",
        x_tick: number,
        series: vec![
            Series { name: "VPREFETCH0".into(), points: points(&|at| of[at]) },
            Series { name: "without".into(), points: points(&|_| of[0]) },
        ],
        marks: Vec::new(),
    })
}

/// VPREFETCH0 or VPREFETCH1 [RDI + displacement]: VEX.L0.0F 18 /1 and /2.
fn prefetch(a: &mut CodeAssembler, level: u8, displacement: u32) -> guest_tests::Result {
    let [b0, b1, b2, b3] = displacement.to_le_bytes();
    a.db(&[0xC5, 0xF8, 0x18, 0x87 | (level + 1) << 3, b0, b1, b2, b3])
}

/// VMOVNRNGOAPS [RDI + displacement], ZMM0 to ZMM7: MVEX.512.F2.0F.W0 29 /r with EH.
fn stream(a: &mut CodeAssembler, displacement: u32, n: u8) -> guest_tests::Result {
    let [b0, b1, b2, b3] = displacement.to_le_bytes();
    a.db(&[0x62, 0xF1, 0x7B, 0x88, 0x29, 0x87 | n << 3, b0, b1, b2, b3])
}

/// Bytes that a thread of each core copies, together.
fn memory(part: &'static Part) -> Result<Plot> {
    /// More than the L2 has, from one array to another. A thread's part is no power of two, as with STREAM:
    /// else all would be in one bank of the memory at a time.
    const BYTES: u32 = 0x8_4000;
    /// The arrays are one behind the other.
    const TO: u32 = 60 * BYTES;
    type Copy = fn(&mut CodeAssembler, u8) -> guest_tests::Result;
    let stores: Copy = |a, n| {
        let at = LINE * u32::from(n);
        prefetch(a, 0, at + LINE * 32)?;
        prefetch(a, 0, TO + at + LINE * 32)?;
        program::load(a, n.into(), Register::RDI, at as i32)?;
        program::store(a, Register::RDI, (TO + at) as i32, n.into())
    };
    let streams: Copy = |a, n| {
        let at = LINE * u32::from(n);
        prefetch(a, 1, at + LINE * 64)?;
        prefetch(a, 0, at + LINE * 8)?;
        program::load(a, n.into(), Register::RDI, at as i32)?;
        stream(a, TO + at, n)
    };
    let copies = [
        ("VPREFETCH0 32 lines ahead, VMOVAPS", stores),
        ("VPREFETCH1 64 and VPREFETCH0 8 lines ahead, VMOVNRNGOAPS", streams),
    ];
    let cores: Vec<u32> = vec![1, 2, 4, 8, 16, 32, 60];
    let runs: Vec<_> =
        copies.iter().flat_map(|&(_, copy)| cores.iter().map(move |&n| (copy, n))).collect();
    let of = each(&runs, |&(copy, cores)| {
        let program = Program {
            data: (DATA, BYTES),
            memory: Vec::new(),
            set_up: &|_| Ok(()),
            round: &|a| {
                (0..8).try_for_each(|n| copy(a, n))?;
                a.add(rdi, (8 * LINE) as i32)
            },
            rounds: [1, BYTES / (8 * LINE)],
        };
        let processors: Vec<_> = (0..cores).map(|core| core * THREADS).collect();
        let memory = u64::from(DATA) + u64::from(2 * TO) + (1 << 20);
        let (cycles, clock) = cycles(part, &processors, memory, &program)?;
        let slowest = cycles.iter().max().copied().unwrap_or(1);
        let bytes = f64::from(2 * BYTES) * f64::from(cores);
        Ok(bytes * clock as f64 / slowest as f64 / 1e9)
    })?;
    let series = copies.iter().zip(of.chunks(cores.len())).map(|(&(name, _), rates)| Series {
        name: name.into(),
        points: cores.iter().zip(rates).map(|(&n, &rate)| (f64::from(n), rate)).collect(),
    });
    Ok(Plot {
        name: "knc-memory".into(),
        title: "knc: GB/s read and written by a thread on each of so many cores".into(),
        x_label: "cores",
        y_label: "GB/s",
        x_tick: number,
        series: series.collect(),
        marks: vec![(60.0, "169.4 measured".into())],
    })
}
