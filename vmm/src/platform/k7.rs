//! AMD Athlon ("Thunderbird"): family 6, model 4, stepping 2, 1 GHz.
//!
//! Sources: CPUID of an Athlon model 2 as dumped by others, with the model number and the
//! second-level cache of model 4 (256 KiB as in the dump of a model 8); AMD 20734 (processor
//! recognition) for what the bits mean; AMD 22007 (optimisation guide), appendices D and E, for the
//! machine-check and MTRR registers. Registers that only the K8 manual (26094) lists by field take
//! their fields from there.
//!
//! No SSE and no NX; the MMX extensions come with SFENCE and PREFETCHNTA, but there is no MFENCE.

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::{DoubleShift, EncodingRules, Features};

use super::cpuid::{CpuidLeaf, OutOfRange, authentic_amd, leaf, text};
use super::descriptors::{first_level, second_level};
use super::msr::{Check, MsrRow};
use super::mtrr;
use super::rows::{bank_status, lenient, pat, plain, read_only, strict, write_only};
use super::{MAX_PROCESSORS, Platform};

/// The personality `k7`.
pub static K7: Platform = Platform {
    name: "k7",
    description: "AMD Athlon (Thunderbird, model 4), 1.0 GHz",
    clock_hz: 1_000_000_000,
    features: Features {
        tsc: true,
        msr: true,
        cx8: true,
        cmov: true,
        sep: true,
        syscall: true,
        mmx: true,
        mmx_ext: true,
        now3d: true,
        now3d_ext: true,
        fxsr: true,
        rdpmc: true,
        nopl: true,
        hint_nop: true,
        double_shift: DoubleShift::Source,
        selector_words: false,
        repeat_restores_flags: false,
        fxsave_pointers: false,
        encodings: EncodingRules::Amd64,
        syscall_outside_64bit: true,
        sysret_checks: false,
        sysenter_in_long_mode: false,
        breakpoint_after_ss: true,
        cr4: cr4::VME
            | cr4::PVI
            | cr4::TSD
            | cr4::DE
            | cr4::PSE
            | cr4::PAE
            | cr4::MCE
            | cr4::PGE
            | cr4::PCE
            | cr4::OSFXSR,
        faulting_iret_unblocks_nmi: false,
        phys_bits: ADDRESS_BITS,
        ..Features::I486
    },
    models: Some(&uarch::part::K7),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x10,
    max_lvt: 4,
    local_apic_on_bus: true,
    apic_base_msr: true,
    // The 100 MHz clock of the front-side bus.
    apic_timer_hz: 100_000_000,
    // Not sourced: a serial bus like the P6's.
    ipi_latency: 630,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::Zeros,
    cpuid_apic_id: true,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(TABLES),
    distro_msrs: &[],
};

const ADDRESS_BITS: u8 = 36;

/// FPU VME DE PSE TSC MSR PAE MCE CX8 APIC SEP MTRR PGE MCA CMOV PAT PSE36 MMX FXSR; no SSE.
const FEATURES: u32 = 0x0183_FBFF;
/// The common bits of [`FEATURES`] with SYSCALL for SEP, and MMXEXT 3DNOWEXT 3DNOW; no MP, no NX.
const EXTENDED_FEATURES: u32 = 0xC1C3_FBFF;

const CPUID: &[CpuidLeaf] = &[
    authentic_amd(0, 1),
    leaf(1, 0x642, 0, 0, FEATURES),
    authentic_amd(0x8000_0000, 0x8000_0006),
    // The family counts one more here.
    leaf(0x8000_0001, 0x742, 0, 0, EXTENDED_FEATURES),
    text(0x8000_0002, b"AMD Athlon(tm) P"),
    text(0x8000_0003, b"rocessor\0\0\0\0\0\0\0\0"),
    text(0x8000_0004, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    first_level(&tlbs::K7, &caches::K7),
    second_level(&tlbs::K7, &caches::K7),
];

const TABLES: &[&[MsrRow]] = &[&VARIABLE_MTRRS, &mtrr::DRAM_FIXED, MSRS];
const VARIABLE_MTRRS: [MsrRow; 16] = mtrr::variable(ADDRESS_BITS);

/// Physical address bits 35:12.
const PAGE: u64 = 0xF_FFFF_F000;
/// Physical address bits 35:23.
const TOP: u64 = 0xF_FF80_0000;
/// Bit 11: an IORR mask is valid.
const VALID: u64 = 1 << 11;

const MSRS: &[MsrRow] = &[
    read_only(0x08B, "PATCH_LEVEL", 0),
    // 8 variable ranges, fixed ranges, write combining.
    read_only(0x0FE, "MTRRcap", 0x508),
    // 4 banks, MCG_CTL present.
    read_only(0x179, "MCG_CAP", 0x104),
    strict(0x17A, "MCG_STATUS", 0, 0x7, Check::None),
    lenient(0x17B, "MCG_CTL", 0, 0xF),
    // LBR, BTF, PB0-PB3.
    strict(0x1D9, "DebugCtl", 0, 0x3F, Check::None),
    plain(0x1DB, "LastBranchFromIP"),
    plain(0x1DC, "LastBranchToIP"),
    plain(0x1DD, "LastExceptionFromIP"),
    plain(0x1DE, "LastExceptionToIP"),
    pat(),
    mtrr::DEF_TYPE,
    // Machine check: data cache, instruction cache, bus unit, load/store.
    plain(0x400, "MC0_CTL"),
    bank_status(0x401, "MC0_STATUS"),
    plain(0x402, "MC0_ADDR"),
    lenient(0x403, "MC0_MISC", 0, 0),
    plain(0x404, "MC1_CTL"),
    bank_status(0x405, "MC1_STATUS"),
    plain(0x406, "MC1_ADDR"),
    lenient(0x407, "MC1_MISC", 0, 0),
    plain(0x408, "MC2_CTL"),
    bank_status(0x409, "MC2_STATUS"),
    plain(0x40A, "MC2_ADDR"),
    lenient(0x40B, "MC2_MISC", 0, 0),
    plain(0x40C, "MC3_CTL"),
    bank_status(0x40D, "MC3_STATUS"),
    plain(0x40E, "MC3_ADDR"),
    lenient(0x40F, "MC3_MISC", 0, 0),
    // MtrrFixDramEn (18), MtrrFixDramModEn (19), MtrrVarDramEn (20), MtrrTom2En (21) and others.
    lenient(0xC001_0010, "SYSCFG", 0, 0x7F_FFFF),
    // McStatusWrEn (18), SSEDIS (15) and others.
    lenient(0xC001_0015, "HWCR", 0, 0x3FFF_FFFF),
    // RdDram and WrDram (4:3).
    strict(0xC001_0016, "IORRBase0", 0, PAGE | 0x18, Check::None),
    strict(0xC001_0017, "IORRMask0", 0, PAGE | VALID, Check::None),
    strict(0xC001_0018, "IORRBase1", 0, PAGE | 0x18, Check::None),
    strict(0xC001_0019, "IORRMask1", 0, PAGE | VALID, Check::None),
    lenient(0xC001_001A, "TOP_MEM", 0, TOP),
    // Bits 31:20 as Linux wants to see them.
    lenient(0xC001_001B, "CLK_CTL", 0x2000_0000, 0xFFFF_FFFF),
    lenient(0xC001_001D, "TOP_MEM2", 0, TOP),
    write_only(0xC001_0020, "PATCH_LOADER"),
];

#[cfg(test)]
#[path = "k7_tests.rs"]
mod tests;
