//! What is learnt from how a near transfer went.

use pmu_model::Signal;

use super::{
    Allocation, Predictor, Transfer, TransferKind,
    direction::Guess,
    target_buffer::{BranchClass, Entry, Slot},
};
use crate::occurrences::Occurrences;

impl Predictor {
    /// Learns how a near transfer went.
    pub(super) fn learn(
        &mut self,
        transfer: &Transfer,
        class: BranchClass,
        slot: Option<Slot>,
        guess: &Guess,
        occurrences: &mut Occurrences,
    ) {
        let geometry = self.geometry;
        let at = geometry.address.of(transfer);
        match class {
            BranchClass::Indirect => {
                if let Some(targets) = &mut self.path_targets {
                    let last_target = slot.map(|slot| self.targets.entry(slot).target);
                    let was_right = last_target == Some(transfer.to);
                    targets.learn(at, &self.path, transfer.to, was_right);
                }
                self.path.indirect(at, transfer.to);
            }
            BranchClass::Return => self.stack.pop(),
            BranchClass::Conditional | BranchClass::Direct => {}
        }
        if matches!(transfer.kind, TransferKind::Call | TransferKind::IndirectCall) {
            self.push(transfer.next, occurrences);
        }

        let conditional = class == BranchClass::Conditional;
        let allocates = transfer.taken || geometry.allocation == Allocation::Executed;
        match slot {
            Some(slot) if self.targets.entry(slot).class == class => {
                let entry = self.targets.entry_mut(slot);
                if transfer.taken {
                    entry.target = transfer.to;
                }
                if conditional {
                    self.direction.learn(at, Some(entry), &mut self.path, guess, transfer.taken);
                }
            }
            found => {
                if conditional {
                    self.direction.learn(at, None, &mut self.path, guess, transfer.taken);
                }
                if allocates
                    && (class != BranchClass::Return || !geometry.returns.recognised_at_fetch)
                {
                    self.allocate(at, class, transfer, found);
                }
            }
        }
    }

    /// Gives a branch an entry: that of another branch which it was taken for, if there is one.
    fn allocate(
        &mut self,
        at: u64,
        class: BranchClass,
        transfer: &Transfer,
        taken_for: Option<Slot>,
    ) {
        let pattern = self.direction.first_pattern(transfer.taken);
        let entry = Entry::new(class, transfer.to, pattern);
        if let Some(slot) = taken_for {
            self.targets.replace(slot, entry);
            return;
        }
        let gone = self.targets.insert(at, entry);
        if let Some(map) = &mut self.entry_map {
            if let Some(gone) = gone {
                map.remove(gone, &self.targets);
            }
            map.add(at);
        }
    }

    /// A call pushes its return address.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64, occurrences: &mut Occurrences) {
        if self.stack.push(address) {
            occurrences.fire(Signal::RasOverflow, 1);
        }
    }
}
