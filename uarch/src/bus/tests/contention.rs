//! Processors that want the bus at the same time, by hand.

use super::{Board, transaction};
use crate::bus::{BusGeometry, Request, Transaction};
use crate::part::bus::{K7, K8, P55C, PII};

/// The latencies of processors that each read a line of one page at time 0.
fn latencies(geometry: &'static BusGeometry, processors: usize) -> Vec<u64> {
    let mut board = Board::new(geometry, processors);
    let read = |processor| Transaction {
        processor: Some(processor),
        physical: 0x4000 + processor as u64 * geometry.line_bytes,
        bytes: geometry.line_bytes as u32,
        ..transaction(Request::ReadData)
    };
    (0..processors).map(|processor| board.transact(read(processor))).collect()
}

/// Pentium II, bus clocks. Requests in 0, 3, 6, 9; commands in 4, 7, 10, 13. The row is open in 6, so that
/// DRAM data come from 9, 13, 17, 21, and reach the bus three clocks later at the earliest: 12 to 15, then
/// after a clock's turnaround 17 to 20, 22 to 25, 27 to 30.
#[test]
fn on_the_pipelined_bus_requests_overlap_and_data_do_not() {
    assert_eq!(latencies(&PII, 2), [13 * 4, 18 * 4]);
    assert_eq!(latencies(&PII, 4), [13 * 4, 18 * 4, 23 * 4, 28 * 4]);
}

/// Pentium, bus clocks: cycles of 11 and, the page being open, of 9.
#[test]
fn on_the_sequential_bus_cycles_follow_each_other() {
    assert_eq!(latencies(&P55C, 2), [8 * 3, (11 + 6) * 3]);
    assert_eq!(latencies(&P55C, 4), [8 * 3, (11 + 6) * 3, (20 + 6) * 3, (29 + 6) * 3]);
}

/// Athlon, bus clocks: each its own link; all commands reach the DRAM in clock 6, and their data of four
/// clocks come from 10, 14, 18, 22 and are on the links three clocks later.
#[test]
fn links_meet_at_the_memory() {
    assert_eq!(latencies(&K7, 2), [14 * 10, 18 * 10]);
    assert_eq!(latencies(&K7, 4), [14 * 10, 18 * 10, 22 * 10, 26 * 10]);
}

/// K8, memory clocks: commands in clock 4; data of two clocks from 10, 12, 14, 16.
#[test]
fn the_northbridge_shares_its_memory() {
    assert_eq!(latencies(&K8, 2), [142, 162]);
    assert_eq!(latencies(&K8, 4), [142, 162, 182, 202]);
}

/// Turns: processor 1's transactions are as early as those that processor 0 has made before it in the order
/// of execution. They meet where they are at the same time, and only there.
#[test]
fn a_turn_that_comes_later_is_not_late() {
    let mut board = Board::new(&PII, 2);
    let read = transaction(Request::ReadData);
    for n in 0..10 {
        board.transact(Transaction { time: n * 200, physical: 0x4000 + n * 0x20, ..read });
    }
    let other = |time| Transaction { processor: Some(1), time, physical: 0x4800, ..read };
    // Bus clock 25, between the reads of clocks 0 and 50: an open page, ten clocks and the first data.
    assert_eq!(board.transact(other(100)), 11 * 4);
    // Bus clock 150, where the other one has its request: three clocks later. The other's data are in 160
    // to 163; these come in 165.
    assert_eq!(board.transact(other(600)), (165 + 1 - 150) * 4);
}

/// An in-order queue of eight: the ninth request waits for the first transaction's end.
#[test]
fn eight_transactions_are_on_their_way() {
    let mut board = Board::new(&PII, 1);
    // Ports take long: requests in 0, 3, ... 21, data in 100 and from there every second clock, as each
    // has one clock of data and one of turnaround.
    let port = Transaction { physical: 0x60, bytes: 1, ..transaction(Request::ReadPort) };
    let latencies: Vec<u64> = (0..10).map(|_| board.transact(port) / 4).collect();
    assert_eq!(latencies, [101, 104, 107, 110, 113, 116, 119, 122, 202, 205]);
}
