//! What comes next, and when a run ends by itself: one policy, whoever executes the processors.
//!
//! The software engine asks between two slices, a processor's thread on KVM while the software engine counts for
//! it, and KVM's main thread while the host's processor has the guest. They differ in how they know what the
//! processors are about ([`Activity`]) and in how they wait.

use crate::devices::acpi_pm::PM_TIMER_HZ;
use crate::devices::rate::Rate;
use crate::machine::{End, Machine};
use crate::turns::QUANTUM;

/// How long, in virtual seconds, all processors may be halted with interrupts off. An NMI could
/// still wake them; nothing sends one that late.
const HALTED_FOR_GOOD: u64 = 10;

/// What the processors are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    /// None executes anything until something comes from outside.
    pub(crate) asleep: bool,
    /// Nor can a maskable interrupt change that: only an NMI, an INIT or a start-up IPI.
    pub(crate) masked: bool,
}

impl Activity {
    /// Some execute something, for all that is known.
    pub(crate) const AWAKE: Self = Self { asleep: false, masked: false };
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// They execute, or sleep, until this time at the latest, in cycles.
    Slice(u64),
    /// Nothing happens before something is typed.
    Input,
    /// The run's end.
    End(End),
}

impl Machine {
    /// What comes next at virtual time `now`, in which the processors are about `activity`. `typed_at`: somebody may
    /// still type.
    pub(crate) fn ahead(&mut self, now: u64, activity: Activity, typed_at: bool) -> Ahead {
        if self.is_at_end_of_time(now) {
            return Ahead::End(End::EndOfTime);
        }
        if self.is_dead(now, activity.masked) {
            return Ahead::End(End::Halted);
        }
        match self.horizon(now, activity.asleep) {
            Some(until) => Ahead::Slice(until),
            None if typed_at => Ahead::Input,
            None => Ahead::End(End::Halted),
        }
    }

    /// Where the next slice ends, all processors being asleep or not; `None` if they sleep for good.
    pub(crate) fn horizon(&self, now: u64, asleep: bool) -> Option<u64> {
        let next = self.next_event();
        let until = if asleep {
            let arrival = self.board.chipset.irq.first_arrival();
            let next = next.into_iter().chain(arrival).min()?;
            next.max(now + 1)
        } else {
            next.unwrap_or(u64::MAX).clamp(now + 1, now + QUANTUM)
        };
        Some(until.min(self.end_of_time))
    }

    /// Whether virtual time `now` is its end.
    pub(crate) fn is_at_end_of_time(&self, now: u64) -> bool {
        now >= self.end_of_time
    }

    /// The time of the next event that does not depend on the processors: of a device, or scripted
    /// input.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.board.chipset.next_deadline().into_iter().chain(self.script.next_time()).min()
    }

    /// Whether all processors are beyond the reach of interrupts, and have been for long.
    fn is_dead(&mut self, now: u64, masked: bool) -> bool {
        if !masked {
            self.dead_since = None;
            return false;
        }
        let since = *self.dead_since.get_or_insert(now);
        now.saturating_sub(since) >= self.clock_hz.saturating_mul(HALTED_FOR_GOOD)
    }
}

/// Where virtual time ends, in cycles: half of what 64 bits hold, and of what they hold of the fastest
/// device's ticks, so that nothing that adds to a time has to look.
///
/// At 2 GHz that is 146 years. A guest that sleeps from one event to the next passes them in no time.
pub(crate) fn end_of_time(clock_hz: u64, timer_hz: u64) -> u64 {
    const HALF: u64 = 1 << 63;
    let ticks = |device_hz| Rate::new(clock_hz, device_hz).cycles(HALF);
    HALF.min(ticks(timer_hz)).min(ticks(PM_TIMER_HZ))
}
