//! Lines that several processors and devices use, by hand.

use super::*;
use pmu_model::Signal::*;

/// Two processors write different words of one line, in turn, a hundred times each: each write takes the
/// line from the other.
fn false_sharing(geometry: &'static CacheGeometry) -> Machine {
    let mut machine = Machine::new(geometry, 2);
    for _ in 0..100 {
        machine.store(0, 0x1000);
        machine.store(1, 0x1008);
    }
    assert_eq!(machine.sent(Request::ReadForOwnership), 200);
    assert_eq!(machine.caches.sent.len(), 200);
    machine
}

#[test]
fn k8_false_sharing() {
    let mut machine = false_sharing(&K8);
    // The second one's first write takes it from the first, and so on to its hundredth; the first one's
    // first write finds it nowhere.
    machine.expect(
        0,
        &[
            (L1dMissStore, 100),
            (L1dRefillSystemModified, 100),
            (SystemReadModified, 100),
            // AMD BKDG, event 6Dh: a dirty probe hit is eight quadwords.
            (SystemWriteQword, 800),
            // Event 44h: all but its first refill replace what a probe has taken.
            (L1dEvictInvalid, 99),
            (L1dWriteback, 100),
            (L2RequestSnoop, 100),
        ],
    );
    machine.expect(1, &[(L1dMissStore, 100), (SystemWriteQword, 792), (L1dEvictInvalid, 99)]);
}

#[test]
fn p6_false_sharing() {
    let mut machine = false_sharing(&P6);
    machine.expect(
        0,
        &[
            (L2RequestStoreInvalid, 100),
            (L2FillModified, 100),
            // HITM: modified lines out of both levels.
            (L1dWriteback, 100),
            (L2EvictModified, 100),
            (L2EvictDemandModified, 100),
        ],
    );
    machine.expect(1, &[(L1dWriteback, 99), (L2Evict, 99), (SnoopL1d, 100), (SnoopHitL1d, 99)]);
    // The data comes with the answer; no write-back is a transaction of its own.
    assert_eq!(machine.sent(Request::WriteBack), 0);
}

/// One processor writes and the other reads, fifty times.
fn ping_pong(geometry: &'static CacheGeometry) -> Machine {
    let mut machine = Machine::new(geometry, 2);
    for _ in 0..50 {
        machine.store(0, 0x1000);
        machine.load(1, 0x1000);
    }
    // The first write reads for ownership; each later one only has the reader's copy dropped.
    assert_eq!(machine.sent(Request::ReadForOwnership), 1);
    assert_eq!(machine.sent(Request::Invalidate), 49);
    assert_eq!(machine.sent(Request::ReadData), 50);
    machine
}

#[test]
fn k8_ping_pong() {
    let mut machine = ping_pong(&K8);
    assert_eq!(machine.data_state(0, 0x1000), LineState::Owned);
    assert_eq!(machine.data_state(1, 0x1000), LineState::Shared);
    machine.expect(
        0,
        &[
            (SystemWriteQword, 400),
            (L1dMiss, 1),
            (L1dWriteback, 0),
            // A change to dirty that finds only clean lines brings no data.
            (SystemReadModified, 1),
        ],
    );
    machine.expect(
        1,
        &[
            (L1dRefillSystemShared, 50),
            (SystemReadShared, 50),
            (L1dEvictInvalid, 49),
            // What it reads last is what it may have read early.
            (FlushProbeLoad, 49),
        ],
    );
    assert_eq!(machine.caches.sent.len(), 100);
}

#[test]
fn p6_ping_pong() {
    let mut machine = ping_pong(&P6);
    assert_eq!(machine.data_state(0, 0x1000), LineState::Shared);
    machine.expect(
        0,
        &[
            (L1dWriteback, 50),
            (L2EvictModified, 50),
            // 49 writes find the line Shared in the L2.
            (L2RequestStoreShared, 49),
            (L2RequestStoreInvalid, 1),
        ],
    );
    machine.expect(1, &[(L2RequestLoadInvalid, 50), (L2Evict, 49), (L2EvictDemandShared, 49)]);
}

