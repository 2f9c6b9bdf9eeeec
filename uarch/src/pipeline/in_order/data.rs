//! Data accesses: what an instruction waits for in the execution stage.

use pmu_model::Signal;

use super::{Execution, Outcome, Parameters, write_buffers::WriteBuffers};
use crate::{occurrences::Occurrences, pipeline::Instruction};

/// The data accesses of an instruction, the first at `start`: how long it waits for them.
pub(super) fn access(
    parameters: &Parameters,
    buffers: &mut WriteBuffers,
    occurrences: &mut Occurrences,
    instruction: &Instruction,
    execution: &Execution<'_>,
    start: u64,
) -> u64 {
    let mmx = instruction.timing.is_mmx();
    let mut fire = |signal, of_mmx: Option<Signal>, clocks| {
        occurrences.fire(signal, clocks);
        if let Some(of_mmx) = of_mmx.filter(|_| mmx) {
            occurrences.fire(of_mmx, clocks);
        }
    };
    let mut now = start;
    for access in execution.accesses {
        if access.misaligned {
            now += parameters.pipes.misaligned;
        }
        // Page walks are reads as well (Intel SDM, event 1Ah).
        let mut read = access.walk;
        let (mut full, mut behind) = (0, 0);
        now += access.walk;
        match access.outcome {
            Outcome::Hit => {}
            Outcome::Miss { clocks } => {
                // Reads go out behind writes (Intel SDM volume 3, "Memory Ordering in the Pentium
                // and Intel486 Processors").
                let free = buffers.free_at(parameters.write_buffers);
                full = free.saturating_sub(now);
                now += full;
                let turn = buffers.empty_at().max(now);
                read += turn - now + clocks;
                now = turn + clocks;
            }
            Outcome::Owned => {
                behind = buffers.empty_at().saturating_sub(now);
                now += behind;
            }
            Outcome::Buffered { clocks } => {
                let free = buffers.free_at(parameters.write_buffers);
                full = free.saturating_sub(now);
                now += full;
                buffers.enter(now, clocks);
            }
        }
        if access.walk != 0 {
            fire(Signal::StallDtlbMiss, None, access.walk);
        }
        if read != 0 {
            fire(Signal::StallLoadMiss, Some(Signal::StallLoadMissMmx), read);
        }
        if full != 0 {
            fire(Signal::StallStoreBufferFull, Some(Signal::StallStoreBufferFullMmx), full);
        }
        if behind != 0 {
            fire(Signal::StallStoreEmLine, Some(Signal::StallStoreEmLineMmx), behind);
        }
    }
    now - start
}
