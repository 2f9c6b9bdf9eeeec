//! An in-order pipeline with two pipes, U and V: that of the Pentium, and of what descends from it.
//!
//! Two instructions in succession execute together if the rules of `pairing.rs` allow it and both are there
//! when the first is. Both enter the execution stage together, and the next follow when both have left it
//! (Intel Pentium Processor User's Manual volume 1, section 3.1; Agner Fog, chapter 10.2).
//!
//! ```text
//! fetch, length ──> FIFO ──> D1 pair ──> D2 address ──> E execute, access data ──> write back
//! front_end.rs               pairing.rs                 results.rs, data.rs, write_buffers.rs
//!                            issue.rs: when each pair is in which stage
//! ```
//!
//! The model is told of instructions when they have retired, in order, and says after each how far the
//! clock has gone. That of a first instruction goes on as if it were alone; if the next turns out to pair,
//! that one adds what the pair takes longer, which is mostly nothing. What comes behind an instruction,
//! such as the bubble of a wrong prediction, is in the clocks of the instruction that waits for it.
//!
//! That the pipeline is flushed is the predictor's to tell ([`crate::branch`]), which knows all reasons but
//! one: a wrong prediction that is found in the write-back stage is counted here as well.
//!
//! Three simplifications. Where the V instruction keeps its pair out of the execution stage, the U
//! instruction's writes are in the write buffers as early as without it. Code arrives two instructions a
//! clock, however they lie in 16- or 32-byte blocks. And what an access waits for is given by the caches,
//! not found out here.

mod data;
mod execution;
mod front_end;
mod issue;
pub mod multithreaded;
mod pairing;
mod parameters;
mod registers;
mod results;
#[cfg(test)]
mod tests;
mod timing;
mod write_buffers;
mod x87;

pub use self::{
    execution::{Access, Execution, Outcome, Precision},
    parameters::{Parameters, Pipes},
    timing::{Mmx, Pairing, Timing, Unit, Vector, X87},
};

use self::issue::State;
use super::Instruction;
use crate::occurrences::Occurrences;
use crate::state::Visitor;

/// An in-order pipeline of two pipes.
#[derive(Clone, Debug)]
pub struct Pipeline {
    parameters: &'static Parameters,
    state: State,
}

impl Pipeline {
    /// An empty pipeline.
    ///
    /// # Panics
    ///
    /// If a figure of the part is beyond what the model has room for.
    #[must_use]
    pub fn new(parameters: &'static Parameters) -> Self {
        assert!((1..=write_buffers::MOST).contains(&parameters.write_buffers));
        assert!((1..=front_end::MOST).contains(&parameters.pipes.fifo));
        assert!(parameters.pipes.refill >= 3);
        let state = State::new(parameters.pipes.refill);
        Self { parameters, state }
    }

    /// Clocks since the pipeline was built.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.state.end
    }

    /// An instruction retired: by how many clocks time goes on.
    pub fn retire(
        &mut self,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution<'_>,
    ) -> u64 {
        let before = self.state.end;
        self.state.retire(self.parameters, occurrences, instruction, execution);
        self.state.end - before
    }

    /// An exception or a hardware interrupt is delivered: by how many clocks time goes on.
    ///
    /// Its accesses to memory are not in it, nor is INT n, an instruction, which does not flush the
    /// pipeline (Intel SDM volume 3, "Performance-Monitoring Events", event 15h).
    pub fn deliver(&mut self) -> u64 {
        self.state.end += self.parameters.pipes.delivery;
        self.state.restart(self.parameters.pipes.refill);
        self.parameters.pipes.delivery
    }

    /// Time passes while nothing executes: HLT, a stopped clock.
    pub fn idle(&mut self, clocks: u64) {
        self.state.end += clocks;
        self.state.restart(self.parameters.pipes.refill);
    }
}

crate::state! { Pipeline { saved: state; derived: parameters; then: check; } }

impl Pipeline {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        let pipes = &self.parameters.pipes;
        let first = self.state.first.as_ref();
        visitor.check(first.is_none_or(|of| pairing::is_no_longer_alone(pipes, &of.instruction)));
    }
}
