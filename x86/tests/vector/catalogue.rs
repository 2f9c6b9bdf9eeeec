//! What there is to say about an MVEX instruction: how it is encoded, which conversions and swizzles it
//! takes, and what it does.

use crate::arithmetic::{Extreme, Signs};

/// What the lanes of the last operand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    I32,
    F64,
    I64,
}

impl Element {
    /// Bytes of a lane in a register.
    pub(crate) fn size(self) -> usize {
        if matches!(self, Self::F32 | Self::I32) { 4 } else { 8 }
    }
}

/// How much of memory the operand is when nothing is converted or broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// 64 bytes.
    Full,
    /// The low half of a vector: eight lanes of 32 bits.
    Half,
    /// Four lanes.
    Quad,
    /// One lane.
    One,
    /// A cache line that is not read.
    Line,
}

/// The operands besides a mask and an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// zmm, zmm/mem
    Unary,
    /// zmm, zmm (vvvv), zmm/mem
    Binary,
    /// zmm (vvvv), zmm/mem; the register field of ModRM belongs to the opcode.
    Shift,
    /// k, zmm (vvvv), zmm/mem
    ToMask,
    /// zmm, k (vvvv), zmm/mem
    Carry,
    /// zmm, mem
    Load,
    /// mem, zmm
    Store,
    /// zmm, mem by a vector of indices
    Gather,
    /// mem by a vector of indices, zmm
    Scatter,
    /// mem by a vector of indices; the register field of ModRM belongs to the opcode.
    IndexedPrefetch,
    /// mem; the register field of ModRM belongs to the opcode, and the mask is ignored.
    Line,
}

/// Of destination, vvvv operand and last operand.
pub(crate) type Ternary = fn(d: u32, a: u32, b: u32) -> u32;
/// Of vvvv operand and last operand.
pub(crate) type Logic = fn(a: u64, b: u64) -> u64;
/// Result and carry of destination, last operand and carry in.
pub(crate) type WithCarry = fn(d: u32, b: u32, carry: bool) -> (u32, bool);
/// A bit of vvvv operand and last operand.
pub(crate) type Test = fn(a: u32, b: u32) -> bool;
/// Of the operand and the immediate.
pub(crate) type Shift = fn(b: u32, count: u32) -> u32;

/// What is computed. `d`, `a` and `b` are destination, vvvv operand and last operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Move,
    Blend,
    Add,
    Subtract,
    SubtractReversed,
    AddNegated,
    Multiply,
    AddSetSign,
    /// Which operand is multiplied by which, and what is added: the digits of the name.
    Fused(u32, Signs),
    Fused233,
    Extreme(Extreme),
    Exponent,
    Mantissa,
    FixUp,
    Scale,
    RoundFixed,
    Reciprocal,
    ReciprocalRoot,
    Exp2,
    Log2,
    FloatCompare,
    Widen,
    Narrow,
    IntegerToDouble {
        signed: bool,
    },
    IntegerToSingle {
        signed: bool,
    },
    SingleToInteger {
        signed: bool,
    },
    DoubleToInteger {
        signed: bool,
    },
    Integer(Ternary),
    Logic(Logic),
    MultiplyAdd233,
    IntegerAddSetSign,
    Carry(WithCarry),
    IntegerTest(Test),
    IntegerCompare {
        signed: bool,
    },
    ShiftImmediate(Shift),
    ShuffleQuads,
    Permute,
    PermuteQuads,
    Align,
    Unpack {
        high: bool,
    },
    Pack {
        high: bool,
    },
    Gather,
    Scatter,
    /// Whether the mask bits of the prefetched elements are cleared.
    IndexedPrefetch {
        clears: bool,
    },
    LinePrefetch,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// 1 for 0F, 2 for 0F38, 3 for 0F3A.
    pub(crate) map: u8,
    /// 0 none, 1 for 66, 2 for F3, 3 for F2.
    pub(crate) prefix: u8,
    /// W; `None` if it is ignored.
    pub(crate) w: Option<u8>,
    pub(crate) opcode: u8,
    /// The register field of ModRM where that belongs to the opcode.
    pub(crate) extension: Option<u8>,
    /// E where that belongs to the opcode.
    pub(crate) e: Option<bool>,
    pub(crate) form: Form,
    pub(crate) element: Element,
    pub(crate) span: Span,
    /// Bit n: SSS may be n with a memory operand.
    pub(crate) memory: u8,
    /// Bit n: SSS may be n with a register operand and E clear.
    pub(crate) swizzles: u8,
    /// SSS bit 2 may ask to suppress exceptions.
    pub(crate) sae: bool,
    /// SSS bits 1:0 may be a rounding mode.
    pub(crate) rounding: bool,
    pub(crate) immediate: bool,
    pub(crate) what: What,
}

impl Row {
    /// Lanes of the destination, or of what is stored.
    pub(crate) fn lanes(&self) -> usize {
        if self.span == Span::Half { 8 } else { 64 / self.element.size() }
    }

    /// Whether aaa may not be zero.
    pub(crate) fn needs_mask(&self) -> bool {
        matches!(self.form, Form::Gather | Form::Scatter | Form::IndexedPrefetch)
            || matches!(self.what, What::AddSetSign | What::IntegerAddSetSign)
    }

    /// Whether vvvv is an operand.
    pub(crate) fn uses_v(&self) -> bool {
        matches!(self.form, Form::Binary | Form::Shift | Form::ToMask | Form::Carry)
    }

    /// Whether the operand may be a register.
    pub(crate) fn takes_register(&self) -> bool {
        matches!(self.form, Form::Unary) || self.uses_v()
    }

    pub(crate) fn immediate(mut self) -> Self {
        self.immediate = true;
        self
    }
    pub(crate) fn sae(mut self) -> Self {
        self.sae = true;
        self
    }
    pub(crate) fn rounding(mut self) -> Self {
        self.sae = true;
        self.rounding = true;
        self
    }
    pub(crate) fn plain(mut self) -> Self {
        (self.memory, self.swizzles) = (1, 1);
        self
    }
    pub(crate) fn span(mut self, span: Span) -> Self {
        self.span = span;
        self
    }
    pub(crate) fn extension(mut self, extension: u8) -> Self {
        self.extension = Some(extension);
        self
    }
}
