//! Segment registers with what was loaded from their descriptors, and the registers of descriptor
//! tables. `segment.rs` loads them.

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Selector.
    pub selector: u16,
    /// Base address.
    pub base: u64,
    /// Limit in bytes, granularity applied.
    pub limit: u32,
    /// Attributes as in the descriptor's second word, shifted right by 8: bits 3:0 type, 4 S,
    /// 6:5 DPL, 7 P, 12 AVL, 13 L, 14 D/B, 15 G. Zero: a null selector was loaded.
    pub attributes: u16,
}

impl Segment {
    /// S: a code or data segment.
    pub const S: u16 = 1 << 4;
    /// P: present.
    pub const PRESENT: u16 = 1 << 7;
    /// L: 64-bit code.
    pub const LONG: u16 = 1 << 13;
    /// D/B: default size 32 bits.
    pub const BIG: u16 = 1 << 14;
    /// G: limit in units of 4 KiB.
    pub const GRANULARITY: u16 = 1 << 15;

    /// Type field, with S apart.
    #[must_use]
    pub fn kind(&self) -> u8 {
        (self.attributes & 15) as u8
    }
    /// Descriptor privilege level.
    #[must_use]
    pub fn dpl(&self) -> u8 {
        (self.attributes >> 5 & 3) as u8
    }
    /// Present.
    #[must_use]
    pub fn present(&self) -> bool {
        self.attributes & Self::PRESENT != 0
    }
    /// A code segment.
    #[must_use]
    pub fn is_code(&self) -> bool {
        self.attributes & (Self::S | 8) == Self::S | 8
    }
    /// Can be read: data, or readable code.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.present() && self.attributes & Self::S != 0 && self.attributes & 10 != 8
    }
    /// Can be written: writable data.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.present() && self.attributes & (Self::S | 10) == Self::S | 2
    }
    /// Expand-down data.
    #[must_use]
    pub fn expands_down(&self) -> bool {
        self.attributes & (Self::S | 12) == Self::S | 4
    }
    /// Base 0, limit 4 GiB, writable, expand-up: nothing to check.
    #[inline]
    #[must_use]
    pub fn is_flat_data(&self) -> bool {
        // Present, and of the types 2 and 3: neither code nor expand-down.
        let attributes = self.attributes & (Self::PRESENT | Self::S | 14);
        self.base == 0 && self.limit == u32::MAX && attributes == Self::PRESENT | Self::S | 2
    }
    /// A segment as real mode leaves it after `selector` was loaded.
    #[must_use]
    pub fn real(selector: u16, code: bool) -> Self {
        Self {
            selector,
            base: u64::from(selector) << 4,
            limit: 0xffff,
            attributes: Self::PRESENT | Self::S | if code { 11 } else { 3 },
        }
    }
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DescriptorTable {
    /// Linear base address.
    pub base: u64,
    /// Limit in bytes.
    pub limit: u16,
}
