//! Tests of the caches: by hand, and against a slow model of the definition.

mod fetching;
mod fills;
mod generated;
mod knights_corner;
mod memory_types;
mod oracle;
mod outstanding;
mod prefetching;
mod second_level_bus;
mod sharing;
mod sizes;
mod tag_directory;

use super::array::Line;
use super::*;
use crate::bus::{Bus, Request, Snoop};
use crate::part::caches::{K7, K8, KNC, P6, P55C, PII, PM, PPRO};
use crate::processors::PerProcessor;
use crate::system::{Processor, Processors};

/// Every part.
const PARTS: [(&str, &CacheGeometry); 8] = [
    ("p55c", &P55C),
    ("ppro", &PPRO),
    ("pii", &PII),
    ("p6", &P6),
    ("pm", &PM),
    ("k7", &K7),
    ("k8", &K8),
    ("knc", &KNC),
];

/// Processors with their caches on a bus.
struct Machine {
    caches: Caches,
    processors: Processors,
    bus: Bus,
    /// When operations begin, in cycles.
    time: u64,
}

impl Machine {
    fn new(geometry: &'static CacheGeometry, processors: usize) -> Self {
        Self::with_threads(geometry, processors, 1)
    }

    fn with_threads(geometry: &'static CacheGeometry, processors: usize, threads: usize) -> Self {
        let caches = Caches::new(geometry, processors, threads);
        let mut processors = PerProcessor::new(processors, |_| Processor::default());
        caches.prepare(&mut processors);
        Self { caches, processors, bus: Bus::default(), time: 0 }
    }

    /// Performs an operation.
    fn run<T>(&mut self, operation: impl FnOnce(&mut Caches, &mut Context<'_>) -> T) -> T {
        let processors = &mut self.processors;
        let mut context = Context { processors, bus: &mut self.bus, time: self.time };
        operation(&mut self.caches, &mut context)
    }

    /// A load of eight bytes of write-back memory.
    fn load(&mut self, processor: usize, physical: u64) -> u64 {
        let access = plain(physical, 8);
        self.run(|caches, context| caches.load(context, processor, &access))
    }

    /// A store of eight bytes to write-back memory.
    fn store(&mut self, processor: usize, physical: u64) -> u64 {
        let access = plain(physical, 8);
        self.run(|caches, context| caches.store(context, processor, &access))
    }

    /// A fetch of one instruction of four bytes, the target of a branch.
    fn fetch(&mut self, processor: usize, physical: u64) -> u64 {
        let memory = MemoryType::WriteBack;
        let fetch = Fetch { physical, bytes: 4, sequential: false, memory };
        self.run(|caches, context| caches.fetch(context, processor, &fetch))
    }

    /// How often a signal was fired on a processor.
    fn count(&mut self, processor: usize, signal: Signal) -> u64 {
        self.processors[processor].occurrences.fired()[signal.index()]
    }

    /// Holds several signals of a processor against their numbers.
    #[track_caller]
    fn expect(&mut self, processor: usize, expected: &[(Signal, u64)]) {
        for &(signal, number) in expected {
            assert_eq!(self.count(processor, signal), number, "{signal:?} of {processor}");
        }
    }

    /// The requests of a kind that were sent, of whomever.
    fn sent(&self, request: Request) -> usize {
        self.caches.sent.iter().filter(|sent| sent.request == request).count()
    }

    /// The state of a line in the data cache.
    fn data_state(&self, processor: usize, physical: u64) -> LineState {
        self.caches.processors[processor].data.state_of(physical >> self.caches.shift)
    }

    /// The state of a line in the second level.
    fn second_level_state(&self, processor: usize, physical: u64) -> LineState {
        let second = self.caches.processors[processor].second_level.as_ref().unwrap();
        second.state_of(physical >> self.caches.shift)
    }
}

/// An access of nothing special.
fn plain(physical: u64, bytes: u32) -> Access {
    Access { physical, bytes, kind: Kind::Plain, memory: MemoryType::WriteBack }
}
