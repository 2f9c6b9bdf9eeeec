//! What comes before and instead of a result: availability, alignment, memory faults, unmasked
//! floating-point exceptions.

use super::{CR0_NE, CR0_PE, CR4_OSFXSR, CR4_OSXMMEXCPT, DATA, EFER_LMA, Machine};
use crate::{
    insn::gpr,
    stop::{Stop, vector},
};

const CR0_EM: u64 = 1 << 2;
const CR0_TS: u64 = 1 << 3;

/// ADDPS XMM0, XMM1.
const ADDPS: &[u8] = &[0x0f, 0x58, 0xc1];
/// DIVSS XMM0, XMM1.
const DIVSS: &[u8] = &[0xf3, 0x0f, 0x5e, 0xc1];
/// PADDB MM0, MM1.
const PADDB: &[u8] = &[0x0f, 0xfc, 0xc1];
/// PFADD MM0, MM1.
const PFADD: &[u8] = &[0x0f, 0x0f, 0xc1, 0x9e];
/// CVTPI2PS XMM0, MM1.
const CVTPI2PS: &[u8] = &[0x0f, 0x2a, 0xc1];
/// MOVNTI [RSI], EAX.
const MOVNTI: &[u8] = &[0x0f, 0xc3, 0x06];
/// EMMS.
const EMMS: &[u8] = &[0x0f, 0x77];
/// FXSAVE [RSI].
const FXSAVE: &[u8] = &[0x0f, 0xae, 0x06];
/// LDMXCSR [RSI].
const LDMXCSR: &[u8] = &[0x0f, 0xae, 0x16];

/// The "Exceptions" tables of APM volumes 4 and 5.
#[test]
fn availability() {
    let nm = Stop::NM;
    let ud = Stop::UD;
    // CR0.EM; CR0.TS; both; CR4.OSFXSR clear.
    let rows: [(&[u8], [Option<Stop>; 4]); 8] = [
        (ADDPS, [Some(ud), Some(nm), Some(ud), Some(ud)]),
        (LDMXCSR, [Some(ud), Some(nm), Some(ud), Some(ud)]),
        (PADDB, [Some(ud), Some(nm), Some(ud), None]),
        (PFADD, [Some(ud), Some(nm), Some(ud), None]),
        (EMMS, [Some(ud), Some(nm), Some(ud), None]),
        (CVTPI2PS, [Some(ud), Some(nm), Some(ud), Some(ud)]),
        (FXSAVE, [Some(nm), Some(nm), Some(nm), None]),
        (MOVNTI, [None, None, None, None]),
    ];
    for (code, want) in rows {
        let modes =
            [(CR0_EM, CR4_OSFXSR), (CR0_TS, CR4_OSFXSR), (CR0_EM | CR0_TS, CR4_OSFXSR), (0, 0)];
        for ((cr0, cr4), want) in modes.into_iter().zip(want) {
            let mut machine = Machine::new();
            machine.write(DATA, &0x1f80u32.to_le_bytes());
            machine.cpu.set_control(CR0_PE | CR0_NE | cr0, 0, cr4, EFER_LMA);
            assert_eq!(machine.run(code).err(), want, "{code:x?} {cr0:x} {cr4:x}");
        }
    }
}

