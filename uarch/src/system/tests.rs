//! Random accesses, fetches and changes of page tables, against a system that takes no shortcut: it looks
//! each page up, asks the page tables how it is cached, and hands each access to the caches in whole.

use super::translation::Side;
use super::*;
use crate::cache::array::Line;
use crate::cache::{self, Hint, Kind, LineState, MemoryType};
use crate::part;
use crate::state::{Loader, Saver, State};
use crate::tlb::{Page, PageSize};

/// Numbers that look random (Marsaglia, "Xorshift RNGs").
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Linear pages of 4 KiB that the program uses: more than a first-level TLB has entries.
const PAGES: u64 = 96;
/// Where the page tables are, above the memory that pages are in.
const TABLES: u64 = 0x80_0000;
const SIGNALS: usize = Signal::COUNT;

/// Page tables of two levels, of entries of four bytes.
struct Tables {
    /// By linear page: its physical page, and how it is cached.
    pages: Vec<Option<(u64, MemoryType, bool)>>,
}

impl PageTables for Tables {
    fn walk(&self, linear: u64) -> Option<Walk> {
        let number = linear / PAGE;
        let (_, memory, global) = self.pages[number as usize]?;
        Some(Walk {
            page: Page { size: PageSize::Kib4, global },
            memory,
            entries: [TABLES, TABLES + PAGE + 4 * number, 0, 0],
            levels: 2,
            entry_bytes: 4,
            is_small: true,
        })
    }
}

/// The system without shortcuts.
struct Slow(System);

impl Slow {
    fn access(&mut self, processor: usize, tables: &Tables, access: &DataAccess) {
        let DataAccess { linear, physical, second_page, bytes, operation, kind, .. } = *access;
        for (linear, physical, bytes) in pieces(linear, physical, second_page, bytes) {
            let memory = self.memory(processor, tables, linear, Side::Data);
            let access = cache::Access { physical, bytes, kind, memory };
            self.0.with_caches(processor, |caches, context| match operation {
                Operation::Load => caches.load(context, processor, &access),
                Operation::Store => caches.store(context, processor, &access),
                Operation::Modify => caches.modify(context, processor, &access),
                Operation::Prefetch(hint) => {
                    caches.prefetch(context, processor, physical, hint, memory)
                }
                Operation::Flush => {
                    caches.flush(context, processor, physical);
                    0
                }
                Operation::Evict { second_level } => {
                    caches.evict(context, processor, physical, second_level);
                    0
                }
            });
            if matches!(operation, Operation::Store | Operation::Modify) {
                self.0.tlbs.iter_mut().for_each(|tlbs| tlbs.written(physical));
            }
            if operation != Operation::Load {
                self.notice_code_written(processor);
            }
        }
    }

    fn notice_code_written(&mut self, processor: usize) {
        if self.0.caches.take_code_written(processor) {
            self.0.processors[processor].occurrences.fire(Signal::FlushSmc, 1);
            self.0.processors[processor].locality.redirected = true;
        }
    }

    /// Looks a page up, and asks the page tables how it is cached.
    fn memory(&mut self, processor: usize, tables: &Tables, linear: u64, side: Side) -> MemoryType {
        self.0.look_up(processor, tables, linear, side);
        tables.walk(linear).map_or(MemoryType::Uncacheable, |walk| walk.memory)
    }

    /// A walk writes an entry, and tells all other processors.
    fn update_table(&mut self, processor: usize, physical: u64) {
        self.0.with_caches(processor, |caches, context| {
            caches.walk_write(context, processor, physical, 4, MemoryType::WriteBack)
        });
        self.notice_code_written(processor);
        for other in (0..self.0.processors.count()).filter(|&other| other != processor) {
            self.0.tlbs[other].written(physical);
        }
    }

    fn fetch(&mut self, processor: usize, tables: &Tables, fetch: &Fetch) {
        self.0.processors[processor].locality.forget_known_pages();
        self.0.fetch(processor, tables, fetch);
    }
}

