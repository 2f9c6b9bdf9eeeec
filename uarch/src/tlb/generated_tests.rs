//! Generated accesses and invalidations, compared with TLBs written down from the definition: a list of
//! ways for each set, all searched each time, with the policy of replacement in words.

use std::collections::BTreeMap;

use pmu_model::Signal;

use super::Associativity::{Full, Ways};
use super::PageSize::{Kib4, Kib64, Mib2, Mib4};
use super::array::Entry;
use super::{
    ArrayGeometry, FlushFilterGeometry, Held, Lookup, Page, PageSize, Replacement, SecondLevel,
    SideGeometry, TlbGeometry, Tlbs, WalkFrom,
};
use crate::occurrences::Occurrences;
use crate::part::tlbs::{K7, K8, KNC, P6, P55C, PII, PM, PPRO};

/// One set: its ways, and what its policy knows.
#[derive(Default)]
struct Set {
    ways: Vec<Option<Entry>>,
    /// Ways in the order of their last use.
    by_use: Vec<usize>,
    /// For each range of ways that is halved, whether its upper half makes room next.
    upper: BTreeMap<(usize, usize), bool>,
    turn: usize,
}

impl Set {
    fn used(&mut self, way: usize) {
        self.by_use.retain(|&other| other != way);
        self.by_use.push(way);
        let (mut low, mut high) = (0, self.ways.len());
        while high - low > 1 {
            let middle = (low + high) / 2;
            self.upper.insert((low, high), way < middle);
            if way < middle {
                high = middle;
            } else {
                low = middle;
            }
        }
    }

    fn victim(&mut self, policy: Replacement) -> usize {
        match policy {
            Replacement::Lru => self.by_use[0],
            Replacement::PseudoLru => {
                let (mut low, mut high) = (0, self.ways.len());
                while high - low > 1 {
                    let middle = (low + high) / 2;
                    if self.upper.get(&(low, high)).is_some_and(|&upper| upper) {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                low
            }
            Replacement::RoundRobin => {
                self.turn += 1;
                (self.turn - 1) % self.ways.len()
            }
        }
    }
}

/// One array.
struct Plain {
    geometry: &'static ArrayGeometry,
    sets: Vec<Set>,
}

impl Plain {
    fn new(geometry: &'static ArrayGeometry) -> Self {
        let ways = match geometry.associativity {
            Full => usize::from(geometry.entries),
            Ways(ways) => usize::from(ways),
        };
        let set = || Set { ways: vec![None; ways], ..Set::default() };
        let sets = usize::from(geometry.entries) / ways;
        Self { geometry, sets: (0..sets).map(|_| set()).collect() }
    }

    fn place(&self, linear: u64, space: u8) -> Option<(usize, usize)> {
        self.sets.iter().enumerate().find_map(|(at, set)| {
            let way = set.ways.iter().position(|entry| {
                entry.is_some_and(|entry| {
                    linear.wrapping_sub(entry.linear) < entry.size.bytes()
                        && (entry.space == space || entry.page.global)
                })
            });
            way.map(|way| (at, way))
        })
    }

    fn insert(&mut self, linear: u64, page: Page, space: u8) -> Option<Entry> {
        let held = self.geometry.holds.iter().find(|held| held.page == page.size)?;
        let number = linear / held.entry.bytes();
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(number % sets) as usize];
        let way = match set.ways.iter().position(Option::is_none) {
            Some(way) => way,
            None => set.victim(self.geometry.replacement),
        };
        let linear = number * held.entry.bytes();
        set.used(way);
        set.ways[way].replace(Entry { linear, size: held.entry, page, space })
    }

    fn entries(&self) -> Vec<Entry> {
        let ways = self.sets.iter().flat_map(|set| set.ways.iter().copied().flatten());
        unnumbered(ways.collect())
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        for way in self.sets.iter_mut().flat_map(|set| &mut set.ways) {
            *way = way.filter(&keep);
        }
    }
}

/// The TLBs for data or for code.
struct PlainSide {
    levels: [Vec<Plain>; 2],
    second: Option<SecondLevel>,
    missed: [u64; 2],
    /// The address space in force.
    space: u8,
}

impl PlainSide {
    fn new(geometry: &SideGeometry) -> Self {
        let second = geometry.second.map_or(&[][..], |second| second.arrays);
        let level = |arrays: &'static [ArrayGeometry]| arrays.iter().map(Plain::new).collect();
        let levels = [level(geometry.first), level(second)];
        Self { levels, second: geometry.second, missed: [0; 2], space: 0 }
    }

