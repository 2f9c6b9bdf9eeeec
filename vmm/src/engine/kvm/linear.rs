//! Linear memory as a vCPU's supervisor sees it, read without a trace: no accessed bit is set, no
//! fault is raised (AMD64 APM volume 2, chapter 5).

use kvm_bindings::kvm_sregs;
use x86_cpu::control_registers::{cr0, cr4, efer};
use x86_cpu::ram::Ram;

const PRESENT: u64 = 1 << 0;
const LARGE: u64 = 1 << 7;
/// Bits 51:12 of an entry.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const PAGE: u64 = 4096;

/// The memory of a vCPU with these registers.
pub(super) struct Linear<'a> {
    ram: &'a Ram,
    registers: &'a kvm_sregs,
}

impl<'a> Linear<'a> {
    pub(super) fn new(ram: &'a Ram, registers: &'a kvm_sregs) -> Self {
        Self { ram, registers }
    }

    /// Reads `N` bytes; `None` if not all are mapped RAM.
    pub(super) fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = address.wrapping_add(done as u64);
            let in_page = (PAGE - at % PAGE) as usize;
            let len = rest.len().min(in_page);
            if !self.ram.read_bytes(self.physical(at)?, &mut rest[..len]) {
                return None;
            }
            done += len;
        }
        Some(bytes)
    }

    /// Where a linear address is.
    fn physical(&self, linear: u64) -> Option<u64> {
        let r = self.registers;
        if r.efer & efer::LMA != 0 {
            self.walk(r.cr3 & ADDRESS, linear, 4)
        } else if r.cr0 & cr0::PG == 0 {
            Some(linear & 0xffff_ffff)
        } else if r.cr4 & cr4::PAE != 0 {
            let pdpte = self.entry((r.cr3 & 0xffff_ffe0) + (linear >> 30 & 3) * 8)?;
            self.walk(pdpte & ADDRESS, linear & 0xffff_ffff, 2)
        } else {
            self.walk_32(linear & 0xffff_ffff)
        }
    }

    /// Walks tables of 64-bit entries from the one at `table` down.
    fn walk(&self, mut table: u64, linear: u64, levels: u32) -> Option<u64> {
        for level in (1..=levels).rev() {
            let shift = 12 + 9 * (level - 1);
            let entry = self.entry(table + (linear >> shift & 511) * 8)?;
            if level == 1 || level <= 3 && entry & LARGE != 0 {
                let offset = (1 << shift) - 1;
                return Some(entry & ADDRESS & !offset | linear & offset);
            }
            table = entry & ADDRESS;
        }
        None
    }

    fn walk_32(&self, linear: u64) -> Option<u64> {
        let present = |at| {
            let entry = u64::from(self.ram.read_u32(at)?);
            (entry & PRESENT != 0).then_some(entry)
        };
        let r = self.registers;
        let pde = present((r.cr3 & 0xffff_f000) + (linear >> 22) * 4)?;
        if pde & LARGE != 0 && r.cr4 & cr4::PSE != 0 {
            // PSE-36: bits 20:13 hold physical address bits 39:32.
            return Some(pde & 0xffc0_0000 | (pde >> 13 & 0xff) << 32 | linear & 0x3f_ffff);
        }
        let pte = present((pde & 0xffff_f000) + (linear >> 12 & 0x3ff) * 4)?;
        Some(pte & 0xffff_f000 | linear & 0xfff)
    }

    /// A 64-bit entry that is present.
    fn entry(&self, at: u64) -> Option<u64> {
        self.ram.read_u64(at).filter(|entry| entry & PRESENT != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::memory::RamLayout;
    use crate::memory::Memory;

    const TABLE: u64 = 0x1_0000;

    fn memory(entries: &[(u64, u64)]) -> Memory {
        let memory = Memory::new(&RamLayout::new(2 << 20, None).unwrap(), None).unwrap();
        for (at, entry) in entries {
            assert!(memory.ram().write_bytes(*at, &entry.to_le_bytes()));
        }
        memory
    }

    fn registers(cr0: u64, cr4: u64, efer: u64) -> kvm_sregs {
        kvm_sregs { cr0, cr3: TABLE, cr4, efer, ..kvm_sregs::default() }
    }

    const PG: u64 = 0x8000_0011;
    const PAE: u64 = 0x20;
    const PSE: u64 = 0x10;

    /// Four levels (APM volume 2, figure 5-17) with pages of 4 KiB, 2 MiB and 1 GiB: the indices of
    /// 0000_0080_4060_3008h are 1, 1, 3, 3.
    #[test]
    fn long_mode() {
        let linear = 0x80_4060_3008;
        let small = [
            (TABLE + 8, 0x1_1007),
            (0x1_1008, 0x1_2007),
            (0x1_2018, 0x1_3007),
            (0x1_3018, 0x8000_0000_0005_6007),
            (0x5_6008, 0x1234),
        ];
        let r = registers(PG, PAE, 0x500);
        let at = |entries: &[(u64, u64)]| Linear::new(memory(entries).ram(), &r).physical(linear);
        assert_eq!(at(&small), Some(0x5_6008));
        assert_eq!(at(&[small[0], small[1], (0x1_2018, 0x4_0087)]), Some(0x3008));
        assert_eq!(at(&[small[0], (0x1_1008, 0x4000_0087)]), Some(0x4060_3008));
        assert_eq!(at(&small[..3]), None);
        // No bit of the tables changes, and nothing comes of what is not mapped.
        let memory = memory(&small);
        let view = Linear::new(memory.ram(), &r);
        assert_eq!(view.read(linear), Some(0x1234_u64.to_le_bytes()));
        assert_eq!(view.read::<4>(linear + 0x1000 - 10), None);
        assert_eq!(memory.ram().read_u64(0x1_3018), Some(0x8000_0000_0005_6007));
    }

    /// PAE has the page directories of four GiB (figure 5-12): 4060_3008h is in the second.
    #[test]
    fn legacy_paging() {
        let pae = [(TABLE + 8, 0x1_1001), (0x1_1018, 0x1_2007), (0x1_2018, 0x5_6007)];
        let found = Linear::new(memory(&pae).ram(), &registers(PG, PAE, 0)).physical(0x4060_3008);
        assert_eq!(found, Some(0x5_6008));
        // 32-bit entries (figures 5-5 and 5-6): indices 101h and 203h of 4060_3008h.
        let two = [(TABLE + 4 * 0x101, 0x1_1007), (0x1_1000 + 4 * 0x203, 0x5_6007)];
        let r = registers(PG, PSE, 0);
        assert_eq!(Linear::new(memory(&two).ram(), &r).physical(0x4060_3008), Some(0x5_6008));
        let large = [(TABLE + 4 * 0x101, 0x40_0087)];
        assert_eq!(Linear::new(memory(&large).ram(), &r).physical(0x4060_3008), Some(0x60_3008));
    }

    #[test]
    fn without_paging() {
        let r = registers(0x11, 0, 0);
        let memory = memory(&[(0xffc, 0x8877_6655_4433_2211)]);
        let view = Linear::new(memory.ram(), &r);
        assert_eq!(view.read(0x1_0000_0ffe), Some([0x33, 0x44, 0x55, 0x66]));
        assert_eq!(view.read::<2>((2 << 20) - 1), None);
    }
}