/// A load of four bytes in one page.
fn load_of(linear: u64, physical: u64) -> DataAccess {
    DataAccess {
        linear,
        physical,
        second_page: None,
        bytes: 4,
        elements: 1,
        operation: Operation::Load,
        kind: Kind::Plain,
    }
}

/// All that can be seen of a processor's caches.
fn lines(system: &System, processor: usize) -> [Vec<Line>; 3] {
    let caches = &system.caches;
    [
        caches.code_lines(processor).collect(),
        caches.data_lines(processor).collect(),
        caches.second_level_lines(processor).collect(),
    ]
}

struct Program {
    random: Random,
    processors: usize,
    fast: System,
    slow: Slow,
    tables: Tables,
    /// Pages used shortly before.
    recent: [u64; 3],
    /// Where each processor has left its last block.
    left: Vec<Option<u64>>,
    /// Blocks that were fetched at once; that were left in the middle then; and those of which a line left the cache.
    at_once: u64,
    unfetched: u64,
    dropped: u64,
    /// Loads of CR3 that found a flush filter without anything monitored, and with.
    loads: [u64; 2],
    /// Accesses that were found to be hits, and those of them in the line that was used last.
    hits: u64,
    again: u64,
    /// Accesses that were found to be misses for the second level alone.
    refills: u64,
}

impl Program {
    fn new(part: &'static Part, seed: u64) -> Self {
        let memory = 0..TABLES + 2 * PAGE;
        let processors = 2 * part.threads;
        let system = System::new(part, processors, std::slice::from_ref(&memory));
        let mut program = Self {
            random: Random(seed),
            processors,
            fast: system.clone(),
            slow: Slow(system),
            tables: Tables { pages: Vec::new() },
            recent: [0; 3],
            left: vec![None; processors],
            at_once: 0,
            unfetched: 0,
            dropped: 0,
            loads: [0; 2],
            hits: 0,
            again: 0,
            refills: 0,
        };
        for _ in 0..PAGES {
            let page = program.any_page();
            program.tables.pages.push(page);
        }
        for processor in 0..processors {
            program.fast.change_memory(processor, true);
            program.slow.0.change_memory(processor, true);
        }
        // Somebody looks at once at what is counted on one of the processors.
        for signal in [
            Signal::L1dAccess,
            Signal::L1dStoreHitOwned,
            Signal::L1iFetch,
            Signal::L1dMissLoad,
            Signal::L2BusBusy,
        ] {
            program.fast.occurrences(1).log(signal);
            program.slow.0.occurrences(1).log(signal);
        }
        program
    }

    /// A translation for a page. Physical memory of one page has one memory type.
    fn any_page(&mut self) -> Option<(u64, MemoryType, bool)> {
        const TYPES: [MemoryType; 16] = {
            let mut types = [MemoryType::WriteBack; 16];
            types[3] = MemoryType::WriteThrough;
            types[7] = MemoryType::Uncacheable;
            types[11] = MemoryType::WriteCombining;
            types
        };
        let physical = match self.random.next(72) {
            // A page table, often enough for stores that hit while it is monitored.
            64.. => TABLES / PAGE + 1,
            number => number,
        };
        let memory = TYPES[(physical % 16) as usize];
        Some((physical * PAGE, memory, self.random.next(8) == 0))
    }

    /// A linear address: often in one of the pages used last, at one of few places.
    fn address(&mut self) -> u64 {
        let page = match self.random.next(4) {
            0 => self.random.next(PAGES - 1),
            _ => self.recent[self.random.next(3) as usize],
        };
        self.recent.rotate_right(1);
        self.recent[0] = page;
        let offset = match self.random.next(16) {
            0 => PAGE - 1 - self.random.next(16),
            _ => self.random.next(4) * 64 + self.random.next(64),
        };
        page * PAGE + offset
    }

