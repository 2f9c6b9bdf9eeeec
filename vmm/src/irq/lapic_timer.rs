//! The local APIC's timer (SDM Vol. 3A, "APIC Timer").

use serde::{Deserialize, Serialize};

use crate::devices::rate::Rate;

/// Divide configuration, initial count and current count.
///
/// The current count is a function of time: it stood at `count` at bus tick `since`, and loses one
/// every `divisor` bus ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LapicTimer {
    rate: Rate,
    /// Register 3E0h; bits 3, 1 and 0.
    divide_configuration: u32,
    /// Register 380h.
    initial: u32,
    count: u32,
    since: u64,
}

impl LapicTimer {
    /// Power-up and INIT: stopped, divide by two.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, divide_configuration: 0, initial: 0, count: 0, since: 0 }
    }

    /// Whether `other` has the same clock, and counts down from something if it does.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        self.rate == other.rate && (other.count == 0 || other.initial != 0)
    }

    pub(crate) fn divide_configuration(&self) -> u32 {
        self.divide_configuration
    }

    pub(crate) fn initial(&self) -> u32 {
        self.initial
    }

    /// 000b divides by 2, 001b by 4, ... 110b by 128, 111b by 1; bit 3 is the high bit of the code.
    fn divisor(&self) -> u64 {
        let code = self.divide_configuration >> 1 & 4 | self.divide_configuration & 3;
        1 << ((code + 1) & 7)
    }

    /// A running count goes on from where it is, at the new speed.
    pub(crate) fn set_divide_configuration(&mut self, value: u32, now: u64) {
        self.count = self.current(now);
        self.since = self.rate.ticks(now);
        self.divide_configuration = value & 0b1011;
    }

    /// Starts the timer; zero stops it.
    pub(crate) fn set_initial(&mut self, value: u32, now: u64) {
        self.initial = value;
        self.count = value;
        self.since = self.rate.ticks(now);
    }

    /// Register 390h, after [`Self::expire`] has been called for `now`.
    pub(crate) fn current(&self, now: u64) -> u32 {
        let elapsed = self.rate.ticks(now).saturating_sub(self.since) / self.divisor();
        u32::try_from(elapsed).map_or(0, |elapsed| self.count.saturating_sub(elapsed))
    }

    /// Brings the count up to `now`; whether it has reached zero since the last call. A periodic
    /// timer reloads at that very tick, any number of times.
    pub(crate) fn expire(&mut self, now: u64, periodic: bool) -> bool {
        if self.count == 0 {
            return false;
        }
        let ticks = self.rate.ticks(now);
        let end = self.end();
        if ticks < end {
            return false;
        }
        if periodic {
            let period = u64::from(self.initial) * self.divisor();
            self.since = end + (ticks - end) / period * period;
            self.count = self.initial;
        } else {
            self.count = 0;
        }
        true
    }

    /// The virtual time of the next expiry.
    pub(crate) fn deadline(&self) -> Option<u64> {
        (self.count != 0).then(|| self.rate.cycles(self.end()))
    }

    /// Goes on at `now` from where another timer stands, one that is `initial` and `current` counts
    /// and a divide configuration.
    pub(crate) fn resume(&mut self, initial: u32, current: u32, divide: u32, now: u64) {
        self.divide_configuration = divide & 0b1011;
        self.initial = initial;
        self.count = current;
        self.since = self.rate.ticks(now);
    }

    fn end(&self) -> u64 {
        self.since.saturating_add(u64::from(self.count) * self.divisor())
    }
}
