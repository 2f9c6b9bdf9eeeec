//! The transcendental functions of the x87, by power series on 128-bit significands.
//!
//! The results are those of the exact functions, rounded once, but for the few operands where 110
//! bits do not decide the rounding. FSIN, FCOS, FSINCOS and FPTAN reduce their operand with a pi of
//! 66 bits, as the hardware does (Intel SDM volume 1, section 8.3.8).

use super::extended::{
    Class, F80, invalid, nan_or_unsupported, nan_or_unsupported_one, note_denormals,
};
use super::wide::{FIXED_ONE, Wide, mul_high};
use super::{Context, DE, PE, UE, ZE};

/// What FSIN, FCOS, FSINCOS and FPTAN come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction<T> {
    /// The result.
    Done(T),
    /// The operand's magnitude is 2^63 or more: nothing is computed, C2 is set.
    OutOfRange,
}

/// Pi in units of 2^-126.
const PI: Wide = Wide { negative: false, exp: 1, sig: 0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1 };
const HALF_PI: Wide = Wide { exp: 0, ..PI };
const QUARTER_PI: Wide = Wide { exp: -1, ..PI };
/// ln(2).
const LN_2: Wide =
    Wide { negative: false, exp: -1, sig: 0xB172_17F7_D1CF_79AB_C9E3_B398_03F2_F6AF };
/// 2 / ln(2).
const TWO_LOG2_E: Wide =
    Wide { negative: false, exp: 1, sig: 0xB8AA_3B29_5C17_F0BB_BE87_FED0_691D_3E89 };
/// Half of the 66-bit pi, in units of 2^-65.
const REDUCTION_HALF_PI: u128 = 0x3_243F_6A88_85A3_08D3;
/// The arc tangents of 0/16 to 16/16 in units of 2^-128.
const ARCTANGENTS: [u128; 17] = [
    0x0000_0000_0000_0000_0000_0000_0000_0000,
    0x0FFA_ADDB_967E_F4E3_6CB2_792D_C0E2_E0D5,
    0x1FD5_BA9A_AC2F_6DC6_5912_F313_E7D1_11DF,
    0x2F72_F697_9CB6_044D_1EC2_D3E2_0727_1D22,
    0x3EB6_EBF2_5901_BAC5_5B71_E7BD_7DE8_85F9,
    0x4D89_DCDC_1FAF_2F34_E2D5_DA4C_693D_7994,
    0x5BD8_6507_937B_C239_C551_9091_6E7F_2242,
    0x6993_BB0F_308F_F2DB_213E_4AF4_800F_389B,
    0x76B1_9C15_86ED_3DA2_B7F2_22F6_5E1D_4682,
    0x832B_F4A6_D986_7E2A_4B6A_09CB_61A5_15C1,
    0x8F00_5D5E_F7F5_9F9B_5C83_5E16_65C4_3748,
    0x9A2F_80E6_71BD_DA20_4226_F8E2_204F_F3BD,
    0xA4BC_7D19_34F7_0924_19A8_7F2A_457D_AC9F,
    0xAEAC_4C38_B4D8_C080_1472_5E2F_3E52_070A,
    0xB805_3E2B_C231_9E73_CB2D_A552_10A4_443D,
    0xC0CE_85B8_AC52_6640_89DD_62C4_6E92_FA25,
    0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1,
];

impl F80 {
    /// `2^self - 1` for operands from -1 to 1 (F2XM1). Beyond, where the manuals leave the result
    /// undefined, the operand itself.
    #[must_use]
    pub fn exp2_minus_1(self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported_one(self, cx) {
            return special;
        }
        match self.class() {
            Class::Zero => return self,
            Class::Infinity if self.is_negative() => return Self::ONE.negated(),
            Class::Infinity => return self,
            Class::Denormal => cx.raise(DE),
            _ => {}
        }
        let x = Wide::from_f80(self);
        if x.exp >= 0 {
            cx.raise(PE);
            let is_one = self.abs() == Self::ONE;
            return if is_one && self.is_negative() { Self::new(0xBFFE, 1 << 63) } else { self };
        }
        exp_minus_1(x.mul(LN_2)).round(true, cx)
    }

