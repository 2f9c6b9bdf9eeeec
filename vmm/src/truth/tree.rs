//! The calling contexts as a tree.

use super::{Truth, add};

/// Who called whom, downwards.
pub(super) struct Tree {
    /// The contexts, those of one parent together and in order.
    by_parent: Vec<u32>,
    /// Where in `by_parent` those of each parent begin; those without one begin last.
    starts: Vec<usize>,
}

/// A step of a [walk](Tree::walk) through all stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a context.
    Enter(usize),
    /// Back from it.
    Leave(usize),
}

impl Tree {
    /// A tree of nodes that each have the index of a parent, which is lower, or none.
    pub(super) fn new(parents: impl Iterator<Item = Option<u32>> + Clone) -> Self {
        let count = parents.clone().count();
        let bucket = |parent: Option<u32>| parent.map_or(count, |parent| parent as usize);
        let mut starts = vec![0; count + 2];
        parents.clone().for_each(|parent| starts[bucket(parent) + 1] += 1);
        for bucket in 0..=count {
            starts[bucket + 1] += starts[bucket];
        }
        let mut next = starts.clone();
        let mut by_parent = vec![0; count];
        for (node, parent) in (0_u32..).zip(parents) {
            let place = &mut next[bucket(parent)];
            by_parent[*place] = node;
            *place += 1;
        }
        Self { by_parent, starts }
    }

    /// Every node is entered once, from its parent, and left when those below it have been.
    pub(super) fn walk(&self) -> impl Iterator<Item = Step> {
        let children = |bucket: usize| {
            self.by_parent[self.starts[bucket]..self.starts[bucket + 1]].iter().rev()
        };
        let step = |&node: &u32| Step::Enter(node as usize);
        let mut ahead: Vec<_> = children(self.by_parent.len()).map(step).collect();
        std::iter::from_fn(move || {
            let next = ahead.pop()?;
            if let Step::Enter(node) = next {
                ahead.push(Step::Leave(node));
                ahead.extend(children(node).map(step));
            }
            Some(next)
        })
    }
}

/// For each context the counts of it and of all that it called, an event after the other.
pub(super) fn inclusive(truth: &Truth) -> Vec<u64> {
    let events = truth.events.len();
    let mut sums: Vec<u64> =
        truth.contexts.iter().flat_map(|context| &context.own).copied().collect();
    // What a context called stands behind it.
    for (index, context) in truth.contexts.iter().enumerate().rev() {
        if let Some(parent) = context.parent {
            let (before, rest) = sums.split_at_mut(index * events);
            add(&mut before[parent as usize * events..][..events], &rest[..events]);
        }
    }
    sums
}
