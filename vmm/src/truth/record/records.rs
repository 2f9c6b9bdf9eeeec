//! Counts by block: cheap to add to, and exact for each instruction.
//!
//! What every execution of a block does alike is counted once a block. What an instruction does that
//! depends on the run is added to its own cell ([`Cells`]).

use std::collections::{BTreeMap, HashMap};

use x86_cpu::block::{Code, MAX_INSNS};
use x86_cpu::class::Class;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::Facts;
use x86_cpu::ram::Ram;

use super::calls::Ending;
use super::cells::{Cells, MORE, Rest};
use super::contexts::{ContextId, NOWHERE};
use super::modelled::Modelled;
use super::quiet::Quiet;

/// Where code is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Where {
    pub(super) vcpu: u32,
    pub(super) cpl: u8,
    /// Index of the address space.
    pub(super) space: u32,
}

impl Where {
    /// [`Slot::space`](super::stacks::Slot::space) of the stack of privilege `cpl` there.
    pub(super) fn stack(&self, cpl: u8) -> u32 {
        if cpl == 3 { self.space + 1 } else { 0 }
    }
}

/// What a record is of. A block that is translated anew gets the record that it had.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    place: Where,
    linear: u64,
    bits: u8,
    code: Box<[u8]>,
    /// For whom it was translated, which decides what is counted instruction by instruction, and whether its
    /// instructions take time of their own.
    blocks: Blocks,
    /// Number of instructions: a block may end before its bytes would make it.
    len: u8,
}

/// What is known of an instruction before it executes.
#[derive(Clone, Copy, Default)]
pub(super) struct Static {
    /// Its place in the bytes of its block.
    pub(super) start: u16,
    pub(super) len: u8,
    /// Cycles of each execution.
    pub(super) cycles: u8,
    pub(super) class: Class,
}

/// A block as it was executed at one place. It is in one cache line.
#[repr(align(64))]
pub(super) struct Record {
    /// Index of its first instruction's cell.
    first: u32,
    /// Whole executions.
    pub(super) runs: u64,
    /// How often a conditional jump at its end was taken.
    pub(super) taken: u64,
    /// The context that it called last.
    pub(super) callee: Callee,
    /// What its last instruction does.
    pub(super) ending: Ending,
    /// Number of instructions.
    len: u8,
}

/// A context that was called from a block.
#[derive(Clone, Copy)]
pub(super) struct Callee {
    /// The context that called it.
    pub(super) from: ContextId,
    pub(super) context: ContextId,
    /// Linear address of the first instruction called.
    pub(super) entry: u64,
    /// Calls that the context has not been told of.
    pub(super) times: u64,
}

impl Callee {
    /// There was no call yet.
    const NONE: Self = Self { from: NOWHERE, context: NOWHERE, entry: 0, times: 0 };
}

/// The record of a block that is executed.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Its index.
    pub(super) record: u32,
    /// Index of its first instruction's cell.
    pub(super) first: u32,
}

impl Found {
    /// No block is.
    pub(super) const NONE: Self = Self { record: u32::MAX, first: 0 };
}

impl Default for Found {
    fn default() -> Self {
        Self::NONE
    }
}

/// Most records: a guest that writes its code anew all the time would fill the host's memory.
const MOST_RECORDS: usize = 1 << 20;

/// The records of a run.
#[derive(Default)]
pub(super) struct Records {
    index: HashMap<Key, u32>,
    pub(super) records: Vec<Record>,
    /// By record: of those that are of quiet blocks.
    regular: Vec<Option<Regular>>,
    pub(super) cells: Cells,
    pub(super) statics: Vec<Static>,
    /// Facts that are in no cell, by cell.
    pub(super) others: BTreeMap<usize, Box<Facts>>,
    /// The record of all blocks that there was no room for: what is counted there belongs to none.
    pub(super) overflow: Option<Found>,
    /// What models told, by cell.
    pub(super) modelled: BTreeMap<usize, Modelled>,
    /// Which blocks are executed.
    blocks: Blocks,
    /// By the block's place in its cache: which block, where it was executed, and its record.
    known: Vec<Known>,
    /// The same of the other caches.
    known_of_others: [Vec<Known>; Blocks::CACHES],
}

/// Translated for whom blocks are, each in a cache of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Blocks {
    /// The recorder alone.
    #[default]
    Alone,
    /// The recorder and the models.
    Modelled,
    /// The same, where the models' pipelines keep the time.
    Timed,
}

impl Blocks {
    const CACHES: usize = 3;
}