    /// `y * log2(self)` (FYL2X).
    #[must_use]
    pub fn y_log2_x(self, y: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, y, cx) {
            return special;
        }
        let (class_x, class_y) = (self.class(), y.class());
        let sign_y = y.is_negative();
        if self.is_negative() && class_x != Class::Zero {
            return invalid(cx);
        }
        match (class_x, class_y) {
            (Class::Zero, Class::Zero) | (Class::Infinity, Class::Zero) => return invalid(cx),
            (Class::Zero, Class::Infinity) => return Self::INFINITY.with_sign(!sign_y),
            (Class::Zero, _) => {
                cx.raise(ZE);
                return Self::INFINITY.with_sign(!sign_y);
            }
            (_, Class::Infinity) if self == Self::ONE => return invalid(cx),
            _ => note_denormals(class_x, class_y, cx),
        }
        let below_one = self.sign_exp < 0x3FFF;
        match (class_x, class_y) {
            (Class::Infinity, _) | (_, Class::Infinity) => {
                Self::INFINITY.with_sign(sign_y != below_one)
            }
            (_, Class::Zero) => Self::ZERO.with_sign(sign_y != below_one),
            _ if self == Self::ONE => Self::ZERO.with_sign(sign_y),
            _ => {
                let (log, exact) = log2(Wide::from_f80(self));
                let result = Wide::from_f80(y).mul(log).round(!exact, cx);
                // The hardware takes no result for exact, not even those of powers of two.
                cx.raise(if result.class() == Class::Denormal { PE | UE } else { PE });
                result
            }
        }
    }

    /// `y * log2(self + 1)` (FYL2XP1). The domain is `|self| < 1 - sqrt(1/2)`; beyond, where the
    /// manuals leave the result undefined, the same function as far as it exists.
    #[must_use]
    pub fn y_log2_x_plus_1(self, y: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, y, cx) {
            return special;
        }
        let (class_x, class_y) = (self.class(), y.class());
        let sign = self.is_negative() != y.is_negative();
        match (class_x, class_y) {
            (Class::Zero, Class::Infinity) | (Class::Infinity, Class::Zero) => return invalid(cx),
            (Class::Infinity, _) if self.is_negative() => return invalid(cx),
            _ => note_denormals(class_x, class_y, cx),
        }
        match (class_x, class_y) {
            (Class::Infinity, _) | (_, Class::Infinity) => return Self::INFINITY.with_sign(sign),
            (Class::Zero, _) | (_, Class::Zero) => return Self::ZERO.with_sign(sign),
            _ => {}
        }
        let x = Wide::from_f80(self);
        let log = if x.exp <= -2 {
            log2_near_one(x)
        } else {
            let sum = x.add(Wide::ONE);
            if sum.negative || sum.sig == 0 {
                return invalid(cx);
            }
            log2(sum).0
        };
        Wide::from_f80(y).mul(log).round(true, cx)
    }

    /// The angle of the point `(self, y)`, from -pi to pi (FPATAN).
    #[must_use]
    pub fn arctangent(self, y: Self, cx: &mut Context) -> Self {
        if let Some(special) = nan_or_unsupported(self, y, cx) {
            return special;
        }
        let (class_x, class_y) = (self.class(), y.class());
        let (left, sign) = (self.is_negative(), y.is_negative());
        note_denormals(class_x, class_y, cx);
        let angle = match (class_x, class_y) {
            (Class::Infinity, Class::Infinity) if left => HALF_PI.add(QUARTER_PI),
            (Class::Infinity, Class::Infinity) => QUARTER_PI,
            (_, Class::Infinity) => HALF_PI,
            (_, Class::Zero) | (Class::Infinity, _) if left => PI,
            (_, Class::Zero) | (Class::Infinity, _) => return Self::ZERO.with_sign(sign),
            (Class::Zero, _) => HALF_PI,
            _ => {
                let x = Wide::from_f80(self.abs());
                let y = Wide::from_f80(y.abs());
                let steep = y.exp > x.exp || y.exp == x.exp && y.sig > x.sig;
                let angle = if steep {
                    HALF_PI.add(arctangent(x.div(y)).negated())
                } else {
                    arctangent(y.div(x))
                };
                if left { PI.add(angle.negated()) } else { angle }
            }
        };
        angle.with_sign(sign).round(true, cx)
    }

    /// The sine (FSIN).
    #[must_use]
    pub fn sine(self, cx: &mut Context) -> Reduction<Self> {
        self.trigonometric(cx, |angle, cx| match angle {
            None => self,
            Some(angle) => angle.sine().round(true, cx),
        })
    }

    /// The cosine (FCOS).
    #[must_use]
    pub fn cosine(self, cx: &mut Context) -> Reduction<Self> {
        self.trigonometric(cx, |angle, cx| match angle {
            None => Self::ONE,
            Some(angle) => angle.cosine().round(true, cx),
        })
    }

    /// Sine and cosine (FSINCOS).
    #[must_use]
    pub fn sine_and_cosine(self, cx: &mut Context) -> Reduction<(Self, Self)> {
        let sine = self.sine(cx);
        match (sine, self.cosine(cx)) {
            (Reduction::Done(sine), Reduction::Done(cosine)) => Reduction::Done((sine, cosine)),
            _ => Reduction::OutOfRange,
        }
    }

    /// The tangent (FPTAN).
    #[must_use]
    pub fn tangent(self, cx: &mut Context) -> Reduction<Self> {
        self.trigonometric(cx, |angle, cx| match angle {
            None => self,
            Some(angle) => angle.tangent().round(true, cx),
        })
    }

    /// Sorts out special operands; a zero comes to `function` as `None`.
    fn trigonometric(
        self,
        cx: &mut Context,
        function: impl FnOnce(Option<Angle>, &mut Context) -> Self,
    ) -> Reduction<Self> {
        if let Some(special) = nan_or_unsupported_one(self, cx) {
            return Reduction::Done(special);
        }
        match self.class() {
            Class::Infinity => return Reduction::Done(invalid(cx)),
            Class::Zero => return Reduction::Done(function(None, cx)),
            Class::Denormal => cx.raise(DE),
            _ => {}
        }
        match Angle::reduce(self) {
            Some(angle) => Reduction::Done(function(Some(angle), cx)),
            None => Reduction::OutOfRange,
        }
    }
}

