//! What is known of interrupts by their vectors, and what becomes of what cannot be written.

use std::path::Path;

use pmu_model::Personality;

use super::*;

fn subject() -> Subject {
    let personality = Personality::by_name("k8").unwrap();
    Subject { personality, clock_hz: 2_000_000_000, vcpus: 2 }
}

const AT: At = At { time: 3, code: None, retired: None };

/// What a tracer with these kinds writes of `acts`.
fn written(kinds: &[Kind], acts: impl FnOnce(&mut Tracer)) -> String {
    let path = std::env::temp_dir().join(format!("vpmu-trace-{}", std::process::id()));
    let asked = Asked { path: &path, form: Form::Text, kinds };
    let mut tracer = Tracer::new(&asked, subject(), &Stop::new().unwrap()).unwrap();
    acts(&mut tracer);
    tracer.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let words =
        text.lines().skip(1).map(|line| line.split("-            - ").nth(1).unwrap_or(line));
    words.map(|line| line.trim().to_owned() + "\n").collect()
}

/// An interrupt that a processor takes is a counter's if one of that vector, or an NMI, was sent to it, whether
/// that is written or not; only once; and not behind INIT. Another processor's are another's.
#[test]
fn interrupts_of_counters_are_known() {
    let text = written(&[Kind::Eoi], |tracer| {
        tracer.takes(0, AT, Some(0x40));
        tracer.ends(0, AT, 0x40);
        tracer.report(0, AT, Act::Pmi(PmiOutcome::Fixed(0x40)));
        tracer.takes(1, AT, Some(0x40));
        tracer.ends(1, AT, 0x40);
        tracer.takes(0, AT, Some(0x41));
        tracer.takes(0, AT, Some(0x40));
        tracer.ends(0, AT, 0x41);
        tracer.ends(0, AT, 0x40);
        tracer.ends(0, AT, 0x40);
    });
    assert_eq!(text, "EOI of vector 0x40\n");
    let text = written(&[], |tracer| {
        tracer.takes(0, AT, None);
        tracer.report(0, AT, Act::Pmi(PmiOutcome::Nmi));
        tracer.takes(1, AT, None);
        tracer.takes(0, AT, None);
        tracer.takes(0, AT, None);
        tracer.report(0, AT, Act::Pmi(PmiOutcome::Nmi));
        tracer.forget(0);
        tracer.takes(0, AT, None);
    });
    assert_eq!(text, "PMI sent: NMI\nPMI delivered: NMI\nPMI sent: NMI\n");
}

/// The file's ending says how, unless the command line does.
#[test]
fn the_form_follows_from_the_name() {
    for (name, form) in [
        ("trace.jsonl", Form::Json),
        ("trace.json", Form::Perfetto),
        ("trace.txt", Form::Text),
        ("trace", Form::Text),
        (".json", Form::Text),
        ("-", Form::Text),
    ] {
        assert_eq!(Form::of(Path::new(name)), form, "{name}");
    }
}

/// A device that is always full takes nothing: that is told at the end.
#[test]
fn what_cannot_be_written_is_told_at_the_end() {
    let asked = Asked { path: Path::new("/dev/full"), form: Form::Text, kinds: &[] };
    let mut tracer = Tracer::new(&asked, subject(), &Stop::new().unwrap()).unwrap();
    for _ in 0..10_000 {
        tracer.report(0, AT, Act::Eoi { vector: 0x40 });
    }
    let error = tracer.finish().unwrap_err();
    assert_eq!(error.status(), 6);
    assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
}
