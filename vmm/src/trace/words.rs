//! Acts in words, the same in every format.

use std::fmt::{self, Display};

use pmu_model::explain::selection_words;
use pmu_model::{
    EnableRule, Evtsel, PerfctrWrite, Personality, Programming, Register, RegisterKind, Select,
    cesr,
};
use serde::Serialize;

use super::act::{Access, Act, Asserts, LvtpcChange, Reason};
use super::{Record, Subject};
use crate::irq::lapic::{Loss, PmiOutcome};
use crate::irq::lapic_registers::LVT_MASKED;
use crate::irq::message::DeliveryMode;
use crate::wording::listed;

/// What a value of an event select, or of CESR, programs one counter to.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Selection {
    pub(super) counter: usize,
    /// The words that `vpmu explain --encode` takes.
    pub(super) words: String,
    /// The event's name; `None` for a reserved code.
    pub(super) event: Option<&'static str>,
    pub(super) code: u8,
    pub(super) umask: u8,
    pub(super) usr: bool,
    pub(super) os: bool,
    pub(super) edge: bool,
    pub(super) inv: bool,
    pub(super) cmask: u8,
    /// Whether the enable bit is set; `None` where that bit has no function.
    pub(super) en: Option<bool>,
    pub(super) int: bool,
    /// It counts all threads of its core.
    pub(super) all_threads: bool,
}

impl Selection {
    fn new(personality: &'static Personality, counter: usize, word: u64) -> Self {
        let select = Select::from_word(personality, word, counter);
        let event = personality.event(select.event, select.umask, counter);
        let (bit, has_bit) = match personality.programming {
            Programming::PerfEvtSel => {
                (Evtsel(word).en(), counter == 0 || personality.enable != EnableRule::First)
            }
            Programming::Cesr => (select.enabled, true),
        };
        Self {
            counter,
            words: selection_words(personality, counter, word),
            event: event.map(|event| event.name),
            code: select.event,
            umask: select.umask,
            usr: select.cpls & 1 << 3 != 0,
            os: select.cpls & 1 != 0,
            edge: select.edge,
            inv: select.inv,
            cmask: select.cmask,
            en: has_bit.then_some(bit),
            int: select.int,
            all_threads: select.all_threads,
        }
    }
}

