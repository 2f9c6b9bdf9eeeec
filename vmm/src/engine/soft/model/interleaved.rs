//! What the models are told of threads that take turns instruction by instruction, where nothing else has to be
//! looked at in between ([`super::super::interleaved`]): less each time than [`Modelling::begin`] and
//! [`Modelling::end`] tell, as all of them keep the time by the pipeline of their core.

use pmu_model::{Demand, Pmis, Signal};
use x86_cpu::observe::Observer;
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;

use super::by_block::Cache;
use super::pipeline::Pipeline;
use super::{Model, ModelObserver, Modelling, Processor, Siblings, Vcpu};
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
        self.observer.watch.next_turn(processor)
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
        observe(&mut self.observer, None);
        self.observer.restart();
        self.observer.watch.enter(vcpu);
        vcpu.cpu.pass(cycles);
        let mut observed = self.observer.observed();
        let mut stretch = Stretch { observed: observed.as_mut(), instructions: 0, cycles, context };
        let pmis = vcpu.pmu.advance_by(context.cpl, |signal| stretch.take(signal));
        self.observer.watch.end(&vcpu.cpu);
        pmis
    }

    /// A thread is about to run. With `budgets`, one of its counters may overflow by that; else what is observed of it may
    /// be counted with that of its next turns.
    pub(in crate::engine::soft) fn begin_turn(
        &mut self,
        vcpu: &Vcpu,
        board: &Board,
        budgets: bool,
    ) {
        observe(&mut self.observer, (!budgets).then_some(vcpu.id));
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

    /// A thread is about to run of whose turns not all has been counted, once its time has passed up to a cycle.
    /// Nothing is internal to it that is not to the others: with several threads, parts have their local APICs on the bus.
    pub(in crate::engine::soft) fn go_on_with_turns(
        &mut self,
        vcpu: &mut Vcpu,
        demand: &Demand,
        until: u64,
    ) {
        let model = &mut self.observer.watch;
        if model.is_ahead(vcpu) {
            // More has been told than has passed.
            model.pause_at(vcpu);
            let _none = self.wait(vcpu, demand, until, Counted::WithWhatFollows);
            observe(&mut self.observer, Some(vcpu.id));
            self.observer.watch.enter(vcpu);
            return;
        }
        go_on_with(&mut self.observer, vcpu.id);
        self.observer.watch.go_on(vcpu, until);
    }

    /// A thread has run; what was observed is `open`, or else has been counted.
    #[inline]
    pub(in crate::engine::soft) fn end_turn(&mut self, vcpu: &Vcpu, open: bool) {
        let model = &mut self.observer.watch;
        match open {
            true => model.pause_between_turns(),
            false => model.end(&vcpu.cpu),
        }
    }

    /// The turns of a core are over, and what was observed of them has been counted.
    pub(in crate::engine::soft) fn end_turns(&mut self) {
        observe(&mut self.observer, None);
    }

    /// What has been observed of the turns of a thread is about to be counted, up to the end of the last one: what
    /// its instruction did behind that is not.
    pub(in crate::engine::soft) fn begin_to_close(
        &mut self,
        vcpu: &Vcpu,
    ) -> impl Iterator<Item = (Signal, u64)> + use<> {
        let processor = vcpu.id;
        observe(&mut self.observer, Some(processor));
        let model = &mut self.observer.watch;
        model.pause_at(vcpu);
        model.running = processor;
        let later = model.fired_at_issue(processor);
        let occurrences = model.system.occurrences(processor);
        later.clone().for_each(|(signal, n)| occurrences.take_back(signal, n));
        later
    }

    /// It has been counted.
    pub(in crate::engine::soft) fn end_closing(
        &mut self,
        processor: usize,
        later: impl Iterator<Item = (Signal, u64)>,
    ) {
        let occurrences = self.observer.watch.system.occurrences(processor);
        occurrences.clear();
        later.filter(|&(_, n)| n != 0).for_each(|(signal, n)| occurrences.fire(signal, n));
    }
}

/// What is observed next is of a thread whose turns are counted together, or of none: what was observed before is put
/// aside.
#[inline]
fn observe(observer: &mut ModelObserver, processor: Option<usize>) {
    let model = &mut observer.watch;
    let thread = processor.map(|processor| model.pipelines.thread_of(processor));
    let before = std::mem::replace(&mut model.observed_apart, thread);
    match (before, thread) {
        (Some(before), Some(thread)) if before != thread => observer.exchange(|model| {
            let [before, thread] =
                model.asides.get_disjoint_mut([before, thread]).expect(BOTH_THERE);
            (before, Some(thread))
        }),
        (Some(thread), None) | (None, Some(thread)) => {
            observer.exchange(|model| (&mut model.asides[thread], None));
        }
        _ => {}
    }
}

