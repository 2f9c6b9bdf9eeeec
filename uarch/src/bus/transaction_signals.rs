//! What is counted of a transaction on a bus that all agents see: which kind it is.

use pmu_model::Signal;

use super::transaction::{Request, Transaction};
use crate::system::Processors;

/// Bytes that the data lines have in one transfer: what is less than a line goes in as many transactions
/// as it has aligned blocks of these. (Intel SDM volume 3, "Buffering of Write Combining Memory
/// Locations": one partial write for each 8-byte chunk of a buffer that is not full.)
const CHUNK_BYTES: u64 = 8;

/// Bytes of a port access that go in one transaction: one that crosses an aligned doubleword makes two
/// (Intel SDM volume 1, chapter "Input/Output").
const PORT_BYTES: u64 = 4;

/// How many transactions on the bus it takes.
pub(super) fn transactions(transaction: &Transaction, line_bytes: u64) -> u64 {
    if transaction.request.is_port() {
        transaction.blocks(PORT_BYTES)
    } else if transaction.has_line(line_bytes) || transaction.request == Request::Invalidate {
        1
    } else {
        transaction.blocks(CHUNK_BYTES)
    }
}

/// Fires the kinds of a transaction: for the processor that makes it, and for all as agents that see it.
pub(super) fn fire(processors: &mut Processors, transaction: &Transaction, line_bytes: u64) {
    let n = transactions(transaction, line_bytes);
    let mut kind = |own: Option<Signal>, any: Signal| {
        if let (Some(own), Some(processor)) = (own, transaction.processor) {
            processors[processor].occurrences.fire(own, n);
        }
        for agent in processors.iter_mut() {
            agent.occurrences.fire(any, n);
        }
    };
    kind(Some(Signal::BusTransaction), Signal::BusTransactionAny);
    if transaction.request.is_port() {
        kind(None, Signal::BusIoAny);
        return;
    }
    kind(Some(Signal::BusMemory), Signal::BusMemoryAny);
    match transaction.request {
        Request::ReadCode => kind(Some(Signal::BusIfetch), Signal::BusIfetchAny),
        Request::ReadForOwnership => kind(Some(Signal::BusRfo), Signal::BusRfoAny),
        Request::Invalidate => kind(Some(Signal::BusInvalidate), Signal::BusInvalidateAny),
        Request::WriteBack => kind(Some(Signal::BusWriteback), Signal::BusWritebackAny),
        _ => {}
    }
    let write = transaction.request.is_write();
    if transaction.has_line(line_bytes) {
        kind(Some(Signal::BusBurst), Signal::BusBurstAny);
        if !write {
            kind(Some(Signal::BusBurstRead), Signal::BusBurstReadAny);
        }
    } else if transaction.request != Request::Invalidate {
        // An invalidation has no data, and is neither part of a line nor a burst.
        kind(Some(Signal::BusPartial), Signal::BusPartialAny);
        if write {
            kind(Some(Signal::BusPartialWrite), Signal::BusPartialWriteAny);
        }
    }
}
