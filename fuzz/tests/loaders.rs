//! The target `loaders` on its corpus and on generated inputs; and that files that are in order are accepted.

use std::path::PathBuf;

use fuzz::driver::{Campaign, Target};

fn target() -> Target {
    Target::named("loaders").expect("the target")
}

#[test]
fn the_corpus_passes() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/loaders");
    target().replay(&[corpus]).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn generated_inputs_pass() {
    let campaign = Campaign { runs: 300, time: None, seed: 1, jobs: 1 };
    let played = target().campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target().report(&find.bytes, &find.failure)));
    // Some are accepted as they are changed, and some refused: one without the other would find little.
    assert!(played.inputs == 300, "{played:?}");
    assert!((30..270).contains(&played.operations), "{played:?}");
}

/// Without any change: the reader, what it is told besides, and which file.
#[test]
fn files_that_are_in_order_are_accepted() {
    // Nine kernels; archives, scripts; twelve machines, four recordings; words by the processor that has the event.
    let kernels = (0..9).filter(|kernel| !matches!(kernel, 6 | 7)).map(|kernel| [0, 0, kernel]);
    let texts = [[4, 0, 0], [5, 0, 0], [5, 0, 1], [5, 0, 2], [13, 6, 0], [13, 7, 3], [14, 0, 0]];
    let machines = (0..12).map(|machine| [6, 0, machine]);
    let truths = (0..4).map(|truth| [11, 0, truth]);
    let symbols = [[15, 0, 1]];
    for input in kernels.chain(texts).chain(machines).chain(truths).chain(symbols) {
        assert_eq!(target().play(&input), Ok(1), "{}", (target().words)(&input));
    }
}

/// No file at all, and all of one byte.
#[test]
fn any_bytes_are_an_input() {
    for byte in (0..=0xFF).step_by(5) {
        let failed = |failure| panic!("{byte:02x}: {failure}");
        target().play(&[byte]).unwrap_or_else(failed);
        target().play(&[byte; 40]).unwrap_or_else(failed);
    }
}

/// The multiboot image; its sixth field, `load_end_addr`, is given the edge with number 23, 64 bits of ones.
#[test]
fn an_input_in_words() {
    let words = (target().words)(&[0, 0x10, 4, 0, 5, 23]);
    let expected = "--kernel, options 0x10
    a multiboot image with addresses
    load_end_addr, at 0x14, := 0xffffffffffffffff
";
    assert_eq!(words, expected);
}
