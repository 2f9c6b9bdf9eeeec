//! Short ways to what becomes of most transfers: of those that go as expected, and of some that do not.

use pmu_model::Signal;

use super::{
    Predictor, Resolution, Transfer, TransferKind,
    direction::Direction,
    report::report_mispredicted_direction,
    target_buffer::{BranchClass, Entry, Hinted},
};
use crate::occurrences::Occurrences;

impl Predictor {
    /// [`Predictor::transfer`], if no false entry can be on the way to it and it is not far. What became of it; `None`
    /// if it is to be told, and then nothing has happened. For a caller who does not ask what it cost, and knows the
    /// kind when it is compiled: there is a short way for a transfer that went as its entry predicts, or as the return
    /// stack does; for a conditional branch that went the other way, or has no entry and is not taken; and, where
    /// nothing but execution finds that out, for a branch that shares an entry with one of another kind.
    #[inline(always)]
    pub fn transfer_quickly(
        &mut self,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Option<Resolution> {
        if let Some(map) = &mut self.entry_map
            && map.may_have_in(self.run_start..transfer.from)
        {
            return None;
        }
        let at = if self.at_last_byte { transfer.last } else { transfer.from };
        if transfer.kind == TransferKind::Conditional
            && matches!(self.direction, Direction::Hybrid(_))
        {
            return Some(self.conditional_by_tables(at, &{ *transfer }, occurrences));
        }
        let quickly = match transfer.kind {
            TransferKind::Conditional => self.conditional_quickly(at, transfer, occurrences),
            TransferKind::Jump => self.direct_quickly(at, transfer, occurrences),
            TransferKind::Call if self.stack.is_full() => None,
            TransferKind::Call => {
                let resolution = self.direct_quickly(at, transfer, occurrences);
                if resolution.is_some() {
                    self.stack.push(transfer.next);
                }
                resolution
            }
            TransferKind::Return => self.return_quickly(at, transfer, occurrences),
            _ => return None,
        };
        let resolution = match quickly {
            Some(resolution) => resolution,
            // A copy of it, so that only there it has to be in memory.
            None => self.transfer_not_so_quickly(at, &{ *transfer }, occurrences),
        };
        self.run_start = transfer.destination();
        Some(resolution)
    }

    /// What becomes of one that no way of its kind is for.
    // Cold: whoever calls it keeps its registers for the other ways.
    #[cold]
    #[inline(never)]
    fn transfer_not_so_quickly(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Resolution {
        if self.errs_simply && self.is_taken_for_another(at, transfer, occurrences) {
            return Resolution::Mispredicted;
        }
        self.transfer_of_any_kind(at, transfer, 0, occurrences).resolution
    }

    /// Whether a conditional branch, jump or call that is taken has the entry of one of another kind, which leads fetch
    /// astray; it is now its own. Two branches of a small loop that share an entry do so each time.
    fn is_taken_for_another(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> bool {
        let class = match transfer.kind {
            TransferKind::Conditional if transfer.taken => BranchClass::Conditional,
            TransferKind::Jump => BranchClass::Direct,
            TransferKind::Call if !self.stack.is_full() => BranchClass::Direct,
            _ => return false,
        };
        let Hinted::Entry(entry) = self.targets.hinted_entry(at) else { return false };
        // Whichever way it is expected to go, fetch is elsewhere.
        let is_astray = matches!(entry.class, BranchClass::Direct | BranchClass::Conditional)
            && entry.target != transfer.to
            && transfer.next != transfer.to;
        if entry.class == class || !is_astray || !self.hit.fires(transfer.kind, occurrences) {
            return false;
        }
        report_mispredicted_direction(true, &self.geometry.reports, occurrences);
        entry.replace(Entry::new(class, transfer.to, self.direction.first_pattern(true)));
        if transfer.kind == TransferKind::Call {
            self.stack.push(transfer.next);
        }
        true
    }

    /// The short way of a conditional branch, if there is one: what became of it. If not, nothing has happened.
    #[inline(always)]
    fn conditional_quickly(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Option<Resolution> {
        let Transfer { to, next, taken, .. } = *transfer;
        let entry = match self.targets.hinted_entry(at) {
            Hinted::Entry(entry) => entry,
            Hinted::NoEntry if self.passes_unseen && !taken => {
                self.direction.remember_unseen();
                return Some(Resolution::Predicted);
            }
            Hinted::NoEntry | Hinted::Unknown => return None,
        };
        if entry.class != BranchClass::Conditional || taken && entry.target != to {
            return None;
        }
        // Where it was expected to be taken, the decoder may know better where to. One that leads to what is
        // behind it goes there either way.
        let goes_astray = entry.target == to && to != next;
        let is_right = self.direction.expects(at, entry, taken)?;
        if !(is_right || goes_astray) || !self.hit.fires(TransferKind::Conditional, occurrences) {
            return None;
        }
        self.direction.learn_told(at, entry, taken);
        if is_right {
            return Some(Resolution::Predicted);
        }
        report_mispredicted_direction(taken, &self.geometry.reports, occurrences);
        Some(Resolution::Mispredicted)
    }

    /// What becomes of a conditional branch, where a scheme of several tables says which way it is expected to go.
    // So much of it that whoever calls it would have no register left for anything else.
    #[inline(never)]
    fn conditional_by_tables(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Resolution {
        let resolution = match self.by_tables_quickly(at, transfer, occurrences) {
            Some(resolution) => resolution,
            None => self.transfer_not_so_quickly(at, transfer, occurrences),
        };
        self.run_start = transfer.destination();
        resolution
    }

    /// The short way of it, if there is one.
    #[inline(always)]
    fn by_tables_quickly(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Option<Resolution> {
        let Transfer { to, next, taken, .. } = *transfer;
        let Self { direction: Direction::Hybrid(hybrid), path, targets, hit, geometry, .. } = self
        else {
            return None;
        };
        let Hinted::Entry(entry) = targets.hinted_entry(at) else { return None };
        if entry.class != BranchClass::Conditional || taken && entry.target != to {
            return None;
        }
        // As of a branch by any scheme.
        let goes_astray = entry.target == to && to != next;
        let guess = hybrid.guess(at, path, true);
        let is_right = guess.taken() == taken;
        if !(is_right || goes_astray) || !hit.fires(TransferKind::Conditional, occurrences) {
            return None;
        }
        hybrid.learn_on(at, path, &guess, taken);
        if is_right {
            return Some(Resolution::Predicted);
        }
        report_mispredicted_direction(taken, &geometry.reports, occurrences);
        Some(Resolution::Mispredicted)
    }

    /// The same of a jump or a call to where the instruction says.
    #[inline(always)]
    fn direct_quickly(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Option<Resolution> {
        let Hinted::Entry(entry) = self.targets.hinted_entry(at) else { return None };
        let fits = entry.class == BranchClass::Direct && entry.target == transfer.to;
        (fits && self.hit.fires(transfer.kind, occurrences)).then_some(Resolution::Predicted)
    }

    /// The same of a near return.
    #[inline(always)]
    fn return_quickly(
        &mut self,
        at: u64,
        transfer: &Transfer,
        occurrences: &mut Occurrences,
    ) -> Option<Resolution> {
        if self.stack.top() != Some(transfer.to) {
            return None;
        }
        if self.has_return_entries {
            let Hinted::Entry(entry) = self.targets.hinted_entry(at) else { return None };
            if entry.class != BranchClass::Return || !self.hit.fires(transfer.kind, occurrences) {
                return None;
            }
            entry.target = transfer.to;
        } else if self.reports_misses || !occurrences.fires_uncounted(&[(Signal::RasPredicted, 1)])
        {
            return None;
        }
        self.stack.pop();
        Some(Resolution::Predicted)
    }
}
