//! Loads and stores to lines that may be cached.

use super::array::{Displaced, Line};
use super::coherence::Want;
use super::geometry::{CodeAndData, Inclusion, WalkPath};
use super::processor::lines_at;
use super::second_level::{Filling, Purpose, Source};
use super::signals;
use super::state::LineState;
use super::{Access, Caches, Context, Kind, MemoryType};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

/// Cycles that the count of outstanding misses lacks of each that the second level missed too (Intel SDM
/// volume 3, "Performance-Monitoring Events", P6 family: 48h).
pub(super) const SECOND_LEVEL_MISS_LACKS: u64 = 2;

impl Caches {
    /// A load that is not of one line of the data cache alone.
    #[inline(never)]
    pub(super) fn load_lines(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        if !access.memory.is_cacheable() {
            return self.read_uncached(context, processor, access);
        }
        let (first, last) = self.lines_of(access);
        let mut latency = self.load_line(context, processor, first, access);
        if last != first {
            latency += self.load_line(context, processor, last, access);
        }
        latency
    }

    fn load_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        access: &Access,
    ) -> u64 {
        let own = &mut self.processors[processor];
        let latency = if own.data.find_and_touch(line).is_some() {
            self.wait_for_data(context, processor, line).unwrap_or(0)
        } else {
            fire_miss(&mut context.processors[processor].occurrences, access.kind, false);
            let purpose = Purpose::Load;
            let latency = self.miss(context, processor, line, purpose, access.memory, false);
            self.train(context, processor, line, false);
            latency
        };
        // What the prefetcher has brought in may have taken the line's place in the second level.
        let own = &mut self.processors[processor];
        match own.data.find(line) {
            Some(slot) if !own.data_fills.may_have(line) => own.has_loaded(line, slot),
            _ => {
                own.forget_data();
                own.loaded = line;
            }
        }
        latency
    }

    /// A store that is not to one Modified line of the data cache alone.
    #[inline(never)]
    pub(super) fn store_lines(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        match (access.memory, access.kind) {
            (MemoryType::Uncacheable | MemoryType::WriteCombining, _) => {
                self.write_uncached(context, processor, access)
            }
            (_, Kind::NonTemporal) => self.store_past_caches(context, processor, access),
            (MemoryType::WriteThrough | MemoryType::WriteProtected, _) => {
                self.write_through(context, processor, access)
            }
            (MemoryType::WriteBack, _) => {
                let purpose = match access.kind {
                    Kind::Locked => Purpose::Locked,
                    Kind::NoRead { ordered } if self.is_a_line(access) => {
                        Purpose::WriteLine { ordered }
                    }
                    _ => Purpose::Store,
                };
                let (first, last) = self.lines_of(access);
                let mut latency = self.store_line(context, processor, first, access, purpose);
                if last != first {
                    latency += self.store_line(context, processor, last, access, purpose);
                }
                latency
            }
        }
    }

    fn store_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        access: &Access,
        purpose: Purpose,
    ) -> u64 {
        let hit = self.processors[processor].data.state_of(line);
        let rest = self.wait_for_data(context, processor, line);
        if rest.is_some() {
            // Neither a hit nor a miss.
        } else if hit.is_sole() {
            context.processors[processor].occurrences.fire(Signal::L1dStoreHitOwned, 1);
        } else if !hit.is_valid() {
            fire_miss(&mut context.processors[processor].occurrences, access.kind, true);
        }
        let latency = rest.unwrap_or(0) + self.own_line(context, processor, line, access, purpose);
        let reads = purpose.want() != Want::WriteLine;
        if !hit.is_valid() && self.geometry.write_allocate && reads {
            self.train(context, processor, line, true);
        }
        let own = &mut self.processors[processor];
        own.forget_data();
        if own.data.state_of(line) == LineState::Modified && !own.data_fills.may_have(line) {
            own.has_stored(line);
        }
        latency
    }

    /// Writes to a line: in the data cache, or in memory if a miss does not bring it in.
    fn own_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        access: &Access,
        purpose: Purpose,
    ) -> u64 {
        let Some(slot) = self.processors[processor].data.find_and_touch(line) else {
            if self.geometry.write_allocate {
                return self.miss(context, processor, line, purpose, access.memory, false);
            }
            self.drop_own_code(context, processor, line);
            let (physical, bytes) = self.part_of(access, line);
            return self.write_parts(context, processor, access.memory, physical, bytes, false);
        };
        let (state, latency) = if self.processors[processor].data.state(slot).is_sole() {
            (LineState::Modified, 0)
        } else {
            self.drop_own_code(context, processor, line);
            self.upgrade_line(context, processor, line, purpose)
        };
        self.processors[processor].data.set_state(slot, state);
        latency
    }

    /// Gets the right to write a line that the data cache has and may only read. Its state after the
    /// write, and cycles.
    fn upgrade_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
    ) -> (LineState, u64) {
        let second = self.processors[processor].second_level.as_mut();
        let slot = second.and_then(|second| second.find_and_touch(line));
        let (Some(geometry), Some(slot)) = (self.geometry.second_level, slot) else {
            return self.upgrade(context, processor, line);
        };
        self.fire_upgrade_request(context, processor, slot, purpose);
        let latency = geometry.latency + self.own_in_second_level(context, processor, slot);
        context.processors[processor].occurrences.fire(Signal::MissOutstandingL1d, latency);
        (LineState::Modified, latency)
    }

    /// Brings a line into the data cache; one that is to be used once is marked. Cycles.
    pub(super) fn miss(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
        once: bool,
    ) -> u64 {
        match self.geometry.code_and_data {
            CodeAndData::OneCache => self.cast_out_code(context, processor, line, purpose),
            CodeAndData::BothCaches if purpose.owns() => {
                self.drop_own_code(context, processor, line);
            }
            CodeAndData::BothCaches => {}
        }
        let mut granted = self.acquire(context, processor, line, purpose, memory);
        if !purpose.owns() && self.processors[processor].code.find(line).is_some() {
            granted.state = LineState::Shared;
            granted.came = LineState::Shared;
        }
        let occurrences = &mut context.processors[processor].occurrences;
        let lacks = match granted.source {
            Source::SecondLevel => {
                signals::L1D_REFILL_L2.fire(occurrences, granted.came);
                0
            }
            Source::System => {
                signals::L1D_REFILL_SYSTEM.fire(occurrences, granted.came);
                SECOND_LEVEL_MISS_LACKS
            }
            Source::Nowhere => SECOND_LEVEL_MISS_LACKS,
        };
        let outstanding = granted.latency.saturating_sub(lacks);
        occurrences.fire(Signal::MissOutstandingL1d, outstanding);
        let line = Line { number: line, state: granted.state, marked: once };
        let displaced = self.processors[processor].fill_data(line);
        self.data_victim(context, processor, displaced);
        granted.latency
    }

    /// A refill has displaced a line of the data cache.
    fn data_victim(&mut self, context: &mut Context<'_>, processor: usize, displaced: Displaced) {
        let occurrences = &mut context.processors[processor].occurrences;
        let victim = match displaced {
            Displaced::Nothing => return,
            Displaced::TakenByProbe => {
                signals::L1D_EVICT.fire(occurrences, LineState::Invalid);
                return;
            }
            Displaced::Line(victim) => victim,
        };
        signals::L1D_EVICT.fire(occurrences, victim.state);
        self.processors[processor].data_fills.forget(victim.number);
        match (self.inclusion(), victim.state.is_dirty()) {
            // AMD BKDG, event 44h: what PREFETCHNTA brought goes to memory or nowhere.
            (Some(Inclusion::Exclusive), true) if victim.marked => {
                occurrences.fire(Signal::L1dWriteback, 1);
                self.write_back(context, processor, victim.number);
            }
            (Some(Inclusion::Exclusive), false) if !victim.marked => {
                let filling = Filling::DataVictim;
                self.fill_second_level(context, processor, victim.number, victim.state, filling);
            }
            (_, true) => self.write_back_from_data(context, processor, victim),
            (_, false) => {}
        }
    }

    /// A line that the data cache is to get leaves the instruction cache for the second level.
    fn cast_out_code(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
    ) {
        let own = &mut self.processors[processor];
        let Some(slot) = own.code.find(line) else { return };
        let state = own.code.state(slot);
        own.drop_code(line, slot);
        own.code_written |= purpose.owns();
        context.processors[processor].occurrences.fire(Signal::L1dInvalidatesL1i, 1);
        self.fill_second_level(context, processor, line, state, Filling::CodeVictim);
    }

    /// A write drops a line from the processor's own instruction cache.
    pub(super) fn drop_own_code(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        let own = &mut self.processors[processor];
        let Some(slot) = own.code.find(line) else { return };
        own.drop_code(line, slot);
        own.code_written = true;
        context.processors[processor].occurrences.fire(Signal::L1dInvalidatesL1i, 1);
    }

    /// A read of a page table by the page walker. Cycles.
    pub(super) fn walk_lines(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        memory: MemoryType,
    ) -> u64 {
        let own = &mut self.processors[processor];
        match self.geometry.walks {
            WalkPath::DataCache => {
                own.forget_data();
                if own.data.find_and_touch(line).is_some() {
                    let rest = own.data_fills.rest(context.time, line);
                    return rest.map_or(0, |rest| rest.cycles);
                }
                self.miss(context, processor, line, Purpose::Walk, memory, false)
            }
            WalkPath::SecondLevel => {
                if own.data.find(line).is_some() || own.code.find(line).is_some() {
                    return 0;
                }
                self.ask_or_fill_second_level(context, processor, line, Purpose::Walk, memory)
            }
        }
    }

    /// A write of a page table by the page walker. Cycles.
    pub(super) fn walk_write_line(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> u64 {
        let line = access.physical >> self.shift;
        self.processors[processor].forget_data();
        self.own_line(context, processor, line, access, Purpose::Store)
    }

    /// The first and the last line of an access.
    #[inline]
    pub(super) fn lines_of(&self, access: &Access) -> (u64, u64) {
        lines_at(self.shift, access.physical, access.bytes)
    }

    /// Whether an access is of all of a line and of nothing else.
    fn is_a_line(&self, access: &Access) -> bool {
        let line = self.geometry.line;
        access.bytes == line && access.physical.is_multiple_of(line.into())
    }

    /// The part of an access that is in a line: address and bytes.
    pub(super) fn part_of(&self, access: &Access, line: u64) -> (u64, u32) {
        let begin = access.physical.max(line << self.shift);
        let end = (access.physical + u64::from(access.bytes)).min((line + 1) << self.shift);
        (begin, (end - begin) as u32)
    }
}

/// The signals of an access that missed the data cache.
#[inline(always)]
pub(super) fn fire_miss(occurrences: &mut Occurrences, kind: Kind, write: bool) {
    let by_direction = if write { Signal::L1dMissStore } else { Signal::L1dMissLoad };
    occurrences.fire_all([(Signal::L1dMiss, 1), (by_direction, 1)]);
    fire_kind_of_miss(occurrences, kind, write);
}

/// Those of them that only an access of its kind fires: a plain one fires none.
#[inline(always)]
pub(super) fn fire_kind_of_miss(occurrences: &mut Occurrences, kind: Kind, write: bool) {
    match (kind, write) {
        (Kind::Mmx, false) => occurrences.fire(Signal::L1dMissLoadMmx, 1),
        (Kind::Mmx, true) => occurrences.fire(Signal::L1dMissStoreMmx, 1),
        (Kind::Vector, false) => occurrences.fire(Signal::L1dMissLoadVpu, 1),
        (Kind::Vector | Kind::NoRead { .. }, true) => occurrences.fire(Signal::L1dMissStoreVpu, 1),
        (Kind::Locked, _) => occurrences.fire(Signal::L1dMissLocked, 1),
        _ => {}
    }
}
