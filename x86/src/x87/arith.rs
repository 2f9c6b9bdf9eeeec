//! Arithmetic, comparison and the operations on ST(0) alone.

use super::Fpu;
use super::status::{C0, C1, C2, C3, CONDITIONS};
use crate::softfloat::{Class, Context, DE, F80, IE, Relation, ZE};

/// The six basic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Arith {
    /// FADD, FIADD.
    Add,
    /// FMUL, FIMUL.
    Mul,
    /// FSUB, FISUB: destination minus source.
    Sub,
    /// FSUBR, FISUBR: source minus destination.
    SubReverse,
    /// FDIV, FIDIV: destination by source.
    Div,
    /// FDIVR, FIDIVR: source by destination.
    DivReverse,
}

/// Where the second operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// ST(i).
    St(u8),
    /// A single in memory.
    Single(u32),
    /// A double in memory.
    Double(u64),
    /// A 16- or 32-bit integer in memory; or a constant.
    Integer(i32),
}

/// Operations on ST(0) alone that cannot leave the stack's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unary {
    /// FSQRT.
    Sqrt,
    /// FRNDINT.
    RoundToInteger,
    /// FABS.
    Abs,
    /// FCHS.
    ChangeSign,
}

/// A value read for an operation.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) value: F80,
    /// The memory operand was denormal; widened it no longer is.
    denormal: bool,
}

impl Operand {
    /// Raises DE for a denormal memory operand, unless a NaN, an invalid operation or a division by
    /// zero takes precedence.
    fn note(self, other: F80, cx: &mut Context) {
        let hidden =
            matches!(other.class(), Class::QuietNan | Class::SignalingNan | Class::Unsupported);
        if self.denormal && !hidden && cx.flags & (IE | ZE) == 0 {
            cx.flags |= DE;
        }
    }
}

impl Fpu {
    pub(super) fn source(&self, source: Source) -> Option<Operand> {
        let (value, denormal) = match source {
            Source::St(i) => (self.get(i)?, false),
            Source::Single(bits) => F80::widen_f32(bits),
            Source::Double(bits) => F80::widen_f64(bits),
            Source::Integer(value) => (F80::from_i64(value.into()), false),
        };
        Some(Operand { value, denormal })
    }

    /// FADD to FDIVR in all forms: `ST(dst) = ST(dst) op source`, then a pop if asked for.
    pub fn arith(&mut self, op: Arith, dst: u8, source: Source, pop: bool) {
        let mut cx = self.begin();
        let (Some(a), Some(operand)) = (self.get(dst), self.source(source)) else {
            if self.stack_fault(false) {
                self.set(dst, F80::INDEFINITE);
                if pop {
                    self.pop();
                }
            }
            return;
        };
        let b = operand.value;
        let result = match op {
            Arith::Add => a.add(b, &mut cx),
            Arith::Mul => a.mul(b, &mut cx),
            Arith::Sub => a.sub(b, &mut cx),
            Arith::SubReverse => b.sub(a, &mut cx),
            Arith::Div => a.div(b, &mut cx),
            Arith::DivReverse => b.div(a, &mut cx),
        };
        operand.note(a, &mut cx);
        if self.finish(&cx) {
            self.set(dst, result);
            if pop {
                self.pop();
            }
        }
    }

    /// FCOM, FUCOM (`quiet`), FICOM and FTST (zero as source), with `pops` pops: the relation of
    /// ST(0) to the source in C3, C2 and C0.
    pub fn compare(&mut self, source: Source, quiet: bool, pops: u8) {
        let (relation, deliver) = self.relation(source, quiet);
        let conditions = match relation {
            Relation::Greater => 0,
            Relation::Less => C0,
            Relation::Equal => C3,
            Relation::Unordered => C3 | C2 | C0,
        };
        self.status = self.status & !(C3 | C2 | C0) | conditions;
        if deliver {
            for _ in 0..pops {
                self.pop();
            }
        }
    }

