//! Conversion between virtual time and a device's own clock.

use serde::{Deserialize, Serialize};

/// The ratio of a device clock to the virtual clock.
///
/// Virtual time is counted in cycles of the processor's clock; a device counts ticks of its own
/// oscillator. Both start at zero together. The conversion is a pure function of the absolute time,
/// computed in 128 bits, so that nothing accumulates a rounding error however long the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    clock_hz: u64,
    device_hz: u64,
}

impl Rate {
    /// A device of `device_hz` ticks a second on a machine of `clock_hz` cycles a second. A rate of
    /// zero has no meaning and is taken as one.
    pub fn new(clock_hz: u64, device_hz: u64) -> Self {
        Self { clock_hz: clock_hz.max(1), device_hz: device_hz.max(1) }
    }

    /// Ticks that the device has completed at virtual time `cycles`.
    pub fn ticks(self, cycles: u64) -> u64 {
        scale(cycles, self.device_hz, self.clock_hz, 0)
    }

    /// The first virtual time at which the device has completed `ticks` ticks.
    pub fn cycles(self, ticks: u64) -> u64 {
        let clock_hz = self.clock_hz;
        scale(ticks, clock_hz, self.device_hz, u128::from(self.device_hz) - 1)
    }
}

/// `(value * multiply + round) / divide`, saturating at the end of time.
fn scale(value: u64, multiply: u64, divide: u64, round: u128) -> u64 {
    let scaled =
        (u128::from(value) * u128::from(multiply)).saturating_add(round) / u128::from(divide);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Rate;

    // 2 GHz against the 8254's 1.193182 MHz: tick 1 completes at 2e9 / 1193182 = 1676.19 cycles.
    #[test]
    fn a_tick_completes_at_the_first_cycle_that_reaches_it() {
        let pit = Rate::new(2_000_000_000, 1_193_182);
        assert_eq!(pit.cycles(1), 1677);
        assert_eq!(pit.ticks(1676), 0);
        assert_eq!(pit.ticks(1677), 1);
    }

    // A day of a 3.579545 MHz clock is 3579545 * 86400 ticks, exactly, on any machine clock.
    #[test]
    fn a_day_does_not_drift() {
        for clock_hz in [2_000_000_000_u64, 66_666_667, 1] {
            let pm = Rate::new(clock_hz, 3_579_545);
            assert_eq!(pm.ticks(clock_hz * 86_400), 309_272_688_000);
        }
    }

    #[test]
    fn the_end_of_time_saturates() {
        assert_eq!(Rate::new(1, u64::MAX).ticks(u64::MAX), u64::MAX);
        assert_eq!(Rate::new(0, 0).ticks(7), 7);
    }
}
