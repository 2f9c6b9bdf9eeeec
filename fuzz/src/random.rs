//! A xorshift generator: the same seed gives the same numbers.

/// Its state, which is never zero.
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // It stands still at zero, which no seed may give.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.number() >> 33) % n.max(1) as u64) as usize
    }

    /// The next eight bytes.
    pub fn bytes(&mut self) -> [u8; 8] {
        self.number().to_le_bytes()
    }
}
