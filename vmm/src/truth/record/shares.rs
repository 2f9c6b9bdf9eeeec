//! How what is executed is shared out among calling contexts.

use pmu_model::Signal;
use x86_cpu::observe::{Accesses, Mark, Transfers, are_half_full};

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
    /// Accesses that are not among these yet: less than 2^20 of a kind.
    recent: Mark,
    /// Near transfers that are not: less than 2^20 of a kind.
    transfers: Transfers,
    /// Of [`Shares::others`]; of those that are not there, nothing.
    others: Vec<u64>,
}

/// What was executed since something was last given to a context.
pub(super) struct Executed {
    pub(super) instructions: u64,
    pub(super) cycles: u64,
    /// Packed as [`Transfers`] has them, less than 2^20 of a kind.
    pub(super) transfers: u64,
    /// Packed as a [`Mark`] has them, less than 2^20 of a kind; bit 63 counts nothing.
    pub(super) accesses: u64,
}

impl Share {
    /// Adds what was executed, if there is [room](Self::is_half_full).
    #[inline(always)]
    pub(super) fn add(&mut self, executed: &Executed) {
        self.instructions += executed.instructions;
        self.cycles += executed.cycles;
        self.recent = Mark::of_packed(self.recent.packed().wrapping_add(executed.accesses));
        self.transfers = Transfers::of_packed(self.transfers.packed() + executed.transfers);
    }

    /// Whether there may be no room for more accesses or transfers: see [`are_half_full`].
    #[inline(always)]
    pub(super) fn is_half_full(&self) -> bool {
        are_half_full(self.recent, self.transfers)
    }

    /// Makes room for them.
    pub(super) fn make_room(&mut self) {
        self.accesses = self.all_accesses();
        self.recent = Mark::default();
        let transfers = std::mem::take(&mut self.transfers);
        self.branches += transfers.branches();
        self.taken += transfers.taken();
        self.near_returns += transfers.near_returns();
    }

    /// Adds what was executed beside that.
    pub(super) fn add_rest(&mut self, rest: &Rest) {
        let Rest { cycles, far, branches, taken, near_returns, accesses } = *rest;
        let Accesses { loads, stores, misaligned } = accesses;
        self.cycles += cycles;
        // A far transfer is a branch that is taken.
        self.branches += branches + far;
        self.taken += taken + far;
        self.near_returns += near_returns;
        self.accesses.loads += loads;
        self.accesses.stores += stores;
        self.accesses.misaligned += misaligned;
    }

    fn all_accesses(&self) -> Accesses {
        let Accesses { loads, stores, misaligned } = self.accesses;
        let recent = self.recent.accesses();
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
            Signal::BranchRetired => self.branches + self.transfers.branches(),
            Signal::BranchTaken => self.taken + self.transfers.taken(),
            Signal::BranchRetiredRet => self.near_returns + self.transfers.near_returns(),
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
    /// Far transfers.
    pub(super) far: u64,
    /// Near transfers, those taken and near returns that are no longer among the recent ones of the counting.
    branches: u64,
    taken: u64,
    near_returns: u64,
    /// Accesses that are no longer among the recent ones of the counting.
    pub(super) accesses: Accesses,
}

impl Rest {
    /// More near transfers wait.
    pub(super) fn add_transfers(&mut self, transfers: Transfers) {
        self.branches += transfers.branches();
        self.taken += transfers.taken();
        self.near_returns += transfers.near_returns();
    }

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
        let transfers = 3 | 2 << 21 | 1 << 42;
        Executed { instructions, cycles, transfers, accesses }
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
        let mut waiting = Rest { cycles: 40, far: 5, ..Rest::default() };
        waiting.add(rest);
        waiting.add_transfers(Transfers::of_packed(70 | 60 << 21 | 50 << 42));
        first.add_rest(&waiting);
        let of = |signals: &[Signal], share| shares.of(&column(signals), share);
        let all = [Signal::InsnRetired, Signal::Load, Signal::InterruptTaken];
        assert_eq!(of(&all, &first), (10 + 1) + (5 + 100));
        assert_eq!(of(&all, &second), 20 + 1 + 2);
        assert_eq!(of(&[Signal::CyclesUnhalted], &first), 11 + 1 + 40);
        assert_eq!(of(&[Signal::CyclesUnhalted], &second), 22);
        assert_eq!(of(&[Signal::Store], &first), 3 + 1 + 200);
        assert_eq!(of(&[Signal::Misaligned], &first), 300);
        // A far transfer is a branch that is taken.
        assert_eq!(of(&[Signal::BranchRetired], &first), 2 * 3 + 5 + 70);
        assert_eq!(of(&[Signal::BranchTaken], &first), 2 * 2 + 5 + 60);
        assert_eq!(of(&[Signal::BranchRetiredRet], &first), 2 + 50);
    }

    /// The most accesses that are given at once do not run from one field into the next.
    #[test]
    fn recent_accesses_do_not_overflow() {
        const MOST: u64 = (1 << 20) - 1;
        let mut share = Share::default();
        for _ in 0..5 {
            share.add(&executed(0, MOST, MOST, MOST));
            if share.is_half_full() {
                share.make_room();
            }
        }
        share.add(&executed(0, 1, 2, 3));
        let shares = Shares::default();
        let of = |signal| shares.of(&column(&[signal]), &share);
        assert_eq!(of(Signal::Load), 5 * MOST + 1);
        assert_eq!(of(Signal::Store), 5 * MOST + 2);
        assert_eq!(of(Signal::Misaligned), 5 * MOST + 3);
    }
}
