//! `vpmu stat`: what a guest did, counted from outside. The guest programs nothing and sees nothing of it.

use std::fmt::Write;

use pmu_model::{Availability, EventDef, Metric, Personality};
use serde_json::{Map, Value, json};

use crate::engine::soft::TIER;
use crate::truth::Truth;
use crate::truth::record::DEFAULT_EVENTS;

/// What is to be counted and computed.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Names, separated by commas, as `--truth-events` takes them; `None` for the default ones.
    pub(crate) events: Option<&'a str>,
    /// Whether the part's metrics are.
    pub(crate) metrics: bool,
    /// Whether each processor has a column of its own.
    pub(crate) per_cpu: bool,
    pub(crate) json: bool,
}

impl Asked<'_> {
    /// All events that have to be recorded for that.
    pub(crate) fn recorded(&self, personality: &'static Personality) -> String {
        let mut names: Vec<&str> = match (self.events, self.metrics) {
            (Some(events), _) => events.split(',').collect(),
            (None, false) => DEFAULT_EVENTS.split(',').collect(),
            (None, true) => Vec::new(),
        };
        if self.metrics {
            let needed = personality.metrics.iter().flat_map(Metric::events);
            for name in needed.filter(|name| missing(personality, name).is_none()) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.join(",")
    }

    /// What was counted, for people or programs.
    pub(crate) fn report(
        &self,
        personality: &'static Personality,
        threads: u32,
        truth: &Truth,
    ) -> String {
        let counted = Counted::new(truth, self.per_cpu);
        let metrics = if self.metrics { personality.metrics } else { &[] };
        let metrics: Vec<_> = metrics
            .iter()
            .map(|metric| (metric, values(metric, personality, threads, &counted)))
            .collect();
        if self.json {
            return json(personality, &counted, &metrics);
        }
        table(personality, &counted, &metrics)
    }
}

/// Why an event does not count, as its availability says; `None` if it does.
fn missing(personality: &Personality, event: &str) -> Option<&'static str> {
    let availability = personality.event_by_name(event).map(|event: &EventDef| {
        event.availability_of(event.default_umask, personality.live.of(TIER))
    });
    match availability {
        Some(Availability::Live) => None,
        Some(other) => Some(other.name()),
        None => Some("unknown"),
    }
}

/// Counts by event, in columns.
struct Counted<'a> {
    names: Vec<&'a str>,
    /// The names of the columns: that of all processors, which has none, and those of each.
    columns: Vec<String>,
    /// By column and event.
    counts: Vec<Vec<u64>>,
}

impl<'a> Counted<'a> {
    fn new(truth: &'a Truth, per_cpu: bool) -> Self {
        let cpus = if per_cpu { truth.vcpus as usize } else { 0 };
        let mut counts = vec![vec![0; truth.events.len()]; 1 + cpus];
        for row in &truth.rows {
            crate::truth::add(&mut counts[0], &row.counts);
            if let Some(own) = counts.get_mut(1 + row.vcpu as usize) {
                crate::truth::add(own, &row.counts);
            }
        }
        let columns = ["all".to_owned()].into_iter().chain((0..cpus).map(|n| format!("cpu{n}")));
        Self {
            names: truth.events.iter().map(|event| event.name.as_str()).collect(),
            columns: columns.collect(),
            counts,
        }
    }

    fn of(&self, column: usize, event: &str) -> u64 {
        let at = self.names.iter().position(|name| *name == event);
        at.map_or(0, |at| self.counts[column][at])
    }
}

/// The values of a metric by column, or why there are none. A column without anything to divide by has none.
fn values(
    metric: &Metric,
    personality: &Personality,
    threads: u32,
    counted: &Counted<'_>,
) -> Result<Vec<Option<f64>>, String> {
    for event in metric.events() {
        if let Some(why) = missing(personality, event) {
            return Err(format!("{event} is {why}"));
        }
    }
    let columns = 0..counted.columns.len();
    Ok(columns.map(|n| metric.value(|event| counted.of(n, event), threads)).collect())
}

type Values<'a> = (&'a Metric, Result<Vec<Option<f64>>, String>);

