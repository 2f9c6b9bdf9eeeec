//! Instructions that there is nothing special about, as most are: of integer operations, without
//! microcode, iterations or anything to wait for but operands and room. They go the way of all others
//! ([`Pipeline::execute`]); but what is known of them before takes the host no time.

use std::mem;

use pmu_model::Signal;

use super::{
    core::{Core, Decoders, Memory, PartialRegisters, Schedulers},
    dispatch::{LOADS, STORES},
    finish::count_fused,
    instruction::{Execution, Instruction, Misprediction},
    memory::MemoryUnit,
    operation::{Blocking, MacroOp, MicroOp, Role, Units},
    pipeline::Pipeline,
    registers::STACK_POINTER,
    room::Places,
    table::{Decode, Row, behaviour},
};
use crate::occurrences::Occurrences;

/// The micro-operations of a macro-operation in the order load, address of a store, computation, change
/// of the stack pointer, data of a store, of each one at most. None is of the floating-point unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Which there are: the constants below.
    parts: u8,
    load_units: Units,
    load_latency: u8,
    address_units: Units,
    address_latency: u8,
    compute_units: Units,
    compute_latency: u8,
    pointer_units: Units,
    pointer_latency: u8,
    data_units: Units,
    data_latency: u8,
}

const LOAD: u8 = 1 << 0;
const ADDRESS: u8 = 1 << 1;
const COMPUTE: u8 = 1 << 2;
/// What is computed is an address: the registers of addresses are operands.
const OF_ADDRESS: u8 = 1 << 3;
const POINTER: u8 = 1 << 4;
const DATA: u8 = 1 << 5;
/// There is one that is issued within its lane, and one that is issued anywhere.
const IN_LANE: u8 = 1 << 6;
const ANYWHERE: u8 = 1 << 7;

impl Plain {
    /// Of these micro-operations; `None` if they are others.
    pub(super) const fn new(parts: &[MicroOp]) -> Option<Self> {
        let mut made = Self {
            parts: 0,
            load_units: 0,
            load_latency: 0,
            address_units: 0,
            address_latency: 0,
            compute_units: 0,
            compute_latency: 0,
            pointer_units: 0,
            pointer_latency: 0,
            data_units: 0,
            data_latency: 0,
        };
        let mut n = 0;
        while n < parts.len() {
            let MicroOp { role, units, lane, float, latency, blocking, .. } = parts[n];
            let pipelined = matches!(blocking, Blocking::None);
            if float || !pipelined || latency > u8::MAX as u16 {
                return None;
            }
            let latency = latency as u8;
            let bit = match role {
                Role::Load => LOAD,
                Role::StoreAddress => ADDRESS,
                Role::Operate => COMPUTE,
                Role::Address => COMPUTE | OF_ADDRESS,
                Role::Pointer => POINTER,
                Role::StoreData => DATA,
                Role::Half | Role::Step | Role::Exchange => return None,
            };
            if made.parts & (IN_LANE - 1) >= bit & !OF_ADDRESS {
                return None;
            }
            if units != 0 {
                made.parts |= if lane { IN_LANE } else { ANYWHERE };
            }
            match role {
                Role::Load => (made.load_units, made.load_latency) = (units, latency),
                Role::StoreAddress => (made.address_units, made.address_latency) = (units, latency),
                Role::Pointer => (made.pointer_units, made.pointer_latency) = (units, latency),
                Role::StoreData => (made.data_units, made.data_latency) = (units, latency),
                _ => (made.compute_units, made.compute_latency) = (units, latency),
            }
            made.parts |= bit;
            n += 1;
        }
        Some(made)
    }
}

/// What the operations of an instruction have in common.
struct Values {
    sources: u64,
    address: u64,
    /// The last result.
    value: u64,
    computed: bool,
    /// Of the stores that have not retired: the first takes all of it.
    store_delay: u64,
    complete: u64,
    retired: u64,
}

/// Whether what a core decodes goes through lanes, and memory is accessed in order, as on AMD's processors:
/// or through a reservation station and buffers. `None` if it is neither.
pub(super) fn has_lanes(core: &Core) -> Option<bool> {
    match (core.decoders, core.schedulers, core.memory) {
        (Decoders::Lines { .. }, Schedulers::Lanes { .. }, Memory::InOrder { .. }) => Some(true),
        (Decoders::Template { .. }, Schedulers::Unified { .. }, Memory::Buffers { .. }) => {
            Some(false)
        }
        _ => None,
    }
}

