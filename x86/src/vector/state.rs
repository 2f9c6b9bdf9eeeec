//! The registers of the vector unit, and how an owner reads and sets them.

use super::{element::Lanes, mvex::Mvex};
use crate::{
    control_registers::cr0,
    cpu::Cpu,
    features::Features,
    insn::Insn,
    stop::{Exec, Stop},
};

/// The disable-unmasked-exceptions bit of VXCSR (DUE, bit 21). While it is set the unit raises no exception,
/// whatever the masks say, and its flags tell alone. The coprocessor's kernel runs with it set, and an
/// FXRSTOR that clears it raises #GP(0).
pub(crate) const DUE: u32 = 1 << 21;

/// The bits of VXCSR that exist: flags 5:0, DAZ 6, masks 12:7, rounding 14:13, FZ 15, DUE 21.
pub(crate) const VXCSR_MASK: u32 = 0xffff | DUE;

/// VXCSR after reset: DUE alone, which is the value that the coprocessor's kernel works with. What the
/// hardware resets it to is not known.
pub(crate) const VXCSR_RESET: u32 = DUE;

/// A vector register of 512 bits as elements of 32 bits, the lowest first. An element of 64 bits is two of
/// them, its low half first.
pub type Zmm = [u32; 16];

/// The registers of the vector unit of one hardware thread but for VXCSR, which is MXCSR
/// ([`crate::simd::Simd::mxcsr`]). All zero after reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Vector {
    /// ZMM0-ZMM31.
    pub zmm: [Zmm; 32],
    /// k0-k7: bit n for element n. Those of 64-bit elements have bits 7:0.
    pub k: [u16; 8],
}

/// Element `n` of 64 bits.
pub(super) fn quadword(value: &Zmm, n: usize) -> u64 {
    u64::from(value[2 * n]) | u64::from(value[2 * n + 1]) << 32
}

/// The register with these elements of 64 bits.
pub(super) fn of_quadwords(elements: [u64; 8]) -> Zmm {
    std::array::from_fn(|n| (elements[n / 2] >> (32 * (n % 2))) as u32)
}

impl Cpu {
    /// Vector register ZMMn, its lowest byte first. Zero after reset.
    #[must_use]
    pub fn zmm(&self, n: u8) -> [u8; 64] {
        let mut bytes = [0; 64];
        let elements = self.vector.zmm[usize::from(n & 31)];
        for (bytes, element) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(elements) {
            *bytes = element.to_le_bytes();
        }
        bytes
    }

    /// Sets vector register ZMMn, its lowest byte first.
    pub fn set_zmm(&mut self, n: u8, bytes: [u8; 64]) {
        let elements = &mut self.vector.zmm[usize::from(n & 31)];
        for (element, bytes) in elements.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *element = u32::from_le_bytes(*bytes);
        }
    }

    /// Mask register kn. Zero after reset.
    #[must_use]
    pub fn mask(&self, n: u8) -> u16 {
        self.vector.k[usize::from(n & 7)]
    }

    /// Sets mask register kn.
    pub fn set_mask(&mut self, n: u8, mask: u16) {
        self.vector.k[usize::from(n & 7)] = mask;
    }

    /// VXCSR, control and status of the vector unit: flags 5:0 (IE, DE, ZE, OE, UE, PE), DAZ 6, masks 12:7,
    /// rounding 14:13, FZ 15, DUE 21 (the coprocessor's manual, table 2.15, as others restate it). It is the
    /// register that LDMXCSR and STMXCSR access. 0020_0000h after reset on a part with a vector unit and
    /// without SSE.
    #[must_use]
    pub fn vxcsr(&self) -> u32 {
        self.simd.mxcsr
    }

    /// Sets VXCSR. Bits that do not exist are the owner's to keep clear, as with LDMXCSR.
    pub fn set_vxcsr(&mut self, vxcsr: u32) {
        self.simd.mxcsr = vxcsr;
    }
}

/// What an instruction of the unit needs before it looks at its operands: #NM while CR0.TS is set; and with
/// DUE clear, which no program can do on a part without SSE, #GP(0).
pub(crate) fn ready(cpu: &Cpu) -> Exec<()> {
    if cpu.cr0 & cr0::TS != 0 {
        return Err(Stop::NM);
    }
    if requires_due(&cpu.features) && cpu.vxcsr() & DUE == 0 {
        return Err(Stop::GP0);
    }
    Ok(())
}

/// Whether VXCSR has to have DUE set. Where it is SSE's register as well it may have what SSE needs.
pub(crate) fn requires_due(features: &Features) -> bool {
    features.vpu && !features.sse
}

/// The lanes that an instruction works on: those whose bits of its mask register are set.
pub(super) fn active(cpu: &Cpu, insn: &Insn) -> u16 {
    let lanes = match insn.op.lanes() {
        Lanes::Eight => 0x00ff,
        Lanes::Sixteen => 0xffff,
    };
    match Mvex::of(insn).mask() {
        0 => lanes,
        n => cpu.mask(n) & lanes,
    }
}

/// Writes the lanes of register `n` that are active, of 64 bits where the operation has eight.
pub(super) fn write(cpu: &mut Cpu, n: u8, lanes: Lanes, active: u16, value: &Zmm) {
    let width = match lanes {
        Lanes::Eight => 2,
        Lanes::Sixteen => 1,
    };
    let register = &mut cpu.vector.zmm[usize::from(n & 31)];
    for (at, (old, &new)) in register.iter_mut().zip(value).enumerate() {
        if active >> (at / width) & 1 != 0 {
            *old = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part with the vector unit and no SSE.
    const PART: Features = Features { vpu: true, long_mode: true, ..Features::I486 };

    #[test]
    fn reset_clears_all_but_due() {
        let mut cpu = Cpu::new(PART);
        cpu.set_zmm(31, [7; 64]);
        cpu.set_mask(7, 0xffff);
        cpu.set_vxcsr(0x0020_003f);
        cpu.reset(0);
        assert_eq!((cpu.zmm(31), cpu.mask(7), cpu.vxcsr()), ([0; 64], 0, 0x0020_0000));
        // SSE's register keeps its own.
        assert_eq!(Cpu::new(Features::K8).simd.mxcsr, 0x1f80);
    }

    #[test]
    fn bytes_and_elements_are_in_little_endian_order() {
        let mut cpu = Cpu::new(PART);
        let bytes: [u8; 64] = std::array::from_fn(|n| n as u8);
        cpu.set_zmm(5, bytes);
        assert_eq!(cpu.vector.zmm[5][0], 0x0302_0100);
        assert_eq!(cpu.vector.zmm[5][15], 0x3f3e_3d3c);
        assert_eq!(cpu.zmm(5), bytes);
        assert_eq!(cpu.zmm(4), [0; 64]);
    }
}
