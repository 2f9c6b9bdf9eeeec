//! The models of micro-architecture, fed with what execution does.
//!
//! [`Model`] is told of each fetch, access, page walk, branch and delivery, and hands it to
//! [`uarch::system::System`], which has the models of all processors. What they fire is counted with the
//! facts of the same stretch. How often a cache misses nobody knows before, so the counters of such
//! signals have budgets there: the run ends behind the instruction that uses one up.

use pmu_model::{CYCLE_DEPENDENT, Pmu, Signal, SignalSet, Tier};
use uarch::branch;
use uarch::bus::Traffic;
use uarch::cache::{Hint, Kind};
use uarch::part::{self, Part};
use uarch::pipeline::in_order::multithreaded::THREADS;
use uarch::processors::PerCore;
use uarch::system::{self, DataAccess, System};
use x86_cpu::block::{Code, Translations};
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{
    Access, Delivery, Direction, FloatCases, FloatUnit, LastStep, Target, Walk,
};
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;
use x86_cpu::run::Bookmark;
use x86_cpu::timing::CycleCosts;
use x86_cpu::watch::{
    AccessKind, Aside, ExecutionContext, Fetch, Transfer, TransferKind, Watch, Watching,
};

mod by_block;
mod in_order;
pub(super) mod interleaved;
mod lent;
mod multithreaded;
mod out_of_order;
mod pipeline;
mod state;
mod tables;
mod write_buffers;

pub(super) use self::by_block::Cache;
use self::lent::Lent;
use self::multithreaded::Multithreaded;
pub(super) use self::multithreaded::Step;
use self::pipeline::{Descriptions, Pipeline};
use self::state::Saved;
use self::tables::Tables;
use super::timing::Timing;
use super::vcpu::{Siblings, Vcpu};
use crate::boot::memory::RamLayout;
use crate::engine::Board;
use crate::platform::MemoryTypes;

/// CR0.CD: nothing is put into the caches.
const CACHE_DISABLE: u64 = 1 << 30;

/// What is told of execution for the models.
pub(super) type ModelObserver = Box<Watching<Model>>;

/// The models of a machine, and the code translated for execution that they see.
pub(super) struct Modelling {
    /// What is told of execution.
    pub(super) observer: Lent,
    pub(super) translations: Box<Translations<ModelObserver>>,
    /// The same code where pipelines keep the time.
    pub(super) timed: Box<Translations<ModelObserver>>,
    /// Where in that each processor was when it last took a step.
    pub(super) bookmarks: Vec<Bookmark>,
    /// The signals that they fire.
    pub(super) signals: SignalSet,
}

/// Which models are told what is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Detail {
    /// Any are: caches, TLBs, predictors, bus and memory.
    pub(super) models: bool,
    /// Pipelines are as well.
    pub(super) pipelines: bool,
    /// Virtual time is that of the pipelines.
    pub(super) keeps_time: bool,
}

impl Detail {
    /// What `self` or `other` is about.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            models: self.models || other.models,
            pipelines: self.pipelines || other.pipelines,
            keeps_time: self.keeps_time || other.keeps_time,
        }
    }
}

/// What hands execution to the models.
pub(super) struct Model {
    system: System,
    part: &'static Part,
    processors: Vec<Processor>,
    /// Once for each core, made when it is first told what is executed: those of many idle processors would be large.
    pipelines: PerCore<Pipeline>,
    /// The one that runs.
    running: usize,
    /// The first of its [`Processor::epochs`], as last looked at.
    epoch: u64,
    /// Pipelines are told what is executed, and virtual time is that of the running one.
    runs_pipelines: bool,
    keeps_time: bool,
    /// Virtual time that has been told, by the running pipeline's clock.
    told: u64,
    /// Another thread of the running processor's core is to execute something next.
    pub(super) hands_over: bool,
    descriptions: Descriptions,
    /// The instructions of the running block have been fetched, all at once.
    is_fetched: bool,
    /// Those that have not begun are to be fetched after all, each on its own: code has left the cache.
    fetches_rest: bool,
    /// [`Processor::ahead`] of the running one.
    ahead: u64,
    /// Guest-physical address of the page of the running processor's local APIC, if accesses to it stay
    /// in the processor.
    internal_page: Option<u64>,
    /// What the models were saved as or loaded from last, and that nobody has told them anything since.
    saved: Option<Saved>,
    is_as_saved: bool,
    /// What has been observed of each thread of a core whose turns are counted together.
    asides: [Aside; THREADS],
    /// The thread of which that is in place, and what else has been observed is put aside.
    observed_apart: Option<usize>,
}

