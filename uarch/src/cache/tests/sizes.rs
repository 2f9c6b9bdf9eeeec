//! Capacity, associativity, line size and latency of the parts, by hand.

use super::*;
use pmu_model::Signal::*;

/// AMD 25112, table 11 and section A.16: 64 KiB and 1024 KiB, exclusive, so that 1088 KiB fit. Every even
/// line comes first and then every odd one, at which no prefetcher starts.
fn read_twice(machine: &mut Machine, lines: u64, line: u64) {
    for _ in 0..2 {
        for number in (0..lines).step_by(2).chain((1..lines).step_by(2)) {
            machine.load(0, number * line);
        }
    }
}

#[test]
fn k8_holds_as_much_as_both_its_levels() {
    let mut machine = Machine::new(&K8, 1);
    // 17 lines for each of the 1024 sets of the L2: 16 are there, and one in the data cache.
    let lines = 17 * 1024;
    assert_eq!(lines * 64, (64 + 1024) * 1024);
    read_twice(&mut machine, lines, 64);
    machine.expect(
        0,
        &[
            (L1dMiss, 2 * lines),
            (L2RequestData, 2 * lines),
            (L2MissData, lines),
            (L1dRefillSystemExclusive, lines),
            (L1dRefillL2Exclusive, lines),
            // All but the first 1024 displace one, which goes to the L2, clean.
            (L1dEvictExclusive, 2 * lines - 1024),
            (L2Fill, 2 * lines - 1024),
            (L2EvictModified, 0),
            (SystemReadExclusive, lines),
            (HwPrefetchAttempt, 0),
        ],
    );
    assert_eq!(machine.sent(Request::ReadData) as u64, lines);
}

#[test]
fn k8_thrashes_beyond_that() {
    let mut machine = Machine::new(&K8, 1);
    // 18 lines a set, each used again when the 17 others have come in: the LRU has dropped it.
    let lines = 18 * 1024;
    read_twice(&mut machine, lines, 64);
    machine.expect(0, &[(L1dMiss, 2 * lines), (L2MissData, 2 * lines)]);
}

#[test]
fn p6_holds_as_much_as_its_second_level() {
    let mut machine = Machine::new(&P6, 1);
    let lines = 256 * 1024 / 32;
    read_twice(&mut machine, lines, 32);
    machine.expect(
        0,
        &[
            (L1dMissLoad, 2 * lines),
            (L2RequestLoadInvalid, lines),
            (L2RequestLoadExclusive, lines),
            (L2RequestExclusive, lines),
            (L2Fill, lines),
            (L2Evict, 0),
        ],
    );
}

/// Lines at the distance of a way, read ten times in turn.
fn conflict(geometry: &'static CacheGeometry, distance: u64, lines: u64) -> u64 {
    let mut machine = Machine::new(geometry, 1);
    for _ in 0..10 {
        for number in 0..lines {
            machine.load(0, number * distance);
        }
    }
    machine.count(0, L1dMiss)
}

#[test]
fn a_set_holds_as_many_lines_as_it_has_ways() {
    // Two ways of 32 KiB.
    assert_eq!(conflict(&K8, 32 << 10, 2), 2);
    assert_eq!(conflict(&K8, 32 << 10, 3), 30);
    assert_eq!(conflict(&K7, 32 << 10, 2), 2);
    assert_eq!(conflict(&K7, 32 << 10, 3), 30);
    // Descriptor 0Ah: two ways of 4 KiB; 0Ch: four of 4 KiB; 2Ch: eight of 4 KiB.
    assert_eq!(conflict(&PPRO, 4 << 10, 2), 2);
    assert_eq!(conflict(&PPRO, 4 << 10, 3), 30);
    for four_ways in [&P55C, &PII, &P6] {
        assert_eq!(conflict(four_ways, 4 << 10, 4), 4);
        assert!(conflict(four_ways, 4 << 10, 5) > 5);
    }
    assert_eq!(conflict(&PM, 4 << 10, 8), 8);
    assert!(conflict(&PM, 4 << 10, 9) > 9);
}

/// Every 16 bytes of 4 KiB: 256 reads.
#[test]
fn a_line_is_as_long_as_the_manual_says() {
    for (geometry, misses) in
        [(&P55C, 128), (&PPRO, 128), (&PII, 128), (&P6, 128), (&PM, 64), (&K7, 64), (&K8, 64)]
    {
        let mut machine = Machine::new(geometry, 1);
        for number in 0..256 {
            machine.load(0, number * 16);
        }
        machine.expect(0, &[(L1dAccess, 256), (L1dMissLoad, misses)]);
    }
}

