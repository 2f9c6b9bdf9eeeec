//! Lines on their way: by hand, and random programs that prefetch much in few lines and few places, against the
//! slow model, which has a list of what was asked for until when.

use super::generated::{Random, compare_cycles, compare_lines, compare_step, signals_of_caches};
use super::oracle::Oracle;
use super::*;
use crate::part::bus;
use pmu_model::Signal::*;

const X: u64 = 0x1_0000;
const Y: u64 = 0x2_0000;
/// Cycles of a line from memory, whose page is closed: a command, 140 there, row and column address of 16
/// each, 100 back, the first data.
const MEMORY: u64 = 1 + 140 + 32 + 100 + 1;
/// Cycles of a line from the second level.
const SECOND_LEVEL: u64 = 23;

/// Two cores of four threads with the memory of Knights Corner behind them.
fn machine() -> Machine {
    let mut machine = Machine::with_threads(&KNC, 8, 4);
    machine.bus = Bus::new(&bus::KNC, 8, std::slice::from_ref(&(0..1 << 30)));
    machine
}

impl Machine {
    fn prefetch_at(&mut self, time: u64, processor: usize, physical: u64, hint: Hint) -> u64 {
        self.time = time;
        let memory = MemoryType::WriteBack;
        self.run(|caches, context| caches.prefetch(context, processor, physical, hint, memory))
    }

    fn load_at(&mut self, time: u64, processor: usize, physical: u64) -> u64 {
        self.time = time;
        self.load(processor, physical)
    }

    fn store_at(&mut self, time: u64, processor: usize, physical: u64) -> u64 {
        self.time = time;
        self.store(processor, physical)
    }
}

/// How far a prefetch is ahead of its use is how much of the latency is hidden.
#[test]
fn an_access_waits_for_the_rest_of_the_way() {
    for ahead in [0, 1, 100, SECOND_LEVEL + MEMORY - 1, SECOND_LEVEL + MEMORY, 1000] {
        let mut machine = machine();
        let cycles = machine.prefetch_at(50, 0, X, Hint::T0);
        assert_eq!(cycles, SECOND_LEVEL + MEMORY);
        let rest = (SECOND_LEVEL + MEMORY).saturating_sub(ahead);
        assert_eq!(machine.load_at(50 + ahead, 2, X + 8), rest, "{ahead} cycles ahead");
        machine.expect(2, &[(PrefetchL1HitInflight, u64::from(rest != 0)), (L1dAccess, 1)]);
        machine.expect(2, &[(L1dMiss, 0), (L2TagRead, 0), (PrefetchL2HitInflight, 0)]);
    }
}

/// Each thread that comes too early waits, and is counted; a store as well. Whoever comes later does not.
#[test]
fn every_thread_waits() {
    let mut machine = machine();
    machine.prefetch_at(0, 0, X, Hint::Write);
    assert_eq!(machine.load_at(97, 0, X), 200);
    assert_eq!(machine.store_at(197, 1, X), 100);
    assert_eq!(machine.load_at(287, 2, X), 10);
    assert_eq!(machine.load_at(297, 3, X), 0);
    for (thread, waits) in [1, 1, 1, 0].into_iter().enumerate() {
        machine.expect(thread, &[(PrefetchL1HitInflight, waits), (L1dMiss, 0)]);
    }
    // Written by a store that waited, it is Modified.
    machine.expect(1, &[(L1dStoreHitOwned, 0)]);
    assert_eq!(machine.store_at(298, 1, X), 0);
    machine.expect(1, &[(L1dStoreHitOwned, 1), (PrefetchL1HitInflight, 1)]);
}

/// An instruction that reads and writes, or reads several elements of a line, waits once.
#[test]
fn an_instruction_waits_once() {
    let mut machine = machine();
    machine.prefetch_at(0, 0, X, Hint::Write);
    machine.time = 100;
    let access = plain(X, 8);
    let cycles = machine.run(|caches, context| caches.modify(context, 1, &access));
    assert_eq!(cycles, SECOND_LEVEL + MEMORY - 100);
    machine.expect(1, &[(PrefetchL1HitInflight, 1), (L1dAccess, 2), (L1dStoreHitOwned, 1)]);
}

