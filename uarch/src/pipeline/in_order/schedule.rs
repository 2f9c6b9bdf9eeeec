//! The outcome of a run of instructions to which nothing unforeseen happens, worked out once.
//!
//! The pipeline does the same whenever it is in the same state, all times taken relative to the clock. So
//! what a run of instructions does can be kept with the state that it began in, and is exact where the
//! state is found again. The addresses of accesses matter only where two are made by one pair.

use pmu_model::Signal;

use super::{
    Access, Execution, Outcome, Pipeline,
    issue::{First, State},
    pairing,
};
use crate::{
    occurrences::Occurrences,
    pipeline::{Instruction, MemoryUse, Registers},
};

/// What a run of instructions does from one state of a pipeline: as long as all code and data hit, all
/// writes go to owned lines, nothing is misaligned or mispredicted and nothing repeats.
#[derive(Clone, Debug)]
pub struct Schedule {
    entry: State,
    exit: State,
    clocks: u64,
    fired: Box<[(Signal, u64)]>,
    /// Instructions that access memory in the V pipe while the one before accesses it in the U pipe.
    pairs: Box<[usize]>,
    instructions: usize,
}

impl Schedule {
    /// Works out what `run` does from the state that `pipeline` is in. If `taken`, its last instruction is
    /// a branch that is taken, as predicted.
    #[must_use]
    pub fn record(pipeline: &Pipeline, run: &[Instruction], taken: bool) -> Self {
        let entry = pipeline.state.relative();
        let mut pipeline = pipeline.clone();
        pipeline.state = entry.absolute(pipeline.state.end);
        let mut occurrences = Occurrences::default();
        let mut clocks = 0;
        let mut pairs = Vec::new();
        for (n, instruction) in run.iter().enumerate() {
            // Two in succession are in different banks, and so is the first of the run from that before
            // it, which `relative` has moved to the first bank.
            let address = if n % 2 == 0 { 1 << pipeline.parameters.bank_bit } else { 0 };
            let load = Access::hit(address, 1, Outcome::Hit);
            let store = Access::hit(address, 1, Outcome::Owned);
            let accesses: &[Access] = match instruction.memory {
                MemoryUse::None => &[],
                MemoryUse::Load => &[load],
                MemoryUse::Store => &[store],
                MemoryUse::Modify => &[load, store],
            };
            let taken = taken && n + 1 == run.len();
            let execution = Execution { accesses, taken, ..Execution::default() };
            let before = occurrences.fired()[Signal::PairVMem.index()];
            clocks += pipeline.retire(&mut occurrences, instruction, &execution);
            if occurrences.fired()[Signal::PairVMem.index()] != before {
                pairs.push(n);
            }
        }
        let fired = occurrences.fired();
        let fired = Signal::ALL
            .iter()
            .map(|&signal| (signal, fired[signal.index()]))
            .filter(|&(_, n)| n != 0)
            .collect();
        Self {
            entry,
            exit: pipeline.state.relative(),
            clocks,
            fired,
            pairs: pairs.into(),
            instructions: run.len(),
        }
    }

    /// Does what the run does, and says how many clocks it took; `None`, and nothing is done, if the
    /// pipeline is in another state or two accesses of a pair need the same bank. `access` is the first
    /// access of an instruction of the run, by its place.
    pub fn apply(
        &self,
        pipeline: &mut Pipeline,
        occurrences: &mut Occurrences,
        access: impl Fn(usize) -> Access,
    ) -> Option<u64> {
        if pipeline.state.relative() != self.entry {
            return None;
        }
        let parameters = pipeline.parameters;
        let banks = |n: usize| pairing::banks(parameters, Some(&access(n)));
        for &second in &self.pairs {
            let first = match second {
                0 => pipeline.state.first.map_or(0, |first| first.banks),
                second => banks(second - 1),
            };
            if first & banks(second) != 0 {
                return None;
            }
        }
        let end = pipeline.state.end + self.clocks;
        pipeline.state = self.exit.absolute(end);
        if self.instructions != 0
            && let Some(first) = &mut pipeline.state.first
            && first.banks != 0
        {
            first.banks = banks(self.instructions - 1);
        }
        for &(signal, n) in &self.fired {
            occurrences.fire(signal, n);
        }
        Some(self.clocks)
    }
}

impl State {
    /// The same with all times relative to the clock, and everything that makes no difference any more set
    /// to one value.
    fn relative(&self) -> Self {
        let origin = self.end;
        let at = |time: u64| time.wrapping_sub(origin);
        // An instruction that joins the last pair may wait from when that began to execute.
        let earliest = if self.first.is_some() { self.start } else { self.end };
        let joined = |time: u64| if self.first.is_some() { at(time) } else { 0 };
        Self {
            front_end: self.front_end.relative(origin),
            d1: joined(self.d1),
            d2: at(self.d2),
            unheld: joined(self.unheld),
            start: at(self.start),
            end: 0,
            previous_end: joined(self.previous_end),
            previous_written: if self.first.is_some() {
                self.previous_written
            } else {
                Registers::NONE
            },
            written: self.written,
            flushed: at(self.flushed.max(self.d2)),
            first: self.first.map(|first| First { banks: first.banks.min(1), ..first }),
            exchanged: self.exchanged,
            results: self.results.relative(origin, earliest),
            write_buffers: self.write_buffers.relative(origin, earliest),
        }
    }

    /// Moves all times from relative to 0 to relative to `origin`.
    fn absolute(&self, origin: u64) -> Self {
        let at = |time: u64| time.wrapping_add(origin);
        Self {
            front_end: self.front_end.absolute(origin),
            d1: at(self.d1),
            d2: at(self.d2),
            unheld: at(self.unheld),
            start: at(self.start),
            end: at(self.end),
            previous_end: at(self.previous_end),
            previous_written: self.previous_written,
            written: self.written,
            flushed: at(self.flushed),
            first: self.first,
            exchanged: self.exchanged,
            results: self.results.absolute(origin),
            write_buffers: self.write_buffers.absolute(origin),
        }
    }
}
