//! One instruction with its operands, and what is expected of it.

use crate::{
    catalogue::{Form, Row},
    state::{Fault, Registers},
};

/// An address: registers, a displacement and the segment's base.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) base: Option<u8>,
    /// A general register, or the vector of indices.
    pub(crate) index: Option<u8>,
    /// 1, 2, 4 or 8.
    pub(crate) scale: u64,
    pub(crate) displacement: i32,
    /// 0 for FS, 1 for GS.
    pub(crate) segment: Option<usize>,
    /// 32-bit addresses.
    pub(crate) narrow: bool,
    /// The displacement counts from the next instruction.
    pub(crate) relative: bool,
}

impl Address {
    /// The linear address; `index` is the value of the index.
    pub(crate) fn linear(&self, r: &Registers, next: u64, index: u64) -> u64 {
        let base = self.base.map_or(0, |n| r.gpr[usize::from(n)]);
        let origin = if self.relative { next } else { base };
        let offset = origin
            .wrapping_add(index.wrapping_mul(self.scale))
            .wrapping_add(i64::from(self.displacement) as u64);
        let offset = if self.narrow { offset & 0xffff_ffff } else { offset };
        self.segment.map_or(0, |n| r.bases[n]).wrapping_add(offset)
    }

    /// Whether it is an address of the stack segment, which raises an exception of its own.
    pub(crate) fn is_stack(&self) -> bool {
        self.segment.is_none() && matches!(self.base, Some(4 | 5))
    }
}

/// The last operand.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Register(u8),
    Memory(Address),
}

/// A vector instruction.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) row: Row,
    /// The register field of ModRM with its extensions.
    pub(crate) reg: u8,
    /// vvvv with its extension.
    pub(crate) v: u8,
    pub(crate) operand: Operand,
    pub(crate) aaa: u8,
    pub(crate) e: bool,
    pub(crate) sss: u8,
    pub(crate) immediate: u8,
    pub(crate) bytes: Vec<u8>,
    /// A field is used in a way that is reserved.
    pub(crate) reserved: bool,
}

impl Vector {
    /// Whether sections 2 and 3 allow the encoding.
    pub(crate) fn is_valid(&self) -> bool {
        let row = &self.row;
        let code = 1u8 << self.sss;
        let operand = match &self.operand {
            Operand::Register(_) if !row.takes_register() => false,
            Operand::Register(_) if self.e && row.rounding => true,
            Operand::Register(_) if self.e && row.sae => self.sss & 3 == 0,
            Operand::Register(_) if self.e => self.sss == 0,
            Operand::Register(_) => row.swizzles & code != 0,
            Operand::Memory(_) => row.memory & code != 0,
        };
        let collides = match &self.operand {
            Operand::Memory(address) => row.form == Form::Gather && address.index == Some(self.reg),
            Operand::Register(_) => false,
        };
        let masked = self.aaa != 0 || !row.needs_mask();
        operand && masked && !collides && !self.reserved
    }

    /// Whether E is the hint that the line will not be needed again.
    pub(crate) fn memory_hint(&self) -> bool {
        let hints = self.row.e.is_none() && self.row.form != Form::Line;
        hints && self.e && matches!(self.operand, Operand::Memory(_))
    }

    /// The lanes that the instruction works on.
    pub(crate) fn active(&self, r: &Registers) -> u16 {
        let all = if self.row.lanes() == 16 { 0xffff } else { 0xff };
        if self.aaa == 0 { all } else { r.k[usize::from(self.aaa)] & all }
    }
}

/// How an instruction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Retires,
    Faults(Fault),
    /// The sources do not say.
    Open,
}

/// A number that is known but for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) exact: f64,
    pub(crate) error: f64,
}

/// What is expected besides the registers and the memory.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) end: End,
    /// The bits of VXCSR that are known.
    pub(crate) vxcsr: u32,
    /// Of the destination's lanes.
    pub(crate) bounds: [Option<Bound>; 16],
}

impl Expected {
    pub(crate) fn new(end: End) -> Self {
        Self { end, vxcsr: u32::MAX, bounds: [None; 16] }
    }
}
