//! The caches of all processors of a machine, and their coherence.
//!
//! [`Caches`] is told what a processor reads and writes, by physical address. It keeps the states of the
//! lines in the first- and second-level caches, sends what leaves them to the [`Bus`](crate::bus::Bus),
//! probes the other processors' caches, and fires the signals that the events of caches select. What it
//! returns is how many cycles an access takes beyond a hit of the first level.
//!
//! * [`array::LineArray`]: a set-associative array of lines and its replacement.
//! * `data`, `fetch`: loads, stores, page walks; instruction fetches.
//! * `second_level`: what the first level asks it for, and where victims go; `second_level_bus`: what they
//!   go over.
//! * `refill`: the short way of a miss that concerns these two alone.
//! * `coherence`: probes and transactions; `tag_directory`: who need not be probed.
//! * `uncached`, `write_combining`: what goes past the caches.
//! * `prefetch`, `stream`: prefetch instructions and the hardware prefetcher; `prefetch_requests`: prefetch
//!   instructions where they are no accesses.
//! * `fills`: lines that prefetches have asked for and that are on their way.
//! * `maintenance`: flushes, and devices.
//!
//! A line is a number here, its physical address divided by its size. The arrays are indexed by physical
//! address, so that there are no synonyms: where a part's first level is indexed by the linear address
//! (K7, K8), two lines of it with one physical address do not occur, and neither do the signals
//! `L1iInvalidatesL1i` and `L1dInvalidatesL1d`, which stand for them. The second level never has to repeat
//! or cancel a request, so that `L2RequestCancelled` does not occur.
//!
//! A core of several hardware threads has its caches once. Each thread is a processor, with a number and
//! signals of its own; what the probes of other cores do in a core's caches is fired on the thread of it that
//! ran last.

mod access;
pub mod array;
mod code_array;
mod coherence;
mod data;
mod fetch;
mod fills;
mod geometry;
mod maintenance;
mod prefetch;
mod prefetch_requests;
mod processor;
mod refill;
mod second_level;
mod second_level_bus;
mod signals;
mod state;
mod stream;
mod tag_directory;
mod uncached;
mod write_combining;

pub use self::access::{Access, Context, Fetch, Hint, Kind, MemoryType};
pub use self::geometry::{
    ArrayGeometry, CacheGeometry, CodeAndData, Coherence, DeviceRead, Inclusion, LockPolicy,
    PrefetchFills, PrefetchInto, PrefetcherGeometry, Prefetches, Protocol, Replacement,
    SecondLevel, SecondLevelBus, SharedWrite, WalkPath, WriteCombiningGeometry,
};
pub use self::state::LineState;

use self::array::LineArray;
use self::processor::{Processor, lines_at};
use self::tag_directory::TagDirectory;
use crate::occurrences::Occurrences;
use crate::processors::PerCore;
use crate::state::{State, Visitor, visit_made};
use pmu_model::Signal;

/// The caches of all processors of a machine.
#[derive(Clone, Debug)]
pub struct Caches {
    geometry: &'static CacheGeometry,
    /// log2 of the bytes of a line.
    shift: u32,
    /// log2 of the bytes of a window of code.
    window_shift: u32,
    /// Cycles in which a line goes over the bus of a second level.
    transfer_cycles: u64,
    /// Once for each core.
    processors: PerCore<Processor>,
    /// What the part's directories know of several cores' second levels.
    directory: Option<TagDirectory>,
    /// The lines of the board's cache.
    board: Option<LineArray>,
    /// Every transaction, for the tests.
    #[cfg(test)]
    sent: Vec<crate::bus::Transaction>,
    /// How many misses have gone the short way, of loads and of stores.
    #[cfg(test)]
    refills: [u64; 2],
}

