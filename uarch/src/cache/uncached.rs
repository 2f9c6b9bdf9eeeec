//! Accesses that go past the caches: to memory that is not cached or written through, streaming stores,
//! and locked accesses that lock the bus.

use super::coherence::{Answer, BUS_WIDTH, Sender, fire_system_request, fire_write_part};
use super::data::fire_miss;
use super::geometry::LockPolicy;
use super::state::LineState;
use super::write_combining::Buffer;
use super::{Access, Caches, Context, Kind, MemoryType};
use crate::bus::Request;
use pmu_model::Signal;

impl Caches {
    /// A read of memory that may not be cached. Cycles.
    pub(super) fn read_uncached(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        if self.geometry.uncached_is_miss {
            fire_miss(&mut context.processors[processor].occurrences, access.kind, false);
        }
        self.settle_write_combining(context, processor, access);
        self.read_parts(context, processor, access, false)
    }

    /// A write of memory that may not be cached. Cycles.
    pub(super) fn write_uncached(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        if access.kind == Kind::NonTemporal {
            context.processors[processor].occurrences.fire(Signal::WeakStore, 1);
            context.processors[processor].occurrences.fire(Signal::WeakStoreMiss, 1);
        }
        if self.geometry.uncached_is_miss || access.kind == Kind::NonTemporal {
            fire_miss(&mut context.processors[processor].occurrences, access.kind, true);
        }
        if access.memory == MemoryType::WriteCombining && self.combines_writes() {
            context.processors[processor].occurrences.fire(Signal::UncachedWrite, 1);
            self.combine(context, processor, access, false);
            return 0;
        }
        self.settle_write_combining(context, processor, access);
        let (physical, bytes) = (access.physical, access.bytes);
        self.write_parts(context, processor, access.memory, physical, bytes, false)
    }

    /// A streaming store to memory that may be cached: the caches give the line up (Intel SDM volume 1,
    /// "Caching of Temporal vs. Non-Temporal Data"), and the bytes are combined.
    pub(super) fn store_past_caches(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        let (first, last) = self.lines_of(access);
        context.processors[processor].occurrences.fire(Signal::WeakStore, 1);
        // AMD BKDG, event 41h: every streaming store is a miss.
        fire_miss(&mut context.processors[processor].occurrences, access.kind, true);
        let mut present = false;
        for line in first..=last {
            present |= self.holds(processor, line);
            self.drop_own_code(context, processor, line);
            self.flush_line(context, processor, line);
        }
        if !present {
            context.processors[processor].occurrences.fire(Signal::WeakStoreMiss, 1);
        }
        if self.combines_writes() {
            self.combine(context, processor, access, true);
            return 0;
        }
        let (physical, bytes) = (access.physical, access.bytes);
        self.write_parts(context, processor, access.memory, physical, bytes, false)
    }

    /// A store to WT or WP memory: a WT line is written in the cache too, a WP line is dropped. Cycles.
    pub(super) fn write_through(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        let (first, last) = self.lines_of(access);
        let mut latency = 0;
        for line in first..=last {
            self.drop_own_code(context, processor, line);
            let own = &mut self.processors[processor];
            own.forget_data();
            let hit = own.data.find_and_touch(line).is_some();
            if hit {
                latency += self.wait_for_data(context, processor, line).unwrap_or(0);
            } else {
                fire_miss(&mut context.processors[processor].occurrences, access.kind, true);
            }
            if access.memory == MemoryType::WriteProtected {
                self.flush_line(context, processor, line);
            }
            let (physical, bytes) = self.part_of(access, line);
            latency += self.write_parts(context, processor, access.memory, physical, bytes, false);
        }
        latency
    }

    /// Whether a locked access locks the bus rather than a line in the cache (Intel SDM volume 3,
    /// "Effects of a LOCK Operation on Internal Processor Caches").
    pub(super) fn locks_bus(&self, access: &Access) -> bool {
        let (first, last) = self.lines_of(access);
        self.geometry.locks == LockPolicy::Bus
            || first != last
            || access.memory != MemoryType::WriteBack
    }

