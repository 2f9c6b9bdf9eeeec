//! `vpmu explain`: register values in words, and words in register values.

use std::fmt::Write;

use pmu_model::explain::{encode as encode_words, explain as explain_value};
use pmu_model::{Access, Personality};

use crate::engine::soft::TIER;
use crate::error::{Error, Result};

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
        .map_err(|error| Error::Usage(error.to_string()))?;
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
    let value = encode_words(personality, words).map_err(|e| Error::Usage(e.to_string()))?;
    Ok(format!("{value:#x}\n"))
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
