//! The same core cycle by cycle: in each, every thread that executes is looked at, one is picked, and what
//! is in the execution stage goes on. Slow, and written from the rules in words, not from the model.

use std::collections::{BTreeMap, VecDeque};

use pmu_model::Signal;

use super::{
    super::{Instruction, VectorRegisters},
    Course, Out, Step, What,
};
use crate::pipeline::{
    Branch, Instruction as Scalar, MemoryUse, Registers,
    in_order::{Pairing, Precision, Unit},
};

/// Cycles from an issue of a thread to its next.
const DECODING: u64 = 2;
/// Cycles that an empty pipeline takes, and a wrong prediction.
const EMPTY: u64 = 5;
/// Clocks of a delivery.
const DELIVERY: u64 = 30;

/// What becomes of programs, one a thread, all from cycle 0 on.
pub(super) fn simulate(programs: &[Vec<Step>]) -> Vec<Course> {
    let mut core = Core {
        threads: programs.iter().map(|program| Thread::new(program)).collect(),
        last: 3,
        stage: None,
        x87_free: 0,
        multiplier_free: 0,
        vector_free: 0,
    };
    let mut cycle = 0;
    while core.threads.iter().any(|thread| thread.next < thread.program.len())
        || core.stage.is_some()
    {
        core.step(cycle);
        cycle += 1;
        assert!(cycle < 1_000_000, "no progress");
    }
    core.threads.into_iter().map(|thread| thread.course).collect()
}

/// What is in the execution stage: whose, until when, and until when it is microcode.
struct Stage {
    thread: usize,
    until: u64,
    microcode: bool,
}

struct Core<'a> {
    threads: Vec<Thread<'a>>,
    last: usize,
    stage: Option<Stage>,
    x87_free: u64,
    multiplier_free: u64,
    vector_free: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Register {
    X87(u8),
    Zmm(u8),
    Mask(u8),
}

/// General registers that the last instructions wrote, and when these were finished.
#[derive(Clone, Copy)]
struct Left {
    written: Registers,
    finished: u64,
}

struct Thread<'a> {
    program: &'a [Step],
    /// The next step to issue.
    next: usize,
    /// It is halted until then, or from the beginning.
    out_until: u64,
    /// The first cycle in which its next step could be decoded.
    decoded: u64,
    left: Left,
    ready: BTreeMap<Register, u64>,
    top: u8,
    /// The next step to enter the FIFO, and what is in it, with the cycles of entering.
    entering: usize,
    fifo: VecDeque<usize>,
    /// Nothing is fetched behind a step that empties the pipeline, until it has issued.
    blocked: bool,
    /// When the last one entered; how many did in that cycle.
    last_entry: u64,
    entries: u64,
    /// What is fetched first behind an empty pipeline comes in this cycle.
    refilled: Option<u64>,
    /// Behind the last cycle in which something other than a turn kept the next step back.
    kept_back: Option<u64>,
    /// The cycle in which the address of the next step was first wanting, and all else was not looked at.
    interlocked: Option<u64>,
    /// Its wait for a vector register was counted.
    counted: bool,
    course: Course,
}

impl<'a> Thread<'a> {
    fn new(program: &'a [Step]) -> Self {
        Self {
            program,
            next: 0,
            out_until: 0,
            decoded: 0,
            left: Left { written: Registers::NONE, finished: 0 },
            ready: BTreeMap::new(),
            top: 0,
            entering: 0,
            fifo: VecDeque::new(),
            blocked: false,
            last_entry: 0,
            entries: 0,
            refilled: Some(EMPTY),
            kept_back: None,
            interlocked: None,
            counted: false,
            course: Course::default(),
        }
    }

    fn fire(&mut self, signal: Signal, n: u64) {
        if n != 0 {
            *self.course.fired.entry(signal).or_insert(0) += n;
        }
    }

