//! What is out of the ordinary about the numbers of an x87 operation, for who counts that.

use super::status::{ES, EXCEPTIONS};
use super::{Fpu, MemoryFormat, Source};
use crate::float_cases::FloatCases;
use crate::softfloat::{Class, PRE_COMPUTATION};

impl Fpu {
    /// Performs an operation that computes with `operands` and leaves a result in what is now
    /// ST(`result`). What is out of the ordinary about them.
    pub(super) fn observe<R>(
        &mut self,
        operands: &[Source],
        result: Option<u8>,
        operation: impl FnOnce(&mut Self) -> R,
    ) -> (R, FloatCases) {
        let is_special = |operand: &Source| {
            self.source(*operand).is_some_and(|operand| {
                !matches!(operand.value.class(), Class::Zero | Class::Normal | Class::Denormal)
            })
        };
        let special = operands.iter().any(is_special);
        let result = result.map(|i| self.physical(i));
        let (outcome, raised) = self.raising(operation);
        let delivered = u16::from(raised & PRE_COMPUTATION) & !self.control == 0;
        let is_denormal = result.is_some_and(|n| self.st[n].class() == Class::Denormal);
        let cases = FloatCases::of_flags(raised)
            .with(FloatCases::SPECIAL_OPERAND, special)
            .with(FloatCases::TINY_RESULT, delivered && is_denormal);
        (outcome, cases)
    }

    /// Performs an operation. The exceptions that it raises, masked or not, those too that are flagged
    /// already.
    fn raising<R>(&mut self, operation: impl FnOnce(&mut Self) -> R) -> (R, u8) {
        let (flagged, ferr) = (self.status & EXCEPTIONS, self.ferr);
        self.status &= !EXCEPTIONS;
        let outcome = operation(self);
        let raised = (self.status & EXCEPTIONS) as u8;
        self.status |= flagged;
        self.summarize();
        self.ferr = ferr && self.status & ES != 0;
        (outcome, raised)
    }
}

impl MemoryFormat {
    /// Whether a number that was stored in this format, which is narrower than the register, is denormal.
    pub(super) fn is_denormal(self, bytes: [u8; 10]) -> bool {
        let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = bytes;
        match self {
            Self::Single => f32::from_le_bytes([b0, b1, b2, b3]).is_subnormal(),
            Self::Double => f64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]).is_subnormal(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::softfloat::F80;
    use crate::x87::{Arith, Transcendental, Unary};

    /// What a unit executes.
    type Operation = fn(&mut Fpu);

    const OPERATIONS: [Operation; 12] = [
        |fpu| fpu.arith(Arith::Add, 0, Source::St(1), true),
        |fpu| fpu.arith(Arith::Mul, 1, Source::St(0), false),
        |fpu| fpu.arith(Arith::Div, 0, Source::Single(1), false),
        |fpu| fpu.arith(Arith::Sub, 0, Source::Double(1 << 51), false),
        |fpu| fpu.compare(Source::St(1), false, 2),
        |fpu| fpu.unary(Unary::Sqrt),
        |fpu| fpu.transcendental(Transcendental::Exp2Minus1),
        |fpu| fpu.transcendental(Transcendental::SineAndCosine),
        |fpu| fpu.load(MemoryFormat::Single, [1; 10]),
        |fpu| fpu.load(MemoryFormat::Int32, [1; 10]),
        |fpu| _ = fpu.store(MemoryFormat::Single, false, true),
        Fpu::scale,
    ];

    /// An operation that is observed leaves the unit as one that is not, whatever was flagged, masked and
    /// reported before; and raises what it flags in a unit in which nothing is flagged.
    #[test]
    fn observing_changes_nothing() {
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random >> 11
        };
        let mut flagged = 0;
        for _ in 0..40_000 {
            let mut before = Fpu::default();
            for n in 0..8 {
                let exponent = [0, 0, 1, 0x3FFF, 0x3F80, 0x7FFE, 0x7FFF][next() as usize % 7];
                let integer = u64::from(exponent != 0) << 63;
                before.st[n] = F80::new(exponent, integer | next() & next());
            }
            before.set_control_word(next() as u16);
            before.set_status_word(next() as u16);
            before.valid = (next() | next()) as u8;
            before.ferr = before.pending_exception() && next() & 1 == 0;
            let operation = OPERATIONS[next() as usize % OPERATIONS.len()];
            let mut expected = before;
            operation(&mut expected);
            let mut observed = before;
            let ((), raised) = observed.raising(operation);
            assert_eq!(observed, expected);
            let mut clear = before;
            clear.clear_exceptions();
            operation(&mut clear);
            assert_eq!(u16::from(raised), clear.status & EXCEPTIONS);
            flagged += u64::from(raised != 0);
        }
        assert!(flagged > 10_000, "{flagged}");
    }
}
