//! The x87 floating-point unit and the MMX registers that live in it.
//!
//! [`Fpu`] is the register file. The operations of `arith`, `transfer` and `transcendental` change
//! it as the instructions do, with memory operands passed in and out as values, so they know no
//! memory, no faults but their own, and no decoder. `image` has the formats of FNSTENV, FNSAVE and
//! FXSAVE.
//!
//! Source: AMD64 Architecture Programmer's Manual volume 1, chapter 6, and volume 5; Intel SDM
//! volume 1, chapter 8.

mod arith;
mod cases;
mod exec;
#[cfg(test)]
mod exec_tests;
mod handler;
mod image;
mod lower;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
mod transcendental;
mod transfer;

pub use arith::{Arith, Source, Unary};
pub(crate) use exec::report_pending;
pub(crate) use handler::handler;
pub use image::{ENV_SIZE_16, ENV_SIZE_32, EnvFormat, FXSAVE_SIZE};
pub(crate) use lower::lower;
pub use transcendental::Transcendental;
pub use transfer::{Constant, MemoryFormat};

use crate::softfloat::{Context, F80, IE, PRE_COMPUTATION};

/// Status word bits (AMD64 APM volume 1, section 6.2.2).
pub mod status {
    /// Stack fault.
    pub const SF: u16 = 1 << 6;
    /// Exception summary: a flag is set whose mask is clear.
    pub const ES: u16 = 1 << 7;
    /// Condition code 0.
    pub const C0: u16 = 1 << 8;
    /// Condition code 1: with an inexact result, rounded up; with a stack fault, overflow.
    pub const C1: u16 = 1 << 9;
    /// Condition code 2.
    pub const C2: u16 = 1 << 10;
    /// Condition code 3.
    pub const C3: u16 = 1 << 14;
    /// Busy: a copy of ES.
    pub const B: u16 = 1 << 15;
    /// The condition codes.
    pub const CONDITIONS: u16 = C0 | C1 | C2 | C3;
    /// The exception flags.
    pub const EXCEPTIONS: u16 = 0x3F;
}

use status::{B, C1, ES, EXCEPTIONS, SF};

/// Bits of the control word that exist: masks 5:0, bit 6 reads as one, PC 9:8, RC 11:10 and the
/// infinity control 12, which does nothing.
const CONTROL_BITS: u16 = 0x1F3F;
const CONTROL_ONES: u16 = 0x0040;

/// The x87 state of one logical processor.
///
/// `Default` is the state after reset (AMD64 APM volume 2, table 14-1): control word 0040h and all
/// registers positive zero. [`Fpu::init`] is that of FNINIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fpu {
    /// The physical registers: ST(i) is `st[(top + i) % 8]`. MMX register i is the significand of
    /// `st[i]`.
    pub(crate) st: [F80; 8],
    control: u16,
    /// Without TOP.
    status: u16,
    top: u8,
    /// Bit n: physical register n is not empty.
    valid: u8,
    /// Offset of the last non-control instruction.
    pub fip: u64,
    /// Offset of its memory operand, if it had one.
    pub fdp: u64,
    /// Code selector belonging to `fip`.
    pub fcs: u16,
    /// Data selector belonging to `fdp`.
    pub fds: u16,
    /// Opcode of the last non-control instruction: low three bits of the first byte, second byte.
    pub fop: u16,
    /// FERR# is asserted: the platform knows of the exception that is pending.
    ferr: bool,
}

impl Default for Fpu {
    fn default() -> Self {
        Self {
            st: [F80::ZERO; 8],
            control: 0x0040,
            status: 0,
            top: 0,
            valid: 0xFF,
            fip: 0,
            fdp: 0,
            fcs: 0,
            fds: 0,
            fop: 0,
            ferr: false,
        }
    }
}

impl Fpu {
    /// Whether its top is one of the eight registers.
    pub(crate) fn is_sound(&self) -> bool {
        self.top < 8
    }

    /// FNINIT: all exceptions masked, nearest, extended precision, stack empty; the registers keep
    /// their contents.
    pub fn init(&mut self) {
        *self = Self { st: self.st, control: 0x037F, valid: 0, ..Self::default() };
    }

    /// The control word (FNSTCW).
    #[must_use]
    pub const fn control_word(&self) -> u16 {
        self.control
    }

    /// FLDCW. Unmasking a flagged exception makes it pending.
    pub fn set_control_word(&mut self, control: u16) {
        self.control = control & CONTROL_BITS | CONTROL_ONES;
        self.summarize();
    }

    /// The status word with TOP in bits 13:11 (FNSTSW).
    #[must_use]
    pub const fn status_word(&self) -> u16 {
        self.status | (self.top as u16) << 11
    }

    /// Sets the status word, TOP in bits 13:11 with it, as FLDENV does.
    pub fn set_status_word(&mut self, status: u16) {
        self.status = status & !(7 << 11);
        self.top = (status >> 11 & 7) as u8;
        self.summarize();
    }

    /// True when an unmasked exception waits: the next waiting instruction raises #MF.
    #[inline]
    #[must_use]
    pub const fn pending_exception(&self) -> bool {
        self.status & ES != 0
    }

    /// Asserts FERR# for the exception that is pending. False if it has been asserted for it
    /// before.
    pub(crate) const fn assert_ferr(&mut self) -> bool {
        !std::mem::replace(&mut self.ferr, true)
    }

