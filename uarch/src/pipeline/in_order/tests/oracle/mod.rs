//! The same pipeline clock by clock: every stage holds instructions and hands them on, as the manuals
//! describe it. Slow, and written from the rules in words, not from the model.

mod rules;

use std::collections::{BTreeMap, VecDeque};

use pmu_model::Signal;

use super::Assembled;
use crate::pipeline::{
    Branch, Instruction, MemoryUse, Registers,
    in_order::{Access, Mmx, Outcome, Precision, Unit},
};

/// Clock in which the last instruction leaves the execution stage, and what was fired.
pub(super) fn simulate(program: &[Assembled]) -> (u64, BTreeMap<Signal, u64>) {
    let mut machine = Machine {
        program,
        clock: 0,
        next: 0,
        parsed_at: None,
        fifo: VecDeque::new(),
        pushed_this_clock: vec![],
        last_pushed: None,
        first_of_its_clock: false,
        fetch_from: 2,
        blocked: false,
        d1: None,
        d2: None,
        execution: None,
        last_left: None,
        ready: BTreeMap::new(),
        x87_free: 0,
        multiplier_free: 0,
        top: 0,
        mmx_mode: false,
        buffers: VecDeque::new(),
        fired: BTreeMap::new(),
        finished: 0,
    };
    while machine.finished < program.len() {
        machine.step();
        machine.clock += 1;
        assert!(machine.clock < 1_000_000, "no progress");
    }
    (machine.last_left.unwrap().at, machine.fired)
}

/// Instructions that go through the stages together.
#[derive(Clone, Debug)]
struct Group {
    first: usize,
    second: Option<usize>,
    /// Clock in which it came into the stage.
    since: u64,
    /// Clock in which the first alone would have executed, and how long its accesses waited.
    accessed: Option<(u64, u64)>,
    leaves: u64,
}

/// What left the execution stage last.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: u64,
    written: Registers,
    exchanged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Register {
    X87(u8),
    Mmx(u8),
}

struct Machine<'a> {
    program: &'a [Assembled],
    clock: u64,
    /// The next instruction to enter the FIFO.
    next: usize,
    /// Clock in which it will have been fetched and its length found.
    parsed_at: Option<u64>,
    fifo: VecDeque<usize>,
    pushed_this_clock: Vec<usize>,
    /// Clock of the last entry into the FIFO.
    last_pushed: Option<u64>,
    /// It was the first of its clock.
    first_of_its_clock: bool,
    /// Nothing enters before.
    fetch_from: u64,
    /// What is fetched is dropped later.
    blocked: bool,
    d1: Option<Group>,
    d2: Option<Group>,
    execution: Option<Group>,
    last_left: Option<Left>,
    ready: BTreeMap<Register, u64>,
    x87_free: u64,
    multiplier_free: u64,
    top: u8,
    mmx_mode: bool,
    /// Clocks in which buffered writes leave.
    buffers: VecDeque<u64>,
    fired: BTreeMap<Signal, u64>,
    finished: usize,
}

