//! The transcendental instructions on the register stack.

use super::Fpu;
use super::status::C2;
use crate::softfloat::{F80, Reduction};

/// The transcendental instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transcendental {
    /// F2XM1: `2^ST(0) - 1`.
    Exp2Minus1,
    /// FYL2X: `ST(1) * log2(ST(0))`, and a pop.
    YLog2X,
    /// FYL2XP1: `ST(1) * log2(ST(0) + 1)`, and a pop.
    YLog2XPlus1,
    /// FPTAN: the tangent of ST(0), then one is pushed.
    Tangent,
    /// FPATAN: the angle of the point (ST(0), ST(1)), and a pop.
    Arctangent,
    /// FSIN.
    Sine,
    /// FCOS.
    Cosine,
    /// FSINCOS: the sine of ST(0), then the cosine is pushed.
    SineAndCosine,
}

impl Fpu {
    /// F2XM1 to FSINCOS.
    pub fn transcendental(&mut self, op: Transcendental) {
        match op {
            Transcendental::Exp2Minus1 => self.exp2_minus_1(),
            Transcendental::YLog2X | Transcendental::YLog2XPlus1 | Transcendental::Arctangent => {
                self.of_two(op);
            }
            Transcendental::Sine | Transcendental::Cosine => self.sine_or_cosine(op),
            Transcendental::Tangent | Transcendental::SineAndCosine => self.pushing(op),
        }
    }

    fn exp2_minus_1(&mut self) {
        let mut cx = self.begin();
        let Some(a) = self.get(0) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            return;
        };
        let result = a.exp2_minus_1(&mut cx);
        if self.finish(&cx) {
            self.set(0, result);
        }
    }

    fn of_two(&mut self, op: Transcendental) {
        let mut cx = self.begin();
        let (Some(x), Some(y)) = (self.get(0), self.get(1)) else {
            if self.stack_fault(false) {
                self.set(1, F80::INDEFINITE);
                self.pop();
            }
            return;
        };
        let result = match op {
            Transcendental::YLog2X => x.y_log2_x(y, &mut cx),
            Transcendental::YLog2XPlus1 => x.y_log2_x_plus_1(y, &mut cx),
            _ => x.arctangent(y, &mut cx),
        };
        if self.finish(&cx) {
            self.set(1, result);
            self.pop();
        }
    }

    fn sine_or_cosine(&mut self, op: Transcendental) {
        let mut cx = self.begin();
        self.status &= !C2;
        let Some(a) = self.get(0) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            return;
        };
        let result = if op == Transcendental::Sine { a.sine(&mut cx) } else { a.cosine(&mut cx) };
        self.reduce(result, &cx, |fpu, value| fpu.set(0, value));
    }

    fn pushing(&mut self, op: Transcendental) {
        let mut cx = self.begin();
        self.status &= !C2;
        let source = self.get(0);
        let full = self.is_full();
        let Some(a) = source.filter(|_| !full) else {
            if self.stack_fault(source.is_some()) {
                self.set(0, F80::INDEFINITE);
                self.push(F80::INDEFINITE);
            }
            return;
        };
        if op == Transcendental::Tangent {
            let result = a.tangent(&mut cx);
            self.reduce(result, &cx, |fpu, value| {
                fpu.set(0, value);
                // A NaN is handed on twice.
                let nan = value.class().is_nan();
                fpu.push(if nan { value } else { F80::ONE });
            });
        } else {
            let result = a.sine_and_cosine(&mut cx);
            self.reduce(result, &cx, |fpu, (sine, cosine)| {
                fpu.set(0, sine);
                fpu.push(cosine);
            });
        }
    }

    /// Delivers a result, or sets C2 when the operand was too large to be reduced.
    fn reduce<T>(
        &mut self,
        result: Reduction<T>,
        cx: &crate::softfloat::Context,
        deliver: impl FnOnce(&mut Self, T),
    ) {
        match result {
            Reduction::Done(value) => {
                if self.finish(cx) {
                    deliver(self, value);
                }
            }
            Reduction::OutOfRange => self.status |= C2,
        }
    }
}
