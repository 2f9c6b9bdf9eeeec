//! The short way of a miss of the data cache: the second level has the line, and nobody else takes part. Or there is
//! no second level: a load reads the line from the system, and a store that does not bring it in writes around the
//! cache.
//!
//! That is what most misses are. All that is needed is looked up, once, before anything is done: a miss that is
//! of another kind takes the general way (`data`, `second_level`) as if it had not been tried. What happens on
//! both ways is the same.

use std::sync::Arc;

use super::array::{Displaced, Line, LineArray};
use super::coherence::{
    Incoming, Sender, Want, fire_read, fire_second_level_gone, fire_write_back, fire_write_part,
};
use super::data::{SECOND_LEVEL_MISS_LACKS, fire_kind_of_miss, fire_miss};
use super::geometry::Inclusion;
use super::processor::NO_LINE;
use super::second_level::{Filling, Purpose, fire_fill, fire_request};
use super::second_level_bus::{Transfer, fire_busy};
use super::signals;
use super::state::LineState;
use super::{Access, Caches, Context, Kind, MemoryType, granules};
use crate::bus::Request;
use crate::occurrences::{Bundle, Occurrences};
use crate::system::Processors;
use pmu_model::Signal;

impl Caches {
    /// A load or a store of the running processor, of an ordinary kind, to memory of type WB, of one line that the data
    /// cache does not have, but the second level does, for a store as the only processor; the victim, if there is one,
    /// goes no further than the second level. Where there is no second level, any load is one, and a store of one
    /// quadword. The line is not on its way, and the instruction cache does not have it. Cycles; `None` if it is
    /// another access, and then nothing has happened.
    #[inline(always)]
    pub(crate) fn refill<const STORES: bool>(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let is_ordinary = matches!(access.kind, Kind::Plain | Kind::Mmx | Kind::Vector);
        let runs = context.processors.number() == processor;
        if access.memory != MemoryType::WriteBack || !is_ordinary || !runs {
            return None;
        }
        debug_assert!(self.processors.number() == self.processors.number_of(processor));
        match self.geometry.second_level.as_ref().map(|second| second.inclusion) {
            Some(Inclusion::Inclusive) => {
                self.refill_from::<STORES, true>(context, processor, access)
            }
            Some(Inclusion::Exclusive) => {
                self.refill_from::<STORES, false>(context, processor, access)
            }
            None if !STORES => self.refill_from_system(context, processor, access),
            None if self.geometry.write_allocate => None,
            None => self.write_around(context, processor, access),
        }
    }

    /// A load where there is no second level: the line comes from the system, and a victim goes there.
    #[inline(never)]
    fn refill_from_system(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let (line, last) = self.lines_of(access);
        let own = self.processors.running_mut();
        if line != last || !own.lacks(line) {
            return None;
        }
        let slot = own.data.slot_for(line)?;
        let displaced = own.data.displaced(slot);

        let Incoming { state, latency, .. } =
            self.ask_system(context, processor, line, Want::Read, access.memory);
        let own = self.processors.running_mut();
        own.data.fill_slot(slot, Line { number: line, state, marked: false });
        own.missing = NO_LINE;
        own.has_loaded(line, slot);
        let occurrences = &mut context.processors.running_mut().occurrences;
        let read = Read { state, gone: displaced };
        if !occurrences.fire_bundle(read.number()) {
            read.fire(occurrences, self.geometry.line);
        }
        fire_beside(occurrences, access, false);
        let outstanding = latency.saturating_sub(SECOND_LEVEL_MISS_LACKS);
        occurrences.fire(Signal::MissOutstandingL1d, outstanding);
        if let Displaced::Line(victim) = displaced {
            own.data_fills.forget(victim.number);
            if victim.state.is_dirty() {
                self.send_back(context, processor, victim.number);
            }
        }
        #[cfg(test)]
        {
            self.refills[0] += 1;
        }
        if self.geometry.prefetcher.is_some() {
            self.train(context, processor, line, false);
        }
        Some(latency)
    }

