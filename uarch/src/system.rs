//! The processors of a machine, with all that they share: what is told of execution goes from here to the
//! models.

use std::ops::Range;

use pmu_model::Signal;

use crate::branch::{Outcome, Predictor, PredictorGeometry, Transfer};
use crate::bus::{Bus, Request, Snoop, Transaction};
use crate::cache::{self, Caches, Context, Hint, Kind, MemoryType};
use crate::occurrences::Occurrences;
use crate::part::Part;
use crate::processors::{PerProcessor, PerRun};
use crate::tlb::{Lookup, Page, PageSize, Tlbs, WalkFrom};

use self::page_tables::MonitoredPages;
use self::pages::{KnownPage, MemoryTypes, PAGE};

mod page_tables;
mod pages;
#[cfg(test)]
mod tests;

/// The processors of a machine.
///
/// On a part with several hardware threads a core, each thread is a processor; those of a core have adjacent
/// numbers and share its TLBs and caches. There, what is told of a processor is of the running one
/// ([`System::choose`]), whether it is named or not.
#[derive(Clone, Debug)]
pub struct System {
    processors: PerProcessor<Processor>,
    predictors: PerRun<Predictor>,
    predictor: &'static PredictorGeometry,
    occurrences: PerProcessor<Occurrences>,
    /// Once for each core.
    tlbs: PerProcessor<Tlbs>,
    caches: Caches,
    bus: Bus,
    /// What the flush filters of the processors' TLBs monitor.
    monitored: MonitoredPages,
    /// Cycles of a page walk for each entry that it reads.
    walk_read: u64,
}

/// What belongs to one processor alone.
#[derive(Clone, Debug)]
struct Processor {
    memory_types: MemoryTypes,
    /// What the last look-up for data found, and the last for code.
    data_page: KnownPage,
    code_page: KnownPage,
    /// Linear addresses go through page tables.
    paging: bool,
    /// Linear addresses between which instructions have been fetched since the last taken transfer, and
    /// whether that was in aligned windows of the instruction cache.
    start: u64,
    next: u64,
    in_windows: bool,
    /// A transfer was taken since.
    redirected: bool,
    /// The running instruction has written to code that was fetched: what is behind it starts again.
    restarts: bool,
    /// When the running instruction began, in cycles.
    time: u64,
}

/// Bytes of code that are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Linear address.
    pub linear: u64,
    /// Guest-physical address of the first byte.
    pub physical: u64,
    /// Guest-physical address of the next page, if they reach into that.
    pub second_page: Option<u64>,
    /// How many.
    pub bytes: u32,
}

/// An access to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAccess {
    /// Linear address.
    pub linear: u64,
    /// Guest-physical address of the first byte.
    pub physical: u64,
    /// Guest-physical address of the next page, if it reaches into that.
    pub second_page: Option<u64>,
    /// Bytes, of each element.
    pub bytes: u32,
    /// How many elements of a string, one behind the other.
    pub elements: u32,
    /// What it does.
    pub operation: Operation,
    /// What kind of instruction makes it.
    pub kind: Kind,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes back.
    Modify,
    /// It asks for the line.
    Prefetch(Hint),
    /// It drops the line, in all processors' caches.
    Flush,
    /// The data cache of the processor is to drop the line, and with `second_level` its second level as well.
    Evict {
        /// From there too.
        second_level: bool,
    },
}

/// Cycles that an access to data takes beyond a hit in the TLB and in the cache of the first level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCycles {
    /// Of translation: of the second level of the TLB, or of page walks.
    pub walk: u64,
    /// Until what is read is there.
    pub read: u64,
    /// Until the caches or the bus have taken what is written. Nobody need wait for it.
    pub write: u64,
}

/// What the page tables of a processor say.
pub trait PageTables {
    /// What a walk for a linear address reads and finds; `None` if no page is there.
    fn walk(&self, linear: u64) -> Option<Walk>;
}

/// A walk of the page tables.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The page that it finds.
    pub page: Page,
    /// How the page is cached.
    pub memory: MemoryType,
    /// Guest-physical addresses of the entries that it reads, from the root on; the first `levels` are
    /// valid. None are read while paging is off.
    pub entries: [u64; 4],
    /// How many.
    pub levels: usize,
    /// Bytes of an entry.
    pub entry_bytes: u32,
    /// The last entry is one of a page table, not one that maps a large page.
    pub is_small: bool,
}

