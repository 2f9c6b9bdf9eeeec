//! The model of one processor's pipeline.

mod state;

use std::mem;

use pmu_model::Signal;

use super::{
    core::{Core, Decoders, Memory, Schedulers},
    dispatch::{FLOAT, Hold, LOADS, STORES, capacity},
    front_end::FrontEnd,
    instruction::{Execution, Instruction},
    memory::MemoryUnit,
    operation::{MacroOp, MicroOp, Role},
    plain::has_lanes,
    registers::{COUNT, Registers, on_top},
    retirement::Retirement,
    room::Room,
    table::Decode,
    units::UnitSchedule,
};
use crate::occurrences::Occurrences;

/// Places of the largest reorder buffer.
const MOST_PLACES: usize = 128;

/// A pipeline.
///
/// It is told each instruction when it has retired, in program order, and computes in which cycles it
/// was dispatched, issued and retired. Nothing is simulated cycle by cycle: what an operation waits for
/// is known when its turn comes, since it can only wait for older ones.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(super) core: &'static Core,
    lanes: bool,
    pub(super) front: FrontEnd,
    pub(super) units: UnitSchedule,
    pub(super) room: Room,
    pub(super) memory: MemoryUnit,
    pub(super) retirement: Retirement,
    /// When each register has its last value.
    pub(super) ready: [u64; COUNT],
    /// General registers whose last write was to a part, and when it retires.
    pub(super) partial: Registers,
    pub(super) partial_retired: [u64; 16],
    /// General registers that were zeroed as a whole before parts of them were written.
    pub(super) zeroed: Registers,
    /// The x87 register that is ST(0).
    top: u8,
    /// The stack pointer has changes that only the decoder knows.
    pub(super) folded: bool,
    /// The cycle of the last dispatch, and how many macro-operations were dispatched in it.
    pub(super) dispatched: u64,
    pub(super) in_cycle: u8,
    /// When each place of the reorder buffer was last given up.
    pub(super) places: [u64; MOST_PLACES],
    pub(super) place: usize,
    /// Nothing is dispatched before this cycle, and why.
    pub(super) hold: u64,
    pub(super) hold_for: Hold,
    /// When the last segment load is complete, and when that of each segment register retires.
    pub(super) segment: u64,
    pub(super) segments: [u64; 8],
}

/// What the operations of an instruction have in common while it goes through.
pub(super) struct Flow<'a> {
    pub(super) execution: &'a Execution,
    pub(super) sources: u64,
    pub(super) address: u64,
    /// The last result within the instruction.
    pub(super) value: u64,
    /// What the last load gave.
    pub(super) loaded: u64,
    pub(super) computed: bool,
    /// The stack pointer, if an operation added to it.
    pub(super) pointer: u64,
    pub(super) load_delay: u64,
    /// Of the stores that have not retired: the first takes all of it.
    pub(super) store_delay: u64,
    /// When the data is there of the store that is to retire.
    pub(super) store_data: Option<u64>,
    /// The unit that took the last floating-point operation.
    pub(super) float_unit: u16,
    /// Two registers have exchanged their names.
    pub(super) exchanged: bool,
    /// When the instruction's last operation completes and retires.
    pub(super) complete: u64,
    pub(super) retired: u64,
}

impl Pipeline {
    /// A pipeline that is empty, at cycle 0.
    #[must_use]
    pub fn new(core: &'static Core) -> Self {
        Self {
            core,
            lanes: has_lanes(core) == Some(true),
            front: FrontEnd::new(core),
            units: UnitSchedule::new(),
            room: Room::new(capacity(core)),
            memory: MemoryUnit::new(core.memory, core.forward_delay),
            retirement: Retirement::new(core.width),
            ready: [0; COUNT],
            partial: 0,
            partial_retired: [0; 16],
            zeroed: 0,
            top: 0,
            folded: false,
            dispatched: 0,
            in_cycle: 0,
            places: [0; MOST_PLACES],
            place: 0,
            hold: 0,
            hold_for: Hold::Misprediction,
            segment: 0,
            segments: [0; 8],
        }
    }

