//! What the guest's performance counters count by: the software engine, the host's PMU, or nothing.

use pmu_model::{Personality, Pmu};
use serde::{Deserialize, Serialize};

use super::soft::TIER;

/// What the guest's performance counters count by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The software engine: what the personality's processor would have counted.
    #[default]
    Exact,
    /// The host's performance counters, on KVM.
    Host,
    /// Nothing: the registers can be written and read, the counters stand still, and there is no PMI.
    Off,
}

impl Count {
    /// The PMU of a processor. With [`Self::Host`] and [`Self::Off`] it has no demand, so that the
    /// software engine counts nothing for it and is not entered for it.
    pub(crate) fn pmu(self, personality: &'static Personality) -> Pmu {
        match self {
            Self::Exact => Pmu::new(personality, personality.live.of(TIER)),
            Self::Host | Self::Off => Pmu::without_demand(personality),
        }
    }
}