/// Of two threads of a core.
const BOTH_THERE: &str = "they are two, and the core has both";

/// What is told next is of a thread whose turns are counted together, which has done nothing since its last turn, nor has
/// anybody what matters to it alone: as [`Model::enter`], of which nothing else would change anything.
#[inline]
pub(in crate::engine::soft) fn go_on_with(observer: &mut ModelObserver, processor: usize) {
    let model = &observer.watch;
    let is_running = model.running == processor && model.system.running() == processor;
    if is_running && model.observed_apart == Some(model.pipelines.thread_of(processor)) {
        return;
    }
    observe(observer, Some(processor));
    observer.watch.choose_thread(processor);
}

impl Model {
    /// The running thread has taken a step: the same as [`Modelling::next_turn`] behind that.
    #[inline]
    pub(in crate::engine::soft) fn hand_over(&mut self) -> Option<(usize, u64)> {
        let Pipeline::Multithreaded(core) = self.pipelines.running_mut() else { return None };
        core.note_counted();
        if !self.hands_over {
            return Some((self.running, core.told()));
        }
        let first = self.pipelines.first_of(self.pipelines.number());
        let Pipeline::Multithreaded(core) = self.pipelines.running_mut() else { return None };
        let (thread, cycle) = core.advance_at_once(&mut self.system, first)?;
        Some((first + thread, core.due_at(thread, cycle)))
    }

    /// See [`Modelling::next_turn`].
    #[inline]
    pub(in crate::engine::soft) fn next_turn(&mut self, processor: usize) -> Option<(usize, u64)> {
        self.is_as_saved = false;
        let first = self.pipelines.first_of(self.pipelines.number_of(processor));
        let Pipeline::Multithreaded(core) = &mut self.pipelines[first] else { return None };
        let (thread, cycle) = core.advance_at_once(&mut self.system, first)?;
        Some((first + thread, core.due_at(thread, cycle)))
    }

    /// What the last instruction of a processor has fired when it issued, which was since its last turn.
    fn fired_at_issue(
        &self,
        processor: usize,
    ) -> impl Iterator<Item = (Signal, u64)> + Clone + use<> {
        let first = self.pipelines.first_of(self.pipelines.number_of(processor));
        let fired = match &self.pipelines[first] {
            Pipeline::Multithreaded(core) => Some(core.fired_at_issue(processor - first)),
            _ => None,
        };
        fired.into_iter().flatten()
    }

    /// Whether more has been told of a processor than has passed for it.
    #[inline]
    pub(in crate::engine::soft) fn is_ahead(&self, vcpu: &Vcpu) -> bool {
        let clock = match &self.pipelines[vcpu.id] {
            Pipeline::Multithreaded(core) => core.clock_of(self.pipelines.thread_of(vcpu.id)),
            _ => 0,
        };
        self.processors[vcpu.id].ahead != 0 || clock > vcpu.cpu.time
    }

    /// The running thread goes on in its next turn, and until then nobody asks where it is: else [`Self::pause_at`].
    #[inline]
    fn pause_between_turns(&mut self) {
        if let Pipeline::Multithreaded(core) = self.pipelines.running_mut() {
            core.note_counted();
        }
    }

    /// A thread has paused between two turns, of which the last ended here.
    fn pause_at(&mut self, vcpu: &Vcpu) {
        let processor = &mut self.processors[vcpu.id];
        processor.told_until = (vcpu.cpu.retired(), vcpu.cpu.linear_rip());
        processor.ended = vcpu.cpu.time;
        let thread = self.pipelines.thread_of(vcpu.id);
        if let Pipeline::Multithreaded(core) = &mut self.pipelines[vcpu.id] {
            core.suspend_at(thread, &vcpu.cpu);
            processor.clock = core.clock_of(thread);
        }
    }

    /// See [`go_on_with`].
    #[inline]
    fn choose_thread(&mut self, processor: usize) {
        self.running = processor;
        self.system.choose_thread(processor);
        let thread = self.pipelines.thread_of(processor);
        self.pipelines.running_mut().choose(thread);
        let Processor { epochs, ahead, .. } = &self.processors[processor];
        (self.epoch, self.ahead) = (epochs[0], *ahead);
    }

    /// The running thread goes on once its time has passed up to a cycle, as by [`Modelling::wait`].
    #[inline]
    pub(in crate::engine::soft) fn go_on(&mut self, vcpu: &mut Vcpu, until: u64) {
        self.hands_over = false;
        // What the others have written restarts none.
        self.system.take_restart_of_running();
        if let Pipeline::Multithreaded(core) = self.pipelines.running_mut() {
            core.tell_running(until);
            vcpu.cpu.pass(until.saturating_sub(vcpu.cpu.time));
            self.system.set_time_of_running(core.time());
        }
        self.told = vcpu.cpu.time + self.ahead;
    }

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
