//! Random programs on one, two and four processors, or on as many cores of several, against the slow model.

use super::oracle::{Array as SlowArray, Oracle, Sent};
use super::*;
use crate::bus::Transaction;
use crate::part::bus;
use std::collections::BTreeMap;

/// Numbers that look random (Marsaglia, "Xorshift RNGs").
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

const HINTS: [Hint; 8] = [
    Hint::T0,
    Hint::T1,
    Hint::T2,
    Hint::NonTemporal,
    Hint::Write,
    Hint::WriteT1,
    Hint::WriteT2,
    Hint::WriteNonTemporal,
];

/// The signals of this module, by the beginnings of their names. The rest is the bus's.
pub(super) fn signals_of_caches() -> Vec<Signal> {
    const BEGINNINGS: [&str; 12] = [
        "l1d_",
        "l1i_",
        "l2_",
        "snoop_",
        "system_",
        "uncached_",
        "wc_",
        "weak_",
        "soft_prefetch",
        "hw_prefetch",
        "prefetch_l",
        "flush_probe",
    ];
    let is_of_caches =
        |signal: &Signal| BEGINNINGS.iter().any(|beginning| signal.name().starts_with(beginning));
    Signal::ALL.iter().copied().filter(is_of_caches).collect()
}

/// Where a program reads and writes: some lines that all processors use, in few sets of each cache, and
/// sequences for the prefetcher.
fn address(random: &mut Random, geometry: &CacheGeometry, conflicts: u64) -> u64 {
    let line = u64::from(geometry.line);
    let sets = |array: &ArrayGeometry| u64::from(array.sets);
    let strides = [
        sets(&geometry.data),
        sets(&geometry.code),
        geometry.second_level.map_or(64, |second| sets(&second.array)),
    ];
    let stride = strides[random.next(3) as usize];
    let number = random.next(conflicts) * stride + random.next(4);
    number * line + random.next(line)
}

