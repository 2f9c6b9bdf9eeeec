//! The K8's northbridge by hand. AMD BKDG 26094, section 10.2.1.7, events E0h to ECh.

use pmu_model::Signal::{self, *};

use super::{Board, DEVICE, transaction};
use crate::bus::{Request, Snoop, Transaction};
use crate::part::bus::K8;

/// The signals without those of the DRAM.
fn commands(board: &mut Board, processor: usize) -> Vec<(Signal, u64)> {
    let dram = [
        DramPageHit,
        DramPageMiss,
        DramPageConflict,
        DramPageTableOverflow,
        DramTurnaroundChipSelect,
        DramTurnaroundReadToWrite,
        DramTurnaroundWriteToRead,
    ];
    let mut signals = board.take(processor);
    signals.retain(|(signal, _)| !dram.contains(signal));
    signals
}

/// What a transaction is on a board of two processors; both count it.
fn counted(transaction: Transaction) -> Vec<Signal> {
    let mut board = Board::new(&K8, 2);
    board.transact(transaction);
    let signals = commands(&mut board, 0);
    assert_eq!(signals, commands(&mut board, 1));
    assert!(signals.iter().all(|&(_, n)| n == 1));
    signals.into_iter().map(|(signal, _)| signal).collect()
}

fn line(request: Request) -> Transaction {
    Transaction { bytes: 64, ..transaction(request) }
}

/// Events E9h, EAh, ECh.
#[test]
fn a_processors_line_is_a_command_and_a_probe() {
    use Request::{Invalidate, ReadCode, ReadData, ReadForOwnership, WriteBack};
    for (request, command) in [
        (ReadData, CacheBlockRead),
        (ReadCode, CacheBlockReadShared),
        (ReadForOwnership, CacheBlockReadModified),
        (Invalidate, CacheBlockChangeToDirty),
    ] {
        assert_eq!(counted(line(request)), [NbRequestCpuToMem, command, ProbeMiss]);
        let clean = Transaction { snoop: Snoop::HitClean, holders: 2, ..line(request) };
        assert_eq!(counted(clean), [NbRequestCpuToMem, command, ProbeHitClean]);
        let dirty = Transaction { snoop: Snoop::HitDirty, holders: 2, ..line(request) };
        let hit = if request == Invalidate { ProbeHitDirtyKeep } else { ProbeHitDirtyCancel };
        assert_eq!(counted(dirty), [NbRequestCpuToMem, command, hit]);
    }
    assert_eq!(counted(line(WriteBack)), [NbRequestCpuToMem, CacheBlockVictim]);
}

/// With one processor there is no cache to probe for its own requests, but for those of devices.
#[test]
fn a_single_processor_is_probed_for_devices_only() {
    let mut board = Board::new(&K8, 1);
    board.transact(line(Request::ReadData));
    assert_eq!(commands(&mut board, 0), [(NbRequestCpuToMem, 1), (CacheBlockRead, 1)]);
    board.transact(Transaction { processor: None, ..line(Request::ReadPartial) });
    assert!(commands(&mut board, 0).contains(&(ProbeMiss, 1)));
}

/// Events E5h, E9h, EBh.
#[test]
fn registers_and_ports_are_sized_commands() {
    let register = Transaction { physical: DEVICE, bytes: 4, ..transaction(Request::ReadPartial) };
    assert_eq!(counted(register), [NbRequestCpuToIo, SizedReadDword]);
    assert_eq!(counted(Transaction { bytes: 2, ..register }), [NbRequestCpuToIo, SizedReadByte]);
    let write = Transaction { request: Request::WritePartial, ..register };
    assert_eq!(counted(write), [NbRequestCpuToIo, SizedNonPostedWriteDword]);
    let byte = Transaction { physical: DEVICE + 1, bytes: 1, ..write };
    assert_eq!(counted(byte), [NbRequestCpuToIo, SizedNonPostedWriteByte]);
    // A port's number is no address of memory.
    let port = Transaction { physical: 0x60, bytes: 1, ..transaction(Request::ReadPort) };
    assert_eq!(counted(port), [NbRequestCpuToIo, SizedReadByte]);
    let port = Transaction { physical: 0xCF8, bytes: 4, ..transaction(Request::WritePort) };
    assert_eq!(counted(port), [NbRequestCpuToIo, SizedNonPostedWriteDword]);
    // Memory that is not cached.
    let memory = Transaction { bytes: 8, ..transaction(Request::ReadPartial) };
    assert_eq!(counted(memory), [NbRequestCpuToMem, SizedReadDword, ProbeMiss]);
}

