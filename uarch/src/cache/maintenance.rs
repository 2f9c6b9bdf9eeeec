//! Instructions that empty caches and buffers, and devices that read and write memory.

use super::coherence::Sender;
use super::uncached::parts;
use super::{Caches, Context};
use crate::bus::Request;
use pmu_model::Signal;

impl Caches {
    /// Writes the processor's write-combining buffers to memory: SFENCE, MFENCE, serializing and locked
    /// instructions, IN and OUT, interrupts. Cycles.
    pub fn drain_write_combining(&mut self, context: &mut Context<'_>, processor: usize) -> u64 {
        self.drain_buffers(context, processor)
    }

    /// CLFLUSH: a line is written back and dropped in the caches of all processors.
    pub fn flush(&mut self, context: &mut Context<'_>, processor: usize, physical: u64) {
        let line = physical >> self.shift;
        if let Some(buffer) = self.processors[processor].write_combining.take(line) {
            self.flush_buffer(context, processor, &buffer);
        }
        self.flush_line(context, processor, line);
        self.flush_others(context, processor, line);
    }

    /// CLEVICT0 and CLEVICT1: a line is written back and dropped in the processor's data cache, and with
    /// `second_level` in all its caches.
    pub fn evict(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        physical: u64,
        second_level: bool,
    ) {
        let line = physical >> self.shift;
        if second_level {
            return self.flush_line(context, processor, line);
        }
        let own = &mut self.processors[processor];
        let Some(slot) = own.data.find(line) else { return };
        let held = own.data.line(slot);
        own.drop_data(line, slot);
        if held.state.is_dirty() {
            self.write_back_from_data(context, processor, held);
        }
    }

    /// WBINVD: what is dirty in a processor's caches is written back, and they are emptied.
    pub fn write_back_and_invalidate(&mut self, context: &mut Context<'_>, processor: usize) {
        self.drain_buffers(context, processor);
        let own = &self.processors[processor];
        let mut lines: Vec<u64> = own.data.lines().map(|line| line.number).collect();
        if let Some(second) = &own.second_level {
            lines.extend(second.lines().map(|line| line.number));
        }
        for line in lines {
            self.flush_line(context, processor, line);
        }
        self.invalidate(context, processor);
    }

    /// INVD: a processor's caches are emptied, and what was dirty is lost.
    pub fn invalidate(&mut self, context: &mut Context<'_>, processor: usize) {
        let core = self.processors.number_of(processor);
        let own = &mut self.processors[processor];
        own.code.clear();
        own.code_dropped = true;
        own.data.clear();
        own.forget_all();
        if let Some(second) = &mut own.second_level {
            let occurrences = &mut context.processors[processor].occurrences;
            for line in second.lines() {
                occurrences.fire(Signal::L2TagWrite, 1);
                super::coherence::fire_second_level_gone(occurrences, line.state, line.marked);
                if let Some(directory) = &mut self.directory {
                    directory.leave(core, line.number);
                }
            }
            second.clear();
        }
    }

    /// A device reads memory. Cycles.
    pub fn device_read(&mut self, context: &mut Context<'_>, physical: u64, bytes: u32) -> u64 {
        parts(physical, bytes, self.geometry.line)
            .map(|(physical, bytes)| self.read_for_device(context, physical, bytes))
            .sum()
    }

    /// A device writes memory; no processor has the lines any more. Cycles.
    pub fn device_write(&mut self, context: &mut Context<'_>, physical: u64, bytes: u32) -> u64 {
        let request = Request::WritePartial;
        parts(physical, bytes, self.geometry.line)
            .map(|(physical, bytes)| {
                self.write_memory(context, Sender::Device, request, physical, bytes, false)
            })
            .sum()
    }
}
