//! The bus of the Pentium by hand. Event 18h, "Clocks while a bus cycle is in progress", in clocks of the
//! processor, three to a clock of the bus.

use pmu_model::Signal::BusBusy;

use super::{Board, DEVICE, transaction};
use crate::bus::{Request, Snoop, Transaction};
use crate::part::bus::P55C;

/// 6-1-1-1 for an open page, 8-1-1-1 for a closed one, 10-1-1-1 for another open one; pages of 2 KiB in
/// four banks.
#[test]
fn a_line_is_a_burst_of_four() {
    let mut board = Board::new(&P55C, 1);
    let read = transaction(Request::ReadData);
    assert_eq!(board.transact(read), 8 * 3);
    assert_eq!(board.take(0), [(BusBusy, 11 * 3)]);
    assert_eq!(board.transact(Transaction { time: 60, physical: 0x4020, ..read }), 6 * 3);
    assert_eq!(board.take(0), [(BusBusy, 9 * 3)]);
    assert_eq!(board.transact(Transaction { time: 120, physical: 0x6000, ..read }), 10 * 3);
    assert_eq!(board.take(0), [(BusBusy, 13 * 3)]);
    // In the course of a bus clock: the cycle begins with the next one.
    assert_eq!(board.transact(Transaction { time: 181, physical: 0x6020, ..read }), 6 * 3 + 2);
}

/// 3-1-1-1 from the cache on the board, and the memory does not notice: its page is closed for the next.
#[test]
fn the_memory_has_no_part_in_what_the_cache_on_the_board_has() {
    let mut board = Board::new(&P55C, 1);
    let read = Transaction { on_board: true, ..transaction(Request::ReadData) };
    assert_eq!(board.transact(read), 3 * 3);
    assert_eq!(board.take(0), [(BusBusy, 6 * 3)]);
    let other = Transaction { time: 60, on_board: false, ..read };
    assert_eq!(board.transact(other), 8 * 3);
}

#[test]
fn what_is_less_is_a_single_transfer() {
    let mut board = Board::new(&P55C, 1);
    let part = Transaction { bytes: 4, ..transaction(Request::ReadPartial) };
    assert_eq!(board.transact(part), 8 * 3);
    assert_eq!(board.take(0), [(BusBusy, 8 * 3)]);
    // The system controller takes a write over.
    let write = Transaction { time: 60, request: Request::WritePartial, ..part };
    assert_eq!(board.transact(write), 3 * 3);
    assert_eq!(board.take(0), [(BusBusy, 3 * 3)]);
    // Across the boundary of eight bytes: two cycles.
    assert_eq!(board.transact(Transaction { time: 120, physical: 0x4006, ..write }), 6 * 3);
    assert_eq!(board.take(0), [(BusBusy, 6 * 3)]);
    // 3-1-1-1.
    assert_eq!(board.transact(Transaction { time: 180, ..transaction(Request::WriteBack) }), 18);
    assert_eq!(board.take(0), [(BusBusy, 18)]);
    // 20 clocks for registers, 67 for a port.
    let device = Transaction { time: 240, physical: DEVICE, ..part };
    assert_eq!(board.transact(device), 60);
    assert_eq!(board.take(0), [(BusBusy, 60)]);
    let port =
        Transaction { time: 480, physical: 0x60, bytes: 1, ..transaction(Request::ReadPort) };
    assert_eq!(board.transact(port), 201);
    assert_eq!(board.take(0), [(BusBusy, 201)]);
}

/// A device finds a modified line: the processor writes it back in a cycle of its own, then the device has
/// the bus, in a cycle that is not the processor's.
#[test]
fn a_device_waits_for_the_write_back() {
    let mut board = Board::new(&P55C, 1);
    board.transact(transaction(Request::WriteBack));
    assert_eq!(board.take(0), [(BusBusy, 6 * 3)]);
    let read = Transaction {
        processor: None,
        snoop: Snoop::HitDirty,
        holders: 1,
        ..transaction(Request::ReadPartial)
    };
    // Behind the burst; 6 for a page that is open, and one for the turnaround.
    assert_eq!(board.transact(read), (6 + 6 + 1) * 3);
    assert_eq!(board.take(0), []);
}