    fn look_up(&mut self, linear: u64) -> Lookup {
        for array in &mut self.levels[0] {
            if let Some((set, way)) = array.place(linear, self.space) {
                array.sets[set].used(way);
                return Lookup::Hit;
            }
        }
        for array in 0..self.levels[1].len() {
            let of = &mut self.levels[1][array];
            let Some((set, way)) = of.place(linear, self.space) else { continue };
            let second = self.second.expect("it has arrays");
            let entry = of.sets[set].ways[way].expect("it is there");
            if second.exclusive {
                of.sets[set].ways[way] = None;
            } else {
                of.sets[set].used(way);
            }
            self.missed[0] += 1;
            self.enter(linear, entry.page, entry.space);
            return Lookup::SecondLevel { latency: second.latency };
        }
        Lookup::Miss
    }

    fn fill(&mut self, linear: u64, page: Page) {
        self.missed[1] += 1;
        let space = if page.global { 0 } else { self.space };
        if self.second.is_some_and(|second| !second.exclusive) {
            for array in &mut self.levels[1] {
                array.insert(linear, page, space);
            }
        }
        self.enter(linear, page, space);
    }

    fn enter(&mut self, linear: u64, page: Page, space: u8) {
        for array in 0..self.levels[0].len() {
            let victim = self.levels[0][array].insert(linear, page, space);
            if let Some(victim) = victim.filter(|_| self.second.is_some_and(|s| s.exclusive)) {
                for array in &mut self.levels[1] {
                    array.insert(victim.linear, victim.page, victim.space);
                }
            }
        }
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool + Copy) {
        for array in self.levels.iter_mut().flatten() {
            array.retain(keep);
        }
    }

    fn entries(&self) -> [Vec<Entry>; 2] {
        self.levels.each_ref().map(|level| {
            let sets = level.iter().flat_map(|array| &array.sets);
            sorted(sets.flat_map(|set| set.ways.iter().copied().flatten()).collect())
        })
    }
}

/// What the flush filter has seen.
enum Seen {
    /// CR3 was loaded.
    Load(u64),
    /// A walk read an entry.
    Read(u64),
    /// Memory was written.
    Write(u64),
}

/// The flush filter: all that it has seen since it began anew, and what that means at a context switch.
struct PlainFilter {
    geometry: FlushFilterGeometry,
    enabled: bool,
    seen: Vec<Seen>,
}

impl PlainFilter {
    fn loads(&self) -> Vec<u64> {
        let mut loads = Vec::new();
        for seen in &self.seen {
            match seen {
                Seen::Load(base) if !loads.contains(base) => loads.push(*base),
                _ => {}
            }
        }
        loads
    }

