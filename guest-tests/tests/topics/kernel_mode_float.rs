//! x87, MMX, SSE and SSE2 at CPL 0, which not every KVM executes, to the last bit (SDM Vol. 1,
//! chapters 8 to 11; APM volumes 1, 4 and 5). No counter is enabled.

use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{
    ax, dword_ptr, eax, edx, mm0, mm1, mm2, mm3, qword_ptr, st0, st1, tbyte_ptr, word_ptr, xmm0,
    xmm1, xmm2, xmm3, xmmword_ptr,
};

topics!(x87, x87_status, mmx, sse, sse2);

const CR4_OSFXSR: i32 = 1 << 9;
const OPERANDS: u32 = SCRATCH;
const RESULT: u32 = SCRATCH + 0x100;

/// Puts `words` where the operands are.
fn operands(g: &mut Guest, words: &[u32]) -> Result {
    (OPERANDS..).step_by(4).zip(words).try_for_each(|(place, &word)| g.mov(dword_ptr(place), word))
}

/// Reports the quadword of the result.
fn report(g: &mut Guest, name: &str) -> Result {
    g.report_quad(name, RESULT)
}

/// Reports both quadwords of the result.
fn report_both(g: &mut Guest, name: &str) -> Result {
    g.report_quad(&format!("{name}.low"), RESULT)?;
    g.report_quad(&format!("{name}.high"), RESULT + 8)
}

/// Reports ST0, which goes, in its 80 bits.
fn report_extended(g: &mut Guest, name: &str) -> Result {
    g.fstp(tbyte_ptr(RESULT))?;
    g.report_quad(&format!("{name}.significand"), RESULT)?;
    g.movzx(eax, word_ptr(RESULT + 8))?;
    g.report_eax(&format!("{name}.exponent"))
}

fn x87(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        operands(g, &[1, 3, 7, 2, 0])?;
        // 1 / 3 in 64 bits: 10101... with the last rounded up.
        g.fild(dword_ptr(OPERANDS))?;
        g.fidiv(dword_ptr(OPERANDS + 4))?;
        report_extended(g, "third")?;
        // Towards zero the last is not.
        g.fnstcw(word_ptr(OPERANDS + 16))?;
        g.mov(dword_ptr(OPERANDS + 20), 0x0F7F)?;
        g.fldcw(word_ptr(OPERANDS + 20))?;
        g.fild(dword_ptr(OPERANDS))?;
        g.fidiv(dword_ptr(OPERANDS + 4))?;
        report_extended(g, "third.truncated")?;
        g.fldcw(word_ptr(OPERANDS + 16))?;
        // The square root of 2.
        g.fild(dword_ptr(OPERANDS + 12))?;
        g.fsqrt()?;
        report_extended(g, "root")?;
        // 7 * 3 - 1 / 2 = 20.5, to double and to integers: to even, and up for -20.5 chopped.
        g.fild(dword_ptr(OPERANDS + 8))?;
        g.fimul(dword_ptr(OPERANDS + 4))?;
        g.fld1()?;
        g.fidiv(dword_ptr(OPERANDS + 12))?;
        g.fsubp(st1, st0)?;
        g.fst(qword_ptr(RESULT))?;
        report(g, "double")?;
        g.fist(dword_ptr(RESULT))?;
        g.report_word("to even", RESULT)?;
        g.fchs()?;
        g.fistp(qword_ptr(RESULT))?;
        report(g, "negative to even")?;
        // 7 modulo 3, and 3 scaled by 2 to the power of 2.
        g.fild(dword_ptr(OPERANDS + 4))?;
        g.fild(dword_ptr(OPERANDS + 8))?;
        g.fprem()?;
        g.fistp(qword_ptr(RESULT))?;
        report(g, "remainder")?;
        g.fild(dword_ptr(OPERANDS + 12))?;
        g.fxch(st0, st1)?;
        g.fscale()?;
        g.fbstp(tbyte_ptr(RESULT))?;
        report(g, "scaled")?;
        g.fstp(st0)
    })?;
    run(part, &image).expect(&[
        ("third.significand", 0xAAAA_AAAA_AAAA_AAAB),
        ("third.exponent", 0x3FFD),
        ("third.truncated.significand", 0xAAAA_AAAA_AAAA_AAAA),
        ("third.truncated.exponent", 0x3FFD),
        ("root.significand", 0xB504_F333_F9DE_6484),
        ("root.exponent", 0x3FFF),
        ("double", 0x4034_8000_0000_0000),
        ("to even", 20),
        ("negative to even", 20_u64.wrapping_neg()),
        ("remainder", 1),
        // 3 * 2^2 in decimal digits.
        ("scaled", 0x12),
    ]);
    Ok(())
}

