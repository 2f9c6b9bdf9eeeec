//! Real numbers without error: sums of binary fractions, held in fixed point over the whole range that
//! products of two binary64 numbers have, and their rounding to a binary format.
//!
//! Nothing here is clever, so that it can be believed: no operand is dropped because it is small beside
//! another, and no guard, round or sticky bits travel through an operation.

/// How a result is chosen between the two neighbours of an exact number. Encoded as in VXCSR.RC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Nearest,
    Down,
    Up,
    Zero,
}

impl Mode {
    pub(crate) fn from_code(code: u32) -> Self {
        [Self::Nearest, Self::Down, Self::Up, Self::Zero][(code & 3) as usize]
    }

    /// Whether a magnitude is to be rounded away from zero: `half` compares what is cut off with half a
    /// unit in the last place, of which `odd` is the last bit.
    fn increments(self, negative: bool, odd: bool, exact: bool, half: std::cmp::Ordering) -> bool {
        use std::cmp::Ordering::{Equal, Greater};
        match self {
            Self::Nearest => half == Greater || half == Equal && odd,
            Self::Down => negative && !exact,
            Self::Up => !negative && !exact,
            Self::Zero => false,
        }
    }
}

/// `magnitude * 2^exponent`, with a sign that zero has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) negative: bool,
    pub(crate) magnitude: u128,
    pub(crate) exponent: i32,
}

impl Fraction {
    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            magnitude: self.magnitude * other.magnitude,
            exponent: self.exponent + other.exponent,
        }
    }

    pub(crate) fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    pub(crate) fn scaled(self, by: i32) -> Self {
        Self { exponent: self.exponent + by, ..self }
    }
}

/// 2^UNIT is the weight of the lowest bit: less than the square of the least binary64 number, 2^-2148.
const UNIT: i32 = -2176;
/// 68 words end at 2^2176, well above the square of the greatest.
const WORDS: usize = 68;

/// A sum of fractions, as a two's complement number in units of 2^UNIT.
pub(crate) struct Sum([u64; WORDS]);

impl Sum {
    pub(crate) fn of(terms: &[Fraction]) -> Self {
        let mut sum = Self([0; WORDS]);
        for term in terms {
            sum.add(term);
        }
        sum
    }

    fn add(&mut self, term: &Fraction) {
        let bit =
            usize::try_from(term.exponent - UNIT).expect("a fraction below the least product");
        let (low, shift) = (bit / 64, bit % 64);
        let wide = [term.magnitude as u64, (term.magnitude >> 64) as u64];
        let mut words = [wide[0] << shift, wide[1] << shift, 0];
        if shift != 0 {
            words[1] |= wide[0] >> (64 - shift);
            words[2] = wide[1] >> (64 - shift);
        }
        let mut carry = false;
        for n in low..WORDS {
            let word = words.get(n - low).copied().unwrap_or(0);
            if n >= low + 3 && !carry {
                break;
            }
            let (value, first, second);
            if term.negative {
                (value, first) = self.0[n].overflowing_sub(word);
                (self.0[n], second) = value.overflowing_sub(u64::from(carry));
            } else {
                (value, first) = self.0[n].overflowing_add(word);
                (self.0[n], second) = value.overflowing_add(u64::from(carry));
            }
            carry = first || second;
        }
    }

    /// The sign, and the magnitude in the same units.
    fn magnitude(&self) -> (bool, [u64; WORDS]) {
        let mut words = self.0;
        let negative = words[WORDS - 1] >> 63 != 0;
        if negative {
            let mut carry = true;
            for word in &mut words {
                (*word, carry) = (!*word).overflowing_add(u64::from(carry));
            }
        }
        (negative, words)
    }

    /// Rounds to a multiple of 2^q, where `q` is chosen from the exponent of the leading bit. `None` for
    /// zero.
    pub(crate) fn round(&self, mode: Mode, q: impl Fn(i32) -> i32) -> Option<Rounded> {
        let (negative, words) = self.magnitude();
        let top = words.iter().rposition(|&word| word != 0)?;
        let leading = top * 64 + 63 - words[top].leading_zeros() as usize;
        let exponent = q(leading as i32 + UNIT);
        let cut = (exponent - UNIT) as usize;
        let bit = |n: usize| n < WORDS * 64 && words[n / 64] >> (n % 64) & 1 != 0;
        let half = if cut == 0 { false } else { bit(cut - 1) };
        let any_below = |n: usize| {
            let n = n.min(WORDS * 64);
            words[..n / 64].iter().any(|&word| word != 0)
                || !n.is_multiple_of(64) && words[n / 64] << (64 - n % 64) != 0
        };
        let below_half = cut > 1 && any_below(cut - 1);
        let mut kept: u128 = 0;
        for n in (cut..=leading).rev() {
            kept = kept << 1 | u128::from(bit(n));
        }
        let exact = !half && !below_half;
        let compared = match (half, below_half) {
            (false, _) => std::cmp::Ordering::Less,
            (true, false) => std::cmp::Ordering::Equal,
            (true, true) => std::cmp::Ordering::Greater,
        };
        let away = mode.increments(negative, kept & 1 != 0, exact, compared);
        Some(Rounded { negative, magnitude: kept + u128::from(away), exponent, exact })
    }
}

/// A multiple of 2^exponent, and whether nothing was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounded {
    pub(crate) negative: bool,
    pub(crate) magnitude: u128,
    pub(crate) exponent: i32,
    pub(crate) exact: bool,
}

impl Rounded {
    /// Whether the magnitude is less than 2^bound.
    pub(crate) fn is_below(&self, bound: i32) -> bool {
        self.magnitude == 0 || self.magnitude.ilog2() as i32 + self.exponent < bound
    }
}
