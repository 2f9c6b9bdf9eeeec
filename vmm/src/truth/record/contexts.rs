//! Who called whom: calling contexts, and the stacks that say where a return goes.
//!
//! A call leaves its return address in memory. The return that reads it there ends the call, whatever
//! has happened in between: so a stack that was left for another (a task switch), a stack that was cut
//! (`longjmp`) and a return address that was replaced (a retpoline) are all told by where the return
//! address is.

use std::collections::HashMap;

use super::shares::Share;
use crate::truth::{Context, Entered};

/// Index of a context.
pub(super) type ContextId = u32;

/// Most contexts; calls beyond them are counted where they came from.
const MOST_CONTEXTS: usize = 1 << 20;
/// Most contexts below each other.
const DEEPEST: u32 = 512;
/// Most calls that one stack remembers: of deeper recursion the outermost half is forgotten.
const MOST_FRAMES: usize = 1 << 14;
/// Most stacks that are remembered while others are in use.
const MOST_STACKS: usize = 1 << 16;

/// Where a return address is: its linear address, and the address space if that is the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    /// 0 for a supervisor stack, which is where it is in all spaces; else 1 + the index of the space.
    pub(super) space: u32,
    pub(super) address: u64,
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Frame {
    /// Where the return address is; `None` if it is in a register (SYSCALL, SYSENTER).
    slot: Option<Slot>,
    /// What is there as long as nobody replaces it; `None` where it may be replaced: an interrupted
    /// program goes on where its handler says.
    returns_to: Option<u64>,
    /// The context that goes on then.
    context: ContextId,
    /// It came from privilege 3.
    from_user: bool,
}

impl Frame {
    /// Whether a return to `address` goes where the call came from.
    #[inline(always)]
    fn is_back_at(&self, address: u64) -> bool {
        self.returns_to.is_none_or(|to| to == address)
    }
}

/// What a processor executes on.
#[derive(Default)]
struct Stack {
    frames: Vec<Frame>,
}

/// Number of ways that are found without looking into the table of all.
const RECENT_WAYS: usize = 1 << 12;

/// The contexts of a run, and what each processor is in.
#[derive(Default)]
pub(super) struct Contexts {
    contexts: Vec<Known>,
    children: HashMap<Way, ContextId>,
    /// Of the ways to a context, those that were taken last, by [`Way::recent`].
    recent: Vec<(Way, ContextId)>,
    processors: Vec<Processor>,
    /// Stacks that no processor is on, by the slot of their innermost frame.
    left: HashMap<Slot, Stack>,
    /// Calls that got no context of their own.
    pub(super) flattened: u64,
}

/// What tells one context from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Way {
    parent: Option<ContextId>,
    entered: Entered,
    site: u64,
    entry: u64,
    space: u32,
    cpl: u8,
}

impl Way {
    /// Leads to no context: all but the bottom of a stack have a parent.
    const NONE: Self =
        Self { parent: None, entered: Entered::Call, site: 0, entry: 0, space: 0, cpl: 0 };

    /// Its place among the recent ones.
    #[inline(always)]
    fn recent(&self) -> usize {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let parent = u64::from(self.parent.unwrap_or(0));
        let mixed = (self.site ^ self.entry.rotate_left(32) ^ parent << 16).wrapping_mul(FACTOR);
        (mixed >> (64 - RECENT_WAYS.ilog2())) as usize
    }
}

struct Known {
    depth: u32,
    share: Share,
    /// Without counts.
    context: Context,
}

#[derive(Default)]
struct Processor {
    stack: Stack,
    context: Option<ContextId>,
}

/// A call, however it is made.
pub(super) struct Call {
    pub(super) entered: Entered,
    /// Linear address of the instruction that called, or before which an interrupt came.
    pub(super) site: u64,
    /// Linear address of the first instruction called.
    pub(super) entry: u64,
    /// Where it is executed.
    pub(super) space: u32,
    pub(super) cpl: u8,
    pub(super) slot: Option<Slot>,
    pub(super) returns_to: Option<u64>,
    pub(super) from_user: bool,
}