/// One random operation, performed by both.
fn step(
    random: &mut Random,
    machine: &mut Machine,
    oracle: &mut Oracle,
    conflicts: u64,
    recent: &mut [u64; 4],
) -> String {
    let geometry = machine.caches.geometry;
    let p = random.next(oracle.counts.len() as u64) as usize;
    machine.caches.choose(p);
    oracle.acts(p, machine.time);
    let line = u64::from(geometry.line);
    let physical = match random.next(8) {
        // On from the last address, line by line up or down.
        0 => recent[0] + line,
        1 if recent[0] > line => recent[0] - line,
        // One of those used shortly before, which the fast paths are for.
        2..=4 => recent[random.next(4) as usize],
        _ => address(random, geometry, conflicts),
    };
    recent.rotate_right(1);
    recent[0] = physical;
    let memory = match random.next(24) {
        0 => MemoryType::Uncacheable,
        1 => MemoryType::WriteCombining,
        _ => MemoryType::WriteBack,
    };
    // WT and WP memory is elsewhere, as no line of it can be written in a cache.
    let (physical, memory) = match random.next(12) {
        0 => (physical | 1 << 41, MemoryType::WriteThrough),
        1 => (physical | 1 << 42, MemoryType::WriteProtected),
        _ => (physical, memory),
    };
    let kind = [Kind::Plain, Kind::Plain, Kind::Mmx, Kind::Vector][random.next(4) as usize];
    let bytes = [1, 2, 4, 8, 10, 16][random.next(6) as usize];
    let access = Access { physical, bytes, kind, memory };
    let locked = Access { kind: Kind::Locked, ..access };
    let streaming = Access { kind: Kind::NonTemporal, physical: physical & !7, bytes: 8, memory };
    let kind = Kind::NoRead { ordered: random.next(2) == 0 };
    let no_read = match random.next(4) {
        // Two halves of lines, and half of one.
        0 => Access { kind, bytes: geometry.line, physical: physical & !7, memory },
        1 => Access { kind, bytes: geometry.line / 2, physical: physical & !31, memory },
        _ => Access {
            kind,
            bytes: geometry.line,
            physical: physical & !u64::from(geometry.line - 1),
            memory,
        },
    };
    let fetch = Fetch {
        physical,
        bytes: 1 + random.next(40) as u32,
        sequential: random.next(2) == 0,
        memory,
    };
    let hint = HINTS[random.next(HINTS.len() as u64) as usize];
    let what = random.next(100);
    match what {
        0..30 => {
            let cycles = machine.run(|caches, context| caches.load(context, p, &access));
            oracle.load(p, &access);
            compare_cycles(oracle, &access, cycles);
        }
        30..46 => {
            let cycles = machine.run(|caches, context| caches.store(context, p, &access));
            oracle.store(p, &access);
            compare_cycles(oracle, &access, cycles);
        }
        46..50 => {
            machine.run(|caches, context| caches.store(context, p, &no_read));
            oracle.store(p, &no_read);
        }
        50..54 => {
            machine.run(|caches, context| caches.modify(context, p, &access));
            oracle.modify(p, &access);
        }
        54..58 => {
            machine.run(|caches, context| caches.modify(context, p, &locked));
            oracle.modify(p, &locked);
        }
        58..62 => {
            machine.run(|caches, context| caches.store(context, p, &streaming));
            oracle.store(p, &streaming);
        }
        62..80 => {
            machine.run(|caches, context| caches.fetch(context, p, &fetch));
            oracle.fetch(p, &fetch);
        }
        80..84 => {
            let at = physical & !7;
            machine.run(|caches, context| caches.walk_read(context, p, at, 8, memory));
            oracle.walk_read(p, at, memory);
        }
        84..86 => {
            let at = physical & !7 & !(3 << 41);
            let memory = MemoryType::WriteBack;
            machine.run(|caches, context| caches.walk_write(context, p, at, 8, memory));
            oracle.walk_write(p, at);
        }
        86..92 => {
            machine.run(|caches, context| caches.prefetch(context, p, physical, hint, memory));
            oracle.prefetch(p, physical, hint, memory);
        }
        92 => {
            machine.run(|caches, context| caches.flush(context, p, physical));
            oracle.flush(p, physical);
        }
        93 => {
            let second_level = random.next(2) == 0;
            machine.run(|caches, context| caches.evict(context, p, physical, second_level));
            oracle.evict(p, physical, second_level);
        }
        94 => {
            machine.run(|caches, context| caches.drain_write_combining(context, p));
            oracle.drain(p);
        }
        95..99 => {
            let bytes = 1 + random.next(2 * u64::from(geometry.line)) as u32;
            let whole = random.next(2) == 0;
            let (physical, bytes) = match whole {
                true => (physical & !u64::from(geometry.line - 1), geometry.line),
                false => (physical, bytes),
            };
            let write = random.next(2) == 0;
            machine.run(|caches, context| match write {
                true => caches.device_write(context, physical, bytes),
                false => caches.device_read(context, physical, bytes),
            });
            oracle.device(physical, bytes, write);
        }
        _ => match random.next(40) {
            0 => {
                machine.run(|caches, context| caches.write_back_and_invalidate(context, p));
                oracle.write_back_all(p);
            }
            1 => {
                machine.run(|caches, context| caches.invalidate(context, p));
                oracle.drop_all(p);
            }
            _ => {}
        },
    }
    format!("{what} of {p}: {access:?} {no_read:?} {fetch:?} {hint:?}")
}

/// How long an access took, where the slow model says that.
pub(super) fn compare_cycles(oracle: &Oracle, access: &Access, cycles: u64) {
    let g = &oracle.g;
    if access.memory == MemoryType::WriteBack && g.write_allocate {
        assert_eq!(cycles, oracle.cycles, "{access:?} at {}", oracle.time);
    }
}

/// What both have sent since the last comparison, and how often each has fired each signal.
pub(super) fn compare_step(
    machine: &mut Machine,
    oracle: &mut Oracle,
    signals: &[Signal],
    what: &str,
) {
    let sent: Vec<Sent> = machine
        .caches
        .sent
        .drain(..)
        .map(|it| {
            let Transaction {
                processor, request, physical, bytes, locked, snoop, on_board, ..
            } = it;
            (processor, request, physical, bytes, locked, snoop, on_board)
        })
        .collect();
    assert_eq!(sent, std::mem::take(&mut oracle.sent), "{what}");
    for (p, expected) in oracle.counts.iter().enumerate() {
        let fired = machine.processors[p].occurrences.fired();
        for &signal in signals {
            let expected = expected[signal.index()];
            assert_eq!(fired[signal.index()], expected, "{signal:?} of {p}, after {what}");
        }
    }
}

