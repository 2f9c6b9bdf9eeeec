use super::*;
use pmu_model::MsrAccess::{self, Done};
use x86_cpu::features::EncodingRules;

/// What the lookups rely on, and the command line.
#[test]
fn the_tables_are_in_order() {
    for platform in Platform::ALL {
        let name = platform.name;
        let key = |leaf: &CpuidLeaf| (leaf.function, leaf.subleaf);
        assert!(platform.cpuid.windows(2).all(|w| key(&w[0]) < key(&w[1])), "{name}");
        let all = platform.msrs.iter().copied().chain([platform.distro_msrs]).flatten();
        let mut indices: Vec<_> = all.map(|row| row.index).collect();
        let rows = indices.len();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), rows, "{name}: a register twice");
        assert!(Platform::by_name(name).is_some_and(|p| std::ptr::eq(p, *platform)));
        assert!(!platform.description.contains('\n'));
    }
}

/// A feature that CPUID shows executes, and one that executes is shown. Bit numbers from AP-485 and
/// AMD 25481. The Pentium Pro shows SEP without having it (AP-485).
#[test]
fn cpuid_tells_the_instruction_set() {
    for platform in Platform::ALL {
        let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
        let edx = platform.cpuid(1, 0, context).edx;
        let has_extended = platform.cpuid.iter().any(|leaf| leaf.function == 0x8000_0001);
        let extended = if has_extended { platform.cpuid(0x8000_0001, 0, context).edx } else { 0 };
        let f = platform.features;
        let rows = [
            (edx, 4, f.tsc),
            (edx, 5, f.msr),
            (edx, 8, f.cx8),
            (edx, 11, f.sep || platform.name == "ppro"),
            (edx, 15, f.cmov),
            (edx, 19, f.clflush),
            (edx, 23, f.mmx),
            (edx, 24, f.fxsr),
            (edx, 25, f.sse),
            (edx, 26, f.sse2),
            (extended, 11, f.syscall),
            (extended, 20, f.nx),
            (extended, 22, f.mmx_ext),
            (extended, 25, f.ffxsr),
            (extended, 29, f.long_mode),
            (extended, 30, f.now3d_ext),
            (extended, 31, f.now3d),
            // CR4: VME PSE PAE MCE PGE DE by the CPUID bits that announce them.
            (edx, 1, f.cr4 & 1 == 1),
            (edx, 2, f.cr4 >> 3 & 1 == 1),
            (edx, 3, f.cr4 >> 4 & 1 == 1),
            (edx, 6, f.cr4 >> 5 & 1 == 1),
            (edx, 13, f.cr4 >> 7 & 1 == 1),
            (edx, 25, f.cr4 >> 10 & 1 == 1),
        ];
        for (register, bit, has) in rows {
            assert_eq!(register >> bit & 1 == 1, has, "{} bit {bit}", platform.name);
        }
    }
}

/// What the architecture manuals of the two vendors define differently goes with the vendor that
/// CPUID names, whatever `--isa` adds. MOV CR8 by LOCK came to AMD's processors with revision F of
/// family 0Fh, as bit 4 of ECX of function 8000_0001h (AMD 25481, "AltMovCr8").
#[test]
fn a_part_follows_the_manual_of_its_vendor() {
    const AUTHENTIC_AMD: u32 = u32::from_le_bytes(*b"cAMD");
    const GENUINE_INTEL: u32 = u32::from_le_bytes(*b"ntel");
    for platform in Platform::ALL {
        for isa in [Isa::Strict, Isa::Distro] {
            let platform = isa.apply(platform);
            let amd = match platform.cpuid(0, 0, CpuidContext::default()).ecx {
                AUTHENTIC_AMD => true,
                GENUINE_INTEL => false,
                other => panic!("{}: {other:x}", platform.name),
            };
            let f = platform.features;
            let encodings = if amd { EncodingRules::Amd64 } else { EncodingRules::Intel64 };
            assert_eq!(f.encodings, encodings, "{}", platform.name);
            for (name, value, amds) in [
                ("syscall_outside_64bit", f.syscall_outside_64bit, true),
                ("sysret_checks", f.sysret_checks, false),
                ("sysenter_in_long_mode", f.sysenter_in_long_mode, false),
                ("breakpoint_after_ss", f.breakpoint_after_ss, true),
            ] {
                assert_eq!(value, amds == amd, "{}: {name}", platform.name);
            }
            let function = platform.cpuid(0x8000_0001, 0, CpuidContext::default());
            let shown = function.ecx >> 4 & 1 == 1;
            assert_eq!(f.alt_mov_cr8, amd && shown, "{}", platform.name);
        }
    }
}