/// What is known of a processor.
struct Processor {
    /// The clock of its models when they were last told of it.
    clock: u64,
    /// By how much that is ahead of virtual time, but where a pipeline runs by a clock of its own.
    ahead: u64,
    /// Virtual time when they were last told of it.
    ended: u64,
    memory_types: MemoryTypes,
    /// [`crate::platform::MsrBank::writes`] when they were.
    as_of: u64,
    /// The state of its translations that its TLBs have seen.
    epochs: [u64; 2],
    /// Where its execution was last told of: instructions retired by then, and linear address of the next.
    told_until: (u64, u64),
    paging: bool,
    cache_disable: bool,
}

impl Modelling {
    /// The models of a part, for processors with `ram`; `translations` are those of another observer.
    pub(super) fn new<O>(
        part: &'static Part,
        vcpus: &[Vcpu],
        ram: &RamLayout,
        translations: &Translations<O>,
    ) -> Self {
        let regions = ram.regions();
        let ranges: Vec<_> =
            regions.iter().map(|&(start, bytes)| start.0..start.0 + bytes as u64).collect();
        let processor = |vcpu: &Vcpu| Processor {
            clock: 0,
            ahead: 0,
            ended: 0,
            memory_types: MemoryTypes::new(&vcpu.bank),
            as_of: vcpu.bank.writes(),
            epochs: vcpu.cpu.translation_epochs(),
            told_until: (0, 0),
            paging: false,
            cache_disable: false,
        };
        let mut system = System::new(part, vcpus.len(), &ranges);
        for vcpu in vcpus {
            system.enable_flush_filter(vcpu.id, vcpu.bank.enables_flush_filter());
        }
        let model = Model {
            system,
            part,
            processors: vcpus.iter().map(processor).collect(),
            pipelines: PerCore::new(vcpus.len(), part.threads, |_| Pipeline::NotMade),
            running: 0,
            epoch: 0,
            runs_pipelines: false,
            keeps_time: false,
            told: 0,
            hands_over: false,
            descriptions: Descriptions::new(&part.pipeline),
            is_fetched: false,
            fetches_rest: false,
            ahead: 0,
            internal_page: None,
            saved: None,
            is_as_saved: false,
            asides: Default::default(),
            observed_apart: None,
        };
        let live = vcpus.first().map(|vcpu| &vcpu.pmu.personality().live);
        let signals = live.map_or(SignalSet::EMPTY, |live| {
            live.of(Tier::Microarchitecture).without(live.of(Tier::InstructionSet))
        });
        Self {
            observer: Lent::new(Watching::new(model)),
            translations: Box::new(translations.empty()),
            timed: Box::new(timed(translations)),
            bookmarks: vec![Bookmark::default(); vcpus.len()],
            signals,
        }
    }

    /// What the counters of a processor ask for, where virtual time is this clock.
    pub(super) fn asked_by(&self, pmu: &Pmu, timing: Timing) -> Detail {
        let signals = pmu.demand().signals.intersection(&self.signals);
        let pipelines = !signals.intersection(&CYCLE_DEPENDENT).is_empty();
        // What all threads of a core have done by the same time, only the core's own pipeline says.
        let has_others = self.is_multithreaded() && self.observer.watch.processors.len() > 1;
        let counts_core = has_others && timing != Timing::Flat && pmu.sibling_demand().counting;
        Detail {
            models: !signals.is_empty() || counts_core,
            pipelines: pipelines || counts_core,
            keeps_time: false,
        }
    }

    /// What asks for these signals.
    pub(super) fn asked_for(&self, signals: impl Iterator<Item = Signal>) -> Detail {
        signals.filter(|&signal| self.signals.contains(signal)).fold(
            Detail::default(),
            |detail, signal| Detail {
                models: true,
                pipelines: detail.pipelines || CYCLE_DEPENDENT.contains(signal),
                keeps_time: false,
            },
        )
    }

