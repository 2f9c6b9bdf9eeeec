//! What the northbridge counts of a transaction: route, command, probe. AMD BKDG 26094, section 10.2.1.7,
//! events E5h, E9h, EAh, EBh and ECh.

use pmu_model::Signal;

use super::transaction::{Request, Snoop, Transaction};
use crate::system::Processors;

/// Fires them on all processors, which share the node. `memory` says whether it is for memory.
pub(super) fn fire(
    processors: &mut Processors,
    transaction: &Transaction,
    memory: bool,
    line_bytes: u64,
) {
    // A processor's own cache is not probed for it.
    let probes = memory
        && transaction.request != Request::WriteBack
        && processors.count() > usize::from(transaction.processor.is_some());
    let signals = [
        Some(route(transaction, memory)),
        command(transaction),
        block(transaction),
        probes.then(|| probe(transaction, line_bytes)),
        upstream(transaction),
    ];
    for processor in processors.iter_mut() {
        for signal in signals.into_iter().flatten() {
            processor.occurrences.fire(signal, 1);
        }
    }
}

/// Event E9h: who asks whom.
const fn route(transaction: &Transaction, memory: bool) -> Signal {
    match (transaction.processor, memory) {
        (Some(_), true) => Signal::NbRequestCpuToMem,
        (Some(_), false) => Signal::NbRequestCpuToIo,
        (None, true) => Signal::NbRequestIoToMem,
        (None, false) => Signal::NbRequestIoToIo,
    }
}

/// Events EAh and EBh: a command for a line of a cache, or a sized one. A device has only sized ones.
fn command(transaction: &Transaction) -> Option<Signal> {
    if transaction.processor.is_some() {
        let line = match transaction.request {
            Request::WriteBack => Some(Signal::CacheBlockVictim),
            Request::ReadData => Some(Signal::CacheBlockRead),
            Request::ReadCode => Some(Signal::CacheBlockReadShared),
            Request::ReadForOwnership => Some(Signal::CacheBlockReadModified),
            Request::Invalidate => Some(Signal::CacheBlockChangeToDirty),
            _ => None,
        };
        if line.is_some() {
            return line;
        }
    }
    // Whole doublewords go by a doubleword command, anything else by a byte command with a mask.
    let doublewords = transaction.physical.is_multiple_of(4) && transaction.bytes.is_multiple_of(4);
    // Posted are writes by devices and flushes of write-combining buffers; registers of devices, in
    // memory or in port space, are written non-posted (the "typical usage" of event EBh).
    let posted = transaction.processor.is_none() || transaction.request == Request::WriteCombined;
    Some(match (transaction.request.is_write(), posted, doublewords) {
        (false, _, false) => Signal::SizedReadByte,
        (false, _, true) => Signal::SizedReadDword,
        (true, false, false) => Signal::SizedNonPostedWriteByte,
        (true, false, true) => Signal::SizedNonPostedWriteDword,
        (true, true, false) => Signal::SizedPostedWriteByte,
        (true, true, true) => Signal::SizedPostedWriteDword,
    })
}

/// Event E5h: sized reads and writes of 32 and of 64 bytes; of a processor only flushes of
/// write-combining buffers.
fn block(transaction: &Transaction) -> Option<Signal> {
    if transaction.processor.is_some() && transaction.request != Request::WriteCombined {
        return None;
    }
    match (transaction.request.is_write(), transaction.bytes) {
        (true, 32) => Some(Signal::SizedBlockWrite32),
        (true, 64) => Some(Signal::SizedBlockWrite64),
        (false, 32) => Some(Signal::SizedBlockRead32),
        (false, 64) => Some(Signal::SizedBlockRead64),
        _ => None,
    }
}

/// Event ECh, masks 01h to 08h: what the probes of the caches said, one result a request.
fn probe(transaction: &Transaction, line_bytes: u64) -> Signal {
    let write = transaction.request.is_write();
    match transaction.snoop {
        Snoop::Miss => Signal::ProbeMiss,
        Snoop::HitClean => Signal::ProbeHitClean,
        // A sized write of a full line needs no data of the line, which is invalidated, and is reported
        // as a clean hit.
        Snoop::HitDirty if write && transaction.has_line(line_bytes) => Signal::ProbeHitClean,
        Snoop::HitDirty if write || transaction.request == Request::Invalidate => {
            Signal::ProbeHitDirtyKeep
        }
        Snoop::HitDirty => Signal::ProbeHitDirtyCancel,
    }
}

/// Event ECh, masks 10h to 40h: requests of devices. There is no display in memory to be refreshed.
const fn upstream(transaction: &Transaction) -> Option<Signal> {
    match transaction.processor {
        Some(_) => None,
        None if transaction.request.is_write() => Some(Signal::IoDmaWrite),
        None => Some(Signal::IoDmaRead),
    }
}
