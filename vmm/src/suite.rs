//! Guest images that test something: several at once, and what became of them as TAP and as JUnit's XML.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::error::Result;

/// So many lines of a console are part of a failed test's diagnosis in TAP.
const LAST_LINES: usize = 20;

/// An image on a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The processor, by its name on the command line.
    pub cpu: &'static str,
    /// The image, as it was given.
    pub image: String,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it has not passed; `None` if it has.
    pub failure: Option<String>,
    /// If it has not: where its processors were, what they did last and what kept its counters from counting, a
    /// line each.
    pub diagnosis: Vec<String>,
    /// What the guest printed.
    pub console: String,
}

/// Executes the cases, `jobs` of them at once, and reports each in the order of the cases, as soon as that is
/// possible. A case that panics has failed.
///
/// # Errors
/// That of a report; no further case is begun then.
pub fn run(
    cases: &[Case],
    jobs: usize,
    execute: impl Fn(usize) -> Outcome + Sync,
    mut report: impl FnMut(usize, &Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let work = |done: &mpsc::Sender<(usize, Outcome)>| {
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= cases.len() {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| execute(case)));
            let outcome = outcome.unwrap_or_else(|_| Outcome {
                failure: Some("vpmu itself has failed; see standard error".into()),
                diagnosis: Vec::new(),
                console: String::new(),
            });
            // Nobody listens any more once a report has failed.
            let _ = done.send((case, outcome));
        }
    };
    thread::scope(|scope| {
        let (done, outcomes) = mpsc::channel();
        for _ in 0..jobs.clamp(1, cases.len().max(1)) {
            let (done, work) = (done.clone(), &work);
            scope.spawn(move || work(&done));
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut reported = Vec::new();
        for (case, outcome) in outcomes {
            early.insert(case, outcome);
            while let Some(outcome) = early.remove(&reported.len()) {
                if let Err(error) = report(reported.len(), &outcome) {
                    next.store(cases.len(), Ordering::Relaxed);
                    return Err(error);
                }
                reported.push(outcome);
            }
        }
        Ok(reported)
    })
}

/// The head of a report in TAP, of so many cases.
#[must_use]
pub fn tap_head(cases: usize) -> String {
    format!("TAP version 13\n1..{cases}\n")
}

/// A case in TAP; one that has failed with a diagnosis in YAML.
#[must_use]
pub fn tap_line(index: usize, case: &Case, outcome: &Outcome) -> String {
    let name = printable(&format!("{}: {}", case.cpu, case.image));
    // A # would begin a directive such as SKIP.
    let name = name.replace('\\', "\\\\").replace('#', "\\#");
    let number = index + 1;
    let Some(failure) = &outcome.failure else { return format!("ok {number} - {name}\n") };
    let message = printable(failure).replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = format!("not ok {number} - {name}\n  ---\n  message: \"{message}\"\n");
    let console: Vec<_> = outcome.console.lines().collect();
    let console = &console[console.len().saturating_sub(LAST_LINES)..];
    let diagnosis: Vec<_> = outcome.diagnosis.iter().map(String::as_str).collect();
    for (key, lines) in [("diagnosis", &diagnosis[..]), ("console", console)] {
        if !lines.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {key}: |2");
        }
        for line in lines {
            let _ = writeln!(text, "    {}", printable(line));
        }
    }
    text + "  ...\n"
}

/// All cases in JUnit's XML, of which programs for continuous integration are readers. It has no times, so
/// that equal runs are equal files.
#[must_use]
pub fn junit(cases: &[Case], outcomes: &[Outcome]) -> String {
    let failures = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let numbers = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\"", cases.len());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {numbers}>\n  \
         <testsuite name=\"vpmu\" {numbers} skipped=\"0\">\n"
    );
    for (case, outcome) in cases.iter().zip(outcomes) {
        let (class, name) = (escaped(case.cpu), escaped(&case.image));
        let _ = writeln!(text, "    <testcase classname=\"{class}\" name=\"{name}\">");
        if let Some(failure) = &outcome.failure {
            let diagnosis = escaped(&outcome.diagnosis.join("\n"));
            let _ = writeln!(
                text,
                "      <failure message=\"{}\">{diagnosis}</failure>",
                escaped(failure)
            );
        }
        let _ = writeln!(text, "      <system-out>{}</system-out>", escaped(&outcome.console));
        text.push_str("    </testcase>\n");
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// The same without characters that would end a line or steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{FFFD}' } else { c }).collect()
}

