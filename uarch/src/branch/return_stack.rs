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
        all.visit(visitor);
        // Where the newest is, which is known: states of other forms are refused.
        let mut newest = held.saturating_sub(1);
        visitor.index(&mut newest, *depth);
        visitor.index(held, *depth + 1);
        visitor.check(newest == held.saturating_sub(1));
        visitor.check(all.iter().skip(*held).all(|&address| address == 0));
        if V::LOADS {
            *held = (*held).min(*depth);
            addresses[..*held].copy_from_slice(&all[..*held]);
            *top = held.wrapping_sub(1) % ROOM;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state;

    /// Four addresses, the oldest first, where the newest is, and how many there are.
    fn bytes(words: [u64; 6]) -> Vec<u8> {
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn a_state_has_one_form() {
        let mut stack = ReturnStack::new(4);
        for address in 1..=6 {
            stack.push(address);
        }
        stack.pop();
        let mut saved = Vec::new();
        state::save(&mut stack, &mut saved);
        assert_eq!(saved, bytes([3, 4, 5, 0, 2, 3]));
        let mut other = ReturnStack::new(4);
        assert_eq!(state::load(&mut other, &saved), Ok(()));
        for expected in [Some(5), Some(4), Some(3), None] {
            assert_eq!(other.top(), expected);
            other.pop();
        }
        // One that is not held, and others that go round.
        for refused in [[3, 4, 5, 9, 2, 3], [4, 5, 0, 3, 1, 3], [3, 4, 5, 0, 2, 5]] {
            assert!(state::load(&mut other, &bytes(refused)).is_err());
        }
    }
}
