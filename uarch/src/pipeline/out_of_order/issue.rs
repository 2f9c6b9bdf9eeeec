//! Issue: when micro-operations get their units, and when what they compute is there.

use pmu_model::Signal;

use super::{
    core::Memory,
    dispatch::LOADS,
    instruction::Execution,
    memory::MemoryUnit,
    operation::{Blocking, MicroOp, Role},
    pipeline::{Flow, Pipeline},
    registers::STACK_POINTER,
};
use crate::occurrences::Occurrences;

impl Pipeline {
    /// Issues a micro-operation of a macro-operation that is dispatched at a cycle into a lane: the
    /// cycle, and that in which it is complete.
    #[inline(always)]
    pub(super) fn micro_op(
        &mut self,
        part: &MicroOp,
        dispatched: u64,
        lane: u8,
        flow: &mut Flow<'_>,
        occurrences: &mut Occurrences,
    ) -> (u64, u64) {
        let delay = if part.float { self.core.float_delay } else { self.core.issue_delay };
        let start = dispatched + u64::from(delay);
        let mut ready = match part.role {
            Role::Load | Role::StoreAddress => start.max(flow.address),
            Role::Operate | Role::StoreData => start.max(flow.sources).max(flow.value),
            Role::Half => start.max(flow.sources).max(flow.loaded),
            Role::Address => start.max(flow.sources).max(flow.address),
            Role::Pointer => start.max(self.ready[usize::from(STACK_POINTER)]),
            Role::Step => start,
            Role::Exchange => {
                flow.exchanged = true;
                return (dispatched, dispatched);
            }
        };
        if part.role == Role::Load {
            ready = self.load_ready(ready, flow.execution, occurrences);
        }
        if part.blocking != Blocking::None {
            ready = ready.max(self.units.free(part.blocking));
        }
        let mut issue = ready;
        if part.units != 0 {
            let units = if part.lane { part.units << lane } else { part.units };
            let (cycle, unit) = self.units.take(ready, units);
            issue = cycle;
            if part.float {
                flow.float_unit = unit;
            }
        }
        if part.blocking != Blocking::None {
            self.units.block(part.blocking, issue + u64::from(part.occupancy));
            if part.blocking == Blocking::Divider {
                occurrences.fire(Signal::DividerBusy, u64::from(part.occupancy));
            }
        }
        let end = issue + u64::from(part.latency);
        let end = match part.role {
            Role::Load => {
                let end = self.load(issue, end, flow, occurrences);
                flow.loaded = flow.loaded.max(end);
                flow.value = flow.value.max(end);
                flow.computed = true;
                end
            }
            Role::Half => {
                flow.value = flow.value.max(end);
                end
            }
            Role::StoreAddress => self.store_address(issue, end, occurrences),
            Role::Operate | Role::Address => {
                flow.value = end;
                flow.computed = true;
                end
            }
            Role::StoreData => {
                flow.store_data = Some(end);
                end
            }
            Role::Pointer => {
                flow.pointer = end;
                end
            }
            Role::Step | Role::Exchange => end,
        };
        (issue, end)
    }

    /// When a load can be issued, as far as older stores allow.
    #[inline(always)]
    pub(super) fn load_ready(
        &self,
        ready: u64,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let Memory::Buffers { .. } = self.core.memory else { return ready };
        let allowed = self.memory.load_ready();
        let issue = ready.max(allowed);
        let forwarding = execution.forwarding;
        if allowed > ready
            || self.memory.is_blocked(issue, forwarding)
            || self.memory.lacks_data(issue, forwarding)
        {
            occurrences.fire(Signal::StallLoadBlocked, 1);
        }
        issue
    }

    /// A load whose address is issued at a cycle: when it has its data, which the cache gives at `hit`.
    #[inline(always)]
    fn load(
        &mut self,
        issue: u64,
        hit: u64,
        flow: &Flow<'_>,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let forwarding = flow.execution.forwarding;
        let Memory::InOrder { .. } = self.core.memory else {
            return self.memory.data(hit, flow.load_delay, forwarding);
        };
        let probed = self.probe_to_load(issue, flow.execution, occurrences);
        let data = self.memory.data(MemoryUnit::hit(probed), flow.load_delay, forwarding);
        if flow.load_delay > 0 {
            self.memory.hold_second(data);
        }
        data
    }

    /// A load whose address is issued at a cycle probes the data cache: when.
    #[inline(always)]
    pub(super) fn probe_to_load(
        &mut self,
        issue: u64,
        execution: &Execution,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let address = Some(execution.load_address);
        let probed = self.memory.probe(issue + 1, address, occurrences);
        self.room.release(probed + 1, LOADS);
        if self.memory.is_blocked(probed, execution.forwarding) {
            occurrences.fire(Signal::StallLateCancel, 1);
        }
        probed
    }

    /// The address of a store is issued at a cycle: when it is known, if nothing holds it at `end`.
    #[inline(always)]
    pub(super) fn store_address(
        &mut self,
        issue: u64,
        end: u64,
        occurrences: &mut Occurrences,
    ) -> u64 {
        self.memory.address_known(end);
        let Memory::InOrder { .. } = self.core.memory else { return end };
        let probed = self.memory.probe(issue + 1, None, occurrences);
        self.room.release(probed + 1, LOADS);
        self.memory.take_second();
        end.max(probed)
    }
}
