//! The state of the models of a machine ([`uarch::state`]): of what is told of execution, and of those who tell it.

use std::sync::Arc;

use uarch::state::{LoadError, Loader, Saver, State, Visitor};

use super::{Model, Modelling, Processor};
use crate::engine::soft::Vcpu;

/// Bytes that the models were saved as, or loaded from.
pub(super) struct Saved {
    bytes: Arc<[u8]>,
    /// Where that ends in them which the models change by nothing but what they are told.
    processors_at: usize,
}

impl Modelling {
    /// The state, of the models of these processors, between two runs.
    pub(in crate::engine::soft) fn save(&mut self, vcpus: &[Vcpu]) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        let model = &mut self.observer.watch;
        model.visit_models(&mut Saver::new(&mut bytes));
        let processors_at = bytes.len();
        model.visit_processors(&mut Saver::new(&mut bytes), vcpus);
        let bytes = Arc::from(bytes);
        model.note_saved(&bytes, processors_at);
        bytes
    }

    /// Loads what was saved. The processors have their state already.
    ///
    /// # Errors
    /// It is none of these models.
    pub(in crate::engine::soft) fn load(
        &mut self,
        bytes: &Arc<[u8]>,
        vcpus: &[Vcpu],
    ) -> Result<(), LoadError> {
        let model = &mut self.observer.watch;
        // Mostly a machine goes back to where it was before.
        let saved = model.saved.as_ref().filter(|saved| Arc::ptr_eq(&saved.bytes, bytes));
        let is_known = saved.is_some();
        if let Some(saved) = saved
            && model.is_as_saved
        {
            let mut loader = Loader::of_known(&bytes[saved.processors_at..]);
            model.visit_processors(&mut loader, vcpus);
            return loader.finish();
        }
        model.is_as_saved = false;
        let mut loader = if is_known { Loader::of_known(bytes) } else { Loader::new(bytes) };
        model.visit_models(&mut loader);
        let processors_at = bytes.len() - loader.left();
        model.visit_processors(&mut loader, vcpus);
        loader.finish()?;
        model.note_saved(bytes, processors_at);
        Ok(())
    }
}

impl Model {
    fn note_saved(&mut self, bytes: &Arc<[u8]>, processors_at: usize) {
        self.saved = Some(Saved { bytes: bytes.clone(), processors_at });
        self.is_as_saved = true;
    }

    /// What nobody changes who does not say so ([`Model::is_as_saved`]).
    fn visit_models<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            system,
            part,
            pipelines,
            hands_over,
            // See `visit_processors`.
            processors: _,
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
            // What this is for.
            saved: _,
            is_as_saved: _,
            // Of turns, between which nothing is saved.
            asides: _,
            observed_apart: _,
        } = self;
        system.visit(visitor);
        pipelines.visit_with(visitor, |pipeline, visitor| pipeline.visit(visitor, &part.pipeline));
        hands_over.visit(visitor);
    }

    /// The rest, part of which is how far what they know is behind what the processors are at.
    fn visit_processors<V: Visitor>(&mut self, visitor: &mut V, vcpus: &[Vcpu]) {
        for (processor, vcpu) in self.processors.iter_mut().zip(vcpus) {
            processor.visit(visitor, vcpu);
        }
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
        // The bank has been put back already: if it holds what it did when these were worked out, they still hold.
        let are_current = *as_of == vcpu.bank.writes();
        let mut is_known = are_current;
        is_known.visit(visitor);
        if V::LOADS {
            if !are_current {
                *memory_types = crate::platform::MemoryTypes::new(&vcpu.bank);
            }
            *as_of = vcpu.bank.writes().wrapping_sub(u64::from(!is_known));
        }
    }
}
