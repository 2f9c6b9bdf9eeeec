use super::P55C;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = P55C.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AP-485: "GenuineIntel" in EBX, EDX, ECX; family 5, model 4, type 0. Feature bits FPU 0, VME 1,
/// DE 2, PSE 3, TSC 4, MSR 5, MCE 7, CX8 8, APIC 9, MMX 23.
#[test]
fn the_processor_is_a_pentium_mmx() {
    assert_eq!(registers(0, 0), [1, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax >> 12 & 3, eax >> 8 & 15, eax >> 4 & 15, eax & 15), (0, 5, 4, 3));
    assert_eq!((ebx, ecx), (0, 0));
    let bits: Vec<u32> = (0..32).filter(|b| edx >> b & 1 == 1).collect();
    assert_eq!(bits, [0, 1, 2, 3, 4, 5, 7, 8, 9, 23]);
    // No function 2; any other returns the highest, and none claims extended functions.
    assert_eq!(registers(2, 0), registers(1, 0));
    assert_eq!(registers(0x8000_0000, 0), registers(1, 0));
}

/// CR4: VME PVI TSD DE PSE (4:0), MCE (6), PCE (8); no PAE, PGE, OSFXSR (SDM volume 3, 1999,
/// section 2.5). Physical addresses have 32 bits.
#[test]
fn control_and_addresses() {
    assert_eq!(P55C.features.cr4, 0x15F);
    assert_eq!(P55C.features.phys_bits, 32);
    assert_eq!((P55C.apic_version, P55C.max_lvt, P55C.apic_base_msr), (0x10, 3, false));
    assert_eq!((P55C.clock_hz, P55C.threads_per_core), (200_000_000, 1));
}

/// SDM volume 3, appendix on the Pentium's registers: 0, 1 and Eh; all else is the CPU's or the
/// PMU's (10h-13h), or of later processors.
#[test]
fn registers_of_the_bank() {
    let mut bank = MsrBank::new(&P55C);
    for index in [0, 1] {
        assert_eq!(bank.read(index), Done(0));
        assert_eq!(bank.write(index, u64::MAX), Done(()));
        assert_eq!(bank.read(index), Done(0));
    }
    assert_eq!(bank.write(0xE, u64::MAX), Done(()));
    assert_eq!(bank.read(0xE), Done(0x3FF));
    for index in [0x10, 0x11, 0x12, 0x13, 0x17, 0x1B, 0x8B, 0xC1, 0xFE, 0x179, 0x186, 0x1A0, 0x277]
    {
        assert_eq!(bank.read(index), NotOurs, "{index:#x}");
        assert_eq!(bank.write(index, 0), NotOurs, "{index:#x}");
    }
}