    /// A store where there is no second level and a miss does not bring the line in: the bytes go to the system.
    #[inline(never)]
    fn write_around(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let (line, last) = self.lines_of(access);
        let own = self.processors.running_mut();
        if line != last
            || granules(access.physical, access.bytes) != 1
            || own.data_fills.may_have(line)
            || !own.lacks(line)
        {
            return None;
        }
        own.missing = line;
        let occurrences = &mut context.processors.running_mut().occurrences;
        if !occurrences.fire_bundle(WrittenAround::NUMBER) {
            WrittenAround::fire(occurrences);
        }
        fire_kind_of_miss(occurrences, access.kind, true);
        #[cfg(test)]
        {
            self.refills[1] += 1;
        }
        let sender = Sender::Processor(processor);
        let (request, Access { physical, bytes, .. }) = (Request::WritePartial, *access);
        Some(self.write_memory(context, sender, request, physical, bytes, false))
    }

    /// The same, compiled for each inclusion.
    #[inline(never)]
    fn refill_from<const STORES: bool, const INCLUSIVE: bool>(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let (line, last) = self.lines_of(access);
        let own = self.processors.running_mut();
        let (Some(second), Some(geometry)) = (&mut own.second_level, &self.geometry.second_level)
        else {
            return None;
        };
        if line != last
            || STORES && !self.geometry.write_allocate
            || own.second_level_fills.may_have(line)
            || own.missing != line && own.data.search(line).is_some()
        {
            return None;
        }
        let below = second.search(line)?;
        let held = second.line(below);
        if STORES && !held.state.is_sole() || own.code.has_data(line) {
            return None;
        }
        let slot = own.data.slot_for(line)?;
        let displaced = own.data.displaced(slot);
        if !INCLUSIVE
            && let Displaced::Line(victim) = displaced
            && (victim.marked || !second.has_room_for(victim.number, line))
        {
            return None;
        }

        let time = context.time;
        let occurrences = &mut context.processors.running_mut().occurrences;
        let bus = &mut own.second_level_bus;
        let cycles = self.transfer_cycles;
        let refilled = Refilled::<INCLUSIVE> { stores: STORES, held, gone: displaced };
        if !occurrences.fire_bundle(refilled.number()) {
            refilled.fire(occurrences, geometry.latency, cycles);
        }
        fire_beside(occurrences, access, STORES);
        bus.use_for(occurrences, time, cycles, Transfer::Up);
        let (state, _) = refilled.states();
        if INCLUSIVE {
            second.touch(below);
            if STORES && held.state != LineState::Modified {
                second.set_state(below, LineState::Modified);
            }
        } else {
            second.remove(below);
        }
        own.data.fill_slot(slot, Line { number: line, state, marked: false });
        own.missing = NO_LINE;
        if let Displaced::Line(victim) = displaced {
            own.data_fills.forget(victim.number);
            if !INCLUSIVE || victim.state.is_dirty() {
                move_down::<INCLUSIVE>(second, victim);
                bus.use_for(occurrences, time, cycles, Transfer::Down);
            }
        }
        if STORES {
            own.has_stored(line);
        } else {
            (own.loaded, own.read) = (line, line);
            own.written = if state == LineState::Modified { line } else { NO_LINE };
        }
        #[cfg(test)]
        {
            self.refills[usize::from(STORES)] += 1;
        }
        let latency = geometry.latency;
        if self.geometry.prefetcher.is_some() {
            self.train(context, processor, line, STORES);
        }
        Some(latency)
    }
}

/// A victim of the data cache goes to the second level: an inclusive one has it, but not what was written.
#[inline(always)]
fn move_down<const INCLUSIVE: bool>(second: &mut LineArray, victim: Line) {
    if !INCLUSIVE {
        second.fill(Line { marked: false, ..victim });
    } else if let Some(slot) = second.search(victim.number) {
        second.set_state(slot, LineState::Modified);
    }
}

