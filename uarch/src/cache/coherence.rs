//! What leaves a processor's caches: transactions on the bus, and the probes of the other caches that go
//! with them.
//!
//! The protocol is MESI (Intel SDM volume 3, "Cache Control Protocol") or MOESI (AMD64 Architecture
//! Programmer's Manual, volume 2, "Memory Coherency and Protocol").

use super::array::Line;
use super::geometry::{Coherence, DeviceRead, Inclusion, Protocol, SharedWrite};
use super::processor::NO_LINE;
use super::second_level_bus::Transfer;
use super::signals;
use super::state::LineState;
use super::tag_directory::Holders;
use super::{Caches, Context, MemoryType};
use crate::bus::{Request, Snoop, Transaction};
use crate::occurrences::Occurrences;
use pmu_model::Signal;

/// Why a line is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Code, to fetch it.
    Code,
    /// Data, to read it.
    Read,
    /// Data, to write it.
    Own,
    /// The right to write all of a line, whatever it holds.
    WriteLine,
}

/// What a probe asks the caches of a processor for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The line, to share it.
    Share,
    /// The line, and to drop it.
    Take,
    /// To drop a line that the asker holds, but for what it lacks if it is Owned.
    Upgrade,
    /// To drop it, because part of it is written in memory.
    WritePart,
    /// To drop it, because all of it is written, in memory or by the asker.
    WriteAll,
    /// A device wants the data, and no cache gets the line.
    DeviceRead,
    /// To write it back and drop it.
    Flush,
}

/// Who sends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A processor, by its number.
    Processor(usize),
    /// A device.
    Device,
}

impl Sender {
    const fn processor(self) -> Option<usize> {
        match self {
            Self::Processor(processor) => Some(processor),
            Self::Device => None,
        }
    }
}

/// A line that comes from memory or another processor's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    /// The state in which it comes.
    pub(super) state: LineState,
    /// Another processor has it, or had it.
    pub(super) cached_elsewhere: bool,
    /// Cycles.
    pub(super) latency: u64,
}

/// What was answered to a transaction in place of the memory: by the other processors, which were probed, and by the
/// cache on the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    snoop: Snoop,
    /// Who has the line, as [`Transaction::holders`] has it.
    holders: u64,
    on_board: bool,
}

impl Answer {
    /// Nobody was asked, or nobody has it.
    pub(super) const NONE: Self = Self { snoop: Snoop::Miss, holders: 0, on_board: false };
}

impl Caches {
    /// Sends a transaction. Cycles until the data is there.
    #[inline(always)]
    pub(super) fn transact(
        &mut self,
        context: &mut Context<'_>,
        sender: Sender,
        request: Request,
        physical: u64,
        bytes: u32,
        locked: bool,
        answer: Answer,
    ) -> u64 {
        let transaction = Transaction {
            processor: sender.processor(),
            time: context.time,
            request,
            physical,
            bytes,
            locked,
            snoop: answer.snoop,
            holders: answer.holders,
            on_board: answer.on_board,
        };
        #[cfg(test)]
        self.sent.push(transaction);
        context.bus.transact(context.processors, &transaction)
    }

    /// Reads a line from memory or another processor's caches; or gets no more than the right to write it.
    pub(super) fn read_system(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        want: Want,
        memory: MemoryType,
    ) -> Incoming {
        let incoming = self.ask_system(context, processor, line, want, memory);
        fire_read(&mut context.processors[processor].occurrences, want, incoming.state, memory);
        incoming
    }