/// A block of which the record is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    serial: u64,
    linear: u64,
    place: u32,
    /// Its last instruction is a far return, which may go to another stack.
    pub(super) is_far_return: bool,
    /// Nothing need be told of its instructions one by one: see [`Quiet`].
    pub(super) is_quiet: bool,
    /// How much further the accesses (packed as a [`x86_cpu::observe::Mark`] has them) and the time, added up, are after a usual
    /// execution of it: after one of a quiet block, that of [`Regular`]; of another one, whose accesses were
    /// counted instruction by instruction, its cycles.
    pub(super) usual: u64,
    pub(super) found: Found,
}

/// The executions of a quiet block: most have the same accesses, which need not be counted one by one.
#[derive(Clone, Copy)]
struct Regular {
    /// The number of the only instruction that accesses memory, if any does.
    accessing: u8,
    /// The accesses of its first whole execution, packed as a [`x86_cpu::observe::Mark`] has them.
    accesses: u64,
    /// Whole executions that had others, which are counted in the cell.
    others: u64,
}

impl Records {
    /// From now on these blocks are executed.
    pub(super) fn use_blocks(&mut self, blocks: Blocks) {
        if blocks != self.blocks {
            let before = std::mem::replace(&mut self.blocks, blocks);
            std::mem::swap(&mut self.known, &mut self.known_of_others[before as usize]);
            std::mem::swap(&mut self.known, &mut self.known_of_others[blocks as usize]);
        }
    }

    /// The record of a block at a linear address and at the place of this number, if it is known.
    #[inline(always)]
    pub(super) fn known(&self, block: &impl Code, linear: u64, number: u32) -> Option<&Known> {
        let known = self.known.get(block.place())?;
        let is_it =
            known.serial == block.serial() && known.linear == linear && known.place == number;
        is_it.then_some(known)
    }

    /// Looks for it at the place of number `number`, which is `place`, so that it is known then.
    #[cold]
    #[inline(never)]
    pub(super) fn find(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
        (number, place): (u32, Where),
    ) -> Known {
        let linear = cpu.linear_rip();
        let found = self.record(cpu, ram, block, place, linear);
        let known = &mut self.known;
        if known.len() <= block.place() {
            known.resize(block.place() + 1, Known::default());
        }
        let is_far_return = self.records[found.record as usize].ending == Ending::FarReturn;
        let regular = self.regular[found.record as usize];
        let this = Known {
            serial: block.serial(),
            linear,
            place: number,
            is_far_return,
            is_quiet: regular.is_some(),
            usual: block.cycles() + regular.map_or(0, |regular| regular.accesses),
            found,
        };
        known[block.place()] = this;
        this
    }

    /// The record of a block that is executed at a place and at a linear address.
    fn record(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
        place: Where,
        linear: u64,
    ) -> Found {
        let len = u8::try_from(block.len()).unwrap_or(u8::MAX);
        let code = if block.is_of_device() { Box::default() } else { code_of(ram, block) };
        let (bits, blocks) = (cpu.code_size().bits(), self.blocks);
        let key = Key { place, linear, bits, code, blocks, len };
        if let Some(&record) = self.index.get(&key) {
            return Found { record, first: self.records[record as usize].first };
        }
        if self.records.len() >= MOST_RECORDS {
            let overflow = self.overflow.unwrap_or_else(|| {
                self.add(std::iter::repeat_n(Static::default(), MAX_INSNS), Ending::Other, None)
            });
            self.overflow = Some(overflow);
            return overflow;
        }
        let statics = block.instructions().enumerate().map(|(n, insn)| Static {
            start: insn.start(),
            len: insn.len,
            cycles: cpu.cycles_of(insn),
            class: block.class(n),
        });
        let ending = block.instructions().last().map_or(Ending::Other, Ending::of);
        let quiet = Quiet::of(cpu, block).filter(|_| self.blocks == Blocks::Alone);
        let found = self.add(statics, ending, quiet);
        self.index.insert(key, found.record);
        found
    }

    /// Adds a record.
    fn add(
        &mut self,
        statics: impl Iterator<Item = Static>,
        ending: Ending,
        quiet: Option<Quiet>,
    ) -> Found {
        let first = self.cells.len();
        self.statics.extend(statics);
        let len = self.statics.len() - first;
        (0..len).for_each(|_| self.cells.push());
        let record = Record {
            first: first as u32,
            runs: 0,
            taken: 0,
            callee: Callee::NONE,
            ending,
            len: len as u8,
        };
        let found = Found { record: self.records.len() as u32, first: record.first };
        self.records.push(record);
        let regular = |Quiet { accessing }| Regular { accessing, accesses: 0, others: 0 };
        self.regular.push(quiet.map(regular));
        found
    }

    /// Of a record, 1 + the cell of its last instruction.
    pub(super) fn end(&self, found: Found) -> Option<usize> {
        let record = self.records.get(found.record as usize)?;
        Some(record.first as usize + usize::from(record.len))
    }

