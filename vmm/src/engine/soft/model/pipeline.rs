//! The pipeline of a processor, of whichever kind its part has.

use uarch::branch::Outcome;
use uarch::occurrences::Occurrences;
use uarch::part;
use uarch::system::{AccessCycles, DataAccess};
use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::FloatCases;
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;
use x86_cpu::watch::Fetch;

use super::in_order::InOrder;
use super::out_of_order::{self, OutOfOrder};

/// A pipeline.
pub(super) enum Pipeline {
    /// One that executes instructions in order.
    InOrder(Box<InOrder>),
    /// One that executes them as their operands are there.
    OutOfOrder(Box<OutOfOrder>),
    /// The part has no model of one: nothing is told to it.
    Unmodelled,
}

/// Whose blocks execution goes through: blocks of different caches may have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft) enum Cache {
    /// Those of the models.
    Models,
    /// Those of the models where pipelines keep the time.
    Timed,
    /// Those of the recorder with the models.
    Recorded,
    /// The same where pipelines keep the time.
    RecordedAndTimed,
}

impl Cache {
    /// How many there are.
    pub(super) const COUNT: usize = Self::RecordedAndTimed as usize + 1;
}

/// What the pipelines of a machine know of instructions before they execute; those in order find it by the
/// instructions' bytes.
pub(super) struct Descriptions(Option<Box<out_of_order::Descriptions>>);

impl Descriptions {
    pub(super) fn new(of: &part::Pipeline) -> Self {
        Self(match of {
            part::Pipeline::InOrder { .. } | part::Pipeline::Unmodelled => None,
            part::Pipeline::OutOfOrder(core) => {
                Some(Box::new(out_of_order::Descriptions::new(core)))
            }
        })
    }

    /// Blocks come from this cache of translations.
    pub(super) fn choose(&mut self, cache: Cache) {
        if let Some(descriptions) = &mut self.0 {
            descriptions.choose(cache);
        }
    }

    /// A block is entered.
    #[inline(always)]
    pub(super) fn entered(&mut self, cpu: &Cpu, block: &impl Code) {
        if let Some(descriptions) = &mut self.0 {
            descriptions.entered(cpu, block);
        }
    }
}

impl Pipeline {
    /// An empty one.
    pub(super) fn new(of: &part::Pipeline) -> Self {
        match *of {
            part::Pipeline::InOrder { parameters, rows_of } => {
                Self::InOrder(Box::new(InOrder::new(parameters, rows_of)))
            }
            part::Pipeline::OutOfOrder(core) => Self::OutOfOrder(Box::new(OutOfOrder::new(core))),
            part::Pipeline::Unmodelled => Self::Unmodelled,
        }
    }

    /// What follows is told of.
    pub(super) fn resume(&mut self, cpu: &Cpu) {
        match self {
            Self::InOrder(pipeline) => pipeline.resume(cpu),
            Self::OutOfOrder(pipeline) => pipeline.resume(cpu),
            Self::Unmodelled => {}
        }
    }

    /// What follows may not be told of.
    pub(super) fn suspend(&mut self, cpu: &Cpu) {
        match self {
            Self::InOrder(pipeline) => pipeline.suspend(cpu),
            Self::OutOfOrder(pipeline) => pipeline.suspend(cpu),
            Self::Unmodelled => {}
        }
    }

    /// The clock by which the running instruction asks caches and bus for something.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        match self {
            Self::InOrder(pipeline) => pipeline.time(),
            Self::OutOfOrder(pipeline) => pipeline.time(),
            Self::Unmodelled => 0,
        }
    }

    /// The clock of what has been executed.
    #[inline(always)]
    pub(super) fn clock(&self) -> u64 {
        match self {
            Self::InOrder(pipeline) => pipeline.clock(),
            Self::OutOfOrder(pipeline) => pipeline.clock(),
            Self::Unmodelled => 0,
        }
    }

    /// Nothing is executed until a cycle, if that is to come.
    pub(super) fn idle_until(&mut self, cycle: u64) {
        match self {
            Self::InOrder(pipeline) => pipeline.idle_until(cycle),
            Self::OutOfOrder(pipeline) => pipeline.idle_until(cycle),
            Self::Unmodelled => {}
        }
    }

    /// An instruction begins.
    #[inline(always)]
    pub(super) fn begins(
        &mut self,
        descriptions: &Descriptions,
        cpu: &Cpu,
        ram: &Ram,
        insn: &Insn,
        fetch: &Fetch,
    ) {
        match self {
            Self::InOrder(pipeline) => pipeline.begins(cpu, ram, fetch),
            Self::OutOfOrder(pipeline) => {
                if let Some(prepared) = descriptions.of(insn) {
                    pipeline.begins(prepared, fetch.linear);
                }
            }
            Self::Unmodelled => {}
        }
    }

    /// Its fetch took so many cycles more than hits.
    pub(super) fn fetched(&mut self, cycles: u64) {
        match self {
            Self::InOrder(pipeline) => pipeline.fetched(cycles),
            Self::OutOfOrder(pipeline) => pipeline.fetched(cycles),
            Self::Unmodelled => {}
        }
    }

    /// It, or a delivery, accessed memory.
    #[inline(always)]
    pub(super) fn accessed(&mut self, cpu: &Cpu, access: &DataAccess, cycles: AccessCycles) {
        match self {
            Self::InOrder(pipeline) => pipeline.accessed(cpu, access, cycles),
            Self::OutOfOrder(pipeline) => pipeline.accessed(cpu, access, cycles),
            Self::Unmodelled => {}
        }
    }

    /// It transferred control.
    pub(super) fn branched(&mut self, taken: bool, prediction: Outcome) {
        match self {
            Self::InOrder(pipeline) => pipeline.branched(taken, prediction),
            Self::OutOfOrder(pipeline) => pipeline.branched(taken, prediction),
            Self::Unmodelled => {}
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

    /// It retired. What was fetched behind it is dropped if it is to `restart`.
    #[inline(always)]
    pub(super) fn retired(
        &mut self,
        descriptions: &Descriptions,
        cpu: &Cpu,
        insn: &Insn,
        restart: bool,
        occurrences: &mut Occurrences,
    ) {
        match self {
            Self::InOrder(pipeline) => pipeline.retired(cpu, insn, occurrences),
            Self::OutOfOrder(pipeline) => {
                if let Some(prepared) = descriptions.of(insn) {
                    pipeline.retired(prepared, restart, occurrences);
                }
                if insn.op == Operation::Hlt {
                    pipeline.halted();
                }
            }
            Self::Unmodelled => {}
        }
    }

    /// An exception or a hardware interrupt is about to be delivered.
    pub(super) fn delivering(&mut self, occurrences: &mut Occurrences) {
        if let Self::OutOfOrder(pipeline) = self {
            pipeline.delivering(occurrences);
        }
    }

    /// An exception or a hardware interrupt was delivered.
    pub(super) fn delivered(&mut self, occurrences: &mut Occurrences) {
        match self {
            Self::InOrder(pipeline) => pipeline.delivered(),
            Self::OutOfOrder(pipeline) => pipeline.delivered(occurrences),
            Self::Unmodelled => {}
        }
    }
}

impl Descriptions {
    /// What an out-of-order pipeline knows of an instruction of the running block.
    #[inline(always)]
    fn of(&self, insn: &Insn) -> Option<&out_of_order::Prepared> {
        self.0.as_ref()?.instruction(insn)
    }
}