    fn physical(&self, linear: u64) -> u64 {
        let (page, ..) = self.tables.pages[(linear / PAGE) as usize].expect("all are mapped");
        page + linear % PAGE
    }

    /// The physical address of so many bytes, and of the page that they reach into.
    fn place(&self, linear: u64, bytes: u32) -> (u64, Option<u64>) {
        let last = linear + u64::from(bytes) - 1;
        let second = (last / PAGE != linear / PAGE).then(|| self.physical(last & !(PAGE - 1)));
        (self.physical(linear), second)
    }

    /// An access, before which a walk may set a bit in a page table.
    fn access(&mut self, processor: usize) {
        let linear = self.address();
        if self.random.next(30) == 0 {
            self.update_table(processor, linear / PAGE);
        }
        let operation = match self.random.next(20) {
            0 => Operation::Flush,
            1 => Operation::Prefetch(Hint::T0),
            2 => Operation::Prefetch(Hint::Write),
            3..=5 => Operation::Modify,
            6..=11 => Operation::Store,
            _ => Operation::Load,
        };
        let kind = match (operation, self.random.next(8)) {
            (Operation::Modify, 0..=2) => Kind::Locked,
            (Operation::Store, 0) => Kind::NonTemporal,
            (_, 7) => Kind::Mmx,
            _ => Kind::Plain,
        };
        let bytes = match operation {
            Operation::Flush | Operation::Prefetch(_) => 1,
            _ => 1 << self.random.next(4),
        };
        let (physical, second_page) = self.place(linear, bytes);
        let access =
            DataAccess { linear, physical, second_page, bytes, elements: 1, operation, kind };
        // As an engine asks first for what only a hit can be.
        let reads = operation != Operation::Store;
        let writes = operation != Operation::Load;
        let hits = second_page.is_none()
            && kind == Kind::Plain
            && matches!(operation, Operation::Load | Operation::Store | Operation::Modify)
            && self.random.next(4) != 0
            && (self.random.next(2) == 0 && self.again(linear, physical, bytes, reads, writes)
                || self.fast.access_hits(linear, physical, bytes, reads, writes));
        self.hits += u64::from(hits);
        // And then for what the caches of the processor do among themselves, whatever was said before.
        let is_simple = second_page.is_none() && matches!(kind, Kind::Plain | Kind::Mmx);
        let refills = !hits
            && is_simple
            && matches!(operation, Operation::Load | Operation::Store | Operation::Modify)
            && self.random.next(4) != 0
            && self.fast.access_refills(linear, physical, bytes, reads, writes, kind);
        self.refills += u64::from(refills);
        if !hits && !refills {
            self.fast.access(processor, &self.tables, &access);
        }
        self.slow.access(processor, &self.tables, &access);
    }

    fn again(&mut self, linear: u64, physical: u64, bytes: u32, reads: bool, writes: bool) -> bool {
        let again = self.fast.access_hits_again(linear, physical, bytes, reads, writes);
        self.again += u64::from(again);
        again
    }

