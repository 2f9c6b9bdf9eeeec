//! What a guest does to its local APIC that matters to the interrupts of counters.

use super::{Act, At, LvtpcChange};
use crate::engine::Board;
use crate::irq::lapic_registers::offset;

/// The page of the local APIC.
const PAGE: u64 = 0x1000;

/// A local APIC before its register page is written.
pub(crate) struct LapicAccess {
    offset: u32,
    lvtpc: u32,
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
            in_service: lapic.in_service(),
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
                    tracer.ends(vcpu, at, vector);
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

/// Traces a WRMSR of IA32_APIC_BASE, before which the local APIC was `enabled` or not, if it is the other way
/// round now.
pub(crate) fn apic_base(board: &mut Board, vcpu: usize, at: At, value: u64, enabled: bool) {
    let lapic = board.chipset.irq.lapic(vcpu);
    let (now, entry) = (lapic.hardware_enabled(), lapic.lvtpc());
    let Some(tracer) = board.tracer.as_mut().filter(|_| now != enabled) else { return };
    tracer.report(vcpu, at, Act::ApicBase { value, enabled: now });
    if !now {
        tracer.report(vcpu, at, Act::Lvtpc { entry, by: LvtpcChange::Disabled });
        tracer.forget(vcpu);
    }
}
