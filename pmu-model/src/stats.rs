//! What each counter was used for: plain data for the summary of a run, invisible to the guest.

/// Distinct selections that a counter keeps apart; further ones are summed as "others".
pub const MAX_SELECTIONS: usize = 31;

/// Entries of a counter's record: the selections, and the sum of the others behind them.
const ENTRIES: usize = MAX_SELECTIONS + 1;

/// What was counted under one selection, or by one counter in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tally {
    /// Increments, whatever was written to the counter between.
    pub count: u64,
    /// Overflows, with `INT` or without.
    pub overflows: u64,
    /// Overflows with `INT`.
    pub pmis: u64,
    /// Unhalted clocks while the counter was enabled, at any CPL.
    pub enabled_cycles: u64,
}

impl Tally {
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
    /// The event-select value, without its `EN` bit.
    pub evtsel: u64,
    /// What it counted.
    pub tally: Tally,
}

/// The use of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CounterStats {
    /// The selections in the order of their first use; the last entry sums the others.
    entries: [Selection; ENTRIES],
    /// Selections in `entries`.
    used: u8,
    /// Entry that counts now.
    current: u8,
}

impl CounterStats {
    /// A counter that was never enabled.
    pub(crate) const fn new() -> CounterStats {
        const UNUSED: Selection = Selection {
            evtsel: 0,
            tally: Tally { count: 0, overflows: 0, pmis: 0, enabled_cycles: 0 },
        };
        CounterStats { entries: [UNUSED; ENTRIES], used: 0, current: 0 }
    }

    /// The counter was enabled with this selection (without `EN`).
    pub(crate) fn select(&mut self, evtsel: u64) {
        if let Some(entry) = self.selections().iter().position(|s| s.evtsel == evtsel) {
            self.current = entry as u8;
        } else if usize::from(self.used) < MAX_SELECTIONS {
            self.current = self.used;
            self.used += 1;
            self.entries[usize::from(self.current)].evtsel = evtsel;
        } else {
            self.current = MAX_SELECTIONS as u8;
        }
    }

    /// The tally that counts now.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut Tally {
        &mut self.entries[usize::from(self.current) % ENTRIES].tally
    }

    /// Whether the record could have been made by this code; a restored one might not be.
    pub(crate) fn is_valid(&self) -> bool {
        let (used, current) = (usize::from(self.used), usize::from(self.current));
        used <= MAX_SELECTIONS && (current < used.max(1) || current == MAX_SELECTIONS)
    }

    /// Each distinct selection that was enabled, in the order of its first use.
    pub fn selections(&self) -> &[Selection] {
        &self.entries[..usize::from(self.used).min(MAX_SELECTIONS)]
    }

    /// The selections beyond [`MAX_SELECTIONS`], in one sum.
    pub fn others(&self) -> Tally {
        self.entries[MAX_SELECTIONS].tally
    }

    /// Everything that the counter counted.
    pub fn total(&self) -> Tally {
        self.entries.iter().fold(Tally::default(), |sum, entry| sum.plus(entry.tally))
    }
}

/// A set of event codes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CodeSet([u64; 4]);

impl CodeSet {
    /// Adds a code.
    pub(crate) fn insert(&mut self, code: u8) {
        self.0[usize::from(code / 64)] |= 1 << (code % 64);
    }

    /// Whether the code is in the set.
    pub fn contains(&self, code: u8) -> bool {
        self.0[usize::from(code / 64)] >> (code % 64) & 1 != 0
    }

    /// The codes, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&code| self.contains(code))
    }

    /// Whether no code is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}
