//! What a processor of the software engine has traced ([`crate::trace`]). With no tracer, nothing is done.

use pmu_model::Pmis;

use super::outside::Outside;
use crate::trace::{Access, Act};

impl Outside<'_, '_> {
    /// Traces RDMSR, or WRMSR of this value, if it is of a register of the PMU.
    #[cold]
    pub(super) fn trace_msr(
        &mut self,
        index: u32,
        written: Option<u64>,
        outcome: Result<u64, Access>,
    ) {
        let act = Act::msr(self.pmu.personality(), index, written, outcome);
        if let Some(act) = act {
            self.board.trace(self.id, self.place, act);
        }
    }

    /// Traces RDPMC of a counter, which gave this value or was refused.
    #[cold]
    pub(super) fn trace_rdpmc(&mut self, counter: u32, value: Option<u64>) {
        let select = self.pmu.select(counter as usize);
        let word = select.map_or(0, |select| select.word);
        self.board.trace(self.id, self.place, Act::Rdpmc { counter, value, word });
    }

    /// Traces the overflows of the processor's own counters, of which `pmis` assert interrupts.
    pub(super) fn trace_overflows(&mut self, pmis: Pmis) {
        if let Some(tracer) = &mut self.board.tracer {
            for act in Act::overflows(self.pmu, pmis) {
                tracer.report(self.id, self.place, act);
            }
        }
    }
}
