//! The data bus of the second level, by hand.

use super::*;
use pmu_model::Signal::*;

/// Each part with an inclusive L2, with the cycles that a line of it takes: 32 bytes in 4 transfers of a
/// clock, or of two; 32 bytes at once; 64 bytes in two transfers.
const LINES: [(&CacheGeometry, u64); 4] = [(&PPRO, 4), (&PII, 8), (&P6, 1), (&PM, 2)];

/// Intel SDM volume 3, P6 family, events 22h and 23h.
#[test]
fn lines_go_up_and_down() {
    for (geometry, cycles) in LINES {
        let line = u64::from(geometry.line);
        let mut machine = Machine::new(geometry, 1);
        let way = u64::from(geometry.data.sets) * line;
        // From memory into the L2.
        machine.store(0, 0);
        machine.expect(0, &[(L2BusBusy, cycles), (L2BusBusyRead, 0)]);
        // A set of others, which write the first one back.
        let ways = u64::from(geometry.data.ways);
        for number in 1..=ways {
            machine.load(0, number * way);
        }
        machine.expect(0, &[(L2BusBusy, cycles * (1 + ways + 1)), (L2BusBusyRead, 0)]);
        // It comes up again; what it displaces is clean and leaves nothing.
        machine.load(0, 0);
        machine.expect(0, &[(L2BusBusy, cycles * (1 + ways + 2)), (L2BusBusyRead, cycles)]);
        // Code comes from memory, and its line stays in the L2.
        machine.fetch(0, 1 << 20);
        machine.expect(0, &[(L2BusBusy, cycles * (1 + ways + 3)), (L2BusBusyRead, cycles)]);
        // A hit in the data cache uses no bus.
        machine.load(0, 8);
        machine.expect(0, &[(L2BusBusy, cycles * (1 + ways + 3))]);
    }
}

/// A dirty line leaves the L2 for memory over the bus, unless the data cache has it newer.
#[test]
fn dirty_lines_go_to_memory() {
    for (geometry, cycles) in LINES {
        let line = u64::from(geometry.line);
        let mut machine = Machine::new(geometry, 1);
        machine.store(0, 0);
        let flush = |caches: &mut Caches, context: &mut Context<'_>| caches.flush(context, 0, 0);
        machine.run(flush);
        // The fill; the data cache wrote it to memory.
        machine.expect(0, &[(L2BusBusy, cycles)]);
        machine.store(0, 0);
        let way = u64::from(geometry.data.sets) * line;
        for number in 1..=u64::from(geometry.data.ways) {
            machine.load(0, number * way);
        }
        let busy = machine.count(0, L2BusBusy);
        machine.run(flush);
        machine.expect(0, &[(L2BusBusy, busy + cycles), (L2BusBusyRead, 0)]);
    }
}

/// Lines 32 KiB apart are in one set of the data cache, of two ways, and each in a set of the L2.
const APART: u64 = 32 << 10;

/// AMD 22007E, event 7Ah. A line is 8 transfers of 8 bytes: it comes up in 8 cycles, and the victim goes
/// down in 8 more.
#[test]
fn fills_wait_for_the_bus() {
    let mut machine = Machine::new(&K7, 1);
    for number in 0..6 {
        machine.time += 1000;
        machine.load(0, number * APART);
    }
    // Nobody waited: what came from memory did not use the bus, and the victims had it alone.
    machine.expect(0, &[(StallL2FillWait, 0), (L2BusBusy, 4 * 8), (L2BusBusyRead, 0)]);
    // Lines 0 to 3 are in the L2. The first has the bus at once: it is in use from 10000 to 10016.
    machine.time = 10_000;
    machine.load(0, 0);
    machine.expect(0, &[(StallL2FillWait, 0), (L2BusBusyRead, 8)]);
    // The next waits from 10006 to 10016, and has it until 10032.
    machine.time = 10_006;
    machine.load(0, APART);
    machine.expect(0, &[(StallL2FillWait, 10)]);
    // The third waits from 10010 to 10032, the first 6 of these cycles together with the second.
    machine.time = 10_010;
    machine.load(0, 2 * APART);
    machine.expect(0, &[(StallL2FillWait, 10 + 16), (L2BusBusyRead, 24)]);
    // In use until 10048, and free then.
    machine.time = 10_048;
    machine.load(0, 3 * APART);
    machine.expect(0, &[(StallL2FillWait, 10 + 16)]);
}
