//! Counts by block: cheap to add to, and exact for each instruction.
//!
//! What every execution of a block does alike is counted once a block. What an instruction does that
//! depends on the run is added to its own [`Cell`].

use std::collections::{BTreeMap, HashMap};

use x86_cpu::block::Block;
use x86_cpu::class::Class;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Facts, Observer};
use x86_cpu::operation::Operation;
use x86_cpu::ram::Ram;

/// Where code is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Where {
    pub(super) vcpu: u32,
    pub(super) cpl: u8,
    /// Index of the address space.
    pub(super) space: u32,
}

/// What a record is of. A block that is translated anew gets the record that it had.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    place: Where,
    linear: u64,
    bits: u8,
    code: Box<[u8]>,
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

/// What was counted of one instruction of a block, beside the block's whole executions.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    /// Loads, stores and misaligned accesses that are not yet in the fields below, as
    /// [`x86_cpu::observe::Mark`] has them.
    recent: u64,
    /// Executions that were not part of a whole execution of the block.
    pub(super) executions: u64,
    pub(super) loads: u64,
    pub(super) stores: u64,
    pub(super) misaligned: u64,
    /// Cycles beyond those of [`Static::cycles`].
    pub(super) cycles: u64,
    pub(super) branches: u64,
    pub(super) taken: u64,
}

/// A block as it was executed at one place.
pub(super) struct Record {
    /// Index of its first instruction's cell.
    pub(super) first: usize,
    /// Whole executions.
    pub(super) runs: u64,
    /// Executions, whole or not, since the cells' `recent` was last emptied.
    fresh: u32,
    /// Bit n: the n-th instruction may do what is not in a cell.
    pub(super) irregular: u64,
    /// Number of instructions.
    pub(super) len: u8,
}

/// Most records: a guest that writes its code anew all the time would fill the host's memory.
const MOST_RECORDS: usize = 1 << 20;

/// The records of a run.
#[derive(Default)]
pub(super) struct Records {
    index: HashMap<Key, u32>,
    keys: Vec<Key>,
    pub(super) records: Vec<Record>,
    pub(super) cells: Vec<Cell>,
    pub(super) statics: Vec<Static>,
    /// Facts that are in no cell, by cell.
    pub(super) others: BTreeMap<usize, Box<Facts>>,
    /// There were more blocks than there is room for, which were counted where they do not belong.
    pub(super) full: bool,
    /// By the block's place in its cache: which block, where it was executed, and its record.
    known: Vec<Known>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    serial: u64,
    linear: u64,
    place: u32,
    record: u32,
}

/// The fields of a [`x86_cpu::observe::Mark`] hold less than 2^21, so that this many executions of
/// so many accesses each fit.
const MOST_FRESH: u32 = 1 << 15;
/// The bits of accesses that are too many for [`Cell::recent`]: 32 or more of a kind.
const TOO_MANY: u64 = !(0x1f | 0x1f << 21 | 0x1f << 42);

impl Records {
    /// The record of a block at the place of number `number`, which `place` describes.
    #[inline]
    pub(super) fn find<O: Observer>(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &Block<O>,
        number: u32,
        place: Where,
    ) -> u32 {
        let linear = cpu.linear_rip();
        if let Some(known) = self.known.get(block.place())
            && known.serial == block.serial()
            && known.linear == linear
            && known.place == number
        {
            return known.record;
        }
        let record = self.find_slow(cpu, ram, block, place, linear);
        if self.known.len() <= block.place() {
            self.known.resize(block.place() + 1, Known::default());
        }
        self.known[block.place()] = Known { serial: block.serial(), linear, place: number, record };
        record
    }

    #[cold]
    fn find_slow<O: Observer>(
        &mut self,
        cpu: &Cpu,
        ram: &Ram,
        block: &Block<O>,
        place: Where,
        linear: u64,
    ) -> u32 {
        let len = u8::try_from(block.len()).unwrap_or(u8::MAX);
        let code = if block.is_of_device() { Box::default() } else { code_of(ram, block) };
        let key = Key { place, linear, bits: cpu.code_size().bits(), code, len };
        if let Some(&record) = self.index.get(&key) {
            return record;
        }
        if self.records.len() >= MOST_RECORDS {
            self.full = true;
            return 0;
        }
        let record = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        let first = self.cells.len();
        let mut irregular = 0;
        for (n, insn) in block.instructions().enumerate() {
            irregular |= u64::from(is_irregular(insn.op)) << n;
            self.cells.push(Cell::default());
            self.statics.push(Static {
                start: insn.start(),
                len: insn.len,
                cycles: cpu.cycles_of(insn),
                class: block.class(n),
                is_near_return: insn.op == Operation::Ret,
            });
        }
        self.records.push(Record { first, runs: 0, fresh: 0, irregular, len });
        self.keys.push(key.clone());
        self.index.insert(key, record);
        record
    }

    /// A block begins once more.
    #[inline(always)]
    pub(super) fn begin(&mut self, record: u32) -> (usize, u64) {
        let record = &mut self.records[record as usize];
        record.fresh += 1;
        let (first, irregular) = (record.first, record.irregular);
        if record.fresh >= MOST_FRESH {
            record.fresh = 0;
            let cells = first..first + usize::from(record.len);
            self.cells[cells].iter_mut().for_each(Cell::tidy);
        }
        (first, irregular)
    }

