//! Register values in words, and words in register values.

mod encode;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use encode::{EncodeError, encode};

use crate::event::{Availability, EventDef, UmaskRule, UnitMask};
use crate::evtsel::{Evtsel, Field, INT, OS, USR};
use crate::nearest::nearest;
use crate::personality::{Personality, Register, RegisterKind};

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
    /// The event selected, if the register is an event select and the code is not reserved.
    pub event: Option<&'static EventDef>,
    /// The bits of the unit mask that are set and documented.
    pub umasks: Vec<&'static UnitMask>,
    /// The words that [`encode`] turns into the value again, for an event select.
    pub encoding: Option<String>,
    /// What is unlikely to be meant.
    pub warnings: Vec<String>,
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
        write!(f, "no PMU register {}", self.name)?;
        self.nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest}?"))
    }
}

impl core::error::Error for UnknownRegister {}

/// Explains `value` as the value of a register, named as in the manual or by its MSR number in
/// hexadecimal (with or without `0x`).
///
/// # Errors
/// The personality's PMU has no such register.
pub fn explain(
    personality: &'static Personality,
    register: &str,
    value: u64,
) -> Result<Explanation, UnknownRegister> {
    let number = register.strip_prefix("0x").or_else(|| register.strip_prefix("0X"));
    let number = u32::from_str_radix(number.unwrap_or(register).trim_end_matches(['h', 'H']), 16);
    let found = personality
        .register_by_name(register)
        .or_else(|| personality.register(number.ok()?))
        .ok_or_else(|| UnknownRegister {
            name: register.into(),
            nearest: nearest(register, personality.registers.iter().map(|r| r.name)),
        })?;
    Ok(match found.kind {
        RegisterKind::Evtsel(_) => explain_evtsel(personality, found, value),
        RegisterKind::Perfctr(_) => explain_perfctr(personality, found, value),
    })
}

fn field(field: &Field, register: u64, meaning: String) -> ExplainedField {
    let bits = if field.high == field.low {
        format!("{}", field.low)
    } else {
        format!("{}:{}", field.high, field.low)
    };
    ExplainedField { bits, name: field.name, value: field.extract(register), meaning }
}

fn explain_perfctr(
    personality: &'static Personality,
    register: &'static Register,
    value: u64,
) -> Explanation {
    let mask = personality.perfctr_mask();
    let fields = personality.perfctr_fields.iter().rev();
    let fields = fields.map(|part| field(part, value, part.meaning.into())).collect();
    let mut warnings = Vec::new();
    if value & !mask != 0 {
        warnings.push(format!("bits 63:{} are ignored and read as zero", personality.width));
    }
    if value & mask != 0 {
        warnings.push(format!("overflows after {} more events", mask - (value & mask) + 1));
    }
    Explanation {
        register,
        value,
        reads_as: value & mask,
        fields,
        event: None,
        umasks: Vec::new(),
        encoding: None,
        warnings,
    }
}

fn explain_evtsel(
    personality: &'static Personality,
    register: &'static Register,
    value: u64,
) -> Explanation {
    let layout = &personality.evtsel;
    let select = Evtsel(value & layout.stored);
    let event = personality.event(select.event());
    let umasks: Vec<_> = event
        .into_iter()
        .flat_map(|event| event.umasks)
        .filter(|bit| select.umask() & bit.mask != 0)
        .collect();
    let fields = layout.fields.iter().rev();
    let fields =
        fields.map(|part| field(part, value, meaning(part, value, event, &umasks))).collect();
    Explanation {
        register,
        value,
        reads_as: select.0,
        fields,
        event,
        encoding: Some(encoding(select, event, &umasks)),
        warnings: warnings(personality, register, value),
        umasks,
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
        "EVENT_SELECT" => event.map_or("reserved".into(), |event| event.title.into()),
        "UNIT_MASK" if umasks.is_empty() => part.meaning.into(),
        "UNIT_MASK" => {
            let titles: Vec<_> = umasks.iter().map(|bit| bit.title).collect();
            titles.join(" + ")
        }
        _ if part.high == part.low && part.extract(register) == 0 => {
            format!("clear ({})", part.meaning)
        }
        _ => part.meaning.into(),
    }
}

