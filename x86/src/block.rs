//! The cache of translated blocks.
//!
//! A block is a run of lowered instructions that ends at a branch, at an instruction that may
//! change how the following ones are to be read, at a page boundary or at [`MAX_INSNS`]. It is
//! found by the guest-physical address of its first byte and the mode it was lowered for, so that a
//! page mapped twice is translated once. Blocks are linked to their successors.
//!
//! A block is dropped when one of its pages is overwritten where code was read from it. The cache has
//! a budget of host memory; when it is used up, all blocks are dropped. Code that is not in RAM is
//! translated for each execution anew: there is no notice when a device's bytes change.

use std::{
    cell::Cell,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    num::NonZeroU64,
    ops::Add,
};

use crate::{
    access::OF_DEVICE,
    class::{BlockClasses, Class},
    cpu::Cpu,
    handler::handler,
    insn::{Insn, Op, Size},
    lower::LoweredBlock,
    mode::CodeSize,
    observe::Observer,
    ram::{PAGE, Ram},
    timing::CycleCosts,
    tlb::processor_of,
    watch::TransferKind,
};

/// Most instructions in a block.
pub const MAX_INSNS: usize = 48;

/// What a block was lowered for: code and stack size and flat segments, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mode(pub(crate) u16);

impl Mode {
    /// That of 64-bit code, to which nothing else matters.
    pub(crate) const BITS_64: Self = Self(CodeSize::Bits64 as u16);
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its last instruction set RIP.
    Branch,
    /// RIP is behind its last instruction, and the next block may follow by a link.
    Through,
    /// RIP is behind its last instruction, and the run loop has to check what the block has changed
    /// before it goes on.
    Fall,
}

/// Whether a block is quiet ([`Code::is_quiet`]), and how many instructions at its beginning may be executed in steps:
/// all that they do is registers, ordinary accesses to memory, and near transfers. In one byte, of which a block has no
/// more to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quiet(u8);

const _: () = assert!(MAX_INSNS < Quiet::QUIET as usize);

impl Quiet {
    const QUIET: u8 = 1 << 7;

    pub(crate) fn new(is_quiet: bool, steps: usize) -> Self {
        Self(steps as u8 | if is_quiet { Self::QUIET } else { 0 })
    }
}

/// Names a block by its place in the cache and its serial number, which tells it from other blocks
/// that are or were at that place.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockId {
    pub(crate) place: u32,
    /// From 1; zero names no block.
    pub(crate) serial: u64,
}

/// The successor of a block. The link is valid until the successor is dropped.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) target: BlockId,
    /// The mapping under which the link is valid; `None` if the successor is in the same page, so that
    /// the link is valid under any.
    pub(crate) mapping: Option<Mapping>,
}

/// A linear address and the state of the TLB: while both are the same, they lead to the same block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) linear: u64,
    /// The address space, from [`crate::tlb::Tlb::space`].
    pub(crate) space: NonZeroU64,
}

/// A translated block: instructions that follow each other, of which only the last may branch. It takes
/// two cache lines, for the run loop goes from one to the next.
#[repr(align(64))]
pub struct Block<O> {
    /// Its number among all blocks that its cache has ever held, from 1, and its place there.
    pub(crate) serial: u64,
    pub(crate) place: u32,
    pub(crate) ops: Box<[Op<O>]>,
    pub(crate) gpa: u64,
    pub(crate) mode: Mode,
    /// Bytes of code.
    pub(crate) bytes: u16,
    /// Cycles that all its instructions take, and those before the last one begins.
    pub(crate) cycles: u16,
    pub(crate) last_begins: u16,
    pub(crate) ending: Ending,
    /// Has an instruction that may fault after it has accessed memory, so that the observer has to take
    /// back the accesses that it counted.
    pub(crate) marks: bool,
    pub(crate) quiet: Quiet,
    /// What its instructions are counted as; `None` if none belongs to a class.
    pub(crate) classes: Option<Box<BlockClasses>>,
    /// Guest-physical address of the second page plus one, if the one instruction crosses into it.
    second_page: Option<NonZeroU64>,
    /// See [`Code::transfer`].
    transfer: Option<TransferKind>,
    pub(crate) links: [Cell<Link>; 2],
}