    /// What was executed of instructions that have nothing in common with others.
    pub(super) fn other(&mut self, cell: usize) -> &mut Facts {
        self.others.entry(cell).or_default()
    }

    /// All instructions that were executed, with the place and the linear address of each, its code
    /// size, its bytes and its counts.
    pub(super) fn instructions(&mut self) -> impl Iterator<Item = Counted<'_>> {
        self.cells.iter_mut().for_each(Cell::tidy);
        let Self { keys, records, cells, statics, others, .. } = &*self;
        keys.iter().zip(records).flat_map(move |(key, record)| {
            (0..usize::from(record.len)).map(move |n| {
                let at = record.first + n;
                let (known, cell) = (&statics[at], &cells[at]);
                let start = usize::from(known.start);
                let bytes = key.code.get(start..start + usize::from(known.len));
                Counted {
                    place: key.place,
                    linear: key.linear.wrapping_add(u64::from(known.start)),
                    bits: key.bits,
                    bytes: bytes.unwrap_or_default(),
                    executions: record.runs + cell.executions,
                    known,
                    cell,
                    other: others.get(&at).map(|facts| &**facts),
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
    pub(super) known: &'a Static,
    pub(super) cell: &'a Cell,
    pub(super) other: Option<&'a Facts>,
}

impl Cell {
    /// Adds accesses, packed as a [`x86_cpu::observe::Mark`] has them.
    #[inline(always)]
    pub(super) fn add(&mut self, accesses: u64) {
        if accesses & TOO_MANY != 0 {
            self.add_many(accesses);
        } else {
            self.recent += accesses;
        }
    }

    #[cold]
    fn add_many(&mut self, accesses: u64) {
        const FIELD: u64 = (1 << 21) - 1;
        self.loads += accesses & FIELD;
        self.stores += accesses >> 21 & FIELD;
        self.misaligned += accesses >> 42 & FIELD;
    }

    fn tidy(&mut self) {
        let recent = std::mem::take(&mut self.recent);
        self.add_many(recent);
    }
}

/// The bytes that a block was translated from.
fn code_of<O: Observer>(ram: &Ram, block: &Block<O>) -> Box<[u8]> {
    let bytes = (0..block.bytes()).map(|n| {
        let physical = block.physical(u16::try_from(n).unwrap_or(u16::MAX));
        let mut byte = [0];
        ram.read_bytes(physical, &mut byte);
        byte[0]
    });
    bytes.collect()
}

/// Whether an operation may do countable things beside accessing memory, branching and being of a
/// class. Taken for granted unless it is known that it does not.
fn is_irregular(op: Operation) -> bool {
    use Operation as O;
    !matches!(
        op,
        O::Mov
            | O::Movzx
            | O::Movsx
            | O::Movsxd
            | O::Lea
            | O::Xchg
            | O::Bswap
            | O::Cmovcc
            | O::Setcc
            | O::Add
            | O::Adc
            | O::Sub
            | O::Sbb
            | O::And
            | O::Or
            | O::Xor
            | O::Cmp
            | O::Test
            | O::Inc
            | O::Dec
            | O::Neg
            | O::Not
            | O::Shl
            | O::Shr
            | O::Sar
            | O::Rol
            | O::Ror
            | O::Rcl
            | O::Rcr
            | O::Shld
            | O::Shrd
            | O::Mul
            | O::Imul
            | O::Div
            | O::Idiv
            | O::Bt
            | O::Btc
            | O::Btr
            | O::Bts
            | O::Bsf
            | O::Bsr
            | O::Cmpxchg
            | O::Xadd
            | O::Push
            | O::Pop
            | O::Pusha
            | O::Popa
            | O::Pushf
            | O::Leave
            | O::Enter
            | O::Jcc
            | O::Jmp
            | O::Call
            | O::Ret
            | O::Jcxz
            | O::Loop
            | O::Loope
            | O::Loopne
            | O::Movs
            | O::Cmps
            | O::Scas
            | O::Lods
            | O::Stos
            | O::Nop
            | O::HintNop
            | O::Pause
            | O::Cbw
            | O::Cwde
            | O::Cdqe
            | O::Cwd
            | O::Cdq
            | O::Cqo
            | O::Cld
            | O::Std
            | O::Clc
            | O::Stc
            | O::Cmc
            | O::Cli
            | O::Sti
            | O::Lahf
            | O::Sahf
            | O::Lfence
            | O::Mfence
            | O::Sfence
            | O::Rdtsc
            | O::Cpuid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads are in bits 20:0, stores in 41:21, misaligned accesses in 62:42.
    #[test]
    fn a_cell_adds_up_what_is_packed() {
        let mut cell = Cell::default();
        cell.add(3 | 2 << 21 | 1 << 42);
        cell.add(31 | 31 << 21 | 31 << 42);
        // Too many for the packed form.
        cell.add(1000 | 32 << 21 | 7 << 42);
        cell.tidy();
        assert_eq!((cell.loads, cell.stores, cell.misaligned), (1034, 65, 39));
    }

    /// 2^15 executions of up to 31 accesses of each kind stay below 2^21.
    #[test]
    fn fields_do_not_overflow() {
        let mut cell = Cell::default();
        for _ in 0..MOST_FRESH {
            cell.add(31 | 31 << 21 | 31 << 42);
        }
        cell.tidy();
        let all = 31 << 15;
        assert_eq!((cell.loads, cell.stores, cell.misaligned), (all, all, all));
    }
}
