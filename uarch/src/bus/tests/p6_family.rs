//! The bus of the P6 family by hand: phases, signals and their units. Intel MMX Technology manual,
//! chapter 6, table 6-2, "External Bus Logic"; Intel SDM volume 3 for events 60h, 64h, 65h, 67h and 7Bh.

use pmu_model::Signal::{self, *};

use super::{Board, DEVICE, transaction};
use crate::bus::{Request, Snoop, Transaction};
use crate::part::bus::{P6, PII, PM, PPRO};

/// The kinds that a request is counted as, of the processor and of any agent.
fn kinds(request: Request) -> Vec<(Signal, Signal)> {
    let memory = [(BusTransaction, BusTransactionAny), (BusMemory, BusMemoryAny)];
    let burst = (BusBurst, BusBurstAny);
    let read = (BusBurstRead, BusBurstReadAny);
    let partial = (BusPartial, BusPartialAny);
    let others = match request {
        Request::ReadCode => vec![(BusIfetch, BusIfetchAny), burst, read],
        Request::ReadData => vec![burst, read],
        Request::ReadForOwnership => vec![(BusRfo, BusRfoAny), burst, read],
        Request::Invalidate => vec![(BusInvalidate, BusInvalidateAny)],
        Request::WriteBack => vec![(BusWriteback, BusWritebackAny), burst],
        Request::ReadPartial => vec![partial],
        Request::WritePartial => vec![partial, (BusPartialWrite, BusPartialWriteAny)],
        Request::WriteCombined => vec![burst],
        Request::ReadPort | Request::WritePort => unreachable!(),
    };
    [memory.to_vec(), others].concat()
}

/// Only the counts, without the clocks.
fn counts(mut signals: Vec<(Signal, u64)>) -> Vec<(Signal, u64)> {
    let clocks = [BusDrdy, BusDrdyAny, BusDataReceive, MissOutstandingBus];
    signals.retain(|(signal, _)| !clocks.contains(signal));
    signals
}

fn sorted(mut signals: Vec<Signal>) -> Vec<(Signal, u64)> {
    signals.sort_unstable();
    signals.into_iter().map(|signal| (signal, 1)).collect()
}

#[test]
fn the_one_who_asks_counts_its_own_and_all_count_any() {
    for request in [
        Request::ReadCode,
        Request::ReadData,
        Request::ReadForOwnership,
        Request::Invalidate,
        Request::WriteBack,
        Request::ReadPartial,
        Request::WritePartial,
        Request::WriteCombined,
    ] {
        let mut board = Board::new(&PPRO, 2);
        let bytes =
            if matches!(request, Request::ReadPartial | Request::WritePartial) { 4 } else { 32 };
        board.transact(Transaction { bytes, ..transaction(request) });
        let both = kinds(request).iter().flat_map(|&(own, any)| [own, any]).collect();
        assert_eq!(counts(board.take(0)), sorted(both), "{request:?}");
        let any: Vec<Signal> = kinds(request).iter().map(|&(_, any)| any).collect();
        assert_eq!(counts(board.take(1)), sorted(any.clone()), "{request:?}");

        // A device's: any agent's, and no processor's.
        board.transact(Transaction { processor: None, time: 9999, bytes, ..transaction(request) });
        assert_eq!(counts(board.take(0)), sorted(any), "{request:?}");
    }
}

/// Ports: a transaction of I/O and not of memory. The processor's own are counted by its instructions.
#[test]
fn a_port_access_is_io() {
    let mut board = Board::new(&PPRO, 2);
    for request in [Request::ReadPort, Request::WritePort] {
        board.transact(Transaction { physical: 0x60, bytes: 1, ..transaction(request) });
        let own = sorted(vec![BusTransaction, BusTransactionAny, BusIoAny]);
        assert_eq!(counts(board.take(0)), own);
        assert_eq!(counts(board.take(1)), sorted(vec![BusTransactionAny, BusIoAny]));
    }
    // A doubleword across a doubleword's boundary takes two.
    board.transact(Transaction { physical: 0xCFA, bytes: 4, ..transaction(Request::ReadPort) });
    assert_eq!(counts(board.take(1)), [(BusTransactionAny, 2), (BusIoAny, 2)], "0CFAh to 0CFDh");
}

/// SDM volume 3, "Buffering of Write Combining Memory Locations": a full buffer is a burst, one that is
/// not goes in partial writes, one for each 8-byte chunk, four at most.
#[test]
fn a_write_combining_buffer_that_is_not_full_goes_in_chunks() {
    let mut board = Board::new(&PII, 1);
    let buffer = transaction(Request::WriteCombined);
    board.transact(Transaction { physical: 0x4004, bytes: 12, ..buffer });
    let partial = counts(board.take(0));
    assert_eq!(
        partial,
        [
            (BusTransaction, 2),
            (BusTransactionAny, 2),
            (BusMemory, 2),
            (BusMemoryAny, 2),
            (BusPartial, 2),
            (BusPartialAny, 2),
            (BusPartialWrite, 2),
            (BusPartialWriteAny, 2),
        ]
    );
}

