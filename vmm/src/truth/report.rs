//! Counts, summed up by what they have in common.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use clap::ValueEnum;
use pmu_model::nearest;
use serde::Serialize;

use super::functions::{Function, FunctionIndex, Functions, printable, process};
use super::table::{Table, percentage};
use super::{Event, Instruction, Row, Space, Truth, add, disassembly};
use crate::error::{Error, Result};

/// What the rows of a line have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The function.
    #[default]
    Function,
    /// The instruction: its address and its bytes.
    Instruction,
    /// The program or library, or the kernel.
    Module,
    /// The address space.
    Process,
    /// The privilege level.
    Cpl,
    /// The processor.
    Vcpu,
}

/// The rows to be regarded: those that fit all that is `Some`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The privilege level.
    pub cpl: Option<u8>,
    /// The processor.
    pub vcpu: Option<u32>,
    /// The name of the space, or CR3 in hexadecimal with `0x`.
    pub space: Option<String>,
    /// The name of the function, or its first address or one of its instructions in hexadecimal with `0x`.
    pub function: Option<String>,
}

/// Counts by what they have in common, the highest first.
#[derive(Debug, Serialize)]
pub struct Report {
    personality: String,
    vcpus: u32,
    events: Vec<Event>,
    by: By,
    /// Of all rows that were regarded.
    total: Vec<u64>,
    pub(super) lines: Vec<Line>,
    /// Lines behind a limit.
    left_out: usize,
    #[serde(skip)]
    event: usize,
}

/// A line of a report.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) what: What,
    pub(super) counts: Vec<u64>,
}

/// What a line is about. Addresses are text: not every reader of JSON has integers of 64 bits.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum What {
    Function { function: String, module: String },
    Instruction(Code),
    Module { module: String },
    Process { process: String, cr3: Option<String> },
    Cpl { cpl: u8 },
    Vcpu { vcpu: u32 },
}

/// An instruction in words.
#[derive(Debug, Serialize)]
pub(super) struct Code {
    pub(super) address: String,
    pub(super) bits: u8,
    pub(super) bytes: String,
    pub(super) instruction: String,
    pub(super) function: String,
    pub(super) module: String,
    /// Function, address and length, as numbers.
    #[serde(skip)]
    pub(super) place: (FunctionIndex, u64, usize),
}

impl Report {
    /// Sums up the rows that `filter` lets through, sorts by the event of this index, and keeps the
    /// first `limit` lines.
    ///
    /// # Errors
    /// Nothing has the name that `filter` asks for.
    pub fn new(
        truth: &Truth,
        functions: &mut Functions,
        by: By,
        filter: &Filter,
        event: usize,
        limit: usize,
    ) -> Result<Self> {
        let rows = filter.rows(truth, functions)?;
        let mut total = vec![0; truth.events.len()];
        rows.iter().for_each(|found| add(&mut total, &found.row.counts));
        let mut sums = Sums { event, limit, left_out: 0 };
        let lines = match by {
            By::Function => sums.of(
                &rows,
                |found| found.function,
                |first| {
                    let Function { name, module } = functions.get(first.function).clone();
                    What::Function { function: name, module }
                },
            ),
            By::Instruction => {
                sums.of(&rows, Found::code, |first| What::Instruction(first.in_words(functions)))
            }
            By::Module => sums.of(
                &rows,
                |found| &functions.get(found.function).module,
                |first| What::Module { module: functions.get(first.function).module.clone() },
            ),
            By::Process => sums.of(
                &rows,
                |found| found.instruction.space,
                |first| What::process(&truth.spaces[first.instruction.space as usize]),
            ),
            By::Cpl => {
                sums.of(&rows, |found| found.row.cpl, |first| What::Cpl { cpl: first.row.cpl })
            }
            By::Vcpu => {
                sums.of(&rows, |found| found.row.vcpu, |first| What::Vcpu { vcpu: first.row.vcpu })
            }
        };
        Ok(Self {
            personality: truth.personality.clone(),
            vcpus: truth.vcpus,
            events: truth.events.clone(),
            by,
            total,
            lines,
            left_out: sums.left_out,
            event,
        })
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never in practice: all keys are strings.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e))
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> String {
        let headings: &[&str] = match self.by {
            By::Function => &["function", "module"],
            By::Instruction => &["address", "instruction", "function", "module"],
            By::Module => &["module"],
            By::Process => &["process", "cr3"],
            By::Cpl => &["cpl"],
            By::Vcpu => &["vcpu"],
        };
        let mut table = self.start(headings);
        for line in &self.lines {
            table.push(self.line(&line.counts, line.what.cells()));
        }
        if self.left_out > 0 {
            let mut rest = self.total.clone();
            for line in &self.lines {
                rest.iter_mut().zip(&line.counts).for_each(|(rest, count)| *rest -= count);
            }
            let text = format!("({} more)", self.left_out);
            table.push(self.line(&rest, vec![text]));
        }
        table.push(self.line(&self.total, vec!["(total)".into()]));
        table.text()
    }

    /// A table with a column for each event, one of percentages, and these.
    pub(super) fn start(&self, words: &[&str]) -> Table {
        let mut headings: Vec<_> = self.events.iter().map(|event| printable(&event.name)).collect();
        headings.insert(self.event + 1, "%".into());
        headings.extend(words.iter().map(|&word| word.to_owned()));
        Table::new(self.events.len() + 1, headings)
    }

    pub(super) fn line(&self, counts: &[u64], words: Vec<String>) -> Vec<String> {
        let mut cells: Vec<_> = counts.iter().map(ToString::to_string).collect();
        cells.insert(self.event + 1, percentage(counts[self.event], self.total[self.event]));
        cells.extend(words);
        cells
    }
}

