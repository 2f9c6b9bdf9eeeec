use super::K8;
use crate::platform::{CpuidContext, CpuidResult, MsrBank, Platform};
use pmu_model::MsrAccess::{Done, GpFault, NotOurs};

fn cpuid(function: u32) -> CpuidResult {
    K8.cpuid(function, 0, CpuidContext { apic_enabled: true, ..CpuidContext::default() })
}

fn registers(function: u32) -> [u32; 4] {
    let r = cpuid(function);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// AMD 25481 section 2: vendor "AuthenticAMD" in EBX, EDX, ECX; family, model, stepping.
#[test]
fn the_processor_is_an_opteron() {
    assert_eq!(registers(0), [1, 0x6874_7541, 0x444D_4163, 0x6974_6E65]);
    let eax = cpuid(1).eax;
    let family = (eax >> 8 & 15) + (eax >> 20 & 255);
    let model = (eax >> 4 & 15) | (eax >> 12 & 0xF0);
    assert_eq!((family, model, eax & 15), (15, 37, 1));
    assert_eq!(cpuid(0x8000_0001).eax, eax);
    let name: Vec<u8> =
        (0x8000_0002..=0x8000_0004).flat_map(registers).flat_map(u32::to_le_bytes).collect();
    assert_eq!(name.len(), 48);
    assert_eq!(&name[..30], b"AMD Opteron(tm) Processor 846\0");
}

/// AMD 25481 bit numbers, spelled out.
#[test]
fn features_are_those_of_revision_e() {
    let bits = |value: u32| (0..32).filter(|b| value >> b & 1 == 1).collect::<Vec<u32>>();
    let common = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 23, 24, 25, 26];
    assert_eq!(bits(cpuid(1).edx), common);
    assert_eq!(bits(cpuid(1).ecx), [0]); // SSE3 only
    assert_eq!(bits(cpuid(0x8000_0001).ecx), [0]); // LAHF_LM only
    // Instead of SEP: SYSCALL; NX 20, MMXEXT 22, FFXSR 25, LM 29, 3DNOWEXT 30, 3DNOW 31; no
    // CLFSH, SSE, SSE2.
    assert_eq!(
        bits(cpuid(0x8000_0001).edx),
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 20, 22, 23, 24, 25, 29, 30, 31]
    );
}

/// AMD 25481: functions 8000_0005h, 8000_0006h, 8000_0008h, decoded.
#[test]
fn caches_and_addresses() {
    let l1 = cpuid(0x8000_0005);
    // Size in KiB, associativity, lines a tag, line size.
    assert_eq!(l1.ecx.to_be_bytes(), [64, 2, 1, 64]);
    assert_eq!(l1.edx, l1.ecx);
    // Data associativity (full), data entries, code associativity, code entries.
    assert_eq!(l1.ebx.to_be_bytes(), [0xFF, 32, 0xFF, 32]);
    assert_eq!(l1.eax.to_be_bytes(), [0xFF, 8, 0xFF, 8]);
    let l2 = cpuid(0x8000_0006);
    // 1024 KiB, associativity code 8 = 16-way, 1 line a tag, 64 bytes.
    assert_eq!((l2.ecx >> 16, l2.ecx >> 12 & 15, l2.ecx >> 8 & 15, l2.ecx & 255), (1024, 8, 1, 64));
    // Associativity code 4 = 4-way, 512 entries, data and code; no large pages.
    assert_eq!((l2.ebx, l2.eax), (0x4200_4200, 0));
    assert_eq!(registers(0x8000_0007), [0; 4]);
    assert_eq!(registers(0x8000_0008), [48 << 8 | 40, 0, 0, 0]);
    for absent in [2, 4, 7, 0xA, 0xD, 0x4000_0000, 0x8000_000A, 0x8000_001E, 0x8000_0022] {
        assert_eq!(registers(absent), [0; 4], "{absent:#x}");
    }
}

