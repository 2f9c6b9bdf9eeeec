//! The signals that follow from what became of a transfer.

use pmu_model::Signal;

use super::{
    Hit, Predictor, Resolution, Transfer, TransferKind, course::Course, geometry::Reports,
};
use crate::occurrences::Occurrences;

impl Predictor {
    /// Those of a near transfer.
    #[inline(always)]
    pub(super) fn report(
        &self,
        transfer: &Transfer,
        course: &Course,
        resolution: Resolution,
        occurrences: &mut Occurrences,
    ) {
        let reports = &self.geometry.reports;
        if reports.target_buffer_hits {
            if course.hit {
                occurrences.fire(Signal::BtbHit, 1);
            }
            if course.hit || transfer.taken {
                occurrences.fire(Signal::BtbHitOrTaken, 1);
            }
        }
        if reports.target_buffer_misses && !course.hit {
            occurrences.fire(Signal::BtbMiss, 1);
        }
        if reports.executed {
            report_executed(transfer.kind, occurrences);
        }
        if course.used_stack {
            occurrences.fire(Signal::RasPredicted, 1);
        }
        if course.decoded != course.fetched || resolution == Resolution::Mispredicted {
            self.report_wrong(transfer, course, resolution, occurrences);
        }
    }

    /// Those of a rightly predicted near transfer, but for those of the return stack.
    #[inline(never)]
    pub(super) fn report_predicted(
        &self,
        transfer: &Transfer,
        hit: Hit,
        occurrences: &mut Occurrences,
    ) {
        let hit = hit == Hit::Yes;
        let destination = transfer.destination();
        let course = Course { fetched: destination, decoded: destination, hit, used_stack: false };
        self.report(transfer, &course, Resolution::Predicted, occurrences);
    }

    /// Those of a transfer that fetch went wrong at.
    #[inline(always)]
    fn report_wrong(
        &self,
        transfer: &Transfer,
        course: &Course,
        resolution: Resolution,
        occurrences: &mut Occurrences,
    ) {
        let reports = &self.geometry.reports;
        let is_return = transfer.kind == TransferKind::Return;
        if course.decoded != course.fetched {
            occurrences.fire(Signal::FrontendBaclear, 1);
            if reports.executed {
                occurrences.fire(Signal::BranchExecutedMispredictedDecode, 1);
                if is_return {
                    occurrences.fire(Signal::BranchExecutedRetMispredictedDecode, 1);
                }
            }
        }
        if resolution != Resolution::Mispredicted {
            return;
        }
        let is_conditional = transfer.kind == TransferKind::Conditional;
        let is_call = matches!(transfer.kind, TransferKind::Call | TransferKind::IndirectCall);
        let is_indirect =
            matches!(transfer.kind, TransferKind::IndirectJump | TransferKind::IndirectCall);
        let mut fire_if = |occurred: bool, signal: Signal| {
            if occurred {
                occurrences.fire(signal, 1);
            }
        };
        fire_if(true, Signal::BranchMispredicted);
        fire_if(transfer.taken, Signal::BranchMispredictedTaken);
        fire_if(!transfer.taken, Signal::BranchMispredictedNotTaken);
        fire_if(course.hit, Signal::BranchMispredictedBtbHit);
        fire_if(is_return, Signal::BranchMispredictedRet);
        fire_if(is_indirect, Signal::BranchMispredictedIndirect);
        if reports.flushes {
            fire_if(true, Signal::PipelineFlush);
            fire_if(true, Signal::FlushMispredict);
        }
        if reports.executed {
            fire_if(true, Signal::BranchExecutedMispredicted);
            fire_if(is_conditional, Signal::BranchExecutedConditionalMispredicted);
            fire_if(is_indirect, Signal::BranchExecutedIndirectMispredicted);
            fire_if(is_return, Signal::BranchExecutedRetMispredicted);
            fire_if(is_call, Signal::BranchExecutedCallMispredicted);
        }
    }

    /// Those of a far transfer: a taken branch that is never in the target buffer.
    pub(super) fn report_far(&self, occurrences: &mut Occurrences) {
        let reports = &self.geometry.reports;
        if reports.target_buffer_hits {
            occurrences.fire(Signal::BtbHitOrTaken, 1);
        }
        if reports.target_buffer_misses {
            occurrences.fire(Signal::BtbMiss, 1);
        }
        if reports.executed {
            occurrences.fire(Signal::BranchExecuted, 1);
        }
    }

    /// Those of an entry that led fetch astray where there is no branch.
    pub(super) fn report_false_entry(&self, occurrences: &mut Occurrences) {
        occurrences.fire(Signal::BtbFalseEntry, 1);
        occurrences.fire(Signal::FrontendBogusBranch, 1);
        if self.geometry.corrects_at_decode {
            occurrences.fire(Signal::FrontendBaclear, 1);
        }
        if self.geometry.reports.flushes {
            occurrences.fire(Signal::PipelineFlush, 1);
            occurrences.fire(Signal::FlushMispredict, 1);
        }
    }
}

