//! A measured number beside what was worked out for it by hand.

use std::fmt::Write;

/// A number that a program gave, and the bounds that were worked out for it.
#[derive(Clone, Debug)]
pub struct Check {
    /// The processor, by its name on the command line.
    pub part: &'static str,
    /// What was measured.
    pub what: String,
    /// It has to be at least this,
    pub at_least: f64,
    /// and at most this.
    pub at_most: f64,
    /// What it is.
    pub measured: f64,
    /// How the bounds are worked out, and from which document.
    pub why: String,
    /// Why it is known to be outside of the bounds; then it has to be outside.
    pub outside: Option<&'static str>,
}

/// Figures are compared and printed to three decimals.
const SCALE: f64 = 1000.0;

fn rounded(value: f64) -> i64 {
    (value * SCALE).round() as i64
}

/// A figure with as many of three decimals as it has.
#[must_use]
pub fn figure(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

impl Check {
    /// Whether the measured number is within the bounds.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        (rounded(self.at_least)..=rounded(self.at_most)).contains(&rounded(self.measured))
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let Self { part, what, why, .. } = self;
        let measured = figure(self.measured);
        match (self.is_inside(), self.outside) {
            (true, None) | (false, Some(_)) => None,
            (false, None) => {
                Some(format!("{part}: {what}: {measured}, expected {}: {why}", self.expected()))
            }
            (true, Some(reason)) => Some(format!(
                "{part}: {what}: {measured} is within its bounds, though it is listed as outside: \
                 {reason}"
            )),
        }
    }

    /// The bounds, or the number that they are.
    #[must_use]
    pub fn expected(&self) -> String {
        let (least, most) = (figure(self.at_least), figure(self.at_most));
        if least == most { least } else { format!("{least} to {most}") }
    }

    /// The row of [`table`].
    #[must_use]
    pub fn row(&self) -> String {
        let Self { part, what, why, .. } = self;
        let (expected, measured) = (self.expected(), figure(self.measured));
        match self.outside {
            None => format!("| `{part}` | {what} | {expected} | {measured} | {why} |"),
            Some(reason) => format!(
                "| `{part}` | {what} | {expected} | **{measured}**, outside: {reason} | {why} |"
            ),
        }
    }
}

/// A table in Markdown.
#[must_use]
pub fn table(checks: &[Check]) -> String {
    let mut text =
        String::from("| Part | What | Expected | Measured | Why |\n|---|---|--:|--:|---|\n");
    for check in checks {
        let _ = writeln!(text, "{}", check.row());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(measured: f64, outside: Option<&'static str>) -> Check {
        Check {
            part: "k8",
            what: "misses".into(),
            at_least: 0.5,
            at_most: 1.0,
            measured,
            why: "by hand".into(),
            outside,
        }
    }

    #[test]
    fn what_is_outside_is_said_and_has_to_stay_outside() {
        assert!(check(0.5, None).complaint().is_none());
        assert!(check(0.4, None).complaint().is_some());
        assert!(check(0.4, Some("a reason")).complaint().is_none());
        assert!(check(0.5, Some("a reason")).complaint().is_some());
        assert_eq!(check(0.25, None).row(), "| `k8` | misses | 0.5 to 1 | 0.25 | by hand |");
    }
}
