//! The cache of translated blocks.
//!
//! A block is a run of lowered instructions that ends at a branch, at an instruction that may
//! change how the following ones are to be read, at a page boundary or at [`MAX_INSNS`]. It is
//! found by the guest-physical address of its first byte and the mode it was lowered for, so that a
//! page mapped twice is translated once. Blocks are linked to their successors.

use std::{
    cell::Cell,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use crate::{
    insn::Op,
    ram::{PAGE, Ram},
};

/// Most instructions in a block.
pub const MAX_INSNS: usize = 48;

/// What a block was lowered for: code and stack size and flat segments, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mode(pub(crate) u16);

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its last instruction set RIP.
    Branch,
    /// RIP is behind its last instruction, and the next block may follow straight away.
    Through,
    /// RIP is behind its last instruction, and the run loop has to look first.
    Fall,
}

/// The successor of a block.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// The TLB epoch for which it holds; zero: the same page, whatever the mapping.
    pub(crate) epoch: u64,
    pub(crate) generation: u32,
    pub(crate) target: u32,
}

/// A translated block.
pub(crate) struct Block<O> {
    pub(crate) ops: Box<[Op<O>]>,
    pub(crate) gpa: u64,
    pub(crate) mode: Mode,
    /// Bytes of code.
    pub(crate) bytes: u16,
    pub(crate) ending: Ending,
    /// Has an instruction whose accesses may have to be taken back when it faults.
    pub(crate) marks: bool,
    /// Has an instruction of a class.
    pub(crate) has_class: bool,
    /// Guest-physical address of the second page, if the one instruction crosses into it.
    pub(crate) second_page: Option<u64>,
    pub(crate) links: [Cell<Link>; 2],
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

/// All translated blocks of a machine under one observer.
pub struct Translations<O> {
    blocks: Vec<Block<O>>,
    free: Vec<u32>,
    index: Map<(u64, Mode), u32>,
    by_page: Map<u64, Vec<u32>>,
    /// Grows whenever blocks go; links of an older one are void.
    pub(crate) generation: u32,
    /// How much of [`crate::ram::Ram`]'s list of overwritten code has been taken notice of.
    written_seen: usize,
}

impl<O> Default for Translations<O> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            free: Vec::new(),
            index: Map::default(),
            by_page: Map::default(),
            generation: 1,
            written_seen: 0,
        }
    }
}

impl<O> Translations<O> {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    pub(crate) fn block(&self, id: u32) -> &Block<O> {
        &self.blocks[id as usize]
    }

    pub(crate) fn find(&self, gpa: u64, mode: Mode) -> Option<u32> {
        self.index.get(&(gpa, mode)).copied()
    }

    pub(crate) fn insert(&mut self, block: Block<O>) -> u32 {
        let key = (block.gpa, block.mode);
        let pages = [Some(block.gpa & !(PAGE - 1)), block.second_page];
        if let Some(&old) = self.index.get(&key) {
            // A crossing instruction whose second page is mapped elsewhere now.
            self.drop_block(old);
        }
        let id = if let Some(id) = self.free.pop() {
            self.blocks[id as usize] = block;
            id
        } else {
            self.blocks.push(block);
            (self.blocks.len() - 1) as u32
        };
        self.index.insert(key, id);
        for page in pages.into_iter().flatten() {
            self.by_page.entry(page).or_default().push(id);
        }
        id
    }

    fn drop_block(&mut self, id: u32) {
        let block = &self.blocks[id as usize];
        let key = (block.gpa, block.mode);
        let pages = [Some(block.gpa & !(PAGE - 1)), block.second_page];
        if self.index.get(&key) == Some(&id) {
            self.index.remove(&key);
        }
        for page in pages.into_iter().flatten() {
            if let Some(ids) = self.by_page.get_mut(&page) {
                ids.retain(|&other| other != id);
            }
        }
        self.free.push(id);
        self.generation = self.generation.wrapping_add(1);
    }

    /// Drops all blocks whose code has been overwritten.
    #[inline]
    pub(crate) fn catch_up(&mut self, ram: &Ram) {
        if ram.written_count() != self.written_seen {
            self.invalidate(&ram.written_since(self.written_seen));
            self.written_seen = ram.written_count();
        }
    }

    fn invalidate(&mut self, pages: &[u64]) {
        for page in pages {
            for id in self.by_page.remove(page).unwrap_or_default() {
                self.drop_block(id);
            }
        }
    }

    /// Drops everything: guest memory was written past the processors that note their writes.
    pub fn forget(&mut self) {
        self.blocks.clear();
        self.free.clear();
        self.index.clear();
        self.by_page.clear();
        self.generation = self.generation.wrapping_add(1);
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is translated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

const JUMPS: usize = 4096;

/// One entry of the jump cache.
#[derive(Clone, Copy)]
struct Jump {
    rip: u64,
    epoch: u64,
    generation: u32,
    target: u32,
    mode: Mode,
    mmu: u8,
    global: bool,
}

/// From RIP to block without a page walk: direct-mapped, void with the TLB's epochs.
pub(crate) struct JumpCache(Vec<Jump>);

impl JumpCache {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    fn slot(rip: u64) -> usize {
        (rip ^ rip >> 12) as usize & (JUMPS - 1)
    }

    #[inline]
    pub(crate) fn find(
        &self,
        rip: u64,
        mode: Mode,
        mmu: usize,
        epochs: [u64; 2],
        generation: u32,
    ) -> Option<u32> {
        let jump = self.0.get(Self::slot(rip))?;
        (jump.rip == rip
            && jump.mode == mode
            && usize::from(jump.mmu) == mmu
            && jump.generation == generation
            && jump.epoch == epochs[usize::from(jump.global)])
        .then_some(jump.target)
    }

    pub(crate) fn insert(
        &mut self,
        rip: u64,
        mode: Mode,
        mmu: usize,
        global: bool,
        epochs: [u64; 2],
        generation: u32,
        target: u32,
    ) {
        if self.0.is_empty() {
            let empty =
                Jump { rip: 0, epoch: 0, generation: 0, target: 0, mode, mmu: 0, global: false };
            self.0 = vec![empty; JUMPS];
        }
        let epoch = epochs[usize::from(global)];
        self.0[Self::slot(rip)] =
            Jump { rip, epoch, generation, target, mode, mmu: mmu as u8, global };
    }
}