/// Whether the instructions of a row are plain.
pub(super) fn is_plain(core: &Core, row: &Row) -> bool {
    let Some(lanes) = has_lanes(core) else { return false };
    let decoded = match core.decoders {
        Decoders::Lines { double } => match row.decode {
            Decode::Direct => true,
            Decode::Double => double,
            _ => false,
        },
        Decoders::Template { first, .. } => {
            row.decode != Decode::Microcode && row.operations.len() <= usize::from(first)
        }
    };
    let other = if lanes { ANYWHERE } else { IN_LANE };
    decoded
        && row.steps == 0
        && row.each.is_empty()
        && row.behaviour & !(behaviour::BRANCH | behaviour::STACK) == 0
        && row
            .operations
            .iter()
            .all(|operation| operation.plain.is_some_and(|plain| plain.parts & other == 0))
}

impl Execution {
    /// Whether nothing happened but loads, stores and a branch.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.fetch_delay | self.iterations == 0
            && !(self.locked | self.resync | self.float_exception | self.continued)
    }
}

impl Pipeline {
    /// [`Pipeline::execute`] of a plain instruction, in a core with lanes or without.
    #[inline(always)]
    pub(super) fn execute_plain<const LANES: bool>(
        &mut self,
        instruction: &Instruction,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let row = instruction.row;
        let operations = row.operations;
        self.folded |= instruction.folded;
        let fetched = self.front.fetch(execution.address, instruction.length, 0);
        let decoded = if LANES {
            self.front.decode_to_line(fetched, Decode::Direct, self.dispatched, self.core.width)
        } else {
            let length = instruction.length;
            self.front.decode_to_group(self.core.decoders, fetched, operations.len(), length)
        };
        self.front.finish(execution.address, self.front.decoded);
        let mut earliest = self.wait_plain::<LANES>(instruction.whole, &decoded, occurrences);
        let mut fresh = decoded.fresh;
        let mut values = Values {
            sources: self.latest(instruction.sources),
            address: self.latest(instruction.address),
            value: 0,
            computed: false,
            store_delay: u64::from(execution.store_delay),
            complete: 0,
            retired: 0,
        };
        for operation in operations {
            let Some(plain) = &operation.plain else { break };
            let found = (fresh, earliest);
            self.plain_op::<LANES>(operation, plain, found, execution, &mut values, occurrences);
            (fresh, earliest) = (false, 0);
        }
        let result = if values.computed { values.value } else { values.complete };
        let mut destinations = instruction.destinations;
        while destinations != 0 {
            self.ready[destinations.trailing_zeros() as usize] = result;
            destinations &= destinations - 1;
        }
        if !LANES && self.core.partial == PartialRegisters::Renamed {
            self.note_parts(instruction, values.retired);
        }
        occurrences.fire(Signal::UopRetired, operations.len() as u64);
        occurrences.fire(Signal::InsnDecoded, 1);
        if row.behaviour & behaviour::BRANCH != 0 {
            occurrences.fire(Signal::BranchDecoded, 1);
        }
        if execution.taken || execution.misprediction != Misprediction::None {
            self.go_elsewhere(execution, values.complete, values.retired, occurrences);
        }
        if LANES {
            if self.retirement.without_float > 0 && self.core.stalls.without_float {
                occurrences.fire(Signal::StallNoFpuRetire, self.retirement.without_float);
                self.retirement.without_float = 0;
            }
            if row.decode == Decode::Double {
                self.count_double(occurrences);
            }
        } else if self.core.fuses {
            count_fused(row, execution, occurrences);
        }
        values.retired
    }

