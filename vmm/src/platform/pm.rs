//! Intel Pentium M ("Dothan"): family 6, model 13, stepping 6, 1.6 GHz.
//!
//! Sources: as for the Pentium III, and Intel 302189 (Pentium M on 90 nm, specification update).
//! The machine has no thermal monitor, no debug store and no SpeedStep, so that the bits DS, ACPI,
//! TM, PBE, EST and TM2, which a real part shows, are clear.

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf, text};
use super::descriptors::{Byte, descriptors};
use super::msr::MsrRow;
use super::p6;
use super::rows::lenient;
use super::{MAX_PROCESSORS, Platform};

/// The personality `pm`.
pub static PM: Platform = Platform {
    name: "pm",
    description: "Intel Pentium M (Dothan, model 13), 1.6 GHz",
    clock_hz: 1_600_000_000,
    features: Features {
        sep: true,
        mmx: true,
        fxsr: true,
        sse: true,
        sse2: true,
        clflush: true,
        cr4: p6::FAMILY_FEATURES.cr4 & !cr4::PAE | cr4::OSFXSR | cr4::OSXMMEXCPT,
        ..p6::FAMILY_FEATURES
    },
    models: Some(&uarch::part::PM),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x14,
    max_lvt: 5,
    local_apic_on_bus: false,
    apic_base_msr: true,
    // The bus: 100 MHz, four transfers a clock.
    apic_timer_hz: 100_000_000,
    // Not sourced: a message on the system bus, of the order of a memory access.
    ipi_latency: 500,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: false,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(TABLES),
    distro_msrs: &[],
};

/// FPU VME DE PSE TSC MSR MCE CX8 APIC SEP MTRR PGE MCA CMOV PAT CLFSH MMX FXSR SSE SSE2 SS; no
/// PAE, no PSE36.
const FEATURES: u32 = 0x0F89_FBBF;
/// CLFLUSH line of 8 quadwords, brand index 16h: "Intel Pentium M processor".
const CLFLUSH_BRAND: u32 = 8 << 8 | 0x16;

const CPUID: &[CpuidLeaf] = &[
    genuine_intel(0, 2),
    leaf(1, 0x6D6, CLFLUSH_BRAND, 0, FEATURES),
    descriptors(
        &tlbs::PM,
        &caches::PM,
        [
            [Byte::Once, Byte::SmallCodeTlb, Byte::SmallDataTlb, Byte::LargeCodeTlb],
            [Byte::Prefetch64, Byte::Null, Byte::Null, Byte::Null],
            [Byte::Null; 4],
            [Byte::SecondCache, Byte::CodeCache, Byte::LargeDataTlb, Byte::DataCache],
        ],
    ),
    leaf(0x8000_0000, 0x8000_0004, 0, 0, 0),
    leaf(0x8000_0001, 0, 0, 0, 0),
    text(0x8000_0002, b"        Intel(R)"),
    text(0x8000_0003, b" Pentium(R) M pr"),
    text(0x8000_0004, b"ocessor 1.60GHz\0"),
];

const TABLES: &[&[MsrRow]] = &[
    p6::TABLES_WITH_PAT[0],
    p6::TABLES_WITH_PAT[1],
    p6::TABLES_WITH_PAT[2],
    p6::TABLES_WITH_PAT[3],
    MSRS,
];

const MSRS: &[MsrRow] = &[
    // Fast strings (0); performance monitoring available (7); no branch trace store (11) and no
    // precise sampling (12).
    lenient(0x1A0, "IA32_MISC_ENABLE", 0x1881, 0x1),
];

#[cfg(test)]
#[path = "pm_tests.rs"]
mod tests;
