//! The recorder: an observer that counts by instruction address.

mod calls;
mod cells;
mod columns;
mod contexts;
mod modelled;
mod observer;
mod records;
mod rows;
mod shares;

use std::collections::{BTreeMap, HashMap};

use pmu_model::{Personality, Pmu, Signal};
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{Accesses, Counting, Facts};

use self::columns::Column;
use self::contexts::{ContextId, Contexts};
use self::modelled::Modelled;
pub(crate) use self::records::Blocks;
use self::records::{Records, Where};
use self::rows::Sums;
use self::shares::{Executed, Rest, Shares};
use crate::engine::soft::fact;
use crate::error::Result;

pub use self::columns::DEFAULT as DEFAULT_EVENTS;

/// Records what every instruction does, on all processors of a machine.
///
/// It counts the facts for the performance counters as [`Counting`] does; what those take is a copy.
pub struct Recorder {
    personality: &'static Personality,
    columns: Vec<Column>,
    /// How many of them were asked for.
    asked: usize,
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
    /// What models told, in all.
    modelled: Modelled,
    /// Numbers of the places that code was executed at.
    places: HashMap<Where, u32>,
    here: Here,
    running: Running,
    /// Instructions that were executed since a context was last given what was,
    instructions: u64,
    /// the sums up to then,
    given: Given,
    /// and what else it is to be given.
    rest: Rest,
    /// Cycles that models have told of the running instruction or delivery, and that have not passed yet.
    pub(crate) told: u64,
    shares: Shares,
    /// There is such a rest, or one of the other signals may have been fired since.
    rare: bool,
    /// What the last transfer to an inner level pushed on each processor, for the first instruction
    /// there.
    inner: Vec<Accesses>,
}

/// What contexts have been given: totals of branches, of those taken, and the accesses of
/// [`Counting::recent`], packed.
#[derive(Default)]
struct Given {
    branches: u64,
    taken: u64,
    accesses: u64,
}

/// In [`Running::mark`]: the running instruction has accesses in [`Running::committed`]. No mark of
/// [`Counting`] has this bit, so that a look at the mark shows these as well as recent accesses.
const COMMITTED: u64 = 1 << 63;

/// Where the processor is, as long as that stays the same.
#[derive(Clone, Copy)]
struct Here {
    place: Where,
    number: u32,
    cr3: Option<u64>,
    /// [`Slot::space`](contexts::Slot::space) of what is on the stack.
    stack: u32,
}

/// What is being executed.
#[derive(Default)]
struct Running {
    /// The block's record and its first cell.
    record: u32,
    first: usize,
    /// Accesses up to the last instruction, as a mark has them; [`COMMITTED`] goes with it.
    mark: u64,
    /// Accesses of the running instruction that were committed since.
    committed: Accesses,
    /// Facts up to the last instruction that did something rare, or the last delivery.
    facts: Facts,
    branches: u64,
    taken: u64,
    /// The time that it is told up to what took it, the cycles that whole blocks take included.
    time: u64,
    /// The time up to which cycles were added to the sum of all.
    counted_time: u64,
    /// Linear address of the block, or of what a delivery interrupts, and its code size.
    linear: u64,
    bits: u8,
    /// Linear address of the top of the stack before a far return.
    sp: u64,
    /// 1 + the cell of the last instruction that retired, on this processor and in this run; else 0.
    last: usize,
    /// The last block ended with a near transfer, so that the next is in the same place and context.
    is_near: bool,
    /// The processor's context, if it is known.
    context: Option<ContextId>,
}

impl Running {
    /// The cell of an instruction of the running block.
    #[inline(always)]
    fn cell(&self, insn: &Insn) -> usize {
        self.first + usize::from(insn.index)
    }
}

/// What had been counted before a column was there, by cell and by interrupted instruction.
#[derive(Default)]
struct Before {
    /// By cell; those where nothing had been counted, which are most, are left out.
    cells: Vec<(u32, u64)>,
    deliveries: BTreeMap<(Where, u64, u8), u64>,
    /// By context.
    contexts: Vec<u64>,
}

impl Before {
    fn of_cell(&self, cell: usize) -> u64 {
        let found = self.cells.binary_search_by_key(&cell, |&(at, _)| at as usize);
        found.map_or(0, |at| self.cells[at].1)
    }
}