impl Machine<'_> {
    fn fire(&mut self, signal: Signal, n: u64) {
        if n != 0 {
            *self.fired.entry(signal).or_insert(0) += n;
        }
    }

    fn instruction(&self, n: usize) -> &Instruction {
        &self.program[n].instruction
    }

    fn step(&mut self) {
        self.leave_execution();
        if self.finished == self.program.len() {
            return;
        }
        self.enter_execution();
        if self.d2.is_none() && self.d1.as_ref().is_some_and(|group| group.since < self.clock) {
            self.d2 = self.d1.take().map(|group| Group { since: self.clock, ..group });
        }
        self.pushed_this_clock.clear();
        self.push();
        if self.d1.is_none() {
            self.pull();
        }
        self.push();
    }

    /// Both leave the execution stage together.
    fn leave_execution(&mut self) {
        let Some(group) = self.execution.take_if(|group| group.leaves == self.clock) else {
            return;
        };
        let mut written = Registers::NONE;
        let mut exchanged = false;
        let mut last = group.first;
        for n in [Some(group.first), group.second].into_iter().flatten() {
            let instruction = *self.instruction(n);
            let mut own = instruction.writes;
            if instruction.predicts_stack_pointer {
                own = own.without(Registers::STACK_POINTER);
            }
            written = written.union(own);
            exchanged = n != group.first && instruction.exchanges.is_some();
            last = n;
            self.finished += 1;
        }
        self.last_left = Some(Left { at: self.clock, written, exchanged });
        let happened = self.program[last].happened;
        let late = group.second.is_some() && self.instruction(last).branch == Branch::Conditional;
        if happened.mispredicted {
            self.fire(Signal::FlushMispredictWb, u64::from(late));
            // Four clocks, or five, in which nothing executes: two or three before D1.
            self.refetch(self.clock + if late { 3 } else { 2 });
        } else if self.instruction(last).serialises {
            self.refetch(self.clock + 2);
        }
    }

    fn refetch(&mut self, from: u64) {
        self.blocked = false;
        self.fetch_from = from;
        self.last_pushed = None;
        self.parsed_at = None;
    }

    /// Those in D2 execute when the stage is free and all that both need is there.
    fn enter_execution(&mut self) {
        if self.execution.is_some()
            || self.d2.as_ref().is_none_or(|group| group.since == self.clock)
        {
            return;
        }
        let mut group = self.d2.clone().unwrap();
        let first = *self.instruction(group.first);
        if let Some(left) = self.last_left
            && left.at == self.clock
        {
            // Behind FXCH in the V pipe, what is not of the x87 unit comes a clock later.
            if left.exchanged && !first.timing.is_x87() {
                return;
            }
        }
        // An address that depends on what executed in the preceding clock waits for a clock.
        let just_written = match self.last_left {
            Some(left) if left.at == self.clock => left.written,
            _ => Registers::NONE,
        };
        let waits =
            |machine: &Self, n: usize| machine.instruction(n).address.intersects(just_written);
        let first_waits = waits(self, group.first);
        let second_waits = group.second.is_some_and(|n| waits(self, n));
        self.fire(Signal::StallAgi, u64::from(first_waits) + u64::from(second_waits));
        if first_waits {
            return;
        }
        if let Some(signal) = self.missing(group.first) {
            self.fire(signal, 1);
            return;
        }
        if group.accessed.is_none() {
            let change = self.mode_change(&first);
            let waited = self.access(group.first, self.clock + change);
            group.accessed = Some((self.clock, waited));
            self.d2 = Some(group.clone());
        }
        if second_waits {
            return;
        }
        if let Some(second) = group.second
            && let Some(signal) = self.missing(second)
        {
            self.fire(signal, 1);
            return;
        }
        self.d2 = None;
        self.execute(group);
    }

    fn execute(&mut self, mut group: Group) {
        let first = *self.instruction(group.first);
        let change = self.mode_change(&first);
        let now = self.clock + change;
        let (_, waited) = group.accessed.unwrap();
        self.result(group.first, now);
        let happened = self.program[group.first].happened;
        let mut clocks = u64::from(first.timing.clocks)
            + u64::from(first.timing.per_iteration) * happened.iterations
            + happened.more;
        let simple = clocks;
        if first.prefixes.lock {
            clocks += 5;
        }
        clocks += waited;
        if let Some(n) = group.second {
            let second = *self.instruction(n);
            self.fire(Signal::PairV, 1);
            if second.timing.is_mmx() {
                self.fire(Signal::MmxPipeV, 1);
            }
            self.result(n, self.clock);
            let together = match (simple, second.timing.clocks) {
                (1, other) => u64::from(other),
                (2, 1) | (2, 2) => 2,
                (2, 3) | (3, 1) => 3,
                (3, 2) => 4,
                (3, 3) => 5,
                other => panic!("{other:?} do not pair"),
            };
            clocks += together - simple;
            let accesses =
                (self.program[group.first].accesses.first(), self.program[n].accesses.first());
            if let (Some(&one), Some(&two)) = accesses {
                self.fire(Signal::PairVMem, 1);
                let banks =
                    |a: Access| (a.address..a.address + u64::from(a.bytes)).map(|b| b >> 2 & 7);
                if banks(one).any(|bank| banks(two).any(|other| other == bank)) {
                    self.fire(Signal::L1dBankConflict, 1);
                    clocks += 1;
                }
            }
            clocks += self.access(n, self.clock + waited);
        }
        if first.timing.is_mmx() {
            self.fire(Signal::MmxPipeU, 1);
        }
        group.leaves = now + clocks;
        if first.serialises {
            // It leaves when all writes before it have.
            group.leaves = group.leaves.max(self.buffers.back().copied().unwrap_or(0));
        }
        self.execution = Some(group);
    }

    fn mode_change(&self, instruction: &Instruction) -> u64 {
        if self.mmx_mode && instruction.timing.is_x87() { 50 } else { 0 }
    }

    fn x87(&self, place: u8) -> Register {
        Register::X87((self.top + place) % 8)
    }

    fn at(&self, register: Register) -> u64 {
        self.ready.get(&register).copied().unwrap_or(0)
    }

    /// What an instruction waits for in this clock, if the units or their results are not ready.
    fn missing(&self, n: usize) -> Option<Signal> {
        let instruction = self.instruction(n);
        // The second of a pair with an x87 instruction.
        let second = self.d2.as_ref().is_some_and(|group| group.second == Some(n));
        match instruction.timing.unit {
            Unit::Integer | Unit::Vector(_) => None,
            Unit::X87(_) if instruction.exchanges.is_some() && second => None,
            Unit::X87(unit) => {
                let mut until = self.x87_free;
                if unit.multiplies {
                    until = until.max(self.multiplier_free);
                }
                if instruction.exchanges.is_none() {
                    for place in 0..8 {
                        if instruction.reads.intersects(Registers::x87(place)) {
                            until =
                                until.max(self.at(self.x87(place)) + u64::from(unit.operand_early));
                        }
                    }
                }
                (until > self.clock).then_some(Signal::StallFpu)
            }
            Unit::Mmx(_) => {
                let stores = instruction.memory == MemoryUse::Store;
                let waits = (0..8).any(|register| {
                    let at = self.at(Register::Mmx(register));
                    let early = u64::from(stores);
                    instruction.reads.intersects(Registers::mmx(register))
                        && at + early > self.clock
                });
                let signal =
                    if stores { Signal::StallMmxStoreData } else { Signal::StallMmxMultiply };
                waits.then_some(signal)
            }
        }
    }

    /// An instruction executes at `now`: when its results are ready.
    fn result(&mut self, n: usize, now: u64) {
        let instruction = *self.instruction(n);
        match instruction.timing.unit {
            Unit::Integer | Unit::Vector(_) => {}
            Unit::X87(unit) => {
                self.mmx_mode = false;
                let shorter = match self.program[n].happened.precision {
                    Precision::Single => unit.shorter[0],
                    Precision::Double => unit.shorter[1],
                    Precision::Extended => 0,
                };
                if let Some(place) = instruction.exchanges {
                    let (one, two) = (self.x87(0), self.x87(place));
                    let times = (self.at(one), self.at(two));
                    self.ready.insert(one, times.1);
                    self.ready.insert(two, times.0);
                } else {
                    self.x87_free = now + u64::from(unit.busy - shorter);
                    for place in 0..8 {
                        if instruction.writes.intersects(Registers::x87(place)) {
                            self.ready
                                .insert(self.x87(place), now + u64::from(unit.result - shorter));
                        }
                    }
                }
                if unit.multiplies {
                    self.multiplier_free = now + 2;
                }
                self.top = (self.top as i8 + instruction.x87_pops).rem_euclid(8) as u8;
            }
            Unit::Mmx(part) => {
                self.mmx_mode = true;
                for register in 0..8 {
                    if instruction.writes.intersects(Registers::mmx(register)) {
                        let clocks = if part == Mmx::Multiplier { 3 } else { 1 };
                        self.ready.insert(Register::Mmx(register), now + clocks);
                    }
                }
            }
        }
    }

    /// The accesses of an instruction, one clock after the other: how many are lost.
    fn access(&mut self, n: usize, from: u64) -> u64 {
        let mmx = self.instruction(n).timing.is_mmx();
        let mut now = from;
        for access in self.program[n].accesses.clone() {
            let both = |machine: &mut Self, signal, of_mmx| {
                machine.fire(signal, 1);
                if mmx {
                    machine.fire(of_mmx, 1);
                }
            };
            now += if access.misaligned { 3 } else { 0 };
            for _ in 0..access.walk {
                self.fire(Signal::StallDtlbMiss, 1);
                both(self, Signal::StallLoadMiss, Signal::StallLoadMissMmx);
                now += 1;
            }
            let goes_out =
                matches!(access.outcome, Outcome::Miss { .. } | Outcome::Buffered { .. });
            while goes_out && self.pending(now) >= 4 {
                both(self, Signal::StallStoreBufferFull, Signal::StallStoreBufferFullMmx);
                now += 1;
            }
            match access.outcome {
                Outcome::Hit => {}
                Outcome::Miss { clocks } => {
                    while self.pending(now) > 0 {
                        both(self, Signal::StallLoadMiss, Signal::StallLoadMissMmx);
                        now += 1;
                    }
                    for _ in 0..clocks {
                        both(self, Signal::StallLoadMiss, Signal::StallLoadMissMmx);
                        now += 1;
                    }
                }
                Outcome::Owned => {
                    while self.pending(now) > 0 {
                        both(self, Signal::StallStoreEmLine, Signal::StallStoreEmLineMmx);
                        now += 1;
                    }
                }
                Outcome::Buffered { clocks } => {
                    let begins = self.buffers.back().copied().unwrap_or(0).max(now);
                    self.buffers.push_back(begins + clocks);
                }
            }
        }
        now - from
    }

    /// Writes that have not left at a clock.
    fn pending(&self, clock: u64) -> usize {
        self.buffers.iter().filter(|&&leaves| leaves > clock).count()
    }

    /// Instructions enter the FIFO while it has room: two short ones a clock, one with prefixes only as
    /// the first of a clock, and none in the clock of a taken branch before it.
    fn push(&mut self) {
        while !self.blocked && self.next < self.program.len() && self.fifo.len() < 4 {
            let step = &self.program[self.next];
            let instruction = &step.instruction;
            let prefixed = instruction.prefixes.size + instruction.prefixes.other > 0;
            let beside = match (self.next.checked_sub(1), self.pushed_this_clock.as_slice()) {
                (_, []) => true,
                (Some(n), [_]) => {
                    let before = &self.program[n];
                    !prefixed
                        && instruction.length <= 7
                        && before.instruction.length <= 7
                        && !before.happened.taken
                }
                _ => false,
            };
            if !beside {
                return;
            }
            // Whether it could have come beside the last one, had there been no delay.
            let joins = !prefixed && instruction.length <= 7 && self.last_had_room();
            let earliest = match self.last_pushed {
                Some(at) => at + u64::from(!joins),
                None => self.fetch_from,
            };
            let delay = u64::from(instruction.prefixes.size) * 2
                + u64::from(instruction.prefixes.other)
                + step.happened.fetch;
            let parsed = *self.parsed_at.get_or_insert(earliest + delay);
            if parsed > self.clock {
                return;
            }
            let fetch = step.happened.fetch;
            self.fire(Signal::StallIfetch, fetch);
            self.fifo.push_back(self.next);
            self.first_of_its_clock = self.pushed_this_clock.is_empty();
            self.pushed_this_clock.push(self.next);
            self.last_pushed = Some(self.clock);
            self.parsed_at = None;
            let stops = self.program[self.next].happened.mispredicted
                || self.instruction(self.next).serialises;
            self.blocked = stops;
            self.next += 1;
        }
    }

    /// Whether the last instruction that entered was the first of its clock, and lets another in.
    fn last_had_room(&self) -> bool {
        let Some(before) = self.next.checked_sub(1).map(|n| &self.program[n]) else { return false };
        self.first_of_its_clock && before.instruction.length <= 7 && !before.happened.taken
    }

    /// D1 takes one or two instructions.
    fn pull(&mut self) {
        let Some(first) = self.fifo.pop_front() else {
            // What follows a wrong prediction is fetched until that is found out.
            if !self.blocked && self.next < self.program.len() {
                self.fire(Signal::StallD1FifoEmpty, 1);
            }
            return;
        };
        let mut second = None;
        match self.fifo.front() {
            Some(&n) => {
                if rules::pairs(self.instruction(first), self.instruction(n)) {
                    second = self.fifo.pop_front();
                }
            }
            None => {
                if !self.blocked && self.next < self.program.len() {
                    self.fire(Signal::StallD1OneInFifo, 1);
                }
            }
        }
        self.d1 = Some(Group { first, second, since: self.clock, accessed: None, leaves: 0 });
    }
}