#[test]
fn identity_depends_on_the_processor() {
    let context = CpuidContext { apic_id: 3, ..CpuidContext::default() };
    let leaf = K8.cpuid(1, 0, context);
    assert_eq!(leaf.ebx, 0x0300_0800);
    assert_eq!(leaf.edx >> 9 & 1, 0);
    assert_eq!(leaf.ecx, 1);
    assert_eq!(K8.cpuid(0x8000_0001, 0, context).edx >> 9 & 1, 0);
    assert_eq!(cpuid(1).ecx >> 31, 0);
    assert_eq!(Platform::by_name("k8").unwrap().signature(), (0x0002_0F51, 0x078B_FBFF));
    assert!(Platform::by_name("k9").is_none());
}

/// Registers that Linux 6.1 reads plainly at boot on this part must read, the values as it
/// expects them from a part without C1E and without DRAM modification.
#[test]
fn what_linux_reads_is_there() {
    let bank = MsrBank::new(&K8);
    for (index, value) in [
        (0x8B, 0),
        (0xFE, 0x508),
        (0x179, 0x105),
        (0x277, 0x0007_0406_0007_0406),
        (0x2FF, 0),
        (0xC001_0010, 0),
        (0xC001_0015, 0),
        (0xC001_001D, 0),
        (0xC001_0055, 0),
    ] {
        assert_eq!(bank.read(index), Done(value), "{index:#x}");
    }
    for bank_register in 0x400..0x414 {
        assert_eq!(bank.read(bank_register), Done(0));
    }
}

/// Registers of other processors, of the CPU core, the PMU and the local APIC are not here.
#[test]
fn what_this_part_lacks_is_not_ours() {
    let mut bank = MsrBank::new(&K8);
    for index in [
        0x10,
        0x1B,
        0x17,
        0x1A0,
        0x174,
        0x210,
        0x414,
        0xC000_0080,
        0xC001_0000,
        0xC001_0007,
        0xC001_0041,
        0xC001_0042,
        0xC001_0114,
        0xC001_0140,
        0xC001_1029,
        0xC001_100D,
        u32::MAX,
    ] {
        assert_eq!(bank.read(index), NotOurs, "{index:#x}");
        assert_eq!(bank.write(index, 0), NotOurs, "{index:#x}");
    }
}

/// (index, value written, outcome, value read back)
#[test]
fn conformance_of_writes() {
    for (index, written, outcome, read) in [
        (0x8B, 0, GpFault, Done(0)),
        (0xFE, 0x508, GpFault, Done(0x508)),
        (0x17A, 4, Done(()), Done(4)),
        (0x17A, 8, GpFault, Done(0)),
        (0x17B, u64::MAX, Done(()), Done(0x1F)),
        (0x1D9, 0x3F, Done(()), Done(0x3F)),
        (0x1D9, 0x40, GpFault, Done(0)),
        (0x200, 0xFF_FFFF_F006, Done(()), Done(0xFF_FFFF_F006)),
        (0x200, 0x2, GpFault, Done(0)),     // reserved type
        (0x200, 0x100, GpFault, Done(0)),   // reserved bit
        (0x200, 1 << 40, GpFault, Done(0)), // beyond 40 bits
        (0x20F, 0xFF_C000_0800, Done(()), Done(0xFF_C000_0800)),
        (0x20F, 0x400, GpFault, Done(0)),
        (0x250, 0x0606_0606_0606_0606, Done(()), Done(0x0606_0606_0606_0606)),
        (0x250, 0x0606_0606_0606_0602, GpFault, Done(0)),
        (0x250, 0x1E1E_1E1E_1E1E_1E1E, Done(()), Done(0x0606_0606_0606_0606)), // bits hidden
        (0x277, 0x0007_0106_0007_0106, Done(()), Done(0x0007_0106_0007_0106)),
        (0x277, 0x0200_0000_0000_0000, GpFault, Done(0x0007_0406_0007_0406)),
        (0x2FF, 0xC06, Done(()), Done(0xC06)),
        (0x2FF, 0xC03, GpFault, Done(0)),
        (0x2FF, 0x1000, GpFault, Done(0)),
        (0x400, u64::MAX, Done(()), Done(u64::MAX)),
        (0x401, 0, Done(()), Done(0)),
        (0x401, 1, GpFault, Done(0)),
        (0x413, u64::MAX, Done(()), Done(0)),
        (0xC001_0010, 1 << 19, Done(()), Done(1 << 19)),
        (0xC001_0010, 1 << 40, Done(()), Done(0)),
        (0xC001_0015, 1 << 6, Done(()), Done(1 << 6)),
        (0xC001_001A, u64::MAX, Done(()), Done(0xFF_FF80_0000)),
        (0xC001_0020, 0x1234, Done(()), GpFault),
    ] {
        let mut bank = MsrBank::new(&K8);
        assert_eq!(bank.write(index, written), outcome, "write {index:#x} {written:#x}");
        assert_eq!(bank.read(index), read, "read {index:#x} after {written:#x}");
    }
}

