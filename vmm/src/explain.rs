//! `vpmu explain`: register values in words, and words in register values.

use std::fmt::Write;

use pmu_model::explain::{
    EncodeError, encode as encode_words, explain as explain_value, modifiers as known_modifiers,
    register_number,
};
use pmu_model::{Access, Personality};

use crate::engine::soft::TIER;
use crate::error::{Error, Result};
use crate::msr_owners::{named, owners};

/// What `value` (hexadecimal) means in `register`, a name or an MSR number in hexadecimal.
///
/// # Errors
/// The personality's PMU has no such register, or the value is no number.
pub fn decode(personality: &'static Personality, register: &str, value: &str) -> Result<String> {
    let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")).unwrap_or(value);
    let digits = digits.trim_end_matches(['h', 'H']).replace('_', "");
    let value = u64::from_str_radix(&digits, 16)
        .map_err(|_| Error::Usage(format!("{value:?} is no hexadecimal number of 64 bits")))?;
    let explanation = explain_value(personality, personality.live.of(TIER), register, value)
        .map_err(|error| {
            let owners = register_number(register).map(owners).unwrap_or_default();
            let elsewhere = match owners.is_empty() {
                true => others(personality, |other| other.register_by_name(register).is_some()),
                false => format!("; it is {}; this is {}", named(&owners), personality.name),
            };
            Error::Usage(format!("{error}{elsewhere}"))
        })?;
    let mut text = String::new();
    let register = explanation.register;
    // Writing to a string does not fail.
    let _ = writeln!(text, "{} (MSR {:08X}h) = {value:#x}", register.name, register.msr);
    for field in &explanation.fields {
        let (bits, name) = (&field.bits, field.name);
        let _ = writeln!(text, "  {bits:>5}  {name:<12}  {:#x}  {}", field.value, field.meaning);
    }
    if explanation.reads_as != value && register.access != Access::WriteOnly {
        let _ = writeln!(text, "  reads back as {:#x}", explanation.reads_as);
    }
    for selection in &explanation.selections {
        let of = match explanation.selections.len() {
            1 => String::new(),
            _ => format!("counter {}: ", selection.counter),
        };
        if let Some(event) = selection.event {
            let _ = writeln!(text, "  {of}event {}: {}", event.name, event.description);
            let metrics = personality.metrics.iter();
            for metric in metrics.filter(|metric| metric.events().any(|name| name == event.name)) {
                let _ = writeln!(text, "  {of}metric {} = {metric}", metric.name);
            }
        }
        let _ = writeln!(text, "  {of}in words: {}", selection.encoding);
    }
    for warning in &explanation.warnings {
        let _ = writeln!(text, "  note: {warning}");
    }
    Ok(text)
}

/// The event select that `words` ask for.
///
/// # Errors
/// An unknown event or word, or a number out of range.
pub fn encode(personality: &'static Personality, words: &str) -> Result<String> {
    let value = encode_words(personality, words).map_err(|error| {
        let more = match &error {
            EncodeError::UnknownEvent { name, .. } => {
                others(personality, |other| other.event_by_name(name).is_some())
            }
            EncodeError::UnknownModifier { .. } => "; --encode help lists the modifiers".into(),
            _ => String::new(),
        };
        Error::Usage(format!("{error}{more}"))
    })?;
    Ok(format!("{value:#x}\n"))
}

/// What may stand behind an event in words, a line each.
pub fn modifiers(personality: &'static Personality) -> String {
    let mut text = String::from(
        "EVENT[:WORD...]; EVENT is a name, or rNNNN with code, unit mask and flags in hexadecimal.\n\
         A WORD is a unit mask of the event by name, all for all of them, or one of\n",
    );
    for modifier in known_modifiers(personality) {
        let number = if modifier.max.is_some() { "N" } else { "" };
        let words: Vec<_> = modifier.words.iter().map(|word| format!("{word}{number}")).collect();
        let most = modifier.max.map_or(String::new(), |max| format!(" (N up to {max})"));
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:<14}{}{most}", words.join(", "), modifier.meaning);
    }
    text
}

