//! Tests of the bus.

mod athlon;
mod contention;
mod coverage;
mod dram;
mod northbridge;
mod p6_family;
mod pentium;
mod simulation;

use pmu_model::Signal;

use super::{Bus, BusGeometry, Request, Snoop, Transaction};
use crate::processors::PerProcessor;
use crate::system::{Processor, Processors};

/// Pseudo-random numbers: xorshift.
pub(super) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed but 0.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Every request.
const REQUESTS: [Request; 10] = [
    Request::ReadCode,
    Request::ReadData,
    Request::ReadForOwnership,
    Request::Invalidate,
    Request::WriteBack,
    Request::ReadPartial,
    Request::WritePartial,
    Request::WriteCombined,
    Request::ReadPort,
    Request::WritePort,
];

/// Whether it is always for a whole line.
fn is_whole(request: Request) -> bool {
    use Request::{Invalidate, ReadCode, ReadData, ReadForOwnership, WriteBack};
    matches!(request, ReadCode | ReadData | ReadForOwnership | Invalidate | WriteBack)
}

/// Memory of 3 GiB below the hole for devices, and of 1 GiB above it.
const MEMORY: [std::ops::Range<u64>; 2] = [0..3 << 30, 4 << 30..5 << 30];
/// A local APIC's registers.
const DEVICE: u64 = 0xFEE0_0000;

/// A processor 0's transaction at time 0, at a line of memory, that no other cache answers.
fn transaction(request: Request) -> Transaction {
    Transaction {
        processor: Some(0),
        time: 0,
        request,
        physical: 0x4000,
        bytes: 32,
        locked: false,
        snoop: Snoop::Miss,
        holders: 0,
        on_board: false,
    }
}

/// A bus and its processors.
struct Board {
    bus: Bus,
    processors: Processors,
}

impl Board {
    fn new(geometry: &'static BusGeometry, processors: usize) -> Self {
        Self {
            bus: Bus::new(geometry, processors, &MEMORY),
            processors: PerProcessor::new(processors, |_| Processor::default()),
        }
    }

    /// The latency.
    fn transact(&mut self, transaction: Transaction) -> u64 {
        self.bus.transact(&mut self.processors, &transaction)
    }

    /// What a processor's signals are, which are then zero: all that occurred, in the order of the
    /// enumeration.
    fn take(&mut self, processor: usize) -> Vec<(Signal, u64)> {
        let fired =
            std::mem::replace(self.processors[processor].occurrences.fired(), [0; Signal::COUNT]);
        let signals = Signal::ALL.iter().map(|&signal| (signal, fired[signal.index()]));
        signals.filter(|&(_, n)| n != 0).collect()
    }
}

/// The default bus is for models of caches alone.
#[test]
fn the_default_bus_takes_no_time_and_shows_nothing() {
    let mut bus = Bus::default();
    let mut processors = PerProcessor::new(1, |_| Processor::default());
    for request in REQUESTS {
        assert_eq!(bus.transact(&mut processors, &transaction(request)), 0);
    }
    assert!(processors[0].occurrences.fired().iter().all(|&n| n == 0));
}
