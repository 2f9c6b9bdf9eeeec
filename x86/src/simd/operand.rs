//! Where the operands of MMX and SSE instructions are, and what must hold before they are touched.

use super::lanes::{high, join, low};
use crate::{
    control_registers::{cr0, cr4},
    cpu::Cpu,
    flags::Word,
    insn::{Insn, Mem},
    observe::{Cx, FpKind, Observer},
    stop::{Exec, Stop},
    x87::report_pending,
};

/// A register file.
pub(super) trait File {
    /// The exceptions that come before any access (AMD64 APM volume 4 and 5, "Exceptions").
    fn ready<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()>;
    /// Reads a register.
    fn get(cpu: &Cpu, n: u8) -> u128;
    /// What any use of the file does to the processor, a mere read included: MMX instructions make
    /// all x87 registers valid and clear TOP.
    fn touch(cpu: &mut Cpu);
    /// Writes a register.
    fn set(cpu: &mut Cpu, n: u8, value: u128);
    /// Whether lanes beyond the low 64 bits exist.
    const WIDE: bool;
}

/// XMM0-XMM15.
pub(super) struct Xmm;
/// MM0-MM7.
pub(super) struct Mm;

impl File for Xmm {
    const WIDE: bool = true;

    #[inline(always)]
    fn ready<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>) -> Exec<()> {
        if cpu.cr0 & (cr0::EM | cr0::TS) == 0 && cpu.cr4 & cr4::OSFXSR != 0 {
            return Ok(());
        }
        Err(xmm_not_ready(cpu))
    }

    #[inline(always)]
    fn touch(_: &mut Cpu) {}

    #[inline(always)]
    fn get(cpu: &Cpu, n: u8) -> u128 {
        cpu.simd.xmm[usize::from(n & 15)]
    }

    #[inline(always)]
    fn set(cpu: &mut Cpu, n: u8, value: u128) {
        cpu.simd.xmm[usize::from(n & 15)] = value;
    }
}

impl File for Mm {
    const WIDE: bool = false;

    #[inline(always)]
    fn ready<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
        if cpu.cr0 & (cr0::EM | cr0::TS) != 0 || cpu.fpu.pending_exception() {
            mm_not_ready(cpu, cx)?;
        }
        cpu.note_fp(cx, FpKind::Mmx);
        Ok(())
    }

    #[inline(always)]
    fn touch(cpu: &mut Cpu) {
        cpu.fpu.enter_mmx();
    }

    #[inline(always)]
    fn get(cpu: &Cpu, n: u8) -> u128 {
        u128::from(cpu.fpu.mmx(n))
    }

    #[inline(always)]
    fn set(cpu: &mut Cpu, n: u8, value: u128) {
        cpu.fpu.enter_mmx();
        cpu.fpu.set_mmx(n, value as u64);
    }
}

#[cold]
fn xmm_not_ready(cpu: &Cpu) -> Stop {
    if cpu.cr0 & cr0::EM != 0 || cpu.cr4 & cr4::OSFXSR == 0 { Stop::UD } else { Stop::NM }
}

#[cold]
fn mm_not_ready<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    if cpu.cr0 & cr0::EM != 0 {
        return Err(Stop::UD);
    }
    if cpu.cr0 & cr0::TS != 0 {
        return Err(Stop::NM);
    }
    report_pending(cpu, cx)
}

/// The checks of an instruction that has operands in both files.
#[inline(always)]
pub(super) fn both_ready<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    Xmm::ready(cpu, cx)?;
    Mm::ready(cpu, cx)
}

/// The linear address of an operand that must be aligned to 16 bytes; #GP(0) if it is not.
#[inline(always)]
pub(super) fn aligned(cpu: &Cpu, m: &Mem, bytes: u64, write: bool) -> Exec<u64> {
    let linear = cpu.linear(m, bytes, write)?;
    if linear & 15 != 0 { Err(Stop::GP0) } else { Ok(linear) }
}