#[test]
fn an_access_across_lines_is_one_of_each() {
    let mut machine = Machine::new(&K8, 1);
    // Bytes 60 to 67.
    machine.load(0, 60);
    // AMD BKDG, event 47h: an extra access; both lines miss.
    machine.expect(0, &[(L1dAccess, 2), (L1dMiss, 2), (L2MissData, 2)]);
    machine.load(0, 60);
    machine.expect(0, &[(L1dAccess, 4), (L1dMiss, 2)]);
}

#[test]
fn a_hit_of_the_second_level_takes_its_latency() {
    for (geometry, latency) in [(&PPRO, 5), (&PII, 15), (&P6, 5), (&PM, 7), (&K7, 17), (&K8, 9)] {
        let mut machine = Machine::new(geometry, 1);
        let way = u64::from(geometry.line * geometry.data.sets);
        let ways = u64::from(geometry.data.ways);
        for number in 0..=2 * ways {
            machine.load(0, number * way);
        }
        assert_eq!(machine.load(0, 2 * ways * way), 0);
        assert_eq!(machine.load(0, 0), latency);
    }
}

/// AMD BKDG, event 80h: "each access is an aligned 16 byte read".
#[test]
fn a_fetch_reads_each_window_once() {
    let mut machine = Machine::new(&K8, 1);
    let memory = MemoryType::WriteBack;
    // Bytes 8 to 47 are in three windows of one line.
    let block = Fetch { physical: 8, bytes: 40, sequential: false, memory };
    machine.run(|caches, context| caches.fetch(context, 0, &block));
    machine.expect(0, &[(L1iFetch, 3), (L1iMiss, 1), (L1iRefillSystem, 1)]);
    // Bytes 46 and 47 have been read with the window; a branch to them reads it again.
    let rest = Fetch { physical: 46, bytes: 2, sequential: true, memory };
    machine.run(|caches, context| caches.fetch(context, 0, &rest));
    machine.expect(0, &[(L1iFetch, 3)]);
    machine.fetch(0, 44);
    machine.expect(0, &[(L1iFetch, 4), (L1iMiss, 1)]);
    // Bytes 60 to 67 are in two windows and two lines.
    let across = Fetch { physical: 60, bytes: 8, sequential: false, memory };
    machine.run(|caches, context| caches.fetch(context, 0, &across));
    machine.expect(0, &[(L1iFetch, 6), (L1iMiss, 2)]);
}

/// AMD 22007E, appendix A: a miss of the instruction cache brings in the next line too.
#[test]
fn k7_fetches_the_next_line() {
    let mut machine = Machine::new(&K7, 1);
    machine.fetch(0, 0);
    machine.expect(0, &[(L1iMiss, 1), (L1iRefillSystem, 2)]);
    machine.fetch(0, 64);
    machine.expect(0, &[(L1iMiss, 1), (L1iRefillSystem, 2)]);
    // The last line of a page has none.
    machine.fetch(0, 4096 - 64);
    machine.expect(0, &[(L1iMiss, 2), (L1iRefillSystem, 3)]);
}

/// AMD BKDG, events 7Dh to 7Fh: page walks ask the L2, and what misses is put there.
#[test]
fn k8_walks_in_the_second_level() {
    let mut machine = Machine::new(&K8, 1);
    let memory = MemoryType::WriteBack;
    for _ in 0..2 {
        machine.run(|caches, context| caches.walk_read(context, 0, 0x1000, 8, memory));
    }
    machine.expect(
        0,
        &[
            (L2RequestTlb, 2),
            (L2MissTlb, 1),
            (L2Fill, 1),
            (SystemReadExclusive, 1),
            (L1dAccess, 0),
            (L2RequestData, 0),
        ],
    );
    // A store moves the line to the data cache, where the walk finds it.
    machine.store(0, 0x1000);
    machine.run(|caches, context| caches.walk_read(context, 0, 0x1000, 8, memory));
    machine.expect(0, &[(L2RequestTlb, 2), (L1dRefillL2Exclusive, 1)]);
}

/// Intel SDM volume 3, table of events: L2_LD has page walks in it.
#[test]
fn p6_walks_in_the_data_cache() {
    let mut machine = Machine::new(&P6, 1);
    let memory = MemoryType::WriteBack;
    for _ in 0..2 {
        machine.run(|caches, context| caches.walk_read(context, 0, 0x1000, 4, memory));
    }
    let expected =
        [(L2RequestLoadInvalid, 1), (L1dRefillSystemExclusive, 1), (L1dMiss, 0), (L1dMissLoad, 0)];
    machine.expect(0, &expected);
    assert_eq!(machine.data_state(0, 0x1000), LineState::Exclusive);
}

