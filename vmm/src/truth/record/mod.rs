//! The recorder: an observer that counts by instruction address.

mod calls;
mod cells;
mod columns;
mod contexts;
#[cfg(test)]
mod generated_tests;
mod modelled;
mod observer;
mod quiet;
mod records;
mod rows;
mod shares;
mod stacks;
mod totals;
mod waits;

use std::collections::{BTreeMap, HashMap};

use pmu_model::{Personality, Pmu, Signal};
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::{Insn, seg};
use x86_cpu::mode::CodeSize;
use x86_cpu::observe::{Accesses, Facts};

use self::columns::Column;
use self::contexts::Contexts;
use self::modelled::Modelled;
pub(crate) use self::records::Blocks;
use self::records::{Found, Known, Records, Where};
use self::rows::Sums;
use self::totals::Totals;
use self::waits::Last;
use crate::error::Result;

pub use self::columns::DEFAULT as DEFAULT_EVENTS;

/// Records what every instruction does, on all processors of a machine.
///
/// It counts the facts for the performance counters as [`x86_cpu::observe::Counting`] does; what those take is
/// a copy.
pub struct Recorder {
    personality: &'static Personality,
    columns: Vec<Column>,
    /// How many of them were asked for.
    asked: usize,
    /// What there was when each column was added: of those that were asked for, nothing.
    before: Vec<Before>,
    totals: Totals,
    /// What of the facts was lent to whoever counts for the performance counters,
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
    /// Cycles that models have told of the running instruction or delivery, and that have not passed yet.
    pub(crate) told: u64,
    /// What each processor has executed last, as of the end of its last run.
    last: Vec<Option<Last>>,
    /// What the last transfer to an inner level pushed on each processor, for the first instruction
    /// there.
    inner: Vec<Accesses>,
}

/// Where the processor is, as long as that stays the same.
#[derive(Clone, Copy)]
struct Here {
    place: Where,
    number: u32,
    cr3: Option<u64>,
    /// [`Slot::space`](stacks::Slot::space) of what is on the stack.
    stack: u32,
    /// Linear addresses of code.
    code: CodeAddresses,
}

/// How the linear address of an instruction follows from RIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CodeAddresses {
    base: u64,
    mask: u64,
}

impl CodeAddresses {
    /// Those of the processor, as [`Cpu::linear_rip`] has them, until a far transfer or a change of mode.
    fn of(cpu: &Cpu) -> Self {
        match cpu.code_size() {
            CodeSize::Bits64 => Self { base: 0, mask: u64::MAX },
            _ => Self { base: cpu.segment(seg::CS).base, mask: 0xffff_ffff },
        }
    }

    #[inline(always)]
    fn linear(self, rip: u64) -> u64 {
        self.base.wrapping_add(rip) & self.mask
    }
}

/// The number of no place.
const NO_PLACE: u32 = u32::MAX;

/// What is being executed.
#[derive(Default)]
struct Running {
    /// The block's record.
    found: Found,
    /// See [`Known::is_quiet`].
    is_quiet: bool,
    /// See [`Known::usual`].
    usual: u64,
    /// The recent accesses up to the last instruction, packed, plus [`Self::time`]. None of both
    /// ever becomes less without this being told, so that one comparison shows whether an instruction had
    /// accesses or took time.
    seen: u64,
    /// Accesses of the running instruction that were committed since. If there are any, that counts as
    /// something rare.
    committed: Accesses,
    /// Facts up to the last instruction that did something rare, or the last delivery.
    facts: Facts,
    /// The time that it is told up to what took it, the cycles that whole blocks take included.
    time: u64,
    /// Linear address of the block, or of what a delivery interrupts, and its code size.
    linear: u64,
    bits: u8,
    /// Linear address of the top of the stack before a far return.
    sp: u64,
    /// If [`Self::found`] is none, 1 + the cell of the last instruction that retired, on this processor and in
    /// this run; else 0.
    last: usize,
    /// The number of the place that the processor is at, if that and its context are known: it made nothing
    /// but near transfers since they were. Else [`NO_PLACE`].
    place: u32,
    /// The last instruction that retired was a far transfer.
    went_far: bool,
    /// What was interrupted last, if no block has begun since, in this run.
    delivered: Option<(Where, u64, u8)>,
}

impl Running {
    /// The cell of an instruction of the running block.
    #[inline(always)]
    fn cell(&self, insn: &Insn) -> usize {
        self.found.first as usize + usize::from(insn.index)
    }

    /// The running block is this one.
    #[inline(always)]
    fn enter(&mut self, cpu: &Cpu, known: &Known, linear: u64) {
        self.found = known.found;
        self.linear = linear;
        self.is_quiet = known.is_quiet;
        self.usual = known.usual;
        if known.is_far_return {
            self.sp = cpu.stack_linear();
        }
    }

    /// All accesses that are recent now, packed, and all time, have been counted. If anything rare happened, that
    /// is yet to be seen.
    #[inline(always)]
    fn see(&mut self, accesses: u64, time: u64) {
        self.seen = accesses.wrapping_add(time);
        self.time = time;
    }

    /// The last instruction that retired is the one before this cell, and no block is running.
    fn retired_up_to(&mut self, cell: usize) {
        self.found = Found::NONE;
        self.last = cell;
    }

