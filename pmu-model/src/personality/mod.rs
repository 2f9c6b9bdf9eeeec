//! Personalities: which processor's PMU this is, as data.
//!
//! The logic of the crate asks fields and never asks which personality it has.

mod amd;
mod k7;
mod k7_events;
mod k8;
mod k8_events;
mod knc;
mod knc_events;
mod live;
mod metrics;
mod p55c;
mod p55c_events;
mod p6;
mod p6_events;
mod perf;
mod pm;
mod pm_events;
mod rows;

pub(crate) use self::live::NEVER;
pub use self::live::{CYCLE_DEPENDENT, LiveSignals, Tier};
use crate::event::EventDef;
use crate::metric::Metric;
use crate::register::{PerfctrWrite, Register, RegisterKind};

/// Most counters that a personality can have.
pub const MAX_COUNTERS: usize = 4;

/// Most rows that an event table can have: a saved state has a bit for each.
pub(crate) const MAX_EVENTS: usize = 128;

/// How the counters are programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Programming {
    /// By an event select each ([`crate::Evtsel`]).
    PerfEvtSel,
    /// By a half each of one register ([`crate::cesr`]).
    Cesr,
}

/// Which enable bits let a counter run that is programmed by an event select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EnableRule {
    /// `EN` of its own event select.
    Own,
    /// `EN` of the first event select, for all counters.
    First,
    /// `EN` of its own event select, its bit of `GLOBAL_CTRL`, and the user preference if
    /// `SPFLT_CONTROL` makes it obey that.
    Global,
}

/// What an overflow does besides the wrap of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PmiRule {
    /// With `INT` it asserts LVTPC, each overflow once.
    EachOverflow,
    /// It sets the counter's bit of `GLOBAL_STATUS`. A line of one bit leads from there to the
    /// local APIC: the overflow that makes the status leave zero asserts LVTPC if it has `INT`.
    StatusEdge,
    /// It may toggle a pin, and cannot interrupt.
    PinsOnly,
}

/// What INIT does to the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum InitRule {
    /// They keep their values.
    Keeps,
}

/// What a counter does that is enabled with a code or a unit mask that the manual does not define, or with an
/// event that only another counter can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum UndefinedEvent {
    /// The event never occurs, so that an inverted counter mask holds in every clock. No manual says so.
    NeverOccurs,
    /// It does not count, whatever its counter mask.
    StandsStill,
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

/// What one of perf's own names for events selects, by the processor's driver in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PerfName {
    /// The name.
    pub name: &'static str,
    /// The unit mask.
    pub umask: u8,
    /// The event's code.
    pub code: u8,
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
    /// Where it says how a counter is programmed: which bits enable it, for which CPL.
    pub select_section: &'static str,
    /// Where the interrupt of a counter and LVTPC, its entry in the local APIC, are described; empty if
    /// counters cannot interrupt.
    pub interrupt_section: &'static str,
    /// Number of counters, 1 to [`MAX_COUNTERS`]. RDPMC takes 0 up to one less.
    pub counters: usize,
    /// Width of a counter in bits, below 64.
    pub width: u32,
    /// Every register.
    pub registers: &'static [Register],
    /// How the counters are programmed.
    pub programming: Programming,
    /// What a write to a counter sets.
    pub perfctr_write: PerfctrWrite,
    /// Which enable bits let a counter run.
    pub enable: EnableRule,
    /// Largest `CNT_MASK` that the manual defines.
    pub cmask_max: u8,
    /// Most events that one cycle can add.
    pub max_events_per_cycle: u8,
    /// What a counter does whose event is undefined.
    pub undefined_event: UndefinedEvent,
    /// Lowest CPL that `USR` stands for; below that it is `OS`.
    pub usr_min_cpl: u8,
    /// Whether RDPMC in 16-bit code gives 32 bits and not the whole counter.
    pub rdpmc_32bit_in_16bit_code: bool,
    /// What an overflow does.
    pub pmi: PmiRule,
    /// Whether delivering a PMI sets the mask bit of LVTPC. For the local APIC, not for the model.
    pub lvtpc_auto_mask: bool,
    /// What INIT does.
    pub init: InitRule,
    /// Event codes of shared hardware, if any.
    pub northbridge: Option<Northbridge>,
    /// Codes of the events of which words have to name a unit mask ([`crate::explain::encode`]),
    /// because its values are of equal rank. The others have [`EventDef::default_umask`].
    pub mask_must_be_named: &'static [u8],
    /// The signals that fire, by tier: what [`EventDef::availability`] and [`crate::Pmu::new`] ask for.
    pub live: LiveSignals,
    /// The event table, in the manual's order.
    pub events: &'static [EventDef],
    /// What its users compute from their counts.
    pub metrics: &'static [Metric],
    /// perf's own names for events; none if Linux has no driver for the processor.
    pub perf_names: &'static [PerfName],
    /// Positions in `events` of the rows with a code, by code.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) by_code: &'static CodeIndex,
}

/// Most rows that one code can have: the twins of the Pentium, the unit-mask groups of Knights
/// Corner.
const MAX_ROWS: usize = 2;

/// The index from codes to rows; [`NO_EVENT`] fills it up.
pub(crate) type CodeIndex = [[u16; MAX_ROWS]; 256];

/// Entry of a code index that has no row.
const NO_EVENT: u16 = u16::MAX;

