//! The control registers and EFER: their bits, and what the owner of a processor sees of them.

use crate::cpu::Cpu;

/// CR0 bits (AMD64 APM volume 2, section 3.1.1).
pub mod cr0 {
    #![allow(missing_docs, reason = "the names of the manual")]
    pub const PE: u64 = 1 << 0;
    pub const MP: u64 = 1 << 1;
    pub const EM: u64 = 1 << 2;
    pub const TS: u64 = 1 << 3;
    pub const ET: u64 = 1 << 4;
    pub const NE: u64 = 1 << 5;
    pub const WP: u64 = 1 << 16;
    pub const AM: u64 = 1 << 18;
    pub const NW: u64 = 1 << 29;
    pub const CD: u64 = 1 << 30;
    pub const PG: u64 = 1 << 31;
    /// Bits that can be set.
    pub const ALL: u64 = PE | MP | EM | TS | ET | NE | WP | AM | NW | CD | PG;
}

/// CR4 bits (AMD64 APM volume 2, section 3.1.3).
pub mod cr4 {
    #![allow(missing_docs, reason = "the names of the manual")]
    pub const VME: u64 = 1 << 0;
    pub const PVI: u64 = 1 << 1;
    pub const TSD: u64 = 1 << 2;
    pub const DE: u64 = 1 << 3;
    pub const PSE: u64 = 1 << 4;
    pub const PAE: u64 = 1 << 5;
    pub const MCE: u64 = 1 << 6;
    pub const PGE: u64 = 1 << 7;
    pub const PCE: u64 = 1 << 8;
    pub const OSFXSR: u64 = 1 << 9;
    pub const OSXMMEXCPT: u64 = 1 << 10;
}

/// EFER bits (AMD64 APM volume 2, section 3.1.7).
pub mod efer {
    #![allow(missing_docs, reason = "the names of the manual")]
    pub const SCE: u64 = 1 << 0;
    pub const LME: u64 = 1 << 8;
    pub const LMA: u64 = 1 << 10;
    pub const NXE: u64 = 1 << 11;
    pub const FFXSR: u64 = 1 << 14;
}

impl Cpu {
    /// CR0.
    #[must_use]
    pub fn cr0(&self) -> u64 {
        self.cr0
    }
    /// Whether linear addresses are translated: CR0.PG.
    #[inline(always)]
    #[must_use]
    pub fn paging(&self) -> bool {
        self.cr0 & cr0::PG != 0
    }
    /// CR3.
    #[must_use]
    pub fn cr3(&self) -> u64 {
        self.cr3
    }
    /// CR4.
    #[must_use]
    pub fn cr4(&self) -> u64 {
        self.cr4
    }
    /// EFER.
    #[must_use]
    pub fn efer(&self) -> u64 {
        self.efer
    }

    /// Sets CR0, CR3, CR4 and EFER at once, without the checks of the instructions: for the owner.
    pub fn set_control(&mut self, cr0: u64, cr3: u64, cr4: u64, efer: u64) {
        self.cr0 = cr0 | cr0::ET;
        self.cr3 = cr3;
        self.cr4 = cr4;
        self.efer = efer;
        self.tlb.flush_all();
        self.refresh_alignment();
    }
}
