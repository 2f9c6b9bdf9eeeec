//! Registers by name, and sets of them.

use std::fmt;

use crate::insn::HIGH_BYTE;

/// A register of the program or of the system, whole: of AL, AH, AX and EAX each is
/// [`Register::General`] 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// RAX to R15, by the numbers of the encoding: [`crate::insn::gpr`].
    General(u8),
    /// ES, CS, SS, DS, FS, GS with their hidden parts: 0-5 of [`crate::insn::seg`].
    Segment(u8),
    /// CR0 to CR8, of which some do not exist.
    Control(u8),
    /// DR0 to DR7.
    Debug(u8),
    /// ST(0) to ST(7) with their tags, by their place on the stack before the instruction: what is
    /// pushed goes to ST(7).
    X87(u8),
    /// MM0 to MM7. They are the significands of the x87 registers, counted from the first and not from
    /// the top; that an access to the one is an access to the other is left to the reader.
    Mmx(u8),
    /// XMM0 to XMM15.
    Xmm(u8),
    /// RIP: written by whatever goes elsewhere than to the next instruction, read by relative
    /// addresses and by what stores a return address.
    InstructionPointer,
    /// The x87 control word.
    X87Control,
    /// The exception flags of the x87 status word. The condition codes are flags
    /// ([`super::FlagSet`]), and TOP is [`Register::X87Top`].
    X87Status,
    /// The number of the x87 register that is ST(0).
    X87Top,
    /// The x87 tag word, where it is meant as such, or where entries become empty or valid.
    X87Tags,
    /// The addresses of the last x87 instruction and its operand, and its opcode.
    X87Pointers,
    /// MXCSR.
    Mxcsr,
    /// The global descriptor-table register.
    Gdtr,
    /// The interrupt descriptor-table register.
    Idtr,
    /// The local descriptor-table register.
    Ldtr,
    /// The task register.
    Tr,
    /// The time-stamp counter.
    TimeStamp,
    /// The performance counters.
    PerformanceCounters,
    /// Any model-specific register.
    ModelSpecific,
    /// ZMM0 to ZMM31 of the vector unit, with which the XMM registers have nothing in common. VXCSR is
    /// [`Register::Mxcsr`].
    Zmm(u8),
    /// k0 to k7.
    Mask(u8),
}

/// Registers that are one of a kind, from [`SINGLE`] on.
const SINGLES: [Register; 14] = [
    Register::InstructionPointer,
    Register::X87Control,
    Register::X87Status,
    Register::X87Top,
    Register::X87Tags,
    Register::X87Pointers,
    Register::Mxcsr,
    Register::Gdtr,
    Register::Idtr,
    Register::Ldtr,
    Register::Tr,
    Register::TimeStamp,
    Register::PerformanceCounters,
    Register::ModelSpecific,
];

const GENERAL: u8 = 0;
const SEGMENT: u8 = 16;
const CONTROL: u8 = 24;
const DEBUG: u8 = CONTROL + 9;
const X87: u8 = DEBUG + 8;
const MMX: u8 = X87 + 8;
const XMM: u8 = MMX + 8;
const SINGLE: u8 = XMM + 16;
const ZMM: u8 = SINGLE + SINGLES.len() as u8;
const MASK: u8 = ZMM + 32;

impl Register {
    /// The general register of an operand number as [`crate::insn::Insn`] has it: AH is RAX.
    #[must_use]
    pub const fn general(operand: u8) -> Self {
        Self::General(if operand & HIGH_BYTE != 0 { operand & 3 } else { operand & 15 })
    }

    /// The register's number: dense for each kind, below 128, and not stable between versions.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::General(n) => GENERAL + (n & 15),
            Self::Segment(n) => SEGMENT + (n & 7),
            Self::Control(n) => CONTROL + if n < 8 { n } else { 8 },
            Self::Debug(n) => DEBUG + (n & 7),
            Self::X87(n) => X87 + (n & 7),
            Self::Mmx(n) => MMX + (n & 7),
            Self::Xmm(n) => XMM + (n & 15),
            Self::InstructionPointer => SINGLE,
            Self::X87Control => SINGLE + 1,
            Self::X87Status => SINGLE + 2,
            Self::X87Top => SINGLE + 3,
            Self::X87Tags => SINGLE + 4,
            Self::X87Pointers => SINGLE + 5,
            Self::Mxcsr => SINGLE + 6,
            Self::Gdtr => SINGLE + 7,
            Self::Idtr => SINGLE + 8,
            Self::Ldtr => SINGLE + 9,
            Self::Tr => SINGLE + 10,
            Self::TimeStamp => SINGLE + 11,
            Self::PerformanceCounters => SINGLE + 12,
            Self::ModelSpecific => SINGLE + 13,
            Self::Zmm(n) => ZMM + (n & 31),
            Self::Mask(n) => MASK + (n & 7),
        }
    }

    /// The register of a number.
    const fn of_number(number: u8) -> Self {
        match number {
            GENERAL..SEGMENT => Self::General(number - GENERAL),
            SEGMENT..CONTROL => Self::Segment(number - SEGMENT),
            CONTROL..DEBUG => Self::Control(number - CONTROL),
            DEBUG..X87 => Self::Debug(number - DEBUG),
            X87..MMX => Self::X87(number - X87),
            MMX..XMM => Self::Mmx(number - MMX),
            XMM..SINGLE => Self::Xmm(number - XMM),
            ZMM..MASK => Self::Zmm(number - ZMM),
            MASK.. => Self::Mask(number - MASK),
            _ => SINGLES[(number - SINGLE) as usize % SINGLES.len()],
        }
    }
}

