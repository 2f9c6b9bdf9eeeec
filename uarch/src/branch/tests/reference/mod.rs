//! Slow predictors: lists and maps, searched from end to end.

mod athlon;
mod knights_corner;
mod pentium_m;
mod pentium_mmx;
mod pentium_pro;

pub(super) use athlon::Athlon;
pub(super) use knights_corner::KnightsCorner;
pub(super) use pentium_m::PentiumM;
pub(super) use pentium_mmx::PentiumMmx;
pub(super) use pentium_pro::PentiumPro;

use super::{Transfer, TransferKind};

/// A set of entries by key, the least recently used first.
pub(super) type Set<K, E> = Vec<(K, E)>;

/// Moves an entry to the end, if there is one for the key.
pub(super) fn touch<K: PartialEq, E>(set: &mut Set<K, E>, key: &K) -> bool {
    let Some(place) = set.iter().position(|(held, _)| held == key) else { return false };
    let entry = set.remove(place);
    set.push(entry);
    true
}

/// Adds an entry, for which the first goes if there are too many.
pub(super) fn add<K, E>(set: &mut Set<K, E>, ways: usize, key: K, entry: E) {
    if set.len() == ways {
        set.remove(0);
    }
    set.push((key, entry));
}

/// Pushes a return address; says whether the oldest went for it.
pub(super) fn push(stack: &mut Vec<u64>, depth: usize, address: u64) -> bool {
    stack.push(address);
    let overflows = stack.len() > depth;
    if overflows {
        stack.remove(0);
    }
    overflows
}

/// What a branch looks like to fetch: kinds with the same letter do not differ.
pub(super) fn letter(kind: TransferKind) -> char {
    match kind {
        TransferKind::Conditional => 'c',
        TransferKind::Jump | TransferKind::Call => 'd',
        TransferKind::IndirectJump | TransferKind::IndirectCall => 'i',
        TransferKind::Return => 'r',
        TransferKind::Far | TransferKind::FarCall | TransferKind::FarReturn => 'f',
    }
}

pub(super) fn is_call(transfer: &Transfer) -> bool {
    matches!(transfer.kind, TransferKind::Call | TransferKind::IndirectCall)
}

/// The branch's own history, as text, and a counter for each text that occurred.
pub(super) struct Local {
    history: String,
    counters: std::collections::HashMap<String, i32>,
    first: i32,
}

impl Local {
    pub(super) fn new(taken: bool) -> Self {
        let (history, first) = if taken { ("1111", 2) } else { ("0000", 1) };
        Self { history: history.to_owned(), counters: Default::default(), first }
    }

    pub(super) fn says_taken(&self) -> bool {
        *self.counters.get(&self.history).unwrap_or(&self.first) >= 2
    }

    pub(super) fn learn(&mut self, taken: bool) {
        let counter = self.counters.entry(self.history.clone()).or_insert(self.first);
        *counter = (*counter + if taken { 1 } else { -1 }).clamp(0, 3);
        self.history.remove(0);
        self.history.push(if taken { '1' } else { '0' });
    }
}
