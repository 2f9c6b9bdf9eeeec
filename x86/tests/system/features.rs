//! What a processor lacks raises #UD, and a bit of CR4 that it lacks raises #GP(0). Opcodes and the
//! CPUID bits that announce them are those of the AMD64 manual, volume 3, appendix D.

use x86_cpu::features::Features;
use x86_cpu::run::Exit;

use crate::machine::*;

const UD: u64 = 6;
const GP: u64 = 13;
/// The breakpoint behind the instruction.
const BP: u64 = 3;

/// 64-bit code at CPL 0 with DATA in RAX.
fn vector(features: Features, bytes: &[u8]) -> u64 {
    let mut m = Machine::long();
    m.cpu.features = features;
    m.cpu.set_gpr(RAX, DATA);
    m.write(CODE, bytes);
    m.write(CODE + bytes.len() as u64, &[0xcc]);
    m.cpu.rip = CODE;
    m.vector()
}

/// Takes a feature away from the K8.
type Without = fn(&mut Features);

#[test]
fn an_instruction_goes_with_its_feature() {
    let rows: &[(&[u8], Without)] = &[
        (&[0x0f, 0x44, 0xc8], |f| f.cmov = false), // cmove ecx,eax
        (&[0xda, 0xc1], |f| f.cmov = false),       // fcmovb
        (&[0xdb, 0xf1], |f| f.cmov = false),       // fcomi
        (&[0xdf, 0xe9], |f| f.cmov = false),       // fucomip
        (&[0xf3, 0x90], |f| f.pause = false),      // pause
        (&[0x0f, 0x19, 0xc0], |f| f.hint_nop = false),
        (&[0x0f, 0x1e, 0xc8], |f| f.hint_nop = false),
        (&[0xf3, 0x0f, 0x1e, 0xfa], |f| f.hint_nop = false), // endbr64
        (&[0x0f, 0x0d, 0x08], |f| f.now3d = false),          // prefetchw
        (&[0x0f, 0x0e], |f| f.now3d = false),                // femms
        (&[0x0f, 0x77], |f| f.mmx = false),                  // emms
        (&[0x0f, 0xae, 0xe8], |f| f.sse2 = false),           // lfence
        (&[0x0f, 0xae, 0xf0], |f| f.sse2 = false),           // mfence
        (&[0x0f, 0xc3, 0x00], |f| f.sse2 = false),           // movnti
        (&[0x66, 0x0f, 0xef, 0xc0], |f| f.sse2 = false),     // pxor
        (&[0xdd, 0x08], |f| f.sse3 = false),                 // fisttp
        (&[0x0f, 0xae, 0x38], |f| f.clflush = false),
        (&[0x0f, 0xae, 0x00], |f| f.fxsr = false), // fxsave
        (&[0x0f, 0xc7, 0x08], |f| f.cx8 = false),  // cmpxchg8b
        (&[0x0f, 0x31], |f| f.tsc = false),        // rdtsc
        (&[0x0f, 0x01, 0xf8], |f| f.long_mode = false), // swapgs
        (&[0x9f], |f| f.lahf_lm = false),
    ];
    for &(bytes, without) in rows {
        assert_ne!(vector(Features::K8, bytes), UD, "{bytes:02x?}");
        let mut features = Features::K8;
        without(&mut features);
        assert_eq!(vector(features, bytes), UD, "{bytes:02x?}");
    }
}

/// SFENCE, PREFETCHNTA and PSHUFW came with SSE, and with AMD's extensions to MMX before (AMD
/// 22466). Without either the prefetch is one of the hints that are NOPs.
#[test]
fn the_extensions_to_mmx_have_a_part_of_sse() {
    let without = |sse, mmx_ext, hint_nop| Features {
        sse,
        sse2: sse,
        sse3: sse,
        mmx_ext,
        hint_nop,
        ..Features::K8
    };
    let (sfence, pshufw) = (&[0x0f, 0xae, 0xf8][..], &[0x0f, 0x70, 0xc0, 0][..]);
    let (prefetchnta, xorps) = (&[0x0f, 0x18, 0x00][..], &[0x0f, 0x57, 0xc0][..]);
    for bytes in [sfence, pshufw] {
        assert_eq!(vector(without(true, false, true), bytes), BP, "{bytes:02x?}");
        assert_eq!(vector(without(false, true, true), bytes), BP, "{bytes:02x?}");
        assert_eq!(vector(without(false, false, true), bytes), UD, "{bytes:02x?}");
    }
    assert_eq!(vector(without(false, false, true), prefetchnta), BP);
    assert_eq!(vector(without(false, false, false), prefetchnta), UD);
    assert_eq!(vector(without(true, true, true), xorps), BP);
    assert_eq!(vector(without(false, true, true), xorps), UD);
}

/// The multi-byte NOP, alone or as one of the hints.
#[test]
fn the_long_nop_is_one_of_the_hints() {
    for bytes in [&[0x0f, 0x1f, 0x00], &[0x0f, 0x1f, 0xc0]] {
        for (nopl, hint_nop, expected) in
            [(true, true, BP), (true, false, BP), (false, true, BP), (false, false, UD)]
        {
            let features = Features { nopl, hint_nop, ..Features::K8 };
            assert_eq!(vector(features, bytes), expected, "{bytes:02x?}");
        }
    }
    // 0F 1F /1 is a hint only.
    let features = Features { hint_nop: false, ..Features::K8 };
    assert_eq!(vector(features, &[0x0f, 0x1f, 0xc8]), UD);
}

/// MOV CR4 takes exactly the bits in `Features::cr4` (AMD64 manual, volume 2, section 3.1.3:
/// reserved bits must be zero).
#[test]
fn control_register_4_has_the_bits_of_the_part() {
    for bit in 0..32 {
        for has in [false, true] {
            let mut m = Machine::protected();
            m.cpu.features.cr4 = if has { 1 << bit } else { !(1 << bit) };
            m.cpu.set_gpr(RAX, 1 << bit);
            // mov cr4,eax; int3
            m.write(CODE, &[0x0f, 0x22, 0xe0, 0xcc]);
            m.cpu.rip = CODE;
            assert_eq!(m.vector(), if has { BP } else { GP }, "bit {bit}");
            assert_eq!(m.cpu.cr4(), if has { 1 << bit } else { 0 });
        }
    }
}

/// PAUSE is a hint without effect, unless the owner sets `leaves_at_pause`: then it retires and ends the
/// run.
#[test]
fn pause_ends_the_run_where_that_is_wanted() {
    for (wanted, exit, retired) in [(false, Exit::Halt, 4), (true, Exit::Pause, 2)] {
        let mut m = Machine::long();
        // NOP, PAUSE, NOP, HLT.
        m.write(CODE, &[0x90, 0xf3, 0x90, 0x90, 0xf4]);
        m.cpu.rip = CODE;
        m.cpu.leaves_at_pause = wanted;
        assert_eq!((m.run_until(100), m.cpu.retired()), (exit, retired));
    }
}
