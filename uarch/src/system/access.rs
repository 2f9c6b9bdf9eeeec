//! What is told of accesses to memory and ports.

use pmu_model::Signal;

use super::pages::KnownPage;
use super::processor::{Locality, Processor};
use super::translation::{PageTables, Side};
use super::{System, pieces};
use crate::bus::{Request, Snoop, Transaction};
use crate::cache::{self, Context, Hint, Kind, MemoryType};
use crate::state::{State, Visitor};
use crate::tlb::Tlbs;

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

impl System {
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
    /// the data cache has its line, for a write no other processor: whether it is, and so takes no cycles
    /// beyond. Else it is to be told of ([`System::access`]), and nothing has happened that is not repeated then. The
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
        let Processor { locality: of, occurrences, .. } = self.processors.running_mut();
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
        let hits = self.caches.hits(occurrences, physical, bytes, reads, writes);
        if hits && writes {
            self.notice_written(physical);
            if self.caches.take_code_written_by_running() {
                self.flush_written_code(self.running());
            }
        }
        hits
    }

    /// Whether [`System::access_hits`] would say so of all elements of a string in the lines at these linear and
    /// guest-physical addresses, of which one is read and one is written, and they would do nothing more than be
    /// counted. The element before them has accessed the same lines, so that the pages are in the TLB.
    #[must_use]
    pub fn elements_hit(&self, read: Option<(u64, u64)>, written: Option<(u64, u64)>) -> bool {
        let of = &self.processors.running().locality;
        let may_hit = |linear| of.data_types.get(linear) == Some(MemoryType::WriteBack);
        read.is_none_or(|(linear, physical)| may_hit(linear) && self.caches.has_to_load(physical))
            && written.is_none_or(|(linear, physical)| {
                may_hit(linear)
                    && self.caches.has_to_store(physical)
                    && !self.monitored.may_have(physical)
            })
    }

    /// The same of an access that [`System::access_hits`] says no to, if it misses the data cache and the second
    /// level alone answers, or memory alone where there is none: whether it is, and nobody need know how long that
    /// takes. If not, nothing has happened. It may not be locked or non-temporal.
    #[inline(always)]
    pub fn access_refills(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
        kind: Kind,
    ) -> bool {
        let memory = MemoryType::WriteBack;
        if self.processors.running().locality.data_page.get(linear) != Some(memory) {
            return false;
        }
        let access = cache::Access { physical, bytes, kind, memory };
        let processor = self.running();
        let time = self.processors.running().locality.time;
        let mut context = Context { processors: &mut self.processors, bus: &mut self.bus, time };
        if reads {
            if self.caches.refill::<false>(&mut context, processor, &access).is_none() {
                return false;
            }
            if writes
                && !self.caches.hits(
                    &mut context.processors.running_mut().occurrences,
                    physical,
                    bytes,
                    false,
                    true,
                )
            {
                self.access_caches(processor, Operation::Store, &access);
                return true;
            }
        } else if self.caches.refill::<true>(&mut context, processor, &access).is_none() {
            return false;
        }
        if writes {
            self.notice_written(physical);
            self.notice_code_written(processor);
        }
        true
    }

    /// The same as [`System::access_hits`], if page and line are those of the access before, and nothing is to be
    /// done but to count it where nobody looks at it at once: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn access_hits_again(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
    ) -> bool {
        self.processors.running().locality.data_page.get(linear) == Some(MemoryType::WriteBack)
            && !(writes && self.monitored.may_have(physical))
            && self.caches.hits_again(
                &mut self.processors.running_mut().occurrences,
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
        let of = &mut self.processors[processor].locality;
        let known = of.data_page.get(linear);
        let found = known.or_else(|| of.find_data(&mut self.tlbs[processor], linear));
        let (memory, walk) = match found {
            Some(memory) => (memory, 0),
            None => self.translate(processor, tables, linear, Side::Data),
        };
        let DataAccess { operation, kind, .. } = *access;
        let mut left = operation;
        if memory == MemoryType::WriteBack {
            let occurrences = &mut self.processors[processor].occurrences;
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

    /// A store may have dropped code that was fetched.
    #[inline(always)]
    pub(super) fn notice_code_written(&mut self, processor: usize) {
        if self.caches.take_code_written(processor) {
            self.flush_written_code(processor);
        }
    }

    /// The pipeline restarts: what was fetched behind the instruction is fetched again.
    #[cold]
    #[inline(never)]
    fn flush_written_code(&mut self, processor: usize) {
        self.processors[processor].occurrences.fire(Signal::FlushSmc, 1);
        self.processors[processor].locality.redirected = true;
        self.processors[processor].locality.restarts = true;
    }

    /// Whether what is behind the running instruction starts again, since this was last asked for.
    #[inline(always)]
    pub fn take_restart(&mut self, processor: usize) -> bool {
        std::mem::take(&mut self.processors[processor].locality.restarts)
    }

    /// The same of the running processor.
    #[inline(always)]
    pub fn take_restart_of_running(&mut self) -> bool {
        std::mem::take(&mut self.processors.running_mut().locality.restarts)
    }

    /// A port is accessed. Cycles until it has answered.
    pub fn access_port(&mut self, processor: usize, port: u16, bytes: u32, write: bool) -> u64 {
        let request = if write { Request::WritePort } else { Request::ReadPort };
        let transaction = Transaction {
            processor: Some(processor),
            time: self.processors[processor].locality.time,
            request,
            physical: port.into(),
            bytes,
            locked: false,
            snoop: Snoop::Miss,
            holders: 0,
            on_board: false,
        };
        self.with_caches(processor, |caches, context| {
            caches.drain_write_combining(context, processor)
        });
        self.bus.transact(&mut self.processors, &transaction)
    }

    /// WBINVD.
    pub fn write_back_and_invalidate(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.write_back_and_invalidate(context, processor);
        });
        self.processors[processor].locality.redirected = true;
    }

    /// INVD.
    pub fn invalidate(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.invalidate(context, processor);
        });
        self.processors[processor].locality.redirected = true;
    }
}

