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

/// Numbers, each made from the one before.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A set as the manuals have it: ways with lines, and in which order they were used, the last first. An `Err` is a free
/// way, and says whether a probe has taken what was there.
struct Set {
    ways: Vec<Result<Line, bool>>,
    used: Vec<usize>,
}

impl Set {
    fn way_of(&self, number: u64) -> Option<usize> {
        self.ways.iter().position(|way| way.is_ok_and(|line| line.number == number))
    }

    fn touch(&mut self, way: usize) {
        self.used.retain(|&used| used != way);
        self.used.insert(0, way);
    }

    fn fill(&mut self, line: Line) -> Displaced {
        let free = self.ways.iter().position(Result::is_err);
        let way = free.unwrap_or_else(|| self.used[self.used.len() - 1]);
        let displaced = match self.ways[way] {
            Ok(line) => Displaced::Line(line),
            Err(true) => Displaced::TakenByProbe,
            Err(false) => Displaced::Nothing,
        };
        self.ways[way] = Ok(line);
        self.touch(way);
        displaced
    }
}

/// Lines that come, are looked for and go, in arrays of 1 to 16 ways: few numbers, of which many are alike in the bits
/// next to those that select the set and differ only above, so that whatever is compared of less than the whole number
/// finds the wrong one; and sets that are full by turns and not.
#[test]
fn lines_are_where_a_list_has_them() {
    let mut random = Random(1);
    let mut below = |n| random.below(n);
    for (sets, ways) in [(1, 1), (4, 1), (2, 2), (8, 2), (4, 4), (1, 8), (4, 8), (2, 16), (1, 16)] {
        let mut array = array(sets, ways, Replacement::Lru);
        let blank =
            || Set { ways: vec![Err(false); ways as usize], used: (0..ways as usize).collect() };
        let mut oracle: Vec<_> = (0..sets).map(|_| blank()).collect();
        for step in 0..20_000 {
            // Tags 0 to 2 in the byte behind those of the set, and in the next: as much as 3 * 2 * ways lines.
            let set = below(sets.into());
            let tag = below(3) | below(u64::from(ways).div_ceil(2) * 2) << 8;
            let number = tag * u64::from(sets) + set;
            let held = &mut oracle[set as usize];
            let way = held.way_of(number);
            let slot = way.map(|way| set as usize * ways as usize + way);
            assert_eq!(array.find(number), slot, "{ways} ways, step {step}");
            assert_eq!(array.search(number), slot);
            let recent = array.find_recent(number);
            assert!(recent.is_none() || recent == slot && way == Some(held.used[0]));
            // Phases in which lines mostly come, and others in which they mostly go.
            let comes = if step / 500 % 2 == 0 { 8 } else { 3 };
            match (slot, way) {
                (Some(slot), Some(way)) => match below(10) {
                    0..2 if comes == 3 => {
                        array.remove(slot);
                        held.ways[way] = Err(false);
                    }
                    2..4 if comes == 3 => {
                        array.take(slot);
                        held.ways[way] = Err(true);
                    }
                    4 => {
                        array.set_state(slot, LineState::Modified);
                        held.ways[way] =
                            held.ways[way].map(|line| Line { state: LineState::Modified, ..line });
                    }
                    _ => {
                        assert_eq!(array.find_and_touch(number), Some(slot));
                        held.touch(way);
                    }
                },
                _ if below(10) < comes => {
                    let marked = below(2) == 0;
                    let line = Line { number, state: LineState::Exclusive, marked };
                    let gone = below(sets.into());
                    let has_room = held.ways.iter().any(Result::is_err) || gone == set;
                    if array.lines().next().is_some() {
                        assert_eq!(array.has_room_for(number, gone), has_room);
                    }
                    assert_eq!(array.fill(line), held.fill(line), "{ways} ways, step {step}");
                }
                _ => {}
            }
            match below(3000) {
                0 => {
                    array.clear();
                    // The order of use stays.
                    oracle.iter_mut().for_each(|set| set.ways.fill(Err(false)));
                }
                1..4 => {
                    let mut bytes = Vec::new();
                    array.visit(&mut crate::state::Saver::new(&mut bytes));
                    array = LineArray::new(&ArrayGeometry {
                        sets,
                        ways,
                        replacement: Replacement::Lru,
                    });
                    let mut loader = crate::state::Loader::new(&bytes);
                    array.visit(&mut loader);
                    loader.finish().unwrap();
                }
                _ => {}
            }
        }
        let lines: Vec<_> = array.lines().collect();
        let held: Vec<_> =
            oracle.iter().flat_map(|set| set.ways.iter().flatten().copied()).collect();
        assert_eq!(lines, held);
    }
}

/// Does one of the things to two arrays that can be done to one: both do the same.
fn act(one: &mut LineArray, other: &mut LineArray, random: &mut Random) {
    let (what, number) = (random.below(16), random.below(4096));
    match what {
        0..9 if one.find(number).is_none() => {
            assert_eq!(fill(one, number), fill(other, number));
        }
        0..12 => assert_eq!(one.find_and_touch(number), other.find_and_touch(number)),
        12 if random.below(200) == 0 => {
            one.clear();
            other.clear();
        }
        _ => {
            assert_eq!(one.find(number), other.find(number));
            let Some(slot) = one.find(number) else { return };
            for array in [one, other] {
                match what {
                    12 => array.remove(slot),
                    13 => array.take(slot),
                    _ => array.set_state(slot, LineState::Modified),
                }
            }
        }
    }
}

fn saved(array: &mut LineArray) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::state::save(array, &mut bytes);
    bytes
}

/// An array that keeps its memory when it is loaded with what has none is as a new one from then on, however much was
/// in it, and whatever was loaded before.
#[test]
fn memory_that_is_kept_is_as_new() {
    let mut random = Random(1);
    let (mut emptied, mut filled) = (0, 0);
    for (sets, ways) in [(1024, 2), (64, 8), (256, 16), (16, 1)] {
        for replacement in [Replacement::Lru, Replacement::TreePseudoLru] {
            let new = saved(&mut array(sets, ways, replacement));
            let mut kept = array(sets, ways, replacement);
            let mut images = vec![new.clone()];
            for _ in 0..60 {
                // Mostly nothing.
                let n = random.below(3 * images.len() as u64) as usize;
                let image = images.get(n).unwrap_or(&new);
                crate::state::load(&mut kept, image).unwrap();
                let mut fresh = array(sets, ways, replacement);
                crate::state::load(&mut fresh, image).unwrap();
                emptied += u32::from(*image == new && !kept.entries.is_empty());
                let most = [20, 3000][random.below(2) as usize];
                for _ in 0..random.below(most) {
                    act(&mut kept, &mut fresh, &mut random);
                }
                filled += u32::from(kept.filled.is_none());
                let image = saved(&mut kept);
                assert_eq!(image, saved(&mut fresh));
                assert!(kept.lines().eq(fresh.lines()));
                assert!(fresh.entries.is_empty() || kept.free == fresh.free);
                if random.below(8) == 0 {
                    images.push(image);
                }
            }
        }
    }
    assert!(emptied > 200 && filled > 50, "{emptied} {filled}");
}
