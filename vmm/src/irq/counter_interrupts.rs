//! Which interrupts of a local APIC are those of counters: for traces and debuggers, invisible to the guest.

use serde::{Deserialize, Serialize};

use super::lapic::PmiOutcome;
use super::vectors::Vectors;

/// The interrupts of a local APIC that counters have raised, until they end. A vector that something else has raised as
/// well is theirs too: the two are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CounterInterrupts {
    /// The NMI that is latched.
    nmi: bool,
    /// In IRR.
    requested: Vectors,
    /// In ISR.
    in_service: Vectors,
    /// The interrupt that the processor took last.
    taken: bool,
}

impl CounterInterrupts {
    /// This came of one at the local APIC.
    pub(super) fn sent(&mut self, outcome: PmiOutcome) {
        match outcome {
            PmiOutcome::Nmi | PmiOutcome::NmiMerged => self.nmi = true,
            PmiOutcome::Fixed(vector) | PmiOutcome::FixedMerged(vector) => {
                self.requested.set(vector);
            }
            _ => {}
        }
    }

    /// The processor takes the NMI.
    pub(super) fn take_nmi(&mut self) {
        self.taken = std::mem::take(&mut self.nmi);
    }

    /// The processor takes a vector that goes from IRR to ISR.
    pub(super) fn take(&mut self, vector: u8) {
        self.taken = self.requested.contains(vector);
        if self.taken {
            self.requested.clear(vector);
            self.in_service.set(vector);
        }
    }

    /// The processor takes what is in neither.
    pub(super) fn take_other(&mut self) {
        self.taken = false;
    }

    /// A vector in ISR ends.
    pub(super) fn end(&mut self, vector: u8) {
        self.in_service.clear(vector);
    }

    /// Whether one has yet to be taken.
    pub(super) fn has_untaken(&self) -> bool {
        self.nmi || self.requested.highest().is_some()
    }

    /// Whether the interrupt that the processor took last is one.
    pub(super) fn was_taken(&self) -> bool {
        self.taken
    }

    /// Whether a vector in ISR is one.
    pub(super) fn is_in_service(&self, vector: u8) -> bool {
        self.in_service.contains(vector)
    }
}
