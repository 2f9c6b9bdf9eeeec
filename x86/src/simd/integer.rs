//! Packed integer arithmetic, logic, comparison, packing and unpacking: `dst = dst op src`, on MMX
//! and XMM registers alike (AMD64 APM volume 4, chapter 2, and volume 5, chapter 2).

use super::{
    handler::{is_load, of_mmx},
    lanes::{
        Lane, gather, high, interleave, join, lane, low, mask8, mask16, mask32, narrow_doublewords,
        narrow_words,
    },
    operand::{File, Mem128, MemOf, Mm, MmReg, Source, Xmm, XmmReg, for_file},
};
use crate::{
    cpu::Cpu,
    insn::{Form, Handler, Insn},
    observe::{Cx, Observer},
    stop::Exec,
};

/// An operation on two registers of the same file.
pub(super) trait Binary {
    /// On XMM registers.
    fn xmm(a: u128, b: u128) -> u128;
    /// On MMX registers. What works lane by lane is the same with an empty upper half.
    #[inline(always)]
    fn mm(a: u64, b: u64) -> u64 {
        low(Self::xmm(u128::from(a), u128::from(b)))
    }
    /// Whether an element of the MMX form's result had to be saturated.
    #[inline(always)]
    fn saturates(_: u64, _: u64) -> bool {
        false
    }
    /// Bytes that the MMX form reads of a memory source.
    const MM_SOURCE_BYTES: usize = 8;
}

macro_rules! element_wise {
    ($($name:ident |$a:ident, $b:ident| $result:expr;)*) => {$(
        pub(super) struct $name;
        impl Binary for $name {
            #[inline(always)]
            fn xmm($a: u128, $b: u128) -> u128 {
                $result
            }
        }
    )*};
}

element_wise! {
    Paddb |a, b| u8::zip(a, b, u8::wrapping_add);
    Paddw |a, b| u16::zip(a, b, u16::wrapping_add);
    Paddd |a, b| u32::zip(a, b, u32::wrapping_add);
    Paddq |a, b| u64::zip(a, b, u64::wrapping_add);
    Psubb |a, b| u8::zip(a, b, u8::wrapping_sub);
    Psubw |a, b| u16::zip(a, b, u16::wrapping_sub);
    Psubd |a, b| u32::zip(a, b, u32::wrapping_sub);
    Psubq |a, b| u64::zip(a, b, u64::wrapping_sub);
    Pmullw |a, b| u16::zip(a, b, u16::wrapping_mul);
    Pmulhw |a, b| i16::zip(a, b, |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16);
    Pmulhuw |a, b| u16::zip(a, b, |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16);
    // 3DNow!: the product rounded, not truncated.
    Pmulhrw |a, b| i16::zip(a, b, |a, b| ((i32::from(a) * i32::from(b) + 0x8000) >> 16) as i16);
    Pmuludq |a, b| u64::zip(a, b, |a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff));
    Pmaddwd |a, b| u32::zip(a, b, |a, b| {
        let product = |a: u32, b: u32| i32::from(a as i16) * i32::from(b as i16);
        product(a, b).wrapping_add(product(a >> 16, b >> 16)) as u32
    });
    Pavgb |a, b| u8::zip(a, b, |a, b| ((u16::from(a) + u16::from(b) + 1) >> 1) as u8);
    Pavgw |a, b| u16::zip(a, b, |a, b| ((u32::from(a) + u32::from(b) + 1) >> 1) as u16);
    Pminub |a, b| u8::zip(a, b, u8::min);
    Pmaxub |a, b| u8::zip(a, b, u8::max);
    Pminsw |a, b| i16::zip(a, b, i16::min);
    Pmaxsw |a, b| i16::zip(a, b, i16::max);
    Pcmpeqb |a, b| u8::zip(a, b, |a, b| mask8(a == b));
    Pcmpeqw |a, b| u16::zip(a, b, |a, b| mask16(a == b));
    Pcmpeqd |a, b| u32::zip(a, b, |a, b| mask32(a == b));
    Pcmpgtb |a, b| u8::zip(a, b, |a, b| mask8(a as i8 > b as i8));
    Pcmpgtw |a, b| u16::zip(a, b, |a, b| mask16(a as i16 > b as i16));
    Pcmpgtd |a, b| u32::zip(a, b, |a, b| mask32(a as i32 > b as i32));
    // Also ANDPS, ANDPD and so on: they differ in encoding only.
    Pand |a, b| a & b;
    Pandn |a, b| !a & b;
    Por |a, b| a | b;
    Pxor |a, b| a ^ b;
    Psadbw |a, b| {
        let differences = u8::zip(a, b, u8::abs_diff);
        let sum = |half: u64| half.to_le_bytes().into_iter().map(u64::from).sum();
        join(sum(low(differences)), sum(high(differences)))
    };
    Psllw |a, count| u16::map(a, |a| if low(count) < 16 { a << low(count) } else { 0 });
    Pslld |a, count| u32::map(a, |a| if low(count) < 32 { a << low(count) } else { 0 });
    Psllq |a, count| u64::map(a, |a| if low(count) < 64 { a << low(count) } else { 0 });
    Psrlw |a, count| u16::map(a, |a| if low(count) < 16 { a >> low(count) } else { 0 });
    Psrld |a, count| u32::map(a, |a| if low(count) < 32 { a >> low(count) } else { 0 });
    Psrlq |a, count| u64::map(a, |a| if low(count) < 64 { a >> low(count) } else { 0 });
    Psraw |a, count| i16::map(a, |a| a >> low(count).min(15));
    Psrad |a, count| i32::map(a, |a| a >> low(count).min(31));
    Pslldq |a, count| if low(count) < 16 { a << (8 * low(count)) } else { 0 };
    Psrldq |a, count| if low(count) < 16 { a >> (8 * low(count)) } else { 0 };
    Punpcklqdq |a, b| join(low(a), low(b));
    Punpckhqdq |a, b| join(high(a), high(b));
    // UNPCKLPS and UNPCKHPS are PUNPCKLDQ and PUNPCKHDQ, the PD forms the QDQ ones.
    // MOVLHPS, and MOVHPS and MOVHPD from memory.
    Movlhps |a, b| join(low(a), low(b));
    Movhlps |a, b| join(high(b), high(a));
    // MOVLPS and MOVLPD from memory, MOVSD between registers.
    Movlps |a, b| join(low(b), high(a));
    // MOVSS between registers.
    Movss |a, b| a & !0xffff_ffff | b & 0xffff_ffff;
    // 3DNow! extension: the halves of the source, exchanged.
    Pswapd |_a, b| u128::from(low(b).rotate_left(32));
    // SSE3 duplications; the destination does not matter.
    Movddup |_a, b| join(low(b), low(b));
    Movsldup |_a, b| u64::map(b, |b| b & 0xffff_ffff | b << 32);
    Movshdup |_a, b| u64::map(b, |b| b >> 32 | b & 0xffff_ffff_0000_0000);
}

