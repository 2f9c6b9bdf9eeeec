//! Register values in words, and words in register values.

mod encode;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use encode::{EncodeError, Modifier, encode, modifiers};

use crate::cesr;
use crate::counts::SignalSet;
use crate::event::{Availability, EventDef, Scope, UmaskRule, UnitMask};
use crate::evtsel::CNT_MASK;
use crate::nearest::nearest;
use crate::personality::{EnableRule, Personality};
use crate::register::{Access, Field, PerfctrWrite, Register, RegisterKind};
use crate::select::Select;

/// A register value in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Explanation {
    /// The register.
    pub register: &'static Register,
    /// The value explained.
    pub value: u64,
    /// What the register would read as after a write of the value.
    pub reads_as: u64,
    /// Every field, from the highest bit down.
    pub fields: Vec<ExplainedField>,
    /// What it selects, if the register selects events: one entry a counter.
    pub selections: Vec<ExplainedSelection>,
    /// What is unlikely to be meant.
    pub warnings: Vec<String>,
}

/// What an explained value selects for one counter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExplainedSelection {
    /// The counter.
    pub counter: usize,
    /// The event; none for a reserved code.
    pub event: Option<&'static EventDef>,
    /// The bits of the unit mask that are set and documented.
    pub umasks: Vec<&'static UnitMask>,
    /// The words that [`encode`] turns into the value again.
    pub encoding: String,
}

/// One field of an explained value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExplainedField {
    /// Which bits, as "7:0" or "22".
    pub bits: String,
    /// Name in the manual.
    pub name: &'static str,
    /// The field's value.
    pub value: u64,
    /// What that value does.
    pub meaning: String,
}

/// No register of that name or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRegister {
    /// What was asked for.
    pub name: String,
    /// The register with the nearest name.
    pub nearest: Option<&'static str>,
}

impl core::fmt::Display for UnknownRegister {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "no PMU register {}", self.name.escape_debug())?;
        self.nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest}?"))
    }
}

impl core::error::Error for UnknownRegister {}

/// The register that is named as in the manual, or by its MSR number in hexadecimal (with or without `0x`
/// or `h`).
pub fn find_register(personality: &Personality, register: &str) -> Option<&'static Register> {
    personality
        .register_by_name(register)
        .or_else(|| personality.register(register_number(register)?))
}

/// The MSR number that is meant by hexadecimal digits, with or without `0x` or `h`.
pub fn register_number(register: &str) -> Option<u32> {
    let digits = register.strip_prefix("0x").or_else(|| register.strip_prefix("0X"));
    u32::from_str_radix(digits.unwrap_or(register).trim_end_matches(['h', 'H']), 16).ok()
}

/// Explains `value` as the value of a register, named as in the manual or by its MSR number in
/// hexadecimal (with or without `0x`). `live` are the signals that fire.
///
/// # Errors
/// The personality's PMU has no such register.
pub fn explain(
    personality: &'static Personality,
    live: &SignalSet,
    register: &str,
    value: u64,
) -> Result<Explanation, UnknownRegister> {
    let found = find_register(personality, register).ok_or_else(|| UnknownRegister {
        name: register.into(),
        // A number is not mistyped for a name.
        nearest: match register_number(register) {
            Some(_) => None,
            None => nearest(register, personality.registers.iter().map(|r| r.name)),
        },
    })?;
    Ok(match found.kind {
        RegisterKind::Evtsel(counter) => explain_evtsel(personality, live, found, counter, value),
        RegisterKind::Cesr => explain_cesr(personality, live, found, value),
        RegisterKind::Perfctr(_) => explain_perfctr(personality, found, value),
        _ => explain_plain(found, value),
    })
}

/// What a counter is programmed to, in words: those that [`encode`] turns into `word` again.
pub fn selection_words(personality: &'static Personality, counter: usize, word: u64) -> String {
    selection(personality, counter, word).encoding
}

fn field(field: &Field, register: u64, meaning: String) -> ExplainedField {
    let bits = if field.high == field.low {
        format!("{}", field.low)
    } else {
        format!("{}:{}", field.high, field.low)
    };
    ExplainedField { bits, name: field.name, value: field.extract(register), meaning }
}

