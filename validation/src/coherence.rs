//! Lines that several processors write: how often they change hands.

use guest_tests::msr::{OS, USR};
use guest_tests::part::{Event, event};
use guest_tests::{Guest, Part, SCRATCH};
use iced_x86::code_asm::{CodeLabel, dword_ptr, eax, ebp, edi, esi};

use crate::check::{Check, table};
use crate::machine::{Options, run};
use crate::{Extent, Report, Result, each};

const ABOUT: &str = "\
Two or four processors in turn: each waits for its number in a word, does something, and writes the next
one's number. A round is over when each has had its turn. What happens to the word, and to what is done, in a
round:

- *The word alone* (ping-pong): who waits reads a line that another has dirty, once or, as long as it is
  not its turn, up to once for each of the others. Then it writes a line that others have as well, and
  requests that they drop it.
- *False sharing*: each increments a doubleword of its own, all in one line. One more read of a dirty line,
  and one more request to drop it.
- *Stores*: each stores to a doubleword of its own, all in one line. One read for ownership.
- *Apart*: each increments a doubleword in a line of its own. Nothing more than the word.

The K8 (AMD 24593, \"Memory Coherency and Protocol\": MOESI) leaves a dirty line with the one that wrote it,
its owner, and reads it Shared; a Change to Dirty makes others drop it. The events of the northbridge are
those of all processors together: as many times as there are processors. The P6 (Intel SDM volume 3, \"MESI
Cache Protocol\") answers with HITM and writes the line back, so that both have it Shared; a read for
ownership is a burst read as well. HITM is driven for one clock of the bus at least.

";

/// Whose turn it is.
const WORD: u32 = SCRATCH;
/// Not zero when the first processor is through.
const OVER: u32 = SCRATCH + 0x1000;
/// A line that all processors write, or the first of their own,
const LINE: u32 = SCRATCH + 0x2000;
/// which are so far apart.
const LINES_APART: u32 = 256;

/// Rounds that are not counted.
const BEFORE: u32 = 64;
/// Rounds that are counted, and twice as many: their difference is that of so many in the long run.
const ROUNDS: u32 = 512;

/// What each processor does when it is its turn. Its number is in EBP.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    act: fn(&mut Guest) -> guest_tests::Result,
    /// Lines that are read, because another has them dirty, and then written, the word left out.
    read_and_written: f64,
    /// Lines that are only written.
    written: f64,
}

const PROGRAMS: [Program; 4] = [
    Program { name: "the word alone", act: |_| Ok(()), read_and_written: 0.0, written: 0.0 },
    Program {
        name: "false sharing",
        act: |g| g.inc(dword_ptr(ebp * 4 + LINE)),
        read_and_written: 1.0,
        written: 0.0,
    },
    Program {
        name: "stores",
        act: |g| g.mov(dword_ptr(ebp * 4 + LINE), ebp),
        read_and_written: 0.0,
        written: 1.0,
    },
    Program {
        name: "apart",
        act: |g| {
            g.mov(edi, ebp)?;
            g.shl(edi, LINES_APART.trailing_zeros())?;
            g.inc(dword_ptr(edi + LINE))
        },
        read_and_written: 0.0,
        written: 0.0,
    },
];

/// At least and at most so many times.
type Bounds = (f64, f64);

/// How often lines change hands in a round, by what is done with them and the number of processors.
struct Round {
    processors: f64,
    program: Program,
}

impl Round {
    /// Reads of what another has dirty.
    fn reads(&self) -> Bounds {
        let Program { read_and_written, .. } = self.program;
        (1.0 + read_and_written, self.processors - 1.0 + read_and_written)
    }

    /// Reads for ownership.
    fn reads_for_ownership(&self) -> Bounds {
        (self.program.written, self.program.written)
    }

    /// Both.
    fn all_reads(&self) -> Bounds {
        let (reads, others) = (self.reads(), self.program.written);
        (reads.0 + others, reads.1 + others)
    }

    /// Requests that others drop a line that they have.
    fn requests(&self) -> Bounds {
        let requests = 1.0 + self.program.read_and_written;
        (requests, requests)
    }

    /// The same of all processors together.
    fn of_all(&self, of_one: Bounds) -> Bounds {
        (self.processors * of_one.0, self.processors * of_one.1)
    }
}

/// An event of a part.
struct Observed {
    name: &'static str,
    event: Event,
    expected: fn(&Round) -> Bounds,
}

/// BIOS and Kernel Developer's Guide, section 10.2.
const K8: [Observed; 4] = [
    Observed {
        name: "refills in state Shared (43h)",
        event: event(0x0243),
        expected: Round::reads,
    },
    Observed {
        name: "refills in state Modified (43h)",
        event: event(0x1043),
        expected: Round::reads_for_ownership,
    },
    Observed {
        name: "Change to Dirty, of all processors (EAh)",
        event: event(0x20EA),
        expected: |round| round.of_all(round.requests()),
    },
    Observed {
        name: "probes that hit dirty and cancel memory's answer, of all processors (ECh)",
        event: event(0x08EC),
        expected: |round| round.of_all(round.all_reads()),
    },
];

/// Intel SDM volume 3, "Performance-Monitoring Events", P6 family.
const P6: [Observed; 4] = [
    Observed { name: "burst reads (65h)", event: event(0x65), expected: Round::all_reads },
    Observed {
        name: "reads for ownership (66h)",
        event: event(0x66),
        expected: Round::reads_for_ownership,
    },
    Observed { name: "invalidations (69h)", event: event(0x69), expected: Round::requests },
    Observed {
        name: "bus clocks of HITM (7Bh)",
        event: event(0x7B),
        // Another's reads find lines here that this one has written: each is in one other's hands at most.
        expected: |round| (1.0, MOST_CLOCKS * round.all_reads().1),
    },
];

/// Bus clocks that one HITM takes at most. How long a snoop phase stalls is in no document: this is an order
/// of magnitude.
const MOST_CLOCKS: f64 = 8.0;

/// Runs the section.
///
/// # Errors
/// If a program does not run.
pub fn check_lines(_: Extent) -> Result<Report> {
    let cases: Vec<_> = [("k8", &K8), ("p6", &P6)]
        .into_iter()
        .flat_map(|(part, observed)| [2, 4].map(|processors| (part, observed, processors)))
        .collect();
    let checks = each(&cases, |&(part, observed, processors)| {
        let mut checks = Vec::new();
        for program in PROGRAMS {
            let round = Round { processors: f64::from(processors), program };
            let measured = in_a_round(part, processors, &program, observed)?;
            for (Observed { name, expected, .. }, measured) in observed.iter().zip(measured) {
                let (at_least, at_most) = expected(&round);
                // What is under way when counting begins and ends: once or twice a processor.
                let ends = 2.0 * f64::from(processors) / f64::from(ROUNDS);
                let ends = if at_most > 0.0 { ends } else { 0.0 };
                checks.push(Check {
                    part,
                    what: format!("{}, {processors} processors: {name}", program.name),
                    at_least: (at_least - ends).max(0.0),
                    at_most: at_most + ends,
                    measured,
                    why: "in a round".into(),
                    outside: None,
                });
            }
        }
        Ok(checks)
    })?;
    let checks = checks.concat();
    let text = format!("{ABOUT}{}", table(&checks));
    Ok(Report { text, checks, plots: Vec::new() })
}

/// The turn of the processor in EBP, for which it waits with PAUSE, at whose end the next one has its own.
/// Behind `over`, where one is named, it does not wait.
fn turn(
    g: &mut Guest,
    processors: u32,
    program: &Program,
    mut over: Option<CodeLabel>,
) -> guest_tests::Result {
    let mut mine = g.create_label();
    let wait = g.here()?;
    g.cmp(dword_ptr(WORD), ebp)?;
    g.je(mine)?;
    g.pause()?;
    if let Some(over) = over.take() {
        g.cmp(dword_ptr(OVER), 0)?;
        g.jne(over)?;
    }
    g.jmp(wait)?;
    g.place(&mut mine)?;
    (program.act)(g)?;
    g.mov(eax, ebp)?;
    g.inc(eax)?;
    g.and(eax, processors as i32 - 1)?;
    g.mov(dword_ptr(WORD), eax)
}

/// How often events occur in a round of the first processor.
fn in_a_round(
    name: &str,
    processors: u32,
    program: &Program,
    observed: &[Observed],
) -> Result<Vec<f64>> {
    let part = Part::by_name(name);
    let mut counts = Vec::new();
    for events in observed.chunks(part.counters as usize) {
        let image = Guest::assemble(part, |g| guest(g, processors, program, events))?;
        let outcome = run(part, image, Options { cpus: processors as u8, ..Options::default() })?;
        for n in 0..events.len() {
            let count = |rounds: u32| outcome.value(&format!("event {n} of {rounds}"));
            let further = count(2 * ROUNDS)? as f64 - count(ROUNDS)? as f64;
            counts.push(further / f64::from(ROUNDS));
        }
    }
    Ok(counts)
}

/// The first processor counts `events` while all take turns.
fn guest(
    g: &mut Guest,
    processors: u32,
    program: &Program,
    events: &[Observed],
) -> guest_tests::Result {
    let counters = || 0..events.len() as u32;
    g.on_every_processor(processors, |g| {
        let mut end = g.create_label();
        g.barrier()?;
        g.on_processor(0, |g| {
            for rounds in [BEFORE, ROUNDS, 2 * ROUNDS] {
                for (n, observed) in counters().zip(events) {
                    g.start(n, observed.event, OS | USR, 0)?;
                }
                g.mov(esi, rounds)?;
                let next = g.here()?;
                turn(g, processors, program, None)?;
                g.dec(esi)?;
                g.jnz(next)?;
                counters().rev().try_for_each(|n| g.stop(n))?;
                for n in counters() {
                    g.read_msr(g.part.perfctr(n))?;
                    g.report(&format!("event {n} of {rounds}"))?;
                }
            }
            g.mov(dword_ptr(OVER), 1)?;
            g.jmp(end)
        })?;
        let next = g.here()?;
        turn(g, processors, program, Some(end))?;
        g.jmp(next)?;
        g.place(&mut end)
    })
}
