//! MXCSR, FXSAVE and FXRSTOR, and the end of MMX code (AMD64 APM volume 2, section 11.4, volume 4
//! and volume 5).

use super::operand::{File, Mm, Xmm, aligned};
use crate::{
    control_registers::{cr0, efer},
    cpu::Cpu,
    features::Features,
    insn::{Handler, Insn, Size},
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
    vector::{DUE, VXCSR_MASK, requires_due},
    x87::FXSAVE_SIZE,
};

/// Size of the FXSAVE area.
const AREA: usize = 512;
/// Place of MXCSR in it.
const MXCSR: usize = 24;
/// Place of the mask of MXCSR's bits.
const MXCSR_MASK: usize = 28;

/// The bits of MXCSR that exist: DAZ came with SSE2, DUE with the vector unit, which has them both.
fn mxcsr_mask(cpu: &Cpu) -> u32 {
    match cpu.features {
        Features { vpu: true, .. } => VXCSR_MASK,
        Features { sse2: true, .. } => 0xffff,
        _ => 0xffbf,
    }
}

impl Cpu {
    /// Whether MXCSR, or VXCSR where there is one, can have a value: LDMXCSR and FXRSTOR of others raise #GP(0).
    #[must_use]
    pub fn takes_mxcsr(&self, value: u32) -> bool {
        let lacks_due = requires_due(&self.features) && value & DUE == 0;
        !lacks_due && value & !mxcsr_mask(self) == 0
    }
}

/// #GP(0) unless MXCSR can have the value.
fn check_mxcsr(cpu: &Cpu, value: u32) -> Exec<()> {
    if cpu.takes_mxcsr(value) { Ok(()) } else { Err(Stop::GP0) }
}

/// What LDMXCSR and STMXCSR need: those of SSE what its other instructions do, those of the vector unit that
/// CR0.TS is clear.
fn mxcsr_ready<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    if cpu.features.sse {
        return Xmm::ready(cpu, cx);
    }
    if cpu.cr0 & cr0::TS != 0 { Err(Stop::NM) } else { Ok(()) }
}

fn ldmxcsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    mxcsr_ready(cpu, cx)?;
    let value: u32 = cpu.load_mem(cx, &insn.mem)?;
    check_mxcsr(cpu, value)?;
    cpu.simd.mxcsr = value;
    Ok(())
}

fn stmxcsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    mxcsr_ready(cpu, cx)?;
    cpu.store_mem(cx, &insn.mem, cpu.simd.mxcsr)
}

/// EMMS and FEMMS.
fn emms<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Mm::ready(cpu, cx)?;
    cpu.fpu.emms();
    Ok(())
}

/// FXSAVE and FXRSTOR raise #NM for EM as well as for TS.
fn area_ready(cpu: &Cpu) -> Exec<()> {
    if cpu.cr0 & (cr0::EM | cr0::TS) != 0 { Err(Stop::NM) } else { Ok(()) }
}

/// How many XMM registers go into the area: none with the fast form of EFER.FFXSR.
fn xmm_count(cpu: &Cpu) -> usize {
    if !cpu.features.sse {
        0
    } else if !cpu.in_64bit() {
        8
    } else if cpu.efer & efer::FFXSR != 0 && cpu.cpl == 0 {
        0
    } else {
        16
    }
}

/// Whether MXCSR goes into the area.
fn has_mxcsr(cpu: &Cpu) -> bool {
    cpu.features.sse || cpu.features.vpu
}

/// Whether FXRSTOR loads zeros where others load XMM registers: so it was measured on a card.
fn clears_zmm(cpu: &Cpu) -> bool {
    cpu.features.vpu && !cpu.features.sse
}

/// The end of the XMM registers in the area. What comes behind is the program's.
fn area_end(cpu: &Cpu) -> usize {
    FXSAVE_SIZE + 16 * xmm_count(cpu)
}

/// The linear address of the area, which is aligned.
fn area_address(cpu: &Cpu, insn: &Insn, write: bool) -> Exec<u64> {
    aligned(cpu, &insn.mem, AREA as u64, write)?;
    cpu.linear_in_pieces(&insn.mem, AREA as u64, 16, write)
}

fn fxsave<O: Observer, const WIDE: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    area_ready(cpu)?;
    let linear = area_address(cpu, insn, true)?;
    cpu.probe_write(cx, linear, AREA as u64)?;
    let end = area_end(cpu);
    let mut area = [0; AREA];
    area[..FXSAVE_SIZE].copy_from_slice(&cpu.fpu.fxsave(WIDE, cpu.features.fxsave_pointers));
    if has_mxcsr(cpu) {
        area[MXCSR..MXCSR + 4].copy_from_slice(&cpu.simd.mxcsr.to_le_bytes());
        area[MXCSR_MASK..MXCSR_MASK + 4].copy_from_slice(&mxcsr_mask(cpu).to_le_bytes());
    }
    let registers = area[FXSAVE_SIZE..end].as_chunks_mut::<16>().0;
    for (slot, xmm) in registers.iter_mut().zip(cpu.simd.xmm) {
        *slot = xmm.to_le_bytes();
    }
    cpu.store_bytes(cx, linear, &area[..end])
}

fn fxrstor<O: Observer, const WIDE: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    area_ready(cpu)?;
    let linear = area_address(cpu, insn, false)?;
    let mut area = [0; AREA];
    cpu.load_bytes(cx, linear, &mut area)?;
    let [a, b, c, d] = [area[MXCSR], area[MXCSR + 1], area[MXCSR + 2], area[MXCSR + 3]];
    let mxcsr = u32::from_le_bytes([a, b, c, d]);
    if has_mxcsr(cpu) {
        check_mxcsr(cpu, mxcsr)?;
        cpu.simd.mxcsr = mxcsr;
    }
    let (image, _) = area.split_first_chunk::<FXSAVE_SIZE>().ok_or(Stop::GP0)?;
    cpu.fpu.fxrstor(image, WIDE, cpu.features.fxsave_pointers);
    let registers = area[FXSAVE_SIZE..area_end(cpu)].as_chunks::<16>().0;
    for (xmm, slot) in cpu.simd.xmm.iter_mut().zip(registers) {
        *xmm = u128::from_le_bytes(*slot);
    }
    if clears_zmm(cpu) {
        // The low 128 bits, in the place of XMM registers that were not saved.
        for zmm in &mut cpu.vector.zmm {
            zmm[..4].fill(0);
        }
    }
    Ok(())
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let wide = insn.size == Size::B8;
    Some(match insn.op {
        Operation::Ldmxcsr => ldmxcsr,
        Operation::Stmxcsr => stmxcsr,
        Operation::Emms | Operation::Femms => emms,
        Operation::Fxsave if wide => fxsave::<O, true>,
        Operation::Fxsave => fxsave::<O, false>,
        Operation::Fxrstor if wide => fxrstor::<O, true>,
        Operation::Fxrstor => fxrstor::<O, false>,
        _ => return None,
    })
}