    /// A locked read and write with the bus locked. Cycles.
    pub(super) fn modify_on_bus(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        let (first, last) = self.lines_of(access);
        if access.memory.is_cacheable() {
            for line in first..=last {
                self.drop_own_code(context, processor, line);
                self.flush_line(context, processor, line);
            }
        }
        if access.memory.is_cacheable() || self.geometry.uncached_is_miss {
            fire_miss(&mut context.processors[processor].occurrences, access.kind, false);
            fire_miss(&mut context.processors[processor].occurrences, access.kind, true);
        }
        let (memory, physical, bytes) = (access.memory, access.physical, access.bytes);
        self.read_parts(context, processor, access, true)
            + self.write_parts(context, processor, memory, physical, bytes, true)
    }

    /// Reads bytes from memory, as much at a time as the bus is wide.
    fn read_parts(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
        locked: bool,
    ) -> u64 {
        let mut latency = 0;
        for (physical, bytes) in parts(access.physical, access.bytes, BUS_WIDTH) {
            latency += self.read_part(context, processor, access.memory, physical, bytes, locked);
        }
        latency
    }

    /// Reads bytes that one transaction gives.
    pub(super) fn read_part(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        memory: MemoryType,
        physical: u64,
        bytes: u32,
        locked: bool,
    ) -> u64 {
        let occurrences = &mut context.processors[processor].occurrences;
        if !memory.is_cacheable() {
            occurrences.fire(Signal::UncachedRead, 1);
        }
        if memory == MemoryType::Uncacheable {
            occurrences.fire(Signal::UncachedAccess, 1);
        }
        fire_system_request(&mut context.processors[processor].occurrences, memory);
        let sender = Sender::Processor(processor);
        if memory.is_cacheable() {
            // A locked read: others write back what they have, and the write behind it drops it.
            self.flush_others(context, processor, physical >> self.shift);
        }
        let request = Request::ReadPartial;
        self.transact(context, sender, request, physical, bytes, locked, Answer::NONE)
    }

    /// Writes bytes to memory, as much at a time as the bus is wide. Cycles.
    pub(super) fn write_parts(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        memory: MemoryType,
        physical: u64,
        bytes: u32,
        locked: bool,
    ) -> u64 {
        let sender = Sender::Processor(processor);
        let request = Request::WritePartial;
        let mut latency = 0;
        for (physical, bytes) in parts(physical, bytes, BUS_WIDTH) {
            let occurrences = &mut context.processors[processor].occurrences;
            if !memory.is_cacheable() {
                occurrences.fire(Signal::UncachedWrite, 1);
            }
            if memory == MemoryType::Uncacheable {
                occurrences.fire(Signal::UncachedAccess, 1);
            }
            fire_write_part(occurrences, memory);
            latency += if memory.is_cacheable() {
                self.write_memory(context, sender, request, physical, bytes, locked)
            } else {
                self.transact(context, sender, request, physical, bytes, locked, Answer::NONE)
            };
        }
        latency
    }

    /// Whether there are write-combining buffers.
    fn combines_writes(&self) -> bool {
        self.geometry.write_combining.buffers != 0
    }

    /// Puts the bytes of a store into write-combining buffers.
    fn combine(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
        streaming: bool,
    ) {
        let (first, last) = self.lines_of(access);
        for line in first..=last {
            let (physical, bytes) = self.part_of(access, line);
            let offset = physical - (line << self.shift);
            let mask = (u64::MAX >> (64 - bytes)) << offset;
            let full = u64::MAX >> (64 - self.geometry.line);
            let buffers = &mut self.processors[processor].write_combining;
            let (evicted, complete) = buffers.write(line, mask, full, streaming);
            for buffer in [evicted, complete].into_iter().flatten() {
                self.flush_buffer(context, processor, &buffer);
            }
        }
    }

