//! `docs/event-walk.md`.

use std::fmt::Write;

use pmu_model::Tier;

use crate::expectations::Expectation;
use crate::programs;
use crate::selects::Select;
use crate::walk::{Row, Walk};

const HEAD: &str = "\
# The walk through the events

Which program moves which event, and by how much, on the software engine with the models of caches, TLBs,
predictors and bus. Made by `VPMU_BLESS=1 cargo test --release -p guest-tests --test event_walk`; do not
edit. Each event is a row with each of its unit masks.

- **Control** is what a straight line of register arithmetic moves it by.
- **Program** moves it by **Count**. **Expected** is what was worked out by hand, and how: an amount, or
  bounds where the program's own code, or chance, has a share in it. Where nothing is expected, the program
  is the first that moves it.
- **Others** is how many of the other programs move it too.

Counts include the four instructions that disable the counter.
";

/// The page in Markdown.
pub(crate) fn text(walks: &[Walk]) -> String {
    let mut page = String::from(HEAD);
    page += "\n## Programs\n\n| Program | What it does |\n|---|---|\n";
    for program in programs::all() {
        let _ = writeln!(page, "| {} | {} |", program.name, program.does);
    }
    page += "\n## Summary\n\n| Processor | Moved | Of these by an amount or bounds worked out by hand | \
             Pending | Absent |\n|---|--:|--:|--:|--:|\n";
    for walk in walks {
        let (name, moved) = (walk.part.name, walk.rows.len());
        let expected = walk.rows.iter().filter(|row| walk.expected(row).is_some()).count();
        let (pending, absent) = (walk.pending.len(), walk.absent.len());
        let _ =
            writeln!(page, "| [{name}](#{name}) | {moved} | {expected} | {pending} | {absent} |");
    }
    walks.iter().for_each(|walk| part(&mut page, walk));
    page
}

fn part(page: &mut String, walk: &Walk) {
    let _ = write!(
        page,
        "\n## {}\n\n| Code | Event | Fidelity | Control | Program | Count | Expected | Others |\n\
         |---|---|---|--:|---|--:|---|--:|\n",
        walk.part.name
    );
    walk.rows.iter().for_each(|of| row(page, walk, of));
    if !walk.pending.is_empty() {
        let _ = writeln!(page, "\n{} wait for a model:\n", walk.pending.len());
        walk.pending.iter().for_each(|select| pending(page, walk, select));
    }
}

fn row(page: &mut String, walk: &Walk, row: &Row) {
    let Row { select, counts } = row;
    let _ = write!(
        page,
        "| {} | `{}` | {} | {} ",
        code(select),
        select.name,
        select.fidelity.name(),
        counts[0]
    );
    let others = walk.moved(row).count().saturating_sub(1);
    if let Some(expected) = walk.expected(row) {
        let count = walk.count(row, expected.program);
        let Expectation { program, why, .. } = expected;
        let _ = writeln!(page, "| {program} | {count} | {}: {why} | {others} |", amount(expected));
    } else if let Some((program, count)) = walk.moved(row).next() {
        let _ = writeln!(page, "| {program} | {count} | | {others} |");
    } else {
        page.push_str("| | | | |\n");
    }
}

fn amount(expected: &Expectation) -> String {
    let Expectation { at_least, at_most, .. } = expected;
    if at_least == at_most { at_least.to_string() } else { format!("{at_least} to {at_most}") }
}

fn code(select: &Select) -> String {
    match select.event.umasks.is_empty() {
        true => format!("`{:02X}h`", select.event.code),
        false => format!("`{:02X}h`/`{:02X}h`", select.event.code, select.umask),
    }
}

/// A select that waits, and for which signals.
fn pending(page: &mut String, walk: &Walk, select: &Select) {
    let live = walk.personality.live.of(Tier::Microarchitecture);
    let mut missing: Vec<_> = select
        .event
        .selected(select.umask)
        .flatten()
        .filter(|&&signal| !live.contains(signal))
        .map(|signal| format!("`{}`", signal.name()))
        .collect();
    missing.dedup();
    let _ = writeln!(page, "- {} `{}`: {}", code(select), select.name, missing.join(", "));
}
