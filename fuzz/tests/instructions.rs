//! The target `instructions` on its corpus and on generated inputs; and that it executes what it is given.

use std::path::PathBuf;

use fuzz::driver::{Campaign, Target};

fn target() -> Target {
    Target::named("instructions").expect("the target")
}

#[test]
fn the_corpus_passes() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/instructions");
    let (files, _) = target().replay(&[corpus]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(files >= 2);
}

#[test]
fn generated_inputs_pass() {
    let campaign = Campaign { runs: 1500, time: None, seed: 1, jobs: 2 };
    let played = target().campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target().report(&find.bytes, &find.failure)));
    // A hundred each, of at most three hundred: most inputs come to an exception.
    assert!(played.inputs == 1500 && played.operations > 20_000, "{played:?}");
}

/// Three INCs and UD2, in each mode of the K8: JMP to the code, the INCs, and the stub's PUSH, JMP, MOV and OUT.
#[test]
fn code_is_executed_to_its_exception() {
    const K8: u8 = 6;
    for (mode, code) in [
        (0, &[0x40, 0x40, 0x40, 0x0F, 0x0B][..]),
        (1, &[0x40, 0x40, 0x40, 0x0F, 0x0B]),
        (2, &[0xFF, 0xC0, 0xFF, 0xC0, 0xFF, 0xC0, 0x0F, 0x0B]),
    ] {
        let input = [&[K8, mode], code].concat();
        assert_eq!(target().play(&input), Ok(1 + 3 + 4), "mode {mode}");
    }
}

/// No code at all, and code of one byte.
#[test]
fn any_bytes_are_an_input() {
    for byte in (0..=0xFF).step_by(7) {
        let failed = |failure| panic!("{byte:02x}: {failure}");
        target().play(&[byte]).unwrap_or_else(failed);
        target().play(&[byte; 20]).unwrap_or_else(failed);
    }
}
