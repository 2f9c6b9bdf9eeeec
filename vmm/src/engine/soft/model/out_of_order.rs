//! The out-of-order pipelines: what they are told of the instructions that retire.
//!
//! [`Descriptions`] has what a pipeline knows of instructions before they execute, one for all processors;
//! [`OutOfOrder`] collects what happens to one while it executes, and tells the pipeline of its processor when
//! it has retired.
//!
//! The clock of the pipeline is that of retirement. Caches and bus are asked by the cycle of the last
//! dispatch, so that misses of instructions that wait for nothing of each other overlap there as well.

mod description;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use uarch::branch::{Outcome, Resolution};
use uarch::cache::Kind;
use uarch::occurrences::Occurrences;
use uarch::pipeline::out_of_order::{
    Core, Execution, Instruction, Misprediction, Pipeline, RecentStores,
};
use uarch::state::{State, Visitor, list};
use uarch::system::{AccessCycles, DataAccess, Operation};
use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::effects::Mode;
use x86_cpu::insn::Insn;
use x86_cpu::observe::FloatCases;

use self::description::Preparation;
pub(in crate::engine::soft::model) use self::description::Prepared;
use super::by_block::{ByBlock, Cache};

/// Iterations of a repeated instruction that the pipeline is told together, so that time goes on while
/// it runs.
const ITERATIONS_AT_ONCE: u64 = 64;
/// Accesses that may be loaded: an iteration has a few.
const MOST_WAITING: usize = 1 << 10;
/// What an access that is to be loaded goes into.
const NOTHING: DataAccess = DataAccess {
    linear: 0,
    physical: 0,
    second_page: None,
    bytes: 1,
    elements: 1,
    operation: Operation::Load,
    kind: Kind::Plain,
};

/// What the pipelines of a machine know of instructions before they execute.
pub(super) struct Descriptions {
    core: &'static Core,
    /// Made when the first block is executed: many runs have none that a pipeline sees.
    preparation: OnceCell<Preparation>,
    blocks: ByBlock<Prepared>,
}

impl Descriptions {
    /// Those of a part.
    pub(super) fn new(core: &'static Core) -> Self {
        Self { core, preparation: OnceCell::new(), blocks: ByBlock::new() }
    }

    /// Blocks come from this cache of translations.
    pub(super) fn choose(&mut self, cache: Cache) {
        self.blocks.choose(cache);
    }

    /// A block is entered.
    #[inline(always)]
    pub(super) fn entered(&mut self, cpu: &Cpu, block: &impl Code) {
        let Self { core, preparation, blocks } = self;
        blocks.entered(block, || {
            let preparation = preparation.get_or_init(|| Preparation::new(core));
            preparation.block(block, Mode::of(cpu))
        });
    }

    /// An instruction of the running block.
    #[inline(always)]
    pub(super) fn instruction(&self, insn: &Insn) -> Option<&Prepared> {
        self.blocks.instruction(insn)
    }
}

/// The out-of-order pipeline of a processor.
pub(super) struct OutOfOrder {
    pipeline: Pipeline,
    stores: RecentStores,
    /// Cycles that a misaligned access takes more.
    misaligned: u64,
    /// See [`Core`].
    assists_special: bool,
    /// What a delivery is.
    delivery: Instruction,
    running: Running,
    /// Accesses of a repeated instruction that wait until it is known how many iterations they are of.
    waiting: Vec<DataAccess>,
    /// A repeated instruction that has iterations of which the pipeline is not told yet, and their elements.
    stopped: Option<(Prepared, u64)>,
    /// Where it was last told of execution: instructions retired by then, and linear address of the next.
    suspended: (u64, u64),
}

/// What is known of the running instruction, or delivery, and has happened to it.
#[derive(Default)]
struct Running {
    execution: Execution,
    /// It is an instruction.
    begun: bool,
    /// It has loaded.
    loaded: bool,
    /// See [`Prepared`].
    high_byte: bool,
    elements_of_iteration: u8,
    /// Elements that it has accessed.
    elements: u64,
    /// Cycles that the accesses of iterations took of which the pipeline is not told yet.
    taken: u64,
}

impl OutOfOrder {
    /// An empty pipeline.
    pub(super) fn new(core: &'static Core) -> Self {
        Self {
            pipeline: Pipeline::new(core),
            stores: RecentStores::new(core.forwarding),
            misaligned: core.misaligned.into(),
            assists_special: core.assists_special,
            delivery: description::delivery(core),
            running: Running::default(),
            waiting: Vec::new(),
            stopped: None,
            suspended: (0, 0),
        }
    }

