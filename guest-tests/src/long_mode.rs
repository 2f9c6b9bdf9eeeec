//! 64-bit mode, for code that executes in it alone.

use iced_x86::code_asm::{cr0, cr3, cr4, dword_ptr, eax, ecx, fword_ptr};

use crate::{Guest, Result};

/// 32-bit code and data as the guest's own, 64-bit code.
const DESCRIPTORS: [u64; 4] =
    [0, 0x00CF_9A00_0000_FFFF, 0x00CF_9200_0000_FFFF, 0x00AF_9A00_0000_FFFF];
const CODE32: u8 = 0x08;
const CODE64: u8 = 0x18;
/// CR0.PG, CR4.PAE, EFER and its LME.
const PG: u32 = 1 << 31;
const PAE: i32 = 1 << 5;
const EFER: u32 = 0xC000_0080;
const LME: i32 = 1 << 8;

impl Guest {
    /// Executes `code` in 64-bit mode, with all of memory below 16 MiB where it is, in pages of 2 MiB. 16 KiB
    /// from `tables` on are for page tables and descriptors. Paging is off before and behind it. Changes EAX,
    /// ECX and EDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn in_64_bit_mode(&mut self, tables: u32, code: &[u8]) -> Result {
        let (pml4, pdpt, directory) = (tables, tables + 0x1000, tables + 0x2000);
        let gdt = tables + 0x3000;
        let (own_gdtr, saved_gdtr) = (gdt + 0x100, gdt + 0x200);
        let large = (0..8).map(|n| (directory + 8 * n, 0x83 | n << 21));
        let entries = [(pml4, pdpt | 3), (pdpt, directory | 3)].into_iter().chain(large);
        for (at, entry) in entries {
            self.mov(dword_ptr(at), entry)?;
        }
        for (n, descriptor) in (0..).zip(DESCRIPTORS) {
            self.mov(dword_ptr(gdt + 8 * n), descriptor as u32)?;
            self.mov(dword_ptr(gdt + 8 * n + 4), (descriptor >> 32) as u32)?;
        }
        // Limit 1Fh, then the base.
        self.mov(dword_ptr(own_gdtr), gdt << 16 | 0x1F)?;
        self.mov(dword_ptr(own_gdtr + 4), gdt >> 16)?;
        self.sgdt(fword_ptr(saved_gdtr))?;
        self.lgdt(fword_ptr(own_gdtr))?;
        self.mov(eax, cr4)?;
        self.or(eax, PAE)?;
        self.mov(cr4, eax)?;
        self.mov(eax, pml4)?;
        self.mov(cr3, eax)?;
        self.mov(ecx, EFER)?;
        self.rdmsr()?;
        self.or(eax, LME)?;
        self.wrmsr()?;
        self.mov(eax, cr0)?;
        self.or(eax, PG as i32)?;
        self.mov(cr0, eax)?;
        // push CODE64; call $+5; add dword [esp], 5; retf: to what follows, in the other mode.
        self.db(&[0x6A, CODE64, 0xE8, 0, 0, 0, 0, 0x83, 0x04, 0x24, 5, 0xCB])?;
        // mov esp, esp: its upper half is anybody's.
        self.db(&[0x89, 0xE4])?;
        for bytes in code.chunks(16) {
            self.db(bytes)?;
        }
        // push CODE32; call $+5; add qword [rsp], 7; retfq
        self.db(&[0x6A, CODE32, 0xE8, 0, 0, 0, 0])?;
        self.db(&[0x48, 0x83, 0x04, 0x24, 7, 0x48, 0xCB])?;
        self.mov(eax, cr0)?;
        self.and(eax, !PG as i32)?;
        self.mov(cr0, eax)?;
        self.mov(ecx, EFER)?;
        self.rdmsr()?;
        self.and(eax, !LME)?;
        self.wrmsr()?;
        self.mov(eax, cr4)?;
        self.and(eax, !PAE)?;
        self.mov(cr4, eax)?;
        self.lgdt(fword_ptr(saved_gdtr))
    }
}