/// What deliveries did at one address.
#[derive(Default)]
struct Delivered {
    facts: Facts,
    cycles: u64,
    modelled: Modelled,
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

impl Recorder {
    /// A recorder of the named events (see `vpmu run --truth-events`), and of what the guest programs.
    ///
    /// # Errors
    /// A name that means no event that can be recorded.
    pub fn new(personality: &'static Personality, events: &str) -> Result<Self> {
        let columns = columns::parse(events, personality)?;
        let mut recorder = Self {
            personality,
            asked: columns.len(),
            before: columns.iter().map(|_| Before::default()).collect(),
            shares: Shares::default(),
            rare: false,
            columns,
            counting: Counting::default(),
            lent: Facts::default(),
            seen_by_lender: Facts::default(),
            records: Records::default(),
            contexts: Contexts::default(),
            spaces: Spaces::default(),
            deliveries: BTreeMap::new(),
            modelled: Modelled::default(),
            places: HashMap::new(),
            here: Here {
                place: Where { vcpu: 0, cpl: 0, space: 0 },
                number: u32::MAX,
                cr3: None,
                stack: 0,
            },
            running: Running::default(),
            instructions: 0,
            given: Given::default(),
            rest: Rest::default(),
            told: 0,
            inner: Vec::new(),
        };
        for column in recorder.columns.clone() {
            recorder.add_signals(&column);
        }
        Ok(recorder)
    }

    /// The signals of the columns that were asked for. What the guest has programmed is recorded as the
    /// guest sees it, and asks for nothing more.
    pub(crate) fn asked_for(&self) -> impl Iterator<Item = Signal> {
        self.columns[..self.asked].iter().flat_map(|column| column.signals.iter().copied())
    }

    /// The signals of all columns.
    pub(crate) fn signals(&self) -> impl Iterator<Item = Signal> {
        self.columns.iter().flat_map(|column| column.signals.iter().copied())
    }

    /// Processor `vcpu` goes on, in these blocks.
    pub(crate) fn begin(&mut self, vcpu: usize, cpu: &Cpu, blocks: Blocks) {
        self.records.use_blocks(blocks);
        self.lent = Facts::default();
        self.seen_by_lender = *self.complete();
        self.contexts.prepare(vcpu);
        if self.inner.len() <= vcpu {
            self.inner.resize(vcpu + 1, Accesses::default());
        }
        self.here.place.vcpu = vcpu as u32;
        self.here.number = u32::MAX;
        self.running.context = None;
        self.running.last = 0;
        self.running.is_near = false;
        self.running.mark = 0;
        self.running.time = cpu.time;
        self.running.counted_time = cpu.time;
    }

    /// It stops. What its counters are programmed to count is recorded from now on.
    pub(crate) fn end(&mut self, cpu: &Cpu, pmu: &Pmu, programmed: bool) {
        self.pass(cpu.time);
        self.share_out(cpu.time, 0);
        if programmed {
            self.add_programmed(pmu);
        }
    }

    /// The time at the end of what has just been executed.
    #[inline(always)]
    fn time(&self, cpu: &Cpu) -> u64 {
        cpu.time + self.told
    }

    /// Time passed beyond what instructions and deliveries took: what the last instruction waited for.
    #[inline(always)]
    fn pass(&mut self, time: u64) {
        if time != self.running.time {
            self.pass_last(time);
        }
    }

    #[inline(never)]
    fn pass_last(&mut self, time: u64) {
        match self.running.last {
            0 => self.running.time = time,
            last => self.pass_in(last - 1, time),
        }
    }

    /// Time passed that the instruction in `cell` took beyond what its block tells.
    #[inline(never)]
    fn pass_in(&mut self, cell: usize, time: u64) {
        self.records.cells.rest(cell).cycles += time.saturating_sub(self.running.time);
        self.running.time = time;
    }

