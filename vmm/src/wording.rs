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
