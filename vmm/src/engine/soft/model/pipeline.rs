//! The pipeline of a processor or of a core of several threads, of whichever kind its part has.

use uarch::branch::Outcome;
use uarch::occurrences::Occurrences;
use uarch::part;
use uarch::state::{State, Visitor};
use uarch::system::{AccessCycles, DataAccess, System};
use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{FloatCases, LastStep};
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;
use x86_cpu::watch::Fetch;

use super::by_block::Cache;
use super::in_order::{self, InOrder};
use super::multithreaded::Multithreaded;
use super::out_of_order::{self, OutOfOrder};

/// A pipeline.
pub(super) enum Pipeline {
    /// One that executes instructions in order.
    InOrder(Box<InOrder>),
    /// One that executes them as their operands are there.
    OutOfOrder(Box<OutOfOrder>),
    /// One that executes those of several threads in order.
    Multithreaded(Box<Multithreaded>),
    /// It has not been told of anything yet.
    NotMade,
}

/// What the pipelines of a machine know of instructions before they execute.
pub(super) enum Descriptions {
    InOrder(Box<in_order::Descriptions>),
    OutOfOrder(Box<out_of_order::Descriptions>),
}

impl Descriptions {
    pub(super) fn new(of: &part::Pipeline) -> Self {
        match *of {
            part::Pipeline::InOrder { rows_of, .. }
            | part::Pipeline::Multithreaded { rows_of, .. } => {
                Self::InOrder(Box::new(in_order::Descriptions::new(rows_of)))
            }
            part::Pipeline::OutOfOrder(core) => {
                Self::OutOfOrder(Box::new(out_of_order::Descriptions::new(core)))
            }
        }
    }

    /// Blocks come from this cache of translations.
    pub(super) fn choose(&mut self, cache: Cache) {
        match self {
            Self::InOrder(descriptions) => descriptions.choose(cache),
            Self::OutOfOrder(descriptions) => descriptions.choose(cache),
        }
    }

    /// A block is entered.
    #[inline(always)]
    pub(super) fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        match self {
            Self::InOrder(descriptions) => descriptions.entered(cpu, ram, block),
            Self::OutOfOrder(descriptions) => descriptions.entered(cpu, block),
        }
    }

    /// A block that has been entered goes on, on a core whose threads take turns.
    #[inline(always)]
    pub(super) fn goes_on_in(&mut self, block: &impl Code) {
        if let Self::InOrder(descriptions) = self {
            descriptions.goes_on_in(block);
        }
    }

    /// What an out-of-order pipeline knows of an instruction of the running block.
    #[inline(always)]
    fn of(&self, insn: &Insn) -> Option<&out_of_order::Prepared> {
        match self {
            Self::OutOfOrder(descriptions) => descriptions.instruction(insn),
            Self::InOrder(_) => None,
        }
    }

    /// What an in-order pipeline knows of it.
    #[inline(always)]
    fn in_order(&self, insn: &Insn) -> Option<&in_order::Description> {
        match self {
            Self::InOrder(descriptions) => descriptions.instruction(insn),
            Self::OutOfOrder(_) => None,
        }
    }
}

impl Pipeline {
    /// Makes an empty one, if there is none yet.
    #[inline]
    pub(super) fn make(&mut self, of: &part::Pipeline) {
        if matches!(self, Self::NotMade) {
            *self = Self::new(of);
        }
    }

    /// An empty one.
    fn new(of: &part::Pipeline) -> Self {
        match *of {
            part::Pipeline::InOrder { parameters, .. } => {
                Self::InOrder(Box::new(InOrder::new(parameters)))
            }
            part::Pipeline::OutOfOrder(core) => Self::OutOfOrder(Box::new(OutOfOrder::new(core))),
            part::Pipeline::Multithreaded { parameters, .. } => {
                Self::Multithreaded(Box::new(Multithreaded::new(parameters)))
            }
        }
    }

    /// What follows is told of this thread of its core.
    pub(super) fn choose(&mut self, thread: usize) {
        if let Self::Multithreaded(core) = self {
            core.choose(thread);
        }
    }

    /// What follows is told of.
    pub(super) fn resume(&mut self, cpu: &Cpu) {
        match self {
            Self::InOrder(pipeline) => pipeline.resume(cpu),
            Self::OutOfOrder(pipeline) => pipeline.resume(cpu),
            Self::Multithreaded(core) => core.resume(cpu),
            Self::NotMade => {}
        }
    }

    /// What follows may not be told of.
    pub(super) fn suspend(&mut self, cpu: &Cpu) {
        match self {
            Self::InOrder(pipeline) => pipeline.suspend(cpu),
            Self::OutOfOrder(pipeline) => pipeline.suspend(cpu),
            Self::Multithreaded(core) => core.suspend(cpu),
            Self::NotMade => {}
        }
    }

