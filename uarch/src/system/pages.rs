//! What is known of pages that were accessed recently, so that neither the page tables nor the TLBs have to
//! be asked again.

use crate::cache::MemoryType;

/// Bytes of the smallest page.
pub(super) const PAGE: u64 = 4096;
/// No page has this address: it is not aligned.
const NO_PAGE: u64 = 1;

/// The page that was looked up last, which is in the TLB and used last there: looking it up again finds it
/// and changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownPage {
    linear: u64,
    memory: MemoryType,
    /// Its linear address as well, if it may be cached.
    cacheable: u64,
}

impl KnownPage {
    pub(super) const NONE: Self =
        Self { linear: NO_PAGE, memory: MemoryType::Uncacheable, cacheable: NO_PAGE };

    /// The page of a linear address, which is cached so.
    #[inline(always)]
    pub(super) fn new(linear: u64, memory: MemoryType) -> Self {
        let linear = linear & !(PAGE - 1);
        Self { linear, memory, cacheable: if memory.is_cacheable() { linear } else { NO_PAGE } }
    }

    /// How the page of a linear address is cached, if it is this one.
    #[inline(always)]
    pub(super) fn get(self, linear: u64) -> Option<MemoryType> {
        (linear & !(PAGE - 1) == self.linear).then_some(self.memory)
    }

    /// Whether the page of a linear address is this one and may be cached.
    #[inline(always)]
    pub(super) fn is_cacheable_page_of(self, linear: u64) -> bool {
        linear & !(PAGE - 1) == self.cacheable
    }
}

/// The memory types of pages that were accessed recently, by linear address. Apart, as there are many.
#[derive(Clone, Debug)]
pub(super) struct MemoryTypes(Box<[(u64, MemoryType); 64]>);

impl Default for MemoryTypes {
    fn default() -> Self {
        Self(Box::new([(u64::MAX, MemoryType::Uncacheable); 64]))
    }
}

impl MemoryTypes {
    #[inline(always)]
    pub(super) fn get(&self, linear: u64) -> Option<MemoryType> {
        let number = linear / PAGE;
        let (of, memory) = self.0[(number % 64) as usize];
        (of == number).then_some(memory)
    }

    /// Notes it. The linear address of the page of which it is not known any more, or was known otherwise.
    pub(super) fn set(&mut self, linear: u64, memory: MemoryType) -> u64 {
        let number = linear / PAGE;
        let (before, _) = std::mem::replace(&mut self.0[(number % 64) as usize], (number, memory));
        before.wrapping_mul(PAGE)
    }
}

// What is not looked up again though it may have changed since: it is part of what is modelled.
crate::state! { MemoryTypes(_) }