    /// What follows is told of. If anything was executed since it was suspended, nothing is left in it.
    pub(super) fn resume(&mut self, cpu: &Cpu) {
        if self.suspended != (cpu.retired(), cpu.linear_rip()) {
            self.empty();
        }
    }

    /// What follows may not be told of.
    pub(super) fn suspend(&mut self, cpu: &Cpu) {
        self.suspended = (cpu.retired(), cpu.linear_rip());
    }

    /// Nothing is left in it.
    fn empty(&mut self) {
        self.pipeline.idle_until(self.pipeline.now());
        self.clear();
    }

    fn clear(&mut self) {
        self.running = Running::default();
        self.waiting.clear();
        self.stopped = None;
    }

    /// The clock by which the running instruction asks caches and bus for something. An iteration asks when
    /// those before it have got what they asked for.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        self.pipeline.dispatched() + self.running.taken
    }

    /// The cycle of the last retirement.
    #[inline(always)]
    pub(super) fn clock(&self) -> u64 {
        self.pipeline.now()
    }

    /// Nothing is executed until a cycle, if that is to come.
    pub(super) fn idle_until(&mut self, cycle: u64) {
        if cycle > self.clock() {
            self.pipeline.idle_until(cycle);
            self.clear();
        }
    }

    /// An instruction begins, at a linear address.
    #[inline(always)]
    pub(super) fn begins(&mut self, prepared: &Prepared, address: u64) {
        let Prepared { high_byte, elements_of_iteration, .. } = *prepared;
        let Running { begun, ref execution, .. } = self.running;
        let again = begun && execution.address == address;
        if again && elements_of_iteration != 0 {
            // It stopped between two iterations, and goes on.
            return;
        }
        // One that stops and begins again, to be executed alone, has been fetched.
        let fetch_delay = if again { execution.fetch_delay } else { 0 };
        self.stopped = None;
        self.running =
            Running { begun: true, high_byte, elements_of_iteration, ..Running::default() };
        self.running.execution.address = address;
        self.running.execution.fetch_delay = fetch_delay;
        if elements_of_iteration == 0 {
            self.stores.begin(prepared.instruction.stores(0));
        } else {
            self.waiting.clear();
        }
    }

    /// Its fetch took so many cycles more than hits.
    pub(super) fn fetched(&mut self, cycles: u64) {
        self.running.execution.fetch_delay += narrow(cycles);
    }

    /// It, or a delivery, accessed memory.
    #[inline(always)]
    pub(super) fn accessed(&mut self, cpu: &Cpu, access: &DataAccess, cycles: AccessCycles) {
        let DataAccess { linear, bytes, operation, .. } = *access;
        let (loads, stores) = match operation {
            Operation::Load => (true, false),
            Operation::Store => (false, true),
            Operation::Modify => (true, true),
            Operation::Prefetch(_) | Operation::Flush | Operation::Evict { .. } => return,
        };
        let AccessCycles { mut walk, read, write } = cycles;
        if cpu.alignment.is_misaligned(linear, bytes.min(8).into()) {
            walk += self.misaligned;
        }
        let execution = &mut self.running.execution;
        // What holds up a store holds up nothing behind it, before the stores' places are all taken.
        let (load, store) = if loads { (walk + read, write) } else { (0, walk + write) };
        execution.load_delay += narrow(load);
        execution.store_delay += narrow(store);
        if self.running.elements_of_iteration != 0 {
            self.running.elements += u64::from(access.elements);
            self.running.taken += load + store;
            self.waiting.push(*access);
            return;
        }
        self.compare(access, loads, stores);
    }

    /// Compares an access with the stores before it.
    #[inline(always)]
    fn compare(&mut self, access: &DataAccess, loads: bool, stores: bool) {
        let Running { execution, loaded, high_byte, .. } = &mut self.running;
        let bytes = access.bytes;
        for n in 0..u64::from(access.elements) {
            let address = access.linear.wrapping_add(n * u64::from(bytes));
            if loads {
                if !*loaded {
                    execution.load_address = address;
                    *loaded = true;
                }
                let found = self.stores.load(address, bytes);
                execution.forwarding = execution.forwarding.later(found);
            }
            if stores {
                self.stores.store(address, bytes, *high_byte);
            }
        }
    }

    /// It transferred control.
    pub(super) fn branched(&mut self, taken: bool, prediction: Outcome) {
        let execution = &mut self.running.execution;
        execution.taken = taken;
        execution.misprediction = match prediction.resolution {
            Resolution::Predicted | Resolution::NotPredicted => Misprediction::None,
            Resolution::RedirectedAtDecode => Misprediction::Decoder,
            Resolution::Mispredicted => Misprediction::Execution,
        };
    }

    /// The floating-point unit left something to microcode, behind which all is started again.
    pub(super) fn assisted(&mut self, cases: FloatCases) {
        let denormal = FloatCases::DENORMAL_OPERAND | FloatCases::TINY_RESULT;
        if self.assists_special || cases.has_any(denormal) {
            self.running.execution.float_exception = true;
        }
    }

    /// Iterations of it are finished, and more may follow.
    pub(super) fn iterated(&mut self, prepared: &Prepared, occurrences: &mut Occurrences) {
        if self.iterations() >= ITERATIONS_AT_ONCE {
            self.execute(prepared, occurrences);
            let Running { execution, elements, taken, .. } = &mut self.running;
            let address = execution.address;
            *execution = Execution { address, continued: true, ..Execution::default() };
            (*elements, *taken) = (0, 0);
            self.waiting.clear();
        }
        let elements = self.running.elements;
        self.stopped = (elements != 0).then_some((*prepared, elements));
    }

    fn iterations(&self) -> u64 {
        let Running { elements, elements_of_iteration, .. } = self.running;
        elements / u64::from(elements_of_iteration.max(1))
    }

    /// It retired. What was fetched behind it is dropped if it is to `restart`.
    #[inline(always)]
    pub(super) fn retired(
        &mut self,
        prepared: &Prepared,
        restart: bool,
        occurrences: &mut Occurrences,
    ) {
        let execution = &mut self.running.execution;
        execution.resync = restart || execution.float_exception;
        self.execute(prepared, occurrences);
        self.running.begun = false;
        // What its iterations waited for holds up nothing that is asked for before the next instruction begins.
        self.running.taken = 0;
        self.stopped = None;
    }

    #[inline(always)]
    fn execute(&mut self, prepared: &Prepared, occurrences: &mut Occurrences) {
        if prepared.elements_of_iteration != 0 {
            self.take_iterations(prepared);
        }
        let execution = &mut self.running.execution;
        execution.locked = prepared.locked;
        execution.segment = prepared.segment;
        self.pipeline.execute(&prepared.instruction, execution, occurrences);
        self.stores.executed();
    }

    /// Compares what waits, now that the number of iterations is known.
    #[inline(never)]
    fn take_iterations(&mut self, prepared: &Prepared) {
        let iterations = narrow(self.iterations());
        self.running.execution.iterations = iterations;
        self.stores.begin(prepared.instruction.stores(iterations));
        let waiting = std::mem::take(&mut self.waiting);
        for access in &waiting {
            let is_store = access.operation == Operation::Store;
            self.compare(access, !is_store, is_store);
        }
        self.waiting = waiting;
    }

    /// The processor is halted.
    pub(super) fn halted(&mut self) {
        self.empty();
    }

    /// An exception or a hardware interrupt is about to be delivered: behind the iterations of a string that are
    /// finished.
    pub(super) fn delivering(&mut self, occurrences: &mut Occurrences) {
        if let Some((prepared, elements)) = self.stopped.take() {
            self.running.elements = elements;
            self.execute(&prepared, occurrences);
        }
        self.clear();
        self.stores.begin(self.delivery.stores(0));
    }

    /// It was delivered.
    pub(super) fn delivered(&mut self, occurrences: &mut Occurrences) {
        self.pipeline.execute(&self.delivery, &self.running.execution, occurrences);
        self.stores.executed();
        self.clear();
    }
}

/// Cycles of one instruction: far fewer than there is room for.
fn narrow(cycles: u64) -> u32 {
    u32::try_from(cycles).unwrap_or(u32::MAX)
}

impl State for OutOfOrder {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            pipeline,
            stores,
            misaligned: _,
            assists_special: _,
            delivery,
            running,
            waiting,
            stopped,
            suspended,
        } = self;
        pipeline.visit(visitor);
        stores.visit(visitor);
        running.visit(visitor);
        list(visitor, waiting, MOST_WAITING, || NOTHING);
        // Any instruction will do where one is to be loaded.
        let blank = || (Prepared::of(*delivery), 0);
        let mut is_stopped = stopped.is_some();
        is_stopped.visit(visitor);
        if is_stopped {
            let (prepared, elements) = stopped.get_or_insert_with(blank);
            prepared.visit(visitor, pipeline.core());
            elements.visit(visitor);
        } else {
            *stopped = None;
        }
        suspended.visit(visitor);
    }
}

uarch::state! {
    Running {
        saved: execution, begun, loaded, high_byte, elements_of_iteration, elements, taken;
    }
}
