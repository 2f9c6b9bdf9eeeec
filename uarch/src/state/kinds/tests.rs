//! Tests of the bytes that values are saved as, and of what is refused.

use std::collections::VecDeque;

use crate::state::{LoadError, Loader, Problem, State, Visitor, load, save};

fn saved(state: &mut impl State) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(state, &mut bytes);
    bytes
}

/// Little-endian, lengths in 64 bits, what may be missing behind a byte that says whether it is there.
#[test]
fn values_have_these_bytes() {
    assert_eq!(saved(&mut 0x0102_0304_u32), [4, 3, 2, 1]);
    assert_eq!(saved(&mut -2_i8), [0xFE]);
    assert_eq!(saved(&mut 5_usize), [5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(saved(&mut (true, [1_u16, 0x203])), [1, 1, 0, 3, 2]);
    assert_eq!(saved(&mut Some(7_u8)), [1, 7]);
    assert_eq!(saved(&mut None::<u8>), [0]);
    assert_eq!(saved(&mut vec![9_u8, 8]), [2, 0, 0, 0, 0, 0, 0, 0, 9, 8]);
    assert_eq!(saved(&mut VecDeque::from([9_u8, 8])), [2, 0, 0, 0, 0, 0, 0, 0, 9, 8]);
    assert_eq!(saved(&mut vec![9_u8, 8].into_boxed_slice()), [9, 8]);
    assert_eq!(saved(&mut (3_u8..6)), [3, 6]);
}

#[test]
fn what_was_saved_is_loaded() {
    let mut from = (vec![Some(1_u64), None, Some(u64::MAX)], -5_i32, [false, true]);
    let bytes = saved(&mut from);
    let mut to = (vec![None, None, Some(4), Some(6), None], 0, [true, true]);
    assert_eq!(load(&mut to, &bytes), Ok(()));
    assert_eq!(to, from);
}

#[test]
fn what_cannot_be_is_refused() {
    let problem = |result: Result<(), LoadError>| result.map_err(|error| error.problem);
    let out_of_range = Err(Problem::OutOfRange);
    assert_eq!(problem(load(&mut false, &[2])), out_of_range);
    assert_eq!(problem(load(&mut Some(1_u8), &[2, 1])), out_of_range);
    assert_eq!(problem(load(&mut 1_u32, &[1, 2, 3])), Err(Problem::Truncated));
    assert_eq!(problem(load(&mut 1_u8, &[1, 2, 3])), Err(Problem::TooLong(2)));
    // A list longer than there are bytes.
    let mut list = vec![1_u64];
    assert_eq!(problem(load(&mut list, &[0xFF; 8])), out_of_range);
    assert_eq!(list, [1]);
}

/// From the first error on nothing is changed, so that what comes behind it is not taken for something else.
#[test]
fn nothing_is_loaded_behind_an_error() {
    let mut loader = Loader::new(&[3, 7, 9]);
    let (mut a, mut b) = (2, 5_u8);
    loader.name("a");
    loader.index(&mut a, 4);
    assert_eq!(a, 2);
    loader.name("b");
    b.visit(&mut loader);
    assert_eq!(b, 5);
    assert_eq!(loader.finish(), Err(LoadError { at: "a", problem: Problem::Truncated }));

    let mut loader = Loader::new(&[4, 0, 0, 0, 0, 0, 0, 0, 9]);
    loader.name("a");
    loader.index(&mut a, 4);
    loader.name("b");
    b.visit(&mut loader);
    assert_eq!((a, b), (2, 5));
    let error = loader.finish().unwrap_err();
    assert_eq!(error, LoadError { at: "a", problem: Problem::OutOfRange });
    assert_eq!(error.to_string(), "the state has a value of a that cannot be");
}

#[test]
fn cycles_are_no_later_than_the_latest() {
    let cycles = |latest: u64, cycle: u64| {
        let bytes = cycle.to_le_bytes();
        let mut loader = Loader::new(&bytes);
        *loader.latest() = latest;
        loader.cycles(&mut [0]);
        loader.finish().is_ok()
    };
    assert_eq!([99, 100, 101].map(|cycle| cycles(100, cycle)), [true, true, false]);
}