    /// The same, but for what the processor fires each time.
    #[inline(always)]
    pub(super) fn ask_system(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
        want: Want,
        memory: MemoryType,
    ) -> Incoming {
        let (probe, request) = match want {
            Want::Code => (Probe::Share, Request::ReadCode),
            Want::Read => (Probe::Share, Request::ReadData),
            Want::Own => (Probe::Take, Request::ReadForOwnership),
            Want::WriteLine => (Probe::WriteAll, Request::Invalidate),
        };
        let sender = Sender::Processor(processor);
        let mut answer = self.probe(context, sender, line, probe);
        let reads = want != Want::WriteLine;
        answer.on_board = reads && self.read_board(line);
        let (physical, bytes) = (line << self.shift, self.geometry.line);
        let latency = self.transact(context, sender, request, physical, bytes, false, answer);
        let state = match (want, answer.snoop, memory) {
            (Want::Own | Want::WriteLine, ..) => LineState::Modified,
            // A line that is written through is never Exclusive, so that no write stays in the cache.
            (_, Snoop::Miss, MemoryType::WriteBack) => LineState::Exclusive,
            _ => LineState::Shared,
        };
        Incoming { state, cached_elsewhere: answer.snoop != Snoop::Miss, latency }
    }

    /// Gets the right to write a line that the processor holds Shared or Owned. The state in which it may
    /// then hold it, before the write that follows, and cycles.
    pub(super) fn upgrade(
        &mut self,
        context: &mut Context<'_>,
        processor: usize,
        line: u64,
    ) -> (LineState, u64) {
        let sender = Sender::Processor(processor);
        let answer = self.probe(context, sender, line, Probe::Upgrade);
        let (request, bytes, state) = match self.geometry.shared_write {
            SharedWrite::Invalidate => {
                (Request::Invalidate, self.geometry.line, LineState::Modified)
            }
            SharedWrite::WriteThrough => (Request::WritePartial, BUS_WIDTH, LineState::Exclusive),
        };
        if answer.snoop == Snoop::HitDirty {
            signals::SYSTEM_READ
                .fire(&mut context.processors[processor].occurrences, LineState::Modified);
        }
        if request == Request::WritePartial {
            self.fire_qwords(context, processor, 1);
        }
        fire_system_request(&mut context.processors[processor].occurrences, MemoryType::WriteBack);
        let physical = line << self.shift;
        (state, self.transact(context, sender, request, physical, bytes, false, answer))
    }

    /// Writes a dirty line to memory. Nobody waits for it.
    pub(super) fn write_back(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        fire_write_back(&mut context.processors[processor].occurrences, self.geometry.line);
        self.send_back(context, processor, line);
    }

    /// The same, but for what the processor fires each time.
    #[inline(always)]
    pub(super) fn send_back(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        let (sender, physical) = (Sender::Processor(processor), line << self.shift);
        let bytes = self.geometry.line;
        self.transact(context, sender, Request::WriteBack, physical, bytes, false, Answer::NONE);
    }

    /// Writes bytes of one line to memory, past the caches of the sender; the others drop the line.
    /// Cycles.
    #[inline]
    pub(super) fn write_memory(
        &mut self,
        context: &mut Context<'_>,
        sender: Sender,
        request: Request,
        physical: u64,
        bytes: u32,
        locked: bool,
    ) -> u64 {
        let all = bytes == self.geometry.line;
        let probe = if all { Probe::WriteAll } else { Probe::WritePart };
        let answer = self.probe(context, sender, physical >> self.shift, probe);
        self.transact(context, sender, request, physical, bytes, locked, answer)
    }

    /// Reads bytes of one line for a device.
    pub(super) fn read_for_device(
        &mut self,
        context: &mut Context<'_>,
        physical: u64,
        bytes: u32,
    ) -> u64 {
        let probe = match self.geometry.device_read {
            DeviceRead::Shares => Probe::Share,
            DeviceRead::Leaves => Probe::DeviceRead,
        };
        let sender = Sender::Device;
        let answer = self.probe(context, sender, physical >> self.shift, probe);
        self.transact(context, sender, Request::ReadPartial, physical, bytes, false, answer)
    }

