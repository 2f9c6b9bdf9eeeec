//! The caches and buffers of one processor, or of a core whose threads are processors.

use pmu_model::Signal;

use super::array::{Displaced, Line, LineArray};
use super::code_array::CodeArray;
use super::fills::Fills;
use super::geometry::CacheGeometry;
use super::granules;
use super::second_level_bus::Usage;
use super::state::LineState;
use super::stream::Streams;
use super::write_combining::WriteCombining;
use crate::occurrences::Occurrences;
use crate::state::Visitor;

/// No line: a number that no address has.
pub(super) const NO_LINE: u64 = u64::MAX;

/// Most lines that are fetched at once: the 48 instructions of a block have 720 bytes, in lines of 32 bytes or more.
pub(super) const FETCHED_AT_ONCE: usize = 24;

/// The caches and buffers of one processor, or of a core.
#[derive(Clone, Debug)]
pub(super) struct Processor {
    /// The number of the processor; of a core, that of the thread that ran last.
    pub(super) thread: usize,
    /// The first-level instruction cache.
    pub(super) code: CodeArray,
    /// The first-level data cache.
    pub(super) data: LineArray,
    /// The lines on their way into it.
    pub(super) data_fills: Fills,
    /// The second-level cache.
    pub(super) second_level: Option<LineArray>,
    /// The lines on their way into it that are to stay there.
    pub(super) second_level_fills: Fills,
    /// The bus of the second level.
    pub(super) second_level_bus: Usage,
    /// The write-combining buffers.
    pub(super) write_combining: WriteCombining,
    /// What the hardware prefetcher follows.
    pub(super) streams: Streams,
    /// The line of data read last, if it is the one that the data cache used last and is not on its way:
    /// reading it again changes nothing.
    pub(super) read: u64,
    /// The same for a line that is Modified: neither does writing it.
    pub(super) written: u64,
    /// A line that has been looked for in the data cache and is not there.
    pub(super) missing: u64,
    /// The line that the last load read, and that the processor may have read early.
    pub(super) loaded: u64,
    /// The line of code that the fetcher read last.
    pub(super) fetched: u64,
    /// The window of code that the fetcher read last, by its number.
    pub(super) window: u64,
    /// A store of this processor has dropped a line of its instruction cache.
    pub(super) code_written: bool,
    /// A line has left the instruction cache other than for another line of code.
    pub(super) code_dropped: bool,
    /// Fetching at once the lines that were fetched last so has changed orders of replacement.
    reordered: bool,
    /// The orders of replacement of the sets whose lines were fetched at once, before they were: of the last line, of
    /// the one before it and so on, but not of the first.
    orders: [u64; FETCHED_AT_ONCE],
}

impl Processor {
    pub(super) fn new(geometry: &CacheGeometry, thread: usize) -> Self {
        Self {
            thread,
            code: CodeArray::new(&geometry.code),
            data: LineArray::new(&geometry.data),
            data_fills: Fills::new(geometry.prefetch_fills.data),
            second_level: geometry.second_level.map(|second| LineArray::new(&second.array)),
            second_level_fills: Fills::new(geometry.prefetch_fills.second_level),
            second_level_bus: Usage::default(),
            write_combining: WriteCombining::new(geometry.write_combining.buffers),
            streams: Streams::new(geometry.prefetcher.map_or(0, |prefetcher| prefetcher.streams)),
            read: NO_LINE,
            written: NO_LINE,
            missing: NO_LINE,
            loaded: NO_LINE,
            fetched: NO_LINE,
            window: NO_LINE,
            code_written: false,
            code_dropped: false,
            reordered: false,
            orders: [0; FETCHED_AT_ONCE],
        }
    }

    /// See [`super::Caches::load_hits`].
    #[inline(always)]
    pub(super) fn load_hits(
        &mut self,
        shift: u32,
        occurrences: &mut Occurrences,
        physical: u64,
        bytes: u32,
    ) -> bool {
        let (line, last) = lines_at(shift, physical, bytes);
        if line != last || line != self.read && !self.find_to_load(line) {
            return false;
        }
        occurrences.fire(Signal::L1dAccess, granules(physical, bytes));
        true
    }

