use super::P6;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = P6.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AP-485: "GenuineIntel", family 6; feature bits by number. SDM volume 2 (1999), table 3-9: the
/// descriptors, one byte each.
#[test]
fn the_processor_is_the_part() {
    assert_eq!(registers(0, 0), [2, 0x756E_6547, 0x6C65_746E, 0x4965_6E69]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax >> 8, eax >> 4 & 15, eax & 15), (6, 8, 10));
    assert_eq!((ebx, ecx), (2, 0));
    let bits: Vec<u32> = (0..32).filter(|b| edx >> b & 1 == 1).collect();
    assert_eq!(bits, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 23, 24, 25]);
    let [eax, ebx, ecx, edx] = registers(2, 0);
    // Low byte: how often to ask. Then the TLBs.
    assert_eq!(eax.to_le_bytes(), [1, 1, 2, 3]);
    assert_eq!((ebx, ecx), (0, 0));
    assert_eq!(edx.to_le_bytes(), [0x82, 0x08, 0x04, 0x0C]);
    // Neither a serial number nor performance monitoring nor extended functions.
    for absent in [3, 0xA, 0x8000_0000] {
        assert_eq!(registers(absent, 0), registers(2, 0), "{absent:#x}");
    }
}

#[test]
fn control_and_addresses() {
    assert_eq!(P6.features.cr4, 0x7FF);
    assert_eq!(P6.features.phys_bits, 36);
    assert_eq!((P6.apic_version, P6.max_lvt, P6.apic_base_msr), (0x11, 4, true));
    assert_eq!((P6.clock_hz, P6.threads_per_core), (1_000_000_000, 1));
}

/// Registers that Linux 6.1 reads plainly at boot on family 6 (PLATFORM_ID, microcode revision,
/// MTRRs, machine check), and PAT where CPUID shows it.
#[test]
fn what_linux_reads_is_there() {
    let bank = MsrBank::new(&P6);
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

/// (index, value written, outcome, value read back). SDM volume 3 (1999), sections 9.11.2 and 13.3:
/// reserved MTRR bits and types raise #GP, machine-check status takes zeros only.
#[test]
fn conformance_of_writes() {
    for (index, written, outcome, read) in [
        (0x17, 1, GpFault, Done(0)),
        (0x79, 0x1234, Done(()), GpFault),
        (0x8B, u64::MAX, Done(()), Done(u64::MAX)),
        (0xFE, 0x508, GpFault, Done(0x508)),
        (0x17A, 8, GpFault, Done(0)),
        (0x17B, u64::MAX, Done(()), Done(u64::MAX)),
        (0x1D9, 0x7F, Done(()), Done(0x7F)),
        (0x1D9, 0x80, GpFault, Done(0)),
        (0x200, 0xF_FFFF_F006, Done(()), Done(0xF_FFFF_F006)),
        (0x200, 2, GpFault, Done(0)),
        (0x200, 1 << 36, GpFault, Done(0)),
        (0x20F, 0xF_C000_0800, Done(()), Done(0xF_C000_0800)),
        (0x250, 0x0606_0606_0606_0606, Done(()), Done(0x0606_0606_0606_0606)),
        (0x250, 0x0606_0606_0606_0602, GpFault, Done(0)),
        // What AMD keeps RdMem and WrMem in is reserved here.
        (0x250, 0x0606_0606_0606_0616, GpFault, Done(0)),
        (0x2FF, 0xC06, Done(()), Done(0xC06)),
        (0x401, 0, Done(()), Done(0)),
        (0x401, 1, GpFault, Done(0)),
        (0x33, u64::MAX, Done(()), Done(0xC000_0000)),
    ] {
        let mut bank = MsrBank::new(&P6);
        assert_eq!(bank.write(index, written), outcome, "write {index:#x} {written:#x}");
        assert_eq!(bank.read(index), read, "read {index:#x} after {written:#x}");
    }
}
