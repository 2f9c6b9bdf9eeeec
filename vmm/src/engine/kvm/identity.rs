//! Which processor a KVM guest sees: CPUID, and who answers for which model-specific register.

use kvm_bindings::{CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};
use kvm_ioctls::{MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags};
use x86_cpu::features::Features;
use x86_cpu::msr::CoreMsr;

use crate::msr;
use crate::platform::{CpuidContext, Platform};

/// CPUID of processor `id`, as the software engine answers it. There are no leaves of a hypervisor.
///
/// KVM answers for other functions by the vendor: zeros for AMD, the highest basic function for
/// Intel, as the platforms do.
pub(super) fn cpuid(platform: &Platform, id: usize) -> Option<CpuId> {
    let context = CpuidContext::at_reset(id);
    let rows = platform.cpuid.iter().map(|leaf| {
        let index = leaf.subleaf.unwrap_or(0);
        let result = platform.cpuid(leaf.function, index, context);
        kvm_cpuid_entry2 {
            function: leaf.function,
            index,
            flags: if leaf.subleaf.is_some() { KVM_CPUID_FLAG_SIGNIFCANT_INDEX } else { 0 },
            eax: result.eax,
            ebx: result.ebx,
            ecx: result.ecx,
            edx: result.edx,
            padding: [0; 3],
        }
    });
    CpuId::from_entries(&rows.collect::<Vec<_>>()).ok()
}

/// The model-specific registers that stay with KVM: those of the processor core, the time-stamp
/// counter, and with `apic_base` the address of a local APIC that the kernel has.
///
/// Every other one ends in this process and is answered by the same tables as on the software
/// engine: those of the PMU as well as those that KVM has opinions of its own about.
fn kvms_own(features: &Features, apic_base: bool) -> Vec<u32> {
    let others = [(apic_base, msr::APIC_BASE), (features.tsc, msr::TSC)];
    let others = others.into_iter().filter_map(|(has, index)| has.then_some(index));
    others.chain(CoreMsr::of(features).map(|register| register.index)).collect()
}

/// Gives KVM's filter to `set`. `apic_base`: the kernel has the local APICs, and their base.
pub(super) fn with_msr_filter<T>(
    features: &Features,
    apic_base: bool,
    set: impl FnOnce(MsrFilterDefaultAction, &[MsrFilterRange<'_>]) -> T,
) -> T {
    // There are at most 13, and KVM takes 16 (`KVM_MSR_FILTER_MAX_RANGES`).
    let range = |base| MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base,
        msr_count: 1,
        bitmap: &[1],
    };
    let mut ranges: Vec<_> = kvms_own(features, apic_base).into_iter().map(range).collect();
    if ranges.is_empty() {
        // KVM wants at least one where all is refused: refuses register 0.
        ranges.push(MsrFilterRange { bitmap: &[0], ..range(0) });
    }
    set(MsrFilterDefaultAction::DENY, &ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{K8, KNC, P55C, PPRO};

    /// CPUID function 1: EBX 31:24 is the initial APIC identifier on parts that show it.
    #[test]
    fn cpuid_is_the_platforms() {
        let cpuid = cpuid(&K8, 3).unwrap();
        let leaf = cpuid.as_slice().iter().find(|leaf| leaf.function == 1).unwrap();
        assert_eq!(leaf.ebx >> 24, 3);
        // No hypervisor bit, no hypervisor leaves.
        assert_eq!(leaf.ecx >> 31, 0);
        assert!(cpuid.as_slice().iter().all(|leaf| leaf.function >> 28 != 4));
    }

    /// KVM is told nothing else with the bit (CPUID function 1, ECX bit 31).
    #[test]
    fn the_hypervisor_bit_is_all_that_shows_one() {
        for platform in Platform::ALL {
            let mut shown = (*platform).clone();
            shown.show_hypervisor();
            let (plain, shown) = (cpuid(platform, 0).unwrap(), cpuid(&shown, 0).unwrap());
            assert_eq!(plain.as_slice().len(), shown.as_slice().len());
            for (plain, shown) in plain.as_slice().iter().zip(shown.as_slice()) {
                let bit = if plain.function == 1 { 1 << 31 } else { 0 };
                assert_eq!(plain.ecx >> 31, 0, "{}", platform.name);
                assert_eq!(*shown, kvm_cpuid_entry2 { ecx: plain.ecx | bit, ..*plain });
            }
        }
    }

    /// SYSENTER came with the Pentium II, SYSCALL with the K6, long mode with the K8.
    #[test]
    fn a_part_without_a_feature_does_not_have_its_registers() {
        let has =
            |platform: &Platform, index: u32| kvms_own(&platform.features, false).contains(&index);
        for platform in Platform::ALL {
            assert!(has(platform, 0x10), "{}", platform.name);
            for other in [0x1B, 0xC1, 0x186, 0xC001_0000, 0x11, 0x20, 0xC001_0015, 0xFE] {
                assert!(!has(platform, other), "{} {other:#x}", platform.name);
            }
        }
        assert!(!has(&P55C, 0x174) && !has(&P55C, 0xC000_0080) && !has(&PPRO, 0xC000_0081));
        assert!(has(&K8, 0x176) && has(&K8, 0xC000_0102) && has(&KNC, 0xC000_0080));
    }
}