/// Four processors increment one counter in turn with locked instructions, 25 times each.
#[test]
fn k8_four_processors_increment() {
    let mut machine = Machine::new(&K8, 4);
    let access = Access { kind: Kind::Locked, ..plain(0x2000, 4) };
    for turn in 0..100 {
        machine.run(|caches, context| caches.modify(context, turn % 4, &access));
    }
    assert_eq!(machine.sent(Request::ReadForOwnership), 100);
    let mut sum = |signal| (0..4).map(|p| machine.count(p, signal)).sum::<u64>();
    assert_eq!(sum(L1dMissLocked), 100);
    // Each but the first finds the line at one of three, and not at the two others.
    assert_eq!(sum(L1dAccess), 200);
}

/// Four processors, one writer: it stays the owner, until another writes.
#[test]
fn k8_owner_of_four() {
    let mut machine = Machine::new(&K8, 4);
    machine.store(0, 0);
    for reader in 1..4 {
        machine.load(reader, 0);
    }
    assert_eq!(machine.data_state(0, 0), LineState::Owned);
    machine.expect(0, &[(SystemWriteQword, 24)]);
    machine.store(1, 0);
    assert_eq!(machine.data_state(1, 0), LineState::Modified);
    for other in [0, 2, 3] {
        assert_eq!(machine.data_state(other, 0), LineState::Invalid);
    }
    // AMD BKDG, event ECh: a change to dirty transfers the line of an owner, without memory cancel; 6Ch:
    // which counts as a response in Modified.
    machine.expect(0, &[(SystemWriteQword, 32)]);
    machine.expect(1, &[(SystemReadModified, 1), (SystemReadShared, 1)]);
    // The third sees the first one's write and the second one's read go by, before it has the line.
    assert_eq!(machine.sent(Request::Invalidate), 1);
    assert_eq!(machine.sent(Request::WriteBack), 0);
}

/// An owner's line that is displaced from both levels goes to memory.
#[test]
fn k8_owned_line_is_written_back() {
    let mut machine = Machine::new(&K8, 2);
    machine.store(0, 0);
    machine.load(1, 0);
    // Lines of the same set in both levels: 2 ways and 16.
    for number in 1..=18 {
        machine.load(0, number << 16);
    }
    machine.expect(0, &[(L1dEvictOwned, 1), (L2EvictModified, 1), (L2WriteFromL2, 1)]);
    assert_eq!(machine.sent(Request::WriteBack), 1);
    assert_eq!(machine.data_state(1, 0), LineState::Shared);
}

/// Pentium Processor User's Manual: the first write to a Shared line goes through, the next stays.
#[test]
fn p55c_writes_once() {
    let mut machine = Machine::new(&P55C, 2);
    machine.load(0, 0);
    machine.load(1, 0);
    assert_eq!(machine.data_state(0, 0), LineState::Shared);
    machine.store(0, 0);
    assert_eq!(machine.data_state(0, 0), LineState::Exclusive);
    assert_eq!(machine.data_state(1, 0), LineState::Invalid);
    assert_eq!(machine.sent(Request::WritePartial), 1);
    machine.store(0, 0);
    assert_eq!(machine.data_state(0, 0), LineState::Modified);
    assert_eq!(machine.sent(Request::WritePartial), 1);
    machine.expect(0, &[(L1dStoreHitOwned, 1), (L1dMissStore, 0)]);
    // The reader is answered with HITM#, and waits for the write-back.
    machine.load(1, 0);
    machine.expect(0, &[(L1dWriteback, 1), (SnoopL1d, 2), (SnoopHitL1d, 2)]);
    let last: Vec<Request> =
        machine.caches.sent.iter().rev().take(2).map(|sent| sent.request).collect();
    assert_eq!(last, [Request::ReadData, Request::WriteBack]);
    assert_eq!(machine.caches.sent.last().unwrap().snoop, Snoop::HitDirty);
    // A write that misses goes to the bus alone.
    machine.store(1, 0x4000);
    assert_eq!(machine.data_state(1, 0x4000), LineState::Invalid);
    machine.expect(1, &[(L1dMissStore, 1)]);
}

