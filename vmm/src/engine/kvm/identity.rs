//! Which processor a KVM guest sees: CPUID, and who answers for which model-specific register.

use kvm_bindings::{CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};
use kvm_ioctls::{MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags};
use x86_cpu::features::Features;

use crate::msr;
use crate::platform::{CpuidContext, Platform};

/// CPUID of processor `id`, as the software engine answers it. There are no leaves of a hypervisor.
///
/// KVM answers for other functions by the vendor: zeros for AMD, the highest basic function for
/// Intel, as the platforms do.
pub(super) fn cpuid(platform: &Platform, id: usize) -> Option<CpuId> {
    let context = CpuidContext {
        apic_id: u8::try_from(id).unwrap_or(u8::MAX),
        apic_enabled: true,
        ..CpuidContext::default()
    };
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

/// Runs of model-specific registers that stay with KVM, since they belong to the processor core:
/// first index and number.
///
/// Every other one ends in this process and is answered by the same tables as on the software
/// engine: those of the PMU as well as those that KVM has opinions of its own about.
fn core_msrs(features: &Features, apic_base: bool) -> Vec<(u32, u32)> {
    [
        (apic_base, (msr::APIC_BASE, 1)),
        (features.tsc, (msr::TSC, 1)),
        // SYSENTER_CS, SYSENTER_ESP, SYSENTER_EIP.
        (features.sep, (0x174, 3)),
        // EFER, STAR.
        (features.syscall, (0xC000_0080, 2)),
        // LSTAR, CSTAR, SFMASK.
        (features.long_mode, (0xC000_0082, 3)),
        // FS_BASE, GS_BASE, KERNEL_GS_BASE.
        (features.long_mode, (0xC000_0100, 3)),
    ]
    .into_iter()
    .filter_map(|(has, run)| has.then_some(run))
    .collect()
}

/// Gives KVM's filter to `set`. `apic_base`: the kernel has the local APICs, and their base.
pub(super) fn with_msr_filter<T>(
    features: &Features,
    apic_base: bool,
    set: impl FnOnce(MsrFilterDefaultAction, &[MsrFilterRange<'_>]) -> T,
) -> T {
    let range = |(base, msr_count)| MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base,
        msr_count,
        bitmap: &[0xFF],
    };
    let mut ranges: Vec<_> = core_msrs(features, apic_base).into_iter().map(range).collect();
    if ranges.is_empty() {
        // KVM wants at least one where all is refused: refuses register 0.
        ranges.push(MsrFilterRange { bitmap: &[0], ..range((0, 1)) });
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
        let has = |platform: &Platform, index: u32| {
            core_msrs(&platform.features, false)
                .iter()
                .any(|&(base, count)| (base..base + count).contains(&index))
        };
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
