//! A slow pipeline, written as the processors' manuals describe one: in every cycle each stage looks at its
//! queue. It knows nothing of how the model computes the same.

use std::collections::{BTreeMap, VecDeque};

use uarch::pipeline::out_of_order::{
    Blocking, Core, Decoders, Execution, Forwarding, MacroOp, Memory, MicroOp, Misprediction,
    Operands, PartialRegisters, Role, Schedulers, registers,
    table::{Decode, Row, behaviour},
};

/// An instruction of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) row: &'static Row,
    pub(crate) operands: Operands,
    pub(crate) execution: Execution,
}

/// What came of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// When each instruction retired.
    pub(crate) retired: Vec<u64>,
    /// Cycles in which dispatch lacked the reorder buffer, a scheduler for integers, that for
    /// floating-point numbers, the load/store unit.
    pub(crate) lacked: [u64; 4],
    /// Cycles in which LS2 was full, until the last probe.
    pub(crate) second_full: u64,
}

/// A micro-operation under way.
#[derive(Clone, Debug, Default)]
struct Part {
    issued: Option<u64>,
    probed: Option<u64>,
    end: Option<u64>,
}

/// A macro-operation under way.
#[derive(Clone, Debug)]
struct Op {
    step: usize,
    kind: MacroOp,
    parts: Vec<Part>,
    position: u8,
    line: usize,
    decoded: u64,
    dispatched: Option<u64>,
    retired: Option<u64>,
    written: Option<u64>,
}

/// Where a register's value comes from.
#[derive(Clone, Copy)]
enum Producer {
    /// What a step computes.
    Result(usize),
    /// The stack pointer as a step's operation left it.
    Pointer(usize),
}

struct Machine<'a> {
    core: &'a Core,
    program: &'a [Step],
    now: u64,
    ops: Vec<Op>,
    /// The operations of each step.
    of_step: Vec<Vec<usize>>,
    sources: Vec<Vec<Producer>>,
    address: Vec<Vec<Producer>>,
    pointer: Vec<Option<Producer>>,
    /// Macro-operations before this one have been dispatched, have retired.
    dispatched: usize,
    retired: usize,
    last_dispatch: u64,
    in_cycle: u8,
    /// Operations that are decoded.
    decoded: usize,
    last_decode: u64,
    position: u8,
    line: usize,
    next_step: usize,
    closed: bool,
    sequencer_until: u64,
    /// When each step was decoded, by its first operation, and when it let go of its windows.
    used: Vec<Option<u64>>,
    /// Windows: the steps that touch each, and when it arrived.
    windows: Vec<Window>,
    step_windows: Vec<usize>,
    memory: VecDeque<(usize, usize)>,
    last_probe: (u64, u8, Option<u64>),
    blocked_until: [u64; 3],
    outcome: Outcome,
    full_cycles: BTreeMap<u64, bool>,
}

#[derive(Debug)]
struct Window {
    first: usize,
    last: usize,
    delay: u64,
    redirected: bool,
    arrived: Option<u64>,
}

/// Runs a program.
pub(crate) fn run(core: &Core, program: &[Step]) -> Outcome {
    let mut machine = Machine::new(core, program);
    while machine.retired < machine.ops.len() {
        machine.cycle();
        assert!(machine.now < 10_000_000, "stuck");
        machine.now += 1;
    }
    machine.outcome.second_full =
        machine.full_cycles.range(..machine.last_probe.0).filter(|(_, full)| **full).count() as u64;
    machine.outcome
}

