//! The model-specific registers that belong to the processor core (AMD64 APM volume 2, appendix A).
//! All others are outside: [`crate::bus::Bus::rdmsr`].

use crate::{
    access::is_canonical,
    control_registers::{cr0, efer},
    cpu::Cpu,
    features::Features,
    insn::seg,
    stop::{Exec, Stop},
};

/// The registers of the core that are not part of another one's state: in the table those with
/// `Place::Own`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs, reason = "the names of the manual")]
pub struct CoreMsrs {
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    pub kernel_gs_base: u64,
    pub sysenter_cs: u64,
    pub sysenter_esp: u64,
    pub sysenter_eip: u64,
}

/// Where the value of a register is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In [`CoreMsrs`].
    Own { read: fn(&CoreMsrs) -> u64, write: fn(&mut CoreMsrs, u64) },
    /// EFER, whose bits have rules of their own.
    Efer,
    /// The base of a segment register, by [`seg`].
    Base(u8),
}

/// A field of [`CoreMsrs`].
macro_rules! own {
    ($field:ident) => {
        Place::Own { read: |msrs| msrs.$field, write: |msrs, value| msrs.$field = value }
    };
}

/// A register of the processor core. All are zero after reset and INIT.
#[derive(Clone, Copy, Debug)]
pub struct CoreMsr {
    /// ECX of RDMSR and WRMSR.
    pub index: u32,
    /// The manual's name.
    pub name: &'static str,
    place: Place,
    /// Which processors have it. On others it is none of the core's.
    has: fn(&Features) -> bool,
    /// On which it takes nothing but canonical addresses; else #GP(0).
    is_address: fn(&Features) -> bool,
    /// Bits that a write changes; the others are ignored and read as zero.
    stored: u64,
}

const NEVER: fn(&Features) -> bool = |_| false;
const ALWAYS: fn(&Features) -> bool = |_| true;
/// Where long mode uses all bits of the register (SDM volume 2, "WRMSR").
const SYSENTER_ADDRESS: fn(&Features) -> bool = |f| f.long_mode && f.sysenter_in_long_mode;

/// A row of the table, of a register that has all 64 bits.
const fn row(
    index: u32,
    name: &'static str,
    place: Place,
    has: fn(&Features) -> bool,
    is_address: fn(&Features) -> bool,
) -> CoreMsr {
    CoreMsr { index, name, place, has, is_address, stored: u64::MAX }
}

impl CoreMsr {
    /// All of them, ascending.
    pub const ALL: [Self; 11] = [
        row(0x174, "SYSENTER_CS", own!(sysenter_cs), |f| f.sep, NEVER),
        row(0x175, "SYSENTER_ESP", own!(sysenter_esp), |f| f.sep, SYSENTER_ADDRESS),
        row(0x176, "SYSENTER_EIP", own!(sysenter_eip), |f| f.sep, SYSENTER_ADDRESS),
        row(0xc000_0080, "EFER", Place::Efer, |f| f.syscall, NEVER),
        row(0xc000_0081, "STAR", own!(star), |f| f.syscall, NEVER),
        row(0xc000_0082, "LSTAR", own!(lstar), |f| f.long_mode, ALWAYS),
        row(0xc000_0083, "CSTAR", own!(cstar), |f| f.long_mode, ALWAYS),
        CoreMsr {
            stored: 0xffff_ffff,
            ..row(0xc000_0084, "SFMASK", own!(sfmask), |f| f.long_mode, NEVER)
        },
        row(0xc000_0100, "FS_BASE", Place::Base(seg::FS), |f| f.long_mode, ALWAYS),
        row(0xc000_0101, "GS_BASE", Place::Base(seg::GS), |f| f.long_mode, ALWAYS),
        row(0xc000_0102, "KERNEL_GS_BASE", own!(kernel_gs_base), |f| f.long_mode, ALWAYS),
    ];