    /// The cell of the only instruction of a quiet block that accesses memory; of the first if none does.
    pub(super) fn accessing_cell(&self, found: Found) -> usize {
        let regular = self.regular.get(found.record as usize).copied().flatten();
        found.first as usize + usize::from(regular.map_or(0, |regular| regular.accessing))
    }

    /// Whether these accesses of a whole execution of a quiet block, packed as a [`x86_cpu::observe::Mark`] has them, are the usual
    /// ones, which are not to be counted: those of its first execution are. If they are not, that is noted.
    pub(super) fn is_usual(&mut self, found: Found, accesses: u64, block: &impl Code) -> bool {
        let at = found.record as usize;
        let (Some(record), Some(Some(regular))) = (self.records.get(at), self.regular.get_mut(at))
        else {
            return false;
        };
        // An instruction that did more than that is looked at.
        let is_plain = accesses & MORE == 0;
        if is_plain && record.runs == 0 {
            regular.accesses = accesses;
        }
        let is_usual = is_plain && accesses == regular.accesses;
        if is_usual {
            if let Some(known) = self.known.get_mut(block.place()) {
                known.usual = block.cycles() + accesses;
            }
        } else {
            regular.others += 1;
        }
        is_usual
    }

    /// Of an execution of a block, only the first `count` instructions retired; its first has this cell.
    #[cold]
    pub(super) fn retired_only(&mut self, first: usize, count: usize) {
        (first..first + count).for_each(|cell| self.cells.rest(cell).executions += 1);
    }

    /// The contexts that were called last from each block.
    pub(super) fn callees(&self) -> impl Iterator<Item = &Callee> {
        self.records.iter().map(|record| &record.callee).filter(|callee| callee.times != 0)
    }

    /// What was executed of instructions that have nothing in common with others.
    pub(super) fn other(&mut self, cell: usize) -> &mut Facts {
        self.others.entry(cell).or_default()
    }

    /// All instructions that were executed, with the place and the linear address of each, its code
    /// size, its bytes and its counts.
    pub(super) fn instructions(&self) -> impl Iterator<Item = Counted<'_>> {
        let mut keys: Vec<(u32, &Key)> = self.index.iter().map(|(key, &at)| (at, key)).collect();
        keys.sort_unstable_by_key(|&(at, _)| at);
        let Self { records, regular, cells, statics, others, modelled, .. } = self;
        let records = records.iter().zip(regular);
        keys.into_iter().zip(records).flat_map(move |((_, key), (record, regular))| {
            (0..usize::from(record.len)).map(move |n| {
                let at = record.first as usize + n;
                let (known, mut rest) = (&statics[at], cells.get(at));
                if let Some(regular) = regular
                    && usize::from(regular.accessing) == n
                {
                    rest.add(regular.accesses, record.runs - regular.others);
                }
                let start = usize::from(known.start);
                let bytes = key.code.get(start..start + usize::from(known.len));
                let is_last = n + 1 == usize::from(record.len);
                let ending = if is_last { record.ending } else { Ending::Other };
                Counted {
                    place: key.place,
                    linear: key.linear.wrapping_add(u64::from(known.start)),
                    bits: key.bits,
                    bytes: bytes.unwrap_or_default(),
                    executions: record.runs + rest.executions,
                    branches: if ending.is_near() { record.runs } else { 0 },
                    taken: match ending {
                        Ending::Conditional => record.taken,
                        _ if ending.is_near() => record.runs,
                        _ => 0,
                    },
                    is_near_return: matches!(ending, Ending::Return { .. }),
                    known,
                    rest,
                    other: others.get(&at).map(|facts| &**facts),
                    modelled: modelled.get(&at),
                }
            })
        })
    }
}

/// An instruction with what was counted of it.
pub(super) struct Counted<'a> {
    pub(super) place: Where,
    pub(super) linear: u64,
    pub(super) bits: u8,
    /// Empty if they did not come from RAM.
    pub(super) bytes: &'a [u8],
    pub(super) executions: u64,
    /// Near transfers: far ones are in `other`.
    pub(super) branches: u64,
    pub(super) taken: u64,
    pub(super) is_near_return: bool,
    pub(super) known: &'a Static,
    pub(super) rest: Rest,
    pub(super) other: Option<&'a Facts>,
    pub(super) modelled: Option<&'a Modelled>,
}

/// The bytes that a block was translated from.
fn code_of(ram: &Ram, block: &impl Code) -> Box<[u8]> {
    let bytes = (0..block.bytes()).map(|n| {
        let physical = block.physical(u16::try_from(n).unwrap_or(u16::MAX));
        let mut byte = [0];
        ram.read_bytes(physical, &mut byte);
        byte[0]
    });
    bytes.collect()
}
