//! `vpmu events`: the events of one personality or of all.

use std::fmt::Write;

use pmu_model::{Aliases, EventDef, Personality, Scope, UmaskRule, Unit, nearest};
use serde::Serialize;

use crate::config;
use crate::engine::soft::TIER;
use crate::error::{Error, Result};
use crate::explain::others;

/// An event as `--json` prints it.
#[derive(Serialize)]
struct EventJson {
    cpu: &'static str,
    name: &'static str,
    code: u8,
    umasks: Vec<UmaskJson>,
    /// How the mask selects, as in [`mask_rule`].
    umask_rule: &'static str,
    /// The mask meant when none is named; none where one has to be.
    default_umask: Option<u8>,
    counters: Vec<usize>,
    unit: Unit,
    scope: Scope,
    fidelity: &'static str,
    availability: &'static str,
    title: &'static str,
    description: &'static str,
    note: &'static str,
    section: &'static str,
    source: &'static str,
    /// The names of other clients; empty where one has none.
    aliases: Aliases,
    /// perf's own names for it, with the unit mask of each.
    perf: Vec<PerfJson>,
}

/// A name of perf's as `--json` prints it.
#[derive(Serialize)]
struct PerfJson {
    name: &'static str,
    mask: u8,
}

/// A unit mask as `--json` prints it.
#[derive(Serialize)]
struct UmaskJson {
    name: &'static str,
    mask: u8,
    fidelity: &'static str,
    description: &'static str,
}

/// The personalities that `--cpu` names: one, or `all`.
///
/// # Errors
/// No such personality; the message lists the known ones.
pub fn personalities(cpu: &str) -> Result<Vec<&'static Personality>> {
    if cpu.eq_ignore_ascii_case("all") {
        return Ok(Personality::ALL.to_vec());
    }
    Ok(vec![config::personality(cpu)?.0])
}

/// The list of the events that match `pattern`: a part of a name, by the manual or by a client, of which
/// libpfm4's may have a unit mask behind it (`EVENT:MASK`); or a code in hexadecimal.
///
/// # Errors
/// No event matches; the message names the nearest.
pub fn list(
    personalities: &[&'static Personality],
    pattern: Option<&str>,
    json: bool,
) -> Result<String> {
    let found: Vec<(&'static Personality, Vec<_>)> = personalities
        .iter()
        .map(|&personality| {
            let events = personality.events.iter();
            (
                personality,
                events.filter(|e| pattern.is_none_or(|p| matches(personality, e, p))).collect(),
            )
        })
        .filter(|(_, events): &(_, Vec<_>)| !events.is_empty())
        .collect();
    if let (true, Some(pattern)) = (found.is_empty(), pattern) {
        return Err(unknown(personalities, pattern));
    }
    if json {
        let rows: Vec<_> =
            found.iter().flat_map(|(p, events)| events.iter().map(|e| row(p, e))).collect();
        let text = serde_json::to_string_pretty(&rows);
        return text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e));
    }
    let mut text = String::new();
    for (i, (personality, events)) in found.iter().enumerate() {
        if personalities.len() > 1 {
            let Personality { name, part, .. } = personality;
            let gap = if i > 0 { "\n" } else { "" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{gap}{name}: {part}");
        }
        events.iter().for_each(|event| write_event(&mut text, personality, event));
    }
    Ok(text)
}

/// The error for a name that no event has.
fn unknown(personalities: &[&'static Personality], name: &str) -> Error {
    let events = personalities.iter().flat_map(|personality| personality.events);
    let names = events.flat_map(|event| [event.name].into_iter().chain(event.aliases.all()));
    let hint = nearest(name, names).map_or(String::new(), |n| format!("; did you mean {n}?"));
    let cpus: Vec<_> = personalities.iter().map(|personality| personality.name).collect();
    let others = match personalities {
        [only] => {
            others(only, |other| other.events.iter().any(|event| matches(other, event, name)))
        }
        _ => String::new(),
    };
    Error::Usage(format!("no event {name:?} on {}{hint}{others}", cpus.join(", ")))
}

/// The counters that can count an event.
pub(crate) fn counters(personality: &Personality, event: &EventDef) -> Vec<usize> {
    (0..personality.counters).filter(|n| event.counters >> n & 1 != 0).collect()
}

/// How the unit mask selects, in a word or two.
pub(crate) const fn mask_rule(rule: UmaskRule) -> &'static str {
    match rule {
        UmaskRule::Ignored => "ignored",
        UmaskRule::Bits => "bits",
        UmaskRule::Required => "one bit",
        UmaskRule::Values { .. } => "value",
        UmaskRule::Routes(_) => "routes",
    }
}

fn matches(personality: &Personality, event: &EventDef, pattern: &str) -> bool {
    let pattern = pattern.to_ascii_uppercase();
    let digits =
        pattern.strip_prefix("0X").unwrap_or(pattern.strip_suffix('H').unwrap_or(&pattern));
    if digits.len() == 2 && u8::from_str_radix(digits, 16) == Ok(event.code) {
        return true;
    }
    if let Some((name, mask)) = pattern.split_once(':') {
        let names = [event.name].into_iter().chain(event.aliases.all());
        let named = names.into_iter().any(|of_event| of_event.eq_ignore_ascii_case(name));
        return named && event.unit_mask(mask).is_some();
    }
    let names = [event.name, event.title].into_iter().chain(event.aliases.all());
    let perf = personality.perf_names_of(event).map(|perf| perf.name);
    names.chain(perf).any(|name| name.to_ascii_uppercase().contains(&pattern))
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
        umask_rule: mask_rule(event.umask_rule),
        default_umask: (!personality.mask_must_be_named.contains(&event.code))
            .then_some(event.default_umask),
        counters: counters(personality, event),
        unit: event.unit,
        scope: event.scope,
        fidelity: event.fidelity.name(),
        availability: event.availability(personality.live.of(TIER)).name(),
        title: event.title,
        description: event.description,
        note: event.note,
        section: event.section,
        source: event.source,
        aliases: event.aliases,
        perf: personality
            .perf_names_of(event)
            .map(|perf| PerfJson { name: perf.name, mask: perf.umask })
            .collect(),
    }
}

