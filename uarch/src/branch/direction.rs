//! The direction of conditional branches, by the scheme of the processor.

use super::{
    geometry::DirectionScheme,
    hybrid::{Hybrid, HybridGuess},
    local_pattern::{LONGEST_HISTORY, LocalPattern},
    path::Path,
    shared_history::SharedHistory,
    target_buffer::Entry,
};
use crate::state::{State, Visitor};

/// The scheme, with its tables.
#[derive(Clone, Debug)]
pub(super) enum Direction {
    LocalPatterns { history_mask: u32 },
    SharedHistory(SharedHistory),
    Hybrid(Box<Hybrid>),
}

/// Which way a branch is expected to go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guess {
    pub(super) taken: bool,
    /// What was asked for it, to learn from.
    tables: Option<HybridGuess>,
}

impl DirectionScheme {
    /// Bits of the path register: of those that select a set of the table by path, and of its tags.
    pub(super) fn path_bits(&self) -> u32 {
        match self {
            Self::Hybrid(geometry) => geometry.global_sets.ilog2() + geometry.global_tag_bits,
            Self::LocalPatterns { .. } | Self::SharedHistory(_) => 0,
        }
    }
}

impl Direction {
    /// Empty tables.
    pub(super) fn new(scheme: DirectionScheme) -> Self {
        match scheme {
            DirectionScheme::LocalPatterns { history_bits } => {
                assert!((1..=LONGEST_HISTORY).contains(&history_bits));
                Self::LocalPatterns { history_mask: (1 << history_bits) - 1 }
            }
            DirectionScheme::SharedHistory(geometry) => {
                Self::SharedHistory(SharedHistory::new(geometry))
            }
            DirectionScheme::Hybrid(geometry) => Self::Hybrid(Box::new(Hybrid::new(geometry))),
        }
    }

    /// Which way a branch is expected to go that has this entry in the target buffer, or none.
    #[inline(always)]
    pub(super) fn guess(&self, at: u64, entry: Option<&Entry>, path: &Path) -> Guess {
        match self {
            Self::LocalPatterns { .. } => {
                Guess { taken: entry.is_some_and(|e| e.pattern.predicts_taken()), tables: None }
            }
            Self::SharedHistory(history) => {
                let taken = entry.is_some_and(|e| history.expects(at, e));
                Guess { taken, tables: None }
            }
            Self::Hybrid(hybrid) => {
                let tables = hybrid.guess(at, path, entry.is_some());
                Guess { taken: tables.taken(), tables: Some(tables) }
            }
        }
    }

    /// Learns how a conditional branch went that has this entry, if that is what was expected; else
    /// changes nothing. Returns whether it was.
    #[inline(always)]
    pub(super) fn learn_if_right(
        &mut self,
        at: u64,
        entry: &mut Entry,
        path: &mut Path,
        taken: bool,
    ) -> bool {
        if let Self::Hybrid(hybrid) = self {
            let guess = hybrid.guess(at, path, true);
            let is_right = guess.taken() == taken;
            if is_right {
                hybrid.learn_on(at, path, &guess, taken);
            }
            return is_right;
        }
        let is_right = self.expects(at, entry, taken) == Some(true);
        if is_right {
            self.learn_told(at, entry, taken);
        }
        is_right
    }

    /// Whether a branch with this entry is expected to go that way; `None` by several tables.
    #[inline(always)]
    pub(super) fn expects(&self, at: u64, entry: &Entry, taken: bool) -> Option<bool> {
        let expected = match self {
            Self::LocalPatterns { .. } => entry.pattern.predicts_taken(),
            Self::SharedHistory(history) => history.expects(at, entry),
            Self::Hybrid(_) => return None,
        };
        Some(expected == taken)
    }

    /// A branch without an entry was not taken, by a scheme that passes over such.
    #[inline(always)]
    pub(super) fn remember_unseen(&mut self) {
        if let Self::SharedHistory(history) = self {
            history.remember(false);
        }
    }

    /// Learns how one went of which [`Self::expects`] told.
    #[inline(always)]
    pub(super) fn learn_told(&mut self, at: u64, entry: &mut Entry, taken: bool) {
        match self {
            Self::LocalPatterns { history_mask } => entry.pattern.learn(taken, *history_mask),
            Self::SharedHistory(history) => history.learn_with(at, entry, taken),
            Self::Hybrid(_) => {}
        }
    }

    /// Learns how a conditional branch went that has this entry, or none, on this path.
    #[inline(always)]
    pub(super) fn learn(
        &mut self,
        at: u64,
        entry: Option<&mut Entry>,
        path: &mut Path,
        guess: &Guess,
        taken: bool,
    ) {
        match self {
            Self::LocalPatterns { .. } => {
                if let Some(entry) = entry {
                    self.learn_told(at, entry, taken);
                }
            }
            Self::SharedHistory(history) => match entry {
                Some(entry) => self.learn_told(at, entry, taken),
                None => history.remember(taken),
            },
            Self::Hybrid(hybrid) => {
                if let Some(tables) = &guess.tables {
                    hybrid.learn_on(at, path, tables, taken);
                }
            }
        }
    }

    /// What a new entry remembers of its branch, which is executed for the first time.
    pub(super) fn first_pattern(&self, taken: bool) -> LocalPattern {
        match self {
            Self::LocalPatterns { history_mask } => LocalPattern::first(taken, *history_mask),
            Self::SharedHistory(_) | Self::Hybrid(_) => LocalPattern::default(),
        }
    }
}

/// The scheme is the part's.
impl State for Direction {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        match self {
            Self::LocalPatterns { history_mask: _ } => {}
            Self::SharedHistory(history) => history.visit(visitor),
            Self::Hybrid(hybrid) => hybrid.visit(visitor),
        }
    }
}
