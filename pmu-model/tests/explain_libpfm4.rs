//! Register values in words and back, against libpfm4's encodings of every PMU that it has.
//!
//! Source: `data/libpfm4-NAME.txt`, made by libpfm4 and not by this crate; the file of each
//! personality, or one that says that libpfm4 has no table for it.

use std::path::Path;

use pmu_model::explain::{EncodeError, encode, explain};
use pmu_model::{Personality, SignalSet, UmaskRule};

/// One line of a file.
struct Line {
    /// Event, unit masks and modifiers in libpfm4's words.
    name: String,
    /// Register value, with INT and EN; none if libpfm4 does not take the name.
    raw: Option<u64>,
}

fn lines(personality: &Personality) -> Vec<Line> {
    let file = format!("tests/data/libpfm4-{}.txt", personality.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, raw) = line.split_once(' ').unwrap();
        let raw = (raw != "refused").then(|| u64::from_str_radix(raw, 16).unwrap());
        Line { name: name.into(), raw }
    });
    lines.collect()
}

/// What the files hold: libpfm4's own counts of encodings and refusals, and samples with modifiers.
/// A cut-off file would make the other tests pass for nothing.
#[test]
fn the_files_are_whole() {
    for personality in Personality::ALL {
        let expected = match personality.name {
            "p55c" => (0, 0),
            "ppro" => (108 + 45, 4),
            "pii" => (130 + 18, 8),
            "p6" => (140 + 18, 12),
            "pm" => (190, 17),
            "k7" => (42 + 18, 0),
            "k8" => (242 + 9, 0),
            "knc" => (59 + 44, 0),
            other => panic!("no numbers for {other}"),
        };
        let lines = lines(personality);
        let taken = lines.iter().filter(|line| line.raw.is_some()).count();
        assert_eq!((taken, lines.len() - taken), expected, "{}", personality.name);
    }
}

/// Also `MMX_UOPS_EXEC`, for which libpfm4 has mask 00h and the Intel SDM (volume 3, events of the P6
/// family) 0Fh: that is `MMX_UOPS_EXEC:ALL`.
#[test]
fn libpfm4_names_encode_to_libpfm4_values() {
    for personality in Personality::ALL {
        for line in lines(personality) {
            let Some(raw) = line.raw else { continue };
            let value = encode(personality, &format!("{}:int:en", line.name));
            assert_eq!(value, Ok(raw), "{} {}", personality.name, line.name);
        }
    }
}

/// What libpfm4 does not take without a unit mask is refused, and takes any one of those that are
/// named in the refusal.
#[test]
fn names_that_libpfm4_refuses_are_refused() {
    for personality in Personality::ALL {
        for line in lines(personality).iter().filter(|line| line.raw.is_none()) {
            let error = encode(personality, &line.name).unwrap_err();
            assert!(matches!(error, EncodeError::MissingUmask { .. }), "{}", line.name);
            let text = error.to_string();
            let (_, masks) = text.split_once(" needs a unit mask: ").unwrap();
            for mask in masks.split(", ") {
                let words = format!("{}:{mask}", line.name);
                assert!(encode(personality, &words).is_ok(), "{} {words}", personality.name);
            }
        }
    }
}

/// Each value decodes to the event and the unit masks of its name, and the words of the decoding
/// encode to the value again.
#[test]
fn libpfm4_values_explain_to_libpfm4_names() {
    for personality in Personality::ALL {
        for line in lines(personality) {
            let Some(raw) = line.raw else { continue };
            let about = format!("{} {}", personality.name, line.name);
            let mut words = line.name.split(':');
            let name = words.next().unwrap();
            let masks: Vec<_> = words.filter(|word| !is_modifier(word)).collect();

            let event = personality.events.iter().find(|e| e.aliases.libpfm4 == name);
            let event = event.unwrap_or_else(|| panic!("no event for {about}"));
            let counter = event.counters.trailing_zeros() as usize;
            let register = personality.programmed_by(counter).unwrap();
            let explanation = explain(personality, &SignalSet::ALL, register.name, raw).unwrap();
            let selected = &explanation.selections[0];
            assert_eq!(selected.event.map(|event| event.name), Some(event.name), "{about}");
            assert_eq!(explanation.reads_as, raw, "{about}");
            assert_eq!(encode(personality, &selected.encoding), Ok(raw), "{about}");

            let found: Vec<_> = selected.umasks.iter().map(|mask| mask.libpfm4).collect();
            if masks.is_empty() || masks == ["ALL"] && !found.contains(&"ALL") {
                let all = selected.umasks.iter().fold(0, |all, mask| all | mask.mask);
                let ignored = event.umask_rule == UmaskRule::Ignored;
                let umask = if ignored { 0 } else { u64::from(all) };
                assert_eq!(umask, raw >> 8 & 0xFF, "{about}");
            } else {
                assert_eq!(found.len(), masks.len(), "{about}: {found:?}");
                assert!(masks.iter().all(|mask| found.contains(mask)), "{about}: {found:?}");
            }
        }
    }
}

/// libpfm4 writes masks in capitals, modifiers in small letters.
fn is_modifier(word: &str) -> bool {
    word.contains('=') || word == "u" || word == "k"
}

/// Names with a letter too many get a hint, and what the hint names can be encoded.
#[test]
fn what_is_offered_is_accepted() {
    for personality in Personality::ALL {
        for event in personality.events {
            let Err(EncodeError::UnknownEvent { nearest: Some(nearest), .. }) =
                encode(personality, &format!("{}Z", event.name))
            else {
                panic!("{} {}Z is no event", personality.name, event.name);
            };
            assert!(encode(personality, &nearest).is_ok(), "{} {nearest}", personality.name);
        }
    }
}

/// The tables of the other revisions of the K8. Those of B, C and D are parts of revision E's, but
/// for one line; F and G have a unit mask more, and other masks of event E8h.
#[test]
fn other_revisions_of_the_k8() {
    let k8 = Personality::by_name("k8").unwrap();
    // B and C: `PROBE`, ECh, without its mask 40h.
    assert_eq!(encode(k8, "PROBE:umask=0x3F:int:en"), Ok(0x53_3FEC));
    assert_eq!(encode(k8, "PROBE:ALL:int:en"), Ok(0x53_7FEC));
    // F and G: the thermal masks of E8h.
    for mask in ["CLKS_CPU_ACTIVE", "CLKS_CPU_INACTIVE", "CLKS_DIE_TEMP_TOO_HIGH"] {
        let words = format!("THERMAL_STATUS_AND_ECC_ERRORS:{mask}");
        assert!(matches!(encode(k8, &words), Err(EncodeError::UnknownModifier { .. })), "{words}");
    }
}