fn write_event(text: &mut String, personality: &Personality, event: &'static EventDef) {
    let fidelity = event.fidelity.name();
    let availability = event.availability(personality.live.of(TIER)).name();
    let counters = counters(personality, event);
    // Writing to a string does not fail.
    let _ = write!(text, "{:02X}h  {}  [{fidelity}, {availability}]", event.code, event.name);
    if counters.len() < personality.counters {
        let counters: Vec<_> = counters.iter().map(ToString::to_string).collect();
        let _ = write!(text, "  counter {}", counters.join(", "));
    }
    let _ = writeln!(text, "\n     {}", event.description);
    let [libpfm4, oprofile, perfctr, likwid] = event.aliases.all();
    let perf: Vec<_> = personality.perf_names_of(event).map(|perf| perf.name).collect();
    let clients = [
        ("perf", perf.join(", ")),
        ("libpfm4", libpfm4.to_owned()),
        ("OProfile", oprofile.to_owned()),
        ("perfctr", perfctr.to_owned()),
        ("LIKWID", likwid.to_owned()),
    ];
    let known = clients.iter().filter(|(_, name)| !name.is_empty() && name != event.name);
    let known: Vec<_> = known.map(|(client, name)| format!("{client}: {name}")).collect();
    if !known.is_empty() {
        let _ = writeln!(text, "     {}", known.join("; "));
    }
    for bit in event.umasks {
        let fidelity = bit.fidelity.name();
        let words = [bit.name, &format!("[{fidelity}]"), bit.title];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let _ = writeln!(text, "     {:02X}h  {}", bit.mask, words.join("  "));
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
            let text = list(&[k8()], Some(pattern), false).unwrap();
            assert!(text.starts_with("C0h  "), "{pattern}: {text}");
        }
    }

    /// The counts of the documents (Intel's Pentium and P6 manual, Tables 6-1 and 6-2; AMD 22007,
    /// Table 11; AMD 26094, section 10.2.1; Intel 327357, Table 1-6), and beside them the events
    /// that only other documents have.
    #[test]
    fn json_has_every_event_with_numbers_as_numbers() {
        let text = list(&personalities("all").unwrap(), None, true).unwrap();
        let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = rows.as_array().unwrap();
        for (cpu, source, of_source, all) in [
            ("p55c", "Intel MMX Technology manual, chapter 6", 65, 65 + 9),
            ("ppro", "Intel MMX Technology manual, chapter 6", 60, 68),
            ("pii", "Intel MMX Technology manual, chapter 6", 60, 78),
            ("p6", "Intel MMX Technology manual, chapter 6", 60, 80),
            // Four rows are changed.
            ("pm", "Intel MMX Technology manual, chapter 6", 56, 102),
            ("k7", "AMD 22007", 57, 57),
            ("k8", "AMD BKDG 26094", 87, 87),
            ("knc", "Intel 327357-001JA", 59, 59 + 4),
        ] {
            let count =
                |fits: &dyn Fn(&serde_json::Value) -> bool| rows.iter().filter(|r| fits(r)).count();
            assert_eq!(count(&|row| row["cpu"] == cpu), all, "{cpu}");
            assert_eq!(count(&|row| row["cpu"] == cpu && row["source"] == source), of_source);
        }
        for row in rows {
            let number = |value: &serde_json::Value, max| value.as_u64().is_some_and(|n| n <= max);
            assert!(number(&row["code"], 0xFF), "{row}");
            assert!(row["counters"].as_array().unwrap().iter().all(|n| number(n, 3)), "{row}");
            for mask in row["umasks"].as_array().unwrap() {
                assert!(number(&mask["mask"], 0xFF) && mask["name"].is_string(), "{row}");
            }
            for text in ["name", "title", "description", "section", "source"] {
                assert!(row[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {row}");
            }
            let fidelity = row["fidelity"].as_str().unwrap();
            assert!(["exact", "modelled", "estimated", "absent"].contains(&fidelity), "{row}");
            let availability = row["availability"].as_str().unwrap();
            assert!(["live", "partial", "pending", "absent"].contains(&availability), "{row}");
        }
        let locked = |row: &&serde_json::Value| row["cpu"] == "k8" && row["code"] == 0x24;
        let locked = rows.iter().find(locked).unwrap();
        assert_eq!(locked["umasks"][0]["mask"], 1);
        assert_eq!(locked["counters"], serde_json::json!([0, 1, 2, 3]));
    }

    /// C2h: retired branches on the K7 and the K8, micro-operations on the P6 family (22007, 26094,
    /// MMX manual Table 6-2), nothing on the others.
    #[test]
    fn all_processors_are_searched() {
        let text = list(&personalities("all").unwrap(), Some("C2h"), false).unwrap();
        for (cpu, name) in [("k8", "RETIRED_BRANCH_INSTRUCTIONS"), ("p6", "UOPS_RETIRED")] {
            let (_, rest) = text.split_once(&format!("{cpu}: ")).unwrap();
            assert!(rest.lines().nth(1).unwrap().starts_with(&format!("C2h  {name}")), "{text}");
        }
        assert!(!text.contains("p55c: "), "{text}");
    }

    /// Linux's K8 driver has branch-misses as C3h, its driver of Knights Corner as 2Bh; libpfm4's tables
    /// (commit 91970fe) have DISPATCHED_FPU:OPS_ADD of K8 as 00h with mask 01h, and CPU_CLK_UNHALTED as 76h.
    #[test]
    fn clients_names_are_searched() {
        for (pattern, code) in [
            ("branch-misses", "C3h"),
            ("Branch-Misses", "C3h"),
            ("stalled-cycles-backend", "D1h"),
            ("DISPATCHED_FPU:OPS_ADD", "00h"),
            ("cpu_clk_unhalted", "76h"),
        ] {
            let text = list(&[k8()], Some(pattern), false).unwrap();
            let events: Vec<_> = text.lines().filter(|line| !line.starts_with(' ')).collect();
            assert!(matches!(events[..], [event] if event.starts_with(code)), "{pattern}: {text}");
        }
        let text = list(&personalities("knc").unwrap(), Some("branch-misses"), false).unwrap();
        assert!(text.starts_with("2Bh  ") && text.contains("perf: branch-misses"), "{text}");
        assert!(list(&[k8()], Some("DISPATCHED_FPU:NOTHING"), false).is_err());
        let text = list(&[k8()], Some("branch-misses"), true).unwrap();
        let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(rows[0]["perf"][0], serde_json::json!({ "name": "branch-misses", "mask": 0 }));
    }

    /// Processors that have what this one has not are named.
    #[test]
    fn an_event_of_another_processor_is_said_so() {
        let error = list(&[k8()], Some("VPU_ELEMENTS_ACTIVE"), false).unwrap_err().to_string();
        assert!(error.ends_with("; it is on knc"), "{error}");
    }

    #[test]
    fn an_unknown_event_names_the_nearest() {
        let error = list(&[k8()], Some("RETIRED_BRANCH_INSTRUCTIONZ"), false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("did you mean RETIRED_BRANCH_INSTRUCTIONS?"), "{text}");
        assert!(!text.contains('\n'));
    }
}
