//! Dispatch: when macro-operations go from the decoders to the reorder buffer and the schedulers, and what
//! holds them.

use pmu_model::Signal;

use super::{
    core::{Core, Decoders, Memory, Schedulers, SegmentLoads},
    front_end::Decoded,
    instruction::{Execution, Instruction},
    operation::MacroOp,
    pipeline::Pipeline,
    registers::Registers,
    room::Places,
    table::behaviour,
};
use crate::occurrences::Occurrences;

/// A place in the scheduler of the floating-point unit. Those of the lanes are in the bytes below; a
/// reservation station is in the lowest.
pub(super) const FLOAT: Places = 1 << 24;
/// A place in LS1, or a load buffer.
pub(super) const LOADS: Places = 1 << 32;
/// A store buffer.
pub(super) const STORES: Places = 1 << 40;

/// How many places there are.
pub(super) fn capacity(core: &Core) -> Places {
    let schedulers = match core.schedulers {
        Schedulers::Lanes { integer, float } => {
            u64::from(integer) * 0x01_0101 + FLOAT * u64::from(float)
        }
        Schedulers::Unified { entries } => u64::from(entries),
    };
    let memory = match core.memory {
        Memory::InOrder { first, .. } => LOADS * u64::from(first),
        Memory::Buffers { loads, stores } => LOADS * u64::from(loads) + STORES * u64::from(stores),
    };
    schedulers + memory
}

/// Why nothing is dispatched until a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// A mispredicted branch has not retired.
    Misprediction,
    /// A far transfer, or an instruction behind which all is started again, has not.
    Far,
    /// A serialising instruction has not.
    Serialisation,
}

impl Pipeline {
    /// The places that a macro-operation needs.
    #[inline(always)]
    fn places_of(&self, operation: &MacroOp, position: u8) -> Places {
        let schedulers = match self.core.schedulers {
            Schedulers::Lanes { .. } => {
                (u64::from(operation.integer) << (8 * position))
                    + FLOAT * u64::from(operation.float)
            }
            Schedulers::Unified { .. } => u64::from(operation.integer || operation.float),
        };
        let memory = match self.core.memory {
            Memory::InOrder { .. } => LOADS * u64::from(operation.loads + operation.stores),
            Memory::Buffers { .. } => {
                LOADS * u64::from(operation.loads) + STORES * u64::from(operation.stores)
            }
        };
        schedulers + memory
    }

    /// Dispatches a macro-operation, at a cycle at the earliest: the cycle. With `fresh` it begins a
    /// line, if there are lines.
    #[inline(always)]
    pub(super) fn dispatch(
        &mut self,
        operation: &MacroOp,
        fresh: bool,
        position: u8,
        earliest: u64,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let places = self.places_of(operation, position);
        let another = self.begins_cycle(fresh);
        let taking = fresh || matches!(self.core.decoders, Decoders::Template { .. });
        self.dispatch_places(places, taking, another, earliest, occurrences)
    }

    /// The same of one that needs these places, takes a place in the reorder buffer or has one already, and
    /// goes in another cycle than the last one or can go in the same.
    #[inline(always)]
    pub(super) fn dispatch_places(
        &mut self,
        places: Places,
        taking: bool,
        another: bool,
        earliest: u64,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let mut cycle = (self.dispatched + u64::from(another)).max(earliest);
        let mut given_up = 0;
        if taking {
            self.place += 1;
            if self.place == usize::from(self.core.reorder_buffer) {
                self.place = 0;
            }
            given_up = self.places[self.place];
        }
        self.room.advance(cycle);
        let lacks = self.room.lacks(places);
        if lacks != 0 || given_up >= cycle {
            cycle = self.wait_for_places(places, lacks, given_up, cycle, occurrences);
        }
        self.room.take(places);
        if cycle == self.dispatched && !another {
            self.in_cycle += 1;
        } else {
            self.dispatched = cycle;
            self.in_cycle = 1;
        }
        cycle
    }

    /// Goes on from a cycle in which there is not room for all these `places`, or in which that in the reorder buffer is
    /// yet to be given up, to the first in which there is. Fires what is lacked until then.
    #[inline(never)]
    fn wait_for_places(
        &mut self,
        places: Places,
        mut lacks: Places,
        given_up: u64,
        mut cycle: u64,
        occurrences: &mut Occurrences,
    ) -> u64 {
        while lacks != 0 || given_up >= cycle {
            // The same is mostly lacked for a while.
            let lacked = lacks;
            let (first, is_full) = (cycle, given_up >= cycle);
            while lacks == lacked && (given_up >= cycle) == is_full {
                cycle += 1;
                self.room.step();
                lacks = self.room.lacks(places);
            }
            self.count_lack(lacked, is_full, cycle - first, occurrences);
        }
        cycle
    }

    /// Fires so many cycles in which dispatch lacked places.
    fn count_lack(
        &self,
        lacks: Places,
        reorder_buffer: bool,
        cycles: u64,
        occurrences: &mut Occurrences,
    ) {
        let stalls = &self.core.stalls;
        let lanes = match self.core.schedulers {
            Schedulers::Lanes { .. } => 0x80_8080,
            Schedulers::Unified { .. } => 0x80,
        };
        for (lacking, signal) in [
            (true, stalls.any),
            (reorder_buffer, stalls.reorder_buffer),
            (lacks & lanes != 0, stalls.integer),
            (lacks & FLOAT << 7 != 0, stalls.float),
            (lacks & (LOADS | STORES) << 7 != 0, stalls.memory),
        ] {
            if lacking && let Some(signal) = signal {
                occurrences.fire(signal, cycles);
            }
        }
    }

