//! When instructions are in which stage: a pair after the other, or an instruction alone.

use pmu_model::Signal;

use super::{
    Execution, Pairing, Parameters, Precision, Timing, data,
    front_end::FrontEnd,
    pairing,
    results::{Results, Wait},
    write_buffers::WriteBuffers,
};
use crate::state::{self, Visitor, optional};
use crate::{
    occurrences::Occurrences,
    pipeline::{Branch, Instruction, Registers},
};

/// What the pipeline remembers. Times are clocks since it was built; a stage is left in the clock in
/// which the next is entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) front_end: FrontEnd,
    /// When the last pair was in D1.
    pub(super) d1: u64,
    /// When it entered D2.
    pub(super) d2: u64,
    /// When it would have entered the execution stage with all operands there.
    pub(super) unheld: u64,
    /// When it entered the execution stage.
    pub(super) start: u64,
    /// When it leaves it.
    pub(super) end: u64,
    /// When the pair before left it.
    pub(super) previous_end: u64,
    /// Registers written by the pair before, as far as an address can wait for them.
    pub(super) previous_written: Registers,
    /// Registers written by the last pair, likewise.
    pub(super) written: Registers,
    /// When what was in D1 was last dropped.
    pub(super) flushed: u64,
    /// The instruction in the U pipe, if none has joined it yet and nothing has come between.
    pub(super) first: Option<First>,
    /// FXCH was the second of the last pair.
    pub(super) exchanged: bool,
    pub(super) results: Results,
    pub(super) write_buffers: WriteBuffers,
}

/// An instruction in the U pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) instruction: Instruction,
    /// Banks of the data cache that its first access needs, a bit each; 0 if it makes none.
    pub(super) banks: u32,
    /// Clocks that its accesses waited.
    pub(super) waited: u64,
    pub(super) precision: Precision,
}

impl State {
    /// An empty pipeline, whose first instruction executes at `refill`.
    pub(super) fn new(refill: u64) -> Self {
        let mut state = Self {
            front_end: FrontEnd::default(),
            d1: 0,
            d2: 0,
            unheld: 0,
            start: 0,
            end: 0,
            previous_end: 0,
            previous_written: Registers::NONE,
            written: Registers::NONE,
            flushed: 0,
            first: None,
            exchanged: false,
            results: Results::default(),
            write_buffers: WriteBuffers::default(),
        };
        state.restart(refill);
        state
    }

    /// An instruction retired.
    pub(super) fn retire(
        &mut self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution<'_>,
    ) {
        let entered =
            self.front_end.enter(&parameters.pipes, instruction, execution.fetch, execution.taken);
        if execution.fetch != 0 {
            occurrences.fire(Signal::StallIfetch, execution.fetch);
        }
        let joined = match &self.first {
            Some(_) if entered > self.d1 => {
                occurrences.fire(Signal::StallD1OneInFifo, 1);
                false
            }
            Some(first) => pairing::pairs(&parameters.pipes, &first.instruction, instruction),
            None => false,
        };
        if joined {
            self.join(parameters, occurrences, instruction, execution);
            self.first = None;
        } else {
            self.begin(parameters, occurrences, entered, instruction, execution);
        }
        self.front_end.take(self.d1);
        if instruction.timing.is_mmx() {
            occurrences.fire(if joined { Signal::MmxPipeV } else { Signal::MmxPipeU }, 1);
        }
        if execution.mispredicted {
            self.mispredict(parameters, occurrences, joined, instruction);
        } else if instruction.serialises {
            self.end = self.end.max(self.write_buffers.empty_at());
            self.restart(parameters.pipes.refill);
        }
    }

    /// An instruction enters the U pipe.
    fn begin(
        &mut self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        entered: u64,
        instruction: &Instruction,
        execution: &Execution<'_>,
    ) {
        // The last pair leaves D1 for D2 when the one before leaves D2, and so on.
        let free = self.d2.max(self.flushed);
        self.d1 = self.d2.max(entered);
        // The events count times, in a stage that issues nought, one or two instructions a clock (Intel SDM
        // volume 3, "Performance-Monitoring Events", event 33h): each such clock is one.
        if self.d1 > free {
            occurrences.fire(Signal::StallD1FifoEmpty, self.d1 - free);
        }
        self.d2 = self.start.max(self.d1 + 1);
        // Agner Fog, chapter 10.2, rule 6: behind a pair with FXCH, an instruction that is not of the x87
        // unit comes a clock later.
        let behind = u64::from(self.exchanged && !instruction.timing.is_x87());
        self.unheld = (self.end + behind).max(self.d2 + 1);
        self.previous_end = self.end;
        self.previous_written = self.written;

        self.start = self.hold(parameters, occurrences, instruction, self.unheld);
        let change = self.results.change(parameters, instruction);
        let at = self.start + change;
        self.results.note(parameters, instruction, execution.precision, at);
        let buffers = &mut self.write_buffers;
        let waited = data::access(parameters, buffers, occurrences, instruction, execution, at);
        self.end = at + clocks(parameters, instruction, execution) + waited;
        self.written = pairing::address_hazards(&parameters.pipes, instruction);
        self.exchanged = false;
        self.first = Some(First {
            instruction: *instruction,
            banks: banks(parameters, execution),
            waited,
            precision: execution.precision,
        });
    }

