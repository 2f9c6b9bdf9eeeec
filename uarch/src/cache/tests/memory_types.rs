//! Memory that is not cached or written through, streaming stores, locked accesses, flushes; by hand.

use super::*;
use pmu_model::Signal::*;

fn of(physical: u64, kind: Kind, memory: MemoryType) -> Access {
    Access { physical, bytes: 8, kind, memory }
}

fn store(machine: &mut Machine, access: Access) {
    machine.run(|caches, context| caches.store(context, 0, &access));
}

fn load(machine: &mut Machine, access: Access) {
    machine.run(|caches, context| caches.load(context, 0, &access));
}

/// Address and bytes of what was sent since the last call.
fn take_sent(machine: &mut Machine) -> Vec<(Request, u64, u32)> {
    machine.caches.sent.drain(..).map(|sent| (sent.request, sent.physical, sent.bytes)).collect()
}

#[test]
fn uncacheable_memory_goes_to_the_bus() {
    for (name, geometry) in PARTS {
        let mut machine = Machine::new(geometry, 1);
        for _ in 0..2 {
            load(&mut machine, of(0xA0000, Kind::Plain, MemoryType::Uncacheable));
            store(&mut machine, of(0xA0000, Kind::Plain, MemoryType::Uncacheable));
        }
        machine.expect(0, &[(UncachedAccess, 4), (UncachedRead, 2), (UncachedWrite, 2)]);
        // Intel SDM volume 3, events 03h and 04h of the Pentium: "cacheable or noncacheable"; 327357 has the
        // same of Knights Corner.
        let misses = if matches!(name, "p55c" | "knc") { 2 } else { 0 };
        machine.expect(0, &[(L1dMissLoad, misses), (L1dMissStore, misses)]);
        let pair = [(Request::ReadPartial, 0xA0000, 8), (Request::WritePartial, 0xA0000, 8)];
        assert_eq!(take_sent(&mut machine), [pair, pair].concat());
    }
}

/// Intel SDM volume 3, event CODE_READ: eight bytes at a time; AMD BKDG, event 80h: 16.
#[test]
fn uncacheable_code() {
    let memory = MemoryType::Uncacheable;
    let fetch = Fetch { physical: 0xF_FFF0, bytes: 16, sequential: false, memory };
    for (geometry, reads) in [(&P55C, 2), (&P6, 2), (&K8, 1)] {
        let mut machine = Machine::new(geometry, 1);
        machine.run(|caches, context| caches.fetch(context, 0, &fetch));
        machine.expect(0, &[(L1iFetch, reads), (L1iMiss, reads), (UncachedRead, reads)]);
        assert_eq!(machine.sent(Request::ReadPartial) as u64, reads);
    }
}

#[test]
fn a_full_write_combining_buffer_is_one_transaction() {
    let mut machine = Machine::new(&K8, 1);
    for number in 0..8 {
        let access = of(0xE000_0000 + 8 * number, Kind::Plain, MemoryType::WriteCombining);
        machine.expect(0, &[(WcFlush, 0)]);
        store(&mut machine, access);
    }
    // AMD BKDG, events 65h and 6Dh.
    machine.expect(0, &[(WcFlush, 1), (WcFlushStreaming, 0), (SystemWriteQword, 8)]);
    assert_eq!(take_sent(&mut machine), [(Request::WriteCombined, 0xE000_0000, 64)]);
}

#[test]
fn a_partial_write_combining_buffer_goes_in_parts() {
    let fill = |machine: &mut Machine| {
        for number in 0..3 {
            let access = of(0xE000_0000 + 8 * number, Kind::Plain, MemoryType::WriteCombining);
            store(machine, access);
        }
        assert_eq!(machine.caches.sent.len(), 0);
        machine.run(|caches, context| caches.drain_write_combining(context, 0));
        machine.expect(0, &[(WcFlush, 1), (SystemWriteQword, 3)]);
    };
    let mut k8 = Machine::new(&K8, 1);
    fill(&mut k8);
    assert_eq!(take_sent(&mut k8), [(Request::WriteCombined, 0xE000_0000, 24)]);
    // Intel SDM volume 3, "Buffering of Write Combining Memory Locations": eight bytes each.
    let mut p6 = Machine::new(&P6, 1);
    fill(&mut p6);
    let parts = [0, 8, 16].map(|at| (Request::WriteCombined, 0xE000_0000 + at, 8));
    assert_eq!(take_sent(&mut p6), parts);
}

