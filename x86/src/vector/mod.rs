//! The vector unit of Knights Corner: 32 registers of 512 bits, 8 mask registers, VXCSR.
//!
//! Its manual (Intel 327364, "Xeon Phi Coprocessor Instruction Set Architecture Reference Manual") was not
//! at hand. What is here follows the decoder's tables, the compiler's intrinsics (Intel's guide, and the
//! manual of its compiler), the encoder tests of XED, the coprocessor's own kernel, and what others have
//! measured on a card and restated of the manual; docs/cpu.md lists what none of
//! them says.

mod approximate;
mod carry;
mod compare;
mod convert;
mod count;
mod element;
mod exponent;
mod fixed;
mod float;
mod fused;
mod gather;
mod handler;
mod integer;
mod lower;
mod mask;
mod mvex;
mod operand;
mod permute;
mod state;
mod stream;
mod swizzle;

pub(crate) use element::{Element, Lanes};
pub(crate) use handler::handler;
pub(crate) use lower::lower;
pub(crate) use mvex::Mvex;
pub(crate) use state::{DUE, VXCSR_MASK, VXCSR_RESET, ready, requires_due};
pub use state::{Vector, Zmm};

use crate::{
    cpu::Cpu,
    flags::{CF, ZF},
};

/// Sets CF and ZF and clears the other arithmetic flags.
fn set_flags(cpu: &mut Cpu, carry: bool, zero: bool) {
    let carry = if carry { CF } else { 0 };
    let zero = if zero { ZF } else { 0 };
    cpu.flags.set_rflags(carry | zero);
}

#[cfg(test)]
mod tests;