/// They begin with what CPUID returns, and CPUID returns what they hold: ECX above EDX. The local APIC
/// bit goes with IA32_APIC_BASE all the same (AMD64 volume 2 section 16.3.1).
#[test]
fn registers_answer_for_features() {
    let mut bank = MsrBank::new(&K8);
    for (index, function, value) in
        [(0xC001_1004, 1, 0x1_078B_FBFF), (0xC001_1005, 0x8000_0001, 0x1_E3D3_FBFF_u64)]
    {
        assert_eq!(bank.passcode(index), Some(0x9C5A_203A));
        assert_eq!(bank.read(index), Done(value));
        assert!(bank.changed().all(|(changed, _)| changed != index));
        // Without SSE3 or LAHF_LM, and PSE.
        assert_eq!(bank.write(index, value & !(1 << 32 | 1 << 3)), Done(()));
        let mut context = CpuidContext {
            apic_enabled: true,
            features: bank.cpuid_features(function),
            ..CpuidContext::default()
        };
        let seen = K8.cpuid(function, 0, context);
        assert_eq!((seen.ecx, seen.edx), (0, value as u32 & !8));
        context.apic_enabled = false;
        assert_eq!(K8.cpuid(function, 0, context).edx, value as u32 & !(8 | 1 << 9));
    }
    assert_eq!((bank.cpuid_features(0), bank.passcode(0x8B)), (None, None));
}

/// AMD64 volume 2 section 9.3.2: HWCR.McStatusWrEn opens the status registers.
#[test]
fn machine_check_status_can_be_opened() {
    let mut bank = MsrBank::new(&K8);
    bank.write(0xC001_0015, 1 << 18);
    assert_eq!(bank.write(0x411, 5), Done(()));
    assert_eq!(bank.read(0x411), Done(5));
}

/// AMD64 volume 2 section 7.9.1: RdMem and WrMem exist while MtrrFixDramModEn is set.
#[test]
fn fixed_range_dram_bits_appear_with_the_enable() {
    let mut bank = MsrBank::new(&K8);
    bank.write(0xC001_0010, 1 << 19);
    bank.write(0x250, 0x1E1E_1E1E_1E1E_1E1E);
    assert_eq!(bank.read(0x250), Done(0x1E1E_1E1E_1E1E_1E1E));
    bank.write(0xC001_0010, 0);
    assert_eq!(bank.read(0x250), Done(0x0606_0606_0606_0606));
}

/// 5 GiB: 3 GiB below the hole at C000_0000h, 2 GiB above 4 GiB.
#[test]
fn firmware_makes_ram_write_back() {
    let mut bank = MsrBank::new(&K8);
    bank.set_up_by_firmware(0xC000_0000, 0x1_8000_0000, 0xC000_0000);
    assert_eq!(bank.read(0x2FF), Done(0xC06));
    // 1 GiB uncacheable at C000_0000h: mask bits 39:30.
    assert_eq!(bank.read(0x200), Done(0xC000_0000));
    assert_eq!(bank.read(0x201), Done(0xFF_C000_0800));
    assert_eq!(bank.read(0x250), Done(0x0606_0606_0606_0606));
    assert_eq!(bank.read(0x259), Done(0));
    assert_eq!(bank.read(0xC001_001A), Done(0xC000_0000));
    assert_eq!(bank.read(0xC001_001D), Done(0x1_8000_0000));
    assert_eq!(bank.read(0xC001_0010), Done(0x14_0000));
}
