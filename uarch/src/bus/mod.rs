//! The bus: what leaves a processor's caches, and what memory makes of it.
//!
//! Four ways to connect processors, memory and devices, each a file: the bus of the P6 family
//! ([`PipelinedBus`]), that of the Pentium ([`SequentialBus`]), the links of the Athlon to its system
//! controller ([`PointToPoint`]) and the northbridge in the Opteron ([`Northbridge`]). Behind all of them
//! is DRAM with open pages ([`DramGeometry`]).
//!
//! A transaction waits until what it needs is free: each of these is a reservation table, so that
//! processors which take turns on the time line get in each other's way as if they ran at once. Open
//! pages are as the transactions come, one turn after the other.

mod address_map;
mod clock;
mod divisor;
mod dram;
mod northbridge;
mod northbridge_signals;
mod pipelined;
mod point_to_point;
mod reservations;
mod sequential;
#[cfg(test)]
mod tests;
mod transaction;
mod transaction_signals;

use std::ops::Range;

use self::address_map::AddressMap;
pub use self::clock::ClockRatio;
use self::dram::Dram;
pub use self::dram::DramGeometry;
pub use self::northbridge::Northbridge;
pub use self::pipelined::PipelinedBus;
pub use self::point_to_point::PointToPoint;
pub use self::sequential::SequentialBus;
pub use self::transaction::{Request, Snoop, Transaction};
use crate::state::Visitor;
use crate::system::Processors;

/// The bus of a part, and its memory.
#[derive(Clone, Copy, Debug)]
pub struct BusGeometry {
    /// The clock of the bus and of the memory.
    pub clock: ClockRatio,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// What connects processors, memory and devices.
    pub interconnect: Interconnect,
    /// The memory.
    pub dram: DramGeometry,
}

/// What connects processors, memory and devices.
#[derive(Clone, Copy, Debug)]
pub enum Interconnect {
    /// A bus shared by all, whose transactions overlap.
    Pipelined(PipelinedBus),
    /// A bus shared by all that does one transaction after the other.
    Sequential(SequentialBus),
    /// A link from each processor to a system controller.
    PointToPoint(PointToPoint),
    /// A northbridge in the processors' chip.
    Northbridge(Northbridge),
}

/// The bus of a machine, and the memory behind it.
///
/// By default, it is one on which everything is there at once and nothing is to be seen, for a model of
/// caches alone.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    machine: Option<Machine>,
    /// There was a transaction since that was last asked for.
    is_used: bool,
    /// A core had a line that another one asked for, since that was last asked for.
    is_shared: bool,
}

/// What processors have asked for beyond their own caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing.
    None,
    /// Nothing that was in the caches of another core: memory, devices.
    Memory,
    /// What was in the caches of another core, too.
    Shared,
}

/// All of a bus but the default one.
#[derive(Clone, Debug)]
struct Machine {
    clock: ClockRatio,
    line_bytes: u64,
    interconnect: State,
    memory: Memory,
}

/// The state of what connects processors, memory and devices.
#[derive(Clone, Debug)]
enum State {
    Pipelined(pipelined::State),
    Sequential(sequential::State),
    PointToPoint(point_to_point::State),
    Northbridge(northbridge::State),
}

/// Where the memory is, and its state.
#[derive(Clone, Debug)]
struct Memory {
    map: AddressMap,
    dram: Dram,
}

impl Memory {
    /// The address in the DRAM that a transaction is for; `None` if a device answers.
    #[inline(always)]
    fn dram_address(&self, transaction: &Transaction) -> Option<u64> {
        if transaction.request.is_port() {
            None
        } else {
            self.map.dram_address(transaction.physical)
        }
    }
}

impl Bus {
    /// The bus of a part with so many processors, and with memory at these guest-physical addresses
    /// (ascending and apart); at all others are devices.
    #[must_use]
    pub fn new(geometry: &'static BusGeometry, processors: usize, memory: &[Range<u64>]) -> Self {
        let interconnect = match &geometry.interconnect {
            Interconnect::Pipelined(bus) => {
                State::Pipelined(pipelined::State::new(bus, processors))
            }
            Interconnect::Sequential(bus) => State::Sequential(sequential::State::new(bus)),
            Interconnect::PointToPoint(links) => {
                State::PointToPoint(point_to_point::State::new(links, processors))
            }
            Interconnect::Northbridge(northbridge) => {
                State::Northbridge(northbridge::State::new(northbridge))
            }
        };
        Self {
            machine: Some(Machine {
                clock: geometry.clock,
                line_bytes: geometry.line_bytes,
                interconnect,
                memory: Memory { map: AddressMap::new(memory), dram: Dram::new(&geometry.dram) },
            }),
            is_used: false,
            is_shared: false,
        }
    }

    /// Performs a transaction, and fires its signals on `processors`. Cycles of
    /// the processor until the first data are there (the ones it asked for: the critical word); of a
    /// write, until the data have been taken over.
    #[inline(always)]
    pub fn transact(&mut self, processors: &mut Processors, transaction: &Transaction) -> u64 {
        let Some(Machine { clock, line_bytes, interconnect, memory }) = &mut self.machine else {
            return 0;
        };
        self.is_used = true;
        // Those that are not compiled here get a copy each, so that where they are not called there need be none in memory.
        match interconnect {
            State::Sequential(bus) => {
                bus.transact(*clock, *line_bytes, memory, processors, transaction)
            }
            State::Pipelined(bus) => {
                bus.transact(*clock, *line_bytes, memory, processors, &{ *transaction })
            }
            State::PointToPoint(links) => {
                links.transact(*clock, memory, processors, &{ *transaction })
            }
            State::Northbridge(northbridge) => {
                northbridge.transact(*clock, *line_bytes, memory, processors, &{ *transaction })
            }
        }
    }

    /// A core has a line that another one asks for.
    pub(crate) fn note_shared(&mut self) {
        self.is_shared = true;
    }

    /// What there was since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        let (is_used, is_shared) =
            (std::mem::take(&mut self.is_used), std::mem::take(&mut self.is_shared));
        match (is_used, is_shared) {
            (_, true) => Traffic::Shared,
            (true, _) => Traffic::Memory,
            _ => Traffic::None,
        }
    }
}

crate::state! { Bus { saved: is_used, is_shared; made: machine; } }
crate::state! { Machine { saved: interconnect, memory; derived: clock, line_bytes; } }
crate::state! { Memory { saved: dram; derived: map; } }

/// Which one it is, is the part's.
impl crate::state::State for State {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        match self {
            Self::Pipelined(bus) => bus.visit(visitor),
            Self::Sequential(bus) => bus.visit(visitor),
            Self::PointToPoint(links) => links.visit(visitor),
            Self::Northbridge(northbridge) => northbridge.visit(visitor),
        }
    }
}