/// What an access that misses fires beside what one of a quadword, of the plain kind, does.
#[inline(always)]
fn fire_beside(occurrences: &mut Occurrences, access: &Access, stores: bool) {
    let accesses = granules(access.physical, access.bytes);
    if accesses != 1 {
        occurrences.fire(Signal::L1dAccess, accesses - 1);
    }
    fire_kind_of_miss(occurrences, access.kind, stores);
}

/// States of a line, Invalid among them.
const STATES: usize = LineState::ALL.len();

/// The number of what had to go from the data cache, by its state: one of all that there are and one more.
#[inline(always)]
fn number_of(gone: Displaced) -> usize {
    match gone {
        Displaced::Nothing => STATES,
        Displaced::TakenByProbe => LineState::Invalid as usize,
        Displaced::Line(victim) => victim.state as usize,
    }
}

/// A line in each state, by the state's number.
fn lines() -> [Line; STATES] {
    LineState::ALL.map(|state| Line { number: 0, state, marked: false })
}

/// What can have to go, by its number.
fn all_gone() -> impl Iterator<Item = Displaced> {
    let gone = |line: Line| match line.state {
        LineState::Invalid => Displaced::TakenByProbe,
        _ => Displaced::Line(line),
    };
    lines().into_iter().map(gone).chain([Displaced::Nothing])
}

/// What has to be known of a miss that the system answers to tell what it fires each time.
#[derive(Clone, Copy)]
struct Read {
    /// In which state the line came.
    state: LineState,
    /// What had to go from the data cache.
    gone: Displaced,
}

impl Read {
    /// The number of its bundle.
    #[inline(always)]
    fn number(&self) -> usize {
        number_of(self.gone) * STATES + self.state as usize
    }

    /// What a load of one quadword, of the plain kind, fires, where a line has so many bytes.
    fn fire(&self, occurrences: &mut Occurrences, bytes: u32) {
        let Self { state, gone } = *self;
        occurrences.fire(Signal::L1dAccess, 1);
        fire_miss(occurrences, Kind::Plain, false);
        fire_read(occurrences, Want::Read, state, MemoryType::WriteBack);
        signals::L1D_REFILL_SYSTEM.fire(occurrences, state);
        match gone {
            Displaced::Nothing => {}
            Displaced::TakenByProbe => signals::L1D_EVICT.fire(occurrences, LineState::Invalid),
            Displaced::Line(victim) => {
                signals::L1D_EVICT.fire(occurrences, victim.state);
                if victim.state.is_dirty() {
                    occurrences.fire(Signal::L1dWriteback, 1);
                    fire_write_back(occurrences, bytes);
                }
            }
        }
    }

    /// What each such miss fires, by [`Self::number`].
    fn bundles(bytes: u32) -> Vec<Bundle> {
        let each = all_gone().flat_map(|gone| LineState::ALL.map(|state| Self { state, gone }));
        let bundle = |(number, read): (usize, Self)| {
            debug_assert_eq!(read.number(), number);
            Bundle::of(|occurrences| read.fire(occurrences, bytes))
        };
        each.enumerate().map(bundle).collect()
    }
}

/// A store of one quadword that misses and goes to the system alone, beside the misses that the system answers.
struct WrittenAround;

impl WrittenAround {
    /// The number of its bundle, behind those of [`Read`].
    const NUMBER: usize = (STATES + 1) * STATES;

    /// What it fires, if it is of the plain kind.
    fn fire(occurrences: &mut Occurrences) {
        occurrences.fire(Signal::L1dAccess, 1);
        fire_miss(occurrences, Kind::Plain, true);
        fire_write_part(occurrences, MemoryType::WriteBack);
    }
}

/// What has to be known of a miss that the second level answers to tell what it fires each time.
#[derive(Clone, Copy)]
struct Refilled<const INCLUSIVE: bool> {
    stores: bool,
    /// The line as the second level had it.
    held: Line,
    /// What had to go from the data cache.
    gone: Displaced,
}

impl<const INCLUSIVE: bool> Refilled<INCLUSIVE> {
    /// The number of its bundle.
    #[inline(always)]
    fn number(&self) -> usize {
        let Self { stores, held, gone } = self;
        ((number_of(*gone) * STATES + held.state as usize) << 1 | usize::from(held.marked)) << 1
            | usize::from(*stores)
    }