/// An angle as `quadrant * pi/2 + rest`, the rest from -pi/4 to pi/4.
#[derive(Clone, Copy)]
struct Angle {
    quadrant: u8,
    rest: Wide,
}

impl Angle {
    /// Exact modulo the 66-bit pi. `None` from 2^63.
    fn reduce(a: F80) -> Option<Self> {
        let x = Wide::from_f80(a);
        if x.exp >= 63 {
            return None;
        }
        if x.exp < -2 {
            return Some(Self { quadrant: 0, rest: x });
        }
        // In units of 2^-65 the operand is an integer of at most 128 bits.
        let units = x.sig >> 64 << (x.exp + 2);
        let mut quadrant = (units / REDUCTION_HALF_PI) as u8;
        let mut rest = units % REDUCTION_HALF_PI;
        let mut negative = false;
        if rest > REDUCTION_HALF_PI / 2 {
            rest = REDUCTION_HALF_PI - rest;
            negative = true;
            quadrant = quadrant.wrapping_add(1);
        }
        if x.negative {
            quadrant = quadrant.wrapping_neg();
            negative = !negative;
        }
        Some(Self { quadrant: quadrant & 3, rest: Wide::from_fixed(negative, rest, -65) })
    }

    fn sine(self) -> Wide {
        let value =
            if self.quadrant & 1 == 0 { sine_series(self.rest) } else { cosine_series(self.rest) };
        if self.quadrant & 2 == 0 { value } else { value.negated() }
    }

    fn cosine(self) -> Wide {
        Self { quadrant: self.quadrant + 1, ..self }.sine()
    }

