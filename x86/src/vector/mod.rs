//! The vector unit of Knights Corner: 32 registers of 512 bits, 8 mask registers, VXCSR.
//!
//! Its manual (Intel 327364, "Xeon Phi Coprocessor Instruction Set Architecture Reference Manual") was not
//! at hand. What is here follows the decoder's tables, the compiler's intrinsics (Intel's guide, and the
//! manual of its compiler), the encoder tests of XED, the coprocessor's own kernel, and what others have
//! measured on a card and restated of the manual; docs/cpu.md lists what none of
//! them says.

mod state;

pub(crate) use state::VXCSR_RESET;
pub use state::{Vector, Zmm};
