//! `docs/validation.md` and the plots beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Report, Result, SECTIONS, Section};

const HEAD: &str = "\
# Validation

Programs whose outcome is known by other means than the models, and what the models give for them. Made by
`cargo run --release -p validation`, plots included; do not edit. Each number stands beside the bounds that
were worked out for it by hand, from the document that is named; what is outside of them is in bold, with
the reason. The test `bounds` of the crate `validation` runs the quick parts again: it fails if a number
leaves its bounds, and if it is not the one that stands here.

[The models](models.md) says what they are and what of them has no source.
";

/// The folder of the documents.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The document as it is; empty if there is none.
#[must_use]
pub fn text() -> String {
    fs::read_to_string(folder().join("validation.md")).unwrap_or_default()
}

/// Puts `report` into the document in the place of what is there of `section`, and its plots beside it.
///
/// # Errors
/// If a file cannot be written.
pub fn write(section: &Section, report: &Report) -> Result<()> {
    let plots = folder().join("validation");
    fs::create_dir_all(&plots).map_err(|error| format!("{}: {error}", plots.display()))?;
    for plot in &report.plots {
        replace(&plots.join(format!("{}.svg", plot.name)), &plot.svg())?;
    }
    let text = with(&text(), section, &report.text);
    replace(&folder().join("validation.md"), &text)
}

/// `document` with `text` under the heading of `section`.
fn with(document: &str, section: &Section, text: &str) -> String {
    let mut all = String::from(HEAD);
    for known in SECTIONS {
        let body = if known.name == section.name {
            Some(text.trim())
        } else {
            body(document, known).map(str::trim)
        };
        if let Some(body) = body {
            all += &format!("\n## {}\n\n{body}\n", known.title);
        }
    }
    all
}

/// What a document has under a section's heading.
fn body<'a>(document: &'a str, section: &Section) -> Option<&'a str> {
    let heading = format!("\n## {}\n", section.title);
    let (_, behind) = document.split_once(&heading)?;
    Some(behind.split_once("\n## ").map_or(behind, |(body, _)| body))
}

/// Writes a file whole or not at all.
fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_itself_alone() {
        let [first, ..] = SECTIONS else { panic!("a section") };
        let once = with("", first, "one\n\n### deeper\n\ntext");
        assert!(once.ends_with("\n\none\n\n### deeper\n\ntext\n"), "{once}");
        assert_eq!(body(&once, first).map(str::trim), Some("one\n\n### deeper\n\ntext"));
        assert_eq!(with(&once, first, "two"), with("", first, "two"));
    }
}
