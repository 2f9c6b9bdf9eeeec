//! Stacks: where the return addresses of calls are.

use super::contexts::{ContextId, NOWHERE};

/// Most calls that one stack remembers: of deeper recursion the outermost half is forgotten.
const MOST_FRAMES: usize = 1 << 14;

/// Where a return address is: its linear address, and the address space if that is the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    /// 0 for a supervisor stack, which is where it is in all spaces; else 1 + the index of the space.
    pub(super) space: u32,
    pub(super) address: u64,
}

impl Slot {
    /// The return address is in a register (SYSCALL, SYSENTER).
    pub(super) const REGISTER: Self = Self { space: u32::MAX, address: 0 };

    /// Itself, if it is in memory.
    pub(super) fn in_memory(self) -> Option<Self> {
        Some(self).filter(|slot| *slot != Self::REGISTER)
    }
}

/// A call that has not returned.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where the return address is.
    pub(super) slot: Slot,
    /// What is there as long as nobody replaces it.
    pub(super) returns_to: u64,
    /// The context that goes on then.
    pub(super) context: ContextId,
    /// It may be replaced: an interrupted program goes on where its handler says.
    pub(super) returns_anywhere: bool,
    /// It came from privilege 3.
    pub(super) from_user: bool,
}

impl Frame {
    /// What a stack has room for beyond its calls.
    const NONE: Self = Self {
        slot: Slot::REGISTER,
        returns_to: 0,
        context: NOWHERE,
        returns_anywhere: false,
        from_user: false,
    };

    /// Whether a return to `address` goes where the call came from.
    pub(super) fn is_back_at(&self, address: u64) -> bool {
        self.returns_anywhere || self.returns_to == address
    }
}

/// What a processor executes on.
#[derive(Default)]
pub(super) struct Stack {
    /// The calls, outermost first, and room for more.
    frames: Vec<Frame>,
    /// Number of calls.
    depth: usize,
}

impl Stack {
    /// Adds a call.
    #[inline(always)]
    pub(super) fn push(&mut self, frame: impl Fn() -> Frame) {
        if let Some(next) = self.frames.get_mut(self.depth) {
            *next = frame();
            self.depth += 1;
        } else {
            self.push_with_room(frame());
        }
    }

    #[cold]
    #[inline(never)]
    fn push_with_room(&mut self, frame: Frame) {
        if self.depth >= MOST_FRAMES {
            self.frames.copy_within(MOST_FRAMES / 2.., 0);
            self.depth -= MOST_FRAMES / 2;
        } else {
            let room = (2 * self.depth).clamp(16, MOST_FRAMES);
            self.frames.resize(room, Frame::NONE);
        }
        self.frames[self.depth] = frame;
        self.depth += 1;
    }

    /// Ends the last call.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.calls().last().copied();
        self.depth = self.depth.saturating_sub(1);
        frame
    }

    /// The last call, if it left its return address at `slot` and comes back to `address`: it has returned
    /// then.
    #[inline(always)]
    pub(super) fn pop_if_back(&mut self, address: u64, slot: Slot) -> Option<&Frame> {
        let last = self.depth.wrapping_sub(1);
        let frame = self.frames.get(last)?;
        let is_back = frame.slot == slot && frame.returns_to == address;
        is_back.then(|| {
            self.depth = last;
            frame
        })
    }

    /// Ends all calls but the outermost `depth`.
    pub(super) fn cut(&mut self, depth: usize) {
        self.depth = self.depth.min(depth);
    }

    /// The calls, outermost first.
    pub(super) fn calls(&self) -> &[Frame] {
        &self.frames[..self.depth]
    }
}