/// Event E5h: of a processor "only write combining buffer flushes, where 32-byte accesses would reflect
/// flushes of partially-filled buffers".
#[test]
fn flushes_of_write_combining_buffers_are_posted() {
    let full = line(Request::WriteCombined);
    let counted_full = [SizedBlockWrite64, NbRequestCpuToMem, SizedPostedWriteDword, ProbeMiss];
    assert_eq!(counted(full), counted_full);
    let half = Transaction { bytes: 32, ..full };
    let counted_half = [SizedBlockWrite32, NbRequestCpuToMem, SizedPostedWriteDword, ProbeMiss];
    assert_eq!(counted(half), counted_half);
    let some = Transaction { bytes: 7, ..full };
    assert_eq!(counted(some), [NbRequestCpuToMem, SizedPostedWriteByte, ProbeMiss]);
    // "Sized writes to memory that cover a full cache line [...] are reported as clean hits."
    let dirty = Transaction { snoop: Snoop::HitDirty, holders: 2, ..full };
    assert!(counted(dirty).contains(&ProbeHitClean));
    assert!(counted(Transaction { bytes: 32, ..dirty }).contains(&ProbeHitDirtyKeep));
    // A frame buffer.
    let device = Transaction { physical: 0xE000_0000, ..full };
    assert_eq!(counted(device), [SizedBlockWrite64, NbRequestCpuToIo, SizedPostedWriteDword]);
}

/// Events E5h, E9h, EBh, ECh.
#[test]
fn devices_read_and_write_upstream() {
    let read = Transaction { processor: None, ..line(Request::ReadPartial) };
    assert_eq!(
        counted(read),
        [SizedBlockRead64, NbRequestIoToMem, SizedReadDword, ProbeMiss, IoDmaRead]
    );
    let dirty = Transaction { snoop: Snoop::HitDirty, holders: 1, bytes: 32, ..read };
    assert_eq!(
        counted(dirty),
        [SizedBlockRead32, NbRequestIoToMem, SizedReadDword, ProbeHitDirtyCancel, IoDmaRead]
    );
    let line = Transaction { request: Request::WritePartial, ..read };
    assert_eq!(
        counted(line),
        [SizedBlockWrite64, NbRequestIoToMem, SizedPostedWriteDword, ProbeMiss, IoDmaWrite]
    );
    let write = Transaction { request: Request::WritePartial, bytes: 6, ..read };
    assert_eq!(counted(write), [NbRequestIoToMem, SizedPostedWriteByte, ProbeMiss, IoDmaWrite]);
    let other = Transaction { physical: DEVICE, bytes: 4, ..read };
    assert_eq!(counted(other), [NbRequestIoToIo, SizedReadDword, IoDmaRead]);
}

