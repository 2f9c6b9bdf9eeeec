//! Intel Xeon Phi coprocessor SE10P (Knights Corner): family 11, model 1, stepping 3, 1.1 GHz.
//!
//! Sources: CPUID of a real SE10P as the hwloc project keeps it; Intel 327364 (instruction set
//! reference), appendix B, and 328207 (system software developer's guide), section 4.2, for what
//! the part lacks, both as restated by others; the MPSS kernel for the registers that exist.
//!
//! Deviations: IN, OUT, INS and OUTS, which a card without a port space does not have, execute,
//! because the machine around the processor is a PC whose console and devices are reached by
//! ports.

use std::borrow::Cow;

use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use uarch::part::caches::KNC as CACHES;

use super::Platform;
use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf};
use super::descriptors::{cache, second_cache};
use super::msr::{Check, MsrRow};
use super::mtrr;
use super::rows::{ALL, lenient, pat, read_only, strict};

/// The personality `knc`.
pub static KNC: Platform = Platform {
    name: "knc",
    description: "Intel Xeon Phi SE10P (Knights Corner), 1.1 GHz, 4 threads a core",
    clock_hz: 1_100_000_000,
    features: Features {
        tsc: true,
        msr: true,
        cx8: true,
        syscall: true,
        fxsr: true,
        long_mode: true,
        lahf_lm: true,
        rdpmc: true,
        nx: true,
        // The manual lists it as unsupported; DELAY takes its place.
        pause: false,
        nopl: true,
        knc: true,
        vpu: true,
        // No PGE, and no OSFXSR beside FXSR.
        cr4: cr4::VME | cr4::PVI | cr4::TSD | cr4::DE | cr4::PSE | cr4::PAE | cr4::MCE | cr4::PCE,
        phys_bits: ADDRESS_BITS,
        selector_words: false,
        ..Features::I486
    },
    models: Some(&uarch::part::KNC),
    threads_per_core: 4,
    // Of 61 cores: those that the dump of the SE10P is of.
    max_processors: 244,
    alignment: AlignmentRule::Quadword,
    // No document or boot log that says more than that it is an integrated one.
    apic_version: 0x10,
    max_lvt: 4,
    local_apic_on_bus: true,
    apic_base_msr: true,
    // No source gives the clock of the timer.
    apic_timer_hz: 100_000_000,
    // Not sourced: a message on the ring, of the order of an access to another core's cache.
    ipi_latency: 500,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: true,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(TABLES),
    distro_msrs: DISTRO,
};

const ADDRESS_BITS: u8 = 40;

/// FPU VME DE PSE TSC MSR PAE CX8 APIC MTRR PAT FXSR HTT; no MCE, PGE, MCA, SEP, CMOV, MMX, SSE.
const FEATURES: u32 = 0x1101_137F;
/// 248 logical processors, CLFLUSH line of 8 quadwords; the APIC identifier comes in bits 31:24.
const PROCESSORS: u32 = 0xF8_0800;
/// SYSCALL NX LM.
const EXTENDED_FEATURES: u32 = 0x2010_0800;
/// LAHF and SAHF in 64-bit mode.
const LAHF_LM: u32 = 1 << 0;

const CPUID: &[CpuidLeaf] = &[
    genuine_intel(0, 4),
    leaf(1, 0xB13, PROCESSORS, 0, FEATURES),
    leaf(2, 0, 0, 0, 0),
    leaf(3, 0, 0, 0, 0),
    // 62 cores; caches, each for 4 threads: level 1 code and data, and level 2, which calls itself a data
    // cache.
    cache(0, 0xF400_C122, &CACHES.code, CACHES.line),
    cache(1, 0xF400_CD21, &CACHES.data, CACHES.line),
    cache(2, 0xF400_CD41, second_cache(&CACHES), CACHES.line),
    leaf(0x8000_0000, 0x8000_0008, 0, 0, 0),
    leaf(0x8000_0001, 0, 0, LAHF_LM, EXTENDED_FEATURES),
    // The name is empty.
    leaf(0x8000_0002, 0, 0, 0, 0),
    leaf(0x8000_0003, 0, 0, 0, 0),
    leaf(0x8000_0004, 0, 0, 0, 0),
    leaf(0x8000_0005, 0, 0, 0, 0),
    // L2 of 256 KiB, half of what there is.
    leaf(0x8000_0006, 0, 0, 0x0100_6040, 0),
    leaf(0x8000_0007, 0, 0, 0, 0),
    // 48 bits of linear and 40 bits of physical address.
    leaf(0x8000_0008, 0x0000_3028, 0, 0, 0),
];

const TABLES: &[&[MsrRow]] = &[&VARIABLE_MTRRS, &mtrr::FIXED, MSRS];
/// Seven ranges.
const VARIABLE_MTRRS: [MsrRow; 14] = mtrr::variable(ADDRESS_BITS);

const MSRS: &[MsrRow] = &[
    // Written by machine checks alone; there are none.
    lenient(0x000, "P5_MC_ADDR", 0, 0),
    lenient(0x001, "P5_MC_TYPE", 0, 0),
    // 7 variable ranges, fixed ranges, write combining.
    read_only(0x0FE, "MTRRcap", 0x507),
    pat(),
    mtrr::DEF_TYPE,
];

/// What Linux reads plainly on any Intel processor above family 6, the last before it can take a
/// fault.
const DISTRO: &[MsrRow] = &[
    read_only(0x017, "IA32_PLATFORM_ID", 0),
    strict(0x08B, "IA32_BIOS_SIGN_ID", 0, ALL, Check::None),
    // Fast strings (0); no branch trace store (11) and no precise sampling (12).
    lenient(0x1A0, "IA32_MISC_ENABLE", 0x1801, 0x1),
];

#[cfg(test)]
#[path = "knc_tests.rs"]
mod tests;
