//! The return stack: return addresses of the innermost calls.

use crate::state::{State, Visitor};

/// The deepest stack that there is; a power of two, so that places in it go round without being compared.
const ROOM: usize = 16;

/// A stack of fixed depth. One entry more replaces the oldest.
#[derive(Clone, Debug)]
pub(super) struct ReturnStack {
    /// Those beyond the depth are forgotten.
    addresses: [u64; ROOM],
    /// Where the newest is, if there is any.
    top: usize,
    held: usize,
    depth: usize,
}

impl ReturnStack {
    /// An empty one.
    pub(super) fn new(depth: usize) -> Self {
        assert!((1..=ROOM).contains(&depth));
        Self { addresses: [0; ROOM], top: 0, held: 0, depth }
    }

    /// The newest address.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<u64> {
        (self.held != 0).then(|| self.addresses[self.top % ROOM])
    }

    /// Whether the oldest has to go for one more.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.held == self.depth
    }

    /// Adds an address, and says whether the oldest had to go for it.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64) -> bool {
        self.top = (self.top + 1) % ROOM;
        self.addresses[self.top] = address;
        let overflows = self.is_full();
        self.held += usize::from(!overflows);
        overflows
    }

    /// Removes the newest address, if there is one.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        if self.held != 0 {
            self.held -= 1;
            self.top = self.top.wrapping_sub(1) % ROOM;
        }
    }
}

impl State for ReturnStack {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("ReturnStack");
        let Self { addresses, top, held, depth } = self;
        // As many as there may be, the oldest first.
        let place = |n: usize| top.wrapping_sub(*held).wrapping_add(n + 1) % ROOM;
        let in_order = |n| if n < *held { addresses[place(n)] } else { 0 };
        let mut all: Box<[u64]> = (0..*depth).map(in_order).collect();
        let mut newest = held.saturating_sub(1);
        all.visit(visitor);
        visitor.index(&mut newest, *depth);
        visitor.index(held, *depth + 1);
        if V::LOADS {
            *held = (*held).min(*depth);
            // They may go round.
            for n in 0..*held {
                addresses[n] = all[(newest + 1 + *depth - *held + n) % *depth];
            }
            *top = held.wrapping_sub(1) % ROOM;
        }
    }
}
