//! How often a chase misses, worked out.
//!
//! A chase goes round and round through the same places. A set of `w` ways that gets `k` of them keeps all
//! if `k` is at most `w`. Otherwise, under replacement of the least recently used, it keeps none until it is
//! asked for again: each access misses. Under the best replacement there can be (L. A. Belady, IBM Systems
//! Journal 5, 1966: out goes what is asked for last), `k - w` of `k - 1` accesses miss in the long run: so
//! none misses less.

use super::geometry::{Array, Replacement};

/// At least, and at most, so many misses in an access.
pub(super) type Bounds = (f64, f64);

/// The share of accesses that have to miss where `places` have `ways`.
pub(super) fn least(places: u32, ways: u32) -> f64 {
    if places <= ways { 0.0 } else { f64::from(places - ways) / f64::from(places - 1) }
}

/// Where all places are in one set.
pub(super) fn one_set(places: u32, ways: u32, replacement: Replacement) -> Bounds {
    let most = if places <= ways { 0.0 } else { 1.0 };
    match replacement {
        Replacement::Lru => (most, most),
        Replacement::Unknown => (least(places, ways), most),
    }
}

/// Where places that follow each other are in sets that follow each other.
pub(super) fn in_a_row(places: u32, array: Array, replacement: Replacement) -> Bounds {
    let (each, further) = (places / array.sets, places % array.sets);
    let share = |sets: u32, each: u32| -> Bounds {
        let of_all = f64::from(sets) * f64::from(each) / f64::from(places);
        let (least, most) = one_set(each, array.ways, replacement);
        (least * of_all, most * of_all)
    };
    let (some, others) = (share(further, each + 1), share(array.sets - further, each));
    (some.0 + others.0, some.1 + others.1)
}

/// The same behind a first level whose places are further ones of an exclusive second level: as many as
/// `first` has entries. At least what the best replacement would miss if it could use all of them for any
/// place, and at most all that is in sets of the second level with more than their ways.
pub(super) fn exclusive(places: u32, first: Array, second: Array) -> Bounds {
    let most = in_a_row(places, second, Replacement::Lru).1;
    (least(places, first.entries() + second.entries()), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_are_too_small_miss() {
        // Two sets of two ways: three places are 2 + 1, five are 3 + 2.
        let array = Array { sets: 2, ways: 2 };
        assert_eq!(in_a_row(4, array, Replacement::Lru), (0.0, 0.0));
        assert_eq!(in_a_row(5, array, Replacement::Lru), (0.6, 0.6));
        assert_eq!(in_a_row(5, array, Replacement::Unknown), (0.3, 0.6));
        // One way that three places share: nothing can be kept.
        assert_eq!(least(3, 1), 1.0);
    }
}
