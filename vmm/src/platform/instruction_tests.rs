//! What each part executes: a machine with that part runs one instruction and exits with the vector
//! of the exception that it raised, or with 100h for none.

use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};
use crate::config::{self, Config, Limits};
use crate::console::Console;
use crate::machine::{End, Machine};

const UD: u32 = 6;
const GP: u32 = 13;
const NOTHING: u32 = 0x100;

/// Runs real-mode code at 0000:7C00 with the PMU of a K8.
fn run(platform: &'static Platform, isa: Isa, cpus: u8, code: &[u8]) -> u32 {
    let ram = RamLayout::new(2 << 20, None).expect("memory");
    let image = Image { name: "test".into(), bytes: code.to_vec() };
    let payload = Payload::Flat { image, address: 0x7C00 };
    let config = Config::new("k8", ram, payload).expect("k8");
    let config = Config { platform, isa, cpus, ..config };
    let limits = Limits { instructions: Some(10_000), ..Limits::default() };
    let mut machine = Machine::new(&config).expect("a machine");
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    match machine.run(limits, &mut console).expect("a run") {
        // Status 2n + 1 for n written to the debug-exit port.
        End::Exit(status) => status >> 1,
        end => panic!("{}: {end:?}", platform.name),
    }
}

/// Points vectors 6 and 13 to handlers that exit with their number, runs `bytes` and exits.
fn vector(platform: &'static Platform, isa: Isa, bytes: &[u8]) -> u32 {
    const HANDLER: u16 = 0x7D00;
    let exit_with = |value: u32| {
        // mov eax,value; out 0F4h,eax; hlt
        let mut code = vec![0x66, 0xB8];
        code.extend(value.to_le_bytes());
        code.extend([0x66, 0xE7, 0xF4, 0xF4]);
        code
    };
    let mut code = Vec::new();
    for (vector, handler) in [(UD as u16, HANDLER), (GP as u16, HANDLER + 16)] {
        // mov word [4 * vector],handler; mov word [4 * vector + 2],0
        for (at, value) in [(4 * vector, handler), (4 * vector + 2, 0)] {
            code.extend([0xC7, 0x06]);
            code.extend(at.to_le_bytes());
            code.extend(value.to_le_bytes());
        }
    }
    // Memory operands [bx+si] are at 600h, aligned.
    code.extend([0xBB, 0x00, 0x06, 0xBE, 0x00, 0x00]);
    code.extend(bytes);
    code.extend(exit_with(NOTHING));
    code.resize(usize::from(HANDLER) - 0x7C00, 0x90);
    code.extend(exit_with(UD));
    code.resize(usize::from(HANDLER) - 0x7C00 + 16, 0x90);
    code.extend(exit_with(GP));
    run(platform, isa, 1, &code)
}

