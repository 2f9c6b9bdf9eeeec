//! Cases whose outcome is worked out by hand from the geometry.

use pmu_model::Signal;

use super::PageSize::{Gib1, Kib4, Mib2, Mib4};
use super::{Lookup, Page, PageSize, SecondLevel, SideGeometry, TlbGeometry, Tlbs, WalkFrom};
use crate::occurrences::Occurrences;
use crate::part::tlbs::{K7, K8, P6, P55C, PM};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SMALL: Page = Page { size: Kib4, global: false };
const GLOBAL: Page = Page { size: Kib4, global: true };

/// TLBs and what they fire.
struct Bench {
    tlbs: Tlbs,
    occurrences: Occurrences,
}

impl Bench {
    fn new(geometry: &TlbGeometry) -> Self {
        Self { tlbs: Tlbs::new(geometry, 1), occurrences: Occurrences::default() }
    }

    fn data(&mut self, linear: u64) -> Lookup {
        self.tlbs.data(linear, &mut self.occurrences)
    }

    /// An access, with a walk that finds that page if it misses. Whether it hit.
    fn load(&mut self, linear: u64, page: Page) -> bool {
        let found = self.data(linear);
        if found == Lookup::Miss {
            self.tlbs.fill_data(linear, page, &mut self.occurrences);
        }
        found == Lookup::Hit
    }

    fn fetch(&mut self, linear: u64, page: Page) -> bool {
        let found = self.tlbs.code(linear, &mut self.occurrences);
        if found == Lookup::Miss {
            self.tlbs.fill_code(linear, page, &mut self.occurrences);
        }
        found == Lookup::Hit
    }

    /// Misses of the first level that the second had, and of all, for data; and for code.
    fn misses(&mut self) -> [u64; 4] {
        let signals =
            [Signal::DtlbMissL1, Signal::DtlbMissLast, Signal::ItlbMissL1, Signal::ItlbMissLast];
        signals.map(|signal| self.occurrences.fired()[signal.index()])
    }
}

fn of_size(size: PageSize) -> Page {
    Page { size, global: false }
}

/// AMD 25481: 32 small pages in the first level, fully associative. Taken round, 33 pages always miss it
/// if the least recently used one makes room; the second level, 512 entries, has them from the second
/// round on.
#[test]
fn thirty_three_pages_thrash_thirty_two_entries() {
    let mut bench = Bench::new(&K8);
    for _ in 0..2 {
        for page in 0..32 {
            bench.load(page * 4 * KIB, SMALL);
        }
    }
    assert_eq!(bench.misses(), [0, 32, 0, 0]);
    for _ in 0..3 {
        for page in 0..33 {
            bench.load(page * 4 * KIB + 8, SMALL);
        }
    }
    // In the first of the three rounds 32 pages hit and the last one is walked for.
    assert_eq!(bench.misses(), [66, 33, 0, 0]);
    assert_eq!(bench.data(40 * 4 * KIB), Lookup::Miss);
}

/// The page that was used last longest ago makes room, not the one that came first.
#[test]
fn use_keeps_a_page() {
    let mut bench = Bench::new(&K8);
    for page in 0..32 {
        bench.load(page * 4 * KIB, SMALL);
    }
    assert!(bench.load(0, SMALL));
    bench.load(32 * 4 * KIB, SMALL);
    assert!(bench.load(0, SMALL));
    assert_eq!(bench.data(4 * KIB), Lookup::SecondLevel { latency: 5 });
}

/// 512 entries, 4-way: 128 sets, so pages 128 apart (512 KiB) are in one set. What a first level of 32 has
/// lost is all in that set; with exclusion it holds the four last victims.
#[test]
fn pages_of_one_set_conflict_in_the_second_level() {
    let mut bench = Bench::new(&K8);
    let apart = |n: u64| n * 512 * KIB;
    for n in 0..37 {
        bench.load(apart(n), SMALL);
    }
    // Pages 5 to 36 are in the first level, 0 to 4 were displaced, and the set kept 1 to 4.
    assert_eq!(bench.data(apart(0)), Lookup::Miss);
    assert_eq!(bench.data(apart(1)), Lookup::SecondLevel { latency: 5 });
    // Page 5 has taken page 1's place in the second level.
    assert_eq!(bench.data(apart(5)), Lookup::SecondLevel { latency: 5 });
    assert!(bench.load(apart(1), SMALL));
}

