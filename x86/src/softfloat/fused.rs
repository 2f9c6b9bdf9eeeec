//! Multiplication and addition with one rounding (IEEE 754-2008, section 5.4.1, fusedMultiplyAdd), for single
//! and double precision.
//!
//! The product is exact in 128 bits, twice the significand's width at most, with room below it for the lowest
//! bit to be sticky: where the sum cancels, what is aligned is shifted by so little that nothing is lost.

use super::binary::{
    admit, bias, indefinite, infinity, is_nan, is_signaling, quiet_bit, round_pack, sign_bit,
    unpack,
};
use super::{Context, IE, Rounding};

/// `x * y + z` in single precision, rounded once. The first NaN of the three wins, made quiet.
#[must_use]
pub fn f32_mul_add(x: u32, y: u32, z: u32, cx: &mut Context) -> u32 {
    mul_add::<8, 23>(u64::from(x), u64::from(y), u64::from(z), cx) as u32
}

/// `x * y + z` in double precision, rounded once; as [`f32_mul_add`].
#[must_use]
pub fn f64_mul_add(x: u64, y: u64, z: u64, cx: &mut Context) -> u64 {
    mul_add::<11, 52>(x, y, z, cx)
}

/// The position of the leading one of a significand here.
const TOP: i32 = 126;

/// A finite number that is not zero: `sig * 2^(exp - bias - TOP)`.
#[derive(Clone, Copy)]
struct Term {
    negative: bool,
    exp: i32,
    sig: u128,
}

impl Term {
    /// With the leading one of `sig` where it belongs.
    fn normalized(self) -> Self {
        let shift = self.sig.leading_zeros() as i32 - (127 - TOP);
        let sig = if shift < 0 { jam(self.sig, 1) } else { self.sig << shift };
        Self { sig, exp: self.exp - shift, ..self }
    }
}

/// Shifts right; what falls off leaves its trace in bit 0.
fn jam(sig: u128, count: u32) -> u128 {
    match count {
        0 => sig,
        1..=127 => sig >> count | u128::from(sig << (128 - count) != 0),
        _ => u128::from(sig != 0),
    }
}

fn mul_add<const E: u32, const F: u32>(x: u64, y: u64, z: u64, cx: &mut Context) -> u64 {
    let sign = sign_bit::<E, F>();
    let infinity = infinity::<E, F>();
    if let Some(&nan) = [x, y, z].iter().find(|&&value| is_nan::<E, F>(value)) {
        if [x, y, z].into_iter().any(is_signaling::<E, F>) {
            cx.raise(IE);
        }
        return nan | quiet_bit::<F>();
    }
    let flags = cx.flags;
    let [x, y, z] = [x, y, z].map(|value| admit::<E, F>(value, cx));
    let magnitude = |value: u64| value & !sign;
    let product_sign = (x ^ y) & sign;
    let infinite_product = magnitude(x) == infinity || magnitude(y) == infinity;
    let zero_product = magnitude(x) == 0 || magnitude(y) == 0;
    if infinite_product && zero_product
        || infinite_product && magnitude(z) == infinity && z & sign != product_sign
    {
        cx.flags = flags;
        cx.raise(IE);
        return indefinite::<E, F>();
    }
    if infinite_product {
        return product_sign | infinity;
    }
    if magnitude(z) == infinity {
        return z;
    }
    let addend = (magnitude(z) != 0).then(|| {
        let (exp, sig) = unpack::<E, F>(magnitude(z));
        Term { negative: z & sign != 0, exp, sig: u128::from(sig) << (TOP - 62) }
    });
    let product = (!zero_product).then(|| {
        let (exp_x, sig_x) = unpack::<E, F>(magnitude(x));
        let (exp_y, sig_y) = unpack::<E, F>(magnitude(y));
        // Leading ones in bit 62 each: that of the product is in bit 124 or 125.
        let sig = u128::from(sig_x) * u128::from(sig_y);
        let exp = exp_x + exp_y - bias::<E>() + (TOP - 124);
        Term { negative: product_sign != 0, exp, sig }.normalized()
    });
    let sum = match (product, addend) {
        (None, None) if z & sign == product_sign => return product_sign,
        (None, None) => return zero_of_cancellation::<E, F>(cx),
        (Some(term), None) | (None, Some(term)) => term,
        (Some(product), Some(addend)) => match add(product, addend) {
            Some(sum) => sum,
            None => return zero_of_cancellation::<E, F>(cx),
        },
    };
    let sig = jam(sum.sig, (TOP - 62) as u32) as u64;
    round_pack::<E, F>(sum.negative, sum.exp, sig, cx)
}

