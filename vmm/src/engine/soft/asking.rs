//! What the counters of all processors ask for, so that a processor about to run does not have to ask the
//! others one by one.

use super::model::Detail;
use super::vcpu::Vcpu;
use crate::processor_set::ProcessorSet;

/// Who asks for what, as of the last look at each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asking {
    /// Those with a counter enabled, or with a PMI on its way.
    counting: ProcessorSet,
    /// Those that count what models tell.
    models: ProcessorSet,
    /// Those that count what pipelines tell.
    pipelines: ProcessorSet,
}

impl Asking {
    /// A processor asks for this now.
    pub(super) fn note(&mut self, vcpu: &Vcpu, asked: Detail) {
        self.counting.assign(vcpu.id, vcpu.has_counters_enabled());
        self.models.assign(vcpu.id, asked.models);
        self.pipelines.assign(vcpu.id, asked.pipelines);
    }

    /// Whether any processor counts.
    pub(super) fn is_counting(&self) -> bool {
        !self.counting.is_empty()
    }

    /// What all ask for, and whether one of them counts.
    pub(super) fn by_all(&self) -> (Detail, bool) {
        self.by_others(ProcessorSet::CAPACITY)
    }

    /// What all but processor `id` ask for, and whether one of them counts.
    pub(super) fn by_others(&self, id: usize) -> (Detail, bool) {
        let detail = Detail {
            models: self.models.has_other_than(id),
            pipelines: self.pipelines.has_other_than(id),
            keeps_time: false,
        };
        (detail, self.counting.has_other_than(id))
    }
}
