//! What an MVEX encoding says beside the operation and its first and last operand: kept in
//! [`Insn::imm`](crate::insn::Insn::imm) of a lowered instruction.

use crate::{insn::Insn, softfloat::Rounding};

/// What an MVEX encoding says beside the operation: the immediate, the operand in vvvv, the mask register,
/// the code for swizzle or conversion, a static rounding mode, whether exceptions are suppressed, whether the
/// line is evicted behind the access, and the vector of indices of a gather or scatter.
///
/// VEX instructions of the unit have the first two of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mvex(u64);

/// Places of the fields; the immediate is in bits 7:0.
const VVVV: u32 = 8;
const MASK: u32 = 13;
const CODE: u32 = 16;
const ROUNDING: u32 = 19;
const HAS_ROUNDING: u32 = 21;
const SUPPRESSES: u32 = 22;
const EVICTS: u32 = 23;
const INDEX: u32 = 24;

impl Mvex {
    /// That of a lowered instruction.
    pub(crate) const fn of(insn: &Insn) -> Self {
        Self(insn.imm)
    }

    /// As it is kept in a lowered instruction.
    pub(crate) const fn packed(self) -> u64 {
        self.0
    }

    const fn field(self, place: u32, bits: u32) -> u8 {
        (self.0 >> place & ((1 << bits) - 1)) as u8
    }

    const fn with(self, place: u32, bits: u32, value: u8) -> Self {
        let mask = ((1 << bits) - 1) << place;
        Self(self.0 & !mask | (value as u64) << place & mask)
    }

    pub(super) const fn with_immediate(self, value: u8) -> Self {
        self.with(0, 8, value)
    }

    pub(super) const fn with_vvvv(self, register: u8) -> Self {
        self.with(VVVV, 5, register)
    }

    pub(super) const fn with_mask(self, register: u8) -> Self {
        self.with(MASK, 3, register)
    }

    pub(super) const fn with_code(self, code: u8) -> Self {
        self.with(CODE, 3, code)
    }

    pub(super) const fn with_rounding(self, rc: u8) -> Self {
        self.with(ROUNDING, 2, rc).with(HAS_ROUNDING, 1, 1)
    }

    pub(super) const fn with_suppression(self) -> Self {
        self.with(SUPPRESSES, 1, 1)
    }

    pub(super) const fn with_eviction(self) -> Self {
        self.with(EVICTS, 1, 1)
    }

    pub(super) const fn with_index(self, register: u8) -> Self {
        self.with(INDEX, 5, register)
    }

    /// The 8-bit immediate; 0 if there is none.
    pub(crate) const fn immediate(self) -> u8 {
        self.field(0, 8)
    }

    /// The register in vvvv, where that is the second of three operands: a ZMM register, or a mask register
    /// of an instruction with carry.
    pub(crate) const fn vvvv(self) -> u8 {
        self.field(VVVV, 5)
    }

    /// The mask register (aaa); 0 means that there is no mask.
    pub(crate) const fn mask(self) -> u8 {
        self.field(MASK, 3)
    }

    /// SSS: of a register operand the swizzle, of a memory operand the conversion.
    pub(crate) const fn code(self) -> u8 {
        self.field(CODE, 3)
    }

    /// The rounding mode that takes the place of VXCSR's.
    pub(crate) const fn rounding(self) -> Option<Rounding> {
        if self.field(HAS_ROUNDING, 1) == 0 {
            return None;
        }
        Some(Rounding::from_rc(self.field(ROUNDING, 2) as u32))
    }

    /// SAE: the flags of VXCSR stay as they are.
    pub(crate) const fn suppresses_exceptions(self) -> bool {
        self.field(SUPPRESSES, 1) != 0
    }

    /// The eviction hint: the line is not likely to be used again. Nothing that a program sees.
    #[cfg_attr(not(test), expect(dead_code, reason = "a hint to caches, which are not modelled"))]
    pub(crate) const fn evicts(self) -> bool {
        self.field(EVICTS, 1) != 0
    }

    /// The ZMM register with the indices of a gather or scatter.
    pub(crate) const fn index(self) -> u8 {
        self.field(INDEX, 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let all = Mvex::default()
            .with_immediate(0xa5)
            .with_vvvv(0x1e)
            .with_mask(5)
            .with_code(6)
            .with_rounding(2)
            .with_index(0x15);
        assert_eq!((all.immediate(), all.vvvv(), all.mask(), all.code()), (0xa5, 0x1e, 5, 6));
        assert_eq!((all.rounding(), all.index()), (Some(Rounding::Up), 0x15));
        assert!(!all.suppresses_exceptions() && !all.evicts());
        assert!(all.with_suppression().suppresses_exceptions());
        assert!(all.with_eviction().evicts());
        assert_eq!(all.with_mask(2).with_mask(5), all);
        assert_eq!(Mvex::default().rounding(), None);
    }
}
