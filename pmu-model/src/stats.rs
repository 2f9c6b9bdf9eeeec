//! What each counter was used for: plain data for the summary of a run, invisible to the guest.

use alloc::vec::Vec;

use crate::event::EventDef;
use crate::personality::{MAX_EVENTS, Personality};
use crate::select::Select;

/// Distinct selections for which a counter has separate statistics; further ones are summed as
/// "others".
pub const MAX_SELECTIONS: usize = 31;

/// What was counted under one selection, or by one counter in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tally {
    /// Increments, whatever was written to the counter between.
    pub count: u64,
    /// Overflows, with `INT` or without.
    pub overflows: u64,
    /// Assertions of LVTPC.
    pub pmis: u64,
    /// Unhalted clocks while the counter was enabled, at any CPL.
    pub enabled_cycles: u64,
}

impl Tally {
    /// `clocks` unhalted clocks passed while the counter was enabled, and it counted `increments`.
    pub(crate) fn pass(&mut self, clocks: u64, increments: u64) {
        self.enabled_cycles = self.enabled_cycles.wrapping_add(clocks);
        self.count = self.count.wrapping_add(increments);
    }

    /// How often the counter's PM pin toggled, of what was counted under one selection.
    pub fn pin_toggles(&self, select: &Select) -> u64 {
        if select.pin_on_overflow { self.overflows } else { self.count }
    }

    /// The sum of two.
    #[must_use]
    fn plus(self, other: Tally) -> Tally {
        Tally {
            count: self.count.wrapping_add(other.count),
            overflows: self.overflows.wrapping_add(other.overflows),
            pmis: self.pmis.wrapping_add(other.pmis),
            enabled_cycles: self.enabled_cycles.wrapping_add(other.enabled_cycles),
        }
    }
}

/// One selection of a counter and what it counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Selection {
    /// The value that selects it, [`Select::word`].
    pub word: u64,
    /// Bit n: unhalted clocks passed at CPL n while the counter was enabled with it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ran_at: u8,
    /// What it counted.
    pub tally: Tally,
}

/// The use of one counter.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CounterStats {
    /// The selections in the order of their first use, [`MAX_SELECTIONS`] at most.
    selections: Vec<Selection>,
    /// What was counted under others.
    others: Tally,
    /// The selection that counts now; beyond the last: the others.
    current: u8,
    /// How the counter was last programmed to an event without being enabled.
    #[cfg_attr(feature = "serde", serde(default))]
    unenabled: Option<Unenabled>,
}

/// What a counter was programmed to that did not let it count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Unenabled {
    /// The value that says what it counts, [`Select::word`].
    pub word: u64,
    /// What kept it from counting.
    pub missing: Missing,
}

/// What keeps a counter that is programmed to an event from counting: the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Missing {
    /// It counts at no CPL: `USR` and `OS`, or the bits of `CC` that stand for them, are clear.
    PrivilegeLevel,
    /// `EN` of the event select of this counter is clear.
    Enable(usize),
    /// Its bit of `GLOBAL_CTRL` is clear.
    GlobalEnable,
    /// It obeys the user preference, which is not set.
    UserPreference,
}

impl CounterStats {
    /// A counter that was never enabled.
    pub(crate) const fn new() -> CounterStats {
        let others = Tally { count: 0, overflows: 0, pmis: 0, enabled_cycles: 0 };
        CounterStats { selections: Vec::new(), others, current: 0, unenabled: None }
    }

    /// `clocks` unhalted clocks passed at the CPLs in `ran_at` while the counter was enabled, and it
    /// counted `increments`.
    pub(crate) fn pass(&mut self, clocks: u64, increments: u64, ran_at: u8) {
        if let Some(selection) = self.selections.get_mut(usize::from(self.current)) {
            selection.ran_at |= ran_at;
        }
        self.current().pass(clocks, increments);
    }

    /// The counter was programmed to an event, and something keeps it from counting.
    pub(crate) fn leave_unenabled(&mut self, word: u64, missing: Missing) {
        self.unenabled = Some(Unenabled { word, missing });
    }

