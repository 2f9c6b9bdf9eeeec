//! The return stack: return addresses of the innermost calls.

use crate::state::{State, Visitor};

/// A stack of fixed depth. One entry more replaces the oldest.
#[derive(Clone, Debug)]
pub(super) struct ReturnStack {
    addresses: Box<[u64]>,
    /// Where the newest is, if there is any.
    top: usize,
    held: usize,
}

impl ReturnStack {
    /// An empty one.
    pub(super) fn new(depth: usize) -> Self {
        Self { addresses: vec![0; depth].into(), top: 0, held: 0 }
    }

    /// The newest address.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<u64> {
        (self.held != 0).then(|| self.addresses[self.top])
    }

    /// Whether the oldest has to go for one more.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.held == self.addresses.len()
    }

    /// Adds an address, and says whether the oldest had to go for it.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64) -> bool {
        let depth = self.addresses.len();
        self.top = if self.top + 1 == depth { 0 } else { self.top + 1 };
        self.addresses[self.top] = address;
        let overflows = self.held == depth;
        self.held += usize::from(!overflows);
        overflows
    }

    /// Removes the newest address, if there is one.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        if self.held != 0 {
            self.held -= 1;
            self.top = if self.top == 0 { self.addresses.len() - 1 } else { self.top - 1 };
        }
    }
}

impl State for ReturnStack {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("ReturnStack");
        let Self { addresses, top, held } = self;
        addresses.visit(visitor);
        visitor.index(top, addresses.len().max(1));
        visitor.index(held, addresses.len() + 1);
    }
}