#[test]
fn what_flushes_write_combining_buffers() {
    let write = |machine: &mut Machine, at: u64| {
        store(machine, of(0xE000_0000 + at, Kind::Plain, MemoryType::WriteCombining));
    };
    let mut machine = Machine::new(&K8, 1);
    // The fifth line, as there are four buffers.
    for line in 0..5 {
        write(&mut machine, 64 * line);
    }
    assert_eq!(take_sent(&mut machine), [(Request::WriteCombined, 0xE000_0000, 8)]);
    // A read of one of the lines, that one.
    load(&mut machine, of(0xE000_0090, Kind::Plain, MemoryType::WriteCombining));
    let expected =
        [(Request::WriteCombined, 0xE000_0080, 8), (Request::ReadPartial, 0xE000_0090, 8)];
    assert_eq!(take_sent(&mut machine), expected);
    machine.expect(0, &[(WcFlush, 2), (UncachedRead, 1), (UncachedAccess, 0)]);
    // An access to UC memory, all three that are left.
    load(&mut machine, of(0xA0000, Kind::Plain, MemoryType::Uncacheable));
    machine.expect(0, &[(WcFlush, 5)]);
    // A locked access.
    write(&mut machine, 0);
    let locked = Access { kind: Kind::Locked, ..plain(0x1000, 8) };
    machine.run(|caches, context| caches.modify(context, 0, &locked));
    machine.expect(0, &[(WcFlush, 6)]);
}

/// AMD BKDG, events 41h and 65h: each streaming store is a miss, each buffer one flush.
#[test]
fn streaming_stores() {
    let mut machine = Machine::new(&K8, 1);
    // The caches give up what they have, dirty as it is.
    machine.store(0, 0x4000);
    take_sent(&mut machine);
    for number in 0..8 {
        let access = of(0x4000 + 8 * number, Kind::NonTemporal, MemoryType::WriteBack);
        store(&mut machine, access);
    }
    machine.expect(
        0,
        &[
            (L1dMiss, 9),
            (WcFlushStreaming, 1),
            (WcFlush, 0),
            (WeakStore, 8),
            // The first one found the line.
            (WeakStoreMiss, 7),
            (L1dRefillSystemModified, 1),
            (L1dWriteback, 1),
        ],
    );
    let expected = [(Request::WriteBack, 0x4000, 64), (Request::WriteCombined, 0x4000, 64)];
    assert_eq!(take_sent(&mut machine), expected);
    assert_eq!(machine.data_state(0, 0x4000), LineState::Invalid);
}

/// AMD BKDG, event ECh: a write of a full line only drops what it hits.
#[test]
fn streaming_stores_drop_the_lines_of_others() {
    let mut machine = Machine::new(&K8, 2);
    machine.store(1, 0x4000);
    for number in 0..8 {
        let access = of(0x4000 + 8 * number, Kind::NonTemporal, MemoryType::WriteBack);
        store(&mut machine, access);
    }
    machine.expect(1, &[(SystemWriteQword, 0)]);
    assert_eq!(machine.data_state(1, 0x4000), LineState::Invalid);
}

#[test]
fn write_through_memory() {
    let mut machine = Machine::new(&K7, 2);
    load(&mut machine, of(0x9000, Kind::Plain, MemoryType::WriteThrough));
    assert_eq!(machine.data_state(0, 0x9000), LineState::Shared);
    let other = of(0x9000, Kind::Plain, MemoryType::WriteThrough);
    machine.run(|caches, context| caches.load(context, 1, &other));
    take_sent(&mut machine);
    store(&mut machine, of(0x9000, Kind::Plain, MemoryType::WriteThrough));
    assert_eq!(take_sent(&mut machine), [(Request::WritePartial, 0x9000, 8)]);
    assert_eq!(machine.data_state(0, 0x9000), LineState::Shared);
    assert_eq!(machine.data_state(1, 0x9000), LineState::Invalid);
    // AMD 22007E, event 65h: one read and one write.
    machine.expect(0, &[(SystemRequestWt, 2), (SystemRequestWb, 0), (L1dMissStore, 0)]);
    // A miss does not bring it in.
    store(&mut machine, of(0xA000, Kind::Plain, MemoryType::WriteThrough));
    assert_eq!(machine.data_state(0, 0xA000), LineState::Invalid);
    machine.expect(0, &[(SystemRequestWt, 3), (L1dMissStore, 1)]);
}

