//! The arithmetic flags, computed lazily: when an instruction reads one.
//!
//! An arithmetic instruction leaves its result and its carries; CF, PF, AF, ZF, SF and OF are read
//! out of those two words. `result` is sign-extended to 64 bits, so ZF, SF and PF need no operand
//! size. `carries` holds, apart from the carry chain, corrections for flags that were set one by
//! one (POPF, SAHF, FCOMI):
//!
//! * bit 0: SF is the inverse of `result`'s sign
//! * bit 3: AF, the carry out of bit 3
//! * bits 15:8: inverted into the low byte of `result` before PF is taken
//! * bit 31: CF, the carry out of the top bit
//! * bit 30: the carry into the top bit, so that OF is bit 31 xor bit 30

/// Carry flag, RFLAGS bit 0.
pub const CF: u64 = 1 << 0;
/// Parity flag, RFLAGS bit 2.
pub const PF: u64 = 1 << 2;
/// Auxiliary carry flag, RFLAGS bit 4.
pub const AF: u64 = 1 << 4;
/// Zero flag, RFLAGS bit 6.
pub const ZF: u64 = 1 << 6;
/// Sign flag, RFLAGS bit 7.
pub const SF: u64 = 1 << 7;
/// Trap flag, RFLAGS bit 8.
pub const TF: u64 = 1 << 8;
/// Interrupt flag, RFLAGS bit 9.
pub const IF: u64 = 1 << 9;
/// Direction flag, RFLAGS bit 10.
pub const DF: u64 = 1 << 10;
/// Overflow flag, RFLAGS bit 11.
pub const OF: u64 = 1 << 11;
/// I/O privilege level, RFLAGS bits 13:12.
pub const IOPL: u64 = 3 << 12;
/// Nested task, RFLAGS bit 14.
pub const NT: u64 = 1 << 14;
/// Resume flag, RFLAGS bit 16.
pub const RF: u64 = 1 << 16;
/// Virtual-8086 mode, RFLAGS bit 17.
pub const VM: u64 = 1 << 17;
/// Alignment check, RFLAGS bit 18.
pub const AC: u64 = 1 << 18;
/// Virtual interrupt flag, RFLAGS bit 19.
pub const VIF: u64 = 1 << 19;
/// Virtual interrupt pending, RFLAGS bit 20.
pub const VIP: u64 = 1 << 20;
/// CPUID can be used, RFLAGS bit 21.
pub const ID: u64 = 1 << 21;
/// The six arithmetic flags.
pub const ARITHMETIC: u64 = CF | PF | AF | ZF | SF | OF;

/// RFLAGS as it holds a value: bit 1 is set, bits 3, 5, 15 and those above 21 are clear.
pub(crate) const fn as_held(value: u64) -> u64 {
    value & 0x003f_7fd5 | 2
}

const CARRY: u32 = 1 << 31;
const CARRY_IN: u32 = 1 << 30;
const AUX: u32 = 1 << 3;
const SIGN_DELTA: u32 = 1;
const PARITY_SHIFT: u32 = 8;

/// CF, PF, AF, ZF, SF and OF in their lazy form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    result: u64,
    carries: u32,
}

impl Default for Flags {
    /// All clear, as after reset.
    fn default() -> Self {
        Self { result: 1 << 8, carries: 1 << PARITY_SHIFT }
    }
}

/// Widths of integers, as the flags need them.
pub trait Word: Copy + Eq + Ord + std::fmt::Debug {
    /// Number of bits: 8, 16, 32 or 64.
    const BITS: u32;
    /// Number of bytes.
    const BYTES: usize;
    /// Truncates.
    fn from_u64(value: u64) -> Self;
    /// Zero-extends.
    fn to_u64(self) -> u64;
    /// Sign-extends.
    fn to_i64(self) -> i64;
}

macro_rules! word {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Word for $unsigned {
            const BITS: u32 = <$unsigned>::BITS;
            const BYTES: usize = size_of::<$unsigned>();
            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self as $signed)
            }
        }
    )*};
}
word! {
    u8, i8;
    u16, i16;
    u32, i32;
    u64, i64;
}

