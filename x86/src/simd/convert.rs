//! Conversions between floating-point formats and integers, and the reciprocal estimates (AMD64
//! APM volume 4, chapter 3).

use super::{
    approximate::{reciprocal_single, reciprocal_sqrt_single},
    float::{Double, Single, has_denormal, replace_low, under_mxcsr},
    handler::is_load,
    lanes::{Lane, gather, lane, low},
    operand::{File, GprOf, Mem128, MemOf, Mm, Source, Xmm, XmmReg, both_ready},
};
use crate::{
    cpu::Cpu,
    flags::Word,
    float_cases::FloatCases,
    insn::{Handler, Insn, Size},
    observe::{Cx, Observer},
    softfloat::{self, Context, Rounding},
    stop::Exec,
};

/// A conversion.
pub(super) trait Convert {
    /// Whether it narrows doubles to so many singles, which may be too small for them.
    const SINGLES: u32 = 0;
    /// The new destination from the old one and the source.
    fn convert(old: u128, source: u128, cx: &mut Context) -> u128;
}

macro_rules! conversions {
    ($($name:ident $($singles:literal)? |$old:ident, $source:ident, $cx:ident| $result:expr;)*) => {$(
        pub(super) struct $name;
        impl Convert for $name {
            $(const SINGLES: u32 = $singles;)?
            #[inline(always)]
            fn convert($old: u128, $source: u128, $cx: &mut Context) -> u128 {
                $result
            }
        }
    )*};
}

/// Two or four 32-bit results from as many lanes of the source.
#[inline(always)]
fn singles<const N: usize>(source: u128, mut f: impl FnMut(u32) -> u32) -> u128 {
    gather::<32, N>(std::array::from_fn(|n| u64::from(f(lane::<32>(source, n) as u32))))
}

/// Two 32-bit results from the two doubles of the source.
#[inline(always)]
fn from_doubles(source: u128, mut f: impl FnMut(u64) -> u32) -> u128 {
    gather::<32, 2>(std::array::from_fn(|n| u64::from(f(lane::<64>(source, n)))))
}

/// Two doubles from the two low 32-bit lanes of the source.
#[inline(always)]
fn to_doubles(source: u128, mut f: impl FnMut(u32) -> u64) -> u128 {
    gather::<64, 2>(std::array::from_fn(|n| f(lane::<32>(source, n) as u32)))
}

conversions! {
    Dq2Ps |_old, source, cx| singles::<4>(source, |a| softfloat::i32_to_f32(a as i32, cx));
    Ps2Dq |_old, source, cx|
        singles::<4>(source, |a| softfloat::f32_to_i32(a, cx.rounding, cx) as u32);
    Tps2Dq |_old, source, cx|
        singles::<4>(source, |a| softfloat::f32_to_i32(a, Rounding::Zero, cx) as u32);
    Dq2Pd |_old, source, cx| to_doubles(source, |a| softfloat::i32_to_f64(a as i32, cx));
    Ps2Pd |_old, source, cx| to_doubles(source, |a| softfloat::f32_to_f64(a, cx));
    Pd2Ps 2 |_old, source, cx| from_doubles(source, |a| softfloat::f64_to_f32(a, cx));
    Pd2Dq |_old, source, cx|
        from_doubles(source, |a| softfloat::f64_to_i32(a, cx.rounding, cx) as u32);
    Tpd2Dq |_old, source, cx|
        from_doubles(source, |a| softfloat::f64_to_i32(a, Rounding::Zero, cx) as u32);
    Ps2Pi |_old, source, cx|
        singles::<2>(source, |a| softfloat::f32_to_i32(a, cx.rounding, cx) as u32);
    Tps2Pi |_old, source, cx|
        singles::<2>(source, |a| softfloat::f32_to_i32(a, Rounding::Zero, cx) as u32);
    Pi2Ps |old, source, cx| {
        let pair = singles::<2>(source, |a| softfloat::i32_to_f32(a as i32, cx));
        replace_low::<Double>(old, low(pair))
    };
    Ss2Sd |old, source, cx|
        replace_low::<Double>(old, softfloat::f32_to_f64(low(source) as u32, cx));
    Sd2Ss 1 |old, source, cx|
        replace_low::<Single>(old, u64::from(softfloat::f64_to_f32(low(source), cx)));
    Si2Ss |old, source, cx|
        replace_low::<Single>(old, u64::from(softfloat::i32_to_f32(low(source) as i32, cx)));
    Si2Sd |old, source, cx|
        replace_low::<Double>(old, softfloat::i32_to_f64(low(source) as i32, cx));
    Sq2Ss |old, source, cx|
        replace_low::<Single>(old, u64::from(softfloat::i64_to_f32(low(source) as i64, cx)));
    Sq2Sd |old, source, cx|
        replace_low::<Double>(old, softfloat::i64_to_f64(low(source) as i64, cx));
}