/// Which TLB a look-up is in.
#[derive(Clone, Copy)]
enum Side {
    Code,
    Data,
}

impl System {
    /// Processors of a part, as many threads a core as it has, with memory at these guest-physical addresses
    /// (ascending and apart).
    #[must_use]
    pub fn new(part: &'static Part, processors: usize, memory: &[Range<u64>]) -> Self {
        debug_assert!(part.caches.fetch_window.is_power_of_two());
        let processor = |_| Processor {
            memory_types: MemoryTypes::default(),
            data_page: KnownPage::NONE,
            code_page: KnownPage::NONE,
            paging: false,
            start: 0,
            next: 0,
            in_windows: false,
            redirected: true,
            restarts: false,
            time: 0,
        };
        Self {
            processors: PerProcessor::new(processors, processor),
            predictors: PerRun::new(processors, Predictor::new(part.predictor)),
            predictor: part.predictor,
            occurrences: PerProcessor::new(processors, |_| Occurrences::default()),
            tlbs: PerProcessor::of_cores(processors, part.threads, |_| {
                Tlbs::new(part.tlbs, part.threads)
            }),
            caches: Caches::new(part.caches, processors, part.threads),
            bus: Bus::new(part.bus, processors, memory),
            monitored: MonitoredPages::NONE,
            walk_read: part.tlbs.walk_read,
        }
    }

    /// What has been fired on a processor.
    #[inline(always)]
    pub fn occurrences(&mut self, processor: usize) -> &mut Occurrences {
        &mut self.occurrences[processor]
    }

    /// From now on, this processor runs. What is told without naming one is of the running processor; that is
    /// the first until then.
    pub fn choose(&mut self, processor: usize) {
        let other_core = self.tlbs.number() != self.tlbs.number_of(processor);
        self.processors.choose(processor);
        self.predictors.choose(processor, || Predictor::new(self.predictor));
        self.occurrences.choose(processor);
        self.tlbs.choose(processor);
        let before = self.caches.choose(processor);
        if before != processor {
            self.change_thread(processor);
            if other_core {
                self.pass_on(before, processor);
            }
        }
    }

    /// Another thread of a core runs than before.
    fn change_thread(&mut self, to: usize) {
        let thread = self.tlbs.thread_of(to);
        self.tlbs.running_mut().choose(thread);
        // The others have used the TLBs since it ran. What it has fetched, it has.
        self.processors[to].forget_known_pages();
    }

    /// What is not of a thread goes on with the one that runs: what other cores have done to this one since another
    /// thread ran, which nobody has taken yet.
    #[cold]
    fn pass_on(&mut self, from: usize, to: usize) {
        let fired = self.occurrences[from].take();
        for (&signal, n) in Signal::ALL.iter().zip(fired) {
            if n != 0 {
                self.occurrences[to].fire(signal, n);
            }
        }
    }

    /// Number of the running processor.
    #[inline(always)]
    #[must_use]
    pub fn running(&self) -> usize {
        self.processors.number()
    }