/// "A prefetch and a demand to one address" are two misses of the second level; a line that has come is a hit.
#[test]
fn a_line_on_its_way_into_the_second_level() {
    let mut machine = machine();
    assert_eq!(machine.prefetch_at(0, 0, X, Hint::T1), MEMORY);
    machine.expect(0, &[(PrefetchL2Miss, 1), (L2MissRead, 1), (L2MissLoadFromMemory, 1)]);
    assert_eq!(machine.load_at(74, 1, X), SECOND_LEVEL + MEMORY - 74);
    machine.expect(1, &[(PrefetchL2HitInflight, 1), (PrefetchL1HitInflight, 0)]);
    machine.expect(1, &[(L1dMissLoad, 1), (L2MissRead, 1), (L2MissLoadFromMemory, 0)]);
    machine.prefetch_at(1_000, 2, Y, Hint::WriteT1);
    assert_eq!(machine.store_at(1_000 + MEMORY - 1, 3, Y), SECOND_LEVEL + 1);
    machine.expect(3, &[(PrefetchL2HitInflight, 1), (L1dMissStore, 1), (L2WriteHit, 0)]);
    machine.prefetch_at(2_000, 0, X + Y, Hint::T2);
    assert_eq!(machine.load_at(2_000 + MEMORY, 1, X + Y), SECOND_LEVEL);
    machine.expect(1, &[(PrefetchL2HitInflight, 1), (L2RequestReadExclusive, 1), (L2MissRead, 1)]);
}

/// "If the address matches another request": a prefetch instruction's of the core.
#[test]
fn the_core_drops_what_is_asked_for() {
    let mut machine = machine();
    machine.prefetch_at(0, 0, X, Hint::T0);
    machine.prefetch_at(0, 0, Y, Hint::T1);
    for (line, hint) in [(X, Hint::NonTemporal), (Y, Hint::T0), (Y, Hint::Write)] {
        machine.prefetch_at(9, 1, line, hint);
    }
    machine.expect(1, &[(PrefetchL1, 3), (PrefetchL1Dropped, 3), (PrefetchL1Miss, 0)]);
    for line in [X, Y] {
        machine.prefetch_at(9, 2, line, Hint::T1);
    }
    machine.expect(2, &[(PrefetchL2SeenByL1, 2), (PrefetchL2, 0), (PrefetchL2Dropped, 0)]);
    // Once it has come, it is found.
    machine.prefetch_at(1_000, 3, X, Hint::T0);
    machine.prefetch_at(1_000, 3, Y, Hint::T2);
    machine.expect(3, &[(PrefetchL1, 1), (PrefetchL1Dropped, 0), (PrefetchL1Miss, 0)]);
    machine.expect(3, &[(PrefetchL2, 1), (PrefetchL2Miss, 0), (PrefetchL2Dropped, 0)]);
    // The other core has requests of its own.
    machine.prefetch_at(1_000, 0, X + Y, Hint::T0);
    machine.prefetch_at(1_001, 4, X + Y, Hint::T0);
    machine.expect(4, &[(PrefetchL1Miss, 1), (PrefetchL1Dropped, 0)]);
}

/// Of the hardware prefetcher's requests the core does not know.
#[test]
fn the_second_level_drops_what_its_prefetcher_has_asked_for() {
    let mut machine = machine();
    machine.load_at(0, 0, X);
    machine.load_at(1_000, 0, X + 64);
    machine.expect(0, &[(HwPrefetchL2Miss, 1)]);
    machine.prefetch_at(1_010, 1, X + 128, Hint::T1);
    machine.expect(1, &[(PrefetchL2, 1), (PrefetchL2Dropped, 1), (PrefetchL2Miss, 0)]);
    // The data cache asks for it, and waits with who asked first.
    let rest = machine.prefetch_at(1_010, 2, X + 128, Hint::T0);
    assert!((SECOND_LEVEL + 1..SECOND_LEVEL + MEMORY).contains(&rest));
    machine.expect(2, &[(PrefetchL1Dropped, 0), (PrefetchL1Miss, 1), (PrefetchL1L2Miss, 1)]);
    assert_eq!(machine.load_at(1_020, 3, X + 128), rest - 10);
    machine.expect(3, &[(PrefetchL1HitInflight, 1), (PrefetchL2HitInflight, 0)]);
}

