//! What a table of instruction timings says about one form of an instruction.

use crate::state::{State, Visitor};

/// Clocks and pairing of one form of an instruction, with all its code and data in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Clocks in the execution stage when it executes alone. For an instruction that repeats, those it
    /// takes with a count of zero.
    pub clocks: u16,
    /// Clocks for each iteration of REP.
    pub per_iteration: u16,
    /// Which pipes it may take when it pairs.
    pub pairing: Pairing,
    /// Which unit computes its result.
    pub unit: Unit,
    /// It executes from microcode.
    pub microcode: bool,
}

/// Which pipes an instruction may take when it pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// It executes in the U pipe, alone.
    Never,
    /// It may be the first of a pair.
    U,
    /// It may be the second of a pair.
    V,
    /// It may be either.
    UV,
    /// It may be the first of a pair whose second is FXCH.
    WithExchange,
    /// It is FXCH, and may be the second behind [`Pairing::WithExchange`].
    Exchange,
}

/// Which unit computes the result of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The integer units: the result is there when the execution stage is left.
    Integer,
    /// The x87 unit.
    X87(X87),
    /// The MMX unit.
    Mmx(Mmx),
    /// The vector unit.
    Vector(Vector),
}

/// How long an instruction occupies the x87 unit, from when it begins to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct X87 {
    /// Clocks until its result can be used.
    pub result: u16,
    /// Clocks until another x87 instruction can begin.
    pub busy: u16,
    /// It occupies the multiplier, which takes two clocks for each multiplication.
    pub multiplies: bool,
    /// Its operands have to be there a clock before it begins.
    pub operand_early: bool,
    /// By how many clocks both are shorter at single and at double precision.
    pub shorter: [u16; 2],
}

/// How long an instruction occupies the vector unit, from when it begins to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Clocks until its result can be used.
    pub result: u16,
    /// Clocks until another instruction of the vector unit can begin.
    pub busy: u16,
    /// It gathers or scatters: it takes addresses from a vector.
    pub gathers: bool,
}

/// The parts of the MMX unit of which there is only one, or that have rules of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mmx {
    /// Arithmetic and logic, of which there are two, and moves.
    Alu,
    /// The shifter: shifts, packs and unpacks.
    Shifter,
    /// The multiplier.
    Multiplier,
    /// EMMS.
    Empty,
}

impl Timing {
    /// An instruction of the integer units.
    #[must_use]
    pub const fn integer(clocks: u16, pairing: Pairing) -> Self {
        Self { clocks, per_iteration: 0, pairing, unit: Unit::Integer, microcode: false }
    }

    /// An instruction that executes from microcode.
    #[must_use]
    pub const fn microcode(clocks: u16) -> Self {
        Self { microcode: true, ..Self::integer(clocks, Pairing::Never) }
    }

    /// An instruction that is repeated by REP, from microcode.
    #[must_use]
    pub const fn repeated(clocks: u16, per_iteration: u16) -> Self {
        Self { per_iteration, ..Self::microcode(clocks) }
    }

    /// An x87 instruction as Agner Fog's tables have it: clocks until it is finished, and how many of
    /// them can overlap with integer and with x87 instructions behind it.
    #[must_use]
    pub const fn x87(
        clocks: u16,
        integer_overlap: u16,
        x87_overlap: u16,
        pairing: Pairing,
    ) -> Self {
        let unit = X87 {
            result: clocks,
            busy: clocks - x87_overlap,
            multiplies: false,
            operand_early: false,
            shorter: [0; 2],
        };
        Self { unit: Unit::X87(unit), ..Self::integer(clocks - integer_overlap, pairing) }
    }

    /// An MMX instruction.
    #[must_use]
    pub const fn mmx(part: Mmx, pairing: Pairing) -> Self {
        Self { unit: Unit::Mmx(part), ..Self::integer(1, pairing) }
    }

    /// An instruction of the vector unit, which begins another in the next clock; its own result can be used
    /// after so many.
    #[must_use]
    pub const fn vector(result: u16, pairing: Pairing) -> Self {
        let unit = Vector { result, busy: 1, gathers: false };
        Self { unit: Unit::Vector(unit), ..Self::integer(1, pairing) }
    }

    /// The same instruction of the vector unit, which begins another after so many clocks.
    #[must_use]
    pub const fn occupying(self, busy: u16) -> Self {
        let Unit::Vector(unit) = self.unit else { return self };
        Self { unit: Unit::Vector(Vector { busy, ..unit }), ..self }
    }

    /// The same instruction of the vector unit, with addresses from a vector.
    #[must_use]
    pub const fn gathering(self) -> Self {
        let Unit::Vector(unit) = self.unit else { return self };
        Self { unit: Unit::Vector(Vector { gathers: true, ..unit }), ..self }
    }

    /// The same x87 instruction in the multiplier.
    #[must_use]
    pub const fn multiplying(self) -> Self {
        self.with_x87(true, false, [0; 2])
    }

    /// The same x87 instruction, whose operand has to be there a clock before it begins.
    #[must_use]
    pub const fn operand_early(self) -> Self {
        self.with_x87(false, true, [0; 2])
    }

    /// The same x87 instruction, shorter at single and at double precision by so many clocks.
    #[must_use]
    pub const fn shorter(self, single: u16, double: u16) -> Self {
        self.with_x87(false, false, [single, double])
    }

    const fn with_x87(self, multiplies: bool, operand_early: bool, shorter: [u16; 2]) -> Self {
        let Unit::X87(unit) = self.unit else { return self };
        Self { unit: Unit::X87(X87 { multiplies, operand_early, shorter, ..unit }), ..self }
    }

    /// Whether it is an instruction of the x87 unit.
    #[must_use]
    pub const fn is_x87(&self) -> bool {
        matches!(self.unit, Unit::X87(_))
    }

    /// Whether it is an MMX instruction.
    #[must_use]
    pub const fn is_mmx(&self) -> bool {
        matches!(self.unit, Unit::Mmx(_))
    }

    /// Whether it is an instruction of the vector unit.
    #[must_use]
    pub const fn is_vector(&self) -> bool {
        matches!(self.unit, Unit::Vector(_))
    }
}

crate::state! {
    Timing { saved: clocks, per_iteration, pairing, unit, microcode; then: check; }
}
crate::state! { Pairing: Never, U, V, UV, WithExchange, Exchange }
crate::state! { X87 { saved: result, busy, multiplies, operand_early, shorter; then: check; } }
crate::state! { Vector { saved: result, busy, gathers; } }
crate::state! { Mmx: Alu, Shifter, Multiplier, Empty }

impl Timing {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.clocks != 0);
    }
}

impl X87 {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        let shortest = self.result.min(self.busy);
        visitor.check(self.shorter.iter().all(|&shorter| shorter <= shortest));
    }
}

/// A number for the unit, and behind it what its instruction is there.
impl State for Unit {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut number: u8 = match self {
            Self::Integer => 0,
            Self::X87(_) => 1,
            Self::Mmx(_) => 2,
            Self::Vector(_) => 3,
        };
        number.visit(visitor);
        if V::LOADS {
            *self = match number {
                1 => Timing::x87(1, 0, 0, Pairing::Never).unit,
                2 => Self::Mmx(Mmx::Alu),
                3 => Timing::vector(1, Pairing::Never).unit,
                _ => Self::Integer,
            };
            visitor.check(number <= 3);
        }
        match self {
            Self::Integer => {}
            Self::X87(x87) => x87.visit(visitor),
            Self::Mmx(mmx) => mmx.visit(visitor),
            Self::Vector(vector) => vector.visit(visitor),
        }
    }
}
