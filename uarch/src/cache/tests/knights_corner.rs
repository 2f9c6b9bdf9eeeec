//! What Knights Corner's caches count, by hand: eight threads on two cores.

use super::*;
use crate::part::bus;
use pmu_model::Signal::*;

const X: u64 = 0x1_0000;

fn two_cores() -> Machine {
    Machine::with_threads(&KNC, 8, 4)
}

fn prefetch(machine: &mut Machine, processor: usize, physical: u64, hint: Hint) {
    let memory = MemoryType::WriteBack;
    machine.run(|caches, context| caches.prefetch(context, processor, physical, hint, memory));
}

fn evict(machine: &mut Machine, processor: usize, physical: u64, second_level: bool) {
    machine.run(|caches, context| caches.evict(context, processor, physical, second_level));
}

#[test]
fn a_thread_finds_what_another_has_brought_in() {
    let mut machine = two_cores();
    machine.load(0, X);
    machine.expect(0, &[(L1dMissLoad, 1), (L2MissRead, 1), (L2MissLoadFromMemory, 1)]);
    machine.load(3, X + 8);
    machine.fetch(2, 2 * X);
    machine.fetch(1, 2 * X);
    machine.expect(3, &[(L1dAccess, 1), (L1dMiss, 0), (L2TagRead, 0)]);
    machine.expect(2, &[(L1iMiss, 1), (L2MissIfetchFromMemory, 1)]);
    machine.expect(1, &[(L1iFetch, 1), (L1iMiss, 0)]);
    // The other core has caches of its own, and gets its lines from the first.
    machine.load(4, X);
    machine.fetch(5, 2 * X);
    machine.expect(4, &[(L1dMissLoad, 1), (L2MissLoadFromCache, 1), (L2MissLoadFromMemory, 0)]);
    machine.expect(5, &[(L1iMiss, 1), (L2MissIfetchFromCache, 1)]);
}

/// Only who has a line is asked for it, and that is counted on the thread of the core that ran last.
#[test]
fn directories_ask_who_has_the_line() {
    let mut machine = two_cores();
    machine.caches.choose(2);
    machine.load(2, X);
    machine.caches.choose(7);
    machine.load(7, X);
    machine.load(7, 2 * X);
    machine.caches.choose(1);
    machine.load(1, 3 * X);
    machine.expect(2, &[(SnoopHitL2, 1), (SnoopHitmL2, 0), (L2RequestSnoop, 1)]);
    machine.expect(7, &[(SnoopHitL2, 0), (L2RequestSnoop, 0)]);
    machine.caches.choose(4);
    machine.store(4, X);
    machine.expect(1, &[(SnoopHitL2, 1)]);
    assert_eq!(machine.second_level_state(0, X), LineState::Invalid);
}

#[test]
fn a_dirty_line_of_another_core_comes_from_there() {
    let mut machine = two_cores();
    machine.store(0, X);
    machine.expect(0, &[(L1dMissStore, 1), (L2MissStoreFromMemory, 1), (L2WriteHit, 0)]);
    machine.load(4, X);
    machine
        .expect(0, &[(SnoopHitmL2, 1), (SnoopHitL2, 1), (L1dWriteback, 1), (L2EvictModified, 0)]);
    machine.expect(4, &[(L2MissLoadFromCache, 1)]);
    assert_eq!(machine.data_state(0, X), LineState::Shared);
    // It is there, and may not be written without asking.
    machine.store(4, X);
    machine.expect(4, &[(L1dMissStore, 0), (L2WriteHit, 1)]);
    machine.store(1, X);
    machine.expect(1, &[(L1dMissStore, 1), (L2MissStoreFromCache, 1)]);
}

#[test]
fn reads_of_the_second_level_by_state() {
    let mut machine = two_cores();
    machine.load(0, X);
    evict(&mut machine, 1, X, false);
    machine.load(2, X);
    machine.expect(2, &[(L1dMissLoad, 1), (L2RequestReadExclusive, 1)]);
    machine.store(2, X);
    evict(&mut machine, 3, X, false);
    machine.expect(3, &[(L1dWriteback, 1), (L2EvictModified, 0)]);
    machine.load(0, X);
    machine.expect(0, &[(L2RequestReadModified, 1)]);
    machine.load(4, X);
    evict(&mut machine, 0, X, false);
    machine.load(0, X);
    machine.expect(0, &[(L2RequestReadShared, 1), (L2MissRead, 1)]);
    // A write of what only the second level has.
    machine.store(6, 2 * X);
    evict(&mut machine, 6, 2 * X, false);
    machine.store(7, 2 * X);
    machine.expect(7, &[(L1dMissStore, 1), (L2WriteHit, 1)]);
}

#[test]
fn an_evicted_dirty_line_is_a_victim_with_data() {
    let mut machine = two_cores();
    machine.load(0, X);
    evict(&mut machine, 0, X, true);
    machine.expect(0, &[(L2Evict, 1), (L2EvictModified, 0), (L1dWriteback, 0)]);
    machine.store(0, X);
    evict(&mut machine, 0, X, true);
    machine.expect(0, &[(L2Evict, 2), (L2EvictModified, 1), (L1dWriteback, 1)]);
    assert_eq!(machine.sent(Request::WriteBack), 1);
    // What is not there is not evicted.
    evict(&mut machine, 0, X, true);
    evict(&mut machine, 4, X, false);
    machine.expect(0, &[(L2Evict, 2)]);
}

