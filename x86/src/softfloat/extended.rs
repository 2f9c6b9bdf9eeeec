//! Double extended precision with the semantics of the x87 instructions.
//!
//! Inside an operation a finite number that is not zero is `sig * 2^(exp - 16383 - 63)` with the
//! leading one of `sig` in bit 63; results go to rounding with the leading one in bit 127 of a
//! `u128`, the lowest bit sticky.

use super::{Context, DE, IE, OE, PE, Precision, Relation, Rounding, UE, ZE};

pub(super) const SIGN: u16 = 0x8000;
pub(super) const MAX_EXP: u16 = 0x7FFF;
pub(super) const BIAS: i32 = 0x3FFF;
pub(super) const INTEGER_BIT: u64 = 1 << 63;
const QUIET_BIT: u64 = 1 << 62;
/// What an unmasked overflow takes off the exponent, and an unmasked underflow adds to it.
const WRAP: i32 = 24576;

/// A double extended precision encoding: sign, 15-bit biased exponent, and a 64-bit significand
/// with an explicit integer bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct F80 {
    /// Sign (bit 15) and biased exponent (bits 14:0).
    pub sign_exp: u16,
    /// Significand; bit 63 is the integer bit.
    pub frac: u64,
}

/// What an encoding stands for (AMD64 APM volume 1, table 6-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Positive or negative zero.
    Zero,
    /// A normal number.
    Normal,
    /// A denormal or pseudo-denormal number.
    Denormal,
    /// Positive or negative infinity.
    Infinity,
    /// A quiet NaN.
    QuietNan,
    /// A signaling NaN.
    SignalingNan,
    /// An unnormal, pseudo-NaN or pseudo-infinity: an invalid operand since the 387.
    Unsupported,
}

impl Class {
    /// True for quiet and signaling NaNs.
    #[must_use]
    pub const fn is_nan(self) -> bool {
        matches!(self, Self::QuietNan | Self::SignalingNan)
    }
}

impl F80 {
    /// Positive zero.
    pub const ZERO: Self = Self::new(0, 0);
    /// One.
    pub const ONE: Self = Self::new(0x3FFF, INTEGER_BIT);
    /// Positive infinity.
    pub const INFINITY: Self = Self::new(MAX_EXP, INTEGER_BIT);
    /// The real indefinite, the answer to masked invalid operations.
    pub const INDEFINITE: Self = Self::new(SIGN | MAX_EXP, INTEGER_BIT | QUIET_BIT);

    /// The encoding with these two fields.
    #[must_use]
    pub const fn new(sign_exp: u16, frac: u64) -> Self {
        Self { sign_exp, frac }
    }

