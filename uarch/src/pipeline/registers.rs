//! A set of registers, as far as one instruction has to wait for another because of them.

/// A set of registers. Parts of a register (AL, AH, AX) count as the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(u64);

/// First bit of the x87 stack's entries.
const X87: u32 = 24;
/// First bit of the MMX registers.
const MMX: u32 = 32;
/// The sixteen general registers.
const GENERAL: u64 = 0xffff;

impl Registers {
    /// None.
    pub const NONE: Self = Self(0);
    /// The arithmetic flags, all as one.
    pub const FLAGS: Self = Self(1 << 16);
    /// ESP.
    pub const STACK_POINTER: Self = Self::general(4);

    /// A general register, by its number in instruction encodings.
    #[must_use]
    pub const fn general(number: u8) -> Self {
        Self(1 << (number & 15))
    }

    /// An entry of the x87 stack, by its place before the instruction: a push writes ST(7).
    #[must_use]
    pub const fn x87(place: u8) -> Self {
        Self(1 << (X87 + (place & 7) as u32))
    }

    /// An MMX register.
    #[must_use]
    pub const fn mmx(number: u8) -> Self {
        Self(1 << (MMX + (number & 7) as u32))
    }

    /// The registers of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a register is in both.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a general register is among them.
    #[must_use]
    pub const fn has_general(self) -> bool {
        self.0 & GENERAL != 0
    }

    /// The entries of the x87 stack among them, a bit each.
    pub(crate) const fn x87_entries(self) -> u8 {
        (self.0 >> X87) as u8
    }

    /// The MMX registers among them, a bit each.
    pub(crate) const fn mmx_registers(self) -> u8 {
        (self.0 >> MMX) as u8
    }
}

crate::state! { Registers(_) }
