//! Metrics: what users of a processor compute from the counts of its events.

use core::fmt;

/// A ratio of sums of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Metric {
    /// The name that it goes by.
    pub name: &'static str,
    /// What is divided,
    pub numerator: &'static [Term],
    /// and by what. Never empty.
    pub denominator: &'static [Term],
    /// What the quotient is of.
    pub per: Per,
    /// What it tells.
    pub description: &'static str,
    /// Who says so.
    pub source: &'static str,
}

/// A count, times a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Term {
    /// The factor. A line of 64 bytes is 64 bytes.
    pub factor: i64,
    /// Name of the event, counted with its default unit mask.
    pub event: &'static str,
}

/// What the quotient of a metric is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Per {
    /// Of hardware threads.
    Thread,
    /// Of a core: it is divided by the number of threads that run on one.
    Core,
}

impl Metric {
    /// Its value, from what `count` says of each event and with so many threads on a core; `None` if it would be
    /// divided by zero or by less.
    pub fn value(&self, mut count: impl FnMut(&'static str) -> u64, threads: u32) -> Option<f64> {
        let mut sum = |terms: &[Term]| -> f64 {
            terms.iter().map(|term| term.factor as f64 * count(term.event) as f64).sum()
        };
        let (numerator, denominator) = (sum(self.numerator), sum(self.denominator));
        let parts = match self.per {
            Per::Thread => 1.0,
            Per::Core => f64::from(threads),
        };
        (denominator > 0.0).then(|| numerator / denominator / parts)
    }

    /// The events that it is computed from; one may come twice.
    pub fn events(&self) -> impl Iterator<Item = &'static str> {
        self.numerator.iter().chain(self.denominator).map(|term| term.event)
    }
}

/// The formula.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sum(f, self.numerator)?;
        f.write_str(" / ")?;
        sum(f, self.denominator)?;
        match self.per {
            Per::Thread => Ok(()),
            Per::Core => f.write_str(" / threads of a core"),
        }
    }
}

fn sum(f: &mut fmt::Formatter<'_>, terms: &[Term]) -> fmt::Result {
    let is_plain = matches!(terms, [Term { factor: 1, .. }]);
    if !is_plain {
        f.write_str("(")?;
    }
    for (n, term) in terms.iter().enumerate() {
        f.write_str(match (n, term.factor < 0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        })?;
        if term.factor.unsigned_abs() != 1 {
            write!(f, "{} * ", term.factor.unsigned_abs())?;
        }
        f.write_str(term.event)?;
    }
    f.write_str(if is_plain { "" } else { ")" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: Metric = Metric {
        name: "latency",
        numerator: &[
            Term { factor: 1, event: "CLOCKS" },
            Term { factor: -1, event: "BUSY" },
            Term { factor: 64, event: "LINES" },
        ],
        denominator: &[Term { factor: 1, event: "MISSES" }],
        per: Per::Core,
        description: "",
        source: "",
    };

    #[test]
    fn a_value_is_what_the_formula_says() {
        let count = |event: &str| match event {
            "CLOCKS" => 1000,
            "BUSY" => 400,
            "LINES" => 2,
            _ => 4,
        };
        // (1000 - 400 + 128) / 4 / 2
        assert_eq!(METRIC.value(count, 2), Some(91.0));
        assert_eq!(METRIC.value(|_| 0, 2), None);
    }

    #[test]
    fn a_formula_is_written_as_users_write_it() {
        extern crate std;
        let text = std::string::ToString::to_string(&METRIC);
        assert_eq!(text, "(CLOCKS - BUSY + 64 * LINES) / MISSES / threads of a core");
    }
}
