//! The short way of a miss of the data cache: the second level has the line, and nobody else takes part. Or there is
//! no second level, and a load reads the line from the system.
//!
//! That is what most misses are. All that is needed is looked up, once, before anything is done: a miss that is
//! of another kind takes the general way (`data`, `second_level`) as if it had not been tried. What happens on
//! both ways is the same.

use super::array::{Displaced, Line, LineArray};
use super::coherence::{Incoming, Want, fire_second_level_gone};
use super::data::{SECOND_LEVEL_MISS_LACKS, fire_miss};
use super::geometry::Inclusion;
use super::processor::NO_LINE;
use super::second_level::{Filling, Purpose, fire_fill, fire_request};
use super::second_level_bus::Transfer;
use super::signals;
use super::state::LineState;
use super::{Access, Caches, Context, Kind, MemoryType, granules};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

impl Caches {
    /// A load or a store of an ordinary kind to memory of type WB, of one line that the data cache does not have,
    /// but the second level does, for a store as the only processor; the victim, if there is one, goes no further
    /// than the second level. The line is not on its way, and the instruction cache does not have it. Cycles;
    /// `None` if it is another access, and then nothing has happened.
    #[inline(always)]
    pub(crate) fn refill<const STORES: bool>(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let is_ordinary = matches!(access.kind, Kind::Plain | Kind::Mmx | Kind::Vector);
        if access.memory != MemoryType::WriteBack || !is_ordinary {
            return None;
        }
        match self.geometry.second_level.as_ref().map(|second| second.inclusion) {
            Some(Inclusion::Inclusive) => {
                self.refill_from::<STORES, true>(context, processor, access)
            }
            Some(Inclusion::Exclusive) => {
                self.refill_from::<STORES, false>(context, processor, access)
            }
            None if STORES => None,
            None => self.refill_from_system(context, processor, access),
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
        let own = &mut self.processors[processor];
        if line != last
            || own.missing != line && own.data.search(line).is_some()
            || own.code.search(line).is_some()
        {
            return None;
        }
        let slot = own.data.slot_for(line)?;
        let displaced = own.data.displaced(slot);

        let occurrences = &mut context.occurrences[processor];
        occurrences.fire(Signal::L1dAccess, granules(access.physical, access.bytes));
        fire_miss(occurrences, access.kind, false);
        let Incoming { state, latency, .. } =
            self.read_system(context, processor, line, Want::Read, access.memory);
        let own = &mut self.processors[processor];
        own.data.fill_slot(slot, Line { number: line, state, marked: false });
        own.missing = NO_LINE;
        own.has_loaded(line, slot);
        let occurrences = &mut context.occurrences[processor];
        signals::L1D_REFILL_SYSTEM.fire(occurrences, state);
        let outstanding = latency.saturating_sub(SECOND_LEVEL_MISS_LACKS);
        occurrences.fire(Signal::MissOutstandingL1d, outstanding);
        match displaced {
            Displaced::Nothing => {}
            Displaced::TakenByProbe => signals::L1D_EVICT.fire(occurrences, LineState::Invalid),
            Displaced::Line(victim) => {
                signals::L1D_EVICT.fire(occurrences, victim.state);
                own.data_fills.forget(victim.number);
                if victim.state.is_dirty() {
                    occurrences.fire(Signal::L1dWriteback, 1);
                    self.write_back(context, processor, victim.number);
                }
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

    /// The same, compiled for each inclusion.
    #[inline(never)]
    fn refill_from<const STORES: bool, const INCLUSIVE: bool>(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        access: &Access,
    ) -> Option<u64> {
        let (line, last) = self.lines_of(access);
        let own = &mut self.processors[processor];
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
        if STORES && !held.state.is_sole() || own.code.search(line).is_some() {
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
        let occurrences = &mut context.occurrences[processor];
        let bus = &mut own.second_level_bus;
        let cycles = self.transfer_cycles;
        let purpose = if STORES { Purpose::Store } else { Purpose::Load };
        occurrences.fire(Signal::L1dAccess, granules(access.physical, access.bytes));
        fire_miss(occurrences, access.kind, STORES);
        fire_request(occurrences, purpose, Some(held));
        bus.carry(occurrences, time, cycles, Transfer::Up);
        let (state, came) = if INCLUSIVE {
            let state = copy_up::<STORES>(second, occurrences, below, held.state);
            (state, state)
        } else {
            second.remove(below);
            occurrences.fire(Signal::L2TagWrite, 1);
            fire_second_level_gone(occurrences, held.state, held.marked);
            (if STORES { LineState::Modified } else { held.state }, held.state)
        };
        signals::L1D_REFILL_L2.fire(occurrences, came);
        occurrences.fire(Signal::MissOutstandingL1d, geometry.latency);
        own.data.fill_slot(slot, Line { number: line, state, marked: false });
        own.missing = NO_LINE;
        match displaced {
            Displaced::Nothing => {}
            Displaced::TakenByProbe => signals::L1D_EVICT.fire(occurrences, LineState::Invalid),
            Displaced::Line(victim) => {
                signals::L1D_EVICT.fire(occurrences, victim.state);
                own.data_fills.forget(victim.number);
                if !INCLUSIVE || victim.state.is_dirty() {
                    move_down::<INCLUSIVE>(second, occurrences, victim);
                    bus.carry(occurrences, time, cycles, Transfer::Down);
                }
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

/// A line of an inclusive second level is used, for the data cache to get it: the state in which it does.
#[inline(always)]
fn copy_up<const STORES: bool>(
    second: &mut LineArray,
    occurrences: &mut Occurrences,
    slot: usize,
    state: LineState,
) -> LineState {
    second.touch(slot);
    if STORES {
        if state != LineState::Modified {
            second.set_state(slot, LineState::Modified);
            occurrences.fire(Signal::L2TagWrite, 1);
        }
        LineState::Modified
    } else if state.is_sole() {
        LineState::Exclusive
    } else {
        LineState::Shared
    }
}

/// A victim of the data cache goes to the second level: an inclusive one has it, but not what was written.
#[inline(always)]
fn move_down<const INCLUSIVE: bool>(
    second: &mut LineArray,
    occurrences: &mut Occurrences,
    victim: Line,
) {
    if INCLUSIVE {
        occurrences.fire_all([
            (Signal::L1dWriteback, 1),
            (Signal::L2TagWrite, 1),
            (Signal::L2WriteFromL1d, 1),
        ]);
        if let Some(slot) = second.search(victim.number) {
            second.set_state(slot, LineState::Modified);
        }
    } else {
        occurrences.fire(Signal::L1dWriteback, victim.state.is_dirty().into());
        second.fill(Line { marked: false, ..victim });
        fire_fill(occurrences, victim.state, Filling::DataVictim);
    }
}
