//! The processors of a machine, with all that they share: what is told of execution goes from here to the
//! models.

use std::ops::Range;

use pmu_model::Signal;

use crate::branch::{Outcome, PredictorGeometry, Transfer};
use crate::bus::{Bus, Traffic};
use crate::cache::{Caches, Context};
use crate::occurrences::Occurrences;
use crate::part::Part;
use crate::processors::{PerCore, PerProcessor};
use crate::tlb::Tlbs;

use self::page_tables::MonitoredPages;
use self::pages::PAGE;
use crate::state::{State, Visitor};

mod access;
mod fetch;
mod page_tables;
mod pages;
mod processor;

#[cfg(test)]
mod tests;
mod translation;

pub use self::access::{AccessCycles, DataAccess, Operation};
pub use self::fetch::Fetch;
pub use self::processor::{Processor, Processors};
pub use self::translation::{PageTables, Walk};

/// The processors of a machine.
///
/// On a part with several hardware threads a core, each thread is a processor; those of a core have adjacent
/// numbers and share its TLBs and caches. There, what is told of a processor is of the running one
/// ([`System::choose`]), whether it is named or not.
#[derive(Clone, Debug)]
pub struct System {
    processors: Processors,
    predictor: &'static PredictorGeometry,
    /// Once for each core.
    tlbs: PerCore<Tlbs>,
    caches: Caches,
    bus: Bus,
    /// What the flush filters of the processors' TLBs monitor.
    monitored: MonitoredPages,
    /// Cycles of a page walk for each entry that it reads.
    walk_read: u64,
}

impl System {
    /// Processors of a part, as many threads a core as it has, with memory at these guest-physical addresses
    /// (ascending and apart).
    #[must_use]
    pub fn new(part: &'static Part, processors: usize, memory: &[Range<u64>]) -> Self {
        debug_assert!(part.caches.fetch_window.is_power_of_two());
        let caches = Caches::new(part.caches, processors, part.threads);
        let mut of_each = PerProcessor::new(processors, |_| Processor::default());
        caches.prepare(&mut of_each);
        of_each.running_mut().make_predictor(part.predictor);
        Self {
            processors: of_each,
            predictor: part.predictor,
            tlbs: PerCore::new(processors, part.threads, |_| Tlbs::new(part.tlbs, part.threads)),
            caches,
            bus: Bus::new(part.bus, processors, memory),
            monitored: MonitoredPages::NONE,
            walk_read: part.tlbs.walk_read,
        }
    }

    /// What has been fired on a processor.
    #[inline(always)]
    pub fn occurrences(&mut self, processor: usize) -> &mut Occurrences {
        &mut self.processors[processor].occurrences
    }

    /// From now on, this processor runs. What is told without naming one is of the running processor; that is
    /// the first until then.
    pub fn choose(&mut self, processor: usize) {
        let other_core = self.tlbs.number() != self.tlbs.number_of(processor);
        self.processors.choose(processor);
        self.processors.running_mut().make_predictor(self.predictor);
        self.tlbs.choose(processor);
        let before = self.caches.choose(processor);
        if before != processor {
            self.change_thread(processor);
            if other_core {
                self.pass_on(before, processor);
            }
        }
    }

    /// The same of another thread of the core of the one that runs.
    #[inline]
    pub fn choose_thread(&mut self, processor: usize) {
        debug_assert_eq!(self.tlbs.number(), self.tlbs.number_of(processor));
        if processor == self.processors.number() {
            return;
        }
        self.processors.choose(processor);
        self.processors.running_mut().make_predictor(self.predictor);
        if self.caches.choose(processor) != processor {
            self.change_thread(processor);
        }
    }

    /// The running processor fetches an instruction: whether it goes on in the window of code that it has fetched from
    /// last, so that nothing is read. If not, nothing has happened.
    #[inline(always)]
    pub fn fetches_on(&mut self, linear: u64, bytes: u32) -> bool {
        let window = u64::from(self.caches.fetch_window());
        self.processors.running_mut().locality.fetches_on(linear, bytes, window)
    }

