//! What was executed in all, and how much of it calling contexts have been given.

use pmu_model::Signal;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Accesses, Counting, Facts, Transfers, are_half_full};

use super::columns::Column;
use super::modelled::Modelled;
use super::shares::{Executed, Rest, Share, Shares};
use crate::engine::soft::fact;

/// The sums of the run so far.
#[derive(Default)]
pub(super) struct Totals {
    /// All facts.
    pub(super) counting: Counting,
    /// What models told.
    modelled: Modelled,
    /// What there was when a context was last given what had been executed,
    given: Given,
    /// and what else the next is to be given.
    rest: Rest,
    pub(super) shares: Shares,
    /// There is such a rest, or one of the other signals may have been fired since.
    pub(super) has_rest: bool,
}

/// Up to where contexts have been given what was executed.
#[derive(Default)]
struct Given {
    /// The processor's time, and the number of instructions that it has retired.
    time: u64,
    instructions: u64,
    /// [`Counting::transfers`], packed.
    transfers: u64,
    /// [`Counting::recent`], packed.
    accesses: u64,
    /// Far transfers, of which the rest is given.
    far: u64,
}

impl Totals {
    /// A processor goes on.
    pub(super) fn begin(&mut self, cpu: &Cpu) {
        self.given.time = cpu.time;
        self.given.instructions = cpu.retired();
    }

    /// Gives a context what has been executed up to a time and a number of instructions. Whether
    /// [`Self::make_room`] is to be called before anything else is counted.
    #[inline(always)]
    #[must_use]
    pub(super) fn give(&mut self, share: &mut Share, time: u64, instructions: u64) -> bool {
        let transfers = self.counting.transfers().packed();
        let accesses = self.counting.recent().packed();
        let given = &mut self.given;
        share.add(&Executed {
            instructions: instructions - given.instructions,
            cycles: time - given.time,
            transfers: transfers - given.transfers,
            accesses: accesses.wrapping_sub(given.accesses),
        });
        given.time = time;
        given.instructions = instructions;
        given.transfers = transfers;
        given.accesses = accesses;
        if self.has_rest {
            self.give_rest(share);
        }
        // Without a jump in between: it is one test.
        share.is_half_full() | self.is_half_full()
    }

    /// Whether there is little room for what is counted next.
    #[inline(always)]
    pub(super) fn is_half_full(&self) -> bool {
        are_half_full(self.counting.recent(), self.counting.transfers())
    }

    /// Makes room for more accesses and transfers, in all sums and in those of a context.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, share: &mut Share) {
        share.make_room();
        self.complete();
    }

    #[cold]
    #[inline(never)]
    fn give_rest(&mut self, share: &mut Share) {
        self.has_rest = false;
        let far = self.counting.committed().far;
        self.rest.far = far - std::mem::replace(&mut self.given.far, far);
        share.add_rest(&std::mem::take(&mut self.rest));
        let (mut facts, modelled) = (*self.counting.committed(), &self.modelled);
        self.shares.give_others(share, |signal| total(&mut facts, modelled, signal));
    }

    /// Time has passed in a context that is not known. It is for the next.
    pub(super) fn pass(&mut self, time: u64) {
        self.rest.cycles += time - self.given.time;
        self.given.time = time;
        self.has_rest = true;
    }

    /// Cycles have passed that are for the next context that is given anything.
    pub(super) fn waited(&mut self, cycles: u64) {
        self.rest.cycles += cycles;
        self.has_rest = true;
    }

    /// Accesses that are not in the sums are for the next context as well.
    pub(super) fn wait(&mut self, accesses: Accesses) {
        self.rest.add(accesses);
        self.has_rest = true;
    }

    /// All facts so far, those of recent accesses and transfers as well. What of these no context has been
    /// given, the next is.
    #[cold]
    #[inline(never)]
    pub(super) fn complete(&mut self) -> &Facts {
        let transfers = self.counting.transfers().packed() - self.given.transfers;
        self.rest.add_transfers(Transfers::of_packed(transfers));
        self.given.transfers = 0;
        self.wait(self.counting.recent().since(self.given.accesses));
        self.given.accesses = 0;
        self.counting.complete()
    }

    /// A model told of occurrences.
    pub(super) fn fired(&mut self, signal: Signal, n: u64) {
        self.has_rest = true;
        self.modelled.add(signal, n);
    }

    /// Contexts get to know of the signals of a column from now on.
    pub(super) fn add_signals(&mut self, column: &Column) {
        let (mut facts, modelled) = (*self.counting.committed(), &self.modelled);
        for &signal in &column.signals {
            self.shares.add(signal, || total(&mut facts, modelled, signal));
        }
    }
}

/// What there was so far of a signal that is none of the common ones.
fn total(facts: &mut Facts, modelled: &Modelled, signal: Signal) -> u64 {
    fact(facts, signal).map_or_else(|| modelled.of(signal), |fact| *fact)
}