    /// The clock by which the running instruction asks caches and bus for something.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        match self {
            Self::InOrder(pipeline) => pipeline.time(),
            Self::OutOfOrder(pipeline) => pipeline.time(),
            Self::Multithreaded(core) => core.time(),
            Self::NotMade => 0,
        }
    }

    /// The clock of what has been executed.
    #[inline(always)]
    pub(super) fn clock(&self) -> u64 {
        match self {
            Self::InOrder(pipeline) => pipeline.clock(),
            Self::OutOfOrder(pipeline) => pipeline.clock(),
            Self::Multithreaded(core) => core.clock(),
            Self::NotMade => 0,
        }
    }

    /// When the last step of the running processor was over, of the cycles in which it was told of.
    pub(super) fn last_step(&self) -> LastStep {
        match self {
            Self::Multithreaded(core) => core.last_step(),
            Self::InOrder(_) | Self::OutOfOrder(_) | Self::NotMade => LastStep::EndsTheCycles,
        }
    }

    /// Nothing is executed until a cycle, if that is to come.
    pub(super) fn idle_until(&mut self, cycle: u64) {
        match self {
            Self::InOrder(pipeline) => pipeline.idle_until(cycle),
            Self::OutOfOrder(pipeline) => pipeline.idle_until(cycle),
            Self::Multithreaded(core) => core.idle_until(cycle),
            Self::NotMade => {}
        }
    }

    /// An instruction begins.
    #[inline(always)]
    pub(super) fn begins(&mut self, descriptions: &Descriptions, insn: &Insn, fetch: &Fetch) {
        match self {
            Self::OutOfOrder(pipeline) => {
                if let Some(prepared) = descriptions.of(insn) {
                    pipeline.begins(prepared, fetch.linear);
                }
            }
            Self::Multithreaded(core) => core.begins(),
            Self::InOrder(_) | Self::NotMade => {}
        }
    }

    /// An instruction begins of a thread that takes turns with others.
    #[inline(always)]
    pub(super) fn begins_apart(&mut self) {
        if let Self::Multithreaded(core) = self {
            core.begins();
        }
    }

    /// Its fetch took so many cycles more than hits.
    pub(super) fn fetched(&mut self, cycles: u64) {
        match self {
            Self::InOrder(pipeline) => pipeline.fetched(cycles),
            Self::OutOfOrder(pipeline) => pipeline.fetched(cycles),
            Self::Multithreaded(core) => core.fetched(cycles),
            Self::NotMade => {}
        }
    }

    /// It, or a delivery, accessed memory.
    #[inline(always)]
    pub(super) fn accessed(&mut self, cpu: &Cpu, access: &DataAccess, cycles: AccessCycles) {
        match self {
            Self::InOrder(pipeline) => pipeline.accessed(cpu, access, cycles),
            Self::OutOfOrder(pipeline) => pipeline.accessed(cpu, access, cycles),
            Self::Multithreaded(core) => core.accessed(cpu, access, cycles),
            Self::NotMade => {}
        }
    }

    /// It transferred control.
    pub(super) fn branched(&mut self, taken: bool, prediction: Outcome) {
        match self {
            Self::InOrder(pipeline) => pipeline.branched(taken, prediction),
            Self::OutOfOrder(pipeline) => pipeline.branched(taken, prediction),
            Self::Multithreaded(core) => core.branched(taken, prediction),
            Self::NotMade => {}
        }
    }

    /// The numbers of it were out of the ordinary.
    pub(super) fn assisted(&mut self, cases: FloatCases) {
        if let Self::OutOfOrder(pipeline) = self {
            pipeline.assisted(cases);
        }
    }

    /// Iterations of it are finished, and more may follow.
    pub(super) fn iterated(
        &mut self,
        descriptions: &Descriptions,
        insn: &Insn,
        occurrences: &mut Occurrences,
    ) {
        if let Self::OutOfOrder(pipeline) = self
            && let Some(prepared) = descriptions.of(insn)
        {
            pipeline.iterated(prepared, occurrences);
        }
    }

    /// It retired, on this processor. Whether another thread of the core comes next.
    #[inline(always)]
    pub(super) fn retired(
        &mut self,
        descriptions: &Descriptions,
        cpu: &Cpu,
        insn: &Insn,
        system: &mut System,
        processor: usize,
    ) -> bool {
        let restart = system.take_restart_of_running();
        match self {
            Self::OutOfOrder(pipeline) => {
                if let Some(prepared) = descriptions.of(insn) {
                    pipeline.retired(prepared, restart, system.occurrences(processor));
                }
                if insn.op == Operation::Hlt {
                    pipeline.halted();
                }
            }
            Self::InOrder(pipeline) => {
                if let Some(description) = descriptions.in_order(insn) {
                    pipeline.retired(description, cpu, insn, system.occurrences(processor));
                }
            }
            Self::Multithreaded(core) => {
                if let Some(description) = descriptions.in_order(insn) {
                    return core.retired(description, cpu, insn, system, processor);
                }
            }
            Self::NotMade => {}
        }
        false
    }

    /// An exception or a hardware interrupt is about to be delivered.
    pub(super) fn delivering(&mut self, occurrences: &mut Occurrences) {
        if let Self::OutOfOrder(pipeline) = self {
            pipeline.delivering(occurrences);
        }
    }

    /// An exception or a hardware interrupt was delivered, on this processor. Whether another thread of the core
    /// comes next.
    pub(super) fn delivered(&mut self, system: &mut System, processor: usize) -> bool {
        match self {
            Self::InOrder(pipeline) => pipeline.delivered(),
            Self::OutOfOrder(pipeline) => pipeline.delivered(system.occurrences(processor)),
            Self::Multithreaded(core) => return core.delivered(system, processor),
            Self::NotMade => {}
        }
        false
    }
}

impl Pipeline {
    /// Saves it or loads it, as [`State::visit`] does; one that was not made there is not made here either.
    pub(super) fn visit<V: Visitor>(&mut self, visitor: &mut V, of: &part::Pipeline) {
        let mut made = !matches!(self, Self::NotMade);
        made.visit(visitor);
        match made {
            true => self.make(of),
            false => *self = Self::NotMade,
        }
        match self {
            Self::InOrder(pipeline) => pipeline.visit(visitor),
            Self::OutOfOrder(pipeline) => pipeline.visit(visitor),
            Self::Multithreaded(core) => core.visit(visitor),
            Self::NotMade => {}
        }
    }
}