/// What is out of the ordinary about the result of a conversion, but for what flags tell.
#[inline(always)]
fn cases<C: Convert>(result: u128) -> FloatCases {
    let singles = result & ((1 << (32 * C::SINGLES)) - 1);
    FloatCases::NONE.with(FloatCases::TINY_RESULT, has_denormal::<Single>(singles))
}

/// `F` is the file of the destination.
fn execute<O: Observer, F: File, C: Convert, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    F::ready(cpu, cx)?;
    let source = S::fetch(cpu, cx, insn)?;
    let old = F::get(cpu, insn.dst);
    let compute = |cx: &mut Context| C::convert(old, source, cx);
    let result = under_mxcsr(cpu, cx, compute, |&result| cases::<C>(result))?;
    F::set(cpu, insn.dst, result);
    Ok(())
}

/// CVTPI2PS and CVTPI2PD from a register.
fn execute_from_mmx<O: Observer, C: Convert>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    both_ready(cpu, cx)?;
    let source = Mm::get(cpu, insn.src);
    let old = Xmm::get(cpu, insn.dst);
    let compute = |cx: &mut Context| C::convert(old, source, cx);
    let result = under_mxcsr(cpu, cx, compute, |&result| cases::<C>(result))?;
    Mm::touch(cpu);
    Xmm::set(cpu, insn.dst, result);
    Ok(())
}

/// `cvt xmm, xmm/m128`.
pub(super) fn packed<O: Observer, C: Convert>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { execute::<O, Xmm, C, Mem128> } else { execute::<O, Xmm, C, XmmReg> }
}

/// `cvt xmm, xmm/m64`.
pub(super) fn widening<O: Observer, C: Convert>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { execute::<O, Xmm, C, MemOf<u64>> } else { execute::<O, Xmm, C, XmmReg> }
}

/// CVTSS2SD (`T` is `u32`) and CVTSD2SS (`u64`).
pub(super) fn scalar<O: Observer, C: Convert, T: Word>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { execute::<O, Xmm, C, MemOf<T>> } else { execute::<O, Xmm, C, XmmReg> }
}

/// CVTSI2SS and CVTSI2SD: `C` from 32, `W` from 64 bits.
pub(super) fn from_gpr<O: Observer, C: Convert, W: Convert>(insn: &Insn) -> Handler<O> {
    let wide = insn.size == Size::B8;
    match (is_load(insn), wide) {
        (true, false) => execute::<O, Xmm, C, MemOf<u32>>,
        (true, true) => execute::<O, Xmm, W, MemOf<u64>>,
        (false, false) => execute::<O, Xmm, C, GprOf<u32>>,
        (false, true) => execute::<O, Xmm, W, GprOf<u64>>,
    }
}

/// CVTPI2PS and CVTPI2PD. From memory they have nothing to do with MMX: AMD's processors leave the
/// x87 tags alone then, where Intel's manual has CVTPI2PS set them.
pub(super) fn from_mmx<O: Observer, C: Convert>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { execute::<O, Xmm, C, MemOf<u64>> } else { execute_from_mmx::<O, C> }
}

/// CVTPS2PI, CVTTPS2PI (64 bits of memory), CVTPD2PI, CVTTPD2PI (128, aligned).
pub(super) fn to_mmx<O: Observer, C: Convert>(insn: &Insn) -> Handler<O> {
    match (is_load(insn), insn.mem_bytes) {
        (false, _) => execute::<O, Mm, C, XmmReg>,
        (true, 16) => execute::<O, Mm, C, Mem128>,
        (true, _) => execute::<O, Mm, C, MemOf<u64>>,
    }
}

