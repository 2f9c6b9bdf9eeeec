//! The target `pmu` on its corpus and on generated inputs; and that it would notice.

use std::path::PathBuf;

use fuzz::driver::{Campaign, Target};
use fuzz::random::Random;
use fuzz::reference::Reference;
use fuzz::reference::registers::{Kind, Part};
use fuzz::script::{Operation, Script};

fn target() -> Target {
    Target::named("pmu").expect("the target")
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/pmu")
}

/// The inputs of the corpus.
fn inputs() -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(corpus()).expect("the corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("its bytes")).collect()
}

#[test]
fn the_corpus_passes() {
    target().replay(&[corpus()]).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn generated_inputs_pass() {
    let campaign = Campaign { runs: 100_000, time: None, seed: 1, jobs: 1 };
    let played = target().campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target().report(&find.bytes, &find.failure)));
    assert_eq!(played.inputs, 100_000);
}

/// Every byte string is an input: none at all, and all of one byte.
#[test]
fn any_bytes_are_an_input() {
    assert_eq!(target().play(&[]), Ok(0));
    for byte in 0..=0xFF {
        target().play(&[byte; 500]).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A corpus that has lost a processor, or of which no counter overflows there, protects nothing.
#[test]
fn the_corpus_overflows_counters_of_each_processor() {
    let inputs = inputs();
    assert!(inputs.len() >= 24 && inputs.iter().all(|input| input.len() <= 500));
    for part in Part::ALL {
        let mut overflows = 0;
        for input in inputs.iter().filter(|input| Script::new(input).part() == part) {
            overflows += wraps(input);
        }
        assert!(overflows > 0, "{}", part.name());
    }
}

/// How often a counter comes to a smaller value without having been written, by the reference.
fn wraps(input: &[u8]) -> usize {
    let script = Script::new(input);
    let part = script.part();
    let mut reference = Reference::new(part);
    let mut wraps = 0;
    let counters: Vec<u32> = part
        .registers()
        .iter()
        .filter(|register| matches!(register.1, Kind::Counter(_)))
        .map(|register| register.0)
        .collect();
    for operation in script {
        let before: Vec<_> = counters.iter().map(|&msr| reference.read(msr)).collect();
        match operation {
            Operation::Write { msr, value } => {
                reference.write(msr, value);
            }
            Operation::Prefer(enabled) => reference.prefer(enabled),
            Operation::Fire { fact, n, cpl } => {
                let adders = fuzz::reference::counting::For::Adders;
                reference.happen(0, adders, &[(fact, n)], cpl);
            }
            Operation::Happen { thread, what, happened, cpl } => {
                reference.happen(thread, what, happened.batch(), cpl);
            }
            _ => {}
        }
        if matches!(operation, Operation::Fire { .. } | Operation::Happen { .. }) {
            let value = |outcome| match outcome {
                fuzz::reference::Outcome::Done(value) => value,
                other => panic!("a counter: {other:?}"),
            };
            let after = counters.iter().map(|&msr| reference.read(msr));
            wraps += before.into_iter().zip(after).filter(|&(b, a)| value(a) < value(b)).count();
        }
    }
    wraps
}

/// The same seed gives the same inputs, another one gives others.
#[test]
fn a_seed_gives_its_inputs() {
    let input = |seed| (target().input)(&mut Random::new(seed));
    assert_eq!(input(7), input(7));
    assert_ne!(input(7), input(8));
    assert_eq!(input(7).len(), 200);
}

/// What a person reads when it fails.
#[test]
fn operations_in_words() {
    // K8; counter 0 counts instructions (first code) at all CPLs with INT; one short of overflow; one comes.
    let input = [6, 6, 0, 0, 0x13, 0, 0, 12, 0, 1, 18, 0, 1, 3, 17, 0, 31, 30, 0xFF];
    let words: Vec<String> = Script::new(&input).map(|operation| operation.to_string()).collect();
    let expected = [
        "WRMSR C0010000h := 5300C0h",
        "WRMSR C0010004h := FFFFFFFFFFFFFFFFh",
        "1 InsnRetired at CPL 3",
        "RDPMC 0h at CPL 0",
        "save and restore",
        "INIT",
    ];
    assert_eq!(words, expected);
    let report = target().report(&input[..10], "then it differs");
    let expected = "k8\n   1  WRMSR C0010000h := 5300C0h\n   2  WRMSR C0010004h := FFFFFFFFFFFFFFFFh\n\
                    then it differs";
    assert_eq!(report, expected);
}
