//! Page translation (AMD64 APM volume 2, chapter 5): none, 32-bit with PSE, PAE, and four levels.

use crate::{
    control_registers::{cr0, cr4, efer},
    cpu::Cpu,
    insn::Insn,
    observe::{Walk, WalkedEntry},
    ram::{PAGE, Ram},
    stop::{Exec, Stop, vector},
};

const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NX: u64 = 1 << 63;

/// #PF error code bits (AMD64 APM volume 2, section 8.4.2).
mod error {
    pub(super) const P: u16 = 1 << 0;
    pub(super) const W: u16 = 1 << 1;
    pub(super) const U: u16 = 1 << 2;
    pub(super) const RSVD: u16 = 1 << 3;
    pub(super) const I: u16 = 1 << 4;
}

/// The kind of an access, by which its rights are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Read data.
    Read,
    /// Write data, or read with the intent to write back.
    Write,
    /// Fetch an instruction.
    Fetch,
}

/// Where a linear page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    /// Guest-physical address of the byte.
    pub(crate) gpa: u64,
    /// The mapping survives a load of CR3.
    pub(crate) global: bool,
    /// A write would be allowed and needs no further walk: writable, dirty bit set.
    pub(crate) writable: bool,
    /// The page is one of 2 or 4 MiB.
    pub(crate) large: bool,
}

impl Cpu {
    /// Walks the page tables for `linear`; sets accessed and dirty bits; raises #PF. Where such a bit
    /// is set in translated code, the run has to leave.
    pub(crate) fn walk(
        &mut self,
        ram: &Ram,
        linear: u64,
        user: bool,
        intent: Intent,
    ) -> Exec<Translation> {
        if self.cr0 & cr0::PG == 0 {
            let gpa = linear & 0xffff_ffff;
            return Ok(Translation { gpa, global: true, writable: true, large: false });
        }
        let result = if self.cr4 & cr4::PAE != 0 {
            self.walk_pae(ram, linear, user, intent)
        } else {
            self.walk_32(ram, linear, user, intent)
        };
        result.map_err(|code| match code {
            OVERWRITES => Stop::ALONE,
            code => self.page_fault(linear, user, intent, code),
        })
    }

    /// Whether to set bits of an entry, for an access of an instruction that may yet have to be executed again,
    /// by itself, would overwrite code: it might be that of the instruction.
    fn overwrites(&self, ram: &Ram, at: u64, entry: u64, marked: u64, intent: Intent) -> bool {
        entry != marked && intent != Intent::Fetch && !self.alone && ram.has_code(at, 4)
    }

    /// Linear address of the memory operand of an instruction; `None` if the segment does not allow it.
    #[must_use]
    pub fn operand_address(&self, insn: &Insn) -> Option<u64> {
        self.linear(&insn.mem, 1, false).ok()
    }

    /// How often translations have gone so far: all kinds of them, and those of global pages as well.
    /// Loading CR3 drops translations of the first kind; INVLPG and changes of the paging mode of both.
    #[inline(always)]
    #[must_use]
    pub fn translation_epochs(&self) -> [u64; 2] {
        self.tlb.epochs
    }

    /// The walk for `linear` without regard to access rights, and without setting accessed and dirty
    /// bits. `None` if no page is mapped there.
    #[must_use]
    pub fn look_up(&self, ram: &Ram, linear: u64) -> Option<Walk> {
        let mut walk = Walk { linear, page_bytes: PAGE, global: true, ..Walk::default() };
        if self.cr0 & cr0::PG == 0 {
            walk.physical = linear & 0xffff_ffff;
            return Some(walk);
        }
        let pae = self.cr4 & cr4::PAE != 0;
        let long = self.efer & efer::LMA != 0;
        let (mut level, mut table, bits) = match (long, pae) {
            (true, _) => (4, self.cr3 & 0x000f_ffff_ffff_f000, 9),
            (false, true) => (2, self.pdptes[(linear >> 30 & 3) as usize], 9),
            (false, false) => (2, self.cr3 & 0xffff_f000, 10),
        };
        if pae && !long {
            if table & PRESENT == 0 {
                return None;
            }
            table &= 0x000f_ffff_ffff_f000;
        }
        loop {
            let shift = 12 + bits * (u32::from(level) - 1);
            let index = linear >> shift & ((1 << bits) - 1);
            let physical = table + index * if pae { 8 } else { 4 };
            let value =
                if pae { ram.read_u64(physical)? } else { u64::from(ram.read_u32(physical)?) };
            if value & PRESENT == 0 {
                return None;
            }
            let entry = WalkedEntry { physical, value, level, ..WalkedEntry::default() };
            walk.entries[usize::from(walk.levels)] = entry;
            walk.levels += 1;
            let large = level == 2 && value & LARGE != 0 && (pae || self.cr4 & cr4::PSE != 0);
            if level == 1 || large {
                walk.page_bytes = 1 << shift;
                walk.global = value & GLOBAL != 0 && self.cr4 & cr4::PGE != 0;
                let base = match (large, pae) {
                    // PSE-36: bits 20:13 hold physical address bits 39:32.
                    (true, false) => value & 0xffc0_0000 | (value >> 13 & 0xff) << 32,
                    _ => value & 0x000f_ffff_ffff_f000,
                };
                let mask = walk.page_bytes - 1;
                walk.physical = base & !mask | linear & mask;
                return Some(walk);
            }
            table = value & 0x000f_ffff_ffff_f000;
            level -= 1;
        }
    }

