use super::KNC;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = KNC.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// The dump of an SE10P in hwloc's test data.
#[test]
fn the_processor_is_an_se10p() {
    for (function, subleaf, expected) in [
        (0, 0, [4, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]),
        (1, 0, [0xB13, 0xF8_0800, 0, 0x1101_137F]),
        (2, 0, [0; 4]),
        (3, 0, [0; 4]),
        (4, 0, [0xF400_C122, 0x01C0_003F, 0x3F, 0]),
        (4, 1, [0xF400_CD21, 0x01C0_003F, 0x3F, 0]),
        (4, 2, [0xF400_CD41, 0x01C0_003F, 0x3FF, 0]),
        (4, 3, [0; 4]),
        (0x8000_0000, 0, [0x8000_0008, 0, 0, 0]),
        (0x8000_0001, 0, [0, 0, 1, 0x2010_0800]),
        (0x8000_0002, 0, [0; 4]),
        (0x8000_0004, 0, [0; 4]),
        (0x8000_0006, 0, [0, 0, 0x0100_6040, 0]),
        (0x8000_0008, 0, [0x3028, 0, 0, 0]),
        // The highest basic function answers for those that are not there.
        (0xA, 0, [0xF400_C122, 0x01C0_003F, 0x3F, 0]),
    ] {
        assert_eq!(registers(function, subleaf), expected, "{function:#x}.{subleaf}");
    }
}

/// CR4 as measured on a card (OSFXSR faults) and in 328207, section 4.2 (no PGE): VME PVI TSD DE
/// PSE PAE MCE (6:0), PCE (8).
#[test]
fn control_and_addresses() {
    assert_eq!(KNC.features.cr4, 0x17F);
    assert_eq!(KNC.features.phys_bits, 40);
    assert_eq!((KNC.apic_version, KNC.max_lvt, KNC.apic_base_msr), (0x10, 4, true));
    assert_eq!((KNC.clock_hz, KNC.threads_per_core), (1_100_000_000, 4));
}

/// 328207 as restated: 7 variable ranges, PAT, the Pentium's machine check; no MSR 17h, 8Bh, 1A0h.
#[test]
fn registers_of_the_bank() {
    let mut bank = MsrBank::new(&KNC);
    assert_eq!(bank.read(0xFE), Done(0x507));
    assert_eq!(bank.write(0xFE, 0x507), GpFault);
    assert_eq!(bank.read(0x277), Done(0x0007_0406_0007_0406));
    assert_eq!(bank.write(0x20C, 0xFF_FFFF_F006), Done(()));
    assert_eq!(bank.write(0x20D, 1 << 40), GpFault);
    for index in [0, 1] {
        assert_eq!(bank.read(index), Done(0));
    }
    for index in [0x10, 0x17, 0x1B, 0x20, 0x28, 0x2F, 0x8B, 0x179, 0x1A0, 0x20E, 0x400] {
        assert_eq!(bank.read(index), NotOurs, "{index:#x}");
        assert_eq!(bank.write(index, 0), NotOurs, "{index:#x}");
    }
}
