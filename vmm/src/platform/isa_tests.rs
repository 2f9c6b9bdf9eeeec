use super::*;
use pmu_model::MsrAccess;

use crate::platform::{CpuidContext, K7, K8, KNC, MsrBank, P6, P55C, PII, PPRO};

/// What `verify_cpu` of Linux 6.1 requires of an x86-64 processor: FPU 0, PSE 3, MSR 5, PAE 6, CX8
/// 8, PGE 13, CMOV 15, FXSR 24, SSE 25, SSE2 26; and LM in the extended function.
const REQUIRED: u32 = 0x0700_A169;
const LM: u32 = 1 << 29;

fn registers(platform: &Platform, function: u32) -> [u32; 4] {
    let context = CpuidContext { apic_enabled: true, ..CpuidContext::default() };
    let r = platform.cpuid(function, 0, context);
    [r.eax, r.ebx, r.ecx, r.edx]
}

#[test]
fn every_part_meets_what_linux_requires() {
    for platform in Platform::ALL {
        let name = platform.name;
        let effective = Isa::Distro.apply(platform);
        assert_eq!(registers(&effective, 1)[3] & REQUIRED, REQUIRED, "{name}");
        assert!(registers(&effective, 0x8000_0000)[0] >= 0x8000_0008, "{name}");
        assert_ne!(registers(&effective, 0x8000_0001)[3] & LM, 0, "{name}");
        let f = effective.features;
        assert!(f.cx8 && f.cmov && f.fxsr && f.sse && f.sse2 && f.long_mode && f.nx && f.nopl);
        assert!(f.mmx && f.syscall && f.pause && f.tsc && f.msr, "{name}");
        // PSE 4, PAE 5, PGE 7, OSFXSR 9, OSXMMEXCPT 10.
        assert_eq!(f.cr4 & 0x6B0, 0x6B0, "{name}");
        assert!(f.phys_bits >= 36, "{name}");
        assert_eq!(
            registers(&effective, 0x8000_0008)[0],
            48 << 8 | u32::from(f.phys_bits),
            "{name}"
        );
        // A name that is not there is empty; Linux then has one of its own.
        let name_leaf = registers(&effective, 0x8000_0002);
        let own = platform.cpuid.iter().any(|leaf| leaf.function == 0x8000_0002);
        assert_eq!(
            name_leaf,
            if own { registers(platform, 0x8000_0002) } else { [0; 4] },
            "{name}"
        );
        // It stays the part it is.
        assert_eq!(registers(&effective, 0), registers(platform, 0), "{name}");
        assert_eq!(registers(&effective, 1)[0], registers(platform, 1)[0], "{name}");
    }
}

#[test]
fn strict_adds_nothing() {
    for platform in Platform::ALL {
        let same = Isa::Strict.apply(platform);
        assert_eq!(same.features, platform.features);
        assert_eq!(registers(&same, 1), registers(platform, 1));
        assert_eq!(Isa::Strict.announcement(platform), None);
    }
}

#[test]
fn what_is_added_is_said() {
    let said = |platform| Isa::Distro.announcement(platform);
    assert_eq!(said(&K8), None);
    assert_eq!(said(&K7).as_deref(), Some("k7: --isa distro adds SSE, SSE2, NX, LM"));
    assert_eq!(said(&P6).as_deref(), Some("p6: --isa distro adds SSE2, SYSCALL, NX, LM"));
    assert_eq!(said(&PII).as_deref(), Some("pii: --isa distro adds SSE, SSE2, SYSCALL, NX, LM"));
    // The Pentium Pro shows SEP; what is added is the instruction.
    assert_eq!(
        said(&PPRO).as_deref(),
        Some("ppro: --isa distro adds SEP, MMX, FXSR, SSE, SSE2, SYSCALL, NX, LM")
    );
    assert_eq!(
        said(&P55C).as_deref(),
        Some(
            "p55c: --isa distro adds PAE, SEP, PGE, CMOV, FXSR, SSE, SSE2, SYSCALL, NX, LM, NOPL, \
             hint NOPs, IA32_APIC_BASE"
        )
    );
    assert_eq!(
        said(&KNC).as_deref(),
        Some(
            "knc: --isa distro adds SEP, PGE, CMOV, MMX, FXSR, SSE, SSE2, PAUSE, hint NOPs, \
             IA32_PLATFORM_ID, IA32_BIOS_SIGN_ID, IA32_MISC_ENABLE"
        )
    );
}

/// Linux reads 1A0h on Intel families above 6 before it can take a fault, and 17h and 8Bh plainly.
#[test]
fn knights_corner_gets_the_registers_that_linux_reads() {
    let effective = Isa::Distro.apply(&KNC);
    let mut bank = MsrBank::new(&effective);
    // Fast strings on, CPUID not limited (22), execute-disable not disabled (34).
    assert_eq!(bank.read(0x1A0), MsrAccess::Done(0x1801));
    assert_eq!(bank.write(0x8B, 0), MsrAccess::Done(()));
    assert_eq!(bank.read(0x8B), MsrAccess::Done(0));
    assert_eq!(bank.read(0x17), MsrAccess::Done(0));
}