    /// The states in which the line comes: as the data cache has it then, and as it is counted.
    #[inline(always)]
    fn states(&self) -> (LineState, LineState) {
        let held = self.held.state;
        match (INCLUSIVE, self.stores) {
            (true, true) => (LineState::Modified, LineState::Modified),
            (true, false) if held.is_sole() => (LineState::Exclusive, LineState::Exclusive),
            (true, false) => (LineState::Shared, LineState::Shared),
            (false, true) => (LineState::Modified, held),
            (false, false) => (held, held),
        }
    }

    /// What an access of one quadword, of an ordinary kind, fires; a second level takes so many cycles, and its bus.
    fn fire(&self, occurrences: &mut Occurrences, latency: u64, cycles: u64) {
        let Self { stores, held, gone } = *self;
        let purpose = if stores { Purpose::Store } else { Purpose::Load };
        occurrences.fire(Signal::L1dAccess, 1);
        fire_miss(occurrences, Kind::Plain, stores);
        fire_request(occurrences, purpose, Some(held));
        fire_busy(occurrences, cycles, Transfer::Up);
        if !INCLUSIVE {
            occurrences.fire(Signal::L2TagWrite, 1);
            fire_second_level_gone(occurrences, held.state, held.marked);
        } else if stores && held.state != LineState::Modified {
            occurrences.fire(Signal::L2TagWrite, 1);
        }
        let (_, came) = self.states();
        signals::L1D_REFILL_L2.fire(occurrences, came);
        occurrences.fire(Signal::MissOutstandingL1d, latency);
        match gone {
            Displaced::Nothing => {}
            Displaced::TakenByProbe => signals::L1D_EVICT.fire(occurrences, LineState::Invalid),
            Displaced::Line(victim) => {
                signals::L1D_EVICT.fire(occurrences, victim.state);
                if INCLUSIVE && victim.state.is_dirty() {
                    occurrences.fire_all([
                        (Signal::L1dWriteback, 1),
                        (Signal::L2TagWrite, 1),
                        (Signal::L2WriteFromL1d, 1),
                    ]);
                    fire_busy(occurrences, cycles, Transfer::Down);
                } else if !INCLUSIVE {
                    occurrences.fire(Signal::L1dWriteback, victim.state.is_dirty().into());
                    fire_fill(occurrences, victim.state, Filling::DataVictim);
                    fire_busy(occurrences, cycles, Transfer::Down);
                }
            }
        }
    }

    /// What each such miss fires, by [`Self::number`].
    fn bundles(latency: u64, cycles: u64) -> Arc<[Bundle]> {
        let mut bundles = Vec::new();
        for gone in all_gone() {
            for held in lines() {
                for marked in [false, true] {
                    for stores in [false, true] {
                        let held = Line { marked, ..held };
                        let refilled = Self { stores, held, gone };
                        debug_assert_eq!(refilled.number(), bundles.len());
                        bundles.push(Bundle::of(|to| refilled.fire(to, latency, cycles)));
                    }
                }
            }
        }
        bundles.into()
    }
}

impl Caches {
    /// Has processors know what is fired together.
    pub(crate) fn prepare(&self, processors: &mut Processors) {
        let cycles = self.transfer_cycles;
        let bundles = match &self.geometry.second_level {
            None => {
                let mut bundles = Read::bundles(self.geometry.line);
                debug_assert_eq!(bundles.len(), WrittenAround::NUMBER);
                bundles.push(Bundle::of(WrittenAround::fire));
                bundles.into()
            }
            Some(second) => match second.inclusion {
                Inclusion::Inclusive => Refilled::<true>::bundles(second.latency, cycles),
                Inclusion::Exclusive => Refilled::<false>::bundles(second.latency, cycles),
            },
        };
        processors.iter_mut().for_each(|processor| processor.occurrences.prepare(&bundles));
    }
}