    /// FCOMI, FUCOMI (`quiet`) and their popping forms: the relation of ST(0) to ST(i) for ZF, PF
    /// and CF, which are written even if an exception is unmasked.
    pub fn compare_flags(&mut self, i: u8, quiet: bool, pop: bool) -> Relation {
        let c1 = self.status & C1;
        let (relation, deliver) = self.relation(Source::St(i), quiet);
        if self.get(0).is_some() && self.get(i).is_some() {
            // Without a stack fault these leave C1 alone.
            self.status |= c1;
        }
        if deliver && pop {
            self.pop();
        }
        relation
    }

    /// The relation, and whether no unmasked exception forbids to pop.
    fn relation(&mut self, source: Source, quiet: bool) -> (Relation, bool) {
        let mut cx = self.begin();
        let (Some(a), Some(operand)) = (self.get(0), self.source(source)) else {
            return (Relation::Unordered, self.stack_fault(false));
        };
        let relation = a.compare(operand.value, !quiet, &mut cx);
        operand.note(a, &mut cx);
        (relation, self.finish(&cx))
    }

    /// FSQRT, FRNDINT, FABS, FCHS.
    pub fn unary(&mut self, op: Unary) {
        let mut cx = self.begin();
        let Some(a) = self.get(0) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            return;
        };
        let result = match op {
            Unary::Sqrt => a.sqrt(&mut cx),
            Unary::RoundToInteger => a.round_to_integer(&mut cx),
            Unary::Abs => a.abs(),
            Unary::ChangeSign => a.negated(),
        };
        if self.finish(&cx) {
            self.set(0, result);
        }
    }

    /// FSCALE: ST(0) times two to the power of the integer part of ST(1).
    pub fn scale(&mut self) {
        let mut cx = self.begin();
        let (Some(a), Some(b)) = (self.get(0), self.get(1)) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            return;
        };
        let result = a.scale(b, &mut cx);
        if self.finish(&cx) {
            self.set(0, result);
        }
    }

    /// FPREM, or FPREM1 if `nearest`: one step of ST(0) modulo ST(1). C2 tells that more steps are
    /// needed; else C0, C3 and C1 are bits 2, 1 and 0 of the quotient.
    pub fn remainder(&mut self, nearest: bool) {
        let mut cx = self.begin();
        let (Some(a), Some(b)) = (self.get(0), self.get(1)) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            self.status &= !C2;
            return;
        };
        let result = a.remainder(b, nearest, &mut cx);
        self.status &= !C2;
        if !self.finish(&cx) {
            return;
        }
        if result.value.class().is_nan() {
            self.set(0, result.value);
            return;
        }
        let mut conditions = if result.partial { C2 } else { 0 };
        for (bit, condition) in [(4, C0), (2, C3), (1, C1)] {
            if result.quotient & bit != 0 {
                conditions |= condition;
            }
        }
        self.status = self.status & !CONDITIONS | conditions;
        self.set(0, result.value);
    }

    /// FXAM: the class of ST(0) in C3, C2 and C0, its sign in C1, also of an empty register.
    pub fn examine(&mut self) {
        let n = self.physical(0);
        let value = self.st[n];
        let conditions = match value.class() {
            _ if self.get(0).is_none() => C3 | C0,
            Class::Unsupported => 0,
            Class::QuietNan | Class::SignalingNan => C0,
            Class::Normal => C2,
            Class::Infinity => C2 | C0,
            Class::Zero => C3,
            Class::Denormal => C3 | C2,
        };
        let sign = if value.is_negative() { C1 } else { 0 };
        self.status = self.status & !CONDITIONS | conditions | sign;
    }

    /// FXTRACT: ST(0) becomes its exponent, and its significand is pushed.
    pub fn extract(&mut self) {
        let mut cx = self.begin();
        let source = self.get(0);
        let full = self.is_full();
        let Some(a) = source.filter(|_| !full) else {
            if self.stack_fault(source.is_some()) {
                self.set(0, F80::INDEFINITE);
                self.push(F80::INDEFINITE);
            }
            return;
        };
        let (exponent, significand) = a.extract(&mut cx);
        if self.finish(&cx) {
            self.set(0, exponent);
            self.push(significand);
        }
    }
}
