//! Retirement: in program order, so many macro-operations a cycle.

use crate::state::{LATEST, Visitor};

/// Cycles of retirement that are remembered for [`Retirement::recent`].
const RECENT: usize = 64;

/// When macro-operations retire.
#[derive(Clone, Debug)]
pub(super) struct Retirement {
    width: u8,
    /// The cycle in which the last one retired, and how many in it.
    pub(super) last: u64,
    in_cycle: u8,
    /// One of them was of the floating-point unit.
    float: bool,
    /// Cycles before `last` in which none of the floating-point unit retired, not yet reported.
    pub(super) without_float: u64,
    recent: [(u64, u8); RECENT],
    cycles: usize,
}

impl Retirement {
    pub(super) fn new(width: u8) -> Self {
        Self {
            width,
            last: 0,
            in_cycle: 0,
            float: false,
            without_float: 0,
            recent: [(0, 0); RECENT],
            cycles: 0,
        }
    }

    /// Retires a macro-operation that is complete at a cycle: in the next one, or after.
    #[inline(always)]
    pub(super) fn retire(&mut self, complete: u64, float: bool) -> u64 {
        let mut cycle = (complete + 1).max(self.last);
        if cycle == self.last && self.in_cycle == self.width {
            cycle += 1;
        }
        if cycle == self.last {
            self.in_cycle += 1;
            self.float |= float;
        } else {
            self.without_float += cycle - self.last - u64::from(self.float);
            self.go_on(cycle);
            self.in_cycle = 1;
            self.float = float;
        }
        cycle
    }

    /// Nothing retires until a cycle, and the floating-point unit is not looked at.
    pub(super) fn idle_until(&mut self, cycle: u64) {
        self.without_float += u64::from(!self.float);
        self.go_on(cycle);
        self.in_cycle = 0;
        self.float = false;
    }

    fn go_on(&mut self, cycle: u64) {
        if self.in_cycle > 0 {
            self.recent[self.cycles % RECENT] = (self.last, self.in_cycle);
            self.cycles += 1;
        }
        self.last = cycle;
    }

    /// The last cycles in which macro-operations retired, with how many, that come behind the first
    /// `seen` ones; and how many there have been in all. The cycle of the last retirement is not among
    /// them, since more may retire in it.
    pub(super) fn recent(&self, seen: usize) -> (impl Iterator<Item = (u64, u8)> + '_, usize) {
        let first = seen.max(self.cycles.saturating_sub(RECENT));
        ((first..self.cycles).map(|n| self.recent[n % RECENT]), self.cycles)
    }
}

crate::state! {
    Retirement {
        saved: in_cycle, float, recent, cycles;
        cycles: last, without_float;
        derived: width;
        then: check;
    }
}

impl Retirement {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.in_cycle <= self.width && self.cycles as u64 <= LATEST);
    }
}