    /// A processor is about to run blocks of a cache of translations.
    pub(super) fn begin(
        &mut self,
        vcpu: &Vcpu,
        siblings: &Siblings<'_>,
        board: &Board,
        detail: Detail,
        cache: Cache,
    ) {
        self.observer.watch.descriptions.choose(cache);
        self.observer.watch.runs_pipelines = detail.pipelines;
        self.observer.watch.keeps_time = detail.keeps_time;
        self.observer.restart();
        let local_apic = board.chipset.irq.lapic(vcpu.id).page();
        self.observer.watch.internal_page =
            local_apic.filter(|_| !board.platform.local_apic_on_bus);
        self.observer.watch.begin(vcpu, siblings, &self.signals);
    }

    /// Has these signals logged of a processor, but for those that the models do not fire.
    pub(super) fn log(&mut self, processor: usize, signals: impl Iterator<Item = Signal>) {
        let occurrences = self.observer.watch.system.occurrences(processor);
        signals
            .filter(|&signal| self.signals.contains(signal))
            .for_each(|signal| occurrences.log(signal));
    }

    /// What has been logged of a processor since this was last asked for.
    pub(super) fn take_log(&mut self, processor: usize) -> impl Iterator<Item = (Signal, u64)> {
        self.observer.watch.system.occurrences(processor).take_log()
    }

    /// Whether what runs next on this core is another thread's.
    pub(super) fn hands_over(&self) -> bool {
        self.observer.watch.hands_over
    }

    /// It is that of the thread which is about to run.
    pub(super) fn take_over(&mut self) {
        self.observer.watch.is_as_saved = false;
        self.observer.watch.hands_over = false;
    }

    /// The part that they are of.
    pub(super) fn part(&self) -> &'static Part {
        self.observer.watch.part
    }

    /// See [`super::Soft::take_traffic`].
    pub(super) fn take_traffic(&mut self) -> Traffic {
        let model = &mut self.observer.watch;
        let traffic = model.system.take_traffic();
        model.is_as_saved &= traffic == Traffic::None;
        traffic
    }

    /// Whether the cores have several threads.
    pub(super) fn is_multithreaded(&self) -> bool {
        self.observer.watch.is_multithreaded()
    }

    /// The models were told of the first thread of each core last, and of the first core.
    #[cfg(test)]
    pub(super) fn forget_order(&mut self) {
        let model = &mut self.observer.watch;
        for processor in (0..model.processors.len()).rev() {
            model.system.choose(processor);
            model.pipelines.choose(processor);
            let thread = model.pipelines.thread_of(processor);
            model.pipelines.running_mut().choose(thread);
        }
        model.is_as_saved = false;
    }

    /// The core of a processor, if it has several threads; all processors, and the number of the core's first one.
    pub(super) fn core_of(
        &mut self,
        processor: usize,
    ) -> Option<(&mut Multithreaded, &mut System, usize)> {
        let Model { pipelines, system, part, is_as_saved, .. } = &mut self.observer.watch;
        *is_as_saved = false;
        let first = pipelines.first_of(pipelines.number_of(processor));
        pipelines[first].make(&part.pipeline);
        let Pipeline::Multithreaded(core) = &mut pipelines[first] else { return None };
        Some((core, system, first))
    }

    /// It has run, and what was demanded has been counted.
    pub(super) fn end(&mut self, vcpu: &Vcpu) {
        self.observer.watch.end(&vcpu.cpu);
    }
}

impl Model {
    /// What has been logged of the running processor since this was last asked for.
    #[inline(always)]
    pub(super) fn log(&mut self) -> impl Iterator<Item = (Signal, u64)> {
        self.system.occurrences(self.running).take_log()
    }

    fn begin(&mut self, vcpu: &Vcpu, siblings: &Siblings<'_>, signals: &SignalSet) {
        self.enter(vcpu);
        // Where it only waits, nothing is done that could use up a budget.
        if vcpu.waits_under.is_none() {
            self.give_budgets(vcpu, siblings, signals);
        }
    }

