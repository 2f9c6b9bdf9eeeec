//! Moves between registers and memory, and between the register files (AMD64 APM volume 4,
//! chapter 2, and volume 5, chapter 2).

use super::{
    handler::{is_load, is_store, of_mmx},
    integer::{Movlhps, Movlps, Movss, execute},
    lanes::{high, lane, low},
    operand::{
        File, GprOf, Mem128, MemLoose, MemOf, Mm, MmReg, Source, Xmm, XmmReg, aligned, both_ready,
        for_file, loose, store_128,
    },
};
use crate::{
    cpu::Cpu,
    flags::Word,
    insn::{self, Handler, Insn, Size},
    observe::{Cx, Observer},
    stop::Exec,
};

/// Register from a source that fills it, zero-extended.
fn load<O: Observer, F: File, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = for_file::<O, F, _>(cpu, cx, |cpu, cx| S::fetch(cpu, cx, insn))?;
    F::set(cpu, insn.dst, value);
    Ok(())
}

/// MOVQ xmm, xmm: the low half, zero-extended.
fn copy_low<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let value = Xmm::get(cpu, insn.src);
    Xmm::set(cpu, insn.dst, u128::from(low(value)));
    Ok(())
}

/// MOVQ2DQ and MOVDQ2Q: from file `S` to file `F`.
fn cross<O: Observer, F: File, S: File>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    both_ready(cpu, cx)?;
    let value = S::get(cpu, insn.src);
    S::touch(cpu);
    F::set(cpu, insn.dst, value);
    Ok(())
}

/// The low bits of a register, of the size of `T`, to memory.
fn store_low<O: Observer, F: File, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = low(F::get(cpu, insn.src));
    for_file::<O, F, _>(cpu, cx, |cpu, cx| cpu.store_mem(cx, &insn.mem, T::from_u64(value)))?;
    F::touch(cpu);
    Ok(())
}

/// MOVHPS and MOVHPD to memory.
fn store_high<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let value = high(Xmm::get(cpu, insn.src));
    cpu.store_mem(cx, &insn.mem, value)
}

fn store_aligned<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let linear = aligned(cpu, &insn.mem, 16, true)?;
    let value = Xmm::get(cpu, insn.src);
    store_128(cpu, cx, &insn.mem, linear, value)
}

fn store_loose<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    let linear = loose(cpu, &insn.mem, true)?;
    let value = Xmm::get(cpu, insn.src);
    store_128(cpu, cx, &insn.mem, linear, value)
}

/// The low bits of a register, of the size of `T`, to a general register.
fn to_gpr<O: Observer, F: File, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = low(F::get(cpu, insn.src));
    F::touch(cpu);
    cpu.set_reg(insn.dst, T::from_u64(value));
    Ok(())
}

/// MOVAPS, MOVAPD, MOVDQA, MOVNTPS, MOVNTPD, MOVNTDQ.
pub(super) fn whole_aligned<O: Observer>(insn: &Insn) -> Handler<O> {
    match (is_store(insn), is_load(insn)) {
        (true, _) => store_aligned::<O>,
        (_, true) => load::<O, Xmm, Mem128>,
        _ => load::<O, Xmm, XmmReg>,
    }
}

/// MOVUPS, MOVUPD, MOVDQU, LDDQU.
pub(super) fn whole_loose<O: Observer>(insn: &Insn) -> Handler<O> {
    match (is_store(insn), is_load(insn)) {
        (true, _) => store_loose::<O>,
        (_, true) => load::<O, Xmm, MemLoose>,
        _ => load::<O, Xmm, XmmReg>,
    }
}

/// MOVSS.
pub(super) fn scalar_single<O: Observer>(insn: &Insn) -> Handler<O> {
    match (is_store(insn), is_load(insn)) {
        (true, _) => store_low::<O, Xmm, u32>,
        (_, true) => load::<O, Xmm, MemOf<u32>>,
        _ => execute::<O, Xmm, Movss, XmmReg>,
    }
}

/// MOVSD.
pub(super) fn scalar_double<O: Observer>(insn: &Insn) -> Handler<O> {
    match (is_store(insn), is_load(insn)) {
        (true, _) => store_low::<O, Xmm, u64>,
        (_, true) => load::<O, Xmm, MemOf<u64>>,
        _ => execute::<O, Xmm, Movlps, XmmReg>,
    }
}

/// MOVLPS and MOVLPD.
pub(super) fn low_half<O: Observer>(insn: &Insn) -> Handler<O> {
    if is_store(insn) { store_low::<O, Xmm, u64> } else { execute::<O, Xmm, Movlps, MemOf<u64>> }
}

/// MOVHPS and MOVHPD.
pub(super) fn high_half<O: Observer>(insn: &Insn) -> Handler<O> {
    if is_store(insn) { store_high::<O> } else { execute::<O, Xmm, Movlhps, MemOf<u64>> }
}

/// MOVD, and MOVQ with a general register: `T` is the size.
fn general<O: Observer, F: File, T: Word>(insn: &Insn) -> Handler<O> {
    if is_store(insn) {
        store_low::<O, F, T>
    } else if insn.files.first() == insn::File::General {
        to_gpr::<O, F, T>
    } else if is_load(insn) {
        load::<O, F, MemOf<T>>
    } else {
        load::<O, F, GprOf<T>>
    }
}

/// MOVD.
pub(super) fn doubleword<O: Observer>(insn: &Insn) -> Handler<O> {
    if of_mmx(insn) { general::<O, Mm, u32>(insn) } else { general::<O, Xmm, u32>(insn) }
}