/// A read on a Pentium II (four clocks a bus clock): request in clock 0; DRAM command in 4, page miss 2 +
/// CAS latency 3, back 3: data in bus clocks 12 to 15, the first of them there at the end of 12.
#[test]
fn a_read_has_its_data_when_the_memory_has_them() {
    let mut board = Board::new(&PII, 2);
    assert_eq!(board.transact(transaction(Request::ReadData)), 13 * 4);
    let clocks = |signals: Vec<(Signal, u64)>| -> Vec<(Signal, u64)> {
        signals
            .into_iter()
            .filter(|(signal, _)| {
                [BusDrdy, BusDrdyAny, BusDataReceive, MissOutstandingBus].contains(signal)
            })
            .collect()
    };
    // Data received: bus clocks. DRDY by any agent, here the bridge: processor clocks. Outstanding until
    // the last data.
    assert_eq!(
        clocks(board.take(0)),
        [(MissOutstandingBus, 16 * 4), (BusDrdyAny, 4 * 4), (BusDataReceive, 4)]
    );
    assert_eq!(clocks(board.take(1)), [(BusDrdyAny, 4 * 4)]);

    // An open page: two clocks less. Time 400 is bus clock 100.
    let hit = Transaction { time: 400, physical: 0x4020, ..transaction(Request::ReadCode) };
    assert_eq!(board.transact(hit), 13 * 4);
    let hit = Transaction { time: 480, physical: 0x4040, ..transaction(Request::ReadCode) };
    assert_eq!(board.transact(hit), 11 * 4);
    // Fetches are not "reads of lines for the data cache" (event 60h).
    assert_eq!(clocks(board.take(0)), [(BusDrdyAny, 32), (BusDataReceive, 8)]);
}

/// A write-back: request in 0, snoop in 4, response and data from 5 to 8. DRDY is the processor's, in bus
/// clocks.
#[test]
fn a_write_drives_data_ready() {
    let mut board = Board::new(&PII, 2);
    assert_eq!(board.transact(transaction(Request::WriteBack)), 9 * 4);
    let own = board.take(0);
    assert!(own.contains(&(BusDrdy, 4)) && own.contains(&(BusDrdyAny, 16)));
    assert!(!own.iter().any(|(signal, _)| *signal == BusDataReceive));
    // One chunk.
    let one = Transaction { time: 400, bytes: 4, ..transaction(Request::WritePartial) };
    assert_eq!(board.transact(one), 6 * 4);
    assert!(board.take(0).contains(&(BusDrdy, 1)));
    // No data at all: done with the response.
    let none = Transaction { time: 800, ..transaction(Request::Invalidate) };
    assert_eq!(board.transact(none), 6 * 4);
    assert!(!board.take(0).iter().any(|(signal, _)| [BusDrdy, BusDrdyAny].contains(signal)));
}

/// HIT for one bus clock. HITM: a stall of two clocks is both, then HITM alone; the processor that has the
/// line drives the data. Snoop stalls are counted by all, in clocks of the processor.
#[test]
fn the_processors_that_have_the_line_answer() {
    let mut board = Board::new(&PII, 4);
    let clean =
        Transaction { snoop: Snoop::HitClean, holders: 0b1010, ..transaction(Request::ReadData) };
    assert_eq!(board.transact(clean), 13 * 4);
    let hits: Vec<_> = (0..4)
        .map(|processor| {
            let signals = board.take(processor);
            signals.into_iter().find(|(signal, _)| *signal == BusHit).map_or(0, |(_, n)| n)
        })
        .collect();
    assert_eq!(hits, [0, 1, 0, 1]);

    // Request 1000, snoop 1004, a stall to 1006, response 1007, data from 1010.
    let dirty = Transaction {
        time: 4000,
        snoop: Snoop::HitDirty,
        holders: 0b0100,
        ..transaction(Request::ReadForOwnership)
    };
    assert_eq!(board.transact(dirty), 11 * 4);
    let find = |signals: &[(Signal, u64)], wanted| {
        signals.iter().find(|(signal, _)| *signal == wanted).map_or(0, |(_, n)| *n)
    };
    let (own, holder) = (board.take(0), board.take(2));
    assert_eq!([BusHit, BusHitm, BusDrdy].map(|signal| find(&own, signal)), [0, 0, 0]);
    assert_eq!([BusHit, BusHitm, BusDrdy].map(|signal| find(&holder, signal)), [2, 3, 4]);
    assert_eq!((find(&own, BusDataReceive), find(&holder, BusDataReceive)), (4, 0));
    assert_eq!((find(&own, BusSnoopStall), find(&holder, BusSnoopStall)), (8, 8));
}