    /// What is told next is of this processor.
    fn enter(&mut self, vcpu: &Vcpu) {
        self.is_as_saved = false;
        self.running = vcpu.id;
        self.system.choose(vcpu.id);
        self.pipelines.choose(vcpu.id);
        let thread = self.pipelines.thread_of(vcpu.id);
        let pipeline = self.pipelines.running_mut();
        if self.runs_pipelines {
            pipeline.make(&self.part.pipeline);
        }
        pipeline.choose(thread);
        self.hands_over = false;
        let processor = &mut self.processors[vcpu.id];
        if processor.as_of != vcpu.bank.writes() {
            processor.as_of = vcpu.bank.writes();
            processor.memory_types = MemoryTypes::new(&vcpu.bank);
            self.system.change_memory(vcpu.id, processor.paging);
            self.system.enable_flush_filter(vcpu.id, vcpu.bank.enables_flush_filter());
        }
        if processor.told_until != (vcpu.cpu.retired(), vcpu.cpu.linear_rip()) {
            self.system.missed_execution();
        }
        self.notice_cache_disable(&vcpu.cpu);
        self.epoch = self.processors[vcpu.id].epochs[0];
        self.set_clock(&vcpu.cpu);
        self.system.set_time(vcpu.id, self.time(&vcpu.cpu));
    }

    /// It has been told, and what was demanded has been counted.
    fn end(&mut self, cpu: &Cpu) {
        self.system.occurrences(self.running).clear();
        self.pause(cpu);
    }

    /// The same, and nothing has been counted.
    fn pause(&mut self, cpu: &Cpu) {
        let Self { running, processors, pipelines, runs_pipelines, .. } = self;
        let processor = &mut processors[*running];
        processor.told_until = (cpu.retired(), cpu.linear_rip());
        processor.ended = cpu.time;
        if *runs_pipelines {
            let pipeline = pipelines.running_mut();
            pipeline.suspend(cpu);
            processor.clock = pipeline.clock();
        } else {
            processor.clock = cpu.time + processor.ahead;
        }
    }

    /// Gives the counters of the running processor budgets of what they count of these signals.
    fn give_budgets(&mut self, vcpu: &Vcpu, siblings: &Siblings<'_>, signals: &SignalSet) {
        let occurrences = self.system.occurrences(vcpu.id);
        occurrences.clear_budgets();
        for signal in &vcpu.pmu.demand().signals.intersection(signals) {
            for counter in vcpu.pmu.counters_of(signal) {
                occurrences.add_to_budget(counter, vcpu.pmu.headroom_of(counter), signal);
            }
        }
        // What siblings count of the whole core: the counters of one number have one budget, the least.
        let own = vcpu.pmu.personality().counters;
        for sibling in siblings.iter() {
            for signal in &sibling.pmu.sibling_demand().signals.intersection(signals) {
                for counter in sibling.pmu.core_wide_counters_of(signal) {
                    let headroom = sibling.pmu.headroom_of(counter);
                    occurrences.add_to_budget(own + counter, headroom, signal);
                }
            }
        }
    }

    /// Whether the cores have several threads.
    fn is_multithreaded(&self) -> bool {
        matches!(self.part.pipeline, part::Pipeline::Multithreaded { .. })
    }

    /// The clock of the running processor's models never goes back, whatever keeps it: virtual time; or that
    /// of the pipeline, which follows it; or the pipeline's own, which stands still while the processor is
    /// halted or the pipeline is not told of it, so that what is counted does not depend on how long that was.
    fn set_clock(&mut self, cpu: &Cpu) {
        // The cycles of a core of several threads are virtual time wherever they keep it: nothing is ahead of it for longer
        // than until more is told, or a thread would see another time where it waits for its turn.
        let in_cycles_of_core = self.keeps_time && self.is_multithreaded();
        let processor = &mut self.processors[self.running];
        let Processor { clock, ahead, ended, .. } = processor;
        if (self.keeps_time || !self.runs_pipelines) && !in_cycles_of_core {
            *ahead = (*ahead).max(clock.saturating_sub(cpu.time));
        }
        self.ahead = *ahead;
        if self.runs_pipelines {
            // What was written while no pipeline was told restarts none.
            self.system.take_restart(self.running);
            let pipeline = self.pipelines.running_mut();
            pipeline.resume(cpu);
            let virtual_time = if self.keeps_time { cpu.time + *ahead } else { 0 };
            // Of a repeated instruction more time may have been told than it took in the end. Virtual time waits for
            // the pipeline then, wherever runs end; the pipeline only waits for time in which nothing was executed.
            let is_idle = cpu.time != *ended;
            pipeline.idle_until(if is_idle { virtual_time.max(*clock) } else { *clock });
            self.told = match in_cycles_of_core {
                true => virtual_time,
                false => pipeline.clock().max(virtual_time),
            };
        }
    }

    /// The same while it runs.
    #[inline(always)]
    fn time(&self, cpu: &Cpu) -> u64 {
        if self.runs_pipelines { self.pipelines.running().time() } else { cpu.time + self.ahead }
    }

