//! The quick parts of the sections: every number within its bounds, and the one that `docs/validation.md`
//! has.

use std::collections::HashSet;

use validation::{Extent, SECTIONS, document};

#[test]
fn numbers_are_within_their_bounds_and_in_the_document() {
    let document = document::text();
    let lines: HashSet<&str> = document.lines().collect();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for section in SECTIONS {
        let report = (section.run)(Extent::Quick).expect("programs that run");
        checked += report.checks.len();
        wrong.extend(report.checks.iter().filter_map(validation::check::Check::complaint));
        let rows = report.text.lines().filter(|line| line.starts_with('|'));
        let others = rows.filter(|row| !lines.contains(row));
        wrong.extend(others.map(|row| format!("{}: not in the document: {row}", section.name)));
    }
    assert!(checked > 500, "{checked} numbers were looked at");
    assert!(
        wrong.is_empty(),
        "{}\nIf a bound is broken, a model is. Otherwise `cargo run --release -p validation` writes \
         the document anew.",
        wrong.join("\n")
    );
}
