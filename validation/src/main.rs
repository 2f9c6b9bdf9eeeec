//! Runs what `docs/validation.md` tells of, and writes it: `cargo run --release -p validation [-- SECTION...]`.
//!
//! SECTION is any of the names in [`validation::SECTIONS`]; all of them without. Sections that are not run
//! stay as they are in the document. Exit status 1 if a number is outside of its bounds; the document is
//! written all the same.

use std::process::ExitCode;

use validation::check::Check;
use validation::{Extent, Result, SECTIONS, Section, document};

fn main() -> ExitCode {
    match validate() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("validation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many numbers are outside of their bounds.
fn validate() -> Result<usize> {
    let mut wanted: Vec<&Section> = Vec::new();
    for name in std::env::args().skip(1) {
        let known = || SECTIONS.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
        let section = SECTIONS.iter().find(|section| section.name == name);
        wanted.push(section.ok_or_else(|| format!("{name}: not one of {}", known()))?);
    }
    if wanted.is_empty() {
        wanted = SECTIONS.iter().collect();
    }
    let mut complaints = 0;
    for section in wanted {
        eprintln!("validation: {}", section.name);
        let report = (section.run)(Extent::Full)?;
        for complaint in report.checks.iter().filter_map(Check::complaint) {
            complaints += 1;
            eprintln!("validation: {complaint}");
        }
        document::write(section, &report)?;
    }
    Ok(complaints)
}