impl What {
    fn process(space: &Space) -> Self {
        Self::Process { process: process(space), cr3: space.cr3.map(|cr3| format!("{cr3:#x}")) }
    }

    fn cells(&self) -> Vec<String> {
        match self {
            Self::Function { function, module } => vec![function.clone(), module.clone()],
            Self::Instruction(Code { address, instruction, function, module, .. }) => {
                [address, instruction, function, module].map(String::clone).into()
            }
            Self::Module { module } => vec![module.clone()],
            Self::Process { process, cr3 } => {
                vec![process.clone(), cr3.clone().unwrap_or_default()]
            }
            Self::Cpl { cpl } => vec![cpl.to_string()],
            Self::Vcpu { vcpu } => vec![vcpu.to_string()],
        }
    }
}

/// A row and where it belongs.
struct Found<'t> {
    row: &'t Row,
    instruction: &'t Instruction,
    function: FunctionIndex,
}

impl<'t> Found<'t> {
    /// What makes instructions the same: those of a kernel are in many spaces.
    fn code(&self) -> (FunctionIndex, u64, u8, &'t [u8]) {
        let Instruction { address, bits, bytes, .. } = self.instruction;
        (self.function, *address, *bits, bytes)
    }

    fn in_words(&self, functions: &Functions) -> Code {
        let Instruction { address, bits, bytes, .. } = self.instruction;
        let Function { name, module } = functions.get(self.function).clone();
        Code {
            address: format!("{address:#x}"),
            bits: *bits,
            bytes: disassembly::bytes(bytes),
            instruction: disassembly::text(self.instruction, functions),
            function: name,
            module,
            place: (self.function, *address, bytes.len()),
        }
    }
}

impl Filter {
    /// The rows that it lets through.
    fn rows<'t>(&self, truth: &'t Truth, functions: &mut Functions) -> Result<Vec<Found<'t>>> {
        let spaces = self.spaces(truth)?;
        let mut rows = vec![];
        for row in &truth.rows {
            let instruction = &truth.instructions[row.instruction as usize];
            if self.cpl.is_none_or(|cpl| row.cpl == cpl)
                && self.vcpu.is_none_or(|vcpu| row.vcpu == vcpu)
                && spaces[instruction.space as usize]
            {
                let function = functions.at(instruction.space, row.cpl, instruction.address);
                rows.push(Found { row, instruction, function });
            }
        }
        if let Some(name) = &self.function {
            let wanted = wanted(&rows, functions, name)?;
            rows.retain(|found| wanted.contains(&found.function));
        }
        Ok(rows)
    }

    /// Whether each space fits.
    fn spaces(&self, truth: &Truth) -> Result<Vec<bool>> {
        let Some(wanted) = &self.space else { return Ok(vec![true; truth.spaces.len()]) };
        let fits = |space: &Space| {
            process(space) == *wanted || space.cr3.is_some_and(|cr3| hex(wanted) == Some(cr3))
        };
        let spaces: Vec<_> = truth.spaces.iter().map(fits).collect();
        if !spaces.contains(&true) {
            let names: Vec<_> = truth.spaces.iter().map(process).collect();
            return Err(unknown("space", wanted, names.iter().map(String::as_str)));
        }
        Ok(spaces)
    }
}

/// The functions of this name, or that were executed at this address.
fn wanted(rows: &[Found], functions: &Functions, name: &str) -> Result<BTreeSet<FunctionIndex>> {
    let address = hex(name);
    let fits = |found: &&Found| {
        functions.get(found.function).name == name
            || address.is_some_and(|address| found.instruction.address == address)
    };
    let wanted: BTreeSet<_> = rows.iter().filter(fits).map(|found| found.function).collect();
    if wanted.is_empty() {
        let names = rows.iter().map(|found| functions.get(found.function).name.as_str());
        return Err(unknown("function", name, names));
    }
    Ok(wanted)
}

/// The error for a name that nothing has.
pub(super) fn unknown<'n>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Error {
    let names: BTreeSet<_> = names.into_iter().collect();
    let hint = nearest(name, names).map_or(String::new(), |n| format!("; did you mean {n}?"));
    Error::Usage(format!("no {what} {name:?} in the file{hint}"))
}

/// A number with `0x`.
fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// How rows are summed up.
struct Sums {
    event: usize,
    limit: usize,
    left_out: usize,
}

impl Sums {
    /// Adds up the rows of each key and says of its first row what they are. Lines with the same count
    /// are in the order of the keys.
    fn of<'f, 't, K: Ord + Hash + Clone>(
        &mut self,
        rows: &'f [Found<'t>],
        key: impl Fn(&'f Found<'t>) -> K,
        what: impl Fn(&Found<'t>) -> What,
    ) -> Vec<Line> {
        let mut groups: Vec<(K, &Found, Vec<u64>)> = vec![];
        let mut by_key = HashMap::new();
        for found in rows {
            let group = *by_key.entry(key(found)).or_insert_with_key(|key: &K| {
                groups.push((key.clone(), found, vec![0; found.row.counts.len()]));
                groups.len() - 1
            });
            add(&mut groups[group].2, &found.row.counts);
        }
        groups.sort_by(|(a, _, a_counts), (b, _, b_counts)| {
            b_counts[self.event].cmp(&a_counts[self.event]).then_with(|| a.cmp(b))
        });
        self.left_out = groups.len().saturating_sub(self.limit);
        groups.truncate(self.limit);
        groups.into_iter().map(|(_, first, counts)| Line { what: what(first), counts }).collect()
    }
}
