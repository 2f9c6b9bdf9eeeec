//! Intel Pentium II ("Deschutes"): family 6, model 5, stepping 2, 400 MHz.
//!
//! Sources: as for the Pentium III.

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf};
use super::descriptors::descriptors;
use super::p6;
use super::{MAX_PROCESSORS, Platform};

/// The personality `pii`.
pub static PII: Platform = Platform {
    name: "pii",
    description: "Intel Pentium II (Deschutes, model 5), 400 MHz",
    clock_hz: 400_000_000,
    features: Features {
        sep: true,
        mmx: true,
        fxsr: true,
        cr4: p6::FAMILY_FEATURES.cr4 | cr4::OSFXSR,
        ..p6::FAMILY_FEATURES
    },
    models: Some(&uarch::part::PII),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x11,
    max_lvt: 4,
    local_apic_on_bus: false,
    apic_base_msr: true,
    // The bus.
    apic_timer_hz: 100_000_000,
    // A short message of the APIC bus, 21 of its clocks (SDM volume 3B, appendix F), at 16.67 MHz.
    ipi_latency: 504,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: false,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(p6::TABLES_WITH_PAT),
    distro_msrs: &[],
};

/// FPU VME DE PSE TSC MSR PAE MCE CX8 APIC SEP MTRR PGE MCA CMOV PAT PSE36 MMX FXSR; no SSE.
const FEATURES: u32 = 0x0183_FBFF;

const CPUID: &[CpuidLeaf] = &[
    genuine_intel(0, 2),
    leaf(1, 0x652, 0, 0, FEATURES),
    descriptors(&tlbs::PII, &caches::PII, p6::DESCRIPTORS),
];

#[cfg(test)]
#[path = "pii_tests.rs"]
mod tests;
