//! The second level: what the first-level caches ask it for, and where their victims go.

use super::array::{Displaced, Line, LineArray};
use super::coherence::{self, Incoming, Want};
use super::fills::Asker;
use super::geometry::Inclusion;
use super::second_level_bus::Transfer;
use super::signals;
use super::state::LineState;
use super::{Caches, Context, MemoryType};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

/// Who asks the second level for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The instruction cache.
    Code,
    /// A load, or a prefetch instruction to read.
    Load,
    /// A store, or a prefetch instruction to write.
    Store,
    /// A store of all of a line, which need not come first.
    WriteLine {
        /// It is in order with other stores.
        ordered: bool,
    },
    /// A locked access.
    Locked,
    /// The page walker, to read.
    Walk,
    /// A prefetch instruction that is no access, to read or to write.
    Prefetch {
        /// To write.
        owns: bool,
    },
}

impl Purpose {
    /// What it wants of other processors.
    pub(super) const fn want(self) -> Want {
        match self {
            Self::Code => Want::Code,
            Self::Load | Self::Walk | Self::Prefetch { owns: false } => Want::Read,
            Self::Store | Self::Locked | Self::Prefetch { owns: true } => Want::Own,
            Self::WriteLine { .. } => Want::WriteLine,
        }
    }

    /// Whether it is going to write.
    pub(super) const fn owns(self) -> bool {
        matches!(self.want(), Want::Own | Want::WriteLine)
    }
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The second level.
    SecondLevel,
    /// Memory, or another processor's caches.
    System,
    /// Nothing came, but for the right to write all of it.
    Nowhere,
}

impl Source {
    /// That of a line which the second level does not have.
    const fn beyond(purpose: Purpose) -> Self {
        if matches!(purpose, Purpose::WriteLine { .. }) { Self::Nowhere } else { Self::System }
    }
}

/// A line that a first-level cache gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// The state in which the first-level cache may hold it.
    pub(super) state: LineState,
    /// The state in which it came: that in the second level, if it moves from there as it is.
    pub(super) came: LineState,
    pub(super) source: Source,
    /// Cycles beyond a hit of the first level.
    pub(super) latency: u64,
}

/// A line that the second level has been asked for and has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) slot: usize,
    /// Cycles until it is there, if it is on its way.
    pub(super) rest: u64,
}

/// Why a line is put into the second level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// It comes from the system for an access.
    Demand,
    /// It comes from the system for the hardware prefetcher.
    Prefetch,
    /// It does not come: all of it is written in the first level.
    WriteLine,
    /// It is a victim of the data cache.
    DataVictim,
    /// It is a victim of the instruction cache.
    CodeVictim,
}

impl Caches {
    /// Gets a line for a first-level cache that does not have it.
    pub(super) fn acquire(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
    ) -> Granted {
        let Some(geometry) = self.geometry.second_level else {
            let Incoming { state, latency, .. } =
                self.read_system(context, processor, line, purpose.want(), memory);
            let source = Source::beyond(purpose);
            return Granted { state, came: state, source, latency };
        };
        let found = self.ask_second_level(context, processor, line, purpose);
        if found.is_some() {
            self.transfer(context, processor, Transfer::Up);
        }
        let rest = found.map_or(0, |found| found.rest);
        let slot = found.map(|found| found.slot);
        let mut granted = match (slot, geometry.inclusion) {
            (Some(slot), Inclusion::Exclusive) => self.move_up(context, processor, slot, purpose),
            (Some(slot), Inclusion::Inclusive) => self.copy_up(context, processor, slot, purpose),
            (None, inclusion) => {
                let (state, latency) = self.read_missed(context, processor, line, purpose, memory);
                let source = Source::beyond(purpose);
                if inclusion == Inclusion::Inclusive {
                    let filling = match source {
                        Source::Nowhere => Filling::WriteLine,
                        _ => Filling::Demand,
                    };
                    self.fill_second_level(context, processor, line, state, filling);
                }
                Granted { state, came: state, source, latency }
            }
        };
        granted.latency += geometry.latency + rest;
        granted
    }