/// The carry chain of a `T`-wide operation in the form of [`Flags::carries`].
#[inline(always)]
fn pack<T: Word>(chain: u64) -> u32 {
    let aux = chain as u32 & AUX;
    let top = match T::BITS {
        8 => (chain as u32) << 24,
        16 => (chain as u32) << 16,
        32 => chain as u32,
        _ => (chain >> 32) as u32,
    };
    top & (CARRY | CARRY_IN) | aux
}

impl Flags {
    /// After `left + right (+ carry) = result`.
    #[inline(always)]
    pub fn set_add<T: Word>(&mut self, left: T, right: T, result: T) {
        let (a, b, r) = (left.to_u64(), right.to_u64(), result.to_u64());
        self.carries = pack::<T>((a & b) | ((a | b) & !r));
        self.result = result.to_i64() as u64;
    }

    /// After `left - right (- borrow) = result`.
    #[inline(always)]
    pub fn set_sub<T: Word>(&mut self, left: T, right: T, result: T) {
        let (a, b, r) = (left.to_u64(), right.to_u64(), result.to_u64());
        self.carries = pack::<T>((!a & b) | ((!a | b) & r));
        self.result = result.to_i64() as u64;
    }

    /// After AND, OR, XOR or TEST: CF and OF clear, AF clear (the manuals leave it undefined).
    #[inline(always)]
    pub fn set_logic<T: Word>(&mut self, result: T) {
        self.carries = 0;
        self.result = result.to_i64() as u64;
    }

    /// ZF, SF and PF from `result`; CF, OF and AF as given.
    #[inline(always)]
    pub fn set_result<T: Word>(&mut self, result: T, cf: bool, of: bool, af: bool) {
        self.result = result.to_i64() as u64;
        self.carries = carries(cf, of, af);
    }

    /// After INC or DEC set the flags, CF as it was before.
    #[inline(always)]
    pub fn keep_cf(&mut self, cf: bool) {
        let of = (self.carries ^ self.carries << 1) & CARRY;
        let cf = u32::from(cf) << 31;
        self.carries = self.carries & !(CARRY | CARRY_IN) | cf | (cf ^ of) >> 1;
    }

    /// Sets CF, leaves the rest.
    #[inline(always)]
    pub fn set_cf(&mut self, cf: bool) {
        self.keep_cf(cf);
    }

    /// Sets CF and OF, leaves the rest: rotates.
    #[inline(always)]
    pub fn set_cf_of(&mut self, cf: bool, of: bool) {
        self.carries = self.carries & !(CARRY | CARRY_IN) | carries(cf, of, false);
    }

    /// Sets ZF, leaves the rest.
    pub fn set_zf(&mut self, zf: bool) {
        let all = self.to_rflags();
        self.set_rflags(all & !ZF | if zf { ZF } else { 0 });
    }

    /// Carry flag.
    #[inline(always)]
    #[must_use]
    pub fn cf(&self) -> bool {
        self.carries & CARRY != 0
    }

    /// Zero flag.
    #[inline(always)]
    #[must_use]
    pub fn zf(&self) -> bool {
        self.result == 0
    }

    /// Sign flag.
    #[inline(always)]
    #[must_use]
    pub fn sf(&self) -> bool {
        (self.result >> 63) as u32 & 1 != self.carries & SIGN_DELTA
    }

    /// Overflow flag.
    #[inline(always)]
    #[must_use]
    pub fn of(&self) -> bool {
        (self.carries ^ self.carries << 1) & CARRY != 0
    }

    /// Parity flag: the low byte of the result has an even number of ones.
    #[inline(always)]
    #[must_use]
    pub fn pf(&self) -> bool {
        (self.result as u8 ^ (self.carries >> PARITY_SHIFT) as u8).count_ones() & 1 == 0
    }

