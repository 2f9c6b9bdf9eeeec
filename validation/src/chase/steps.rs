//! Chains that are in one set, or in one line: each fits, and with one place more it does not.

use guest_tests::part::Event;

use super::expectation::{Bounds, least, one_set};
use super::geometry::{Geometry, Replacement};
use super::part;
use super::program::{Before, Chain, Chase, PAGE};
use crate::Result;
use crate::check::Check;

pub(super) const ABOUT: &str = "\
Places that are in one set: as many as it has ways, and one more. Misses are those in a load, or in a round
of jumps.

";

/// Loads that are counted: many rounds of every chain.
const LOADS: u32 = 1 << 13;
/// Rounds of jumps. The instructions that start and stop the counter are fetched once each, and are too few
/// to be seen in a figure with three decimals; so are they with the fewer rounds of a longer chain.
const ROUNDS: u32 = 1 << 14;
/// Jumps at most.
const JUMPS: u32 = 1 << 20;
/// Loads of a walk through lines that no cache has.
const WALK: u32 = 1024;

const LINE: &str = "each line is brought in once";
const FITS: &str = "they have a place each";
const OWN_PAGES: &str = "they have a place each, once the program's own pages are gone";

fn more(bounds: Bounds) -> &'static str {
    if bounds.0 == bounds.1 { "one too many: each goes before it comes again" } else { "Belady" }
}

/// All of a part.
pub(super) fn of(geometry: &Geometry) -> Result<Vec<Check>> {
    let mut checks = lines(geometry)?;
    checks.extend(data(geometry)?);
    checks.extend(second(geometry)?);
    checks.extend(data_tlb(geometry)?);
    checks.extend(large_pages(geometry)?);
    checks.extend(code(geometry)?);
    checks.extend(code_tlb(geometry)?);
    Ok(checks)
}

fn check(geometry: &Geometry, what: String, bounds: Bounds, measured: f64, why: &str) -> Check {
    Check {
        part: geometry.name,
        what,
        at_least: bounds.0,
        at_most: bounds.1,
        measured,
        why: why.into(),
        outside: None,
    }
}

/// The bytes of a line: a walk over memory that no cache has.
fn lines(geometry: &Geometry) -> Result<Vec<Check>> {
    [geometry.line / 2, geometry.line, geometry.line * 2]
        .into_iter()
        .map(|stride| {
            let chain = Chain::strided(WALK, stride);
            let before = Before::EmptyCaches;
            let chase = Chase { part: part(geometry), chain: &chain, before, counted: WALK };
            let measured = chase.loads(&[geometry.events.data])?[0];
            let expected = f64::from(stride.min(geometry.line)) / f64::from(geometry.line);
            let what = format!("data cache, empty: loads {stride} bytes apart");
            Ok(check(geometry, what, (expected, expected), measured, LINE))
        })
        .collect()
}

/// Misses of loads from so many places in a set.
fn loads(geometry: &Geometry, chain: &Chain, event: Event) -> Result<f64> {
    let chase = Chase { part: part(geometry), chain, before: Before::Rounds(4), counted: LOADS };
    Ok(chase.loads(&[event])?[0])
}

/// The ways of the data cache.
fn data(geometry: &Geometry) -> Result<Vec<Check>> {
    let (ways, stride) = (geometry.data.ways, geometry.data.sets * geometry.line);
    [ways, ways + 1]
        .into_iter()
        .map(|places| {
            let chain = Chain::strided(places, stride);
            let measured = loads(geometry, &chain, geometry.events.data)?;
            let bounds = one_set(places, ways, geometry.replacement);
            let why = if places == ways { FITS } else { more(bounds) };
            let what = format!("data cache: {places} lines {} KiB apart", stride >> 10);
            Ok(check(geometry, what, bounds, measured, why))
        })
        .collect()
}