    /// See [`super::Caches::store_hits`].
    #[inline(always)]
    pub(super) fn store_hits(
        &mut self,
        shift: u32,
        occurrences: &mut Occurrences,
        physical: u64,
        bytes: u32,
    ) -> bool {
        let (line, last) = lines_at(shift, physical, bytes);
        if line != last || line != self.written && !self.find_to_store(line) {
            return false;
        }
        occurrences.fire(Signal::L1dAccess, granules(physical, bytes));
        occurrences.fire(Signal::L1dStoreHitOwned, 1);
        true
    }

    /// The state of a line that nobody waits for in the data cache.
    pub(super) fn state_of(&self, line: u64) -> LineState {
        if self.data_fills.may_have(line) { LineState::Invalid } else { self.data.state_of(line) }
    }

    /// Looks for a line that a load would use, and uses it: whether the data cache has it, and nobody waits
    /// for it.
    #[inline(always)]
    fn find_to_load(&mut self, line: u64) -> bool {
        if self.data_fills.may_have(line) {
            return false;
        }
        let Some(slot) = self.data.find_recent(line) else { return self.find_older_to_load(line) };
        self.has_loaded(line, slot);
        true
    }

    #[inline(never)]
    fn find_older_to_load(&mut self, line: u64) -> bool {
        let Some(slot) = self.data.find_older_and_touch(line) else {
            self.missing = line;
            return false;
        };
        self.has_loaded(line, slot);
        true
    }

    /// Whether neither cache of the first level has a line.
    #[inline(always)]
    pub(super) fn lacks(&self, line: u64) -> bool {
        (self.missing == line || self.data.search(line).is_none()) && !self.code.has_data(line)
    }

    /// Looks for a line that a store would use, and uses it: whether the data cache has it, no other processor
    /// does, and nobody waits for it. It is Modified then.
    #[inline(always)]
    fn find_to_store(&mut self, line: u64) -> bool {
        if self.data_fills.may_have(line) {
            return false;
        }
        let Some(slot) = self.data.find_recent(line) else {
            return self.find_older_to_store(line);
        };
        self.own_slot(line, slot)
    }

    #[inline(never)]
    fn find_older_to_store(&mut self, line: u64) -> bool {
        if line == self.missing {
            return false;
        }
        let Some(slot) = self.data.find(line) else {
            self.missing = line;
            return false;
        };
        if !self.own_slot(line, slot) {
            return false;
        }
        self.data.touch(slot);
        true
    }

    /// Writes to a line in a slot of the data cache, if no other processor has it: whether it is so.
    #[inline(always)]
    fn own_slot(&mut self, line: u64, slot: usize) -> bool {
        match self.data.state(slot) {
            LineState::Modified => {}
            LineState::Exclusive => self.data.set_state(slot, LineState::Modified),
            _ => return false,
        }
        self.has_stored(line);
        true
    }

    /// Uses a line or two that follow each other for a fetch, if each is the one that its set used last, so that using
    /// it changes nothing: whether they are. If not, nothing has happened.
    #[inline(always)]
    pub(super) fn fetches_recent(&mut self, first: u64, last: u64) -> bool {
        if last - first > 1
            || self.code.find_recent(first).is_none()
            || last != first && self.code.find_recent(last).is_none()
        {
            return false;
        }
        self.fetched = last;
        self.reordered = false;
        true
    }

