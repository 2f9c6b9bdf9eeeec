//! The direction of a conditional branch by its own history: two-level adaptive prediction as in the
//! Pentium with MMX and the P6 family. It is part of the branch's entry in the target buffer.

use super::counter::{WEAKLY_NOT_TAKEN, WEAKLY_TAKEN, after, predicts_taken};
use crate::state::Visitor;

/// The most outcomes that a history may have: sixteen counters for it are in a word.
pub(super) const LONGEST_HISTORY: u32 = 4;

/// One branch's last outcomes, and a two-bit counter for each value that they may have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocalPattern {
    /// That of history 0 in bits 1:0.
    counters: u32,
    /// The last outcomes, the newest in bit 0.
    history: u32,
}

impl LocalPattern {
    /// That of a branch that was executed once: as if it had always gone that way, but not for long.
    /// What the processors begin with is not sourced.
    pub(super) fn first(taken: bool, history_mask: u32) -> Self {
        let counter = u32::from(if taken { WEAKLY_TAKEN } else { WEAKLY_NOT_TAKEN });
        Self { counters: counter * 0x5555_5555, history: if taken { history_mask } else { 0 } }
    }

    /// Which way the branch is expected to go.
    #[inline(always)]
    pub(super) fn predicts_taken(self) -> bool {
        predicts_taken(self.counter())
    }

    /// Learns an outcome.
    #[inline(always)]
    pub(super) fn learn(&mut self, taken: bool, history_mask: u32) {
        let shift = self.history * 2;
        let counter = u32::from(after(self.counter(), taken));
        self.counters = self.counters & !(3 << shift) | counter << shift;
        self.history = (self.history << 1 | u32::from(taken)) & history_mask;
    }

    #[inline(always)]
    fn counter(self) -> u8 {
        (self.counters >> (self.history * 2)) as u8 & 3
    }
}

crate::state! { LocalPattern { saved: counters, history; then: check; } }

impl LocalPattern {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.history < 1 << LONGEST_HISTORY);
    }
}
