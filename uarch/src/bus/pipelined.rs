//! The bus of the P6 family: transactions in phases, of which those of different transactions overlap.
//!
//! Request phase, snoop phase (what the caches of the others have), response, data phase. Each has lines
//! of its own, so that several transactions are on their way at a time, which get their responses and data
//! in the order of their requests. That order holds for each agent here; between agents the transactions
//! of a turn are not known in the order of their times.
//!
//! A device's transactions are those of the bridge, an agent as any other, with data on the bus.

use std::ops::Range;

use pmu_model::Signal;

use super::reservations::Reservations;
use super::transaction::{Request, Snoop, Transaction};
use super::transaction_signals;
use super::{ClockRatio, Memory};
use crate::state::{Visitor, optional};
use crate::system::Processors;

/// The timing of the bus, in its clocks.
#[derive(Clone, Copy, Debug)]
pub struct PipelinedBus {
    /// From one request to the next.
    pub request_interval: u64,
    /// From a request to the result of its snoop.
    pub snoop: u64,
    /// How much a stall of the snoop phase adds.
    pub snoop_stall: u64,
    /// How often an agent stalls the snoop phase that has the line dirty.
    pub dirty_snoop_stalls: u64,
    /// From the result of the snoop to the response, with which read data may begin.
    pub response: u64,
    /// From the response to the data that an agent with the dirty line drives.
    pub implicit_write_back: u64,
    /// From a request to the first command to the DRAM.
    pub memory_command: u64,
    /// From the first data of the DRAM to those on the bus.
    pub memory_return: u64,
    /// From a request to the data of a device with mapped registers.
    pub device: u64,
    /// From a request to the data of a port.
    pub port: u64,
    /// Bytes that go over the data lines in a clock.
    pub bytes_per_clock: u64,
    /// Clocks between two data phases.
    pub data_turnaround: u64,
    /// Transactions that an agent may have on their way: the depth of the in-order queue.
    pub in_order_queue: usize,
}

/// Who has locked the bus, and up to which clock that is counted.
#[derive(Clone, Copy, Debug)]
struct Lock {
    processor: usize,
    counted: u64,
}

/// The state of the bus.
#[derive(Clone, Debug)]
pub(super) struct State {
    timing: &'static PipelinedBus,
    requests: Reservations,
    data: Reservations,
    /// When the last transactions of each agent ended, `in_order_queue` of each, a ring. The last agent
    /// is the bridge, which transacts for the devices.
    ends: Box<[u64]>,
    /// Which of them is the oldest, and the next to be replaced.
    oldest: Box<[usize]>,
    lock: Option<Lock>,
}

/// The clocks in which the phases of a transaction are.
#[derive(Clone, Debug)]
struct Phases {
    request: u64,
    /// The result of the snoop, after stalls.
    snooped: u64,
    stalls: u64,
    /// The first clock of the data phase; the response if there are no data.
    data: u64,
    data_clocks: u64,
    /// The clocks in which who has the line dirty drives it: the data phase of a read, and another one
    /// behind that of a write.
    write_back: Option<Range<u64>>,
}

impl Phases {
    /// The first clock behind the last phase.
    fn end(&self) -> u64 {
        let data = self.data + if self.data_clocks == 0 { 1 } else { self.data_clocks };
        self.write_back.as_ref().map_or(data, |write_back| write_back.end)
    }
}

impl State {
    pub(super) fn new(timing: &'static PipelinedBus, processors: usize) -> Self {
        let agents = processors + 1;
        Self {
            timing,
            requests: Reservations::default(),
            data: Reservations::default(),
            ends: vec![0; agents * timing.in_order_queue].into(),
            oldest: vec![0; agents].into(),
            lock: None,
        }
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
        let phases =
            self.schedule(clock.bus_clock(transaction.time), line_bytes, memory, transaction);
        transaction_signals::fire(processors, transaction, line_bytes);
        self.fire_phases(clock, processors, transaction, &phases);
        if transaction.locked {
            self.fire_lock(clock, processors, transaction, &phases);
        }
        let done = if transaction.request.is_write() { phases.end() } else { phases.data + 1 };
        clock.cycle(done) - transaction.time
    }