/// Makes the index from codes to rows. A code with more rows than [`MAX_ROWS`] does not compile.
pub(crate) const fn index_by_code(events: &[EventDef]) -> CodeIndex {
    let mut index = [[NO_EVENT; MAX_ROWS]; 256];
    let mut row = 0;
    while row < events.len() {
        let rows = &mut index[events[row].code as usize];
        let mut slot = 0;
        while rows[slot] != NO_EVENT {
            slot += 1;
        }
        rows[slot] = row as u16;
        row += 1;
    }
    index
}

impl Personality {
    /// Every personality.
    pub const ALL: &'static [&'static Personality] =
        &[&p55c::P55C, &p6::PPRO, &p6::PII, &p6::PIII, &pm::PM, &k7::K7, &k8::K8, &knc::KNC];

    /// The personality with this name; capitals and small letters alike.
    pub fn by_name(name: &str) -> Option<&'static Personality> {
        Self::ALL.iter().copied().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The rows with this code, in the manual's order; none for a reserved code.
    #[inline]
    pub fn events_of_code(&self, code: u8) -> impl Iterator<Item = &'static EventDef> {
        let rows = self.by_code[usize::from(code)];
        let events = self.events;
        rows.into_iter().filter_map(move |row| events.get(usize::from(row)))
    }

    /// What a counter counts that selects a code and a unit mask: of several rows with the code the
    /// one that the mask and the counter fit, or else the mask, or else the counter. None for a
    /// reserved code.
    #[inline]
    pub fn event(&self, code: u8, umask: u8, counter: usize) -> Option<&'static EventDef> {
        let [first, second] = self.by_code[usize::from(code)];
        let first = self.events.get(usize::from(first))?;
        let Some(second) = self.events.get(usize::from(second)) else {
            return Some(first);
        };
        let fit = |event: &EventDef| {
            let mask = event.umask_rule.documents(event.umasks, umask);
            2 * u8::from(mask) + u8::from(event.counters >> counter & 1 != 0)
        };
        Some(if fit(second) > fit(first) { second } else { first })
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

    /// perf's own names for an event, in the order of its driver.
    pub fn perf_names_of(&self, event: &EventDef) -> impl Iterator<Item = &'static PerfName> {
        self.perf_names.iter().filter(move |perf| {
            let selected = self.event(perf.code, perf.umask, 0);
            selected.is_some_and(|selected| selected.name == event.name)
        })
    }

    /// The register with this MSR number.
    #[inline]
    pub fn register(&self, msr: u32) -> Option<&'static Register> {
        let first = self.registers.first()?.msr;
        // Most parts number theirs without a gap.
        let at = self.registers.get(msr.wrapping_sub(first) as usize);
        at.filter(|register| register.msr == msr)
            .or_else(|| self.registers.iter().find(|register| register.msr == msr))
    }

    /// The register of a kind.
    pub fn register_of(&self, kind: RegisterKind) -> Option<&'static Register> {
        self.registers.iter().find(|register| register.kind == kind)
    }

    /// The register that programs a counter.
    pub fn programmed_by(&self, counter: usize) -> Option<&'static Register> {
        self.register_of(match self.programming {
            Programming::PerfEvtSel => RegisterKind::Evtsel(counter),
            Programming::Cesr => RegisterKind::Cesr,
        })
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

/// The sizes of what is kept for every personality in the same room.
const _: () = {
    let mut n = 0;
    while n < Personality::ALL.len() {
        let personality = Personality::ALL[n];
        assert!(personality.counters >= 1 && personality.counters <= MAX_COUNTERS);
        assert!(personality.width < 64);
        assert!(personality.name.len() <= 8 && personality.name.is_ascii());
        assert!(personality.events.len() <= MAX_EVENTS);
        n += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::UmaskRule;

    #[test]
    fn every_personality_keeps_the_rules_of_its_own_table() {
        for personality in Personality::ALL {
            let name = personality.name;
            for register in personality.registers {
                let mut bit = 0;
                let mut named = 0;
                for field in register.fields {
                    assert_eq!(field.low, bit, "{name} {} {}", register.name, field.name);
                    assert!(field.high >= field.low, "{name} {}", field.name);
                    bit = field.high + 1;
                    named |= if field.name == "reserved" { 0 } else { field.mask() };
                }
                assert_eq!(bit, 64, "{name} {}", register.name);
                assert_eq!(register.stored & !named, 0, "{name} {}", register.name);
                assert_eq!(register.stored & register.faulting, 0, "{name} {}", register.name);
            }
            for event in personality.events {
                let masks = event.umasks.len();
                let fits = match event.umask_rule {
                    UmaskRule::Ignored => masks == 0 && event.default_umask == 0,
                    UmaskRule::Required => masks == 1,
                    UmaskRule::Bits | UmaskRule::Routes(_) | UmaskRule::Values { .. } => masks > 0,
                };
                assert!(fits, "{name} {}", event.name);
                assert!(
                    event.signals.is_empty() || event.umask_rule == UmaskRule::Ignored,
                    "{name} {}: signals beside a unit mask",
                    event.name
                );
            }
            for &code in personality.mask_must_be_named {
                let mut rows = personality.events_of_code(code);
                assert!(rows.any(|event| event.umasks.len() > 1), "{name} {code:02X}h");
            }
        }
    }
}