    /// Executes a block, of which it may leave off in the middle: its instructions are fetched at once, or one by one,
    /// as an engine does, and may access data between; the slow system fetches one by one, and only what begins. It
    /// begins where the one before it was left, or somewhere else.
    fn block(&mut self, processor: usize) {
        let linear = match self.left[processor] {
            Some(left) if self.random.next(3) != 0 => left,
            _ => {
                for system in [&mut self.fast, &mut self.slow.0] {
                    system.processors[processor].locality.redirected = true;
                }
                self.address()
            }
        };
        let mut ends = Vec::new();
        let mut end = linear;
        for _ in 0..1 + self.random.next(12) {
            end += 1 + self.random.next(9);
            if end.div_ceil(PAGE) != (linear + 1).div_ceil(PAGE) {
                break;
            }
            ends.push(end);
        }
        let Some(&last) = ends.last() else {
            self.left[processor] = None;
            return;
        };
        let physical = self.physical(linear);
        let fetch = |begin: u64, end: u64| Fetch {
            linear: begin,
            physical: physical + (begin - linear),
            second_page: None,
            bytes: (end - begin) as u32,
        };
        // As an engine asks: again if the first answer was no.
        let block = fetch(linear, last);
        let mut at_once = !self.fast.logs_fetches()
            && (self.fast.fetch_at_once(0, &block) || self.fast.fetch_at_once(0, &block));
        self.at_once += u64::from(at_once);
        let begun = match self.random.next(2) {
            0 => ends.len(),
            _ => 1 + self.random.next(ends.len() as u64) as usize,
        };
        let mut begin = linear;
        let accesses = self.random.next(3) == 0;
        for &end in &ends[..begun] {
            if !at_once {
                self.fast.fetch(processor, &self.tables, &fetch(begin, end));
            }
            self.slow.fetch(processor, &self.tables, &fetch(begin, end));
            self.left[processor] = Some(match self.random.next(4) {
                // It stops, and begins again.
                0 => begin,
                _ => end,
            });
            begin = end;
            if accesses && self.random.next(3) == 0 {
                self.access(processor);
                if self.fast.takes_code_dropped() && std::mem::take(&mut at_once) {
                    self.fast.unfetch(end);
                    self.dropped += 1;
                }
            }
        }
        if at_once && begun < ends.len() {
            self.fast.unfetch(begin);
            self.unfetched += 1;
        }
    }

    /// Something by which pages that are known have to be forgotten.
    fn change(&mut self, processor: usize) {
        let linear = self.address();
        let number = (linear / PAGE) as usize;
        match self.random.next(4) {
            0 => {
                self.tables.pages[number] = self.any_page();
                for processor in 0..self.processors {
                    self.fast.invalidate_page(processor, linear);
                    self.slow.0.invalidate_page(processor, linear);
                }
            }
            1 if self.random.next(4) == 0 => {
                self.fast.flush_tlbs(processor, TABLES);
                self.slow.0.flush_tlbs(processor, TABLES);
            }
            1 => self.load_page_tables(processor),
            2 => {
                let paging = self.random.next(4) != 0;
                self.fast.change_memory(processor, paging);
                self.slow.0.change_memory(processor, paging);
            }
            _ => self.update_table(processor, number as u64),
        }
    }

    /// A walk sets a bit in the entry of a page; or in what the processor has executed last, where its entries are then.
    fn update_table(&mut self, processor: usize, page: u64) {
        let executed = self.left[processor].filter(|_| self.random.next(2) == 0);
        let code = executed.and_then(|left| {
            let (page, memory, _) = self.tables.pages[(left / PAGE) as usize]?;
            (memory == MemoryType::WriteBack).then_some((page + left % PAGE) & !3)
        });
        let physical = code.unwrap_or(TABLES + PAGE + 4 * page);
        self.fast.update_table(processor, physical, 4);
        self.slow.update_table(processor, physical);
    }

    /// CR3 is loaded. What is written to a page table since the last time may come in few accesses, so that it
    /// is loaded often.
    fn load_page_tables(&mut self, processor: usize) {
        let tlbs = &self.fast.tlbs[processor];
        self.loads[usize::from(tlbs.monitored().next().is_some())] += 1;
        let cr3 = TABLES + self.random.next(3) * 0x20;
        self.fast.load_page_tables(processor, cr3);
        self.slow.0.load_page_tables(processor, cr3);
    }

    /// Both have fired the same.
    fn compare(&mut self, step: u64) {
        for processor in 0..self.processors {
            let fast = *self.fast.occurrences(processor).fired();
            let slow = *self.slow.0.occurrences(processor).fired();
            for index in 0..SIGNALS {
                let signal = Signal::ALL[index];
                assert_eq!(fast[index], slow[index], "{signal:?} at step {step}");
            }
            let log = |system: &mut System| {
                let mut log: Vec<_> = system.occurrences(processor).take_log().collect();
                log.sort_unstable_by_key(|(signal, _)| signal.index());
                log
            };
            assert_eq!(log(&mut self.fast), log(&mut self.slow.0), "step {step}");
        }
    }
}

