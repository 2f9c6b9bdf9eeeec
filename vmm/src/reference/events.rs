//! The page of events.

use std::fmt::Write;

use pmu_model::{
    Availability, EventDef, Fidelity, Personality, Route, Scope, SignalSet, UmaskRule, UnitMask,
};

use super::cell;
use crate::engine::soft::TIER;
use crate::events::{counters, mask_rule};

/// What stands above the tables.
const HEAD: &str = "\
# Events

Every event that a guest can select, by processor. Made by `vpmu reference events` from the tables of
`pmu-model`; do not edit. [The registers](msrs.md) say how an event is selected.

**Fidelity** says how well a count can match the hardware:

- *exact*: defined by the architecture, equal to a hand count.
- *modelled*: right if the model of the cache, TLB, predictor or device is.
- *estimated*: depends on detail of the pipeline or the bus that a model only approximates.
- *absent*: counts what is not there, in a PC with one socket or in the part's model, so always zero.
  The words in italics say why.

**Counts** says what this version does: *live* counts, *partial* counts with some unit masks,
*pending* reads zero until the model that feeds it is there, *absent* reads zero for good. A run's
summary names every pending event that its guest selected.

**Mask** says for an event how the unit mask selects, and below it what:

- *bits*: each bit selects a sub-event; none selects nothing.
- *one bit*: the only bit, which must be set.
- *value*: the masks exclude each other.
- *routes*: a combination counts when all of its bits are set.
- nothing: the unit mask is ignored.

**Loads and stores** are those of instructions and what interrupts, exceptions and gates push onto the
stack. Those pushes count at the privilege level whose stack it is, and so do misaligned ones: a
handler's at CPL 0, whatever it interrupted. \"Accesses made while CPL < 3 are supervisor-mode
accesses, while accesses made while CPL = 3 are user-mode accesses\" (Intel SDM Vol. 3A, 4.6.1), and
the stack of CPL 0 takes supervisor-mode accesses only. Reads and writes of descriptor tables, interrupt
tables and task-state segments are not counted, for no document says how many there are; page walks
are other events' matter.
";

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(HEAD);
    summary(&mut text);
    for personality in Personality::ALL {
        section(&mut text, personality);
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// How many events each processor has, by fidelity and by what this version counts.
fn summary(text: &mut String) {
    line(text, format_args!("\n## Summary\n"));
    line(
        text,
        format_args!(
            "| Processor | Events | Exact | Modelled | Estimated | Absent | Live | Partial | Pending |"
        ),
    );
    line(text, format_args!("|---|--:|--:|--:|--:|--:|--:|--:|--:|"));
    for personality in Personality::ALL {
        let by_fidelity = |fidelity| count(personality, |event| event.fidelity == fidelity);
        let live = personality.live.of(TIER);
        let by_availability =
            |availability| count(personality, |event| event.availability(live) == availability);
        line(
            text,
            format_args!(
                "| [{name}](#{name}) | {} | {} | {} | {} | {} | {} | {} | {} |",
                personality.events.len(),
                by_fidelity(Fidelity::Exact),
                by_fidelity(Fidelity::Modelled),
                by_fidelity(Fidelity::Estimated),
                by_fidelity(Fidelity::Absent),
                by_availability(Availability::Live),
                by_availability(Availability::Partial),
                by_availability(Availability::Pending),
                name = personality.name,
            ),
        );
    }
}

fn count(personality: &'static Personality, fits: impl Fn(&'static EventDef) -> bool) -> usize {
    personality.events.iter().filter(|event| fits(event)).count()
}

/// The events of one processor: a table a document, in the documents' order.
fn section(text: &mut String, personality: &'static Personality) {
    line(text, format_args!("\n## {}\n\n{}.", personality.name, personality.part));
    let mut events: Vec<_> = personality.events.iter().collect();
    while let Some(first) = events.first().copied() {
        let (rows, others): (Vec<&EventDef>, Vec<_>) =
            events.into_iter().partition(|event| event.source == first.source);
        let title = format!("{}: {}, {} events", personality.name, first.source, rows.len());
        line(text, format_args!("\n### {title}\n"));
        let mut sections = Vec::new();
        for event in &rows {
            if !sections.contains(&event.section) {
                sections.push(event.section);
            }
        }
        line(text, format_args!("From: {}.\n", sections.join("; ")));
        line(text, format_args!("| Code | Mask | Name | Counters | Fidelity | Counts | What |"));
        line(text, format_args!("|---|---|---|---|---|---|---|"));
        rows.iter().for_each(|event| write_event(text, personality, event));
        events = others;
    }
    write_metrics(text, personality);
}

