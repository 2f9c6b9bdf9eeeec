//! Linear addresses: page walks, and what becomes of translations that were kept.

use pmu_model::Signal;

use super::System;
use super::page_tables::MonitoredPages;
use super::pages::{KnownPage, MemoryTypes};
use super::processor::{Locality, Processor};
use crate::cache::MemoryType;
use crate::tlb::{Lookup, Page, PageSize, Tlbs, WalkFrom};

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
pub(super) enum Side {
    Code,
    Data,
}

impl System {
    /// Tells the flush filters that a page was written; but not that of the processor whose walk did it.
    #[inline(never)]
    pub(super) fn tell_written(&mut self, physical: u64, walker: Option<usize>) {
        let walker = walker.map(|walker| self.tlbs.number_of(walker));
        for number in 0..self.tlbs.count() {
            if walker != Some(number) {
                let processor = self.tlbs.first_of(number);
                self.tlbs[processor].written(physical);
            }
        }
    }

    /// A walk set the accessed or dirty bit of an entry at this guest-physical address.
    pub fn update_table(&mut self, processor: usize, physical: u64, bytes: u32) {
        self.with_caches(processor, |caches, context| {
            caches.walk_write(context, processor, physical, bytes, MemoryType::WriteBack)
        });
        self.notice_code_written(processor);
        if self.monitored.may_have(physical) {
            // The walk enters what it has written into its own TLBs.
            self.tell_written(physical, Some(processor));
        }
    }

    /// Translations have changed: all are dropped. CR3 has this value. Where it was loaded and nothing else
    /// has happened, it is [`System::load_page_tables`].
    pub fn flush_tlbs(&mut self, processor: usize, cr3: u64) {
        self.tlbs[processor].flush(cr3);
        self.processors[processor].locality.forget_pages();
    }

    /// CR3 was loaded, with this value.
    pub fn load_page_tables(&mut self, processor: usize, cr3: u64) {
        self.tlbs[processor].load_page_tables(cr3);
        self.processors[processor].locality.forget_pages();
        self.monitored = MonitoredPages::of(&self.tlbs);
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
        self.processors[processor].locality.forget_pages();
    }

    /// How memory is cached may have changed, or whether there is paging.
    pub fn change_memory(&mut self, processor: usize, paging: bool) {
        let of = &mut self.processors[processor].locality;
        of.paging = paging;
        of.forget_pages();
        self.tlbs[processor].unmark_all_data();
    }

    /// Looks a page up in the TLBs, and walks the page tables if it is not there. How it is cached, and
    /// cycles.
    #[inline(never)]
    pub(super) fn translate(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> (MemoryType, u64) {
        let (hit, cycles) = self.look_up(processor, tables, linear, side);
        let memory = self.memory_type(processor, tables, linear, side);
        let of = &mut self.processors[processor].locality;
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
    pub(super) fn look_up(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> (bool, u64) {
        let Processor { locality, occurrences, .. } = &mut self.processors[processor];
        if !locality.paging {
            return (true, 0);
        }
        let tlbs = &mut self.tlbs[processor];
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
    pub(super) fn walk(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> u64 {
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
        let occurrences = &mut self.processors[processor].occurrences;
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
        let occurrences = &mut self.processors[processor].occurrences;
        match side {
            Side::Code => tlbs.fill_code(linear, walk.page, occurrences),
            Side::Data => tlbs.fill_data(linear, walk.page, occurrences),
        }
        self.set_memory_type(processor, side, linear, walk.memory);
        cycles
    }

    /// How the page of a linear address is cached.
    #[inline(always)]
    pub(super) fn memory_type(
        &mut self,
        processor: usize,
        tables: &impl PageTables,
        linear: u64,
        side: Side,
    ) -> MemoryType {
        self.processors[processor].locality.memory_types(side).get(linear).unwrap_or_else(|| {
            let memory = tables.walk(linear).map_or(MemoryType::Uncacheable, |walk| walk.memory);
            self.set_memory_type(processor, side, linear, memory);
            memory
        })
    }

    /// Notes how a page is cached: it, or another for which it has to make room, may be known otherwise.
    fn set_memory_type(&mut self, processor: usize, side: Side, linear: u64, memory: MemoryType) {
        let of = &mut self.processors[processor].locality;
        let forgotten = of.memory_types(side).set(linear, memory);
        of.forget_known_pages();
        if matches!(side, Side::Data) {
            self.tlbs[processor].unmark_data(forgotten);
        }
    }
}

impl Locality {
    /// What is known of pages may be out of date.
    fn forget_pages(&mut self) {
        self.data_types = MemoryTypes::default();
        self.code_types = MemoryTypes::default();
        self.forget_known_pages();
        self.redirected = true;
    }

    fn memory_types(&mut self, side: Side) -> &mut MemoryTypes {
        match side {
            Side::Code => &mut self.code_types,
            Side::Data => &mut self.data_types,
        }
    }

    pub(super) fn forget_known_pages(&mut self) {
        self.data_page = KnownPage::NONE;
        self.code_page = KnownPage::NONE;
    }
}