/// What a branch fires that has an entry and goes as that predicts; a return fires that it took its address from the
/// return stack as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitReports {
    /// Nothing.
    None,
    /// That it has.
    TargetBuffer,
    /// That it was executed, and what kind it is of.
    Executed,
}

impl HitReports {
    /// Those of a part.
    ///
    /// # Panics
    ///
    /// If it reports both: no part does.
    pub(super) fn of(reports: &Reports) -> Self {
        assert!(!(reports.executed && reports.target_buffer_hits));
        match reports {
            Reports { executed: true, .. } => Self::Executed,
            Reports { target_buffer_hits: true, .. } => Self::TargetBuffer,
            _ => Self::None,
        }
    }

    /// Fires it, of a conditional branch, a direct jump or call, or a near return, if nobody counts it at once: whether
    /// it is so.
    #[inline(always)]
    pub(super) fn fires(self, kind: TransferKind, occurrences: &mut Occurrences) -> bool {
        const STACK: (Signal, u64) = (Signal::RasPredicted, 1);
        const HIT: (Signal, u64) = (Signal::BtbHit, 1);
        const HIT_OR_TAKEN: (Signal, u64) = (Signal::BtbHitOrTaken, 1);
        const EXECUTED: (Signal, u64) = (Signal::BranchExecuted, 1);
        const CONDITIONAL: (Signal, u64) = (Signal::BranchExecutedConditional, 1);
        const CALL: (Signal, u64) = (Signal::BranchExecutedCall, 1);
        const RETURN: (Signal, u64) = (Signal::BranchExecutedRet, 1);
        // Each on its own, so that none is a list of unknown length.
        let mut fires = |signals: &[(Signal, u64)]| occurrences.fires_uncounted(signals);
        match (self, kind) {
            (Self::None, TransferKind::Return) => fires(&[STACK]),
            (Self::None, _) => true,
            (Self::TargetBuffer, TransferKind::Return) => fires(&[HIT, HIT_OR_TAKEN, STACK]),
            (Self::TargetBuffer, _) => fires(&[HIT, HIT_OR_TAKEN]),
            (Self::Executed, TransferKind::Conditional) => fires(&[EXECUTED, CONDITIONAL]),
            (Self::Executed, TransferKind::Call) => fires(&[EXECUTED, CALL]),
            (Self::Executed, TransferKind::Return) => fires(&[EXECUTED, RETURN, STACK]),
            (Self::Executed, _) => fires(&[EXECUTED]),
        }
    }
}

/// Those, beside [`HitReports`], of a conditional branch with an entry that did not go the way which fetch and the
/// decoder went; where it is not told which branches were executed, of a direct jump or call too.
#[inline(always)]
pub(super) fn report_mispredicted_direction(
    taken: bool,
    reports: &Reports,
    occurrences: &mut Occurrences,
) {
    let direction =
        if taken { Signal::BranchMispredictedTaken } else { Signal::BranchMispredictedNotTaken };
    occurrences.fire_all([
        (Signal::BranchMispredicted, 1),
        (direction, 1),
        (Signal::BranchMispredictedBtbHit, 1),
    ]);
    if reports.flushes {
        occurrences.fire_all([(Signal::PipelineFlush, 1), (Signal::FlushMispredict, 1)]);
    }
    if reports.executed {
        occurrences.fire(Signal::BranchExecutedMispredicted, 1);
        occurrences.fire(Signal::BranchExecutedConditionalMispredicted, 1);
    }
}

/// Those of any near transfer that was executed.
#[inline(always)]
fn report_executed(kind: TransferKind, occurrences: &mut Occurrences) {
    occurrences.fire(Signal::BranchExecuted, 1);
    match kind {
        TransferKind::Conditional => occurrences.fire(Signal::BranchExecutedConditional, 1),
        TransferKind::IndirectJump => occurrences.fire(Signal::BranchExecutedIndirect, 1),
        TransferKind::Call => occurrences.fire(Signal::BranchExecutedCall, 1),
        TransferKind::IndirectCall => {
            occurrences.fire(Signal::BranchExecutedCall, 1);
            occurrences.fire(Signal::BranchExecutedIndirect, 1);
            occurrences.fire(Signal::BranchExecutedIndirectCall, 1);
        }
        TransferKind::Return => occurrences.fire(Signal::BranchExecutedRet, 1),
        TransferKind::Jump
        | TransferKind::FarCall
        | TransferKind::FarReturn
        | TransferKind::Far => {}
    }
}
