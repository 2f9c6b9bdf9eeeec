//! Targets of indirect branches by the path to them: the Pentium M's indirect branch target buffer.

use super::{geometry::PathTargetGeometry, path::Path};

/// A direct-mapped table of targets.
#[derive(Clone, Debug)]
pub(super) struct PathTargets {
    geometry: PathTargetGeometry,
    entries: Box<[PathTarget]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathTarget {
    valid: bool,
    tag: u64,
    target: u64,
}

impl PathTargets {
    /// An empty one.
    pub(super) fn new(geometry: PathTargetGeometry) -> Self {
        Self { geometry, entries: vec![PathTarget::default(); geometry.entries].into() }
    }

    /// The target of the branch at an address, on this path.
    pub(super) fn target(&self, at: u64, path: &Path) -> Option<u64> {
        let (index, tag) = self.place(at, path);
        let entry = &self.entries[index];
        (entry.valid && entry.tag == tag).then_some(entry.target)
    }

    /// Learns a target. A new entry is made only if the target buffer's was wrong.
    pub(super) fn learn(&mut self, at: u64, path: &Path, target: u64, last_target_was_right: bool) {
        let (index, tag) = self.place(at, path);
        let entry = &mut self.entries[index];
        if entry.valid && entry.tag == tag || !last_target_was_right {
            *entry = PathTarget { valid: true, tag, target };
        }
    }

    fn place(&self, at: u64, path: &Path) -> (usize, u64) {
        let hash = path.hash(at);
        let index_mask = (self.geometry.entries as u64 - 1) << self.geometry.index_low_bit;
        ((hash & index_mask) as usize >> self.geometry.index_low_bit, hash & !index_mask)
    }
}

crate::state! { PathTargets { saved: entries; derived: geometry; } }
crate::state! { PathTarget { saved: valid, tag, target; } }
