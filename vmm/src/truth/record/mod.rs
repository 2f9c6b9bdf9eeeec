//! The recorder: an observer that counts by instruction address.

mod columns;
mod contexts;
mod records;

use std::collections::{BTreeMap, HashMap};

use pmu_model::{Personality, Pmu, Signal};
use x86_cpu::block::Block;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{Accesses, Counting, Delivery, Facts, Observer};
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;

use self::columns::Column;
use self::contexts::{Call, ContextId, Contexts, Return, Slot};
use self::records::{Counted, Records, Where};
use super::{Entered, Instruction, Row, Space, Truth};
use crate::engine::soft::fact;
use crate::error::{Error, Result};

pub use self::columns::DEFAULT as DEFAULT_EVENTS;

/// Records what every instruction does, on all processors of a machine.
///
/// It counts the facts for the performance counters as [`Counting`] does; what those take is a copy.
pub struct Recorder {
    personality: &'static Personality,
    columns: Vec<Column>,
    /// What there was when each column was added: of those that were asked for, nothing.
    before: Vec<Before>,
    /// All facts of the run so far.
    counting: Counting,
    /// What of them was lent to whoever counts for the performance counters,
    lent: Facts,
    /// and which of them that was the last time.
    seen_by_lender: Facts,
    records: Records,
    contexts: Contexts,
    spaces: Spaces,
    /// Deliveries, by the instruction that was interrupted.
    deliveries: BTreeMap<(Where, u64, u8), Delivered>,
    /// Numbers of the places that code was executed at.
    places: HashMap<Where, u32>,
    here: Here,
    running: Running,
    /// The sums that contexts share out among them, and what they were at the last change of context.
    instructions: u64,
    cycles: u64,
    shared_out: Vec<u64>,
    /// What the last transfer to an inner level pushed on each processor, for the first instruction
    /// there.
    inner: Vec<Accesses>,
    /// The sum of what was pushed so before instructions that have begun. For the performance counters
    /// the engine adds it.
    entered_with: Accesses,
}

/// Where the processor is, as long as that stays the same.
#[derive(Clone, Copy)]
struct Here {
    place: Where,
    number: u32,
    cr3: Option<u64>,
}

/// What is being executed.
#[derive(Default)]
struct Running {
    /// The block's record, its first cell, and which of its instructions are irregular.
    record: u32,
    first: usize,
    irregular: u64,
    /// Accesses up to the last instruction, as a mark has them.
    mark: u64,
    /// Accesses of the running instruction that were committed since.
    committed: Option<Accesses>,
    /// Facts up to the last irregular instruction or delivery.
    facts: Facts,
    branches: u64,
    taken: u64,
    /// The time that it is told up to what took it, the cycles that whole blocks take included.
    time: u64,
    /// The time up to which cycles were added to the sum of all.
    counted_time: u64,
    /// Linear address of the block, or of what a delivery interrupts; its code size, the privilege
    /// and the linear address of the top of the stack.
    linear: u64,
    bits: u8,
    cpl: u8,
    sp: u64,
    /// Of the last instruction that retired, on this processor and in this run.
    last_cell: Option<usize>,
    /// The processor's context, if it is known.
    context: Option<ContextId>,
}

/// What had been counted before a column was there, by cell and by interrupted instruction.
#[derive(Default)]
struct Before {
    cells: Vec<u64>,
    deliveries: BTreeMap<(Where, u64, u8), u64>,
}

/// What deliveries did at one address.
#[derive(Default)]
struct Delivered {
    facts: Facts,
    cycles: u64,
}

/// The address spaces of a run, in the order in which they were met.
#[derive(Default)]
struct Spaces {
    index: HashMap<Option<u64>, u32>,
    all: Vec<Option<u64>>,
}

impl Spaces {
    fn number(&mut self, cr3: Option<u64>) -> u32 {
        *self.index.entry(cr3).or_insert_with(|| {
            self.all.push(cr3);
            (self.all.len() - 1) as u32
        })
    }
}

/// Whether `facts` has anything that cells do not have.
fn irregular_part(mut facts: Facts) -> Facts {
    facts.class = [0; _];
    facts.branches = 0;
    facts.taken = 0;
    facts.near_returns = 0;
    facts.loads = 0;
    facts.stores = 0;
    facts.misaligned = 0;
    facts.inner = Accesses::default();
    facts
}

