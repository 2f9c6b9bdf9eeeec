//! The northbridge in the chip of the Opteron and the Athlon 64: system request interface, crossbar,
//! memory controller. One chip with all processors; its events are seen by each of them.

use pmu_model::Signal;

use super::dram::Access;
use super::northbridge_signals;
use super::transaction::{Request, Snoop, Transaction};
use super::{ClockRatio, Memory, point_to_point};
use crate::system::Processors;

/// The timing of the northbridge, in clocks of the processor, at which it runs. The clock of the bus is
/// here that of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Northbridge {
    /// From a request to the first command to the DRAM.
    pub request: u64,
    /// From the first data of the DRAM to the processor.
    pub response: u64,
    /// From a request to the answers of the other processors' caches.
    pub probe: u64,
    /// From a request to the data of a device with mapped registers, behind a HyperTransport link.
    pub device: u64,
    /// From a request to the data of a port.
    pub port: u64,
}

/// The state of the northbridge.
#[derive(Clone, Debug)]
pub(super) struct State {
    timing: &'static Northbridge,
}

impl State {
    pub(super) fn new(timing: &'static Northbridge) -> Self {
        Self { timing }
    }

    /// As [`super::Bus::transact`].
    #[inline(never)]
    pub(super) fn transact(
        &mut self,
        clock: ClockRatio,
        line_bytes: u64,
        memory: &mut Memory,
        processors: &mut Processors,
        transaction: &Transaction,
    ) -> u64 {
        let timing = self.timing;
        let dram = memory.dram_address(transaction);
        northbridge_signals::fire(processors, transaction, dram.is_some(), line_bytes);

        let write = transaction.request.is_write();
        let probed = processors.count() > usize::from(transaction.processor.is_some());
        // A line that another cache supplies cancels the access to memory.
        let cancelled = transaction.snoop == Snoop::HitDirty && !write;
        let access = match dram {
            Some(address) if transaction.request != Request::Invalidate && !cancelled => {
                let command = clock.bus_clock(transaction.time + timing.request);
                Some(memory.dram.access(command, address, write))
            }
            _ => None,
        };
        if let Some(access) = access {
            fire_access(processors, access);
        }
        match access {
            _ if transaction.request.is_port() => timing.port,
            // Non-posted, until the device has answered.
            None if dram.is_none() && transaction.request != Request::WriteCombined => {
                timing.device
            }
            _ if write => timing.request,
            None => timing.probe,
            // J. McCalpin, "AMD Opteron Local Memory Latency Chart" (2010): the longer of the time to get
            // the data from DRAM and the time to get the other caches' answers.
            Some(access) => {
                let data = clock.cycle(access.data + 1) + timing.response - transaction.time;
                if probed { data.max(timing.probe) } else { data }
            }
        }
    }
}

/// Fires what a DRAM access is, on all processors of the node.
fn fire_access(processors: &mut Processors, access: Access) {
    use super::dram::Turnaround::{ChipSelect, ReadToWrite, WriteToRead};
    let turnaround = access.turnaround.map(|turnaround| match turnaround {
        ChipSelect => Signal::DramTurnaroundChipSelect,
        ReadToWrite => Signal::DramTurnaroundReadToWrite,
        WriteToRead => Signal::DramTurnaroundWriteToRead,
    });
    for processor in processors.iter_mut() {
        processor.occurrences.fire(point_to_point::signal(access), 1);
        if access.overflow {
            processor.occurrences.fire(Signal::DramPageTableOverflow, 1);
        }
        if let Some(turnaround) = turnaround {
            processor.occurrences.fire(turnaround, 1);
        }
    }
}

crate::state! { State { derived: timing; } }