    /// A request to the second level, with its signals. Where the line is, if it is there or on its way.
    ///
    /// What is on its way there has not been found: "a prefetch and a demand to one address" are two misses
    /// (Intel 327357, Table 1-6, event CBh). Code does not wait for it.
    pub(super) fn ask_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
    ) -> Option<Found> {
        let own = &mut self.processors[processor];
        let second = own.second_level.as_mut()?;
        let slot = second.find_and_touch(line);
        let rest = match purpose {
            Purpose::Code => None,
            _ => own.second_level_fills.rest(context.time, line),
        };
        let found = slot.filter(|_| rest.is_none()).map(|slot| second.line(slot));
        let occurrences = &mut context.processors[processor].occurrences;
        fire_request(occurrences, purpose, found);
        let is_access = matches!(purpose, Purpose::Load | Purpose::Store | Purpose::Locked);
        if is_access && rest.is_some_and(|rest| rest.asker == Asker::Instruction) {
            occurrences.fire(Signal::PrefetchL2HitInflight, 1);
        }
        slot.map(|slot| Found { slot, rest: rest.map_or(0, |rest| rest.cycles) })
    }

    /// Asks the second level for a line that stays there, and brings it there if it is not. Cycles.
    pub(super) fn ask_or_fill_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
    ) -> u64 {
        let below = self.geometry.second_level.map_or(0, |second| second.latency);
        if let Some(found) = self.ask_second_level(context, processor, line, purpose) {
            return below + found.rest;
        }
        let (state, latency) = self.read_missed(context, processor, line, purpose, memory);
        self.fill_second_level(context, processor, line, state, Filling::Demand);
        below + latency
    }

    /// Reads a line that the second level was asked for and does not have. The state in which it comes, and
    /// cycles.
    pub(super) fn read_missed(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        purpose: Purpose,
        memory: MemoryType,
    ) -> (LineState, u64) {
        let want = purpose.want();
        let Incoming { state, cached_elsewhere, latency } =
            self.read_system(context, processor, line, want, memory);
        let signal = match (want, cached_elsewhere) {
            (Want::Code, true) => Some(Signal::L2MissIfetchFromCache),
            (Want::Code, false) => Some(Signal::L2MissIfetchFromMemory),
            (Want::Read, true) => Some(Signal::L2MissLoadFromCache),
            (Want::Read, false) => Some(Signal::L2MissLoadFromMemory),
            (Want::Own, true) => Some(Signal::L2MissStoreFromCache),
            (Want::Own, false) => Some(Signal::L2MissStoreFromMemory),
            (Want::WriteLine, _) => None,
        };
        if let Some(signal) = signal {
            context.processors[processor].occurrences.fire(signal, 1);
        }
        match purpose {
            // Nothing is written yet.
            Purpose::Prefetch { owns: true } => (LineState::Exclusive, latency),
            _ => (state, latency),
        }
    }

    /// A line leaves an exclusive second level for the first.
    fn move_up(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        slot: usize,
        purpose: Purpose,
    ) -> Granted {
        let second = self.second_level(processor);
        let line = second.line(slot);
        second.remove(slot);
        self.processors[processor].second_level_fills.forget(line.number);
        let occurrences = &mut context.processors[processor].occurrences;
        occurrences.fire(Signal::L2TagWrite, 1);
        coherence::fire_second_level_gone(occurrences, line.state, line.marked);
        let (mut state, mut latency) = (line.state, 0);
        if purpose.owns() {
            if !state.is_sole() {
                (state, latency) = self.upgrade(context, processor, line.number);
            }
            state = if state.is_sole() { LineState::Modified } else { state };
        } else if purpose == Purpose::Code && state.is_dirty() {
            // The instruction cache cannot hold a dirty line. That it is written back first is not
            // sourced.
            self.write_back_from_second_level(context, processor, line.number, false);
            state = if state.is_sole() { LineState::Exclusive } else { LineState::Shared };
        }
        Granted { state, came: line.state, source: Source::SecondLevel, latency }
    }

    /// An inclusive second level gives a line to the first, and keeps it.
    fn copy_up(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        slot: usize,
        purpose: Purpose,
    ) -> Granted {
        let (state, latency) = if matches!(purpose, Purpose::Prefetch { owns: true }) {
            (LineState::Exclusive, self.claim_in_second_level(context, processor, slot))
        } else if purpose.owns() {
            (LineState::Modified, self.own_in_second_level(context, processor, slot))
        } else if self.second_level(processor).state(slot).is_sole() {
            // What is written only in the first level is written back to the second.
            (LineState::Exclusive, 0)
        } else {
            (LineState::Shared, 0)
        };
        Granted { state, came: state, source: Source::SecondLevel, latency }
    }

    /// Makes a line of an inclusive second level Modified. Cycles to get the right.
    pub(super) fn own_in_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        slot: usize,
    ) -> u64 {
        let state = self.second_level(processor).state(slot);
        let mut latency = 0;
        if !state.is_sole() {
            let line = self.second_level(processor).line(slot).number;
            latency = self.upgrade(context, processor, line).1;
        }
        if state != LineState::Modified {
            self.second_level(processor).set_state(slot, LineState::Modified);
            context.processors[processor].occurrences.fire(Signal::L2TagWrite, 1);
        }
        latency
    }

    /// Gets the right to write a line of an inclusive second level, without writing it. Cycles.
    pub(super) fn claim_in_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        slot: usize,
    ) -> u64 {
        let second = self.second_level(processor);
        if second.state(slot).is_sole() {
            return 0;
        }
        let line = second.line(slot).number;
        let latency = self.upgrade(context, processor, line).1;
        self.second_level(processor).set_state(slot, LineState::Exclusive);
        context.processors[processor].occurrences.fire(Signal::L2TagWrite, 1);
        latency
    }

    /// Puts a line into the second level.
    pub(super) fn fill_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        state: LineState,
        filling: Filling,
    ) {
        let Some(second) = self.processors[processor].second_level.as_mut() else { return };
        let marked = filling == Filling::Prefetch;
        let displaced = second.fill(Line { number: line, state, marked });
        if let Some(directory) = &mut self.directory {
            directory.enter(self.processors.number_of(processor), line);
        }
        fire_fill(&mut context.processors[processor].occurrences, state, filling);
        if filling != Filling::WriteLine {
            self.transfer(context, processor, Transfer::Down);
        }
        if let Displaced::Line(victim) = displaced {
            self.evict_from_second_level(context, processor, victim);
        }
    }

    /// A line was displaced in the second level.
    fn evict_from_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        mut victim: Line,
    ) {
        self.processors[processor].second_level_fills.forget(victim.number);
        self.leave_directory(processor, victim.number);
        let is_newer_above = self.is_inclusive()
            && self
                .drop_first_level(context, processor, victim.number)
                .is_some_and(LineState::is_dirty);
        if is_newer_above {
            victim.state = LineState::Modified;
        }
        let occurrences = &mut context.processors[processor].occurrences;
        coherence::fire_second_level_gone(occurrences, victim.state, victim.marked);
        if victim.state.is_dirty() {
            self.write_back_from_second_level(context, processor, victim.number, is_newer_above);
        }
    }

    /// The directories learn that a processor's second level has a line no more.
    #[inline(always)]
    pub(super) fn leave_directory(&mut self, processor: usize, line: u64) {
        if let Some(directory) = &mut self.directory {
            directory.leave(self.processors.number_of(processor), line);
        }
    }

    /// Drops a line in both first-level caches. The state that it had in the data cache.
    pub(super) fn drop_first_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
    ) -> Option<LineState> {
        let own = &mut self.processors[processor];
        if let Some(slot) = own.code.find(line) {
            own.drop_code(line, slot);
        }
        let slot = own.data.find(line)?;
        let state = own.data.state(slot);
        own.drop_data(line, slot);
        if state.is_dirty() {
            context.processors[processor].occurrences.fire(Signal::L1dWriteback, 1);
        }
        Some(state)
    }

    /// A dirty line goes from the second level to memory; what is newer in the data cache, from there.
    pub(super) fn write_back_from_second_level(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        is_newer_above: bool,
    ) {
        if !is_newer_above {
            self.transfer(context, processor, Transfer::Down);
        }
        let occurrences = &mut context.processors[processor].occurrences;
        occurrences.fire(Signal::L2EvictModified, 1);
        occurrences.fire(Signal::L2WriteFromL2, 1);
        self.write_back(context, processor, line);
    }

    /// A dirty line leaves the data cache, or is written back from it, to what is below.
    pub(super) fn write_back_from_data(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: Line,
    ) {
        context.processors[processor].occurrences.fire(Signal::L1dWriteback, 1);
        match self.inclusion() {
            None => self.write_back(context, processor, line.number),
            Some(Inclusion::Exclusive) => {
                let filling = Filling::DataVictim;
                self.fill_second_level(context, processor, line.number, line.state, filling);
            }
            Some(Inclusion::Inclusive) => {
                let occurrences = &mut context.processors[processor].occurrences;
                occurrences.fire(Signal::L2TagWrite, 1);
                occurrences.fire(Signal::L2WriteFromL1d, 1);
                if let Some(second) = self.processors[processor].second_level.as_mut()
                    && let Some(slot) = second.find(line.number)
                {
                    second.set_state(slot, LineState::Modified);
                }
                self.transfer(context, processor, Transfer::Down);
            }
        }
    }

    /// The signals of a store that asks for the right to write a line of the first level.
    pub(super) fn fire_upgrade_request(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        slot: usize,
        purpose: Purpose,
    ) {
        let state = self.second_level(processor).state(slot);
        let occurrences = &mut context.processors[processor].occurrences;
        occurrences.fire(Signal::L2TagRead, 1);
        signals::L2_REQUEST.fire(occurrences, state);
        occurrences.fire(Signal::L2WriteHit, 1);
        if matches!(purpose, Purpose::Store | Purpose::WriteLine { .. }) {
            signals::L2_REQUEST_STORE.fire(occurrences, state);
        }
    }

    /// The second level of a processor that has one.
    fn second_level(&mut self, processor: usize) -> &mut LineArray {
        match &mut self.processors[processor].second_level {
            Some(second) => second,
            None => unreachable!("asked only where a line was found in it"),
        }
    }
}