/// The linear address of an operand of 16 bytes anywhere, unless alignment is checked.
#[inline(always)]
pub(super) fn loose(cpu: &Cpu, m: &Mem, write: bool) -> Exec<u64> {
    let linear = cpu.linear(m, 16, write)?;
    if linear & 15 != 0 && cpu.checks_alignment() {
        return cpu.linear_in_pieces(m, 16, 16, write);
    }
    Ok(linear)
}

/// Loads the 16 bytes of operand `m`, which are at `linear`.
#[inline(always)]
pub(super) fn load_128<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    m: &Mem,
    linear: u64,
) -> Exec<u128> {
    let low: u64 = cpu.load_part(cx, linear).map_err(|stop| Cpu::stack_fault(m, stop))?;
    let high: u64 =
        cpu.load_part(cx, linear.wrapping_add(8)).map_err(|stop| Cpu::stack_fault(m, stop))?;
    cpu.count_load(cx, linear, 16);
    Ok(join(low, high))
}

/// Stores the 16 bytes of operand `m`, which are at `linear`: all or none.
#[inline(always)]
pub(super) fn store_128<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    m: &Mem,
    linear: u64,
    value: u128,
) -> Exec<()> {
    if linear & 0xfff <= 0xff0 {
        // Both halves are in one page: what lets the first through lets the second through.
        cpu.store_part(cx, linear, low(value)).map_err(|stop| Cpu::stack_fault(m, stop))?;
        cpu.store_part(cx, linear.wrapping_add(8), high(value))?;
    } else {
        cpu.store_bytes_part(cx, linear, &value.to_le_bytes())
            .map_err(|stop| Cpu::stack_fault(m, stop))?;
    }
    cpu.count_store(cx, linear, 16);
    Ok(())
}

/// Accesses memory for an instruction on register file `F`, after which it cannot fault.
#[inline(always)]
pub(super) fn for_file<O: Observer, F: File, R>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    access: impl FnOnce(&mut Cpu, &mut Cx<'_, O>) -> Exec<R>,
) -> Exec<R> {
    let mark = cx.observer.mark();
    let result = access(cpu, cx)?;
    if !F::WIDE {
        cx.observer.mmx_operand(mark);
    }
    Ok(result)
}

/// A source operand.
pub(super) trait Source {
    /// Reads it; narrower operands are zero-extended.
    fn fetch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128>;
}

/// The XMM register in `src`.
pub(super) struct XmmReg;
/// The MMX register in `src`.
pub(super) struct MmReg;
/// 16 bytes of memory, aligned.
pub(super) struct Mem128;
/// 16 bytes of memory, anywhere.
pub(super) struct MemLoose;
/// Memory of the size of `T`.
pub(super) struct MemOf<T>(std::marker::PhantomData<T>);
/// The low bits, of the size of `T`, of the general register in `src`.
pub(super) struct GprOf<T>(std::marker::PhantomData<T>);

impl Source for XmmReg {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        Ok(Xmm::get(cpu, insn.src))
    }
}

impl Source for MmReg {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        Ok(Mm::get(cpu, insn.src))
    }
}

impl Source for Mem128 {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        let linear = aligned(cpu, &insn.mem, 16, false)?;
        load_128(cpu, cx, &insn.mem, linear)
    }
}

impl Source for MemLoose {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        let linear = loose(cpu, &insn.mem, false)?;
        load_128(cpu, cx, &insn.mem, linear)
    }
}

impl<T: Word> Source for MemOf<T> {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        let value: T = cpu.load_mem(cx, &insn.mem)?;
        Ok(u128::from(value.to_u64()))
    }
}

impl<T: Word> Source for GprOf<T> {
    #[inline(always)]
    fn fetch<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<u128> {
        Ok(u128::from(cpu.reg::<T>(insn.src).to_u64()))
    }
}