/// A pending x87 exception is reported by MMX and 3DNow! instructions and by conversions with MMX
/// operands, not by SSE ones. With CR0.NE clear the platform gets FERR# instead.
#[test]
fn pending_x87_exception() {
    let mf = Err(Stop::fault(vector::MF));
    for (code, want) in
        [(PADDB, mf), (PFADD, mf), (EMMS, mf), (CVTPI2PS, mf), (ADDPS, Ok(())), (FXSAVE, Ok(()))]
    {
        let mut machine = Machine::new();
        // FXRSTOR of a state with IE flagged and unmasked.
        let mut area = [0; 512];
        area[0..2].copy_from_slice(&0x037eu16.to_le_bytes());
        area[2..4].copy_from_slice(&0x0001u16.to_le_bytes());
        area[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        machine.write(DATA, &area);
        machine.run(&[0x0f, 0xae, 0x0e]).expect("fxrstor");
        assert_eq!(machine.run(code), want, "{code:x?}");
        assert_eq!(machine.bus.ferr, 0);
        machine.cpu.set_control(CR0_PE, 0, CR4_OSFXSR, EFER_LMA);
        if want.is_err() {
            // The interrupt comes first; then the instruction goes on as under IGNNE#.
            assert_eq!(machine.run(code), Err(Stop::RESTART), "{code:x?}");
        }
        assert_eq!(machine.run(code), Ok(()), "{code:x?}");
        assert_eq!(machine.bus.ferr, u32::from(want.is_err()), "{code:x?}");
    }
}

/// An operand that must be aligned raises #GP(0) and changes nothing (APM volume 4, section 1.4.1).
#[test]
fn misaligned_operands() {
    // At [RSI]: ADDPS, PADDB, MOVAPS load and store, MOVNTDQ, SHUFPS, CVTPD2PI, FXSAVE, FXRSTOR.
    let fault: [&[u8]; 9] = [
        &[0x0f, 0x58, 0x06],
        &[0x66, 0x0f, 0xfc, 0x06],
        &[0x0f, 0x28, 0x06],
        &[0x0f, 0x29, 0x06],
        &[0x66, 0x0f, 0xe7, 0x06],
        &[0x0f, 0xc6, 0x06, 0x00],
        &[0x66, 0x0f, 0x2d, 0x06],
        &[0x0f, 0xae, 0x06],
        &[0x0f, 0xae, 0x0e],
    ];
    for code in fault {
        for offset in [1, 4, 8, 15] {
            let mut machine = Machine::new();
            machine.cpu.simd.xmm[0] = 5;
            machine.cpu.set_gpr(gpr::RSI, DATA + offset);
            assert_eq!(machine.run(code), Err(Stop::GP0), "{code:x?}");
            assert_eq!(machine.cpu.simd.xmm[0], 5);
            assert_eq!(machine.read::<64>(DATA), [0; 64]);
        }
    }
    // MOVUPS, ADDSS, CVTPS2PD, PADDB MM0: anywhere.
    let fine: [&[u8]; 4] =
        [&[0x0f, 0x10, 0x06], &[0xf3, 0x0f, 0x58, 0x06], &[0x0f, 0x5a, 0x06], &[0x0f, 0xfc, 0x06]];
    for code in fine {
        let mut machine = Machine::new();
        machine.cpu.set_gpr(gpr::RSI, DATA + 0xfff);
        assert_eq!(machine.run(code), Ok(()), "{code:x?}");
    }
}

/// A store that reaches beyond the canonical addresses writes nothing; in the stack segment it is
/// #SS(0). (The bus panics on any write.)
#[test]
fn stores_are_all_or_nothing() {
    let mut machine = Machine::new();
    machine.cpu.set_gpr(gpr::RSI, 0x7fff_ffff_fff8);
    machine.cpu.set_gpr(gpr::RSP, 0x7fff_ffff_fff8);
    assert_eq!(machine.run(&[0x0f, 0x11, 0x06]), Err(Stop::GP0));
    assert_eq!(machine.run(&[0x0f, 0x11, 0x04, 0x24]), Err(Stop::SS0));
    // MASKMOVDQU with the first and the last byte chosen.
    machine.cpu.set_gpr(gpr::RDI, 0x7fff_ffff_fff8);
    machine.cpu.simd.xmm[1] = 0x80 << 120 | 0x80;
    assert_eq!(machine.run(&[0x66, 0x0f, 0xf7, 0xc1]), Err(Stop::GP0));
    // With none chosen there is nothing to fault on.
    machine.cpu.simd.xmm[1] = 0x7f7f;
    assert_eq!(machine.run(&[0x66, 0x0f, 0xf7, 0xc1]), Ok(()));
}

/// MASKMOVQ takes a segment override and the address size (APM volume 5).
#[test]
fn maskmovq_with_prefixes() {
    let mut machine = Machine::new();
    let mut fs = *machine.cpu.segment(4);
    fs.base = 0x100;
    machine.cpu.set_segment(4, fs);
    machine.cpu.set_gpr(gpr::RDI, 0xdead_0000_1004);
    machine.cpu.fpu.set_mmx(0, 0x1122_3344_5566_7788);
    machine.cpu.fpu.set_mmx(1, 0x80ff_0000_7f00_8000);
    // FS, 32-bit addresses.
    machine.run(&[0x64, 0x67, 0x0f, 0xf7, 0xc1]).expect("no exception");
    assert_eq!(machine.read::<10>(0x1103), [0, 0, 0x77, 0, 0, 0, 0, 0x22, 0x11, 0]);
}

/// 1.0 / 0.0 in the lanes that are not zero over zero.
fn divide(machine: &mut Machine, mxcsr: u32, code: &[u8], dividend: u128, divisor: u128) -> u32 {
    machine.cpu.simd.mxcsr = mxcsr;
    machine.cpu.simd.xmm[0] = dividend;
    machine.cpu.simd.xmm[1] = divisor;
    let stop = machine.run(code).expect_err("an exception");
    assert_eq!(stop, Stop::fault(vector::XF));
    assert_eq!(machine.cpu.simd.xmm[0], dividend, "the destination stays");
    machine.cpu.simd.mxcsr
}

/// An unmasked exception sets its flag, leaves the destination alone and raises #XF; the flags of
/// all lanes are gathered; exceptions known before the result hide those of the results
/// (APM volume 1, section 4.10).
#[test]
fn unmasked_exceptions() {
    const DIVPS: &[u8] = &[0x0f, 0x5e, 0xc1];
    const ONE: u128 = 0x3f80_0000;
    const THREE: u128 = 0x4040_0000;
    let mut machine = Machine::new();
    // ZE unmasked: 1 / 0.
    assert_eq!(divide(&mut machine, 0x1d80, DIVSS, ONE, 0), 0x1d84);
    // Lanes 0/0 (IE), 1/0 (ZE), 1/3 (PE), 0/1: PE stays unseen behind ZE.
    let dividend = ONE << 32 | ONE << 64;
    let divisor = THREE << 64 | ONE << 96;
    assert_eq!(divide(&mut machine, 0x1d80, DIVPS, dividend, divisor), 0x1d85);
    // Only PE unmasked: all flags are seen.
    assert_eq!(divide(&mut machine, 0x0f80, DIVPS, dividend, divisor), 0x0fa5);
    // Flags that were there already raise nothing.
    machine.cpu.simd.mxcsr = 0x1d84;
    machine.cpu.simd.xmm[0] = ONE;
    machine.cpu.simd.xmm[1] = ONE;
    assert_eq!(machine.run(DIVSS), Ok(()));
    // Without CR4.OSXMMEXCPT it is #UD.
    machine.cpu.set_control(CR0_PE, 0, CR4_OSFXSR, EFER_LMA);
    machine.cpu.simd.xmm[1] = 0;
    assert_eq!(machine.run(DIVSS), Err(Stop::UD));
    assert_eq!(machine.cpu.simd.mxcsr, 0x1d84);
    machine.cpu.set_control(CR0_PE, 0, CR4_OSFXSR | CR4_OSXMMEXCPT, EFER_LMA);
    // Comparison: the flags stay. COMISS of a quiet NaN, IE unmasked.
    machine.cpu.simd.mxcsr = 0x1f00;
    machine.cpu.simd.xmm[0] = 0x7fc0_0000;
    let before = machine.cpu.rflags();
    assert_eq!(machine.run(&[0x0f, 0x2f, 0xc1]), Err(Stop::fault(vector::XF)));
    assert_eq!(machine.cpu.rflags(), before);
    // CVTTSS2SI of it: the general register stays.
    machine.cpu.set_gpr(gpr::RAX, 7);
    assert_eq!(machine.run(&[0xf3, 0x0f, 0x2c, 0xc0]), Err(Stop::fault(vector::XF)));
    assert_eq!(machine.cpu.gpr(gpr::RAX), 7);
}