/// Intel SDM volume 3, "Methods of Caching Available": a write drops the line on all processors.
#[test]
fn write_protected_memory() {
    let mut machine = Machine::new(&P6, 2);
    let access = of(0xC_0000, Kind::Plain, MemoryType::WriteProtected);
    for processor in 0..2 {
        machine.run(|caches, context| caches.load(context, processor, &access));
    }
    store(&mut machine, access);
    for processor in 0..2 {
        assert_eq!(machine.data_state(processor, 0xC_0000), LineState::Invalid);
        assert_eq!(machine.second_level_state(processor, 0xC_0000), LineState::Invalid);
    }
    machine.expect(0, &[(SystemRequestWp, 2)]);
}

/// Intel SDM volume 3, "Effects of a LOCK Operation on Internal Processor Caches": the Pentium always locks
/// the bus, the P6 family the cache, unless the access crosses lines.
#[test]
fn locked_accesses() {
    let locked = |physical| Access { kind: Kind::Locked, ..plain(physical, 4) };
    let mut p6 = Machine::new(&P6, 1);
    p6.run(|caches, context| caches.modify(context, 0, &locked(0x1000)));
    assert_eq!(take_sent(&mut p6), [(Request::ReadForOwnership, 0x1000, 32)]);
    p6.expect(0, &[(L1dMissLocked, 1), (L2RequestInvalid, 1), (L2RequestStoreInvalid, 0)]);
    p6.run(|caches, context| caches.modify(context, 0, &locked(0x1000)));
    assert_eq!(p6.caches.sent.len(), 0);
    // Bytes 101Eh to 1021h: the Modified first line goes to memory before.
    p6.run(|caches, context| caches.modify(context, 0, &locked(0x101E)));
    assert_eq!(p6.caches.sent.iter().filter(|sent| sent.locked).count(), 4);
    let expected = [
        (Request::WriteBack, 0x1000, 32),
        (Request::ReadPartial, 0x101E, 2),
        (Request::ReadPartial, 0x1020, 2),
        (Request::WritePartial, 0x101E, 2),
        (Request::WritePartial, 0x1020, 2),
    ];
    assert_eq!(take_sent(&mut p6), expected);

    let mut p55c = Machine::new(&P55C, 1);
    p55c.load(0, 0x1000);
    p55c.store(0, 0x1000);
    take_sent(&mut p55c);
    p55c.run(|caches, context| caches.modify(context, 0, &locked(0x1000)));
    let expected = [
        (Request::WriteBack, 0x1000, 32),
        (Request::ReadPartial, 0x1000, 4),
        (Request::WritePartial, 0x1000, 4),
    ];
    assert_eq!(take_sent(&mut p55c), expected);
    p55c.expect(0, &[(L1dWriteback, 1), (L1dMissLoad, 2), (L1dMissStore, 1), (L1dMiss, 3)]);
}

#[test]
fn mmx_accesses_have_misses_of_their_own() {
    let mut machine = Machine::new(&P55C, 1);
    load(&mut machine, of(0, Kind::Mmx, MemoryType::WriteBack));
    load(&mut machine, of(0, Kind::Mmx, MemoryType::WriteBack));
    store(&mut machine, of(0x1000, Kind::Mmx, MemoryType::WriteBack));
    let expected = [(L1dMissLoadMmx, 1), (L1dMissStoreMmx, 1), (L1dMissLoad, 1), (L1dMissStore, 1)];
    machine.expect(0, &expected);
}

#[test]
fn flushes() {
    let mut machine = Machine::new(&PM, 2);
    machine.store(0, 0x1000);
    machine.store(1, 0x2000);
    take_sent(&mut machine);
    machine.run(|caches, context| {
        caches.flush(context, 0, 0x1000);
        caches.flush(context, 0, 0x2000);
    });
    let expected = [(Request::WriteBack, 0x1000, 64), (Request::WriteBack, 0x2000, 64)];
    assert_eq!(take_sent(&mut machine), expected);
    for (processor, physical) in [(0, 0x1000), (1, 0x2000)] {
        assert_eq!(machine.second_level_state(processor, physical), LineState::Invalid);
    }
    // WBINVD writes back what is dirty, of this processor alone; INVD nothing.
    machine.store(0, 0x1000);
    machine.load(0, 0x5000);
    machine.store(1, 0x2000);
    take_sent(&mut machine);
    machine.run(|caches, context| caches.write_back_and_invalidate(context, 0));
    assert_eq!(take_sent(&mut machine), [(Request::WriteBack, 0x1000, 64)]);
    assert_eq!(machine.caches.second_level_lines(0).count(), 0);
    assert_eq!(machine.data_state(1, 0x2000), LineState::Modified);
    machine.run(|caches, context| caches.invalidate(context, 1));
    assert_eq!(take_sent(&mut machine), []);
    machine.load(1, 0x2000);
    machine.expect(1, &[(L1dMissLoad, 1)]);
}
