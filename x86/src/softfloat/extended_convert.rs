//! Conversions between double extended precision and the memory formats of the x87 loads and
//! stores.

use super::binary::{bias, indefinite, infinity, is_nan, is_signaling, quiet_bit, sign_bit};
use super::binary::{round_pack, shift_right_jam, unpack};
use super::convert::round_integer;
use super::extended::{BIAS, Class, F80, INTEGER_BIT, MAX_EXP};
use super::{Context, DE, IE, OE, PE, Rounding, UE};

/// The first number that does not fit 18 decimal digits.
const BCD_LIMIT: i128 = 1_000_000_000_000_000_000;
/// The packed decimal indefinite.
const BCD_INDEFINITE: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0xC0, 0xFF, 0xFF];

impl F80 {
    /// The value of a single (FLD m32fp): exact; IE for a signaling NaN, DE for a denormal.
    #[must_use]
    pub fn from_f32(a: u32, cx: &mut Context) -> Self {
        from_binary::<8, 23>(u64::from(a), cx)
    }

    /// The value of a double (FLD m64fp); as [`F80::from_f32`].
    #[must_use]
    pub fn from_f64(a: u64, cx: &mut Context) -> Self {
        from_binary::<11, 52>(a, cx)
    }

    /// The value of a single as an operand: a signaling NaN stays one. Also says whether it was
    /// denormal, which the wider format no longer shows.
    #[must_use]
    pub fn widen_f32(a: u32) -> (Self, bool) {
        widen::<8, 23>(u64::from(a))
    }

    /// The value of a double as an operand; as [`F80::widen_f32`].
    #[must_use]
    pub fn widen_f64(a: u64) -> (Self, bool) {
        widen::<11, 52>(a)
    }

    /// The value of a 64-bit integer (FILD): exact.
    #[must_use]
    pub const fn from_i64(a: i64) -> Self {
        Self::from_magnitude(a.unsigned_abs()).with_sign(a < 0)
    }

    pub(super) const fn from_magnitude(magnitude: u64) -> Self {
        if magnitude == 0 {
            return Self::ZERO;
        }
        let shift = magnitude.leading_zeros();
        Self::new((BIAS + 63) as u16 - shift as u16, magnitude << shift)
    }

    /// The value of a packed decimal (FBLD): 18 digits, sign in bit 79. A digit above 9, for
    /// which the manuals leave the result undefined, counts as the number it is.
    #[must_use]
    pub fn from_bcd(bytes: [u8; 10]) -> Self {
        let [digits @ .., sign] = bytes;
        let magnitude = digits.iter().rev().fold(0u64, |value, byte| {
            value * 100 + u64::from(byte >> 4) * 10 + u64::from(byte & 15)
        });
        Self::from_i64(magnitude as i64).with_sign(sign & 0x80 != 0)
    }

    /// Rounded to a single (FST m32fp).
    #[must_use]
    pub fn to_f32(self, cx: &mut Context) -> u32 {
        to_binary::<8, 23>(self, cx) as u32
    }

    /// Rounded to a double (FST m64fp).
    #[must_use]
    pub fn to_f64(self, cx: &mut Context) -> u64 {
        to_binary::<11, 52>(self, cx)
    }

    /// Rounded to a 16-bit integer (FIST m16int, FISTTP with [`Rounding::Zero`]). NaNs,
    /// unsupported encodings and values out of range give the integer indefinite 8000h and IE.
    #[must_use]
    pub fn to_i16(self, rounding: Rounding, cx: &mut Context) -> i16 {
        self.to_integer(rounding, i128::from(i16::MIN), i128::from(i16::MAX), cx)
            .map_or(i16::MIN, |value| value as i16)
    }

    /// Rounded to a 32-bit integer; as [`F80::to_i16`] with 8000_0000h.
    #[must_use]
    pub fn to_i32(self, rounding: Rounding, cx: &mut Context) -> i32 {
        self.to_integer(rounding, i128::from(i32::MIN), i128::from(i32::MAX), cx)
            .map_or(i32::MIN, |value| value as i32)
    }

    /// Rounded to a 64-bit integer; as [`F80::to_i16`] with 8000_0000_0000_0000h.
    #[must_use]
    pub fn to_i64(self, rounding: Rounding, cx: &mut Context) -> i64 {
        self.to_integer(rounding, i128::from(i64::MIN), i128::from(i64::MAX), cx)
            .map_or(i64::MIN, |value| value as i64)
    }

