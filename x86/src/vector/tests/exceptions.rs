//! Alignment, #NM, and VXCSR by the instructions that access it.

use super::*;
use crate::stop::Stop;

/// The bytes that an operand spans after conversion and broadcast.
#[test]
fn operands_are_aligned_to_their_span() {
    let mut m = Machine::new();
    // VADDPS, VPADDD, VADDPD by SSS.
    let spans: [(u8, u8, u8, [i32; 8]); 3] = [
        (0, 0, 0x58, [64, 4, 16, 32, 16, 16, 32, 32]),
        (1, 0, 0xfe, [64, 4, 16, 0, 16, 16, 32, 32]),
        (1, 1, 0x58, [64, 8, 32, 0, 0, 0, 0, 0]),
    ];
    for (pp, w, opcode, spans) in spans {
        for (sss, span) in spans.into_iter().enumerate().filter(|&(_, span)| span != 0) {
            let at = |disp| Mvex::new(1, pp, w, opcode, 1, 2, Rm::At(disp)).with(sss as u8).bytes();
            assert_eq!(m.run(&at(span)), Ok(()), "{opcode:x} {sss}");
            assert_eq!(m.run(&at(span / 2)), Err(Stop::GP0), "{opcode:x} {sss}");
        }
    }
    // A mask of zero keeps memory from being accessed, not from being checked.
    m.cpu.set_gpr(gpr::RSI, 1 << 62);
    let masked = |disp| Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::At(disp)).masked(3).bytes();
    assert_eq!(m.run(&masked(0)), Ok(()));
    assert_eq!(m.run(&masked(4)), Err(Stop::GP0));
    m.cpu.set_mask(3, 1);
    assert_eq!(m.run(&masked(0)), Err(Stop::GP0));
    // A stack operand that is not canonical is #SS: vaddps zmm1, zmm2, [rsp].
    m.cpu.set_gpr(gpr::RSP, 1 << 62);
    assert_eq!(m.run(&[0x62, 0xf1, 0x68, 0x08, 0x58, 0x0c, 0x24]), Err(Stop::SS0));
}

/// MVEX instructions raise #NM while CR0.TS is set, prefetches among them; those with VEX do not.
#[test]
fn task_switched() {
    let mut m = Machine::new();
    m.cpu.set_control(1 | 1 << 3, 0, 0, 1 << 10);
    let prefetch = Mvex::new(1, 0, 0, 0x18, 1, 0, Rm::At(0)).bytes();
    let evict = Mvex::new(1, 3, 0, 0xae, 7, 0, Rm::At(0)).bytes();
    for bytes in [
        &Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::Zmm(3)).bytes()[..],
        &prefetch,
        &evict,
        &[0x0f, 0xae, 0x16],
        &[0x0f, 0xae, 0x1e],
        &[0x0f, 0xae, 0x06],
    ] {
        assert_eq!(m.run(bytes), Err(Stop::NM), "{bytes:02x?}");
    }
    for bytes in
        [&[0xc5, 0xf8, 0x41, 0xc1][..], &[0xc5, 0xf8, 0x18, 0x0e], &[0xc5, 0xfb, 0xae, 0x3e]]
    {
        assert_eq!(m.run(bytes), Ok(()), "{bytes:02x?}");
    }
    m.cpu.set_control(1, 0, 0, 1 << 10);
    // Prefetches and evictions do not look at their operands.
    m.cpu.set_gpr(gpr::RSI, (1 << 62) + 1);
    assert_eq!((m.run(&prefetch), m.run(&evict)), (Ok(()), Ok(())));
}

/// A processor that counts accesses of LDMXCSR and FXSAVE as any others; here they are not asked for.
fn run(m: &mut Machine, bytes: &[u8]) -> Exec<()> {
    let (_, insn) = lower_bytes(&Lowering::of(&m.cpu), bytes).expect("a whole instruction");
    let mut cx = Cx { bus: &mut m.bus, ram: &m.ram, observer: crate::observe::Plain };
    handler(&insn)(&mut m.cpu, &mut cx, &insn)
}

/// DUE cannot be cleared, and bits that do not exist cannot be set.
#[test]
fn vxcsr() {
    let (ldmxcsr, stmxcsr) = (&[0x0f, 0xae, 0x16], &[0x0f, 0xae, 0x1e]);
    let mut m = Machine::new();
    for (value, loads) in [
        (DUE, true),
        (DUE | 0xffff, true),
        (0x1f80, false),
        (0, false),
        (DUE | 1 << 16, false),
        (DUE | 1 << 22, false),
    ] {
        m.cpu.set_vxcsr(DUE | 5);
        m.write_words(DATA, &[value]);
        let expected = if loads { Ok(()) } else { Err(Stop::GP0) };
        assert_eq!(run(&mut m, ldmxcsr), expected, "{value:x}");
        assert_eq!(m.cpu.vxcsr(), if loads { value } else { DUE | 5 });
        assert_eq!(run(&mut m, stmxcsr), Ok(()));
        assert_eq!(m.words::<1>(DATA), [m.cpu.vxcsr()]);
    }
    // With DUE clear, which only an owner can do, the unit refuses; its masks do not.
    m.cpu.set_vxcsr(0);
    assert_eq!(m.run(&Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::Zmm(3)).bytes()), Err(Stop::GP0));
    assert_eq!(m.run(&[0xc5, 0xf8, 0x41, 0xc1]), Ok(()));
    // Beside SSE it has not to be set.
    m.cpu.features.sse = true;
    assert_eq!(m.run(&Mvex::new(1, 0, 0, 0x58, 1, 2, Rm::Zmm(3)).bytes()), Ok(()));
}

/// FXSAVE stores VXCSR and its mask, and no ZMM register; FXRSTOR clears the low 128 bits of all.
#[test]
fn fxsave_and_fxrstor() {
    let (fxsave, fxrstor) = (&[0x0f, 0xae, 0x06], &[0x0f, 0xae, 0x0e]);
    let mut m = Machine::new();
    m.write(DATA, &[0xaa; 512]);
    for n in 0..32 {
        m.set(n, [0x1111_1111; 16]);
    }
    m.cpu.set_mask(4, 0x4444);
    m.cpu.set_vxcsr(DUE | 0x21);
    assert_eq!(run(&mut m, fxsave), Ok(()));
    assert_eq!(m.words::<2>(DATA + 24), [DUE | 0x21, 0x0020_ffff]);
    assert_eq!(m.read::<16>(DATA + 160), [0xaa; 16]);
    m.cpu.set_vxcsr(DUE);
    assert_eq!(run(&mut m, fxrstor), Ok(()));
    assert_eq!((m.cpu.vxcsr(), m.cpu.mask(4)), (DUE | 0x21, 0x4444));
    let mut want = [0x1111_1111; 16];
    want[..4].fill(0);
    for n in 0..32 {
        assert_eq!(m.get(n), want);
    }
    // An image with DUE clear.
    m.write_words(DATA + 24, &[0x1f80]);
    m.set(0, [2; 16]);
    assert_eq!(run(&mut m, fxrstor), Err(Stop::GP0));
    assert_eq!((m.cpu.vxcsr(), m.get(0)), (DUE | 0x21, [2; 16]));
}