/// The words for an event select. Code and mask stand as numbers where they have no name.
fn encoding(
    select: Evtsel,
    event: Option<&'static EventDef>,
    umasks: &[&'static UnitMask],
) -> String {
    let mut words = match event {
        Some(event) => String::from(event.name),
        None => format!("r{:02X}", select.event()),
    };
    let named = umasks.iter().fold(0, |mask, bit| mask | bit.mask);
    if named == select.umask() && named != 0 {
        umasks.iter().for_each(|bit| words.extend([":", bit.name]));
    } else if select.umask() != event.map_or(0, |event| event.default_umask) {
        words += &format!(":umask=0x{:02X}", select.umask());
    }
    // Without "u" and "k" both are meant, so neither has to be said only where one is missing.
    match (select.usr(), select.os()) {
        (true, true) => {}
        (true, false) => words += ":u",
        (false, true) => words += ":k",
        (false, false) => words += ":none",
    }
    if select.cmask() != 0 {
        words += &format!(":c={}", select.cmask());
    }
    let flags = [
        (select.edge(), ":e"),
        (select.inv(), ":i"),
        (select.int(), ":int"),
        (select.0 & crate::evtsel::PIN_CONTROL != 0, ":pc"),
        (select.en(), ":en"),
    ];
    flags.iter().filter(|(set, _)| *set).for_each(|(_, word)| words += word);
    words
}

/// What is unlikely to be meant by an event select.
fn warnings(personality: &'static Personality, register: &Register, value: u64) -> Vec<String> {
    let layout = &personality.evtsel;
    let select = Evtsel(value & layout.stored);
    let mut warnings = Vec::new();
    if value & layout.faulting != 0 {
        warnings.push(format!("bits {:#x} raise #GP when written", value & layout.faulting));
    }
    if value & !layout.stored != 0 {
        let ignored = value & !layout.stored;
        warnings.push(format!("reserved bits {ignored:#x} are ignored and read as zero"));
    }
    if select.0 & (USR | OS) == 0 {
        warnings.push("neither USR nor OS is set: counts nothing".into());
    }
    if select.cmask() > layout.cmask_max {
        warnings.push(format!(
            "CNT_MASK {}-255 is reserved: {}",
            layout.cmask_max + 1,
            if select.inv() { "always true with INV" } else { "never true" }
        ));
    }
    if select.inv() && select.cmask() == 0 {
        warnings.push("INV is ignored while CNT_MASK is 0".into());
    }
    if let Some(event) = personality.event(select.event()) {
        warnings.extend(event_warnings(event, register.kind, select));
    } else {
        warnings.push(format!("reserved event {:02X}h: counts nothing", select.event()));
    }
    if select.0 & INT != 0 && !select.en() {
        warnings.push("INT is set, but EN is clear: the counter stands still".into());
    }
    warnings
}

/// What is unlikely to be meant by the selection of an event.
fn event_warnings(event: &'static EventDef, kind: RegisterKind, select: Evtsel) -> Vec<String> {
    let mut warnings = Vec::new();
    let known = event.umasks.iter().fold(0, |mask, bit| mask | bit.mask);
    let mask = select.umask();
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
    if matches!(kind, RegisterKind::Evtsel(counter) if event.counters >> counter & 1 == 0) {
        warnings.push("this counter cannot count this event".into());
    }
    match event.availability_of(mask) {
        Availability::Live => {}
        Availability::Partial => {
            warnings
                .push("some of the unit masks are pending in this version: they count zero".into());
        }
        Availability::Pending => {
            warnings.push("pending in this version: counts zero".into());
        }
        Availability::Absent => {
            warnings.push("absent on a one-socket PC: counts zero".into());
        }
    }
    warnings
}
