//! Counts by block: cheap to add to, and exact for each instruction.
//!
//! What every execution of a block does alike is counted once a block. What an instruction does that
//! depends on the run is added to its own cell ([`Cells`]).

use std::collections::{BTreeMap, HashMap};

use x86_cpu::block::Code;
use x86_cpu::class::Class;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::Facts;
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;

use super::calls::{is_far_return, is_jump, is_near};
use super::cells::{Cells, MOST_RECENT, Rest};
use super::contexts::ContextId;
use super::modelled::Modelled;

/// Where code is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Where {
    pub(super) vcpu: u32,
    pub(super) cpl: u8,
    /// Index of the address space.
    pub(super) space: u32,
}

impl Where {
    /// [`Slot::space`](super::contexts::Slot::space) of the stack of privilege `cpl` there.
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
    /// Its instructions take no time of their own.
    timed: bool,
    /// Number of instructions: a block may end before its bytes would make it.
    len: u8,
}

/// What is known of an instruction before it executes.
#[derive(Clone, Copy)]
pub(super) struct Static {
    /// Its place in the bytes of its block.
    pub(super) start: u16,
    pub(super) len: u8,
    /// Cycles of each execution.
    pub(super) cycles: u8,
    pub(super) class: Class,
    pub(super) is_near_return: bool,
}

/// A block as it was executed at one place.
pub(super) struct Record {
    /// Index of its first instruction's cell.
    pub(super) first: usize,
    /// Whole executions.
    pub(super) runs: u64,
    /// Branches of its last instruction, and how many of them were taken: no other branches.
    pub(super) branches: u64,
    pub(super) taken: u64,
    /// The context that it called last.
    pub(super) callee: Callee,
    /// Executions, whole or not, since there was last made room in the cells.
    recent: u32,
    /// Number of instructions.
    pub(super) len: u8,
    /// Its last instruction is a near transfer.
    pub(super) is_near: bool,
    /// Its last instruction is a jump: neither a call nor a return.
    pub(super) is_jump: bool,
    /// Its last instruction is a far return, which may go to another stack.
    pub(super) is_far_return: bool,
}

/// A context that was called from a block.
#[derive(Clone, Copy, Default)]
pub(super) struct Callee {
    /// The context that called it; `None` if there was no call yet.
    pub(super) from: Option<ContextId>,
    /// Linear address of the first instruction called.
    pub(super) entry: u64,
    pub(super) context: ContextId,
}

/// Most records: a guest that writes its code anew all the time would fill the host's memory.
const MOST_RECORDS: usize = 1 << 20;

/// The records of a run.
#[derive(Default)]
pub(super) struct Records {
    index: HashMap<Key, u32>,
    pub(super) records: Vec<Record>,
    pub(super) cells: Cells,
    pub(super) statics: Vec<Static>,
    /// Facts that are in no cell, by cell.
    pub(super) others: BTreeMap<usize, Box<Facts>>,
    /// There were more blocks than there is room for, which were counted where they do not belong.
    pub(super) full: bool,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

#[derive(Clone, Copy, Default)]
struct Known {
    serial: u64,
    linear: u64,
    place: u32,
    record: u32,
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

    /// The record of a block at the place of number `number`, which `place` describes.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
        linear: u64,
        (number, place): (u32, &Where),
    ) -> u32 {
        if let Some(known) = self.known.get(block.place())
            && known.serial == block.serial()
            && known.linear == linear
            && known.place == number
        {
            return known.record;
        }
        self.find_slow(cpu, ram, block, number, *place)
    }

    #[cold]
    #[inline(never)]
    fn find_slow(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
        number: u32,
        place: Where,
    ) -> u32 {
        let linear = cpu.linear_rip();
        let record = self.record(cpu, ram, block, place, linear);
        let known = &mut self.known;
        if known.len() <= block.place() {
            known.resize(block.place() + 1, Known::default());
        }
        known[block.place()] = Known { serial: block.serial(), linear, place: number, record };
        record
    }

    /// The record of a block that is executed at a place and at a linear address.
    fn record(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &impl Code,
        place: Where,
        linear: u64,
    ) -> u32 {
        let len = u8::try_from(block.len()).unwrap_or(u8::MAX);
        let code = if block.is_of_device() { Box::default() } else { code_of(ram, block) };
        let timed = self.blocks == Blocks::Timed;
        let key = Key { place, linear, bits: cpu.code_size().bits(), code, timed, len };
        if let Some(&record) = self.index.get(&key) {
            return record;
        }
        if self.records.len() >= MOST_RECORDS {
            self.full = true;
            return 0;
        }
        let record = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        let first = self.cells.len();
        for (n, insn) in block.instructions().enumerate() {
            self.cells.push();
            self.statics.push(Static {
                start: insn.start(),
                len: insn.len,
                cycles: cpu.cycles_of(insn),
                class: block.class(n),
                is_near_return: insn.op == Operation::Ret,
            });
        }
        let last = block.instruction(block.len() - 1).map(|insn| insn.op);
        self.records.push(Record {
            first,
            runs: 0,
            branches: 0,
            taken: 0,
            callee: Callee::default(),
            recent: 0,
            len,
            is_near: last.is_some_and(is_near),
            is_jump: last.is_some_and(is_jump),
            is_far_return: last.is_some_and(is_far_return),
        });
        self.index.insert(key, record);
        record
    }

    /// A block begins once more.
    #[inline(always)]
    pub(super) fn begin(&mut self, record: u32) -> &Record {
        let record = &mut self.records[record as usize];
        record.recent += 1;
        if record.recent >= MOST_RECENT {
            record.recent = 0;
            self.cells.make_room(record.first..record.first + usize::from(record.len));
        }
        record
    }

    /// Of an execution that [began](Self::begin), only the first `count` instructions retired.
    #[cold]
    pub(super) fn retired_only(&mut self, record: u32, count: usize) {
        let first = self.records[record as usize].first;
        (first..first + count).for_each(|cell| self.cells.rest(cell).executions += 1);
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
        let Self { records, cells, statics, others, modelled, .. } = self;
        keys.into_iter().zip(records).flat_map(move |((_, key), record)| {
            (0..usize::from(record.len)).map(move |n| {
                let at = record.first + n;
                let (known, rest) = (&statics[at], cells.get(at));
                let start = usize::from(known.start);
                let bytes = key.code.get(start..start + usize::from(known.len));
                let is_last = n + 1 == usize::from(record.len);
                Counted {
                    place: key.place,
                    linear: key.linear.wrapping_add(u64::from(known.start)),
                    bits: key.bits,
                    bytes: bytes.unwrap_or_default(),
                    executions: record.runs + rest.executions,
                    branches: if is_last { record.branches } else { 0 },
                    taken: if is_last { record.taken } else { 0 },
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
    pub(super) branches: u64,
    pub(super) taken: u64,
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
