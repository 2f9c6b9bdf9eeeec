//! Prefetches, by hand.

use super::*;
use pmu_model::Signal::*;

fn prefetch(machine: &mut Machine, physical: u64, hint: Hint) {
    let memory = MemoryType::WriteBack;
    machine.run(|caches, context| caches.prefetch(context, 0, physical, hint, memory));
}

/// AMD BKDG, event 67h: attempts less cancelled ones are lines read from the system; 7Fh: each is put into
/// the L2.
#[test]
fn k8_prefetches_behind_two_misses() {
    let mut machine = Machine::new(&K8, 1);
    // Lines 0 to 9. The second miss asks for line 2, and each later one for the next.
    for number in 0..10 {
        machine.load(0, number * 64);
    }
    machine.expect(
        0,
        &[
            (HwPrefetchAttempt, 9),
            (HwPrefetchCancelled, 0),
            (HwPrefetchUp, 9),
            // Lines 0 and 1 from the system, the others from the L2.
            (L1dRefillSystemExclusive, 2),
            (L1dRefillL2Exclusive, 8),
            (L2Fill, 9),
            (SystemReadExclusive, 11),
        ],
    );
    // Down from line 49 to 42: all are new, as the prefetcher has got to line 10.
    for number in (42..50).rev() {
        machine.load(0, number * 64);
    }
    machine.expect(0, &[(HwPrefetchDown, 7), (HwPrefetchAttempt, 16)]);
    // Lines 62 and 63 are the end of the page.
    machine.load(0, 62 * 64);
    machine.load(0, 63 * 64);
    machine.expect(0, &[(HwPrefetchAttempt, 16)]);
}

/// AMD BKDG, event 6Ch: a sequence of stores is read to be Modified.
#[test]
fn k8_prefetches_to_write() {
    let mut machine = Machine::new(&K8, 1);
    machine.store(0, 0);
    machine.store(0, 64);
    machine.expect(0, &[(HwPrefetchAttempt, 1), (SystemReadModified, 3), (L2FillModified, 1)]);
    machine.load(0, 192);
    machine.store(0, 128);
    // Line 3 is there.
    machine.expect(0, &[(HwPrefetchAttempt, 2), (HwPrefetchCancelled, 1)]);
}

/// Intel SDM volume 3, events of the Pentium M: lines that the prefetcher brought are told apart.
#[test]
fn pm_tells_prefetched_lines_apart() {
    let mut machine = Machine::new(&PM, 1);
    for number in 0..4 {
        machine.load(0, number * 64);
    }
    machine.expect(
        0,
        &[
            (HwPrefetchUp, 3),
            (L2FillPrefetchedExclusive, 3),
            (L2FillDemandExclusive, 2),
            (L2LoadDemandInvalid, 2),
            (L2LoadPrefetchedInvalid, 3),
            (L2LoadPrefetchedExclusive, 2),
        ],
    );
    machine.run(|caches, context| caches.write_back_and_invalidate(context, 0));
    machine.expect(0, &[(L2EvictDemandExclusive, 2), (L2EvictPrefetchedExclusive, 3)]);
}

/// Processors without a prefetcher fetch nothing on their own.
#[test]
fn p6_has_no_prefetcher() {
    let mut machine = Machine::new(&P6, 1);
    for number in 0..10 {
        machine.load(0, number * 32);
    }
    machine.expect(0, &[(HwPrefetchAttempt, 0), (L1dRefillSystemExclusive, 10)]);
}

/// Intel SDM volume 3, event EMON_KNI_PREF_MISS.
#[test]
fn p6_prefetches_by_hint() {
    let mut machine = Machine::new(&P6, 1);
    for (number, hint) in [Hint::T0, Hint::T1, Hint::T2, Hint::NonTemporal].into_iter().enumerate()
    {
        prefetch(&mut machine, number as u64 * 4096, hint);
        prefetch(&mut machine, number as u64 * 4096, hint);
    }
    machine.expect(
        0,
        &[
            (SoftPrefetchT1, 2),
            (SoftPrefetchT1Miss, 1),
            (SoftPrefetchT2, 2),
            (SoftPrefetchT2Miss, 1),
            (SoftPrefetchNtaMiss, 1),
        ],
    );
    let state = |machine: &Machine, page: u64| machine.data_state(0, page * 4096);
    assert_eq!(state(&machine, 0), LineState::Exclusive);
    assert_eq!(state(&machine, 1), LineState::Invalid);
    assert_eq!(state(&machine, 2), LineState::Invalid);
    assert_eq!(state(&machine, 3), LineState::Exclusive);
    assert_eq!(machine.second_level_state(0, 4096), LineState::Exclusive);
}

/// AMD BKDG, event 44h: what PREFETCHNTA brought is evicted past the L2.
#[test]
fn k8_victims_of_non_temporal_prefetches() {
    let mut machine = Machine::new(&K8, 1);
    prefetch(&mut machine, 0, Hint::NonTemporal);
    prefetch(&mut machine, 32 << 10, Hint::NonTemporal);
    machine.store(0, 32 << 10);
    // Two more lines of the set of two ways.
    machine.load(0, 64 << 10);
    machine.load(0, 96 << 10);
    machine.expect(
        0,
        &[
            (L1dEvictExclusive, 1),
            (L1dEvictModified, 1),
            (L2Fill, 0),
            (L1dWriteback, 1),
            (L2EvictModified, 0),
        ],
    );
    assert_eq!(machine.sent(Request::WriteBack), 1);
}

/// PREFETCHW brings the line to be written (AMD BKDG, event 6Ch).
#[test]
fn k8_prefetches_to_write_by_instruction() {
    let mut machine = Machine::new(&K8, 1);
    prefetch(&mut machine, 0x40, Hint::Write);
    machine.expect(0, &[(SystemReadModified, 1), (L1dMiss, 1), (L1dMissStore, 0)]);
    assert_eq!(machine.sent(Request::ReadForOwnership), 1);
    machine.store(0, 0x40);
    machine.expect(0, &[(L1dMiss, 1), (L1dStoreHitOwned, 1)]);
}