fn table(personality: &Personality, counted: &Counted<'_>, metrics: &[Values<'_>]) -> String {
    let mut text = format!("{}, counted from outside:\n\n", personality.name);
    // Writing to a string does not fail.
    let columns: String = counted.columns.iter().map(|name| format!("{name:>18}")).collect();
    if counted.columns.len() > 1 {
        let _ = writeln!(text, "{columns}");
    }
    for name in &counted.names {
        let counts = 0..counted.columns.len();
        let counts: String =
            counts.map(|column| format!("{:>18}", grouped(counted.of(column, name)))).collect();
        let _ = writeln!(text, "{counts}  {name}");
    }
    if !metrics.is_empty() {
        text.push('\n');
    }
    for (metric, values) in metrics {
        let name = metric.name;
        let _ = match values {
            Ok(values) => {
                let value = |value: &Option<f64>| value.map_or("-".into(), |v| format!("{v:.4}"));
                let values: String =
                    values.iter().map(|each| format!("{:>18}", value(each))).collect();
                writeln!(text, "{values}  {name} = {metric}")
            }
            Err(why) => writeln!(text, "{:>18}  {name}: {why}", "-"),
        };
    }
    text
}

/// With a comma behind each three digits from the right.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn json(personality: &Personality, counted: &Counted<'_>, metrics: &[Values<'_>]) -> String {
    let column = |n: usize| {
        let events =
            counted.names.iter().map(|&name| (name.to_owned(), counted.of(n, name).into()));
        let metrics = metrics.iter().map(|(metric, values)| {
            let value = values.as_ref().ok().and_then(|values| values[n]);
            (metric.name.to_owned(), value.map_or(Value::Null, Value::from))
        });
        json!({ "events": Map::from_iter(events), "metrics": Map::from_iter(metrics) })
    };
    let columns = counted.columns.iter().enumerate().map(|(n, name)| (name.clone(), column(n)));
    let all = json!({ "cpu": personality.name, "counted": Map::from_iter(columns) });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{Event, Row};

    fn knc() -> &'static Personality {
        Personality::by_name("knc").unwrap()
    }

    const ALL: Asked<'_> = Asked { events: None, metrics: true, per_cpu: true, json: false };

    /// Two processors, of which the second has half of the vector instructions and a fourth of the elements.
    fn truth(asked: &Asked<'_>) -> Truth {
        let names = asked.recorded(knc());
        let count = |name: &str, vcpu: u32| match (name, vcpu) {
            ("VPU_INSTRUCTIONS_EXECUTED", 0) => 2_000,
            ("VPU_INSTRUCTIONS_EXECUTED", _) => 1_000,
            ("VPU_ELEMENTS_ACTIVE", 0) => 32_000,
            ("VPU_ELEMENTS_ACTIVE", _) => 8_000,
            _ => 0,
        };
        let rows = (0..2).map(|vcpu| Row {
            instruction: 0,
            vcpu,
            cpl: 0,
            counts: names.split(',').map(|name| count(name, vcpu)).collect(),
        });
        let events = names.split(',').map(|name| Event { name: name.into(), signals: Vec::new() });
        let (personality, vcpus) = ("knc".into(), 2);
        Truth {
            personality,
            vcpus,
            events: events.collect(),
            rows: rows.collect(),
            ..Truth::default()
        }
    }

    #[test]
    fn metrics_are_computed_by_column() {
        let text = ALL.report(knc(), 2, &truth(&ALL));
        let row = |end: &str| {
            let line = text
                .lines()
                .find(|line| line.contains(end))
                .unwrap_or_else(|| panic!("{end}: {text}"));
            let numbers = line.split_whitespace().take(3);
            numbers.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("  VPU_INSTRUCTIONS_EXECUTED"), ["3,000", "2,000", "1,000"]);
        assert_eq!(row("vectorization intensity"), ["13.3333", "16.0000", "8.0000"]);
        // Nothing to divide by.
        assert_eq!(row("CPI per thread"), ["-", "-", "-"]);
    }

    #[test]
    fn programs_get_the_same() {
        let asked = Asked { json: true, ..ALL };
        let value: Value = serde_json::from_str(&asked.report(knc(), 2, &truth(&asked))).unwrap();
        let of =
            |column: &str, kind: &str, name: &str| value["counted"][column][kind][name].clone();
        assert_eq!(of("cpu1", "events", "VPU_ELEMENTS_ACTIVE"), json!(8000));
        assert_eq!(of("cpu0", "metrics", "vectorization intensity"), json!(16.0));
        assert_eq!(of("all", "metrics", "CPI per thread"), Value::Null);
    }

    #[test]
    fn digits_are_in_groups() {
        let texts = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