    /// The cycle in which the first operation can be dispatched, as far as the decoders and what the
    /// instruction must wait for as a whole decide that. Fires what is waited for.
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        instruction: &Instruction,
        execution: &Execution,
        decoded: &Decoded,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let another = self.begins_cycle(decoded.fresh);
        let mut cycle = self.wait_to_begin(another, decoded, occurrences);
        let behaviour = instruction.row.behaviour;
        const SPECIAL: u16 = behaviour::SERIALISES
            | behaviour::SEGMENT_LOAD
            | behaviour::ALL_QUIET
            | behaviour::DRAINS_STORES;
        if behaviour & SPECIAL != 0 {
            self.wait_specially(behaviour, execution, &mut cycle, occurrences);
        }
        let waits = instruction.whole & self.partial;
        if waits != 0 {
            self.wait_for_parts(waits, &mut cycle, occurrences);
        }
        cycle
    }

    /// The same of an instruction that waits for nothing but parts of registers.
    #[inline(always)]
    pub(super) fn wait_plain<const LANES: bool>(
        &mut self,
        whole: Registers,
        decoded: &Decoded,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let another = if LANES { decoded.fresh } else { self.in_cycle == self.core.width };
        let mut cycle = self.wait_to_begin(another, decoded, occurrences);
        if !LANES {
            let waits = whole & self.partial;
            if waits != 0 {
                self.wait_for_parts(waits, &mut cycle, occurrences);
            }
        }
        cycle
    }

    /// Waits for the decoders, and for what holds whatever comes.
    #[inline(always)]
    fn wait_to_begin(
        &self,
        another: bool,
        decoded: &Decoded,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let base = self.dispatched + u64::from(another);
        let mut cycle = base;
        let stalls = &self.core.stalls;
        if decoded.dispatch > base {
            if let Some(signal) = stalls.decoder_empty {
                occurrences.fire(signal, decoded.dispatch - base);
            }
            cycle = decoded.dispatch;
        }
        if self.hold > cycle {
            let signal = match self.hold_for {
                Hold::Misprediction => stalls.mispredicted,
                Hold::Far => stalls.far,
                Hold::Serialisation => stalls.serialising,
            };
            self.stall(signal, &mut cycle, self.hold, occurrences);
        }
        cycle
    }

    /// Waits that few instructions have.
    #[inline(never)]
    fn wait_specially(
        &mut self,
        behaviour: u16,
        execution: &Execution,
        cycle: &mut u64,
        occurrences: &mut Occurrences,
    ) {
        let stalls = &self.core.stalls;
        if behaviour & behaviour::SERIALISES != 0 {
            self.stall(stalls.serialising, cycle, self.retirement.last + 1, occurrences);
        }
        if behaviour & behaviour::DRAINS_STORES != 0 && self.memory.written > *cycle {
            occurrences.fire(Signal::StallStoreBufferDrain, self.memory.written - *cycle);
            self.stall(stalls.serialising, cycle, self.memory.written, occurrences);
        }
        if behaviour & behaviour::ALL_QUIET != 0 {
            self.stall(stalls.all_quiet, cycle, self.memory.quiet, occurrences);
        }
        if behaviour & behaviour::SEGMENT_LOAD != 0 {
            match self.core.segment_loads {
                SegmentLoads::InTurn => {
                    self.stall(stalls.segment, cycle, self.segment, occurrences);
                }
                SegmentLoads::Renamed => self.wait_for_segment(execution, cycle, occurrences),
            }
        }
    }

    /// Waits until an earlier load of the same segment register has retired.
    fn wait_for_segment(
        &self,
        execution: &Execution,
        cycle: &mut u64,
        occurrences: &mut Occurrences,
    ) {
        let retired = self.segments[usize::from(execution.segment & 7)];
        if retired == 0 || retired < *cycle {
            return;
        }
        let signal = match execution.segment {
            0 => Some(Signal::StallSegRenameEs),
            3 => Some(Signal::StallSegRenameDs),
            4 => Some(Signal::StallSegRenameFs),
            5 => Some(Signal::StallSegRenameGs),
            _ => None,
        };
        if let Some(signal) = signal {
            occurrences.fire(signal, 1);
        }
        self.stall(None, cycle, retired + 1, occurrences);
    }

    /// Waits for the retirement of writes to parts of registers of which more is read.
    #[inline(never)]
    fn wait_for_parts(
        &mut self,
        mut waits: Registers,
        cycle: &mut u64,
        occurrences: &mut Occurrences,
    ) {
        self.partial &= !waits;
        let mut until = 0;
        while waits != 0 {
            until = until.max(self.partial_retired[waits.trailing_zeros() as usize & 15] + 1);
            waits &= waits - 1;
        }
        if until > *cycle {
            occurrences.fire(Signal::StallPartialRegister, until - *cycle);
            *cycle = until;
        }
    }

    /// Dispatch is held until a cycle.
    fn stall(
        &self,
        signal: Option<Signal>,
        cycle: &mut u64,
        until: u64,
        occurrences: &mut Occurrences,
    ) {
        if until > *cycle {
            let cycles = until - *cycle;
            if let Some(signal) = signal {
                occurrences.fire(signal, cycles);
            }
            if let Some(any) = self.core.stalls.any {
                occurrences.fire(any, cycles);
            }
            *cycle = until;
        }
    }

    /// Whether the next macro-operation is dispatched in another cycle than the last.
    #[inline(always)]
    fn begins_cycle(&self, fresh: bool) -> bool {
        match self.core.decoders {
            Decoders::Lines { .. } => fresh,
            Decoders::Template { .. } => self.in_cycle == self.core.width,
        }
    }
}

crate::state! { Hold: Misprediction, Far, Serialisation }
