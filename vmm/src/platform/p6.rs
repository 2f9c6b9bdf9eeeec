//! Intel Pentium III ("Coppermine"): family 6, model 8, stepping 10, 1 GHz. Also what all parts of
//! the P6 family have in common.
//!
//! Sources: Intel 241618 (AP-485, processor identification); Intel 243191 (SDM volume 2, 1999),
//! table 3-9, for the descriptors of CPUID function 2; Intel 243192 (SDM volume 3), appendix B, for
//! the model-specific registers of the P6 family.
//!
//! The serial number is switched off, as firmware did: the largest function is 2, and neither the
//! PSN bit nor BBL_CR_CTL is there.

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf};
use super::descriptors::{Byte, descriptors};
use super::msr::{Check, MsrRow};
use super::mtrr;
use super::rows::{ALL, bank_status, lenient, pat, plain, read_only, strict, write_only};
use super::{MAX_PROCESSORS, Platform};

/// The personality `p6`.
pub static P6: Platform = Platform {
    name: "p6",
    description: "Intel Pentium III (Coppermine, model 8), 1.0 GHz",
    clock_hz: 1_000_000_000,
    features: Features {
        sep: true,
        mmx: true,
        fxsr: true,
        sse: true,
        cr4: FAMILY_FEATURES.cr4 | cr4::OSFXSR | cr4::OSXMMEXCPT,
        ..FAMILY_FEATURES
    },
    models: Some(&uarch::part::P6),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x11,
    max_lvt: 4,
    local_apic_on_bus: false,
    apic_base_msr: true,
    // The bus.
    apic_timer_hz: 133_333_333,
    // A short message of the APIC bus, 21 of its clocks (SDM volume 3B, appendix F), at 33.3 MHz, the
    // most that the bus allows.
    ipi_latency: 630,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: false,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(TABLES_WITH_PAT),
    distro_msrs: &[],
};

/// The Pentium Pro's instruction set, without SYSENTER.
pub(super) const FAMILY_FEATURES: Features = Features {
    tsc: true,
    msr: true,
    cx8: true,
    cmov: true,
    rdpmc: true,
    nopl: true,
    hint_nop: true,
    cr4: cr4::VME
        | cr4::PVI
        | cr4::TSD
        | cr4::DE
        | cr4::PSE
        | cr4::PAE
        | cr4::MCE
        | cr4::PGE
        | cr4::PCE,
    phys_bits: ADDRESS_BITS,
    ..Features::I486
};

const ADDRESS_BITS: u8 = 36;

/// FPU VME DE PSE TSC MSR PAE MCE CX8 APIC SEP MTRR PGE MCA CMOV PAT PSE36 MMX FXSR SSE; no PSN.
const FEATURES: u32 = 0x0383_FBFF;
/// Brand index 2: "Intel Pentium III processor".
const BRAND: u32 = 2;

const CPUID: &[CpuidLeaf] = &[
    genuine_intel(0, 2),
    leaf(1, 0x68A, BRAND, 0, FEATURES),
    descriptors(&tlbs::P6, &caches::P6, DESCRIPTORS),
];

/// The bytes of function 2, from the Pentium II on.
pub(super) const DESCRIPTORS: [[Byte; 4]; 4] = [
    [Byte::Once, Byte::SmallCodeTlb, Byte::LargeCodeTlb, Byte::SmallDataTlb],
    [Byte::Null; 4],
    [Byte::Null; 4],
    [Byte::SecondCache, Byte::CodeCache, Byte::LargeDataTlb, Byte::DataCache],
];

/// The registers of a part without PAT.
pub(super) const TABLES: &[&[MsrRow]] = &[&VARIABLE_MTRRS, &mtrr::FIXED, MSRS];
/// The registers of a part with PAT.
pub(super) const TABLES_WITH_PAT: &[&[MsrRow]] = &[&VARIABLE_MTRRS, &mtrr::FIXED, &[pat()], MSRS];
const VARIABLE_MTRRS: [MsrRow; 16] = mtrr::variable(ADDRESS_BITS);

const MSRS: &[MsrRow] = &[
    // As the Pentium's, for its software.
    lenient(0x000, "P5_MC_ADDR", 0, 0),
    lenient(0x001, "P5_MC_TYPE", 0, 0),
    read_only(0x017, "PLATFORM_ID", 0),
    // Power-on configuration: bus ratio and straps, all zero.
    lenient(0x02A, "EBL_CR_POWERON", 0, 0),
    // Streaming-buffer and LOCK controls (31:30), without effect.
    lenient(0x033, "TEST_CTL", 0, 0xC000_0000),
    write_only(0x079, "BIOS_UPDT_TRIG"),
    // Software writes zero, executes CPUID and reads the revision of the microcode: none is loaded.
    strict(0x08B, "BIOS_SIGN", 0, ALL, Check::None),
    // 8 variable ranges, fixed ranges, write combining.
    read_only(0x0FE, "MTRRcap", 0x508),
    // 5 banks, MCG_CTL present.
    read_only(0x179, "MCG_CAP", 0x105),
    strict(0x17A, "MCG_STATUS", 0, 0x7, Check::None),
    lenient(0x17B, "MCG_CTL", 0, ALL),
    // LBR, BTF, PB0-PB3, TR.
    strict(0x1D9, "DEBUGCTLMSR", 0, 0x7F, Check::None),
    plain(0x1DB, "LASTBRANCHFROMIP"),
    plain(0x1DC, "LASTBRANCHTOIP"),
    plain(0x1DD, "LASTINTFROMIP"),
    plain(0x1DE, "LASTINTTOIP"),
    // Fast string operations (2) and others.
    lenient(0x1E0, "ROB_CR_BKUPTMPDR6", 0, 0xFF),
    mtrr::DEF_TYPE,
    // Machine check; the manual numbers the last two banks the other way round, and no MISC
    // register is implemented.
    plain(0x400, "MC0_CTL"),
    bank_status(0x401, "MC0_STATUS"),
    plain(0x402, "MC0_ADDR"),
    plain(0x404, "MC1_CTL"),
    bank_status(0x405, "MC1_STATUS"),
    plain(0x406, "MC1_ADDR"),
    plain(0x408, "MC2_CTL"),
    bank_status(0x409, "MC2_STATUS"),
    plain(0x40A, "MC2_ADDR"),
    plain(0x40C, "MC4_CTL"),
    bank_status(0x40D, "MC4_STATUS"),
    plain(0x410, "MC3_CTL"),
    bank_status(0x411, "MC3_STATUS"),
    plain(0x412, "MC3_ADDR"),
];

#[cfg(test)]
#[path = "p6_tests.rs"]
mod tests;
