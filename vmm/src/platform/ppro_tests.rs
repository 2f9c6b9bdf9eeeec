use super::PPRO;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = PPRO.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AP-485: "GenuineIntel", family 6; feature bits by number. SDM volume 2 (1999), table 3-9: the
/// descriptors, one byte each.
#[test]
fn the_processor_is_the_part() {
    assert_eq!(registers(0, 0), [2, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax >> 8, eax >> 4 & 15, eax & 15), (6, 1, 9));
    assert_eq!((ebx, ecx), (0, 0));
    let bits: Vec<u32> = (0..32).filter(|b| edx >> b & 1 == 1).collect();
    assert_eq!(bits, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15]);
    let [eax, ebx, ecx, edx] = registers(2, 0);
    // Low byte: how often to ask. Then the TLBs.
    assert_eq!(eax.to_le_bytes(), [1, 1, 2, 3]);
    assert_eq!((ebx, ecx), (0, 0));
    assert_eq!(edx.to_le_bytes(), [0x42, 0x0A, 0x04, 0x06]);
    // Neither a serial number nor performance monitoring nor extended functions.
    for absent in [3, 0xA, 0x8000_0000] {
        assert_eq!(registers(absent, 0), registers(2, 0), "{absent:#x}");
    }
}

#[test]
fn control_and_addresses() {
    assert_eq!(PPRO.features.cr4, 0x1FF);
    assert_eq!(PPRO.features.phys_bits, 36);
    assert_eq!((PPRO.apic_version, PPRO.max_lvt, PPRO.apic_base_msr), (0x11, 4, true));
    assert_eq!((PPRO.clock_hz, PPRO.threads_per_core), (200_000_000, 1));
}

/// Registers that Linux 6.1 reads plainly at boot on family 6 (PLATFORM_ID, microcode revision,
/// MTRRs, machine check), and PAT where CPUID shows it.
#[test]
fn what_linux_reads_is_there() {
    let bank = MsrBank::new(&PPRO);
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
    assert_eq!(bank.read(0x277), NotOurs);
    for index in
        [0x10, 0x1B, 0xC1, 0xC2, 0x119, 0x174, 0x186, 0x187, 0x1A0, 0x210, 0x403, 0xC000_0080]
    {
        assert_eq!(bank.read(index), NotOurs, "{index:#x}");
    }
}

#[test]
fn a_register_without_a_read() {
    assert_eq!(MsrBank::new(&PPRO).read(0x79), GpFault);
}
