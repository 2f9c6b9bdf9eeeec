//! Whether an output is what a document shows of it.

use libtest_mimic::Trial;

/// What stands for anything.
const ANYTHING: &str = "...";

/// Whether `printed` is `shown`; else the lines that differ first.
///
/// # Errors
/// What was shown and what was printed instead.
pub(crate) fn compare(shown: &str, printed: &str) -> Result<(), String> {
    let shown_lines: Vec<_> = shown.lines().map(str::trim_end).collect();
    let printed_lines: Vec<_> = printed.lines().map(str::trim_end).collect();
    if lines_match(&shown_lines, &printed_lines) {
        return Ok(());
    }
    Err(format!("the document shows\n{shown}and this is printed:\n{printed}"))
}

/// The text with one digit for every word that has one: all that is a number, decimal or hexadecimal.
pub(crate) fn without_numbers(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_word) {
        let (before, word) = rest.split_at(at);
        let (word, behind) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
        result += before;
        result += if word.contains(|c: char| c.is_ascii_digit()) { "0" } else { word };
        rest = behind;
    }
    result + rest
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == ANYTHING => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, more)| line_matches(first, line) && lines_match(rest, more)),
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let parts: Vec<_> = shown.split(ANYTHING).collect();
    let [first, between @ .., last] = &parts[..] else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    let numbers = || {
        let (text, expected) =
            ("0008:00200062 <main+0x62>: 12 of 1f, x\n", "0:0 <main+0>: 0 of 0, x\n");
        let found = without_numbers(text);
        if found == expected { Ok(()) } else { Err(found.into()) }
    };
    vec![
        Trial::test("compare::numbers", numbers),
        Trial::test("compare::what_stands_for_anything", || {
            for (shown, printed, same) in [
                ("a\n", "a\n", true),
                ("a\n", "a  \n", true),
                ("a\n", "a\n\n", false),
                ("a\n", "b\n", false),
                ("a\n...\n", "a\nb\nc\n", true),
                ("a\n...\nc\n", "a\nb\nc\n", true),
                ("a\n...\nc\n", "a\nc\n", true),
                ("a\n...\nd\n", "a\nb\nc\n", false),
                ("a ... c\n", "a b c\n", true),
                ("a ... c\n", "a b\n", false),
                ("a ... c ... c\n", "a b c\n", false),
                ("a...a\n", "a\n", false),
                ("1 ...\n", "1 x y\n", true),
                ("1 ...\n", "2 x\n", false),
                ("", "a\n", false),
            ] {
                if compare(shown, printed).is_ok() != same {
                    return Err(format!("{shown:?} and {printed:?}").into());
                }
            }
            Ok(())
        }),
    ]
}