/// A scalar that becomes an integer.
pub(super) trait ToInteger {
    /// What a memory operand is.
    type Memory: Word;
    /// To 32 bits.
    fn narrow(source: u64, rounding: Rounding, cx: &mut Context) -> i32;
    /// To 64 bits.
    fn wide(source: u64, rounding: Rounding, cx: &mut Context) -> i64;
}

impl ToInteger for Single {
    type Memory = u32;
    fn narrow(source: u64, rounding: Rounding, cx: &mut Context) -> i32 {
        softfloat::f32_to_i32(source as u32, rounding, cx)
    }
    fn wide(source: u64, rounding: Rounding, cx: &mut Context) -> i64 {
        softfloat::f32_to_i64(source as u32, rounding, cx)
    }
}

impl ToInteger for Double {
    type Memory = u64;
    fn narrow(source: u64, rounding: Rounding, cx: &mut Context) -> i32 {
        softfloat::f64_to_i32(source, rounding, cx)
    }
    fn wide(source: u64, rounding: Rounding, cx: &mut Context) -> i64 {
        softfloat::f64_to_i64(source, rounding, cx)
    }
}

fn integer<O: Observer, F: ToInteger, S: Source, const TRUNCATE: bool, const WIDE: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let source = low(S::fetch(cpu, cx, insn)?);
    let compute = |cx: &mut Context| {
        let rounding = if TRUNCATE { Rounding::Zero } else { cx.rounding };
        if WIDE {
            F::wide(source, rounding, cx) as u64
        } else {
            u64::from(F::narrow(source, rounding, cx) as u32)
        }
    };
    let result = under_mxcsr(cpu, cx, compute, |_| FloatCases::NONE)?;
    cpu.set_reg(insn.dst, result);
    Ok(())
}

/// CVTSS2SI and CVTSD2SI, with `TRUNCATE` CVTTSS2SI and CVTTSD2SI.
pub(super) fn to_gpr<O: Observer, F: ToInteger, const TRUNCATE: bool>(insn: &Insn) -> Handler<O> {
    match (is_load(insn), insn.size == Size::B8) {
        (true, false) => integer::<O, F, MemOf<F::Memory>, TRUNCATE, false>,
        (true, true) => integer::<O, F, MemOf<F::Memory>, TRUNCATE, true>,
        (false, false) => integer::<O, F, XmmReg, TRUNCATE, false>,
        (false, true) => integer::<O, F, XmmReg, TRUNCATE, true>,
    }
}

/// A reciprocal estimate: no exceptions, no flags, and MXCSR does not matter.
pub(super) trait Estimate {
    /// Of one lane.
    fn estimate(a: u32) -> u32;
}

/// RCPPS and RCPSS.
pub(super) struct Rcp;
/// RSQRTPS and RSQRTSS.
pub(super) struct Rsqrt;

impl Estimate for Rcp {
    fn estimate(a: u32) -> u32 {
        reciprocal_single(a)
    }
}

impl Estimate for Rsqrt {
    fn estimate(a: u32) -> u32 {
        reciprocal_sqrt_single(a)
    }
}

fn estimate<O: Observer, E: Estimate, S: Source, const SCALAR: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let source = S::fetch(cpu, cx, insn)?;
    let result = if SCALAR {
        replace_low::<Single>(Xmm::get(cpu, insn.dst), E::estimate(source as u32).into())
    } else {
        u32::map(source, E::estimate)
    };
    Xmm::set(cpu, insn.dst, result);
    Ok(())
}

/// RCPPS, RSQRTPS.
pub(super) fn estimate_packed<O: Observer, E: Estimate>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { estimate::<O, E, Mem128, false> } else { estimate::<O, E, XmmReg, false> }
}

/// RCPSS, RSQRTSS.
pub(super) fn estimate_scalar<O: Observer, E: Estimate>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { estimate::<O, E, MemOf<u32>, true> } else { estimate::<O, E, XmmReg, true> }
}
