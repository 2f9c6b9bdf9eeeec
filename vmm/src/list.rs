//! `vpmu list`: the processors, a line each.

use std::fmt::Write as _;

use pmu_model::{Availability, Personality, PmiRule};
use serde::Serialize;

use crate::engine::soft::TIER;
use crate::error::{Error, Result};
use crate::platform::{CpuidContext, Platform};

/// A processor as `--json` prints it.
#[derive(Serialize)]
struct Row {
    /// The value of `--cpu`.
    name: &'static str,
    /// The processor, for people.
    processor: &'static str,
    /// What CPUID calls its vendor.
    vendor: String,
    /// The document that defines its PMU.
    source: &'static str,
    /// Clock in Hz, unless `--clock` says otherwise.
    clock_hz: u64,
    /// Most processors of a machine.
    max_processors: u8,
    /// Hardware threads that share a core.
    threads_per_core: u8,
    /// Counters of a hardware thread.
    counters: usize,
    /// Bits of a counter.
    width: u32,
    /// How many events a guest can select, by whether they count.
    events: Events,
    /// When an overflow interrupts.
    pmi: PmiRule,
    /// Whether the delivery of that interrupt masks LVTPC.
    lvtpc_auto_mask: bool,
}

/// Numbers of events, by [`Availability`].
#[derive(Default, Serialize)]
struct Events {
    all: usize,
    live: usize,
    partial: usize,
    pending: usize,
    absent: usize,
}

impl Events {
    fn of(personality: &'static Personality) -> Self {
        let mut events = Self { all: personality.events.len(), ..Self::default() };
        for event in personality.events {
            *match event.availability(personality.live.of(TIER)) {
                Availability::Live => &mut events.live,
                Availability::Partial => &mut events.partial,
                Availability::Pending => &mut events.pending,
                Availability::Absent => &mut events.absent,
            } += 1;
        }
        events
    }
}

/// The processors in the order of every list: as a table, a line each below its head, or as a JSON array.
///
/// # Errors
/// Never in practice: all keys are strings.
pub fn list(json: bool) -> Result<String> {
    let known = Personality::ALL.iter().filter_map(|p| Some((*p, Platform::by_name(p.name)?)));
    let rows: Vec<_> = known.map(|(personality, platform)| row(personality, platform)).collect();
    if json {
        let text = serde_json::to_string_pretty(&rows);
        return text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e));
    }
    let widest = rows.iter().map(|row| row.processor.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{:<6}{:<widest$}  counters  events  live  part  pend  absent  interrupt of a counter",
        "--cpu", "processor"
    );
    for row in &rows {
        let Events { all, live, partial, pending, absent } = row.events;
        let counters = format!("{} x {}", row.counters, row.width);
        let _ = writeln!(
            text,
            "{:<6}{:<widest$}  {counters:<8}  {all:>6}  {live:>4}  {partial:>4}  {pending:>4}  \
             {absent:>6}  {}",
            row.name,
            row.processor,
            interrupt(row.pmi, row.lvtpc_auto_mask)
        );
    }
    Ok(text)
}

fn row(personality: &'static Personality, platform: &'static Platform) -> Row {
    Row {
        name: personality.name,
        processor: platform.description,
        vendor: vendor(platform),
        source: personality.source,
        clock_hz: platform.clock_hz,
        max_processors: platform.max_processors,
        threads_per_core: platform.threads_per_core,
        counters: personality.counters,
        width: personality.width,
        events: Events::of(personality),
        pmi: personality.pmi,
        lvtpc_auto_mask: personality.lvtpc_auto_mask,
    }
}

/// The twelve characters of CPUID function 0, in EBX, EDX and ECX.
fn vendor(platform: &Platform) -> String {
    let result = platform.cpuid(0, 0, CpuidContext::default());
    let words = [result.ebx, result.edx, result.ecx].map(u32::to_le_bytes);
    String::from_utf8_lossy(words.as_flattened()).into_owned()
}

/// When an overflow interrupts, in a few words.
const fn interrupt(pmi: PmiRule, masks: bool) -> &'static str {
    match (pmi, masks) {
        (PmiRule::EachOverflow, false) => "each overflow",
        (PmiRule::EachOverflow, true) => "each overflow; masks LVTPC",
        (PmiRule::StatusEdge, false) => "first of the status",
        (PmiRule::StatusEdge, true) => "first of the status; masks LVTPC",
        (PmiRule::PinsOnly, _) => "none: pins",
    }
}
