//! The state of the models of a machine ([`uarch::state`]): of what is told of execution, and of those who tell it.

use uarch::state::{LoadError, Loader, Saver, State, Visitor};

use super::{Model, Modelling, Processor};
use crate::engine::soft::Vcpu;

impl Modelling {
    /// The state, of the models of these processors, between two runs.
    pub(in crate::engine::soft) fn save(&mut self, vcpus: &[Vcpu]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.observer.watch.visit(&mut Saver::new(&mut bytes), vcpus);
        bytes
    }

    /// Loads what was saved. The processors have their state already.
    ///
    /// # Errors
    /// It is none of these models.
    pub(in crate::engine::soft) fn load(
        &mut self,
        bytes: &[u8],
        vcpus: &[Vcpu],
    ) -> Result<(), LoadError> {
        let mut loader = Loader::new(bytes);
        self.observer.watch.visit(&mut loader, vcpus);
        loader.finish()
    }
}

impl Model {
    fn visit<V: Visitor>(&mut self, visitor: &mut V, vcpus: &[Vcpu]) {
        let Self {
            system,
            part,
            processors,
            pipelines,
            hands_over,
            // As each run says when it begins.
            running: _,
            epoch: _,
            runs_pipelines: _,
            keeps_time: _,
            told: _,
            ahead: _,
            internal_page: _,
            // Known of instructions before they execute.
            descriptions: _,
            // Of the running block and the running instruction.
            is_fetched: _,
            fetches_rest: _,
        } = self;
        system.visit(visitor);
        for (processor, vcpu) in processors.iter_mut().zip(vcpus) {
            processor.visit(visitor, vcpu);
        }
        pipelines.visit_with(visitor, |pipeline, visitor| pipeline.visit(visitor, &part.pipeline));
        hands_over.visit(visitor);
    }
}

impl Processor {
    fn visit<V: Visitor>(&mut self, visitor: &mut V, vcpu: &Vcpu) {
        let Self {
            clock,
            ahead,
            ended,
            memory_types,
            as_of,
            epochs,
            told_until,
            paging,
            cache_disable,
        } = self;
        visitor.name("Processor");
        for cycle in [clock, ahead, ended] {
            visitor.cycles(std::slice::from_mut(cycle));
        }
        told_until.visit(visitor);
        paging.visit(visitor);
        cache_disable.visit(visitor);
        // What has happened since they were last told of it; the numbers themselves are the run's.
        let now = vcpu.cpu.translation_epochs();
        for (seen, now) in epochs.iter_mut().zip(now) {
            let mut behind = now.wrapping_sub(*seen);
            behind.visit(visitor);
            *seen = now.wrapping_sub(behind);
        }
        let mut is_known = *as_of == vcpu.bank.writes();
        is_known.visit(visitor);
        if V::LOADS {
            *memory_types = crate::platform::MemoryTypes::new(&vcpu.bank);
            *as_of = vcpu.bank.writes().wrapping_sub(u64::from(!is_known));
        }
    }
}
