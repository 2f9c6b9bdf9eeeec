//! The Athlon's links by hand, ten clocks of the processor to a clock of the bus. Its event 64h, "DRAM
//! system requests" (AMD 22007E), is the sum of the accesses to DRAM, however they find its pages.

use pmu_model::Signal::{DramPageConflict, DramPageHit, DramPageMiss};

use super::{Board, DEVICE, transaction};
use crate::bus::{Request, Snoop, Transaction};
use crate::part::bus::K7;

/// Command 2, to the DRAM 4, page miss 2 + CAS latency 2, back 3: the first data in clock 13.
#[test]
fn a_read_goes_over_the_link_and_back() {
    let mut board = Board::new(&K7, 2);
    let read = Transaction { bytes: 64, ..transaction(Request::ReadData) };
    assert_eq!(board.transact(read), 14 * 10);
    assert_eq!(board.take(0), [(DramPageMiss, 1)]);
    assert_eq!(board.transact(Transaction { time: 500, physical: 0x4040, ..read }), 12 * 10);
    assert_eq!(board.take(0), [(DramPageHit, 1)]);
    // Pages of 8 KiB in four banks.
    assert_eq!(board.transact(Transaction { time: 1000, physical: 0xC000, ..read }), 16 * 10);
    assert_eq!(board.take(0), [(DramPageConflict, 1)]);
    // The other processor sees nothing of it.
    assert_eq!(board.take(1), []);
    // Command 2 and four clocks of 16 bytes.
    let write = Transaction { time: 1500, request: Request::WriteBack, ..read };
    assert_eq!(board.transact(write), 6 * 10);
    assert_eq!(board.take(0), [(DramPageConflict, 1)]);
}

#[test]
fn not_every_request_is_for_memory() {
    let mut board = Board::new(&K7, 2);
    // Another cache has the line; the right to write; a device; a port.
    let read = Transaction { bytes: 64, ..transaction(Request::ReadData) };
    let dirty = Transaction { snoop: Snoop::HitDirty, holders: 2, ..read };
    assert_eq!(board.transact(dirty), (2 + 16 + 1) * 10);
    let invalidate = Transaction { time: 1000, request: Request::Invalidate, ..read };
    assert_eq!(board.transact(invalidate), (2 + 16) * 10);
    let device =
        Transaction { time: 2000, physical: DEVICE, bytes: 4, ..transaction(Request::ReadPartial) };
    assert_eq!(board.transact(device), (2 + 30 + 1) * 10);
    let port =
        Transaction { time: 3000, physical: 0x80, bytes: 1, ..transaction(Request::WritePort) };
    assert_eq!(board.transact(port), (2 + 1 + 100) * 10);
    // A device's access is no request of a processor.
    board.transact(Transaction { processor: None, time: 4000, ..read });
    assert_eq!((board.take(0), board.take(1)), (vec![], vec![]));
}