/// A walk reads the entries of two levels. Those of the second page are in the lines that the walk for the
/// first one has brought into the data cache: a clock each on the Pentium, three cycles each on the P6.
#[test]
fn a_walk_takes_time_where_it_hits() {
    for (part, read) in [(&part::P55C, 1), (&part::P6, 3)] {
        let mut system = System::new(part, 1, std::slice::from_ref(&(0..TABLES + 2 * PAGE)));
        system.change_memory(0, true);
        let pages = (0..2).map(|page| Some((page * PAGE, MemoryType::WriteBack, false)));
        let tables = Tables { pages: pages.collect() };
        let mut load = |linear: u64| {
            let access = load_of(linear, linear);
            system.access(0, &tables, &access).walk
        };
        assert!(load(0) > 2 * read, "the lines of the entries are missed");
        assert_eq!(load(PAGE), 2 * read);
        assert_eq!(load(PAGE + 4), 0, "the page is in the TLB");
    }
}

/// Threads with the same page tables find each other's pages, and others do not. The second page of 2 MiB
/// takes a short walk, which its page-directory entry begins.
#[test]
fn threads_of_a_core_share_translations() {
    let mut system = System::new(&part::KNC, 8, std::slice::from_ref(&(0..TABLES + 2 * PAGE)));
    let pages = (0..8).map(|page| Some((page * PAGE, MemoryType::WriteBack, false)));
    let tables = Tables { pages: pages.collect() };
    for processor in 0..8 {
        system.change_memory(processor, true);
    }
    let load = |system: &mut System, processor: usize, page: u64| {
        let access = load_of(page * PAGE, page * PAGE);
        system.choose(processor);
        let before = *system.occurrences(processor).fired();
        system.access(processor, &tables, &access);
        let after = *system.occurrences(processor).fired();
        [Signal::PageWalkData, Signal::PageWalkDataLong]
            .map(|signal| after[signal.index()] - before[signal.index()])
    };
    assert_eq!(load(&mut system, 0, 1), [1, 1]);
    assert_eq!(load(&mut system, 2, 1), [0, 0]);
    assert_eq!(load(&mut system, 2, 2), [1, 0]);
    assert_eq!(load(&mut system, 0, 2), [0, 0]);
    // Another core has TLBs of its own.
    assert_eq!(load(&mut system, 4, 1), [1, 1]);
    // Another's page tables are not those of the rest, and what they have stays.
    system.choose(1);
    system.load_page_tables(1, 0x5000);
    assert_eq!(load(&mut system, 1, 1), [1, 1]);
    assert_eq!(load(&mut system, 3, 1), [0, 0]);
    system.choose(3);
    system.invalidate_page(3, PAGE);
    assert_eq!(load(&mut system, 0, 1), [1, 1]);
    assert_eq!(load(&mut system, 1, 1), [0, 0]);
}

/// What another core has done to a core's caches is found by the thread that runs there next.
#[test]
fn what_probes_fire_goes_on_with_the_core() {
    let mut system = System::new(&part::KNC, 8, std::slice::from_ref(&(0..TABLES)));
    let tables = Tables { pages: vec![Some((0, MemoryType::WriteBack, false))] };
    let access = DataAccess {
        linear: 0,
        physical: 0,
        second_page: None,
        bytes: 4,
        elements: 1,
        operation: Operation::Store,
        kind: Kind::Plain,
    };
    for processor in [1, 4] {
        system.choose(processor);
        system.access(processor, &tables, &access);
    }
    let hits = |system: &mut System, processor: usize| {
        system.occurrences(processor).fired()[Signal::SnoopHitmL2.index()]
    };
    assert_eq!([1, 2, 4].map(|processor| hits(&mut system, processor)), [1, 0, 0]);
    system.choose(2);
    assert_eq!([1, 2, 4].map(|processor| hits(&mut system, processor)), [0, 1, 0]);
}