    /// Finds the clocks of the phases, and takes them.
    fn schedule(
        &mut self,
        arrival: u64,
        line_bytes: u64,
        memory: &mut Memory,
        transaction: &Transaction,
    ) -> Phases {
        let timing = self.timing;
        let agent = transaction.processor.unwrap_or(self.oldest.len() - 1);
        let depth = timing.in_order_queue;
        let queue = &self.ends[agent * depth..][..depth];
        let before = queue[(self.oldest[agent] + depth - 1) % depth];
        let room = queue[self.oldest[agent]];

        let chunks = transaction_signals::transactions(transaction, line_bytes);
        let request = self.requests.reserve(arrival.max(room), chunks * timing.request_interval);
        let dirty = transaction.snoop == Snoop::HitDirty;
        let stalls = if dirty { timing.dirty_snoop_stalls } else { 0 };
        let snooped = request + timing.snoop + stalls * timing.snoop_stall;
        let response = (snooped + timing.response).max(before);
        let write = transaction.request.is_write();
        let invalidate = transaction.request == Request::Invalidate;
        // An implicit write-back: always of the whole line.
        let supplied = dirty && !transaction.request.is_port() && !invalidate;
        let line_clocks = line_bytes / timing.bytes_per_clock;
        let data_clocks = if invalidate {
            0
        } else if transaction.has_line(line_bytes) || supplied && !write {
            line_clocks
        } else {
            chunks
        };
        let dram = memory.dram_address(transaction);
        let ready = match dram {
            _ if transaction.request.is_port() => request + timing.port,
            _ if write || invalidate => response,
            _ if supplied => response + timing.implicit_write_back,
            Some(address) => {
                let command = request + timing.memory_command;
                memory.dram.access(command, address, false).data + timing.memory_return
            }
            None => request + timing.device,
        };
        let mut drive =
            |earliest, clocks| self.data.reserve(earliest, clocks + timing.data_turnaround);
        let data = if invalidate { response } else { drive(response.max(ready), data_clocks) };
        let write_back = supplied.then(|| {
            let start = if write {
                drive(data + data_clocks + timing.implicit_write_back, line_clocks)
            } else {
                data
            };
            start..start + line_clocks
        });
        let phases = Phases { request, snooped, stalls, data, data_clocks, write_back };
        // The memory takes what was written, and the dirty line that it did not have, as one.
        if let (Some(address), true) = (dram, write || supplied) {
            memory.dram.access(phases.end(), address, true);
        }
        self.ends[agent * depth + self.oldest[agent]] = phases.end();
        self.oldest[agent] = (self.oldest[agent] + 1) % depth;
        phases
    }

    /// Fires what the lines do: data ready, snoop results.
    fn fire_phases(
        &self,
        clock: ClockRatio,
        processors: &mut Processors,
        transaction: &Transaction,
        phases: &Phases,
    ) {
        let Phases { request, snooped, stalls, data, data_clocks, .. } = *phases;
        let write = transaction.request.is_write();
        let dirty = transaction.snoop == Snoop::HitDirty;
        if let Some(processor) = transaction.processor {
            let own = &mut processors[processor].occurrences;
            own.fire(if write { Signal::BusDrdy } else { Signal::BusDataReceive }, data_clocks);
            // Intel SDM volume 3, event 60h: reads of whole lines for the data cache only, until the
            // last data have come.
            if transaction.request == Request::ReadData {
                own.fire(Signal::MissOutstandingBus, clock.cycles(request, phases.end()));
            }
        }
        let stall_clocks = stalls * self.timing.snoop_stall;
        let write_back = phases.write_back.clone().unwrap_or_default();
        for holder in transaction.holders(processors.count()) {
            let own = &mut processors[holder].occurrences;
            match transaction.snoop {
                Snoop::Miss => {}
                Snoop::HitClean => own.fire(Signal::BusHit, 1),
                // A stall is HIT and HITM at once.
                Snoop::HitDirty => {
                    own.fire(Signal::BusHit, stall_clocks);
                    own.fire(Signal::BusHitm, stall_clocks + 1);
                    own.fire(Signal::BusDrdy, write_back.end - write_back.start);
                }
            }
        }
        let mut ready = clock.cycles(data, data + data_clocks);
        if write {
            ready += clock.cycles(write_back.start, write_back.end);
        }
        let stalled = clock.cycles(snooped - stall_clocks, snooped);
        debug_assert!(dirty || stalled == 0);
        for agent in processors.iter_mut() {
            agent.occurrences.fire(Signal::BusDrdyAny, ready);
            agent.occurrences.fire(Signal::BusSnoopStall, stalled);
        }
    }

    /// Fires the clocks in which a locked transaction holds the bus, from the request of the first to the
    /// end of the last; what lies between the read and the write belongs to it.
    fn fire_lock(
        &mut self,
        clock: ClockRatio,
        processors: &mut Processors,
        transaction: &Transaction,
        phases: &Phases,
    ) {
        let Some(processor) = transaction.processor else { return };
        let from = match self.lock {
            Some(lock) if lock.processor == processor => lock.counted,
            _ => phases.request,
        };
        let to = phases.end().max(from);
        // No one else makes a request meanwhile.
        self.requests.take(from, to);
        let write = transaction.request.is_write();
        self.lock = (!write).then_some(Lock { processor, counted: to });
        let locked = clock.cycles(from, to);
        processors[processor].occurrences.fire(Signal::BusLock, locked);
        for agent in processors.iter_mut() {
            agent.occurrences.fire(Signal::BusLockAny, locked);
        }
    }
}

crate::state! { Lock { saved: processor; cycles: counted; } }

impl crate::state::State for State {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { timing, requests, data, ends, oldest, lock } = self;
        requests.visit(visitor);
        data.visit(visitor);
        visitor.name("pipelined::State");
        visitor.cycles(ends);
        for oldest in oldest.iter_mut() {
            visitor.index(oldest, timing.in_order_queue);
        }
        optional(visitor, lock, || Lock { processor: 0, counted: 0 });
    }
}