    /// What is told next happens at this virtual time, unless a pipeline says when.
    #[inline(always)]
    fn set_time(&mut self, time: u64) {
        if !self.runs_pipelines {
            self.system.set_time_of_running(time + self.ahead);
        }
    }

    /// CR0.CD may have changed.
    fn notice_cache_disable(&mut self, cpu: &Cpu) {
        let processor = &mut self.processors[self.running];
        let cache_disable = cpu.cr0() & CACHE_DISABLE != 0;
        if cache_disable != processor.cache_disable {
            processor.cache_disable = cache_disable;
            self.system.change_memory(self.running, processor.paging);
        }
    }

    /// Tells the TLBs what has happened to translations.
    #[inline(always)]
    fn notice_translations(&mut self, cpu: &Cpu) {
        // The first changes with every event, the second only with some of them.
        if cpu.translation_epochs()[0] != self.epoch {
            self.notice_epochs(cpu);
        }
    }

    #[cold]
    #[inline(never)]
    fn notice_epochs(&mut self, cpu: &Cpu) {
        let processor = &mut self.processors[self.running];
        let epochs = cpu.translation_epochs();
        self.epoch = epochs[0];
        if epochs[0] != processor.epochs[0] {
            let only_loaded = epochs[1] == processor.epochs[1];
            processor.epochs = epochs;
            if only_loaded {
                self.system.load_page_tables(self.running, cpu.cr3());
            } else {
                self.system.flush_tlbs(self.running, cpu.cr3());
            }
        }
    }
}

/// A cache of translations of the size of another one, where pipelines keep the time.
pub(super) fn timed<O, P>(translations: &Translations<O>) -> Translations<P> {
    translations.empty().with_cycle_costs(CycleCosts::MODELLED)
}

/// A transfer as the models have it.
#[inline(always)]
fn transfer_of(transfer: &Transfer) -> branch::Transfer {
    let Transfer { from, next, to, kind, taken } = *transfer;
    let kind = match kind {
        TransferKind::Conditional => branch::TransferKind::Conditional,
        TransferKind::Jump => branch::TransferKind::Jump,
        TransferKind::IndirectJump => branch::TransferKind::IndirectJump,
        TransferKind::Call => branch::TransferKind::Call,
        TransferKind::IndirectCall => branch::TransferKind::IndirectCall,
        TransferKind::Return => branch::TransferKind::Return,
        TransferKind::FarCall => branch::TransferKind::FarCall,
        TransferKind::FarReturn => branch::TransferKind::FarReturn,
        TransferKind::Far => branch::TransferKind::Far,
    };
    branch::Transfer { from, last: next.wrapping_sub(1), next, to, kind, taken }
}

/// What the models make of the kind of an access.
#[inline(always)]
fn kind_of(kind: AccessKind) -> Kind {
    match kind {
        AccessKind::Mmx => Kind::Mmx,
        AccessKind::Vector => Kind::Vector,
        AccessKind::Locked => Kind::Locked,
        AccessKind::NonTemporal => Kind::NonTemporal,
        AccessKind::NoRead { ordered } => Kind::NoRead { ordered },
        _ => Kind::Plain,
    }
}

/// The same of a kind of which accesses may hit without a word.
#[inline(always)]
fn ordinary(kind: AccessKind) -> Option<Kind> {
    match kind {
        AccessKind::Plain | AccessKind::Stack | AccessKind::String => Some(Kind::Plain),
        AccessKind::Mmx => Some(Kind::Mmx),
        AccessKind::Vector => Some(Kind::Vector),
        _ => None,
    }
}

/// Whether an access reads, and whether it writes, if it does either.
#[inline(always)]
fn reads_and_writes(direction: Direction) -> Option<(bool, bool)> {
    match direction {
        Direction::Load => Some((true, false)),
        Direction::Store => Some((false, true)),
        Direction::Modify => Some((true, true)),
        Direction::Touch => None,
    }
}

impl Watch for Model {
    const MODELS: bool = true;