    /// Has the other processors write back and drop a line.
    pub(super) fn flush_others(&mut self, context: &mut Context<'_>, processor: usize, line: u64) {
        self.probe(context, Sender::Processor(processor), line, Probe::Flush);
    }

    /// Quadwords that a processor sends to the system.
    pub(super) fn fire_qwords(&self, context: &mut Context<'_>, processor: usize, qwords: u64) {
        context.processors[processor].occurrences.fire(Signal::SystemWriteQword, qwords);
    }

    /// Whether the cache on the board has a line that is read; it has it from now on.
    fn read_board(&mut self, line: u64) -> bool {
        let Some(board) = &mut self.board else { return false };
        let is_there = board.find_and_touch(line).is_some();
        if !is_there {
            board.fill(Line { number: line, state: LineState::Shared, marked: false });
        }
        is_there
    }

    /// Asks the caches of cores but the sender's: of all, or of those that may have the line. The sum of their answers.
    #[inline(always)]
    fn probe(
        &mut self,
        context: &mut Context<'_>,
        sender: Sender,
        line: u64,
        probe: Probe,
    ) -> Answer {
        if sender != Sender::Device && self.processors.count() == 1 {
            return Answer::NONE;
        }
        self.probe_all(context, sender, line, probe)
    }

    /// The same where there are others.
    #[inline(never)]
    fn probe_all(
        &mut self,
        context: &mut Context<'_>,
        sender: Sender,
        line: u64,
        probe: Probe,
    ) -> Answer {
        #[cfg(test)]
        self.assert_known(line);
        let mut sum = Answer::NONE;
        let asker = sender.processor().map(|processor| self.processors.number_of(processor));
        let asked = match self.directory.as_ref().map_or(Holders::Any, |all| all.holders(line)) {
            Holders::None => 0..0,
            Holders::One(core) => core..core + 1,
            Holders::Any => 0..self.processors.count(),
        };
        for core in asked.filter(|&core| asker != Some(core)) {
            self.probe_core(context, core, line, probe, &mut sum);
        }
        if sum.snoop != Snoop::Miss {
            context.bus.note_shared();
        }
        sum
    }

    /// Asks the caches of one core. Its answer is added to the sum.
    fn probe_core(
        &mut self,
        context: &mut Context<'_>,
        core: usize,
        line: u64,
        probe: Probe,
        sum: &mut Answer,
    ) {
        let target = self.processors[self.processors.first_of(core)].thread;
        let holder = 1u64.checked_shl(target as u32).unwrap_or(0);
        match (self.probe_one(context, target, line, probe), sum.snoop) {
            (Snoop::Miss, _) | (Snoop::HitClean, Snoop::HitDirty) => {}
            (Snoop::HitClean, _) => {
                let holders = sum.holders | holder;
                *sum = Answer { snoop: Snoop::HitClean, holders, ..*sum };
            }
            (Snoop::HitDirty, _) => {
                *sum = Answer { snoop: Snoop::HitDirty, holders: holder, ..*sum };
            }
        }
    }

    /// Whom the directories do not name has a line nowhere.
    #[cfg(test)]
    fn assert_known(&self, line: u64) {
        let Some(directory) = &self.directory else { return };
        for core in 0..self.processors.count() {
            let is_named = match directory.holders(line) {
                Holders::None => false,
                Holders::One(holder) => core == holder,
                Holders::Any => true,
            };
            let has_it = self.holds(self.processors.first_of(core), line);
            assert!(is_named || !has_it, "core {core}, line {line:#x}");
        }
    }