impl Caches {
    /// The caches of so many processors, empty. Each core has so many `threads`, which are processors.
    ///
    /// # Panics
    ///
    /// As [`PerCore::new`]; and if there are more cores than the part's directories can tell apart.
    #[must_use]
    pub fn new(geometry: &'static CacheGeometry, processors: usize, threads: usize) -> Self {
        let core = |core| Processor::new(geometry, core * threads);
        debug_assert!(geometry.fetch_window <= geometry.line);
        let processors = PerCore::new(processors, threads, core);
        Self {
            geometry,
            shift: geometry.line.trailing_zeros(),
            window_shift: geometry.fetch_window.trailing_zeros(),
            transfer_cycles: geometry
                .second_level
                .map_or(0, |second| second.bus.cycles(geometry.line)),
            directory: TagDirectory::of(geometry, processors.count()),
            processors,
            board: geometry.board.as_ref().map(LineArray::new),
            #[cfg(test)]
            sent: Vec::new(),
            #[cfg(test)]
            refills: [0; 2],
        }
    }

    /// From now on, this processor runs; the first does until then. The thread of its core that ran last
    /// before.
    #[inline(always)]
    pub fn choose(&mut self, processor: usize) -> usize {
        self.processors.choose(processor);
        std::mem::replace(&mut self.processors.running_mut().thread, processor)
    }

    /// Aligned bytes that one read of the instruction cache gives.
    #[inline(always)]
    #[must_use]
    pub fn fetch_window(&self) -> u32 {
        self.geometry.fetch_window
    }

    /// A read of code. Cycles.
    #[inline]
    pub fn fetch(&mut self, context: &mut Context<'_>, processor: usize, fetch: &Fetch) -> u64 {
        let own = &mut self.processors[processor];
        let window = fetch.physical >> self.window_shift;
        let last = (fetch.physical + u64::from(fetch.bytes) - 1) >> self.window_shift;
        let line = fetch.physical >> self.shift;
        if window == last
            && fetch.memory.is_cacheable()
            && (line == own.fetched || own.code.find_recent(line).is_some())
        {
            if !(fetch.sequential && own.window == window && own.fetched == line) {
                own.window = window;
                own.fetched = line;
                context.processors[processor].occurrences.fire(Signal::L1iFetch, 1);
            }
            return 0;
        }
        self.fetch_windows(context, processor, fetch)
    }

    /// A read of data. Cycles.
    #[inline]
    pub fn load(&mut self, context: &mut Context<'_>, processor: usize, access: &Access) -> u64 {
        let Access { physical, bytes, memory, .. } = *access;
        let occurrences = &mut context.processors[processor].occurrences;
        if memory == MemoryType::WriteBack
            && self.load_hits(occurrences, processor, physical, bytes)
        {
            return 0;
        }
        self.load_beyond(context, processor, access)
    }

    /// A read of data for which [`Caches::load_hits`] does not hold. Cycles.
    #[inline]
    pub fn load_beyond(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        if let Some(cycles) = self.refill::<false>(context, processor, access) {
            return cycles;
        }
        let accesses = granules(access.physical, access.bytes);
        context.processors[processor].occurrences.fire(Signal::L1dAccess, accesses);
        self.load_lines(context, processor, access)
    }

    /// Reads data in memory of type WB, if all of it is in one line that the data cache has: whether it
    /// is. If not, nothing has happened.
    #[inline(always)]
    pub fn load_hits(
        &mut self,
        occurrences: &mut Occurrences,
        processor: usize,
        physical: u64,
        bytes: u32,
    ) -> bool {
        self.processors[processor].load_hits(self.shift, occurrences, physical, bytes)
    }

    /// A write of data. Cycles, for which nobody need wait.
    #[inline]
    pub fn store(&mut self, context: &mut Context<'_>, processor: usize, access: &Access) -> u64 {
        let Access { physical, bytes, memory, kind } = *access;
        let occurrences = &mut context.processors[processor].occurrences;
        if memory == MemoryType::WriteBack
            && kind != Kind::NonTemporal
            && self.store_hits(occurrences, processor, physical, bytes)
        {
            return 0;
        }
        self.store_beyond(context, processor, access)
    }

    /// A write of data for which [`Caches::store_hits`] does not hold. Cycles, for which nobody need wait.
    #[inline]
    pub fn store_beyond(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        if let Some(cycles) = self.refill::<true>(context, processor, access) {
            return cycles;
        }
        let accesses = granules(access.physical, access.bytes);
        context.processors[processor].occurrences.fire(Signal::L1dAccess, accesses);
        self.store_lines(context, processor, access)
    }