    /// The encoding in the ten bytes of a memory operand.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 10]) -> Self {
        let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9] = bytes;
        Self {
            sign_exp: u16::from_le_bytes([b8, b9]),
            frac: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
        }
    }

    /// The ten bytes of a memory operand.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 10] {
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.frac.to_le_bytes();
        let [b8, b9] = self.sign_exp.to_le_bytes();
        [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9]
    }

    /// What the encoding stands for.
    #[must_use]
    pub const fn class(self) -> Class {
        let exp = self.sign_exp & MAX_EXP;
        if exp == 0 {
            return if self.frac == 0 { Class::Zero } else { Class::Denormal };
        }
        if self.frac & INTEGER_BIT == 0 {
            Class::Unsupported
        } else if exp != MAX_EXP {
            Class::Normal
        } else if self.frac == INTEGER_BIT {
            Class::Infinity
        } else if self.frac & QUIET_BIT != 0 {
            Class::QuietNan
        } else {
            Class::SignalingNan
        }
    }

    /// True when the sign bit is set.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.sign_exp & SIGN != 0
    }

    /// The same magnitude with the sign bit clear (FABS).
    #[must_use]
    pub const fn abs(self) -> Self {
        Self::new(self.sign_exp & MAX_EXP, self.frac)
    }

    /// The same magnitude with the sign bit inverted (FCHS).
    #[must_use]
    pub const fn negated(self) -> Self {
        Self::new(self.sign_exp ^ SIGN, self.frac)
    }

    pub(super) const fn with_sign(self, negative: bool) -> Self {
        Self::new(self.sign_exp & MAX_EXP | if negative { SIGN } else { 0 }, self.frac)
    }

    /// Exponent and normalized significand of a finite number that is not zero.
    pub(super) const fn unpack(self) -> (i32, u64) {
        let exp = self.sign_exp & MAX_EXP;
        let exp = if exp == 0 { 1 } else { exp as i32 };
        let shift = self.frac.leading_zeros();
        (exp - shift as i32, self.frac << shift)
    }

    pub(super) const fn quieted(self) -> Self {
        Self::new(self.sign_exp, self.frac | QUIET_BIT)
    }

    /// `self + rhs` (FADD).
    #[must_use]
    pub fn add(self, rhs: Self, cx: &mut Context) -> Self {
        self.add_signed(rhs, false, cx)
    }

    /// `self - rhs` (FSUB; FSUBR with the operands exchanged).
    #[must_use]
    pub fn sub(self, rhs: Self, cx: &mut Context) -> Self {
        self.add_signed(rhs, true, cx)
    }

    fn add_signed(self, rhs: Self, negate: bool, cx: &mut Context) -> Self {
        let (class_a, class_b) = (self.class(), rhs.class());
        if let Some(special) = nan_or_unsupported(self, rhs, cx) {
            return special;
        }
        let (sign_a, sign_b) = (self.is_negative(), rhs.is_negative() != negate);
        match (class_a, class_b) {
            (Class::Infinity, Class::Infinity) if sign_a != sign_b => return invalid(cx),
            _ => note_denormals(class_a, class_b, cx),
        }
        if class_a == Class::Infinity {
            return self;
        }
        if class_b == Class::Infinity {
            return rhs.with_sign(sign_b);
        }
        match (class_a, class_b) {
            (Class::Zero, Class::Zero) => {
                return Self::ZERO.with_sign(if sign_a == sign_b {
                    sign_a
                } else {
                    cx.rounding == Rounding::Down
                });
            }
            (Class::Zero, _) => {
                let (exp, sig) = rhs.unpack();
                return round_pack(sign_b, exp, u128::from(sig) << 64, cx);
            }
            (_, Class::Zero) => {
                let (exp, sig) = self.unpack();
                return round_pack(sign_a, exp, u128::from(sig) << 64, cx);
            }
            _ => {}
        }
        let (mut exp_a, mut sig_a) = self.unpack();
        let (mut exp_b, mut sig_b) = rhs.unpack();
        let mut sign = sign_a;
        if exp_b > exp_a || exp_b == exp_a && sig_b > sig_a {
            (exp_a, sig_a, exp_b, sig_b) = (exp_b, sig_b, exp_a, sig_a);
            sign = sign_b;
        }
        // One bit of room for the carry, 63 guard bits.
        let large = u128::from(sig_a) << 63;
        let small = shift_right_jam(u128::from(sig_b) << 63, (exp_a - exp_b) as u32);
        let sum = if sign_a == sign_b { large + small } else { large - small };
        if sum == 0 {
            return Self::ZERO.with_sign(cx.rounding == Rounding::Down);
        }
        let shift = sum.leading_zeros();
        round_pack(sign, exp_a + 1 - shift as i32, sum << shift, cx)
    }

    /// `self * rhs` (FMUL).
    #[must_use]
    pub fn mul(self, rhs: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, rhs, cx) {
            return special;
        }
        let (class_a, class_b) = (self.class(), rhs.class());
        let sign = self.is_negative() != rhs.is_negative();
        match (class_a, class_b) {
            (Class::Zero, Class::Infinity) | (Class::Infinity, Class::Zero) => return invalid(cx),
            _ => note_denormals(class_a, class_b, cx),
        }
        if class_a == Class::Infinity || class_b == Class::Infinity {
            return Self::INFINITY.with_sign(sign);
        }
        if class_a == Class::Zero || class_b == Class::Zero {
            return Self::ZERO.with_sign(sign);
        }
        let (exp_a, sig_a) = self.unpack();
        let (exp_b, sig_b) = rhs.unpack();
        let product = u128::from(sig_a) * u128::from(sig_b);
        let shift = product.leading_zeros();
        round_pack(sign, exp_a + exp_b - BIAS + 1 - shift as i32, product << shift, cx)
    }

    /// `self / rhs` (FDIV; FDIVR with the operands exchanged).
    #[must_use]
    pub fn div(self, rhs: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, rhs, cx) {
            return special;
        }
        let (class_a, class_b) = (self.class(), rhs.class());
        let sign = self.is_negative() != rhs.is_negative();
        match (class_a, class_b) {
            (Class::Zero, Class::Zero) | (Class::Infinity, Class::Infinity) => return invalid(cx),
            (Class::Infinity, Class::Zero) => return Self::INFINITY.with_sign(sign),
            (_, Class::Zero) => {
                cx.raise(ZE);
                return Self::INFINITY.with_sign(sign);
            }
            _ => note_denormals(class_a, class_b, cx),
        }
        if class_a == Class::Infinity {
            return Self::INFINITY.with_sign(sign);
        }
        if class_b == Class::Infinity || class_a == Class::Zero {
            return Self::ZERO.with_sign(sign);
        }
        let (mut exp_a, sig_a) = self.unpack();
        let (exp_b, sig_b) = rhs.unpack();
        let mut dividend = u128::from(sig_a) << 63;
        if sig_a < sig_b {
            dividend <<= 1;
            exp_a -= 1;
        }
        let divisor = u128::from(sig_b);
        let (high, rest) = (dividend / divisor, dividend % divisor);
        let (low, rest) = ((rest << 64) / divisor, (rest << 64) % divisor);
        let quotient = high << 64 | low | u128::from(rest != 0);
        round_pack(sign, exp_a - exp_b + BIAS, quotient, cx)
    }

    /// The square root (FSQRT).
    #[must_use]
    pub fn sqrt(self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported_one(self, cx) {
            return special;
        }
        match self.class() {
            Class::Zero => return self,
            _ if self.is_negative() => return invalid(cx),
            Class::Infinity => return self,
            Class::Denormal => cx.raise(DE),
            _ => {}
        }
        let (exp, sig) = self.unpack();
        let exp = exp - BIAS;
        let radicand = u128::from(sig) << (63 + (exp & 1));
        let root = radicand.isqrt();
        // The root of an integer is never half-way between two integers.
        let rest = radicand - root * root;
        let low = u128::from(rest > root) << 63 | u128::from(rest != 0);
        round_pack(false, (exp >> 1) + BIAS, root << 64 | low, cx)
    }

    /// How `self` relates to `rhs`. Signaling NaNs and unsupported encodings raise IE; with
    /// `signal_on_qnan` (FCOM, FCOMI, FTST) quiet NaNs do too.
    pub fn compare(self, rhs: Self, signal_on_qnan: bool, cx: &mut Context) -> Relation {
        let (class_a, class_b) = (self.class(), rhs.class());
        let bad = |class| matches!(class, Class::SignalingNan | Class::Unsupported);
        if class_a.is_nan() || class_b.is_nan() || bad(class_a) || bad(class_b) {
            if signal_on_qnan || bad(class_a) || bad(class_b) {
                cx.raise(IE);
            }
            return Relation::Unordered;
        }
        note_denormals(class_a, class_b, cx);
        let rank = |a: Self| {
            // Normalized, a pseudo-denormal equals the normal number of its value.
            let (exp, sig) = if a.frac == 0 { (0, 0) } else { a.unpack() };
            let magnitude = (i128::from(exp) + 64) << 64 | i128::from(sig);
            match a.class() {
                Class::Zero => 0,
                _ if a.is_negative() => -magnitude,
                _ => magnitude,
            }
        };
        match rank(self).cmp(&rank(rhs)) {
            std::cmp::Ordering::Less => Relation::Less,
            std::cmp::Ordering::Equal => Relation::Equal,
            std::cmp::Ordering::Greater => Relation::Greater,
        }
    }
}