/// The zero that is the sum of what cancels.
fn zero_of_cancellation<const E: u32, const F: u32>(cx: &Context) -> u64 {
    if cx.rounding == Rounding::Down { sign_bit::<E, F>() } else { 0 }
}

/// The sum of two terms; `None` if it is zero.
fn add(a: Term, b: Term) -> Option<Term> {
    let (large, small) = if (a.exp, a.sig) >= (b.exp, b.sig) { (a, b) } else { (b, a) };
    let aligned = jam(small.sig, (large.exp - small.exp) as u32);
    let sig =
        if large.negative == small.negative { large.sig + aligned } else { large.sig - aligned };
    (sig != 0).then(|| Term { sig, ..large }.normalized())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::softfloat::{DE, OE, PE, UE};

    /// A xorshift generator.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        /// An encoding with `exponent` and `fraction` bits: exponents from all of the range, its ends and its
        /// middle, fractions with runs of zeros and ones.
        fn operand(&mut self, exponent: u32, fraction: u32) -> u64 {
            let (choice, raw) = (self.next() >> 40, self.next());
            let max = (1u64 << exponent) - 1;
            let exp = match choice & 7 {
                0 => 0,
                1 => max - 1 - (raw >> 60),
                2..=4 => (max >> 1) - 8 + (raw >> 60),
                5 => (max >> 2) + (raw >> 59),
                _ => (raw >> 40) % max,
            };
            let bits = self.next() & ((1 << fraction) - 1);
            let place = (choice >> 8) % u64::from(fraction);
            let run = (1 << place) - 1;
            let bits = match choice >> 3 & 3 {
                0 => bits & !run,
                1 => bits | run,
                _ => bits,
            };
            (self.next() >> 63) << (exponent + fraction) | exp << fraction | bits
        }

        /// Three operands, of which the third often cancels most of the product.
        fn operands(
            &mut self,
            exponent: u32,
            fraction: u32,
            product: fn(u64, u64) -> u64,
        ) -> [u64; 3] {
            let (x, y) = (self.operand(exponent, fraction), self.operand(exponent, fraction));
            let z = match self.next() >> 62 {
                0 => product(x, y) ^ 1 << (exponent + fraction) ^ self.next() >> 62,
                _ => self.operand(exponent, fraction),
            };
            [x, y, z]
        }
    }

    fn single_product(x: u64, y: u64) -> u64 {
        (f32::from_bits(x as u32) * f32::from_bits(y as u32)).to_bits().into()
    }

    fn double_product(x: u64, y: u64) -> u64 {
        (f64::from_bits(x) * f64::from_bits(y)).to_bits()
    }

    const ROUNDS: u64 = 3_000_000;

    #[test]
    fn single_equals_the_standard_library() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..ROUNDS {
            let [x, y, z] = random.operands(8, 23, single_product).map(|bits| bits as u32);
            let want = f32::from_bits(x).mul_add(f32::from_bits(y), f32::from_bits(z));
            let got = f32::from_bits(f32_mul_add(x, y, z, &mut Context::default()));
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{x:x} * {y:x} + {z:x}: {got:?} and not {want:?}");
        }
    }

    #[test]
    fn double_equals_the_standard_library() {
        let mut random = Random(0x1234_5678_9abc_def1);
        for _ in 0..ROUNDS {
            let [x, y, z] = random.operands(11, 52, double_product);
            let want = f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(z));
            let got = f64::from_bits(f64_mul_add(x, y, z, &mut Context::default()));
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{x:x} * {y:x} + {z:x}: {got:?} and not {want:?}");
        }
    }

    fn in_mode(rounding: Rounding, x: u32, y: u32, z: u32) -> (u32, u8) {
        let mut cx = Context { rounding, ..Context::default() };
        (f32_mul_add(x, y, z, &mut cx), cx.flags)
    }

    /// A result in another direction is that to the nearest or its neighbour: the two that enclose the exact
    /// value, which is where PE is set; and mirrored operands round in mirrored directions.
    #[test]
    fn directed_results_enclose_the_nearest() {
        let sign = 1u32 << 31;
        let order = |a: u32| if a & sign != 0 { -i64::from(a & !sign) } else { i64::from(a) };
        let mut random = Random(0xdead_beef_0123_4567);
        let mut inexact = 0;
        for _ in 0..300_000 {
            let [x, y, z] = random.operands(8, 23, single_product).map(|bits| bits as u32);
            let nearest = in_mode(Rounding::Nearest, x, y, z);
            let down = in_mode(Rounding::Down, x, y, z);
            let up = in_mode(Rounding::Up, x, y, z);
            let zero = in_mode(Rounding::Zero, x, y, z);
            let mirrored = in_mode(Rounding::Up, x ^ sign, y, z ^ sign);
            assert_eq!(down.0 ^ sign, mirrored.0, "{x:x} {y:x} {z:x}");
            let (low, high) = (order(down.0), order(up.0));
            if nearest.1 & PE == 0 {
                // A zero that is a sum of what cancels has the sign of the direction.
                assert!(low == high && order(nearest.0) == low, "{x:x} {y:x} {z:x}");
                continue;
            }
            inexact += 1;
            assert_eq!(high - low, 1, "{x:x} {y:x} {z:x}");
            assert!([down.0, up.0].contains(&nearest.0));
            let toward_zero = if low >= 0 && down.0 & sign == 0 { down.0 } else { up.0 };
            assert_eq!(zero.0, toward_zero, "{x:x} {y:x} {z:x}");
        }
        assert!(inexact > 100_000);
    }

    /// By hand. (1 + 2^-23)^2 = 1 + 2^-22 + 2^-46: the last term is all that is left behind the sum with
    /// -(1 + 2^-22), and would be lost in two roundings.
    #[test]
    fn rounds_once() {
        let just_above_one = 0x3f80_0001;
        let result = in_mode(Rounding::Nearest, just_above_one, just_above_one, 0xbf80_0002);
        assert_eq!(result, ((127 - 46) << 23, 0));
    }

    #[test]
    fn special_values_and_flags() {
        const ONE: u32 = 0x3f80_0000;
        const INFINITY: u32 = 0x7f80_0000;
        const SIGN: u32 = 1 << 31;
        let nearest = |x, y, z| in_mode(Rounding::Nearest, x, y, z);
        // Infinity times zero, and infinity less infinity: the default NaN.
        assert_eq!(nearest(INFINITY, 0, ONE), (0xffc0_0000, IE));
        assert_eq!(nearest(INFINITY, ONE, INFINITY | SIGN), (0xffc0_0000, IE));
        assert_eq!(nearest(INFINITY, ONE, INFINITY), (INFINITY, 0));
        // A quiet NaN hides the product; a signalling one anywhere is invalid, and the first wins.
        assert_eq!(nearest(INFINITY, 0, 0x7fc0_0005), (0x7fc0_0005, 0));
        assert_eq!(nearest(0x7fc0_0001, ONE, 0x7f80_0002), (0x7fc0_0001, IE));
        assert_eq!(nearest(ONE, 0xff80_0003, 0x7fc0_0005), (0xffc0_0003, IE));
        // Zeros: -0 only of -0 and -0, or rounding down.
        assert_eq!(nearest(0, SIGN | ONE, 0), (0, 0));
        assert_eq!(nearest(0, SIGN | ONE, SIGN), (SIGN, 0));
        assert_eq!(nearest(ONE, ONE, SIGN | ONE), (0, 0));
        assert_eq!(in_mode(Rounding::Down, ONE, ONE, SIGN | ONE), (SIGN, 0));
        // The largest number times two overflows; the smallest denormal is one operand, and half of it tiny.
        assert_eq!(nearest(0x7f7f_ffff, 0x4000_0000, 0), (INFINITY, OE | PE));
        assert_eq!(nearest(1, 0x3f00_0000, 0), (0, DE | UE | PE));
        let mut daz = Context { daz: true, ..Context::default() };
        assert_eq!(f32_mul_add(1, ONE, ONE, &mut daz), ONE);
        assert_eq!(daz.flags, 0);
        // 2^-127 exactly, flushed.
        let mut ftz = Context { ftz: true, ..Context::default() };
        assert_eq!(f32_mul_add(0x0080_0000, 0x3f00_0000, 0, &mut ftz), 0);
        assert_eq!(ftz.flags, UE | PE);
    }
}
