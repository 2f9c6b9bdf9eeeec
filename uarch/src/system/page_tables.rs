//! Where the page tables are whose being written somebody has to know.

use super::pages::PAGE;
use crate::processors::PerCore;
use crate::tlb::Tlbs;

/// The pages that flush filters monitor. Not part of what is modelled: a store need not ask each of them.
#[derive(Clone, Debug)]
pub(super) struct MonitoredPages {
    /// There are any: few parts have a flush filter.
    any: bool,
    /// A bit for each page number, by its low bits: a page whose bit is clear is not monitored.
    bits: [u64; 64],
}

impl MonitoredPages {
    pub(super) const NONE: Self = Self { any: false, bits: [0; 64] };

    /// Whether the page of a guest-physical address may be one of them.
    #[inline(always)]
    pub(super) fn may_have(&self, physical: u64) -> bool {
        let (word, bit) = Self::place(physical);
        self.any && self.bits[word] >> bit & 1 != 0
    }

    /// Those that the flush filters of these TLBs monitor.
    pub(super) fn of(tlbs: &PerCore<Tlbs>) -> Self {
        let mut monitored = Self::NONE;
        tlbs.iter().flat_map(Tlbs::monitored).for_each(|physical| monitored.add(physical));
        monitored
    }

    pub(super) fn add(&mut self, physical: u64) {
        let (word, bit) = Self::place(physical);
        self.any = true;
        self.bits[word] |= 1 << bit;
    }

    #[inline(always)]
    fn place(physical: u64) -> (usize, u64) {
        let number = physical / PAGE;
        ((number / 64 % 64) as usize, number % 64)
    }
}
