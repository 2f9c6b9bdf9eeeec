//! What the host's own floating-point units answer, for the tests of this folder.
//!
//! Every expectation here comes from silicon: the same operands go through the real instruction
//! under the same control word.

#![allow(unsafe_code, reason = "the oracle is the host's own instructions, reached by assembly")]

use std::arch::asm;

use super::{Context, F80, Rounding};

/// A xorshift generator: the tests must be the same on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    /// A fraction of `bits` bits: random, or with long runs of zeros and ones, where rounding
    /// and carries have their corner cases.
    pub(crate) fn fraction(&mut self, bits: u32) -> u64 {
        let mask = u64::MAX >> (64 - bits);
        let raw = self.next();
        let near = self.below(4);
        mask & match self.below(6) {
            0 => 0u64.wrapping_sub(near),
            1 => near,
            2 => (1 << (bits - 1)) + near,
            3 => raw & !(u64::MAX >> self.below(64)),
            4 => (1u64 << self.below(u64::from(bits))).wrapping_sub(near),
            _ => raw,
        }
    }

    /// An encoding with `E` exponent and `F` fraction bits, biased to the ends of the range, to
    /// the middle, and to the special values.
    pub(crate) fn operand(&mut self, exponent_bits: u32, fraction_bits: u32) -> u64 {
        let max = (1u64 << exponent_bits) - 1;
        let exponent = match self.below(10) {
            0 => 0,
            1 => max,
            2 => 1 + self.below(4),
            3 => max - 1 - self.below(4),
            4..=6 => (max >> 1) - 6 + self.below(12),
            7 => (max >> 1).wrapping_add(self.below(2 * u64::from(fraction_bits) + 20)),
            _ => self.below(max + 1),
        } & max;
        let fraction = self.fraction(fraction_bits);
        let sign = self.below(2);
        sign << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction
    }
}

/// MXCSR with everything masked and no flag set, with the rounding, DAZ and FTZ of `cx`.
fn mxcsr(cx: &Context) -> u32 {
    let rc = match cx.rounding {
        Rounding::Nearest => 0,
        Rounding::Down => 1,
        Rounding::Up => 2,
        Rounding::Zero => 3,
    };
    0x1F80 | rc << 13 | u32::from(cx.daz) << 6 | u32::from(cx.ftz) << 15
}

/// All rounding modes with all settings of DAZ and FTZ, exceptions masked.
pub(crate) fn sse_contexts() -> Vec<Context> {
    let mut all = Vec::new();
    for rounding in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Zero] {
        for daz in [false, true] {
            for ftz in [false, true] {
                all.push(Context { rounding, daz, ftz, ..Context::default() });
            }
        }
    }
    all
}

/// Runs one SSE instruction with `a` and the result in XMM0 and `b` in XMM1.
macro_rules! sse {
    ($name:ident, $text:literal) => {
        pub(crate) fn $name(a: u64, b: u64, cx: &Context) -> (u64, u8) {
            let (control, mut after, mut saved) = (mxcsr(cx), 0u32, 0u32);
            let result: u64;
            // SAFETY: touches two SSE registers, MXCSR (restored) and three locals.
            unsafe {
                asm!(
                    "stmxcsr [{saved}]",
                    "movq xmm0, {a}",
                    "movq xmm1, {b}",
                    "ldmxcsr [{control}]",
                    $text,
                    "stmxcsr [{after}]",
                    "ldmxcsr [{saved}]",
                    "movq {a}, xmm0",
                    a = inout(reg) a => result,
                    b = in(reg) b,
                    control = in(reg) &raw const control,
                    after = in(reg) &raw mut after,
                    saved = in(reg) &raw mut saved,
                    out("xmm0") _, out("xmm1") _,
                );
            }
            (result, (after & 0x3F) as u8)
        }
    };
}

sse!(addss, "addss xmm0, xmm1");
sse!(subss, "subss xmm0, xmm1");
sse!(mulss, "mulss xmm0, xmm1");
sse!(divss, "divss xmm0, xmm1");
sse!(minss, "minss xmm0, xmm1");
sse!(maxss, "maxss xmm0, xmm1");
sse!(sqrtss, "sqrtss xmm0, xmm0");
sse!(addsd, "addsd xmm0, xmm1");
sse!(subsd, "subsd xmm0, xmm1");
sse!(mulsd, "mulsd xmm0, xmm1");
sse!(divsd, "divsd xmm0, xmm1");
sse!(minsd, "minsd xmm0, xmm1");
sse!(maxsd, "maxsd xmm0, xmm1");
sse!(sqrtsd, "sqrtsd xmm0, xmm0");
sse!(cvtss2sd, "cvtss2sd xmm0, xmm0");
sse!(cvtsd2ss, "cvtsd2ss xmm0, xmm0");
sse!(cvtps2dq, "cvtps2dq xmm0, xmm0");
sse!(cvttps2dq, "cvttps2dq xmm0, xmm0");
sse!(cvtpd2dq, "cvtpd2dq xmm0, xmm0");
sse!(cvttpd2dq, "cvttpd2dq xmm0, xmm0");
sse!(cmpunordss, "cmpunordss xmm0, xmm1");
sse!(cmpltss, "cmpltss xmm0, xmm1");
sse!(cmpunordsd, "cmpunordsd xmm0, xmm1");
sse!(cmpltsd, "cmpltsd xmm0, xmm1");

