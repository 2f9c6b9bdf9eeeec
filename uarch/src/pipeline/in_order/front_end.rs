//! Fetch: when an instruction is there to be paired.
//!
//! The stage that finds where instructions end puts them into a FIFO, two a clock at most, and the pairing
//! stage takes them out, in the same clock if the FIFO was empty. While there is room it runs ahead, so
//! that what delays it is hidden behind instructions that take longer.

use super::Pipes;
use crate::pipeline::Instruction;

/// Most entries that the FIFO of a part may have.
pub(super) const MOST: usize = 4;

/// The state of fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FrontEnd {
    /// When the last instruction entered the FIFO.
    entered: u64,
    /// One more may enter in that clock.
    room: bool,
    /// When the last instructions were taken out, oldest first.
    taken: [u64; MOST],
}

impl FrontEnd {
    /// Puts an instruction into the FIFO, whose fetch took `fetch` clocks more than hits, and which is a
    /// taken branch if `taken`: when it is in.
    ///
    /// An instruction with prefixes enters as the first of its clock, later by each of them; two enter
    /// together only if both are short. That is how Intel's optimisation manuals of the time (242816) are
    /// restated; not sourced from the document itself.
    #[inline]
    pub(super) fn enter(
        &mut self,
        pipes: &Pipes,
        instruction: &Instruction,
        fetch: u64,
        taken: bool,
    ) -> u64 {
        let short = instruction.length <= pipes.longest_paired;
        let joins = self.room && short && !instruction.prefixes.any();
        let parsed = self.entered
            + u64::from(!joins)
            + u64::from(instruction.prefixes.size) * pipes.size_prefix
            + u64::from(instruction.prefixes.other) * pipes.other_prefix
            + fetch;
        let entered = parsed.max(self.taken[MOST - pipes.fifo]);
        let first = entered != self.entered || !joins;
        self.room = first && short && !taken;
        self.entered = entered;
        entered
    }

    /// The pairing stage takes the instruction that entered last, at `clock`.
    #[inline]
    pub(super) fn take(&mut self, clock: u64) {
        self.taken.copy_within(1.., 0);
        self.taken[MOST - 1] = clock;
    }

    /// All that was fetched is dropped; the next instruction enters at `clock` at the earliest.
    pub(super) fn restart(&mut self, clock: u64) {
        self.entered = clock - 1;
        self.room = false;
        self.taken = [0; MOST];
    }
}

crate::state! { FrontEnd { saved: room; cycles: entered, taken; } }
