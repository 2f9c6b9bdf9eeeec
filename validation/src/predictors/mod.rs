//! Programs of branches whose predictions follow from what is known of a predictor.

mod part;
mod programs;

use std::fmt::Write;

use guest_tests::Part;
use guest_tests::part::Event;

use crate::check::{Check, table};
use crate::plot::{Plot, Series, number};
use crate::routine::Routine;
use crate::{Extent, Report, Result, each};
use part::{ALL, Direction, Known};

const ABOUT: &str = "\
Branches whose course is known, and how many of them are not predicted rightly in the long run, by the
part's own counters: 35h on `p55c`, C5h from `ppro` to `pm`, C3h on `k7` and `k8`; for the target buffer E2h
from `ppro` to `pm`, as taken branches without an entry are not predicted rightly on the others; for returns
37h on `p55c`, 90h on `pm`, C9h on `k7` and `k8`.
";

/// Rounds that are not counted, and rounds that are.
const BEFORE: u32 = 256;
const ROUNDS: u32 = 4096;

/// Periods of the inner loop.
const PERIODS: [u32; 11] = [2, 3, 4, 5, 6, 8, 9, 16, 64, 65, 96];
/// A sequence of 16 in which each four outcomes occur once, twice; and one of 32 in which each five do, so
/// that behind each four there is each outcome (N. G. de Bruijn, 1946).
const DE_BRUIJN_4: u32 = 0b0000_1001_1010_1111_0000_1001_1010_1111;
const DE_BRUIJN_5: u32 = 0b0000_0100_0110_0101_0011_1010_1101_1111;

/// Runs the section.
///
/// # Errors
/// If a program does not run.
pub fn run(_: Extent) -> Result<Report> {
    let mut report = Report { text: ABOUT.into(), ..Report::default() };
    report.text += "\n| Part | Known |\n|---|---|\n";
    for known in &ALL {
        let _ = writeln!(report.text, "| `{}` | {} |", known.name, known.source);
    }
    for topic in TOPICS {
        let Topic { title, about, of, plot } = topic;
        eprintln!("validation: predictors: {title}");
        let measured = each(&ALL, of)?;
        let _ = write!(report.text, "\n### {title}\n\n{about}\n");
        if let Some(labels) = plot {
            let plot = plotted(title, labels, &measured);
            let _ = writeln!(report.text, "![{title}](validation/{}.svg)\n", plot.name);
            report.plots.push(plot);
        }
        let checks: Vec<Check> = measured.into_iter().flatten().map(|(_, check)| check).collect();
        report.text += &table(&checks);
        report.checks.extend(checks);
    }
    Ok(report)
}

/// What a predictor can be asked.
struct Topic {
    title: &'static str,
    about: &'static str,
    of: fn(&Known) -> Result<Vec<Measured>>,
    plot: Option<Labels>,
}

/// A plot's name, and what is on its axes.
struct Labels {
    name: &'static str,
    x: &'static str,
    y: &'static str,
}

const TOPICS: &[Topic] = &[
    Topic {
        title: "Loops",
        about: LOOPS,
        of: loops,
        plot: Some(Labels {
            name: "predictors-loops",
            x: "iterations of the inner loop",
            y: "mispredicted in a round",
        }),
    },
    Topic { title: "Patterns", about: PATTERNS, of: patterns, plot: None },
    Topic { title: "Chance", about: CHANCE, of: chance, plot: None },
    Topic {
        title: "Target buffers",
        about: TARGETS,
        of: targets,
        plot: Some(Labels { name: "predictors-targets", x: "branches", y: "unknown of one" }),
    },
    Topic {
        title: "Return stacks",
        about: RETURNS,
        of: returns,
        plot: Some(Labels {
            name: "predictors-returns",
            x: "calls within each other",
            y: "mispredicted in a round",
        }),
    },
    Topic { title: "Indirect jumps", about: INDIRECT, of: indirect, plot: None },
];

/// A number, and what it is a number of: a period, branches, calls.
type Measured = (u32, Check);