    /// The same after a walk that is described by `before`: with what it has set.
    pub(crate) fn walked(&self, ram: &Ram, before: Walk) -> Walk {
        let mut walk = before;
        let after = self.look_up(ram, before.linear).unwrap_or(before);
        for (entry, after) in walk.entries.iter_mut().zip(after.entries) {
            let set = !entry.value & after.value;
            entry.set_accessed = set & ACCESSED != 0;
            entry.set_dirty = set & DIRTY != 0;
            entry.value = after.value;
        }
        walk
    }

    fn page_fault(&mut self, linear: u64, user: bool, intent: Intent, mut code: u16) -> Stop {
        if intent == Intent::Write {
            code |= error::W;
        }
        if user {
            code |= error::U;
        }
        if intent == Intent::Fetch && self.nx_enabled() {
            code |= error::I;
        }
        // CR2 changes when the fault is raised; nothing else sees it before delivery.
        self.cr2 = linear;
        Stop::fault_code(vector::PF, code)
    }

    fn nx_enabled(&self) -> bool {
        self.efer & efer::NXE != 0 && self.cr4 & cr4::PAE != 0
    }

    /// Checks the accumulated rights (`rights`: R/W and U/S of all levels ANDed, NX ORed).
    fn allowed(&self, rights: u64, user: bool, intent: Intent) -> Result<(), u16> {
        let denied = user && rights & USER == 0
            || intent == Intent::Write && rights & WRITE == 0 && (user || self.cr0 & cr0::WP != 0)
            || intent == Intent::Fetch && rights & NX != 0;
        if denied { Err(error::P) } else { Ok(()) }
    }

    /// Whether a write by the same privilege would be allowed and leaves nothing to set.
    fn write_is_free(&self, rights: u64, leaf: u64, user: bool) -> bool {
        leaf & DIRTY != 0
            && (rights & WRITE != 0 || !user && self.cr0 & cr0::WP == 0)
            && (!user || rights & USER != 0)
    }

    fn walk_32(
        &mut self,
        ram: &Ram,
        linear: u64,
        user: bool,
        intent: Intent,
    ) -> Result<Translation, u16> {
        let pde_at = (self.cr3 & 0xffff_f000) + (linear >> 22 & 0x3ff) * 4;
        let pde = u64::from(ram.read_u32(pde_at).unwrap_or(u32::MAX));
        if pde & PRESENT == 0 {
            return Err(0);
        }
        let (leaf_at, leaf, base, mask, rights);
        if pde & LARGE != 0 && self.cr4 & cr4::PSE != 0 {
            // PSE-36: bits 20:13 hold physical address bits 39:32; bit 21 is reserved.
            if pde & 1 << 21 != 0 {
                return Err(error::P | error::RSVD);
            }
            (leaf_at, leaf) = (pde_at, pde);
            base = pde & 0xffc0_0000 | (pde >> 13 & 0xff) << 32;
            mask = 0x3f_ffff;
            rights = pde & (WRITE | USER);
        } else {
            let pte_at = (pde & 0xffff_f000) + (linear >> 12 & 0x3ff) * 4;
            let pte = u64::from(ram.read_u32(pte_at).unwrap_or(u32::MAX));
            if pte & PRESENT == 0 {
                return Err(0);
            }
            (leaf_at, leaf) = (pte_at, pte);
            base = pte & 0xffff_f000;
            mask = 0xfff;
            rights = pde & pte & (WRITE | USER);
        }
        self.allowed(rights, user, intent)?;
        let marked = mark(leaf, intent);
        if self.overwrites(ram, leaf_at, leaf, marked, intent)
            || leaf_at != pde_at && self.overwrites(ram, pde_at, pde, pde | ACCESSED, intent)
        {
            return Err(OVERWRITES);
        }
        if leaf_at != pde_at && pde & ACCESSED == 0 {
            let hit = ram.write_u32(pde_at, (pde | ACCESSED) as u32);
            self.note_overwritten(hit);
        }
        if marked != leaf {
            let hit = ram.write_u32(leaf_at, marked as u32);
            self.note_overwritten(hit);
        }
        Ok(Translation {
            gpa: base | linear & mask,
            global: marked & GLOBAL != 0 && self.cr4 & cr4::PGE != 0,
            writable: self.write_is_free(rights, marked, user),
            large: leaf_at == pde_at,
        })
    }