/// Every part with MTRRs leaves its firmware with RAM write-back and 1 GiB uncacheable below 4 GiB;
/// the masks reach to the end of its physical addresses.
#[test]
fn firmware_sets_up_the_mtrrs_that_there_are() {
    for (platform, mask) in [
        (&PPRO, 0xF_C000_0800),
        (&PII, 0xF_C000_0800),
        (&P6, 0xF_C000_0800),
        (&PM, 0xF_C000_0800),
        (&K7, 0xF_C000_0800),
        (&K8, 0xFF_C000_0800),
        (&KNC, 0xFF_C000_0800),
    ] {
        let mut bank = MsrBank::new(platform);
        bank.set_up_by_firmware(0xC000_0000, 0x1_8000_0000, 0xC000_0000);
        let name = platform.name;
        assert_eq!(bank.read(0x200), Done(0xC000_0000), "{name}");
        assert_eq!(bank.read(0x201), Done(mask), "{name}");
        assert_eq!(bank.read(0x2FF), Done(0xC06), "{name}");
        assert_eq!(bank.read(0x26F), Done(0x0606_0606_0606_0606), "{name}");
        assert_eq!(bank.read(0x259), Done(0), "{name}");
        // What firmware wrote, software can write.
        assert_eq!(bank.write(0x201, mask), Done(()), "{name}");
    }
    let mut bank = MsrBank::new(&P55C);
    bank.set_up_by_firmware(0xC000_0000, 0x1_8000_0000, 0xC000_0000);
    assert_eq!(bank.read(0x2FF), MsrAccess::NotOurs);
}

/// The local APIC's identifier is in CPUID from the Pentium 4 and the Athlon on (Intel SDM volume
/// 2, CPUID, note to EBX bits 31:24).
#[test]
fn who_sees_its_apic_identifier() {
    let context = CpuidContext { apic_id: 5, apic_enabled: true, ..CpuidContext::default() };
    for (platform, ebx) in [
        (&P55C, 0),
        (&PPRO, 0),
        (&PII, 0),
        (&P6, 2),
        // CLFLUSH line of 8 quadwords, brand 16h.
        (&PM, 0x0816),
        (&K7, 0x0500_0000),
        (&K8, 0x0500_0800),
        (&KNC, 0x05F8_0800),
    ] {
        assert_eq!(platform.cpuid(1, 0, context).ebx, ebx, "{}", platform.name);
    }
}

/// Where the vendors differ: SHLD of a word by more than 16, the bytes that PUSH of a segment register
/// writes of four, the flags after a fault of REPE CMPS, whether FXSAVE has the pointers always. The i486, the P6 family and their successors
/// write two bytes of a selector, the Pentium all four (Intel SDM volume 3, section 22.31.1), whose core
/// Knights Corner has.
#[test]
fn each_has_the_undefined_answers_of_its_vendor() {
    use x86_cpu::features::DoubleShift::{Destination, Source};
    for (name, double_shift, words, intel) in [
        ("p55c", Destination, false, true),
        ("ppro", Destination, true, true),
        ("pii", Destination, true, true),
        ("p6", Destination, true, true),
        ("pm", Destination, true, true),
        ("k7", Source, false, false),
        ("k8", Source, false, false),
        ("knc", Destination, false, true),
    ] {
        let f = Platform::by_name(name).expect("a name").features;
        let got = (f.double_shift, f.selector_words, f.repeat_restores_flags, f.fxsave_pointers);
        assert_eq!(got, (double_shift, words, intel, intel), "{name}");
    }
}

/// The local APIC's version register as Linux printed it on the processors ("Getting VERSION"): max LVT
/// entry in bits 23:16, version in bits 7:0.
#[test]
fn version_registers_are_those_of_boot_logs() {
    for (platform, register) in [
        (&P55C, 0x3_0010),
        (&PPRO, 0x4_0011),
        (&PII, 0x4_0011),
        (&P6, 0x4_0011),
        (&PM, 0x5_0014),
        (&K7, 0x4_0010),
        (&K8, 0x4_0010),
    ] {
        let got = u32::from(platform.max_lvt) << 16 | u32::from(platform.apic_version);
        assert_eq!(got, register, "{}", platform.name);
    }
}