/// How often an event occurs in a round, in the long run: what further rounds make of a difference, so that
/// neither the call of the program nor the end of its loop is in it.
fn per_round(known: &Known, routine: &Routine, event: Event, rounds: u32) -> Result<f64> {
    let part = Part::by_name(known.name);
    // The first time, code and branches of before are known less well.
    let counts = routine.count(part, event, BEFORE.min(rounds), &[rounds, rounds, 2 * rounds])?;
    Ok((counts[2] as f64 - counts[1] as f64) / f64::from(rounds))
}

fn check(known: &Known, what: String, bounds: (f64, f64), measured: f64, why: &str) -> Check {
    Check {
        part: known.name,
        what,
        at_least: bounds.0,
        at_most: bounds.1,
        measured,
        why: why.into(),
        outside: None,
    }
}

const LOOPS: &str = "\
A loop of `n` iterations within a loop: its branch is taken `n - 1` times, then not. Where the branch's own
last four outcomes decide, all places in the loop are told apart if `n` is at most 5: behind each there is
another sequence of four. Where the last eight of all branches do, one of them is that of the outer loop,
and the end is told from the iteration before it up to 8. Beyond that the end looks like an iteration, and
is not foreseen: once a round. A counter of six bits is good for 63 taken branches and the end; behind that,
the table by path may take the end for an iteration, or iterations for the end.
";

fn loops(known: &Known) -> Result<Vec<Measured>> {
    let (longest, why_wrong, most) = match known.direction {
        Direction::Own => (5, "four taken branches may be the end or not", 1.0),
        Direction::Shared => (8, "eight taken branches may be the end or not", 1.0),
        Direction::Counted => (64, "too long to be counted", 3.0),
    };
    let measure = |period: u32| -> Result<Measured> {
        let routine = programs::inner_loop(period)?;
        let measured = per_round(known, &routine, known.wrong, ROUNDS)?;
        let (bounds, why) = if period <= longest {
            ((0.0, 0.0), "each place in the loop is known")
        } else {
            ((1.0, most), why_wrong)
        };
        let what = format!("loop of {period}: mispredicted in a round");
        Ok((period, check(known, what, bounds, measured, why)))
    };
    PERIODS.into_iter().map(measure).collect()
}

const PATTERNS: &str = "\
A branch that follows a sequence of 16 outcomes in which any four occur once (N. G. de Bruijn), so that four
outcomes say what the next one is; and one of 32 in which any five do, so that behind any four there is
either, once each. A counter then sees one and the other in turn, and is wrong half of the time, or each
time. Of the last eight outcomes of all branches, four are this branch's. What `pm` makes of it depends on
paths: a bound for it is in no document.
";

fn patterns(known: &Known) -> Result<Vec<Measured>> {
    if known.direction == Direction::Counted {
        return Ok(Vec::new());
    }
    [
        (16, DE_BRUIJN_4, (0.0, 0.0), "four outcomes say which is next"),
        (32, DE_BRUIJN_5, (16.0, 32.0), "behind any four outcomes there is either"),
    ]
    .into_iter()
    .map(|(length, bits, bounds, why)| {
        let measured = per_round(known, &programs::pattern(bits)?, known.wrong, ROUNDS / 16)?;
        let what = format!("sequence of {length}: mispredicted of 32");
        Ok((length, check(known, what, bounds, measured, why)))
    })
    .collect()
}

const CHANCE: &str = "\
Sixteen branches that are taken at random in a loop, which are predicted rightly half of the time, whatever
is asked for it. Of 8,192 the standard deviation is 45, or 0.0055; bounds are four of them to each side.
";

fn chance(known: &Known) -> Result<Vec<Measured>> {
    let rounds = 8192 / programs::RANDOM;
    let measured = per_round(known, &programs::random()?, known.wrong, rounds)?;
    let what = "branches at random: mispredicted of one".to_owned();
    let measured = measured / f64::from(programs::RANDOM);
    Ok(vec![(1, check(known, what, (0.478, 0.522), measured, "half of them"))])
}

