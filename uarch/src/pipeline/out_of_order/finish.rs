//! The end of an instruction: its results are known, what it was is counted, and what follows it may come
//! from elsewhere.

use pmu_model::Signal;

use super::{
    core::{Decoders, PartialRegisters},
    dispatch::Hold,
    instruction::{Execution, Instruction, Misprediction},
    operation::Role,
    pipeline::{Flow, Pipeline},
    registers::{ALL_GENERAL, Registers, STACK_POINTER},
    table::{Decode, Row, behaviour},
};
use crate::occurrences::Occurrences;

impl Pipeline {
    /// Makes an instruction's results known, and fires what retired.
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        instruction: &Instruction,
        mut destinations: Registers,
        flow: &Flow<'_>,
        total: usize,
        occurrences: &mut Occurrences,
    ) {
        let row = instruction.row;
        let execution = flow.execution;
        if flow.pointer != 0 {
            self.ready[usize::from(STACK_POINTER)] = flow.pointer;
        }
        if flow.exchanged {
            let [a, b] = [destinations.trailing_zeros(), 63 - destinations.leading_zeros()];
            if destinations != 0 {
                self.ready.swap(a as usize, b as usize);
            }
        } else {
            let result = if flow.computed { flow.value } else { flow.complete };
            while destinations != 0 {
                self.ready[destinations.trailing_zeros() as usize] = result;
                destinations &= destinations - 1;
            }
        }
        if self.core.partial == PartialRegisters::Renamed {
            self.note_parts(instruction, flow.retired);
        }
        occurrences.fire(Signal::UopRetired, total as u64);
        // A delivery has no bytes to decode.
        if !execution.continued && instruction.length != 0 {
            occurrences.fire(Signal::InsnDecoded, 1);
        }
        if row.behaviour != 0 || execution.resync {
            self.finish_specially(row, flow, occurrences);
        }
        if execution.locked && row.behaviour & behaviour::SYNCHRONISES == 0 {
            occurrences.fire(Signal::UopSync, 1);
        }
        // Nothing foretells where a far transfer goes.
        let goes = execution.misprediction != Misprediction::None || execution.taken;
        if goes && row.behaviour & behaviour::FAR == 0 && !execution.resync {
            self.go_elsewhere(execution, flow.complete, flow.retired, occurrences);
        }
        if self.retirement.without_float > 0 && self.core.stalls.without_float {
            occurrences.fire(Signal::StallNoFpuRetire, self.retirement.without_float);
            self.retirement.without_float = 0;
        }
        if row.decode == Decode::Double
            && matches!(self.core.decoders, Decoders::Lines { double: true })
        {
            self.count_double(occurrences);
        }
        if self.core.fuses {
            count_fused(row, execution, occurrences);
        }
    }

    /// Notes which registers were written in part.
    #[inline(always)]
    pub(super) fn note_parts(&mut self, instruction: &Instruction, retired: u64) {
        let written = instruction.destinations & ALL_GENERAL;
        // A register that was zero as a whole needs no merging.
        let parts = instruction.partial & !self.zeroed;
        self.partial = self.partial & !(written & !instruction.partial) | parts;
        self.zeroed = (self.zeroed & !(written & !instruction.partial)) | instruction.zeroed;
        let mut left = parts;
        while left != 0 {
            self.partial_retired[left.trailing_zeros() as usize & 15] = retired;
            left &= left - 1;
        }
    }

    /// What few instructions leave behind.
    #[inline(never)]
    fn finish_specially(&mut self, row: &Row, flow: &Flow<'_>, occurrences: &mut Occurrences) {
        let is = |what: u16| row.behaviour & what != 0;
        if is(behaviour::SERIALISES) {
            self.hold = flow.retired + 1;
            self.hold_for = Hold::Serialisation;
        }
        if flow.execution.resync {
            occurrences.fire(Signal::FlushResync, 1);
        }
        if is(behaviour::FAR) || flow.execution.resync {
            self.hold = flow.retired + 1;
            self.hold_for = Hold::Far;
            let assist = if flow.execution.float_exception { self.core.assist } else { 0 };
            let redirect = u64::from(self.core.redirect) + u64::from(assist);
            self.front.redirect(flow.complete + redirect);
        }
        if is(behaviour::SEGMENT_LOAD) {
            self.segment = flow.complete;
            self.segments[usize::from(flow.execution.segment & 7)] = flow.retired;
        }
        for (what, signal) in [
            (behaviour::MULTIPLY, Signal::ArithMul),
            (behaviour::DIVIDE, Signal::ArithDiv),
            (behaviour::FLOP, Signal::X87FlopExecuted),
            (behaviour::BRANCH, Signal::BranchDecoded),
            (behaviour::SYNCHRONISES, Signal::UopSync),
        ] {
            if is(what) {
                occurrences.fire(signal, 1);
            }
        }
        if is(behaviour::MMX) {
            let computing = row.operations.iter().flat_map(|operation| operation.parts);
            let computing =
                computing.filter(|part| matches!(part.role, Role::Operate | Role::Half)).count();
            occurrences.fire(Signal::UopMmx, computing as u64);
        }
    }

    /// What follows an instruction that completes and retires at these cycles is fetched from elsewhere.
    #[inline(always)]
    pub(super) fn go_elsewhere(
        &mut self,
        execution: &Execution,
        complete: u64,
        retired: u64,
        occurrences: &mut Occurrences,
    ) {
        match execution.misprediction {
            Misprediction::None => {
                let bubble = u64::from(self.core.fetch.bubble);
                self.front.redirect(self.front.fetched() + 1 + bubble);
                if self.core.fetch.bubble_stalls && bubble > 0 {
                    occurrences.fire(Signal::StallIfetch, bubble);
                }
            }
            Misprediction::Decoder => {
                self.front.redirect(self.front.decoded + u64::from(self.core.decode_redirect));
            }
            Misprediction::Execution => {
                self.front.redirect(complete + u64::from(self.core.redirect));
                self.hold = retired + 1;
                self.hold_for = Hold::Misprediction;
            }
        }
    }

    /// Fires in which position the first half of a DirectPath Double was.
    #[inline(always)]
    pub(super) fn count_double(&self, occurrences: &mut Occurrences) {
        // The second half is where the decoders are now, one behind the first: in the last position
        // if it began a line.
        let signal = match self.front.position {
            2 => Signal::UopFastpathDouble0,
            3 => Signal::UopFastpathDouble1,
            _ => Signal::UopFastpathDouble2,
        };
        occurrences.fire(signal, 1);
    }
}

/// Fires the fused micro-operations that retired.
pub(super) fn count_fused(row: &Row, execution: &Execution, occurrences: &mut Occurrences) {
    let mut fused = 0;
    let each = row.each.iter().map(|operation| (operation, u64::from(execution.iterations)));
    for (operation, times) in row.operations.iter().map(|operation| (operation, 1)).chain(each) {
        if operation.parts.len() < 2 {
            continue;
        }
        let signal =
            if operation.stores > 0 { Signal::UopFusedStore } else { Signal::UopFusedLoadOp };
        occurrences.fire(signal, times);
        fused += times;
    }
    if execution.float_exception && fused > 0 {
        occurrences.fire(Signal::Unfusion, fused);
    }
}