/// The other personalities that have what is asked for, as the end of a sentence that says that this one has
/// not; empty if none has.
pub(crate) fn others(
    personality: &Personality,
    has: impl Fn(&'static Personality) -> bool,
) -> String {
    let others = Personality::ALL.iter().copied();
    let others = others.filter(|other| other.name != personality.name && has(other));
    let names: Vec<_> = others.map(|other| other.name).collect();
    if names.is_empty() { String::new() } else { format!("; it is on {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn k8() -> &'static Personality {
        Personality::by_name("k8").unwrap()
    }

    /// Section 10.2: C2h in 7:0, USR bit 16, INT bit 20.
    #[test]
    fn words_and_values_go_both_ways() {
        let words = "RETIRED_BRANCH_INSTRUCTIONS:u:int";
        assert_eq!(encode(k8(), words).unwrap(), "0x1100c2\n");
        let text = decode(k8(), "C0010000", "0x1100C2").unwrap();
        assert!(text.contains(&format!("in words: {words}\n")), "{text}");
        assert!(text.starts_with("PerfEvtSel0 (MSR C0010000h) = 0x1100c2\n"), "{text}");
    }

    /// An event is explained with what its users compute from it.
    #[test]
    fn an_event_comes_with_its_metrics() {
        let knc = Personality::by_name("knc").unwrap();
        let text = decode(knc, "28", "522018").unwrap();
        let metric =
            "metric vectorization intensity = VPU_ELEMENTS_ACTIVE / VPU_INSTRUCTIONS_EXECUTED\n";
        assert!(text.contains(metric), "{text}");
        assert!(!text.contains("metric CPI"), "{text}");
    }

    /// CESR programs both counters of a Pentium, counter 1 by bits 25:16.
    #[test]
    fn each_counter_of_cesr_has_its_words() {
        let p55c = Personality::by_name("p55c").unwrap();
        let text = decode(p55c, "cesr", "005600C0").unwrap();
        assert!(text.starts_with("CESR (MSR 00000011h) = 0x5600c0\n"), "{text}");
        assert!(text.contains("\n  counter 0: in words: DATA_READ\n"), "{text}");
        assert!(
            text.contains("\n  counter 1: in words: INSTRUCTIONS_EXECUTED:k:ctr=1\n"),
            "{text}"
        );
        assert_eq!(encode(p55c, "INSTRUCTIONS_EXECUTED:k:ctr=1").unwrap(), "0x560000\n");
    }

    /// A write-only register has nothing to read back, and says so (Intel 327357, 1.4.3.6).
    #[test]
    fn a_write_only_register_is_not_read_back() {
        let knc = Personality::by_name("knc").unwrap();
        let text = decode(knc, "2E", "ff").unwrap();
        assert!(text.contains("note: RDMSR raises #GP: the register is write-only\n"), "{text}");
        assert!(!text.contains("reads back as"), "{text}");
    }

    /// CESR is MSR 11h of the Pentium; IA32_PERF_GLOBAL_CTRL, 2Fh, and VPU_ELEMENTS_ACTIVE are of Knights
    /// Corner (Intel 327357, 1.4.3.4 and Table 1-6).
    #[test]
    fn what_others_have_is_said() {
        let error = |result: Result<String>| result.unwrap_err().to_string();
        let text = error(decode(k8(), "CESR", "0"));
        assert!(text.ends_with("; it is on p55c"), "{text}");
        let text = error(decode(k8(), "2F", "0"));
        assert!(text.ends_with("2F; it is IA32_PERF_GLOBAL_CTRL of knc; this is k8"), "{text}");
        let text = error(encode(k8(), "VPU_ELEMENTS_ACTIVE:u"));
        assert!(text.ends_with("; it is on knc"), "{text}");
        assert!(!error(encode(k8(), "NOWHERE")).contains("it is on"));
        assert!(!error(decode(k8(), "NOWHERE", "0")).contains("it is on"));
    }

    /// A processor's own: Knights Corner has the mode for all threads, the Pentium names its counter.
    #[test]
    fn modifiers_are_listed() {
        let [k8, knc, p55c] = ["k8", "knc", "p55c"].map(|name| {
            let text = modifiers(Personality::by_name(name).unwrap());
            assert!(text.contains("\n  u, usr        count "), "{text}");
            text
        });
        assert!(k8.contains("\n  c=N, cmask=N  threshold") && !k8.contains("\n  t, any "), "{k8}");
        assert!(knc.contains("\n  t, any        count all threads of the core\n"), "{knc}");
        assert!(
            p55c.contains("\n  ctr=N         the counter;") && p55c.contains("(N up to 1)"),
            "{p55c}"
        );
        let error = encode(Personality::by_name("k8").unwrap(), "RETIRED_INSTRUCTIONS:x");
        let text = error.unwrap_err().to_string();
        assert!(text.contains("; --encode help lists the modifiers"), "{text}");
    }

    #[test]
    fn a_clear_enable_bit_is_noted() {
        let note = "  note: EN is clear: the counter stands still\n";
        assert!(decode(k8(), "C0010000", "300C0").unwrap().contains(note));
        assert!(!decode(k8(), "C0010000", "4300C0").unwrap().contains("EN is clear"));
    }

    #[test]
    fn bad_words_are_one_line() {
        for error in [
            encode(k8(), "RETIRED_BRANCH").unwrap_err(),
            decode(k8(), "C0010009", "0").unwrap_err(),
            decode(k8(), "C0010000", "zz").unwrap_err(),
        ] {
            assert_eq!(error.status(), 2);
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
