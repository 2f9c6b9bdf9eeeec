//! Seeded randomness, and values that are worth more than random ones.

use crate::{
    catalogue::Element,
    float::{F32, Format},
};

/// A linear congruential step and an output permutation: small, seeded, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x9e37_79b9_7f4a_7c15);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        let x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ x >> 29
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 8) % n
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A number whose exponent is near that of its neighbours, so that sums cancel and round.
    fn ordinary(&mut self, f: Format) -> u64 {
        let fraction = self.next() & (f.hidden() - 1);
        let fraction = match self.below(4) {
            // Few bits: results that are exact, or half way between two.
            0 => fraction & self.next() & self.next() & self.next(),
            1 => fraction & !(f.hidden() >> self.below(u64::from(f.precision))).wrapping_sub(1),
            2 => fraction | (f.hidden() >> self.below(u64::from(f.precision))).wrapping_sub(1),
            _ => fraction,
        };
        let spread = self.pick(&[1, 4, 30, 2 * i64::from(f.precision)]);
        let exponent = self.below(spread as u64 * 2 + 1) as i64 - spread;
        let biased = (i64::from(1 - f.least) + exponent) as u64;
        biased << (f.precision - 1) | fraction & (f.hidden() - 1)
    }

    /// A floating-point number, special ones often.
    pub(crate) fn float(&mut self, f: Format) -> u64 {
        let fraction = self.next() & (f.hidden() - 1);
        let magnitude = match self.below(16) {
            0 => 0,
            1 => f.infinity(),
            2 => f.infinity() | fraction.max(1),
            3 => f.infinity() | f.quiet() | fraction,
            // Denormals, and what is near the least normal number.
            4 => fraction,
            5 => self.pick(&[1, 2, f.hidden() - 1, f.hidden(), f.hidden() + 1]),
            6 => fraction | (f.hidden() * (1 + self.below(3))),
            // Near the greatest number.
            7 => f.infinity() - 1 - (fraction & self.pick(&[0, 1, 0xff, f.hidden() - 1])),
            8 => f.infinity() - f.hidden() * (1 + self.below(3)) + fraction,
            // Halves of the exponent range: products overflow and underflow.
            9 => self.pick(&[f.one() / 2, f.one() / 2 + f.infinity() / 2]) + fraction,
            // Integers about the limits of integer types.
            10 => {
                let exponent = self.pick(&[7u64, 8, 14, 15, 16, 24, 31, 32, 33]);
                f.one() + (exponent << (f.precision - 1)) - self.below(3)
            }
            11 => f.one() + self.below(5) - 2,
            12 => self.next() & (f.sign() - 1),
            _ => self.ordinary(f),
        };
        magnitude | f.zero(self.next() & 1 != 0)
    }

    /// A 32-bit integer, special ones often.
    pub(crate) fn integer(&mut self) -> u64 {
        let value = match self.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => 0x7fff_ffff,
            3 => 0x8000_0000,
            4 => 1 << self.below(32),
            5 => self.below(70),
            6 => self.below(300).wrapping_sub(150),
            7 => self.pick(&[0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000]),
            8 => self.pick(&[0u64, 0x7f, 0x80, 0x8000, 0x7fff]).wrapping_neg(),
            _ => self.next(),
        };
        value & 0xffff_ffff
    }

    /// A mask register.
    pub(crate) fn mask(&mut self) -> u16 {
        let any = self.next() as u16;
        match self.below(8) {
            0 => 0,
            1 | 2 => 0xffff,
            3 => 1 << self.below(16),
            4 => self.pick(&[0xff, 0xff00, 0x5555, 0xaaaa, 0x7fff, 0xfffe]),
            5 => any & self.next() as u16,
            _ => any,
        }
    }

    /// A vector of lanes of one kind.
    pub(crate) fn vector(&mut self) -> [u8; 64] {
        let mut bytes = [0; 64];
        self.fill(&mut bytes);
        bytes
    }

    /// Fills memory with numbers of one kind.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let kind = self.below(8);
        self.fill_kind(bytes, kind);
    }

    /// Fills memory with numbers as an operand of these elements wants them, mostly.
    pub(crate) fn fill_for(&mut self, bytes: &mut [u8], element: Element, sss: u8) {
        let kind = match (element, sss) {
            _ if self.once_in(8) => self.below(8),
            (Element::F32, 0..=2) => 0,
            (Element::F32, 3) => 7,
            (Element::F64, _) => 3,
            _ => 5,
        };
        self.fill_kind(bytes, kind);
    }

    fn fill_kind(&mut self, bytes: &mut [u8], kind: u64) {
        let again = self.once_in(8).then(|| self.element(kind).0);
        let mut at = 0;
        while at < bytes.len() {
            let (value, size) = self.element(kind);
            let size = size.min(bytes.len() - at);
            let value = again.unwrap_or(value);
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            at += size;
        }
    }

    fn element(&mut self, kind: u64) -> (u64, usize) {
        match kind {
            0..=2 => (self.float(F32), 4),
            3 | 4 => (self.float(crate::float::F64), 8),
            5 | 6 => (self.integer(), 4),
            _ => (self.float(crate::float::F16), 2),
        }
    }
}