impl Locality {
    /// How the page of data at a linear address is cached, if that is known and the TLB has the page where
    /// it need not be searched for.
    #[inline(always)]
    fn find_data(&mut self, tlbs: &mut Tlbs, linear: u64) -> Option<MemoryType> {
        let memory = if !self.paging || tlbs.used_last_data(linear) {
            // Of a large page, another part may have been accessed.
            self.data_types.get(linear)?
        } else if tlbs.uses_marked_data(linear) {
            // Marked are pages of this memory type.
            MemoryType::WriteBack
        } else {
            self.find_unmarked_data(tlbs, linear)?
        };
        self.data_page = KnownPage::new(linear, memory);
        Some(memory)
    }

    #[inline(never)]
    fn find_unmarked_data(&mut self, tlbs: &mut Tlbs, linear: u64) -> Option<MemoryType> {
        let memory = self.data_types.get(linear)?;
        if !tlbs.has_recent_data(linear) {
            return None;
        }
        if memory == MemoryType::WriteBack {
            tlbs.mark_data(linear);
        }
        Some(memory)
    }
}

crate::state! {
    DataAccess { saved: linear, physical, second_page, bytes, elements, operation, kind; }
}

crate::state! {
    AccessCycles { cycles: walk, read, write; }
}

/// A number for the operation, and behind it the hint or the level.
impl State for Operation {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut number: u8 = match self {
            Self::Load => 0,
            Self::Store => 1,
            Self::Modify => 2,
            Self::Prefetch(_) => 3,
            Self::Flush => 4,
            Self::Evict { .. } => 5,
        };
        number.visit(visitor);
        if V::LOADS {
            *self = match number {
                1 => Self::Store,
                2 => Self::Modify,
                3 => Self::Prefetch(Hint::T0),
                4 => Self::Flush,
                5 => Self::Evict { second_level: false },
                _ => Self::Load,
            };
            visitor.check(number <= 5);
        }
        match self {
            Self::Prefetch(hint) => hint.visit(visitor),
            Self::Evict { second_level } => second_level.visit(visitor),
            Self::Load | Self::Store | Self::Modify | Self::Flush => {}
        }
    }
}
