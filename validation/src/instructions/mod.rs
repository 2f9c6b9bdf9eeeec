//! How long instructions take: loops of one instruction that waits for itself, or for nothing, timed by RDTSC
//! with the pipeline's clock, against the documents' figures.

mod examples;
mod rows;

use guest_tests::msr::{OS, USR};
use guest_tests::{Guest, Part};
use iced_x86::code_asm::{eax, ebp, edi, edx};
use vpmu::engine::soft::Timing;

use self::rows::{ROWS, Row, Setting};
use crate::check::{Check, table};
use crate::machine::{Options, run};
use crate::{Extent, Report, Result, each};

const ABOUT: &str = "\
Cycles of an instruction by RDTSC around 192 of it in a loop of 100 rounds, behind 10 rounds that nobody times,
with the clock of the pipeline (`--timing model`). *In a chain* each waits for the one before it: its latency.
*Apart* none waits for another: its throughput. What the document says may be missed by a twentieth: the two
instructions of the loop, and RDTSC, are among what is timed.

Sources: OG8 is AMD 25112 rev. 3.06, GK gcc's `athlon.md`, GC gcc's costs of the part (`k8_cost`,
`athlon_cost`, `pentiumpro_cost`), GP6 gcc's `ppro.md`, Fog the edition of about 2000 of A. Fog, \"How to
optimize for the Pentium family of microprocessors\", B86 the table of Pentium timings in 86Box
(`codegen_timing_pentium.c`): another emulator's.

";

/// Instructions in a round of the loop.
const UNROLLED: u32 = 192;
/// Rounds that are timed, and rounds before them.
const ROUNDS: u32 = 100;
const BEFORE: u32 = 10;

/// By how much a figure may be missed.
const TOLERANCE: f64 = 0.05;

/// Runs the section, all of it: that takes a few seconds.
///
/// # Errors
/// If a program does not run.
pub fn run_rows(_: Extent) -> Result<Report> {
    let parts: Vec<&'static Part> = Part::ALL.iter().collect();
    let checks = each(&parts, |&part| {
        let rows = ROWS.iter().filter_map(|row| Some((row, row.of(part.name)?)));
        let rows = rows
            .map(|(row, figure)| {
                let measured = cycles(part, row)?;
                let bound = |by: f64| (figure.cycles * by * 1000.0).round() / 1000.0;
                Ok(Check {
                    part: part.name,
                    what: row.name.into(),
                    at_least: bound(1.0 - TOLERANCE),
                    at_most: bound(1.0 + TOLERANCE),
                    measured: (measured * 100.0).round() / 100.0,
                    why: figure.source.into(),
                    outside: figure.outside,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok([rows, examples::of(part)?].concat())
    })?
    .concat();
    let outside = checks.iter().filter(|check| !check.is_inside()).count();
    let text = format!(
        "{ABOUT}{} figures, {outside} of them outside.\n\n{}",
        checks.len(),
        table(&checks)
    );
    Ok(Report { text, plots: Vec::new(), checks })
}

/// Cycles of the instruction of a row.
fn cycles(part: &'static Part, row: &Row) -> Result<f64> {
    const OSFXSR: i32 = 1 << 9;
    let image = Guest::assemble(part, |g| {
        if row.setting == Setting::Sse {
            g.set_cr4(OSFXSR)?;
        }
        // With this clock pipelines run while anything is counted.
        g.start(0, part.cycles, OS | USR, 0)?;
        (row.setup)(g)?;
        let (mut routine, mut behind) = (g.create_label(), g.create_label());
        g.mov(edi, BEFORE)?;
        g.call(routine)?;
        g.push(eax)?;
        g.rdtsc()?;
        g.mov(ebp, eax)?;
        g.pop(eax)?;
        g.xor(edx, edx)?;
        g.mov(edi, ROUNDS)?;
        g.call(routine)?;
        g.jmp(behind)?;
        g.place(&mut routine)?;
        let again = g.here()?;
        for n in 0..UNROLLED {
            (row.one)(g, n)?;
        }
        g.dec(edi)?;
        g.jnz(again)?;
        g.ret()?;
        g.place(&mut behind)?;
        g.rdtsc()?;
        g.sub(eax, ebp)?;
        g.mov(ebp, eax)?;
        g.stop(0)?;
        g.mov(eax, ebp)?;
        g.report_eax("cycles")
    })?;
    let options = Options { timing: Timing::Model, ..Options::default() };
    let cycles = run(part, image, options)?.value("cycles")?;
    Ok(cycles as f64 / f64::from(ROUNDS * UNROLLED))
}
