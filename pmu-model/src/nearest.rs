//! The nearest known name to one that is not known.

use alloc::vec::Vec;

/// The candidate nearest to `name`, capitals and small letters alike: one that contains it, or
/// else one that the fewest changes of a letter lead to. The first of several; none only if there
/// is no candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_uppercase();
    candidates.into_iter().filter(|candidate| !candidate.is_empty()).min_by_key(|candidate| {
        let candidate = candidate.to_ascii_uppercase();
        let contains = !name.is_empty() && candidate.contains(&name);
        (!contains, if contains { candidate.len() } else { distance(&name, &candidate) })
    })
}

/// Letters to insert, remove or replace to turn one word into the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook pair: two replacements and one insertion.
    #[test]
    fn distance_counts_single_letter_changes() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn a_name_that_contains_the_word_beats_a_short_one() {
        assert_eq!(nearest("taken", ["token", "interrupts_taken"]), Some("interrupts_taken"));
        assert_eq!(nearest("k9", ["k8", "p55c"]), Some("k8"));
        assert_eq!(nearest("x", []), None);
    }
}
