//! The second instruction of a pair.

use pmu_model::Signal;

use super::super::pairing;
use super::{
    Core, Execution, Instruction, Parameters,
    thread::{Brought, Stage, banks},
};
use crate::occurrences::Occurrences;

impl Core {
    /// An instruction that has entered the front end in a cycle joins the last of its thread, if the two pair
    /// and it could have issued with it: the cycle in which both did.
    pub(super) fn join(
        &mut self,
        thread: usize,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution,
        entered: u64,
    ) -> Option<u64> {
        let parameters = self.parameters;
        let of = &mut self.threads[thread];
        let Stage::First(at) = of.stage else { return None };
        let Brought { instruction: first, interlocked, banks: of_first, .. } = &of.brought;
        let address = of.operands.address_of_second(instruction);
        // FXCH pairs as the second, and then waits for nothing.
        let data = match instruction.scalar.exchanges {
            Some(_) => 0,
            None => of.operands.data(parameters, instruction),
        };
        if entered.max(address).max(data) > at || !pairs(parameters, first, instruction) {
            return None;
        }
        let timing = &instruction.scalar.timing;
        let own = banks(parameters, execution);
        let (both, conflict) = (*of_first != 0 && own != 0, of_first & own != 0);
        for (signal, occurred) in [
            (Signal::PairV, true),
            (Signal::VpuOpV, timing.is_vector()),
            (Signal::PairVMem, both),
            (Signal::L1dBankConflict, conflict),
            // Each pipe that waits is counted (Intel 327357-001, table 1-6, event 1Fh).
            (Signal::StallAgi, interlocked.is_some_and(|could| address > could)),
        ] {
            if occurred {
                occurrences.fire(signal, 1);
            }
        }
        let together = pairing::clocks(&parameters.pipes, &first.scalar, &instruction.scalar)
            - u64::from(first.scalar.timing.clocks);
        let longer = together
            + u64::from(conflict)
            + execution.misaligned * parameters.pipes.misaligned
            + execution.more;
        if longer != 0 {
            occurrences.fire(Signal::EStageBusy, longer);
        }
        self.free += longer;
        of.finished += longer + execution.waits;
        of.front_end.take(at);
        let hazards = pairing::address_hazards(&parameters.pipes, &instruction.scalar);
        of.operands.joined(hazards, of.finished);
        // Its accesses are behind those of the first.
        let waited = of.finished - self.free;
        of.operands.note(instruction, execution.precision, at + waited);
        of.stage = Stage::Issued;
        of.go_on(parameters, instruction.scalar.serialises, execution.mispredicted);
        if execution.halts {
            self.stop(thread);
        }
        Some(at)
    }
}

/// Whether `second` may execute in the V pipe while `first` executes in the U pipe.
fn pairs(parameters: &Parameters, first: &Instruction, second: &Instruction) -> bool {
    pairing::pairs(&parameters.pipes, &first.scalar, &second.scalar)
        && !first.writes.intersects(second.needs().union(second.writes))
}
