//! What a personality is besides its counters: the processor that CPUID names, its clock, and the
//! model-specific registers that belong neither to the CPU core nor to the PMU nor to the local
//! APIC.

mod k8;
mod msr;

pub use k8::K8;
pub use msr::{Check, MsrAccess, MsrBank, MsrRow};

/// The four registers that CPUID returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidResult {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// One CPUID function of a personality.
#[derive(Clone, Copy, Debug)]
pub struct CpuidLeaf {
    /// Function number, the input in EAX.
    pub function: u32,
    /// What it returns on the boot processor with its local APIC enabled.
    pub result: CpuidResult,
}

/// What makes CPUID differ between two logical processors, or two moments, of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidContext {
    /// Initial local APIC identifier.
    pub apic_id: u8,
    /// `APIC_BASE` bit 11: while clear, CPUID hides the APIC.
    pub apic_enabled: bool,
    /// Whether to show the hypervisor bit, function 1 ECX bit 31.
    pub hypervisor: bool,
}

/// Identity of the processor that a personality stands for.
#[derive(Debug)]
pub struct Platform {
    /// Name on the command line.
    pub name: &'static str,
    /// The part, for people.
    pub description: &'static str,
    /// Processor clock in Hz; the time-stamp counter runs at it.
    pub clock_hz: u64,
    /// Hardware threads of a core, which share its time-stamp counter.
    pub threads_per_core: u8,
    /// CPUID functions, ascending; any other returns zeros.
    pub cpuid: &'static [CpuidLeaf],
    /// Model-specific registers, ascending.
    pub msrs: &'static [MsrRow],
}

const FUNCTION_1: u32 = 1;
const EXTENDED_1: u32 = 0x8000_0001;
/// The APIC bit, in EDX of functions 1 and 8000_0001h.
const APIC: u32 = 1 << 9;
/// Function 1 ECX: zero on every processor, one under hypervisors that show themselves.
const HYPERVISOR: u32 = 1 << 31;

impl Platform {
    /// The personalities that exist.
    pub const ALL: &'static [&'static Platform] = &[&K8];

    /// Finds a personality by its command-line name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|p| p.name == name)
    }

    /// Executes CPUID.
    pub fn cpuid(&self, function: u32, context: CpuidContext) -> CpuidResult {
        let Ok(at) = self.cpuid.binary_search_by_key(&function, |leaf| leaf.function) else {
            return CpuidResult::default();
        };
        let mut result = self.cpuid[at].result;
        if matches!(function, FUNCTION_1 | EXTENDED_1) && !context.apic_enabled {
            result.edx &= !APIC;
        }
        if function == FUNCTION_1 {
            result.ebx |= u32::from(context.apic_id) << 24;
            if context.hypervisor {
                result.ecx |= HYPERVISOR;
            }
        }
        result
    }

    /// Processor signature and feature flags, EAX and EDX of function 1, as an MP table lists them.
    pub fn signature(&self) -> (u32, u32) {
        let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
        let leaf = self.cpuid(FUNCTION_1, context);
        (leaf.eax, leaf.edx)
    }
}
