//! The target `machine` on its corpus and on generated inputs; and that its guest does what scripts say.

use std::io::Write;
use std::path::PathBuf;

use fuzz::driver::{Campaign, Target};
use fuzz::random::Random;

fn target() -> Target {
    Target::named("machine").expect("the target")
}

#[test]
fn the_corpus_passes() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/machine");
    let (files, _) = target().replay(&[corpus]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(files >= 4);
}

#[test]
fn generated_inputs_pass() {
    let campaign = Campaign { runs: 1000, time: None, seed: 2, jobs: 1 };
    let played = target().campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target().report(&find.bytes, &find.failure)));
    assert!(played.inputs == 1000 && played.operations > 40_000, "{played:?}");
}

/// The first and the last of 9,000 inputs come in parts of at most 4,096, and in each part those of a processor (the
/// first byte's rest by eight) one after the other. They are the inputs that the generator makes, each with its number.
#[test]
fn inputs_of_a_machine_are_played_together() {
    let mut random = Random::new(3);
    let generated: Vec<_> = (0..9000).map(|_| (target().input)(&mut random)).collect();
    let played: Vec<_> = target().inputs(&mut Random::new(3), 9000).collect();
    let mut numbers: Vec<_> = played.iter().map(|&(number, _)| number).collect();
    assert!(played.iter().all(|(number, bytes)| generated[*number as usize] == *bytes));
    for part in played.chunks(4096) {
        let mut processors: Vec<_> = part.iter().map(|(_, bytes)| bytes[0] % 8).collect();
        processors.dedup();
        assert_eq!(processors, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..9000));
}

/// No operation at all, and all of one byte.
#[test]
fn any_bytes_are_an_input() {
    for byte in (0..=0xFF).step_by(5) {
        let failed = |failure| panic!("{byte:02x}: {failure}");
        target().play(&[byte]).unwrap_or_else(failed);
        target().play(&[byte; 40]).unwrap_or_else(failed);
    }
}

/// K8 (6), stepped: counter 0 counts instructions at all levels, one short of overflow; RDPMC of it at CPL 0, and at CPL
/// 3 with CR4.PCE clear; the answer to interrupts.
#[test]
fn operations_in_words() {
    let input = [6, 0, 0, 0, 0, 0x13, 0, 0, 10, 0, 1, 24, 0, 52, 0, 0x40 | 24, 0, 49, 3, 44];
    let words = (target().words)(&input);
    let expected = "k8, 1 processor, one instruction at a time, timing flat
   1  WRMSR C0010000h := 5300C0h
   2  WRMSR C0010004h := FFFFFFFFFFFFFFFFh
   3  RDPMC 0h
   4  CR4.PCE := 0
   5  RDPMC 0h at CPL 3
   6  from now on interrupts are answered with LVTPC := 40h EOI
   7  STI
";
    assert_eq!(words, expected);
    assert_eq!(target().play(&input), Ok(7));
}

/// The guest finds the same on KVM, and counts are the same to the last digit.
#[test]
fn generated_inputs_are_the_same_on_kvm() {
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        // Not captured, as what `println` writes is.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED, nothing was compared with KVM: /dev/kvm: {error}"
        );
        return;
    }
    let target = Target::named("kvm").expect("the target");
    let campaign = Campaign { runs: 100, time: None, seed: 1, jobs: 1 };
    let played = target.campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target.report(&find.bytes, &find.failure)));
    assert!(played.inputs == 100 && played.operations > 2000, "{played:?}");
}

/// The line in front of a find is no part of its input: a corpus that has one would play another input.
#[test]
fn a_find_is_no_input_of_a_corpus() {
    let path = std::env::temp_dir().join(format!("vpmu-a-find-{}", std::process::id()));
    std::fs::write(&path, b"vpmu-find machine\n\x06\0\0").unwrap();
    let played = target().replay(std::slice::from_ref(&path));
    std::fs::remove_file(&path).unwrap();
    let refused = played.expect_err("a find");
    assert!(refused.contains("a line in front"), "{refused}");
}
