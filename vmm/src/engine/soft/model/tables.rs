//! The page tables of a processor, as the models walk them.

use uarch::cache::MemoryType;
use uarch::system::{self, PageTables};
use uarch::tlb::{Page, PageSize};
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::WalkedEntry;
use x86_cpu::ram::Ram;

use super::Processor;
use crate::platform::PageAttributes;

/// In a page-table entry: PWT, PCD, and the PAT bit of a small and of a large page.
const PWT: u64 = 1 << 3;
const PCD: u64 = 1 << 4;
const PAT_SMALL: u64 = 1 << 7;
const PAT_LARGE: u64 = 1 << 12;

/// The page tables of a processor, for the models.
pub(super) struct Tables<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) ram: &'a Ram,
    pub(super) of: &'a Processor,
}

impl PageTables for Tables<'_> {
    fn walk(&self, linear: u64) -> Option<system::Walk> {
        let walk = self.cpu.look_up(self.ram, linear)?;
        let entries = &walk.entries[..usize::from(walk.levels)];
        let last = entries.last();
        let is_small = last.is_some_and(|entry| entry.level == 1);
        let memory = match self.of.cache_disable {
            true => MemoryType::Uncacheable,
            false => self.of.memory_types.of(walk.physical, attributes(last, is_small)),
        };
        Some(system::Walk {
            page: Page { size: page_size(walk.page_bytes), global: walk.global },
            memory,
            entries: walk.entries.map(|entry| entry.physical),
            levels: entries.len(),
            entry_bytes: entry_bytes(self.cpu),
            is_small,
        })
    }
}

fn attributes(entry: Option<&WalkedEntry>, is_small: bool) -> PageAttributes {
    let value = entry.map_or(0, |entry| entry.value);
    let pat = if is_small { PAT_SMALL } else { PAT_LARGE };
    PageAttributes {
        cache_disable: value & PCD != 0,
        write_through: value & PWT != 0,
        pat: value & pat != 0,
    }
}

fn page_size(bytes: u64) -> PageSize {
    match bytes {
        0x1000 => PageSize::Kib4,
        0x20_0000 => PageSize::Mib2,
        _ => PageSize::Mib4,
    }
}

/// Bytes of an entry of a page table: 8 with physical-address extension, else 4.
fn entry_bytes(cpu: &Cpu) -> u32 {
    const PAE: u64 = 1 << 5;
    if cpu.cr4() & PAE != 0 { 8 } else { 4 }
}
