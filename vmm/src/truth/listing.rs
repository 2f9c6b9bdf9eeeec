//! The instructions of a function, each with its counts.

use super::Truth;
use super::functions::{FunctionIndex, Functions};
use super::report::{By, Code, Filter, Report, What};
use super::table::Table;
use crate::error::Result;

/// The instructions that `filter` lets through, by function and address; percentages are of the event
/// of this index.
///
/// # Errors
/// Nothing has the name that `filter` asks for.
pub fn report(
    truth: &Truth,
    functions: &mut Functions,
    filter: &Filter,
    event: usize,
) -> Result<Report> {
    let mut report = Report::new(truth, functions, By::Instruction, filter, event, usize::MAX)?;
    report.lines.sort_by(|a, b| place(&a.what).cmp(&place(&b.what)));
    Ok(report)
}

/// What lines are sorted by: the rest tells the codes of one address apart.
fn place(what: &What) -> Option<(FunctionIndex, u64, u8, &str)> {
    let What::Instruction(code) = what else { return None };
    let (function, address, _) = code.place;
    Some((function, address, code.bits, &code.bytes))
}

/// The same as text: a table for each function. A line of dots stands for bytes that were not executed.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut table: Option<(FunctionIndex, Table)> = None;
    let mut next = None;
    for line in &report.lines {
        let What::Instruction(code) = &line.what else { continue };
        let Code { address, bytes, instruction, function, module, place, .. } = code;
        let (index, start, length) = *place;
        if table.as_ref().is_none_or(|(of, _)| *of != index) {
            if let Some((_, table)) = table.take() {
                text += &table.text();
                text.push('\n');
            }
            text += &format!("{function}  {module}\n");
            table = Some((index, report.start(&["address", "bytes", "instruction"])));
            next = None;
        }
        let Some((_, table)) = &mut table else { continue };
        if next.is_some_and(|next| start > next) {
            table.push(vec!["...".into()]);
        }
        next = next.max(Some(start.saturating_add(length as u64)));
        let words = [address, bytes, instruction].map(String::clone);
        table.push(report.line(&line.counts, words.into()));
    }
    text + &table.map_or(String::new(), |(_, table)| table.text())
}
