//! A part's walk: what each program moves each event by, and what is wrong with that.

use guest_tests::Part;
use pmu_model::{Availability, Personality};

use crate::expectations::{self, Expectation};
use crate::programs::{self, Program};
use crate::runner;
use crate::selects::Select;

/// What came of all programs on a part.
pub(crate) struct Walk {
    pub(crate) part: &'static Part,
    pub(crate) personality: &'static Personality,
    /// The programs that it can execute; the control program first.
    pub(crate) programs: Vec<Program>,
    /// What counts.
    pub(crate) rows: Vec<Row>,
    /// What waits for a model.
    pub(crate) pending: Vec<Select>,
    /// What cannot occur on this machine, or in these models.
    pub(crate) absent: Vec<Select>,
}

/// An event with one of its unit masks.
pub(crate) struct Row {
    pub(crate) select: Select,
    /// What each of [`Walk::programs`] moves it by.
    pub(crate) counts: Vec<u64>,
}

impl Walk {
    /// Executes all programs.
    pub(crate) fn new(name: &str) -> Self {
        let part = Part::by_name(name);
        let personality = Personality::by_name(name).expect("a personality");
        let (live, others): (Vec<_>, Vec<_>) = Select::all(personality)
            .into_iter()
            .partition(|select| select.availability == Availability::Live);
        let (absent, pending) =
            others.into_iter().partition(|select| select.availability == Availability::Absent);
        let programs: Vec<_> =
            programs::all().into_iter().filter(|program| (program.runs_on)(part)).collect();
        let columns: Vec<_> =
            programs.iter().map(|program| runner::counts(part, program, &live)).collect();
        let row =
            |(n, select)| Row { select, counts: columns.iter().map(|column| column[n]).collect() };
        let rows = live.into_iter().enumerate().map(row).collect();
        Self { part, personality, programs, rows, pending, absent }
    }

    /// Whether `expectation` is about this part.
    fn concerns(&self, expectation: &Expectation) -> bool {
        expectation.parts.contains(&self.part.name)
    }

    /// What is expected of `row`.
    pub(crate) fn expected(&self, row: &Row) -> Option<&'static Expectation> {
        expectations::all().find(|it| self.concerns(it) && it.event == row.select.name)
    }

    /// What the control program is expected to move `row` by, if it moves it.
    pub(crate) fn control(&self, row: &Row) -> Option<&'static Expectation> {
        expectations::of_control().find(|it| self.concerns(it) && it.event == row.select.name)
    }

    /// What `program` moves `row` by.
    pub(crate) fn count(&self, row: &Row, program: &str) -> u64 {
        let at = self.programs.iter().position(|known| known.name == program);
        row.counts[at.unwrap_or_else(|| panic!("{} has no program {program}", self.part.name))]
    }

    /// The programs that move `row` otherwise than the control program does, with their counts.
    pub(crate) fn moved<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'static str, u64)> {
        let programs = self.programs.iter().zip(&row.counts);
        programs
            .map(|(program, &count)| (program.name, count))
            .filter(|&(_, count)| count != row.counts[0])
    }

    /// A line for all that is not as it should be.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut complain = |text: String| complaints.push(format!("{}: {text}", self.part.name));
        for row in &self.rows {
            let name = &row.select.name;
            match (self.control(row), row.counts[0]) {
                (None, 0) => {}
                (None, count) => {
                    complain(format!("{name}: the control program moves it by {count}"));
                }
                (Some(expected), count) => {
                    if let Some(text) = differs(expected, count) {
                        complain(text);
                    }
                }
            }
            if self.moved(row).next().is_none() {
                complain(format!("{name}: nothing moves it"));
            }
        }
        for expected in expectations::all().filter(|expected| self.concerns(expected)) {
            match self.rows.iter().find(|row| row.select.name == expected.event) {
                None => complain(format!("{} is expected, and does not count", expected.event)),
                Some(row) => {
                    let count = self.count(row, expected.program);
                    if let Some(text) = differs(expected, count) {
                        complain(text);
                    }
                }
            }
        }
        complaints
    }
}

/// What is wrong with a count.
fn differs(expected: &Expectation, count: u64) -> Option<String> {
    let Expectation { event, program, at_least, at_most, why, .. } = expected;
    (!(*at_least..=*at_most).contains(&count)).then(|| {
        format!("{event}: {program} moves it by {count}, expected {at_least} to {at_most}: {why}")
    })
}