/// What the states of the lines mean for the events of the P6 family.
#[test]
fn p6_counts_by_state() {
    let mut machine = Machine::new(&P6, 1);
    // DCU_M_LINES_IN, L2_M_LINES_INM: a read for ownership.
    machine.store(0, 0);
    machine.expect(
        0,
        &[
            (L2RequestStoreInvalid, 1),
            (L2FillModified, 1),
            (L2Fill, 1),
            (L1dRefillSystemModified, 1),
        ],
    );
    // A load brings it in Exclusive; the store after it asks nobody.
    machine.load(0, 64);
    machine.store(0, 64);
    machine.expect(0, &[(L2RequestStoreInvalid, 1), (L1dRefillSystemExclusive, 1)]);
    // DCU_M_LINES_OUT: four more lines in the set of line 64 displace it into the L2, which then has it
    // Modified.
    for number in 1..=4 {
        machine.load(0, 64 + number * 4096);
    }
    machine.expect(0, &[(L1dWriteback, 1), (L1dEvictModified, 1), (L2FillModified, 1)]);
    assert_eq!(machine.second_level_state(0, 64), LineState::Modified);
    machine.load(0, 64);
    machine.expect(0, &[(L2RequestLoadModified, 1), (L1dRefillL2Exclusive, 1)]);
    assert_eq!(machine.sent(Request::WriteBack), 0);
}

/// What leaves an inclusive L2 leaves the L1 too.
#[test]
fn p6_drops_in_the_first_level_what_the_second_displaces() {
    let mut machine = Machine::new(&PPRO, 1);
    machine.store(0, 0);
    // Four ways of 64 KiB; the L1 has two ways of 4 KiB, so that these stay out of line 0's set there.
    machine.load(0, 64 << 10);
    machine.load(0, 128 << 10);
    machine.load(0, 192 << 10);
    machine.store(0, 0);
    machine.expect(0, &[(L2Evict, 0)]);
    assert_eq!(machine.second_level_state(0, 0), LineState::Modified);
    for number in 4..8 {
        machine.load(0, number * (64 << 10));
    }
    assert_eq!(machine.second_level_state(0, 0), LineState::Invalid);
    assert_eq!(machine.data_state(0, 0), LineState::Invalid);
    machine.expect(0, &[(L2Evict, 4), (L2EvictModified, 1), (L2EvictDemandModified, 1)]);
    assert_eq!(machine.sent(Request::WriteBack), 1);
}

/// A bank is 8 bytes, and the set is bits 14 to 6 (AMD 25112, section 5.9); 4 bytes on the Pentium.
#[test]
fn banks() {
    let k8 = Caches::new(&K8, 1, 1);
    assert_eq!(k8.bank_and_set(0x38), (7, 0));
    assert_eq!(k8.bank_and_set(0x7FC0), (0, 511));
    assert_eq!(k8.bank_and_set(0x8008), (1, 0));
    let p55c = Caches::new(&P55C, 1, 1);
    assert_eq!(p55c.bank_and_set(0x1C).0, 7);
    assert_eq!(p55c.bank_and_set(32000).0, p55c.bank_and_set(0).0);
    assert_ne!(p55c.bank_and_set(32004).0, p55c.bank_and_set(0).0);
}

/// A line that was missed and has come in is no longer missing: when the instruction cache has had it meanwhile, the
/// data cache holds it Shared, and the second level as the only processor. A write to it then hits, and the line is in
/// the data cache once.
#[test]
fn a_line_that_was_missing_is_written_where_it_is() {
    // 128 sets of 32 bytes, 4 ways, in both first-level caches.
    const STRIDE: u64 = 128 * 32;
    const LINE: u64 = 0x10_0040;
    for returns in [false, true] {
        let mut machine = Machine::new(&P6, 1);
        machine.load(0, LINE);
        if returns {
            (1..=4).for_each(|n| _ = machine.load(0, LINE + n * STRIDE));
            assert_eq!(machine.data_state(0, LINE), LineState::Invalid);
            machine.load(0, LINE);
            assert_eq!(machine.caches.refills, [1, 0]);
        }
        machine.fetch(0, LINE);
        (1..=4).for_each(|n| _ = machine.fetch(0, LINE + n * STRIDE));
        assert_eq!(machine.data_state(0, LINE), LineState::Shared);
        machine.store(0, LINE);
        assert_eq!(machine.count(0, Signal::L1dMissStore), 0);
        let is_it = |line: &Line| line.number == LINE >> 5;
        let held: Vec<Line> = machine.caches.data_lines(0).filter(is_it).collect();
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!(held[0].state, LineState::Modified);
    }
}
