//! SSE, SSE2 and SSE3 floating-point arithmetic and comparison (AMD64 APM volume 4, chapter 3).
//!
//! All lanes are computed before any exception is raised, and an unmasked exception leaves the
//! destination as it was (volume 1, section 4.10).

use super::{
    handler::is_load,
    lanes::{gather, lane},
    operand::{File, Mem128, MemOf, Source, Xmm, XmmReg},
};
use crate::{
    control_registers::cr4,
    cpu::Cpu,
    flags::{CF, PF, Word, ZF},
    float_cases::{FloatCases, FloatUnit},
    insn::{Handler, Insn},
    observe::{Cx, Observer},
    softfloat::{self, Context, PRE_COMPUTATION, Relation, UE},
    stop::{Exec, Stop, vector},
};

/// Computes under MXCSR, then sets its flags and raises #XF (#UD without CR4.OSXMMEXCPT) if one
/// of them is not masked. Who counts is told what is out of the ordinary about the numbers, which is what
/// flags tell and `cases` finds.
#[inline(always)]
pub(super) fn under_mxcsr<O: Observer, R>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    compute: impl FnOnce(&mut Context) -> R,
    cases: impl FnOnce(&R) -> FloatCases,
) -> Exec<R> {
    let mut context = Context::from_mxcsr(cpu.simd.mxcsr);
    let result = compute(&mut context);
    if context.unmasked() != 0 {
        return Err(unmasked(cpu, &context));
    }
    cpu.simd.mxcsr |= u32::from(context.flags);
    if O::COUNTS {
        let flushed = if context.ftz { UE } else { 0 };
        let cases = cases(&result) | FloatCases::of_flags(context.flags & !flushed);
        if cases != FloatCases::NONE {
            cx.observer.float_cases(FloatUnit::Sse, cases);
        }
    }
    Ok(result)
}

/// What is out of the ordinary about operands and what was computed of them, but for what flags tell.
#[inline(always)]
fn cases_of<F: Format>(operands: &[u128], result: Option<u128>) -> FloatCases {
    FloatCases::NONE
        .with(FloatCases::SPECIAL_OPERAND, operands.iter().any(|&lanes| has_special::<F>(lanes)))
        .with(FloatCases::TINY_RESULT, result.is_some_and(has_denormal::<F>))
}

/// Whether a lane is an infinity or a NaN.
#[inline(always)]
fn has_special<F: Format>(lanes: u128) -> bool {
    any_lane::<F>(lanes, |magnitude| magnitude >= F::INFINITY)
}

/// Whether a lane is denormal.
#[inline(always)]
pub(super) fn has_denormal<F: Format>(lanes: u128) -> bool {
    any_lane::<F>(lanes, |magnitude| magnitude != 0 && magnitude < F::SMALLEST_NORMAL)
}

/// Whether the magnitude of a lane is of a kind.
#[inline(always)]
fn any_lane<F: Format>(lanes: u128, is: impl Fn(u64) -> bool) -> bool {
    let magnitude = u64::MAX >> (65 - F::BITS);
    (0..128 / F::BITS).any(|n| is((lanes >> (n * F::BITS)) as u64 & magnitude))
}

/// Flags that are found before the result is known hide those that come with the result.
#[cold]
fn unmasked(cpu: &mut Cpu, context: &Context) -> Stop {
    let seen = if context.faulted() { PRE_COMPUTATION } else { u8::MAX };
    cpu.simd.mxcsr |= u32::from(context.flags & seen);
    if cpu.cr4 & cr4::OSXMMEXCPT != 0 { Stop::fault(vector::XF) } else { Stop::UD }
}

/// PE, DAZ, the masks, RC and FTZ of MXCSR.
const MODES: u32 = 0xffe0;
/// [`MODES`] with all exceptions masked, rounding to nearest, no DAZ, no FTZ, and PE set already: an
/// operation on normal numbers with a normal result leaves MXCSR as it is.
const INEXACT_KNOWN: u32 = 0x1fa0;

/// Whether the host's arithmetic may be used where operands and result are normal numbers: it then
/// gives the bits that IEEE 754 prescribes, as `softfloat` does, and MXCSR does not change.
#[inline(always)]
fn allows_host_arithmetic(cpu: &Cpu) -> bool {
    cpu.simd.mxcsr & MODES == INEXACT_KNOWN
}

/// A floating-point format in SSE registers.
pub(super) trait Format {
    /// Width in bits.
    const BITS: u32;
    /// The encoding of positive infinity.
    const INFINITY: u64;
    /// That of the smallest normal number.
    const SMALLEST_NORMAL: u64;
    /// What a scalar memory operand is.
    type Memory: Word;
    /// An operation on one lane; `host` allows the host's arithmetic.
    fn arith<A: Arith>(a: u64, b: u64, host: bool, cx: &mut Context) -> u64;
    /// A comparison.
    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation;
}

