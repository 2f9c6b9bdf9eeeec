//! Guest memory, mapped once and seen in two ways: as the boot code writes it, and as the software
//! CPU runs in it.
//!
//! One of the modules with `unsafe`: it vouches to the CPU for the mapping.

#![allow(unsafe_code)]

use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};
use x86_cpu::ram::{Ram, Region};

use crate::boot::memory::{GuestRam, RamLayout};
use crate::error::{Error, Result};

/// The guest's RAM.
pub struct Memory {
    /// As the CPU sees it. Declared first, so that it goes before the mapping does.
    ram: Ram,
    mapping: GuestRam,
}

impl Memory {
    /// Reserves host memory, zeroed by the host.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(layout: &RamLayout) -> Result<Self> {
        let mapping = layout.allocate()?;
        let mut regions = Vec::new();
        for region in mapping.iter() {
            let gpa = region.start_addr();
            let host = mapping
                .get_host_address(gpa)
                .map_err(|e| Error::Host(format!("guest memory at {:#x}: {e}", gpa.raw_value())))?;
            regions.push(Region { gpa: gpa.raw_value(), len: region.len(), host });
        }
        // SAFETY: each region is a readable and writable mapping of `len` bytes at `host`. `mapping`
        // owns it, lives in the same structure as the `Ram` and is dropped after it. vm-memory hands
        // out volatile accessors and no references, and they are used only before the first
        // processor runs ([`Memory::mapping`] takes the structure exclusively).
        let ram = unsafe { Ram::new(&regions) };
        Ok(Self { ram, mapping })
    }

    /// As the CPU sees it.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// As the boot code writes it, while nothing runs.
    pub fn mapping(&mut self) -> &GuestRam {
        &self.mapping
    }
}
