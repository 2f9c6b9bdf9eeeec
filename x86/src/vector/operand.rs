//! Operands in memory: where they are, how they are loaded and stored.
//!
//! An operand lies on a multiple of the bytes that it spans after conversion and broadcast, so that it is in
//! one line and in one page. It is not accessed if no lane is active, but its alignment is checked all the
//! same; that #GP(0) comes before any page fault.

use super::{
    convert::{down, stored_bytes, up},
    element::Element,
    float::{self, modes},
    mvex::Mvex,
    state::{Zmm, active, of_quadwords, quadword, ready},
    swizzle::swizzled,
};
use crate::{
    cpu::Cpu,
    insn::{Form, Insn, Mem},
    observe::{Cx, Observer},
    stop::{Exec, Stop},
};

/// An operation of which the last operand may be swizzled, converted or broadcast.
pub(super) trait Compute {
    /// Computes the lanes that are `active`, with that operand as `b`, and writes them.
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm);
}

/// Executes an operation with an operand in a register or in memory.
pub(super) fn execute<O: Observer, C: Compute>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    ready(cpu)?;
    let active = active(cpu, insn);
    let b = source(cpu, cx, insn, active)?;
    C::compute(cpu, insn, active, &b);
    cx.observer.vector_elements(active.count_ones());
    Ok(())
}

/// The last operand.
fn source<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn, active: u16) -> Exec<Zmm> {
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    if insn.form == Form::RegReg {
        return Ok(swizzled(&cpu.vector.zmm[usize::from(insn.src & 31)], element, mvex.code()));
    }
    let span = usize::from(insn.mem_bytes);
    let linear = aligned(cpu, &insn.mem, span, false)?;
    if active == 0 {
        return Ok([0; 16]);
    }
    let mut line = [0; 64];
    load(cpu, cx, &insn.mem, linear, line.get_mut(..span).ok_or(Stop::UD)?)?;
    cpu.count_vector_load(cx, linear, span as u64);
    let size = stored_bytes(element, mvex.code());
    // What is broadcast has fewer elements than the register.
    let count = span / size;
    let mut flags = modes(cpu, mvex);
    let mut unseen = flags;
    let mut converted = |n: usize| {
        let at = n % count * size;
        let seen = active >> n & 1 != 0;
        let cx = if seen { &mut flags } else { &mut unseen };
        up(element, mvex.code(), number(&line[at..at + size]), cx)
    };
    let value = match element {
        Element::Quadword => of_quadwords(std::array::from_fn(converted)),
        _ => std::array::from_fn(|n| converted(n) as u32),
    };
    float::flag(cpu, mvex, &flags);
    Ok(value)
}

/// VMOVAPS and the like to memory: the lanes that are active.
pub(super) fn store<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    ready(cpu)?;
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    let span = usize::from(insn.mem_bytes);
    let linear = aligned(cpu, &insn.mem, span, true)?;
    let active = active(cpu, insn);
    if active != 0 {
        let value = cpu.vector.zmm[usize::from(insn.src & 31)];
        let size = stored_bytes(element, mvex.code());
        let mut flags = modes(cpu, mvex);
        for n in (0..span / size).filter(|n| active >> n & 1 != 0) {
            let stored = down(element, mvex.code(), lane(&value, element, n), &mut flags);
            store_element(cpu, cx, &insn.mem, linear + (n * size) as u64, size, stored)?;
        }
        cpu.count_vector_store(cx, linear, span as u64);
        float::flag(cpu, mvex, &flags);
    }
    cx.observer.vector_elements(active.count_ones());
    Ok(())
}

/// Element `n` of a register.
pub(super) fn lane(value: &Zmm, element: Element, n: usize) -> u64 {
    match element {
        Element::Quadword => quadword(value, n),
        _ => u64::from(value[n]),
    }
}

/// The number that bytes are, eight at most.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The linear address of an operand of `span` bytes, on a multiple of which it has to be.
fn aligned(cpu: &Cpu, mem: &Mem, span: usize, write: bool) -> Exec<u64> {
    let linear = cpu.linear(mem, span as u64, write)?;
    if linear & (span as u64 - 1) != 0 { Err(Stop::GP0) } else { Ok(linear) }
}

/// Loads what is at `linear`, all in one page: a power of two of bytes. The caller counts it.
pub(super) fn load<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    mem: &Mem,
    linear: u64,
    out: &mut [u8],
) -> Exec<()> {
    let size = out.len().min(8);
    for (n, piece) in out.chunks_mut(size).enumerate() {
        let value = load_element(cpu, cx, mem, linear + (n * size) as u64, size)?;
        piece.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(())
}

/// Loads 1, 2, 4 or 8 bytes, aligned. The caller counts them.
pub(super) fn load_element<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    mem: &Mem,
    linear: u64,
    size: usize,
) -> Exec<u64> {
    let loaded = match size {
        1 => cpu.load_part::<O, u8>(cx, linear).map(u64::from),
        2 => cpu.load_part::<O, u16>(cx, linear).map(u64::from),
        4 => cpu.load_part::<O, u32>(cx, linear).map(u64::from),
        _ => cpu.load_part::<O, u64>(cx, linear),
    };
    loaded.map_err(|stop| Cpu::stack_fault(mem, stop))
}

/// Stores the low 1, 2, 4 or 8 bytes of `value`, aligned. The caller counts them.
pub(super) fn store_element<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    mem: &Mem,
    linear: u64,
    size: usize,
    value: u64,
) -> Exec<()> {
    let stored = match size {
        1 => cpu.store_part(cx, linear, value as u8),
        2 => cpu.store_part(cx, linear, value as u16),
        4 => cpu.store_part(cx, linear, value as u32),
        _ => cpu.store_part(cx, linear, value),
    };
    stored.map_err(|stop| Cpu::stack_fault(mem, stop))
}
