//! Guests that go into 64-bit mode and out of it again.

use iced_x86::code_asm::{cr0, cr3, cr4, dword_ptr, eax, ecx, fword_ptr};

use crate::{Guest, Result, SCRATCH};

// A page each: the tables of 2 MiB pages, a descriptor table with its pseudo descriptors, and data.
const PML4: u32 = SCRATCH + 0x1000;
const PDPT: u32 = SCRATCH + 0x2000;
const DIRECTORY: u32 = SCRATCH + 0x3000;
const GDT: u32 = SCRATCH + 0x4000;
const OWN_GDTR: u32 = SCRATCH + 0x4100;
const SAVED_GDTR: u32 = SCRATCH + 0x4200;
/// In that table: 32-bit code and data as the guest's own, 64-bit code.
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
    /// Executes `code` in 64-bit mode, with all of memory below 4 MiB where it is. It may use all registers but RSP.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn in_64_bit_mode(&mut self, code: &[u8]) -> Result {
        let entries = [
            (PML4, PDPT | 3),
            (PDPT, DIRECTORY | 3),
            (DIRECTORY, 0x83),
            (DIRECTORY + 8, 0x20_0083),
        ];
        for (at, entry) in entries {
            self.mov(dword_ptr(at), entry)?;
        }
        for (n, descriptor) in (0..).zip(DESCRIPTORS) {
            self.mov(dword_ptr(GDT + 8 * n), descriptor as u32)?;
            self.mov(dword_ptr(GDT + 8 * n + 4), (descriptor >> 32) as u32)?;
        }
        // Limit 1Fh, then the base.
        self.mov(dword_ptr(OWN_GDTR), GDT << 16 | 0x1F)?;
        self.mov(dword_ptr(OWN_GDTR + 4), GDT >> 16)?;
        self.sgdt(fword_ptr(SAVED_GDTR))?;
        self.lgdt(fword_ptr(OWN_GDTR))?;
        self.mov(eax, cr4)?;
        self.or(eax, PAE)?;
        self.mov(cr4, eax)?;
        self.mov(eax, PML4)?;
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
        self.lgdt(fword_ptr(SAVED_GDTR))
    }
}