    /// What it is.
    #[must_use]
    pub fn core(&self) -> &'static Core {
        self.core
    }

    /// The cycle of the last retirement: how long the program has taken.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.retirement.last
    }

    /// The cycle of the last dispatch: about when the next instruction can access memory.
    #[inline(always)]
    #[must_use]
    pub fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// The last cycles in which macro-operations retired, with how many, that come behind the first
    /// `seen` ones; and how many there have been in all, to be `seen` the next time. The cycle of the
    /// last retirement comes only when it is over. 64 are remembered.
    pub fn retirement(&self, seen: usize) -> (impl Iterator<Item = (u64, u8)> + '_, usize) {
        self.retirement.recent(seen)
    }

    /// Executes nothing until a cycle: the processor was halted, or did what the pipeline is not told.
    /// What follows is fetched then.
    pub fn idle_until(&mut self, cycle: u64) {
        if cycle > self.retirement.last {
            self.retirement.idle_until(cycle);
        }
        // Dispatch has nothing before it, which is nobody's stall; and nobody knows what registers are zero.
        self.zeroed = 0;
        self.dispatched = self.dispatched.max(cycle);
        self.room.advance(self.dispatched);
        self.front.redirect(cycle);
    }

    /// Executes an instruction, and fires what happened on the way. The cycle in which it retires.
    pub fn execute(
        &mut self,
        instruction: &Instruction,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        if instruction.plain
            && execution.is_plain()
            && !(self.folded && instruction.needs_stack_pointer)
        {
            return match self.lanes {
                true => self.execute_plain::<true>(instruction, execution, occurrences),
                false => self.execute_plain::<false>(instruction, execution, occurrences),
            };
        }
        self.execute_any(instruction, execution, occurrences)
    }

    /// The same, of any instruction.
    #[inline(never)]
    fn execute_any(
        &mut self,
        instruction: &Instruction,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let row = instruction.row;
        let fetched = self.fetch(instruction, execution, occurrences);
        let extra = self.synchronise_stack(instruction, occurrences);
        let (once, steps) = match execution.continued {
            true => (&[][..], 0),
            false => (row.operations, row.steps),
        };
        let total = extra
            + once.len()
            + usize::from(steps)
            + row.each.len() * execution.iterations as usize;
        let decoded = match self.core.decoders {
            Decoders::Lines { double } => {
                let decode = match row.decode {
                    Decode::Double if !double => Decode::Microcode,
                    decode => decode,
                };
                self.front.decode_to_line(fetched, decode, self.dispatched, self.core.width)
            }
            decoders @ Decoders::Template { .. } => {
                self.front.decode_to_group(decoders, fetched, total, instruction.length)
            }
        };
        self.front.finish(execution.address, self.front.decoded);

        let (mut sources, mut address, mut destinations) =
            (instruction.sources, instruction.address, instruction.destinations);
        if instruction.x87 {
            sources = on_top(sources, self.top);
            address = on_top(address, self.top);
            destinations = on_top(destinations, self.top);
            self.top = (self.top.wrapping_sub(instruction.pushes as u8)) & 7;
        }
        let mut earliest = self.wait(instruction, execution, &decoded, occurrences);

        let mut flow = Flow {
            execution,
            sources: self.latest(sources),
            address: self.latest(address),
            value: 0,
            loaded: 0,
            computed: false,
            pointer: 0,
            load_delay: u64::from(execution.load_delay),
            store_delay: u64::from(execution.store_delay),
            store_data: None,
            float_unit: 0,
            exchanged: false,
            complete: 0,
            retired: self.retirement.last,
        };
        if execution.locked {
            // Nothing older is outstanding when a locked operation begins. Not sourced.
            flow.address = flow.address.max(self.retirement.last + 1);
            let draining = self.memory.written.saturating_sub(flow.address);
            occurrences.fire(Signal::StallStoreBufferDrain, draining);
            flow.address += draining;
        }
        let mut fresh = decoded.fresh;
        if extra > 0 {
            self.another_op(&SYNCHRONISE, fresh, earliest, &mut flow, occurrences);
            flow.address = flow.address.max(flow.pointer);
            flow.sources = flow.sources.max(flow.pointer);
            (fresh, earliest) = (false, 0);
        }
        for operation in once {
            self.macro_op(operation, fresh, earliest, &mut flow, occurrences);
            (fresh, earliest) = (false, 0);
        }
        if row.decode == Decode::Microcode {
            for _ in 0..execution.iterations {
                for operation in row.each {
                    self.another_op(operation, fresh, earliest, &mut flow, occurrences);
                    (fresh, earliest) = (false, 0);
                }
            }
            for _ in 0..steps {
                let step = self.core.table.step;
                self.another_op(&step, fresh, earliest, &mut flow, occurrences);
                (fresh, earliest) = (false, 0);
            }
        }
        if total > 0 || !execution.continued {
            self.finish(instruction, destinations, &flow, total, occurrences);
        }
        flow.retired
    }

    /// Fetches an instruction: when its last window is there.
    #[inline(always)]
    fn fetch(
        &mut self,
        instruction: &Instruction,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let mut delay = execution.fetch_delay;
        if delay != 0 {
            occurrences.fire(Signal::StallIfetch, u64::from(delay));
        }
        if instruction.length_changes {
            let held = self.core.fetch.length_change;
            delay += u32::from(held);
            occurrences.fire(Signal::StallLengthDecode, u64::from(held));
        }
        self.front.fetch(execution.address, instruction.length, delay)
    }

    /// How many operations bring the stack pointer up to date for an instruction that needs it.
    #[inline(always)]
    fn synchronise_stack(
        &mut self,
        instruction: &Instruction,
        occurrences: &mut Occurrences,
    ) -> usize {
        if instruction.folded {
            self.folded = true;
        } else if instruction.needs_stack_pointer && self.folded {
            self.folded = false;
            occurrences.fire(Signal::UopEsp, 1);
            return 1;
        }
        0
    }

    /// The same as [`Self::macro_op`], for those that are rare.
    #[inline(never)]
    fn another_op(
        &mut self,
        operation: &MacroOp,
        fresh: bool,
        earliest: u64,
        flow: &mut Flow<'_>,
        occurrences: &mut Occurrences,
    ) {
        self.macro_op(operation, fresh, earliest, flow, occurrences);
    }

    /// Dispatches, issues and retires a macro-operation.
    #[inline(always)]
    fn macro_op(
        &mut self,
        operation: &MacroOp,
        mut fresh: bool,
        mut earliest: u64,
        flow: &mut Flow<'_>,
        occurrences: &mut Occurrences,
    ) {
        let lines = matches!(self.core.decoders, Decoders::Lines { .. });
        let mut position = 0;
        if lines {
            if self.front.position == self.core.width {
                self.front.next_line(self.dispatched);
                fresh = true;
                earliest = earliest.max(self.front.decoded + 1);
            }
            position = self.front.position;
            self.front.position += 1;
        }
        let dispatched = self.dispatch(operation, fresh, position, earliest, occurrences);
        if !lines {
            self.front.leave_queue(dispatched);
        }

        let mut complete = dispatched;
        let (mut issued, mut float_issued) = (0, 0);
        for part in operation.parts {
            let (issue, end) = self.micro_op(part, dispatched, position, flow, occurrences);
            if part.float {
                float_issued = issue.max(float_issued);
            } else {
                issued = issue.max(issued);
            }
            complete = complete.max(end);
        }
        match self.core.schedulers {
            Schedulers::Lanes { .. } => {
                if operation.integer {
                    self.room.release(issued + 1, 1 << (8 * position));
                }
                if operation.float {
                    self.room.release(float_issued + 1, FLOAT);
                    self.count_float(operation, flow, occurrences);
                }
            }
            Schedulers::Unified { .. } => {
                if operation.integer || operation.float {
                    self.room.release(issued.max(float_issued) + 1, 1);
                }
            }
        }
        let retired = self.retirement.retire(complete, operation.float);
        self.places[self.place] = retired;
        if let Some(data) = flow.store_data.take() {
            let delay = mem::take(&mut flow.store_delay);
            let written = self.memory.write(data, retired, delay);
            match self.core.memory {
                Memory::InOrder { .. } => self.memory.release_second(written),
                Memory::Buffers { .. } => self.room.release(written + 1, STORES),
            }
        }
        if operation.loads > 0 && matches!(self.core.memory, Memory::Buffers { .. }) {
            self.room.release(retired + 1, LOADS * u64::from(operation.loads));
        }
        flow.complete = flow.complete.max(complete);
        flow.retired = retired;
    }

    /// Fires that the floating-point unit was given an operation, by the pipe.
    #[inline(always)]
    fn count_float(&self, operation: &MacroOp, flow: &Flow<'_>, occurrences: &mut Occurrences) {
        let [add, multiply, store] = self.core.float_pipes;
        let load = operation.loads > 0;
        let signal = if flow.float_unit & add != 0 {
            if load { Signal::FpuOpAddLoad } else { Signal::FpuOpAdd }
        } else if flow.float_unit & multiply != 0 {
            if load { Signal::FpuOpMulLoad } else { Signal::FpuOpMul }
        } else if flow.float_unit & store != 0 {
            if load { Signal::FpuOpStoreLoad } else { Signal::FpuOpStore }
        } else {
            return;
        };
        occurrences.fire(signal, 1);
    }

    /// When the last of some registers has its value.
    #[inline(always)]
    pub(super) fn latest(&self, mut registers: Registers) -> u64 {
        let mut latest = 0;
        while registers != 0 {
            latest = latest.max(self.ready[registers.trailing_zeros() as usize]);
            registers &= registers - 1;
        }
        latest
    }
}

/// Brings the stack pointer up to date where the decoder had changed it: an addition in an ALU.
const SYNCHRONISE: MacroOp = MacroOp::new(&[MicroOp::new(Role::Pointer, ALU_PORTS, 1)]);

/// Ports 0 and 1.
const ALU_PORTS: u16 = 0b11;
