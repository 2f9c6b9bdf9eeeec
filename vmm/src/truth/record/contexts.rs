//! Who called whom: calling contexts, and the stacks that say where a return goes.
//!
//! A call leaves its return address in memory. The return that reads it there ends the call, whatever
//! has happened in between: so a stack that was left for another (a task switch), a stack that was cut
//! (`longjmp`) and a return address that was replaced (a retpoline) are all told by where the return
//! address is.

use std::collections::HashMap;

use super::shares::Share;
use super::stacks::{Frame, Slot, Stack};
use crate::truth::{Context, Entered};

/// Index of a context.
pub(super) type ContextId = u32;

/// Index of no context.
pub(super) const NOWHERE: ContextId = ContextId::MAX;

/// Most contexts; calls beyond them are counted where they came from.
const MOST_CONTEXTS: usize = 1 << 20;
/// Most contexts below each other.
const DEEPEST: u32 = 512;
/// Most stacks that are remembered while others are in use.
const MOST_STACKS: usize = 1 << 16;

/// Number of ways that are found without looking into the table of all.
const RECENT_WAYS: usize = 1 << 12;

/// The contexts of a run, and what each processor is in.
pub(super) struct Contexts {
    contexts: Vec<Known>,
    children: HashMap<Way, ContextId>,
    /// Of the ways to a context, those that were taken last, by [`Way::recent`].
    recent: Vec<(Way, ContextId)>,
    /// The running processor.
    vcpu: usize,
    /// Its stack.
    stack: Stack,
    /// The context that it is in; [`NOWHERE`] until that is asked for.
    context: ContextId,
    /// What the processors were in when they last stopped.
    stopped: Vec<Stopped>,
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

/// A processor that does not run.
struct Stopped {
    stack: Stack,
    /// [`NOWHERE`] if it never ran.
    context: ContextId,
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
    pub(super) slot: Slot,
    pub(super) from_user: bool,
}

/// Where a return came to.
pub(super) struct Return {
    /// Linear address.
    pub(super) to: u64,
    /// Where the return address was.
    pub(super) slot: Slot,
    /// It entered privilege 3 from below.
    pub(super) to_user: bool,
    pub(super) space: u32,
    pub(super) cpl: u8,
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            contexts: Vec::new(),
            children: HashMap::new(),
            recent: Vec::new(),
            vcpu: 0,
            stack: Stack::default(),
            context: NOWHERE,
            stopped: Vec::new(),
            left: HashMap::new(),
            flattened: 0,
        }
    }
}

impl Contexts {
    /// From now on processor `vcpu` runs. To be called before all else is asked.
    pub(super) fn run(&mut self, vcpu: usize) {
        let most = vcpu.max(self.vcpu);
        if self.stopped.len() <= most {
            let stopped = || Stopped { stack: Stack::default(), context: NOWHERE };
            self.stopped.resize_with(most + 1, stopped);
        }
        let stopped = &mut self.stopped[self.vcpu];
        if self.context != NOWHERE {
            stopped.context = self.context;
        }
        self.context = NOWHERE;
        if vcpu != self.vcpu {
            stopped.stack = std::mem::take(&mut self.stack);
            self.stack = std::mem::take(&mut self.stopped[vcpu].stack);
            self.vcpu = vcpu;
        }
    }

    /// The context of the running processor; the arguments say where it is if it has none yet.
    #[inline(always)]
    pub(super) fn current(&mut self, here: u64, space: u32, cpl: u8) -> ContextId {
        if self.context == NOWHERE {
            self.begin(here, space, cpl);
        }
        self.context
    }

    /// The running processor is in the context that it was in when it stopped: whether it was in any.
    pub(super) fn resume(&mut self) -> bool {
        self.context = self.stopped[self.vcpu].context;
        self.context != NOWHERE
    }

    #[cold]
    fn begin(&mut self, here: u64, space: u32, cpl: u8) {
        self.context = self.stopped[self.vcpu].context;
        if self.context == NOWHERE {
            self.context = self.child(None, Entered::Bottom, here, here, space, cpl);
            self.contexts[self.context as usize].context.times += 1;
        }
    }

    /// What was executed in the context of the running processor, if that was
    /// [asked for](Self::current) since it runs.
    #[inline(always)]
    pub(super) fn share(&mut self) -> Option<&mut Share> {
        Some(&mut self.contexts.get_mut(self.context as usize)?.share)
    }

    /// The same context.
    #[inline(always)]
    pub(super) fn context(&self) -> ContextId {
        self.context
    }

