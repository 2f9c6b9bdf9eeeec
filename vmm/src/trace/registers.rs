//! What a guest does to registers that matters to the counters and their interrupts.

use super::{Access, Act, At, LvtpcChange};
use crate::engine::Board;
use crate::irq::lapic_registers::offset;
use crate::msr::APIC_BASE;

/// The page of the local APIC.
const PAGE: u64 = 0x1000;

/// A local APIC before its register page is written.
pub(crate) struct LapicAccess {
    offset: u32,
    lvtpc: u32,
    /// The vector of a counter that EOI would end.
    in_service: Option<u8>,
}

impl LapicAccess {
    /// That of processor `vcpu`, which writes at a guest-physical address; `None` if nothing is traced, or
    /// something else is there.
    pub(crate) fn before(board: &Board, vcpu: usize, gpa: u64) -> Option<Self> {
        board.tracer.as_ref()?;
        let lapic = board.chipset.irq.lapic(vcpu);
        let within = gpa & (PAGE - 1);
        (lapic.page() == Some(gpa - within)).then(|| Self {
            offset: within as u32 & !3,
            lvtpc: lapic.lvtpc(),
            in_service: lapic.pmi_in_service(),
        })
    }

    /// Traces what the write has done.
    pub(crate) fn trace(self, board: &mut Board, vcpu: usize, at: At) {
        let lapic = board.chipset.irq.lapic(vcpu);
        let entry = lapic.lvtpc();
        let Some(tracer) = &mut board.tracer else { return };
        match self.offset {
            offset::EOI => {
                if let Some(vector) = self.in_service {
                    tracer.report(vcpu, at, Act::Eoi { vector });
                }
            }
            offset::LVTPC if lapic.has_lvtpc() => {
                tracer.report(vcpu, at, Act::Lvtpc { entry, by: LvtpcChange::Written });
            }
            _ if entry != self.lvtpc => {
                tracer.report(vcpu, at, Act::Lvtpc { entry, by: LvtpcChange::Disabled });
            }
            _ => {}
        }
    }
}

/// RDMSR or WRMSR, by whichever engine.
#[derive(Clone, Copy)]
pub(crate) struct MsrAccess {
    /// ECX.
    pub(crate) index: u32,
    /// What was to be written; `None` of RDMSR.
    pub(crate) written: Option<u64>,
    /// What was read or written, or why not.
    pub(crate) outcome: Result<u64, Access>,
    /// Whether IA32_APIC_BASE had the local APIC enabled before.
    pub(crate) lapic_enabled: bool,
}

impl MsrAccess {
    /// Traces the access if it is to a register of the PMU, or to IA32_APIC_BASE and the local APIC is there now
    /// and was not before, or the other way round.
    pub(crate) fn trace(self, board: &mut Board, vcpu: usize, at: At) {
        let Self { index, written, outcome, lapic_enabled } = self;
        let lapic = board.chipset.irq.lapic(vcpu);
        let (enabled, entry) = (lapic.hardware_enabled(), lapic.lvtpc());
        let Some(tracer) = &mut board.tracer else { return };
        tracer.stops.notice_msr(vcpu, &self);
        if let Some(act) = Act::msr(tracer.subject.personality, index, written, outcome) {
            tracer.report(vcpu, at, act);
        } else if index == APIC_BASE
            && enabled != lapic_enabled
            && let Some(value) = written
        {
            tracer.report(vcpu, at, Act::ApicBase { value, enabled });
            if !enabled {
                tracer.report(vcpu, at, Act::Lvtpc { entry, by: LvtpcChange::Disabled });
            }
        }
    }
}