    /// Instructions enter the FIFO, two a cycle if no prefix or taken branch is in the way, while it has
    /// room.
    fn fetch(&mut self, cycle: u64) {
        while !self.blocked && self.entering < self.program.len() && self.fifo.len() < 4 {
            let step = &self.program[self.entering];
            let What::Executes(instruction) = &step.what else {
                self.blocked = true;
                return;
            };
            let prefixes = u64::from(instruction.scalar.prefixes.size)
                + u64::from(instruction.scalar.prefixes.other);
            let short = |n: usize| match &self.program[n].what {
                What::Executes(instruction) => instruction.scalar.length <= 15,
                What::Delivery => false,
            };
            let beside_last = self.refilled.is_none()
                && self.entries == 1
                && prefixes == 0
                && short(self.entering)
                && short(self.entering - 1)
                && !self.program[self.entering - 1].execution.taken;
            let parsed = match self.refilled {
                Some(from) => from,
                None => self.last_entry + u64::from(!beside_last),
            };
            if parsed + prefixes + step.execution.fetch > cycle {
                return;
            }
            // Two in one cycle only if they go together.
            let same = self.refilled.is_none() && self.last_entry == cycle;
            assert!(!same || beside_last);
            self.entries = if same { 2 } else { 1 };
            self.last_entry = cycle;
            self.refilled = None;
            self.fifo.push_back(self.entering);
            let empties = instruction.scalar.serialises
                || step.execution.mispredicted
                || step.out.is_some_and(|out| out.empties);
            self.blocked = empties;
            self.entering += 1;
        }
    }

    fn refetch(&mut self, from: u64) {
        assert!(self.fifo.is_empty());
        self.blocked = false;
        self.entering = self.next;
        self.refilled = Some(from);
    }

    fn at(&self, register: Register) -> u64 {
        self.ready.get(&register).copied().unwrap_or(0)
    }

    fn place(&self, place: u8) -> Register {
        Register::X87((self.top + place) % 8)
    }

    /// Whether the address of an instruction can be computed so that it executes in a cycle, behind those
    /// that left.
    fn has_address(&self, instruction: &Instruction, left: Left, cycle: u64) -> bool {
        let late = instruction.scalar.address.intersects(left.written) && cycle <= left.finished;
        !late && registers(instruction.index).all(|register| self.at(register) < cycle)
    }

    /// Whether all registers but those of its address are there.
    fn has_data(&self, instruction: &Instruction, cycle: u64) -> bool {
        if let Unit::X87(unit) = instruction.scalar.timing.unit {
            let early = u64::from(unit.operand_early);
            return instruction.scalar.exchanges.is_some()
                || (0..8)
                    .filter(|&place| instruction.scalar.reads.intersects(Registers::x87(place)))
                    .all(|place| self.at(self.place(place)) + early <= cycle);
        }
        let general = instruction.scalar.writes.has_general()
            || instruction.scalar.writes.intersects(Registers::FLAGS)
            || instruction.scalar.branch != Branch::None;
        let reads = registers(instruction.reads).all(|register| {
            let leaves = match register {
                Register::Zmm(_) => instruction.scalar.memory == MemoryUse::Store,
                Register::Mask(_) => general,
                Register::X87(_) => false,
            };
            self.at(register) + if leaves { 4 } else { 0 } <= cycle
        });
        reads
            && registers(instruction.writes)
                .all(|register| self.at(register) <= cycle + latency(&instruction.scalar))
    }

    /// When the results of an instruction are there that has its operands in a cycle.
    fn result(&mut self, instruction: &Instruction, precision: Precision, cycle: u64) {
        let scalar = &instruction.scalar;
        if let Unit::X87(unit) = scalar.timing.unit {
            if let Some(place) = scalar.exchanges {
                let (one, two) = (self.place(0), self.place(place));
                let times = (self.at(one), self.at(two));
                self.ready.insert(one, times.1);
                self.ready.insert(two, times.0);
            } else {
                let clocks = u64::from(unit.result) - shorter(&unit.shorter, precision);
                for place in 0..8 {
                    if scalar.writes.intersects(Registers::x87(place)) {
                        self.ready.insert(self.place(place), cycle + clocks);
                    }
                }
            }
            self.top = (self.top as i8 + scalar.x87_pops).rem_euclid(8) as u8;
        }
        for register in registers(instruction.writes) {
            self.ready.insert(register, cycle + latency(scalar));
        }
    }
}