impl<'a> Machine<'a> {
    fn new(core: &'a Core, program: &'a [Step]) -> Self {
        let mut ops = Vec::new();
        let mut of_step = Vec::new();
        let (mut sources, mut address, mut pointer) = (Vec::new(), Vec::new(), Vec::new());
        let mut writers: BTreeMap<u8, Producer> = BTreeMap::new();
        let mut windows: Vec<Window> = Vec::new();
        let mut step_windows = Vec::new();
        let mut current: Option<u64> = None;
        for (n, step) in program.iter().enumerate() {
            let mut kinds: Vec<MacroOp> = step.row.operations.to_vec();
            for _ in 0..step.execution.iterations {
                kinds.extend(step.row.each);
            }
            kinds.extend((0..step.row.steps).map(|_| core.table.step));
            let mut mine = Vec::new();
            for kind in kinds {
                mine.push(ops.len());
                ops.push(Op {
                    step: n,
                    kind,
                    parts: vec![Part::default(); kind.parts.len()],
                    position: 0,
                    line: 0,
                    decoded: 0,
                    dispatched: None,
                    retired: None,
                    written: None,
                });
            }
            of_step.push(mine);

            let stack = step.row.behaviour & behaviour::STACK != 0;
            let folded = stack && core.folds_stack;
            let mut read = step.operands.sources;
            if core.partial == PartialRegisters::Merged {
                read |= step.operands.partial;
            }
            let mut from = step.operands.address;
            let mut written = step.operands.destinations;
            let pointer_bit = 1 << registers::STACK_POINTER;
            if stack {
                read &= !pointer_bit;
                written &= !pointer_bit;
            }
            if folded {
                from &= !pointer_bit;
            }
            let producers = |set: u64, writers: &BTreeMap<u8, Producer>| -> Vec<Producer> {
                (0..64)
                    .filter(|bit| set >> bit & 1 != 0)
                    .filter_map(|bit| writers.get(&bit).copied())
                    .collect()
            };
            sources.push(producers(read, &writers));
            address.push(producers(from, &writers));
            pointer.push(writers.get(&registers::STACK_POINTER).copied());
            for bit in (0..64).filter(|bit| written >> bit & 1 != 0) {
                writers.insert(bit, Producer::Result(n));
            }
            let adds = step.row.operations.iter().flat_map(|kind| kind.parts);
            if adds.clone().any(|part| part.role == Role::Pointer) {
                writers.insert(registers::STACK_POINTER, Producer::Pointer(n));
            }

            let shift = core.fetch.window_shift;
            let first = step.execution.address >> shift;
            let last =
                (step.execution.address + u64::from(step.operands.length.max(1)) - 1) >> shift;
            let mut delay = u64::from(step.execution.fetch_delay);
            for window in first..=last {
                if current == Some(window) {
                    windows.last_mut().unwrap().last = n;
                    continue;
                }
                let redirected = current.is_none();
                windows.push(Window { first: n, last: n, delay, redirected, arrived: None });
                delay = 0;
                current = Some(window);
            }
            step_windows.push(windows.len() - 1);
            if step.execution.taken || step.execution.misprediction != Misprediction::None {
                current = None;
            }
        }
        let steps = program.len();
        Self {
            core,
            program,
            now: 0,
            ops,
            of_step,
            sources,
            address,
            pointer,
            dispatched: 0,
            retired: 0,
            last_dispatch: 0,
            in_cycle: 0,
            decoded: 0,
            last_decode: 0,
            position: 0,
            line: 0,
            next_step: 0,
            closed: true,
            sequencer_until: 0,
            used: vec![None; steps],
            windows,
            step_windows,
            memory: VecDeque::new(),
            last_probe: (0, 0, None),
            blocked_until: [0; 3],
            outcome: Outcome { retired: vec![0; steps], lacked: [0; 4], second_full: 0 },
            full_cycles: BTreeMap::new(),
        }
    }

    fn cycle(&mut self) {
        self.settle();
        self.retire();
        self.probe();
        self.issue();
        self.dispatch();
        match self.core.decoders {
            Decoders::Lines { .. } => self.decode_line(),
            Decoders::Template { .. } => self.decode_group(),
        }
        self.fetch();
    }

    // ---- values ----

