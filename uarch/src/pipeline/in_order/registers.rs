//! When the registers of a file are ready: a time for each, and sets of them as bits.

/// The latest of the times that a bit is set for.
#[inline]
pub(super) fn latest<const N: usize>(times: &[u64; N], mut registers: u64) -> u64 {
    const { assert!(N.is_power_of_two() && N <= 64) };
    let mut latest = 0;
    while registers != 0 {
        latest = latest.max(times[registers.trailing_zeros() as usize & (N - 1)]);
        registers &= registers - 1;
    }
    latest
}

/// Sets the times that a bit is set for.
#[inline]
pub(super) fn set<const N: usize>(times: &mut [u64; N], mut registers: u64, time: u64) {
    const { assert!(N.is_power_of_two() && N <= 64) };
    while registers != 0 {
        times[registers.trailing_zeros() as usize & (N - 1)] = time;
        registers &= registers - 1;
    }
}
