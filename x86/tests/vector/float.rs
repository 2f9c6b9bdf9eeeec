//! Binary floating-point numbers and what the vector unit does with them: NaN rules, denormals, and the
//! sticky flags of VXCSR.

use crate::exact::{Fraction, Mode, Sum};

/// Invalid operation, VXCSR bit 0.
pub(crate) const IE: u32 = 1;
/// Denormal operand.
pub(crate) const DE: u32 = 2;
/// Division by zero.
pub(crate) const ZE: u32 = 4;
/// Overflow.
pub(crate) const OE: u32 = 8;
/// Underflow.
pub(crate) const UE: u32 = 0x10;
/// Inexact result.
pub(crate) const PE: u32 = 0x20;
/// VXCSR bit 6: denormal operands are zeros.
pub(crate) const DAZ: u32 = 0x40;
/// VXCSR bits 14:13: the rounding mode.
pub(crate) const RC_SHIFT: u32 = 13;
/// VXCSR bit 15: denormal results are flushed to zero.
pub(crate) const FZ: u32 = 0x8000;
/// VXCSR bit 21: no exception is delivered.
pub(crate) const DUE: u32 = 1 << 21;

/// A binary interchange format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the significand, with the leading one.
    pub(crate) precision: u32,
    /// Exponent of the least normal number.
    pub(crate) least: i32,
    /// Bits of an encoding.
    pub(crate) bits: u32,
}

pub(crate) const F16: Format = Format { precision: 11, least: -14, bits: 16 };
pub(crate) const F32: Format = Format { precision: 24, least: -126, bits: 32 };
pub(crate) const F64: Format = Format { precision: 53, least: -1022, bits: 64 };

impl Format {
    pub(crate) fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }
    pub(crate) fn infinity(self) -> u64 {
        self.sign() - self.hidden()
    }
    /// The leading bit of a significand, which is also the least normal number's encoding.
    pub(crate) fn hidden(self) -> u64 {
        1 << (self.precision - 1)
    }
    /// The bit that a quiet NaN has.
    pub(crate) fn quiet(self) -> u64 {
        self.hidden() >> 1
    }
    /// The default NaN: negative and quiet, without payload.
    pub(crate) fn default_nan(self) -> u64 {
        self.sign() | self.infinity() | self.quiet()
    }
    pub(crate) fn one(self) -> u64 {
        ((1 - self.least) as u64) << (self.precision - 1)
    }
    pub(crate) fn magnitude(self, x: u64) -> u64 {
        x & (self.sign() - 1)
    }
    pub(crate) fn negative(self, x: u64) -> bool {
        x & self.sign() != 0
    }
    pub(crate) fn is_nan(self, x: u64) -> bool {
        self.magnitude(x) > self.infinity()
    }
    pub(crate) fn is_signalling(self, x: u64) -> bool {
        self.is_nan(x) && x & self.quiet() == 0
    }
    pub(crate) fn is_infinite(self, x: u64) -> bool {
        self.magnitude(x) == self.infinity()
    }
    pub(crate) fn is_zero(self, x: u64) -> bool {
        self.magnitude(x) == 0
    }
    pub(crate) fn is_denormal(self, x: u64) -> bool {
        let magnitude = self.magnitude(x);
        magnitude != 0 && magnitude < self.hidden()
    }
    /// The value of a finite number.
    pub(crate) fn value(self, x: u64) -> Fraction {
        let biased = (self.magnitude(x) >> (self.precision - 1)) as i32;
        let fraction = x & (self.hidden() - 1);
        let significand = if biased == 0 { fraction } else { fraction | self.hidden() };
        Fraction {
            negative: self.negative(x),
            magnitude: u128::from(significand),
            exponent: biased.max(1) - 1 + self.least - (self.precision as i32 - 1),
        }
    }
    /// A zero of the sign.
    pub(crate) fn zero(self, negative: bool) -> u64 {
        if negative { self.sign() } else { 0 }
    }
}

/// What VXCSR or the instruction ask for, and the flags that were raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment {
    pub(crate) mode: Mode,
    pub(crate) daz: bool,
    pub(crate) fz: bool,
    pub(crate) flags: u32,
    /// Flags of which it is not known whether they are raised.
    pub(crate) open: u32,
}

impl Environment {
    pub(crate) fn new(vxcsr: u32) -> Self {
        Self {
            mode: Mode::from_code(vxcsr >> RC_SHIFT),
            daz: vxcsr & DAZ != 0,
            fz: vxcsr & FZ != 0,
            flags: 0,
            open: 0,
        }
    }

    /// Denormals as zeros.
    pub(crate) fn operand(&self, f: Format, x: u64) -> u64 {
        if self.daz && f.is_denormal(x) { x & f.sign() } else { x }
    }

    /// What a NaN becomes.
    pub(crate) fn quieted(&mut self, f: Format, x: u64) -> u64 {
        if f.is_signalling(x) {
            self.flags |= IE;
        }
        x | f.quiet()
    }

    /// The result if an operand is a NaN: the first one, quieted. Signalling ones raise invalid.
    pub(crate) fn nan(&mut self, f: Format, operands: &[u64]) -> Option<u64> {
        let first = *operands.iter().find(|&&x| f.is_nan(x))?;
        for &x in operands {
            if f.is_signalling(x) {
                self.flags |= IE;
            }
        }
        Some(first | f.quiet())
    }

    pub(crate) fn invalid(&mut self, f: Format) -> u64 {
        self.flags |= IE;
        f.default_nan()
    }

    /// Says that these are operands of an operation that is neither invalid nor has a NaN.
    pub(crate) fn note_denormals(&mut self, f: Format, operands: &[u64]) {
        if operands.iter().any(|&x| f.is_denormal(x)) {
            self.flags |= DE;
        }
    }

    /// Rounds a sum to the format. `zero` is the result if it is exactly zero.
    pub(crate) fn rounded(&mut self, f: Format, sum: &Sum, zero: u64) -> u64 {
        let precision = f.precision as i32;
        // The exponent of the last bit of a denormal.
        let last = f.least - (precision - 1);
        let Some(unbounded) = sum.round(self.mode, |leading| leading - (precision - 1)) else {
            return zero;
        };
        let negative = unbounded.negative;
        // The underflow rule of x86: tiny is what is below the least normal number when it is rounded as
        // if the exponent had no bound.
        let tiny = unbounded.is_below(f.least);
        if tiny && self.fz {
            self.flags |= UE | PE;
            return f.zero(negative);
        }
        let bounded = |leading: i32| (leading - (precision - 1)).max(last);
        let rounded = sum.round(self.mode, bounded).expect("not zero");
        if !rounded.exact {
            self.flags |= if tiny { PE | UE } else { PE };
        }
        // The greatest exponent of a finite number is 1 - least.
        if !rounded.is_below(2 - f.least) {
            self.flags |= OE | PE;
            let to_infinity = match self.mode {
                Mode::Nearest => true,
                Mode::Down => negative,
                Mode::Up => !negative,
                Mode::Zero => false,
            };
            return (f.infinity() - u64::from(!to_infinity)) | f.zero(negative);
        }
        // The significand's leading bit adds one to the exponent field, and so does a carry out of it.
        let above = (rounded.exponent - last) as u64;
        ((above << (f.precision - 1)) + rounded.magnitude as u64) | f.zero(negative)
    }
}