impl Core<'_> {
    fn step(&mut self, cycle: u64) {
        self.stage.take_if(|stage| stage.until == cycle);
        let mut able = vec![];
        for number in 0..self.threads.len() {
            self.threads[number].fetch(cycle);
            if self.could_issue(number, cycle) && self.stage.is_none() {
                able.push(number);
            }
        }
        // By turns, from the one behind the last.
        let picked = (1..=4).map(|n| (self.last + n) % 4).find(|number| able.contains(number));
        if let Some(number) = picked {
            self.last = number;
            self.issue(number, cycle);
        }
        if let Some(Stage { thread, microcode, .. }) = self.stage {
            self.threads[thread].fire(Signal::EStageBusy, 1);
            self.threads[thread].fire(Signal::MicrocodeBusy, u64::from(microcode));
        }
    }

    /// Whether a thread's next step could issue in a cycle if the execution stage were free and it were its
    /// turn.
    fn could_issue(&mut self, number: usize, cycle: u64) -> bool {
        let units = self.units_are_free(number, cycle);
        let thread = &mut self.threads[number];
        if thread.next == thread.program.len() || cycle < thread.out_until {
            return false;
        }
        let could = thread.could_issue(cycle) && units;
        if !could && cycle >= thread.decoded {
            thread.kept_back = Some(cycle + 1);
        }
        could
    }

    fn units_are_free(&self, number: usize, cycle: u64) -> bool {
        let thread = &self.threads[number];
        let Some(Step { what: What::Executes(instruction), .. }) = thread.program.get(thread.next)
        else {
            return true;
        };
        match instruction.scalar.timing.unit {
            Unit::X87(unit) => {
                self.x87_free <= cycle && (!unit.multiplies || self.multiplier_free <= cycle)
            }
            Unit::Vector(_) => self.vector_free <= cycle,
            Unit::Integer | Unit::Mmx(_) => true,
        }
    }

    /// A thread's next step issues, and the one behind it if the two pair.
    fn issue(&mut self, number: usize, cycle: u64) {
        let thread = &mut self.threads[number];
        let kept_back = thread.kept_back.take().map_or(0, |until| until - thread.decoded);
        thread.fire(Signal::StallFrontend, kept_back);
        let interlocked = thread.interlocked.take();
        thread.counted = false;
        thread.decoded = cycle + DECODING;
        let before = thread.left;
        let first = thread.next;
        thread.next += 1;
        thread.course.issued.push(cycle);
        let step = &thread.program[first];
        let What::Executes(instruction) = &step.what else {
            thread.left = Left { written: Registers::NONE, finished: cycle + DELIVERY };
            thread.refetch(cycle + DELIVERY + EMPTY);
            self.stage = Some(Stage { thread: number, until: cycle + DELIVERY, microcode: true });
            return;
        };
        assert_eq!(thread.fifo.pop_front(), Some(first));
        let execution = &step.execution;
        let mut clocks = u64::from(instruction.scalar.timing.clocks)
            + u64::from(instruction.scalar.timing.per_iteration) * execution.iterations
            + execution.more
            + execution.misaligned * 3;
        if instruction.scalar.prefixes.lock {
            clocks += 5;
        }
        let mut waits = execution.waits;
        let mut written = instruction.scalar.writes;
        thread.result(instruction, execution.precision, cycle + waits);
        let unit = instruction.scalar.timing.unit;
        let mut last = step;

        // The second, if it is there in this very cycle.
        thread.fetch(cycle);
        let second = thread.fifo.front().copied();
        let empties = instruction.scalar.serialises || execution.mispredicted || execution.halts;
        if let Some(second) = second.filter(|_| !empties)
            && let What::Executes(other) = &thread.program[second].what
            && pair(instruction, other)
            && thread.has_address(other, before, cycle)
            && (other.scalar.exchanges.is_some() || thread.has_data(other, cycle))
        {
            thread.fifo.pop_front();
            thread.fetch(cycle);
            thread.next += 1;
            thread.course.issued.push(cycle);
            last = &thread.program[second];
            thread.fire(Signal::PairV, 1);
            thread.fire(Signal::VpuOpV, u64::from(other.scalar.timing.is_vector()));
            let both_wait =
                interlocked.is_some_and(|when| !thread.has_address(other, before, when));
            thread.fire(Signal::StallAgi, u64::from(both_wait));
            clocks += together(&instruction.scalar, &other.scalar)
                - u64::from(instruction.scalar.timing.clocks)
                + last.execution.misaligned * 3
                + last.execution.more;
            if let (Some(one), Some(two)) = (execution.access, last.execution.access) {
                thread.fire(Signal::PairVMem, 1);
                let lines = |from: u64, bytes: u8| {
                    (from..from + u64::from(bytes)).map(|byte| byte / 64 % 2).collect::<Vec<_>>()
                };
                let (a, b) = (lines(one.address, one.bytes), lines(two.address, two.bytes));
                if one.writes == two.writes && a.iter().any(|bank| b.contains(bank)) {
                    thread.fire(Signal::L1dBankConflict, 1);
                    clocks += 1;
                }
            }
            waits += last.execution.waits;
            written = written.union(other.scalar.writes);
            thread.result(other, last.execution.precision, cycle + waits);
        }
        thread.left = Left { written, finished: cycle + clocks + waits };
        self.behind(number, cycle, last);
        self.stage = Some(Stage {
            thread: number,
            until: cycle + clocks,
            microcode: instruction.scalar.timing.microcode,
        });
        match unit {
            Unit::X87(unit) => {
                if instruction.scalar.exchanges.is_none() {
                    let shorter = shorter(&unit.shorter, execution.precision);
                    self.x87_free = cycle + u64::from(unit.busy) - shorter;
                }
                if unit.multiplies {
                    self.multiplier_free = cycle + 2;
                }
            }
            Unit::Vector(unit) => self.vector_free = cycle + u64::from(unit.busy),
            Unit::Integer | Unit::Mmx(_) => {}
        }
    }

    /// The last step to issue empties its thread's pipeline, or the thread halts.
    fn behind(&mut self, number: usize, cycle: u64, last: &Step) {
        let thread = &mut self.threads[number];
        let What::Executes(instruction) = &last.what else { return };
        if let Some(Out { clocks, empties }) = last.out {
            let until = thread.left.finished.max(cycle + clocks);
            (thread.out_until, thread.left.finished) = (until, until);
            thread.decoded = thread.decoded.max(until);
            if empties {
                thread.refetch(until + EMPTY);
            }
        } else if last.execution.mispredicted || instruction.scalar.serialises {
            thread.refetch(thread.left.finished + EMPTY);
        }
    }
}