impl fmt::Display for Register {
    /// The name in the manuals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GENERAL: [&str; 16] = [
            "RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", "R8", "R9", "R10", "R11",
            "R12", "R13", "R14", "R15",
        ];
        const SEGMENT: [&str; 8] = ["ES", "CS", "SS", "DS", "FS", "GS", "?", "?"];
        match *self {
            Self::General(n) => f.write_str(GENERAL[usize::from(n & 15)]),
            Self::Segment(n) => f.write_str(SEGMENT[usize::from(n & 7)]),
            Self::Control(n) => write!(f, "CR{n}"),
            Self::Debug(n) => write!(f, "DR{n}"),
            Self::X87(n) => write!(f, "ST({n})"),
            Self::Mmx(n) => write!(f, "MM{n}"),
            Self::Xmm(n) => write!(f, "XMM{n}"),
            Self::InstructionPointer => f.write_str("RIP"),
            Self::X87Control => f.write_str("FCW"),
            Self::X87Status => f.write_str("FSW"),
            Self::X87Top => f.write_str("TOP"),
            Self::X87Tags => f.write_str("FTW"),
            Self::X87Pointers => f.write_str("FIP/FDP/FOP"),
            Self::Mxcsr => f.write_str("MXCSR"),
            Self::Gdtr => f.write_str("GDTR"),
            Self::Idtr => f.write_str("IDTR"),
            Self::Ldtr => f.write_str("LDTR"),
            Self::Tr => f.write_str("TR"),
            Self::TimeStamp => f.write_str("TSC"),
            Self::PerformanceCounters => f.write_str("PMCs"),
            Self::ModelSpecific => f.write_str("MSRs"),
            Self::Zmm(n) => write!(f, "ZMM{n}"),
            Self::Mask(n) => write!(f, "k{n}"),
        }
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of registers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RegisterSet(u128);

impl RegisterSet {
    /// No register.
    pub const EMPTY: Self = Self(0);

    /// The set of one register.
    #[must_use]
    pub const fn one(register: Register) -> Self {
        Self(1 << register.number())
    }

    /// The `count` registers whose numbers in their file begin with that of `first`.
    #[must_use]
    pub const fn range(first: Register, count: u32) -> Self {
        Self(((1 << count) - 1) << first.number())
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether `register` is one of them.
    #[must_use]
    pub const fn contains(self, register: Register) -> bool {
        self.0 & Self::one(register).0 != 0
    }

    /// Adds a register.
    pub const fn insert(&mut self, register: Register) {
        self.0 |= Self::one(register).0;
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

    /// In the order of [`Register::number`].
    #[must_use]
    pub fn iter(self) -> Registers {
        Registers(self.0)
    }
}

/// The registers of a set.
#[derive(Clone, Debug)]
pub struct Registers(u128);

impl Iterator for Registers {
    type Item = Register;

    fn next(&mut self) -> Option<Register> {
        if self.0 == 0 {
            return None;
        }
        let number = self.0.trailing_zeros() as u8;
        self.0 &= self.0 - 1;
        Some(Register::of_number(number))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Registers {}

impl IntoIterator for RegisterSet {
    type Item = Register;
    type IntoIter = Registers;

    fn into_iter(self) -> Registers {
        self.iter()
    }
}

impl FromIterator<Register> for RegisterSet {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Self {
        let mut set = Self::EMPTY;
        for register in registers {
            set.insert(register);
        }
        set
    }
}

impl fmt::Debug for RegisterSet {
    /// The names in braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and registers lead to each other, without gaps that stand for nothing.
    #[test]
    fn numbers_name_registers() {
        let files = [
            (Register::General as fn(u8) -> Register, 16),
            (Register::Segment, 6),
            (Register::Control, 9),
            (Register::Debug, 8),
            (Register::X87, 8),
            (Register::Mmx, 8),
            (Register::Xmm, 16),
        ];
        let of_files = files.iter().flat_map(|&(of, count)| (0..count).map(of));
        let unit = (0..32).map(Register::Zmm).chain((0..8).map(Register::Mask));
        let all: Vec<Register> = of_files.chain(SINGLES).chain(unit).collect();
        let set: RegisterSet = all.iter().copied().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), all);
        assert_eq!(set.len() as usize, 125);
    }

    #[test]
    fn sets_print_names() {
        let set: RegisterSet =
            [Register::Xmm(3), Register::general(0x23), Register::X87(7)].into_iter().collect();
        assert_eq!(format!("{set:?}"), "{RBX, ST(7), XMM3}");
        assert_eq!(RegisterSet::range(Register::Mmx(0), 8).len(), 8);
        assert!(!RegisterSet::range(Register::Mmx(0), 8).contains(Register::Xmm(0)));
    }
}
