//! A bank of model-specific registers described by a table.

use pmu_model::MsrAccess;

use super::Platform;
use super::cpuid::{CpuidContext, CpuidOverride};

/// One register of a personality.
#[derive(Clone, Copy, Debug)]
pub struct MsrRow {
    /// ECX of RDMSR and WRMSR.
    pub index: u32,
    /// The manual's name.
    pub name: &'static str,
    /// Value after power-up. Warm reset and INIT change none of these registers.
    pub reset: u64,
    /// Bits that a write changes.
    pub writable: u64,
    /// Bits that raise #GP when written as ones; the others outside `writable` are ignored.
    pub faults: u64,
    /// Whether RDMSR is allowed.
    pub readable: bool,
    /// What else a written value must satisfy.
    pub check: Check,
    /// What RDMSR and WRMSR need in EDI, if anything; else #GP.
    pub passcode: Option<u32>,
}

/// Rule for a written value beyond its reserved bits; a violation raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// None.
    None,
    /// Every write is a violation.
    ReadOnly,
    /// Bits 7:0 are an MTRR memory type (AMD64 volume 2 section 7.7.1).
    MemoryType,
    /// Eight fields of an MTRR memory type and, visible while `SYSCFG.MtrrFixDramModEn` is set,
    /// RdMem and WrMem in bits 4:3 (AMD64 volume 2 section 7.9.1).
    FixedMtrr,
    /// Eight PAT memory types (AMD64 volume 2 section 7.8.1).
    Pat,
    /// Zero, unless `HWCR.McStatusWrEn` is set (AMD64 volume 2 section 9.3.2).
    MachineCheckStatus,
}

const SYSCFG: u32 = 0xC001_0010;
const SYSCFG_FIX_DRAM_EN: u64 = 1 << 18;
const SYSCFG_FIX_DRAM_MOD_EN: u64 = 1 << 19;
const SYSCFG_VAR_DRAM_EN: u64 = 1 << 20;
const HWCR: u32 = 0xC001_0015;
const HWCR_FLUSH_FILTER_DISABLE: u64 = 1 << 6;
const HWCR_MC_STATUS_WR_EN: u64 = 1 << 18;
const TOP_MEM: u32 = 0xC001_001A;
const TOP_MEM2: u32 = 0xC001_001D;
const MTRR_BASE_0: u32 = 0x200;
const MTRR_MASK_0: u32 = 0x201;
const MTRR_DEF_TYPE: u32 = 0x2FF;
/// RdMem and WrMem of all eight ranges of a fixed MTRR.
const RD_WR_MEM: u64 = 0x1818_1818_1818_1818;

/// The registers of one logical processor.
#[derive(Clone, Debug)]
pub struct MsrBank {
    /// Ascending.
    rows: Vec<MsrRow>,
    values: Vec<u64>,
    /// How often a register was written.
    writes: u64,
    /// Physical address bits of the processor.
    physical_bits: u8,
    overrides: &'static [CpuidOverride],
}

impl MsrBank {
    /// The bank after power-up.
    pub fn new(platform: &Platform) -> Self {
        let mut rows: Vec<_> = platform.msrs.iter().copied().flatten().copied().collect();
        rows.sort_by_key(|row| row.index);
        let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
        for row in &mut rows {
            if let Some(of) = platform.cpuid_overrides.iter().find(|of| of.index == row.index) {
                let result = platform.cpuid(of.function, 0, context);
                row.reset = u64::from(result.ecx) << 32 | u64::from(result.edx);
            }
        }
        let values = rows.iter().map(|row| row.reset).collect();
        let overrides = platform.cpuid_overrides;
        let physical_bits = platform.features.phys_bits;
        Self { rows, values, writes: 0, physical_bits, overrides }
    }

    /// The bank as PC firmware leaves it to a kernel: RAM write-back and the hole between
    /// `hole` and 4 GiB uncacheable; `low_end` and `high_end` are the ends of RAM below and above.
    /// A register that the processor lacks is passed over.
    pub fn set_up_by_firmware(&mut self, low_end: u64, high_end: u64, hole: u64) {
        const WRITE_BACK: u64 = 6;
        const ENABLE_ALL: u64 = 3 << 10;
        for (row, value) in self.rows.iter().zip(&mut self.values) {
            if row.check == Check::FixedMtrr {
                // Write-back in RAM and tables, uncacheable in A0000h-BFFFFh.
                *value = if row.index == 0x259 { 0 } else { 0x0606_0606_0606_0606 };
            }
        }
        let above = (1 << self.physical_bits.clamp(32, 52)) - (0x1_0000_0000 - hole);
        self.put(MTRR_BASE_0, hole);
        self.put(MTRR_MASK_0, above | 1 << 11);
        self.put(MTRR_DEF_TYPE, ENABLE_ALL | WRITE_BACK);
        self.put(SYSCFG, SYSCFG_FIX_DRAM_EN | SYSCFG_VAR_DRAM_EN);
        self.put(TOP_MEM, low_end);
        if high_end > 0x1_0000_0000 {
            self.put(TOP_MEM2, high_end);
        }
    }

