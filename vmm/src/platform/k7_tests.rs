use super::K7;
use crate::platform::{CpuidContext, MsrBank};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn registers(function: u32, subleaf: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = K7.cpuid(function, subleaf, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AMD 20734: vendor "AuthenticAMD" in EBX, EDX, ECX; family 6, model 4, the family one higher in
/// the extended function; feature bits by number.
#[test]
fn the_processor_is_a_thunderbird() {
    assert_eq!(registers(0, 0), [1, 0x6874_7541, 0x444D_4163, 0x6974_6E65]);
    assert_eq!(registers(0x8000_0000, 0), [0x8000_0006, 0x6874_7541, 0x444D_4163, 0x6974_6E65]);
    let [eax, ebx, ecx, edx] = registers(1, 0);
    assert_eq!((eax, ebx, ecx), (0x642, 0, 0));
    let bits = |value: u32| (0..32).filter(|b| value >> b & 1 == 1).collect::<Vec<u32>>();
    let common = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 23, 24];
    assert_eq!(bits(edx), common);
    let [eax, ebx, ecx, edx] = registers(0x8000_0001, 0);
    assert_eq!((eax, ebx, ecx), (0x742, 0, 0));
    // MMXEXT 22, 3DNOWEXT 30, 3DNOW 31; neither MP 19 nor NX 20 nor LM 29.
    assert_eq!(
        bits(edx),
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 22, 23, 24, 30, 31]
    );
    let name: Vec<u8> = (0x8000_0002..=0x8000_0004)
        .flat_map(|function| registers(function, 0))
        .flat_map(u32::to_le_bytes)
        .collect();
    assert_eq!(&name[..25], b"AMD Athlon(tm) Processor\0");
}

/// AMD 20734: functions 8000_0005h and 8000_0006h, decoded.
#[test]
fn caches() {
    let [eax, ebx, ecx, edx] = registers(0x8000_0005, 0);
    // Associativity and entries, data then code: large pages, small pages.
    assert_eq!(eax.to_be_bytes(), [4, 8, 0xFF, 8]);
    assert_eq!(ebx.to_be_bytes(), [0xFF, 24, 0xFF, 16]);
    // Size in KiB, associativity, lines a tag, line size.
    assert_eq!((ecx.to_be_bytes(), edx), ([64, 2, 1, 64], ecx));
    let [eax, ebx, ecx, edx] = registers(0x8000_0006, 0);
    assert_eq!((eax, ebx, edx), (0, 0x4100_4100, 0));
    // 256 KiB, associativity code 8 = 16-way, 1 line a tag, 64 bytes.
    assert_eq!((ecx >> 16, ecx >> 12 & 15, ecx >> 8 & 15, ecx & 255), (256, 8, 1, 64));
    for absent in [2, 4, 0xA, 0x8000_0008, 0x8000_0022] {
        assert_eq!(registers(absent, 0), [0; 4], "{absent:#x}");
    }
}

#[test]
fn control_and_addresses() {
    // No OSXMMEXCPT (10).
    assert_eq!(K7.features.cr4, 0x3FF);
    assert_eq!(K7.features.phys_bits, 36);
    assert_eq!((K7.apic_version, K7.max_lvt, K7.apic_base_msr), (0x10, 4, true));
    assert_eq!((K7.clock_hz, K7.threads_per_core), (1_000_000_000, 1));
}

/// (index, value written, outcome, value read back)
#[test]
fn conformance_of_writes() {
    for (index, written, outcome, read) in [
        (0x8B, 0, GpFault, Done(0)),
        (0x179, 0, GpFault, Done(0x104)), // four banks
        (0x17B, u64::MAX, Done(()), Done(0xF)),
        (0x200, 1 << 36, GpFault, Done(0)), // beyond 36 bits
        (0x250, 0x1E1E_1E1E_1E1E_1E1E, Done(()), Done(0x0606_0606_0606_0606)), // bits hidden
        (0x277, 0x0007_0106_0007_0106, Done(()), Done(0x0007_0106_0007_0106)),
        (0x400, 0, Done(()), Done(0)),
        (0x40D, 1, GpFault, Done(0)),
        (0x40F, 1, Done(()), Done(0)),
        (0x410, 0, NotOurs, NotOurs),
        (0xC001_0010, 1 << 18, Done(()), Done(1 << 18)),
        (0xC001_0015, 1 << 15, Done(()), Done(1 << 15)),
        (0xC001_001A, u64::MAX, Done(()), Done(0xF_FF80_0000)),
        (0xC001_001B, 0x2003_D22F, Done(()), Done(0x2003_D22F)),
        (0xC001_0020, 0x1234, Done(()), GpFault),
        (0xC001_0055, 0, NotOurs, NotOurs),
        (0xC001_1029, 0, NotOurs, NotOurs),
    ] {
        let mut bank = MsrBank::new(&K7);
        assert_eq!(bank.write(index, written), outcome, "write {index:#x} {written:#x}");
        assert_eq!(bank.read(index), read, "read {index:#x} after {written:#x}");
    }
    assert_eq!(MsrBank::new(&K7).read(0xC001_001B), Done(0x2000_0000));
}
