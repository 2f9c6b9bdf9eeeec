//! Chains of loads and of jumps: where caches and TLBs end, by the part's own counters.

mod cycles;
mod expectation;
mod geometry;
mod ladder;
mod program;
mod steps;

use std::fmt::Write;

use crate::check::table;
use crate::{Extent, Report, Result, each};
use geometry::{ALL, Geometry};

const ABOUT: &str = "\
A load finds the address of the next one in memory, round and round through a chain; a chain of code is
jumps, each to the next. What is counted is counted behind whole rounds, so that what fits is there. Misses
are those of the part's own counters. No event of `ppro` to `pm` tells of the data TLB, and none of `p55c`
what the cache on the board has. Under replacement of the least recently used, a set that is too
small for its share of a chain keeps nothing, and each access misses. Which line goes in Intel's parts is in
no document: any replacement misses at least `k - w` of `k - 1` times where `k` places share `w` ways
(L. A. Belady, IBM Systems Journal 5, 1966), and at most each time.
";

/// Runs the section.
///
/// # Errors
/// If a program does not run.
pub fn run(extent: Extent) -> Result<Report> {
    let mut report = Report { text: ABOUT.into(), ..Report::default() };
    report.text += "\n| Part | Geometry from |\n|---|---|\n";
    for geometry in &ALL {
        let _ = writeln!(report.text, "| `{}` | {} |", geometry.name, geometry.source);
    }
    let steps = each(&ALL, |geometry| {
        eprintln!("validation: chase: {}: steps", geometry.name);
        steps::of(geometry)
    })?;
    report.checks = steps.concat();
    report.text += "\n### Lines, ways and entries\n\n";
    report.text += steps::ABOUT;
    report.text += &table(&report.checks);

    report.text += "\n### From 4 KiB to 64 MiB\n\n";
    report.text += ladder::ABOUT;
    let ladders = each(&ALL, |geometry| {
        eprintln!("validation: chase: {}: from 4 KiB to 64 MiB", geometry.name);
        ladder::of(geometry, extent)
    })?;
    for ladder in ladders {
        report.text += &ladder.text;
        report.checks.extend(ladder.checks);
        report.plots.extend(ladder.plots);
    }

    let cycles = cycles::of_all(extent)?;
    report.text += "\n### Cycles\n\n";
    report.text += &cycles.text;
    report.checks.extend(cycles.checks);
    report.plots.extend(cycles.plots);
    Ok(report)
}

/// The part that a geometry is of.
fn part(geometry: &Geometry) -> &'static guest_tests::Part {
    guest_tests::Part::by_name(geometry.name)
}