/// Single precision.
pub(super) struct Single;
/// Double precision.
pub(super) struct Double;

/// A normal number.
#[inline(always)]
fn is_normal_single(a: u32) -> bool {
    (a >> 23 & 0xff).wrapping_sub(1) < 0xfe
}

#[inline(always)]
fn is_normal_double(a: u64) -> bool {
    (a >> 52 & 0x7ff).wrapping_sub(1) < 0x7fe
}

/// A normal result that was not rounded up to the smallest one, which would be an underflow.
#[inline(always)]
fn is_safe_single(a: u32) -> bool {
    (a >> 23 & 0xff).wrapping_sub(2) < 0xfd
}

#[inline(always)]
fn is_safe_double(a: u64) -> bool {
    (a >> 52 & 0x7ff).wrapping_sub(2) < 0x7fd
}

impl Format for Single {
    const BITS: u32 = 32;
    const INFINITY: u64 = 0x7f80_0000;
    const SMALLEST_NORMAL: u64 = 0x0080_0000;
    type Memory = u32;

    #[inline(always)]
    fn arith<A: Arith>(a: u64, b: u64, host: bool, cx: &mut Context) -> u64 {
        let (a, b) = (a as u32, b as u32);
        if host && is_normal_single(a) && is_normal_single(b) {
            let result = A::host_single(f32::from_bits(a), f32::from_bits(b)).to_bits();
            if is_safe_single(result) {
                return u64::from(result);
            }
        }
        u64::from(A::single(a, b, cx))
    }

    #[inline(always)]
    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation {
        softfloat::f32_compare(a as u32, b as u32, signal_on_qnan, cx)
    }
}

impl Format for Double {
    const BITS: u32 = 64;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const SMALLEST_NORMAL: u64 = 0x0010_0000_0000_0000;
    type Memory = u64;

    #[inline(always)]
    fn arith<A: Arith>(a: u64, b: u64, host: bool, cx: &mut Context) -> u64 {
        if host && is_normal_double(a) && is_normal_double(b) {
            let result = A::host_double(f64::from_bits(a), f64::from_bits(b)).to_bits();
            if is_safe_double(result) {
                return result;
            }
        }
        A::double(a, b, cx)
    }

    #[inline(always)]
    fn compare(a: u64, b: u64, signal_on_qnan: bool, cx: &mut Context) -> Relation {
        softfloat::f64_compare(a, b, signal_on_qnan, cx)
    }
}

/// An operation of destination and source lane.
pub(super) trait Arith {
    /// Whether it computes with the destination too.
    const OF_TWO: bool = true;
    /// Whether it gives a number that was not there.
    const COMPUTES: bool = true;
    /// In single precision.
    fn single(a: u32, b: u32, cx: &mut Context) -> u32;
    /// In double precision.
    fn double(a: u64, b: u64, cx: &mut Context) -> u64;
    /// The same by the host.
    fn host_single(a: f32, b: f32) -> f32;
    /// The same by the host.
    fn host_double(a: f64, b: f64) -> f64;
}

macro_rules! arith {
    ($($name:ident $computes:literal $single:ident $double:ident |$a:ident, $b:ident| $host:expr;)*) => {$(
        pub(super) struct $name;
        impl Arith for $name {
            const COMPUTES: bool = $computes;
            #[inline(always)]
            fn single(a: u32, b: u32, cx: &mut Context) -> u32 {
                softfloat::$single(a, b, cx)
            }
            #[inline(always)]
            fn double(a: u64, b: u64, cx: &mut Context) -> u64 {
                softfloat::$double(a, b, cx)
            }
            #[inline(always)]
            fn host_single($a: f32, $b: f32) -> f32 {
                $host
            }
            #[inline(always)]
            fn host_double($a: f64, $b: f64) -> f64 {
                $host
            }
        }
    )*};
}

arith! {
    Add true f32_add f64_add |a, b| a + b;
    Sub true f32_sub f64_sub |a, b| a - b;
    Mul true f32_mul f64_mul |a, b| a * b;
    Div true f32_div f64_div |a, b| a / b;
    Min false f32_min f64_min |a, b| if a < b { a } else { b };
    Max false f32_max f64_max |a, b| if a > b { a } else { b };
}

/// SQRTPS and so on: of the source alone.
pub(super) struct Sqrt;