/// Runs one SSE instruction between an XMM register and a general register.
macro_rules! sse_integer {
    ($name:ident, $text:literal) => {
        pub(crate) fn $name(a: u64, cx: &Context) -> (u64, u8) {
            let (control, mut after, mut saved) = (mxcsr(cx), 0u32, 0u32);
            let result: u64;
            // SAFETY: touches RAX, one SSE register, MXCSR (restored) and three locals.
            unsafe {
                asm!(
                    "stmxcsr [{saved}]",
                    "movq xmm0, rax",
                    "ldmxcsr [{control}]",
                    $text,
                    "stmxcsr [{after}]",
                    "ldmxcsr [{saved}]",
                    control = in(reg) &raw const control,
                    after = in(reg) &raw mut after,
                    saved = in(reg) &raw mut saved,
                    inout("rax") a => result,
                    out("xmm0") _,
                );
            }
            (result, (after & 0x3F) as u8)
        }
    };
}

sse_integer!(cvtss2si, "cvtss2si rax, xmm0");
sse_integer!(cvttss2si, "cvttss2si rax, xmm0");
sse_integer!(cvtsd2si, "cvtsd2si rax, xmm0");
sse_integer!(cvttsd2si, "cvttsd2si rax, xmm0");
sse_integer!(cvtsi2ss_32, "cvtsi2ss xmm0, eax\nmovq rax, xmm0");
sse_integer!(cvtsi2ss_64, "cvtsi2ss xmm0, rax\nmovq rax, xmm0");
sse_integer!(cvtsi2sd_32, "cvtsi2sd xmm0, eax\nmovq rax, xmm0");
sse_integer!(cvtsi2sd_64, "cvtsi2sd xmm0, rax\nmovq rax, xmm0");

/// What FNSAVE stores, as far as a test can compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct X87 {
    pub(crate) status: u16,
    pub(crate) tag: u16,
    /// Stack order: ST(0) first.
    pub(crate) stack: [F80; 8],
}

impl X87 {
    fn from_image(image: &[u8; 108]) -> Self {
        let word = |at: usize| u16::from_le_bytes([image[at], image[at + 1]]);
        let stack = std::array::from_fn(|i| {
            F80::from_bytes(image[28 + 10 * i..38 + 10 * i].try_into().expect("ten bytes"))
        });
        Self { status: word(4), tag: word(8), stack }
    }
}

/// Runs one x87 instruction with `a` in ST(0) and `b` in ST(1) and `memory` at `[{m}]`, under
/// the control word, and saves all state without waiting for a pending exception.
macro_rules! x87 {
    ($($name:ident $text:literal)*) => {$(
        pub(crate) fn $name(a: F80, b: F80, control: u16, memory: &mut [u8; 16]) -> X87 {
            let (a, b, mut image) = (a.to_bytes(), b.to_bytes(), [0u8; 108]);
            // SAFETY: reads the operands, writes `memory` and `image`, and leaves the x87 unit
            // as FNSAVE does, which is the state that the ABI asks for.
            unsafe {
                asm!(
                    "fninit",
                    "fld tbyte ptr [{b}]",
                    "fld tbyte ptr [{a}]",
                    "fldcw [{control}]",
                    $text,
                    "fnsave [{image}]",
                    a = in(reg) &raw const a,
                    b = in(reg) &raw const b,
                    m = in(reg) &raw mut *memory,
                    control = in(reg) &raw const control,
                    image = in(reg) &raw mut image,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                );
            }
            X87::from_image(&image)
        }
    )*};
}

x87! {
    fadd "fadd st(0), st(1) # {m}"
    fsub "fsub st(0), st(1) # {m}"
    fmul "fmul st(0), st(1) # {m}"
    fdiv "fdiv st(0), st(1) # {m}"
    fsqrt "fsqrt # {m}"
    fprem "fprem # {m}"
    fprem1 "fprem1 # {m}"
    frndint "frndint # {m}"
    fscale "fscale # {m}"
    fxtract "fxtract # {m}"
    fcom "fcom st(1) # {m}"
    fucom "fucom st(1) # {m}"
    fst32 "fst dword ptr [{m}]"
    fst64 "fst qword ptr [{m}]"
    fist16 "fist word ptr [{m}]"
    fist32 "fist dword ptr [{m}]"
    fistp64 "fistp qword ptr [{m}]"
    fisttp64 "fisttp qword ptr [{m}]"
    fbstp "fbstp tbyte ptr [{m}]"
    fld32 "fld dword ptr [{m}]"
    fld64 "fld qword ptr [{m}]"
    fild16 "fild word ptr [{m}]"
    fild64 "fild qword ptr [{m}]"
    fbld "fbld tbyte ptr [{m}]"
    f2xm1 "f2xm1 # {m}"
    fyl2x "fyl2x # {m}"
    fyl2xp1 "fyl2xp1 # {m}"
    fpatan "fpatan # {m}"
    fsin "fsin # {m}"
    fcos "fcos # {m}"
    fptan "fptan # {m}"
}