/// Text for XML 1.0, which has no way to write most control characters, nor U+FFFE and U+FFFF.
fn escaped(text: &str) -> String {
    let mut all = String::new();
    for c in text.chars() {
        match c {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\r' => {}
            '\n' | '\t' => all.push(c),
            '\u{FFFE}' | '\u{FFFF}' => all.push('\u{FFFD}'),
            c if c.is_control() => all.push('\u{FFFD}'),
            c => all.push(c),
        }
    }
    all
}

/// A failure of the whole if any case has failed, as the exit status has it.
#[must_use]
pub fn status(outcomes: &[Outcome]) -> u8 {
    u8::from(outcomes.iter().any(|outcome| outcome.failure.is_some()))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::error::Error;

    fn cases(number: usize) -> Vec<Case> {
        (0..number).map(|n| Case { cpu: "k8", image: format!("image {n}") }).collect()
    }

    fn passed(console: &str) -> Outcome {
        Outcome { failure: None, diagnosis: vec![], console: console.into() }
    }

    /// Two wait for each other, so they run at once; and the first is the last to end.
    #[test]
    fn cases_run_at_once_and_are_reported_in_order() {
        let cases = cases(5);
        let together = Barrier::new(2);
        let last = Barrier::new(2);
        let execute = |case: usize| {
            if case < 2 {
                together.wait();
            }
            if case == 0 || case == 4 {
                last.wait();
            }
            assert!(case != 3, "a case that panics");
            passed(&case.to_string())
        };
        let mut order = Vec::new();
        let outcomes = run(&cases, 2, execute, |case, outcome| {
            order.push((case, outcome.failure.is_none()));
            Ok(())
        });
        assert_eq!(order, [(0, true), (1, true), (2, true), (3, false), (4, true)]);
        let outcomes = outcomes.unwrap();
        assert_eq!((outcomes[4].console.as_str(), status(&outcomes)), ("4", 1));
        assert_eq!(status(&outcomes[..3]), 0);
    }

    #[test]
    fn a_report_that_fails_ends_all() {
        let ran = AtomicUsize::new(0);
        let execute = |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            passed("")
        };
        let report = |_, _: &Outcome| Err(Error::Host("full".into()));
        let cases = cases(1000);
        let execute = |case| {
            // The worker is not faster than the one who reports.
            thread::sleep(std::time::Duration::from_millis(1));
            execute(case)
        };
        assert!(run(&cases, 1, execute, report).is_err());
        assert!(ran.load(Ordering::Relaxed) < 1000);
    }

    /// By the TAP 13 specification: # begins a directive, the diagnosis is indented YAML.
    #[test]
    fn names_and_consoles_cannot_break_the_report() {
        let case = Case { cpu: "p6", image: "a#SKIP\nok 2".into() };
        let failed = Outcome {
            failure: Some("\"no\"".into()),
            diagnosis: vec!["at <main>: ud2".into()],
            console: "one\n...\n\u{1b}[2J".into(),
        };
        let expected = "not ok 1 - p6: a\\#SKIP\u{FFFD}ok 2\n  ---\n  message: \"\\\"no\\\"\"\n  \
                        diagnosis: |2\n    at <main>: ud2\n  console: |2\n    one\n    ...\n    \u{FFFD}[2J\n  ...\n";
        assert_eq!(tap_line(0, &case, &failed), expected);
        assert_eq!(tap_line(1, &cases(1)[0], &passed("x")), "ok 2 - k8: image 0\n");
        let xml = junit(&[case], &[failed]);
        assert!(xml.contains("<testsuite name=\"vpmu\" tests=\"1\" failures=\"1\""), "{xml}");
        assert!(
            xml.contains("<failure message=\"&quot;no&quot;\">at &lt;main&gt;: ud2</failure>"),
            "{xml}"
        );
        assert!(xml.contains("<system-out>one\n...\n\u{FFFD}[2J</system-out>"), "{xml}");
    }
}
