//! AMD Opteron 846, revision SH-E4: family 15, model 37, stepping 1, one core, 2.0 GHz.
//!
//! Sources: AMD 25481 (CPUID specification); AMD 26094 (BIOS and kernel developer's guide for
//! the Athlon 64 and Opteron), chapter 14; AMD 24593 (AMD64 volume 2), appendix A; AMD 25759
//! (revision guide). For this revision Linux needs no erratum work-around that touches a register.

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, CpuidOverride, OutOfRange, authentic_amd, leaf, text};
use super::descriptors::{first_level, second_level};
use super::msr::{Check, MsrRow};
use super::mtrr;
use super::rows::{
    ALL, bank_status, cpuid_features, lenient, pat, plain, read_only, strict, write_only,
};
use super::{MAX_PROCESSORS, Platform};

/// The personality `k8`.
pub static K8: Platform = Platform {
    name: "k8",
    description: "AMD Opteron 846 (revision E4), 2.0 GHz",
    clock_hz: 2_000_000_000,
    features: Features::K8,
    models: Some(&uarch::part::K8),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x10,
    max_lvt: 4,
    local_apic_on_bus: true,
    apic_base_msr: true,
    // The HyperTransport base clock.
    apic_timer_hz: 200_000_000,
    // Not sourced: a HyperTransport message, of the order of a memory access.
    ipi_latency: 500,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::Zeros,
    cpuid_apic_id: true,
    cpuid_overrides: &[
        CpuidOverride { index: CPUID_FEATURES, function: 1 },
        CpuidOverride { index: CPUID_EXT_FEATURES, function: 0x8000_0001 },
    ],
    msrs: Cow::Borrowed(TABLES),
    distro_msrs: &[],
};

const TABLES: &[&[MsrRow]] = &[&VARIABLE_MTRRS, &mtrr::DRAM_FIXED, MSRS];
const VARIABLE_MTRRS: [MsrRow; 16] = mtrr::variable(Features::K8.phys_bits);

/// Family 0Fh + 0, model 25h, stepping 1.
const SIGNATURE: u32 = 0x0002_0F51;
/// FPU VME DE PSE TSC MSR PAE MCE CX8 APIC SEP MTRR PGE MCA CMOV PAT PSE36 CLFSH MMX FXSR SSE
/// SSE2; no HTT.
const FEATURES: u32 = 0x078B_FBFF;
/// The common bits of [`FEATURES`], and SYSCALL NX MMXEXT FFXSR LM 3DNOWEXT 3DNOW.
const EXTENDED_FEATURES: u32 = 0xE3D3_FBFF;
/// SSE3; no MONITOR, no CMPXCHG16B.
const SSE3: u32 = 1 << 0;
/// LAHF and SAHF in 64-bit mode; no CMP_LEGACY, SVM, OSVW, IBS, TOPOEXT, PERFCTR_CORE.
const LAHF_LM: u32 = 1 << 0;
/// CLFLUSH line of 8 quadwords; the APIC identifier comes in bits 31:24.
const CLFLUSH_SIZE: u32 = 8 << 8;
/// Brand table index 0Eh ("Opteron 8YY") and NN 4: YY = 38 + 2 x 4.
const BRAND: u32 = 0x0E << 6 | 4;