    #[inline(always)]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, fetch: &Fetch) {
        self.notice_translations(cpu);
        if self.runs_pipelines {
            self.descriptions.entered(cpu, ram, block);
        }
        let time = self.time(cpu);
        let Fetch { linear, physical, second_page, len } = *fetch;
        let fetch = system::Fetch { linear, physical, second_page, bytes: len.into() };
        // A budget is used up by the very instruction that does it, and a log is of the very instruction.
        self.is_fetched = !self.system.is_nearly_spent()
            && !self.system.logs_fetches()
            && self.system.fetch_at_once(time, &fetch);
        self.fetches_rest = false;
    }

    fn enters_in_steps(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        self.notice_translations(cpu);
        self.descriptions.entered(cpu, ram, block);
        (self.is_fetched, self.fetches_rest) = (false, false);
    }

    #[inline(always)]
    fn begins_apart(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn, linear: u64) {
        self.descriptions.goes_on_in(block);
        self.pipelines.running_mut().begins_apart();
        let (physical, len) = (block.physical(insn.start()), insn.len.into());
        let time = self.pipelines.running().time();
        // As where the rest of the block is entered: that uses the TLB even if nothing is read.
        let fetch = system::Fetch { linear, physical, second_page: None, bytes: len };
        if self.system.logs_fetches() || !self.system.fetch_at_once(time, &fetch) {
            let fetch = Fetch { linear, physical, second_page: None, len: insn.len.into() };
            self.fetch(cpu, ram, &fetch);
        }
    }

    #[inline(always)]
    fn attends_from(&mut self, next: u64) {
        if self.fetches_rest {
            self.unfetch(next);
        }
    }

    fn left(&mut self, next: u64) {
        self.unfetch(next);
    }

    #[inline(always)]
    fn begins(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn, fetch: impl FnOnce() -> Fetch) -> bool {
        if self.runs_pipelines {
            self.begins_in_pipeline(cpu, ram, insn, &fetch());
            return true;
        }
        if self.is_fetched {
            return false;
        }
        self.set_time(cpu.now(insn));
        self.fetch(cpu, ram, &fetch());
        true
    }

    #[inline(always)]
    fn at(&mut self, time: u64) {
        self.set_time(time);
    }

    #[inline(always)]
    fn is_attentive(&self) -> bool {
        self.runs_pipelines
            || !self.is_fetched
            || self.fetches_rest
            || self.system.is_nearly_spent()
    }

    #[inline(always)]
    fn enters_quietly(&mut self, cpu: &Cpu, block: &impl Code, linear: u64) -> bool {
        if self.runs_pipelines || cpu.translation_epochs()[0] != self.epoch {
            return false;
        }
        let time = cpu.time + self.ahead;
        let bytes = block.bytes() as u32;
        let physical = block.address_in_ram();
        let fetch = system::Fetch { linear, physical, second_page: None, bytes };
        self.is_fetched = !self.system.is_nearly_spent() && self.system.fetch_at_once(time, &fetch);
        self.fetches_rest = false;
        self.is_fetched
    }

    #[inline(always)]
    fn finds_again(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        direction: Direction,
    ) -> bool {
        let Some((reads, writes)) = reads_and_writes(direction) else { return false };
        self.system.access_hits_again(linear, physical, bytes, reads, writes)
    }

    #[inline(always)]
    fn finds(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) -> bool {
        let Some((reads, writes)) = reads_and_writes(direction) else { return false };
        self.system.access_hits(linear, physical, bytes, reads, writes)
    }

    /// Elements that all hit, where no pipeline asks what comes before what, and where no budget can be used up by
    /// them: that is to be behind the same element however the run was cut before.
    fn elements_at_once(&self, read: Option<(u64, u64)>, written: Option<(u64, u64)>) -> u64 {
        let may_be = !self.runs_pipelines
            && !self.system.is_nearly_spent()
            && self.system.elements_hit(read, written);
        if may_be { u64::MAX } else { 0 }
    }

    #[inline(always)]
    fn brings_in(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) -> bool {
        let Some((reads, writes)) = reads_and_writes(direction) else { return false };
        self.system.access_refills(linear, physical, bytes, reads, writes, Kind::Plain)
    }

    #[inline(always)]
    fn missed(&mut self, cpu: &Cpu, ram: &Ram, access: &Access, kind: AccessKind) {
        let Access { linear, physical, bytes, direction, .. } = *access;
        if let Some(kind) = ordinary(kind)
            && let Some((reads, writes)) = reads_and_writes(direction)
            && self.system.access_refills(linear, physical, bytes, reads, writes, kind)
        {
            return;
        }
        self.access(cpu, ram, access, kind);
    }

    #[inline(always)]
    fn accessed(&mut self, cpu: &Cpu, ram: &Ram, access: &Access, kind: AccessKind) {
        let Access { linear, physical, second_page, bytes, elements, direction, target } = *access;
        let is_simple = target == Target::Memory
            && second_page.is_none()
            && elements == 1
            && !self.runs_pipelines
            && ordinary(kind).is_some();
        if is_simple
            && let Some((reads, writes)) = reads_and_writes(direction)
            && self.system.access_hits(linear, physical, bytes, reads, writes)
        {
            return;
        }
        if is_simple {
            self.missed(cpu, ram, access, kind);
        } else {
            self.access(cpu, ram, access, kind);
        }
    }

    fn walked(&mut self, walk: &Walk) {
        // The doubleword with the bits.
        const BYTES: u32 = 4;
        let running = self.running;
        for entry in &walk.entries[..usize::from(walk.levels)] {
            if entry.set_accessed || entry.set_dirty {
                self.system.update_table(running, entry.physical, BYTES);
            }
        }
        self.notice_code_dropped();
    }

    #[inline(always)]
    fn branched_quickly(&mut self, transfer: &Transfer) -> bool {
        self.system.transfer_quickly(&transfer_of(transfer))
    }

    #[inline(always)]
    fn branched(&mut self, transfer: &Transfer) {
        let outcome = self.system.transfer(&transfer_of(transfer));
        if self.runs_pipelines {
            self.pipelines.running_mut().branched(transfer.taken, outcome);
        }
    }

    fn float_cases(&mut self, _: FloatUnit, cases: FloatCases) {
        if self.runs_pipelines {
            self.pipelines.running_mut().assisted(cases);
        }
    }

    fn iterated(&mut self, insn: &Insn) {
        if self.runs_pipelines {
            let Model { system, pipelines, running, descriptions, .. } = &mut *self;
            let pipeline = pipelines.running_mut();
            pipeline.iterated(descriptions, insn, system.occurrences(*running));
            system.set_time(*running, pipeline.time());
        }
    }

    #[inline(never)]
    fn retired(&mut self, cpu: &Cpu, _: &Ram, insn: &Insn) {
        let Model { system, pipelines, running, runs_pipelines, descriptions, hands_over, .. } =
            &mut *self;
        if !*runs_pipelines {
            return;
        }
        let pipeline = pipelines.running_mut();
        *hands_over = pipeline.retired(descriptions, cpu, insn, system, *running);
        system.set_time_of_running(pipeline.time());
    }

    fn last_step(&self) -> LastStep {
        if !self.keeps_time {
            return LastStep::EndsTheCycles;
        }
        self.pipelines.running().last_step()
    }

    fn keeps_time(&self) -> bool {
        self.keeps_time
    }

    #[inline(always)]
    fn take_cycles(&mut self) -> u64 {
        if !self.keeps_time {
            return 0;
        }
        let clock = self.pipelines.running().clock();
        let cycles = clock.saturating_sub(self.told);
        self.told += cycles;
        cycles
    }

    fn serialised(&mut self, cpu: &Cpu, insn: &Insn) {
        let running = self.running;
        self.system.serialise(running);
        match insn.op {
            Operation::Wbinvd => self.system.write_back_and_invalidate(running),
            Operation::Invd => self.system.invalidate(running),
            Operation::MovToControl => {
                self.notice_cache_disable(cpu);
                self.notice_translations(cpu);
            }
            Operation::Invlpg => {
                // The page is dropped here, and not all of them at the next look.
                self.processors[running].epochs = cpu.translation_epochs();
                if let Some(linear) = cpu.operand_address(insn) {
                    self.system.invalidate_page(running, linear);
                }
            }
            _ => {}
        }
    }

    fn fenced(&mut self) {
        let running = self.running;
        self.system.serialise(running);
    }

    fn delivering(&mut self) {
        if self.runs_pipelines {
            let Model { system, pipelines, running, .. } = &mut *self;
            pipelines.running_mut().delivering(system.occurrences(*running));
        }
    }

    fn delivered(&mut self, _: Delivery, from: u64, to: u64) {
        let running = self.running;
        self.system.interrupted(running, from, to);
        if self.runs_pipelines {
            let Model { system, pipelines, hands_over, .. } = &mut *self;
            let pipeline = pipelines.running_mut();
            *hands_over = pipeline.delivered(system, running);
            system.set_time(running, pipeline.time());
        }
    }

    fn changed(&mut self, now: &ExecutionContext) {
        let running = self.running;
        let paging = now.cr3.is_some();
        if self.processors[running].paging != paging {
            self.processors[running].paging = paging;
            self.system.change_memory(running, paging);
        }
    }

    #[inline(always)]
    fn modelled(&mut self) -> &mut [u64] {
        let running = self.running;
        self.system.occurrences(running).fired()
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.system.is_spent() || self.hands_over
    }
}

