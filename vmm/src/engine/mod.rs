//! Engines: what executes the guest's instructions.
//!
//! An engine runs one processor for a slice of virtual time and gives it back for one of the
//! reasons in [`Outcome`]. All else is the machine's: which processor runs when, devices, memory.

pub mod soft;

use crate::devices::Chipset;
use crate::platform::Platform;

/// Why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time is up.
    Complete,
    /// The interrupt controllers have INIT or start-up signals to distribute.
    Signals,
    /// The chipset has an event for the machine's owner.
    Event,
    /// As many instructions as were allowed have retired.
    InstructionLimit,
    /// The processor shut down: triple fault.
    Shutdown,
}

/// How far a slice may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Virtual time at which it ends, in cycles.
    pub time: u64,
    /// Instructions that may retire.
    pub instructions: u64,
}

/// What the processors share besides memory.
pub struct Board {
    /// All devices and interrupt controllers.
    pub chipset: Chipset,
    /// The processors' identity.
    pub platform: Platform,
    /// Instructions between an overflow and its PMI.
    pub skid: u64,
    /// The latest time that a device has seen. Processors run the same interval one after the other;
    /// devices see time stand still rather than run backwards.
    device_time: u64,
}

impl Board {
    /// A board at virtual time zero.
    #[must_use]
    pub fn new(chipset: Chipset, platform: Platform, skid: u64) -> Self {
        Self { chipset, platform, skid, device_time: 0 }
    }

    /// The time for a device access of a processor that is at `time`.
    #[inline]
    pub fn device_time(&mut self, time: u64) -> u64 {
        self.device_time = self.device_time.max(time);
        self.device_time
    }

    /// Delivers the device events that are due at `time`; says when the next one is.
    pub fn catch_up(&mut self, time: u64) -> u64 {
        let now = self.device_time(time);
        let due = |chipset: &Chipset| chipset.next_deadline().unwrap_or(u64::MAX);
        if due(&self.chipset) <= now {
            self.chipset.advance(now);
        }
        due(&self.chipset)
    }
}
