//! Registers as lanes: the element-wise shapes that packed instructions are made of.
//!
//! A value is always a `u128`; an MMX value is one whose upper half is zero. Lane 0 is in the
//! least significant bits.

/// An element of a packed value.
pub(super) trait Lane: Copy {
    /// `f` of every lane.
    fn map(a: u128, f: impl Fn(Self) -> Self) -> u128;
    /// `f` of every pair of lanes.
    fn zip(a: u128, b: u128, f: impl Fn(Self, Self) -> Self) -> u128;
}

// The kernels are functions of their own, on bytes in memory: of that the compiler makes one or two
// vector instructions of the host, of the same loop inlined over a `u128` a hundred scalar ones.
macro_rules! lane {
    ($($element:ty)*) => {$(
        impl Lane for $element {
            #[inline(always)]
            fn map(a: u128, f: impl Fn(Self) -> Self) -> u128 {
                #[inline(never)]
                fn kernel(lanes: &mut [u8; 16], f: impl Fn($element) -> $element) {
                    for lane in lanes.as_chunks_mut::<{ size_of::<$element>() }>().0 {
                        *lane = f(<$element>::from_le_bytes(*lane)).to_le_bytes();
                    }
                }
                let mut lanes = a.to_le_bytes();
                kernel(&mut lanes, f);
                u128::from_le_bytes(lanes)
            }

            #[inline(always)]
            fn zip(a: u128, b: u128, f: impl Fn(Self, Self) -> Self) -> u128 {
                #[inline(never)]
                fn kernel(
                    a: &mut [u8; 16],
                    b: &[u8; 16],
                    f: impl Fn($element, $element) -> $element,
                ) {
                    const N: usize = size_of::<$element>();
                    for (a, b) in a.as_chunks_mut::<N>().0.iter_mut().zip(b.as_chunks::<N>().0) {
                        *a = f(<$element>::from_le_bytes(*a), <$element>::from_le_bytes(*b))
                            .to_le_bytes();
                    }
                }
                let mut lanes = a.to_le_bytes();
                kernel(&mut lanes, &b.to_le_bytes(), f);
                u128::from_le_bytes(lanes)
            }
        }
    )*};
}
lane!(u8 i8 u16 i16 u32 i32 u64);

/// All ones if the condition holds: the result of a packed comparison.
macro_rules! mask {
    ($($name:ident -> $element:ty;)*) => {$(
        #[inline(always)]
        pub(super) fn $name(holds: bool) -> $element {
            <$element>::from(holds).wrapping_neg()
        }
    )*};
}
mask! {
    mask8 -> u8;
    mask16 -> u16;
    mask32 -> u32;
}

/// The low half.
#[inline(always)]
pub(super) fn low(a: u128) -> u64 {
    a as u64
}

/// The high half.
#[inline(always)]
pub(super) fn high(a: u128) -> u64 {
    (a >> 64) as u64
}

/// A value of two halves.
#[inline(always)]
pub(super) fn join(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

/// Lane `n` of `BITS` bits.
#[inline(always)]
pub(super) fn lane<const BITS: u32>(a: u128, n: usize) -> u64 {
    (a >> (BITS * n as u32)) as u64 & (u64::MAX >> (64 - BITS))
}

/// Lanes of `BITS` bits, from the least significant on.
#[inline(always)]
pub(super) fn gather<const BITS: u32, const N: usize>(lanes: [u64; N]) -> u128 {
    let mut value = 0;
    for (n, lane) in lanes.into_iter().enumerate() {
        value |= u128::from(lane) << (BITS * n as u32);
    }
    value
}

/// Lanes of `N` bytes taken from `a` and `b` by turns.
#[inline(always)]
pub(super) fn interleave<const N: usize>(a: u64, b: u64) -> u128 {
    #[inline(never)]
    fn kernel<const N: usize>(out: &mut [u8; 16], a: &[u8; 8], b: &[u8; 8]) {
        let pairs = a.as_chunks::<N>().0.iter().zip(b.as_chunks::<N>().0);
        for (out, (a, b)) in out.as_chunks_mut::<N>().0.as_chunks_mut::<2>().0.iter_mut().zip(pairs)
        {
            *out = [*a, *b];
        }
    }
    let mut out = [0; 16];
    kernel::<N>(&mut out, &a.to_le_bytes(), &b.to_le_bytes());
    u128::from_le_bytes(out)
}

/// Eight words to eight bytes.
#[inline(always)]
pub(super) fn narrow_words(a: u128, f: impl Fn(i16) -> u8) -> u64 {
    #[inline(never)]
    fn kernel(out: &mut [u8; 8], words: &[u8; 16], f: impl Fn(i16) -> u8) {
        for (out, word) in out.iter_mut().zip(words.as_chunks::<2>().0) {
            *out = f(i16::from_le_bytes(*word));
        }
    }
    let mut out = [0; 8];
    kernel(&mut out, &a.to_le_bytes(), f);
    u64::from_le_bytes(out)
}

/// Four doublewords to four words.
#[inline(always)]
pub(super) fn narrow_doublewords(a: u128, f: impl Fn(i32) -> u16) -> u64 {
    let narrow = |n| u64::from(f(lane::<32>(a, n) as i32)) << (16 * n);
    narrow(0) | narrow(1) | narrow(2) | narrow(3)
}
