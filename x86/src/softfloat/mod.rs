//! IEEE 754 arithmetic in integers.
//!
//! The emulated processor's results must be the same on every host and with every compiler, so
//! nothing here uses the host's floating point. Values travel as their encodings: `u32` for
//! single, `u64` for double and [`F80`] for double extended precision. The rounding mode, the
//! exception masks and the sticky exception flags are in a [`Context`], in the positions that
//! MXCSR and the x87 control and status words share.
//!
//! Source: IEEE 754-1985; AMD64 Architecture Programmer's Manual volume 1, chapters 4 (SSE) and 6
//! (x87); Intel SDM volume 1, chapters 4.9, 8.5 and 11.5.

mod binary;
mod convert;
mod double;
mod exponent;
mod extended;
mod extended_convert;
mod fixed;
mod fused;
mod half;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) mod oracle;
mod remainder;
mod single;
#[cfg(all(test, target_arch = "x86_64"))]
mod sse_tests;
mod transcendental;
#[cfg(all(test, target_arch = "x86_64"))]
mod transcendental_tests;
mod wide;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) mod x87_tests;

pub use convert::{
    f32_to_f64, f32_to_i32, f32_to_i64, f64_to_f32, f64_to_i32, f64_to_i64, i32_to_f32, i32_to_f64,
    i64_to_f32, i64_to_f64,
};
pub use double::{f64_add, f64_compare, f64_div, f64_max, f64_min, f64_mul, f64_sqrt, f64_sub};
pub use exponent::{
    Interval, SignControl, f32_exponent, f32_scale, f32_significand, f64_exponent, f64_significand,
};
pub use extended::{Class, F80};
pub use fixed::{f32_round_to_fixed, f32_to_fixed, f64_round_to_fixed, f64_to_fixed, fixed_to_f32};
pub use fused::{f32_mul_add, f64_mul_add};
pub use half::{f16_to_f32, f32_to_f16};
pub use remainder::Remainder;
pub use single::{f32_add, f32_compare, f32_div, f32_max, f32_min, f32_mul, f32_sqrt, f32_sub};
pub use transcendental::Reduction;

/// Invalid operation, flag and mask bit 0.
pub const IE: u8 = 0x01;
/// Denormal operand, bit 1.
pub const DE: u8 = 0x02;
/// Division of a finite number by zero, bit 2.
pub const ZE: u8 = 0x04;
/// Overflow, bit 3.
pub const OE: u8 = 0x08;
/// Underflow, bit 4.
pub const UE: u8 = 0x10;
/// Precision (inexact result), bit 5.
pub const PE: u8 = 0x20;
/// The exceptions found before the result is computed; unmasked, they leave the destination alone.
pub const PRE_COMPUTATION: u8 = IE | DE | ZE;

/// The rounding mode, in the encoding of the RC fields of MXCSR and the x87 control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest value, ties to the even one (0).
    Nearest,
    /// Toward minus infinity (1).
    Down,
    /// Toward plus infinity (2).
    Up,
    /// Toward zero (3).
    Zero,
}

impl Rounding {
    /// The mode encoded by the two low bits of `rc`.
    #[must_use]
    pub const fn from_rc(rc: u32) -> Self {
        match rc & 3 {
            0 => Self::Nearest,
            1 => Self::Down,
            2 => Self::Up,
            _ => Self::Zero,
        }
    }
}

/// The significand width that x87 add, subtract, multiply, divide and square root round to
/// (control word PC). The exponent range stays that of double extended precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits (PC 0).
    Single,
    /// 53 bits (PC 2).
    Double,
    /// 64 bits (PC 3, and the reserved 1).
    Extended,
}

/// Modes going into an operation, and flags coming out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Rounding mode.
    pub rounding: Rounding,
    /// MXCSR.DAZ: denormal SSE operands are taken as zero of the same sign.
    pub daz: bool,
    /// MXCSR.FTZ: tiny SSE results become zero of the same sign, if underflow is masked.
    pub ftz: bool,
    /// Sticky exception flags ([`IE`] to [`PE`]); operations only ever set bits.
    pub flags: u8,
    /// Masked exceptions, same bits as `flags`: 1 is masked.
    pub masks: u8,
    /// Precision control, x87 arithmetic only.
    pub precision: Precision,
    /// Status word C1 after an inexact x87 result: the last rounding went away from zero.
    pub rounded_up: bool,
}

impl Default for Context {
    /// Round to nearest, extended precision, all exceptions masked: FNINIT and MXCSR reset.
    fn default() -> Self {
        Self {
            rounding: Rounding::Nearest,
            daz: false,
            ftz: false,
            flags: 0,
            masks: 0x3F,
            precision: Precision::Extended,
            rounded_up: false,
        }
    }
}

impl Context {
    /// The modes of an MXCSR value, with clear flags. MXCSR: DAZ bit 6, masks bits 12:7, RC bits
    /// 14:13, FTZ bit 15.
    #[must_use]
    pub const fn from_mxcsr(mxcsr: u32) -> Self {
        Self {
            rounding: Rounding::from_rc(mxcsr >> 13),
            daz: mxcsr & 0x40 != 0,
            ftz: mxcsr & 0x8000 != 0,
            flags: 0,
            masks: (mxcsr >> 7 & 0x3F) as u8,
            precision: Precision::Extended,
            rounded_up: false,
        }
    }

    /// The modes of an x87 control word, with clear flags. Masks bits 5:0, PC bits 9:8, RC bits
    /// 11:10.
    #[must_use]
    pub const fn from_control_word(control: u16) -> Self {
        Self {
            rounding: Rounding::from_rc(control as u32 >> 10),
            daz: false,
            ftz: false,
            flags: 0,
            masks: (control & 0x3F) as u8,
            precision: match control >> 8 & 3 {
                0 => Precision::Single,
                2 => Precision::Double,
                _ => Precision::Extended,
            },
            rounded_up: false,
        }
    }

    /// Flags that are set and not masked.
    #[must_use]
    pub const fn unmasked(&self) -> u8 {
        self.flags & !self.masks
    }

    /// True when an unmasked pre-computation exception is flagged: the operation must leave its
    /// destination alone.
    #[must_use]
    pub const fn faulted(&self) -> bool {
        self.unmasked() & PRE_COMPUTATION != 0
    }

    fn raise(&mut self, flags: u8) {
        self.flags |= flags;
    }

    const fn is_masked(&self, flag: u8) -> bool {
        self.masks & flag != 0
    }
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The first operand is smaller.
    Less,
    /// The operands are equal; zeros are, whatever their signs.
    Equal,
    /// The first operand is greater.
    Greater,
    /// At least one operand is a NaN.
    Unordered,
}
