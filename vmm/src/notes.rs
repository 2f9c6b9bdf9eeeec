//! Notes of a run: why a counter of the guest did not count, or its interrupts did not come.
//!
//! A note is made of what was observed while the guest ran, by the PMUs ([`pmu_model::CounterStats`]) and
//! by the local APICs ([`crate::irq::lapic::PmiRecord`]): it says what happened and where the manual has
//! the rule, and guesses at nothing. `docs/notes.md` lists them.

use std::fmt;

use pmu_model::explain::selection_words;
use pmu_model::{
    CounterStats, EventDef, Missing, Personality, PmiRule, Pmu, Programming, RegisterKind, Select,
    Unenabled,
};
use serde::Serialize;

use crate::irq::lapic::PmiRecord;
use crate::machine::Machine;
use crate::summary::{NOT_HERE, Uncounted, uncounted_by};
use crate::wording::{listed, numbers};

/// Something that kept a counter or its interrupt from doing what it was programmed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The processors on which it happened.
    pub vcpus: Vec<usize>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// Where the manual has the rule.
    pub section: String,
    /// All that as a sentence.
    pub text: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum What {
    /// An event was counted that does not count, or not with these unit masks.
    Uncounted {
        /// Its code.
        code: u8,
        /// Its name; empty for a reserved code.
        event: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// An event was counted on a counter that cannot count it.
    WrongCounter {
        /// The counter.
        counter: usize,
        /// The event's code.
        code: u8,
        /// Its name.
        event: &'static str,
        /// The counters that can.
        counters: Vec<usize>,
    },
    /// A counter was programmed to an event and never enabled.
    NeverEnabled {
        /// The counter.
        counter: usize,
        /// What it was programmed to.
        words: String,
        /// What kept it from counting.
        missing: String,
    },
    /// A counter was enabled for privilege levels at which nothing ran meanwhile.
    WrongLevel {
        /// The counter.
        counter: usize,
        /// What it was programmed to.
        words: String,
        /// The levels at which it counts.
        counts_at: Vec<u8>,
        /// Those that ran.
        ran_at: Vec<u8>,
    },
    /// Interrupts of counters were lost, since LVTPC was masked.
    PmisLost {
        /// How many.
        lost: u64,
    },
    /// Interrupts of counters were lost, since the delivery of one before had masked LVTPC.
    PmisLostBehindDelivery {
        /// How many.
        lost: u64,
    },
    /// Counters were to interrupt, and LVTPC was never written.
    LvtpcNeverWritten {
        /// The counters.
        counters: Vec<usize>,
        /// How many interrupts were lost.
        lost: u64,
    },
}

impl Note {
    /// The notes of a machine that has stopped: by processor, those that are the same on several once.
    #[must_use]
    pub fn all(machine: &Machine) -> Vec<Self> {
        let personality = machine.board.platform.name;
        let Some(personality) = Personality::by_name(personality) else { return vec![] };
        let mut notes: Vec<Self> = Vec::new();
        for (id, vcpu) in machine.vcpus().iter().enumerate() {
            let uncounted = uncounted_by(machine.count(), personality, &vcpu.pmu);
            let mut found = of_counters(personality, &vcpu.pmu, &uncounted);
            if let Some(record) = machine.pmi_record(id) {
                found.extend(of_interrupts(personality, &vcpu.pmu, record));
            }
            for (what, section) in found {
                let known = notes.iter_mut().find_map(|note| {
                    (note.section == section && note.what.takes(&what)).then_some(note)
                });
                match known {
                    Some(note) if note.vcpus.last() == Some(&id) => {}
                    Some(note) => note.vcpus.push(id),
                    None => {
                        notes.push(Self { vcpus: vec![id], what, section, text: String::new() });
                    }
                }
            }
        }
        for note in &mut notes {
            note.text = format!("{}: {} ({})", numbers(&note.vcpus), note.what, note.section);
        }
        notes
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl What {
    /// Whether it is the same as `other` on another processor; then it takes its number of interrupts.
    fn takes(&mut self, other: &Self) -> bool {
        match (&mut *self, other) {
            (Self::PmisLost { lost }, Self::PmisLost { lost: more })
            | (
                Self::PmisLostBehindDelivery { lost },
                Self::PmisLostBehindDelivery { lost: more },
            ) => {
                *lost += more;
                true
            }
            (
                Self::LvtpcNeverWritten { counters, lost },
                Self::LvtpcNeverWritten { counters: others, lost: more },
            ) => {
                let same = counters == others;
                *lost += if same { *more } else { 0 };
                same
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncounted { code, event: "", reason } => {
                write!(f, "event {code:02X}h: {reason}")
            }
            Self::Uncounted { code, event, reason } => {
                write!(f, "event {code:02X}h {event}: {reason}")
            }
            Self::WrongCounter { counter, code, event, counters } => write!(
                f,
                "event {code:02X}h {event} on counter {counter} counts nothing: only {} can count it",
                counted("counter", counters)
            ),
            Self::NeverEnabled { counter, words, missing } => {
                write!(f, "counter {counter} was set to {words} and never enabled: {missing}")
            }
            Self::WrongLevel { counter, words, counts_at, ran_at } => write!(
                f,
                "counter {counter}, {words}, counts at CPL {}, and only CPL {} ran while it was enabled",
                all(counts_at),
                all(ran_at)
            ),
            Self::PmisLost { lost } => {
                write!(f, "{} lost: LVTPC was masked", interrupts(*lost))
            }
            Self::PmisLostBehindDelivery { lost } => write!(
                f,
                "{} lost: the delivery of one before had masked LVTPC, and the guest had not unmasked it",
                interrupts(*lost)
            ),
            Self::LvtpcNeverWritten { counters, lost } => write!(
                f,
                "INT is set for {}, and LVTPC was never written, so that it is masked as after reset; \
                 {} lost",
                counted("counter", counters),
                interrupts(*lost)
            ),
        }
    }
}

fn all(numbers: &[impl ToString]) -> String {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    listed(&numbers.iter().map(String::as_str).collect::<Vec<_>>())
}

fn counted(what: &str, numbers: &[usize]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{what}{plural} {}", all(numbers))
}

fn interrupts(lost: u64) -> String {
    match lost {
        0 => "no interrupt of a counter was".into(),
        1 => "1 interrupt of a counter was".into(),
        _ => format!("{lost} interrupts of counters were"),
    }
}

/// The section of a personality's document that has an event.
fn section(event: &EventDef) -> String {
    let EventDef { source, section, .. } = event;
    let numbered = section.starts_with(|c: char| c.is_ascii_digit());
    format!("{source}, {}{section}", if numbered { "section " } else { "" })
}

/// Why counters did not count.
fn of_counters(
    personality: &'static Personality,
    pmu: &Pmu,
    uncounted: &[Uncounted],
) -> Vec<(What, String)> {
    let mut notes = Vec::new();
    for row in uncounted.iter().filter(|row| row.reason != NOT_HERE) {
        let Uncounted { code, event, reason } = *row;
        let known = personality.event_by_name(event);
        let section = known.map_or_else(|| personality.select_section.into(), section);
        notes.push((What::Uncounted { code, event, reason }, section));
    }
    for counter in 0..personality.counters {
        let Some(stats) = pmu.counter_stats(counter) else { continue };
        notes.extend(of_selections(personality, counter, &stats));
        if let Some(Unenabled { word, missing }) = stats.never_enabled() {
            let words = selection_words(personality, counter, word);
            let missing = missing_words(personality, counter, missing);
            let what = What::NeverEnabled { counter, words, missing };
            notes.push((what, personality.select_section.into()));
        }
    }
    for row in uncounted.iter().filter(|row| row.reason == NOT_HERE) {
        let Uncounted { code, event, .. } = *row;
        let is_said = |(what, _): &(What, String)| match what {
            What::WrongCounter { code: said, .. } => *said == code,
            _ => false,
        };
        if !notes.iter().any(is_said) {
            let known = personality.event_by_name(event);
            let section = known.map_or_else(|| personality.select_section.into(), section);
            let reason = "has no such unit mask, counts zero";
            notes.push((What::Uncounted { code, event, reason }, section));
        }
    }
    notes
}

/// What was wrong with what a counter was enabled with.
fn of_selections(
    personality: &'static Personality,
    counter: usize,
    stats: &CounterStats,
) -> Vec<(What, String)> {
    let mut notes = Vec::new();
    for selection in stats.selections() {
        let select = Select::from_word(personality, selection.word, counter);
        let event = personality.event(select.event, select.umask, counter);
        if let Some(event) = event.filter(|event| event.counters >> counter & 1 == 0) {
            let can = |counter: &usize| event.counters >> counter & 1 != 0;
            let what = What::WrongCounter {
                counter,
                code: event.code,
                event: event.name,
                counters: (0..personality.counters).filter(can).collect(),
            };
            notes.push((what, section(event)));
        }
        // The levels of other threads are not this one's.
        let is_own = !select.all_threads && selection.tally.count == 0;
        if is_own && selection.ran_at != 0 && selection.ran_at & select.cpls == 0 {
            let what = What::WrongLevel {
                counter,
                words: selection_words(personality, counter, selection.word),
                counts_at: levels(select.cpls),
                ran_at: levels(selection.ran_at),
            };
            notes.push((what, personality.select_section.into()));
        }
    }
    notes
}

fn levels(cpls: u8) -> Vec<u8> {
    (0..4).filter(|cpl| cpls >> cpl & 1 != 0).collect()
}

/// What kept a counter from counting.
fn missing_words(personality: &Personality, counter: usize, missing: Missing) -> String {
    let name = |kind| personality.register_of(kind).map_or("", |register| register.name);
    match missing {
        Missing::PrivilegeLevel => match personality.programming {
            Programming::PerfEvtSel => {
                let select = name(RegisterKind::Evtsel(counter));
                format!("USR and OS, bits 16 and 17 of {select}, were clear")
            }
            Programming::Cesr => {
                let low = 6 + pmu_model::cesr::HALF * counter as u32;
                format!("bits {low} and {} of {} were clear", low + 1, name(RegisterKind::Cesr))
            }
        },
        Missing::Enable(of) => {
            format!("EN, bit 22 of {}, was clear", name(RegisterKind::Evtsel(of)))
        }
        Missing::GlobalEnable => {
            format!("bit {counter} of {} was clear", name(RegisterKind::GlobalCtrl))
        }
        Missing::UserPreference => format!(
            "bit {counter} of {} makes it obey the user preference, which was clear",
            name(RegisterKind::SpfltControl)
        ),
    }
}

/// Why interrupts of counters did not come.
fn of_interrupts(
    personality: &'static Personality,
    pmu: &Pmu,
    record: PmiRecord,
) -> Vec<(What, String)> {
    if personality.pmi == PmiRule::PinsOnly {
        return vec![];
    }
    let interrupts = |&counter: &usize| {
        let stats = pmu.counter_stats(counter);
        let selections = stats.as_ref().map_or(&[][..], CounterStats::selections);
        let int = |word| Select::from_word(personality, word, counter).int;
        selections.iter().any(|selection| int(selection.word))
    };
    let counters: Vec<_> = (0..personality.counters).filter(interrupts).collect();
    let mut whats = Vec::new();
    let PmiRecord { lvtpc_written, lost_masked, lost_behind_delivery, .. } = record;
    if !lvtpc_written && !counters.is_empty() {
        whats.push(What::LvtpcNeverWritten { counters, lost: lost_masked });
    } else if lost_masked != 0 {
        whats.push(What::PmisLost { lost: lost_masked });
    }
    if lost_behind_delivery != 0 {
        whats.push(What::PmisLostBehindDelivery { lost: lost_behind_delivery });
    }
    whats.into_iter().map(|what| (what, personality.interrupt_section.into())).collect()
}