impl Recorder {
    /// A recorder of the named events (see `vpmu run --truth-events`), and of what the guest programs.
    ///
    /// # Errors
    /// A name that means no event that can be recorded.
    pub fn new(personality: &'static Personality, events: &str) -> Result<Self> {
        let columns = columns::parse(events, personality)?;
        Ok(Self {
            personality,
            before: columns.iter().map(|_| Before::default()).collect(),
            shared_out: vec![0; columns.len()],
            columns,
            counting: Counting::default(),
            lent: Facts::default(),
            seen_by_lender: Facts::default(),
            records: Records::default(),
            contexts: Contexts::default(),
            spaces: Spaces::default(),
            deliveries: BTreeMap::new(),
            places: HashMap::new(),
            here: Here { place: Where { vcpu: 0, cpl: 0, space: 0 }, number: u32::MAX, cr3: None },
            running: Running::default(),
            instructions: 0,
            cycles: 0,
            inner: Vec::new(),
            entered_with: Accesses::default(),
        })
    }

    /// Processor `vcpu` goes on.
    pub(crate) fn begin(&mut self, vcpu: usize, cpu: &Cpu) {
        self.lent = Facts::default();
        self.seen_by_lender = *self.counting.complete();
        if self.inner.len() <= vcpu {
            self.inner.resize(vcpu + 1, Accesses::default());
        }
        self.here.place.vcpu = vcpu as u32;
        self.here.number = u32::MAX;
        self.running.context = None;
        self.running.last_cell = None;
        self.running.mark = 0;
        self.running.time = cpu.time;
        self.running.counted_time = cpu.time;
    }

    /// It stops. What its counters are programmed to count is recorded from now on.
    pub(crate) fn end(&mut self, cpu: &Cpu, pmu: &Pmu, programmed: bool) {
        self.pass(cpu.time);
        self.share_out(cpu.time);
        if programmed {
            self.add_programmed(pmu);
        }
    }

    /// Time passed beyond what instructions and deliveries took: what the last instruction waited for.
    fn pass(&mut self, time: u64) {
        let cycles = time.saturating_sub(self.running.time);
        if cycles != 0
            && let Some(cell) = self.running.last_cell
        {
            self.records.cells[cell].cycles += cycles;
        }
        self.running.time = time;
    }

    /// Adds to the running context what was executed in it.
    fn share_out(&mut self, time: u64) {
        self.cycles += time.saturating_sub(self.running.counted_time);
        self.running.counted_time = time;
        let Some(context) = self.running.context else { return };
        let totals = self.totals();
        let own = self.contexts.own(context);
        own.resize(self.columns.len(), 0);
        for ((column, shared), own) in self.columns.iter().zip(&mut self.shared_out).zip(own) {
            let total = totals.of(column);
            *own += total - *shared;
            *shared = total;
        }
    }

    /// All that was executed so far.
    fn totals(&mut self) -> Sums {
        self.commit_recent();
        let mut facts = *self.counting.complete();
        facts.stores += self.entered_with.stores;
        facts.misaligned += self.entered_with.misaligned;
        Sums { executions: self.instructions, cycles: self.cycles, facts }
    }

    /// Takes the accesses of the running instruction so far out of where the next may be counted.
    fn commit_recent(&mut self) {
        let recent = self.counting.recent().packed();
        let accesses = self.counting.recent().since(self.running.mark);
        if recent != self.running.mark {
            let committed = self.running.committed.get_or_insert_default();
            committed.loads += accesses.loads;
            committed.stores += accesses.stores;
            committed.misaligned += accesses.misaligned;
        }
        self.counting.complete();
        self.running.mark = 0;
    }

    /// What the instruction in `cell` has done, since the one before it.
    #[inline(always)]
    fn count(&mut self, cpu: &Cpu, cell: usize) {
        let recent = self.counting.recent().packed();
        let counted = &mut self.records.cells[cell];
        counted.add(recent.wrapping_sub(self.running.mark));
        self.running.mark = recent;
        if cpu.time != self.running.time {
            counted.cycles += cpu.time - self.running.time;
            self.running.time = cpu.time;
        }
        if let Some(committed) = self.running.committed.take() {
            counted.loads += committed.loads;
            counted.stores += committed.stores;
            counted.misaligned += committed.misaligned;
        }
    }

    /// What of it is in no cell.
    #[cold]
    fn count_irregular(&mut self, cell: usize) {
        let now = *self.counting.committed();
        let facts = irregular_part(now.since(&self.running.facts));
        self.running.facts = now;
        if facts != Facts::default() {
            self.records.other(cell).add(&facts);
        }
    }