    /// Dispatches, issues and retires a macro-operation. It is dispatched at a cycle at the earliest and
    /// begins a line or does not.
    #[inline(always)]
    fn plain_op<const LANES: bool>(
        &mut self,
        operation: &MacroOp,
        plain: &Plain,
        (mut fresh, mut earliest): (bool, u64),
        execution: &Execution,
        values: &mut Values,
        occurrences: &mut Occurrences,
    ) {
        let mut position = 0;
        let places: Places;
        let another;
        if LANES {
            if self.front.position == self.core.width {
                self.front.next_line(self.dispatched);
                fresh = true;
                earliest = earliest.max(self.front.decoded + 1);
            }
            position = self.front.position & 3;
            self.front.position = position + 1;
            let accesses = LOADS * u64::from(operation.loads + operation.stores);
            places = (u64::from(operation.integer) << (8 * position)) + accesses;
            another = fresh;
        } else {
            places = u64::from(operation.integer)
                + LOADS * u64::from(operation.loads)
                + STORES * u64::from(operation.stores);
            another = self.in_cycle == self.core.width;
        }
        let taking = !LANES || fresh;
        let dispatched = self.dispatch_places(places, taking, another, earliest, occurrences);
        if !LANES {
            self.front.leave_queue(dispatched);
        }

        let start = dispatched + u64::from(self.core.issue_delay);
        let (mut issued, mut complete) = (0, dispatched);
        let lane = |units: Units| units << position;
        if plain.parts & LOAD != 0 {
            let mut ready = start.max(values.address);
            if !LANES {
                ready = self.load_ready(ready, execution, occurrences);
            }
            let issue = self.units.take(ready, lane(plain.load_units)).0;
            let mut end = issue + u64::from(plain.load_latency);
            let (delay, forwarding) = (u64::from(execution.load_delay), execution.forwarding);
            if LANES {
                let probed = self.probe_to_load(issue, execution, occurrences);
                end = self.memory.data(MemoryUnit::hit(probed), delay, forwarding);
                if delay > 0 {
                    self.memory.hold_second(end);
                }
            } else {
                end = self.memory.data(end, delay, forwarding);
            }
            values.value = values.value.max(end);
            values.computed = true;
            (issued, complete) = (issue, complete.max(end));
        }
        if plain.parts & ADDRESS != 0 {
            let mut issue = start.max(values.address);
            if plain.address_units != 0 {
                issue = self.units.take(issue, lane(plain.address_units)).0;
            }
            let end = issue + u64::from(plain.address_latency);
            let end = self.store_address(issue, end, occurrences);
            (issued, complete) = (issued.max(issue), complete.max(end));
        }
        if plain.parts & COMPUTE != 0 {
            let mut ready = start.max(values.sources);
            ready = ready.max(match plain.parts & OF_ADDRESS {
                0 => values.value,
                _ => values.address,
            });
            let issue = self.units.take(ready, lane(plain.compute_units)).0;
            values.value = issue + u64::from(plain.compute_latency);
            values.computed = true;
            (issued, complete) = (issued.max(issue), complete.max(values.value));
        }
        if plain.parts & POINTER != 0 {
            let ready = start.max(self.ready[usize::from(STACK_POINTER)]);
            let issue = self.units.take(ready, lane(plain.pointer_units)).0;
            let end = issue + u64::from(plain.pointer_latency);
            self.ready[usize::from(STACK_POINTER)] = end;
            (issued, complete) = (issued.max(issue), complete.max(end));
        }
        let mut data = 0;
        if plain.parts & DATA != 0 {
            let mut issue = start.max(values.sources).max(values.value);
            if plain.data_units != 0 {
                issue = self.units.take(issue, lane(plain.data_units)).0;
            }
            data = issue + u64::from(plain.data_latency);
            (issued, complete) = (issued.max(issue), complete.max(data));
        }
        if operation.integer {
            self.room.release_ahead(issued + 1, 1 << (8 * position));
        }
        let retired = self.retirement.retire(complete, false);
        self.places[self.place] = retired;
        if plain.parts & DATA != 0 {
            let delay = mem::take(&mut values.store_delay);
            let written = self.memory.write(data, retired, delay);
            if LANES {
                self.memory.release_second(written);
            } else {
                self.room.release_ahead(written + 1, STORES);
            }
        }
        if !LANES && operation.loads > 0 {
            self.room.release_ahead(retired + 1, LOADS * u64::from(operation.loads));
        }
        values.complete = values.complete.max(complete);
        values.retired = retired;
    }
}
