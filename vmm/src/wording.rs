//! How several things are said in a sentence.

/// `a, b and c`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// The processors of these rising numbers, as in `vcpus 0, 4-7`.
pub(crate) fn numbers(ids: &[usize]) -> String {
    let runs: Vec<_> = ids
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            [one] => one.to_string(),
            [] => String::new(),
        })
        .collect();
    let what = if ids.len() == 1 { "vcpu" } else { "vcpus" };
    format!("{what} {}", runs.join(", "))
}

/// A text of somebody else's in quotation marks: how it begins, if it is long, and without anything that a terminal obeys.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_is_quoted_is_short_and_does_nothing() {
        assert_eq!(quoted("a\u{1b}[0m\n"), r#""a\u{1b}[0m\n""#);
        let text = "\u{e9}".repeat(60);
        assert_eq!(quoted(&text), format!("\"{text}\""));
        assert_eq!(quoted(&(text.clone() + "x")), format!("\"{text}\"..."));
    }
}
