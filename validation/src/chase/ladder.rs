//! Working sets from 4 KiB to 64 MiB: where misses begin.

use std::fmt::Write;

use super::expectation::{Bounds, exclusive, in_a_row};
use super::geometry::{Geometry, Second};
use super::program::{Before, Chain, Chase, PAGE};
use super::{part, steps};
use crate::check::{Check, figure};
use crate::plot::{Plot, Series, bytes};
use crate::{Extent, Result};

pub(super) const ABOUT: &str = "\
Each line, or each page, of so much memory in an order without a rule. Cache misses are counted without
paging, TLB misses by a load from each page. The memory is in one piece, so that each set gets its share,
and as many sets one line more as the division leaves: by that the misses are worked out, set by set. Bounds
stand behind a figure where they are not the figure itself:

- Where replacement is not known: Belady's from below, and from above each line of a set that has too many.
- Behind an exclusive L2, or second level of a TLB: from below, Belady's for as many places as both levels
  have; from above, each line of a set of the second level that has too many. An L2 of the same size that
  were not exclusive would miss with each load at 320 KiB on `k7` and at 1,088 KiB on `k8`, where there are 20
  and 17 lines for sets of 16. Measured bends of an Athlon XP and an Opteron are there too (iXBT Labs,
  RightMark Memory Analyzer, 2004).
- An L2 that is full of the chain has lines of code as well: as many times its ways at most.
";

/// The largest working set of the tests.
const QUICK: u32 = 2 << 20;
const LARGEST: u32 = 64 << 20;
/// At least so many loads are counted.
const LOADS: u32 = 1 << 12;
/// Chains longer than this go round only once before they are counted: whatever is replaced first, nothing
/// of them is left when they come again.
const LONG: u32 = 1 << 16;
/// Lines of the program's own code in an L2 that holds code as well: the loop, and what starts and stops the
/// counters. Each can take the place of a line of the chain.
const OWN_LINES: f64 = 24.0;

/// What came of a part.
pub(super) struct Ladder {
    pub(super) text: String,
    pub(super) checks: Vec<Check>,
    pub(super) plots: Vec<Plot>,
}

/// A working set, and what its loads missed.
struct Rung {
    size: u32,
    data: f64,
    second: Option<f64>,
    tlb: Option<(f64, f64)>,
}

