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
    insn::{Handler, Insn},
    observe::{Cx, Observer},
    softfloat::{self, Context, PRE_COMPUTATION, Relation},
    stop::{Exec, Stop, vector},
};

/// Computes under MXCSR, then sets its flags and raises #XF (#UD without CR4.OSXMMEXCPT) if one
/// of them is not masked.
#[inline(always)]
pub(super) fn under_mxcsr<R>(cpu: &mut Cpu, compute: impl FnOnce(&mut Context) -> R) -> Exec<R> {
    let mut context = Context::from_mxcsr(cpu.simd.mxcsr);
    let result = compute(&mut context);
    if context.unmasked() != 0 {
        return Err(unmasked(cpu, &context));
    }
    cpu.simd.mxcsr |= u32::from(context.flags);
    Ok(result)
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
    ($($name:ident $single:ident $double:ident |$a:ident, $b:ident| $host:expr;)*) => {$(
        pub(super) struct $name;
        impl Arith for $name {
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
    Add f32_add f64_add |a, b| a + b;
    Sub f32_sub f64_sub |a, b| a - b;
    Mul f32_mul f64_mul |a, b| a * b;
    Div f32_div f64_div |a, b| a / b;
    Min f32_min f64_min |a, b| if a < b { a } else { b };
    Max f32_max f64_max |a, b| if a > b { a } else { b };
}

/// SQRTPS and so on: of the source alone.
pub(super) struct Sqrt;

impl Arith for Sqrt {
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
    let result = under_mxcsr(cpu, |cx| zip::<F>(a, b, |a, b| F::arith::<A>(a, b, host, cx)))?;
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
    let a = Xmm::get(cpu, insn.dst);
    let host = allows_host_arithmetic(cpu);
    let result = under_mxcsr(cpu, |cx| F::arith::<A>(first::<F>(a), b, host, cx))?;
    Xmm::set(cpu, insn.dst, replace_low::<F>(a, result));
    Ok(())
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
    let result = under_mxcsr(cpu, |cx| zip::<F>(a, b, |a, b| predicate::<F>(a, b, control, cx)))?;
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
    let a = Xmm::get(cpu, insn.dst);
    let control = insn.imm as u8;
    let result = under_mxcsr(cpu, |cx| predicate::<F>(first::<F>(a), b, control, cx))?;
    Xmm::set(cpu, insn.dst, replace_low::<F>(a, result));
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
    let relation = under_mxcsr(cpu, |cx| F::compare(a, b, SIGNAL, cx))?;
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
    let result = under_mxcsr(cpu, |cx| A::across::<F>(a, b, host, cx))?;
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