#[test]
fn prefetches_of_the_first_level() {
    let mut machine = two_cores();
    for _ in 0..2 {
        prefetch(&mut machine, 0, X, Hint::T0);
    }
    machine.expect(0, &[(PrefetchL1, 2), (PrefetchL1Miss, 1), (PrefetchL1L2Miss, 1)]);
    machine.expect(0, &[(L2MissRead, 1), (L2MissLoadFromMemory, 1), (L1dMiss, 0)]);
    machine.load(1, X);
    machine.expect(1, &[(L1dMiss, 0)]);
    // The second level has it, and a prefetch that hits it is no read of it.
    evict(&mut machine, 0, X, false);
    prefetch(&mut machine, 2, X, Hint::NonTemporal);
    machine.expect(2, &[(PrefetchL1Miss, 1), (PrefetchL1L2Miss, 0), (L2RequestReadExclusive, 0)]);
    let uncacheable = MemoryType::Uncacheable;
    machine.run(|caches, context| caches.prefetch(context, 3, 2 * X, Hint::T0, uncacheable));
    machine.run(|caches, context| caches.prefetch(context, 3, 2 * X, Hint::T1, uncacheable));
    machine.expect(3, &[(PrefetchL1, 1), (PrefetchL1Dropped, 1), (PrefetchL1Miss, 0)]);
    machine.expect(3, &[(PrefetchL2SeenByL1, 1), (PrefetchL2, 0)]);
}

#[test]
fn prefetches_of_the_second_level() {
    let mut machine = two_cores();
    for hint in [Hint::T1, Hint::T2] {
        prefetch(&mut machine, 0, X, hint);
    }
    machine.expect(0, &[(PrefetchL2SeenByL1, 2), (PrefetchL2, 2), (PrefetchL2Miss, 1)]);
    machine.expect(0, &[(PrefetchL1, 0), (L2MissRead, 1)]);
    assert_eq!(machine.data_state(0, X), LineState::Invalid);
    machine.load(1, X);
    machine.expect(1, &[(L1dMissLoad, 1), (L2RequestReadExclusive, 1), (L2MissRead, 0)]);
}

/// The exclusive forms take the line from other cores, and leave it clean.
#[test]
fn prefetches_to_write() {
    let mut machine = two_cores();
    for (hint, line) in [(Hint::Write, X), (Hint::WriteT1, 2 * X)] {
        machine.store(4, line);
        prefetch(&mut machine, 0, line, hint);
        assert_eq!(machine.second_level_state(4, line), LineState::Invalid);
        assert_eq!(machine.second_level_state(0, line), LineState::Exclusive);
    }
    assert_eq!(machine.data_state(0, X), LineState::Exclusive);
    machine.expect(0, &[(L2MissStoreFromCache, 2), (L2MissRead, 0)]);
    machine.store(0, X);
    machine.store(0, 2 * X);
    machine.expect(0, &[(L1dMissStore, 1), (L2WriteHit, 1)]);
    // Shared with another core, it is claimed.
    machine.load(4, 3 * X);
    machine.load(0, 3 * X);
    prefetch(&mut machine, 1, 3 * X, Hint::WriteT2);
    assert_eq!(machine.second_level_state(4, 3 * X), LineState::Invalid);
    assert_eq!(machine.second_level_state(1, 3 * X), LineState::Exclusive);
}

/// The second of two neighbours that miss begins a sequence: from then on, each has the next one fetched.
#[test]
fn the_hardware_prefetcher_follows_sixteen_sequences() {
    let mut machine = two_cores();
    for n in 0..6 {
        machine.load(0, X + 64 * n);
    }
    // Lines 2 to 6; only the first two are missed.
    machine.expect(0, &[(HwPrefetchL2Miss, 5), (HwPrefetchL2Hit, 0), (L2MissRead, 2)]);
    machine.expect(0, &[(L1dMissLoad, 6), (L2MissLoadFromMemory, 2)]);
    for (sequences, followed) in [(16, 16), (17, 0)] {
        let mut machine = two_cores();
        for line in 0..2 {
            for sequence in 0..sequences {
                machine.load(sequence % 4, X * (1 + sequence as u64) + 64 * line);
            }
        }
        let fetched: u64 = (0..4).map(|thread| machine.count(thread, HwPrefetchL2Miss)).sum();
        assert_eq!(fetched, followed, "{sequences} sequences");
    }
}

/// CLEVICT0 is for the data cache: what was fetched of the line need not be fetched again.
#[test]
fn an_eviction_leaves_code() {
    let mut machine = two_cores();
    let fetch = Fetch { physical: X, bytes: 4, sequential: true, memory: MemoryType::WriteBack };
    machine.run(|caches, context| caches.fetch(context, 0, &fetch));
    machine.load(0, X);
    evict(&mut machine, 0, X, false);
    machine.run(|caches, context| caches.fetch(context, 0, &fetch));
    machine.expect(0, &[(L1iFetch, 1), (L1iMiss, 1)]);
}