    /// Whether what the TLBs have is as the tables in memory, and all of it can be kept.
    fn keeps(&self) -> bool {
        let mut blocks = Vec::new();
        for seen in &self.seen {
            match seen {
                Seen::Load(physical) | Seen::Read(physical) => blocks.push(physical / 4096),
                Seen::Write(physical) if blocks.contains(&(physical / 4096)) => return false,
                Seen::Write(_) => {}
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        let spaces = self.loads().len();
        blocks.len() <= self.geometry.blocks.into() && spaces <= self.geometry.address_spaces.into()
    }

    /// CR3 is loaded: whether the TLBs are flushed, and the number of the address space.
    fn load(&mut self, cr3: u64) -> (bool, u8) {
        let base = cr3 / 32 * 32;
        if !self.enabled {
            return (true, 0);
        }
        // The new tables take room for an address space, but no block that is needed already.
        let is_first = self.loads().is_empty();
        let kept = !is_first && self.keeps() && {
            let mut loads = self.loads();
            loads.push(base);
            loads.sort_unstable();
            loads.dedup();
            loads.len() <= self.geometry.address_spaces.into()
        };
        if !kept {
            self.seen.clear();
        }
        self.seen.push(Seen::Load(base));
        let number = self.loads().iter().position(|&known| known == base).expect("it was loaded");
        (!kept, number as u8 + 1)
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| (entry.linear, entry.size.bytes(), entry.space));
    entries
}

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// The page that an address is in. Regions of 4 MiB have pages of one size, by their numbers and by the
/// time since when all was flushed; one in four pages is global.
fn page_of(linear: u64, sizes: &[PageSize], epoch: u64) -> Page {
    let region = (linear >> 22) + epoch;
    let size = sizes[(region % sizes.len() as u64) as usize];
    let number = linear / size.bytes();
    Page { size, global: number.wrapping_mul(0x9E37_79B9) >> 8 & 3 == 0 }
}

/// The threads of a core: for each the page tables that it has loaded, which number its address space.
struct PlainThreads {
    of: Vec<u8>,
    running: usize,
}

impl PlainThreads {
    /// The address space of the running one.
    fn space(&self) -> u8 {
        if self.of.len() == 1 { 0 } else { self.of[self.running] + 1 }
    }

    /// Whether an entry is of tables that some thread has.
    fn has(&self, entry: &Entry) -> bool {
        self.of.len() == 1 || self.of.iter().any(|tables| tables + 1 == entry.space)
    }

    fn cr3(&self, thread: usize) -> u64 {
        u64::from(self.of[thread]) * 4096
    }
}

/// Entries without the numbers of their address spaces, which both choose as they like.
fn unnumbered(entries: Vec<Entry>) -> Vec<Entry> {
    sorted(entries.into_iter().map(|entry| Entry { space: 0, ..entry }).collect())
}

/// Whether both are told the same, fire the same, and hold the same.
fn compare(
    name: &str,
    geometry: &'static TlbGeometry,
    threads: usize,
    sizes: [&[PageSize]; 2],
    seed: u64,
) {
    let mut tlbs = Tlbs::new(geometry, threads);
    let mut shared = geometry.shared_second.as_ref().map(|shared| Plain::new(&shared.array));
    let mut of_threads = PlainThreads { of: vec![0; threads], running: 0 };
    let mut walks = [0; 3];
    let mut occurrences = Occurrences::default();
    let mut plain = [PlainSide::new(&geometry.data), PlainSide::new(&geometry.code)];
    let mut random = Random(seed);
    let (mut epoch, mut regions, mut pages, mut linear) = (0, 2, 40, 0);
    let mut filter = geometry.flush_filter.map(|geometry| PlainFilter {
        geometry,
        enabled: true,
        seen: Vec::new(),
    });
    let (mut tables, mut found, mut switched, mut marked) = (0, [0; 3], [0; 2], 0);
    for step in 0..60_000 {
        let sizes = sizes[(epoch & 1) as usize];
        if threads > 1 && random.below(6) == 0 {
            of_threads.running = random.below(threads as u64) as usize;
            tlbs.choose(of_threads.running);
        }
        if threads > 1 {
            plain.iter_mut().for_each(|side| side.space = of_threads.space());
        }
        match random.below(1000) {
            0 => {
                // Another paging mode: all goes.
                epoch += 1;
                for thread in (0..threads).filter(|&thread| thread != of_threads.running) {
                    tlbs.choose(thread);
                    tlbs.flush(of_threads.cr3(thread));
                }
                tlbs.choose(of_threads.running);
                tlbs.flush(of_threads.cr3(of_threads.running));
                plain.iter_mut().for_each(|side| side.retain(|_| false));
                shared.iter_mut().for_each(|shared| shared.retain(|_| false));
                filter.iter_mut().for_each(|filter| filter.seen.clear());
            }
            1..5 if threads > 1 => {
                // Few tables, so that threads often have the same.
                let keeps_global = random.below(4) != 0;
                of_threads.of[of_threads.running] = random.below(1 + threads as u64) as u8;
                let cr3 = of_threads.cr3(of_threads.running);
                if keeps_global {
                    tlbs.load_page_tables(cr3);
                } else {
                    tlbs.flush(cr3);
                }
                let stays = |entry: &Entry| match entry.page.global {
                    true => keeps_global,
                    false => entry.space != of_threads.space() && of_threads.has(entry),
                };
                plain.iter_mut().for_each(|side| side.retain(stays));
                shared.iter_mut().for_each(|shared| shared.retain(stays));
                switched[1] += 1;
            }
            1..5 => {
                // Few address spaces, or more than can be told apart, and tables that share a page.
                let many = random.below(12);
                tables = random.below(1 + many) * 0x20_0020;
                let cr3 = tables | random.below(4) << 3;
                tlbs.load_page_tables(cr3);
                let switch = filter.as_mut().map(|filter| filter.load(cr3));
                let (flushes, space) = switch.unwrap_or((true, 0));
                for side in &mut plain {
                    if flushes {
                        side.retain(|entry| entry.page.global);
                    }
                    side.space = space;
                }
                if let Some(shared) = &mut shared {
                    shared.retain(|entry| entry.page.global);
                }
                switched[usize::from(flushes)] += 1;
            }
            5 => {
                // A table is written, or what may be none.
                let physical = random.below(12) * 0x20_0020 + random.below(4) * 4096;
                tlbs.written(physical);
                filter.iter_mut().for_each(|filter| filter.seen.push(Seen::Write(physical)));
            }
            6 if random.below(4) == 0 => {
                let enabled = random.below(3) != 0;
                tlbs.enable_flush_filter(enabled);
                for filter in filter.iter_mut().filter(|filter| filter.enabled != enabled) {
                    filter.enabled = enabled;
                    filter.seen.clear();
                }
            }
            7 if random.below(4) == 0 => {
                tlbs.written_anywhere();
                filter.iter_mut().for_each(|filter| filter.seen.clear());
            }
            6..10 => {
                // Few pages or many, in few regions or many, so that all levels are short of room.
                (regions, pages) = (1 + random.below(9), 1 + random.below(90));
            }
            10..35 => {
                let size = page_of(linear, sizes, epoch).size.bytes();
                tlbs.invalidate(linear);
                let page = linear / size;
                for side in &mut plain {
                    let space = side.space;
                    side.retain(|entry| {
                        entry.linear / size != page || entry.space != space && !entry.page.global
                    });
                }
                if let Some(shared) = &mut shared {
                    shared.retain(|entry| {
                        let is_table = entry.page.size.bytes() < 2 << 20;
                        let is_meant = is_table || entry.linear / size == page;
                        !(is_meant && (entry.space == of_threads.space() || entry.page.global))
                    });
                }
            }
            choice => {
                if choice >= 200 {
                    let high = if random.below(8) == 0 { 0xFFFF_8000_0000_0000 } else { 0 };
                    // Strides that come to the same sets again.
                    let stride = [1, 1, 3, 64, 128, 512][random.below(6) as usize];
                    let within = random.below(pages) * stride % 1024 * 4096 + random.below(4096);
                    linear = high | random.below(regions) << 22 | within;
                }
                let at = usize::from(choice % 3 == 0);
                let got = if at == 0 {
                    // Pages are marked that hit, some by the short way alone, and are unmarked at random.
                    match random.below(64) {
                        0 => tlbs.unmark_all_data(),
                        1..5 => tlbs.unmark_data(linear),
                        _ => {}
                    }
                    let quickly = random.below(2) == 0 && tlbs.uses_marked_data(linear);
                    marked += u32::from(quickly);
                    let got = match quickly {
                        true => Lookup::Hit,
                        false => tlbs.data(linear, &mut occurrences),
                    };
                    if got == Lookup::Hit && random.below(2) == 0 {
                        tlbs.mark_data(linear);
                    }
                    got
                } else {
                    tlbs.code(linear, &mut occurrences)
                };
                assert_eq!(got, plain[at].look_up(linear), "{name}: {step}, {linear:#x}");
                found[match got {
                    Lookup::Hit => 0,
                    Lookup::SecondLevel { .. } => 1,
                    Lookup::Miss => 2,
                }] += 1;
                // A walk that finds no page fills nothing.
                if got == Lookup::Miss && random.below(20) != 0 {
                    // Once in a while through tables of which there are many.
                    let entry = match random.below(300) {
                        0 => random.below(4000) * 4096,
                        _ => tables + random.below(3) * 4096,
                    };
                    tlbs.monitor(&[entry]);
                    filter.iter_mut().for_each(|filter| filter.seen.push(Seen::Read(entry)));
                    let page = page_of(linear, sizes, epoch);
                    if let Some(shared) = &mut shared {
                        let is_small = page.size.bytes() < 2 << 20;
                        let from = shared.place(linear, of_threads.space()).map(|(set, way)| {
                            shared.sets[set].used(way);
                            if is_small { WalkFrom::PageTable } else { WalkFrom::Page }
                        });
                        let from = from.unwrap_or(WalkFrom::Root);
                        assert_eq!(tlbs.walk_from(linear), from, "{name}: {step}, {linear:#x}");
                        walks[from as usize] += 1;
                        if from == WalkFrom::Root {
                            tlbs.fill_shared(linear, page);
                            let global = page.global && !is_small;
                            let space = if global { 0 } else { of_threads.space() };
                            shared.insert(linear, Page { global, ..page }, space);
                        }
                    }
                    plain[at].fill(linear, page);
                    if at == 0 {
                        tlbs.fill_data(linear, page, &mut occurrences);
                    } else {
                        tlbs.fill_code(linear, page, &mut occurrences);
                    }
                }
            }
        }
        if step % 64 == 0 {
            for (side, plain) in [&tlbs.data, &tlbs.code].into_iter().zip(&plain) {
                let (entries, expected) = (side.entries(), plain.entries());
                if threads == 1 {
                    assert_eq!(entries.map(sorted), expected, "{name}: {step}");
                } else {
                    assert_eq!(entries.map(unnumbered), expected.map(unnumbered), "{name}: {step}");
                }
            }
            let entries = tlbs.shared.as_ref().map(|shared| unnumbered(shared.entries()));
            assert_eq!(entries, shared.as_ref().map(Plain::entries), "{name}: {step}");
        }
    }
    let fired = |signal: Signal| occurrences.clone().fired()[signal.index()];
    assert_eq!([fired(Signal::DtlbMissL1), fired(Signal::DtlbMissLast)], plain[0].missed, "{name}");
    assert_eq!([fired(Signal::ItlbMissL1), fired(Signal::ItlbMissLast)], plain[1].missed, "{name}");
    // It was not always the same.
    assert!(found[0] > 4_000 && found[2] > 2_000, "{name}: {found:?}");
    assert!(marked > 200, "{name}: {marked}");
    assert_eq!(found[1] > 1_000, geometry.data.second.is_some(), "{name}: {found:?}");
    assert_eq!(switched[0] > 5, filter.is_some(), "{name}: {switched:?}");
    assert!(switched[1] > 5, "{name}: {switched:?}");
    assert_eq!(walks.iter().all(|&n| n > 100), shared.is_some(), "{name}: {walks:?}");
}

const LEGACY: &[PageSize] = &[Kib4, Kib4, Mib4];
const PAE: &[PageSize] = &[Kib4, Kib4, Mib2];

#[test]
fn every_part_is_as_defined() {
    let both = [LEGACY, PAE];
    let parts = [
        ("p55c", &P55C, [LEGACY, LEGACY]),
        ("ppro", &PPRO, both),
        ("pii", &PII, both),
        ("p6", &P6, both),
        ("pm", &PM, [LEGACY, LEGACY]),
        ("k7", &K7, both),
        ("k8", &K8, both),
    ];
    for (name, geometry, sizes) in parts {
        for seed in 1..4 {
            compare(name, geometry, 1, sizes, seed * 0x5DEE_CE66);
        }
    }
}

/// Threads that often have the same page tables, and often not.
#[test]
fn threads_share_what_is_of_the_same_tables() {
    for threads in [1, 2, 4] {
        for seed in 1..4 {
            compare("knc", &KNC, threads, [LEGACY, PAE], seed * 0x5DEE_CE66);
        }
    }
}

const ALL: &[Held] = &[
    Held { page: Kib4, entry: Kib4 },
    Held { page: Kib64, entry: Kib64 },
    Held { page: Mib2, entry: Mib2 },
    Held { page: Mib4, entry: Mib2 },
];
const SMALL: &[Held] = &[Held { page: Kib4, entry: Kib4 }];

const fn array(
    entries: u16,
    ways: u16,
    replacement: Replacement,
    holds: &'static [Held],
) -> ArrayGeometry {
    let associativity = if ways == entries { Full } else { Ways(ways) };
    ArrayGeometry { entries, associativity, replacement, holds }
}

/// Geometries that no part has: every policy at every level, large pages in the second, exclusive or not.
#[test]
fn every_policy_is_as_defined() {
    use Replacement::{Lru, PseudoLru, RoundRobin};
    const LEVELS: [(&[ArrayGeometry], &[ArrayGeometry]); 4] = [
        (&[array(4, 4, RoundRobin, ALL)], &[array(64, 4, Lru, ALL)]),
        (&[array(8, 2, Lru, SMALL)], &[array(32, 8, RoundRobin, ALL)]),
        (&[array(8, 1, PseudoLru, ALL)], &[array(64, 64, PseudoLru, ALL)]),
        (&[array(6, 6, Lru, ALL)], &[array(12, 3, Lru, SMALL)]),
    ];
    let sizes: [&[PageSize]; 2] = [&[Kib4, Kib64, Mib4], &[Kib4, Mib2, Kib4]];
    for (number, (first, arrays)) in LEVELS.into_iter().enumerate() {
        for exclusive in [false, true] {
            let second = Some(SecondLevel { arrays, exclusive, latency: 7 });
            let side = SideGeometry { first, second };
            let flush_filter =
                exclusive.then_some(FlushFilterGeometry { blocks: 9, address_spaces: 3 });
            let geometry = TlbGeometry {
                data: side,
                code: side,
                shared_second: None,
                directory_entries: 0,
                walk_read: 1,
                flush_filter,
            };
            let geometry = Box::leak(Box::new(geometry));
            compare(&format!("{number}, {exclusive}"), geometry, 1, sizes, 0x1234_5678);
        }
    }
}
