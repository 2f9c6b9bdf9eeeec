//! `vpmu events`: the events of a personality.

use std::fmt::Write;

use pmu_model::{EventDef, Personality, nearest};
use serde::Serialize;

use crate::error::{Error, Result};

/// An event as `--json` prints it.
#[derive(Serialize)]
struct EventJson {
    cpu: &'static str,
    name: &'static str,
    code: u8,
    umasks: Vec<UmaskJson>,
    counters: Vec<usize>,
    fidelity: &'static str,
    availability: &'static str,
    title: &'static str,
    description: &'static str,
    section: &'static str,
    source: &'static str,
}

/// A unit mask as `--json` prints it.
#[derive(Serialize)]
struct UmaskJson {
    name: &'static str,
    mask: u8,
    fidelity: &'static str,
    description: &'static str,
}

/// The list of the events that match `pattern`: a part of a name, or a code in hexadecimal.
///
/// # Errors
/// No event matches; the message names the nearest.
pub fn list(
    personality: &'static Personality,
    pattern: Option<&str>,
    json: bool,
) -> Result<String> {
    let events: Vec<_> = personality
        .events
        .iter()
        .filter(|event| pattern.is_none_or(|p| matches(event, p)))
        .collect();
    if let (true, Some(pattern)) = (events.is_empty(), pattern) {
        return Err(unknown(personality, pattern));
    }
    if json {
        let rows: Vec<_> = events.iter().map(|event| row(personality, event)).collect();
        let text = serde_json::to_string_pretty(&rows);
        return text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()));
    }
    let mut text = String::new();
    for event in events {
        write_event(&mut text, event);
    }
    Ok(text)
}

/// The error for a name that no event has.
fn unknown(personality: &'static Personality, name: &str) -> Error {
    let names = personality
        .events
        .iter()
        .flat_map(|event| [event.name].into_iter().chain(event.aliases.all()));
    let hint = nearest(name, names).map_or(String::new(), |n| format!("; did you mean {n}?"));
    Error::Usage(format!("{} has no event {name:?}{hint}", personality.name))
}

fn matches(event: &EventDef, pattern: &str) -> bool {
    let pattern = pattern.to_ascii_uppercase();
    let digits =
        pattern.strip_prefix("0X").unwrap_or(pattern.strip_suffix('H').unwrap_or(&pattern));
    if digits.len() == 2 && u8::from_str_radix(digits, 16) == Ok(event.code) {
        return true;
    }
    let names = [event.name, event.title].into_iter().chain(event.aliases.all());
    names.into_iter().any(|name| name.to_ascii_uppercase().contains(&pattern))
}

fn row(personality: &'static Personality, event: &'static EventDef) -> EventJson {
    EventJson {
        cpu: personality.name,
        name: event.name,
        code: event.code,
        umasks: event
            .umasks
            .iter()
            .map(|bit| UmaskJson {
                name: bit.name,
                mask: bit.mask,
                fidelity: bit.fidelity.name(),
                description: bit.title,
            })
            .collect(),
        counters: (0..personality.counters).filter(|n| event.counters >> n & 1 != 0).collect(),
        fidelity: event.fidelity.name(),
        availability: event.availability().name(),
        title: event.title,
        description: event.description,
        section: event.section,
        source: event.source,
    }
}

fn write_event(text: &mut String, event: &'static EventDef) {
    let (fidelity, availability) = (event.fidelity.name(), event.availability().name());
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:02X}h  {}  [{fidelity}, {availability}]", event.code, event.name);
    let _ = writeln!(text, "     {}", event.description);
    for bit in event.umasks {
        let fidelity = bit.fidelity.name();
        let _ = writeln!(text, "     {:02X}h  {}  [{fidelity}]  {}", bit.mask, bit.name, bit.title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn k8() -> &'static Personality {
        Personality::by_name("k8").unwrap()
    }

    /// Section 10.2 of the K8 document: C0h is Retired Instructions, without a unit mask.
    #[test]
    fn an_event_is_found_by_code_and_by_name() {
        for pattern in ["C0", "c0h", "0xC0", "retired_instructions"] {
            let text = list(k8(), Some(pattern), false).unwrap();
            assert!(text.starts_with("C0h  "), "{pattern}: {text}");
        }
    }

    #[test]
    fn json_has_every_event_with_numbers_as_numbers() {
        let text = list(k8(), None, true).unwrap();
        let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 87);
        let locked = rows.iter().find(|row| row["code"] == 0x24).unwrap();
        assert_eq!(locked["cpu"], "k8");
        assert_eq!(locked["umasks"][0]["mask"], 1);
        assert_eq!(locked["counters"], serde_json::json!([0, 1, 2, 3]));
    }

    #[test]
    fn an_unknown_event_names_the_nearest() {
        let error = list(k8(), Some("RETIRED_BRANCH_INSTRUCTIONZ"), false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("did you mean RETIRED_BRANCH_INSTRUCTIONS?"), "{text}");
        assert!(!text.contains('\n'));
    }
}
