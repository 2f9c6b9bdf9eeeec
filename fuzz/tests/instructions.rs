//! The target `instructions` on its corpus and on generated inputs; and that it executes what it is given.

use std::path::PathBuf;

use fuzz::driver::{Campaign, Target};
use fuzz::instructions;
use fuzz::random::Random;

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

/// An input is not held against the way without caches if it leaves stale translations behind. If many did, that way
/// would find nothing.
#[test]
fn nearly_all_inputs_are_compared_without_caches() {
    let mut random = Random::new(1);
    let inputs = (0..1000).map(|_| (target().input)(&mut random));
    let compared =
        inputs.filter(|input| instructions::compares_uncached(input) == Ok(true)).count();
    assert!(compared >= 950, "{compared} of 1000");
}

/// 64-bit code of the K8 reads the page of 2 MiB at 0, and takes it out of the page directory at 232000h: its translation
/// is held still, until INVLPG (AMD64 APM volume 2, section 5.5.2).
#[test]
fn stale_translations_are_noticed() {
    const K8: u8 = 6;
    const LONG: u8 = 2;
    // mov eax, [1000h]; mov dword [232000h], 0
    let code =
        [0x8B, 4, 0x25, 0, 0x10, 0, 0, 0xC7, 4, 0x25, 0, 0x20, 0x23, 0, 0, 0, 0, 0].as_slice();
    let invlpg = [0x0F, 1, 0x3C, 0x25, 0, 0x10, 0, 0].as_slice();
    let ud2 = [0x0F, 0x0B].as_slice();
    for (code, is_compared) in
        [([code, ud2].concat(), false), ([code, invlpg, ud2].concat(), true), (ud2.to_vec(), true)]
    {
        let input = [&[K8, LONG], &code[..]].concat();
        assert_eq!(instructions::compares_uncached(&input), Ok(is_compared), "{code:x?}");
        assert!(target().play(&input).is_ok());
    }
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