    fn tangent(self) -> Wide {
        // The tangent of a tiny angle is a little more than the angle, which the caller's rounding
        // knows of an inexact value; sine by cosine would be a little less.
        if self.quadrant & 1 == 0 && self.rest.exp < -64 {
            self.rest
        } else {
            self.sine().div(self.cosine())
        }
    }
}

/// `x - x^3/3! + x^5/5! ...` for `|x| <= pi/4`.
fn sine_series(x: Wide) -> Wide {
    let square = x.mul(x).fraction();
    let factor = (1..=16u128)
        .rev()
        .fold(FIXED_ONE, |factor, k| FIXED_ONE - mul_high(square, factor) / (2 * k * (2 * k + 1)));
    x.mul(below_one(factor))
}

/// `1 - x^2/2! + x^4/4! ...` for `|x| <= pi/4`.
fn cosine_series(x: Wide) -> Wide {
    let square = x.mul(x).fraction();
    let value = (1..=16u128)
        .rev()
        .fold(FIXED_ONE, |factor, k| FIXED_ONE - mul_high(square, factor) / (2 * k * (2 * k - 1)));
    below_one(value)
}

/// A factor that is less than one even where the difference has vanished, so that directed
/// rounding still goes the right way.
fn below_one(factor: u128) -> Wide {
    Wide::from_fixed(false, factor.min(FIXED_ONE - 1), -127)
}

/// `e^x - 1` for `|x| <= ln(2)`: `x (1 + x/2 (1 + x/3 (...)))`.
fn exp_minus_1(x: Wide) -> Wide {
    let magnitude = x.fraction();
    let factor = (2..=34u128).rev().fold(FIXED_ONE, |factor, k| {
        let term = mul_high(magnitude, factor) / k;
        if x.negative { FIXED_ONE - term } else { FIXED_ONE + term }
    });
    x.mul(Wide::from_fixed(false, factor, -127))
}

/// The binary logarithm of a positive number, and whether it is exact.
fn log2(x: Wide) -> (Wide, bool) {
    if x.sig == FIXED_ONE {
        return (Wide::from_i32(x.exp), true);
    }
    // Between sqrt(1/2) and sqrt(2) the series converges best.
    let above = x.sig > 0xB504_F333_F9DE_6484_597D_89B3_754A_BE9F;
    let mantissa = Wide { exp: if above { -1 } else { 0 }, ..x };
    let whole = Wide::from_i32(x.exp + i32::from(above));
    (whole.add(log2_near_one(mantissa.add(Wide::ONE.negated()))), false)
}

/// `log2(1 + x)` as `2/ln(2) * artanh(x / (2 + x))`.
fn log2_near_one(x: Wide) -> Wide {
    const TWO: Wide = Wide { exp: 1, ..Wide::ONE };
    let ratio = x.div(x.add(TWO));
    let square = ratio.mul(ratio).fraction();
    let factor =
        (0..=28u128).rev().fold(0, |factor, k| FIXED_ONE / (2 * k + 1) + mul_high(square, factor));
    ratio.mul(Wide::from_fixed(false, factor, -127)).mul(TWO_LOG2_E)
}

/// The arc tangent of a number from 0 to 1: that of the nearest sixteenth, and a short series.
fn arctangent(x: Wide) -> Wide {
    let sixteenths = if x.exp >= 0 { 16 } else { (x.fraction() >> 123).div_ceil(2) as usize };
    let center = Wide::from_fixed(false, sixteenths as u128, -4);
    let rest = x.add(center.negated()).div(Wide::ONE.add(x.mul(center)));
    let square = rest.mul(rest).fraction();
    let factor = (0..=13u128)
        .rev()
        .fold(0, |factor, k| (FIXED_ONE / (2 * k + 1)).wrapping_sub(mul_high(square, factor)));
    let base = ARCTANGENTS.get(sixteenths).copied().unwrap_or(0);
    Wide::from_fixed(false, base, -128).add(rest.mul(below_one(factor)))
}