impl Arith for Sqrt {
    const OF_TWO: bool = false;
    fn single(_: u32, b: u32, cx: &mut Context) -> u32 {
        softfloat::f32_sqrt(b, cx)
    }
    fn double(_: u64, b: u64, cx: &mut Context) -> u64 {
        softfloat::f64_sqrt(b, cx)
    }
    #[inline(always)]
    fn host_single(_: f32, b: f32) -> f32 {
        b.sqrt()
    }
    #[inline(always)]
    fn host_double(_: f64, b: f64) -> f64 {
        b.sqrt()
    }
}

/// `compute` of every pair of lanes.
#[inline(always)]
fn zip<F: Format>(a: u128, b: u128, mut compute: impl FnMut(u64, u64) -> u64) -> u128 {
    if F::BITS == 64 {
        gather::<64, 2>(std::array::from_fn(|n| compute(lane::<64>(a, n), lane::<64>(b, n))))
    } else {
        gather::<32, 4>(std::array::from_fn(|n| compute(lane::<32>(a, n), lane::<32>(b, n))))
    }
}

/// `a` with its lowest lane replaced.
#[inline(always)]
pub(super) fn replace_low<F: Format>(a: u128, low: u64) -> u128 {
    a >> F::BITS << F::BITS | u128::from(low)
}

/// Lane 0.
#[inline(always)]
fn first<F: Format>(a: u128) -> u64 {
    a as u64 & (u64::MAX >> (64 - F::BITS))
}

fn packed<O: Observer, F: Format, A: Arith, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = S::fetch(cpu, cx, insn)?;
    let a = Xmm::get(cpu, insn.dst);
    let host = allows_host_arithmetic(cpu);
    let compute = |cx: &mut Context| zip::<F>(a, b, |a, b| F::arith::<A>(a, b, host, cx));
    let result = under_mxcsr(cpu, cx, compute, |&result| cases_of_arith::<F, A>(a, b, result))?;
    Xmm::set(cpu, insn.dst, result);
    Ok(())
}

fn scalar<O: Observer, F: Format, A: Arith, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = first::<F>(S::fetch(cpu, cx, insn)?);
    let old = Xmm::get(cpu, insn.dst);
    let a = first::<F>(old);
    let host = allows_host_arithmetic(cpu);
    let compute = |cx: &mut Context| F::arith::<A>(a, b, host, cx);
    let result = under_mxcsr(cpu, cx, compute, |&result| {
        cases_of_arith::<F, A>(a.into(), b.into(), result.into())
    })?;
    Xmm::set(cpu, insn.dst, replace_low::<F>(old, result));
    Ok(())
}

/// [`cases_of`] an operation of destination and source.
#[inline(always)]
fn cases_of_arith<F: Format, A: Arith>(a: u128, b: u128, result: u128) -> FloatCases {
    let operands = if A::OF_TWO { &[a, b][..] } else { &[b] };
    cases_of::<F>(operands, A::COMPUTES.then_some(result))
}

/// ADDPS and the like.
pub(super) fn arith_packed<O: Observer, F: Format, A: Arith>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { packed::<O, F, A, Mem128> } else { packed::<O, F, A, XmmReg> }
}

/// ADDSS and the like.
pub(super) fn arith_scalar<O: Observer, F: Format, A: Arith>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { scalar::<O, F, A, MemOf<F::Memory>> } else { scalar::<O, F, A, XmmReg> }
}

/// All ones if `a` and `b` satisfy predicate `control & 7` of CMPPS (APM volume 4, table 3-1).
#[inline(always)]
fn predicate<F: Format>(a: u64, b: u64, control: u8, cx: &mut Context) -> u64 {
    // LT, LE, NLT and NLE signal on quiet NaNs.
    let signals = matches!(control & 3, 1 | 2);
    let relation = F::compare(a, b, signals, cx);
    let holds = match control & 3 {
        0 => relation == Relation::Equal,
        1 => relation == Relation::Less,
        2 => matches!(relation, Relation::Less | Relation::Equal),
        _ => relation == Relation::Unordered,
    };
    if holds != (control & 4 != 0) { u64::MAX >> (64 - F::BITS) } else { 0 }
}

fn compare_packed<O: Observer, F: Format, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = S::fetch(cpu, cx, insn)?;
    let a = Xmm::get(cpu, insn.dst);
    let control = insn.imm as u8;
    let compare = |cx: &mut Context| zip::<F>(a, b, |a, b| predicate::<F>(a, b, control, cx));
    let result = under_mxcsr(cpu, cx, compare, |_| cases_of::<F>(&[a, b], None))?;
    Xmm::set(cpu, insn.dst, result);
    Ok(())
}