/// Raises IE and answers with the real indefinite.
#[cold]
pub(super) fn invalid(cx: &mut Context) -> F80 {
    cx.raise(IE);
    F80::INDEFINITE
}

pub(super) fn note_denormals(a: Class, b: Class, cx: &mut Context) {
    if a == Class::Denormal || b == Class::Denormal {
        cx.raise(DE);
    }
}

/// The answer when an operand is a NaN or an unsupported encoding. Of two NaNs of one kind the
/// larger significand wins, of equal ones the positive; a quiet NaN wins over a signaling one
/// (Intel SDM volume 1, table 4-7).
pub(super) fn nan_or_unsupported(a: F80, b: F80, cx: &mut Context) -> Option<F80> {
    let (class_a, class_b) = (a.class(), b.class());
    if class_a == Class::Unsupported || class_b == Class::Unsupported {
        return Some(invalid(cx));
    }
    if !class_a.is_nan() && !class_b.is_nan() {
        return None;
    }
    if class_a == Class::SignalingNan || class_b == Class::SignalingNan {
        cx.raise(IE);
    }
    let first = match (class_a.is_nan(), class_b.is_nan()) {
        (true, false) => true,
        (false, _) => false,
        _ if class_a != class_b => class_a == Class::QuietNan,
        _ if a.frac != b.frac => a.frac > b.frac,
        _ => !a.is_negative(),
    };
    Some(if first { a.quieted() } else { b.quieted() })
}

