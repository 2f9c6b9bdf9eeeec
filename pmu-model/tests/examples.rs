//! The fuzz target of `examples/`, with inputs of a generator.

#[path = "../examples/fuzz.rs"]
#[allow(dead_code, reason = "its main() is for the command line")]
mod fuzz;

/// Marsaglia's xorshift of 64 bits.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Values near what matters: a counter just below its overflow, an enabled event select, any number.
#[test]
fn no_access_breaks_what_the_fuzz_target_asserts() {
    let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
    for _ in 0..40 {
        let mut data = Vec::new();
        for _ in 0..500 {
            let [step, register, ..] = random.next().to_le_bytes();
            let value = match random.next() % 4 {
                0 => (random.next() % 2000).wrapping_neg(),
                // EN, and INT, OS and USR or not.
                1 => random.next() & 0x13_FFFF | 0x40_0000,
                2 => random.next() % 2000,
                _ => random.next(),
            };
            data.extend([step, register]);
            data.extend(value.to_le_bytes());
        }
        fuzz::target(&data);
    }
}
