//! Branch prediction: what fetch does at a control transfer, where it is put right, and what that costs.
//!
//! A [`Predictor`] is asked when a transfer retires: it says what would have been predicted, and learns
//! how it went. So nothing of it sees a wrong path, and its history is never to be repaired.
//!
//! ```text
//!   address of the branch ──> target buffer ──(class, target)──┐
//!                        └──> direction scheme ──(taken?)──────┼──> fetch ──> decoder ──> execution
//!                             return stack, path targets ──────┘      predicted │ redirected │ mispredicted
//! ```
//!
//! A misprediction is what only execution puts right. A branch that the decoder puts right costs less, and
//! is not counted among the mispredicted ones that retire; of AMD's processors, that is not sourced.

mod counter;
mod course;
mod direction;
mod false_entries;
mod geometry;
mod global;
mod hybrid;
mod learning;
mod local_pattern;
mod loops;
mod path;
mod path_targets;
mod quickly;
mod recency;
mod report;
mod return_stack;
mod shared_history;
mod target_buffer;
mod transfer;

#[cfg(test)]
mod tests;

pub use geometry::{
    Allocation, BranchAddress, DirectionScheme, HybridGeometry, PathTargetGeometry, Penalties,
    PredictorGeometry, Reports, ReturnGeometry, SharedHistoryGeometry, TargetBufferGeometry,
    Unseen,
};
pub use transfer::{Outcome, Resolution, Transfer, TransferKind};

use pmu_model::Signal;

use crate::occurrences::Occurrences;
use crate::state::{State, Visitor};
use direction::{Direction, Guess};
use false_entries::EntryMap;
use path::Path;
use path_targets::PathTargets;
use report::HitReports;
use return_stack::ReturnStack;
use target_buffer::{BranchClass, TargetBuffer};

/// No address: it is not canonical, and so far from any that is that no code runs up to there from it.
const NOWHERE: u64 = 1 << 63;

/// The branch prediction of one processor.
#[derive(Clone, Debug)]
pub struct Predictor {
    geometry: &'static PredictorGeometry,
    targets: TargetBuffer,
    direction: Direction,
    path: Path,
    path_targets: Option<PathTargets>,
    stack: ReturnStack,
    entry_map: Option<EntryMap>,
    /// Where the straight-line code begins in which execution is.
    run_start: u64,
    /// Whether a rightly predicted branch with an entry fires signals beside those of the return stack, and
    /// whether one without does.
    reports_hits: bool,
    reports_misses: bool,
    /// A conditional branch without an entry that is not taken was expected to be not, gets no entry,
    /// and fires no signals.
    passes_unseen: bool,
    /// What one with an entry fires that goes as expected.
    hit: HitReports,
    /// Branches are known by their last byte, and not by their first.
    at_last_byte: bool,
    /// Returns have entries in the target buffer.
    has_return_entries: bool,
    /// Of a branch that its entry takes for another one, only execution finds out, and no more is told than of others.
    errs_simply: bool,
}

/// Whether a branch has an entry in the target buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Yes,
    No,
}

impl Predictor {
    /// That of a processor after reset: it knows nothing.
    ///
    /// # Panics
    ///
    /// If the geometry is none: a number that has to be a power of two is not, or the like.
    #[must_use]
    pub fn new(geometry: &'static PredictorGeometry) -> Self {
        let entry_map = geometry.finds_false_entries.then(|| EntryMap::new(geometry.targets));
        Self {
            geometry,
            targets: TargetBuffer::new(geometry.targets),
            direction: Direction::new(geometry.direction),
            path: Path::new(geometry.direction.path_bits()),
            path_targets: geometry.indirect.map(PathTargets::new),
            stack: ReturnStack::new(geometry.returns.depth),
            entry_map,
            run_start: NOWHERE,
            passes_unseen: geometry.unseen == Unseen::NotTaken
                && geometry.allocation == Allocation::Taken
                && !geometry.reports.target_buffer_misses
                && !geometry.reports.executed,
            hit: HitReports::of(&geometry.reports),
            at_last_byte: geometry.address == BranchAddress::LastByte,
            has_return_entries: !geometry.returns.recognised_at_fetch,
            errs_simply: !geometry.corrects_at_decode
                && !geometry.reports.executed
                && matches!(geometry.direction, DirectionScheme::LocalPatterns { .. }),
            reports_hits: geometry.reports.target_buffer_hits || geometry.reports.executed,
            reports_misses: geometry.reports.target_buffer_hits
                || geometry.reports.target_buffer_misses
                || geometry.reports.executed,
        }
    }

    /// Forgets all, as at reset.
    pub fn flush(&mut self) {
        *self = Self::new(self.geometry);
    }

    /// A control transfer retired. To be called for each, in program order.
    #[inline(always)]
    pub fn transfer(&mut self, transfer: &Transfer, occurrences: &mut Occurrences) -> Outcome {
        let at = self.geometry.address.of(transfer);
        let lost = match self.entry_map {
            Some(_) => self.run_through(transfer, occurrences),
            None => 0,
        };
        let expected = match transfer.kind {
            TransferKind::Conditional => self.is_expected_conditional(at, transfer),
            TransferKind::Jump | TransferKind::Call => self.is_expected_direct(at, transfer),
            TransferKind::Return => self.is_expected_return(at, transfer),
            _ => None,
        };
        let Some(hit) = expected else {
            return self.transfer_of_any_kind(at, transfer, lost, occurrences);
        };
        if hit == Hit::Yes && self.reports_hits || hit == Hit::No && self.reports_misses {
            self.report_predicted(transfer, hit, occurrences);
        }
        match transfer.kind {
            TransferKind::Call => self.push(transfer.next, occurrences),
            TransferKind::Return => occurrences.fire(Signal::RasPredicted, 1),
            _ => {}
        }
        let own = if transfer.taken { self.geometry.penalties.taken } else { 0 };
        Outcome { resolution: Resolution::Predicted, penalty: own + lost }
    }