/// The same without exclusion: both levels get what a walk finds, and the second forgets a page that the
/// first still has. K7: 24 entries before 256, 4-way, 64 sets.
#[test]
fn without_exclusion_the_second_level_has_what_the_first_has() {
    let mut bench = Bench::new(&K7);
    let apart = |n: u64| n * 256 * KIB;
    for n in 0..5 {
        bench.load(apart(n), SMALL);
    }
    // Page 0 is not in the second level any more. 20 pages of other sets and a hit of page 0 in between.
    for n in 1..=19 {
        bench.load(n * 4 * KIB, SMALL);
    }
    assert_eq!(bench.misses(), [0, 24, 0, 0]);
    bench.load(20 * 4 * KIB, SMALL);
    assert_eq!(bench.data(0), Lookup::Miss);
    assert_eq!(bench.data(apart(1)), Lookup::Hit);
    bench.load(21 * 4 * KIB, SMALL);
    bench.load(22 * 4 * KIB, SMALL);
    assert_eq!(bench.data(apart(2)), Lookup::SecondLevel { latency: 5 });
    assert_eq!(bench.data(apart(2)), Lookup::Hit);
}

/// The Athlon XP-M white paper: exclusive, so that what both levels hold adds up. 32 + 256 pages of data.
#[test]
fn exclusive_levels_add_up() {
    let second = SecondLevel { exclusive: true, ..K7.data.second.expect("two levels") };
    let exclusive =
        TlbGeometry { data: SideGeometry { first: K8.data.first, second: Some(second) }, ..K7 };
    let mut bench = Bench::new(&exclusive);
    for page in (0..288).chain(256..288).chain(0..32) {
        bench.load(page * 4 * KIB, SMALL);
    }
    // 256 to 287 hit; 0 to 31 came from the second level, each to the place of 256 to 287, whose set of
    // the 64 is that of the page that came.
    assert_eq!(bench.misses(), [32, 288, 0, 0]);
    for page in 256..288 {
        assert_ne!(bench.data(page * 4 * KIB), Lookup::Miss, "page {page}");
    }
    // Without exclusion the second level has lost the first pages.
    let mut bench = Bench::new(&K7);
    for page in 0..288 {
        bench.load(page * 4 * KIB, SMALL);
    }
    for page in 0..32 {
        assert_eq!(bench.data(page * 4 * KIB), Lookup::Miss, "page {page}");
    }
}

/// AMD 25481: 8 entries for pages of 2 MiB; those of 4 MiB require two each, so that there is room for 4.
/// The second level has no large ones.
#[test]
fn four_mebibytes_take_two_entries() {
    let mut bench = Bench::new(&K8);
    let page = of_size(Mib4);
    for n in 0..4 {
        bench.load(n * 4 * MIB, page);
        bench.load(n * 4 * MIB + 2 * MIB, page);
    }
    assert_eq!(bench.misses(), [0, 8, 0, 0]);
    for n in 0..8 {
        assert!(bench.load(n * 2 * MIB + 0x12345, page), "half {n}");
    }
    bench.load(16 * MIB, page);
    assert!(!bench.load(0, page));
    assert_eq!(bench.misses(), [0, 10, 0, 0]);
    // Half 1 made room for half 0. INVLPG of an address in the missing half drops the other, too.
    assert!(bench.load(4 * MIB, page));
    bench.tlbs.invalidate(6 * MIB);
    assert_eq!(bench.data(4 * MIB), Lookup::Miss);
}

/// Intel 243191, descriptor 04h: 8 entries for large pages, 4-way, one each. Pages of 4 MiB whose numbers
/// are even are in one set of the two.
#[test]
fn large_pages_of_the_p6() {
    let mut bench = Bench::new(&P6);
    for n in [0, 2, 4, 6] {
        bench.load(n * 4 * MIB, of_size(Mib4));
    }
    for n in [0, 2, 4, 6] {
        assert!(bench.load(n * 4 * MIB + 3 * MIB, of_size(Mib4)), "page {n}");
    }
    bench.load(8 * 4 * MIB, of_size(Mib4));
    bench.load(4 * MIB, of_size(Mib4));
    assert_eq!(bench.misses(), [0, 6, 0, 0]);
    // The tree of bits: 0, 2, 4, 6 were used in this order, so the victim was 0, of the half not used last.
    assert!(bench.load(2 * 4 * MIB, of_size(Mib4)));
    assert!(!bench.load(0, of_size(Mib4)));
    // Pages of 2 MiB go into the same entries.
    let mut bench = Bench::new(&P6);
    for n in [0, 2, 4, 6, 8] {
        bench.load(n * 2 * MIB, of_size(Mib2));
    }
    assert!(!bench.load(0, of_size(Mib2)));
    // Descriptor 02h: two large pages of code.
    for n in 0..3 {
        bench.fetch(n * 4 * MIB, of_size(Mib4));
    }
    assert!(bench.fetch(2 * 4 * MIB, of_size(Mib4)));
    assert!(!bench.fetch(0, of_size(Mib4)));
}