impl Model {
    /// Fetches an instruction.
    #[inline(never)]
    fn fetch(&mut self, cpu: &Cpu, ram: &Ram, fetch: &Fetch) {
        let Self { system, processors, pipelines, running, runs_pipelines, .. } = self;
        let tables = Tables { cpu, ram, of: &processors[*running] };
        let Fetch { linear, physical, second_page, len } = *fetch;
        let fetch = system::Fetch { linear, physical, second_page, bytes: len.into() };
        let cycles = system.fetch(*running, &tables, &fetch);
        if *runs_pipelines {
            let pipeline = pipelines.running_mut();
            pipeline.fetched(cycles);
            system.set_time(*running, pipeline.time());
        }
    }

    /// An instruction begins, of which the pipeline is told.
    #[inline(never)]
    fn begins_in_pipeline(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn, fetch: &Fetch) {
        let pipeline = self.pipelines.running_mut();
        pipeline.begins(&self.descriptions, insn, fetch);
        if !self.is_fetched && !self.system.fetches_on(fetch.linear, fetch.len.into()) {
            self.fetch(cpu, ram, fetch);
        }
    }

    /// Hands an access to the models that is not a hit of the first level, or of which the pipeline has to be
    /// told.
    #[inline(never)]
    fn access(&mut self, cpu: &Cpu, ram: &Ram, access: &Access, kind: AccessKind) {
        let Self { system, processors, pipelines, running, runs_pipelines, internal_page, .. } =
            self;
        let Access { linear, physical, second_page, bytes, elements, direction, target } = *access;
        match target {
            Target::Port => {
                let write = direction == Direction::Store;
                system.access_port(*running, physical as u16, bytes, write);
                return;
            }
            Target::Mmio if *internal_page == Some(physical & !0xfff) => return,
            Target::Mmio | Target::Memory => {}
        }
        let operation = match direction {
            Direction::Load => system::Operation::Load,
            Direction::Store => system::Operation::Store,
            Direction::Modify => system::Operation::Modify,
            Direction::Touch => match kind {
                AccessKind::Prefetch(hint) => system::Operation::Prefetch(prefetch(hint)),
                AccessKind::Flush => system::Operation::Flush,
                AccessKind::Evict { second_level } => system::Operation::Evict { second_level },
                _ => system::Operation::Load,
            },
        };
        let kind = kind_of(kind);
        let tables = Tables { cpu, ram, of: &processors[*running] };
        let access = DataAccess { linear, physical, second_page, bytes, elements, operation, kind };
        let cycles = system.access(*running, &tables, &access);
        if *runs_pipelines {
            let pipeline = pipelines.running_mut();
            pipeline.accessed(cpu, &access, cycles);
            system.set_time(*running, pipeline.time());
        }
        self.notice_code_dropped();
    }

    /// What of the running block has been fetched at once may have left the cache before it began.
    #[inline(always)]
    fn notice_code_dropped(&mut self) {
        if self.system.takes_code_dropped() {
            self.fetches_rest = self.is_fetched;
        }
    }

    /// What is behind a linear address in the running block was not fetched, if all of it was at once.
    #[inline(never)]
    fn unfetch(&mut self, end: u64) {
        if std::mem::take(&mut self.is_fetched) {
            self.system.unfetch(end);
        }
        self.fetches_rest = false;
    }
}

fn prefetch(hint: x86_cpu::watch::Hint) -> Hint {
    use x86_cpu::watch::Hint as Asked;
    match hint {
        Asked::T0 => Hint::T0,
        Asked::T1 => Hint::T1,
        Asked::T2 => Hint::T2,
        Asked::Nta => Hint::NonTemporal,
        Asked::Write => Hint::Write,
        Asked::WriteT1 => Hint::WriteT1,
        Asked::WriteT2 => Hint::WriteT2,
        Asked::WriteNta => Hint::WriteNonTemporal,
    }
}
