//! Knights Corner, which is taken to predict as the Pentium with MMX does: Intel 327357-001, table 1-6,
//! events 15h and 2Bh, says what of that is counted.

use pmu_model::Signal;

use super::{
    super::comparison::{Expected, Reference},
    PentiumMmx,
};
use crate::branch::Transfer;

#[derive(Default)]
pub(in super::super) struct KnightsCorner(PentiumMmx);

impl Reference for KnightsCorner {
    const SIGNALS: &'static [Signal] =
        &[Signal::PipelineFlush, Signal::FlushMispredict, Signal::BranchMispredictedBtbHit];

    fn transfer(&mut self, transfer: &Transfer) -> Expected {
        self.0.transfer(transfer)
    }

    fn interrupted(&mut self, from: u64, to: u64) -> Vec<Signal> {
        self.0.interrupted(from, to)
    }
}
