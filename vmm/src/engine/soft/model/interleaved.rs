//! What the models are told of threads that take turns instruction by instruction, where nothing else has to be
//! looked at in between ([`super::super::interleaved`]): less each time than [`Modelling::begin`] and
//! [`Modelling::end`] tell, as all of them keep the time by the pipeline of their core.

use pmu_model::{Demand, Pmis};
use x86_cpu::observe::Observer;
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;

use super::by_block::Cache;
use super::pipeline::Pipeline;
use super::{Model, Modelling, Processor, Siblings, Vcpu};
use crate::engine::Board;
use crate::engine::soft::stretch::Stretch;

/// When the time that passes for a thread is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft) enum Counted {
    /// By itself: something may overflow by it.
    AtOnce,
    /// With what it executes then, under the same context: nothing is near an overflow.
    WithWhatFollows,
}

impl Modelling {
    /// Threads of the core of a processor take turns from now on, and the pipeline keeps the time.
    pub(in crate::engine::soft) fn begin_turns(&mut self, processor: usize) {
        let model = &mut self.observer.watch;
        model.descriptions.choose(Cache::Timed);
        (model.runs_pipelines, model.keeps_time) = (true, true);
        if let Some(core) = self.core_of(processor) {
            core.0.forget_next();
        }
    }

    /// The processor of the core of this one whose instruction is to be executed next, and the cycle up to which its
    /// time has passed by then; `None` if it is not known, or nothing is. What is to issue before has issued.
    #[inline]
    pub(in crate::engine::soft) fn next_turn(&mut self, processor: usize) -> Option<(usize, u64)> {
        let model = &mut self.observer.watch;
        model.is_as_saved = false;
        let first = model.pipelines.first_of(model.pipelines.number_of(processor));
        let Pipeline::Multithreaded(core) = &mut model.pipelines[first] else { return None };
        let (thread, cycle) = core.advance_at_once(&mut model.system, first)?;
        Some((first + thread, core.due_at(thread, cycle)))
    }

    /// Whether the next instruction of a processor reads or programs counters, or it takes more to know that.
    pub(in crate::engine::soft) fn may_access_counters(&mut self, vcpu: &Vcpu, ram: &Ram) -> bool {
        use Operation::{Rdmsr, Rdpmc, Spflt, Wrmsr};
        let next = self.timed.next_instruction(&vcpu.cpu, ram);
        next.is_none_or(|insn| matches!(insn.op, Rdmsr | Rdpmc | Spflt | Wrmsr))
    }

    /// Nothing of what a thread has issued until now is counted later.
    pub(in crate::engine::soft) fn forget_issue(&mut self, processor: usize) {
        let model = &mut self.observer.watch;
        model.is_as_saved = false;
        let first = model.pipelines.first_of(model.pipelines.number_of(processor));
        if let Pipeline::Multithreaded(core) = &mut model.pipelines[first] {
            core.forget_issue(processor - first);
            model.system.occurrences(processor).clear();
        }
    }

    /// Time passes for a thread up to a cycle, of which this is demanded: what overflows by that. What the thread has done
    /// since it was last told of is counted too, unless all is to be counted with what follows.
    pub(in crate::engine::soft) fn wait(
        &mut self,
        vcpu: &mut Vcpu,
        demand: &Demand,
        until: u64,
        counted: Counted,
    ) -> Pmis {
        let model = &mut self.observer.watch;
        model.is_as_saved = false;
        let first = model.pipelines.first_of(model.pipelines.number_of(vcpu.id));
        let Pipeline::Multithreaded(core) = &mut model.pipelines[first] else { return Pmis::NONE };
        let thread = vcpu.id - first;
        let cycles = until.saturating_sub(vcpu.cpu.time);
        if cycles == 0 && !core.has_issued(thread) {
            core.reach(thread, until);
            return Pmis::NONE;
        }
        core.tell(thread, until);
        let Some(context) = vcpu.counted_under.filter(|_| demand.counting) else {
            vcpu.cpu.pass(cycles);
            return Pmis::NONE;
        };
        if counted == Counted::WithWhatFollows {
            model.passes(vcpu, cycles);
            return Pmis::NONE;
        }
        self.observer.restart();
        self.observer.watch.enter(vcpu);
        vcpu.cpu.pass(cycles);
        let mut observed = self.observer.observed();
        let mut stretch = Stretch { observed: observed.as_mut(), instructions: 0, cycles, context };
        let pmis = vcpu.pmu.advance_by(context.cpl, |signal| stretch.take(signal));
        self.observer.watch.end(&vcpu.cpu);
        pmis
    }

    /// A thread is about to run. With `budgets`, one of its counters may overflow by that.
    pub(in crate::engine::soft) fn begin_turn(
        &mut self,
        vcpu: &Vcpu,
        board: &Board,
        budgets: bool,
    ) {
        self.observer.restart();
        let local_apic = board.chipset.irq.lapic(vcpu.id).page();
        let model = &mut self.observer.watch;
        model.internal_page = local_apic.filter(|_| !board.platform.local_apic_on_bus);
        model.enter(vcpu);
        match budgets {
            true => model.give_budgets(vcpu, &Siblings::default(), &self.signals),
            false => model.system.occurrences(vcpu.id).clear_budgets(),
        }
    }
}

impl Model {
    /// Time passes for a thread that is going to run then, and has been told of the end of that. The clock of its
    /// models is as if it had been told of this alone: [`Model::enter`] and [`Model::end`].
    fn passes(&mut self, vcpu: &mut Vcpu, cycles: u64) {
        let Processor { clock, ahead, ended, .. } = &mut self.processors[vcpu.id];
        if *ahead != 0 || *clock > vcpu.cpu.time || cycles == 0 {
            self.enter(vcpu);
            vcpu.cpu.pass(cycles);
            let processor = &mut self.processors[vcpu.id];
            (processor.clock, processor.ended) = (self.pipelines.running().clock(), vcpu.cpu.time);
            return;
        }
        // Its pipeline has been told of a later time already, and nothing is ahead of anything.
        vcpu.cpu.pass(cycles);
        *ended = vcpu.cpu.time;
        let number = self.pipelines.number_of(vcpu.id);
        let first = self.pipelines.first_of(number);
        if let Pipeline::Multithreaded(core) = &self.pipelines[first] {
            *clock = core.clock_of(vcpu.id - first);
        }
    }
}