/// A device writes part of a line that a processor has dirty: request 0, snoop 4 to 6, response and the
/// device's data in 7; then the processor drives the line, in 11 to 14.
#[test]
fn a_dirty_line_follows_the_data_of_a_write() {
    let mut board = Board::new(&PII, 1);
    let write = Transaction {
        processor: None,
        bytes: 8,
        snoop: Snoop::HitDirty,
        holders: 1,
        ..transaction(Request::WritePartial)
    };
    assert_eq!(board.transact(write), 15 * 4);
    let own = board.take(0);
    assert!(own.contains(&(BusDrdy, 4)) && own.contains(&(BusDrdyAny, 5 * 4)), "{own:?}");
    assert!(own.contains(&(BusPartialWriteAny, 1)) && own.contains(&(BusHitm, 3)));

    // Read: the whole line instead of the part, in 10 to 13.
    let read = Transaction { time: 4000, request: Request::ReadPartial, ..write };
    assert_eq!(board.transact(read), 11 * 4);
    let own = board.take(0);
    assert!(own.contains(&(BusDrdy, 4)) && own.contains(&(BusDrdyAny, 4 * 4)), "{own:?}");
}

/// Whole lines that a device reads and writes are bursts.
#[test]
fn a_device_bursts() {
    let mut board = Board::new(&PII, 1);
    board.transact(Transaction { processor: None, ..transaction(Request::ReadPartial) });
    let read = sorted(vec![BusTransactionAny, BusMemoryAny, BusBurstAny, BusBurstReadAny]);
    assert_eq!(counts(board.take(0)), read);
    board.transact(Transaction { processor: None, ..transaction(Request::WritePartial) });
    let write = sorted(vec![BusTransactionAny, BusMemoryAny, BusBurstAny]);
    assert_eq!(counts(board.take(0)), write);
}

/// LOCK from the request of the read to the end of the write, always in clocks of the processor; no one
/// else makes a request meanwhile.
#[test]
fn a_locked_read_and_write_hold_the_bus() {
    let mut board = Board::new(&PII, 2);
    let read = Transaction { locked: true, bytes: 4, ..transaction(Request::ReadPartial) };
    // As the read above, with one clock of data: bus clocks 0 to 12.
    assert_eq!(board.transact(read), 13 * 4);
    let write = Transaction { time: 80, request: Request::WritePartial, ..read };
    // Bus clocks 20 to 25.
    assert_eq!(board.transact(write), 6 * 4);
    let find = |signals: Vec<(Signal, u64)>, wanted| {
        signals.into_iter().find(|(signal, _)| *signal == wanted).map_or(0, |(_, n)| n)
    };
    let own = board.take(0);
    assert!(own.contains(&(BusLock, 26 * 4)) && own.contains(&(BusLockAny, 26 * 4)));
    let other = board.take(1);
    assert_eq!((find(other.clone(), BusLock), find(other, BusLockAny)), (0, 26 * 4));

    // The other processor asks in clock 2 and gets the bus in clock 26; snoop and response are in 31.
    let other = Transaction { processor: Some(1), time: 8, ..transaction(Request::Invalidate) };
    assert_eq!(board.transact(other), 32 * 4 - 8);
}

/// Devices: 30 clocks of 100 MHz for mapped registers, 100 for a port; a write to registers is posted, one
/// to a port is not.
#[test]
fn devices_take_their_time() {
    let mut board = Board::new(&PII, 1);
    let register = Transaction { physical: DEVICE, bytes: 4, ..transaction(Request::ReadPartial) };
    assert_eq!(board.transact(register), 31 * 4);
    let register = Transaction { time: 400, request: Request::WritePartial, ..register };
    assert_eq!(board.transact(register), 6 * 4);
    let port =
        Transaction { time: 800, physical: 0x60, bytes: 1, ..transaction(Request::ReadPort) };
    assert_eq!(board.transact(port), 101 * 4);
    let port = Transaction { time: 1600, request: Request::WritePort, ..port };
    assert_eq!(board.transact(port), 101 * 4);
}

/// The same read on the others. Pentium Pro: 4 + 2 + 2 + 2, 11th clock of three. Pentium III: 5 + 3 + 3 +
/// 4, 16th clock of 7.5. Pentium M: 4 + 2 + 2 + 3, 12th clock of 16.
#[test]
fn each_part_has_its_clock_and_its_memory() {
    for (geometry, bytes, latency, received) in
        [(&PPRO, 32, 11 * 3, 4), (&P6, 32, 16 * 15 / 2, 4), (&PM, 64, 12 * 16, 2)]
    {
        let mut board = Board::new(geometry, 1);
        let read = Transaction { bytes, ..transaction(Request::ReadData) };
        assert_eq!(board.transact(read), latency);
        // A line in clocks of eight bytes, or of 32 on the Pentium M.
        assert!(board.take(0).contains(&(BusDataReceive, received)));
    }
}

/// The Pentium III's bus has half clocks: DRDY in bus clocks 15 to 18 is from cycle 113 to 143.
#[test]
fn half_clocks_are_counted_as_they_fall() {
    let mut board = Board::new(&P6, 1);
    board.transact(transaction(Request::ReadData));
    let fired = board.take(0);
    assert!(fired.contains(&(BusDrdyAny, 143 - 113)));
    assert!(fired.contains(&(MissOutstandingBus, 143)));
}