    /// How it was last programmed to an event, if it has never been enabled.
    pub fn never_enabled(&self) -> Option<Unenabled> {
        self.unenabled.filter(|_| self.selections.is_empty())
    }

    /// The counter was enabled with this selection.
    pub(crate) fn select(&mut self, word: u64) {
        let known = self.selections.iter().position(|selection| selection.word == word);
        let place = known.unwrap_or(self.selections.len());
        if place == self.selections.len() && place < MAX_SELECTIONS {
            self.selections.push(Selection { word, ..Selection::default() });
        }
        self.current = place as u8;
    }

    /// The tally that counts now.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut Tally {
        let current = self.selections.get_mut(usize::from(self.current));
        current.map_or(&mut self.others, |selection| &mut selection.tally)
    }

    /// Whether the record could have been made by this code; a restored one might not be.
    pub(crate) fn is_valid(&self) -> bool {
        let (used, current) = (self.selections.len(), usize::from(self.current));
        used <= MAX_SELECTIONS && (current < used.max(1) || current == MAX_SELECTIONS)
    }

    /// Each distinct selection that was enabled, in the order of its first use.
    pub fn selections(&self) -> &[Selection] {
        &self.selections
    }

    /// The selections beyond [`MAX_SELECTIONS`], in one sum.
    pub fn others(&self) -> Tally {
        self.others
    }

    /// Everything that the counter counted.
    pub fn total(&self) -> Tally {
        self.selections.iter().fold(self.others, |sum, selection| sum.plus(selection.tally))
    }
}

/// One takes the place of another without another allocation.
impl Clone for CounterStats {
    fn clone(&self) -> CounterStats {
        let mut stats = CounterStats::new();
        stats.clone_from(self);
        stats
    }

    fn clone_from(&mut self, from: &CounterStats) {
        let Self { selections, others, current, unenabled } = self;
        selections.clone_from(&from.selections);
        (*others, *current, *unenabled) = (from.others, from.current, from.unenabled);
    }
}

/// Something that a counter was enabled with and that does not wholly count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// A row of the event table, by position.
    Row(usize),
    /// A code without a row.
    Reserved(u8),
}

impl Selected {
    /// What a select selects, `event` being its row.
    pub(crate) fn of(
        personality: &'static Personality,
        select: &Select,
        event: Option<&'static EventDef>,
    ) -> Selected {
        let row =
            |event: &EventDef| personality.events.iter().position(|e| core::ptr::eq(e, event));
        event.and_then(row).map_or(Selected::Reserved(select.event), Selected::Row)
    }

    /// The row; none for a reserved code.
    pub fn event(self, personality: &'static Personality) -> Option<&'static EventDef> {
        match self {
            Selected::Row(row) => personality.events.get(row),
            Selected::Reserved(_) => None,
        }
    }

    /// The event code.
    pub fn code(self, personality: &'static Personality) -> u8 {
        match self {
            Selected::Row(row) => personality.events.get(row).map_or(0, |event| event.code),
            Selected::Reserved(code) => code,
        }
    }
}

/// Words of the set of rows.
const ROW_WORDS: usize = MAX_EVENTS.div_ceil(64);

/// A set of [`Selected`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UncountedSet {
    rows: [u64; ROW_WORDS],
    reserved: [u64; 4],
}

impl UncountedSet {
    /// Adds one.
    pub(crate) fn insert(&mut self, selected: Selected) {
        match selected {
            Selected::Row(row) => self.rows[row / 64] |= 1 << (row % 64),
            Selected::Reserved(code) => self.reserved[usize::from(code / 64)] |= 1 << (code % 64),
        }
    }

    /// The members: rows in the table's order, then reserved codes in rising order.
    pub fn iter(&self) -> impl Iterator<Item = Selected> + '_ {
        let rows = (0..ROW_WORDS * 64).filter(|row| self.rows[row / 64] >> (row % 64) & 1 != 0);
        let reserved =
            (0..=u8::MAX).filter(|c| self.reserved[usize::from(c / 64)] >> (c % 64) & 1 != 0);
        rows.map(Selected::Row).chain(reserved.map(Selected::Reserved))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == UncountedSet::default()
    }
}
