//! The PC/AT's way of reporting x87 exceptions: a latch between the processor's FERR# and IRQ13
//! (Intel SDM volume 1, appendix "Guidelines for Writing x87 FPU Exception Handlers").
//!
//! The processor says once for each exception that FERR# is asserted, and goes on as under IGNNE#
//! until the exception is cleared. So the latch has no IGNNE# to give back.

use serde::{Deserialize, Serialize};

/// Any value written here clears the latch.
pub const CLEAR: u16 = 0xF0;
/// IRQ13: ISA interrupt and I/O APIC pin.
pub(super) const GSI: u8 = 13;

/// The latch: clear after reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FerrLatch {
    set: bool,
}

impl FerrLatch {
    /// FERR# is asserted.
    pub fn assert(&mut self) {
        self.set = true;
    }

    /// OUT to [`CLEAR`].
    pub fn clear(&mut self) {
        self.set = false;
    }

    /// The interrupt line.
    #[must_use]
    pub fn irq(self) -> bool {
        self.set
    }
}
