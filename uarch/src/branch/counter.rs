//! Two-bit saturating counters: 0 and 1 predict not taken, 2 and 3 taken.

use crate::state::Visitor;

/// The counter that predicts not taken, and changes its mind at the next taken branch.
pub(super) const WEAKLY_NOT_TAKEN: u8 = 1;
/// The counter that predicts taken, and changes its mind at the next branch that is not.
pub(super) const WEAKLY_TAKEN: u8 = 2;

/// What the counter predicts.
#[inline(always)]
pub(super) fn predicts_taken(counter: u8) -> bool {
    counter >= WEAKLY_TAKEN
}

/// The counter after an outcome.
#[inline(always)]
pub(super) fn after(counter: u8, taken: bool) -> u8 {
    if taken { (counter + 1).min(3) } else { counter.saturating_sub(1) }
}

/// What was visited last are counters, of two bits each.
pub(super) fn check<V: Visitor>(visitor: &mut V, counters: &[u8]) {
    visitor.check_all(|| counters.iter().all(|&counter| counter <= 3));
}