/// A value of a register that has nothing but its fields.
fn explain_plain(register: &'static Register, value: u64) -> Explanation {
    let fields = register.fields.iter().rev();
    let mut warnings = Vec::new();
    if value & register.faulting != 0 {
        warnings.push(format!("bits {:#x} raise #GP when written", value & register.faulting));
    }
    let ignored = value & !register.stored & !register.faulting;
    if ignored != 0 {
        warnings.push(format!("reserved bits {ignored:#x} are ignored and read as zero"));
    }
    match register.access {
        Access::ReadWrite => {}
        Access::ReadOnly => warnings.push("WRMSR raises #GP: the register is read-only".into()),
        Access::WriteOnly => warnings.push("RDMSR raises #GP: the register is write-only".into()),
    }
    Explanation {
        register,
        value,
        reads_as: value & register.stored,
        fields: fields.map(|part| field(part, value, plain_meaning(part, value))).collect(),
        selections: Vec::new(),
        warnings,
    }
}

fn explain_perfctr(
    personality: &'static Personality,
    register: &'static Register,
    value: u64,
) -> Explanation {
    let mask = personality.perfctr_mask();
    let reads_as = personality.perfctr_write.apply(value, mask);
    let mut warnings = Vec::new();
    if value != reads_as {
        warnings.push(match personality.perfctr_write {
            PerfctrWrite::Whole => {
                format!("bits 63:{} are ignored and read as zero", personality.width)
            }
            PerfctrWrite::SignExtended32 => format!(
                "a write sets bits 31:0; bits {}:32 become copies of bit 31",
                personality.width - 1
            ),
        });
    }
    if reads_as != 0 {
        warnings.push(format!("overflows after {} more events", mask - reads_as + 1));
    }
    Explanation { reads_as, warnings, ..explain_plain(register, value) }
}

fn explain_evtsel(
    personality: &'static Personality,
    live: &SignalSet,
    register: &'static Register,
    counter: usize,
    value: u64,
) -> Explanation {
    let plain = explain_plain(register, value);
    let selected = selection(personality, counter, value & register.stored);
    let meaning = |part: &Field| meaning(part, value, selected.event, &selected.umasks);
    let fields = register.fields.iter().rev().map(|part| field(part, value, meaning(part)));
    let mut warnings = plain.warnings;
    warnings.extend(evtsel_warnings(personality, live, register, counter, value & register.stored));
    Explanation {
        reads_as: value & register.stored,
        fields: fields.collect(),
        selections: alloc::vec![selected],
        warnings,
        ..plain
    }
}

fn explain_cesr(
    personality: &'static Personality,
    live: &SignalSet,
    register: &'static Register,
    value: u64,
) -> Explanation {
    let mut explanation = explain_plain(register, value);
    for counter in 0..personality.counters {
        let low = cesr::HALF * counter as u32;
        let half = value >> low & cesr::HALF_MASK;
        let selected = selection(personality, counter, half);
        let select = Select::from_word(personality, half, counter);
        if select.enabled {
            let about = |warning| format!("counter {counter}: {warning}");
            let warnings = selection_warnings(live, selected.event, counter, &select);
            explanation.warnings.extend(warnings.into_iter().map(about));
        }
        for (part, explained) in register.fields.iter().rev().zip(&mut explanation.fields) {
            match part.mask() >> low {
                cesr::ES => explained.meaning = title(selected.event),
                CC => explained.meaning = counter_control(half),
                _ => {}
            }
        }
        explanation.selections.push(selected);
    }
    explanation
}

/// `CC` of a half of CESR.
const CC: u64 = cesr::CC_SUPERVISOR | cesr::CC_USER | cesr::CC_CLOCKS;

/// What the counter control in a half of CESR does.
fn counter_control(half: u64) -> String {
    let cpls = match (half & cesr::CC_SUPERVISOR != 0, half & cesr::CC_USER != 0) {
        (false, false) => return "off".into(),
        (true, false) => "CPL 0-2",
        (false, true) => "CPL 3",
        (true, true) => "any CPL",
    };
    let what = if half & cesr::CC_CLOCKS != 0 { "clocks" } else { "events" };
    format!("{what} at {cpls}")
}

/// The manual's title of the event that a code selects.
fn title(event: Option<&EventDef>) -> String {
    event.map_or("reserved", |event| event.title).into()
}

/// What a word of a counter selects.
fn selection(personality: &'static Personality, counter: usize, word: u64) -> ExplainedSelection {
    let select = Select::from_word(personality, word, counter);
    let event = personality.event(select.event, select.umask, counter);
    let umasks: Vec<_> = event
        .into_iter()
        .flat_map(|event| event.umasks.iter().filter(|bit| selects(event, bit, select.umask)))
        .collect();
    let encoding = encode::words(personality, counter, word, event, &umasks);
    ExplainedSelection { counter, event, umasks, encoding }
}

