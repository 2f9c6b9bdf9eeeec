//! How long a load takes whose address is the one before: RDTSC around chases, with the pipeline's clock.

use std::fmt::Write;

use super::geometry::{ALL, Geometry};
use super::part;
use super::program::{Before, Chain, Chase, PAGE};
use crate::check::{Check, table};
use crate::plot::{Plot, Series, bytes};
use crate::{Extent, Result, each};

const ABOUT: &str = "\
Cycles of a load whose address is what the one before has loaded, by RDTSC around thousands of them, with the
clock of the pipeline (`--timing model`). *Lines* are those of the working set in an order without a rule,
without paging; *pages* are a load from each page, with paging.

The first level is sourced: 3 cycles on K7 and K8 (AMD 22007E, table 6), 3 on the P6 family (gcc's `ppro.md`
after Intel 245127, which has 2 to 3 added to the cycle of the operation), 2 on `p55c`, where a base that was
written in the cycle before costs one more (Fog, chapter 9); a sixteenth of what the loop's own two
instructions take comes on top. The second level of `pii`, which has half the clock, takes 18 (M. Karbo, PC
Architecture, figure 77), less or more 3 for what the document leaves open; that of `k8` at least the 11 of
PTLsim's model. Of the others no document at hand says more than that it lies between the first level and
memory. Memory takes two latencies of the DRAM at least, of a row and of a column, which are 15 ns each of
DDR-400, and 20 ns of PC100 (JEDEC). From above there is no document: 400 ns are an order of magnitude.

";

/// Loads that are counted at least.
const LOADS: u32 = 1 << 12;
/// A working set that no cache has.
const MEMORY: u32 = 16 << 20;
/// The same in a test.
const QUICK_MEMORY: u32 = 4 << 20;

/// What came of the parts.
pub(super) struct Cycles {
    pub(super) text: String,
    pub(super) checks: Vec<Check>,
    pub(super) plots: Vec<Plot>,
}

/// Cycles of a load from lines, or pages, of so much memory, and the frequency that they have.
fn measured(geometry: &Geometry, chain: &Chain) -> Result<(f64, u64)> {
    let places = chain.places.len() as u32;
    let counted = LOADS.div_ceil(places) * places;
    let before = Before::Rounds(if places > 1 << 15 { 1 } else { 2 });
    Chase { part: part(geometry), chain, before, counted }.cycles(geometry.events.data)
}

fn lines(geometry: &Geometry, size: u32) -> Chain {
    Chain::strided(size / geometry.line, geometry.line).shuffled()
}

pub(super) fn of_all(extent: Extent) -> Result<Cycles> {
    let checks = each(&ALL, |geometry| {
        eprintln!("validation: chase: {}: cycles", geometry.name);
        levels(geometry, extent)
    })?
    .concat();
    if extent == Extent::Quick {
        return Ok(Cycles { text: String::new(), checks, plots: Vec::new() });
    }
    let sizes: Vec<u32> = (12..=26).map(|power| 1 << power).collect();
    let columns = each(&ALL, |geometry| {
        eprintln!("validation: chase: {}: cycles from 4 KiB to 64 MiB", geometry.name);
        let cycles = |chain: &Chain| measured(geometry, chain).map(|(cycles, _)| cycles);
        let both = |&size: &u32| {
            let pages = Chain::pages(size / PAGE, 1).shuffled();
            Ok((cycles(&lines(geometry, size))?, cycles(&pages)?))
        };
        sizes.iter().map(both).collect::<Result<Vec<(f64, f64)>>>()
    })?;
    let mut text = format!("{ABOUT}{}", table(&checks));
    let mut plots = Vec::new();
    for (title, name, of) in [
        ("Lines", "chase-cycles-lines", (|both| both.0) as fn((f64, f64)) -> f64),
        ("Pages", "chase-cycles-pages", |both| both.1),
    ] {
        let _ =
            write!(text, "\n![{title}: cycles of a load](validation/{name}.svg)\n\n| {title} |");
        ALL.iter().for_each(|geometry| text += &format!(" `{}` |", geometry.name));
        let _ = writeln!(text, "\n|--:|{}", "--:|".repeat(ALL.len()));
        for (n, &size) in sizes.iter().enumerate() {
            let _ = write!(text, "| {} |", bytes(size.into()));
            columns.iter().for_each(|column| text += &format!(" {:.1} |", of(column[n])));
            text.push('\n');
        }
        let series = ALL.iter().zip(&columns).map(|(geometry, column)| {
            let points = sizes.iter().zip(column).map(|(&size, &both)| (size.into(), of(both)));
            Series { name: geometry.name.into(), points: points.collect() }
        });
        plots.push(Plot {
            name: name.into(),
            title: format!("{title}: cycles of a load"),
            x_label: "working set",
            y_label: "cycles",
            x_tick: bytes,
            series: series.collect(),
            marks: Vec::new(),
        });
    }
    Ok(Cycles { text, checks, plots })
}

/// A load from each level.
fn levels(geometry: &Geometry, extent: Extent) -> Result<Vec<Check>> {
    let data = geometry.data.entries() * geometry.line;
    let memory = if extent == Extent::Full { MEMORY } else { QUICK_MEMORY };
    let (first, hz) = measured(geometry, &lines(geometry, data / 2))?;
    let mut checks = vec![check(geometry, "data cache", geometry.latency, first, "sourced")];
    let (last, _) = measured(geometry, &lines(geometry, memory))?;
    if let Some(second) = geometry.second {
        let size = second.array.entries() * geometry.line / 2;
        let (cycles, _) = measured(geometry, &lines(geometry, size))?;
        let (bounds, why) = match geometry.second_latency {
            Some(bounds) => (bounds, "as above"),
            None => ((first, last), "between the first level and memory"),
        };
        checks.push(check(geometry, "L2", bounds, cycles, why));
    }
    let nanoseconds = last * 1e9 / hz as f64;
    let what = "memory, in nanoseconds";
    checks.push(check(geometry, what, (30.0, 400.0), nanoseconds, "at least a row and a column"));
    Ok(checks)
}

fn check(geometry: &Geometry, what: &str, bounds: (f64, f64), measured: f64, why: &str) -> Check {
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    Check {
        part: geometry.name,
        what: format!("load from {what}"),
        at_least: tenth(bounds.0),
        at_most: tenth(bounds.1),
        measured: tenth(measured),
        why: why.into(),
        outside: None,
    }
}