    /// Writes data to memory of type WB, if all of it is in one line that the data cache has and no other
    /// processor: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn store_hits(
        &mut self,
        occurrences: &mut Occurrences,
        processor: usize,
        physical: u64,
        bytes: u32,
    ) -> bool {
        self.processors[processor].store_hits(self.shift, occurrences, physical, bytes)
    }

    /// The running processor reads or writes data in memory of type WB, or both, if all of it is in one line
    /// that the data cache has, for a write no other processor: whether it is. If not, nothing has happened.
    #[inline(always)]
    pub fn hits(
        &mut self,
        occurrences: &mut Occurrences,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
    ) -> bool {
        let own = self.processors.running_mut();
        if !writes {
            return own.load_hits(self.shift, occurrences, physical, bytes);
        }
        if !own.store_hits(self.shift, occurrences, physical, bytes) {
            return false;
        }
        if reads {
            // The read comes first, and finds the line as the write does.
            let line = physical >> self.shift;
            (own.loaded, own.read) = (line, line);
            occurrences.fire(Signal::L1dAccess, granules(physical, bytes));
        }
        true
    }

    /// Whether [`Self::hits`] would say so of a load of the running processor from this address.
    pub fn has_to_load(&self, physical: u64) -> bool {
        self.processors.running().state_of(physical >> self.shift) != LineState::Invalid
    }

    /// The same of a store, to a line that is Modified already, with nothing to be taken notice of
    /// ([`Self::take_code_written`]).
    pub fn has_to_store(&self, physical: u64) -> bool {
        let own = self.processors.running();
        !own.code_written && own.state_of(physical >> self.shift) == LineState::Modified
    }

    /// The same, if it is the line that was used last and nobody counts such accesses at once: whether it is. If
    /// not, nothing has happened.
    #[inline(always)]
    pub fn hits_again(
        &mut self,
        occurrences: &mut Occurrences,
        physical: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
    ) -> bool {
        let own = self.processors.running_mut();
        let (line, last) = lines_at(self.shift, physical, bytes);
        if line != last || line != if writes { own.written } else { own.read } {
            return false;
        }
        let accesses = granules(physical, bytes);
        if !writes {
            return occurrences.fires_uncounted(&[(Signal::L1dAccess, accesses)]);
        }
        let times = 1 + u64::from(reads);
        let signals = [(Signal::L1dAccess, times * accesses), (Signal::L1dStoreHitOwned, 1)];
        if own.code_written || !occurrences.fires_uncounted(&signals) {
            return false;
        }
        if reads {
            (own.loaded, own.read) = (line, line);
        }
        true
    }

    /// A read and a write of the same bytes by one instruction; a locked one gets the right to write with
    /// the read. Cycles.
    #[inline]
    pub fn modify(&mut self, context: &mut Context<'_>, processor: usize, access: &Access) -> u64 {
        if access.kind == Kind::Locked {
            return self.modify_locked(context, processor, access);
        }
        self.load(context, processor, access) + self.store(context, processor, access)
    }

    fn modify_locked(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        self.drain_buffers(context, processor);
        let granules = granules(access.physical, access.bytes);
        if self.locks_bus(access) {
            context.processors[processor].occurrences.fire(Signal::L1dAccess, 2 * granules);
            return self.modify_on_bus(context, processor, access);
        }
        context.processors[processor].occurrences.fire(Signal::L1dAccess, granules);
        self.store(context, processor, access)
    }

    /// A read of a page table by the page walker. Cycles.
    pub fn walk_read(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        physical: u64,
        bytes: u32,
        memory: MemoryType,
    ) -> u64 {
        if !memory.is_cacheable() {
            return self.read_part(context, processor, memory, physical, bytes, false);
        }
        self.walk_lines(context, processor, physical >> self.shift, memory)
    }

    /// A write of a page table by the page walker, to set an Accessed or Dirty bit. Cycles.
    pub fn walk_write(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        physical: u64,
        bytes: u32,
        memory: MemoryType,
    ) -> u64 {
        if memory != MemoryType::WriteBack {
            return self.write_parts(context, processor, memory, physical, bytes, false);
        }
        let access = Access { physical, bytes, kind: Kind::Plain, memory };
        self.walk_write_line(context, processor, &access)
    }

    /// The bank of the data cache that an address is in, and its set: two accesses in one cycle collide if
    /// they are in the same bank and not in the same set.
    #[must_use]
    pub fn bank_and_set(&self, physical: u64) -> (u32, u64) {
        let geometry = self.geometry;
        let bank = physical / u64::from(geometry.bank_width) % u64::from(geometry.banks);
        (bank as u32, physical >> self.shift & u64::from(geometry.data.sets - 1))
    }

    /// Whether since the last call a store of the processor has dropped a line of its own instruction
    /// cache, so that what it has fetched may be out of date.
    #[inline(always)]
    pub fn take_code_written(&mut self, processor: usize) -> bool {
        let written = &mut self.processors[processor].code_written;
        // Nearly always clear, and then nothing has to be written.
        *written && std::mem::take(written)
    }

    /// The same of the running processor.
    #[inline(always)]
    pub fn take_code_written_by_running(&mut self) -> bool {
        let written = &mut self.processors.running_mut().code_written;
        *written && std::mem::take(written)
    }

    /// Whether since the last call a line has left the running processor's instruction cache, other than for another
    /// line of code.
    #[inline(always)]
    pub fn take_code_dropped(&mut self) -> bool {
        let dropped = &mut self.processors.running_mut().code_dropped;
        *dropped && std::mem::take(dropped)
    }

    /// The lines of the processor's instruction cache.
    pub fn code_lines(&self, processor: usize) -> impl Iterator<Item = array::Line> + '_ {
        self.processors[processor].code.lines()
    }

    /// The lines of the processor's data cache.
    pub fn data_lines(&self, processor: usize) -> impl Iterator<Item = array::Line> + '_ {
        self.processors[processor].data.lines()
    }

    /// The lines of the processor's second-level cache.
    pub fn second_level_lines(&self, processor: usize) -> impl Iterator<Item = array::Line> + '_ {
        self.processors[processor].second_level.iter().flat_map(LineArray::lines)
    }
}

