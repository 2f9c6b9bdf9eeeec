use super::PII;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = PII.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AP-485: "GenuineIntel", family 6; feature bits by number. SDM volume 2 (1999), table 3-9: the
/// descriptors, one byte each.
#[test]
fn the_processor_is_the_part() {
    assert_eq!(registers(0, 0), [2, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax >> 8, eax >> 4 & 15, eax & 15), (6, 5, 2));
    assert_eq!((ebx, ecx), (0, 0));
    let bits: Vec<u32> = (0..32).filter(|b| edx >> b & 1 == 1).collect();
    assert_eq!(bits, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 23, 24]);
    let [eax, ebx, ecx, edx] = registers(2, 0);
    // Low byte: how often to ask. Then the TLBs.
    assert_eq!(eax.to_le_bytes(), [1, 1, 2, 3]);
    assert_eq!((ebx, ecx), (0, 0));
    assert_eq!(edx.to_le_bytes(), [0x43, 0x08, 0x04, 0x0C]);
    // Neither a serial number nor performance monitoring nor extended functions.
    for absent in [3, 0xA, 0x8000_0000] {
        assert_eq!(registers(absent, 0), registers(2, 0), "{absent:#x}");
    }
}

#[test]
fn control_and_addresses() {
    assert_eq!(PII.features.cr4, 0x3FF);
    assert_eq!(PII.features.phys_bits, 36);
    assert_eq!((PII.apic_version, PII.max_lvt, PII.apic_base_msr), (0x11, 4, true));
    assert_eq!((PII.clock_hz, PII.threads_per_core), (400_000_000, 1));
}

/// Registers that Linux 6.1 reads plainly at boot on family 6 (PLATFORM_ID, microcode revision,
/// MTRRs, machine check), and PAT where CPUID shows it.
#[test]
fn what_linux_reads_is_there() {
    let bank = MsrBank::new(&PII);
    for (index, value) in
        [(0x17, 0), (0x8B, 0), (0xFE, 0x508), (0x179, 0x105), (0x17A, 0), (0x2FF, 0)]
    {
        assert_eq!(bank.read(index), Done(value), "{index:#x}");
    }
    for index in (0x200..0x210).chain(0x268..0x270).chain([0x250, 0x258, 0x259]) {
        assert_eq!(bank.read(index), Done(0), "{index:#x}");
    }
    for n in 0..5 {
        assert_eq!(bank.read(0x400 + 4 * n), Done(0));
        assert_eq!(bank.read(0x401 + 4 * n), Done(0));
    }
    assert_eq!(bank.read(0x277), Done(0x0007_0406_0007_0406));
    for index in
        [0x10, 0x1B, 0xC1, 0xC2, 0x119, 0x174, 0x186, 0x187, 0x1A0, 0x210, 0x403, 0xC000_0080]
    {
        assert_eq!(bank.read(index), NotOurs, "{index:#x}");
    }
}

#[test]
fn a_register_without_a_read() {
    assert_eq!(MsrBank::new(&PII).read(0x79), GpFault);
}
