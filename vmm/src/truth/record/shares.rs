//! How what is executed is shared out among calling contexts.

use pmu_model::Signal;
use x86_cpu::observe::{Accesses, Mark};

use super::columns::Column;

/// What was executed in a context and in none that it called.
///
/// Each call and each return gives the context that ends what was executed since the last, so what any
/// instruction may do has a place of its own.
#[derive(Clone, Default)]
pub(super) struct Share {
    instructions: u64,
    cycles: u64,
    branches: u64,
    taken: u64,
    near_returns: u64,
    accesses: Accesses,
    /// Accesses that are not among these yet, packed as a [`Mark`] has them: less than 2^20 of a kind.
    recent: u64,
    /// Of [`Shares::others`]; of those that are not there, nothing.
    others: Vec<u64>,
}

/// What was executed since something was last given to a context.
pub(super) struct Executed {
    pub(super) instructions: u64,
    pub(super) cycles: u64,
    pub(super) branches: u64,
    pub(super) taken: u64,
    pub(super) near_returns: u64,
    /// Packed as a [`Mark`] has them, less than 2^20 of a kind.
    pub(super) accesses: u64,
}

impl Share {
    /// Adds what was executed.
    #[inline(always)]
    pub(super) fn add(&mut self, executed: &Executed) {
        self.instructions += executed.instructions;
        self.cycles += executed.cycles;
        self.branches += executed.branches;
        self.taken += executed.taken;
        self.near_returns += executed.near_returns;
        self.recent += executed.accesses;
        if Mark::of_packed(self.recent).is_half_full() {
            self.make_room();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.accesses = self.all_accesses();
        self.recent = 0;
    }

    /// Adds what was executed beside that.
    pub(super) fn add_rest(&mut self, rest: &Rest) {
        let Rest { cycles, accesses: Accesses { loads, stores, misaligned } } = *rest;
        self.cycles += cycles;
        self.accesses.loads += loads;
        self.accesses.stores += stores;
        self.accesses.misaligned += misaligned;
    }

    fn all_accesses(&self) -> Accesses {
        let Accesses { loads, stores, misaligned } = self.accesses;
        let recent = Mark::of_packed(self.recent).accesses();
        Accesses {
            loads: loads + recent.loads,
            stores: stores + recent.stores,
            misaligned: misaligned + recent.misaligned,
        }
    }

    /// Its count of a signal that any instruction may fire; `None` for another one.
    fn common(&self, signal: Signal) -> Option<u64> {
        let Accesses { loads, stores, misaligned } = self.all_accesses();
        Some(match signal {
            Signal::InsnRetired => self.instructions,
            Signal::CyclesUnhalted => self.cycles,
            Signal::BranchRetired => self.branches,
            Signal::BranchTaken => self.taken,
            Signal::BranchRetiredRet => self.near_returns,
            Signal::Load => loads,
            Signal::Store => stores,
            Signal::Misaligned => misaligned,
            _ => return None,
        })
    }
}

/// What waits for the next context that something is given to.
#[derive(Default)]
pub(super) struct Rest {
    /// Cycles that passed where the context was not known.
    pub(super) cycles: u64,
    /// Accesses that are no longer among the recent ones of the counting.
    pub(super) accesses: Accesses,
}

impl Rest {
    /// More accesses wait.
    pub(super) fn add(&mut self, accesses: Accesses) {
        let Accesses { loads, stores, misaligned } = accesses;
        self.accesses.loads += loads;
        self.accesses.stores += stores;
        self.accesses.misaligned += misaligned;
    }
}

/// The signals that are shared out beside those that every [`Share`] has.
#[derive(Default)]
pub(super) struct Shares {
    others: Vec<Signal>,
    /// What of each has been given.
    given: Vec<u64>,
}

impl Shares {
    /// Shares out a signal from now on; `total` is what there was of it up to now.
    pub(super) fn add(&mut self, signal: Signal, total: impl FnOnce() -> u64) {
        if Share::default().common(signal).is_none() && !self.others.contains(&signal) {
            self.others.push(signal);
            self.given.push(total());
        }
    }

    /// Gives a context what of the other signals has not been given to any; `total` tells the sum.
    pub(super) fn give_others(&mut self, share: &mut Share, mut total: impl FnMut(Signal) -> u64) {
        share.others.resize(self.others.len(), 0);
        for ((own, given), &signal) in
            share.others.iter_mut().zip(&mut self.given).zip(&self.others)
        {
            let total = total(signal);
            *own += total - *given;
            *given = total;
        }
    }

    /// How much of a column there is in a share.
    pub(super) fn of(&self, column: &Column, share: &Share) -> u64 {
        column.sum(|signal| {
            let other = || {
                let at = self.others.iter().position(|&known| known == signal)?;
                share.others.get(at).copied()
            };
            share.common(signal).or_else(other).unwrap_or(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(signals: &[Signal]) -> Column {
        Column { name: String::new(), signals: signals.to_vec() }
    }

    /// So many instructions, a cycle more each ten, with so many accesses of each kind.
    fn executed(instructions: u64, loads: u64, stores: u64, misaligned: u64) -> Executed {
        let cycles = instructions + instructions / 10;
        let accesses = loads | stores << 21 | misaligned << 42;
        Executed { instructions, cycles, branches: 3, taken: 2, near_returns: 1, accesses }
    }

    /// Of a signal that is added when there have been 7, a context gets what came since.
    #[test]
    fn contexts_get_what_came_since_the_last_was_given() {
        let mut shares = Shares::default();
        let (mut first, mut second) = (Share::default(), Share::default());
        first.add(&executed(10, 5, 3, 0));
        shares.add(Signal::InterruptTaken, || 7);
        shares.add(Signal::Load, || unreachable!("always shared out"));
        second.add(&executed(20, 1, 0, 0));
        shares.give_others(&mut second, |_| 9);
        first.add(&executed(1, 0, 1, 0));
        let rest = Accesses { loads: 100, stores: 200, misaligned: 300 };
        first.add_rest(&Rest { cycles: 40, accesses: rest });
        let of = |signals: &[Signal], share| shares.of(&column(signals), share);
        let all = [Signal::InsnRetired, Signal::Load, Signal::InterruptTaken];
        assert_eq!(of(&all, &first), (10 + 1) + (5 + 100));
        assert_eq!(of(&all, &second), 20 + 1 + 2);
        assert_eq!(of(&[Signal::CyclesUnhalted], &first), 11 + 1 + 40);
        assert_eq!(of(&[Signal::CyclesUnhalted], &second), 22);
        assert_eq!(of(&[Signal::Store], &first), 3 + 1 + 200);
        assert_eq!(of(&[Signal::Misaligned], &first), 300);
        assert_eq!(of(&[Signal::BranchRetired], &first), 6);
        assert_eq!(of(&[Signal::BranchTaken], &first), 4);
        assert_eq!(of(&[Signal::BranchRetiredRet], &first), 2);
    }

    /// The most accesses that are given at once do not run from one field into the next.
    #[test]
    fn recent_accesses_do_not_overflow() {
        const MOST: u64 = (1 << 20) - 1;
        let mut share = Share::default();
        for _ in 0..5 {
            share.add(&executed(0, MOST, MOST, MOST));
        }
        share.add(&executed(0, 1, 2, 3));
        let shares = Shares::default();
        let of = |signal| shares.of(&column(&[signal]), &share);
        assert_eq!(of(Signal::Load), 5 * MOST + 1);
        assert_eq!(of(Signal::Store), 5 * MOST + 2);
        assert_eq!(of(Signal::Misaligned), 5 * MOST + 3);
    }
}
