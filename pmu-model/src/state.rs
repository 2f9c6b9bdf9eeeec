//! Saving and restoring a PMU as a versioned plain structure.

use crate::personality::{MAX_COUNTERS, Personality};
use crate::pmu::Pmu;
use crate::stats::{CodeSet, CounterStats};
use crate::subscription::Subscriptions;

/// The version that [`PmuStateV1`] is.
const VERSION: u32 = 1;

/// The state of a PMU, version 1. What can be derived from it is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PmuStateV1 {
    /// 1.
    pub version: u32,
    /// The personality's name in ASCII, filled up with zeroes.
    pub personality: [u8; 8],
    /// The event selects; 0 beyond the personality's counters.
    pub evtsel: [u64; MAX_COUNTERS],
    /// The counters; 0 beyond the personality's counters.
    pub perfctr: [u64; MAX_COUNTERS],
    /// Bit n: the condition of counter n held in the last cycle that it saw.
    pub edge_level: u8,
    /// What each counter was used for.
    pub stats: [CounterStats; MAX_COUNTERS],
    /// Codes that were enabled and do not wholly count.
    pub uncounted: CodeSet,
}

/// Why a state cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// Not version 1.
    Version(u32),
    /// The state of another personality.
    Personality,
    /// This event select has a bit set that the register does not have.
    Evtsel(usize),
    /// This counter has a bit set that the register does not have.
    Perfctr(usize),
    /// The statistics of this counter contradict themselves.
    Stats(usize),
    /// Edge state of a counter that does not exist.
    EdgeLevel,
}

impl core::fmt::Display for StateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StateError::Version(version) => write!(f, "PMU state has unknown version {version}"),
            StateError::Personality => f.write_str("PMU state is of another personality"),
            StateError::Evtsel(i) => write!(f, "PMU state has reserved bits in event select {i}"),
            StateError::Perfctr(i) => write!(f, "PMU state has reserved bits in counter {i}"),
            StateError::Stats(i) => write!(f, "PMU state has impossible statistics, counter {i}"),
            StateError::EdgeLevel => f.write_str("PMU state has edge state without a counter"),
        }
    }
}

impl core::error::Error for StateError {}

/// A personality's name as a state has it.
fn name_bytes(personality: &Personality) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (byte, &letter) in bytes.iter_mut().zip(personality.name.as_bytes()) {
        *byte = letter;
    }
    bytes
}

impl Pmu {
    /// The state.
    pub fn save(&self) -> PmuStateV1 {
        PmuStateV1 {
            version: VERSION,
            personality: name_bytes(self.personality),
            evtsel: self.evtsel,
            perfctr: self.perfctr,
            edge_level: self.edge_level,
            stats: self.stats,
            uncounted: self.uncounted,
        }
    }

    /// A PMU in a saved state.
    ///
    /// # Errors
    /// The state is of another version or personality, or no PMU of this personality can be in it.
    pub fn restore(
        personality: &'static Personality,
        state: &PmuStateV1,
    ) -> Result<Pmu, StateError> {
        if state.version != VERSION {
            return Err(StateError::Version(state.version));
        }
        if state.personality != name_bytes(personality) {
            return Err(StateError::Personality);
        }
        let here = |counter| u64::from(counter < personality.counters);
        for counter in 0..MAX_COUNTERS {
            let stored = personality.evtsel.stored * here(counter);
            if state.evtsel[counter] & !stored != 0 {
                return Err(StateError::Evtsel(counter));
            }
            if state.perfctr[counter] & !(personality.perfctr_mask() * here(counter)) != 0 {
                return Err(StateError::Perfctr(counter));
            }
            if !state.stats[counter].is_valid() {
                return Err(StateError::Stats(counter));
            }
        }
        if state.edge_level >> personality.counters != 0 {
            return Err(StateError::EdgeLevel);
        }
        Ok(Pmu {
            personality,
            evtsel: state.evtsel,
            perfctr: state.perfctr,
            edge_level: state.edge_level,
            stats: state.stats,
            uncounted: state.uncounted,
            subscriptions: Subscriptions::compile(personality, &state.evtsel),
        })
    }
}