/// Where a return came to.
pub(super) struct Return {
    /// Linear address.
    pub(super) to: u64,
    /// Where the return address was; `None` if it was in a register.
    pub(super) slot: Option<Slot>,
    /// It entered privilege 3 from below.
    pub(super) to_user: bool,
    pub(super) space: u32,
    pub(super) cpl: u8,
}

impl Contexts {
    /// Has room for a processor. To be called before all else is asked of it.
    pub(super) fn prepare(&mut self, vcpu: usize) {
        if self.processors.len() <= vcpu {
            self.processors.resize_with(vcpu + 1, Processor::default);
        }
    }

    #[inline(always)]
    fn processor(&mut self, vcpu: u32) -> &mut Processor {
        &mut self.processors[vcpu as usize]
    }

    /// The context of a processor; `here` and the two behind it say where it is if it has none yet.
    pub(super) fn current(&mut self, vcpu: u32, here: u64, space: u32, cpl: u8) -> ContextId {
        match self.processor(vcpu).context {
            Some(context) => context,
            None => {
                let context = self.child(None, Entered::Bottom, here, here, space, cpl);
                self.processor(vcpu).context = Some(context);
                self.contexts[context as usize].context.times += 1;
                context
            }
        }
    }

    /// What was executed in a context.
    #[inline(always)]
    pub(super) fn share(&mut self, context: ContextId) -> &mut Share {
        &mut self.contexts[context as usize].share
    }

    /// A processor in `context` calls, and is in another context then.
    #[inline(always)]
    pub(super) fn call(&mut self, vcpu: u32, context: ContextId, call: &Call) -> ContextId {
        let Call { entered, site, entry, space, cpl, slot, returns_to, from_user } = *call;
        let callee = self.callee(context, entered, site, entry, space, cpl);
        self.enter(vcpu, context, callee, slot, returns_to, from_user);
        callee
    }

    /// The context that a call from `context` leads to.
    #[inline(always)]
    pub(super) fn callee(
        &mut self,
        context: ContextId,
        entered: Entered,
        site: u64,
        entry: u64,
        space: u32,
        cpl: u8,
    ) -> ContextId {
        self.child(Some(context), entered, site, entry, space, cpl)
    }

