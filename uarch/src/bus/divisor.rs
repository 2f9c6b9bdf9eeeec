//! Division by what is mostly a power of two: sizes of memory, and numbers of banks.

/// A divisor. What is divided by a power of two is shifted, as a division takes longer than all else that an access
/// to memory computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    by: u64,
    /// log2 of it, if it is a power of two.
    shift: Option<u32>,
}

impl Divisor {
    /// # Panics
    ///
    /// If it is zero.
    pub(super) fn new(by: u64) -> Self {
        assert!(by != 0, "nothing is divided by zero");
        Self { by, shift: by.is_power_of_two().then(|| by.trailing_zeros()) }
    }

    /// The divisor itself.
    pub(super) fn by(self) -> u64 {
        self.by
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(super) fn divide(self, value: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (value >> shift, value & (self.by - 1)),
            None => (value / self.by, value % self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_as_the_processor_does() {
        for by in [1, 2, 3, 5, 8, 12, 1 << 31, (1 << 31) + 1, 1 << 63, u64::MAX] {
            for value in [0, 1, 2, 7, 8, 9, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX] {
                assert_eq!(Divisor::new(by).divide(value), (value / by, value % by));
            }
        }
    }
}