    /// The running processor, whose context is known, makes a call that is no near one.
    pub(super) fn call(&mut self, call: &Call) {
        let Call { entered, site, entry, space, cpl, slot, from_user } = *call;
        let context = self.context;
        let callee = self.callee(entered, site, entry, space, cpl);
        self.note_times(callee, u64::from(callee != context));
        let frame = || Frame { slot, returns_to: 0, context, returns_anywhere: true, from_user };
        self.stack.push(frame);
        self.context = callee;
    }

    /// The context that a call leads to; the same one if it gets none of its own.
    pub(super) fn callee(
        &mut self,
        entered: Entered,
        site: u64,
        entry: u64,
        space: u32,
        cpl: u8,
    ) -> ContextId {
        self.child(Some(self.context), entered, site, entry, space, cpl)
    }

    /// Adds to how often a context was entered.
    pub(super) fn note_times(&mut self, context: ContextId, times: u64) {
        self.contexts[context as usize].context.times += times;
    }

    /// The running processor calls near, and is in `callee` then: how often that is, the caller
    /// [adds](Self::note_times).
    #[inline(always)]
    pub(super) fn call_near(&mut self, callee: ContextId, slot: Slot, returns_to: u64) {
        let context = std::mem::replace(&mut self.context, callee);
        let frame = || {
            let (returns_anywhere, from_user) = (false, false);
            Frame { slot, returns_to, context, returns_anywhere, from_user }
        };
        self.stack.push(frame);
    }

    /// The running processor returns to an address, near. If that does not go back to where the last
    /// call came from, nothing has been done: [`Self::ret`] is to be asked.
    #[inline(always)]
    pub(super) fn ret_near(&mut self, to: u64, slot: Slot) -> bool {
        match self.stack.pop_if_back(to, slot) {
            Some(frame) => {
                self.context = frame.context;
                true
            }
            None => false,
        }
    }

    /// The running processor returns, and is in another context then.
    pub(super) fn ret(&mut self, back: &Return) {
        let calls = self.stack.calls();
        let found = if back.to_user {
            calls.iter().rposition(|frame| frame.from_user)
        } else {
            calls.iter().rposition(|frame| frame.slot == back.slot)
        };
        let frame = match found {
            Some(n) => {
                let frame = calls[n];
                self.stack.cut(n);
                Some(frame)
            }
            None => self.change_stack(back.slot),
        };
        self.context = match frame {
            Some(frame) if back.to_user || frame.is_back_at(back.to) => frame.context,
            // The return address was replaced: a jump to another function in place of this one.
            Some(frame) => self.instead(frame.context, back),
            None => {
                let bottom =
                    self.child(None, Entered::Bottom, back.to, back.to, back.space, back.cpl);
                self.note_times(bottom, 1);
                bottom
            }
        };
    }

    /// Leaves the stack of the running processor for that whose innermost frame is at `slot`, or for a
    /// new one.
    fn change_stack(&mut self, slot: Slot) -> Option<Frame> {
        let next = slot.in_memory().and_then(|slot| self.left.remove(&slot)).unwrap_or_default();
        let left = std::mem::replace(&mut self.stack, next);
        if let Some(slot) = left.calls().last().and_then(|frame| frame.slot.in_memory()) {
            if self.left.len() >= MOST_STACKS {
                self.left.clear();
            }
            self.left.insert(slot, left);
        }
        self.stack.pop()
    }

    /// The context of a function that is jumped to from `context`, which was called for it.
    fn instead(&mut self, context: ContextId, back: &Return) -> ContextId {
        let Context { parent, site, entered, .. } = self.contexts[context as usize].context;
        let other = self.child(parent, entered, site, back.to, back.space, back.cpl);
        self.note_times(other, u64::from(other != context));
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
        contexts.run(0);
        contexts
    }

    fn slot(address: u64) -> Slot {
        Slot { space: KERNEL, address }
    }

    /// A near call from `site` to `entry` with the return address at `at`; it is 5 bytes long.
    fn call(contexts: &mut Contexts, site: u64, entry: u64, at: u64) {
        contexts.current(site, 0, 0);
        let callee = contexts.callee(Entered::Call, site, entry, 0, 0);
        contexts.call_near(callee, slot(at), site + 5);
    }

    fn ret(contexts: &mut Contexts, to: u64, at: u64) {
        if !contexts.ret_near(to, slot(at)) {
            contexts.ret(&Return { to, slot: slot(at), to_user: false, space: 0, cpl: 0 });
        }
    }

    /// The entries of the running context and of those that called it, innermost first.
    fn chain(contexts: &mut Contexts) -> Vec<u64> {
        let mut at = Some(contexts.current(0, 0, 0));
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
        assert!(contexts.stack.calls().len() <= 1 << 14);
    }
}