/// The lines of both, and what has to hold of them.
pub(super) fn compare_lines(machine: &Machine, oracle: &Oracle, what: &str) {
    let caches = &machine.caches;
    let mut holders: BTreeMap<u64, Vec<(usize, LineState)>> = BTreeMap::new();
    let seconds = oracle.cores.first_threads().into_iter().map(|p| oracle.cores[p].second.as_ref());
    let held: Vec<_> = seconds.map(|second| second.map_or(Vec::new(), SlowArray::lines)).collect();
    let each =
        held.iter().enumerate().flat_map(|(core, held)| held.iter().map(move |it| (core, it)));
    let directory = tag_directory::of(caches.geometry, held.len(), each);
    assert!(caches.directory == directory, "directory, after {what}");
    for p in oracle.cores.first_threads() {
        let core = &oracle.cores[p];
        let code: Vec<Line> = caches.code_lines(p).collect();
        let data: Vec<Line> = caches.data_lines(p).collect();
        let second: Vec<Line> = caches.second_level_lines(p).collect();
        assert_eq!(code, core.code.lines(), "code of {p}, after {what}");
        assert_eq!(data, core.data.lines(), "data of {p}, after {what}");
        let expected = core.second.as_ref().map_or(Vec::new(), SlowArray::lines);
        assert_eq!(second, expected, "second level of {p}, after {what}");
        let waiting = caches.processors[p].write_combining.waiting();
        let waiting: Vec<(u64, usize, bool)> = waiting
            .iter()
            .map(|it| (it.line, it.bytes.count_ones() as usize, it.streaming))
            .collect();
        let expected: Vec<(u64, usize, bool)> =
            core.combining.iter().map(|it| (it.0, it.1.len(), it.2)).collect();
        assert_eq!(waiting, expected, "buffers of {p}, after {what}");

        let mut states: BTreeMap<u64, LineState> = BTreeMap::new();
        for line in code.iter().chain(&data).chain(&second) {
            let state = states.entry(line.number).or_default();
            *state = line.state.max(*state);
        }
        for (line, state) in states {
            holders.entry(line).or_default().push((p, state));
        }
        let numbers = |lines: &[Line]| -> Vec<u64> { lines.iter().map(|it| it.number).collect() };
        let (in_code, in_data, in_second) = (numbers(&code), numbers(&data), numbers(&second));
        match caches.inclusion() {
            Some(Inclusion::Inclusive) => assert!(
                in_code.iter().chain(&in_data).all(|line| in_second.contains(line)),
                "not inclusive after {what}"
            ),
            Some(Inclusion::Exclusive) => assert!(
                in_code.iter().chain(&in_data).all(|line| !in_second.contains(line)),
                "not exclusive after {what}"
            ),
            None => {}
        }
        let both = in_code.iter().filter(|line| in_data.contains(line)).count();
        match caches.geometry.code_and_data {
            CodeAndData::OneCache => assert_eq!(both, 0, "in both after {what}"),
            CodeAndData::BothCaches => assert!(
                code.iter().all(|line| line.state == LineState::Shared),
                "code not Shared after {what}"
            ),
        }
        for line in &code {
            assert!(!line.state.is_dirty());
        }
    }
    for (line, holders) in holders {
        let states: Vec<LineState> = holders.iter().map(|holder| holder.1).collect();
        let owners = states.iter().filter(|state| state.is_sole()).count();
        let answerers = states.iter().filter(|state| state.is_dirty()).count();
        assert!(owners == 0 || states.len() == 1, "{line:#x}: {holders:?} after {what}");
        assert!(answerers <= 1, "{line:#x}: {holders:?} after {what}");
        if caches.geometry.protocol == Protocol::Mesi {
            assert!(!states.contains(&LineState::Owned), "{line:#x}: Owned with MESI");
        }
    }
}

fn run(
    name: &str,
    geometry: &'static CacheGeometry,
    (cores, threads): (usize, usize),
    steps: usize,
    conflicts: u64,
    seed: u64,
) {
    let mut random = Random(seed);
    let processors = cores * threads;
    let mut machine = Machine::with_threads(geometry, processors, threads);
    let mut oracle = Oracle::new(geometry, processors, threads);
    let signals = signals_of_caches();
    let mut recent = [0; 4];
    if geometry.prefetch_fills != PrefetchFills::AT_ONCE {
        let bus = Bus::new(&bus::KNC, processors, std::slice::from_ref(&(0..1 << 36)));
        (machine.bus, oracle.bus) = (bus.clone(), bus);
    }
    let mut time = 0;
    // Reading all lines of a big cache takes longer than many steps.
    let lines = geometry.second_level.map_or(0, |second| second.array.sets * second.array.ways);
    let every = if lines > 1024 { 1000 } else { 20 };
    for number in 0..steps {
        // Now and then one lags behind the others, or nothing happens for long.
        let pause = if random.next(50) == 0 { 1_000 } else { 30 };
        time += random.next(pause);
        machine.time =
            if random.next(4) == 0 { time.saturating_sub(random.next(100)) } else { time };
        let what = step(&mut random, &mut machine, &mut oracle, conflicts, &mut recent);
        let what = format!("step {number} of {name} ({processors}), {what}");
        compare_step(&mut machine, &mut oracle, &signals, &what);
        if number % every == 0 || number + 1 == steps {
            compare_lines(&machine, &oracle, &what);
        }
    }
}