#[test]
fn misses_of_the_vector_unit() {
    let mut machine = two_cores();
    let access = Access { kind: Kind::Vector, ..plain(X, 64) };
    machine.run(|caches, context| caches.load(context, 0, &access));
    let access = Access { kind: Kind::Vector, ..plain(2 * X, 64) };
    machine.run(|caches, context| caches.store(context, 0, &access));
    machine.run(|caches, context| caches.load(context, 0, &access));
    machine.load(0, 3 * X);
    machine.expect(0, &[(L1dMissLoadVpu, 1), (L1dMissStoreVpu, 1), (L1dMissLoad, 2), (L1dMiss, 3)]);
}

/// Of a line that all of is written, neither memory nor another core is asked for what it holds.
#[test]
fn stores_of_whole_lines_read_nothing() {
    let mut machine = two_cores();
    let store = |machine: &mut Machine, processor, physical, bytes, ordered| {
        let access = Access { kind: Kind::NoRead { ordered }, ..plain(physical, bytes) };
        machine.run(|caches, context| caches.store(context, processor, &access));
    };
    store(&mut machine, 0, X, 64, true);
    store(&mut machine, 0, 2 * X, 64, false);
    machine.expect(0, &[(L2MissWriteLineOrdered, 1), (L2MissWriteLineWeak, 1), (L2MissRead, 1)]);
    machine.expect(0, &[(L2MissStoreFromMemory, 0), (L2MissStoreFromCache, 0)]);
    machine.expect(0, &[(L1dMissStore, 2), (L1dMissStoreVpu, 2), (SystemReadModified, 0)]);
    assert_eq!(
        (machine.sent(Request::Invalidate), machine.sent(Request::ReadForOwnership)),
        (2, 0)
    );
    for line in [X, 2 * X] {
        assert_eq!(machine.data_state(0, line), LineState::Modified);
        assert_eq!(machine.second_level_state(0, line), LineState::Modified);
    }
    // What another core has written is lost, and not sent anywhere.
    store(&mut machine, 4, X, 64, true);
    machine.expect(0, &[(SnoopHitL2, 1), (SnoopHitmL2, 1), (L1dWriteback, 0), (L2Evict, 1)]);
    assert_eq!(machine.second_level_state(0, X), LineState::Invalid);
    // In the first or the second level, it is a hit.
    store(&mut machine, 5, X, 64, true);
    evict(&mut machine, 6, X, false);
    store(&mut machine, 7, X, 64, true);
    machine.expect(5, &[(L1dMissStore, 0), (L1dStoreHitOwned, 1), (L2MissWriteLineOrdered, 0)]);
    machine.expect(7, &[(L1dMissStore, 1), (L2WriteHit, 1), (L2MissWriteLineOrdered, 0)]);
    // Of half a line, the other half is read.
    store(&mut machine, 1, 3 * X, 32, false);
    machine.expect(1, &[(L2MissStoreFromMemory, 1), (L2MissWriteLineWeak, 0), (L2MissRead, 0)]);
}

/// Sixteen lines behind each other: a store that reads nothing has nothing fetched ahead.
#[test]
fn stores_of_whole_lines_are_not_followed() {
    let mut machine = two_cores();
    for n in 0..16 {
        let access = Access { kind: Kind::NoRead { ordered: true }, ..plain(X + 64 * n, 64) };
        machine.run(|caches, context| caches.store(context, 0, &access));
    }
    machine.expect(0, &[(L2MissWriteLineOrdered, 16), (HwPrefetchL2Miss, 0), (HwPrefetchUp, 0)]);
}

/// From one load to the use of what it reads, beyond a hit: 23 cycles from the L2, 250 from another core's
/// L2, some 300 from memory.
#[test]
fn latencies() {
    let mut machine = two_cores();
    machine.bus = Bus::new(&bus::KNC, 8, std::slice::from_ref(&(0..1 << 30)));
    // 23, a command, 140 there, row and column address of 16 each, 100 back, the first data.
    assert_eq!(machine.load(0, X), 23 + 1 + 140 + 32 + 100 + 1);
    machine.time = 1_000;
    assert_eq!(machine.load(1, X), 0);
    evict(&mut machine, 0, X, false);
    assert_eq!(machine.load(1, X), 23);
    machine.time = 2_000;
    assert_eq!(machine.load(4, X), 250);
    machine.time = 3_000;
    assert_eq!(machine.store(0, 2 * X), 23 + 1 + 140 + 32 + 100 + 1);
    machine.time = 4_000;
    assert_eq!(machine.load(4, 2 * X), 250);
    // The right to write: as from another core, without the data at the end.
    machine.time = 5_000;
    let access = Access { kind: Kind::NoRead { ordered: true }, ..plain(3 * X, 64) };
    let cycles = machine.run(|caches, context| caches.store(context, 0, &access));
    assert_eq!(cycles, 249);
}