macro_rules! saturating {
    ($($name:ident $element:ident $saturating:ident $wrapping:ident;)*) => {$(
        pub(super) struct $name;
        impl Binary for $name {
            #[inline(always)]
            fn xmm(a: u128, b: u128) -> u128 {
                $element::zip(a, b, $element::$saturating)
            }
            // Only an element that wraps saturates, and a saturated one never equals it.
            fn saturates(a: u64, b: u64) -> bool {
                let wrapped = $element::zip(u128::from(a), u128::from(b), $element::$wrapping);
                Self::mm(a, b) != low(wrapped)
            }
        }
    )*};
}

saturating! {
    Paddsb i8 saturating_add wrapping_add;
    Paddsw i16 saturating_add wrapping_add;
    Paddusb u8 saturating_add wrapping_add;
    Paddusw u16 saturating_add wrapping_add;
    Psubsb i8 saturating_sub wrapping_sub;
    Psubsw i16 saturating_sub wrapping_sub;
    Psubusb u8 saturating_sub wrapping_sub;
    Psubusw u16 saturating_sub wrapping_sub;
}

macro_rules! pack {
    ($($name:ident $narrow:ident $wide:ident $least:literal $most:literal $element:ident;)*) => {$(
        pub(super) struct $name;
        impl Binary for $name {
            #[inline(always)]
            fn xmm(a: u128, b: u128) -> u128 {
                let saturate = |a: $wide| a.clamp($least, $most) as $element;
                join($narrow(a, saturate), $narrow(b, saturate))
            }
            #[inline(always)]
            fn mm(a: u64, b: u64) -> u64 {
                $narrow(join(a, b), |a: $wide| a.clamp($least, $most) as $element)
            }
            fn saturates(a: u64, b: u64) -> bool {
                let elements = join(a, b).to_le_bytes();
                elements.as_chunks().0.iter().any(|lane| !($least..=$most).contains(&$wide::from_le_bytes(*lane)))
            }
        }
    )*};
}

pack! {
    Packsswb narrow_words i16 -128 127 u8;
    Packuswb narrow_words i16 0 255 u8;
    Packssdw narrow_doublewords i32 -0x8000 0x7fff u16;
}

macro_rules! unpack {
    ($($low:ident $high:ident $bytes:literal;)*) => {$(
        pub(super) struct $low;
        impl Binary for $low {
            const MM_SOURCE_BYTES: usize = 4;
            #[inline(always)]
            fn xmm(a: u128, b: u128) -> u128 {
                interleave::<$bytes>(low(a), low(b))
            }
        }
        pub(super) struct $high;
        impl Binary for $high {
            #[inline(always)]
            fn xmm(a: u128, b: u128) -> u128 {
                interleave::<$bytes>(high(a), high(b))
            }
            #[inline(always)]
            fn mm(a: u64, b: u64) -> u64 {
                high(interleave::<$bytes>(a, b))
            }
        }
    )*};
}

unpack! {
    Punpcklbw Punpckhbw 1;
    Punpcklwd Punpckhwd 2;
    Punpckldq Punpckhdq 4;
}

