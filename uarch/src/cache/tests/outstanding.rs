//! Cycles in which misses of the data cache are outstanding, by hand.

use super::*;
use pmu_model::Signal::MissOutstandingL1d;

/// Intel SDM volume 3, P6 family, event 48h: the sum over all misses; two cycles short of each that misses
/// the L2; later loads of the same line add nothing; reads for ownership and invalidations count.
#[test]
fn the_cycles_of_all_misses_are_added_up() {
    for geometry in [&PPRO, &PII, &P6, &PM] {
        let line = u64::from(geometry.line);
        let below = geometry.second_level.unwrap().latency;
        let mut machine = Machine::new(geometry, 2);
        let from_memory = machine.load(0, 0);
        machine.expect(0, &[(MissOutstandingL1d, from_memory - 2)]);
        // It is there.
        machine.load(0, 8);
        machine.store(0, 16);
        machine.expect(0, &[(MissOutstandingL1d, from_memory - 2)]);
        // A store misses too.
        let stored = machine.store(0, 100 * line);
        let mut expected = from_memory + stored - 4;
        machine.expect(0, &[(MissOutstandingL1d, expected)]);
        // As many lines as the set has ways push the first one out, to the L2.
        let way = u64::from(geometry.data.sets) * line;
        for number in 1..=u64::from(geometry.data.ways) {
            expected += machine.load(0, number * way) - 2;
        }
        assert_eq!(machine.data_state(0, 0), LineState::Invalid);
        assert_eq!(machine.load(0, 0), below);
        expected += below;
        machine.expect(0, &[(MissOutstandingL1d, expected)]);
        // Another reads what was written: then it is Shared, and to write it the others have to drop it.
        machine.load(1, 100 * line);
        let invalidation = machine.store(0, 100 * line);
        assert!(invalidation >= below);
        machine.expect(0, &[(MissOutstandingL1d, expected + invalidation)]);
        // Memory that is not cached does not count.
        let uncached = Access { memory: MemoryType::Uncacheable, ..plain(1 << 20, 4) };
        machine.run(|caches, context| caches.load(context, 0, &uncached));
        machine.run(|caches, context| caches.store(context, 0, &uncached));
        machine.expect(0, &[(MissOutstandingL1d, expected + invalidation)]);
    }
}