/// MOVQ in all its encodings, and MOVNTQ.
pub(super) fn quadword<O: Observer>(insn: &Insn) -> Handler<O> {
    match (insn.files.first(), insn.files.second()) {
        (insn::File::Mmx, insn::File::Mmx) => load::<O, Mm, MmReg>,
        (insn::File::Xmm, insn::File::Xmm) => copy_low,
        _ if of_mmx(insn) => general::<O, Mm, u64>(insn),
        _ => general::<O, Xmm, u64>(insn),
    }
}

/// MOVQ2DQ.
pub(super) fn movq2dq<O: Observer>() -> Handler<O> {
    cross::<O, Xmm, Mm>
}

/// MOVDQ2Q.
pub(super) fn movdq2q<O: Observer>() -> Handler<O> {
    cross::<O, Mm, Xmm>
}

fn store_gpr<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value: T = cpu.reg(insn.src);
    cpu.store_mem(cx, &insn.mem, value)
}

/// MOVNTI: a plain store, which works whatever CR0 and CR4 say.
pub(super) fn movnti<O: Observer>(insn: &Insn) -> Handler<O> {
    if insn.size == Size::B8 { store_gpr::<O, u64> } else { store_gpr::<O, u32> }
}

/// MASKMOVQ and MASKMOVDQU: the bytes of `dst` whose mask byte in `src` has its top bit set, to
/// rDI in the segment in `aux`.
fn store_masked<O: Observer, F: File>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = F::get(cpu, insn.dst).to_le_bytes();
    let mask = F::get(cpu, insn.src) & 0x8080_8080_8080_8080_8080_8080_8080_8080;
    let count: u64 = if F::WIDE { 16 } else { 8 };
    if mask != 0 {
        let offset = cpu.effective(&insn.mem);
        let linear = cpu.linear_at(insn.aux, offset, count, true)?;
        // All chosen bytes or none: look before the first goes out.
        let first = mask.trailing_zeros() / 8;
        let last = 15 - mask.leading_zeros() / 8;
        let start = linear.wrapping_add(u64::from(first));
        cpu.probe_write(cx, start, u64::from(last - first) + 1)?;
        for_file::<O, F, _>(cpu, cx, |cpu, cx| {
            for (n, byte) in value.into_iter().enumerate() {
                if lane::<8>(mask, n) != 0 {
                    cpu.store_part(cx, linear.wrapping_add(n as u64), byte)?;
                }
            }
            cpu.count_store(cx, linear, count);
            Ok(())
        })?;
    }
    F::touch(cpu);
    Ok(())
}

/// MASKMOVQ and MASKMOVDQU.
pub(super) fn maskmov<O: Observer>(insn: &Insn) -> Handler<O> {
    if of_mmx(insn) { store_masked::<O, Mm> } else { store_masked::<O, Xmm> }
}

/// MOVMSKPS, MOVMSKPD, PMOVMSKB: the top bits of the lanes, to a general register.
fn sign_bits<O: Observer, F: File, const BITS: u32>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = F::get(cpu, insn.src);
    F::touch(cpu);
    let mut bits = 0u64;
    for n in 0..(128 / BITS) {
        bits |= ((value >> (BITS * n + BITS - 1)) as u64 & 1) << n;
    }
    cpu.set_reg(insn.dst, bits);
    Ok(())
}

/// MOVMSKPS (`BITS` 32) and MOVMSKPD (64).
pub(super) fn movmsk<O: Observer, const BITS: u32>() -> Handler<O> {
    sign_bits::<O, Xmm, BITS>
}

/// PMOVMSKB.
pub(super) fn pmovmskb<O: Observer>(insn: &Insn) -> Handler<O> {
    if of_mmx(insn) { sign_bits::<O, Mm, 8> } else { sign_bits::<O, Xmm, 8> }
}

/// The lane that an immediate names in registers of file `F`.
fn word_lane<F: File>(insn: &Insn) -> u32 {
    insn.imm as u32 & if F::WIDE { 7 } else { 3 }
}

fn extract_word<O: Observer, F: File>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    F::ready(cpu, cx)?;
    let value = lane::<16>(F::get(cpu, insn.src), word_lane::<F>(insn) as usize);
    F::touch(cpu);
    cpu.set_reg(insn.dst, value);
    Ok(())
}

fn insert_word<O: Observer, F: File, S: Source>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    F::ready(cpu, cx)?;
    let word = for_file::<O, F, _>(cpu, cx, |cpu, cx| S::fetch(cpu, cx, insn))?;
    let shift = 16 * word_lane::<F>(insn);
    let value = F::get(cpu, insn.dst) & !(0xffff << shift) | word << shift;
    F::set(cpu, insn.dst, value);
    Ok(())
}

/// PEXTRW.
pub(super) fn pextrw<O: Observer>(insn: &Insn) -> Handler<O> {
    if of_mmx(insn) { extract_word::<O, Mm> } else { extract_word::<O, Xmm> }
}

/// PINSRW.
pub(super) fn pinsrw<O: Observer>(insn: &Insn) -> Handler<O> {
    match (of_mmx(insn), is_load(insn)) {
        (true, false) => insert_word::<O, Mm, GprOf<u16>>,
        (true, true) => insert_word::<O, Mm, MemOf<u16>>,
        (false, false) => insert_word::<O, Xmm, GprOf<u16>>,
        (false, true) => insert_word::<O, Xmm, MemOf<u16>>,
    }
}