#[inline(always)]
fn apply<F: File, B: Binary>(a: u128, b: u128) -> u128 {
    if F::WIDE { B::xmm(a, b) } else { u128::from(B::mm(low(a), low(b))) }
}

pub(super) fn execute<O: Observer, F: File, B: Binary, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let b = for_file::<O, F, _>(cpu, cx, |cpu, cx| S::fetch(cpu, cx, insn))?;
    let a = F::get(cpu, insn.dst);
    if O::COUNTS && !F::WIDE && B::saturates(low(a), low(b)) {
        cx.observer.saturated();
    }
    F::set(cpu, insn.dst, apply::<F, B>(a, b));
    Ok(())
}

fn execute_imm<O: Observer, F: File, B: Binary>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let a = F::get(cpu, insn.dst);
    F::set(cpu, insn.dst, apply::<F, B>(a, u128::from(insn.imm)));
    Ok(())
}

/// `op mm, mm/m64` or `op xmm, xmm/m128`.
pub(super) fn binary<O: Observer, B: Binary>(insn: &Insn) -> Handler<O> {
    match (of_mmx(insn), is_load(insn)) {
        (true, false) => execute::<O, Mm, B, MmReg>,
        (true, true) if B::MM_SOURCE_BYTES == 4 => execute::<O, Mm, B, MemOf<u32>>,
        (true, true) => execute::<O, Mm, B, MemOf<u64>>,
        (false, false) => execute::<O, Xmm, B, XmmReg>,
        (false, true) => execute::<O, Xmm, B, Mem128>,
    }
}

/// `op xmm, xmm/m64` with no use of the source's upper half.
pub(super) fn binary_low<O: Observer, B: Binary>(insn: &Insn) -> Handler<O> {
    if is_load(insn) { execute::<O, Xmm, B, MemOf<u64>> } else { execute::<O, Xmm, B, XmmReg> }
}

/// Shift by a register, by memory, or by an immediate.
pub(super) fn shift<O: Observer, B: Binary>(insn: &Insn) -> Handler<O> {
    match (insn.form, of_mmx(insn)) {
        (Form::RegImm, true) => execute_imm::<O, Mm, B>,
        (Form::RegImm, false) => execute_imm::<O, Xmm, B>,
        _ => binary::<O, B>(insn),
    }
}

/// A choice of lanes by immediate: PSHUFW and the like.
pub(super) trait Shuffle {
    /// The result from destination, source and immediate.
    fn shuffle(a: u128, b: u128, control: u8) -> u128;
}

macro_rules! shuffle {
    ($($name:ident |$a:ident, $b:ident, $control:ident| $result:expr;)*) => {$(
        pub(super) struct $name;
        impl Shuffle for $name {
            #[inline(always)]
            fn shuffle($a: u128, $b: u128, $control: u8) -> u128 {
                $result
            }
        }
    )*};
}

/// Bits of field `n` of two bits.
#[inline(always)]
fn field(control: u8, n: u32) -> usize {
    usize::from(control >> (2 * n) & 3)
}

/// The four words of `half`, as `control` chooses them.
#[inline(always)]
fn words(half: u64, control: u8) -> u64 {
    let half = u128::from(half);
    low(gather::<16, 4>(std::array::from_fn(|n| lane::<16>(half, field(control, n as u32)))))
}

shuffle! {
    Pshufw |_a, b, control| u128::from(words(low(b), control));
    Pshuflw |_a, b, control| join(words(low(b), control), high(b));
    Pshufhw |_a, b, control| join(low(b), words(high(b), control));
    Pshufd |_a, b, control|
        gather::<32, 4>(std::array::from_fn(|n| lane::<32>(b, field(control, n as u32))));
    Shufps |a, b, control| gather::<32, 4>([
        lane::<32>(a, field(control, 0)),
        lane::<32>(a, field(control, 1)),
        lane::<32>(b, field(control, 2)),
        lane::<32>(b, field(control, 3)),
    ]);
    Shufpd |a, b, control| join(
        if control & 1 != 0 { high(a) } else { low(a) },
        if control & 2 != 0 { high(b) } else { low(b) },
    );
}

fn execute_shuffle<O: Observer, F: File, P: Shuffle, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let b = for_file::<O, F, _>(cpu, cx, |cpu, cx| S::fetch(cpu, cx, insn))?;
    let a = F::get(cpu, insn.dst);
    F::set(cpu, insn.dst, P::shuffle(a, b, insn.imm as u8));
    Ok(())
}

/// `op mm, mm/m64, imm8` or `op xmm, xmm/m128, imm8`.
pub(super) fn shuffle<O: Observer, P: Shuffle>(insn: &Insn) -> Handler<O> {
    match (of_mmx(insn), is_load(insn)) {
        (true, false) => execute_shuffle::<O, Mm, P, MmReg>,
        (true, true) => execute_shuffle::<O, Mm, P, MemOf<u64>>,
        (false, false) => execute_shuffle::<O, Xmm, P, XmmReg>,
        (false, true) => execute_shuffle::<O, Xmm, P, Mem128>,
    }
}