/// [`nan_or_unsupported`] for operations with one operand.
pub(super) fn nan_or_unsupported_one(a: F80, cx: &mut Context) -> Option<F80> {
    nan_or_unsupported(a, a, cx)
}

/// Shifts right; what falls off leaves its trace in bit 0.
pub(super) const fn shift_right_jam(sig: u128, count: u32) -> u128 {
    if count == 0 {
        sig
    } else if count < 128 {
        sig >> count | (sig << (128 - count) != 0) as u128
    } else {
        (sig != 0) as u128
    }
}

/// Rounds to the precision of the control word.
pub(super) fn round_pack(sign: bool, exp: i32, sig: u128, cx: &mut Context) -> F80 {
    let bits = match cx.precision {
        Precision::Single => 24,
        Precision::Double => 53,
        Precision::Extended => 64,
    };
    round_pack_to(bits, sign, exp, sig, cx)
}

/// Rounds to `bits` bits and raises OE, UE and PE. An unmasked overflow or underflow wraps the
/// exponent by 24576 (Intel SDM volume 1, sections 8.5.4 and 8.5.5).
pub(super) fn round_pack_to(bits: u32, sign: bool, exp: i32, sig: u128, cx: &mut Context) -> F80 {
    let mask = (1u128 << (128 - bits)) - 1;
    let away = cx.rounding == if sign { Rounding::Down } else { Rounding::Up };
    let add = match cx.rounding {
        Rounding::Nearest => (mask >> 1) + 1,
        _ if away => mask,
        _ => 0,
    };
    let mut exp = exp;
    let mut sig = sig;
    let mut tiny = false;
    if exp <= 0 {
        // Only a number just below the smallest normal one can round out of the tiny range.
        tiny = exp < 0 || sig.checked_add(add).is_some();
        if tiny && !cx.is_masked(UE) {
            cx.raise(UE);
            exp += WRAP;
            tiny = false;
            if exp <= 0 {
                // Only FSCALE gets here: wrapping once does not help.
                cx.raise(PE);
                return F80::ZERO.with_sign(sign);
            }
        } else {
            sig = shift_right_jam(sig, (1 - exp) as u32);
            exp = 0;
        }
    }
    let rest = sig & mask;
    let mut carry = false;
    if rest != 0 {
        cx.raise(if tiny { PE | UE } else { PE });
        let before = sig & !mask;
        (sig, carry) = sig.overflowing_add(add);
        sig &= !mask;
        if cx.rounding == Rounding::Nearest && rest == add {
            sig &= !(mask + 1);
        }
        cx.rounded_up = carry || sig > before;
    }
    let mut frac = (sig >> 64) as u64;
    if carry {
        frac = INTEGER_BIT;
        exp += 1;
    }
    if exp == 0 && frac & INTEGER_BIT != 0 {
        exp = 1;
    }
    if exp >= i32::from(MAX_EXP) {
        let wrapped = exp - WRAP;
        if cx.is_masked(OE) {
            cx.raise(OE | PE);
            cx.rounded_up = add != 0;
            return if add != 0 {
                F80::INFINITY.with_sign(sign)
            } else {
                F80::new(MAX_EXP - 1, (!mask >> 64) as u64).with_sign(sign)
            };
        }
        cx.raise(OE);
        if wrapped >= i32::from(MAX_EXP) {
            // Only FSCALE gets here, as above.
            cx.raise(PE);
            cx.rounded_up = true;
            return F80::INFINITY.with_sign(sign);
        }
        exp = wrapped;
    }
    F80::new(exp as u16, frac).with_sign(sign)
}
