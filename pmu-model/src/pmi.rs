//! Performance-monitor interrupts.

use crate::personality::MAX_COUNTERS;

/// The overflows with `INT` set that one call of the model produced: one assertion of the local
/// APIC's LVTPC each. What an assertion leads to is up to the local APIC, outside of this crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "an overflow with INT set asserts LVTPC"]
pub struct Pmis([u32; MAX_COUNTERS]);

impl Pmis {
    /// No overflow.
    pub const NONE: Pmis = Pmis([0; MAX_COUNTERS]);

    /// Adds `n` overflows of `counter`.
    pub(crate) fn add(&mut self, counter: usize, n: u32) {
        if let Some(count) = self.0.get_mut(counter) {
            *count = count.saturating_add(n);
        }
    }

    /// These assertions and those.
    #[inline]
    pub fn with(mut self, other: Self) -> Self {
        if other.is_empty() {
            return self;
        }
        for (counter, &n) in other.0.iter().enumerate() {
            self.add(counter, n);
        }
        self
    }

    /// Whether nothing is to be asserted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        *self == Pmis::NONE
    }

    /// Number of assertions.
    pub fn count(&self) -> u32 {
        self.0.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// The counter of each assertion, lowest counter first; a counter that overflowed several times
    /// comes as often.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(counter, &n)| core::iter::repeat_n(counter, n as usize))
    }
}