    /// Auxiliary carry flag.
    #[inline(always)]
    #[must_use]
    pub fn af(&self) -> bool {
        self.carries & AUX != 0
    }

    /// The six flags at their places in RFLAGS.
    #[must_use]
    pub fn to_rflags(&self) -> u64 {
        u64::from(self.cf())
            | u64::from(self.pf()) << 2
            | u64::from(self.af()) << 4
            | u64::from(self.zf()) << 6
            | u64::from(self.sf()) << 7
            | u64::from(self.of()) << 11
    }

    /// Takes the six flags from their places in RFLAGS; other bits are ignored.
    pub fn set_rflags(&mut self, rflags: u64) {
        let zf = rflags & ZF != 0;
        // A non-zero result has its one bit outside the low byte and the sign, so it reads as
        // even parity and positive; the corrections do the rest.
        self.result = if zf { 0 } else { 1 << 8 };
        self.carries = carries(rflags & CF != 0, rflags & OF != 0, rflags & AF != 0)
            | u32::from(rflags & SF != 0)
            | u32::from(rflags & PF == 0) << PARITY_SHIFT;
    }

    /// Condition `code` (0-15) of Jcc, SETcc and CMOVcc.
    #[inline(always)]
    #[must_use]
    pub fn condition(&self, code: u8) -> bool {
        let holds = match code >> 1 & 7 {
            0 => self.of(),
            1 => self.cf(),
            2 => self.zf(),
            3 => self.cf() || self.zf(),
            4 => self.sf(),
            5 => self.pf(),
            6 => self.sf() != self.of(),
            _ => self.zf() || self.sf() != self.of(),
        };
        holds != (code & 1 != 0)
    }
}

#[inline(always)]
fn carries(cf: bool, of: bool, af: bool) -> u32 {
    u32::from(cf) << 31 | u32::from(cf != of) << 30 | u32::from(af) << 3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of the six flags survives the way in and out.
    #[test]
    fn any_combination_round_trips() {
        for bits in 0..64u64 {
            let rflags = bits & 1
                | (bits & 2) << 1
                | (bits & 4) << 2
                | (bits & 8) << 3
                | (bits & 16) << 3
                | (bits & 32) << 6;
            let mut flags = Flags::default();
            flags.set_rflags(rflags);
            assert_eq!(flags.to_rflags(), rflags);
        }
    }

    /// Sums and differences of eight-bit operands against the definitions of the flags.
    #[test]
    fn add_and_sub_of_all_bytes() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let mut flags = Flags::default();
                let sum = a.wrapping_add(b);
                flags.set_add(a, b, sum);
                assert_eq!(flags.cf(), u16::from(a) + u16::from(b) > 255);
                assert_eq!(
                    flags.of(),
                    !(-128..=127).contains(&(i16::from(a as i8) + i16::from(b as i8)))
                );
                assert_eq!(flags.af(), (a & 15) + (b & 15) > 15);
                assert_eq!(flags.zf(), sum == 0);
                assert_eq!(flags.sf(), sum >= 128);
                assert_eq!(flags.pf(), sum.count_ones() % 2 == 0);
                let difference = a.wrapping_sub(b);
                flags.set_sub(a, b, difference);
                assert_eq!(flags.cf(), a < b);
                assert_eq!(
                    flags.of(),
                    !(-128..=127).contains(&(i16::from(a as i8) - i16::from(b as i8)))
                );
                assert_eq!(flags.af(), (a & 15) < (b & 15));
            }
        }
    }

    /// INC keeps CF and sets OF by itself.
    #[test]
    fn keep_cf_keeps_of() {
        for cf in [false, true] {
            let mut flags = Flags::default();
            flags.set_add(0x7fu8, 1, 0x80);
            flags.keep_cf(cf);
            assert!(flags.of());
            assert_eq!(flags.cf(), cf);
            flags.set_add(1u8, 1, 2);
            flags.keep_cf(cf);
            assert!(!flags.of());
            assert_eq!(flags.cf(), cf);
        }
    }
}
