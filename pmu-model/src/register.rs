//! Registers of a PMU: what each is, and what it holds.

use crate::personality::MAX_COUNTERS;
use crate::pmu::MsrAccess;

/// One field of a register: where it is, what it is called, what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Field {
    /// Name in the manual.
    pub name: &'static str,
    /// Highest bit.
    pub high: u8,
    /// Lowest bit.
    pub low: u8,
    /// What it does, in a few words.
    pub meaning: &'static str,
}

impl Field {
    /// The field's bits in place.
    pub const fn mask(&self) -> u64 {
        (u64::MAX >> (63 - (self.high - self.low))) << self.low
    }

    /// The field's value in `register`.
    pub const fn extract(&self, register: u64) -> u64 {
        (register & self.mask()) >> self.low
    }
}

/// What a register does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RegisterKind {
    /// Event select of the counter with this index.
    Evtsel(usize),
    /// Counter with this index.
    Perfctr(usize),
    /// Control and event select of both counters of a Pentium.
    Cesr,
    /// Which counters obey the user preference that SPFLT sets, and that preference.
    SpfltControl,
    /// Overflows since they were last cleared.
    GlobalStatus,
    /// Clears bits of the status.
    GlobalOvfCtrl,
    /// Master enable of each counter.
    GlobalCtrl,
}

/// Which instructions a register takes; the other raises #GP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Access {
    /// RDMSR and WRMSR.
    ReadWrite,
    /// RDMSR.
    ReadOnly,
    /// WRMSR.
    WriteOnly,
}

/// One model-specific register of a PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Register {
    /// MSR number, as in ECX of RDMSR and WRMSR.
    pub msr: u32,
    /// Name in the manual.
    pub name: &'static str,
    /// What it does.
    pub kind: RegisterKind,
    /// How it can be accessed.
    pub access: Access,
    /// Value after power-up and after RESET.
    pub reset: u64,
    /// Bits that a write changes; the others are ignored and read as zero.
    pub stored: u64,
    /// Bits that raise #GP when written with 1.
    pub faulting: u64,
    /// Every field, from bit 0 up, without gaps.
    pub fields: &'static [Field],
}

impl Register {
    /// What a WRMSR of `value` would do.
    #[inline]
    pub(crate) fn judge_write(&self, value: u64) -> MsrAccess<()> {
        match self.access == Access::ReadOnly || value & self.faulting != 0 {
            true => MsrAccess::GpFault,
            false => MsrAccess::Done(()),
        }
    }
}

/// What a write to a counter sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PerfctrWrite {
    /// Every bit of the counter.
    Whole,
    /// Bits 31:0; those above become copies of bit 31, whatever is written there.
    SignExtended32,
}

impl PerfctrWrite {
    /// What a counter with these bits holds after a write of `value`.
    pub(crate) const fn apply(self, value: u64, mask: u64) -> u64 {
        match self {
            PerfctrWrite::Whole => value & mask,
            PerfctrWrite::SignExtended32 => value as i32 as i64 as u64 & mask,
        }
    }
}

/// What the registers of one logical processor hold. Those that its personality lacks stay zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Registers {
    /// Event selects.
    pub evtsel: [u64; MAX_COUNTERS],
    /// Counters.
    pub perfctr: [u64; MAX_COUNTERS],
    /// CESR.
    pub cesr: u64,
    /// `PERF_SPFLT_CONTROL`.
    pub spflt_control: u64,
    /// `IA32_PERF_GLOBAL_STATUS`.
    pub global_status: u64,
    /// `IA32_PERF_GLOBAL_CTRL`.
    pub global_ctrl: u64,
}

impl Registers {
    /// What a register holds; zero for one that holds nothing.
    #[inline]
    pub(crate) fn get(&self, kind: RegisterKind) -> u64 {
        match kind {
            RegisterKind::Evtsel(i) => self.evtsel[i],
            RegisterKind::Perfctr(i) => self.perfctr[i],
            RegisterKind::Cesr => self.cesr,
            RegisterKind::SpfltControl => self.spflt_control,
            RegisterKind::GlobalStatus => self.global_status,
            RegisterKind::GlobalOvfCtrl => 0,
            RegisterKind::GlobalCtrl => self.global_ctrl,
        }
    }

    /// Sets what a register holds.
    pub(crate) fn set(&mut self, kind: RegisterKind, value: u64) {
        match kind {
            RegisterKind::Evtsel(i) => self.evtsel[i] = value,
            RegisterKind::Perfctr(i) => self.perfctr[i] = value,
            RegisterKind::Cesr => self.cesr = value,
            RegisterKind::SpfltControl => self.spflt_control = value,
            RegisterKind::GlobalStatus => self.global_status = value,
            RegisterKind::GlobalOvfCtrl => {}
            RegisterKind::GlobalCtrl => self.global_ctrl = value,
        }
    }
}
