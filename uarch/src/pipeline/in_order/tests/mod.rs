//! Tests of the in-order pipeline with the figures of the Pentium processor with MMX technology.

mod assembler;
mod figures;
mod generated;
mod memory;
mod oracle;
mod pairing;

use pmu_model::Signal;

use self::assembler::{Assembled, assemble};
use super::{Execution, Pipeline};
use crate::{occurrences::Occurrences, part::p55c_pipeline::P55C};

/// Clocks that a program takes in the execution stage, and what it fires.
fn run(program: &str) -> (u64, Occurrences) {
    execute(&assemble(program))
}

/// The same of an assembled program.
fn execute(program: &[Assembled]) -> (u64, Occurrences) {
    let mut pipeline = Pipeline::new(&P55C);
    let mut occurrences = Occurrences::default();
    for step in program {
        pipeline.retire(&mut occurrences, &step.instruction, &step.execution());
    }
    // The first instruction executes when the pipeline has been filled.
    (pipeline.clock() - P55C.pipes.refill, occurrences)
}

/// How often a signal was fired.
fn count(occurrences: &mut Occurrences, signal: Signal) -> u64 {
    occurrences.fired()[signal.index()]
}

/// Clocks and pairs of a program.
#[track_caller]
fn check(program: &str, clocks: u64, pairs: u64) {
    let (took, mut occurrences) = run(program);
    assert_eq!((took, count(&mut occurrences, Signal::PairV)), (clocks, pairs), "{program}");
}

impl Assembled {
    /// What happened when it executed.
    fn execution(&self) -> Execution<'_> {
        Execution { accesses: &self.accesses, ..self.happened }
    }
}
