//! `docs/models.md` lists every figure of the models for which no document was found: those whose comment
//! says "not sourced". And the README has the numbers of events that the generated page has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidy::{read, root};

const MARK: &str = "not sourced";

/// The source files below a folder, without those of tests.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.is_dir() && name != "tests" {
            files(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The name that a line of code declares, behind words such as `pub const`.
fn declared(line: &str) -> &str {
    let words = ["pub", "const", "static", "fn", "struct", "mod"];
    let is_name = |word: &&str| {
        !words.contains(word) && !word.starts_with("pub(") && !word.starts_with("impl")
    };
    let word = line.split_whitespace().find(is_name).unwrap_or_default();
    word.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// What a file's comments call "not sourced", with how often: an item, a field of an item as
/// `ITEM.field`, and `the file` of a comment that is about all of it.
fn unsourced(text: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let (mut item, mut comment) = ("", String::new());
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(words) = code.strip_prefix("//") {
            comment += words.trim_start_matches(['/', '!']);
            if code.starts_with("//!") && comment.to_lowercase().contains(MARK) {
                found.insert("the file".to_owned(), 1);
                comment.clear();
            }
            continue;
        }
        if code.starts_with("#[") {
            continue;
        }
        let is_item = line == code && line.starts_with(|c: char| c.is_alphabetic());
        if is_item {
            item = declared(line);
        }
        if comment.to_lowercase().contains(MARK) || code.contains(MARK) {
            let field = code.split_once(": ").map(|(field, _)| field).filter(|field| {
                !is_item
                    && !field.is_empty()
                    && field.chars().all(|c| c.is_alphanumeric() || c == '_')
            });
            let name = field.map_or_else(|| item.to_owned(), |field| format!("{item}.{field}"));
            *found.entry(name).or_default() += 1;
        }
        comment.clear();
    }
    found
}

#[test]
fn what_is_not_sourced_is_listed() {
    let folder = root().join("uarch/src");
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    paths.sort();
    let mut table = String::from("| In `uarch/src/` | Not sourced |\n|---|---|\n");
    for path in paths {
        let found = unsourced(&read(&path));
        let name = path.strip_prefix(&folder).expect("it is below").display().to_string();
        // This one says what the words mean.
        if found.is_empty() || name == "part/mod.rs" {
            continue;
        }
        let cells: Vec<_> = found
            .iter()
            .map(|(name, &n)| match (name.as_str(), n) {
                ("the file", _) => name.clone(),
                (name, 1) => format!("`{name}`"),
                (name, n) => format!("`{name}` {n} times"),
            })
            .collect();
        table += &format!("| `{name}` | {} |\n", cells.join(", "));
    }
    let page = read(&root().join("docs/models.md"));
    // At its end, so that no row is left that nothing stands behind.
    assert!(page.ends_with(&table), "docs/models.md does not have this table:\n{table}");
}

#[test]
fn comments_are_understood() {
    let text = "//! All of it is
//! not sourced.

/// Sourced.
const A: u8 = 1;
/// This is not
/// sourced.
pub const B: u8 = 2;

pub static C: D = D {
    // Not sourced.
    first: 1,
    second: 2,
    third: E {
        // Not sourced.
        row(3),
    },
};
";
    let found = unsourced(text);
    let names: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(names, [("B", 1), ("C", 1), ("C.first", 1), ("the file", 1)]);
}

/// The numbers in the rows of a table whose first cell has the name of a processor, which is in brackets
/// or backticks: all cells that are numbers.
fn numbers(page: &str, header: &str) -> BTreeMap<String, Vec<u64>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().unwrap_or_default();
        let name = name.split(']').next().unwrap_or_default().trim_matches(['`', '[']);
        (name.to_owned(), cells.filter_map(|cell| cell.parse().ok()).collect())
    })
    .collect()
}

/// Events, exact, modelled, estimated, absent, live, partly live, pending.
#[test]
fn the_readme_has_the_numbers_of_the_page_of_events() {
    let page = numbers(&read(&root().join("docs/events.md")), "| Processor | Events |");
    let readme = numbers(&read(&root().join("README.md")), "| `--cpu` |");
    assert!(page.len() > 1 && page.values().all(|row| row.len() == 8), "{page:?}");
    assert_eq!(readme, page);
}
