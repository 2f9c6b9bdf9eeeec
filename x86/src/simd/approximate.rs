//! Reciprocals and reciprocal square roots of few bits.
//!
//! The manuals give bounds for the estimates (RCPPS and RSQRTPS: relative error up to 1.5 * 2^-12;
//! PFRCP: 14 bits, PFRSQRT: 15 bits), not the tables. Here every estimate is the true value rounded
//! to that many fraction bits, computed in integers: within the bounds and the same everywhere.

/// Fraction bits of RCPPS and RSQRTPS.
const SSE_BITS: u32 = 12;

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x0040_0000;
/// The NaN that invalid operations give.
const INDEFINITE: u32 = 0xffc0_0000;

/// A single of positive sign from a biased exponent and a significand of `bits` fraction bits,
/// which rounding may have carried to 2.0. Zero if it is too small to be normal.
fn assemble(exponent: i32, significand: u64, bits: u32) -> u32 {
    let carry = (significand >> (bits + 1)) as i32;
    let exponent = exponent + carry;
    if exponent <= 0 {
        return 0;
    }
    let fraction = if carry != 0 { 0 } else { significand as u32 & ((1 << bits) - 1) };
    (exponent as u32) << 23 | fraction << (23 - bits)
}

/// 1/|a| of a normal number.
pub(super) fn reciprocal(a: u32, bits: u32) -> u32 {
    let exponent = (a >> 23 & 0xff) as i32;
    let significand = u64::from(a & 0x007f_ffff | 0x0080_0000);
    if significand == 0x0080_0000 {
        return assemble(254 - exponent, 1 << bits, bits);
    }
    // 2 / significand, in (1, 2), doubled and rounded.
    let quotient = (1u64 << (25 + bits)) / significand;
    assemble(253 - exponent, (quotient + 1) >> 1, bits)
}

/// 1/sqrt(|a|) of a normal number.
pub(super) fn reciprocal_sqrt(a: u32, bits: u32) -> u32 {
    let exponent = (a >> 23 & 0xff) as i32 - 127;
    let odd = exponent & 1;
    let half = (exponent - odd) / 2;
    let significand = u64::from(a & 0x007f_ffff | 0x0080_0000) << odd;
    if significand == 0x0080_0000 {
        return assemble(127 - half, 1 << bits, bits);
    }
    // 2 / sqrt(significand), in (1, 2), doubled and rounded.
    let root = ((1u64 << (2 * bits + 27)) / significand).isqrt();
    assemble(126 - half, (root + 1) >> 1, bits)
}

/// A lane of RCPPS: denormals count as zero, and so do results that would be denormal.
pub(super) fn reciprocal_single(a: u32) -> u32 {
    let sign = a & SIGN;
    match a & !SIGN {
        0..0x0080_0000 => sign | INFINITY,
        INFINITY => sign,
        magnitude if magnitude > INFINITY => a | QUIET,
        magnitude => sign | reciprocal(magnitude, SSE_BITS),
    }
}

/// A lane of RSQRTPS: denormals count as zero.
pub(super) fn reciprocal_sqrt_single(a: u32) -> u32 {
    let sign = a & SIGN;
    match a & !SIGN {
        0..0x0080_0000 => sign | INFINITY,
        magnitude if magnitude > INFINITY => a | QUIET,
        _ if sign != 0 => INDEFINITE,
        INFINITY => 0,
        magnitude => reciprocal_sqrt(magnitude, SSE_BITS),
    }
}