    fn kind(&self, op: usize, part: usize) -> &'static MicroOp {
        &self.ops[op].kind.parts[part]
    }

    /// What the parts of a step up to one have computed: `None` as long as it is not known.
    fn value(&self, step: usize, before: Option<(usize, usize)>) -> Option<(u64, bool)> {
        let (mut value, mut computed) = (0, false);
        for &op in &self.of_step[step] {
            for part in 0..self.ops[op].parts.len() {
                if Some((op, part)) == before {
                    return Some((value, computed));
                }
                let end = self.ops[op].parts[part].end;
                match self.kind(op, part).role {
                    Role::Load | Role::Half => {
                        value = value.max(end?);
                        computed = true;
                    }
                    Role::Operate | Role::Address => {
                        value = end?;
                        computed = true;
                    }
                    _ => {}
                }
            }
        }
        Some((value, computed))
    }

    fn loads(&self, step: usize, before: (usize, usize)) -> Option<u64> {
        let mut latest = 0;
        for &op in &self.of_step[step] {
            for part in 0..self.ops[op].parts.len() {
                if (op, part) == before {
                    return Some(latest);
                }
                if self.kind(op, part).role == Role::Load {
                    latest = latest.max(self.ops[op].parts[part].end?);
                }
            }
        }
        Some(latest)
    }

    fn complete(&self, op: usize) -> Option<u64> {
        let mut complete = self.ops[op].dispatched?;
        for part in &self.ops[op].parts {
            complete = complete.max(part.end?);
        }
        Some(complete)
    }

    fn result(&self, step: usize) -> Option<u64> {
        let (value, computed) = self.value(step, None)?;
        if computed {
            return Some(value);
        }
        let mut latest = 0;
        for &op in &self.of_step[step] {
            latest = latest.max(self.complete(op)?);
        }
        Some(latest)
    }

    fn produced(&self, producer: Producer) -> Option<u64> {
        match producer {
            Producer::Result(step) => self.result(step),
            Producer::Pointer(step) => {
                let mut end = None;
                for &op in &self.of_step[step] {
                    for part in 0..self.ops[op].parts.len() {
                        if self.kind(op, part).role == Role::Pointer {
                            end = Some(self.ops[op].parts[part].end?);
                        }
                    }
                }
                end
            }
        }
    }

    fn all(&self, producers: &[Producer]) -> bool {
        producers.iter().all(|&one| self.produced(one).is_some_and(|cycle| cycle <= self.now))
    }

    /// The operation and part of the store that was so many stores before an operation.
    fn store_before(&self, op: usize, back: u8) -> Option<(usize, usize)> {
        let mut stores = Vec::new();
        for older in 0..op {
            for part in 0..self.ops[older].parts.len() {
                if self.kind(older, part).role == Role::StoreData {
                    stores.push((older, part));
                }
            }
        }
        stores.len().checked_sub(1 + usize::from(back)).map(|n| stores[n])
    }

    /// Ends of loads that wait for stores become known.
    fn settle(&mut self) {
        for op in 0..self.dispatched {
            for part in 0..self.ops[op].parts.len() {
                if self.kind(op, part).role != Role::Load || self.ops[op].parts[part].end.is_some()
                {
                    continue;
                }
                let execution = self.program[self.ops[op].step].execution;
                let state = &self.ops[op].parts[part];
                let hit = match self.core.memory {
                    Memory::InOrder { .. } => state.probed.map(|cycle| cycle + 2),
                    Memory::Buffers { .. } => {
                        state.issued.map(|cycle| cycle + u64::from(self.kind(op, part).latency))
                    }
                };
                let Some(hit) = hit else { continue };
                let forward = u64::from(self.core.forward_delay);
                let other = match execution.forwarding {
                    Forwarding::None => Some(0),
                    Forwarding::From(back) => match self.store_before(op, back) {
                        None => Some(forward),
                        Some((store, part)) => {
                            self.ops[store].parts[part].end.map(|end| end + forward)
                        }
                    },
                    Forwarding::Blocked(back) => match self.store_before(op, back) {
                        None => Some(forward),
                        Some((store, _)) => self.ops[store].written.map(|cycle| cycle + forward),
                    },
                };
                let Some(other) = other else { continue };
                self.ops[op].parts[part].end =
                    Some((hit + u64::from(execution.load_delay)).max(other));
            }
        }
    }

    // ---- stages ----

    fn retire(&mut self) {
        for _ in 0..self.core.width {
            if self.retired == self.dispatched {
                return;
            }
            let op = self.retired;
            if self.complete(op).is_none_or(|complete| complete >= self.now) {
                return;
            }
            self.ops[op].retired = Some(self.now);
            self.outcome.retired[self.ops[op].step] = self.now;
            self.retired += 1;
            if (0..self.ops[op].parts.len()).any(|part| self.kind(op, part).role == Role::StoreData)
            {
                let before = (0..op).rev().find_map(|older| self.ops[older].written).unwrap_or(0);
                let turn = match self.core.memory {
                    Memory::InOrder { .. } => before,
                    Memory::Buffers { .. } => before + 1,
                };
                // The first store of a step waits for all that its stores wait for.
                let step = self.ops[op].step;
                let first = self.of_step[step].iter().all(|&one| self.ops[one].written.is_none());
                let delay = if first { self.program[step].execution.store_delay } else { 0 };
                self.ops[op].written = Some(turn.max(self.now + 1) + u64::from(delay));
                self.settle();
            }
        }
    }

    /// When the store with this address is in the cache: the one with the next data.
    fn written_from(&self, op: usize) -> Option<u64> {
        for later in op..self.ops.len() {
            if (0..self.ops[later].parts.len())
                .any(|part| self.kind(later, part).role == Role::StoreData)
            {
                return self.ops[later].written;
            }
        }
        None
    }

    fn second_held(&self) -> usize {
        let mut held = 0;
        for op in 0..self.dispatched {
            for part in 0..self.ops[op].parts.len() {
                let state = &self.ops[op].parts[part];
                if state.probed.is_none() {
                    continue;
                }
                let until = match self.kind(op, part).role {
                    Role::StoreAddress => self.written_from(op),
                    Role::Load if self.program[self.ops[op].step].execution.load_delay > 0 => {
                        state.end
                    }
                    _ => continue,
                };
                held += usize::from(until.is_none_or(|until| self.now <= until));
            }
        }
        held
    }

    fn probe(&mut self) {
        let Memory::InOrder { ports, bank, index, second, .. } = self.core.memory else { return };
        while let Some(&(op, part)) = self.memory.front() {
            if self.ops[op].parts[part].issued.is_none_or(|issued| issued >= self.now) {
                break;
            }
            if self.second_held() >= usize::from(second) {
                break;
            }
            let load = self.kind(op, part).role == Role::Load;
            let address = self.program[self.ops[op].step].execution.load_address;
            let (cycle, count, other) = self.last_probe;
            if cycle == self.now {
                if count == ports {
                    break;
                }
                if let (true, Some(other)) = (load, other)
                    && (other ^ address) & bank == 0
                    && (other ^ address) & index != 0
                {
                    break;
                }
                self.last_probe = (cycle, count + 1, load.then_some(address));
            } else {
                self.last_probe = (self.now, 1, load.then_some(address));
            }
            self.memory.pop_front();
            let state = &mut self.ops[op].parts[part];
            state.probed = Some(self.now);
            if !load {
                let end = state.issued.unwrap() + 1;
                state.end = Some(end.max(self.now));
            }
            self.settle();
        }
        let full = self.second_held() >= usize::from(second);
        self.full_cycles.insert(self.now, full);
    }

    fn ready(&self, op: usize, part: usize) -> bool {
        let step = self.ops[op].step;
        let kind = self.kind(op, part);
        let delay = if kind.float { self.core.float_delay } else { self.core.issue_delay };
        if self.ops[op].dispatched.is_none_or(|cycle| cycle + u64::from(delay) > self.now) {
            return false;
        }
        let come = |cycle: Option<u64>| cycle.is_some_and(|cycle| cycle <= self.now);
        let value = self.value(step, Some((op, part))).map(|(value, _)| value);
        match kind.role {
            Role::Load | Role::StoreAddress => {
                if !self.all(&self.address[step]) {
                    return false;
                }
                let waits =
                    kind.role == Role::Load && matches!(self.core.memory, Memory::Buffers { .. });
                !waits
                    || (0..=op).all(|older| {
                        (0..self.ops[older].parts.len())
                            .filter(|&n| older < op || n < part)
                            .filter(|&n| self.kind(older, n).role == Role::StoreAddress)
                            .all(|n| come(self.ops[older].parts[n].end))
                    })
            }
            Role::Operate | Role::StoreData => self.all(&self.sources[step]) && come(value),
            Role::Half => self.all(&self.sources[step]) && come(self.loads(step, (op, part))),
            Role::Address => self.all(&self.sources[step]) && self.all(&self.address[step]),
            Role::Pointer => self.pointer[step].is_none_or(|one| self.all(&[one])),
            Role::Step | Role::Exchange => true,
        }
    }

    fn issue(&mut self) {
        let mut taken = 0u16;
        for op in self.retired..self.dispatched {
            for part in 0..self.ops[op].parts.len() {
                if self.ops[op].parts[part].issued.is_some() || !self.ready(op, part) {
                    continue;
                }
                let kind = *self.kind(op, part);
                if kind.blocking != Blocking::None {
                    let older = (self.retired..=op).any(|older| {
                        (0..self.ops[older].parts.len())
                            .filter(|&n| older < op || n < part)
                            .filter(|&n| self.kind(older, n).blocking == kind.blocking)
                            .any(|n| self.ops[older].parts[n].issued.is_none())
                    });
                    if older || self.blocked_until[kind.blocking as usize] > self.now {
                        continue;
                    }
                }
                let lane = if kind.lane { self.ops[op].position } else { 0 };
                let units = kind.units << lane;
                if units != 0 {
                    let free = units & !taken;
                    if free == 0 {
                        continue;
                    }
                    taken |= 1 << free.trailing_zeros();
                }
                if kind.blocking != Blocking::None {
                    self.blocked_until[kind.blocking as usize] =
                        self.now + u64::from(kind.occupancy);
                }
                let probes = matches!(self.core.memory, Memory::InOrder { .. })
                    && matches!(kind.role, Role::Load | Role::StoreAddress);
                let state = &mut self.ops[op].parts[part];
                state.issued = Some(self.now);
                if !probes && kind.role != Role::Load {
                    state.end = Some(self.now + u64::from(kind.latency));
                }
                self.settle();
            }
        }
    }

    /// What is held of lanes' schedulers, that of floating point, LS1 or load buffers, store buffers.
    fn held(&self) -> ([usize; 3], usize, usize, usize) {
        let (mut lanes, mut float, mut loads, mut stores) = ([0; 3], 0, 0, 0);
        for op in 0..self.dispatched {
            let state = &self.ops[op];
            let waits = |float: Option<bool>| {
                (0..state.parts.len()).any(|n| {
                    float.is_none_or(|float| self.kind(op, n).float == float)
                        && state.parts[n].issued.is_none_or(|issued| issued >= self.now)
                })
            };
            match self.core.schedulers {
                Schedulers::Lanes { .. } => {
                    lanes[usize::from(state.position)] +=
                        usize::from(state.kind.integer && waits(Some(false)));
                    float += usize::from(state.kind.float && waits(Some(true)));
                }
                Schedulers::Unified { .. } => {
                    lanes[0] +=
                        usize::from((state.kind.integer || state.kind.float) && waits(None));
                }
            }
            for n in 0..state.parts.len() {
                let role = self.kind(op, n).role;
                if !matches!(role, Role::Load | Role::StoreAddress) {
                    continue;
                }
                let part = &state.parts[n];
                match self.core.memory {
                    Memory::InOrder { .. } => {
                        loads += usize::from(part.probed.is_none_or(|cycle| cycle >= self.now));
                    }
                    Memory::Buffers { .. } if role == Role::Load => {
                        loads += usize::from(state.retired.is_none_or(|cycle| cycle >= self.now));
                    }
                    Memory::Buffers { .. } => {
                        let until = self.written_from(op);
                        stores += usize::from(until.is_none_or(|cycle| cycle >= self.now));
                    }
                }
            }
        }
        (lanes, float, loads, stores)
    }

    fn dispatch(&mut self) {
        let lines = matches!(self.core.decoders, Decoders::Lines { .. });
        while self.dispatched < self.decoded {
            let op = self.dispatched;
            let state = &self.ops[op];
            let fresh = lines && (op == 0 || self.ops[op - 1].line != state.line);
            let another = if lines { fresh } else { self.in_cycle == self.core.width };
            if state.decoded >= self.now || another && self.last_dispatch >= self.now {
                return;
            }
            let step = state.step;
            if self.of_step[step][0] == op && self.must_wait(step) {
                return;
            }
            let kind = state.kind;
            let position = usize::from(state.position);
            let (lanes, float, loads, stores) = self.held();
            let mut lacks = [false; 4];
            let place = if lines { fresh } else { true };
            if place {
                let size = usize::from(self.core.reorder_buffer);
                let before = if lines {
                    state
                        .line
                        .checked_sub(size)
                        .and_then(|line| (0..op).rev().find(|&older| self.ops[older].line == line))
                } else {
                    op.checked_sub(size)
                };
                lacks[0] = before.is_some_and(|before| {
                    self.ops[before].retired.is_none_or(|cycle| cycle >= self.now)
                });
            }
            match self.core.schedulers {
                Schedulers::Lanes { integer, float: most } => {
                    lacks[1] = kind.integer && lanes[position] >= usize::from(integer);
                    lacks[2] = kind.float && float >= usize::from(most);
                }
                Schedulers::Unified { entries } => {
                    lacks[1] = (kind.integer || kind.float) && lanes[0] >= usize::from(entries);
                }
            }
            let accesses = usize::from(kind.loads + kind.stores);
            lacks[3] = match self.core.memory {
                Memory::InOrder { first, .. } => {
                    accesses > 0 && loads + accesses > usize::from(first)
                }
                Memory::Buffers { loads: most_loads, stores: most_stores } => {
                    kind.loads > 0 && loads + usize::from(kind.loads) > usize::from(most_loads)
                        || kind.stores > 0
                            && stores + usize::from(kind.stores) > usize::from(most_stores)
                }
            };
            if lacks.contains(&true) {
                for (count, lack) in self.outcome.lacked.iter_mut().zip(lacks) {
                    *count += u64::from(lack);
                }
                return;
            }
            self.ops[op].dispatched = Some(self.now);
            if self.last_dispatch == self.now && !another {
                self.in_cycle += 1;
            } else {
                self.last_dispatch = self.now;
                self.in_cycle = 1;
            }
            self.dispatched += 1;
            if matches!(self.core.memory, Memory::InOrder { .. }) {
                for n in 0..kind.parts.len() {
                    if matches!(kind.parts[n].role, Role::Load | Role::StoreAddress) {
                        self.memory.push_back((op, n));
                    }
                }
            }
        }
    }

    /// Whether a step as a whole has something to wait for.
    fn must_wait(&self, step: usize) -> bool {
        let first = self.of_step[step][0];
        let older_retired =
            |n: usize| (0..n).all(|op| self.ops[op].retired.is_some_and(|cycle| cycle < self.now));
        // Behind a serialising instruction, or one that starts again what follows it.
        for before in 0..step {
            let Step { row, execution, .. } = &self.program[before];
            let holds = row.behaviour & (behaviour::SERIALISES | behaviour::FAR) != 0
                || execution.resync
                || execution.misprediction == Misprediction::Execution;
            if holds && !older_retired(*self.of_step[before].last().unwrap() + 1) {
                return true;
            }
        }
        let row = self.program[step].row;
        if row.behaviour & behaviour::SERIALISES != 0 && !older_retired(first) {
            return true;
        }
        if row.behaviour & behaviour::DRAINS_STORES != 0 {
            // It looks when all else allows it to go, at the stores that have retired and at those that
            // have not.
            let drained = (0..first).all(|op| {
                let stores = self.ops[op].kind.parts.iter().any(|p| p.role == Role::StoreData);
                !stores || self.ops[op].written.is_some_and(|cycle| cycle <= self.now)
            });
            if !drained {
                return true;
            }
        }
        false
    }

    fn fetched(&self, step: usize) -> bool {
        self.windows[self.step_windows[step]].arrived.is_some_and(|cycle| cycle < self.now)
    }

    fn place(&mut self, op: usize) {
        self.ops[op].position = self.position;
        self.ops[op].line = self.line;
        self.ops[op].decoded = self.now;
        self.position += 1;
        self.decoded = op + 1;
    }

    fn decode_of(&self, step: usize) -> Decode {
        match (self.program[step].row.decode, self.core.decoders) {
            (Decode::Double, Decoders::Lines { double: false }) => Decode::Microcode,
            (decode, _) => decode,
        }
    }

    fn decode_line(&mut self) {
        // The line before has left the decoders.
        if self.dispatched < self.decoded || self.decoded > 0 && self.last_decode >= self.now {
            return;
        }
        let mut begun = false;
        let begin = |machine: &mut Self, begun: &mut bool| {
            if !*begun {
                *begun = true;
                machine.position = 0;
                machine.line += 1;
                machine.last_decode = machine.now;
            }
        };
        // The rest of an instruction that did not fit.
        let pending = self.decoded < self.ops.len() && self.decoded > 0 && {
            let step = self.ops[self.decoded].step;
            self.ops[self.decoded - 1].step == step
        };
        if pending {
            begin(self, &mut begun);
            let step = self.ops[self.decoded].step;
            while self.position < self.core.width
                && self.decoded < self.ops.len()
                && self.ops[self.decoded].step == step
            {
                self.place(self.decoded);
            }
            if self.decode_of(step) == Decode::Microcode {
                return;
            }
        }
        while self.next_step < self.program.len() && self.position_free(begun) {
            let step = self.next_step;
            let decode = self.decode_of(step);
            if !self.fetched(step) {
                return;
            }
            if begun && (decode == Decode::Microcode || decode == Decode::First) {
                return;
            }
            begin(self, &mut begun);
            self.used[step] = Some(self.now);
            self.next_step += 1;
            for op in self.of_step[step].clone() {
                if self.position == self.core.width {
                    return;
                }
                self.place(op);
            }
            if decode == Decode::Microcode {
                return;
            }
        }
    }

    fn position_free(&self, begun: bool) -> bool {
        !begun || self.position < self.core.width
    }

    fn decode_group(&mut self) {
        let Decoders::Template { count, first, bytes, queue, microcode } = self.core.decoders
        else {
            return;
        };
        if self.now <= self.sequencer_until || self.closed && self.now == 0 {
            self.closed = false;
            return;
        }
        let mut slots = 0;
        while self.next_step < self.program.len() && slots < count {
            let step = self.next_step;
            let operations = self.of_step[step].len();
            let simple = operations <= 1 && self.program[step].operands.length <= bytes;
            if !self.fetched(step) || slots > 0 && !simple {
                return;
            }
            let makes = operations.min(usize::from(first));
            let waiting = self.decoded - self.dispatched;
            if waiting > 0 && waiting + makes > usize::from(queue) {
                return;
            }
            self.next_step += 1;
            slots += 1;
            for op in self.of_step[step].clone() {
                // There are no lanes.
                self.position = 0;
                self.place(op);
            }
            self.used[step] = Some(self.now);
            self.sequencer_until = self.now;
            if operations > usize::from(first) {
                self.sequencer_until += (operations as u64 - 1) / u64::from(microcode);
                self.used[step] = Some(self.sequencer_until);
                return;
            }
        }
    }

    fn fetch(&mut self) {
        let Some(n) = self.windows.iter().position(|window| window.arrived.is_none()) else {
            return;
        };
        // An earlier one may still be on its way.
        if n > 0 && self.windows[n - 1].arrived.is_some_and(|cycle| cycle > self.now) {
            return;
        }
        let soonest = if self.windows[n].redirected && n > 0 {
            let branch = self.windows[n].first - 1;
            let Step { row, execution, .. } = &self.program[branch];
            let _ = row;
            match execution.misprediction {
                Misprediction::None => self.windows[n - 1]
                    .arrived
                    .map(|cycle| cycle + 1 + u64::from(self.core.fetch.bubble)),
                Misprediction::Decoder => {
                    self.used[branch].map(|cycle| cycle + u64::from(self.core.decode_redirect))
                }
                Misprediction::Execution => {
                    let last = *self.of_step[branch].last().unwrap();
                    self.complete(last).map(|cycle| cycle + u64::from(self.core.redirect))
                }
            }
        } else if n > 0 {
            self.windows[n - 1].arrived.map(|cycle| cycle + 1)
        } else {
            Some(0)
        };
        let Some(soonest) = soonest else { return };
        if soonest > self.now {
            return;
        }
        let held = usize::from(self.core.fetch.windows);
        if let Some(oldest) = n.checked_sub(held)
            && !(self.windows[oldest].first..=self.windows[oldest].last)
                .filter(|&step| step < self.windows[n].first)
                .all(|step| self.used[step].is_some_and(|cycle| cycle <= self.now))
        {
            return;
        }
        self.windows[n].arrived = Some(self.now + self.windows[n].delay);
    }
}
