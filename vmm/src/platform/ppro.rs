//! Intel Pentium Pro: family 6, model 1, stepping 9, 200 MHz, with 256 KiB of second-level cache.
//!
//! Sources: as for the Pentium III; the descriptors are the manual's own example (Intel 243191,
//! CPUID, table 3-9 and text).
//!
//! Stepping 9 lets RDPMC be used at CPL 3. CPUID shows the SEP bit, yet there is no SYSENTER: that
//! came with model 3, stepping 3, and software has to know (AP-485, note to the SEP bit).

use std::borrow::Cow;

use uarch::part::{caches, tlbs};
use x86_cpu::alignment::AlignmentRule;

use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf};
use super::descriptors::{Byte, descriptors};
use super::p6;
use super::{MAX_PROCESSORS, Platform};

/// The personality `ppro`.
pub static PPRO: Platform = Platform {
    name: "ppro",
    description: "Intel Pentium Pro (model 1), 200 MHz",
    clock_hz: 200_000_000,
    features: p6::FAMILY_FEATURES,
    models: Some(&uarch::part::PPRO),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Quadword,
    apic_version: 0x11,
    max_lvt: 4,
    local_apic_on_bus: false,
    apic_base_msr: true,
    // The bus: a third of the clock.
    apic_timer_hz: 66_666_667,
    // A short message of the APIC bus, 21 of its clocks (SDM volume 3B, appendix F), at 16.67 MHz.
    ipi_latency: 252,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: false,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(p6::TABLES),
    distro_msrs: &[],
};

/// FPU VME DE PSE TSC MSR PAE MCE CX8 APIC SEP MTRR PGE MCA CMOV; no MMX.
const FEATURES: u32 = 0x0000_FBFF;

const CPUID: &[CpuidLeaf] = &[
    genuine_intel(0, 2),
    leaf(1, 0x619, 0, 0, FEATURES),
    descriptors(
        &tlbs::PPRO,
        &caches::PPRO,
        [
            [Byte::Once, Byte::SmallCodeTlb, Byte::LargeCodeTlb, Byte::SmallDataTlb],
            [Byte::Null; 4],
            [Byte::Null; 4],
            [Byte::SecondCache, Byte::DataCache, Byte::LargeDataTlb, Byte::CodeCache],
        ],
    ),
];

#[cfg(test)]
#[path = "ppro_tests.rs"]
mod tests;