/// What a value of a register programs counters to; empty if the register selects no events.
pub(super) fn selections(
    personality: &'static Personality,
    register: &Register,
    value: u64,
) -> Vec<Selection> {
    match register.kind {
        RegisterKind::Evtsel(counter) => {
            vec![Selection::new(personality, counter, value & register.stored)]
        }
        RegisterKind::Cesr => (0..personality.counters)
            .map(|counter| {
                let half = value >> (cesr::HALF * counter as u32) & cesr::HALF_MASK;
                Selection::new(personality, counter, half)
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a counter is programmed to; `None` if to nothing.
pub(super) fn programmed(subject: &Subject, counter: usize, word: u64) -> Option<String> {
    (word != 0).then(|| selection_words(subject.personality, counter, word))
}

/// An act in words, without when and where.
pub(super) fn of(record: &Record<'_>) -> String {
    let Record { subject, ref act, .. } = *record;
    let personality = subject.personality;
    match *act {
        Act::Rdmsr { register, value, access: Access::Done } => {
            format!("RDMSR {} = {value:#x}", register.name)
        }
        Act::Rdmsr { register, access, .. } => {
            format!("RDMSR {}: #GP, {}", register.name, refusal(register, access, None))
        }
        Act::Wrmsr { register, value, access: Access::Done } => {
            let words = register_words(personality, register, value);
            format!("WRMSR {} = {value:#x}{words}", register.name)
        }
        Act::Wrmsr { register, value, access } => {
            let why = refusal(register, access, Some(value));
            format!("WRMSR {} = {value:#x}: #GP, {why}", register.name)
        }
        Act::ApicBase { value, enabled } => {
            let enabled = if enabled { "on" } else { "off" };
            format!("WRMSR IA32_APIC_BASE = {value:#x}: the local APIC is {enabled}")
        }
        Act::Rdpmc { counter, value: Some(value), word } => {
            let words = programmed(subject, counter as usize, word);
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            format!("RDPMC {counter} = {value:#x}{words}")
        }
        Act::Rdpmc { counter, value: None, .. } => {
            let why = match (counter as usize) < personality.counters {
                true => "above CPL 0 with CR4.PCE clear",
                false => "no such counter",
            };
            format!("RDPMC {counter:#x}: #GP, {why}")
        }
        Act::Spflt { preference } => {
            format!("SPFLT: user preference {}", if preference { "set" } else { "cleared" })
        }
        Act::Overflow { counter, word, value, asserts } => {
            let words = programmed(subject, counter, word).unwrap_or_default();
            let asserts = match asserts {
                Asserts::Interrupt => "",
                Asserts::IntClear => "; INT is clear: no interrupt",
                Asserts::StatusSet => {
                    "; no interrupt: a bit of IA32_PERF_GLOBAL_STATUS was set before"
                }
                Asserts::PinOnly => "; no interrupt: this processor's counters have pins",
            };
            format!("overflow of counter {counter}, {words}: now {value:#x}{asserts}")
        }
        Act::Pmi(outcome) => pmi(outcome),
        Act::Delivered(Some(vector)) => format!("PMI delivered: vector {vector:#04x}"),
        Act::Delivered(None) => "PMI delivered: NMI".into(),
        Act::Lvtpc { entry, by } => {
            let by = match by {
                LvtpcChange::Written => "",
                LvtpcChange::Delivery => "; by the delivery",
                LvtpcChange::Disabled => "; the local APIC is disabled",
            };
            format!("LVTPC = {entry:#x}: {}{by}", LvtEntry(entry))
        }
        Act::Eoi { vector } => format!("EOI of vector {vector:#04x}"),
        Act::Engine { engine, reason } => format!("engine {engine}: {}", reason_words(reason)),
    }
}

/// What became of the interrupt of a counter.
fn pmi(outcome: PmiOutcome) -> String {
    match outcome {
        PmiOutcome::Lost(loss) => format!("PMI lost: {}", loss_words(loss)),
        PmiOutcome::Fixed(vector) => format!("PMI sent: vector {vector:#04x}"),
        PmiOutcome::FixedMerged(vector) => {
            format!("PMI merged: vector {vector:#04x} is requested already")
        }
        PmiOutcome::Nmi => "PMI sent: NMI".into(),
        PmiOutcome::NmiMerged => "PMI merged: an NMI is latched already".into(),
        PmiOutcome::ExtInt => "PMI sent: ExtINT, with a vector of the 8259A".into(),
        PmiOutcome::Init => "PMI sent: INIT".into(),
        PmiOutcome::Smi => "PMI lost: LVTPC says SMI, and this machine has no SMM".into(),
        PmiOutcome::InKernel => "PMI sent: to the kernel's local APIC, which does not tell".into(),
        PmiOutcome::Illegal => "PMI lost: LVTPC has a vector below 16 or a reserved mode".into(),
    }
}

pub(super) const fn loss_words(loss: Loss) -> &'static str {
    match loss {
        Loss::NoEntry => "the local APIC has no LVTPC",
        Loss::HardwareDisabled => "IA32_APIC_BASE has the local APIC disabled",
        Loss::SoftwareDisabled => "SVR has the local APIC disabled",
        Loss::Masked => "LVTPC is masked",
        Loss::NeverWritten => "LVTPC is masked as after reset",
        Loss::MaskedByDelivery => "the delivery of the one before has masked LVTPC",
    }
}

const fn reason_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Begins => "the run begins",
        Reason::Counting => "a counter is enabled",
        Reason::NothingCounted => "no counter is enabled",
        Reason::NotHeld => "KVM cannot execute what a processor has come to",
    }
}

/// Why an access to a register was refused.
fn refusal(register: &Register, access: Access, written: Option<u64>) -> String {
    match written {
        _ if access == Access::RefusedAboveCpl0 => "not CPL 0".into(),
        Some(value) if value & register.faulting != 0 => {
            format!("bits {:#x} must be clear", value & register.faulting)
        }
        Some(_) => "the register is read-only".into(),
        None => "the register is write-only".into(),
    }
}

/// What a value that is written to a register means, behind a colon; nothing if there is nothing to say.
fn register_words(personality: &'static Personality, register: &Register, value: u64) -> String {
    let counters = |value: u64| {
        let set = (0..personality.counters).filter(|counter| value >> counter & 1 != 0);
        let names: Vec<_> = set.map(|counter| counter.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        match names.len() {
            0 => "no counter".into(),
            1 => format!("counter {}", names[0]),
            _ => format!("counters {}", listed(&names)),
        }
    };
    match register.kind {
        RegisterKind::Evtsel(_) => {
            let selections = selections(personality, register, value);
            let words = |selection: &Selection| match selection.en {
                _ if value & register.stored == 0 => ": nothing".into(),
                // EN is among the words.
                Some(false) => format!(": {}, EN clear", selection.words),
                _ => format!(": {}", selection.words),
            };
            selections.iter().map(words).collect()
        }
        RegisterKind::Cesr => {
            let selections = selections(personality, register, value);
            let half = |half: &Selection| match half.en {
                Some(false) => format!("counter {} off", half.counter),
                _ => format!("counter {} {}", half.counter, half.words),
            };
            format!(": {}", selections.iter().map(half).collect::<Vec<_>>().join(", "))
        }
        RegisterKind::Perfctr(_) => match held(personality, value) {
            0 => String::new(),
            held => {
                format!(": overflows after {} more", personality.perfctr_mask() - held + 1)
            }
        },
        RegisterKind::GlobalCtrl => format!(": enables {}", counters(value)),
        RegisterKind::GlobalOvfCtrl => format!(": clears the status of {}", counters(value)),
        RegisterKind::GlobalStatus => format!(": {}", counters(value)),
        RegisterKind::SpfltControl => {
            let preference = if value >> 63 == 0 { "clear" } else { "set" };
            format!(": {} by the user preference, {preference}", counters(value & !(1 << 63)))
        }
    }
}

/// What a counter holds after a write of `value`.
pub(super) fn held(personality: &Personality, value: u64) -> u64 {
    let value = match personality.perfctr_write {
        PerfctrWrite::Whole => value,
        PerfctrWrite::SignExtended32 => value as i32 as i64 as u64,
    };
    value & personality.perfctr_mask()
}

/// The delivery mode of an entry of the local vector table, in the manual's words.
pub(super) fn mode_name(entry: u32) -> &'static str {
    match DeliveryMode::from_register(entry) {
        DeliveryMode::Fixed => "fixed",
        DeliveryMode::Smi => "SMI",
        DeliveryMode::Nmi => "NMI",
        DeliveryMode::Init => "INIT",
        DeliveryMode::ExtInt => "ExtINT",
        DeliveryMode::LowestPriority | DeliveryMode::Reserved | DeliveryMode::StartUp => "reserved",
    }
}

/// An entry of the local vector table in words.
struct LvtEntry(u32);

impl Display for LvtEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DeliveryMode::from_register(self.0) {
            DeliveryMode::Fixed => write!(f, "vector {:#04x}", self.0 as u8)?,
            _ => write!(f, "{}", mode_name(self.0))?,
        }
        write!(f, "{}", if self.0 & LVT_MASKED == 0 { "" } else { ", masked" })
    }
}