    /// Asks the caches of one processor, which fire what they find and do what the probe wants.
    fn probe_one(
        &mut self,
        context: &mut Context<'_>,
        target: usize,
        line: u64,
        probe: Probe,
    ) -> Snoop {
        let inclusive = self.is_inclusive();
        let own = &mut self.processors[target];
        let occurrences = &mut context.processors[target].occurrences;
        let directories = self.geometry.coherence == Coherence::TagDirectories;
        let second = own.second_level.as_ref().and_then(|second| second.search(line));
        // Asked because another line is there: what an inclusive second level does not have need not be looked for
        // above it.
        if directories && inclusive && second.is_none() {
            // Not where a snapshot may say otherwise.
            #[cfg(test)]
            assert!(own.code.find(line).is_none() && own.data.find(line).is_none());
            return Snoop::Miss;
        }
        let code = own.code.find(line);
        let data = own.data.find(line);
        let is_there = code.is_some() || data.is_some() || second.is_some();
        if !is_there && directories {
            return Snoop::Miss;
        }
        occurrences.fire(Signal::SnoopL1d, 1);
        if own.second_level.is_some() {
            occurrences.fire(Signal::L2RequestSnoop, 1);
            occurrences.fire(Signal::L2TagRead, 1);
        }
        if !is_there {
            return Snoop::Miss;
        }
        for (slot, signal) in
            [(code, Signal::SnoopHitL1i), (data, Signal::SnoopHitL1d), (second, Signal::SnoopHitL2)]
        {
            if slot.is_some() {
                occurrences.fire(signal, 1);
            }
        }
        let data_dirty = data.is_some_and(|slot| own.data.state(slot).is_dirty());
        let second_dirty = match (&own.second_level, second) {
            (Some(array), Some(slot)) => array.state(slot).is_dirty(),
            _ => false,
        };
        if second_dirty {
            occurrences.fire(Signal::SnoopHitmL2, 1);
        }
        let dirty = data_dirty || second_dirty;
        if dirty && probe != Probe::WriteAll {
            self.supply_dirty(context, target, line, probe, data_dirty);
        }
        match probe {
            Probe::DeviceRead => {}
            Probe::Share => self.share(target, line),
            _ => self.drop_probed(context, target, line, data_dirty),
        }
        if dirty { Snoop::HitDirty } else { Snoop::HitClean }
    }

    /// A processor answers a probe with a dirty line.
    fn supply_dirty(
        &mut self,
        context: &mut Context<'_>,
        target: usize,
        line: u64,
        probe: Probe,
        data_dirty: bool,
    ) {
        let to_memory = self.geometry.protocol == Protocol::Mesi && probe != Probe::DeviceRead;
        let leaves = !matches!(probe, Probe::Share | Probe::DeviceRead);
        let occurrences = &mut context.processors[target].occurrences;
        if data_dirty && (to_memory || leaves) {
            occurrences.fire(Signal::L1dWriteback, 1);
        }
        // What a directory asks for goes to who asked; it is no victim.
        let is_victim = match self.geometry.coherence {
            Coherence::Snooping => to_memory || probe == Probe::Flush,
            Coherence::TagDirectories => false,
        };
        if self.geometry.second_level.is_some() && is_victim {
            occurrences.fire(Signal::L2EvictModified, 1);
        }
        if !data_dirty {
            self.transfer(context, target, Transfer::Down);
        }
        if self.geometry.snooped_write_back || probe == Probe::Flush {
            self.write_back(context, target, line);
        } else {
            self.fire_qwords(context, target, u64::from(self.geometry.line / BUS_WIDTH));
        }
    }

    /// A line becomes shared: clean with MESI, Owned by who had it dirty with MOESI.
    fn share(&mut self, target: usize, line: u64) {
        let protocol = self.geometry.protocol;
        let shared = |state: LineState| match (protocol, state.is_dirty()) {
            (Protocol::Moesi, true) => LineState::Owned,
            _ => LineState::Shared,
        };
        let own = &mut self.processors[target];
        let arrays = [Some(&mut *own.code), Some(&mut own.data), own.second_level.as_mut()];
        for array in arrays.into_iter().flatten() {
            if let Some(slot) = array.find(line) {
                array.set_state(slot, shared(array.state(slot)));
            }
        }
        // What it may not write any more.
        own.written = if own.written == line { NO_LINE } else { own.written };
    }

