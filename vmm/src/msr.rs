//! Model-specific registers beyond the processor core's own: who has which.

use pmu_model::{MsrAccess, Pmu};
use x86_cpu::bus::Refused;

use crate::irq::Change;
use crate::platform::MsrBank;

/// Time-stamp counter.
pub const TSC: u32 = 0x10;
/// Base address and enable bits of the local APIC.
pub const APIC_BASE: u32 = 0x1B;

/// The register space of one processor. They are asked in this order: time-stamp counter, local APIC,
/// PMU, the platform's bank. A register that none of them has is #GP.
pub struct MsrSpace<'a> {
    /// Has `APIC_BASE`.
    pub lapic: Change<'a>,
    /// Has the event selects and counters.
    pub pmu: &'a mut Pmu,
    /// Has the rest.
    pub bank: &'a mut MsrBank,
    /// By how many cycles the time-stamp counter is ahead of virtual time.
    pub tsc_offset: &'a mut u64,
}

impl MsrSpace<'_> {
    /// Whether a register of the platform requires a passcode that EDI does not hold.
    fn lacks_passcode(&self, index: u32, edi: u32) -> bool {
        self.bank.passcode(index).is_some_and(|passcode| passcode != edi)
    }

    /// RDMSR at virtual time `time`, with `edi` in EDI.
    ///
    /// # Errors
    /// #GP: no such register, or it cannot be read.
    pub fn read(&self, time: u64, index: u32, edi: u32) -> Result<u64, Refused> {
        match index {
            TSC => return Ok(time.wrapping_add(*self.tsc_offset)),
            APIC_BASE if self.lapic.has_base_msr() => return Ok(self.lapic.base()),
            _ => {}
        }
        match self.pmu.read_msr(index) {
            MsrAccess::Done(value) => return Ok(value),
            MsrAccess::GpFault => return Err(Refused),
            MsrAccess::NotOurs => {}
        }
        match self.bank.read(index) {
            MsrAccess::Done(_) if self.lacks_passcode(index, edi) => Err(Refused),
            MsrAccess::Done(value) => Ok(value),
            MsrAccess::GpFault | MsrAccess::NotOurs => {
                log::debug!("RDMSR {index:#x}: #GP");
                Err(Refused)
            }
        }
    }

    /// WRMSR at virtual time `time`, with `edi` in EDI.
    ///
    /// # Errors
    /// #GP: no such register, or not this value.
    pub fn write(&mut self, time: u64, index: u32, value: u64, edi: u32) -> Result<(), Refused> {
        match index {
            TSC => {
                *self.tsc_offset = value.wrapping_sub(time);
                return Ok(());
            }
            APIC_BASE if self.lapic.has_base_msr() => return self.lapic.set_base(value),
            _ => {}
        }
        match self.pmu.write_msr(index, value) {
            MsrAccess::Done(()) => return Ok(()),
            MsrAccess::GpFault => return Err(Refused),
            MsrAccess::NotOurs => {}
        }
        if self.lacks_passcode(index, edi) {
            return Err(Refused);
        }
        match self.bank.write(index, value) {
            MsrAccess::Done(()) => Ok(()),
            MsrAccess::GpFault | MsrAccess::NotOurs => {
                log::debug!("WRMSR {index:#x} = {value:#x}: #GP");
                Err(Refused)
            }
        }
    }
}