/// Whether `umask` selects an entry of the event's table of masks.
fn selects(event: &EventDef, bit: &UnitMask, umask: u8) -> bool {
    match event.umask_rule {
        UmaskRule::Values { field } => umask & field == bit.mask,
        _ if bit.mask == 0 => umask == 0,
        _ => umask & bit.mask != 0,
    }
}

/// What a field's value does: for the event and its mask the names, else the manual's words, with
/// a "not" for a flag that is clear.
fn meaning(
    part: &Field,
    register: u64,
    event: Option<&EventDef>,
    umasks: &[&'static UnitMask],
) -> String {
    match part.name {
        "EVENT_SELECT" => title(event),
        "UNIT_MASK" | "UMASK" if umasks.iter().any(|bit| !bit.title.is_empty()) => {
            let titles: Vec<_> = umasks.iter().map(|bit| bit.title).collect();
            titles.join(" + ")
        }
        _ => plain_meaning(part, register),
    }
}

/// What a field's value does, with a "not" for a flag that is clear.
fn plain_meaning(part: &Field, register: u64) -> String {
    let flag = part.high == part.low && part.name != "reserved";
    if flag && part.extract(register) == 0 {
        format!("clear ({})", part.meaning)
    } else {
        part.meaning.into()
    }
}

/// What is unlikely to be meant by an event select.
fn evtsel_warnings(
    personality: &'static Personality,
    live: &SignalSet,
    register: &'static Register,
    counter: usize,
    value: u64,
) -> Vec<String> {
    let select = Select::from_word(personality, value, counter);
    // The manuals spell it "CNT_MASK" and "CMASK".
    let cmask = register.fields.iter().find(|part| part.mask() == CNT_MASK);
    let cmask = cmask.map_or("CNT_MASK", |part| part.name);
    let mut warnings = Vec::new();
    if select.cpls == 0 {
        warnings.push("neither USR nor OS is set: counts nothing".into());
    }
    if select.cmask > personality.cmask_max {
        warnings.push(format!(
            "{cmask} {}-255 is reserved: {}",
            personality.cmask_max + 1,
            if select.inv { "always true with INV" } else { "never true" }
        ));
    }
    if select.inv && select.cmask == 0 {
        warnings.push(format!("INV is ignored while {cmask} is 0"));
    }
    let event = personality.event(select.event, select.umask, counter);
    warnings.extend(selection_warnings(live, event, counter, &select));
    match personality.enable {
        EnableRule::First if counter > 0 && select.enabled => {
            warnings.push("EN of this register has no function: that of the first enables".into());
        }
        EnableRule::First if counter > 0 => {}
        EnableRule::First if !select.enabled => {
            warnings.push("EN is clear: every counter stands still".into());
        }
        _ if select.enabled => {}
        _ if select.int => {
            warnings.push("INT is set, but EN is clear: the counter stands still".into());
        }
        _ => warnings.push("EN is clear: the counter stands still".into()),
    }
    warnings
}

/// What is unlikely to be meant by the selection of an event.
fn selection_warnings(
    live: &SignalSet,
    event: Option<&'static EventDef>,
    counter: usize,
    select: &Select,
) -> Vec<String> {
    let Some(event) = event else {
        return alloc::vec![format!("reserved event {:02X}h: counts nothing", select.event)];
    };
    let mut warnings = Vec::new();
    let mask = select.umask;
    let known = match event.umask_rule {
        UmaskRule::Values { field } => field,
        _ => event.umasks.iter().fold(0, |mask, bit| mask | bit.mask),
    };
    if event.umask_rule == UmaskRule::Ignored {
        if mask != 0 {
            warnings.push(format!("UNIT_MASK {mask:02X}h is ignored by this event"));
        }
    } else {
        if mask & !known != 0 {
            warnings.push(format!("UNIT_MASK bits {:02X}h are not documented", mask & !known));
        }
        if event.selected(mask).next().is_none() {
            warnings.push(format!("UNIT_MASK {mask:02X}h selects nothing: counts zero"));
        }
    }
    if event.counters >> counter & 1 == 0 {
        warnings.push(format!("counter {counter} cannot count this event: counts zero"));
    }
    if event.scope == Scope::Core && !select.all_threads {
        warnings.push("the event has no thread context: it counts for the whole core".into());
    }
    match event.availability_of(mask, live) {
        Availability::Live => {}
        Availability::Partial => {
            warnings
                .push("some of the unit masks are pending in this version: they count zero".into());
        }
        Availability::Pending => {
            warnings.push("pending in this version: counts zero".into());
        }
        Availability::Absent => {
            warnings.push("absent in this machine: counts zero".into());
        }
    }
    warnings
}
