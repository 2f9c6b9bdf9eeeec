//! Personalities: which processor's PMU this is, as data.
//!
//! The logic of the crate asks fields and never asks which personality it has.

mod k8;
mod k8_events;

use crate::event::EventDef;
use crate::evtsel::{EvtselLayout, Field};

/// Most counters that a personality can have.
pub const MAX_COUNTERS: usize = 4;

/// What a register does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RegisterKind {
    /// Event select of the counter with this index.
    Evtsel(usize),
    /// Counter with this index.
    Perfctr(usize),
}

/// One model-specific register of a PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Register {
    /// MSR number, as in ECX of RDMSR and WRMSR.
    pub msr: u32,
    /// Name in the manual.
    pub name: &'static str,
    /// What it does.
    pub kind: RegisterKind,
}

/// Which enable bits let a counter run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EnableRule {
    /// `EN` of its own event select.
    Own,
}

/// What INIT does to the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum InitRule {
    /// They keep their values.
    Keeps,
}

/// Event codes counted by hardware that the cores of a node share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Northbridge {
    /// Lowest code.
    pub first: u8,
    /// Highest code.
    pub last: u8,
    /// Cores that share it. With one core a node the rule that one core's use of slot n bars the
    /// other core from it has no effect.
    pub cores_per_node: u8,
}

/// A processor's PMU, as data.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Personality {
    /// Short name, at most eight ASCII letters and digits.
    pub name: &'static str,
    /// The processors it stands for.
    pub part: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// Number of counters, 1 to [`MAX_COUNTERS`]. RDPMC takes 0 up to one less.
    pub counters: usize,
    /// Width of a counter in bits, below 64.
    pub width: u32,
    /// Every register.
    pub registers: &'static [Register],
    /// Bits of the event selects.
    pub evtsel: EvtselLayout,
    /// Fields of a counter register.
    pub perfctr_fields: &'static [Field],
    /// Which enable bits let a counter run.
    pub enable: EnableRule,
    /// Lowest CPL that `USR` stands for; below that it is `OS`.
    pub usr_min_cpl: u8,
    /// Whether delivering a PMI sets the mask bit of LVTPC. For the local APIC, not for the model.
    pub lvtpc_auto_mask: bool,
    /// Value of the event selects after power-up and after reset.
    pub evtsel_reset: u64,
    /// Value of the counters after power-up and after reset.
    pub perfctr_reset: u64,
    /// What INIT does.
    pub init: InitRule,
    /// Event codes of shared hardware, if any.
    pub northbridge: Option<Northbridge>,
    /// The event table, in the manual's order.
    pub events: &'static [EventDef],
    /// Position in `events` of the row with a code, by code; [`NO_EVENT`] for a reserved one.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) by_code: &'static [u16; 256],
}

/// Entry of a code index that has no row.
const NO_EVENT: u16 = u16::MAX;

/// The index from codes to rows.
const fn index_by_code(events: &[EventDef]) -> [u16; 256] {
    let mut index = [NO_EVENT; 256];
    let mut row = 0;
    while row < events.len() {
        assert!(index[events[row].code as usize] == NO_EVENT, "two rows with one code");
        index[events[row].code as usize] = row as u16;
        row += 1;
    }
    index
}

impl Personality {
    /// Every personality.
    pub const ALL: &'static [&'static Personality] = &[&k8::K8];

    /// The personality with this name; capitals and small letters alike.
    pub fn by_name(name: &str) -> Option<&'static Personality> {
        Self::ALL.iter().copied().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The row with this `EVENT_SELECT` code; none for a reserved code.
    #[inline]
    pub fn event(&self, code: u8) -> Option<&'static EventDef> {
        self.events.get(usize::from(self.by_code[usize::from(code)]))
    }

    /// The row with this name: the manual's first, then the names of libpfm4, OProfile, perfctr and
    /// LIKWID, in that order; capitals and small letters alike.
    pub fn event_by_name(&self, name: &str) -> Option<&'static EventDef> {
        if name.is_empty() {
            return None;
        }
        let by_client = |client: usize| {
            self.events.iter().find(|e| e.aliases.all()[client].eq_ignore_ascii_case(name))
        };
        self.events
            .iter()
            .find(|event| event.name.eq_ignore_ascii_case(name))
            .or_else(|| (0..4).find_map(by_client))
    }

    /// The register with this MSR number.
    #[inline]
    pub fn register(&self, msr: u32) -> Option<&'static Register> {
        self.registers.iter().find(|register| register.msr == msr)
    }

    /// The register with this name; capitals and small letters alike.
    pub fn register_by_name(&self, name: &str) -> Option<&'static Register> {
        self.registers.iter().find(|register| register.name.eq_ignore_ascii_case(name))
    }

    /// The bits that a counter has.
    #[inline]
    pub const fn perfctr_mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    /// Whether `code` is counted by hardware that the cores of a node share.
    pub fn is_northbridge(&self, code: u8) -> bool {
        self.northbridge.is_some_and(|nb| (nb.first..=nb.last).contains(&code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::UmaskRule;

    #[test]
    fn every_personality_keeps_the_rules_of_its_own_table() {
        for personality in Personality::ALL {
            let name = personality.name;
            let mut bit = 0;
            for field in personality.evtsel.fields {
                assert_eq!(field.low, bit, "{name} {}", field.name);
                assert!(field.high >= field.low, "{name} {}", field.name);
                bit = field.high + 1;
            }
            assert_eq!(bit, 64, "{name}");
            for event in personality.events {
                let masks = event.umasks.len();
                let fits = match event.umask_rule {
                    UmaskRule::Ignored => masks == 0 && event.default_umask == 0,
                    UmaskRule::Required => masks == 1,
                    UmaskRule::Bits | UmaskRule::Routes(_) => masks > 0,
                };
                assert!(fits, "{name} {}", event.name);
                assert!(
                    event.signals.is_empty() || event.umask_rule == UmaskRule::Ignored,
                    "{name} {}: signals beside a unit mask",
                    event.name
                );
            }
            assert!((1..=MAX_COUNTERS).contains(&personality.counters) && personality.width < 64);
            assert!(name.len() <= 8 && name.is_ascii());
        }
    }
}