/// Descriptors 01h and 03h, B0h and B3h: 32 and 64 entries, 128 each; 4-way. Pages 16 apart are in one set
/// of the P6's data TLB, pages 32 apart in one set of the Pentium M's.
#[test]
fn sets_of_four() {
    for (geometry, data_sets, code_sets) in [(&P6, 16, 8), (&PM, 32, 32)] {
        let mut bench = Bench::new(geometry);
        for n in 0..5 {
            bench.load(n * data_sets * 4 * KIB, SMALL);
            bench.fetch(n * code_sets * 4 * KIB, SMALL);
        }
        // The next set is free.
        for n in 0..4 {
            bench.load((n * data_sets + 1) * 4 * KIB, SMALL);
            bench.fetch((n * code_sets + 1) * 4 * KIB, SMALL);
        }
        for n in 0..4 {
            assert!(bench.load((n * data_sets + 1) * 4 * KIB, SMALL), "page {n}");
            assert!(bench.fetch((n * code_sets + 1) * 4 * KIB, SMALL), "page {n}");
        }
        assert_eq!(bench.misses(), [0, 9, 0, 9]);
        assert!(!bench.load(0, SMALL));
        assert!(!bench.fetch(0, SMALL));
    }
}

/// One array for both sizes: 64 entries, whatever they hold.
#[test]
fn small_and_large_pages_share_the_pentium_s_entries() {
    let mut bench = Bench::new(&P55C);
    for n in 0..32 {
        bench.load(n * 4 * MIB, of_size(Mib4));
        bench.load(0x8000_0000 + n * 4 * KIB, SMALL);
    }
    for n in 0..32 {
        assert!(bench.load(n * 4 * MIB + 0x3F_FFFF, of_size(Mib4)), "large page {n}");
        assert!(bench.load(0x8000_0FFF + n * 4 * KIB, SMALL), "small page {n}");
    }
    assert_eq!(bench.misses(), [0, 64, 0, 0]);
    bench.load(0x9000_0000, SMALL);
    // The tree of bits points away from what was used last in each half: the first entry of all.
    assert!(!bench.load(0, of_size(Mib4)));
    // 32 entries for code.
    for n in 0..33 {
        bench.fetch(n * 4 * KIB, SMALL);
    }
    assert!(!bench.fetch(0, SMALL));
    assert_eq!(bench.misses()[3], 34);
}

/// AMD 24593 and Intel 243192: a load of CR3 leaves global pages, INVLPG and a change of CR4.PGE do not.
/// Both levels: 40 pages are more than the first holds.
#[test]
fn global_pages() {
    let mut bench = Bench::new(&K8);
    for n in 0..20 {
        bench.load(n * 4 * KIB, SMALL);
        bench.load((100 + n) * 4 * KIB, GLOBAL);
    }
    bench.tlbs.load_page_tables(0);
    for n in 0..20 {
        assert_eq!(bench.data(n * 4 * KIB), Lookup::Miss, "page {n}");
        assert_ne!(bench.data((100 + n) * 4 * KIB), Lookup::Miss, "global page {n}");
    }
    bench.tlbs.invalidate(119 * 4 * KIB + 5);
    assert_eq!(bench.data(119 * 4 * KIB), Lookup::Miss);
    assert_ne!(bench.data(118 * 4 * KIB), Lookup::Miss);
    bench.tlbs.flush(0);
    for n in 0..20 {
        assert_eq!(bench.data((100 + n) * 4 * KIB), Lookup::Miss, "global page {n}");
    }
}

/// Page tables of two address spaces, and what walks through them read: directory and table.
const TABLES: [[u64; 2]; 2] = [[0x10_0000, 0x10_1000], [0x20_0000, 0x20_1000]];

