//! Numbers with 128-bit significands, for the insides of the transcendental functions.
//!
//! Results are truncated, so each operation loses at most one unit in the 128th bit; 64 bits are
//! wanted in the end.

use super::Context;
use super::extended::{BIAS, F80, round_pack_to};

/// `sig * 2^(exp - 127)` with the leading one of `sig` in bit 127; zero if `sig` is.
#[derive(Clone, Copy)]
pub(super) struct Wide {
    pub(super) negative: bool,
    pub(super) exp: i32,
    pub(super) sig: u128,
}

/// One, as a fixed-point number with one integer bit.
pub(super) const FIXED_ONE: u128 = 1 << 127;

/// The high half of the product.
pub(super) const fn mul_high(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let (high, cross1, cross2, low) = (a1 * b1, a1 * b0, a0 * b1, a0 * b0);
    let middle = (low >> 64) + (cross1 & LOW) + (cross2 & LOW);
    high + (cross1 >> 64) + (cross2 >> 64) + (middle >> 64)
}

impl Wide {
    pub(super) const ZERO: Self = Self { negative: false, exp: 0, sig: 0 };
    pub(super) const ONE: Self = Self { negative: false, exp: 0, sig: FIXED_ONE };

    /// A finite number.
    pub(super) const fn from_f80(a: F80) -> Self {
        if a.frac == 0 {
            return Self::ZERO;
        }
        let (exp, sig) = a.unpack();
        Self { negative: a.is_negative(), exp: exp - BIAS, sig: (sig as u128) << 64 }
    }

    /// `value * 2^scale`.
    pub(super) const fn from_fixed(negative: bool, value: u128, scale: i32) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let shift = value.leading_zeros();
        Self { negative, exp: scale + 127 - shift as i32, sig: value << shift }
    }

    pub(super) const fn from_i32(value: i32) -> Self {
        Self::from_fixed(value < 0, value.unsigned_abs() as u128, 0)
    }

    /// The magnitude, which must be below one, as a fixed-point number without integer bits.
    pub(super) const fn fraction(self) -> u128 {
        let shift = -1 - self.exp;
        if self.exp < 0 && shift < 128 { self.sig >> shift } else { 0 }
    }

    pub(super) const fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    pub(super) const fn with_sign(self, negative: bool) -> Self {
        Self { negative, ..self }
    }

    pub(super) const fn mul(self, rhs: Self) -> Self {
        if self.sig == 0 || rhs.sig == 0 {
            return Self::ZERO;
        }
        let product = mul_high(self.sig, rhs.sig);
        let shift = product.leading_zeros();
        Self {
            negative: self.negative != rhs.negative,
            exp: self.exp + rhs.exp + 1 - shift as i32,
            sig: product << shift,
        }
    }

    /// The quotient; the divisor must not be zero.
    pub(super) fn div(self, rhs: Self) -> Self {
        if self.sig == 0 {
            return Self::ZERO;
        }
        let mut exp = self.exp - rhs.exp;
        let (mut rest, mut quotient, mut carry) = (self.sig, 0u128, false);
        if rest < rhs.sig {
            exp -= 1;
            carry = true;
            rest <<= 1;
        }
        for _ in 0..128 {
            quotient <<= 1;
            if carry || rest >= rhs.sig {
                rest = rest.wrapping_sub(rhs.sig);
                quotient |= 1;
            }
            carry = rest >> 127 != 0;
            rest <<= 1;
        }
        Self { negative: self.negative != rhs.negative, exp, sig: quotient }
    }

    pub(super) const fn add(self, rhs: Self) -> Self {
        if self.sig == 0 {
            return rhs;
        }
        if rhs.sig == 0 {
            return self;
        }
        let swap = rhs.exp > self.exp || rhs.exp == self.exp && rhs.sig > self.sig;
        let (large, small) = if swap { (rhs, self) } else { (self, rhs) };
        let distance = (large.exp - small.exp) as u32;
        let aligned = if distance < 128 { small.sig >> distance } else { 0 };
        if large.negative != small.negative {
            return Self::from_fixed(large.negative, large.sig - aligned, large.exp - 127);
        }
        let (sum, carry) = large.sig.overflowing_add(aligned);
        if carry {
            Self { negative: large.negative, exp: large.exp + 1, sig: sum >> 1 | FIXED_ONE }
        } else {
            Self { negative: large.negative, exp: large.exp, sig: sum }
        }
    }

    /// Rounds to double extended precision; `inexact` when the value is itself an approximation.
    pub(super) fn round(self, inexact: bool, cx: &mut Context) -> F80 {
        if self.sig == 0 {
            return F80::ZERO.with_sign(self.negative);
        }
        round_pack_to(64, self.negative, self.exp + BIAS, self.sig | u128::from(inexact), cx)
    }
}
