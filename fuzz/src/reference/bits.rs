//! Registers as the manuals draw them: rows of bits with numbers.

/// 64 bits, bit 0 first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    bits: [bool; 64],
    /// The same as one number, so that comparing is cheap. Changed with each bit.
    word: u64,
}

impl Bits {
    /// All bits clear: every register after power-up.
    pub const ZERO: Bits = Bits { bits: [false; 64], word: 0 };

    /// The number that RDMSR gives.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// One bit.
    pub fn bit(&self, number: usize) -> bool {
        self.bits[number]
    }

    /// The number in bits `high` to `low`.
    pub fn field(&self, high: usize, low: usize) -> u64 {
        number(&self.bits[low..=high])
    }

    /// Sets or clears one bit.
    pub fn set(&mut self, number: usize, value: bool) {
        self.bits[number] = value;
        self.word = self.word & !(1 << number) | u64::from(value) << number;
    }

    /// Takes bits `high` to `low` of `value`; the other bits stay.
    pub fn take(&mut self, value: u64, high: usize, low: usize) {
        for (bit, number) in self.bits[low..=high].iter_mut().zip(low..) {
            *bit = value >> number & 1 == 1;
        }
        let taken = u64::MAX >> (63 - high + low) << low;
        self.word = self.word & !taken | value & taken;
    }

    /// Counts `n` further in a counter of `width` bits: adds digit by digit, as on paper. How often it
    /// came past its last value.
    pub fn count(&mut self, n: u64, width: usize) -> u64 {
        if n == 0 {
            return 0;
        }
        let mut sum = [false; 65];
        let mut carry = false;
        for (number, digit) in sum.iter_mut().enumerate() {
            let own = number < width && self.bits[number];
            let added = number < 64 && n >> number & 1 == 1;
            *digit = own ^ added ^ carry;
            carry = if carry { own || added } else { own && added };
        }
        self.bits[..width].copy_from_slice(&sum[..width]);
        self.word = number(&self.bits);
        number(&sum[width..])
    }
}

/// A row of bits as a number.
fn number(bits: &[bool]) -> u64 {
    bits.iter().rev().fold(0, |number, &bit| number << 1 | u64::from(bit))
}