/// Loads 20 pages, each after a walk through these tables if it misses; every other one is global. How many
/// hit.
fn load_pages(bench: &mut Bench, tables: &[u64; 2]) -> usize {
    let mut hits = 0;
    for n in 0..20 {
        let page = Page { size: Kib4, global: n % 2 == 1 };
        let hit = bench.load(n * 4 * KIB, page);
        hits += usize::from(hit);
        if !hit {
            bench.tlbs.monitor(tables);
        }
    }
    hits
}

/// US patent 6510508, claims 1 to 3: the first context switch flushes. Later ones do not, unless tables that
/// translations were read from have been written; pages of one address space are not found in the other.
#[test]
fn a_flush_filter_keeps_what_was_not_written() {
    let mut bench = Bench::new(&K8);
    let [first, second] = &TABLES;
    assert_eq!(load_pages(&mut bench, first), 0);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 10);
    // The same tables again; PWT and PCD of CR3 are not their address.
    bench.tlbs.load_page_tables(first[0] | 0x18);
    assert_eq!(load_pages(&mut bench, first), 20);
    // Others: only global pages are there. Then the first ones.
    bench.tlbs.load_page_tables(second[0]);
    assert_eq!(load_pages(&mut bench, second), 10);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 20);
    // A table of the second is written, the last byte of its page; it takes effect at the next switch.
    bench.tlbs.written(second[1] + 0xFFF);
    assert_eq!(load_pages(&mut bench, first), 20);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 10);
    // The second's tables are not monitored any more, as nothing is known of them.
    bench.tlbs.written(second[1]);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 20);
    // What is beside them is no matter.
    bench.tlbs.written(first[1] + 0x1000);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 20);
}

/// HWCR.FFDIS (AMD 26094): each load of CR3 flushes. So does the first one after it is cleared.
#[test]
fn a_disabled_flush_filter_keeps_nothing() {
    let mut bench = Bench::new(&K8);
    let [tables, _] = &TABLES;
    for (enabled, kept) in [(true, [0, 10, 20]), (false, [20, 10, 10]), (true, [20, 10, 20])] {
        bench.tlbs.enable_flush_filter(enabled);
        for hits in kept {
            assert_eq!(load_pages(&mut bench, tables), hits, "{enabled} {kept:?}");
            bench.tlbs.load_page_tables(tables[0]);
        }
        assert_eq!(load_pages(&mut bench, tables), if enabled { 20 } else { 10 });
    }
    // The K7 has none.
    let mut bench = Bench::new(&K7);
    for hits in [0, 10, 10] {
        assert_eq!(load_pages(&mut bench, tables), hits);
        bench.tlbs.load_page_tables(tables[0]);
    }
}

/// There is room for 32 blocks and 8 address spaces: what is more flushes.
#[test]
fn a_flush_filter_has_so_much_room() {
    let [tables, _] = &TABLES;
    for (blocks, hits) in [(31, 20), (32, 10)] {
        let mut bench = Bench::new(&K8);
        bench.tlbs.load_page_tables(tables[0]);
        load_pages(&mut bench, tables);
        // Directory and table are two of them.
        for block in 2..=blocks {
            bench.tlbs.monitor(&[0x80_0000 + block * 4 * KIB]);
        }
        bench.tlbs.load_page_tables(tables[0]);
        assert_eq!(load_pages(&mut bench, tables), hits, "{blocks} blocks");
    }
    for (spaces, hits) in [(8, 20), (9, 10)] {
        let mut bench = Bench::new(&K8);
        for space in 0..spaces {
            bench.tlbs.load_page_tables(tables[0] + space * 0x20);
            if space == 0 {
                load_pages(&mut bench, tables);
            }
        }
        bench.tlbs.load_page_tables(tables[0]);
        assert_eq!(load_pages(&mut bench, tables), hits, "{spaces} address spaces");
    }
}

/// Changes of the paging mode drop everything, and the filter begins anew: the next switch flushes. INVLPG
/// drops a page of the address space in force and global ones.
#[test]
fn a_flush_filter_begins_anew_with_the_mode() {
    let mut bench = Bench::new(&K8);
    let [first, second] = &TABLES;
    bench.tlbs.load_page_tables(first[0]);
    load_pages(&mut bench, first);
    bench.tlbs.flush(0);
    assert_eq!(load_pages(&mut bench, first), 0);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 10);
    bench.tlbs.load_page_tables(second[0]);
    load_pages(&mut bench, second);
    bench.tlbs.invalidate(0);
    bench.tlbs.invalidate(4 * KIB);
    assert_eq!(load_pages(&mut bench, second), 18);
    bench.tlbs.invalidate(4 * KIB);
    bench.tlbs.load_page_tables(first[0]);
    assert_eq!(load_pages(&mut bench, first), 19);
}