/// Status word: comparison in C0 (8), C2 (10) and C3 (14), top of stack, exceptions that are masked.
fn x87_status(part: &'static Part) -> Result {
    const COMPARED: i32 = 0x7D00;
    const RAISED: i32 = 0x38BF;
    let image = Guest::assemble(part, |g| {
        let status = |g: &mut Guest, name: &str, bits: i32| {
            g.fnstsw(ax)?;
            g.and(eax, bits)?;
            g.report_eax(name)
        };
        g.fninit()?;
        g.fld1()?;
        g.fldz()?;
        g.fcom_2(st0, st1)?; // 0 < 1
        status(g, "less", COMPARED)?;
        g.fxch(st0, st1)?;
        g.fcom_2(st0, st1)?; // 1 > 0
        status(g, "greater", COMPARED)?;
        g.fcom_2(st0, st0)?;
        status(g, "equal", COMPARED)?;
        g.fdiv_2(st0, st1)?; // 1 / 0
        status(g, "zero divide", RAISED)?;
        report_extended(g, "infinity")?;
        g.fnclex()?;
        g.fdiv_2(st0, st0)?; // 0 / 0
        status(g, "invalid", RAISED)?;
        report_extended(g, "indefinite")
    })?;
    // Two on the stack: TOP is 6, 3000h; one: 7, 3800h.
    run(part, &image).expect(&[
        ("less", 0x3100),
        ("greater", 0x3000),
        ("equal", 0x7000),
        // ZE, bit 2; IE, bit 0.
        ("zero divide", 0x3004),
        ("invalid", 0x3801),
        ("infinity.significand", 1 << 63),
        ("infinity.exponent", 0x7FFF),
        ("indefinite.significand", 0xC000_0000_0000_0000),
        ("indefinite.exponent", 0xFFFF),
    ]);
    Ok(())
}

fn mmx(part: &'static Part) -> Result {
    const A: u32 = OPERANDS;
    const B: u32 = OPERANDS + 8;
    let image = Guest::assemble(part, |g| {
        // Words: A 7FFFh, 1, -2, 100h; B 1, 2, 3, -100h.
        operands(g, &[0x0001_7FFF, 0x0100_FFFE, 0x0002_0001, 0xFF00_0003])?;
        let mut two = |name: &str, operation: &dyn Fn(&mut Guest) -> Result| {
            g.movq(mm0, qword_ptr(A))?;
            g.movq(mm1, qword_ptr(B))?;
            operation(g)?;
            g.movq(qword_ptr(RESULT), mm0)?;
            report(g, name)
        };
        two("paddw", &|g| g.paddw(mm0, mm1))?;
        two("paddsw", &|g| g.paddsw(mm0, mm1))?;
        two("psubusb", &|g| g.psubusb(mm0, mm1))?;
        two("pmaddwd", &|g| g.pmaddwd(mm0, mm1))?;
        two("pmulhw", &|g| g.pmulhw(mm0, mm1))?;
        two("packsswb", &|g| g.packsswb(mm0, mm1))?;
        two("punpcklwd", &|g| g.punpcklwd(mm0, mm1))?;
        two("pcmpgtw", &|g| g.pcmpgtw(mm0, mm1))?;
        two("psrlq", &|g| g.psrlq(mm0, 12))?;
        two("pandn", &|g| {
            g.movq(mm2, mm0)?;
            g.movq(mm3, mm1)?;
            g.pandn(mm2, mm3)?;
            g.movq(mm0, mm2)
        })?;
        g.emms()
    })?;
    run(part, &image).expect(&[
        // Words from the highest down.
        ("paddw", 0x0000_0001_0003_8000),
        ("paddsw", 0x0000_0001_0003_7FFF),
        // Bytes: 01-FF 00-00 FF-00 FE-03 | 00-00 01-02 7F-00 FF-01, none below zero.
        ("psubusb", 0x0000_FFFB_0000_7FFE),
        // -2 * 3 + 100h * -100h; 7FFFh * 1 + 1 * 2.
        ("pmaddwd", 0xFFFE_FFFA_0000_8001),
        ("pmulhw", 0xFFFF_FFFF_0000_0000),
        // From A 7FFFh, 1, -2, 100h; from B 1, 2, 3, -100h.
        ("packsswb", 0x8003_0201_7FFE_017F),
        ("punpcklwd", 0x0002_0001_0001_7FFF),
        ("pcmpgtw", 0xFFFF_0000_0000_FFFF),
        ("psrlq", 0x0000_0100_FFFE_0001_7FFF_u128.wrapping_shr(12) as u64),
        ("pandn", 0xFE00_0001_0002_0000),
    ]);
    Ok(())
}