    /// Rounded to a packed decimal (FBSTP). What does not fit 18 digits gives the packed decimal
    /// indefinite FFFF_C000_0000_0000_0000h and IE.
    #[must_use]
    pub fn to_bcd(self, cx: &mut Context) -> [u8; 10] {
        let Some(value) = self.to_integer(cx.rounding, 1 - BCD_LIMIT, BCD_LIMIT - 1, cx) else {
            return BCD_INDEFINITE;
        };
        let mut rest = value.unsigned_abs() as u64;
        let mut bytes = [0; 10];
        let [digits @ .., sign] = &mut bytes;
        for byte in digits {
            *byte = ((rest % 10) | ((rest / 10 % 10) << 4)) as u8;
            rest /= 100;
        }
        *sign = if self.is_negative() { 0x80 } else { 0 };
        bytes
    }

    /// Rounds to an integer within the bounds, or raises IE.
    fn to_integer(
        self,
        rounding: Rounding,
        min: i128,
        max: i128,
        cx: &mut Context,
    ) -> Option<i128> {
        match self.class() {
            Class::Zero => return Some(0),
            Class::Normal | Class::Denormal => {
                let (exp, sig) = self.unpack();
                let exp = exp - BIAS;
                if exp < 64 {
                    let magnitude = if exp >= -1 {
                        u128::from(sig) << (exp + 1)
                    } else {
                        u128::from(shift_right_jam(sig, (-1 - exp) as u32))
                    };
                    let (value, inexact) = round_integer(self.is_negative(), magnitude, rounding);
                    if (min..=max).contains(&value) {
                        if inexact {
                            cx.raise(PE);
                            cx.rounded_up = value.unsigned_abs() > magnitude >> 64;
                        }
                        return Some(value);
                    }
                }
            }
            _ => {}
        }
        cx.raise(IE);
        None
    }
}

fn from_binary<const E: u32, const F: u32>(a: u64, cx: &mut Context) -> F80 {
    let (value, denormal) = widen::<E, F>(a);
    if is_nan::<E, F>(a) {
        if is_signaling::<E, F>(a) {
            cx.raise(IE);
        }
        return value.quieted();
    }
    if denormal {
        cx.raise(DE);
    }
    value
}

fn widen<const E: u32, const F: u32>(a: u64) -> (F80, bool) {
    let magnitude = a & !sign_bit::<E, F>();
    let denormal = magnitude != 0 && magnitude < 1 << F;
    let value = if magnitude >= infinity::<E, F>() {
        F80::new(MAX_EXP, INTEGER_BIT | (a & ((1 << F) - 1)) << (63 - F))
    } else if magnitude == 0 {
        F80::ZERO
    } else {
        let (exp, sig) = unpack::<E, F>(magnitude);
        F80::new((exp - bias::<E>() + BIAS) as u16, sig << 1)
    };
    (value.with_sign(a != magnitude), denormal)
}

fn to_binary<const E: u32, const F: u32>(a: F80, cx: &mut Context) -> u64 {
    let sign = if a.is_negative() { sign_bit::<E, F>() } else { 0 };
    match a.class() {
        Class::Zero => sign,
        Class::Infinity => sign | infinity::<E, F>(),
        Class::Unsupported => {
            cx.raise(IE);
            indefinite::<E, F>()
        }
        class @ (Class::QuietNan | Class::SignalingNan) => {
            if class == Class::SignalingNan {
                cx.raise(IE);
            }
            let fraction = (a.frac & !INTEGER_BIT) >> (63 - F);
            sign | infinity::<E, F>() | quiet_bit::<F>() | fraction
        }
        Class::Normal | Class::Denormal => {
            let (exp, sig) = a.unpack();
            let exp = exp - BIAS + bias::<E>();
            let flags = cx.flags;
            let result = round_pack::<E, F>(a.is_negative(), exp, shift_right_jam(sig, 1), cx);
            let undelivered = (cx.flags & !flags) & !cx.masks & (OE | UE);
            if undelivered != 0 {
                // Nothing is stored, so nothing was rounded.
                cx.flags = flags | undelivered;
                cx.rounded_up = false;
            }
            result
        }
    }
}