    /// Whether a budget of the running processor is used up.
    #[inline(always)]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.occurrences.running().is_spent()
    }

    /// Whether one is used up, or so nearly that the hits of a block could use it up.
    #[inline(always)]
    #[must_use]
    pub fn is_nearly_spent(&self) -> bool {
        self.occurrences.running().is_nearly_spent()
    }

    /// What follows happens at `time`, in cycles of the processor.
    #[inline(always)]
    pub fn set_time(&mut self, processor: usize, time: u64) {
        self.processors[processor].time = time;
    }

    /// The running processor fetches the instructions of a straight line, from `time` on
    /// ([`System::set_time`]), if all of them are in the instruction cache and their page in the TLB: whether
    /// they are. Else each is to be fetched on its own ([`System::fetch`]).
    #[inline(always)]
    pub fn fetch_at_once(&mut self, time: u64, fetch: &Fetch) -> bool {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let of = self.processors.running_mut();
        of.time = time;
        let end = linear.wrapping_add(u64::from(bytes));
        let resumes = of.resumes(linear);
        if resumes && end <= of.next {
            return true;
        }
        if second_page.is_some() {
            return false;
        }
        let (occurrences, tlbs) = (self.occurrences.running_mut(), self.tlbs.running_mut());
        let Some(memory) =
            of.code_page.get(linear).or_else(|| of.find_code(tlbs, linear, occurrences))
        else {
            return false;
        };
        if !memory.is_cacheable() {
            return false;
        }
        let begin = if resumes { of.next } else { linear };
        let physical = physical + (begin - linear);
        let bytes = (end - begin) as u32;
        let fetch = cache::Fetch { physical, bytes, sequential: resumes, memory };
        if !self.caches.fetch_hits(occurrences, &fetch) {
            return false;
        }
        of.has_fetched(begin, end, resumes, true);
        true
    }

    /// An instruction is fetched. Cycles beyond hits in the instruction cache and the TLB.
    pub fn fetch(&mut self, processor: usize, tables: &impl PageTables, fetch: &Fetch) -> u64 {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let window = u64::from(self.caches.fetch_window());
        let of = &mut self.processors[processor];
        let end = linear.wrapping_add(u64::from(bytes));
        let mut resumes = of.resumes(linear);
        if resumes && end <= of.window_end(window) {
            of.next = of.next.max(end);
            return 0;
        }
        let begin = if resumes { of.next } else { linear };
        let mut cycles = 0;
        for (linear, physical, bytes) in pieces(linear, physical, second_page, bytes) {
            let end = linear.wrapping_add(u64::from(bytes));
            // What was fetched with the instruction before, or in the piece before this one.
            let skipped = begin.saturating_sub(linear).min(u64::from(bytes));
            if skipped == u64::from(bytes) {
                continue;
            }
            let (memory, walk) = self.translate(processor, tables, linear, Side::Code);
            let physical = physical + skipped;
            let bytes = bytes - skipped as u32;
            let fetch = cache::Fetch { physical, bytes, sequential: resumes, memory };
            cycles += walk;
            cycles += self
                .with_caches(processor, |caches, context| caches.fetch(context, processor, &fetch));
            self.processors[processor].has_fetched(begin, end, resumes, memory.is_cacheable());
            resumes = true;
        }
        cycles
    }

    /// Memory is accessed.
    #[inline(always)]
    pub fn access(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        access: &DataAccess,
    ) -> AccessCycles {
        let DataAccess { linear, physical, second_page, bytes, elements, .. } = *access;
        if second_page.is_none() && elements == 1 {
            self.access_page(processor, tables, access, linear, physical, bytes)
        } else {
            self.access_pieces(processor, tables, *access)
        }
    }

    /// The running processor accesses data of memory that is all in one page, if that page is in the TLB and
    /// the data cache has its line, for a write Modified: whether it is, and so takes no cycles beyond. Else
    /// it is to be told of ([`System::access`]), and nothing has happened that is not repeated then. The
    /// access is of an ordinary kind: neither locked nor non-temporal.
    #[inline(always)]
    pub fn access_hits(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
    ) -> bool {
        let of = self.processors.running_mut();
        let memory = match of.data_page.get(linear) {
            Some(memory) => memory,
            None => match of.find_data(self.tlbs.running_mut(), linear) {
                Some(memory) => memory,
                None => return false,
            },
        };
        if memory != MemoryType::WriteBack {
            return false;
        }
        let occurrences = self.occurrences.running_mut();
        let hits = self.caches.hits(occurrences, physical, bytes, reads, writes);
        if hits && writes {
            self.notice_written(physical);
            self.notice_code_written(self.running());
        }
        hits
    }

    /// The same, if page and line are those of the access before, and nothing is to be done but to count it
    /// where nobody looks at it at once: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn access_hits_again(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
    ) -> bool {
        self.processors.running().data_page.get(linear) == Some(MemoryType::WriteBack)
            && !(writes && self.monitored.may_have(physical))
            && self.caches.hits_again(
                self.occurrences.running_mut(),
                physical,
                bytes,
                reads,
                writes,
            )
    }

    /// An access to two pages, or to elements of a string. Those of one page that may be cached are in
    /// lines that the first of them has brought in.
    #[inline(never)]
    fn access_pieces(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        access: DataAccess,
    ) -> AccessCycles {
        let DataAccess { linear, physical, second_page, bytes, elements, .. } = access;
        let mut sum = AccessCycles::default();
        let mut add = |cycles: AccessCycles| {
            sum.walk += cycles.walk;
            sum.read += cycles.read;
            sum.write += cycles.write;
        };
        if elements == 1 {
            for (linear, physical, bytes) in pieces(linear, physical, second_page, bytes) {
                add(self.access_page(processor, tables, &access, linear, physical, bytes));
            }
            return sum;
        }
        for element in 0..u64::from(elements) {
            let offset = element * u64::from(bytes);
            let (linear, physical) = (linear + offset, physical + offset);
            let cycles = self.access_page(processor, tables, &access, linear, physical, bytes);
            // All are asked for at once, so that each of them has waited for those before it.
            sum.walk += cycles.walk;
            sum.read = sum.read.max(cycles.read);
            sum.write = sum.write.max(cycles.write);
        }
        sum
    }

    /// An access to one page.
    #[inline(always)]
    fn access_page(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        access: &DataAccess,
        linear: u64,
        physical: u64,
        bytes: u32,
    ) -> AccessCycles {
        let (memory, walk) = match self.processors[processor].data_page.get(linear) {
            Some(memory) => (memory, 0),
            None => self.translate(processor, tables, linear, Side::Data),
        };
        let DataAccess { operation, kind, .. } = *access;
        let mut left = operation;
        if memory == MemoryType::WriteBack {
            let occurrences = &mut self.occurrences[processor];
            match operation {
                Operation::Load
                    if self.caches.load_hits(occurrences, processor, physical, bytes) =>
                {
                    return AccessCycles { walk, ..AccessCycles::default() };
                }
                Operation::Modify
                    if kind != Kind::Locked
                        && self.caches.load_hits(occurrences, processor, physical, bytes) =>
                {
                    left = Operation::Store;
                }
                _ => {}
            }
            if matches!(left, Operation::Store)
                && kind != Kind::NonTemporal
                && self.caches.store_hits(occurrences, processor, physical, bytes)
            {
                self.notice_written(physical);
                self.notice_code_written(processor);
                return AccessCycles { walk, ..AccessCycles::default() };
            }
        }
        let access = cache::Access { physical, bytes, kind, memory };
        let (read, write) = self.access_caches(processor, left, &access);
        AccessCycles { walk, read, write }
    }

    /// An access that is no hit of the data cache, or not in all: cycles until it has read, and until it has
    /// written.
    #[inline(never)]
    fn access_caches(
        &mut self,
        processor: usize,
        operation: Operation,
        access: &cache::Access,
    ) -> (u64, u64) {
        let cache::Access { physical, memory, kind, .. } = *access;
        let cycles = self.with_caches(processor, |caches, context| match operation {
            Operation::Load => (caches.load_beyond(context, processor, access), 0),
            Operation::Store => (0, caches.store_beyond(context, processor, access)),
            // A locked one is over when memory has it.
            Operation::Modify if kind == Kind::Locked => {
                (caches.modify(context, processor, access), 0)
            }
            Operation::Modify => {
                let read = caches.load(context, processor, access);
                (read, caches.store(context, processor, access))
            }
            Operation::Prefetch(hint) => {
                caches.prefetch(context, processor, physical, hint, memory);
                (0, 0)
            }
            Operation::Flush => {
                caches.flush(context, processor, physical);
                (0, 0)
            }
            Operation::Evict { second_level } => {
                caches.evict(context, processor, physical, second_level);
                (0, 0)
            }
        });
        if matches!(operation, Operation::Store | Operation::Modify) {
            self.notice_written(physical);
        }
        if operation != Operation::Load {
            self.notice_code_written(processor);
        }
        cycles
    }

    /// A page was written: it may have page tables.
    #[inline(always)]
    fn notice_written(&mut self, physical: u64) {
        if self.monitored.may_have(physical) {
            self.tell_written(physical, None);
        }
    }

    /// Tells the flush filters that a page was written; but not that of the processor whose walk did it.
    #[inline(never)]
    fn tell_written(&mut self, physical: u64, walker: Option<usize>) {
        let walker = walker.map(|walker| self.tlbs.number_of(walker));
        for number in 0..self.tlbs.count() {
            if walker != Some(number) {
                let processor = self.tlbs.first_of(number);
                self.tlbs[processor].written(physical);
            }
        }
    }

    /// A store may have dropped code that was fetched.
    #[inline(always)]
    fn notice_code_written(&mut self, processor: usize) {
        if self.caches.take_code_written(processor) {
            self.flush_written_code(processor);
        }
    }

    /// The pipeline restarts: what was fetched behind the instruction is fetched again.
    #[cold]
    #[inline(never)]
    fn flush_written_code(&mut self, processor: usize) {
        self.occurrences[processor].fire(Signal::FlushSmc, 1);
        self.processors[processor].redirected = true;
        self.processors[processor].restarts = true;
    }

    /// Whether what is behind the running instruction starts again, since this was last asked for.
    #[inline(always)]
    pub fn take_restart(&mut self, processor: usize) -> bool {
        std::mem::take(&mut self.processors[processor].restarts)
    }

    /// A port is accessed. Cycles until it has answered.
    pub fn access_port(&mut self, processor: usize, port: u16, bytes: u32, write: bool) -> u64 {
        let request = if write { Request::WritePort } else { Request::ReadPort };
        let transaction = Transaction {
            processor: Some(processor),
            time: self.processors[processor].time,
            request,
            physical: port.into(),
            bytes,
            locked: false,
            snoop: Snoop::Miss,
            holders: 0,
        };
        self.with_caches(processor, |caches, context| {
            caches.drain_write_combining(context, processor)
        });
        self.bus.transact(&mut self.occurrences, &transaction)
    }

    /// A walk set the accessed or dirty bit of an entry at this guest-physical address.
    pub fn update_table(&mut self, processor: usize, physical: u64, bytes: u32) {
        self.with_caches(processor, |caches, context| {
            caches.walk_write(context, processor, physical, bytes, MemoryType::WriteBack)
        });
        if self.monitored.may_have(physical) {
            // The walk enters what it has written into its own TLBs.
            self.tell_written(physical, Some(processor));
        }
    }

    /// A control transfer of the running processor retired: what became of it.
    #[inline(always)]
    pub fn transfer(&mut self, transfer: &Transfer) -> Outcome {
        self.processors.running_mut().redirected |= transfer.taken;
        self.predictors.running_mut().transfer(transfer, self.occurrences.running_mut())
    }

    /// The same, if that is a short way and nobody asks what became of it: whether it is. If not, nothing has
    /// happened.
    #[inline(always)]
    pub fn expects(&mut self, transfer: &Transfer) -> bool {
        let predictor = self.predictors.running_mut();
        let expects = predictor.expects(transfer, self.occurrences.running_mut());
        self.processors.running_mut().redirected |= expects && transfer.taken;
        expects
    }

    /// An exception or interrupt was delivered, from one linear address to another.
    pub fn interrupted(&mut self, processor: usize, from: u64, to: u64) {
        self.processors[processor].redirected = true;
        let predictor = self.predictors.of(processor, || Predictor::new(self.predictor));
        predictor.interrupted(from, to, &mut self.occurrences[processor]);
        self.serialise(processor);
    }

    /// A serialising instruction, SFENCE or MFENCE retired: what was combined is written.
    pub fn serialise(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.drain_write_combining(context, processor)
        });
    }

    /// Translations have changed: all are dropped. CR3 has this value. Where it was loaded and nothing else
    /// has happened, it is [`System::load_page_tables`].
    pub fn flush_tlbs(&mut self, processor: usize, cr3: u64) {
        self.tlbs[processor].flush(cr3);
        self.processors[processor].forget_pages();
    }

    /// CR3 was loaded, with this value.
    pub fn load_page_tables(&mut self, processor: usize, cr3: u64) {
        self.tlbs[processor].load_page_tables(cr3);
        self.processors[processor].forget_pages();
        self.monitored = MonitoredPages::NONE;
        for physical in self.tlbs.iter().flat_map(Tlbs::monitored) {
            self.monitored.add(physical);
        }
    }

    /// Enables or disables the flush filter of a processor's TLBs, if there is one: it is enabled until then.
    pub fn enable_flush_filter(&mut self, processor: usize, enabled: bool) {
        self.tlbs[processor].enable_flush_filter(enabled);
    }

    /// A processor executed something that is not told of: it may have written page tables.
    pub fn missed_execution(&mut self) {
        self.tlbs.iter_mut().for_each(Tlbs::written_anywhere);
    }

    /// The translation of one page is dropped.
    pub fn invalidate_page(&mut self, processor: usize, linear: u64) {
        self.tlbs[processor].invalidate(linear);
        self.processors[processor].forget_pages();
    }

    /// How memory is cached may have changed, or whether there is paging.
    pub fn change_memory(&mut self, processor: usize, paging: bool) {
        let of = &mut self.processors[processor];
        of.paging = paging;
        of.forget_pages();
    }

    /// WBINVD.
    pub fn write_back_and_invalidate(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.write_back_and_invalidate(context, processor);
        });
        self.processors[processor].redirected = true;
    }

    /// INVD.
    pub fn invalidate(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.invalidate(context, processor);
        });
        self.processors[processor].redirected = true;
    }

    #[inline(always)]
    fn with_caches<T>(
        &mut self,
        processor: usize,
        act: impl FnOnce(&mut Caches, &mut Context<'_>) -> T,
    ) -> T {
        let mut context = Context {
            occurrences: &mut self.occurrences,
            bus: &mut self.bus,
            time: self.processors[processor].time,
        };
        act(&mut self.caches, &mut context)
    }

    /// Looks a page up in the TLBs, and walks the page tables if it is not there. How it is cached, and
    /// cycles.
    #[inline(never)]
    fn translate(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> (MemoryType, u64) {
        let (hit, cycles) = self.look_up(processor, tables, linear, side);
        let memory = self.memory_type(processor, tables, linear);
        let of = &mut self.processors[processor];
        let known = match side {
            Side::Code => &mut of.code_page,
            Side::Data => &mut of.data_page,
        };
        *known = if hit { KnownPage::new(linear, memory) } else { KnownPage::NONE };
        (memory, cycles)
    }

    /// Looks a page up in the TLBs, and walks the page tables if it is not there: whether it was, so that
    /// looking it up again changes nothing; and cycles.
    #[inline(always)]
    fn look_up(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> (bool, u64) {
        if !self.processors[processor].paging {
            return (true, 0);
        }
        let (occurrences, tlbs) = (&mut self.occurrences[processor], &mut self.tlbs[processor]);
        let found = match side {
            Side::Code => tlbs.code(linear, occurrences),
            Side::Data => tlbs.data(linear, occurrences),
        };
        match found {
            Lookup::Hit => (true, 0),
            Lookup::SecondLevel { latency } => (false, latency),
            Lookup::Miss => (false, self.walk(processor, tables, linear, side)),
        }
    }

    #[inline(never)]
    fn walk(&mut self, processor: usize, tables: &impl PageTables, linear: u64, side: Side) -> u64 {
        let Some(walk) = tables.walk(linear) else { return 0 };
        let tlbs = &mut self.tlbs[processor];
        let entries = &walk.entries[..walk.levels];
        let from = tlbs.walk_from(linear);
        let mut cycles = tlbs.shared_latency();
        let read = match from {
            WalkFrom::Page if !walk.is_small => &[],
            WalkFrom::PageTable if walk.is_small => &entries[walk.levels.saturating_sub(1)..],
            _ => entries,
        };
        let is_long = read.len() == entries.len();
        let signals = match side {
            Side::Code => [Signal::PageWalkCode, Signal::PageWalkCodeLong],
            Side::Data => [Signal::PageWalkData, Signal::PageWalkDataLong],
        };
        let occurrences = &mut self.occurrences[processor];
        occurrences.fire(signals[0], 1);
        occurrences.fire(signals[1], is_long.into());
        for &physical in read {
            let bytes = walk.entry_bytes;
            cycles += self.walk_read;
            cycles += self.with_caches(processor, |caches, context| {
                caches.walk_read(context, processor, physical, bytes, MemoryType::WriteBack)
            });
        }
        let tlbs = &mut self.tlbs[processor];
        if tlbs.monitor(read) {
            read.iter().for_each(|&physical| self.monitored.add(physical));
        }
        if walk.is_small {
            let span = if walk.entry_bytes == 8 { PageSize::Mib2 } else { PageSize::Mib4 };
            tlbs.fill_directory(linear, span);
        }
        if is_long {
            tlbs.fill_shared(linear, walk.page);
        }
        let occurrences = &mut self.occurrences[processor];
        match side {
            Side::Code => tlbs.fill_code(linear, walk.page, occurrences),
            Side::Data => tlbs.fill_data(linear, walk.page, occurrences),
        }
        self.processors[processor].set_memory_type(linear, walk.memory);
        cycles
    }

    /// How the page of a linear address is cached.
    #[inline(always)]
    fn memory_type(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
    ) -> MemoryType {
        let of = &mut self.processors[processor];
        of.memory_types.get(linear).unwrap_or_else(|| {
            let memory = tables.walk(linear).map_or(MemoryType::Uncacheable, |walk| walk.memory);
            of.set_memory_type(linear, memory);
            memory
        })
    }
}

impl Processor {
    /// What is known of pages may be out of date.
    fn forget_pages(&mut self) {
        self.memory_types = MemoryTypes::default();
        self.forget_known_pages();
        self.redirected = true;
    }

    fn forget_known_pages(&mut self) {
        self.data_page = KnownPage::NONE;
        self.code_page = KnownPage::NONE;
    }

    /// Notes how a page is cached: it, or another for which it has to make room, may be known otherwise.
    fn set_memory_type(&mut self, linear: u64, memory: MemoryType) {
        self.memory_types.set(linear, memory);
        self.forget_known_pages();
    }

    /// How the page of code at a linear address is cached, if that is known and the TLB has the page.
    #[inline(never)]
    fn find_code(
        &mut self,
        tlbs: &mut Tlbs,
        linear: u64,
        occurrences: &mut Occurrences,
    ) -> Option<MemoryType> {
        // Another page may be the one used last now.
        self.code_page = KnownPage::NONE;
        if self.paging && tlbs.code(linear, occurrences) != Lookup::Hit {
            return None;
        }
        let memory = self.memory_types.get(linear)?;
        self.code_page = KnownPage::new(linear, memory);
        Some(memory)
    }

    /// How the page of data at a linear address is cached, if that is known and the TLB has the page where
    /// it need not be searched for.
    #[inline(always)]
    fn find_data(&mut self, tlbs: &mut Tlbs, linear: u64) -> Option<MemoryType> {
        let memory = self.memory_types.get(linear)?;
        if self.paging && !tlbs.has_recent_data(linear) {
            return None;
        }
        self.data_page = KnownPage::new(linear, memory);
        Some(memory)
    }

    /// Whether an instruction at a linear address goes on where fetch has been since the last taken
    /// transfer: it follows, or was fetched already and begins again.
    #[inline(always)]
    fn resumes(&self, linear: u64) -> bool {
        !self.redirected && linear.wrapping_sub(self.start) <= self.next.wrapping_sub(self.start)
    }

    /// Code was fetched.
    #[inline(always)]
    fn has_fetched(&mut self, begin: u64, end: u64, resumes: bool, in_windows: bool) {
        if !resumes {
            self.start = begin;
        }
        self.next = end;
        self.in_windows = in_windows;
        self.redirected = false;
    }

    /// Up to where code was read with what has been fetched last, in windows of so many bytes.
    fn window_end(&self, window: u64) -> u64 {
        if self.in_windows {
            (self.next.wrapping_sub(1) | (window - 1)).wrapping_add(1)
        } else {
            self.next
        }
    }
}

/// Bytes from a linear address on, cut where a page ends: linear address, physical address, bytes.
fn pieces(
    linear: u64,
    physical: u64,
    second_page: Option<u64>,
    bytes: u32,
) -> impl Iterator<Item = (u64, u64, u32)> {
    let in_page = (PAGE - linear % PAGE).min(bytes.into()) as u32;
    let (first, rest) = match second_page {
        Some(_) => (in_page, bytes - in_page),
        None => (bytes, 0),
    };
    let second = second_page.filter(|_| rest != 0);
    let second = second.map(|page| (linear.wrapping_add(u64::from(first)), page, rest));
    std::iter::once((linear, physical, first)).chain(second)
}