    /// Another thread of a core runs than before.
    #[inline]
    fn change_thread(&mut self, to: usize) {
        let thread = self.tlbs.thread_of(to);
        self.tlbs.running_mut().choose(thread);
        // The others have used the TLBs since it ran. What it has fetched, it has.
        let of = &mut self.processors.running_mut().locality;
        if of.paging {
            of.forget_known_pages();
        }
    }

    /// What is not of a thread goes on with the one that runs: what other cores have done to this one since another
    /// thread ran, which nobody has taken yet.
    #[cold]
    fn pass_on(&mut self, from: usize, to: usize) {
        let left = &mut self.processors[from].occurrences;
        if left.is_clear() {
            return left.forget_log();
        }
        let fired = left.take();
        for (&signal, n) in Signal::ALL.iter().zip(fired) {
            if n != 0 {
                self.processors[to].occurrences.fire(signal, n);
            }
        }
    }

    /// What anybody has asked for of memory, of a device or of the caches of another core since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        self.bus.take_traffic()
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
        self.processors.running().occurrences.is_spent()
    }

    /// Whether one is used up, or so nearly that the hits of a block could use it up.
    #[inline(always)]
    #[must_use]
    pub fn is_nearly_spent(&self) -> bool {
        self.processors.running().occurrences.is_nearly_spent()
    }

    /// What follows happens at `time`, in cycles of the processor. No part of the state: behind a load it is said
    /// again before anything else.
    #[inline(always)]
    pub fn set_time(&mut self, processor: usize, time: u64) {
        self.processors[processor].locality.time = time;
    }

    /// The same for the running processor.
    #[inline(always)]
    pub fn set_time_of_running(&mut self, time: u64) {
        self.processors.running_mut().locality.time = time;
    }

    /// A control transfer of the running processor retired: what became of it.
    #[inline(always)]
    pub fn transfer(&mut self, transfer: &Transfer) -> Outcome {
        let of = self.processors.running_mut();
        of.locality.redirected |= transfer.taken;
        let (predictor, occurrences) = of.predictor();
        predictor.transfer(transfer, occurrences)
    }

    /// The same, if that is a short way and nobody asks what became of it: whether it is. If not, nothing has
    /// happened.
    #[inline(always)]
    pub fn transfer_quickly(&mut self, transfer: &Transfer) -> bool {
        let of = self.processors.running_mut();
        let (predictor, occurrences) = of.predictor();
        let told = predictor.transfer_quickly(transfer, occurrences).is_some();
        of.locality.redirected |= told && transfer.taken;
        told
    }

    /// An exception or interrupt was delivered, from one linear address to another.
    pub fn interrupted(&mut self, processor: usize, from: u64, to: u64) {
        let of = &mut self.processors[processor];
        of.locality.redirected = true;
        of.make_predictor(self.predictor);
        let (predictor, occurrences) = of.predictor();
        predictor.interrupted(from, to, occurrences);
        self.serialise(processor);
    }

    /// A serialising instruction, SFENCE or MFENCE retired: what was combined is written.
    pub fn serialise(&mut self, processor: usize) {
        self.with_caches(processor, |caches, context| {
            caches.drain_write_combining(context, processor)
        });
    }

    #[inline(always)]
    fn with_caches<T>(
        &mut self,
        processor: usize,
        act: impl FnOnce(&mut Caches, &mut Context<'_>) -> T,
    ) -> T {
        let time = self.processors[processor].locality.time;
        let mut context = Context { processors: &mut self.processors, bus: &mut self.bus, time };
        act(&mut self.caches, &mut context)
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

/// Of all processors; no part of it is left out. What is in the way of a store's being told to flush filters
/// is worked out again.
impl State for System {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { processors, predictor, tlbs, caches, bus, monitored, walk_read: _ } = self;
        processors.visit_with(visitor, |processor, visitor| processor.visit(visitor, predictor));
        // Bytes may say that it has none.
        processors.running_mut().make_predictor(predictor);
        tlbs.visit(visitor);
        caches.visit(visitor, processors.count());
        bus.visit(visitor);
        visitor.name("System");
        let running = processors.number();
        visitor.check(tlbs.number() == tlbs.number_of(running) && caches.is_running(running));
        if V::LOADS {
            *monitored = MonitoredPages::of(tlbs);
        }
    }
}