const TARGETS: &str = "\
Branches that are all taken, one leading to the next, round and round: as many as the buffer has entries,
spread over all of its sets, and as many as a set has ways, all in one set; then one more in each set.
Entries that go are the least recently used on AMD's parts (by analogy with their caches: not sourced), so
that all are lost; on Intel's, any replacement loses at least `k - w` of `k - 1` (Belady, as above).
";

fn targets(known: &Known) -> Result<Vec<Measured>> {
    let more = if known.direction == Direction::Shared {
        (1.0, 1.0)
    } else {
        (1.0 / f64::from(known.ways), 1.0)
    };
    let all = known.targets();
    let measure = |branches: u32, apart: u32, fits: bool, plotted: u32| -> Result<Measured> {
        let rounds = (1_u32 << 14).div_ceil(branches);
        let routine = programs::taken(branches, apart);
        let unknown = per_round(known, &routine, known.unknown, rounds)? / f64::from(branches);
        let (bounds, why) = if fits {
            ((0.0, 0.0), "an entry for each")
        } else {
            (more, "one too many in each set that they are in")
        };
        let what = format!("{branches} branches {apart} bytes apart: unknown of one");
        Ok((plotted, check(known, what, bounds, unknown, why)))
    };
    // Those in one set are not in the plot.
    [
        (all / 2, known.apart, true, all / 2),
        (all, known.apart, true, all),
        (all + known.sets, known.apart, false, all + known.sets),
        (all * 2, known.apart, false, all * 2),
        (known.ways, known.span, true, 0),
        (known.ways + 1, known.span, false, 0),
    ]
    .into_iter()
    .map(|(branches, apart, fits, plotted)| measure(branches, apart, fits, plotted))
    .collect()
}

const RETURNS: &str = "\
Calls within calls, then as many returns: what the stack does not hold is not predicted rightly. Each call is
from another place, but on `p55c`, which falls back to where a return went last time, one function calls
itself from two places in turn.
";

fn returns(known: &Known) -> Result<Vec<Measured>> {
    let depth = known.returns;
    [1, 2, 3, 4, depth, depth + 1, depth + 2, depth + 4, depth + 8]
        .into_iter()
        .collect::<std::collections::BTreeSet<u32>>()
        .into_iter()
        .map(|calls| {
            let routine = if known.falls_back_to_last_target {
                programs::recursion(calls)?
            } else {
                programs::nested_calls(calls)?
            };
            let measured = per_round(known, &routine, known.wrong_returns, ROUNDS)?;
            let expected = f64::from(calls.saturating_sub(depth));
            let why =
                if calls <= depth { "all are on the stack" } else { "all but those on the stack" };
            let what = format!("{calls} calls within each other: returns mispredicted in a round");
            Ok((calls, check(known, what, (expected, expected), measured, why)))
        })
        .collect()
}

const INDIRECT: &str = "\
A jump that goes to 1, 2 or 4 places in turn. A target buffer knows where it went last time, which with more
than one place is always wrong. Where the path decides, it says which place comes next.
";

fn indirect(known: &Known) -> Result<Vec<Measured>> {
    [1, 2, 4]
        .into_iter()
        .map(|places| {
            let measured = per_round(known, &programs::indirect(places)?, known.wrong, ROUNDS)?;
            let (expected, why) = match (places, known.by_path) {
                (1, _) => (0.0, "where it went last time"),
                (_, true) => (0.0, "the path says which is next"),
                (_, false) => (1.0, "never where it went last time"),
            };
            let what = format!("indirect jump to {places} in turn: mispredicted");
            Ok((places, check(known, what, (expected, expected), measured, why)))
        })
        .collect()
}

fn plotted(title: &str, labels: &Labels, measured: &[Vec<Measured>]) -> Plot {
    let series = ALL.iter().zip(measured).map(|(known, measured)| {
        let points = measured.iter().filter(|(n, _)| *n > 0);
        let points = points.map(|(n, check)| (f64::from(*n), check.measured)).collect();
        Series { name: known.name.into(), points }
    });
    Plot {
        name: labels.name.into(),
        title: title.into(),
        x_label: labels.x,
        y_label: labels.y,
        x_tick: number,
        series: series.collect(),
        marks: Vec::new(),
    }
}