/// Whether it executes on P55C, Pentium Pro, Pentium II, Pentium III, Pentium M, K7, K8, KNC. By the manuals:
/// MMX and what came with the P6 family (CMOV, FCMOV, FCOMI, the long NOP), FXSAVE with Pentium II
/// model 5, SSE with Pentium III, its MMX part with K7, 3DNow! with K7, SSE2 and CLFLUSH with Pentium M and K8;
/// and 327364, appendix B, as restated, for KNC.
const INSTRUCTIONS: &[(&str, &[u8], [u8; 8])] = &[
    ("rdtsc", &[0x0F, 0x31], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("cpuid", &[0x0F, 0xA2], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("cmpxchg8b", &[0x0F, 0xC7, 0x08], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("fld1", &[0xD9, 0xE8], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("xor ecx, ecx; rdpmc", &[0x66, 0x31, 0xC9, 0x0F, 0x33], [1, 1, 1, 1, 1, 1, 1, 1]),
    ("cmove ax, ax", &[0x0F, 0x44, 0xC0], [0, 1, 1, 1, 1, 1, 1, 0]),
    ("fcmovb", &[0xDA, 0xC1], [0, 1, 1, 1, 1, 1, 1, 0]),
    ("fucomip", &[0xDF, 0xE9], [0, 1, 1, 1, 1, 1, 1, 0]),
    ("nop [bx+si]", &[0x0F, 0x1F, 0x00], [0, 1, 1, 1, 1, 1, 1, 1]),
    ("hint nop", &[0x0F, 0x19, 0xC0], [0, 1, 1, 1, 1, 1, 1, 0]),
    ("pause", &[0xF3, 0x90], [1, 1, 1, 1, 1, 1, 1, 0]),
    ("emms", &[0x0F, 0x77], [1, 0, 1, 1, 1, 1, 1, 0]),
    ("paddd mm", &[0x0F, 0xFE, 0xC1], [1, 0, 1, 1, 1, 1, 1, 0]),
    ("fxsave", &[0x0F, 0xAE, 0x00], [0, 0, 1, 1, 1, 1, 1, 1]),
    ("sfence", &[0x0F, 0xAE, 0xF8], [0, 0, 0, 1, 1, 1, 1, 0]),
    ("pshufw mm", &[0x0F, 0x70, 0xC0, 0], [0, 0, 0, 1, 1, 1, 1, 0]),
    ("prefetchnta", &[0x0F, 0x18, 0x00], [0, 1, 1, 1, 1, 1, 1, 0]),
    ("femms", &[0x0F, 0x0E], [0, 0, 0, 0, 0, 1, 1, 0]),
    ("prefetchw", &[0x0F, 0x0D, 0x08], [0, 0, 0, 0, 0, 1, 1, 0]),
    ("mfence", &[0x0F, 0xAE, 0xF0], [0, 0, 0, 0, 1, 0, 1, 0]),
    ("lfence", &[0x0F, 0xAE, 0xE8], [0, 0, 0, 0, 1, 0, 1, 0]),
    ("movnti", &[0x0F, 0xC3, 0x00], [0, 0, 0, 0, 1, 0, 1, 0]),
    ("clflush", &[0x0F, 0xAE, 0x38], [0, 0, 0, 0, 1, 0, 1, 0]),
    ("rdtscp", &[0x0F, 0x01, 0xF9], [0, 0, 0, 0, 0, 0, 0, 0]),
    ("monitor", &[0x0F, 0x01, 0xC8], [0, 0, 0, 0, 0, 0, 0, 0]),
    ("popcnt", &[0xF3, 0x0F, 0xB8, 0xC0], [0, 0, 0, 0, 0, 0, 0, 0]),
    // Not outside 64-bit mode.
    ("vaddps zmm0, zmm1, zmm2", &[0x62, 0xF1, 0x70, 0x08, 0x58, 0xC2], [0, 0, 0, 0, 0, 0, 0, 0]),
    // With SSE not before CR4.OSFXSR is set.
    ("stmxcsr", &[0x0F, 0xAE, 0x18], [0, 0, 0, 0, 0, 0, 0, 1]),
    ("ud2", &[0x0F, 0x0B], [0, 0, 0, 0, 0, 0, 0, 0]),
    // Not on a card; here the machine around it is a PC.
    ("in al, 61h", &[0xE4, 0x61], [1, 1, 1, 1, 1, 1, 1, 1]),
];

const PARTS: [&Platform; 8] = [&P55C, &PPRO, &PII, &P6, &PM, &K7, &K8, &KNC];

#[test]
fn what_a_part_lacks_is_undefined() {
    for &(name, bytes, executes) in INSTRUCTIONS {
        for (platform, executes) in PARTS.into_iter().zip(executes) {
            let expected = if executes == 1 { NOTHING } else { UD };
            assert_eq!(vector(platform, Isa::Strict, bytes), expected, "{}: {name}", platform.name);
        }
    }
}

/// In the order PSE, PAE, PGE, PCE, OSFXSR, OSXMMEXCPT: whether MOV CR4 takes the bit.
#[test]
fn a_bit_of_cr4_that_a_part_lacks_faults() {
    let rows: [(u32, [u8; 8]); 7] = [
        (4, [1, 1, 1, 1, 1, 1, 1, 1]),
        (5, [0, 1, 1, 1, 0, 1, 1, 1]),
        (7, [0, 1, 1, 1, 1, 1, 1, 0]),
        (8, [1, 1, 1, 1, 1, 1, 1, 1]),
        (9, [0, 0, 1, 1, 1, 1, 1, 0]),
        (10, [0, 0, 0, 1, 1, 0, 1, 0]),
        (11, [0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (bit, takes) in rows {
        // mov eax,1 << bit; mov cr4,eax
        let mut code = vec![0x66, 0xB8];
        code.extend((1_u32 << bit).to_le_bytes());
        code.extend([0x0F, 0x22, 0xE0]);
        for (platform, takes) in PARTS.into_iter().zip(takes) {
            let expected = if takes == 1 { NOTHING } else { GP };
            let name = platform.name;
            assert_eq!(vector(platform, Isa::Strict, &code), expected, "{name}: CR4 bit {bit}");
        }
    }
}

/// IA32_APIC_BASE is there from the P6 family on, EFER with SYSCALL; a distribution's kernel finds
/// both everywhere, and IA32_MISC_ENABLE on KNC. The Pentium M has that of its own.
#[test]
fn registers_go_with_the_part() {
    let rdmsr = |index: u32| {
        let mut code = vec![0x66, 0xB9];
        code.extend(index.to_le_bytes());
        code.extend([0x0F, 0x32]);
        code
    };
    let rows: [(u32, [u8; 8], [u8; 8]); 5] = [
        (0x1B, [0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
        (0x174, [0, 0, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]),
        (0xC000_0080, [0, 0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
        (0xC000_0100, [0, 0, 0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
        (0x1A0, [0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 1]),
    ];
    for (index, strict, distro) in rows {
        for (isa, reads) in [(Isa::Strict, strict), (Isa::Distro, distro)] {
            for (platform, reads) in PARTS.into_iter().zip(reads) {
                let expected = if reads == 1 { NOTHING } else { GP };
                let name = platform.name;
                assert_eq!(vector(platform, isa, &rdmsr(index)), expected, "{name} {index:#x}");
            }
        }
    }
}

/// All that the x86-64 baseline has executes with `--isa distro`, on every part.
#[test]
fn a_distribution_finds_its_baseline() {
    let baseline =
        ["cmove ax, ax", "nop [bx+si]", "pause", "emms", "fxsave", "sfence", "mfence", "movnti"];
    for name in baseline {
        let &(_, bytes, _) = INSTRUCTIONS.iter().find(|row| row.0 == name).expect("a row");
        for platform in PARTS {
            let got = vector(platform, Isa::Distro, bytes);
            assert_eq!(got, NOTHING, "{}: {name}", platform.name);
        }
    }
}

/// A 64-bit payload on a part without long mode is refused before it runs.
#[test]
fn a_64_bit_kernel_needs_long_mode() {
    assert!(Platform::ALL.iter().any(|platform| !platform.features.long_mode));
    let (_personality, _) = config::personality("k8").expect("k8");
    // ELF64, x86-64, one segment of no bytes at 1 MiB.
    let mut elf = vec![0; 120];
    elf[..8].copy_from_slice(&[0x7F, b'E', b'L', b'F', 2, 1, 1, 0]);
    elf[16] = 2;
    elf[18] = 62;
    elf[20] = 1;
    elf[24..32].copy_from_slice(&0x10_0000_u64.to_le_bytes());
    elf[32] = 64;
    elf[52] = 64;
    elf[54] = 56;
    elf[56] = 1;
    elf[64] = 1;
    elf[68] = 7;
    elf[80..88].copy_from_slice(&0x10_0000_u64.to_le_bytes());
    elf[88..96].copy_from_slice(&0x10_0000_u64.to_le_bytes());
    elf[96..104].copy_from_slice(&120_u64.to_le_bytes());
    elf[104..112].copy_from_slice(&120_u64.to_le_bytes());
    let payload = Payload::Kernel(crate::boot::Kernel {
        image: Image { name: "test".into(), bytes: elf },
        modules: Vec::new(),
        command_line: String::new(),
        entry: crate::boot::LinuxEntry::Auto,
    });
    let ram = RamLayout::new(64 << 20, None).expect("memory");
    let config = Config::new("k8", ram, payload).expect("k8");
    for (platform, isa, runs) in [
        (&P55C, Isa::Strict, false),
        (&K7, Isa::Strict, false),
        (&K7, Isa::Distro, true),
        (&KNC, Isa::Strict, true),
    ] {
        match Machine::new(&Config { platform, isa, ..config.clone() }) {
            Ok(_) => assert!(runs, "{}", platform.name),
            Err(error) => {
                assert!(!runs, "{}: {error}", platform.name);
                assert!(error.to_string().contains("--isa distro"), "{error}");
                assert_eq!(error.status(), 2);
            }
        }
    }
}