    /// Adds to the running context what was executed in it, with so many near returns: each of those
    /// ends a context.
    #[inline(always)]
    fn share_out(&mut self, time: u64, near_returns: u64) {
        let cycles = time.saturating_sub(self.running.counted_time);
        self.running.counted_time = time;
        let Some(context) = self.running.context else {
            self.rest.cycles += cycles;
            self.rare = true;
            return;
        };
        let facts = self.counting.committed();
        let (branches, taken) = (facts.branches, facts.taken);
        let accesses = self.counting.recent().packed();
        let executed = Executed {
            instructions: std::mem::take(&mut self.instructions),
            cycles,
            branches: branches - self.given.branches,
            taken: taken - self.given.taken,
            near_returns,
            accesses: accesses - self.given.accesses,
        };
        self.given = Given { branches, taken, accesses };
        self.contexts.share(context).add(&executed);
        if self.rare {
            self.share_out_rest(context);
        }
    }

    #[cold]
    #[inline(never)]
    fn share_out_rest(&mut self, context: ContextId) {
        let mut facts = *self.counting.committed();
        let modelled = &self.modelled;
        let total = |signal| other_total(&mut facts, modelled, signal);
        let share = self.contexts.share(context);
        share.add_rest(&std::mem::take(&mut self.rest));
        self.shares.give_others(share, total);
        self.rare = false;
    }

    /// All facts so far, those of recent accesses as well. What of these no context has been given, the
    /// next is.
    #[cold]
    #[inline(never)]
    fn complete(&mut self) -> &Facts {
        self.rest.add(self.counting.recent().since(self.given.accesses));
        self.rare = true;
        self.given.accesses = 0;
        self.counting.complete()
    }

    /// Contexts get to know of the signals of a column from now on.
    fn add_signals(&mut self, column: &Column) {
        let mut facts = *self.counting.committed();
        for &signal in &column.signals {
            self.shares.add(signal, || other_total(&mut facts, &self.modelled, signal));
        }
    }

    /// Takes the accesses of the running instruction so far out of where the next may be counted.
    fn commit_recent(&mut self) {
        let accesses = self.counting.recent().since(self.running.mark & !COMMITTED);
        self.complete();
        self.running.mark &= COMMITTED;
        if accesses != Accesses::default() {
            let committed = &mut self.running.committed;
            committed.loads += accesses.loads;
            committed.stores += accesses.stores;
            committed.misaligned += accesses.misaligned;
            self.running.mark |= COMMITTED;
        }
    }

    /// The accesses of the running instruction that were committed are not its own.
    fn forget_committed(&mut self) {
        self.running.committed = Accesses::default();
        self.running.mark &= !COMMITTED;
    }

    /// Brings up to date where the processor is.
    #[cold]
    fn move_to(&mut self, cpu: &Cpu, cr3: Option<u64>) {
        let space = self.spaces.number(cr3.map(|cr3| cr3 & !0xfff | cr3 & 0xfe0));
        let place = Where { cpl: cpu.cpl(), space, ..self.here.place };
        let next = self.places.len() as u32;
        let number = *self.places.entry(place).or_insert(next);
        self.here = Here { place, number, cr3, stack: place.stack(place.cpl) };
    }

    #[inline(always)]
    fn update_here(&mut self, cpu: &Cpu) {
        if !self.is_here(cpu) {
            self.move_to(cpu, cpu.paging().then(|| cpu.cr3()));
        }
    }

    #[inline(always)]
    fn is_here(&self, cpu: &Cpu) -> bool {
        let Here { place, number, cr3, .. } = &self.here;
        *number != u32::MAX && place.cpl == cpu.cpl() && *cr3 == cpu.paging().then(|| cpu.cr3())
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
            let cells = (0..).zip(cells).filter(|&(_, count)| count != 0).collect();
            let deliveries = self.deliveries.iter();
            let deliveries =
                deliveries.map(|(&at, delivered)| (at, Sums::of_delivery(delivered).of(&column)));
            let deliveries = deliveries.collect();
            self.add_signals(&column);
            let shares = self.contexts.shares();
            let contexts = shares.map(|share| self.shares.of(&column, share)).collect();
            self.before.push(Before { cells, deliveries, contexts });
            self.columns.push(column);
        }
    }
}

/// What there was so far of a signal that is none of the common ones.
fn other_total(facts: &mut Facts, modelled: &Modelled, signal: Signal) -> u64 {
    fact(facts, signal).map_or_else(|| modelled.of(signal), |fact| *fact)
}
