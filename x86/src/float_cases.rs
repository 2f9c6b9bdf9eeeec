//! What is out of the ordinary about the numbers of a floating-point instruction.

use std::ops::BitOr;

use crate::softfloat::{DE, OE, UE};

/// Which floating-point instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatUnit {
    /// x87.
    X87,
    /// SSE, SSE2 and SSE3.
    Sse,
}

/// What is out of the ordinary about the numbers of an instruction: cases that a processor may leave to
/// microcode, whether or not an exception is flagged or raised. A set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloatCases(u8);

impl FloatCases {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// An operand is denormal: the denormal-operand exception, masked or not.
    pub const DENORMAL_OPERAND: Self = Self(1 << 0);
    /// An operand that is computed with or compared is an infinity, a NaN or no number at all.
    pub const SPECIAL_OPERAND: Self = Self(1 << 1);
    /// The result is denormal, or was too small for its format (underflow, masked or not), and is not one
    /// that MXCSR.FTZ makes zero.
    pub const TINY_RESULT: Self = Self(1 << 2);
    /// The result was too large for its format: the overflow exception, masked or not.
    pub const OVERFLOW: Self = Self(1 << 3);

    /// Those that exception flags tell.
    pub(crate) fn of_flags(flags: u8) -> Self {
        Self::NONE
            .with(Self::DENORMAL_OPERAND, flags & DE != 0)
            .with(Self::TINY_RESULT, flags & UE != 0)
            .with(Self::OVERFLOW, flags & OE != 0)
    }

    /// These and `case`, if it holds.
    pub(crate) fn with(self, case: Self, holds: bool) -> Self {
        if holds { self | case } else { self }
    }

    /// Whether all of `cases` are there.
    #[must_use]
    pub fn has(self, cases: Self) -> bool {
        self.0 & cases.0 == cases.0
    }

    /// Whether any of `cases` is there.
    #[must_use]
    pub fn has_any(self, cases: Self) -> bool {
        self.0 & cases.0 != 0
    }
}

impl BitOr for FloatCases {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