/// Eight at once into the data cache; the ninth is asked for when the first has come.
#[test]
fn a_prefetch_waits_for_a_place() {
    // In sets of their own.
    const STRIDE: u64 = 4096 + 128;
    let mut machine = machine();
    // In the second level, so that each takes as long.
    for n in 0..20 {
        machine.load_at(1_000 * n, 0, X + STRIDE * n);
        let at = X + STRIDE * n;
        machine.run(|caches, context| caches.evict(context, 0, at, false));
    }
    let start = 100_000;
    for n in 0..20 {
        let cycles = machine.prefetch_at(start + n, 0, X + STRIDE * n, Hint::T0);
        // The first eight come at 23 to 30, the next 23 cycles after each of these.
        let come = n % 8 + SECOND_LEVEL * (n / 8 + 1);
        assert_eq!(cycles, come - n, "{n}");
    }
    machine.expect(0, &[(PrefetchL1Miss, 20), (PrefetchL1Dropped, 0)]);
    assert_eq!(machine.load_at(start + 20, 1, X + STRIDE * 19), 3 + 3 * SECOND_LEVEL - 20);
}

/// Thirty-eight into the second level; what is one too many it drops.
#[test]
fn the_second_level_drops_what_has_no_place() {
    let mut machine = machine();
    for n in 0..40 {
        machine.prefetch_at(n, 0, X + 4096 * n, Hint::T1);
    }
    machine.expect(0, &[(PrefetchL2, 40), (PrefetchL2Miss, 38), (PrefetchL2Dropped, 2)]);
    machine.prefetch_at(2_000, 0, X + 4096 * 39, Hint::T1);
    machine.expect(0, &[(PrefetchL2, 41), (PrefetchL2Miss, 39), (PrefetchL2Dropped, 2)]);
}

/// Nobody waits for what another core, or an eviction, has taken.
#[test]
fn what_has_left_is_not_waited_for() {
    let mut machine = machine();
    machine.prefetch_at(0, 0, X, Hint::T0);
    machine.prefetch_at(0, 0, Y, Hint::T1);
    machine.store_at(10, 4, X);
    machine.store_at(10, 4, Y);
    assert_eq!(machine.load_at(20, 0, X), 250);
    assert_eq!(machine.load_at(21, 0, Y), 250);
    machine.expect(0, &[(L1dMissLoad, 2), (PrefetchL1HitInflight, 0), (PrefetchL2HitInflight, 0)]);
    machine.prefetch_at(1_000, 0, X + Y, Hint::T0);
    machine.run(|caches, context| caches.evict(context, 0, X + Y, false));
    assert_eq!(machine.load_at(1_010, 0, X + Y), SECOND_LEVEL);
    machine.expect(0, &[(PrefetchL1HitInflight, 0)]);
}

/// Code does not wait, and what waits for nothing is counted as ever.
#[test]
fn others_do_not_wait() {
    let mut machine = machine();
    machine.prefetch_at(0, 0, X, Hint::T1);
    machine.time = 10;
    assert_eq!(machine.fetch(1, X), SECOND_LEVEL);
    machine.expect(1, &[(L2RequestReadExclusive, 1), (PrefetchL2HitInflight, 0)]);
    machine.prefetch_at(1_000, 0, Y, Hint::T0);
    machine.store_at(1_000, 0, X);
    assert_eq!(machine.store_at(1_001, 0, X), 0);
    machine.expect(0, &[(PrefetchL1HitInflight, 0)]);
}

