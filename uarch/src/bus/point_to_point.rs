//! The Athlon's system bus: a link from each processor to the system controller, which has the memory and
//! the devices behind it. What a ring does that is never short of room looks the same.
//!
//! A link has lines of its own for commands and for data in each direction, so that processors meet only
//! at the memory.

use pmu_model::Signal;

use super::dram::{Access, Page};
use super::reservations::Reservations;
use super::transaction::{Request, Snoop, Transaction};
use super::{ClockRatio, Memory};
use crate::system::Processors;

/// The timing of the links and of the system controller, in clocks of the bus.
#[derive(Clone, Copy, Debug)]
pub struct PointToPoint {
    /// Clocks of a command.
    pub command: u64,
    /// Bytes that go over the data lines in a clock.
    pub bytes_per_clock: u64,
    /// From a command to the first command to the DRAM.
    pub memory_command: u64,
    /// From the first data of the DRAM to those on the link.
    pub memory_return: u64,
    /// From a command to the data that another processor's cache has supplied.
    pub probe: u64,
    /// Another processor's cache supplies a line also if it has it clean.
    pub supplies_clean: bool,
    /// From a command to the data of a device with mapped registers.
    pub device: u64,
    /// From a command to the data of a port.
    pub port: u64,
}

/// The link of a processor.
#[derive(Clone, Debug, Default)]
struct Link {
    commands: Reservations,
    data_in: Reservations,
    data_out: Reservations,
}

/// The state of the links.
#[derive(Clone, Debug)]
pub(super) struct State {
    timing: &'static PointToPoint,
    links: Box<[Link]>,
}

impl State {
    pub(super) fn new(timing: &'static PointToPoint, processors: usize) -> Self {
        Self { timing, links: vec![Link::default(); processors].into() }
    }

    /// As [`super::Bus::transact`].
    #[inline(never)]
    pub(super) fn transact(
        &mut self,
        clock: ClockRatio,
        memory: &mut Memory,
        processors: &mut Processors,
        transaction: &Transaction,
    ) -> u64 {
        let timing = self.timing;
        let arrival = clock.bus_clock(transaction.time);
        let dram = memory.dram_address(transaction);
        let write = transaction.request.is_write();
        let clocks = u64::from(transaction.bytes).div_ceil(timing.bytes_per_clock).max(1);
        let mut link = transaction.processor.map(|processor| &mut self.links[processor]);

        // A device is behind the system controller, and needs no link.
        let sent = match &mut link {
            Some(link) => link.commands.reserve(arrival, timing.command) + timing.command,
            None => arrival,
        };
        let received = match &mut link {
            Some(link) if write => link.data_out.reserve(sent, clocks) + clocks,
            _ => sent,
        };
        let supplied = match transaction.snoop {
            Snoop::Miss => false,
            Snoop::HitClean => timing.supplies_clean,
            Snoop::HitDirty => true,
        };
        let access = match dram {
            Some(_) if transaction.request == Request::Invalidate => None,
            // The data come from the other cache.
            Some(_) if supplied && !write => None,
            Some(address) => {
                Some(memory.dram.access(received + timing.memory_command, address, write))
            }
            None => None,
        };
        if let (Some(processor), Some(access)) = (transaction.processor, access) {
            processors[processor].occurrences.fire(signal(access), 1);
        }
        let ready = match access {
            _ if transaction.request.is_port() => received + timing.port,
            _ if write => return clock.cycle(received) - transaction.time,
            Some(access) => access.data + timing.memory_return,
            None if dram.is_some() => received + timing.probe,
            None => received + timing.device,
        };
        let first = match &mut link {
            Some(link) if !write && transaction.request != Request::Invalidate => {
                link.data_in.reserve(ready, clocks) + 1
            }
            _ => ready,
        };
        clock.cycle(first) - transaction.time
    }
}

/// The signal of a DRAM access.
pub(super) const fn signal(access: Access) -> Signal {
    match access.page {
        Page::Hit => Signal::DramPageHit,
        Page::Miss => Signal::DramPageMiss,
        Page::Conflict => Signal::DramPageConflict,
    }
}

crate::state! { State { saved: links; derived: timing; } }
crate::state! { Link { saved: commands, data_in, data_out; } }
