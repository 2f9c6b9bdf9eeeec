//! Sets of flags: RFLAGS and the condition codes of the x87 unit.

use std::fmt;

use crate::flags;

/// A set of flags: bits of RFLAGS at their places, and the condition codes of the x87 status word
/// at theirs, 32 bits further up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FlagSet(u64);

/// Where the condition codes begin.
const X87: u32 = 32;

impl FlagSet {
    /// No flag.
    pub const EMPTY: Self = Self(0);
    /// Carry flag.
    pub const CF: Self = Self(flags::CF);
    /// Parity flag.
    pub const PF: Self = Self(flags::PF);
    /// Auxiliary carry flag.
    pub const AF: Self = Self(flags::AF);
    /// Zero flag.
    pub const ZF: Self = Self(flags::ZF);
    /// Sign flag.
    pub const SF: Self = Self(flags::SF);
    /// Trap flag.
    pub const TF: Self = Self(flags::TF);
    /// Interrupt flag.
    pub const IF: Self = Self(flags::IF);
    /// Direction flag.
    pub const DF: Self = Self(flags::DF);
    /// Overflow flag.
    pub const OF: Self = Self(flags::OF);
    /// I/O privilege level, both bits.
    pub const IOPL: Self = Self(flags::IOPL);
    /// Nested task.
    pub const NT: Self = Self(flags::NT);
    /// Resume flag.
    pub const RF: Self = Self(flags::RF);
    /// Virtual-8086 mode.
    pub const VM: Self = Self(flags::VM);
    /// Alignment check.
    pub const AC: Self = Self(flags::AC);
    /// Virtual interrupt flag.
    pub const VIF: Self = Self(flags::VIF);
    /// Virtual interrupt pending.
    pub const VIP: Self = Self(flags::VIP);
    /// CPUID can be used.
    pub const ID: Self = Self(flags::ID);
    /// Condition code 0 of the x87 unit.
    pub const C0: Self = Self(1 << (X87 + 8));
    /// Condition code 1 of the x87 unit.
    pub const C1: Self = Self(1 << (X87 + 9));
    /// Condition code 2 of the x87 unit.
    pub const C2: Self = Self(1 << (X87 + 10));
    /// Condition code 3 of the x87 unit.
    pub const C3: Self = Self(1 << (X87 + 14));
    /// CF, PF, AF, ZF, SF and OF.
    pub const ARITHMETIC: Self = Self(flags::ARITHMETIC);
    /// C0 to C3.
    pub const CONDITION_CODES: Self = Self(Self::C0.0 | Self::C1.0 | Self::C2.0 | Self::C3.0);
    /// All flags of RFLAGS.
    pub const ALL: Self = Self(
        flags::ARITHMETIC
            | flags::TF
            | flags::IF
            | flags::DF
            | flags::IOPL
            | flags::NT
            | flags::RF
            | flags::VM
            | flags::AC
            | flags::VIF
            | flags::VIP
            | flags::ID,
    );

    const NAMES: [(Self, &'static str); 21] = [
        (Self::CF, "CF"),
        (Self::PF, "PF"),
        (Self::AF, "AF"),
        (Self::ZF, "ZF"),
        (Self::SF, "SF"),
        (Self::TF, "TF"),
        (Self::IF, "IF"),
        (Self::DF, "DF"),
        (Self::OF, "OF"),
        (Self::IOPL, "IOPL"),
        (Self::NT, "NT"),
        (Self::RF, "RF"),
        (Self::VM, "VM"),
        (Self::AC, "AC"),
        (Self::VIF, "VIF"),
        (Self::VIP, "VIP"),
        (Self::ID, "ID"),
        (Self::C0, "C0"),
        (Self::C1, "C1"),
        (Self::C2, "C2"),
        (Self::C3, "C3"),
    ];

    /// As bits of RFLAGS; the condition codes are left out.
    #[must_use]
    pub const fn rflags(self) -> u64 {
        self.0 & ((1 << X87) - 1)
    }

    /// As bits of the x87 status word; the bits of RFLAGS are left out.
    #[must_use]
    pub const fn x87_status(self) -> u16 {
        (self.0 >> X87) as u16
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `flags` are in it.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        flags.0 & !self.0 == 0
    }

    /// Those of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each flag, IOPL as one.
    pub fn iter(self) -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(flag, _)| flag).filter(move |&flag| self.contains(flag))
    }

    /// The flags that condition `code` (0-15) of Jcc, SETcc, CMOVcc and FCMOVcc looks at.
    pub(super) const fn of_condition(code: u8) -> Self {
        match code >> 1 & 7 {
            0 => Self::OF,
            1 => Self::CF,
            2 => Self::ZF,
            3 => Self::CF.union(Self::ZF),
            4 => Self::SF,
            5 => Self::PF,
            6 => Self::SF.union(Self::OF),
            _ => Self::SF.union(Self::OF).union(Self::ZF),
        }
    }
}

impl fmt::Debug for FlagSet {
    /// The names in braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.into_iter().filter(|&(flag, _)| self.contains(flag));
        let mut separator = "{";
        for (_, name) in names {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        f.write_str(if self.is_empty() { "{}" } else { "}" })
    }
}

/// What an instruction does to flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Looked at.
    pub read: FlagSet,
    /// Given a value that the manuals define.
    pub written: FlagSet,
    /// Of those, the ones that are zero afterwards whatever the operands.
    pub cleared: FlagSet,
    /// Of those, the ones that are one afterwards whatever the operands.
    pub set: FlagSet,
    /// Left with a value that the manuals do not define.
    pub undefined: FlagSet,
    /// Of those written or left undefined, the ones that may also stay as they were: the count of a
    /// shift in CL may be zero, the privilege may not suffice.
    pub conditional: FlagSet,
}

impl Flags {
    /// Those whose value after the instruction may be another than before: written or left undefined.
    #[must_use]
    pub const fn changed(&self) -> FlagSet {
        self.written.union(self.undefined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_names() {
        let set = FlagSet::CF.union(FlagSet::IOPL).union(FlagSet::C3);
        assert_eq!(format!("{set:?}"), "{CF, IOPL, C3}");
        assert_eq!((set.rflags(), set.x87_status()), (0x3001, 0x4000));
        assert_eq!(set.iter().count(), 3);
        let named = FlagSet::NAMES.iter().fold(FlagSet::EMPTY, |all, &(flag, _)| all.union(flag));
        assert_eq!(named, FlagSet::ALL.union(FlagSet::CONDITION_CODES));
    }
}