/// The instructions of a translated block, whoever observes it.
pub trait Code {
    /// A number that no other block of its cache has or had.
    fn serial(&self) -> u64;
    /// Where it is in its cache: less than the number of blocks that it has ever held at once. Blocks
    /// that are not kept have 0.
    fn place(&self) -> usize;
    /// Its instructions, in order.
    fn instructions(&self) -> impl ExactSizeIterator<Item = &Insn>;
    /// Instruction `n` of it.
    fn instruction(&self, n: usize) -> Option<&Insn>;
    /// The classes of instruction `n`.
    fn class(&self, n: usize) -> Class;
    /// Number of its instructions.
    fn len(&self) -> usize;
    /// Whether it has no instructions; no block that is executed has none.
    fn is_empty(&self) -> bool;
    /// Bytes of code.
    fn bytes(&self) -> u64;
    /// Cycles that it takes as a whole, but for those that depend on what it does.
    fn cycles(&self) -> u64;
    /// Guest-physical address of the byte at an offset from its first.
    fn physical(&self, offset: u16) -> u64;
    /// The same of the first byte of one that is in RAM.
    fn address_in_ram(&self) -> u64;
    /// Guest-physical address of the page that its only instruction reaches into, if it does.
    fn second_page(&self) -> Option<u64>;
    /// Whether its bytes came from a device and not from RAM.
    fn is_of_device(&self) -> bool;
    /// Whether all that its instructions do but the last is accesses of an ordinary kind, behind which they
    /// cannot fault; the last may do more, but its accesses are such too. All are in one page of RAM.
    fn is_quiet(&self) -> bool;
    /// What kind of control transfer its last instruction is, if it is one.
    fn transfer(&self) -> Option<TransferKind>;
    /// Whether it is of 64-bit code.
    fn is_64_bit(&self) -> bool;
}

impl<O> Code for Block<O> {
    #[inline(always)]
    fn serial(&self) -> u64 {
        self.serial
    }

    #[inline(always)]
    fn place(&self) -> usize {
        self.place as usize
    }

    fn instructions(&self) -> impl ExactSizeIterator<Item = &Insn> {
        self.ops.iter().map(|op| &op.insn)
    }

    fn instruction(&self, n: usize) -> Option<&Insn> {
        self.ops.get(n).map(|op| &op.insn)
    }

    fn class(&self, n: usize) -> Class {
        self.classes.as_ref().map_or(Class::NONE, |classes| classes.of(n))
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.ops.len()
    }

    fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    #[inline(always)]
    fn cycles(&self) -> u64 {
        u64::from(self.cycles)
    }

    fn physical(&self, offset: u16) -> u64 {
        let in_page = PAGE - (self.gpa & (PAGE - 1));
        match self.second_page() {
            Some(second) if u64::from(offset) >= in_page => second + u64::from(offset) - in_page,
            _ => (self.gpa & !OF_DEVICE) + u64::from(offset),
        }
    }

    #[inline(always)]
    fn address_in_ram(&self) -> u64 {
        self.gpa
    }

    fn second_page(&self) -> Option<u64> {
        self.second_page.map(|page| page.get() - 1)
    }

    fn is_of_device(&self) -> bool {
        self.gpa & OF_DEVICE != 0
    }

    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.quiet.0 & Quiet::QUIET != 0
    }

    #[inline(always)]
    fn transfer(&self) -> Option<TransferKind> {
        self.transfer
    }

    #[inline(always)]
    fn is_64_bit(&self) -> bool {
        self.mode == Mode::BITS_64
    }
}

impl<O> Block<O> {
    /// A block without instructions, which is never executed; its serial number has no meaning.
    fn nothing() -> Self {
        Self {
            serial: u64::MAX,
            place: TRANSIENT,
            ops: Box::default(),
            gpa: 0,
            mode: Mode(0),
            bytes: 0,
            cycles: 0,
            last_begins: 0,
            ending: Ending::Fall,
            marks: false,
            quiet: Quiet::default(),
            classes: None,
            second_page: None,
            transfer: None,
            links: Default::default(),
        }
    }