/// Four single-precision numbers.
const SINGLES: [f32; 4] = [1.0, -2.5, 3.0, 0.25];

fn sse(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.set_cr4(CR4_OSFXSR)?;
        operands(g, &SINGLES.map(f32::to_bits))?;
        // The others: 3, 2, 0, -0.5.
        for (n, value) in [3.0_f32, 2.0, 0.0, -0.5].into_iter().enumerate() {
            g.mov(dword_ptr(OPERANDS + 16 + 4 * n as u32), value.to_bits())?;
        }
        let mut two = |name: &str, operation: &dyn Fn(&mut Guest) -> Result| {
            g.movups(xmm0, xmmword_ptr(OPERANDS))?;
            g.movups(xmm1, xmmword_ptr(OPERANDS + 16))?;
            operation(g)?;
            g.movups(xmmword_ptr(RESULT), xmm0)?;
            report_both(g, name)
        };
        two("addps", &|g| g.addps(xmm0, xmm1))?;
        two("mulps", &|g| g.mulps(xmm0, xmm1))?;
        two("divps", &|g| g.divps(xmm0, xmm1))?;
        two("subss", &|g| g.subss(xmm0, xmm1))?;
        two("maxps", &|g| g.maxps(xmm0, xmm1))?;
        two("sqrtps", &|g| {
            g.shufps(xmm1, xmm1, 0b0101_0101)?; // 2 four times
            g.sqrtps(xmm0, xmm1)
        })?;
        two("cmpltps", &|g| g.cmpps(xmm0, xmm1, 1))?;
        two("shufps", &|g| g.shufps(xmm0, xmm1, 0b0001_1011))?;
        two("unpckhps", &|g| g.unpckhps(xmm0, xmm1))?;
        g.cvttss2si(eax, dword_ptr(OPERANDS + 4))?;
        g.report_eax("chopped")?;
        g.cvtss2si(eax, dword_ptr(OPERANDS + 4))?;
        g.report_eax("to even")?;
        g.stmxcsr(dword_ptr(RESULT))?;
        g.report_word("mxcsr", RESULT)
    })?;
    run(part, &image).expect(&[
        // 4, -0.5 | 3, -0.25.
        ("addps.low", 0xBF00_0000_4080_0000),
        ("addps.high", 0xBE80_0000_4040_0000),
        // 3, -5 | 0, -0.125.
        ("mulps.low", 0xC0A0_0000_4040_0000),
        ("mulps.high", 0xBE00_0000_0000_0000),
        // 1/3 rounded up, -1.25 | infinity, -0.5.
        ("divps.low", 0xBFA0_0000_3EAA_AAAB),
        ("divps.high", 0xBF00_0000_7F80_0000),
        // -2, then as it was.
        ("subss.low", 0xC020_0000_C000_0000),
        ("subss.high", 0x3E80_0000_4040_0000),
        // 3, 2 | 3, 0.25.
        ("maxps.low", 0x4000_0000_4040_0000),
        ("maxps.high", 0x3E80_0000_4040_0000),
        ("sqrtps.low", 0x3FB5_04F3_3FB5_04F3),
        ("sqrtps.high", 0x3FB5_04F3_3FB5_04F3),
        // 1 < 3, -2.5 < 2 | not 3 < 0, not 0.25 < -0.5.
        ("cmpltps.low", u64::MAX),
        ("cmpltps.high", 0),
        // 0.25, 3 | 2, 3.
        ("shufps.low", 0x4040_0000_3E80_0000),
        ("shufps.high", 0x4040_0000_4000_0000),
        // 3, 0 | 0.25, -0.5.
        ("unpckhps.low", 0x0000_0000_4040_0000),
        ("unpckhps.high", 0xBF00_0000_3E80_0000),
        ("chopped", 0xFFFF_FFFE),
        ("to even", 0xFFFF_FFFE),
        // All masked; precision (5) and division by zero (2) in the status.
        ("mxcsr", 0x1F80 | 1 << 5 | 1 << 2),
    ]);
    Ok(())
}