/// Page-directory entries are of an address space as well.
#[test]
fn a_flush_filter_keeps_page_directory_entries() {
    let mut tlbs = Tlbs::new(&K8, 1);
    tlbs.load_page_tables(0x10_0000);
    tlbs.fill_directory(0, Mib2);
    tlbs.load_page_tables(0x20_0000);
    assert_eq!(tlbs.walk_from(0), WalkFrom::Root);
    tlbs.load_page_tables(0x10_0000);
    assert_eq!(tlbs.walk_from(0), WalkFrom::PageTable);
}

/// The entry that was used last is remembered, and forgotten when it goes.
#[test]
fn the_remembered_page_goes_as_well() {
    let mut bench = Bench::new(&K8);
    bench.load(0x5000, GLOBAL);
    assert_eq!(bench.data(0x5FFF), Lookup::Hit);
    bench.tlbs.invalidate(0x5800);
    assert_eq!(bench.data(0x5FFF), Lookup::Miss);
    bench.load(0x5000, SMALL);
    bench.tlbs.load_page_tables(0);
    assert_eq!(bench.data(0x5FFF), Lookup::Miss);
    // Nothing is remembered of an empty one, at no address.
    assert_eq!(bench.data(0), Lookup::Miss);
    assert_eq!(bench.data(1), Lookup::Miss);
    assert_eq!(bench.data(u64::MAX), Lookup::Miss);
}

/// Data and code have TLBs of their own.
#[test]
fn data_and_code_are_apart() {
    let mut bench = Bench::new(&K8);
    bench.load(0x5000, SMALL);
    assert!(!bench.fetch(0x5000, SMALL));
    for n in 0..33 {
        bench.fetch(0x10_0000 + n * 4 * KIB, SMALL);
    }
    assert!(!bench.fetch(0x5000, SMALL));
    assert!(bench.load(0x5000, SMALL));
    assert_eq!(bench.misses(), [0, 1, 1, 34]);
}

/// A page of a size that no array holds is walked for each time.
#[test]
fn a_page_that_no_array_holds_is_not_entered() {
    let mut bench = Bench::new(&K8);
    for _ in 0..3 {
        assert!(!bench.load(0x4000_0000, of_size(Gib1)));
    }
    assert_eq!(bench.misses(), [0, 3, 0, 0]);
}

/// 24 page-directory entries; a load of CR3 drops them, and INVLPG does.
#[test]
fn page_directory_entries_shorten_walks() {
    let mut tlbs = Tlbs::new(&K8, 1);
    assert_eq!(tlbs.walk_from(0), WalkFrom::Root);
    for n in 0..24 {
        tlbs.fill_directory(n * 2 * MIB, Mib2);
    }
    for n in (0..24).rev() {
        assert_eq!(tlbs.walk_from(n * 2 * MIB + 0x1F_FFFF), WalkFrom::PageTable, "entry {n}");
    }
    // The last used are 0, 1, 2 ...
    tlbs.fill_directory(24 * 2 * MIB, Mib2);
    assert_eq!(tlbs.walk_from(23 * 2 * MIB), WalkFrom::Root);
    assert_eq!(tlbs.walk_from(22 * 2 * MIB), WalkFrom::PageTable);
    tlbs.invalidate(0x1234_5000);
    assert_eq!(tlbs.walk_from(22 * 2 * MIB), WalkFrom::Root);
    // Without PAE an entry spans 4 MiB.
    tlbs.fill_directory(0, Mib4);
    assert_eq!(tlbs.walk_from(3 * MIB), WalkFrom::PageTable);
    tlbs.load_page_tables(0);
    assert_eq!(tlbs.walk_from(3 * MIB), WalkFrom::Root);
    // The others have no such cache.
    let mut tlbs = Tlbs::new(&K7, 1);
    tlbs.fill_directory(0, Mib4);
    assert_eq!(tlbs.walk_from(0), WalkFrom::Root);
}
