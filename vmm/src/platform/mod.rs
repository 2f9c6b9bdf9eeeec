//! What a personality is besides its counters: the processor that CPUID names, its instruction set,
//! its clock, and the model-specific registers that belong neither to the CPU core nor to the PMU
//! nor to the local APIC.
//!
//! A part is a table of its own file. The rest of the machine asks the fields of [`Platform`] and
//! never which part it has.

use std::borrow::Cow;

use x86_cpu::alignment::AlignmentRule;
use x86_cpu::features::Features;

use crate::processor_set::ProcessorSet;

mod cpuid;
mod descriptors;
mod isa;
mod k7;
mod k8;
mod knc;
mod memory_types;
mod msr;
mod mtrr;
mod p55c;
mod p6;
mod pii;
mod pm;
mod ppro;
mod rows;

pub use cpuid::{CpuidContext, CpuidLeaf, CpuidOverride, CpuidResult, OutOfRange};
pub use isa::Isa;
pub use k7::K7;
pub use k8::K8;
pub use knc::KNC;
pub use memory_types::{MemoryTypes, PageAttributes};
pub use msr::{Check, MsrBank, MsrRow};
pub use p6::P6;
pub use p55c::P55C;
pub use pii::PII;
pub use pm::PM;
pub use ppro::PPRO;

/// Identity of the processor that a personality stands for.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Name on the command line.
    pub name: &'static str,
    /// The part, for people.
    pub description: &'static str,
    /// Processor clock in Hz; the time-stamp counter runs at it.
    pub clock_hz: u64,
    /// The instruction set, the bits of CR4 and the physical address bits.
    pub features: Features,
    /// Which data accesses count as misaligned.
    pub alignment: AlignmentRule,
    /// The models of its micro-architecture, if there are any.
    pub models: Option<&'static uarch::part::Part>,
    /// Hardware threads that share a core; processors fill the cores in the order of their numbers.
    pub threads_per_core: u8,
    /// Most processors of a machine, hardware threads all of them. Where it is not the part that sets the
    /// limit, it is [`MAX_PROCESSORS`].
    pub max_processors: u8,
    /// The version field of the local APIC's version register (SDM volume 3, "Local APIC Version
    /// Register": 1xh for an integrated one). Which it is of these, and the next field, is what Linux's
    /// boot logs of these processors show ("Getting VERSION"): 30010 for Pentium MMX, 40011 for Pentium
    /// Pro, II and III, 50014 for Pentium M, 40010 for Athlon and for Opteron.
    pub apic_version: u8,
    /// The "max LVT entry" field of that register.
    pub max_lvt: u8,
    /// Whether accesses to the local APIC's registers are seen on the bus. "For P6 family, Pentium 4, and
    /// Intel Xeon processors, the APIC handles all memory accesses to addresses within the 4-KByte APIC
    /// register space internally and no external bus cycles are produced. For the Pentium processors with
    /// an on-chip APIC, bus cycles are produced" (Intel SDM volume 3A, "Local APIC Block Diagram"). For
    /// AMD's parts, not sourced.
    pub local_apic_on_bus: bool,
    /// Whether the local APIC has its base address in MSR 1Bh; else it is at FEE0_0000h for good.
    pub apic_base_msr: bool,
    /// Clock in Hz that the local APIC's timer divides.
    pub apic_timer_hz: u64,
    /// Cycles of the processor clock from the end of the instruction that writes the interrupt command
    /// register until the message is in another processor's local APIC.
    pub ipi_latency: u64,
    /// CPUID functions, ascending.
    pub cpuid: Cow<'static, [CpuidLeaf]>,
    /// What any other function returns.
    pub cpuid_out_of_range: OutOfRange,
    /// Whether function 1 shows the initial local APIC identifier in EBX bits 31:24.
    pub cpuid_apic_id: bool,
    /// Registers that answer for what CPUID returns.
    pub cpuid_overrides: &'static [CpuidOverride],
    /// Model-specific registers, in tables of any order.
    pub msrs: Cow<'static, [&'static [MsrRow]]>,
    /// Registers that come with [`Isa::Distro`].
    pub distro_msrs: &'static [MsrRow],
}

/// Most processors of a machine of any part: FFh addresses every local APIC, and of the 255 identifiers
/// that are left, the I/O APIC has one. Real ones up to P6 and K7 have identifiers of four bits.
pub const MAX_PROCESSORS: u8 = 254;

const FUNCTION_1: u32 = 1;
const EXTENDED_0: u32 = 0x8000_0000;
const EXTENDED_1: u32 = 0x8000_0001;
const EXTENDED_8: u32 = 0x8000_0008;
/// The APIC bit, in EDX of functions 1 and 8000_0001h.
const APIC: u32 = 1 << 9;
/// Function 1 ECX: zero on every processor, one under hypervisors that show themselves.
const HYPERVISOR: u32 = 1 << 31;

impl Platform {
    /// The personalities that exist.
    pub const ALL: &'static [&'static Platform] = &[&P55C, &PPRO, &PII, &P6, &PM, &K7, &K8, &KNC];

    /// Finds a personality by its command-line name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|p| p.name == name)
    }

    /// The hardware threads of the core that a processor is of, itself included.
    pub(crate) fn core_of(&self, processor: usize) -> ProcessorSet {
        let threads = usize::from(self.threads_per_core);
        let first = processor - processor % threads;
        (first..first + threads).fold(ProcessorSet::default(), |mut core, id| {
            core.insert(id);
            core
        })
    }

    /// Executes CPUID with `function` in EAX and `subleaf` in ECX.
    pub fn cpuid(&self, function: u32, subleaf: u32, context: CpuidContext) -> CpuidResult {
        let function = self.function(function);
        let is_meant = |leaf: &&CpuidLeaf| {
            leaf.function == function && leaf.subleaf.is_none_or(|only| only == subleaf)
        };
        let Some(leaf) = self.cpuid.iter().find(is_meant) else {
            return CpuidResult::default();
        };
        let mut result = leaf.result;
        if let Some(features) = context.features {
            (result.ecx, result.edx) = ((features >> 32) as u32, features as u32);
        }
        if matches!(function, FUNCTION_1 | EXTENDED_1) && !context.apic_enabled {
            result.edx &= !APIC;
        }
        if function == FUNCTION_1 && self.cpuid_apic_id {
            result.ebx |= u32::from(context.apic_id) << 24;
        }
        result
    }

    /// Sets the hypervisor bit. There are no functions of a hypervisor.
    pub fn show_hypervisor(&mut self) {
        for leaf in self.cpuid.to_mut().iter_mut().filter(|leaf| leaf.function == FUNCTION_1) {
            leaf.result.ecx |= HYPERVISOR;
        }
    }

    /// The function that answers for `function`: itself, or the highest basic one.
    fn function(&self, function: u32) -> u32 {
        let has = |wanted: u32| self.cpuid.iter().any(|leaf| leaf.function == wanted);
        match self.cpuid_out_of_range {
            OutOfRange::HighestBasic if !has(function) => {
                let basic = self.cpuid.iter().map(|leaf| leaf.function);
                basic.filter(|&basic| basic < EXTENDED_0).max().unwrap_or(function)
            }
            _ => function,
        }
    }

    /// Processor signature and feature flags, EAX and EDX of function 1, as an MP table lists them.
    pub fn signature(&self) -> (u32, u32) {
        let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
        let leaf = self.cpuid(FUNCTION_1, 0, context);
        (leaf.eax, leaf.edx)
    }
}

#[cfg(test)]
mod instruction_tests;
#[cfg(test)]
mod tests;
