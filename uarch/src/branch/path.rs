//! The path register of the Pentium M: a hash of the branches that led to where execution is.

use crate::state::Visitor;

/// Lowest bit of a branch's address that goes into hashes with the path.
pub(super) const ADDRESS_LOW_BIT: u32 = 4;
/// By how many places the register is shifted for each branch.
const SHIFT: u32 = 2;
/// Bits of an indirect branch's target that go into the register, below bits of its address. Not sourced.
const TARGET_BITS: u32 = 6;

/// The path register.
#[derive(Clone, Debug)]
pub(super) struct Path {
    mask: u64,
    register: u64,
}

impl Path {
    /// An empty one.
    pub(super) fn new(bits: u32) -> Self {
        Self { mask: (1 << bits) - 1, register: 0 }
    }

    /// The register.
    #[inline(always)]
    pub(super) fn register(&self) -> u64 {
        self.register
    }

    /// The register, hashed with the address of a branch: as many bits as the register has.
    #[inline(always)]
    pub(super) fn hash(&self, at: u64) -> u64 {
        (self.register ^ at >> ADDRESS_LOW_BIT) & self.mask
    }

    /// A conditional branch was taken.
    #[inline(always)]
    pub(super) fn conditional(&mut self, at: u64) {
        self.append(at >> ADDRESS_LOW_BIT);
    }

    /// An indirect jump or call was executed.
    #[inline(always)]
    pub(super) fn indirect(&mut self, at: u64, target: u64) {
        let address = at >> ADDRESS_LOW_BIT & !((1 << TARGET_BITS) - 1);
        self.append(address | target & ((1 << TARGET_BITS) - 1));
    }

    #[inline(always)]
    fn append(&mut self, bits: u64) {
        self.register = (self.register << SHIFT ^ bits) & self.mask;
    }
}

crate::state! { Path { saved: register; derived: mask; then: check; } }

impl Path {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.check(self.register & !self.mask == 0);
    }
}
