//! How what is executed is shared out among calling contexts.

use pmu_model::Signal;

use super::columns::Column;

/// The signals that any instruction may fire. Each call and each return gives the context that ends
/// what was executed since the last, so these have fixed places and are always shared out.
const COMMON: [Signal; 8] = [
    Signal::InsnRetired,
    Signal::CyclesUnhalted,
    Signal::BranchRetired,
    Signal::BranchTaken,
    Signal::BranchRetiredRet,
    Signal::Load,
    Signal::Store,
    Signal::Misaligned,
];

/// Counts of [`COMMON`], in its order.
pub(super) type Common = [u64; COMMON.len()];

/// What was executed in a context and in none that it called.
#[derive(Clone, Default)]
pub(super) struct Share {
    common: Common,
    /// Of [`Shares::others`]; of those that are not there, nothing.
    others: Vec<u64>,
}

/// The signals that are shared out, and what of each has been.
#[derive(Default)]
pub(super) struct Shares {
    given: Share,
    /// Signals beyond [`COMMON`].
    others: Vec<Signal>,
}

impl Shares {
    /// Shares out a signal from now on; `total` is what there was of it up to now.
    pub(super) fn add(&mut self, signal: Signal, total: impl FnOnce() -> u64) {
        if self.place(signal).is_none() {
            self.others.push(signal);
            self.given.others.push(total());
        }
    }

    /// Gives a context what of the common signals has not been given to any, of so many in all.
    #[inline(always)]
    pub(super) fn give(&mut self, share: &mut Share, totals: &Common) {
        for ((own, given), total) in share.common.iter_mut().zip(&mut self.given.common).zip(totals)
        {
            *own += total - *given;
            *given = *total;
        }
    }

    /// The same of the other signals, of which `total` tells the sum.
    pub(super) fn give_others(&mut self, share: &mut Share, mut total: impl FnMut(Signal) -> u64) {
        share.others.resize(self.others.len(), 0);
        for ((own, given), &signal) in
            share.others.iter_mut().zip(&mut self.given.others).zip(&self.others)
        {
            let total = total(signal);
            *own += total - *given;
            *given = total;
        }
    }

    /// How much of a column there is in a share.
    pub(super) fn of(&self, column: &Column, share: &Share) -> u64 {
        column.sum(|signal| match self.place(signal) {
            Some(Place::Common(at)) => share.common[at],
            Some(Place::Other(at)) => share.others.get(at).copied().unwrap_or(0),
            None => 0,
        })
    }

    fn place(&self, signal: Signal) -> Option<Place> {
        let common = COMMON.iter().position(|&known| known == signal);
        let other = || self.others.iter().position(|&known| known == signal);
        common.map(Place::Common).or_else(|| other().map(Place::Other))
    }
}

enum Place {
    Common(usize),
    Other(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(signals: &[Signal]) -> Column {
        Column { name: String::new(), signals: signals.to_vec() }
    }

    /// Of a signal that is added when there have been 7, a context gets what came since.
    #[test]
    fn contexts_get_what_came_since_the_last_was_given() {
        let mut shares = Shares::default();
        let (mut first, mut second) = (Share::default(), Share::default());
        shares.give(&mut first, &[10, 11, 2, 1, 0, 5, 3, 0]);
        shares.add(Signal::InterruptTaken, || 7);
        shares.add(Signal::Load, || unreachable!("always shared out"));
        shares.give(&mut second, &[30, 33, 4, 2, 0, 6, 3, 0]);
        shares.give_others(&mut second, |_| 9);
        shares.give(&mut first, &[31, 34, 5, 3, 1, 6, 4, 0]);
        let all = column(&[Signal::InsnRetired, Signal::Load, Signal::InterruptTaken]);
        assert_eq!(shares.of(&all, &first), (10 + 1) + 5);
        assert_eq!(shares.of(&all, &second), 20 + 1 + 2);
        let cycles = column(&[Signal::CyclesUnhalted]);
        assert_eq!((shares.of(&cycles, &first), shares.of(&cycles, &second)), (11 + 1, 22));
    }
}