    /// A probe takes a line out of all caches of a processor.
    fn drop_probed(
        &mut self,
        context: &mut Context<'_>,
        target: usize,
        line: u64,
        data_dirty: bool,
    ) {
        let own = &mut self.processors[target];
        let occurrences = &mut context.processors[target].occurrences;
        if let Some(slot) = own.data.find(line) {
            own.data.take(slot);
            own.data_fills.forget(line);
            if own.loaded == line {
                occurrences.fire(Signal::FlushProbeLoad, 1);
                own.loaded = NO_LINE;
            }
        }
        if let Some(slot) = own.code.find(line) {
            own.code.take(slot);
            own.code_dropped = true;
            if own.fetched == line {
                occurrences.fire(Signal::FlushProbeIfetch, 1);
            }
        }
        own.forget_line(line);
        if let Some(second) = &mut own.second_level
            && let Some(slot) = second.find(line)
        {
            let mut gone = second.line(slot);
            if data_dirty {
                gone.state = LineState::Modified;
            }
            second.take(slot);
            own.second_level_fills.forget(line);
            self.leave_directory(target, line);
            occurrences.fire(Signal::L2TagWrite, 1);
            fire_second_level_gone(occurrences, gone.state, gone.marked);
        }
    }

    /// Whether the second level holds all lines of the first.
    pub(super) fn is_inclusive(&self) -> bool {
        self.inclusion() == Some(Inclusion::Inclusive)
    }

    /// What the second level holds of the first, if there is one.
    pub(super) fn inclusion(&self) -> Option<Inclusion> {
        self.geometry.second_level.map(|second| second.inclusion)
    }
}

/// Bytes that the data bus moves at once, on every part: quadwords.
pub(super) const BUS_WIDTH: u32 = 8;

/// What a processor fires that reads a line, or gets the right to write it, in this state.
#[inline(always)]
pub(super) fn fire_read(
    occurrences: &mut Occurrences,
    want: Want,
    state: LineState,
    memory: MemoryType,
) {
    if want != Want::WriteLine {
        signals::SYSTEM_READ.fire(occurrences, state);
    }
    fire_system_request(occurrences, memory);
}

/// What a processor fires that writes back a line of so many bytes.
#[inline(always)]
pub(super) fn fire_write_back(occurrences: &mut Occurrences, bytes: u32) {
    occurrences.fire(Signal::SystemWriteQword, u64::from(bytes / BUS_WIDTH));
    fire_system_request(occurrences, MemoryType::WriteBack);
}

/// What a processor fires that writes bytes of one quadword past its caches to memory that may be cached.
#[inline(always)]
pub(super) fn fire_write_part(occurrences: &mut Occurrences, memory: MemoryType) {
    occurrences.fire(Signal::SystemWriteQword, 1);
    fire_system_request(occurrences, memory);
}

/// One request to the system for memory that may be cached, by its type. Requests for UC and WC memory have
/// signals of their own.
#[inline(always)]
pub(super) fn fire_system_request(occurrences: &mut Occurrences, memory: MemoryType) {
    let signal = match memory {
        MemoryType::WriteBack => Signal::SystemRequestWb,
        MemoryType::WriteThrough => Signal::SystemRequestWt,
        MemoryType::WriteProtected => Signal::SystemRequestWp,
        MemoryType::Uncacheable | MemoryType::WriteCombining => return,
    };
    occurrences.fire(signal, 1);
}

/// A line has left the second level.
pub(super) fn fire_second_level_gone(
    occurrences: &mut Occurrences,
    state: LineState,
    prefetched: bool,
) {
    occurrences.fire(Signal::L2Evict, 1);
    let by_state = if prefetched { signals::L2_EVICT_PREFETCHED } else { signals::L2_EVICT_DEMAND };
    by_state.fire(occurrences, state);
}