    /// Writes a write-combining buffer to memory: at once if it is full, else in parts. Cycles.
    pub(super) fn flush_buffer(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        buffer: &Buffer,
    ) -> u64 {
        let signal = if buffer.streaming { Signal::WcFlushStreaming } else { Signal::WcFlush };
        context.processors[processor].occurrences.fire(signal, 1);
        let line_bytes = self.geometry.line;
        let full = buffer.bytes == u64::MAX >> (64 - line_bytes);
        let part = if full { line_bytes } else { self.geometry.write_combining.partial };
        let mut latency = 0;
        for offset in (0..line_bytes).step_by(part as usize) {
            let bytes = buffer.bytes >> offset & u64::MAX >> (64 - part);
            if bytes == 0 {
                continue;
            }
            let qwords = (0..8).filter(|qword| bytes >> (8 * qword) & 0xFF != 0).count();
            self.fire_qwords(context, processor, qwords as u64);
            let first = u64::from(offset + bytes.trailing_zeros());
            let physical = (buffer.line << self.shift) + first;
            latency += self.write_memory(
                context,
                Sender::Processor(processor),
                Request::WriteCombined,
                physical,
                bytes.count_ones(),
                false,
            );
        }
        latency
    }

    /// What an access to memory that may not be cached does to the write-combining buffers: one to UC
    /// memory writes all of them, a read of WC memory those that it reads.
    fn settle_write_combining(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) {
        if self.processors[processor].write_combining.is_empty() {
            return;
        }
        if access.memory == MemoryType::Uncacheable {
            self.drain_buffers(context, processor);
            return;
        }
        let (first, last) = self.lines_of(access);
        for line in first..=last {
            if let Some(buffer) = self.processors[processor].write_combining.take(line) {
                self.flush_buffer(context, processor, &buffer);
            }
        }
    }

    /// Writes all write-combining buffers to memory, the oldest first. Cycles.
    pub(super) fn drain_buffers(&mut self, context: &mut Context<'_>, processor: usize) -> u64 {
        let mut latency = 0;
        while let Some(buffer) = self.processors[processor].write_combining.take_oldest() {
            latency += self.flush_buffer(context, processor, &buffer);
        }
        latency
    }

    /// Whether a cache of a processor has a line.
    pub(super) fn holds(&self, processor: usize, line: u64) -> bool {
        let own = &self.processors[processor];
        own.second_level.as_ref().is_some_and(|second| second.search(line).is_some())
            || own.data.find(line).is_some()
            || own.code.find(line).is_some()
    }

    /// Writes back a line of a processor, if it is dirty, and drops it in all its caches.
    pub(super) fn flush_line(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        let data = self.drop_first_level(context, processor, line);
        let data_dirty = data.is_some_and(LineState::is_dirty);
        let own = &mut self.processors[processor];
        let found = own.second_level.as_mut().and_then(|second| {
            let slot = second.find(line)?;
            let line = second.line(slot);
            second.remove(slot);
            own.second_level_fills.forget(line.number);
            Some(line)
        });
        if found.is_some() {
            self.leave_directory(processor, line);
        }
        let Some(mut gone) = found else {
            if data_dirty {
                self.write_back(context, processor, line);
            }
            return;
        };
        if data_dirty {
            gone.state = LineState::Modified;
        }
        let occurrences = &mut context.processors[processor].occurrences;
        occurrences.fire(Signal::L2TagWrite, 1);
        super::coherence::fire_second_level_gone(occurrences, gone.state, gone.marked);
        if gone.state.is_dirty() {
            self.write_back_from_second_level(context, processor, line, data_dirty);
        }
    }
}

/// The parts of a range of bytes that aligned units of a size hold: address and bytes.
pub(super) fn parts(physical: u64, bytes: u32, unit: u32) -> impl Iterator<Item = (u64, u32)> {
    let end = physical + u64::from(bytes);
    let unit = u64::from(unit);
    (physical / unit..=(end - 1) / unit).map(move |number| {
        let begin = physical.max(number * unit);
        (begin, (end.min((number + 1) * unit) - begin) as u32)
    })
}