/// Intel SDM volume 3, "Self-Modifying Code".
#[test]
fn p6_modifies_its_own_code() {
    let mut machine = Machine::new(&P6, 1);
    machine.fetch(0, 0x100);
    assert!(!machine.caches.take_code_written(0));
    machine.store(0, 0x108);
    assert!(machine.caches.take_code_written(0));
    assert!(!machine.caches.take_code_written(0));
    machine.expect(0, &[(L1dInvalidatesL1i, 1), (L1dMissStore, 1), (L2RequestStoreShared, 0)]);
    machine.fetch(0, 0x100);
    // The data cache writes the line to the L2, where the fetch finds it Modified.
    machine.expect(0, &[(L1dWriteback, 1), (L2RequestIfetchModified, 1), (L1iRefillL2, 1)]);
    assert_eq!(machine.data_state(0, 0x100), LineState::Shared);
    assert_eq!(machine.sent(Request::WriteBack), 0);
    // It is Shared in both now, and the L2 has the right to write.
    machine.store(0, 0x108);
    machine.expect(0, &[(L1dInvalidatesL1i, 2), (L2RequestStoreModified, 1)]);
    assert_eq!(machine.sent(Request::Invalidate), 0);
}

/// AMD 25112, section 5.10: code and data in one line make the first-level caches cast it out.
#[test]
fn k8_code_and_data_in_one_line() {
    let mut machine = Machine::new(&K8, 1);
    for _ in 0..10 {
        machine.fetch(0, 0);
        machine.load(0, 8);
    }
    machine.expect(
        0,
        &[
            (L1iMiss, 10),
            (L1dMissLoad, 10),
            (L1dInvalidatesL1i, 10),
            (L1iInvalidatesL1d, 9),
            (L1iRefillSystem, 1),
            (L1iRefillL2, 9),
            (L1dRefillL2Exclusive, 10),
            (L2Fill, 19),
        ],
    );
    assert!(!machine.caches.take_code_written(0));
    // Written data has to go to memory before it is fetched.
    machine.store(0, 8);
    machine.fetch(0, 0);
    machine.expect(0, &[(L1iInvalidatesL1d, 10), (L2EvictModified, 1), (L1iRefillL2, 10)]);
    assert_eq!(machine.sent(Request::WriteBack), 1);
}

/// AMD BKDG, event 86h: a probe that hits the running instruction stream.
#[test]
fn cross_modified_code() {
    for geometry in [&K8, &P6] {
        let mut machine = Machine::new(geometry, 2);
        machine.fetch(1, 0x40);
        machine.fetch(1, 0x1040);
        machine.store(0, 0x40);
        machine.expect(1, &[(FlushProbeIfetch, 0), (SnoopHitL1i, 1)]);
        machine.store(0, 0x1040);
        machine.expect(1, &[(FlushProbeIfetch, 1), (SnoopHitL1i, 2)]);
        machine.fetch(1, 0x1040);
        machine.expect(1, &[(L1iMiss, 3)]);
    }
}

/// AMD BKDG, event ECh.
#[test]
fn devices_probe_the_k8() {
    let mut machine = Machine::new(&K8, 1);
    machine.store(0, 0x1000);
    machine.run(|caches, context| caches.device_read(context, 0x1000, 64));
    machine.expect(0, &[(SystemWriteQword, 8)]);
    assert_eq!(machine.data_state(0, 0x1000), LineState::Modified);
    // Part of the line: it is written back and dropped.
    machine.run(|caches, context| caches.device_write(context, 0x1010, 16));
    machine.expect(0, &[(SystemWriteQword, 16)]);
    assert_eq!(machine.data_state(0, 0x1000), LineState::Invalid);
    // All of it: it is only dropped.
    machine.store(0, 0x1000);
    machine.run(|caches, context| caches.device_write(context, 0x1000, 64));
    machine.expect(0, &[(SystemWriteQword, 16)]);
    // Three lines, none of which is there.
    machine.run(|caches, context| caches.device_write(context, 0x8020, 128));
    assert!(machine.caches.sent.iter().any(|sent| sent.processor.is_none()));
}

/// Events 07h and 08h of the Pentium: on one processor only devices snoop.
#[test]
fn devices_snoop_the_p55c() {
    let mut machine = Machine::new(&P55C, 1);
    machine.load(0, 0);
    machine.store(0, 0);
    machine.expect(0, &[(SnoopL1d, 0)]);
    machine.run(|caches, context| caches.device_read(context, 0, 64));
    machine.expect(0, &[(SnoopL1d, 2), (SnoopHitL1d, 1), (L1dWriteback, 1)]);
    assert_eq!(machine.data_state(0, 0), LineState::Shared);
}