    /// A processor in `context` calls `callee`, and is there then.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        vcpu: u32,
        context: ContextId,
        callee: ContextId,
        slot: Option<Slot>,
        returns_to: Option<u64>,
        from_user: bool,
    ) {
        self.contexts[callee as usize].context.times += u64::from(callee != context);
        let processor = self.processor(vcpu);
        processor.context = Some(callee);
        let frames = &mut processor.stack.frames;
        if frames.len() >= MOST_FRAMES {
            frames.drain(..MOST_FRAMES / 2);
        }
        frames.push(Frame { slot, returns_to, context, from_user });
    }

    /// A processor returns, and is in another context then.
    #[inline(always)]
    pub(super) fn ret(&mut self, vcpu: u32, back: &Return) -> ContextId {
        let processor = self.processor(vcpu);
        let frames = &mut processor.stack.frames;
        match frames.last() {
            Some(frame)
                if !back.to_user && frame.slot == back.slot && frame.is_back_at(back.to) =>
            {
                let context = frame.context;
                frames.truncate(frames.len() - 1);
                processor.context = Some(context);
                context
            }
            _ => self.ret_elsewhere(vcpu, back),
        }
    }

    /// The same where it is not the last call that returns, or it does not return to its site.
    #[cold]
    fn ret_elsewhere(&mut self, vcpu: u32, back: &Return) -> ContextId {
        let frames = &self.processor(vcpu).stack.frames;
        let found = if back.to_user {
            frames.iter().rposition(|frame| frame.from_user)
        } else {
            frames.iter().rposition(|frame| frame.slot == back.slot)
        };
        let frame = match found {
            Some(n) => {
                let frames = &mut self.processor(vcpu).stack.frames;
                let frame = frames[n];
                frames.truncate(n);
                Some(frame)
            }
            None => self.change_stack(vcpu, back.slot),
        };
        let context = match frame {
            Some(frame) if back.to_user || frame.is_back_at(back.to) => frame.context,
            // The return address was replaced: a jump to another function in place of this one.
            Some(frame) => self.instead(frame.context, back),
            None => self.child(None, Entered::Bottom, back.to, back.to, back.space, back.cpl),
        };
        if frame.is_none() {
            self.contexts[context as usize].context.times += 1;
        }
        self.processor(vcpu).context = Some(context);
        context
    }

    /// Leaves the stack of a processor for that whose innermost frame is at `slot`, or for a new one.
    fn change_stack(&mut self, vcpu: u32, slot: Option<Slot>) -> Option<Frame> {
        let next = slot.and_then(|slot| self.left.remove(&slot)).unwrap_or_default();
        let left = std::mem::replace(&mut self.processor(vcpu).stack, next);
        if let Some(slot) = left.frames.last().and_then(|frame| frame.slot) {
            if self.left.len() >= MOST_STACKS {
                self.left.clear();
            }
            self.left.insert(slot, left);
        }
        self.processor(vcpu).stack.frames.pop()
    }

    /// The context of a function that is jumped to from `context`, which was called for it.
    fn instead(&mut self, context: ContextId, back: &Return) -> ContextId {
        let Context { parent, site, entered, .. } = self.contexts[context as usize].context;
        let other = self.child(parent, entered, site, back.to, back.space, back.cpl);
        self.contexts[other as usize].context.times += u64::from(other != context);
        other
    }

    #[inline(always)]
    fn child(
        &mut self,
        parent: Option<ContextId>,
        entered: Entered,
        site: u64,
        entry: u64,
        space: u32,
        cpl: u8,
    ) -> ContextId {
        let way = Way { parent, entered, site, entry, space, cpl };
        match self.recent.get(way.recent()) {
            Some(&(ref known, context)) if *known == way => context,
            _ => self.child_slow(way),
        }
    }

    #[cold]
    fn child_slow(&mut self, way: Way) -> ContextId {
        let Way { parent, entered, site, entry, space, cpl } = way;
        if let Some(&known) = self.children.get(&way) {
            self.recent.resize(RECENT_WAYS, (Way::NONE, 0));
            self.recent[way.recent()] = (way, known);
            return known;
        }
        let depth = parent.map_or(0, |parent| self.contexts[parent as usize].depth + 1);
        if let Some(parent) = parent
            && (depth >= DEEPEST || self.contexts.len() >= MOST_CONTEXTS)
        {
            self.flattened += 1;
            return parent;
        }
        let id = self.contexts.len() as ContextId;
        let context =
            Context { parent, entered, site, entry, space, cpl, times: 0, own: Vec::new() };
        self.contexts.push(Known { depth, share: Share::default(), context });
        self.children.insert(way, id);
        id
    }

    /// What was executed in each context.
    pub(super) fn shares(&self) -> impl Iterator<Item = &Share> {
        self.contexts.iter().map(|known| &known.share)
    }

    /// All contexts, a context behind its parent, and what was executed in each.
    pub(super) fn finish(self) -> impl Iterator<Item = (Context, Share)> {
        self.contexts.into_iter().map(|known| (known.context, known.share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u32 = 0;

    /// Those of one processor.
    fn contexts() -> Contexts {
        let mut contexts = Contexts::default();
        contexts.prepare(0);
        contexts
    }

    fn slot(address: u64) -> Option<Slot> {
        Some(Slot { space: KERNEL, address })
    }

    /// A near call from `site` to `entry` with the return address at `at`; it is 5 bytes long.
    fn call(contexts: &mut Contexts, site: u64, entry: u64, at: u64) {
        let context = contexts.current(0, site, 0, 0);
        let entered = Entered::Call;
        let (slot, returns_to) = (slot(at), Some(site + 5));
        let (space, cpl, from_user) = (0, 0, false);
        let call = Call { entered, site, entry, space, cpl, slot, returns_to, from_user };
        contexts.call(0, context, &call);
    }

    fn ret(contexts: &mut Contexts, to: u64, at: u64) {
        let back = Return { to, slot: slot(at), to_user: false, space: 0, cpl: 0 };
        contexts.ret(0, &back);
    }

    /// The entries of the running context and of those that called it, innermost first.
    fn chain(contexts: &mut Contexts) -> Vec<u64> {
        let mut at = Some(contexts.current(0, 0, 0, 0));
        std::iter::from_fn(|| {
            let context = &contexts.contexts[at? as usize].context;
            at = context.parent;
            Some(context.entry)
        })
        .collect()
    }

    #[test]
    fn a_return_ends_its_call() {
        let mut contexts = contexts();
        call(&mut contexts, 0x10, 0x100, 0xff8);
        call(&mut contexts, 0x110, 0x200, 0xff0);
        assert_eq!(chain(&mut contexts), [0x200, 0x100, 0x10]);
        ret(&mut contexts, 0x115, 0xff0);
        assert_eq!(chain(&mut contexts), [0x100, 0x10]);
        ret(&mut contexts, 0x15, 0xff8);
        assert_eq!(chain(&mut contexts), [0x10]);
    }

    /// `longjmp` past two calls: the return that reads the outermost address ends all three.
    #[test]
    fn calls_that_were_cut_end_with_the_one_outside() {
        let mut contexts = contexts();
        call(&mut contexts, 0x10, 0x100, 0xff8);
        call(&mut contexts, 0x110, 0x200, 0xff0);
        call(&mut contexts, 0x210, 0x300, 0xfe8);
        ret(&mut contexts, 0x15, 0xff8);
        assert_eq!(chain(&mut contexts), [0x10]);
    }

    /// A switches to B in the middle of a call, and back: each goes on where it was.
    #[test]
    fn stacks_are_left_and_found_again() {
        let mut contexts = contexts();
        call(&mut contexts, 0x10, 0x100, 0xff8);
        call(&mut contexts, 0x110, 0x900, 0xff0);
        // The new stack has never called: it begins where the return goes.
        ret(&mut contexts, 0x500, 0x2ff8);
        assert_eq!(chain(&mut contexts), [0x500]);
        call(&mut contexts, 0x510, 0x900, 0x2ff0);
        ret(&mut contexts, 0x115, 0xff0);
        assert_eq!(chain(&mut contexts), [0x100, 0x10]);
        call(&mut contexts, 0x110, 0x900, 0xff0);
        ret(&mut contexts, 0x515, 0x2ff0);
        assert_eq!(chain(&mut contexts), [0x500]);
    }

    /// A retpoline: the thunk at 0x800 calls, replaces the return address by that of the function
    /// at 0x300 and returns there; that returns to whoever called the thunk.
    #[test]
    fn a_replaced_return_address_is_a_jump() {
        let mut contexts = contexts();
        call(&mut contexts, 0x10, 0x800, 0xff8);
        call(&mut contexts, 0x800, 0x80c, 0xff0);
        ret(&mut contexts, 0x300, 0xff0);
        assert_eq!(chain(&mut contexts), [0x300, 0x10]);
        ret(&mut contexts, 0x15, 0xff8);
        assert_eq!(chain(&mut contexts), [0x10]);
    }

    /// However deep a recursion is, what it takes is bounded, and it says what it left out.
    #[test]
    fn recursion_is_bounded() {
        let mut contexts = contexts();
        for n in 0..100_000u64 {
            call(&mut contexts, 0x110, 0x100, 0x80_0000 - 8 * n);
        }
        assert_eq!(contexts.contexts.len(), 512);
        assert_eq!(contexts.flattened, 100_000 - 511);
        assert!(contexts.processors[0].stack.frames.len() <= 1 << 14);
    }
}
