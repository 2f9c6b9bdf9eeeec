//! What is counted: the columns of a truth file.

use pmu_model::{Availability, Personality, Select, Signal, Tier};
use x86_cpu::observe::Facts;

use crate::engine::soft::{TIER, fact};
use crate::error::{Error, Result};
use crate::truth::Event;

/// What is counted if nothing else is asked for.
pub const DEFAULT: &str = "instructions,cycles,branches,taken-branches,loads,stores";

/// The names that mean the same on every personality.
const COMMON: [(&str, Signal); 6] = [
    ("instructions", Signal::InsnRetired),
    ("cycles", Signal::CyclesUnhalted),
    ("branches", Signal::BranchRetired),
    ("taken-branches", Signal::BranchTaken),
    ("loads", Signal::Load),
    ("stores", Signal::Store),
];

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Counts their sum.
    pub(super) signals: Vec<Signal>,
}

impl Column {
    pub(super) fn event(&self) -> Event {
        let signals = self.signals.iter().map(|signal| signal.name().to_owned()).collect();
        Event { name: self.name.clone(), signals }
    }

    /// How often it happened, where the signals did as `of` says.
    pub(super) fn sum(&self, mut of: impl FnMut(Signal) -> u64) -> u64 {
        self.signals.iter().map(|&signal| of(signal)).sum()
    }
}

/// The columns that a list of names asks for, separated by commas.
///
/// # Errors
/// A name that is none, or an event that does not count here or depends on more than what a single
/// instruction does.
pub(super) fn parse(list: &str, personality: &'static Personality) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let signals = signals_of(name, personality)?;
        if !columns.iter().any(|column| column.name == name) {
            columns.push(Column { name: name.to_owned(), signals });
        }
    }
    if columns.is_empty() {
        return Err(Error::Usage("events: expected names separated by commas".into()));
    }
    Ok(columns)
}

fn signals_of(name: &str, personality: &'static Personality) -> Result<Vec<Signal>> {
    if let Some((_, signal)) = COMMON.iter().find(|(common, _)| *common == name) {
        return Ok(vec![*signal]);
    }
    let refused = |why: &str| Error::Usage(format!("event {name}: {why}"));
    if let Some(signal) = Signal::by_name(name) {
        return if is_recorded(personality, signal) {
            Ok(vec![signal])
        } else {
            Err(refused(NOT_RECORDED))
        };
    }
    let (event, mask) = name.split_once(':').map_or((name, None), |(e, m)| (e, Some(m)));
    let Some(def) = personality.event_by_name(event) else {
        return Err(refused(&format!(
            "no event of {}, no signal and none of instructions, cycles, branches, taken-branches, \
             loads, stores; see `vpmu events --personality {}`",
            personality.name, personality.name
        )));
    };
    let umask = match mask {
        None => def.default_umask,
        Some(mask) => match parse_umask(mask).or_else(|| def.unit_mask(mask).map(|um| um.mask)) {
            Some(umask) => umask,
            None => return Err(refused("expected a unit mask's name or value, such as 0x0f")),
        },
    };
    let live = personality.live.of(TIER);
    match def.availability_of(umask, live) {
        Availability::Live => {}
        other => return Err(refused(&format!("is {}: it reads zero", other.name()))),
    }
    let signals: Vec<Signal> = def.counted(umask, live).collect();
    if signals.iter().all(|&signal| is_recorded(personality, signal)) {
        Ok(signals)
    } else {
        Err(refused(NOT_RECORDED))
    }
}

const NOT_RECORDED: &str = "is not something that a single instruction does";

fn parse_umask(text: &str) -> Option<u8> {
    match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The column of what a counter is programmed to count, whatever its threshold; `None` if that is not
/// live, or not something that a single instruction does.
pub(super) fn programmed(
    personality: &'static Personality,
    counter: usize,
    select: &Select,
) -> Option<Column> {
    let def = personality.event(select.event, select.umask, counter)?;
    let live = personality.live.of(TIER);
    if def.availability_of(select.umask, live) != Availability::Live {
        return None;
    }
    let signals: Vec<Signal> = def.counted(select.umask, live).collect();
    let name = if def.umasks.is_empty() {
        def.name.to_owned()
    } else {
        format!("{}:{:#04x}", def.name, select.umask)
    };
    signals
        .iter()
        .all(|&signal| is_recorded(personality, signal))
        .then_some(Column { name, signals })
}

/// Whether it is known of each instruction how often it fires a signal.
fn is_recorded(personality: &Personality, signal: Signal) -> bool {
    matches!(signal, Signal::InsnRetired | Signal::CyclesUnhalted)
        || fact(&mut Facts::default(), signal).is_some()
        || is_modelled(personality, signal)
}

/// Whether models tell of it.
fn is_modelled(personality: &Personality, signal: Signal) -> bool {
    let live = &personality.live;
    live.of(TIER).contains(signal) && !live.of(Tier::InstructionSet).contains(signal)
}
