//! The code that was executed, in the order of its addresses.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::truth::{Instruction, Module, Symbol, Truth};

/// Instructions that were executed in an address space, or in all.
pub(super) struct Code<'a> {
    /// By address. Where code was modified, or one program came after another, an address has several.
    instructions: Vec<Executed<'a>>,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Executed<'a> {
    /// Linear address.
    pub(super) address: u64,
    /// Its bytes; there are some.
    pub(super) bytes: &'a [u8],
    /// How often, as far as that was counted.
    pub(super) times: u64,
}

impl<'a> Code<'a> {
    /// The user code of each space: what was executed at CPL 3.
    pub(super) fn user(truth: &'a Truth) -> Vec<Self> {
        let mut spaces: Vec<Vec<_>> = truth.spaces.iter().map(|_| Vec::new()).collect();
        for (space, executed) in rows(truth, |cpl| cpl == 3) {
            if let Some(instructions) = spaces.get_mut(space as usize) {
                instructions.push(executed);
            }
        }
        spaces.into_iter().map(Self::new).collect()
    }

    /// What was executed at another CPL, in whatever space: the kernel.
    pub(super) fn supervisor(truth: &'a Truth) -> Self {
        Self::new(rows(truth, |cpl| cpl != 3).map(|(_, executed)| executed).collect())
    }

    pub(super) fn new(mut instructions: Vec<Executed<'a>>) -> Self {
        instructions.sort_unstable();
        instructions.dedup_by(|next, first| {
            let same = (next.address, next.bytes) == (first.address, first.bytes);
            if same {
                first.times = first.times.saturating_add(next.times);
            }
            same
        });
        Self { instructions }
    }

    /// All of it.
    pub(super) fn all(&self) -> &[Executed<'a>] {
        &self.instructions
    }

    /// The indices of what begins in a range of addresses, of which both ends may lie anywhere: if
    /// the range wraps, there is none.
    pub(super) fn within(&self, addresses: &Range<u64>) -> Range<usize> {
        let index = |address| self.instructions.partition_point(|i| i.address < address);
        index(addresses.start)..index(addresses.end).max(index(addresses.start))
    }

    /// Whether something was executed at this very address.
    pub(super) fn begins_at(&self, address: u64) -> bool {
        self.instructions.binary_search_by_key(&address, |i| i.address).is_ok()
    }
}

/// The instructions that were executed at some CPLs, each with its space. How often is the count of
/// `instructions`, if that was asked for, else that of the first event.
fn rows<'a>(
    truth: &'a Truth,
    wanted: impl Fn(u8) -> bool + 'a,
) -> impl Iterator<Item = (u32, Executed<'a>)> + 'a {
    let column = truth.events.iter().position(|event| event.name == "instructions").unwrap_or(0);
    truth.rows.iter().filter(move |row| wanted(row.cpl)).filter_map(move |row| {
        let instruction = truth.instructions.get(row.instruction as usize)?;
        let times = row.counts.get(column).copied().unwrap_or(0);
        let &Instruction { space, address, ref bytes, .. } = instruction;
        (!bytes.is_empty()).then_some((space, Executed { address, bytes, times }))
    })
}

/// The addresses that names are asked for: of instructions, and of the sites and entries of contexts.
pub(super) struct Asked {
    spaces: Vec<BTreeSet<u64>>,
    all: BTreeSet<u64>,
}

impl Asked {
    /// Those of a truth.
    pub(super) fn of(truth: &Truth) -> Self {
        let mut all = BTreeSet::new();
        let mut spaces: Vec<BTreeSet<u64>> = truth.spaces.iter().map(|_| BTreeSet::new()).collect();
        let instructions = truth.instructions.iter().map(|i| (i.space, i.address));
        let contexts = truth.contexts.iter().flat_map(|context| {
            [context.site, context.entry].map(|address| (context.space, address))
        });
        for (space, address) in instructions.chain(contexts) {
            all.insert(address);
            if let Some(space) = spaces.get_mut(space as usize) {
                space.insert(address);
            }
        }
        Self { spaces, all }
    }

    /// Removes the symbols of a module that no address is in. One without a size reaches up to the next.
    pub(super) fn retain_named(&self, module: &mut Module) {
        let addresses = match module.space {
            Some(space) => self.spaces.get(space as usize),
            None => Some(&self.all),
        };
        let Some(addresses) = addresses else { return };
        let starts: Vec<_> = module.symbols.iter().map(|symbol| symbol.address).collect();
        module.symbols.retain(|&Symbol { address, size, .. }| {
            let next = || starts.get(starts.partition_point(|&start| start <= address));
            let size =
                if size == 0 { next().map_or(u64::MAX, |next| next - address) } else { size };
            addresses.range(address..).next().is_some_and(|&at| at - address < size)
        });
    }
}

/// A set of addresses, as ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses(Vec<Range<u64>>);

impl FromIterator<(u64, u64)> for Addresses {
    /// Those of parts that are given by address and size, by address.
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(parts: T) -> Self {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (address, size) in parts {
            let end = address.saturating_add(size);
            match ranges.last_mut() {
                Some(last) if address <= last.end => last.end = last.end.max(end),
                _ => ranges.push(address..end),
            }
        }
        Self(ranges)
    }
}

impl Addresses {
    /// Whether an address is in it.
    pub(super) fn has(&self, address: u64) -> bool {
        let behind = self.0.partition_point(|range| range.start <= address);
        self.0[..behind].last().is_some_and(|range| address < range.end)
    }
}