/// The aligned quadwords of an access: AMD BKDG, event 40h, counts each.
#[inline(always)]
fn granules(physical: u64, bytes: u32) -> u64 {
    ((physical & 7) + u64::from(bytes)).div_ceil(8)
}

impl Caches {
    /// Saves their state or loads it, as [`State::visit`] does, of so many processors.
    pub(crate) fn visit<V: Visitor>(&mut self, visitor: &mut V, count: usize) {
        if V::LOADS {
            self.tell_directory(TagDirectory::leave);
        }
        let Self {
            geometry: _,
            shift: _,
            window_shift: _,
            transfer_cycles: _,
            processors,
            directory: _,
            board,
            #[cfg(test)]
                sent: _,
            #[cfg(test)]
                refills: _,
        } = self;
        processors.visit(visitor);
        visitor.name("Caches.board");
        visit_made(visitor, board);
        visitor.name("Processor.thread");
        visitor.check((0..processors.count()).all(|core| {
            let thread = processors[processors.first_of(core)].thread;
            thread < count && processors.number_of(thread) == core
        }));
        if V::LOADS {
            self.tell_directory(TagDirectory::enter);
        }
    }

    /// Tells the directories, if the part has some, about each line of each core's second level.
    fn tell_directory(&mut self, tell: fn(&mut TagDirectory, usize, u64)) {
        let Some(directory) = &mut self.directory else { return };
        for core in 0..self.processors.count() {
            let own = &self.processors[self.processors.first_of(core)];
            let lines = own.second_level.iter().flat_map(LineArray::lines);
            lines.for_each(|line| tell(directory, core, line.number));
        }
    }

    /// Whether this processor runs, or another of its core.
    pub(crate) fn is_running(&self, processor: usize) -> bool {
        self.processors.number() == self.processors.number_of(processor)
    }
}

#[cfg(test)]
mod tests;