/// What users of the processor compute from its events.
fn write_metrics(text: &mut String, personality: &Personality) {
    line(text, format_args!("\n### {}: metrics\n", personality.name));
    line(text, format_args!("`vpmu stat --cpu {} --metrics` computes them.\n", personality.name));
    line(text, format_args!("| Metric | Formula | What | Source |"));
    line(text, format_args!("|---|---|---|---|"));
    for metric in personality.metrics {
        let (name, what, source) = (metric.name, cell(metric.description), cell(metric.source));
        line(text, format_args!("| {name} | `{metric}` | {what} | {source} |"));
    }
}

fn write_event(text: &mut String, personality: &Personality, event: &'static EventDef) {
    let live = personality.live.of(TIER);
    let mask = mask_rule(event.umask_rule);
    let mask = if event.umask_rule == UmaskRule::Ignored { "" } else { mask };
    let counters = counters(personality, event);
    let counters = if counters.len() == personality.counters {
        "any".into()
    } else {
        let counters: Vec<_> = counters.iter().map(ToString::to_string).collect();
        counters.join(", ")
    };
    line(
        text,
        format_args!(
            "| `{:02X}h` | {mask} | `{}` | {counters} | {} | {} | {} |",
            event.code,
            event.name,
            event.fidelity.name(),
            event.availability(live).name(),
            cell(&what(event)),
        ),
    );
    if let UmaskRule::Routes(routes) = event.umask_rule {
        event.umasks.iter().for_each(|bit| write_mask(text, live, bit, None));
        routes.iter().for_each(|route| write_route(text, live, event, route));
    } else {
        event.umasks.iter().for_each(|bit| write_mask(text, live, bit, Some(bit.fidelity)));
    }
}

/// What an event counts, and what else there is to know of it.
fn what(event: &EventDef) -> String {
    let mut what = String::from(event.description);
    if !event.note.is_empty() {
        let _ = write!(what, " *{}*", event.note);
    }
    if !event.revision.is_empty() {
        let _ = write!(what, " In: {}.", event.revision);
    }
    if event.scope == Scope::Core {
        what += " Counts for the whole core, whichever thread counts.";
    }
    let libpfm4 = event.aliases.libpfm4;
    if !libpfm4.is_empty() && libpfm4 != event.name {
        let _ = write!(what, " libpfm4: `{libpfm4}`.");
    }
    what
}

/// A unit mask; without a fidelity one that counts only in a combination.
fn write_mask(text: &mut String, live: &SignalSet, bit: &UnitMask, fidelity: Option<Fidelity>) {
    let name = if bit.name.is_empty() { String::new() } else { format!("`{}`", bit.name) };
    let (fidelity, availability) = match fidelity {
        Some(fidelity) => (fidelity.name(), Availability::of_sum(bit.signals, live).name()),
        None => ("", ""),
    };
    let title = cell(bit.title);
    line(
        text,
        format_args!(
            "| | `{:02X}h` | {name} | | {fidelity} | {availability} | {title} |",
            bit.mask
        ),
    );
}

/// A combination of unit masks.
fn write_route(text: &mut String, live: &SignalSet, event: &EventDef, route: &Route) {
    let bits = event.umasks.iter().filter(|bit| bit.mask & route.mask == bit.mask && bit.mask != 0);
    let names: Vec<_> = bits.map(|bit| format!("`{}`", bit.name)).collect();
    let availability = Availability::of_sum(route.signals, live).name();
    line(
        text,
        format_args!("| | `{:02X}h` | {} | | | {availability} | |", route.mask, names.join(" + ")),
    );
}
