use super::PM;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = PM.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AP-485 and Intel 302189: family 6, model 13; feature bits by number; descriptors.
#[test]
fn the_processor_is_a_dothan() {
    assert_eq!(registers(0, 0), [2, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax >> 8, eax >> 4 & 15, eax & 15), (6, 13, 6));
    assert_eq!((ebx, ecx), (0x0816, 0));
    let bits: Vec<u32> = (0..32).filter(|b| edx >> b & 1 == 1).collect();
    // No PAE 6, no PSE36 17; and none of DS 21, ACPI 22, TM 29, PBE 31.
    assert_eq!(bits, [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 19, 23, 24, 25, 26, 27]);
    let descriptors: Vec<u8> = registers(2, 0).into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(
        descriptors,
        [1, 0xB0, 0xB3, 0x02, 0xF0, 0, 0, 0, 0, 0, 0, 0, 0x7D, 0x30, 0x04, 0x2C]
    );
    assert_eq!(registers(0x8000_0000, 0)[0], 0x8000_0004);
    let name: Vec<u8> = (0x8000_0002..=0x8000_0004)
        .flat_map(|function| registers(function, 0))
        .flat_map(u32::to_le_bytes)
        .collect();
    assert_eq!(&name, b"        Intel(R) Pentium(R) M processor 1.60GHz\0");
}

#[test]
fn control_and_addresses() {
    // No PAE (5).
    assert_eq!(PM.features.cr4, 0x7DF);
    assert_eq!((PM.apic_version, PM.max_lvt, PM.apic_base_msr), (0x14, 5, true));
}

/// SDM volume 3, appendix B: IA32_MISC_ENABLE has fast strings (0) on, says that there is
/// performance monitoring (7) and that there are no BTS (11) and PEBS (12); Linux reads it before
/// it can take a fault. The rest is the P6 family's.
#[test]
fn what_linux_reads_is_there() {
    let mut bank = MsrBank::new(&PM);
    assert_eq!(bank.read(0x1A0), Done(0x1881));
    assert_eq!(bank.write(0x1A0, 0), Done(()));
    assert_eq!(bank.read(0x1A0), Done(0x1880));
    assert_eq!(bank.read(0x17), Done(0));
    assert_eq!(bank.write(0x17, 1), GpFault);
    assert_eq!(bank.read(0xFE), Done(0x508));
    assert_eq!(bank.read(0x277), Done(0x0007_0406_0007_0406));
    assert_eq!(bank.read(0x3A), NotOurs);
}