    /// Brings up to date where the processor is.
    #[cold]
    fn move_to(&mut self, cpu: &Cpu, cr3: Option<u64>) {
        let space = self.spaces.number(cr3.map(|cr3| cr3 & !0xfff | cr3 & 0xfe0));
        let place = Where { cpl: cpu.cpl(), space, ..self.here.place };
        let next = self.places.len() as u32;
        let number = *self.places.entry(place).or_insert(next);
        self.here = Here { place, number, cr3 };
    }

    #[inline(always)]
    fn update_here(&mut self, cpu: &Cpu) {
        let cr3 = cpu.paging().then(|| cpu.cr3());
        let here = &self.here;
        if here.number == u32::MAX || here.place.cpl != cpu.cpl() || here.cr3 != cr3 {
            self.move_to(cpu, cr3);
        }
    }

    /// The context that the processor is in.
    #[inline(always)]
    fn context(&mut self, linear: u64) -> ContextId {
        if let Some(context) = self.running.context {
            return context;
        }
        let Where { vcpu, cpl, space } = self.here.place;
        let context = self.contexts.current(vcpu, linear, space, cpl);
        self.running.context = Some(context);
        context
    }

    /// The slot of a return address on the stack of privilege `cpl`.
    fn slot(&self, cpl: u8, address: u64) -> Slot {
        Slot { space: if cpl == 3 { self.here.place.space + 1 } else { 0 }, address }
    }