    /// Nothing is known to have retired last, and no block is running.
    fn retired_nothing(&mut self) {
        self.retired_up_to(0);
    }

    /// Time passes that is told of.
    fn pass(&mut self, time: u64) -> u64 {
        let cycles = time.saturating_sub(self.time);
        self.seen = self.seen.wrapping_add(time.wrapping_sub(self.time));
        self.time = time;
        cycles
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
            columns,
            totals: Totals::default(),
            lent: Facts::default(),
            seen_by_lender: Facts::default(),
            records: Records::default(),
            contexts: Contexts::default(),
            spaces: Spaces::default(),
            deliveries: BTreeMap::new(),
            places: HashMap::new(),
            here: Here {
                place: Where { vcpu: 0, cpl: 0, space: 0 },
                number: NO_PLACE,
                cr3: None,
                stack: 0,
                code: CodeAddresses { base: 0, mask: 0 },
            },
            running: Running { place: NO_PLACE, ..Running::default() },
            told: 0,
            last: Vec::new(),
            inner: Vec::new(),
        };
        for column in recorder.columns.clone() {
            recorder.totals.add_signals(&column);
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
        self.seen_by_lender = *self.totals.complete();
        self.contexts.run(vcpu);
        if self.inner.len() <= vcpu {
            self.inner.resize(vcpu + 1, Accesses::default());
        }
        self.here.place.vcpu = vcpu as u32;
        self.here.number = NO_PLACE;
        self.running.retired_nothing();
        self.running.delivered = None;
        self.running.place = NO_PLACE;
        self.running.see(self.totals.counting.recent().without_rare(), cpu.time);
        self.totals.begin(cpu);
    }

    /// It stops. What its counters are programmed to count is recorded from now on.
    pub(crate) fn end(&mut self, cpu: &Cpu, pmu: &Pmu, programmed: bool) {
        self.pass(cpu.time);
        self.share_out(cpu.time, cpu.retired());
        self.note_last();
        if programmed {
            self.add_programmed(pmu);
        }
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
        let Running { found, last, .. } = self.running;
        match self.records.end(found).unwrap_or(last) {
            0 => {
                self.running.pass(time);
            }
            end => self.pass_in(end - 1, time),
        }
    }

    /// Time passed that the instruction in `cell` took beyond what its block tells.
    #[cold]
    #[inline(never)]
    fn pass_in(&mut self, cell: usize, time: u64) {
        self.records.cells.rest(cell).cycles += self.running.pass(time);
    }

    /// Adds to the running context what was executed in it, up to a time and a number of retired
    /// instructions.
    fn share_out(&mut self, time: u64, instructions: u64) {
        match self.contexts.share() {
            Some(share) => {
                // Far transfers may not have been noticed yet.
                self.totals.has_rest = true;
                if self.totals.give(share, time, instructions) {
                    share.make_room();
                }
            }
            // It did not come to a block.
            None => self.totals.pass(time),
        }
    }

    /// Takes the accesses of the running instruction so far out of where the next may be counted.
    fn commit_recent(&mut self) {
        let Running { seen, time, .. } = self.running;
        let accesses = self.totals.counting.recent().since(seen.wrapping_sub(time));
        self.totals.complete();
        let committed = &mut self.running.committed;
        committed.loads += accesses.loads;
        committed.stores += accesses.stores;
        committed.misaligned += accesses.misaligned;
        let has_more = *committed != Accesses::default();
        self.running.see(self.totals.counting.recent().without_rare(), time);
        if has_more {
            self.totals.counting.note_rare();
        }
    }

    /// The accesses of the running instruction that were committed are not its own.
    fn forget_committed(&mut self) {
        self.running.committed = Accesses::default();
        self.running.see(self.totals.counting.recent().without_rare(), self.running.time);
    }

    /// Brings up to date where the processor is.
    #[cold]
    fn move_to(&mut self, cpu: &Cpu, cr3: Option<u64>) {
        let space = self.spaces.number(cr3.map(|cr3| cr3 & !0xfff | cr3 & 0xfe0));
        let place = Where { cpl: cpu.cpl(), space, ..self.here.place };
        let next = self.places.len() as u32;
        let number = *self.places.entry(place).or_insert(next);
        let (stack, code) = (place.stack(place.cpl), CodeAddresses::of(cpu));
        self.here = Here { place, number, cr3, stack, code };
    }

    fn update_here(&mut self, cpu: &Cpu) {
        if !self.is_here(cpu) {
            self.move_to(cpu, cpu.paging().then(|| cpu.cr3()));
        }
    }

    fn is_here(&self, cpu: &Cpu) -> bool {
        let Here { place, number, cr3, code, .. } = &self.here;
        *number != NO_PLACE
            && place.cpl == cpu.cpl()
            && *cr3 == cpu.paging().then(|| cpu.cr3())
            && *code == CodeAddresses::of(cpu)
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
            self.totals.add_signals(&column);
            let shares = self.contexts.shares();
            let contexts = shares.map(|share| self.totals.shares.of(&column, share)).collect();
            self.before.push(Before { cells, deliveries, contexts });
            self.columns.push(column);
        }
    }
}
