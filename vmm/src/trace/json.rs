//! A JSON object a line: `docs/trace.md` has the fields.

use serde::{Serialize, Serializer};

use super::act::{Access, Act, Asserts, Kind, LvtpcChange, Reason};
use super::words::{self, Selection};
use super::{Format, Record};
use crate::irq::lapic::PmiOutcome;
use crate::irq::lapic_registers::LVT_MASKED;

pub(super) struct Lines;

impl Format for Lines {
    fn act(&mut self, out: &mut String, record: &Record<'_>) {
        append(out, &Line::new(record));
        out.push('\n');
    }
}

/// Appends a value as JSON.
pub(super) fn append(out: &mut String, value: &impl Serialize) {
    // Neither a map with keys that are no strings nor a value that refuses is in a line.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// An act with all that is told of it.
#[derive(Serialize)]
pub(super) struct Line {
    cycles: u64,
    seconds: f64,
    vcpu: usize,
    #[serde(serialize_with = "hexadecimal")]
    cs: Option<u64>,
    #[serde(serialize_with = "hexadecimal")]
    rip: Option<u64>,
    cpl: Option<u8>,
    retired: Option<u64>,
    kind: Kind,
    #[serde(flatten)]
    details: Details,
    text: String,
}

/// What depends on the act.
#[derive(Serialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
enum Details {
    Rdmsr(MsrAccess),
    Wrmsr(MsrAccess),
    Rdpmc {
        counter: u32,
        #[serde(serialize_with = "hexadecimal")]
        value: Option<u64>,
        programmed: Option<String>,
    },
    Spflt {
        preference: bool,
    },
    Overflow {
        counter: usize,
        programmed: Option<String>,
        #[serde(serialize_with = "hexadecimal")]
        value: Option<u64>,
        asserts: Asserts,
    },
    Sent(Interrupt),
    Merged(Interrupt),
    Lost {
        reason: &'static str,
    },
    Delivered(Interrupt),
    Lvtpc {
        #[serde(serialize_with = "hexadecimal")]
        value: Option<u64>,
        mode: &'static str,
        vector: u8,
        masked: bool,
        by: LvtpcChange,
    },
    Eoi {
        vector: u8,
    },
    Engine {
        engine: &'static str,
        reason: Reason,
    },
}

/// RDMSR or WRMSR.
#[derive(Serialize)]
struct MsrAccess {
    #[serde(serialize_with = "hexadecimal")]
    msr: Option<u64>,
    register: &'static str,
    #[serde(serialize_with = "hexadecimal")]
    value: Option<u64>,
    /// Why it raised #GP.
    refused: Option<&'static str>,
    /// What the value programs counters to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    selections: Vec<Selection>,
}

/// The interrupt of a counter.
#[derive(Serialize)]
struct Interrupt {
    mode: &'static str,
    vector: Option<u8>,
}

impl Line {
    pub(super) fn new(record: &Record<'_>) -> Self {
        let Record { subject, vcpu, at, ref act } = *record;
        Self {
            cycles: at.time,
            seconds: at.time as f64 / subject.clock_hz.max(1) as f64,
            vcpu,
            cs: at.code.map(|code| code.cs.into()),
            rip: at.code.map(|code| code.rip),
            cpl: at.code.map(|code| code.cpl),
            retired: at.retired,
            kind: act.kind(),
            details: Details::new(record),
            text: words::of(record),
        }
    }
}

impl Details {
    fn new(record: &Record<'_>) -> Self {
        let Record { subject, ref act, .. } = *record;
        let msr = |register: &pmu_model::Register, value: Option<u64>, access| MsrAccess {
            msr: Some(register.msr.into()),
            register: register.name,
            value,
            refused: match access {
                Access::Done => None,
                Access::Refused => Some("register"),
                Access::RefusedAboveCpl0 => Some("privilege"),
            },
            selections: value.map_or_else(Vec::new, |value| {
                words::selections(subject.personality, register, value)
            }),
        };
        match *act {
            Act::Rdmsr { register, value, access } => {
                Self::Rdmsr(msr(register, (access == Access::Done).then_some(value), access))
            }
            Act::Wrmsr { register, value, access } => {
                Self::Wrmsr(msr(register, Some(value), access))
            }
            Act::ApicBase { value, .. } => Self::Wrmsr(MsrAccess {
                msr: Some(crate::msr::APIC_BASE.into()),
                register: "IA32_APIC_BASE",
                value: Some(value),
                refused: None,
                selections: Vec::new(),
            }),
            Act::Rdpmc { counter, value, word } => Self::Rdpmc {
                counter,
                value,
                programmed: words::programmed(subject, counter as usize, word),
            },
            Act::Spflt { preference } => Self::Spflt { preference },
            Act::Overflow { counter, word, value, asserts } => Self::Overflow {
                counter,
                programmed: words::programmed(subject, counter, word),
                value: Some(value),
                asserts,
            },
            Act::Pmi(outcome) => Self::pmi(outcome),
            Act::Delivered(vector) => Self::Delivered(Interrupt { mode: mode(vector), vector }),
            Act::Lvtpc { entry, by } => Self::Lvtpc {
                value: Some(entry.into()),
                mode: words::mode_name(entry),
                vector: entry as u8,
                masked: entry & LVT_MASKED != 0,
                by,
            },
            Act::Eoi { vector } => Self::Eoi { vector },
            Act::Engine { engine, reason } => Self::Engine { engine, reason },
        }
    }

    fn pmi(outcome: PmiOutcome) -> Self {
        let sent = |mode| Self::Sent(Interrupt { mode, vector: None });
        let of = |vector| Interrupt { mode: mode(vector), vector };
        match outcome {
            PmiOutcome::Lost(loss) => Self::Lost { reason: words::loss_words(loss) },
            PmiOutcome::Fixed(vector) => Self::Sent(of(Some(vector))),
            PmiOutcome::FixedMerged(vector) => Self::Merged(of(Some(vector))),
            PmiOutcome::Nmi => Self::Sent(of(None)),
            PmiOutcome::NmiMerged => Self::Merged(of(None)),
            PmiOutcome::ExtInt => sent("ExtINT"),
            PmiOutcome::Init => sent("INIT"),
            PmiOutcome::InKernel => sent("in-kernel"),
            PmiOutcome::Smi => Self::Lost { reason: "there is no SMM" },
            PmiOutcome::Illegal => Self::Lost { reason: "LVTPC is illegal" },
        }
    }
}

/// How an interrupt of this vector, or without one, is delivered.
fn mode(vector: Option<u8>) -> &'static str {
    if vector.is_some() { "fixed" } else { "NMI" }
}

fn hexadecimal<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.serialize_str(&format!("{value:#x}")),
        None => serializer.serialize_none(),
    }
}
