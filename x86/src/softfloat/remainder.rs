//! The x87 operations that take numbers apart: FPREM, FPREM1, FRNDINT, FSCALE, FXTRACT.

use super::convert::round_integer;
use super::extended::{
    BIAS, Class, F80, invalid, nan_or_unsupported, nan_or_unsupported_one, note_denormals,
    round_pack_to, shift_right_jam,
};
use super::{Context, DE, PE, ZE};

/// The outcome of one step of FPREM or FPREM1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The remainder, or the partial one.
    pub value: F80,
    /// The low three bits of the quotient (C0, C3, C1 from the highest to the lowest).
    pub quotient: u8,
    /// The reduction is not complete (C2).
    pub partial: bool,
}

impl F80 {
    /// One step of `self` modulo `rhs`: with the quotient rounded to nearest (FPREM1) or toward
    /// zero (FPREM). The result is exact. When the exponents are 64 or more apart one step
    /// reduces the difference by 32 to 63 (AMD64 APM volume 5, FPREM).
    #[must_use]
    pub fn remainder(self, rhs: Self, nearest: bool, cx: &mut Context) -> Remainder {
        let done = |value| Remainder { value, quotient: 0, partial: false };
        if let Some(special) = nan_or_unsupported(self, rhs, cx) {
            return done(special);
        }
        let (class_a, class_b) = (self.class(), rhs.class());
        if class_a == Class::Infinity || class_b == Class::Zero {
            return done(invalid(cx));
        }
        note_denormals(class_a, class_b, cx);
        if class_a == Class::Zero || cx.faulted() {
            return done(self);
        }
        if class_b == Class::Infinity {
            // When the modulus is infinite, "the result is equal to the value in ST(0)" (Intel SDM
            // volume 2, FPREM): no underflow. A pseudo-denormal becomes the normal number it is.
            let pseudo = class_a == Class::Denormal && self.frac >> 63 != 0;
            return done(Self::new(self.sign_exp | u16::from(pseudo), self.frac));
        }
        let sign = self.is_negative();
        let (exp_a, sig_a) = self.unpack();
        let (exp_b, sig_b) = rhs.unpack();
        let distance = exp_a - exp_b;
        if distance < -1 || distance < 0 && !nearest {
            return done(round_pack_to(64, sign, exp_a, u128::from(sig_a) << 64, cx));
        }
        let partial = distance >= 64;
        let step = if partial { 32 + distance % 32 } else { distance };
        // At a distance of -1 the quotient is 0 before rounding, and all is counted in units of
        // the dividend's last place.
        let (unit, divisor) = if distance < 0 {
            (exp_a, u128::from(sig_b) << 1)
        } else {
            (exp_b + distance - step, u128::from(sig_b))
        };
        let dividend = u128::from(sig_a) << step.max(0);
        let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
        let mut sign = sign;
        if nearest && !partial {
            let twice = rest << 1;
            if twice > divisor || twice == divisor && quotient & 1 != 0 {
                rest = divisor - rest;
                quotient += 1;
                sign = !sign;
            }
        }
        let value = if rest == 0 {
            F80::ZERO.with_sign(self.is_negative())
        } else {
            let shift = rest.leading_zeros();
            round_pack_to(64, sign, unit + 64 - shift as i32, rest << shift, cx)
        };
        Remainder { value, quotient: if partial { 0 } else { (quotient & 7) as u8 }, partial }
    }

    /// Rounded to an integer in the same format (FRNDINT).
    #[must_use]
    pub fn round_to_integer(self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported_one(self, cx) {
            return special;
        }
        match self.class() {
            Class::Zero | Class::Infinity => return self,
            Class::Denormal => cx.raise(DE),
            _ => {}
        }
        let (exp, sig) = self.unpack();
        let exp = exp - BIAS;
        if exp >= 63 {
            return self;
        }
        let magnitude = if exp >= -1 {
            u128::from(sig) << (exp + 1)
        } else {
            shift_right_jam(u128::from(sig), (-1 - exp) as u32)
        };
        let (value, inexact) = round_integer(self.is_negative(), magnitude, cx.rounding);
        if inexact {
            cx.raise(PE);
            cx.rounded_up = value.unsigned_abs() > magnitude >> 64;
        }
        // A value that rounds to zero keeps its sign.
        Self::from_magnitude(value.unsigned_abs() as u64).with_sign(self.is_negative())
    }

    /// `self * 2^n`, with `n` the integer part of `rhs` (FSCALE).
    #[must_use]
    pub fn scale(self, rhs: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, rhs, cx) {
            return special;
        }
        let (class_a, class_b) = (self.class(), rhs.class());
        let sign = self.is_negative();
        if class_b == Class::Infinity {
            return match (class_a, rhs.is_negative()) {
                (Class::Zero, false) | (Class::Infinity, true) => invalid(cx),
                (_, false) => {
                    note_denormals(class_a, class_b, cx);
                    Self::INFINITY.with_sign(sign)
                }
                (_, true) => {
                    note_denormals(class_a, class_b, cx);
                    Self::ZERO.with_sign(sign)
                }
            };
        }
        note_denormals(class_a, class_b, cx);
        if matches!(class_a, Class::Zero | Class::Infinity) {
            return self;
        }
        let (exp, sig) = self.unpack();
        let by = rhs.saturating_integer();
        round_pack_to(64, sign, exp + by, u128::from(sig) << 64, cx)
    }

    /// The integer part, limited to what takes any number out of range.
    fn saturating_integer(self) -> i32 {
        if self.frac == 0 {
            return 0;
        }
        let (exp, sig) = self.unpack();
        let exp = exp - BIAS;
        let magnitude = match exp {
            ..0 => 0,
            0..=15 => (sig >> (63 - exp)) as i32,
            _ => 0x1_0000,
        };
        if self.is_negative() { -magnitude } else { magnitude }
    }

    /// Exponent, as a number, and significand (FXTRACT).
    #[must_use]
    pub fn extract(self, cx: &mut Context) -> (Self, Self) {
        if let Some(special) = nan_or_unsupported_one(self, cx) {
            return (special, special);
        }
        match self.class() {
            Class::Zero => {
                cx.raise(ZE);
                return (Self::INFINITY.negated(), self);
            }
            Class::Infinity => return (Self::INFINITY, self),
            Class::Denormal => cx.raise(DE),
            _ => {}
        }
        let (exp, sig) = self.unpack();
        let significand = Self::new(BIAS as u16, sig).with_sign(self.is_negative());
        (Self::from_i64(i64::from(exp - BIAS)), significand)
    }
}