    /// Those that a processor has.
    pub fn of(features: &Features) -> impl Iterator<Item = &'static Self> {
        Self::ALL.iter().filter(|register| (register.has)(features))
    }

    /// The register with this index, if a processor has it.
    pub(crate) fn find(index: u32, features: &Features) -> Option<&'static Self> {
        let register = Self::ALL.iter().find(|register| register.index == index)?;
        (register.has)(features).then_some(register)
    }

    /// RDMSR.
    pub(crate) fn read(&self, cpu: &Cpu) -> u64 {
        match self.place {
            Place::Own { read, .. } => read(&cpu.msrs),
            Place::Efer => cpu.efer,
            Place::Base(n) => cpu.segment(n).base,
        }
    }

    /// WRMSR.
    ///
    /// # Errors
    /// #GP(0) for a value that it cannot take.
    pub(crate) fn write(&self, cpu: &mut Cpu, value: u64) -> Exec<()> {
        if (self.is_address)(&cpu.features) && !is_canonical(value) {
            return Err(Stop::GP0);
        }
        match self.place {
            Place::Own { write, .. } => write(&mut cpu.msrs, value & self.stored),
            Place::Efer => cpu.write_efer(value)?,
            Place::Base(n) => cpu.set_segment_base(n, value),
        }
        Ok(())
    }
}

impl CoreMsrs {
    /// Index and value of each, ascending.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u64)> {
        CoreMsr::ALL.iter().filter_map(|register| match register.place {
            Place::Own { read, .. } => Some((register.index, read(self))),
            Place::Efer | Place::Base(_) => None,
        })
    }

    /// Sets the register with this index to a value that a processor has held; nothing if it is not
    /// one of these.
    pub fn set(&mut self, index: u32, value: u64) {
        let register = CoreMsr::ALL.iter().find(|register| register.index == index);
        if let Some(CoreMsr { place: Place::Own { write, .. }, .. }) = register {
            write(self, value);
        }
    }
}

impl Cpu {
    /// The value of a register of the core, by ECX of RDMSR; `None` if the core has no such register.
    #[must_use]
    pub fn core_msr(&self, index: u32) -> Option<u64> {
        CoreMsr::find(index, &self.features).map(|register| register.read(self))
    }

    /// Writes a register of the core, as WRMSR does; whether it takes the value, or `None` if the core has no such
    /// register.
    pub fn set_core_msr(&mut self, index: u32, value: u64) -> Option<bool> {
        let register = CoreMsr::find(index, &self.features)?;
        Some(register.write(self, value).is_ok())
    }

    /// EFER: LMA cannot be written, LME not while paging is on; bits that the processor lacks must
    /// be zero.
    fn write_efer(&mut self, value: u64) -> Exec<()> {
        let mut writable = efer::SCE;
        if self.features.long_mode {
            writable |= efer::LME;
        }
        if self.features.nx {
            writable |= efer::NXE;
        }
        if self.features.ffxsr {
            writable |= efer::FFXSR;
        }
        if value & !(writable | efer::LMA) != 0 {
            return Err(Stop::GP0);
        }
        let changed = (self.efer ^ value) & writable;
        if changed & efer::LME != 0 && self.cr0 & cr0::PG != 0 {
            return Err(Stop::GP0);
        }
        self.efer = self.efer & efer::LMA | value & writable;
        if changed & efer::NXE != 0 {
            self.tlb.flush_all();
        }
        Ok(())
    }

    /// Sets the base of a segment register.
    pub(crate) fn set_segment_base(&mut self, n: u8, base: u64) {
        let mut segment = *self.segment(n);
        segment.base = base;
        self.set_segment(n, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(CoreMsr::ALL.is_sorted_by(|a, b| a.index < b.index));
    }

    /// Each entry names its own field: the registers that are not elsewhere, by AMD64 APM volume 2,
    /// appendix A.
    #[test]
    fn entries_are_the_fields() {
        let msrs = CoreMsrs {
            sysenter_cs: 1,
            sysenter_esp: 2,
            sysenter_eip: 3,
            star: 4,
            lstar: 5,
            cstar: 6,
            sfmask: 7,
            kernel_gs_base: 8,
        };
        let entries: Vec<_> = msrs.entries().collect();
        let expected = [
            (0x174, 1),
            (0x175, 2),
            (0x176, 3),
            (0xc000_0081, 4),
            (0xc000_0082, 5),
            (0xc000_0083, 6),
            (0xc000_0084, 7),
            (0xc000_0102, 8),
        ];
        assert_eq!(entries, expected);
        let mut again = CoreMsrs::default();
        entries.iter().for_each(|&(index, value)| again.set(index, value));
        again.set(0xc000_0080, 9);
        assert_eq!(again, msrs);
    }
}