/// A store of which only the second level knows writes a page table that the K8's flush filter monitors: the pages that
/// were kept for its address space are dropped when that comes back. Without the store they are there.
#[test]
fn a_refill_for_a_store_is_told_to_the_flush_filter() {
    // 512 sets of 64 bytes, 2 ways.
    const STRIDE: u64 = 512 * 64;
    const FIRST: u64 = 0x1000;
    for stores in [false, true] {
        let mut system = System::new(&part::K8, 1, std::slice::from_ref(&(0..TABLES + 2 * PAGE)));
        system.change_memory(0, true);
        // The first page; the page table; two pages whose lines are in its sets.
        let table = TABLES + PAGE;
        let pages = [0, table, table - STRIDE, table - 2 * STRIDE];
        let pages = pages.map(|page| Some((page, MemoryType::WriteBack, false)));
        let tables = Tables { pages: pages.into() };
        let load = |system: &mut System, number: u64| {
            let (page, ..) = tables.pages[number as usize].unwrap();
            let access = load_of(number * PAGE + 0x800, page + 0x800);
            system.access(0, &tables, &access);
            system.occurrences(0).fired()[Signal::DtlbMissLast.index()]
        };
        system.load_page_tables(0, FIRST);
        for number in [0, 1, 2, 3] {
            load(&mut system, number);
        }
        // That page is known again, and the line has left the data cache.
        let before = load(&mut system, 0);
        let access = load_of(PAGE + 0x40, table + 0x40);
        system.access(0, &tables, &access);
        if stores {
            let line = (PAGE + 0x800, table + 0x800);
            assert!(!system.access_hits(line.0, line.1, 4, false, true));
            assert!(system.access_refills(line.0, line.1, 4, false, true, Kind::Plain));
        }
        system.load_page_tables(0, 2 * FIRST);
        system.load_page_tables(0, FIRST);
        assert_eq!(load(&mut system, 0) - before, stores.into());
    }
}

/// A walk sets a bit in a line that is in the instruction cache: the pipeline restarts there, and not with whichever
/// store comes next.
#[test]
fn a_walk_that_writes_code_restarts_the_pipeline() {
    let mut system = System::new(&part::P55C, 1, std::slice::from_ref(&(0..TABLES + 2 * PAGE)));
    let tables = Tables { pages: vec![Some((TABLES, MemoryType::WriteBack, false))] };
    system.change_memory(0, true);
    let code = Fetch { linear: 0x40, physical: TABLES + 0x40, second_page: None, bytes: 4 };
    system.fetch(0, &tables, &code);
    let restarts = |system: &mut System| {
        let flushes = system.occurrences(0).fired()[Signal::FlushSmc.index()];
        (flushes, system.take_restart(0))
    };
    assert_eq!(restarts(&mut system), (0, false));
    system.update_table(0, TABLES + 0x44, 4);
    assert_eq!(restarts(&mut system), (1, true));
    let store = DataAccess { operation: Operation::Store, ..load_of(0x800, TABLES + 0x800) };
    system.access(0, &tables, &store);
    assert_eq!(restarts(&mut system), (1, false));
}