    /// Follows a transfer to another function that `insn`, which has retired, made.
    fn follow(&mut self, cpu: &Cpu, insn: &Insn) {
        let from_user = self.running.cpl == 3;
        let cpl = cpu.cpl();
        let sp = cpu.stack_linear();
        let site = self.running.linear.wrapping_add(u64::from(insn.start()));
        let next = self.running.linear.wrapping_add(u64::from(insn.end));
        let crosses = self.running.cpl != cpl;
        match insn.op {
            Operation::Call => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::Call, site, slot, Some(next), false);
            }
            Operation::CallFar => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::Call, site, slot, None, from_user && crosses);
            }
            Operation::Syscall | Operation::Sysenter => {
                self.call(cpu, Entered::SystemCall, site, None, None, from_user);
            }
            Operation::Int | Operation::Int3 | Operation::Into | Operation::Int1 => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::SystemCall, site, slot, None, from_user && crosses);
            }
            Operation::Ret => {
                let popped = insn.imm + insn.size.bytes() as u64;
                self.ret(cpu, Some(sp.wrapping_sub(popped)));
            }
            Operation::RetFar | Operation::Iret => self.ret(cpu, Some(self.running.sp)),
            Operation::Sysret | Operation::Sysexit => self.ret(cpu, None),
            _ => {}
        }
    }

    fn call(
        &mut self,
        cpu: &Cpu,
        entered: Entered,
        site: u64,
        slot: Option<Slot>,
        returns_to: Option<u64>,
        from_user: bool,
    ) {
        self.share_out(cpu.time);
        let context = self.context(site);
        self.update_here(cpu);
        let Where { vcpu, cpl, space } = self.here.place;
        let entry = cpu.linear_rip();
        let call = Call { entered, site, entry, space, cpl, slot, returns_to, from_user };
        self.contexts.call(vcpu, context, &call);
        self.running.context = None;
    }

    fn ret(&mut self, cpu: &Cpu, at: Option<u64>) {
        self.share_out(cpu.time);
        let slot = at.map(|at| self.slot(self.running.cpl, at));
        let to_user = self.running.cpl != 3 && cpu.cpl() == 3;
        self.update_here(cpu);
        let Where { vcpu, cpl, space } = self.here.place;
        let back = Return { to: cpu.linear_rip(), slot, to_user, space, cpl };
        self.contexts.ret(vcpu, &back);
        self.running.context = None;
    }

    /// Records what counters are programmed to count, from now on.
    fn add_programmed(&mut self, pmu: &Pmu) {
        for counter in 0..self.personality.counters {
            let Some(select) = pmu.select(counter).filter(|select| select.enabled) else {
                continue;
            };
            let Some(column) = columns::programmed(self.personality, counter, select) else {
                continue;
            };
            if self.columns.iter().any(|known| known.signals == column.signals) {
                continue;
            }
            let instructions = self.records.instructions();
            let cells = instructions.map(|counted| Sums::of_instruction(&counted).of(&column));
            let cells = cells.collect();
            let deliveries = self.deliveries.iter();
            let deliveries =
                deliveries.map(|(&at, delivered)| (at, Sums::of_delivery(delivered).of(&column)));
            self.before.push(Before { cells, deliveries: deliveries.collect() });
            let total = self.totals().of(&column);
            self.shared_out.push(total);
            self.columns.push(column);
        }
    }

    /// The counts of all columns, by instruction and place.
    fn counts(&mut self) -> BTreeMap<(Instruction, Where), Vec<u64>> {
        type Counts = BTreeMap<(Instruction, Where), Vec<u64>>;
        let mut all = Counts::new();
        let add = |all: &mut Counts, at: (Instruction, Where), counts: Vec<u64>| {
            if counts.iter().any(|&count| count != 0) {
                let sums = all.entry(at).or_insert_with(|| vec![0; counts.len()]);
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        };
        for (cell, counted) in self.records.instructions().enumerate() {
            let Counted { place, linear: address, bits, bytes, .. } = counted;
            let instruction =
                Instruction { space: place.space, address, bits, bytes: bytes.to_vec() };
            let sums = Sums::of_instruction(&counted);
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                sums.of(column) - before.cells.get(cell).copied().unwrap_or(0)
            };
            add(&mut all, (instruction, place), columns.map(count).collect());
        }
        for (&key, delivered) in &self.deliveries {
            let (place, address, bits) = key;
            let sums = Sums::of_delivery(delivered);
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                sums.of(column) - before.deliveries.get(&key).copied().unwrap_or(0)
            };
            let space = place.space;
            let counts: Vec<u64> = columns.map(count).collect();
            let bare = Instruction { space, address, bits, bytes: Vec::new() };
            let from = (bare.clone(), Where { vcpu: 0, cpl: 0, space: 0 });
            let next = all.range(from..).next().map(|((instruction, _), _)| instruction);
            let is_there = |known: &&Instruction| {
                (known.space, known.address, known.bits) == (space, address, bits)
            };
            let instruction = next.filter(is_there).cloned().unwrap_or(bare);
            add(&mut all, (instruction, place), counts);
        }
        all
    }

    /// What the run was.
    ///
    /// # Errors
    /// If there was more of it than there is room for.
    pub fn finish(mut self, vcpus: usize) -> Result<Truth> {
        if self.records.full {
            return Err(Error::Host(
                "--truth: the guest executed more than a million different blocks of code, for which \
                 there is no room"
                    .into(),
            ));
        }
        let mut instructions: Vec<Instruction> = Vec::new();
        let mut rows = Vec::new();
        for ((instruction, place), counts) in self.counts() {
            if instructions.last() != Some(&instruction) {
                instructions.push(instruction);
            }
            let instruction = (instructions.len() - 1) as u32;
            rows.push(Row { instruction, vcpu: place.vcpu, cpl: place.cpl, counts });
        }
        let spaces = self.spaces.all.iter().map(|&cr3| Space { cr3, name: None });
        Ok(Truth {
            personality: self.personality.name.to_owned(),
            vcpus: vcpus as u32,
            events: self.columns.iter().map(Column::event).collect(),
            spaces: spaces.collect(),
            instructions,
            rows,
            flattened: self.contexts.flattened,
            contexts: self.contexts.finish(self.columns.len()),
            modules: Vec::new(),
        })
    }
}

/// What was counted of an instruction at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    executions: u64,
    cycles: u64,
    facts: Facts,
}

impl Sums {
    fn of_instruction(counted: &Counted<'_>) -> Self {
        let Counted { executions, known, cell, other, .. } = *counted;
        let mut facts = other.copied().unwrap_or_default();
        let classes = known.class.0;
        for (n, count) in facts.class.iter_mut().enumerate() {
            *count += if classes >> n & 1 != 0 { executions } else { 0 };
        }
        facts.loads += cell.loads;
        facts.stores += cell.stores;
        facts.misaligned += cell.misaligned;
        facts.branches += cell.branches;
        facts.taken += cell.taken;
        facts.near_returns += if known.is_near_return { cell.branches } else { 0 };
        let cycles = executions * u64::from(known.cycles) + cell.cycles;
        Self { executions, cycles, facts }
    }

    fn of_delivery(delivered: &Delivered) -> Self {
        Self { executions: 0, cycles: delivered.cycles, facts: delivered.facts }
    }

    fn of(&self, column: &Column) -> u64 {
        column.sum(|signal| match signal {
            Signal::InsnRetired => self.executions,
            Signal::CyclesUnhalted => self.cycles,
            _ => fact(&mut self.facts.clone(), signal).map_or(0, |fact| *fact),
        })
    }
}

