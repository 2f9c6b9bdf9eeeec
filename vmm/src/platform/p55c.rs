//! Intel Pentium with MMX technology (P55C): family 5, model 4, stepping 3, 200 MHz.
//!
//! Sources: Intel 241618 (AP-485, processor identification); Intel 243192 (SDM volume 3),
//! appendix on the model-specific registers of the Pentium; Intel 241430 (Pentium family
//! developer's manual) for the local APIC, which has no base register: it is at FEE0_0000h.
//!
//! Stepping 3 of type 0 is free of the erratum about RDPMC at CPL 3. Physical addresses have 32
//! bits: no PAE, no global pages, no MTRRs, no PAT.

use std::borrow::Cow;

use x86_cpu::alignment::AlignmentRule;
use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, OutOfRange, genuine_intel, leaf};
use super::msr::MsrRow;
use super::rows::lenient;
use super::{MAX_PROCESSORS, Platform};

/// The personality `p55c`.
pub static P55C: Platform = Platform {
    name: "p55c",
    description: "Intel Pentium with MMX technology (model 4), 200 MHz",
    clock_hz: 200_000_000,
    features: Features {
        tsc: true,
        msr: true,
        cx8: true,
        mmx: true,
        rdpmc: true,
        cr4: cr4::VME | cr4::PVI | cr4::TSD | cr4::DE | cr4::PSE | cr4::MCE | cr4::PCE,
        selector_words: false,
        ..Features::I486
    },
    models: Some(&uarch::part::P55C),
    threads_per_core: 1,
    max_processors: MAX_PROCESSORS,
    alignment: AlignmentRule::Pentium,
    apic_version: 0x10,
    max_lvt: 3,
    local_apic_on_bus: true,
    apic_base_msr: false,
    // The bus: a third of the clock.
    apic_timer_hz: 66_666_667,
    // A short message of the APIC bus, 21 of its clocks (SDM volume 3B, appendix F), at 16.67 MHz.
    ipi_latency: 252,
    cpuid: Cow::Borrowed(CPUID),
    cpuid_out_of_range: OutOfRange::HighestBasic,
    cpuid_apic_id: false,
    cpuid_overrides: &[],
    msrs: Cow::Borrowed(&[MSRS]),
    distro_msrs: &[],
};

/// FPU VME DE PSE TSC MSR MCE CX8 APIC MMX; no PAE.
const FEATURES: u32 = 0x0080_03BF;

const CPUID: &[CpuidLeaf] = &[genuine_intel(0, 1), leaf(1, 0x543, 0, 0, FEATURES)];

const MSRS: &[MsrRow] = &[
    // Written by machine checks alone; there are none.
    lenient(0x000, "P5_MC_ADDR", 0, 0),
    lenient(0x001, "P5_MC_TYPE", 0, 0),
    // Branch-trace and pipe controls, without effect.
    lenient(0x00E, "TR12", 0, 0x3FF),
];

#[cfg(test)]
#[path = "p55c_tests.rs"]
mod tests;