const CPUID: &[CpuidLeaf] = &[
    authentic_amd(0, 1),
    // Signature, CLFLUSH size, features.
    leaf(1, SIGNATURE, CLFLUSH_SIZE, SSE3, FEATURES),
    authentic_amd(0x8000_0000, 0x8000_0018),
    // Signature, brand, extended features.
    leaf(0x8000_0001, SIGNATURE, BRAND, LAHF_LM, EXTENDED_FEATURES),
    // Name string, 48 bytes.
    text(0x8000_0002, b"AMD Opteron(tm) "),
    text(0x8000_0003, b"Processor 846\0\0\0"),
    text(0x8000_0004, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    first_level(&tlbs::K8, &caches::K8),
    second_level(&tlbs::K8, &caches::K8),
    // Power management: no frequency or voltage control, no thermal sensor.
    leaf(0x8000_0007, 0, 0, 0, 0),
    // 48 bits of virtual and 40 bits of physical address, one core.
    leaf(0x8000_0008, 0x0000_3028, 0, 0, 0),
    // Not in any manual; every K8 says it.
    text(0x8FFF_FFFF, b"IT'S HAMMER TIME"),
];

/// Physical address bits 39:12.
const PAGE: u64 = 0xFF_FFFF_F000;
/// Physical address bits 39:23.
const TOP: u64 = 0xFF_FF80_0000;
/// Bit 11: an IORR mask is valid.
const VALID: u64 = 1 << 11;

/// ECX and EDX of CPUID function 1.
const CPUID_FEATURES: u32 = 0xC001_1004;
/// ECX and EDX of CPUID function 8000_0001h.
const CPUID_EXT_FEATURES: u32 = 0xC001_1005;
/// The passcode in EDI that this family requires for registers from C001_1000h on. Its manual documents
/// neither; what the registers do is known from firmware and hypervisors that use them on revisions C
/// to G, and from the next family's manual (AMD 31116, MSRC001_1004 and MSRC001_1005), which has them
/// without a passcode. C001_100Dh, which is known from erratum 110 only, is left out.
const PASSCODE: u32 = 0x9C5A_203A;

const MSRS: &[MsrRow] = &[
    // AMD 26094 section 14.2, architectural registers.
    read_only(0x08B, "PATCH_LEVEL", 0),
    // 8 variable ranges, fixed ranges, write combining.
    read_only(0x0FE, "MTRRcap", 0x508),
    // 5 banks, MCG_CTL present.
    read_only(0x179, "MCG_CAP", 0x105),
    strict(0x17A, "MCG_STATUS", 0, 0x7, Check::None),
    lenient(0x17B, "MCG_CTL", 0, 0x1F),
    // LBR, BTF, PB0-PB3.
    strict(0x1D9, "DebugCtl", 0, 0x3F, Check::None),
    plain(0x1DB, "LastBranchFromIP"),
    plain(0x1DC, "LastBranchToIP"),
    plain(0x1DD, "LastExceptionFromIP"),
    plain(0x1DE, "LastExceptionToIP"),
    pat(),
    mtrr::DEF_TYPE,
    // Machine check: data cache, instruction cache, bus unit, load/store, northbridge.
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
    plain(0x410, "MC4_CTL"),
    bank_status(0x411, "MC4_STATUS"),
    plain(0x412, "MC4_ADDR"),
    lenient(0x413, "MC4_MISC", 0, 0),
    // AMD 26094 section 14.2, AMD-specific registers.
    // Bits 22:0: limits, change-to-dirty, MtrrFixDramEn (18), MtrrFixDramModEn (19),
    // MtrrVarDramEn (20), MtrrTom2En (21).
    lenient(0xC001_0010, "SYSCFG", 0, 0x7F_FFFF),
    // FFDIS (6), SSEDIS (15), McStatusWrEn (18) and others.
    lenient(0xC001_0015, "HWCR", 0, 0x3FFF_FFFF),
    // RdDram and WrDram (4:3).
    strict(0xC001_0016, "IORRBase0", 0, PAGE | 0x18, Check::None),
    strict(0xC001_0017, "IORRMask0", 0, PAGE | VALID, Check::None),
    strict(0xC001_0018, "IORRBase1", 0, PAGE | 0x18, Check::None),
    strict(0xC001_0019, "IORRMask1", 0, PAGE | VALID, Check::None),
    lenient(0xC001_001A, "TOP_MEM", 0, TOP),
    lenient(0xC001_001D, "TOP_MEM2", 0, TOP),
    lenient(0xC001_001F, "NB_CFG", 0, ALL),
    // Takes the address of a microcode patch; the patch is ignored and PATCH_LEVEL stays.
    write_only(0xC001_0020, "PATCH_LOADER"),
    plain(0xC001_0044, "MC0_CTL_MASK"),
    plain(0xC001_0045, "MC1_CTL_MASK"),
    plain(0xC001_0046, "MC2_CTL_MASK"),
    plain(0xC001_0047, "MC3_CTL_MASK"),
    plain(0xC001_0048, "MC4_CTL_MASK"),
    // Bits 27 and 28 clear: no C1E.
    lenient(0xC001_0055, "INTPEND", 0, 0x1FFF_FFFF),
    cpuid_features(CPUID_FEATURES, "CpuIdFeatures", PASSCODE),
    cpuid_features(CPUID_EXT_FEATURES, "CpuIdExtFeatures", PASSCODE),
];

#[cfg(test)]
#[path = "k8_tests.rs"]
mod tests;