    /// The name of a register, for messages.
    pub fn name(&self, index: u32) -> Option<&'static str> {
        self.find(index).map(|at| self.rows[at].name)
    }

    /// What an access to a register needs in EDI.
    pub fn passcode(&self, index: u32) -> Option<u32> {
        self.find(index).and_then(|at| self.rows[at].passcode)
    }

    /// ECX and EDX of a CPUID function as a register has them: [`CpuidContext::features`].
    pub fn cpuid_features(&self, function: u32) -> Option<u64> {
        let of = self.overrides.iter().find(|of| of.function == function)?;
        Some(self.value(of.index))
    }

    /// Index and value of the registers that differ from their values after power-up, ascending.
    pub fn changed(&self) -> impl Iterator<Item = (u32, u64)> {
        let rows = self.rows.iter().zip(&self.values);
        rows.filter(|(row, value)| row.reset != **value).map(|(row, value)| (row.index, *value))
    }

    /// Whether the TLBs' flush filter, if there is one, is enabled: `HWCR.FFDIS` (AMD 26094).
    pub fn enables_flush_filter(&self) -> bool {
        self.value(HWCR) & HWCR_FLUSH_FILTER_DISABLE == 0
    }

    /// What the registers hold, by ascending index.
    pub fn state(&self) -> &[u64] {
        &self.values
    }

    /// Puts back what they held; false if these are not as many values as there are registers.
    #[must_use]
    pub fn restore(&mut self, values: &[u64]) -> bool {
        let is_whole = values.len() == self.values.len();
        if is_whole && self.values != values {
            self.values.copy_from_slice(values);
            self.writes += 1;
        }
        is_whole
    }

    /// A number that changes with each write, and wherever the registers hold something else.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// RDMSR.
    pub fn read(&self, index: u32) -> MsrAccess<u64> {
        let Some(at) = self.find(index) else {
            return MsrAccess::NotOurs;
        };
        let row = &self.rows[at];
        if !row.readable {
            return MsrAccess::GpFault;
        }
        let hidden = if row.check == Check::FixedMtrr && !self.fixed_dram_bits_visible() {
            RD_WR_MEM
        } else {
            0
        };
        MsrAccess::Done(self.values[at] & !hidden)
    }

    /// WRMSR.
    pub fn write(&mut self, index: u32, value: u64) -> MsrAccess<()> {
        let Some(at) = self.find(index) else {
            return MsrAccess::NotOurs;
        };
        let row = &self.rows[at];
        if value & row.faults != 0 || !self.allows(row.check, value) {
            return MsrAccess::GpFault;
        }
        let mut writable = row.writable;
        if row.check == Check::FixedMtrr && !self.fixed_dram_bits_visible() {
            writable &= !RD_WR_MEM;
        }
        self.values[at] = self.values[at] & !writable | value & writable;
        self.writes += 1;
        MsrAccess::Done(())
    }

    /// The value that the processor itself sees, whatever RDMSR would do; zero for a register
    /// that is not there.
    pub fn value(&self, index: u32) -> u64 {
        self.find(index).map_or(0, |at| self.values[at])
    }

    /// Stores a value that the processor itself produces, such as a last-branch address.
    pub fn put(&mut self, index: u32, value: u64) {
        if let Some(at) = self.find(index) {
            self.values[at] = value;
        }
    }

    fn find(&self, index: u32) -> Option<usize> {
        self.rows.binary_search_by_key(&index, |row| row.index).ok()
    }

    fn fixed_dram_bits_visible(&self) -> bool {
        self.value(SYSCFG) & SYSCFG_FIX_DRAM_MOD_EN != 0
    }

    fn allows(&self, check: Check, value: u64) -> bool {
        // UC, WC, WT, WP, WB.
        let mtrr_type = |byte: u8| matches!(byte, 0 | 1 | 4 | 5 | 6);
        match check {
            Check::None => true,
            Check::ReadOnly => false,
            Check::MemoryType => mtrr_type(value as u8),
            Check::FixedMtrr => value.to_le_bytes().iter().all(|b| mtrr_type(b & !0x18)),
            // As the MTRRs, and UC-.
            Check::Pat => value.to_le_bytes().iter().all(|b| mtrr_type(*b) || *b == 7),
            Check::MachineCheckStatus => value == 0 || self.value(HWCR) & HWCR_MC_STATUS_WR_EN != 0,
        }
    }
}