    /// A lowered block with the handlers of its instructions.
    pub(crate) fn new(lowered: LoweredBlock) -> Self
    where
        O: Observer,
    {
        let ops = lowered.insns.into_iter().map(|insn| Op { run: handler(&insn), insn });
        Self {
            serial: u64::MAX,
            place: TRANSIENT,
            ops: ops.collect(),
            gpa: lowered.gpa,
            mode: lowered.mode,
            bytes: lowered.bytes,
            cycles: lowered.cycles,
            last_begins: lowered.last_begins,
            ending: lowered.ending,
            marks: lowered.marks,
            quiet: lowered.quiet,
            classes: lowered.classes,
            second_page: lowered.second_page.and_then(|page| NonZeroU64::new(page + 1)),
            transfer: lowered.transfer,
            links: Default::default(),
        }
    }

    /// Whether instruction `n` may be executed in a step, fetched by itself ([`Cpu::take_step`]).
    #[inline(always)]
    pub(crate) fn goes_in_steps(&self, n: usize) -> bool {
        n < usize::from(self.quiet.0 & !Quiet::QUIET)
    }

    /// What it is found by as long as it is there.
    #[inline(always)]
    pub(crate) fn id(&self) -> BlockId {
        BlockId { place: self.place, serial: self.serial }
    }

    /// The target of its branch is cut to 16 bits, so how far it goes depends on where the block is.
    pub(crate) fn wraps(&self) -> bool {
        self.ending == Ending::Branch && self.ops.last().is_some_and(|op| op.insn.size == Size::B2)
    }

    /// The pages that its bytes were read from.
    fn pages(&self) -> impl Iterator<Item = u64> + use<O> {
        let first = self.gpa & !(PAGE - 1);
        // Neighbouring linear pages may both be this one.
        let second = self.second_page().filter(|&second| second != first);
        std::iter::once(first).chain(second)
    }

    /// Host memory that it takes, with its entries in the tables: an estimate from above.
    fn cost(&self) -> usize {
        const ENTRIES: usize = 128;
        let classes = self.classes.as_ref().map_or(0, |classes| classes.cost());
        size_of::<Self>() + ENTRIES + self.ops.len() * size_of::<Op<O>>() + classes
    }
}

/// FxHash-like: the keys are addresses, and nothing a guest can see depends on the order.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// The place of the block that is translated for one execution only.
pub(crate) const TRANSIENT: u32 = 0;

/// All translated blocks of a machine under one observer.
pub struct Translations<O> {
    /// By number; the first is [`TRANSIENT`].
    blocks: Vec<Block<O>>,
    free: Vec<u32>,
    index: Map<(u64, Mode), u32>,
    by_page: Map<u64, Vec<u32>>,
    /// Host memory that the blocks take, in bytes, and how much they may take.
    cost: usize,
    budget: usize,
    /// The cycles of instructions, which are lowered into the blocks.
    pub cycle_costs: CycleCosts,
    /// No block that it has had takes two to this power of cycles.
    log2_of_cycles: u32,
    /// From RIP to block, for all processors.
    jumps: JumpCache,
    /// Serial number of the last block.
    translated: u64,
    /// How many blocks were dropped because their code was overwritten.
    overwritten: u64,
    /// How much of [`Ram::overwritten`] has been taken notice of.
    overwritten_seen: u64,
}

/// Bytes of host memory that the blocks of a cache may take if nothing else is said.
const BUDGET: usize = 64 << 20;

impl<O> Default for Translations<O> {
    fn default() -> Self {
        Self::with_budget(BUDGET)
    }
}

impl<O> Translations<O> {
    /// An empty cache of 64 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty cache that takes `budget` bytes of host memory at most.
    #[must_use]
    pub fn with_budget(budget: usize) -> Self {
        Self {
            blocks: vec![Block::nothing()],
            free: Vec::new(),
            index: Map::default(),
            by_page: Map::default(),
            cost: 0,
            budget,
            cycle_costs: CycleCosts::FLAT,
            log2_of_cycles: 0,
            jumps: JumpCache::default(),
            translated: 0,
            overwritten: 0,
            overwritten_seen: 0,
        }
    }

    /// The same with other costs than [`CycleCosts::FLAT`]; the cache is empty.
    #[must_use]
    pub fn with_cycle_costs(self, cycle_costs: CycleCosts) -> Self {
        Self { cycle_costs, ..Self::with_budget(self.budget) }
    }