    /// Execution comes in a straight line to a transfer. Cycles that false entries on the way cost.
    #[inline(never)]
    fn run_through(&mut self, transfer: &Transfer, occurrences: &mut Occurrences) -> u32 {
        let false_entries = self.run_up_to(transfer.from, occurrences);
        self.run_start = transfer.destination();
        false_entries * self.geometry.penalties.decode
    }

    /// Whether a conditional branch goes as its entry predicts; or has none, and goes on in line as
    /// expected. If so, it is learnt; if not, nothing is. It is a short way to what
    /// [`Self::transfer_of_any_kind`] does with most branches.
    #[inline(always)]
    fn is_expected_conditional(&mut self, at: u64, transfer: &Transfer) -> Option<Hit> {
        let Transfer { to, taken, .. } = *transfer;
        let Some(entry) = self.targets.find_entry(at) else {
            return self.is_passed_unseen(at, taken);
        };
        let fits = entry.class == BranchClass::Conditional && (!taken || entry.target == to);
        (fits && self.direction.learn_if_right(at, entry, &mut self.path, taken))
            .then_some(Hit::Yes)
    }

    /// The same of one without an entry.
    #[inline(never)]
    fn is_passed_unseen(&mut self, at: u64, taken: bool) -> Option<Hit> {
        if taken || !self.passes_unseen {
            return None;
        }
        self.direction.learn(at, None, &mut self.path, &Guess::default(), false);
        Some(Hit::No)
    }

    /// The same of a direct jump or call. There is nothing to learn of it.
    #[inline(always)]
    fn is_expected_direct(&mut self, at: u64, transfer: &Transfer) -> Option<Hit> {
        let entry = self.targets.find_entry(at)?;
        let fits = entry.class == BranchClass::Direct && entry.target == transfer.to;
        fits.then_some(Hit::Yes)
    }

    /// The same of a return, which goes to the newest address on the stack.
    #[inline(always)]
    fn is_expected_return(&mut self, at: u64, transfer: &Transfer) -> Option<Hit> {
        if self.stack.top() != Some(transfer.to) {
            return None;
        }
        let hit = if self.geometry.returns.recognised_at_fetch {
            Hit::No
        } else {
            let entry = self.targets.find_entry(at)?;
            if entry.class != BranchClass::Return {
                return None;
            }
            entry.target = transfer.to;
            Hit::Yes
        };
        self.stack.pop();
        Some(hit)
    }

    #[inline(never)]
    fn transfer_of_any_kind(
        &mut self,
        at: u64,
        transfer: &Transfer,
        lost: u32,
        occurrences: &mut Occurrences,
    ) -> Outcome {
        let Some(class) = BranchClass::of(transfer.kind) else {
            self.far(transfer, occurrences);
            return Outcome { resolution: Resolution::NotPredicted, penalty: lost };
        };
        let has_entry = class != BranchClass::Return || !self.geometry.returns.recognised_at_fetch;
        let slot = if has_entry { self.targets.find(at) } else { None };
        let entry = slot.map(|slot| self.targets.entry(slot));
        let is_or_seems_conditional = class == BranchClass::Conditional
            || entry.is_some_and(|entry| entry.class == BranchClass::Conditional);
        let guess = if is_or_seems_conditional {
            self.direction.guess(at, entry, &self.path)
        } else {
            Guess::default()
        };
        let course = self.course(transfer, class, slot, &guess);
        self.learn(transfer, class, slot, &guess, occurrences);
        let resolution = course.resolution(transfer);
        self.report(transfer, &course, resolution, occurrences);
        let penalties = &self.geometry.penalties;
        let own = match resolution {
            Resolution::Predicted if transfer.taken => penalties.taken,
            Resolution::Predicted | Resolution::NotPredicted => 0,
            Resolution::RedirectedAtDecode => penalties.decode,
            Resolution::Mispredicted => penalties.execution,
        };
        Outcome { resolution, penalty: own + lost }
    }

    /// An exception or an interrupt was delivered, from the linear address of the interrupted program to
    /// that of the handler. It is not predicted and disturbs nothing: it neither pushes the return stack
    /// nor enters a history.
    pub fn interrupted(&mut self, from: u64, to: u64, occurrences: &mut Occurrences) {
        self.run_up_to(from, occurrences);
        self.run_start = to;
        if self.geometry.reports.flushes {
            occurrences.fire(Signal::PipelineFlush, 1);
        }
    }

    /// A far transfer.
    fn far(&mut self, transfer: &Transfer, occurrences: &mut Occurrences) {
        if self.geometry.returns.holds_far_calls {
            match transfer.kind {
                TransferKind::FarCall => self.push(transfer.next, occurrences),
                TransferKind::FarReturn => self.stack.pop(),
                _ => {}
            }
        }
        self.report_far(occurrences);
    }
}

crate::state! {
    Predictor {
        saved: targets, direction, path, stack;
        made: path_targets, entry_map;
        derived: geometry, run_start, reports_hits, reports_misses, passes_unseen, hit, at_last_byte,
            has_return_entries, errs_simply;
        then: visit_run;
    }
}

impl Predictor {
    /// Where a run begins is known, and looked at, only if there is a map of entries.
    fn visit_run<V: Visitor>(&mut self, visitor: &mut V) {
        if self.entry_map.is_some() {
            self.run_start.visit(visitor);
        }
    }
}