/// Page results and turnarounds, seen by both processors; pages of 16 KiB in four banks, eight chip
/// selects of 512 MiB.
#[test]
fn dram_accesses_are_the_nodes() {
    let mut board = Board::new(&K8, 2);
    let mut accesses = |time, physical, request| {
        board.transact(Transaction { time, physical, ..line(request) });
        let (first, second) = (board.take(0), board.take(1));
        assert_eq!(first, second);
        let dram = |(signal, _): &(Signal, u64)| signal.name().starts_with("dram");
        first.into_iter().filter(dram).map(|(signal, _)| signal).collect::<Vec<_>>()
    };
    assert_eq!(accesses(0, 0x4000, Request::ReadData), [DramPageMiss]);
    assert_eq!(accesses(400, 0x7FC0, Request::ReadCode), [DramPageHit]);
    assert_eq!(
        accesses(600, 0x1_4000, Request::WriteBack),
        [DramPageConflict, DramTurnaroundReadToWrite]
    );
    assert_eq!(
        accesses(800, 0x1_4040, Request::ReadForOwnership),
        [DramPageHit, DramTurnaroundWriteToRead]
    );
    assert_eq!(
        accesses(900, 0x2000_0000, Request::ReadData),
        [DramPageMiss, DramTurnaroundChipSelect]
    );
    // Memory behind the hole goes on at 3 GiB of the DRAM: the seventh chip select.
    assert_eq!(
        accesses(1000, 4 << 30, Request::ReadData),
        [DramPageMiss, DramTurnaroundChipSelect]
    );
    assert_eq!(accesses(1100, 0x4000, Request::Invalidate), []);
    assert_eq!(accesses(1200, 0x60, Request::ReadPort), []);
}

/// Event E1h: a seventeenth page, on six chip selects of four banks.
#[test]
fn the_table_of_open_pages_overflows() {
    let mut board = Board::new(&K8, 1);
    let mut read = |time, bank| {
        let physical = bank / 4 * (512 << 20) + bank % 4 * 0x4000;
        board.transact(Transaction { time, physical, ..line(Request::ReadData) });
        [DramPageHit, DramPageMiss, DramPageConflict, DramPageTableOverflow]
            .map(|signal| board.processors[0].occurrences.fired()[signal.index()])
    };
    for bank in 0..16 {
        assert_eq!(read(bank * 10, bank), [0, bank + 1, 0, 0]);
    }
    assert_eq!(read(160, 16), [0, 17, 0, 1]);
    // The page of bank 0 made room; that of bank 2 is still open, but bank 0's has to be opened again.
    assert_eq!(read(170, 2), [1, 17, 0, 1]);
    assert_eq!(read(180, 0), [1, 18, 0, 2]);
}

/// 32 clocks there, a wait for the memory's clock, Trcd 3 and Tcl 3 and the transfer in memory clocks of
/// ten, 32 back.
#[test]
fn an_open_page_takes_sixty_nanoseconds_with_the_caches() {
    let mut board = Board::new(&K8, 1);
    let read = line(Request::ReadData);
    assert_eq!(board.transact(read), 40 + 70 + 32);
    let hit = Transaction { time: 500, physical: 0x4040, ..read };
    assert_eq!(board.transact(hit), 40 + 40 + 32);
    // The shortest wait for the memory's clock, and the longest; with 12 clocks of the caches the mean
    // is 2 GHz * 60 ns = 120.
    let latencies: Vec<u64> = (0..10)
        .map(|n| {
            let time = 1000 + 101 * n;
            board.transact(Transaction { time, physical: 0x4080 + 0x40 * n, ..read })
        })
        .collect();
    assert_eq!(latencies.iter().min(), Some(&104));
    assert_eq!(latencies.iter().max(), Some(&113));
    assert_eq!(latencies.iter().sum::<u64>() / 10 + 12, 120);
}

#[test]
fn other_latencies_are_those_of_probes_and_devices() {
    let mut board = Board::new(&K8, 2);
    let dirty = Transaction { snoop: Snoop::HitDirty, holders: 2, ..line(Request::ReadData) };
    assert_eq!(board.transact(dirty), 90);
    // A cancelled access is none.
    assert!(!board.take(0).iter().any(|(signal, _)| signal.name().starts_with("dram")));
    assert_eq!(board.transact(line(Request::Invalidate)), 90);
    assert_eq!(board.transact(line(Request::WriteBack)), 32);
    let register = Transaction { physical: DEVICE, bytes: 4, ..transaction(Request::WritePartial) };
    assert_eq!(board.transact(register), 600);
    let port = Transaction { physical: 0x60, bytes: 1, ..transaction(Request::ReadPort) };
    assert_eq!(board.transact(port), 2000);
    let posted = Transaction { physical: 0xE000_0000, ..line(Request::WriteCombined) };
    assert_eq!(board.transact(posted), 32);
}