    /// FNCLEX.
    pub fn clear_exceptions(&mut self) {
        self.status &= !(EXCEPTIONS | SF);
        self.summarize();
    }

    /// The tag word in its full form, two bits per physical register: 0 valid, 1 zero, 2 special,
    /// 3 empty.
    #[must_use]
    pub fn tag_word(&self) -> u16 {
        use crate::softfloat::Class;
        (0..8).rev().fold(0, |word, n| {
            let tag = match self.st[n].class() {
                _ if self.valid >> n & 1 == 0 => 3,
                Class::Zero => 1,
                Class::Normal => 0,
                _ => 2,
            };
            word << 2 | tag
        })
    }

    /// ST(`i & 7`), in ten bytes from the lowest.
    #[must_use]
    pub fn register(&self, i: u8) -> [u8; 10] {
        self.st[usize::from(self.top + (i & 7)) & 7].to_bytes()
    }

    /// Sets ST(`i & 7`); its tag stays.
    pub fn set_register(&mut self, i: u8, bytes: [u8; 10]) {
        self.st[usize::from(self.top + (i & 7)) & 7] = F80::from_bytes(bytes);
    }

    /// Sets which registers are empty, from the tag word in its full form.
    pub fn set_tag_word(&mut self, tag: u16) {
        self.valid = (0..8).fold(0, |valid, n| valid | u8::from(tag >> (2 * n) & 3 != 3) << n);
    }

    /// The significand of physical register `n & 7`: MMX register n.
    #[inline]
    #[must_use]
    pub const fn mmx(&self, n: u8) -> u64 {
        self.st[n as usize & 7].frac
    }

    /// Writes MMX register `n & 7`; the exponent and sign of the register become all ones.
    #[inline]
    pub const fn set_mmx(&mut self, n: u8, value: u64) {
        self.st[n as usize & 7] = F80::new(0xFFFF, value);
    }

    /// What every MMX and 3DNow! instruction but EMMS and FEMMS does: TOP becomes 0 and all tags
    /// valid (AMD64 APM volume 1, section 5.12).
    #[inline]
    pub const fn enter_mmx(&mut self) {
        self.top = 0;
        self.valid = 0xFF;
    }

    /// EMMS and FEMMS: all registers empty, TOP 0.
    pub const fn emms(&mut self) {
        self.top = 0;
        self.valid = 0;
    }

    /// FNINCSTP.
    pub const fn increment_top(&mut self) {
        self.top = (self.top + 1) & 7;
        self.status &= !C1;
    }

    /// FDECSTP.
    pub const fn decrement_top(&mut self) {
        self.top = self.top.wrapping_sub(1) & 7;
        self.status &= !C1;
    }

    /// FFREE ST(i): the tag changes, and C1 is cleared.
    pub const fn free(&mut self, i: u8) {
        self.status &= !C1;
        self.valid &= !(1 << self.physical(i));
    }

    /// FFREEP ST(i), not in the manuals: FFREE and a pop.
    pub const fn free_and_pop(&mut self, i: u8) {
        self.free(i);
        self.pop();
    }

    #[inline]
    const fn physical(&self, i: u8) -> usize {
        (self.top.wrapping_add(i) & 7) as usize
    }

    /// ST(i), unless it is empty.
    #[inline]
    fn get(&self, i: u8) -> Option<F80> {
        let n = self.physical(i);
        (self.valid >> n & 1 != 0).then_some(self.st[n])
    }

    /// Writes ST(i) and makes it not empty.
    #[inline]
    const fn set(&mut self, i: u8, value: F80) {
        let n = self.physical(i);
        self.st[n] = value;
        self.valid |= 1 << n;
    }

    #[inline]
    const fn pop(&mut self) {
        self.valid &= !(1 << self.physical(0));
        self.top = (self.top + 1) & 7;
    }

    #[inline]
    const fn push(&mut self, value: F80) {
        self.top = self.top.wrapping_sub(1) & 7;
        self.set(0, value);
    }

    /// True when a push would overwrite a register that is not empty.
    #[inline]
    const fn is_full(&self) -> bool {
        self.valid >> self.physical(7) & 1 != 0
    }

    /// Modes for an operation; C1 is clear unless the operation sets it.
    #[inline]
    const fn begin(&mut self) -> Context {
        self.status &= !C1;
        Context::from_control_word(self.control)
    }

    /// Takes over the flags of an operation. False: an unmasked pre-computation exception forbids
    /// to write its result or to pop, and hides what would have come later.
    #[inline]
    fn finish(&mut self, cx: &Context) -> bool {
        let deliver = !cx.faulted();
        let flags = if deliver { cx.flags } else { cx.flags & PRE_COMPUTATION };
        if flags != 0 {
            self.status |= u16::from(flags);
            if deliver && cx.rounded_up {
                self.status |= C1;
            }
            self.summarize();
        }
        deliver
    }

    /// Flags a stack fault. True if it is masked and the operation goes on with the indefinite.
    #[cold]
    fn stack_fault(&mut self, overflow: bool) -> bool {
        self.status |= u16::from(IE) | SF;
        self.status = if overflow { self.status | C1 } else { self.status & !C1 };
        self.summarize();
        self.control & u16::from(IE) != 0
    }

    fn summarize(&mut self) {
        if self.status & !self.control & EXCEPTIONS != 0 {
            self.status |= ES | B;
        } else {
            self.status &= !(ES | B);
            self.ferr = false;
        }
    }
}
