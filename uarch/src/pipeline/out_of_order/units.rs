//! Execution units: which of them starts an operation in which cycle.

use super::operation::{Blocking, Units};

/// Cycles that reservations are remembered. Operations of one reorder buffer that are issued further
/// apart do not contend.
const REMEMBERED: usize = 1024;

/// Bits of a unit set.
const UNIT_BITS: u32 = 16;

/// Which units are taken in which cycle.
///
/// Operations come in program order and each takes the first cycle in which one of its units is free.
/// For units that start an operation in every cycle that is the same as to start the oldest operation
/// that is ready, cycle by cycle: a younger one never delays an older one either way.
#[derive(Clone, Debug)]
pub(super) struct UnitSchedule {
    /// For each of the last cycles its number, shifted, and the units taken in it.
    cycles: Box<[u64; REMEMBERED]>,
    /// When each blocking unit is free.
    free: [u64; Blocking::COUNT],
}

impl UnitSchedule {
    pub(super) fn new() -> Self {
        Self { cycles: Box::new([0; REMEMBERED]), free: [0; Blocking::COUNT] }
    }

    /// Takes one of the units in the first cycle from `ready` on: the cycle, and the unit's bit.
    #[inline(always)]
    pub(super) fn take(&mut self, ready: u64, units: Units) -> (u64, Units) {
        let mut cycle = ready;
        loop {
            let slot = &mut self.cycles[cycle as usize % REMEMBERED];
            let empty = cycle << UNIT_BITS;
            let mut taken = *slot ^ empty;
            if taken >> UNIT_BITS != 0 {
                if *slot > empty {
                    // A reservation for long after has the place.
                    return (cycle, units & units.wrapping_neg());
                }
                taken = 0;
            }
            let free = units & !(taken as Units);
            if free != 0 {
                let unit = free & free.wrapping_neg();
                *slot = empty | taken | u64::from(unit);
                return (cycle, unit);
            }
            cycle += 1;
        }
    }

    /// From when on a blocking unit is free.
    #[inline(always)]
    pub(super) fn free(&self, blocking: Blocking) -> u64 {
        self.free[blocking as usize]
    }

    /// Keeps a blocking unit busy.
    #[inline(always)]
    pub(super) fn block(&mut self, blocking: Blocking, until: u64) {
        self.free[blocking as usize] = until;
    }
}

crate::state! { UnitSchedule { saved: cycles; cycles: free; } }