/// Of two pages of which one alone can be known how it is cached, the one that was accessed last is: the other is
/// looked up in the tables again, as it is where the state was saved between and loaded. In the TLB they are marked
/// apart.
#[test]
fn a_page_whose_memory_type_is_forgotten_is_no_shortcut() {
    const OTHER: u64 = 512 * PAGE;
    let page = |physical: u64, memory| Some((physical, memory, false));
    let mut tables = Tables { pages: vec![page(0, MemoryType::WriteBack); 513] };
    tables.pages[512] = page(PAGE, MemoryType::WriteBack);
    let mut system = System::new(&part::P6, 1, std::slice::from_ref(&(0..TABLES + 2 * PAGE)));
    system.change_memory(0, true);
    let mut nothing_known = Vec::new();
    system.visit(&mut Saver::new(&mut nothing_known));
    let hits =
        |system: &mut System, linear: u64| system.access_hits(linear, linear / 512, 4, true, false);
    let load = |system: &mut System, linear: u64| {
        let access = load_of(linear, linear / 512);
        system.access(0, &tables, &access);
    };
    load(&mut system, 0);
    load(&mut system, PAGE);
    // A hit that marks the page, and one by the mark.
    for _ in 0..2 {
        assert!(hits(&mut system, 0));
        load(&mut system, PAGE);
    }
    let (mut changed, mut loaded) = (system.clone(), system.clone());
    load(&mut system, OTHER);
    assert!(hits(&mut system, OTHER));
    assert!(!hits(&mut system, 0));
    // All are forgotten where memory types have changed.
    changed.change_memory(0, true);
    assert!(!hits(&mut changed, 0));
    // And where a state is loaded in which nothing is known.
    let mut loader = Loader::new(&nothing_known);
    loaded.visit(&mut loader);
    loader.finish().expect("its own state");
    assert!(!loaded.tlbs.running_mut().uses_marked_data(0) && !hits(&mut loaded, 0));
}

#[test]
fn shortcuts_change_nothing() {
    let parts = [&part::P55C, &part::P6, &part::PM, &part::K7, &part::K8, &part::KNC];
    for (seed, part) in (1..).zip(parts) {
        let mut program = Program::new(part, 0x9E37_79B9 * seed);
        let mut processor = 0;
        // What a thread knows is out of date when its turn comes again, so that shortcuts take longer to
        // come.
        let steps = if part.threads == 1 { 60_000 } else { 150_000 };
        for step in 0..steps {
            // Mostly the first processor; of a core with several threads, one goes on for a while.
            let threads = part.threads as u64;
            if threads == 1 || step % 16 == 0 {
                let core = usize::from(program.random.next(6) == 0);
                let thread = if threads == 1 { 0 } else { program.random.next(threads) as usize };
                processor = core * part.threads + thread;
            }
            program.fast.choose(processor);
            program.slow.0.choose(processor);
            match program.random.next(400) {
                0..=3 => program.change(processor),
                4..=9 => program.load_page_tables(processor),
                10..=99 => program.block(processor),
                _ => program.access(processor),
            }
            program.compare(step);
        }
        let mut modified = 0;
        for processor in [0, part.threads] {
            let fast = lines(&program.fast, processor);
            assert_eq!(fast, lines(&program.slow.0, processor));
            modified += fast[1].iter().filter(|line| line.state == LineState::Modified).count();
        }
        // It was no program that only misses.
        let fired: Vec<_> =
            (0..part.threads).map(|thread| *program.fast.occurrences(thread).fired()).collect();
        let of = |signal: Signal| fired.iter().map(|fired| fired[signal.index()]).sum::<u64>();
        assert!(of(Signal::L1dAccess) - of(Signal::L1dMiss) > 10_000);
        assert!(of(Signal::DtlbMissLast) > 100 && of(Signal::ItlbMissLast) > 100);
        let has_filter = part.tlbs.flush_filter.is_some();
        assert!(program.loads[0] > 20, "{:?}", program.loads);
        assert_eq!(program.loads[1] > 20, has_filter, "{:?}", program.loads);
        let Program { at_once, unfetched, dropped, .. } = program;
        assert!(modified > 0 && at_once > 1000, "{modified} {at_once}");
        assert!(unfetched > 100 && dropped > 10, "{unfetched} {dropped}");
        assert!(program.hits > 2000 && program.again > 50, "{} {}", program.hits, program.again);
        assert!(program.refills > 500, "{}", program.refills);
    }
}
