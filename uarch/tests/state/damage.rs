//! Bytes that nobody has saved: cut short, too many, with bits turned over, and of any kind.

use uarch::pipeline::in_order::multithreaded::THREADS;
use uarch::state::{Problem, load};

use super::in_order::{InOrder, Multithreaded};
use super::out_of_order::{CORES, OutOfOrder};
use super::system::{Driven, PARTS};
use super::{Machine, Random, drive, save};

/// Steps that a machine goes on for whose bytes were not refused.
const STEPS: u64 = 1_000;

/// What happens to saved bytes.
fn damage(bytes: &mut [u8], random: &mut Random) {
    let length = bytes.len() as u64;
    let place = |random: &mut Random| random.below(length) as usize;
    match random.below(8) {
        // Any: numbers, counts and cycles all over.
        0 => {
            for _ in 0..1 + random.below(40) {
                let at = place(random);
                bytes[at] = random.next() as u8;
            }
        }
        // A word of which much is set, or nothing.
        1 => {
            let at = place(random);
            let value = random.of(&[0, 1, 0x7F, 0x80, 0xFF]);
            bytes[at..].iter_mut().take(8).for_each(|byte| *byte = value);
        }
        // One place from another.
        2 => {
            let (from, to) = (place(random), place(random));
            let bytes_moved = (1 + random.below(64) as usize).min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + bytes_moved, to);
        }
        _ => bytes[place(random)] ^= 1 << random.below(8),
    }
}

fn check<M: Machine>(name: &str, make: impl Fn() -> M, rounds: u64, seed: u64) {
    let mut random = Random(seed);
    let mut machine = make();
    drive(&mut machine, 4_000, &mut random);
    let saved = save(&mut machine);
    let mut accepted = 0;
    for _ in 0..rounds {
        let mut bytes = saved.clone();
        damage(&mut bytes, &mut random);
        let mut machine = make();
        if load(&mut machine, &bytes).is_ok() {
            accepted += 1;
            drive(&mut machine, STEPS, &mut random);
        }
    }
    assert!(accepted * 20 > rounds, "{name}: {accepted} of {rounds} were accepted");

    // Of no machine at all.
    for _ in 0..rounds {
        let mut bytes = saved.clone();
        let from = random.below(bytes.len() as u64) as usize;
        bytes[from..].iter_mut().for_each(|byte| *byte = random.next() as u8);
        let mut machine = make();
        if load(&mut machine, &bytes).is_ok() {
            drive(&mut machine, STEPS, &mut random);
        }
    }

    for _ in 0..40 {
        let cut = random.below(saved.len() as u64) as usize;
        let error = load(&mut make(), &saved[..cut]).expect_err("it is too short");
        // Of a list it may be said that it is too long for what is left.
        assert!(!matches!(error.problem, Problem::TooLong(_)), "{name}, {cut} bytes: {error}");
    }
    let mut longer = saved.clone();
    longer.extend([0, 0, 0]);
    let error = load(&mut make(), &longer).expect_err("it is too long");
    assert_eq!(error.problem, Problem::TooLong(3), "{name}");
}

#[test]
fn damaged_systems_do_no_harm() {
    for (name, part, all) in PARTS {
        let most = all[all.len() - 1];
        check(name, || Driven::new(part, most), 60, 3);
    }
}

#[test]
fn damaged_pipelines_do_no_harm() {
    for (name, core) in CORES {
        check(name, || OutOfOrder::new(core), 150, 4);
    }
    check("p55c", InOrder::new, 600, 5);
    check("knc", Multithreaded::<THREADS>::new, 600, 6);
}