    /// An instruction enters the V pipe, beside that in the U pipe.
    fn join(
        &mut self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        execution: &Execution<'_>,
    ) {
        occurrences.fire(Signal::PairV, 1);
        // Both enter the execution stage together: what the second waits for, the first does too. FXCH as
        // the second waits for nothing.
        let start = if instruction.exchanges.is_some() {
            self.start
        } else {
            self.hold(parameters, occurrences, instruction, self.start)
        };
        let Some(first) = &self.first else { return };
        if start != self.start {
            self.end += start - self.start;
            self.start = start;
            self.results.note(parameters, &first.instruction, first.precision, start);
        }
        self.results.note(parameters, instruction, execution.precision, self.start);
        self.end += pairing::clocks(&parameters.pipes, &first.instruction, instruction)
            - u64::from(first.instruction.timing.clocks);
        let banks = banks(parameters, execution);
        if first.banks != 0 && banks != 0 {
            occurrences.fire(Signal::PairVMem, 1);
            if first.banks & banks != 0 {
                occurrences.fire(Signal::L1dBankConflict, 1);
                self.end += 1;
            }
        }
        let at = self.start + first.waited;
        let buffers = &mut self.write_buffers;
        self.end += data::access(parameters, buffers, occurrences, instruction, execution, at);
        self.written = self.written.union(pairing::address_hazards(&parameters.pipes, instruction));
        self.exchanged = instruction.exchanges.is_some();
    }

    /// When an instruction can execute that would begin at `start`: when its address and its operands
    /// are there.
    fn hold(
        &self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        instruction: &Instruction,
        mut start: u64,
    ) -> u64 {
        // An address is computed in the clock before. Each pipe that waits is counted (Intel SDM volume 3,
        // "Performance-Monitoring Events", event 1Fh).
        if self.unheld == self.previous_end && instruction.address.intersects(self.previous_written)
        {
            occurrences.fire(Signal::StallAgi, 1);
            start = start.max(self.previous_end + 1);
        }
        if let Some((needed, wait)) = self.results.needed(parameters, instruction)
            && needed > start
        {
            let signal = match wait {
                Wait::X87 => Signal::StallFpu,
                Wait::Multiplication => Signal::StallMmxMultiply,
                Wait::StoreData => Signal::StallMmxStoreData,
            };
            occurrences.fire(signal, needed - start);
            start = needed;
        }
        start
    }

    /// Fetch had gone elsewhere than the branch that executed last.
    fn mispredict(
        &mut self,
        parameters: &Parameters,
        occurrences: &mut Occurrences,
        second: bool,
        instruction: &Instruction,
    ) {
        let late = second && instruction.branch == Branch::Conditional;
        if late {
            occurrences.fire(Signal::FlushMispredictWb, 1);
        }
        self.restart(if late {
            parameters.mispredicted_late
        } else {
            parameters.pipes.mispredicted
        });
    }

    /// All behind the last pair is dropped; the next instruction executes `clocks` clocks after it.
    pub(super) fn restart(&mut self, clocks: u64) {
        self.flushed = self.end;
        // D1 and D2 are the last two of them.
        self.front_end.restart(self.end + clocks - 2);
        self.first = None;
    }
}

/// Clocks of an instruction alone in the execution stage, without what its accesses wait for.
fn clocks(parameters: &Parameters, instruction: &Instruction, execution: &Execution<'_>) -> u64 {
    let timing = &instruction.timing;
    let lock = if instruction.prefixes.lock { parameters.pipes.lock } else { 0 };
    u64::from(timing.clocks)
        + u64::from(timing.per_iteration) * execution.iterations
        + execution.more
        + lock
}

/// The banks that the first access of an instruction needs; none if it makes none.
fn banks(parameters: &Parameters, execution: &Execution<'_>) -> u32 {
    let first = execution.accesses.first();
    first.map_or(0, |access| pairing::banks(&parameters.pipes, access.address, access.bytes))
}

crate::state! { First { saved: instruction, banks, precision; cycles: waited; } }

/// What there is no instruction for goes into this one.
const BLANK: First = First {
    instruction: Instruction::new(Timing::integer(1, Pairing::Never)),
    banks: 0,
    waited: 0,
    precision: Precision::Extended,
};

impl state::State for State {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            front_end,
            d1,
            d2,
            unheld,
            start,
            end,
            previous_end,
            previous_written,
            written,
            flushed,
            first,
            exchanged,
            results,
            write_buffers,
        } = self;
        front_end.visit(visitor);
        visitor.name("in_order::State");
        for cycle in [d1, d2, unheld, start, end, previous_end, flushed] {
            visitor.cycles(std::slice::from_mut(cycle));
        }
        previous_written.visit(visitor);
        written.visit(visitor);
        optional(visitor, first, || BLANK);
        exchanged.visit(visitor);
        results.visit(visitor);
        write_buffers.visit(visitor);
    }
}
