//! What a processor of the software engine has traced ([`crate::trace`]). With no tracer, nothing is done.

use pmu_model::Pmis;

use super::outside::Outside;
use crate::trace::{Access, Act, MsrAccess};

impl Outside<'_, '_> {
    /// RDMSR, or WRMSR of this value, that is about to be executed, if it is traced.
    pub(super) fn msr_access(&self, index: u32, written: Option<u64>) -> Option<MsrAccess> {
        self.board.tracer.as_ref()?;
        let lapic_enabled = self.board.chipset.irq.lapic(self.id).hardware_enabled();
        let outcome = Err(Access::Refused);
        Some(MsrAccess { index, written, outcome, lapic_enabled })
    }

    /// Traces it.
    #[cold]
    pub(super) fn trace_msr(&mut self, access: MsrAccess, outcome: Result<u64, Access>) {
        let access = MsrAccess { outcome, ..access };
        access.trace(self.board, self.id, self.place.into());
    }

    /// Traces RDPMC of a counter, which gave this value or was refused.
    #[cold]
    pub(super) fn trace_rdpmc(&mut self, counter: u32, value: Option<u64>) {
        let select = self.pmu.select(counter as usize);
        let word = select.map_or(0, |select| select.word);
        self.board.trace(self.id, self.place, Act::Rdpmc { counter, value, word });
    }

    /// Traces the overflows of the processor's own counters, of which `pmis` assert interrupts.
    #[inline(always)]
    pub(super) fn trace_overflows(&mut self, pmis: Pmis) {
        if self.board.tracer.is_some() {
            self.report_overflows(pmis);
        }
    }

    #[cold]
    fn report_overflows(&mut self, pmis: Pmis) {
        if let Some(tracer) = &mut self.board.tracer {
            for act in Act::overflows(self.pmu, pmis) {
                tracer.report(self.id, self.place, act);
            }
        }
    }
}