/// Powers of two, what is halfway between them, and what the caches hold together.
fn sizes(geometry: &Geometry, extent: Extent) -> Vec<u32> {
    let mut sizes: Vec<u32> =
        (12..=26).map(|power| 1 << power).flat_map(|size: u32| [size, size / 2 * 3]).collect();
    let data = geometry.data.entries() * geometry.line;
    if let Some(second) = geometry.second.filter(|second| second.exclusive) {
        let capacity = second.array.entries() * geometry.line + data;
        sizes.extend([capacity, capacity + data]);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let largest = if extent == Extent::Full { LARGEST } else { QUICK };
    sizes.retain(|&size| size <= largest);
    sizes
}

pub(super) fn of(geometry: &Geometry, extent: Extent) -> Result<Ladder> {
    let rungs: Vec<Rung> = sizes(geometry, extent)
        .into_iter()
        .map(|size| rung(geometry, size))
        .collect::<Result<_>>()?;
    let name = format!("chase-{}", geometry.name);
    let mut text =
        format!("\n#### {0}\n\n![{0}: misses in a load](validation/{name}.svg)\n\n", geometry.name);
    let cells: Vec<Vec<Check>> = rungs.iter().map(|rung| checks(geometry, rung)).collect();
    let structures: Vec<_> = cells[0].iter().map(|check| check.what.as_str()).collect();
    let _ = writeln!(text, "| Working set of `{}` | {} |", geometry.name, structures.join(" | "));
    let _ = writeln!(text, "|--:{}|", "|---".repeat(structures.len()));
    for (rung, checks) in rungs.iter().zip(&cells) {
        let cells: Vec<_> = checks.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", bytes(rung.size.into()), cells.join(" | "));
    }
    let checks = rungs.iter().zip(cells).flat_map(|(rung, checks)| {
        let size = bytes(rung.size.into());
        checks
            .into_iter()
            .map(move |check| Check { what: format!("{size}, {}", check.what), ..check })
    });
    let checks = checks.collect();
    Ok(Ladder { text, checks, plots: vec![plot(geometry, &rungs, name)] })
}

/// A figure, and its bounds where it is not the only one within them.
fn cell(check: &Check) -> String {
    let (measured, expected) = (figure(check.measured), check.expected());
    if measured == expected { measured } else { format!("{measured} ({expected})") }
}

fn rung(geometry: &Geometry, size: u32) -> Result<Rung> {
    let lines = size / geometry.line;
    let chain = Chain::strided(lines, geometry.line).shuffled();
    let chase = Chase {
        part: part(geometry),
        chain: &chain,
        before: Before::Rounds(if lines > LONG { 1 } else { 3 }),
        counted: whole_rounds(lines),
    };
    let events: Vec<_> =
        [Some(geometry.events.data), geometry.events.second].into_iter().flatten().collect();
    let counts = chase.loads(&events)?;
    let pages = size / PAGE;
    let chain = Chain::pages(pages, 1).shuffled();
    let tlb = steps::data_tlb_misses(geometry, &chain, Before::Rounds(3), whole_rounds(pages))?;
    Ok(Rung { size, data: counts[0], second: counts.get(1).copied(), tlb })
}

/// As many whole rounds as make [`LOADS`].
fn whole_rounds(places: u32) -> u32 {
    LOADS.div_ceil(places) * places
}

fn checks(geometry: &Geometry, rung: &Rung) -> Vec<Check> {
    let replacement = geometry.replacement;
    let lines = rung.size / geometry.line;
    let pages = rung.size / PAGE;
    let mut checks = Vec::new();
    let mut check = |what: &str, bounds: Bounds, measured: f64, why: &str| {
        checks.push(Check {
            part: geometry.name,
            what: what.into(),
            at_least: bounds.0,
            at_most: bounds.1,
            measured,
            why: why.into(),
            outside: None,
        });
    };
    let why = |bounds: Bounds, entries: u32, unit: &str| match bounds {
        (_, 0.0) => format!("at most {entries} {unit}"),
        (least, most) if least == most => format!("all of sets with too many of {entries} {unit}"),
        _ => format!("Belady, {entries} {unit}"),
    };
    let bounds = in_a_row(lines, geometry.data, replacement);
    let reason = why(bounds, geometry.data.entries(), "lines");
    check("data cache", bounds, rung.data, &reason);
    if let (Some(second), Some(measured)) = (geometry.second, rung.second) {
        let (bounds, reason) = second_bounds(geometry, second, lines);
        check("L2", bounds, measured, &reason);
    }
    let Some(tlb) = rung.tlb else { return checks };
    let bounds = in_a_row(pages, geometry.data_tlb, replacement);
    check("data TLB", bounds, tlb.0, &why(bounds, geometry.data_tlb.entries(), "pages"));
    if let Some(second) = geometry.second_tlb {
        let both = geometry.data_tlb.entries() + second.array.entries();
        let (bounds, entries) = if second.exclusive {
            (exclusive(pages, geometry.data_tlb, second.array), both)
        } else {
            (in_a_row(pages, second.array, replacement), second.array.entries())
        };
        check("both data TLBs", bounds, tlb.1, &why(bounds, entries, "pages"));
    }
    checks
}

/// What the loads of so many lines miss in the L2.
fn second_bounds(geometry: &Geometry, second: Second, lines: u32) -> (Bounds, String) {
    let entries = second.array.entries();
    if second.exclusive {
        let both = entries + geometry.data.entries();
        let bounds = exclusive(lines, geometry.data, second.array);
        let why = match bounds.1 {
            0.0 => format!("at most {entries} lines"),
            _ => format!("Belady, {both} lines in both; none of a set of the L2 with enough ways"),
        };
        return (bounds, why);
    }
    let mut bounds = in_a_row(lines, second.array, geometry.replacement);
    // A set that is full and gets a line of code as well misses some of its lines.
    let code = OWN_LINES * f64::from(second.array.ways) / f64::from(whole_rounds(lines));
    let why = match bounds.1 {
        0.0 if lines == entries => "its lines exactly, and the program's code in a few of its sets",
        0.0 => "fewer than its lines",
        _ => "Belady",
    };
    if lines == entries {
        bounds.1 = code;
    }
    (bounds, format!("{why}, {entries} lines"))
}

fn plot(geometry: &Geometry, rungs: &[Rung], name: String) -> Plot {
    let line = |name: &str, of: &dyn Fn(&Rung) -> Option<f64>| {
        let points: Vec<_> =
            rungs.iter().filter_map(|rung| Some((f64::from(rung.size), of(rung)?))).collect();
        (!points.is_empty()).then(|| Series { name: name.into(), points })
    };
    let second_tlb = geometry.second_tlb.is_some();
    let series = [
        line("data cache", &|rung| Some(rung.data)),
        line("L2", &|rung| rung.second),
        line("data TLB", &|rung| Some(rung.tlb?.0)),
        line("both data TLBs", &|rung| Some(rung.tlb.filter(|_| second_tlb)?.1)),
    ];
    let data = geometry.data.entries() * geometry.line;
    let mut marks = vec![(f64::from(data), "L1".into())];
    if let Some(second) = geometry.second {
        let capacity = second.array.entries() * geometry.line;
        let (capacity, text) =
            if second.exclusive { (capacity + data, "L1 + L2") } else { (capacity, "L2") };
        marks.push((f64::from(capacity), text.into()));
    }
    Plot {
        name,
        title: format!("{}: misses in a load", geometry.name),
        x_label: "working set",
        y_label: "misses in a load",
        x_tick: bytes,
        series: series.into_iter().flatten().collect(),
        marks,
    }
}