    /// An empty cache for another observer, of the same size and under the same clock.
    #[must_use]
    pub fn empty<P>(&self) -> Translations<P> {
        Translations::with_budget(self.budget).with_cycle_costs(self.cycle_costs)
    }

    #[inline(always)]
    pub(crate) fn block(&self, place: u32) -> &Block<O> {
        &self.blocks[place as usize]
    }

    /// A block, if it is still there.
    #[inline(always)]
    pub(crate) fn get(&self, id: BlockId) -> Option<&Block<O>> {
        self.blocks.get(id.place as usize).filter(|block| block.serial == id.serial)
    }

    /// The block that the jump cache has for an entry, if it is still there.
    #[inline(always)]
    pub(crate) fn find_jump(&self, from: &Jump, epochs: &[u64; 2]) -> Option<&Block<O>> {
        self.get(self.jumps.find(from, epochs)?)
    }

    /// The instruction that a processor executes next, unless anything comes before it; `None` if that takes a look at
    /// more than the jump cache.
    pub fn next_instruction(&mut self, cpu: &Cpu, ram: &Ram) -> Option<&Insn> {
        self.notice_writes(ram);
        let block = self.find_jump(&cpu.jump(), &cpu.tlb.epochs).filter(|_| !cpu.uncached)?;
        block.ops.first().map(|op| &op.insn)
    }

    /// Enters the block at a place into the jump cache, for the epochs of a processor. `global`: all of
    /// its pages are.
    pub(crate) fn insert_jump(&mut self, from: Jump, global: bool, epochs: &[u64; 2], place: u32) {
        let to = self.block(place).id();
        self.jumps.insert(from, global, epochs, to);
    }

    /// No block that it has takes two to this power of cycles, a branch that is taken included.
    #[inline(always)]
    pub(crate) fn log2_of_cycles(&self) -> u32 {
        self.log2_of_cycles
    }

    pub(crate) fn find(&self, gpa: u64, mode: Mode) -> Option<u32> {
        self.index.get(&(gpa, mode)).copied()
    }

    /// Takes a block for one execution.
    pub(crate) fn put_transient(&mut self, block: Block<O>) -> u32 {
        self.blocks[TRANSIENT as usize] = self.numbered(block, TRANSIENT);
        TRANSIENT
    }

    /// The block for a place, with a serial number that no other has.
    fn numbered(&mut self, mut block: Block<O>, place: u32) -> Block<O> {
        self.translated += 1;
        let cycles = u32::from(block.cycles) + u32::from(self.cycle_costs.taken);
        self.log2_of_cycles = self.log2_of_cycles.max(u32::BITS - cycles.leading_zeros());
        block.serial = self.translated;
        block.place = place;
        block
    }

    /// Adds a block to the cache. If the budget has no room for it, all others are dropped.
    pub(crate) fn insert(&mut self, block: Block<O>) -> u32 {
        let key = (block.gpa, block.mode);
        if let Some(&old) = self.index.get(&key) {
            // A crossing instruction whose second page is mapped elsewhere now.
            self.drop_block(old);
        }
        if self.cost + block.cost() > self.budget {
            self.forget();
        }
        let id = self.free.pop().unwrap_or(self.blocks.len() as u32);
        let block = self.numbered(block, id);
        self.cost += block.cost();
        let pages = block.pages();
        match self.blocks.get_mut(id as usize) {
            Some(free) => *free = block,
            None => self.blocks.push(block),
        }
        self.index.insert(key, id);
        for page in pages {
            self.by_page.entry(page).or_default().push(id);
        }
        id
    }

    fn drop_block(&mut self, id: u32) {
        let block = std::mem::replace(&mut self.blocks[id as usize], Block::nothing());
        self.cost -= block.cost();
        self.index.remove(&(block.gpa, block.mode));
        for page in block.pages() {
            if let Some(ids) = self.by_page.get_mut(&page) {
                ids.retain(|&other| other != id);
                if ids.is_empty() {
                    self.by_page.remove(&page);
                }
            }
        }
        self.free.push(id);
    }

    /// Drops all blocks whose code has been overwritten.
    #[inline]
    pub(crate) fn notice_writes(&mut self, ram: &Ram) {
        if ram.overwritten.count() != self.overwritten_seen {
            self.drop_overwritten(ram);
        }
    }

