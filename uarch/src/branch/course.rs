//! What fetch and the decoder make of a transfer, from what is known of it.

use super::{
    Predictor, Resolution, Transfer, Unseen,
    direction::Guess,
    target_buffer::{BranchClass, Slot},
};

/// What fetch and the decoder made of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Where fetch went on.
    pub(super) fetched: u64,
    /// Where it went on once the transfer was decoded.
    pub(super) decoded: u64,
    /// The target buffer had an entry.
    pub(super) hit: bool,
    /// A return address was taken from the stack.
    pub(super) used_stack: bool,
}

impl Course {
    /// Where it was found out which way the transfer goes.
    pub(super) fn resolution(&self, transfer: &Transfer) -> Resolution {
        if self.decoded != transfer.destination() {
            Resolution::Mispredicted
        } else if self.fetched != self.decoded {
            Resolution::RedirectedAtDecode
        } else {
            Resolution::Predicted
        }
    }
}

impl Predictor {
    /// What fetch and the decoder make of a near transfer.
    pub(super) fn course(
        &self,
        transfer: &Transfer,
        class: BranchClass,
        slot: Option<Slot>,
        guess: &Guess,
    ) -> Course {
        let geometry = self.geometry;
        let at = geometry.address.of(transfer);
        let mut used_stack = false;
        let mut fetched = transfer.next;
        if let Some(slot) = slot {
            let entry = self.targets.entry(slot);
            match entry.class {
                BranchClass::Conditional if !guess.taken => {}
                BranchClass::Conditional | BranchClass::Direct => fetched = entry.target,
                BranchClass::Indirect => {
                    let by_path = self.path_targets.as_ref().and_then(|t| t.target(at, &self.path));
                    fetched = by_path.unwrap_or(entry.target);
                }
                BranchClass::Return => match self.stack.top() {
                    Some(address) => {
                        fetched = address;
                        used_stack = class == BranchClass::Return;
                    }
                    None if geometry.returns.falls_back_to_last_target => fetched = entry.target,
                    None => {}
                },
            }
        } else if class == BranchClass::Return
            && geometry.returns.recognised_at_fetch
            && let Some(address) = self.stack.top()
        {
            (fetched, used_stack) = (address, true);
        }

        let mut decoded = fetched;
        if geometry.corrects_at_decode {
            match class {
                BranchClass::Direct => decoded = transfer.to,
                BranchClass::Conditional => {
                    let known = slot.is_some_and(|slot| {
                        self.targets.entry(slot).class == BranchClass::Conditional
                    });
                    let taken = match geometry.unseen {
                        _ if known => guess.taken,
                        Unseen::NotTaken => false,
                        Unseen::BackwardTaken => transfer.to < transfer.next,
                        Unseen::Dynamic => guess.taken,
                    };
                    decoded = if taken { transfer.to } else { transfer.next };
                }
                BranchClass::Return => {
                    if let Some(address) = self.stack.top() {
                        (decoded, used_stack) = (address, true);
                    }
                }
                BranchClass::Indirect => {}
            }
        }
        Course { fetched, decoded, hit: slot.is_some(), used_stack }
    }
}