fn compare_scalar<O: Observer, F: Format, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = first::<F>(S::fetch(cpu, cx, insn)?);
    let old = Xmm::get(cpu, insn.dst);
    let a = first::<F>(old);
    let control = insn.imm as u8;
    let compare = |cx: &mut Context| predicate::<F>(a, b, control, cx);
    let result = under_mxcsr(cpu, cx, compare, |_| cases_of::<F>(&[a.into(), b.into()], None))?;
    Xmm::set(cpu, insn.dst, replace_low::<F>(old, result));
    Ok(())
}

/// CMPPS and CMPPD.
pub(super) fn cmp_packed<O: Observer, F: Format>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { compare_packed::<O, F, Mem128> } else { compare_packed::<O, F, XmmReg> }
}

/// CMPSS and CMPSD.
pub(super) fn cmp_scalar<O: Observer, F: Format>(insn: &Insn) -> Handler<O> {
    if is_load(insn) {
        compare_scalar::<O, F, MemOf<F::Memory>>
    } else {
        compare_scalar::<O, F, XmmReg>
    }
}

fn compare_flags<O: Observer, F: Format, S: Source, const SIGNAL: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = first::<F>(S::fetch(cpu, cx, insn)?);
    let a = first::<F>(Xmm::get(cpu, insn.dst));
    let compare = |cx: &mut Context| F::compare(a, b, SIGNAL, cx);
    let relation = under_mxcsr(cpu, cx, compare, |_| cases_of::<F>(&[a.into(), b.into()], None))?;
    cpu.flags.set_rflags(match relation {
        Relation::Greater => 0,
        Relation::Less => CF,
        Relation::Equal => ZF,
        Relation::Unordered => ZF | PF | CF,
    });
    Ok(())
}

/// COMISS and COMISD (`SIGNAL`: quiet NaNs are invalid too), UCOMISS and UCOMISD.
pub(super) fn comi<O: Observer, F: Format, const SIGNAL: bool>(insn: &Insn) -> Handler<O> {
    if is_load(insn) {
        compare_flags::<O, F, MemOf<F::Memory>, SIGNAL>
    } else {
        compare_flags::<O, F, XmmReg, SIGNAL>
    }
}

/// SSE3 arithmetic across lanes.
pub(super) trait Across {
    /// The result, by sums and differences of lanes.
    fn across<F: Format>(a: u128, b: u128, host: bool, cx: &mut Context) -> u128;
}

/// ADDSUBPS and ADDSUBPD: even lanes subtract, odd lanes add.
pub(super) struct AddSub;
/// HADDPS, HSUBPS and so on: neighbours of the destination, then neighbours of the source.
pub(super) struct Horizontal<A>(std::marker::PhantomData<A>);

impl Across for AddSub {
    #[inline(always)]
    fn across<F: Format>(a: u128, b: u128, host: bool, cx: &mut Context) -> u128 {
        let mut odd = false;
        zip::<F>(a, b, |a, b| {
            odd = !odd;
            if odd { F::arith::<Sub>(a, b, host, cx) } else { F::arith::<Add>(a, b, host, cx) }
        })
    }
}

impl<A: Arith> Across for Horizontal<A> {
    #[inline(always)]
    fn across<F: Format>(a: u128, b: u128, host: bool, cx: &mut Context) -> u128 {
        let mut pair = |value: u128, n: u32| {
            let value = value >> (2 * F::BITS * n);
            F::arith::<A>(first::<F>(value), first::<F>(value >> F::BITS), host, cx)
        };
        if F::BITS == 64 {
            gather::<64, 2>([pair(a, 0), pair(b, 0)])
        } else {
            gather::<32, 4>([pair(a, 0), pair(a, 1), pair(b, 0), pair(b, 1)])
        }
    }
}

fn execute_across<O: Observer, F: Format, A: Across, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let b = S::fetch(cpu, cx, insn)?;
    let a = Xmm::get(cpu, insn.dst);
    let host = allows_host_arithmetic(cpu);
    let compute = |cx: &mut Context| A::across::<F>(a, b, host, cx);
    let result = under_mxcsr(cpu, cx, compute, |&result| cases_of::<F>(&[a, b], Some(result)))?;
    Xmm::set(cpu, insn.dst, result);
    Ok(())
}

/// ADDSUBPS, HADDPS and the like.
pub(super) fn across<O: Observer, F: Format, A: Across>(insn: &Insn) -> Handler<O> {
    if is_load(insn) {
        execute_across::<O, F, A, Mem128>
    } else {
        execute_across::<O, F, A, XmmReg>
    }
}