    /// Bits that must be zero in a PAE or long-mode entry.
    fn reserved(&self) -> u64 {
        let above = !((1u64 << self.features.phys_bits) - 1) & 0x000f_ffff_ffff_f000;
        if self.nx_enabled() { above } else { above | NX }
    }

    fn walk_pae(
        &mut self,
        ram: &Ram,
        linear: u64,
        user: bool,
        intent: Intent,
    ) -> Result<Translation, u16> {
        let long = self.efer & efer::LMA != 0;
        let reserved = self.reserved();
        let mut rights = WRITE | USER;
        let mut entries = [(0u64, 0u64); 4];
        let mut depth = 0;
        let mut table;
        let mut level;
        if long {
            table = self.cr3 & 0x000f_ffff_ffff_f000;
            level = 4;
        } else {
            // PAE: the four page-directory-pointer entries were read when CR3 was loaded.
            let pdpte = self.pdptes[(linear >> 30 & 3) as usize];
            if pdpte & PRESENT == 0 {
                return Err(0);
            }
            table = pdpte & 0x000f_ffff_ffff_f000;
            level = 2;
        }
        loop {
            let shift = 12 + 9 * (level - 1);
            let at = table + (linear >> shift & 0x1ff) * 8;
            let entry = ram.read_u64(at).unwrap_or(u64::MAX);
            if entry & PRESENT == 0 {
                return Err(0);
            }
            let mut must_be_zero = reserved;
            // K8 has no 1 GiB pages: PS is reserved above the page directory.
            if level > 2 {
                must_be_zero |= LARGE;
            } else if level == 2 && entry & LARGE != 0 {
                must_be_zero |= 0x1f_e000;
            }
            if !long {
                // Legacy PAE: bits 62:52 are reserved.
                must_be_zero |= 0x7ff0_0000_0000_0000;
            }
            if entry & must_be_zero != 0 {
                return Err(error::P | error::RSVD);
            }
            rights = rights & (entry | !(WRITE | USER)) | entry & NX;
            entries[depth] = (at, entry);
            depth += 1;
            if level == 1 || level == 2 && entry & LARGE != 0 {
                break;
            }
            table = entry & 0x000f_ffff_ffff_f000;
            level -= 1;
        }
        self.allowed(rights, user, intent)?;
        let (leaf_at, leaf) = entries[depth - 1];
        let marked = mark(leaf, intent);
        let tables = &entries[..depth - 1];
        if self.overwrites(ram, leaf_at, leaf, marked, intent)
            || tables
                .iter()
                .any(|&(at, entry)| self.overwrites(ram, at, entry, entry | ACCESSED, intent))
        {
            return Err(OVERWRITES);
        }
        for &(at, entry) in tables {
            if entry & ACCESSED == 0 {
                let hit = ram.write_u64(at, entry | ACCESSED);
                self.note_overwritten(hit);
            }
        }
        if marked != leaf {
            let hit = ram.write_u64(leaf_at, marked);
            self.note_overwritten(hit);
        }
        let mask = if level == 2 { 0x1f_ffff } else { 0xfff };
        Ok(Translation {
            gpa: leaf & 0x000f_ffff_ffff_f000 & !mask | linear & mask,
            global: marked & GLOBAL != 0 && self.cr4 & cr4::PGE != 0,
            writable: self.write_is_free(rights, marked, user),
            large: level == 2,
        })
    }

    /// Loads the page-directory-pointer entries, which legacy PAE paging caches in the processor;
    /// #GP(0) if a present one has reserved bits set (AMD64 APM volume 2, section 5.2.3).
    pub(crate) fn load_pdptes(&mut self, ram: &Ram, cr3: u64) -> Exec<()> {
        let mut pdptes = [0; 4];
        for (n, pdpte) in pdptes.iter_mut().enumerate() {
            *pdpte = ram.read_u64((cr3 & 0xffff_ffe0) + n as u64 * 8).unwrap_or(0);
            let reserved = !((1u64 << self.features.phys_bits) - 1) & !0xfff | 0x1e6;
            if *pdpte & PRESENT != 0 && *pdpte & reserved != 0 {
                return Err(Stop::GP0);
            }
        }
        self.pdptes = pdptes;
        Ok(())
    }
}

/// In place of an error code of a page fault: see [`Cpu::overwrites`].
const OVERWRITES: u16 = u16::MAX;

/// The entry with its accessed bit and, for a write, its dirty bit set.
fn mark(entry: u64, intent: Intent) -> u64 {
    entry | ACCESSED | if intent == Intent::Write { DIRTY } else { 0 }
}