/// Random programs of eight threads in few lines, half of which is prefetches. What is on its way is taken by
/// other cores, evicted and displaced, and threads lag behind others.
#[test]
fn what_is_on_its_way_is_what_a_list_says() {
    let waits =
        [PrefetchL1HitInflight, PrefetchL2HitInflight, PrefetchL1Dropped, PrefetchL2Dropped];
    let signals = signals_of_caches();
    for (data, second_level) in [(1, 1), (2, 3), (8, 38)] {
        let array = |sets, ways| ArrayGeometry { sets, ways, replacement: Replacement::Lru };
        let geometry = CacheGeometry {
            code: array(2, 2),
            data: array(4, 4),
            second_level: KNC.second_level.map(|it| SecondLevel { array: array(4, 8), ..it }),
            prefetch_fills: PrefetchFills { data, second_level },
            ..KNC
        };
        let geometry: &'static CacheGeometry = Box::leak(Box::new(geometry));
        let mut random = Random(0xF111_0000 + data as u64);
        let mut machine = Machine::with_threads(geometry, 8, 4);
        let mut oracle = Oracle::new(geometry, 8, 4);
        let bus = Bus::new(&bus::KNC, 8, std::slice::from_ref(&(0..1 << 30)));
        (machine.bus, oracle.bus) = (bus.clone(), bus);
        let mut time = 0;
        for number in 0..20_000 {
            time += random.next(if number / 100 % 2 == 0 { 4 } else { 60 });
            let lag = if random.next(3) == 0 { random.next(200) } else { 0 };
            machine.time = time - lag.min(time);
            let p = random.next(8) as usize;
            machine.caches.choose(p);
            oracle.acts(p, machine.time);
            let at = 64 * random.next(50);
            let memory = MemoryType::WriteBack;
            let access = plain(at + random.next(60), 8);
            let hints = [Hint::T0, Hint::T0, Hint::T1, Hint::T1, Hint::Write, Hint::WriteT1];
            let hint = hints[random.next(6) as usize];
            let what = random.next(40);
            match what {
                0..20 => {
                    machine.run(|caches, context| caches.prefetch(context, p, at, hint, memory));
                    oracle.prefetch(p, at, hint, memory);
                }
                20..29 => {
                    let cycles = machine.run(|caches, context| caches.load(context, p, &access));
                    oracle.load(p, &access);
                    compare_cycles(&oracle, &access, cycles);
                }
                29..33 => {
                    let cycles = machine.run(|caches, context| caches.store(context, p, &access));
                    oracle.store(p, &access);
                    compare_cycles(&oracle, &access, cycles);
                }
                33..35 => {
                    let cycles = machine.run(|caches, context| caches.modify(context, p, &access));
                    oracle.modify(p, &access);
                    compare_cycles(&oracle, &access, cycles);
                }
                35 => {
                    let own = |caches: &mut Caches, context: &mut Context<'_>| {
                        caches.walk_read(context, p, at, 8, memory)
                    };
                    let cycles = machine.run(own);
                    oracle.walk_read(p, at, memory);
                    compare_cycles(&oracle, &access, cycles);
                }
                36 => {
                    let second_level = random.next(2) == 0;
                    machine.run(|caches, context| caches.evict(context, p, at, second_level));
                    oracle.evict(p, at, second_level);
                }
                37 => {
                    machine.run(|caches, context| caches.device_write(context, at, 8));
                    oracle.device(at, 8, true);
                }
                38 => {
                    let fetch = Fetch { physical: at, bytes: 4, sequential: false, memory };
                    machine.run(|caches, context| caches.fetch(context, p, &fetch));
                    oracle.fetch(p, &fetch);
                }
                _ if random.next(50) == 0 => {
                    machine.run(|caches, context| caches.write_back_and_invalidate(context, p));
                    oracle.write_back_all(p);
                }
                _ => {}
            }
            let what = format!("step {number} with {data} places, {what} of {p} at {at:#x}");
            compare_step(&mut machine, &mut oracle, &signals, &what);
            compare_lines(&machine, &oracle, &what);
        }
        for signal in waits {
            let fired: u64 = (0..8).map(|p| machine.count(p, signal)).sum();
            assert!(fired > 30, "{signal:?} was fired {fired} times with {data} places");
        }
    }
}