/// The ways of the L2, and those of the data cache beside them if it is exclusive.
fn second(geometry: &Geometry) -> Result<Vec<Check>> {
    let (Some(second), Some(event)) = (geometry.second, geometry.events.second) else {
        return Ok(Vec::new());
    };
    // One set of both.
    let stride = second.array.sets.max(geometry.data.sets) * geometry.line;
    let ways = second.array.ways + if second.exclusive { geometry.data.ways } else { 0 };
    [ways, ways + 1]
        .into_iter()
        .map(|places| {
            let chain = Chain::strided(places, stride);
            let measured = loads(geometry, &chain, event)?;
            let bounds = one_set(places, ways, geometry.replacement);
            let why = match (places == ways, second.exclusive) {
                (true, false) => FITS.into(),
                (true, true) => format!(
                    "{} in the L2 and {} in the data cache, as it is exclusive",
                    second.array.ways, geometry.data.ways
                ),
                (false, _) => more(bounds).to_owned(),
            };
            let what = format!("L2: {places} lines {} KiB apart", stride >> 10);
            Ok(check(geometry, what, bounds, measured, &why))
        })
        .collect()
}

/// How often loads from a chain miss the first level of the data TLB and how often all levels. `None`: no
/// event tells.
pub(super) fn data_tlb_misses(
    geometry: &Geometry,
    chain: &Chain,
    before: Before,
    counted: u32,
) -> Result<Option<(f64, f64)>> {
    let chase = Chase { part: part(geometry), chain, before, counted };
    let Some((all, first)) = geometry.events.data_tlb else { return Ok(None) };
    let events: Vec<_> = [Some(all), first].into_iter().flatten().collect();
    let counts = chase.loads(&events)?;
    Ok(Some((counts.iter().sum(), counts[0])))
}

/// Entries and ways of the data TLBs.
fn data_tlb(geometry: &Geometry) -> Result<Vec<Check>> {
    let tlb = geometry.data_tlb;
    let misses = |places: u32, stride: u32| {
        let chain = Chain::pages(places, stride);
        data_tlb_misses(geometry, &chain, Before::Rounds(4), LOADS).map(Option::unwrap_or_default)
    };
    let mut checks = Vec::new();
    if geometry.events.data_tlb.is_none() {
        return Ok(checks);
    }
    let entries = tlb.entries();
    let what = format!("data TLB: {entries} pages in a row");
    checks.push(check(geometry, what, (0.0, 0.0), misses(entries, 1)?.0, FITS));
    let places = tlb.ways + 1;
    let bounds = one_set(places, tlb.ways, geometry.replacement);
    let what = format!("data TLB: {places} pages {} KiB apart", (tlb.sets * PAGE) >> 10);
    checks.push(check(geometry, what, bounds, misses(places, tlb.sets)?.0, more(bounds)));
    let Some(second) = geometry.second_tlb else { return Ok(checks) };
    let entries = second.array.entries();
    let what = format!("both data TLBs: {entries} pages in a row");
    checks.push(check(geometry, what, (0.0, 0.0), misses(entries, 1)?.1, FITS));
    // In one set of the second level.
    let (stride, apart) = (second.array.sets, (second.array.sets * PAGE) >> 10);
    let (last, why) = if second.exclusive {
        let why = "the first level's and a set's of the second, as it is exclusive";
        (tlb.entries() + second.array.ways, why)
    } else {
        (tlb.entries(), "the first level's: a set of the second has fewer, of the same")
    };
    for places in [last, last + 1] {
        let expected = f64::from(u32::from(places > last));
        let why = if places == last { why } else { more((1.0, 1.0)) };
        let what = format!("both data TLBs: {places} pages {apart} KiB apart");
        checks.push(check(geometry, what, (expected, expected), misses(places, stride)?.1, why));
    }
    Ok(checks)
}

