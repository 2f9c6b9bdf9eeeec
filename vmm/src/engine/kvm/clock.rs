//! Virtual time on the host's processors.

use std::time::{Duration, Instant};

/// What the devices go by while KVM runs the guest: the host's monotonic clock, counted in cycles of
/// the personality's clock. While the software engine has the guest, virtual time is counted there;
/// the clock goes on from where that left it.
///
/// The time-stamp counter is the host's own, at the host's own rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    hz: u64,
    /// Virtual time at `since`.
    base: u64,
    since: Instant,
}

const NANOSECONDS: u128 = 1_000_000_000;

impl Clock {
    /// A clock of `hz` cycles a second that shows `now`.
    pub(super) fn new(hz: u64, now: u64) -> Self {
        Self { hz: hz.max(1), base: now, since: Instant::now() }
    }

    /// Virtual time.
    pub(super) fn now(&self) -> u64 {
        self.base.saturating_add(self.cycles(self.since.elapsed()))
    }

    /// Goes on from virtual time `now`.
    pub(super) fn set(&mut self, now: u64) {
        self.base = now;
        self.since = Instant::now();
    }

    /// Cycles in a stretch of real time.
    pub(super) fn cycles(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * u128::from(self.hz) / NANOSECONDS).unwrap_or(u64::MAX)
    }

    /// How long it takes from virtual time `now` until `then`.
    pub(super) fn until(&self, now: u64, then: u64) -> Duration {
        let cycles = u128::from(then.saturating_sub(now));
        let nanoseconds = (cycles * NANOSECONDS).div_ceil(u128::from(self.hz));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 MHz: three cycles a microsecond; a cycle is 333.3 ns, and waiting is never too short.
    #[test]
    fn cycles_and_real_time_convert_both_ways() {
        let clock = Clock::new(3_000_000, 0);
        assert_eq!(clock.cycles(Duration::from_micros(7)), 21);
        assert_eq!(clock.until(100, 121), Duration::from_micros(7));
        assert_eq!(clock.until(0, 1), Duration::from_nanos(334));
        assert_eq!(clock.until(5, 4), Duration::ZERO);
        assert_eq!(clock.until(0, u64::MAX), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn it_goes_on_from_where_it_is_set() {
        let mut clock = Clock::new(1_000_000_000, 0);
        clock.set(1 << 40);
        let now = clock.now();
        assert!((1 << 40..(1 << 40) + (60 << 30)).contains(&now), "{now}");
    }
}