    /// Looks for lines that a fetch would use, and uses them: whether the instruction cache has them all. If
    /// not, nothing has happened.
    #[inline(never)]
    pub(super) fn find_to_fetch(&mut self, first: u64, last: u64) -> bool {
        if last - first > 1 && (first..=last).all(|line| self.code.find_recent(line).is_some()) {
            self.fetched = last;
            self.reordered = false;
            return true;
        }
        if first == last {
            if self.code.find_and_touch(first).is_none() {
                return false;
            }
        } else if last - first == 1 {
            let (Some(one), Some(other)) = (self.code.find(first), self.code.find(last)) else {
                return false;
            };
            self.code.touch(one);
            self.note_order(0, last);
            self.code.touch(other);
        } else {
            if last - first >= FETCHED_AT_ONCE as u64
                || (first..=last).any(|line| self.code.find(line).is_none())
            {
                return false;
            }
            self.code.find_and_touch(first);
            for line in first + 1..=last {
                self.note_order((last - line) as usize, line);
                self.code.find_and_touch(line);
            }
        }
        self.reordered = true;
        self.fetched = last;
        true
    }

    #[inline]
    fn note_order(&mut self, place: usize, line: u64) {
        if let Some(order) = self.code.order_of(line) {
            self.orders[place] = *order;
        }
    }

    /// Of the lines that [`Self::find_to_fetch`] has used last, up to `last`, those behind `kept` were not fetched.
    pub(super) fn unfetch(&mut self, kept: u64, last: u64) {
        let changed = if self.reordered { self.orders.len() } else { 0 };
        for (place, line) in (0..changed).zip((kept + 1..=last).rev()) {
            if let Some(order) = self.code.order_of(line) {
                *order = self.orders[place];
            }
        }
        self.fetched = if self.code.find(kept).is_some() { kept } else { NO_LINE };
    }

    /// Drops the line in a slot of the instruction cache, of this number.
    pub(super) fn drop_code(&mut self, line: u64, slot: usize) {
        self.code.remove(slot);
        self.code_dropped = true;
        self.forget_line(line);
    }

    /// A load has used a line of the data cache, which is in this slot: what need not be looked up.
    #[inline(always)]
    pub(super) fn has_loaded(&mut self, line: u64, slot: usize) {
        self.loaded = line;
        self.read = line;
        self.written = if self.data.state(slot) == LineState::Modified { line } else { NO_LINE };
    }

    /// A store has used a line of the data cache, which is Modified.
    #[inline(always)]
    pub(super) fn has_stored(&mut self, line: u64) {
        self.read = NO_LINE;
        self.written = line;
    }

    /// Puts a line into the data cache, which does not have it. What has to go for it.
    pub(super) fn fill_data(&mut self, line: Line) -> Displaced {
        self.forget_data();
        self.missing = NO_LINE;
        self.data.fill(line)
    }

    /// Drops a line of the data cache, which is in this slot.
    pub(super) fn drop_data(&mut self, line: u64, slot: usize) {
        self.data.remove(slot);
        self.data_fills.forget(line);
        // The instruction cache may have it still.
        self.forget_data();
    }

    /// Forgets which line of data need not be looked up, because another may be used last now.
    pub(super) fn forget_data(&mut self) {
        self.read = NO_LINE;
        self.written = NO_LINE;
    }

    /// Forgets a line that has left a first-level cache.
    pub(super) fn forget_line(&mut self, line: u64) {
        for recent in [&mut self.read, &mut self.written, &mut self.fetched] {
            if *recent == line {
                *recent = NO_LINE;
            }
        }
    }

    /// Forgets all lines, which have left the caches.
    pub(super) fn forget_all(&mut self) {
        self.forget_data();
        self.data_fills.clear();
        self.second_level_fills.clear();
        self.fetched = NO_LINE;
    }
}

/// The first and the last line, of 2^`shift` bytes, of so many bytes.
#[inline(always)]
pub(super) fn lines_at(shift: u32, physical: u64, bytes: u32) -> (u64, u64) {
    (physical >> shift, (physical + u64::from(bytes) - 1) >> shift)
}

crate::state! {
    Processor {
        saved: thread, code, data, data_fills, second_level_fills, second_level_bus, write_combining, streams,
            loaded, fetched, window, code_written;
        made: second_level;
        derived: read, written, missing, code_dropped, reordered, orders;
        then: restore;
    }
}

impl Processor {
    fn restore<V: Visitor>(&mut self, _visitor: &mut V) {
        if V::LOADS {
            self.forget_data();
            self.missing = NO_LINE;
        }
    }
}
