//! Addition, subtraction, multiplication, minimum and maximum.
//!
//! No exception is delivered: the flags of VXCSR tell of them, unless the encoding suppresses that. Of two
//! NaNs the first operand's is the result, made quiet, whichever is subtracted from which.

use super::{
    element::Lanes,
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, of_quadwords, quadword, write},
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    operation::Operation as O,
    softfloat::{
        Context, IE, Relation, f32_add, f32_compare, f32_mul, f32_sub, f64_add, f64_compare,
        f64_mul, f64_sub,
    },
};

/// The modes of VXCSR and of the encoding, with clear flags. To the results all exceptions are masked.
pub(super) fn modes(cpu: &Cpu, mvex: Mvex) -> Context {
    let modes = Context::from_mxcsr(cpu.vxcsr());
    Context { masks: 0x3f, rounding: mvex.rounding().unwrap_or(modes.rounding), ..modes }
}

/// Sets the flags that came of an instruction, unless it suppresses them.
pub(super) fn flag(cpu: &mut Cpu, mvex: Mvex, cx: &Context) {
    if !mvex.suppresses_exceptions() {
        cpu.simd.mxcsr |= u32::from(cx.flags);
    }
}

/// A floating-point format, by its encodings in a word.
pub(super) trait Format: Copy {
    /// How many are in a register.
    const LANES: Lanes;
    /// The sign bit.
    const SIGN: u64;
    /// Infinity.
    const INFINITY: u64;
    /// The quiet bit of a NaN.
    const QUIET: u64;
    /// The encoding of the smallest normal number.
    const SMALLEST_NORMAL: u64;
    /// Element `n`.
    fn get(value: &Zmm, n: usize) -> u64;
    /// The register of which `f` gives each element that is active; the others are zero.
    fn map(active: u16, f: impl FnMut(usize) -> u64) -> Zmm;
    /// `a + b`.
    fn add(a: u64, b: u64, cx: &mut Context) -> u64;
    /// `a - b`.
    fn sub(a: u64, b: u64, cx: &mut Context) -> u64;
    /// `a * b`.
    fn mul(a: u64, b: u64, cx: &mut Context) -> u64;
    /// How `a` relates to `b`.
    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation;

    /// Whether it is a NaN.
    fn is_nan(a: u64) -> bool {
        a & !Self::SIGN > Self::INFINITY
    }

    /// Whether it is a signalling NaN.
    fn is_signaling(a: u64) -> bool {
        Self::is_nan(a) && a & Self::QUIET == 0
    }

    /// Whether it is denormal.
    fn is_denormal(a: u64) -> bool {
        (1..Self::SMALLEST_NORMAL).contains(&(a & !Self::SIGN))
    }
}

/// Single precision.
#[derive(Clone, Copy)]
pub(super) struct Single;
/// Double precision.
#[derive(Clone, Copy)]
pub(super) struct Double;

impl Format for Single {
    const LANES: Lanes = Lanes::Sixteen;
    const SIGN: u64 = 1 << 31;
    const INFINITY: u64 = 0x7f80_0000;
    const QUIET: u64 = 1 << 22;
    const SMALLEST_NORMAL: u64 = 1 << 23;

    fn get(value: &Zmm, n: usize) -> u64 {
        u64::from(value[n])
    }

    fn map(active: u16, mut f: impl FnMut(usize) -> u64) -> Zmm {
        std::array::from_fn(|n| if active >> n & 1 != 0 { f(n) as u32 } else { 0 })
    }

    fn add(a: u64, b: u64, cx: &mut Context) -> u64 {
        u64::from(f32_add(a as u32, b as u32, cx))
    }

    fn sub(a: u64, b: u64, cx: &mut Context) -> u64 {
        u64::from(f32_sub(a as u32, b as u32, cx))
    }

    fn mul(a: u64, b: u64, cx: &mut Context) -> u64 {
        u64::from(f32_mul(a as u32, b as u32, cx))
    }

    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation {
        f32_compare(a as u32, b as u32, signal_on_qnan, cx)
    }
}

impl Format for Double {
    const LANES: Lanes = Lanes::Eight;
    const SIGN: u64 = 1 << 63;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const QUIET: u64 = 1 << 51;
    const SMALLEST_NORMAL: u64 = 1 << 52;

    fn get(value: &Zmm, n: usize) -> u64 {
        quadword(value, n)
    }

    fn map(active: u16, mut f: impl FnMut(usize) -> u64) -> Zmm {
        of_quadwords(std::array::from_fn(|n| if active >> n & 1 != 0 { f(n) } else { 0 }))
    }

    fn add(a: u64, b: u64, cx: &mut Context) -> u64 {
        f64_add(a, b, cx)
    }

