//! What the pipelines call registers: what an instruction waits for and what others wait for from it.
//!
//! A register is a number below 64, so that a set of them is a word. Parts of a register are the whole
//! ([`super::Operands::partial`] says where that matters).

/// A set of registers: a bit each.
pub type Registers = u64;

/// The general registers, 16 of them, by the numbers of the encoding.
pub const GENERAL: u8 = 0;
/// The stack pointer.
pub const STACK_POINTER: u8 = GENERAL + 4;
/// ST(0) to ST(7), by their place on the stack before the instruction.
pub const X87: u8 = 16;
/// MM0 to MM7.
pub const MMX: u8 = 24;
/// XMM0 to XMM15.
pub const XMM: u8 = 32;
/// The carry flag, which AMD's and Intel's processors rename apart from the others.
pub const CARRY: u8 = 48;
/// The other arithmetic flags.
pub const STATUS: u8 = 49;
/// The condition codes of the x87 status word.
pub const X87_CONDITION: u8 = 50;
/// The control words of the x87 unit and of SSE.
pub const FLOAT_CONTROL: u8 = 51;
/// ES, CS, SS, DS, FS and GS, by the numbers of the encoding.
pub const SEGMENT: u8 = 52;
/// Everything else: control, debug and model-specific registers.
pub const SYSTEM: u8 = 58;
/// How many numbers there are.
pub const COUNT: usize = 64;

/// The set of one register.
#[must_use]
pub const fn set(register: u8) -> Registers {
    1 << register
}

/// All x87 registers.
pub(super) const ALL_X87: Registers = 0xff << X87;
/// All general registers.
pub(super) const ALL_GENERAL: Registers = 0xffff << GENERAL;

/// The set with its x87 registers named by their place in the register file instead of on the stack.
#[inline(always)]
pub(super) const fn on_top(registers: Registers, top: u8) -> Registers {
    let stack = (registers >> X87) as u8;
    registers & !ALL_X87 | (stack.rotate_left(top as u32) as u64) << X87
}
