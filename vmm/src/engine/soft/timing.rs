//! Whose clock virtual time is, and when the models are told of execution.

use serde::{Deserialize, Serialize};

/// Whose clock virtual time is while the software engine executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// The pipeline's while a counter, or the recorder, counts what depends on it: stalls, what is decoded
    /// and retired a cycle, how long buses are busy, and what all threads of a core do. Else it is flat.
    ///
    /// Unhalted cycles alone do not ask for the pipeline: kernels count them all the time to watch for
    /// lockups, and would run at about a twentieth of the speed.
    #[default]
    Auto,
    /// The pipeline's while anything is counted, or always if the models are always warm. A recorder that
    /// asks for nothing that models tell changes nothing.
    Model,
    /// Flat: one cycle for each instruction, each further iteration of a REP and each delivery.
    Flat,
}

impl Timing {
    /// Its name on the command line and in the statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Model => "model",
            Self::Flat => "flat",
        }
    }
}

/// When the models of caches, TLBs and predictors are told of execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Warm {
    /// While a counter or the recorder counts what they tell.
    #[default]
    Counting,
    /// Always, so that what ran while nothing was counted is in the caches when it is.
    Always,
}

impl Warm {
    /// Its name on the command line and in the statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Always => "always",
        }
    }
}