impl Observer for Box<Recorder> {
    const COUNTS: bool = true;
    const FOLLOWS: bool = true;

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        Some(&mut self.counting)
    }

    /// A copy for whoever takes out what was counted.
    fn facts(&mut self) -> Option<&mut Facts> {
        self.commit_recent();
        let now = *self.counting.complete();
        self.lent.add(&now.since(&self.seen_by_lender));
        self.seen_by_lender = now;
        Some(&mut self.lent)
    }

    fn commit(&mut self) {
        self.commit_recent();
    }

    #[inline(always)]
    fn block_finished(&mut self) {
        self.counting.block_finished();
        self.running.mark = self.counting.recent().packed();
    }

    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.counting.inner_stores(stores, misaligned);
        let inner = &mut self.inner[self.here.place.vcpu as usize];
        inner.stores += stores;
        inner.misaligned += misaligned;
    }

    #[inline]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &Block<Self>) {
        self.pass(cpu.time);
        self.update_here(cpu);
        let linear = cpu.linear_rip();
        self.context(linear);
        let Here { place, number, .. } = self.here;
        let record = self.records.find(cpu, ram, block, number, place);
        let (first, irregular) = self.records.begin(record);
        let running = &mut self.running;
        running.record = record;
        running.first = first;
        running.irregular = irregular;
        running.linear = linear;
        running.cpl = place.cpl;
        running.sp = cpu.stack_linear();
        let inner = &mut self.inner[place.vcpu as usize];
        if *inner != Accesses::default() {
            let inner = std::mem::take(inner);
            let cell = &mut self.records.cells[first];
            cell.stores += inner.stores;
            cell.misaligned += inner.misaligned;
            self.entered_with.stores += inner.stores;
            self.entered_with.misaligned += inner.misaligned;
        }
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, _: &Ram, insn: &Insn) {
        let cell = self.running.first + usize::from(insn.index);
        self.count(cpu, cell);
        if self.running.irregular >> insn.index & 1 != 0 {
            self.count_irregular(cell);
        }
        self.running.last_cell = Some(cell);
    }

    fn interrupted(&mut self, cpu: &Cpu, insn: &Insn) {
        let cell = self.running.first + usize::from(insn.index);
        self.count(cpu, cell);
        self.count_irregular(cell);
    }

    #[inline]
    fn finished(&mut self, cpu: &Cpu, block: &Block<Self>, count: usize) {
        self.instructions += count as u64;
        self.running.time = cpu.time;
        let Running { first, record, .. } = self.running;
        if count == block.len() {
            self.records.records[record as usize].runs += 1;
        } else {
            self.records.cells[first..first + count].iter_mut().for_each(|c| c.executions += 1);
        }
        let facts = self.counting.committed();
        if facts.branches != self.running.branches {
            let cell = &mut self.records.cells[first + count - 1];
            cell.branches += facts.branches - self.running.branches;
            cell.taken += facts.taken - self.running.taken;
            self.running.branches = facts.branches;
            self.running.taken = facts.taken;
            if let Some(insn) = block.instruction(count - 1) {
                self.follow(cpu, insn);
            }
        }
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.pass(cpu.time);
        self.commit_recent();
        self.running.committed = None;
        self.update_here(cpu);
        self.running.linear = cpu.linear_rip();
        self.running.cpl = cpu.cpl();
        self.running.bits = cpu.code_size().bits();
        self.running.facts = *self.counting.complete();
    }

    fn delivered(&mut self, cpu: &Cpu, delivery: Delivery) {
        self.commit_recent();
        self.running.committed = None;
        let now = *self.counting.complete();
        let mut facts = now.since(&self.running.facts);
        self.running.facts = now;
        facts.inner = Accesses::default();
        let cycles = cpu.time - self.running.time;
        self.running.time = cpu.time;
        let Running { linear: site, bits, cpl, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, site, bits)).or_default();
        delivered.facts.add(&facts);
        delivered.cycles += cycles;
        let Delivery { vector, interrupt, code_bytes } = delivery;
        let entered =
            if interrupt { Entered::Interrupt(vector) } else { Entered::Exception(vector) };
        let from_user = cpl == 3 && cpu.cpl() != 3;
        let at = cpu.stack_linear().wrapping_add(u64::from(code_bytes));
        let slot = Some(self.slot(cpu.cpl(), at));
        self.call(cpu, entered, site, slot, None, from_user);
    }
}
