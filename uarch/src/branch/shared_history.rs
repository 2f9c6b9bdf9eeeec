//! The direction of conditional branches by a table that all share: AMD's global history bimodal
//! counters (GHBC).

use super::{
    counter::{self, WEAKLY_NOT_TAKEN, after, predicts_taken},
    geometry::SharedHistoryGeometry,
    target_buffer::Entry,
};
use crate::state::Visitor;

/// The outcomes of the last conditional branches, and the table that they index.
#[derive(Clone, Debug)]
pub(super) struct SharedHistory {
    counters: Box<[u8]>,
    /// The newest outcome in bit 0.
    history: u64,
    history_mask: u64,
    /// The bits of the address in the index are above those of the history.
    address_mask: u64,
    address_low_bit: u32,
    history_bits: u32,
}

impl SharedHistory {
    /// An empty one. What the counters are at reset is not sourced.
    pub(super) fn new(geometry: SharedHistoryGeometry) -> Self {
        let SharedHistoryGeometry { history_bits, address_low_bit, address_bits } = geometry;
        Self {
            counters: vec![WEAKLY_NOT_TAKEN; 1 << (history_bits + address_bits)].into(),
            history: 0,
            history_mask: (1 << history_bits) - 1,
            address_mask: (1 << address_bits) - 1,
            address_low_bit,
            history_bits,
        }
    }

    /// Whether the branch at an address, which has this entry, is expected to be taken: the table is used where it has
    /// been both.
    #[inline(always)]
    pub(super) fn expects(&self, at: u64, entry: &Entry) -> bool {
        !entry.varies || predicts_taken(self.counters[self.index(at)])
    }

    /// Learns how it went.
    #[inline(always)]
    pub(super) fn learn_with(&mut self, at: u64, entry: &mut Entry, taken: bool) {
        entry.varies |= !taken;
        if entry.varies {
            let index = self.index(at);
            self.counters[index] = after(self.counters[index], taken);
        }
        self.remember(taken);
    }

    /// Takes an outcome of any conditional branch into the history.
    #[inline(always)]
    pub(super) fn remember(&mut self, taken: bool) {
        self.history = (self.history << 1 | u64::from(taken)) & self.history_mask;
    }

    #[inline(always)]
    fn index(&self, at: u64) -> usize {
        let address = at >> self.address_low_bit & self.address_mask;
        (address << self.history_bits | self.history) as usize
    }
}

crate::state! {
    SharedHistory {
        saved: counters, history;
        derived: history_mask, address_mask, address_low_bit, history_bits;
        then: check;
    }
}

impl SharedHistory {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        counter::check(visitor, &self.counters);
        visitor.check(self.history & !self.history_mask == 0);
    }
}