impl Thread<'_> {
    /// Whether the next step could issue in a cycle if there were no other thread.
    fn could_issue(&mut self, cycle: u64) -> bool {
        if cycle < self.decoded || cycle < self.left.finished {
            return false;
        }
        let What::Executes(instruction) = &self.program[self.next].what else { return true };
        if self.fifo.front() != Some(&self.next) {
            return false;
        }
        if !self.has_address(instruction, self.left, cycle) {
            if self.interlocked.is_none() {
                self.interlocked = Some(cycle);
                self.fire(Signal::StallAgi, 1);
                let gathers =
                    matches!(instruction.scalar.timing.unit, Unit::Vector(unit) if unit.gathers);
                self.fire(Signal::StallAgiGather, u64::from(gathers));
            }
            return false;
        }
        if !self.has_data(instruction, cycle) {
            if !instruction.scalar.timing.is_x87() && !self.counted {
                self.counted = true;
                self.fire(Signal::StallVpuRegister, 1);
            }
            return false;
        }
        true
    }
}

/// Which two instructions pair.
fn pair(u: &Instruction, v: &Instruction) -> bool {
    use Pairing::{Exchange, U, UV, V, WithExchange};
    let (one, two) = (&u.scalar, &v.scalar);
    if two.prefixes.other > 0 || two.displacement_and_immediate || two.length > 15 {
        return false;
    }
    if one.timing.pairing == WithExchange || two.timing.pairing == Exchange {
        return one.timing.pairing == WithExchange && two.timing.pairing == Exchange;
    }
    if !matches!(one.timing.pairing, U | UV) || !matches!(two.timing.pairing, V | UV) {
        return false;
    }
    for number in 0..16 {
        let register = Registers::general(number);
        if one.writes.intersects(register) && two.reads.union(two.writes).intersects(register) {
            return false;
        }
    }
    let flags = Registers::FLAGS;
    if one.writes.intersects(flags)
        && two.reads.intersects(flags)
        && two.branch != Branch::Conditional
    {
        return false;
    }
    let touched: Vec<Register> =
        registers(v.reads).chain(registers(v.writes)).chain(registers(v.index)).collect();
    registers(u.writes).all(|register| !touched.contains(&register))
}

/// Clocks of a pair in the execution stage.
fn together(one: &Scalar, two: &Scalar) -> u64 {
    match (one.timing.clocks, two.timing.clocks) {
        (1, other) => u64::from(other),
        (2, 1 | 2) => 2,
        (2, 3) | (3, 1) => 3,
        (3, 2) => 4,
        (3, 3) => 5,
        other => panic!("{other:?} do not pair"),
    }
}

fn latency(scalar: &Scalar) -> u64 {
    match scalar.timing.unit {
        Unit::Vector(unit) => unit.result.into(),
        _ => 1,
    }
}

fn shorter(shorter: &[u16; 2], precision: Precision) -> u64 {
    match precision {
        Precision::Single => shorter[0].into(),
        Precision::Double => shorter[1].into(),
        Precision::Extended => 0,
    }
}

/// The registers of a set, one by one.
fn registers(set: VectorRegisters) -> impl Iterator<Item = Register> {
    let zmm = (0..32).filter(move |&n| set.intersects(VectorRegisters::zmm(n))).map(Register::Zmm);
    let masks =
        (0..8).filter(move |&n| set.intersects(VectorRegisters::mask(n))).map(Register::Mask);
    zmm.chain(masks)
}