/// Entries of large data pages.
fn large_pages(geometry: &Geometry) -> Result<Vec<Check>> {
    let tlb = geometry.large;
    if geometry.events.data_tlb.is_none() {
        return Ok(Vec::new());
    }
    // AMD 25481, function 8000_0005h: a page of 4 MiB has two entries of 2 MiB, so that places at its
    // beginning are all in the even half of the sets.
    let (places, why) = match geometry.replacement {
        Replacement::Lru => (tlb.entries() / tlb.sets, "the sets of even 2 MiB"),
        Replacement::Unknown => (tlb.entries(), FITS),
    };
    [places, places + 1]
        .into_iter()
        .map(|n| {
            let chain = Chain::large(n);
            let misses = data_tlb_misses(geometry, &chain, Before::Rounds(4), LOADS)?;
            let measured = misses.unwrap_or_default().1;
            let (bounds, why) = match (n == places, geometry.replacement) {
                (true, _) => ((0.0, 0.0), why),
                (false, Replacement::Lru) => ((1.0, 1.0), more((1.0, 1.0))),
                // The set with one too many is one of several.
                (false, Replacement::Unknown) => {
                    let ways = tlb.ways;
                    let share = f64::from(ways + 1) / f64::from(n);
                    ((least(ways + 1, ways) * share, share), "Belady, in one of the sets")
                }
            };
            let what = format!("data TLB: {n} pages of 4 MiB");
            Ok(check(geometry, what, bounds, measured, why))
        })
        .collect()
}

/// Misses in a round of jumps through a chain.
fn jumps(geometry: &Geometry, chain: &Chain, events: &[Event]) -> Result<Vec<f64>> {
    let counted = ROUNDS.min(JUMPS / chain.places.len() as u32);
    Chase { part: part(geometry), chain, before: Before::Rounds(4), counted }.jumps(events)
}

fn per_round(places: u32, bounds: Bounds) -> Bounds {
    (bounds.0 * f64::from(places), bounds.1 * f64::from(places))
}

/// The ways of the instruction cache.
fn code(geometry: &Geometry) -> Result<Vec<Check>> {
    let (ways, stride) = (geometry.code.ways, geometry.code.sets * geometry.line);
    [ways, ways + 1]
        .into_iter()
        .map(|places| {
            let chain = Chain::strided(places, stride);
            let measured = jumps(geometry, &chain, &[geometry.events.code])?[0];
            let bounds = per_round(places, one_set(places, ways, geometry.replacement));
            let why = if places == ways { FITS } else { more(bounds) };
            let what = format!("instruction cache: {places} jumps {} KiB apart", stride >> 10);
            Ok(check(geometry, what, bounds, measured, why))
        })
        .collect()
}

/// The entries and ways of the instruction TLBs.
fn code_tlb(geometry: &Geometry) -> Result<Vec<Check>> {
    let tlb = geometry.code_tlb;
    let (all, second) = geometry.events.code_tlb;
    let misses = |places: u32, stride: u32| -> Result<(f64, f64)> {
        let chain = Chain::pages(places, stride);
        let events: Vec<_> = [Some(all), second].into_iter().flatten().collect();
        let counts = jumps(geometry, &chain, &events)?;
        Ok((counts.iter().sum(), counts[0]))
    };
    let mut checks = Vec::new();
    let places = tlb.entries();
    let what = format!("instruction TLB: {places} pages in a row");
    // The page of the instructions that start and stop the counter comes between twice, and all can go.
    let bounds = (0.0, f64::from(2 * places) / f64::from(ROUNDS.min(JUMPS / places)));
    checks.push(check(geometry, what, bounds, misses(places, 1)?.0, OWN_PAGES));
    let places = tlb.ways + 1;
    let bounds = per_round(places, one_set(places, tlb.ways, geometry.replacement));
    let what = format!("instruction TLB: {places} pages {} KiB apart", (tlb.sets * PAGE) >> 10);
    checks.push(check(geometry, what, bounds, misses(places, tlb.sets)?.0, more(bounds)));
    let Some(second) = geometry.second_tlb else { return Ok(checks) };
    let places = second.array.entries();
    let what = format!("both instruction TLBs: {places} pages in a row");
    // The program's own code is in two pages, each of which may come before and behind.
    let bounds = (0.0, 8.0 / f64::from(JUMPS / places));
    checks.push(check(geometry, what, bounds, misses(places, 1)?.1, OWN_PAGES));
    Ok(checks)
}
