//! Who counts for the performance counters.

use pmu_model::{Personality, Pmu};
use serde::Serialize;

use super::soft::TIER;

/// Who counts for the performance counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The software engine: what the personality's processor would have counted.
    #[default]
    Exact,
    /// The host's performance counters, on KVM.
    Host,
    /// Nobody: every register is live, the counters stand still, and no PMI comes.
    Off,
}

impl Count {
    /// The PMU of a processor. What asks for nothing is never counted by the software engine, so
    /// nothing else has to know.
    pub(crate) fn pmu(self, personality: &'static Personality) -> Pmu {
        match self {
            Self::Exact => Pmu::new(personality, personality.live.of(TIER)),
            Self::Host | Self::Off => Pmu::without_demand(personality),
        }
    }
}