#[test]
fn every_part_does_what_the_definition_says() {
    for (name, geometry) in PARTS {
        for (cores, seed) in [(1, 0x1234_5678), (2, 0x9E37_79B9), (4, 0xDEAD_BEEF)] {
            run(name, geometry, (cores, 1), 6000, 20, seed);
        }
    }
}

/// Four threads a core.
#[test]
fn cores_with_threads_do_what_the_definition_says() {
    for (cores, seed) in [(1, 0x1234_5678), (2, 0x9E37_79B9), (4, 0xDEAD_BEEF)] {
        run("knc", &KNC, (cores, 4), 12_000, 20, seed);
    }
}

/// Small caches of all policies, so that lines are displaced all the time.
#[test]
fn small_caches_do_what_the_definition_says() {
    for (name, geometry) in PARTS {
        for replacement in [Replacement::Lru, Replacement::TreePseudoLru] {
            for (sets, ways) in [(2, 1), (2, 2), (4, 4), (2, 8)] {
                let array = |sets, ways| ArrayGeometry { sets, ways, replacement };
                let second_level = geometry
                    .second_level
                    .map(|second| SecondLevel { array: array(2 * sets, 2 * ways), ..second });
                let small = CacheGeometry {
                    code: array(sets, ways),
                    data: array(sets, ways),
                    second_level,
                    ..*geometry
                };
                let small: &'static CacheGeometry = Box::leak(Box::new(small));
                for cores in [(1, 1), (2, 1), (4, 1), (1, 4), (2, 2), (3, 4)] {
                    let seed = 0xC0FF_EE00 + u64::from(sets * 100 + ways);
                    run(name, small, cores, 1000, 8, seed);
                }
            }
        }
    }
}

/// A few lines of one set, read and written again and again in all ways that are shorter for what was used
/// last: what is skipped there must not have mattered.
#[test]
fn what_was_used_last_is_not_looked_up_and_nothing_changes() {
    let memory = MemoryType::WriteBack;
    for (name, geometry) in PARTS {
        for replacement in [Replacement::Lru, Replacement::TreePseudoLru] {
            let array = |sets, ways| ArrayGeometry { sets, ways, replacement };
            let second_level =
                geometry.second_level.map(|second| SecondLevel { array: array(4, 4), ..second });
            let small =
                CacheGeometry { code: array(2, 2), data: array(2, 4), second_level, ..*geometry };
            let small: &'static CacheGeometry = Box::leak(Box::new(small));
            let signals = signals_of_caches();
            let mut random = Random(0xACCE_55ED);
            let mut machine = Machine::new(small, 2);
            let mut oracle = Oracle::new(small, 2, 1);
            for number in 0..10_000 {
                let p = usize::from(random.next(8) == 0);
                let line = 2 * random.next(6) + u64::from(random.next(10) == 0);
                let physical = line * u64::from(small.line);
                let access = plain(physical, 8);
                let fetch = Fetch { physical, bytes: 4, sequential: true, memory };
                let hint = if random.next(2) == 0 { Hint::T0 } else { Hint::T1 };
                machine.time += random.next(20);
                oracle.acts(p, machine.time);
                let what = random.next(20);
                machine.run(|caches, context| match what {
                    0..8 => caches.load(context, p, &access),
                    8..11 => caches.store(context, p, &access),
                    11..14 => caches.prefetch(context, p, physical, hint, memory),
                    14..16 => caches.walk_read(context, p, physical, 8, memory),
                    16 => caches.walk_write(context, p, physical, 8, memory),
                    _ => caches.fetch(context, p, &fetch),
                });
                match what {
                    0..8 => oracle.load(p, &access),
                    8..11 => oracle.store(p, &access),
                    11..14 => oracle.prefetch(p, physical, hint, memory),
                    14..16 => oracle.walk_read(p, physical, memory),
                    16 => oracle.walk_write(p, physical),
                    _ => oracle.fetch(p, &fetch),
                }
                let what = format!("step {number} of {name}, {what} of {p} at {physical:#x}");
                compare_step(&mut machine, &mut oracle, &signals, &what);
                if number % 8 == 0 {
                    compare_lines(&machine, &oracle, &what);
                }
            }
        }
    }
}

