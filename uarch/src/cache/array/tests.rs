//! The array, by hand and against the definitions of its policies.

use super::*;

fn array(sets: u32, ways: u32, replacement: Replacement) -> LineArray {
    LineArray::new(&ArrayGeometry { sets, ways, replacement })
}

fn fill(array: &mut LineArray, number: u64) -> Displaced {
    array.fill(Line { number, state: LineState::Shared, marked: false })
}

/// The line that a fill displaces.
fn displaced(array: &mut LineArray, number: u64) -> u64 {
    match fill(array, number) {
        Displaced::Line(line) => line.number,
        other => panic!("{other:?}"),
    }
}

/// An array that nothing was put into takes no memory, and has no line; with the first line it takes all.
#[test]
fn an_array_without_lines_takes_no_memory() {
    for replacement in [Replacement::Lru, Replacement::TreePseudoLru] {
        let mut array = array(8, 4, replacement);
        assert!(array.entries.is_empty() && array.orders.is_empty());
        array.clear();
        for number in 0..40 {
            assert_eq!((array.find_recent(number), array.find_and_touch(number)), (None, None));
            assert_eq!(array.state_of(number), LineState::Invalid);
        }
        assert_eq!(array.lines().count(), 0);
        assert_eq!(fill(&mut array, 39), Displaced::Nothing);
        assert_eq!(array.entries.len(), 32);
        assert_eq!((array.find_recent(39), array.find_recent(7)), (Some(28), None));
    }
}

#[test]
fn lru_replaces_the_line_used_longest_ago() {
    let mut array = array(2, 4, Replacement::Lru);
    for number in [0, 2, 4, 6] {
        assert_eq!(fill(&mut array, number), Displaced::Nothing);
    }
    // Line 1 is in the other set.
    assert_eq!(fill(&mut array, 1), Displaced::Nothing);
    array.find_and_touch(0);
    array.find_and_touch(4);
    assert_eq!(displaced(&mut array, 8), 2);
    assert_eq!(displaced(&mut array, 10), 6);
    assert_eq!(displaced(&mut array, 12), 0);
    assert_eq!(displaced(&mut array, 14), 4);
}

/// Ways 0 to 3 are used in this order. Then the root points to the lower half, and there the node points to
/// way 0. Using 0 turns both: the upper half, and there way 2, as 3 was used last.
#[test]
fn pseudo_lru_replaces_where_the_tree_points() {
    let mut array = array(1, 4, Replacement::TreePseudoLru);
    for number in 0..4 {
        fill(&mut array, number);
    }
    array.find_and_touch(0);
    assert_eq!(displaced(&mut array, 4), 2);
    // Now way 2 was used last, so the lower half, and there way 1. True LRU would take 3 after 1.
    assert_eq!(displaced(&mut array, 5), 1);
    assert_eq!(displaced(&mut array, 6), 3);
}

#[test]
fn sixteen_ways_are_replaced_in_order() {
    let mut array = array(1, 16, Replacement::Lru);
    for number in 0..16 {
        fill(&mut array, number);
    }
    for number in (0..16).rev() {
        array.find_and_touch(number);
    }
    for number in (0..16).rev() {
        assert_eq!(displaced(&mut array, 100 + number), number);
    }
}

#[test]
fn a_way_that_is_free_comes_first() {
    let mut array = array(1, 2, Replacement::Lru);
    fill(&mut array, 0);
    fill(&mut array, 1);
    let slot = array.find(1).unwrap();
    array.take(slot);
    assert_eq!(array.find(1), None);
    assert_eq!(fill(&mut array, 2), Displaced::TakenByProbe);
    let slot = array.find(2).unwrap();
    array.remove(slot);
    assert_eq!(fill(&mut array, 3), Displaced::Nothing);
    assert_eq!(array.lines().map(|line| line.number).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn a_line_keeps_its_state_and_its_mark() {
    let mut array = array(4, 2, Replacement::Lru);
    // The highest line of 52 address bits.
    let number = (1 << 47) - 1;
    let line = Line { number, state: LineState::Owned, marked: true };
    array.fill(line);
    let slot = array.find(number).unwrap();
    assert_eq!(array.line(slot), line);
    array.set_state(slot, LineState::Modified);
    assert_eq!(array.line(slot), Line { state: LineState::Modified, ..line });
    assert_eq!(array.state_of(number), LineState::Modified);
    assert_eq!(array.state_of(number - 4), LineState::Invalid);
    array.clear();
    assert_eq!(array.state_of(number), LineState::Invalid);
}