    #[cold]
    fn drop_overwritten(&mut self, ram: &Ram) {
        match ram.overwritten.since(self.overwritten_seen) {
            Some(pages) => {
                for page in pages {
                    for id in self.by_page.remove(&page).unwrap_or_default() {
                        self.drop_block(id);
                        self.overwritten += 1;
                    }
                }
            }
            None => {
                self.overwritten += self.len() as u64;
                self.forget();
            }
        }
        self.overwritten_seen = ram.overwritten.count();
    }

    /// Drops everything, since guest memory was written without a note to [`Ram`].
    pub fn forget(&mut self) {
        self.blocks.truncate(1);
        self.free.clear();
        self.index.clear();
        self.by_page.clear();
        self.cost = 0;
    }

    /// How many blocks were translated so far, and how many of them were dropped because code was
    /// overwritten. A block that runs for the first time is translated, and one that runs again after
    /// it was dropped.
    #[must_use]
    pub fn translated(&self) -> Translated {
        Translated { blocks: self.translated, overwritten: self.overwritten }
    }

    /// Number of blocks in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is translated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of host memory that the blocks take, estimated from above; never more than the budget,
    /// unless a single block is.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.cost
    }
}

/// What a cache of translations has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Blocks that were translated.
    pub blocks: u64,
    /// Of these, dropped because code in their pages was overwritten, or in so many pages that nobody
    /// knows any longer in which.
    pub overwritten: u64,
}

impl Add for Translated {
    type Output = Self;

    /// What two caches have done.
    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            overwritten: self.overwritten + other.overwritten,
        }
    }
}

const JUMPS: usize = 16_384;

/// Where a block is entered: the key of the jump cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Jump {
    pub(crate) linear: u64,
    pub(crate) mode: Mode,
    pub(crate) mmu: u8,
}

/// An entry of the jump cache: [`Jump`] and [`BlockId`], laid out for two entries in a cache line.
#[derive(Clone, Copy)]
struct JumpEntry {
    linear: u64,
    /// The TLB's epoch for the kind of mapping, global or not. No two processors have the same.
    epoch: u64,
    serial: u64,
    place: u32,
    mode: Mode,
    mmu: u8,
    /// Its page is global.
    global: bool,
}

impl JumpEntry {
    /// Leads to no block, since no epoch is zero.
    const EMPTY: Self =
        Self { linear: 0, epoch: 0, serial: 0, place: 0, mode: Mode(0), mmu: 0, global: false };
}

/// From RIP to block without a page walk: a direct-mapped cache whose entries are valid for one epoch
/// of a processor's TLB. All processors share it; each finds only its own entries, since epochs differ.
#[derive(Default)]
struct JumpCache(Vec<JumpEntry>);

impl JumpCache {
    fn slot(from: &Jump, epochs: &[u64; 2]) -> usize {
        let processor = processor_of(epochs[0]).wrapping_mul(0x9e5);
        (from.linear ^ from.linear >> 12 ^ processor) as usize & (JUMPS - 1)
    }

    /// The block for `from`, whose page may be global or not.
    #[inline(always)]
    fn find(&self, from: &Jump, epochs: &[u64; 2]) -> Option<BlockId> {
        let entry = self.0.get(Self::slot(from, epochs))?;
        (entry.linear == from.linear
            && entry.mode == from.mode
            && entry.mmu == from.mmu
            && entry.epoch == epochs[usize::from(entry.global)])
        .then_some(BlockId { place: entry.place, serial: entry.serial })
    }

    fn insert(&mut self, from: Jump, global: bool, epochs: &[u64; 2], to: BlockId) {
        if self.0.is_empty() {
            self.0 = vec![JumpEntry::EMPTY; JUMPS];
        }
        let (Jump { linear, mode, mmu }, BlockId { place, serial }) = (from, to);
        let epoch = epochs[usize::from(global)];
        self.0[Self::slot(&from, epochs)] =
            JumpEntry { linear, epoch, serial, place, mode, mmu, global };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Plain;

    #[test]
    fn a_block_takes_two_cache_lines() {
        assert_eq!(size_of::<Block<Plain>>(), 128);
    }
}