    fn sub(a: u64, b: u64, cx: &mut Context) -> u64 {
        f64_sub(a, b, cx)
    }

    fn mul(a: u64, b: u64, cx: &mut Context) -> u64 {
        f64_mul(a, b, cx)
    }

    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation {
        f64_compare(a, b, signal_on_qnan, cx)
    }
}

/// The result of operands of which at least one is a NaN: the first of them, made quiet. `None` if none is.
pub(super) fn nan_of<F: Format, const N: usize>(
    operands: [u64; N],
    cx: &mut Context,
) -> Option<u64> {
    let nan = operands.into_iter().find(|&a| F::is_nan(a))?;
    if operands.into_iter().any(F::is_signaling) {
        cx.flags |= IE;
    }
    Some(nan | F::QUIET)
}

/// Addition, subtraction and multiplication, minimum and maximum.
pub(super) struct Arithmetic;

impl Compute for Arithmetic {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        match insn.op.lanes() {
            Lanes::Sixteen => arithmetic::<Single>(cpu, insn, active, b),
            Lanes::Eight => arithmetic::<Double>(cpu, insn, active, b),
        }
    }
}

fn arithmetic<F: Format>(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
    let mvex = Mvex::of(insn);
    let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
    let mut cx = modes(cpu, mvex);
    let operation: fn(u64, u64, &mut Context) -> u64 = match insn.op {
        O::Vaddps | O::Vaddpd | O::Vaddsetsps => |a, b, cx| nan_or::<F>(F::add, a, b, cx),
        O::Vsubps | O::Vsubpd => |a, b, cx| nan_or::<F>(F::sub, a, b, cx),
        O::Vsubrps | O::Vsubrpd => |a, b, cx| nan_or::<F>(|a, b, cx| F::sub(b, a, cx), a, b, cx),
        // The sum is rounded, then negated; a NaN stays as it is.
        O::Vaddnps | O::Vaddnpd => |a, b, cx| {
            let sum = nan_or::<F>(F::add, a, b, cx);
            if F::is_nan(sum) { sum } else { sum ^ F::SIGN }
        },
        O::Vmulps | O::Vmulpd => |a, b, cx| nan_or::<F>(F::mul, a, b, cx),
        O::Vgmaxps | O::Vgmaxpd => |a, b, cx| chosen::<F>(a, b, |r| r != Relation::Less, cx),
        O::Vgminps | O::Vgminpd => |a, b, cx| chosen::<F>(a, b, |r| r == Relation::Less, cx),
        _ => |a, b, cx| chosen::<F>(a & !F::SIGN, b & !F::SIGN, |r| r != Relation::Less, cx),
    };
    let result = F::map(active, |n| operation(F::get(&a, n), F::get(b, n), &mut cx));
    flag(cpu, mvex, &cx);
    write(cpu, insn.dst, F::LANES, active, &result);
    if insn.op == O::Vaddsetsps {
        set_signs(cpu, mvex.mask(), active, &result);
    }
}

/// The result of `operation`, or that of its NaN operands.
fn nan_or<F: Format>(
    operation: impl Fn(u64, u64, &mut Context) -> u64,
    a: u64,
    b: u64,
    cx: &mut Context,
) -> u64 {
    nan_of::<F, 2>([a, b], cx).unwrap_or_else(|| operation(a, b, cx))
}

/// VGMAX and VGMIN: `a` if it relates to `b` as wanted, else `b`. A NaN is not chosen if the other operand is
/// a number. What is chosen is zero if it is denormal and such numbers are to be taken for zero, or made
/// zero.
fn chosen<F: Format>(
    a: u64,
    b: u64,
    wants_first: impl Fn(Relation) -> bool,
    cx: &mut Context,
) -> u64 {
    let choice = match (F::is_nan(a), F::is_nan(b)) {
        (true, true) => return nan_or::<F>(|a, _, _| a, a, b, cx),
        (false, false) => {
            if wants_first(F::compare(a, b, false, cx)) {
                a
            } else {
                b
            }
        }
        (a_is_nan, _) => {
            // Tells of a signalling NaN.
            F::compare(a, b, false, cx);
            if a_is_nan { b } else { a }
        }
    };
    let flushes = cx.daz || cx.ftz;
    if flushes && F::is_denormal(choice) { choice & F::SIGN } else { choice }
}

/// Puts the signs of the lanes that are active into a mask register; the other bits become zero.
pub(super) fn set_signs(cpu: &mut Cpu, mask: u8, active: u16, result: &Zmm) {
    let signs = result.iter().rev().fold(0, |signs, &lane| signs << 1 | (lane >> 31) as u16);
    cpu.set_mask(mask, signs & active);
}
