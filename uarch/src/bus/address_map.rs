//! Which guest-physical addresses are memory.

use std::ops::Range;

/// Where memory answers. All other addresses belong to devices: the holes that a PC has for them below
/// 1 MiB and below 4 GiB.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressMap {
    /// Ranges of guest-physical addresses, ascending.
    memory: Box<[Range<u64>]>,
}

impl AddressMap {
    /// Ranges of guest-physical addresses with memory, ascending and apart.
    pub(super) fn new(memory: &[Range<u64>]) -> Self {
        Self { memory: memory.into() }
    }

    /// The address in the DRAM, which has no holes; `None` if a device answers.
    pub(super) fn dram_address(&self, physical: u64) -> Option<u64> {
        let mut below = 0;
        for range in &self.memory {
            if range.contains(&physical) {
                return Some(below + (physical - range.start));
            }
            below += range.end - range.start;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_on_behind_a_hole() {
        let map = AddressMap::new(&[0..0xA_0000, 0x10_0000..0xC000_0000, 1 << 32..5 << 30]);
        assert_eq!(map.dram_address(0x9_FFFF), Some(0x9_FFFF));
        assert_eq!(map.dram_address(0xA_0000), None);
        assert_eq!(map.dram_address(0x10_0000), Some(0xA_0000));
        assert_eq!(map.dram_address(0xC000_0000), None);
        assert_eq!(map.dram_address(0xFEE0_0000), None);
        assert_eq!(map.dram_address(1 << 32), Some(0xC000_0000 - 0x6_0000));
        assert_eq!(map.dram_address(5 << 30), None);
    }
}