/// Misses that the second level answers, of a program that mostly does nothing else, or the system where there is none;
/// and among them all that such a miss must not be taken for one: a line that is shared, that the instruction cache has,
/// that is on its way or to be used once, a victim that goes further than the second level, a way whose line a probe has
/// taken.
#[test]
fn misses_of_the_data_cache_alone_take_a_short_way_and_nothing_changes() {
    for (name, geometry) in PARTS {
        let mut refills = [0; 2];
        for (seed, replacement) in
            [(0x0DDB_A11, Replacement::Lru), (0xFEED_F00D, Replacement::TreePseudoLru)]
        {
            for (sets, ways) in [(1, 2), (2, 4), (1, 8), (4, 1), (1, 16)] {
                let array = |sets, ways| ArrayGeometry { sets, ways, replacement };
                // A little more of it than the program uses.
                let second_level = geometry
                    .second_level
                    .map(|second| SecondLevel { array: array(8, 8), ..second });
                let small = CacheGeometry {
                    code: array(2, 2),
                    data: array(sets, ways),
                    second_level,
                    ..*geometry
                };
                let small: &'static CacheGeometry = Box::leak(Box::new(small));
                let run = short_ways(name, small, seed + u64::from(ways));
                (refills[0], refills[1]) = (refills[0] + run[0], refills[1] + run[1]);
            }
        }
        let least = [10_000, 2_000];
        assert!(refills[0] >= least[0] && refills[1] >= least[1], "{name}: {refills:?}");
    }
}

/// How many misses of loads and of stores have gone the short way.
fn short_ways(name: &str, geometry: &'static CacheGeometry, seed: u64) -> [u64; 2] {
    let memory = MemoryType::WriteBack;
    let signals = signals_of_caches();
    let mut random = Random(seed);
    let mut machine = Machine::new(geometry, 2);
    let mut oracle = Oracle::new(geometry, 2, 1);
    if geometry.prefetch_fills != PrefetchFills::AT_ONCE {
        let bus = Bus::new(&bus::KNC, 2, std::slice::from_ref(&(0..1 << 36)));
        (machine.bus, oracle.bus) = (bus.clone(), bus);
    }
    for number in 0..4_000 {
        // The other processor does something now and then, and once for a while.
        let is_other = random.next(60) == 0 || (2_000..2_100).contains(&number);
        let p = usize::from(is_other);
        machine.caches.choose(p);
        // Seldom neighbours, of which a prefetcher would make something.
        let line = random.next(48) * 7 % 64 + 64 * u64::from(random.next(200) == 0);
        let at = line * u64::from(geometry.line) + random.next(u64::from(geometry.line));
        let bytes = [1, 4, 8][random.next(3) as usize];
        let kind = [Kind::Plain, Kind::Plain, Kind::Mmx, Kind::Vector][random.next(4) as usize];
        let access = Access { physical: at, bytes, kind, memory };
        let locked = Access { kind: Kind::Locked, ..access };
        let fetch = Fetch { physical: at, bytes: 4, sequential: random.next(2) == 0, memory };
        let hint = HINTS[random.next(HINTS.len() as u64) as usize];
        machine.time += random.next(40) + 400 * u64::from(random.next(40) == 0);
        oracle.acts(p, machine.time);
        let what = random.next(100);
        let cycles = machine.run(|caches, context| match what {
            0..55 => caches.load(context, p, &access),
            55..80 => caches.store(context, p, &access),
            80..86 => caches.modify(context, p, &access),
            86 => caches.modify(context, p, &locked),
            87..90 => caches.prefetch(context, p, at, hint, memory),
            90..92 => caches.walk_read(context, p, at & !7, 8, memory),
            92 => caches.walk_write(context, p, at & !7, 8, memory),
            93 => {
                caches.flush(context, p, at);
                0
            }
            _ => caches.fetch(context, p, &fetch),
        });
        match what {
            0..55 => oracle.load(p, &access),
            55..80 => oracle.store(p, &access),
            80..86 => oracle.modify(p, &access),
            86 => oracle.modify(p, &locked),
            87..90 => oracle.prefetch(p, at, hint, memory),
            90..92 => oracle.walk_read(p, at & !7, memory),
            92 => oracle.walk_write(p, at & !7),
            93 => oracle.flush(p, at),
            _ => oracle.fetch(p, &fetch),
        }
        if what < 80 {
            compare_cycles(&oracle, &access, cycles);
        }
        let what = format!("step {number} of {name}, {what} of {p}: {access:?} {hint:?}");
        compare_step(&mut machine, &mut oracle, &signals, &what);
        if number % 10 == 0 {
            compare_lines(&machine, &oracle, &what);
        }
    }
    machine.caches.refills
}
