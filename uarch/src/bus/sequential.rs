//! The bus of the Pentium: one cycle after the other, of a single transfer or a burst of four.
//!
//! A line that a snoop finds modified is written back in a burst of its own ([`Request::WriteBack`]) before
//! the cycle that it was in the way of.

use pmu_model::Signal;

use super::reservations::Reservations;
use super::transaction::{Request, Transaction};
use super::transaction_signals;
use super::{ClockRatio, Memory};
use crate::system::Processors;

/// The timing of the bus, in its clocks, the one with the address strobe being the first.
#[derive(Clone, Copy, Debug)]
pub struct SequentialBus {
    /// Clocks from the address strobe to the first command to the DRAM and from the DRAM's data to those
    /// on the bus, taken together.
    pub memory: u64,
    /// Up to the first transfer of a line that the cache on the board has.
    pub board: u64,
    /// Up to the first transfer of a write to memory, which the system controller takes over.
    pub write: u64,
    /// Up to the transfer of a device with mapped registers.
    pub device: u64,
    /// Up to the transfer of a port.
    pub port: u64,
    /// Transfers of a burst.
    pub burst_transfers: u64,
}

/// The state of the bus.
#[derive(Clone, Debug)]
pub(super) struct State {
    timing: &'static SequentialBus,
    bus: Reservations,
}

impl State {
    pub(super) fn new(timing: &'static SequentialBus) -> Self {
        Self { timing, bus: Reservations::default() }
    }

    /// As [`super::Bus::transact`]. Compiled for each request that is known where it is made: most are of lines.
    #[inline(always)]
    pub(super) fn transact(
        &mut self,
        clock: ClockRatio,
        line_bytes: u64,
        memory: &mut Memory,
        processors: &mut Processors,
        transaction: &Transaction,
    ) -> u64 {
        let timing = self.timing;
        let write = transaction.request.is_write() || transaction.request == Request::Invalidate;
        let dram = memory.dram_address(transaction);
        // Nothing goes to the DRAM before the bus is free.
        let arrival = self.bus.find(clock.bus_clock(transaction.time), 1);
        let first = match dram {
            _ if transaction.request.is_port() => timing.port,
            // It looks aside: the memory does not begin where the cache has the line.
            Some(_) if transaction.on_board && !write => timing.board,
            _ if write => {
                if let Some(address) = dram {
                    memory.dram.access_unqueued(arrival, address, true);
                }
                timing.write
            }
            Some(address) => {
                timing.memory + memory.dram.access_unqueued(arrival, address, false).latency
            }
            None => timing.device,
        };
        let clocks = if transaction.has_line(line_bytes) {
            first + timing.burst_transfers - 1
        } else {
            first * transaction_signals::transactions(transaction, line_bytes)
        };
        let start = self.bus.reserve(arrival, clocks);
        let end = start + clocks;
        if let Some(processor) = transaction.processor {
            processors[processor].occurrences.fire(Signal::BusBusy, clock.cycles(start, end));
        }
        let done = if write { end } else { start + first };
        clock.cycle(done) - transaction.time
    }
}

crate::state! { State { saved: bus; derived: timing; } }
