//! The flush filter: when page tables are loaded that have been loaded before and were not written since,
//! what the TLBs have of them stays valid.
//!
//! US patent 6510508, claims 1 to 5: the filter monitors the blocks of memory from which translations have
//! been read, in a table of regions. The first context switch flushes the TLBs and activates it; a later one
//! flushes if one of these blocks has been modified, and else does not. The claims leave open how the
//! translations of one address space are kept apart from another's, and what happens if a table is full. Here
//! an entry of the TLBs is tagged with the number of its address space, and what there is no room for is
//! flushed at the next context switch, or with the one that finds no room: not sourced.

use super::geometry::FlushFilterGeometry;
use crate::state::{State, Visitor, list};

/// What a translation is tagged with: 0 if it is global, or was read while the filter was not active; else
/// the number of its address space, in the order in which they were loaded first.
pub(super) type AddressSpace = u8;

/// Bytes of a block that is monitored: a page table. Not sourced.
const BLOCK: u64 = 4096;
/// In CR3, PWT, PCD and what is reserved below the base of any table.
const NOT_BASE: u64 = 0x1F;

/// The flush filter of a processor.
#[derive(Clone, Debug)]
pub(super) struct FlushFilter {
    geometry: FlushFilterGeometry,
    enabled: bool,
    /// There was a context switch since it began anew, and all that translations were read from is in
    /// `blocks` and unmodified.
    active: bool,
    /// The numbers of the blocks that are monitored.
    blocks: Vec<u64>,
    /// The tables that have been loaded since the last flush.
    bases: Vec<u64>,
}

/// What a context switch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// All translations stay, and those of this address space are valid.
    Keep(AddressSpace),
    /// All but global ones go; new ones are of this address space.
    Flush(AddressSpace),
}

impl FlushFilter {
    pub(super) fn new(geometry: FlushFilterGeometry) -> Self {
        Self {
            geometry,
            enabled: true,
            active: false,
            blocks: Vec::with_capacity(geometry.blocks.into()),
            bases: Vec::with_capacity(geometry.address_spaces.into()),
        }
    }

    /// CR3 is loaded.
    pub(super) fn load(&mut self, cr3: u64) -> Switch {
        if !self.enabled {
            return Switch::Flush(0);
        }
        let base = cr3 & !NOT_BASE;
        let known = self.bases.iter().position(|&known| known == base);
        let has_room = self.bases.len() < self.geometry.address_spaces.into();
        if self.active && (known.is_some() || has_room) {
            let place = known.unwrap_or_else(|| {
                self.bases.push(base);
                self.bases.len() - 1
            });
            // The pointers of the first level that PAE has in registers are read from there.
            self.monitor(base);
            return Switch::Keep(place as AddressSpace + 1);
        }
        self.restart();
        self.active = true;
        self.bases.push(base);
        self.monitor(base);
        Switch::Flush(1)
    }

    /// A walk read an entry. Whether that is monitored.
    pub(super) fn monitor(&mut self, physical: u64) -> bool {
        let block = physical / BLOCK;
        if self.active && !self.blocks.contains(&block) {
            if self.blocks.len() < self.geometry.blocks.into() {
                self.blocks.push(block);
            } else {
                self.active = false;
            }
        }
        self.active
    }

    /// The guest-physical addresses of the blocks that are monitored.
    pub(super) fn monitored(&self) -> impl Iterator<Item = u64> + '_ {
        let blocks = if self.active { &self.blocks[..] } else { &[] };
        blocks.iter().map(|block| block * BLOCK)
    }

    /// Memory was written within a page.
    pub(super) fn written(&mut self, physical: u64) {
        self.active &= !self.blocks.contains(&(physical / BLOCK));
    }

    /// It begins anew with the next context switch, which flushes.
    pub(super) fn restart(&mut self) {
        self.active = false;
        self.blocks.clear();
        self.bases.clear();
    }

    pub(super) fn enable(&mut self, enabled: bool) {
        if self.enabled != enabled {
            self.enabled = enabled;
            self.restart();
        }
    }
}

impl State for FlushFilter {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("FlushFilter");
        let Self { geometry, enabled, active, blocks, bases } = self;
        enabled.visit(visitor);
        active.visit(visitor);
        list(visitor, blocks, geometry.blocks.into(), Default::default);
        list(visitor, bases, geometry.address_spaces.into(), Default::default);
        visitor.check(blocks.iter().all(|&block| block <= u64::MAX / BLOCK));
    }
}
