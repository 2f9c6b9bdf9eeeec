//! MMX, 3DNow! and SSE to SSE3.
//!
//! An operation is a type that implements a small trait (`Binary` on whole registers, `Arith` on a
//! floating-point lane, `Convert`, `Shuffle`); a handler is generic over the operation, the register
//! file and the place of the source operand; `handler.rs` is the table that puts them together, and
//! `lower.rs` alone knows the decoder.

mod approximate;
mod class;
mod convert;
mod float;
mod handler;
mod integer;
mod lanes;
mod lower;
mod moves;
mod now3d;
mod operand;
mod state;

pub(crate) use handler::handler;
pub(crate) use lower::lower;

/// The SSE registers of one logical processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Simd {
    /// XMM0-XMM15; bit 0 of lane 0 is bit 0. Zero after reset.
    pub xmm: [u128; 16],
    /// MXCSR: flags 5:0, DAZ 6, masks 12:7, rounding 14:13, FTZ 15. 1F80h after reset (AMD64
    /// Architecture Programmer's Manual, volume 1, section 4.2.2).
    pub mxcsr: u32,
}

impl Default for Simd {
    fn default() -> Self {
        Self { xmm: [0; 16], mxcsr: 0x1f80 }
    }
}

#[cfg(test)]
mod tests;