fn sse2(part: &'static Part) -> Result {
    let words = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
    let doubles = [1.0, -2.5, 3.0, 2.0].map(words).concat();
    let image = Guest::assemble(part, |g| {
        g.set_cr4(CR4_OSFXSR)?;
        operands(g, &doubles)?;
        let mut two = |name: &str, operation: &dyn Fn(&mut Guest) -> Result| {
            g.movupd(xmm0, xmmword_ptr(OPERANDS))?;
            g.movupd(xmm1, xmmword_ptr(OPERANDS + 16))?;
            operation(g)?;
            g.movdqu(xmmword_ptr(RESULT), xmm0)?;
            report_both(g, name)
        };
        two("addpd", &|g| g.addpd(xmm0, xmm1))?;
        two("divpd", &|g| g.divpd(xmm0, xmm1))?;
        two("sqrtsd", &|g| {
            g.unpckhpd(xmm1, xmm1)?; // 2, 2
            g.sqrtsd(xmm0, xmm1)
        })?;
        two("cvtpd2ps", &|g| g.cvtpd2ps(xmm0, xmm0))?;
        two("cvttpd2dq", &|g| g.cvttpd2dq(xmm0, xmm0))?;
        two("ucomisd", &|g| {
            g.ucomisd(xmm0, xmm1)?; // 1 < 3: CF
            g.pushfd()?;
            g.pop(eax)?;
            g.and(eax, 0x45)?;
            g.movd(xmm0, eax)
        })?;
        // All ones, shifted to 31 ones in each doubleword.
        two("pmuludq", &|g| {
            g.pcmpeqd(xmm2, xmm2)?;
            g.psrld(xmm2, 1)?;
            g.movdqa(xmm3, xmm2)?;
            g.pmuludq(xmm2, xmm3)?;
            g.movdqa(xmm0, xmm2)
        })?;
        two("paddq", &|g| {
            g.pcmpeqd(xmm2, xmm2)?;
            g.psrldq(xmm2, 8)?; // -1, 0
            g.psubq(xmm2, xmm1)?;
            g.paddq(xmm2, xmm1)?;
            g.movdqa(xmm0, xmm2)
        })?;
        two("pshufd", &|g| g.pshufd(xmm0, xmm1, 0b0001_1011))?;
        g.mov(edx, 1000)?;
        g.cvtsi2sd(xmm0, edx)?;
        g.movsd_2(qword_ptr(RESULT), xmm0)?;
        report(g, "cvtsi2sd")
    })?;
    run(part, &image).expect(&[
        // 4, -0.5.
        ("addpd.low", 0x4010_0000_0000_0000),
        ("addpd.high", 0xBFE0_0000_0000_0000),
        // 1/3, -1.25.
        ("divpd.low", 0x3FD5_5555_5555_5555),
        ("divpd.high", 0xBFF4_0000_0000_0000),
        ("sqrtsd.low", 0x3FF6_A09E_667F_3BCD),
        ("sqrtsd.high", 0xC004_0000_0000_0000),
        // 1, -2.5 in single precision.
        ("cvtpd2ps.low", 0xC020_0000_3F80_0000),
        ("cvtpd2ps.high", 0),
        ("cvttpd2dq.low", 0xFFFF_FFFE_0000_0001),
        ("cvttpd2dq.high", 0),
        ("ucomisd.low", 1),
        ("ucomisd.high", 0),
        // (2^31 - 1)^2 = 2^62 - 2^32 + 1.
        ("pmuludq.low", 0x3FFF_FFFF_0000_0001),
        ("pmuludq.high", 0x3FFF_FFFF_0000_0001),
        ("paddq.low", u64::MAX),
        ("paddq.high", 0),
        // The doublewords of 3 and 2, the other way round.
        ("pshufd.low", 0x0000_0000_4000_0000),
        ("pshufd.high", 0x0000_0000_4008_0000),
        ("cvtsi2sd", 0x408F_4000_0000_0000),
    ]);
    Ok(())
}