/// The signals of a request to the second level that found a line, or none.
#[inline(always)]
pub(super) fn fire_request(occurrences: &mut Occurrences, purpose: Purpose, found: Option<Line>) {
    let state = found.map_or(LineState::Invalid, |line| line.state);
    let hit = found.is_some();
    signals::L2_REQUEST.fire(occurrences, state);
    // Table of events of the Intel SDM: a load is "normal, unlocked", a store too; page walks are loads.
    match purpose {
        Purpose::Code => signals::L2_REQUEST_IFETCH.fire(occurrences, state),
        Purpose::Load | Purpose::Walk => {
            signals::L2_REQUEST_LOAD.fire(occurrences, state);
            if found.is_some_and(|line| line.marked) {
                signals::L2_LOAD_PREFETCHED.fire(occurrences, state);
            } else {
                signals::L2_LOAD_DEMAND.fire(occurrences, state);
            }
        }
        Purpose::Store | Purpose::WriteLine { .. } => {
            signals::L2_REQUEST_STORE.fire(occurrences, state);
        }
        Purpose::Locked | Purpose::Prefetch { .. } => {}
    }
    match purpose {
        // The document of Knights Corner: a miss counts for a prefetch too, a hit does not.
        Purpose::Code | Purpose::Load | Purpose::Walk if hit => {
            signals::L2_REQUEST_READ.fire(occurrences, state);
        }
        Purpose::Code | Purpose::Load | Purpose::Walk | Purpose::Prefetch { owns: false }
            if !hit =>
        {
            occurrences.fire(Signal::L2MissRead, 1);
        }
        Purpose::Store | Purpose::WriteLine { .. } | Purpose::Locked if hit => {
            occurrences.fire(Signal::L2WriteHit, 1);
        }
        Purpose::WriteLine { ordered: true } => {
            occurrences.fire(Signal::L2MissWriteLineOrdered, 1);
        }
        // Intel's HPC Speedometer (metrics.h) takes these misses off those of reads for the bytes that are
        // read: they are counted there as well. It does not say so of the ordered ones.
        Purpose::WriteLine { ordered: false } => {
            occurrences.fire(Signal::L2MissWriteLineWeak, 1);
            occurrences.fire(Signal::L2MissRead, 1);
        }
        _ => {}
    }
    let (request, miss, read) = match purpose {
        Purpose::Code => (Signal::L2RequestIfetch, Signal::L2MissIfetch, Signal::L2ReadInstruction),
        Purpose::Load | Purpose::Prefetch { owns: false } => {
            (Signal::L2RequestData, Signal::L2MissData, Signal::L2ReadLoad)
        }
        Purpose::Store
        | Purpose::WriteLine { .. }
        | Purpose::Locked
        | Purpose::Prefetch { owns: true } => {
            (Signal::L2RequestData, Signal::L2MissData, Signal::L2ReadStore)
        }
        Purpose::Walk => (Signal::L2RequestTlb, Signal::L2MissTlb, Signal::L2ReadLoad),
    };
    occurrences.fire_all([
        (Signal::L2TagRead, 1),
        (request, 1),
        (if hit { read } else { miss }, 1),
    ]);
}

/// The signals of a line that comes into the second level.
#[inline(always)]
pub(super) fn fire_fill(occurrences: &mut Occurrences, state: LineState, filling: Filling) {
    occurrences.fire(Signal::L2Fill, 1);
    occurrences.fire(Signal::L2TagWrite, 1);
    if state == LineState::Modified {
        occurrences.fire(Signal::L2FillModified, 1);
    }
    match filling {
        Filling::Prefetch => signals::L2_FILL_PREFETCHED.fire(occurrences, state),
        _ => signals::L2_FILL_DEMAND.fire(occurrences, state),
    }
    match filling {
        Filling::Demand | Filling::Prefetch => occurrences.fire(Signal::L2WriteFromSystem, 1),
        Filling::DataVictim => occurrences.fire(Signal::L2WriteFromL1d, 1),
        Filling::CodeVictim | Filling::WriteLine => {}
    }
}
